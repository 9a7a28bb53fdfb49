"""PubTator files: entities by their ids, pairs of chemicals and diseases, and lines that are wrong."""

import gzip
import lzma
from collections import Counter

import pytest

from wenmai.core.errors import CorpusError
from wenmai.data.pubtator import read_pubtator, read_tree_numbers
from wenmai.data.relations import cooccurring

TEXT = "Aspirin and X-1. Renal and liver failure after aspirin."
HEAD = "7|t|Aspirin and X-1.\n7|a|Renal and liver failure after aspirin.\n"


def mention(text, kind, name, begin=0):
    start = TEXT.index(text, begin)
    return f"7\t{start}\t{start + len(text)}\t{text}\t{kind}\t{name}\n"


MENTIONS = (
    mention("Aspirin", "Chemical", "D1")
    + mention("X-1", "Chemical", "-1")
    + mention("Renal and liver failure", "Disease", "D8|D9").replace("\n", "\tRenal failure|liver failure\n")
    + mention("aspirin", "Chemical", "D1")
)


@pytest.fixture
def read(tmp_path):
    def found(content, trees=None):
        path = tmp_path / "some.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_pubtator(path, trees=trees)

    return found


def named(document):
    """What entities are called, in order, with the sentence of each mention."""
    return [(one.id, [(mention.name, mention.sentence) for mention in one.mentions]) for one in document.entities]


@pytest.mark.parametrize("none", ["-1", "-", ""])
def test_a_document(read, none):
    (document,) = read(HEAD + MENTIONS.replace("\t-1", f"\t{none}") + "7\tCID\tD1\tD9\n")
    assert document.title == "Aspirin and X-1."
    assert [" ".join(words) for words in document.sentences] == [
        "Aspirin and X - 1 .",
        "Renal and liver failure after aspirin .",
    ]
    composite = ("Renal and liver failure", 1)
    assert named(document) == [
        ("D1", [("Aspirin", 0), ("aspirin", 1)]),
        ("", [("X-1", 0)]),
        ("D8", [composite]),
        ("D9", [composite]),
    ]
    assert [one.type for one in document.entities] == ["Chemical", "Chemical", "Disease", "Disease"]
    assert document.entities[1].mentions[0][2:4] == (2, 5)
    assert document.pairs == ((0, 2), (0, 3))
    assert document.relations == ((0, 3, "CID", ()),)


def test_several_ids_of_one_mention_and_a_variant_that_is_one_id(read):
    for several in ("D1|D3", "D1,D3", "D1;D3"):
        (document,) = read(HEAD + mention("Aspirin", "Gene", several))
        assert [one.id for one in document.entities] == ["D1", "D3"]
    (document,) = read(HEAD + mention("Aspirin", "SequenceVariant", "p|SUB|V|617|F") + mention("X-1", "Gene", "c|SUB"))
    assert [one.id for one in document.entities] == ["p|SUB|V|617|F", "c|SUB"]


def test_relations_of_biored_say_whether_they_are_new(read):
    (document,) = read(HEAD + MENTIONS + "7\tAssociation\tD1\tD9\tNovel\n7\tBind\tD1\tD8\tNo\n")
    assert [one[:3] for one in document.relations] == [(0, 3, "Association"), (0, 2, "Bind")]


def test_a_document_has_its_identifier_and_all_of_its_title(read):
    (document,) = read(f"227508|t|{'long ' * 100}title\n")
    assert (document.id, document.title) == ("227508", f"{'long ' * 100}title")
    assert document.name == f"227508 {document.title}"


def test_words_are_those_of_the_mentions(read):
    text = "Drug-induced x/y hepatitis-B-positive ab"
    content = f"1|t|{text}\n1\t0\t4\tDrug\tChemical\tD1\n"
    content += f"1\t{text.index('hep')}\t{text.index('-pos')}\thepatitis-B\tDisease\tD2\n"
    content += f"1\t{len(text) - 1}\t{len(text)}\tb\tDisease\tD3\n"
    (document,) = read(content)
    (words,) = document.sentences
    spans = [" ".join(words[one.start : one.end]) for entity in document.entities for one in entity.mentions]
    assert spans == ["Drug", "hepatitis - B", "b"]
    assert words[-2:] == ("a", "b")


def test_mentions_that_overlap_or_are_in_two_sentences(read):
    text = "Acute renal failure. Dialysis."
    content = f"1|t|{text}\n1\t0\t19\tAcute renal failure\tDisease\tD1\n1\t6\t19\trenal failure\tDisease\tD2\n"
    (document,) = read(content + f"1\t12\t{len(text)}\tfailure. Dialysis.\tDisease\tD3\n")
    assert [tuple(one.mentions[0])[1:4] for one in document.entities] == [(0, 0, 3), (0, 1, 3), (0, 2, 4)]


