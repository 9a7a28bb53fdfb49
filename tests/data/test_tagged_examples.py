"""Tagged sentences, from files as people have them: columns of CoNLL, tables of ERNIE, JSON."""

import json

import pytest

from tests.data.labelled_files import read, written
from wenmai.core.errors import CorpusError
from wenmai.data.examples import (
    ExamplesConfig,
    ExamplesStats,
    PairExample,
    TaggedSentence,
    TextExample,
    open_examples,
)

CONLL = (
    "-DOCSTART- -X- O O\n\nEU NNP B-NP I-ORG\nrejects VBZ I-VP O\n"
    "German JJ I-NP I-MISC\nBritish JJ I-NP B-MISC\n\nPeter NNP I-NP I-PER\n"
)


def test_columns_of_conll_become_bio(tmp_path):
    found = open_examples(written(tmp_path / "eng.train", CONLL), "tagging")
    first, second = found
    assert first == TaggedSentence(("EU", "rejects", "German", "British"), ("B-ORG", "O", "B-MISC", "B-MISC"))
    assert second == TaggedSentence(("Peter",), ("B-PER",))
    assert found.labels() == ("O", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert found.stats().left_out() == []  # IOB1 as it should be
    parts = open_examples(found.paths[0], "tagging", ExamplesConfig(tag_column=2))
    assert parts.labels() == ("JJ", "NNP", "VBZ")
    assert next(iter(parts)).tags == ("NNP", "VBZ", "JJ", "JJ")
    places = [where for _, where in found.read(ExamplesStats())]
    assert [place.rpartition(": ")[2] for place in places] == ["line 3", "line 8"]


@pytest.mark.parametrize(
    "content",
    [
        "他 O\n在 O\n北 B-LOC\n京 E-LOC\n。 O\n",
        "他\tO\n在\tO\n北\tB-LOC\n京\tI-LOC\n。\tO\n\n\n",
        "他 _ O\n在 _ O\n北 _ B-LOC\n京 _ L-LOC\n。 _ O",
        "# text = 他\n他\t1\tO\n在\t2\tO\n北\t3\tB-LOC\n京\t4\tE-LOC\n。\t5\tO\n",
    ],
)
def test_schemes_and_separators_are_found(tmp_path, content):
    found = open_examples(written(tmp_path / "a.bio", content), "tagging")
    assert list(found) == [TaggedSentence(tuple("他在北京。"), ("O", "O", "B-LOC", "I-LOC", "O"))]
    assert found.stats().left_out() == []


def test_tables_of_ernie_join_tokens_and_tags(tmp_path):
    path = written(tmp_path / "train.tsv", "text_a\tlabel\n北\x02京\x02。\tB-LOC\x02I-LOC\x02O\n他\tO\n")
    expected = [TaggedSentence(tuple("北京。"), ("B-LOC", "I-LOC", "O")), TaggedSentence(("他",), ("O",))]
    assert read(path, "tagging") == expected
    path = written(tmp_path / "turned.tsv", "label\ttext_a\nB-LOC\x02I-LOC\x02O\t北\x02京\x02。\n\nO\t他\n")
    assert read(path, "tagging") == expected
    texts = written(tmp_path / "text.tsv", "text_a\n北\x02京\n")
    assert [one.tokens for one in open_examples(texts, "tagging", labelled=False)] == [("北", "京")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text_a\tlabel\n北\x02京\tO\n", "line 2 has 2 tokens and 1 tags"),
        ("text_a\tlabel\n北\x02\tO\x02O\n", "line 2 .*empty"),
        ("text_a\tmood\n北\x02京\tO\x02O\n", "line 1 .*text_a and label"),
    ],
)
def test_tables_of_ernie_that_are_wrong(tmp_path, content, message):
    with pytest.raises(CorpusError, match=message):
        read(written(tmp_path / "train.tsv", content), "tagging")


def test_columns_of_ernie_have_their_names(tmp_path):
    path = written(tmp_path / "train.tsv", "label\ttext_a\n1\t好\n0\t不好\n")
    assert read(path, "classification") == [TextExample("好", "1"), TextExample("不好", "0")]
    path = written(tmp_path / "pairs.tsv", "text_a\ttext_b\tlabel\n一\t二\t1\n")
    assert read(path, "pair") == [PairExample("一", "二", "1")]


