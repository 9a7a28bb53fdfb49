"""Words in their sentences: which occurrences are read, an index of them, static vectors, and word similarity."""

import errno
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import wenmai
from wenmai.cli.main import main
from wenmai.core.errors import CorpusError, FormatError, RunError, SettingError
from wenmai.data.occurrences import LONGEST, OccurrenceConfig, Occurrences, spans_of
from wenmai.inference.contextual import reader_of, states_of_spans
from wenmai.measures.contextual import evaluate_in_context
from wenmai.measures.words import spearman
from wenmai.runs.occurrences import default_index, nearest_in_context, vectors_in_context
from wenmai.vectors.lengths import cosine
from wenmai.vectors.occurrence_index import OccurrenceIndex, write_index

SENTENCES = [
    "He sat on the bank of the river .",
    "The bank lends money .",
    "She went to the bank , and to the river .",
    "Money is in the bank .",
    "A river has a bank .",
]
TEXT = "".join(f"{line}\n" for line in SENTENCES * 6)
SMALL = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "epochs": 1, "min_count": 1, "quiet": True}
SETTINGS = {
    "bert": SMALL | {"max_length": 12, "kind": "whitespace", "batch_tokens": 64, "vocab_size": 40},
    "gpt": SMALL | {"max_length": 8, "vocab_size": 300, "steps": 2},
    "rnnlm": {"hidden_size": 8, "num_layers": 2, "steps": 2, "min_count": 1, "quiet": True},
    "nnlm": {"hidden_size": 8, "steps": 2, "min_count": 1, "quiet": True},
    "elmo": {"hidden_size": 4, "cell_size": 6, "filters": (4, 4), "steps": 2, "min_count": 1, "quiet": True},
    "word2vec": {"vector_size": 8, "epochs": 1, "threads": 1, "min_count": 1, "quiet": True, "lowercase": True},
    "ngram": {"order": 2, "min_count": 1, "quiet": True},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("occurrences")
    (folder / "text.txt").write_text(TEXT)
    torch.manual_seed(1)
    for system, settings in SETTINGS.items():
        wenmai.train(system, folder / "text.txt", out=folder / system, **settings)
    for system in ("bert", "gpt"):
        wenmai.index(folder / system, folder / "text.txt", quiet=True)
    return folder


# --- which occurrences ----------------------------------------------------------------------------------------------


def chosen(lines, **settings):
    with Occurrences(lines, OccurrenceConfig(segment="words", **settings)) as found:
        return found, list(found)


def test_occurrences_are_counted_and_spread_evenly():
    lines = [f"word number {number} ." for number in range(10)]
    found, sentences = chosen(lines, min_count=2, max_occurrences=4)
    assert found.counts == {"number": 10, "word": 10}
    assert found.taken == 8
    places = [int(one.text.split()[2]) for one in sentences]
    assert places == [2, 4, 7, 9]
    assert all([one.text[low:high] == word for word, low, high in one.words] for one in sentences)
    read = Counter(word.word for one in sentences for word in one.words)
    assert read == {"word": 4, "number": 4}


def test_case_is_folded_unless_it_counts():
    assert chosen(["Bank bank ."], min_count=1)[0].counts == {"bank": 2}
    assert chosen(["Bank bank ."], min_count=1, lowercase=False)[0].counts == {"Bank": 1, "bank": 1}


def test_a_line_is_read_by_sentences_and_a_long_one_in_parts():
    _, found = chosen(["One is here. Two are there. " + "Word " * LONGEST], min_count=1, max_occurrences=None)
    assert [one.text for one in found[:2]] == ["One is here.", "Two are there."]
    assert max(len(one.text) for one in found) <= LONGEST
    assert sum(len(one.words) for one in found) == 6 + LONGEST


def test_chinese_is_cut_as_it_suits_it():
    lines = ["他在银行里工作，每天都很忙。" * 3]
    with Occurrences(iter(lines), OccurrenceConfig(min_count=1)) as found:
        assert found.config.segment == "chinese"
        assert "银行" in found.counts


def test_a_text_of_another_encoding_is_read_by_its_name(tmp_path):
    (tmp_path / "latin.txt").write_text("ein großes Café\n" * 2, encoding="latin-1")
    with pytest.raises(CorpusError, match=r"0xdf is not utf-8 here .* bad_lines=skip"):
        chosen(tmp_path / "latin.txt", min_count=1)
    assert chosen(tmp_path / "latin.txt", min_count=1, encoding="latin-1")[0].counts.keys() == {"ein", "großes", "café"}


def test_lines_that_cannot_be_decoded_are_skipped_and_told(runs, tmp_path, capsys):
    (tmp_path / "text.txt").write_bytes(b"the bank of the river\nthe \xff bank\n")
    assert chosen(tmp_path / "text.txt", min_count=1, bad_lines="skip")[0].counts["bank"] == 1
    arguments = ["index", str(runs / "bert"), str(tmp_path / "text.txt"), "--out", str(tmp_path / "index")]
    assert main([*arguments, "--bad-lines", "skip"]) == 0
    assert "1 line that cannot be read was left out (bad_lines=skip)" in capsys.readouterr().err
    assert main([*arguments, "--bad-lines", "drop"]) == 2
    assert "bad_lines" in capsys.readouterr().err


def test_a_full_disk_is_named_with_its_folder(cache_folder, monkeypatch):
    def full(**_: object):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(RunError, match=f"{cache_folder}: cannot be written .* WENMAI_CACHE"):
        chosen(["a bank"], min_count=1)


def test_a_text_without_words_says_so(tmp_path):
    with pytest.raises(CorpusError, match="has no words; a word has a letter or a digit"):
        chosen(["。 ！"], min_count=1)
    (tmp_path / "gb.txt").write_text("他在银行里工作", encoding="gb18030")
    with pytest.raises(CorpusError, match="has no words; 1 lines cannot be read: name the right encoding"):
        chosen(tmp_path / "gb.txt", min_count=1, bad_lines="skip")


def test_a_text_without_frequent_words_is_no_text():
    with pytest.raises(CorpusError, match=r"no word occurs 5 times \(min_count\)"):
        Occurrences(["a b c"], OccurrenceConfig())


@pytest.mark.parametrize(
    ("text", "word", "spans"),
    [
        ("The bank, a bank.", "bank", [(4, 8), (12, 16)]),
        ("The Bank of banks", "bank", [(4, 8)]),
        ("In New York city", "New York", [(3, 11)]),
        ("embankment", "bank", []),
        ("from İzmir to the Bank", "bank", [(18, 22)]),
        ("anything", "", []),
    ],
)
def test_words_are_found_between_the_edges_of_tokens(text, word, spans):
    assert spans_of(text, word, "words") == spans


# --- states ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["bert", "elmo", "gpt", "rnnlm"])
def test_states_are_those_of_embed(runs, system):
    model = wenmai.load(runs / system)
    text = SENTENCES[2]
    for layer in ("0", "-1", "1,2"):
        (found,) = model.embed_words([text], layer=layer)
        reader = reader_of(model, layer)
        (states,) = states_of_spans(reader.encoder, [(text, found.offsets)], reader.numbers)
        np.testing.assert_allclose(states.mean(0), found.vectors, atol=1e-6)


def test_the_states_of_gpt_are_those_of_its_module_token_by_token(runs):
    model = wenmai.load(runs / "gpt")
    text = "The bank lends"  # read at once
    ids, offsets = model.tokenizer.encode(text).ids, model.tokenizer.encode(text).offsets
    assert len(ids) < model.module.max_length
    with torch.inference_mode():
        expected = model.module(torch.tensor([[model.module.bos_id, *ids]]))[0, 1:].numpy()
    reader = reader_of(model)
    ((states,),) = states_of_spans(reader.encoder, [(text, [(4, 8)])], reader.numbers)
    inside = [place for place, (low, high) in enumerate(offsets) if low < 8 and high > 4]
    np.testing.assert_allclose(states[0], expected[inside].mean(0), atol=1e-5)
    long = " ".join(SENTENCES)
    (layers,) = reader.encoder.layers([long])
    assert layers.vectors.shape[:2] == (3, len(model.tokenizer.encode(long).ids))
    assert layers.vectors.any(axis=2).all()


def test_a_fine_tuned_encoder_has_words_in_context(runs, tmp_path):
    (tmp_path / "labels.tsv").write_text("text\tlabel\n" + "the bank\tmoney\na river\twater\n" * 4)
    run = wenmai.finetune(
        runs / "bert",
        tmp_path / "labels.tsv",
        task="classification",
        out=tmp_path / "tuned",
        epochs=1,
        valid=str(tmp_path / "labels.tsv"),
        quiet=True,
    )
    assert len(wenmai.distil(run, runs / "text.txt", out=tmp_path / "words.txt", quiet=True)) == 17


# --- the index ------------------------------------------------------------------------------------------------------


def test_the_nearest_occurrences_are_those_of_a_naive_search(runs):
    index = OccurrenceIndex(runs / "bert-index")
    model = wenmai.load(runs / "bert")
    (vector,) = vectors_in_context(runs / "bert", ["The bank lends money ."], "bank", index=index)
    assert vectors_in_context(runs / "bert", [], "bank", index=index).shape == (0, len(vector))
    naive = []
    for text, found in zip(SENTENCES, model.embed_words(SENTENCES), strict=True):  # each is in the text six times
        naive += [
            (cosine(vector, row), text, *span)
            for row, span in zip(found.vectors, found.offsets, strict=True)
            if any(map(str.isalnum, text[slice(*span)]))
        ]
    assert len(index) == 6 * len(naive)
    best = sorted(naive, key=lambda one: -one[0])[:20]
    found = index.nearest(vector, 20)
    assert [one.similarity for one in found] == pytest.approx([score for score, *_ in best], abs=1e-5)
    assert len({(one.sentence, one.start) for one in found}) == len(found) == 20
    assert found[0].sentence == "The bank lends money ."
    assert (found[0].word, found[0].start, found[0].end) == ("bank", 4, 8)


def test_a_search_in_several_blocks_finds_the_same(tmp_path, monkeypatch):
    rows = np.random.default_rng(1).normal(size=(50, 6)).astype(np.float32)
    write_index(tmp_path / "index", [(f"w{number}", [(0, 2)], row[None]) for number, row in enumerate(rows)], 6, {})
    whole = OccurrenceIndex(tmp_path / "index").nearest(rows[7], 5)
    monkeypatch.setattr("wenmai.vectors.occurrence_index._ROWS", 7)
    parts = OccurrenceIndex(tmp_path / "index").nearest(rows[7], 5)
    assert [one[:4] for one in parts] == [one[:4] for one in whole]
    assert [one.similarity for one in parts] == pytest.approx([one.similarity for one in whole], abs=1e-6)
    assert whole[0].sentence == "w7"
    assert whole[0].similarity == pytest.approx(1)


def test_an_index_says_what_is_wrong_with_a_question(runs, tmp_path):
    bert = runs / "bert"
    with pytest.raises(SettingError, match="the word 'tree' is not in the sentence; its words are The, bank"):
        nearest_in_context(bert, "The bank", "tree")
    with pytest.raises(SettingError, match="the sentence ' ' has no words"):
        nearest_in_context(bert, " ", "tree")
    with pytest.raises(SettingError, match=r"occurs 2 times in 'bank a bank' \(1 at character 1, 2 at character 8\)"):
        nearest_in_context(bert, "bank a bank", "bank")
    assert nearest_in_context(bert, "bank a bank", "bank", occurrence=2, topn=1)
    with pytest.raises(SettingError, match="occurrence=3: 'bank' occurs 2 times in 'bank a bank'"):
        nearest_in_context(bert, "bank a bank", "bank", occurrence=3)
    twice = ["bank a bank", "bank a bank", "the bank"]
    first, second, third = vectors_in_context(bert, twice, "bank", index=default_index(bert), occurrence=[1, 2, 1])
    assert not np.allclose(first, second)
    assert np.allclose(third, vectors_in_context(bert, ["the bank"], "bank", index=default_index(bert))[0], atol=1e-6)
    with pytest.raises(SettingError, match="3 sentences have 2 occurrences"):
        vectors_in_context(bert, twice, "bank", index=default_index(bert), occurrence=[1, 2])
    with pytest.raises(SettingError, match="vectors_in_context takes a list; put a single one in brackets"):
        vectors_in_context(bert, "the bank", "bank", index=default_index(bert))
    with pytest.raises(SettingError, match="is of layer 2; leave the layer out"):
        nearest_in_context(bert, "The bank", "bank", layer=1)
    assert nearest_in_context(bert, "The bank", "bank", layer="last", topn=1)
    for system in ("word2vec", "ngram", "nnlm"):
        with pytest.raises(RunError, match="which has no words in context; name one of bert"):
            nearest_in_context(runs / system, "The bank", "bank", index=runs / "bert-index")
    with pytest.raises(RunError, match="was made with another model"):
        nearest_in_context(runs / "gpt", "The bank", "bank", index=runs / "bert-index")
    with pytest.raises(FormatError, match="is no index of occurrences"):
        nearest_in_context(bert, "The bank", "bank", index=tmp_path)
    with pytest.raises(RunError, match=r"cannot be written \(File name too long\); choose another --out"):
        wenmai.index(runs / "bert", runs / "text.txt", out=runs / ("x" * 300))
    with pytest.raises(RunError, match="exists already; choose another --out"):
        wenmai.index(bert, runs / "text.txt", quiet=True)


@pytest.mark.parametrize("name", ["index.json", "vectors.safetensors", "sentences.txt"])
def test_a_damaged_index_is_refused(runs, tmp_path, name):
    shutil.copytree(runs / "bert-index", tmp_path / "index")
    data = bytearray((tmp_path / "index" / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "index" / name).write_bytes(data)
    with pytest.raises(FormatError, match=f"{name} has changed"):
        OccurrenceIndex(tmp_path / "index")


@pytest.mark.parametrize("name", ["vectors", "sentences", "spans", "places"])
def test_numbers_of_an_index_are_not_trusted(tmp_path, monkeypatch, name):
    """As of a large one, whose checksums are not compared when it is opened."""
    monkeypatch.setattr("wenmai.vectors.occurrence_index._CHECKED_BYTES", 0)
    from safetensors.numpy import load_file, save_file

    write_index(tmp_path / "index", [("a bank", [(2, 6)], np.ones((1, 3), np.float32))], 3, {})
    path = tmp_path / "index" / "vectors.safetensors"
    tensors = load_file(path)
    tensors[name] = np.full_like(tensors[name], np.nan if name == "vectors" else 99)
    save_file(tensors, path)
    with pytest.raises(FormatError, match=r"not finite|is damaged"):
        OccurrenceIndex(tmp_path / "index").nearest(np.ones(3, np.float32))


def test_a_failed_index_leaves_nothing(tmp_path):
    def rows():
        yield "a bank", [(2, 6)], np.ones((1, 3), np.float32)
        raise CorpusError("a bad line")

    with pytest.raises(CorpusError):
        write_index(tmp_path / "index", rows(), 3, {})
    assert not list(tmp_path.iterdir())


# --- static vectors -------------------------------------------------------------------------------------------------


def test_distilled_vectors_are_means_over_occurrences(runs, tmp_path):
    model = wenmai.load(runs / "bert")
    found = wenmai.distil(
        runs / "bert", runs / "text.txt", out=tmp_path / "run", max_occurrences=None, layer="1", quiet=True
    )
    rows = [
        row
        for one in model.embed_words(SENTENCES, layer=1)
        for word, row in zip(one.words, one.vectors, strict=True)
        if word.lower() == "bank"
    ]
    np.testing.assert_allclose(found["bank"], np.mean(rows, 0), atol=1e-5)
    assert found.counts[found.get_index("bank")] == 30
    assert found.index_to_key[0] == "the"
    again = wenmai.load(tmp_path / "run")
    np.testing.assert_array_equal(again.vectors, found.vectors)
    run = wenmai.Run(tmp_path / "run")
    assert run.summary["distilled"]["layer"] == "1"
    assert run.embed(["The BANK"]).any()


@pytest.mark.parametrize("name", ["words.txt", "words.vec", "words.bin"])
def test_vectors_are_written_for_other_programs(runs, tmp_path, name):
    found = wenmai.distil(runs / "elmo", runs / "text.txt", out=tmp_path / name, quiet=True)
    again = wenmai.WordVectors.load_word2vec_format(tmp_path / name)
    assert again.index_to_key == found.index_to_key
    np.testing.assert_allclose(again.vectors, found.vectors, rtol=1e-6)
    with pytest.raises(RunError, match="exists already"):
        wenmai.distil(runs / "elmo", runs / "text.txt", out=tmp_path / name, quiet=True)


@pytest.mark.parametrize(("name", "suffix"), [("words.npz", ".npz"), ("words.vec.gz", ".gz")])
def test_vectors_are_not_written_into_folders_that_are_called_like_files(runs, tmp_path, name, suffix):
    with pytest.raises(SettingError, match=rf"expected a file .*, or a run folder, whose .* not end in \{suffix}"):
        wenmai.distil(runs / "elmo", runs / "text.txt", out=tmp_path / name, quiet=True)
    assert not (tmp_path / name).exists()


def test_wrong_settings_and_runs_are_refused_before_the_text_is_read(runs, tmp_path):
    out = tmp_path / "words"
    with pytest.raises(SettingError, match="there is no setting 'layers'; did you mean 'layer'"):
        wenmai.distil(runs / "bert", tmp_path / "none.txt", out=out, layers=1)
    with pytest.raises(SettingError, match="min_count"):
        wenmai.distil(runs / "bert", tmp_path / "none.txt", out=out, min_count=0)
    with pytest.raises(SettingError, match="layer=7"):
        wenmai.distil(runs / "bert", tmp_path / "none.txt", out=out, layer=7)
    with pytest.raises(RunError, match="no words in context"):
        wenmai.distil(runs / "word2vec", tmp_path / "none.txt", out=out)
    assert not out.exists()
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "words", tmp_path / "file" / "words.txt"):
        with pytest.raises(RunError, match="file is a file; choose another --out"):
            wenmai.distil(runs / "bert", tmp_path / "none.txt", out=out)
    with pytest.raises(RunError, match="file is a file; choose another --out"):
        wenmai.index(runs / "bert", tmp_path / "none.txt", out=tmp_path / "file" / "index")


# --- similarity -----------------------------------------------------------------------------------------------------


def test_the_layer_is_chosen_on_one_half_and_measured_on_the_other():
    draw = np.random.default_rng(2)
    words = [f"w{number}" for number in range(24)]
    vectors = {word: draw.normal(size=(3, 5)).astype(np.float32) for word in words}
    pairs = [(one, other, float(draw.normal())) for one, other in zip(words[::2], words[1::2], strict=True)]
    found = evaluate_in_context("set", [*pairs, ("w1", "unknown", 1.0)], vectors, resamples=50)
    cosines = [[cosine(vectors[a][layer], vectors[b][layer]) for a, b, _ in pairs] for layer in range(3)]
    people = [score for *_, score in pairs]

    def rho(layer, first):
        own = np.array(cosines[layer][first::2]), np.array(people[first::2])
        return spearman(*own, np.ones((1, len(own[0]))))[0]

    best = [max(range(3), key=lambda layer, other=other: rho(layer, other)) for other in (1, 0)]
    assert list(found.layers) == best
    assert found.halves == pytest.approx([rho(best[0], 0), rho(best[1], 1)])
    assert found.spearman == pytest.approx(np.mean(found.halves))
    assert found.low <= found.spearman <= found.high
    assert (found.covered, found.total) == (12, 13)
    assert "chosen on the other half" in str(found)
    assert evaluate_in_context("few", pairs[:3], vectors).spearman is None


def test_words_are_compared_by_their_sentences(shell, runs, tmp_path):
    (tmp_path / "pairs.tsv").write_text(
        "bank\tmoney\t7\nriver\tbank\t6\nmoney\triver\t2\nlends\tsat\t1\nThe\ta\t5\nhe\tshe\t4\nbank\ttree\t1\n"
    )
    options = ("--similarity", tmp_path / "pairs.tsv", "--occurrences", runs / "text.txt", "--max-occurrences", "3")
    (found,) = json.loads(shell("evaluate", runs / "bert", *options, "--json").out)["similarity"]
    assert (found["covered"], found["total"]) == (6, 7)
    assert len(found["every"]) == 3
    every = [runs / system for system in ("bert", "elmo", "gpt", "word2vec")]
    compared = shell("compare", *every, *options, "--out", tmp_path / "both")
    assert "pairs" in compared.out
    systems = json.loads((tmp_path / "both" / "comparison.json").read_text())["systems"]
    assert [one["measures"][0]["covered"] for one in systems] == [6, 6, 6, 6]
    wenmai.train("word2vec", runs / "text.txt", out=tmp_path / "few", **SETTINGS["word2vec"] | {"min_count": 7})
    shell("compare", runs / "bert", tmp_path / "few", *options, "--out", tmp_path / "shared")
    systems = json.loads((tmp_path / "shared" / "comparison.json").read_text())["systems"]
    assert [one["measures"][0]["covered"] for one in systems] == [4, 4]  # the words that both know
    assert (
        "static vectors have one" in shell("compare", runs / "word2vec", *options, "--out", tmp_path / "c", code=2).err
    )
    assert "name them by --similarity" in shell("evaluate", runs / "bert", *options[2:], "--probe", "x", code=2).err


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["bert", "gpt"])
def test_two_senses_are_shown_beside_one_vector(shell, runs, system):
    asked = ("--in", "He sat on the bank", "--in", "The bank lends money", "--word", "bank", "--topn", "3")
    shown = shell("nearest", runs / system, *asked, "--beside", runs / "word2vec").out
    assert shown.startswith("He sat on the bank\n")
    assert "[bank]" in shown
    assert "bank here and in the first sentence: " in shown
    assert f"{runs / 'word2vec'}: one vector in all sentences" in shown
    lines = shell("nearest", runs / system, *asked, "--json", "--beside", runs / "word2vec").out.splitlines()
    first, second, static = map(json.loads, lines)
    assert first["in"] == "He sat on the bank"
    assert f"first sentence: {second['similarity_to_first']:.4f}" in shown
    assert "similarity_to_first" not in first
    assert [len(one["nearest"]) for one in (first, second, static)] == [3, 3, 3]
    assert set(first["nearest"][0]) == {"word", "sentence", "start", "end", "similarity"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_sentence_may_go_on_in_the_next_line(shell, runs, end):
    shown = shell("nearest", runs / "bert", "--in", f"He sat on{end}the bank", "--word", "bank", "--json").out
    assert json.loads(shown)["nearest"]


def test_an_index_is_beside_its_run_wherever_one_stands(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert default_index(".") == tmp_path / "run-index"
    assert default_index("../run") == Path("../run-index")


def test_mistakes_at_the_command_line(shell, runs, tmp_path):
    assert "add --in SENTENCE" in shell("nearest", runs / "bert", "bank", code=2).err
    assert "add --in SENTENCE" in shell("nearest", runs / "word2vec", "bank", "--layer", "1", code=2).err
    assert (
        "has no vector for 'Rome'"
        in shell(
            "nearest", runs / "bert", "--in", "Rome is far", "--word", "Rome", "--beside", runs / "word2vec", code=2
        ).err
    )
    assert "--in takes one word" in shell("nearest", runs / "bert", "--in", "a bank", code=2).err
    assert "there is no index yet" in shell("nearest", runs / "elmo", "--in", "a bank", "--word", "bank", code=2).err
    error = shell("nearest", runs / "word2vec", "--in", "a bank", "--word", "bank", code=6).err
    assert "is a run of word2vec, which has no words in context" in error


def test_verbs_make_an_index_and_vectors(shell, runs, tmp_path):
    made = shell("index", runs / "elmo", runs / "text.txt", "--out", tmp_path / "index", "--max-occurrences", "2", "-q")
    assert f"{tmp_path / 'index'}: " in made.out
    told = json.loads(
        shell("distil", runs / "gpt", runs / "text.txt", "--out", tmp_path / "gpt", "--json", "--quiet").out
    )
    assert told == {"path": str(tmp_path / "gpt"), "vocabulary": 17, "vector_size": 16}
    assert shell("nearest", tmp_path / "gpt", "bank", "--topn", "2").out.count("\n") == 2