def test_several_documents_with_blank_lines_between_and_windows_line_ends(read):
    content = "\n\n" + HEAD + MENTIONS + " \n\n8|t|Nothing.\r\n8|a|\r\n\n"
    first, second = read(content)
    assert len(first.entities) == 4
    assert (second.title, second.sentences, second.entities, second.pairs) == (
        "Nothing.",
        (("Nothing", "."),),
        (),
        None,
    )
    assert read(gzip.compress(content.encode())) == [first, second]


def test_what_is_asked_is_the_same_in_all_of_a_file(read):
    usual = HEAD + MENTIONS + "7\tCID\tD1\tD9\n"
    assert [one.pairs for one in read(usual + "\n" + HEAD + MENTIONS)] == 2 * [((0, 2), (0, 3))]
    for other in (
        usual + "\n" + HEAD + mention("Aspirin", "Gene", "1"),
        HEAD + MENTIONS,  # without a relation the model has to know
        HEAD + MENTIONS + "7\tCID\tD9\tD1\n",  # from a disease to a chemical
        HEAD + mention("Aspirin", "Chemical", "1") + mention("X-1", "Chemical", "2") + "7\tDDI\t1\t2\n",
    ):
        assert {one.pairs for one in read(other)} == {None}


def test_a_relation_between_mentions_of_one_entity_is_none(read):
    (document,) = read(HEAD + MENTIONS + "7\tCID\tD1\tD1\n7\tCID\tD1\tD8\n7\tCID\tD1\tD8\n")
    assert document.relations == ((0, 2, "CID", ()),)


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        ("7\t0\t7\tAspirin\tChemical\tD1\n", 1, "expected PMID|t|TITLE at the beginning"),
        ("nothing of the kind\n", 1, "expected PMID|t|TITLE"),
        ("7|x|Aspirin\n", 1, "expected PMID|t|TITLE"),
        (HEAD + "8\t0\t7\tAspirin\tChemical\tD1\n", 3, "is of document '8' within '7'"),
        (HEAD + "7|t|Again\n", 3, "a second title"),
        (HEAD + "7|a|Again\n", 3, "a second abstract"),
        ("7|a|Aspirin\n", 1, "has no title"),
        (HEAD + "7\t0\tAspirin\tChemical\tD1\n", 3, "expected PMID, first character"),
        (HEAD + "7\tone\t7\tAspirin\tChemical\tD1\n", 3, "expected PMID, first character"),
        (HEAD + "7\t-1\t7\tAspirin\tChemical\tD1\n", 3, "expected PMID, first character"),
        (HEAD + "7\t0\t²\tAspirin\tChemical\tD1\n", 3, "expected PMID, first character"),
        (HEAD + "7\t0\t" + "9" * 5000 + "\tAspirin\tChemical\tD1\n", 3, "expected PMID, first character"),
        (HEAD + "7\t0\t99999\tAspirin\tChemical\tD1\n", 3, "are not within the 55 of document '7'"),
        (HEAD + "7\t7\t7\t\tChemical\tD1\n", 3, "characters 7 to 7"),
        (HEAD + "7\t9\t7\tAspirin\tChemical\tD1\n", 3, "characters 9 to 7"),
        (HEAD + "7\t3\t10\tAspirin\tChemical\tD1\n", 3, "characters 3 to 10 are 'irin an', not 'Aspirin'"),
        (HEAD + "7\t7\t8\t \tChemical\tD1\n", 3, "have no words"),
        ("7|t| \n7\t0\t1\t \tChemical\tD1\n", 2, "have no words"),
        (HEAD + MENTIONS + "7\tCID\tD1\tD7\n", 7, "the relation CID is to 'D7', which document '7' never mentions"),
        (HEAD + MENTIONS + "7\tCID\t-1\tD8\n", 7, "is to '-1'"),
        (HEAD + MENTIONS + "7\tCID\tD1\n", 7, "expected PMID, first character"),
        (HEAD + MENTIONS + "7\tCID\tD1\tD8\tmore\n", 7, "expected PMID, first character"),
        (HEAD.encode() + b"7\t0\t7\tAsp\xffirin\tChemical\tD1\n", 3, "is not utf-8"),
        (HEAD.encode() + b"7\t0\t7\tAsp\0irin\tChemical\tD1\n", 3, "NUL"),
    ],
)
def test_a_wrong_line_is_named(read, content, line, why):
    with pytest.raises(CorpusError) as caught:
        read(content)
    assert f"some.txt: line {line}: " in str(caught.value)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_noticed(tmp_path):
    path = tmp_path / "some.txt.xz"
    path.write_bytes(lzma.compress((HEAD + MENTIONS).encode() * 50)[:-20])
    with pytest.raises(CorpusError, match=r"some\.txt\.xz"):
        read_pubtator(path)


def test_nothing_is_no_document(read):
    assert read("") == read("\n \n") == []