@pytest.mark.parametrize(
    "entities",
    [
        {"LOC": {"北京": [[0, 1]], "京": [[1, 1]]}, "ORG": {"北京大学": [[0, 3]]}},
        [[0, 2, "LOC"], [1, 2, "LOC"], {"start": 0, "end": 4, "label": "ORG"}],
    ],
)
def test_entities_that_overlap_others_are_counted(tmp_path, entities):
    record = {"text": "北京大学", "label": entities}
    path = written(tmp_path / "a.jsonl", json.dumps(record) + "\n")
    for given in (path, [record]):
        found = open_examples(given, "tagging")
        assert found.stats().left_out() == ["2 entities that overlap others were left out"]
        (one,) = found
        assert one.tags[0] == "B-ORG"
        assert {*one.tags[1:]} == {"I-ORG"}


def test_a_space_that_is_a_token_stays(tmp_path):
    path = written(tmp_path / "a.txt", "北 O\n\u3000 O\n京 O\n")
    assert read(path, "tagging")[0].tokens == ("北", "\u3000", "京")


def test_a_few_tags_of_another_scheme_do_not_change_it(tmp_path):
    content = "EU NNP I-NP I-ORG\n\n" * 5 + "the DT I-NP O\nAtlanta NNP I-NP B-MISC\nGames NNPS I-NP I-MISC\n"
    found = open_examples(written(tmp_path / "eng.train", content), "tagging")
    assert found.stats().left_out() == []
    assert list(found)[-1].tags == ("O", "B-MISC", "I-MISC")


def test_comments_are_no_tokens(tmp_path):
    rows = "1\tHello\t_\tINTJ\n2\tthere\t_\tADV\n"
    content = f"# sent_id = 0\n# text = Hello there .\n{rows}\n# anything\n# a b c d\n{rows}"
    settings = ExamplesConfig(token_column=2, tag_column=4)
    for begin in ("", "# newdoc id = weblog-1\n", "# newpar\n", "# no sign of what it is\n"):
        found = open_examples(written(tmp_path / "a.conllu", begin + content), "tagging", settings)
        assert list(found) == [TaggedSentence(("Hello", "there"), ("INTJ", "ADV"))] * 2
    spaced = "# id = 5\nEU NNP B-NP B-ORG\n# NN O O\n\n# id 7-b\tdomain=en\nEU NNP B-NP B-ORG\n"
    found = open_examples(written(tmp_path / "b.conll", spaced), "tagging")
    assert list(found) == [TaggedSentence(("EU", "#"), ("B-ORG", "O")), TaggedSentence(("EU",), ("B-ORG",))]


def test_tokens_of_several_words_are_their_words(tmp_path):
    rows = [("1-2", "don't", "_"), ("1", "do", "AUX"), ("2", "n't", "PART"), ("2.1", "x", "_")]
    content = "\n".join("\t".join((number, word, "_", tag, *"______")) for number, word, tag in rows)
    settings = ExamplesConfig(token_column=2, tag_column=4)
    found = open_examples(written(tmp_path / "a.conllu", content), "tagging", settings)
    assert list(found) == [TaggedSentence(("do", "n't"), ("AUX", "PART"))]


def test_spaces_behind_a_tag_are_none_of_it(tmp_path):
    found = open_examples(written(tmp_path / "a.tsv", "EU\tB-ORG \nis\tO \nin\tO\n"), "tagging")
    assert list(found) == [TaggedSentence(("EU", "is", "in"), ("B-ORG", "O", "O"))]
    assert found.labels() == ("O", "B-ORG", "I-ORG")
    found = open_examples([{"tokens": ["EU", "is"], "tags": ["B-ORG ", " O"]}], "tagging")
    assert list(found) == [TaggedSentence(("EU", "is"), ("B-ORG", "O"))]


ENTITIES = "Ann Lee is in New York."


