"""``wenmai extract``: from files to relations, as text, JSON and a page."""

import contextlib
import json
import re
import shutil
import struct
import textwrap
import zlib
from base64 import b64decode
from dataclasses import replace

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.cli.relations import extract as extract_command
from wenmai.core.errors import SettingError
from wenmai.data.relation_files import open_documents, read_documents
from wenmai.data.relations import docred_documents, tagged_sentences
from wenmai.runs.extraction import as_docred, document_of_text, tagger_beside, tagger_of, unwrapped, why_nothing
from wenmai.runs.relation_page import write_relation_page
from wenmai.training.run import Run

QUIET = ("--threads", "1", "--quiet")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A model of relations, and a tagger of the same documents."""
    folder = tmp_path_factory.mktemp("relations")
    bert, ssan = EXAMPLES["bert"], EXAMPLES["ssan"]
    for name in (bert.data, ssan.data):
        (folder / name).write_text(TEXTS[name]["enough"])
    base = wenmai.train("bert", folder / bert.data, out=folder / "base", quiet=True, **bert.settings)
    wenmai.train("ssan", folder / ssan.data, start=base, out=folder / "ssan", quiet=True, **ssan.settings)
    wenmai.finetune(
        base,
        folder / ssan.data,
        task="tagging",
        out=folder / "tagger",
        quiet=True,
        threads=1,
        epochs=8,
        learning_rate=0.02,
    )
    return folder


def test_documents_train_taggers_of_the_same_types(runs):
    tagger = wenmai.load(runs / "tagger")
    assert {label.partition("-")[2] for label in tagger.labels} - {""} == set(wenmai.load(runs / "ssan").types)


def test_plain_text_needs_a_tagger_and_gets_entities(shell, runs):
    (shell.folder / "text.txt").write_text("a b c. D e\n\nf a b\n")
    out = shell("extract", runs / "ssan", "text.txt", "--tagger", runs / "tagger", "--threshold", "0", "--json").out
    (document,) = docred_documents([json.loads(out)], "the output")
    assert [" ".join(words) for words in document.sentences] == ["a b c .", "D e", "f a b"]
    assert document.entities
    assert len(document.relations) == len(document.entities) * (len(document.entities) - 1)


def test_the_one_tagger_beside_a_run_is_taken(shell, runs):
    (shell.folder / "text.txt").write_text("a b c. D e\n\nf a b\n")
    shutil.copytree(runs / "ssan", shell.folder / "own" / "ssan")
    refused = shell("extract", "own/ssan", "text.txt", code=2).err
    assert "no run beside own/ssan does; add --tagger RUN" in refused
    shutil.copytree(runs / "tagger", shell.folder / "own" / "tagger")
    found = shell("extract", "own/ssan", "text.txt", "--json")
    assert "own/tagger finds the entities of plain text" in found.err
    assert found.out == shell("extract", runs / "ssan", "text.txt", "--tagger", runs / "tagger", "--json").out
    with contextlib.chdir(shell.folder / "own" / "ssan"):
        assert tagger_beside(Run("."), wenmai.load(".")).labels == wenmai.load("../tagger").labels
    shutil.copytree(runs / "tagger", shell.folder / "own" / "another")
    refused = shell("extract", "own/ssan", "text.txt", code=2).err
    assert "several runs find entities: own/another, own/tagger; choose one by --tagger" in refused


def test_a_tagger_of_all_types_is_taken_before_others(runs, tmp_path):
    for name in ("ssan", "tagger"):
        shutil.copytree(runs / name, tmp_path / name)
    model = wenmai.load(tmp_path / "ssan")
    (tmp_path / "one.conll").write_text(f"a B-{model.types[0]}\nb O\n\nc O\n\n" * 20)
    quick = {"task": "tagging", "threads": 1, "steps": 1, "valid_share": 0, "quiet": True}
    wenmai.finetune(runs / "base", tmp_path / "one.conll", out=tmp_path / "fewer", **quick)
    assert tagger_beside(Run(tmp_path / "ssan"), model).labels == wenmai.load(tmp_path / "tagger").labels
    shutil.rmtree(tmp_path / "tagger")
    shutil.copytree(tmp_path / "fewer", tmp_path / "few")
    never = ", ".join(sorted(model.types[1:]))
    with pytest.raises(SettingError, match=rf"/few \(never tags {never}\), \S+/fewer \(never tags {never}\); choose"):
        tagger_beside(Run(tmp_path / "ssan"), model)


def test_documents_on_standard_input_are_no_text(shell, runs):
    content = (runs / EXAMPLES["ssan"].data).read_text()
    refused = shell("extract", runs / "ssan", "-", stdin=content, code=3).err
    assert "standard input: holds documents of DocRED or PubTator; name a file" in refused


def test_what_is_printed_is_what_the_model_finds(shell, runs):
    path = runs / EXAMPLES["ssan"].data
    found = wenmai.load(runs / "ssan").extract(read_documents(open_documents(path)))
    lines = shell("extract", runs / "ssan", path).out.splitlines()
    heads = [line for line in lines if re.search(r": \d+ entities, \d+ relations?$", line)]
    assert len(heads) == len(found)
    assert len(lines) == len(found) + sum(max(1, len(one.relations)) for one in found)
    rows = [json.loads(line) for line in shell("extract", runs / "ssan", path, "--json").out.splitlines()]
    for one, row in zip(found, rows, strict=True):
        assert [label["probability"] for label in row["labels"]] == [relation.probability for relation in one.relations]
        assert row["sents"] == [list(words) for words in one.document.sentences]
    (shell.folder / "found.txt").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    again = shell("extract", runs / "ssan", "found.txt", "--json").out.splitlines()
    assert [json.loads(line) for line in again] == rows


def test_the_page_is_there_although_the_output_is_not_read(runs, tmp_path, monkeypatch):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("wenmai.cli.relations.print", closed, raising=False)
    path = runs / EXAMPLES["ssan"].data
    with pytest.raises(BrokenPipeError):
        extract_command(runs / "ssan", [str(path)], html=tmp_path / "page.html", predictions=tmp_path / "a.json")
    assert "</html>" in (tmp_path / "page.html").read_text()
    assert json.loads((tmp_path / "a.json").read_text())


def test_the_page_shows_entities_relations_and_the_structure(shell, runs):
    (shell.folder / "one.json").write_text(
        json.dumps(
            [
                {
                    "title": "<b>",
                    "sents": [["a", "&", "b", "."], ["a"]],
                    "vertexSet": [
                        [
                            {"name": "a", "sent_id": 0, "pos": [0, 1], "type": "X"},
                            {"name": "a", "sent_id": 1, "pos": [0, 1], "type": "X"},
                        ],
                        [{"name": "b", "sent_id": 0, "pos": [2, 3], "type": "X"}],
                    ],
                }
            ]
        )
    )
    printed = shell("extract", runs / "ssan", "one.json", "--threshold", "0", "--html", "page.html").out
    assert printed.count("\tco-occurrence 1\n") == 2
    page = (shell.folder / "page.html").read_text()
    assert 'aria-label="relations" tabindex="0"' in page  # the keyboard can scroll
    assert page.count('<a href="#d1s1">1</a>') == 2
    assert '<p class="sentence" id="d1s1"><span class="number">1</span>' in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "<script" not in page
    assert page.count('<td class="share"') == 2
    assert '<mark class="e0">a<sub>1</sub></mark> &amp; <mark class="e1">b<sub>2</sub></mark>.' in page
    picture = b64decode(re.search(r'base64,([^"]+)"', page)[1])
    width, height = struct.unpack(">II", picture[16:24])
    assert width == height == 5
    assert "5 tokens; sentences: 1-2." in page
    rows = zlib.decompress(picture[picture.index(b"IDAT") + 4 : picture.index(b"IEND") - 8])
    # a sees itself, & and . as words of no entity, b, and its other mention
    assert list(rows[1:6]) == [0, 2, 1, 2, 3]
    assert "is a folder" in shell("extract", runs / "ssan", "one.json", "--html", ".", code=2).err
    before = (shell.folder / "one.json").read_text()
    assert "is no page" in shell("extract", runs / "ssan", "one.json", "--html", "one.json", code=2).err
    refused = shell("extract", runs / "ssan", "one.json", "--predictions", "./one.json", code=2).err
    assert "one.json exists and has no predictions, but other things, which would be lost; name another file" in refused
    assert (shell.folder / "one.json").read_text() == before
    both = shell("extract", runs / "ssan", "one.json", "--html", "x.html", "--predictions", "./x.html", code=2).err
    assert "--predictions x.html: is the file of --html; name another" in both
    assert not (shell.folder / "x.html").exists()


def test_the_page_names_the_sentences_that_are_drawn(runs, tmp_path):
    model = wenmai.load(runs / "ssan")
    far = model.length // 3 * 3
    sentences = [["x"] * 3] * far + [["a", "b"]]
    vertices = [[{"sent_id": far, "pos": [at, at + 1], "type": "X"}] for at in (0, 1)]
    found = model.extract([{"sents": sentences, "vertexSet": vertices}])
    write_relation_page(tmp_path / "page.html", model, found, run="r")
    page = (tmp_path / "page.html").read_text()
    first, last = re.search(r"tokens; sentences: (\d+)-(\d+)\.", page).groups()
    assert 1 < int(first) < int(last) == far + 1
    model.module.config = replace(model.config, structure="none", structured=())
    write_relation_page(tmp_path / "page.html", model, found, run="r")
    assert "<img" not in (tmp_path / "page.html").read_text()


def test_why_there_is_no_relation_is_said(shell, runs, tmp_path):
    model = wenmai.load(runs / "ssan")
    vertices = [[{"sent_id": 0, "pos": [at, at + 1], "type": "X"}] for at in (0, 1)]
    document = {"sents": [["a", "b"]], "vertexSet": vertices}
    (alone,) = model.extract([document | {"vertexSet": vertices[:1]}])
    assert "fewer than two entities" in why_nothing(model, alone)
    (some,) = model.extract([document], threshold=1.0)
    assert re.fullmatch(r"No relation reaches the threshold 1\.000; .* has 0\.\d{3}\.", why_nothing(model, some))
    assert some.highest == max(one.probability for one in model.extract([document], threshold=0.0)[0].relations)
    (some,) = model.extract([document], threshold=0.0)
    assert not why_nothing(model, some)
    model.facts = model.facts._replace(asked=frozenset({("X", "Y")}))
    (none,) = model.extract([document], threshold=0.0)
    assert why_nothing(model, none) == "No two entities are of types that have relations (X - Y)."
    write_relation_page(tmp_path / "page.html", model, [none], run="r")
    assert "of types that have relations (X - Y)." in (tmp_path / "page.html").read_text()


def test_a_tagger_that_is_not_asked_is_said(shell, runs):
    path = runs / EXAMPLES["ssan"].data
    assert (
        "the documents have their entities already, the tagger is not asked"
        in shell("extract", runs / "ssan", path, "--tagger", runs / "tagger").err
    )


def test_a_text_that_the_encoders_do_not_know_is_said(shell, runs):
    (shell.folder / "text.txt").write_text("你好世界\n")
    told = shell("extract", runs / "ssan", "text.txt", "--tagger", runs / "tagger").err
    assert "finetuned-tagging: the vocabulary of the encoder lacks 100% of the pieces of the text; a model" in told
    document = {"sents": [["你", "好"]], "vertexSet": [[{"sent_id": 0, "pos": [0, 1], "type": "X"}]]}
    (shell.folder / "document.json").write_text(json.dumps([document]))
    assert "lacks 100% of the pieces of the text" in shell("extract", runs / "ssan", "document.json").err
    documents = [document | {"vertexSet": 2 * document["vertexSet"], "labels": [{"h": 0, "t": 1, "r": "r"}]}]
    (shell.folder / "train.json").write_text(json.dumps(documents))
    told = shell(
        "train", "ssan", "train.json", "--from", runs / "base", "--out", "new", "--set=valid_share=0", *QUIET, code=3
    ).err
    assert "lacks 100% of the pieces of the documents; start from one" in told
    assert not (shell.folder / "new").exists()


def test_types_that_a_tagger_never_tags_are_said(runs, caplog):
    model = wenmai.load(runs / "ssan")
    model.types = [*model.types, "Z"]
    tagger_of(runs / "tagger", model)
    assert "tagger never tags Z: relations of such entities are not found" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "has no words"),
        (b"a\n\xff b\n", "line 2: is not UTF-8"),
        ("a\nb\n".encode("utf-16-le"), "line 1: has a NUL, which no text has"),
        (b"1|t|a\n1|x|b\n", "line 2"),
        (b"\x1f\x8b\x08broken", "is damaged"),
    ],
)
def test_bad_files_have_one_clear_message(shell, runs, content, message):
    (shell.folder / "bad.txt").write_bytes(content)
    ended = shell("extract", runs / "ssan", "bad.txt", "--tagger", runs / "tagger", code=3)
    assert "bad.txt" in ended.err
    assert message in ended.err


def test_predictions_are_those_of_the_official_script(shell, runs):
    path = runs / EXAMPLES["ssan"].data
    printed = shell("extract", runs / "ssan", path, "--threshold", "0", "--predictions", "result.json", "--json").out
    found = [json.loads(line) for line in printed.splitlines()]
    predicted = json.loads((shell.folder / "result.json").read_text())
    expected = [
        {"title": one["title"], "h_idx": fact["h"], "t_idx": fact["t"], "r": fact["r"], "evidence": fact["evidence"]}
        for one in found
        for fact in one["labels"]
    ]
    assert predicted == expected
    assert len(predicted) > 1
    (shell.folder / "twice.json").write_text(json.dumps([found[0], found[0]]))
    noted = shell("extract", runs / "ssan", "twice.json", "--predictions", "result.json").err
    assert "2 of 2 documents have no title or that of another one" in noted
    (shell.folder / "article.txt").write_text("My only copy.")
    refused = shell("extract", runs / "ssan", path, "--predictions", "article.txt", code=2).err
    assert "article.txt exists and has no predictions, but other things, which would be lost" in refused
    assert (shell.folder / "article.txt").read_text() == "My only copy."
    (shell.folder / "none.json").write_text("[]\n")
    shell("extract", runs / "ssan", path, "--threshold", "1", "--predictions", "none.json")
    refused = shell("extract", runs / "ssan", path, "--predictions", ".", code=2).err
    assert "--predictions .: . is a folder; name another file" in refused
    refused = shell("extract", runs / "ssan", path, "--predictions", "none.json/a.json", code=2).err
    assert "--predictions none.json/a.json: none.json is a file; name another file" in refused


def test_a_document_is_known_by_its_identifier(shell, runs):
    lines = "227508|t|Kenya and Nairobi.\n227508\t0\t5\tKenya\tLOC\tQ1\n227508\t10\t17\tNairobi\tLOC\tQ2\n"
    (shell.folder / "some.pubtator").write_text(lines)
    assert "227508 Kenya and Nairobi.: 2 entities" in shell("extract", runs / "ssan", "some.pubtator").out
    printed = shell("extract", runs / "ssan", "some.pubtator", "--json").out
    assert json.loads(printed)["id"] == "227508"
    (shell.folder / "again.json").write_text(printed)
    assert shell("extract", runs / "ssan", "again.json", "--json").out == printed


def test_some_of_the_documents_are_evaluated(shell, runs):
    path = runs / EXAMPLES["ssan"].data
    drawn = "evaluated on 3 documents, drawn by chance"
    assert drawn in shell("evaluate", runs / "ssan", "--on", path, "--limit", "3").err
    (shell.folder / "three.json").write_text(json.dumps(json.loads((runs / path).read_text())[:3]))
    assert drawn not in shell("evaluate", runs / "ssan", "--on", "three.json", "--limit", "3").err


def test_evidence_is_evaluated_by_attention_too(shell, runs):
    path = runs / EXAMPLES["ssan"].data
    found = [
        json.loads(shell("evaluate", runs / "ssan", "--on", path, "--threshold", "0", *more, "--json").out)
        for more in ((), ("--evidence", "attention"))
    ]
    assert found[0]["f1"] == found[1]["f1"]
    assert found[0]["evidence_f1"] != found[1]["evidence_f1"]


def test_wrong_options(shell, runs):
    path = runs / EXAMPLES["ssan"].data
    assert "expected co-occurrence or attention" in shell("extract", runs / "ssan", path, "--evidence", "x", code=2).err
    assert "is no probability" in shell("extract", runs / "ssan", path, "--threshold", "2", code=2).err
    assert "no such file; expected plain text" in shell("extract", runs / "ssan", "nothing.txt", code=3).err
    assert "has no tag" in shell("extract", runs / "ssan", path, "--tagger", runs / "ssan", code=6).err


def test_a_tagger_of_other_types_is_refused(shell, runs):
    (shell.folder / "tags.txt").write_text("".join(f"a B-Z\n{b} O\n{c} O\n\n" for b in "bcdefgh" for c in "bcdefgh"))
    shell("finetune", runs / "base", "tags.txt", "--task", "tagging", "--epochs", "1", *QUIET, "--out", "other")
    refused = shell("extract", runs / "ssan", "tags.txt", "--tagger", "other", code=2).err
    assert "tags Z, but the relations are between entities of the types X, Y" in refused


class Tagger:
    """Tags capitalised words, with what follows their apostrophes, as some taggers do."""

    def tag(self, sentences):
        def entities(text):
            for match in re.finditer(r"[KU][\w’']+", text):
                yield type("Entity", (), {"text": match[0], "type": "X", "start": match.start(), "end": match.end()})

        return [type("Tagged", (), {"entities": list(entities(text))}) for text in sentences]


def test_lines_that_were_cut_at_a_width_are_read_as_one():
    words = "Early on Monday the president William Ruto met all his ministers in Nairobi to speak of taxes and tea. "
    wrapped = textwrap.fill(words * 3, 60)
    assert unwrapped(wrapped) == wrapped.replace("\n", " ")
    both = wrapped + "\r\n\r\n" + wrapped.replace("\n", "\r\n")
    assert unwrapped(both) == wrapped.replace("\n", " ") + "\r\n\r\n" + wrapped.replace("\n", "  ")
    lines = "One sentence stands here.\nAnother one stands there.\nA third one is not longer.\n"
    people = "Angela Merkel met Macron in Paris\nJoe Biden met Trudeau in Ottawa\nXi Jinping met Putin in Moscow\n"
    chinese = "\n".join(["这是一段按固定宽度折行的中文文本，" * 3] * 5)
    for text in (
        people,
        people.replace(" met ", " met the president "),
        chinese,
        "",
        "A title\nand a text",
        lines,
        "- tea\n- coffee with milk\n- a\n",
        "x" * 200 + "\n" + "y" * 190,
    ):
        assert unwrapped(text) == text


def test_all_entities_of_a_mention_and_the_longest_one_are_drawn(runs, tmp_path):
    model = wenmai.load(runs / "ssan")
    spans = [(0, 2), (0, 3), (0, 3)]
    vertices = [[{"sent_id": 0, "pos": list(span), "type": "X", "id": f"D{span[1]}"}] for span in spans]
    found = model.extract([{"sents": [["a", "b", "c"]], "vertexSet": vertices, "pairs": [[0, 1]]}])
    write_relation_page(tmp_path / "page.html", model, found, run="r")
    page = (tmp_path / "page.html").read_text()
    assert '<mark class="e1">a b c<sub>2, 3, 1</sub></mark>' in page
    (again,) = docred_documents([as_docred(found[0])], "the output")
    assert again._replace(relations=()) == found[0].document._replace(relations=())


def test_mentions_that_overlap_are_drawn_as_one_to_the_end_of_the_last(runs, tmp_path):
    model = wenmai.load(runs / "ssan")
    vertices = [[{"sent_id": 0, "pos": list(span), "type": "X"}] for span in [(0, 2), (1, 3)]]
    found = model.extract([{"sents": [["a", "b", "c", "d"]], "vertexSet": vertices}])
    write_relation_page(tmp_path / "page.html", model, found, run="r")
    assert '<mark class="e0">a b c<sub>1, 2</sub></mark> d' in (tmp_path / "page.html").read_text()


def test_a_genitive_is_no_part_of_a_name():
    document = document_of_text("Kenya's parliament met.\nIt rained in Kenya. Uganda’s did not.", Tagger(), title="t")
    names = [[mention.name for mention in entity.mentions] for entity in document.entities]
    assert names == [["Kenya", "Kenya"], ["Uganda"]]
    assert document.sentences[0] == ("Kenya", "'s", "parliament", "met", ".")


def test_of_mentions_that_overlap_the_longest_is_tagged():
    spans = [(0, 1), (0, 2), (2, 3)]
    mentions = [{"name": "n", "sent_id": 0, "pos": [*span], "type": "T"} for span in spans]
    (document,) = docred_documents([{"sents": [["a", "b", "c"], []], "vertexSet": [[one] for one in mentions]}], "here")
    assert tagged_sentences(document) == [(("a", "b", "c"), ("B-T", "I-T", "B-T")), ((), ())]