# --- more general terms ----------------------------------------------------------------------------------------------

GENERAL = "7|t|Aspirin Renal liver failure\n" + "".join(
    f"7\t{start}\t{end}\t{'Aspirin Renal liver failure'[start:end]}\t{kind}\t{name}\n"
    for start, end, kind, name in (
        (0, 7, "Chemical", "D1"),
        (8, 13, "Disease", "D2"),
        (14, 19, "Disease", "D3"),
        (20, 27, "Disease", "D4"),
    )
)


def test_pairs_with_more_general_terms_are_left_out(read):
    trees = {"D2": ("C12.777", "C01.5"), "D3": ("C12.777.419", "C23"), "D4": ("C12.77",)}
    cases = {
        "7\tCID\tD1\tD3\n": [(0, 2), (0, 3)],  # D2 is above D3; D4's number is but the beginning of the letters
        "7\tCID\tD1\tD2\n": [(0, 1), (0, 2), (0, 3)],  # D3 is below
        "7\tCID\tD1\tD3\n7\tCID\tD1\tD2\n": [(0, 1), (0, 2), (0, 3)],  # what has the relation stays
    }
    for relations, pairs in cases.items():
        (document,) = read(GENERAL + relations, trees)
        assert list(document.pairs) == pairs
        assert len(document.entities) == 4
        (document,) = read(GENERAL + relations)
        assert list(document.pairs) == [(0, 1), (0, 2), (0, 3)]


def test_more_general_terms_are_those_of_diseases_alone(read):
    trees = {"D2": ("C12.777",), "D3": ("C12.777.419",)}
    genes = GENERAL.replace("27\tfailure\tDisease", "27\tfailure\tGene")
    assert genes != GENERAL
    with pytest.raises(CorpusError, match="relations of a Chemical to a Disease; hypernyms is for these alone"):
        read(genes + "7\tCID\tD1\tD3\n", trees)
    for content in (genes, GENERAL):  # without relations there is nothing to be more general than
        assert read(content, trees)[0].pairs is None


def test_tree_numbers(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("D1\tC14.280\n\nD1\tC20\nD2\tC1.2, C3;C4 C5\nD3 \t D4.1 \n")
    assert read_tree_numbers(path) == {
        "D1": ("C14.280", "C20"),
        "D2": ("C1.2", "C3", "C4", "C5"),
        "D3": ("D4.1",),
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("D1 C14\n", "line 1: 'D1 C14' is no MeSH id"),
        ("D1\tC1\nD2\t14\n", "line 2: "),
        ("D1\tC1.\n", "line 1: "),
        ("\tC1\n", "line 1: "),
        ("D1\t\n", "line 1: "),
        ("", "has no tree numbers"),
        (b"D1\t\xff\n", "is not utf-8"),
    ],
)
def test_wrong_tree_numbers(tmp_path, content, why):
    path = tmp_path / "trees.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CorpusError) as caught:
        read_tree_numbers(path)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


# --- the corpus of BioCreative V ------------------------------------------------------------------------------------


def prepared(path):
    """Pairs by the public preparation of the corpus: of each document (ids) -> (label, whether in one sentence)."""
    found = {}
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            name, _, *columns = line.rstrip("\n").split("\t")
            rows = [columns[at : at + 17] for at in range(0, len(columns), 17)]
            found[name] = {frozenset((row[5], row[11])): (row[0], row[2]) for row in rows}
    return found


@pytest.mark.parametrize(
    ("name", "other", "relations"), [("Training", "train", 1038), ("Development", "dev", 1012)], ids=["train", "dev"]
)
def test_the_corpus_against_its_public_preparation(shared_data, name, other, relations):
    path = shared_data / "cdr" / f"CDR_{name}Set.PubTator.txt.xz"
    expected = prepared(shared_data / "cdr" / f"{other}_filter.data.xz")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        names = [line.partition("|")[0] for line in file if "|t|" in line]
    documents = read_pubtator(path)
    assert len(documents) == len(names) == len(expected) == 500
    differ, count = Counter(), 0
    for number, document in zip(names, documents, strict=True):
        related = {(one.head, one.tail) for one in document.relations}
        assert related <= set(document.pairs)
        count += len(related)
        found = {}
        for pair in document.pairs:
            ids = frozenset(document.entities[side].id for side in pair)
            near = "NON-CROSS" if cooccurring(document, *pair) else "CROSS"
            found[ids] = ("1:CID:2" if pair in related else "1:NR:2", near)
        assert found.keys() == expected[number].keys()
        for ids, (label, near) in expected[number].items():
            assert found[ids][0] == label.replace("not_include", "1:NR:2")  # of the terms that are more general
            differ[found[ids][1], near] += 1
    assert count == relations
    assert differ["NON-CROSS", "CROSS"] + differ["CROSS", "NON-CROSS"] < 0.005 * differ.total()  # other sentences