@pytest.mark.parametrize(
    "record",
    [
        {"text": ENTITIES, "label": [[0, 7, "PER"], [14, 22, "LOC"]]},
        {"text": ENTITIES, "labels": [[14, 22, "LOC"], [0, 7, "PER"], [4, 7, "NAME"]]},
        {"text": ENTITIES, "entities": [[0, 7, "PER"], [14, 22, "LOC"]], "cats": {}},
        {
            "text": ENTITIES,
            "spans": [
                {"start": 0, "end": 7, "label": "PER"},
                {"start": 14, "end": 22, "label": "LOC", "token_start": 4},
            ],
        },
        {
            "text": ENTITIES,
            "entities": [
                {"id": 1, "start_offset": 0, "end_offset": 7, "label": "PER"},
                {"id": 2, "start_offset": 14, "end_offset": 22, "label": "LOC"},
            ],
        },
        (ENTITIES, {"entities": [(0, 7, "PER"), (14, 22, "LOC")]}),
    ],
)
def test_places_of_entities_are_read_by_words(tmp_path, record):
    words = ("Ann", "Lee", "is", "in", "New", "York", ".")
    wanted = TaggedSentence(words, ("B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"))
    assert list(open_examples([record], "tagging")) == [wanted]
    if isinstance(record, dict):
        assert list(open_examples(written(tmp_path / "a.jsonl", [record]), "tagging")) == [wanted]


def test_an_entity_ends_a_word_and_chinese_characters_are_words():
    found = open_examples([{"text": "mcAnn在北京", "label": [[2, 5, "PER"], [6, 8, "LOC"]]}], "tagging")
    assert list(found) == [TaggedSentence(("mc", "Ann", "在", "北", "京"), ("O", "B-PER", "O", "B-LOC", "I-LOC"))]
    (plain,) = open_examples([{"text": "in Rome", "label": []}], "tagging")
    assert plain == TaggedSentence(("in", "Rome"), ("O", "O"))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "EU is", "id": 3}, "has no label; it has text, id"),
        ({"text": "EU is", "label": [[0, 9, "ORG"]]}, r"the entity \[0, 9, 'ORG'\]; expected \[start, end, TYPE\]"),
        ({"text": "EU is", "label": [[2, 2, "ORG"]]}, "characters of the text, of which there are 5"),
        ({"text": "EU is", "label": [[0, 2, "A B"]]}, "expected"),
        ({"text": "EU is", "label": [[0, 2]]}, "expected"),
        ({"text": "EU  is", "label": [[2, 4, "ORG"]]}, "an entity without words"),
        ({"text": "EU is", "entities": [{"start": 0, "label": "ORG"}]}, "expected"),
    ],
)
def test_wrong_places_of_entities_are_refused(tmp_path, record, message):
    with pytest.raises(CorpusError, match=rf"line 1: .*{message}"):
        list(open_examples(written(tmp_path / "a.jsonl", [record]), "tagging"))


def test_tags_in_json(tmp_path):
    expected = TaggedSentence(("a", "b"), ("O", "B-X"))
    path = written(tmp_path / "a.jsonl", [{"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]}])
    assert read(path, "tagging") == [expected]
    path = written(tmp_path / "b.json", '{"text": "ab", "label": {"X": {"b": [[1, 1]]}}}\n')
    assert read(path, "tagging") == [expected]
    assert read([(["a", "b"], ["O", "B-X"])], "tagging") == [expected]
    assert read([expected], "tagging") == [expected]
    assert read(written(tmp_path / "c.jsonl", [{"tokens": ["a"], "tags": [3]}]), "tagging")[0].tags == ("3",)


@pytest.mark.parametrize(
    ("tags", "scheme", "repaired", "message"),
    [
        (
            "O I-A I-A B-B O B-A",
            "auto",
            "O B-A I-A B-B O B-A",
            "I-A after O: no entity of this type is open (token 2, 'b')",
        ),
        ("O B-A I-B B-A", "bio", "O B-A B-B B-A", "I-B after B-A: no entity of this type is open (token 3, 'c')"),
        ("B-A O E-A", "auto", "B-A O B-A", "B-A before O: the entity does not end (token 1, 'a')"),
        ("O S-A M-A", "auto", "O B-A B-A", "M-A after S-A: no entity of this type is open (token 3, 'c')"),
        ("O B-A", "bioes", "O B-A", "B-A before the end: the entity does not end (token 2, 'b')"),
    ],
)
def test_impossible_tags_are_repaired_and_counted_or_refused(tags, scheme, repaired, message):
    rows = [(list("abcdef")[: len(tags.split())], tags.split())]
    found = open_examples(rows, "tagging", ExamplesConfig(tag_scheme=scheme))
    assert " ".join(next(iter(found)).tags) == repaired
    assert found.stats().repaired_tags >= 1
    with pytest.raises(CorpusError) as error:
        read(rows, "tagging", tag_scheme=scheme, bad_tags="error")
    assert f"examples from Python: item 0: {message}" in str(error.value)
