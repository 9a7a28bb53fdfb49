"""Minimal pairs: the forms of their files, where they are looked for, and how sentences are spelled."""

import json
import lzma
from collections import Counter

import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data import catalogue
from wenmai.data.minimal_pairs import SPELLINGS, MinimalPair, read_minimal_pairs, require_minimal_pairs

GOOD = MinimalPair("He sings.", "He sing.", "agreement_1", "agreement")


def blimp(good="He sings.", bad="He sing.", uid="agreement_1", term="agreement", **others):
    named = {"sentence_good": good, "sentence_bad": bad, "UID": uid, "linguistics_term": term, "field": "syntax"}
    return json.dumps(named | others, ensure_ascii=False) + "\n"


def test_json_lines_are_read_as_blimp_has_them(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(blimp(pairID="0") + "\n" + blimp("他在。", "在他。", uid="order", term="syntax"), encoding="utf-8")
    assert read_minimal_pairs(path) == [GOOD, MinimalPair("他在。", "在他。", "order", "syntax")]
    packed = tmp_path / "pairs.dev.jsonl.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    assert read_minimal_pairs(str(packed)) == read_minimal_pairs(path)


def test_a_folder_is_the_files_in_it(tmp_path):
    (tmp_path / "b.jsonl").write_text(blimp(uid="b"))
    (tmp_path / "a.jsonl").write_text(blimp(uid="a") + blimp(uid="a"))
    (tmp_path / "README.md").write_text("not pairs")
    assert [pair.paradigm for pair in read_minimal_pairs(tmp_path)] == ["a", "a", "b"]
    (tmp_path / "none").mkdir()
    with pytest.raises(CorpusError, match=r"none: has no \.jsonl file"):
        read_minimal_pairs(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("He sings.\tHe sing.\n", ("my", "my")),
        ("good\tbad\nHe sings.\tHe sing.\n", ("my", "my")),
        ("sentence_good\tsentence_bad\n He sings. \tHe sing.\r\n", ("my", "my")),
        ("He sings.\tHe sing.\tagreement_1\n", ("agreement_1", "agreement_1")),
        ("\nHe sings.\tHe sing.\tagreement_1\tagreement\n\n", ("agreement_1", "agreement")),
        ('{"good": "He sings.", "bad": "He sing."}\n', ("my", "my")),
        ('{"sentence_good": "He sings.", "sentence_bad": "He sing.", "UID": "u"}\n', ("u", "u")),
        ("\ufeff" + blimp(), ("agreement_1", "agreement")),
    ],
)
def test_pairs_of_ones_own_need_no_names(tmp_path, text, names):
    path = tmp_path / "my.pairs.txt"
    path.write_text(text, encoding="utf-8")
    assert read_minimal_pairs(path) == [MinimalPair("He sings.", "He sing.", *names)]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("{", "line 2 is '{'; expected a JSON object with sentence_good and sentence_bad"),
        ("[]", "expected a JSON object"),
        ('{"sentence_good": "a"}', "expected a JSON object with sentence_good"),
        (blimp(good=" "), "' ' is no text"),
        (blimp(good=3), "'3' is no text"),
        (blimp(good="a\nb"), "a line end or a NUL within a text"),
        (blimp(bad="He sings."), "both sentences are the same"),
        (blimp(uid=3), "'3' is no text"),
        (blimp(term="a\nb"), "a line end or a NUL within a text"),
        ('{"good": "\\ud800", "bad": "a"}', "a lone surrogate"),
        ("[" * 100_000, "expected a JSON object"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, second, said):
    path = tmp_path / "pairs.jsonl"
    path.write_text(blimp() + second + "\n")
    with pytest.raises(CorpusError) as raised:
        read_minimal_pairs(path)
    assert str(raised.value).startswith(f"{path}: line 2 is ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("He sings.\n", "line 1 is 'He sings.'; expected a GOOD<TAB>BAD sentence"),
        ("a\tb\tc\td\te\n", "5 columns, not 2 to 4"),
        ("a\t\n", "'' is no text"),
        ("a\t a\n", "both sentences are the same"),
        ("", "is empty"),
        ("\n\n", "has no pairs"),
        ("good\tbad\n", "has no pairs"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path, text, said):
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(CorpusError, match=said):
        read_minimal_pairs(path)


def test_names_are_those_of_the_catalogue(tmp_path, monkeypatch):
    packed = lzma.compress(blimp().encode())
    (tmp_path / "blimp").mkdir()
    (tmp_path / "blimp" / "pairs.jsonl.xz").write_bytes(packed)
    source = catalogue.Source(mirror="blimp/pairs.jsonl.xz")
    common = {"title": "t", "purpose": "p", "language": "en", "licence": "CC0", "sources": (source,)}
    listed = (
        catalogue.Entry(name="blimp", kind="minimal-pairs", **common),
        catalogue.Entry(name="text", kind="corpus", **common),
    )
    monkeypatch.setattr(catalogue, "entries", lambda: listed)
    monkeypatch.setattr("wenmai.data.minimal_pairs.entries", lambda: listed)
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert read_minimal_pairs("blimp") == read_minimal_pairs("data:blimp") == [GOOD]
    assert require_minimal_pairs("./blimp") == [(tmp_path / "blimp" / "pairs.jsonl.xz").relative_to(tmp_path)]
    with pytest.raises(SettingError, match="data:text: has no minimal pairs; it is of the kind corpus"):
        read_minimal_pairs("data:text")
    with pytest.raises(SettingError, match="did you mean 'data:blimp'"):
        read_minimal_pairs("data:blimb")
    with pytest.raises(CorpusError, match=r"blimb: no such file; expected minimal pairs, or a name .* \(blimp\)"):
        read_minimal_pairs("blimb")


@pytest.mark.shared_data
def test_blimp_is_67_paradigms_of_100_pairs(shared_data, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    pairs = read_minimal_pairs("blimp")
    counts = Counter(pair.paradigm for pair in pairs)
    assert (len(counts), set(counts.values())) == (67, {100})
    assert len({pair.phenomenon for pair in pairs}) == 13


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("written", "Ann's guests' twenty-one dogs, weren't they? Can't be."),
        ("wikitext", "Ann 's guests ' twenty @-@ one dogs , weren 't they ? Can 't be ."),
        ("penn", "Ann 's guests ' twenty-one dogs , were n't they ? Ca n't be ."),
        ("lower", "ann's guests' twenty-one dogs, weren't they? can't be."),
        ("wikitext-lower", "ann 's guests ' twenty @-@ one dogs , weren 't they ? can 't be ."),
        ("penn-lower", "ann 's guests ' twenty-one dogs , were n't they ? ca n't be ."),
        ("letters", "ann s guests twenty one dogs weren t they can t be"),
    ],
)
def test_sentences_are_spelled_as_training_texts_are(name, spelled):
    assert SPELLINGS[name](SPELLINGS["written"]("Ann's guests' twenty-one dogs, weren't they? Can't be.")) == spelled
