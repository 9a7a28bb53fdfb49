"""Documents with relations, as JSON and as a source of training: what is read, and what is refused and named."""

import json
import lzma
import sys
from functools import reduce

import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.relation_files import (
    holds_documents,
    open_documents,
    read_documents,
    read_relation_data,
    require_measurable,
)
from wenmai.data.relation_settings import RelationsConfig
from wenmai.data.relations import (
    Entity,
    Mention,
    Relation,
    RelationDocument,
    cooccurring,
    docred_documents,
    facts_of,
    not_asked,
    read_docred,
    relation_names,
)


def span(name, sentence, start, end, kind="PER"):
    return {"name": name, "sent_id": sentence, "pos": [start, end], "type": kind}


def record(**changed):
    """Two sentences, three entities, one relation."""
    return {
        "title": "Ada",
        "sents": [["Ada", "Lovelace", "wrote", "."], ["Ada", "met", "Babbage", "in", "London", "."]],
        "vertexSet": [
            [span("Ada Lovelace", 0, 0, 2), span("Ada", 1, 0, 1)],
            [span("Babbage", 1, 2, 3)],
            [span("London", 1, 4, 5, "LOC")],
        ],
        "labels": [{"h": 0, "t": 1, "r": "P1", "evidence": [1]}],
        **changed,
    }


@pytest.fixture
def read(tmp_path):
    def found(content, name="some.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return read_docred(path)

    return found


def test_a_document(read):
    (document,) = read([record()])
    assert document.title == "Ada"
    assert document.sentences[1] == ("Ada", "met", "Babbage", "in", "London", ".")
    assert [one.type for one in document.entities] == ["PER", "PER", "LOC"]
    assert document.entities[0].mentions == (Mention("Ada Lovelace", 0, 0, 2, "PER"), Mention("Ada", 1, 0, 1, "PER"))
    assert document.relations == (Relation(0, 1, "P1", (1,)),)
    assert document.pairs is None
    assert cooccurring(document, 0, 1) == [1]
    assert facts_of([document]) == {("Ada Lovelace", "Babbage", "P1"), ("Ada", "Babbage", "P1")}
    assert docred_documents([record()], "here") == [document]


def test_what_may_be_missing_and_what_is_not_known(read):
    bare = record(unknown={"a": 1}, vertexSet=[[{"sent_id": 1, "pos": [2, 5], "global_pos": [6], "index": "0_0"}]])
    del bare["title"], bare["labels"]
    (document,) = read([bare])
    assert (document.title, document.relations) == ("", ())
    assert document.entities[0].mentions == (Mention("Babbage in London", 1, 2, 5, ""),)
    (document,) = read([record(vertexSet=[], labels=[])])
    assert document.entities == ()
    assert read([record(labels=None)])[0].relations == ()
    assert read([]) == []


def test_mentions_may_overlap_and_sentences_be_empty(read):
    (document,) = read([record(sents=[["a", "b"], [], ["c"]], labels=[], vertexSet=[
        [span("a b", 0, 0, 2)], [span("b", 0, 1, 2), span("c", 2, 0, 1)], [span("a b", 0, 0, 2)],
    ])])  # fmt: skip
    assert [len(one.mentions) for one in document.entities] == [1, 2, 1]


def test_of_relations_that_are_given_twice_the_last_counts(read):
    twice = [{"h": 0, "t": 1, "r": "P1", "evidence": []}, {"h": 0, "t": 1, "r": "P1", "evidence": [1, 0, 1]}]
    both = [*twice, {"h": 1, "t": 0, "r": "P1"}, {"h": 0, "t": 1, "r": "P2"}]
    (document,) = read([record(labels=both)])
    assert document.relations == (Relation(0, 1, "P1", (0, 1)), Relation(1, 0, "P1"), Relation(0, 1, "P2"))


def test_compressed_files_and_a_byte_order_mark(read):
    plain = read([record()])
    content = json.dumps([record()]).encode()
    assert read(lzma.compress(content), "some.json.xz") == plain
    assert read(b"\xef\xbb\xbf" + content) == plain


def label(**changed):
    return [{"h": 0, "t": 1, "r": "P1", "evidence": [], **changed}]


def vertex(**changed):
    return [[{**span("Ada", 0, 0, 1), **changed}]]


WRONG = [
    ({"sents": None}, "sents is missing; expected a list"),
    ({"sents": "Ada"}, 'sents is "Ada"'),
    ({"sents": ["Ada met"]}, 'sents[0] is "Ada met"; expected a list of words'),
    ({"sents": [["Ada"], ["met", 3]]}, "sents[1]"),
    ({"sents": []}, "sents has no words"),
    ({"sents": [[], []]}, "sents has no words"),
    ({"title": 3}, "title is 3; expected a string"),
    ({"vertexSet": None}, "vertexSet is missing"),
    ({"vertexSet": {}}, "vertexSet is {}"),
    ({"vertexSet": [[]]}, "vertexSet[0] is []; expected a list of mentions, at least one"),
    ({"vertexSet": [{}]}, "vertexSet[0] is {}"),
    ({"vertexSet": [["Ada"]]}, 'vertexSet[0][0] is "Ada"; expected an object'),
    ({"vertexSet": vertex(sent_id=2)}, "vertexSet[0][0].sent_id is 2; expected a number of the 2 sentences, from 0"),
    ({"vertexSet": vertex(sent_id=-1)}, "sent_id is -1"),
    ({"vertexSet": vertex(sent_id=True)}, "sent_id is true"),
    ({"vertexSet": vertex(sent_id=0.0)}, "sent_id is 0.0"),
    ({"vertexSet": vertex(sent_id=1 << 80)}, "sent_id is 12089"),
    ({"vertexSet": vertex(pos=[0, 5])}, "vertexSet[0][0].pos [0, 5] is not within the 4 words of sentence 0"),
    ({"vertexSet": vertex(pos=[-1, 1])}, "is not within the 4 words"),
    ({"vertexSet": vertex(pos=[3, 1])}, "pos [3, 1] is not within"),
    ({"vertexSet": vertex(pos=[2, 2])}, "pos [2, 2] is empty"),
    ({"vertexSet": vertex(pos=[0])}, "pos is [0]; expected the first word and the one behind the last"),
    ({"vertexSet": vertex(pos=[0, True])}, "pos is [0, true]"),
    ({"vertexSet": vertex(pos=[0.0, 1.0])}, "pos is [0.0, 1.0]"),
    ({"vertexSet": vertex(pos=None)}, "pos is missing"),
    ({"vertexSet": vertex(type=["PER"])}, "type and name are strings"),
    ({"vertexSet": vertex(name=7)}, "type and name are strings"),
    ({"labels": {"h": 0}}, 'labels are {"h": 0}; expected a list'),
    ({"labels": "P1"}, 'labels are "P1"'),
    ({"labels": ["P1"]}, 'labels[0] is "P1"; expected an object'),
    ({"labels": label(h=3)}, "labels[0].h is 3; expected a number of the 3 entities, from 0"),
    ({"labels": label(t=-1)}, "labels[0].t is -1"),
    ({"labels": label(t="1")}, 'labels[0].t is "1"'),
    ({"labels": label(t=0)}, "head and tail are both entity 0"),
    ({"labels": label(r=17)}, "labels[0].r is 17; expected the name of a relation"),
    ({"labels": label(r="")}, 'labels[0].r is ""'),
    ({"labels": label(evidence=[2])}, "labels[0].evidence is [2]; expected numbers of the 2 sentences"),
    ({"labels": label(evidence=[True])}, "evidence is [true]"),
    ({"labels": label(evidence=1)}, "evidence is 1"),
    ({"labels": [*label(), *label(r=None)]}, "labels[1].r is missing"),
    (
        {"sents": [["Ada", "\ud83d", "met", "Bob"], ["x"] * 9]},
        r"has the lone surrogate '\ud83d', which is no character",
    ),
    ({"vertexSet": vertex(name="\ud83d"), "labels": []}, "has the lone surrogate"),
    ({"vertexSet": vertex(type="\ud83d"), "labels": []}, "has the lone surrogate"),
    ({"labels": label(r="P\ud83d")}, "has the lone surrogate"),
]


@pytest.mark.parametrize(("changed", "why"), WRONG, ids=[why[:40] for _, why in WRONG])
def test_a_wrong_document_is_named(read, changed, why):
    with pytest.raises(CorpusError) as caught:
        read([record(title="before"), record(**changed)])
    title = " ('Ada')" if changed.get("title", "") == "" else ""
    assert f"some.json: document 2{title}: " in str(caught.value)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not JSON"),
        (b"nothing of the kind", "is not JSON"),
        (json.dumps([record()]).encode()[:-30], "is not JSON"),
        (lzma.compress(json.dumps([record()] * 99).encode())[:-40], "some.json"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff\xfe[]", "is not JSON"),
        ({"P1": "knows"}, "document 1: sents is missing; expected a list"),
        (b'{"title": 3}\n{"title"', "line 2 is not JSON"),
        (b'{\n"title"', "is not JSON"),
        (3, "expected a JSON list of documents, not int"),
        ([3], "document 1: expected an object, not 3"),
        ([[]], "document 1: expected an object, not []"),
    ],
)
def test_a_file_that_is_something_else(read, content, why):
    with pytest.raises(CorpusError) as caught:
        read(content)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_within_values(read):
    """As deep as Python's JSON reads; what is shown of it in the message is not deeper than it writes."""
    for depth in range(1, sys.getrecursionlimit() + 10):
        with pytest.raises(CorpusError):
            read(b'[{"title": ' + b"[" * depth + b"]" * depth + b"}]")


def test_what_is_not_there(tmp_path):
    with pytest.raises(CorpusError, match="no such file"):
        read_docred(tmp_path / "none.json")
    with pytest.raises(CorpusError, match="folder"):
        read_docred(tmp_path)


def test_what_relations_mean(tmp_path):
    path = tmp_path / "names.json"
    path.write_text('{"P1": "knows"}')
    assert relation_names(path) == {"P1": "knows"}
    for wrong in ("[]", '{"P1": 1}', "P1", r'{"P1": "knows \ud83d"}'):
        path.write_text(wrong)
        with pytest.raises(CorpusError, match=r"names\.json"):
            relation_names(path)


# --- what is trained on ----------------------------------------------------------------------------------------------


def titled(count, relation="P1"):
    return [record(title=str(number), labels=label(r=relation)) for number in range(count)]


def data_of(spec, seed=0, **settings):
    return read_relation_data(open_documents(spec), RelationsConfig(**settings), seed=seed)


PUBTATOR = "1|t|Aspirin pain\n1\t0\t7\tAspirin\tChemical\tD1\n1\t8\t12\tpain\tDisease\tD2\n1\tP1\tD1\tD2\n"


def test_without_a_pair_there_is_nothing_to_learn():
    (document,) = docred_documents([record()], "here")
    with pytest.raises(CorpusError, match="no document has a pair of entities whose relation is asked for"):
        data_of([document._replace(pairs=())], valid_share=0)
    assert (not_asked(document), not_asked(document._replace(pairs=()))) == (0, len(document.relations))


def test_identifiers_and_pairs_are_read():
    one = record()
    one["vertexSet"][0][0]["id"] = "D1"
    (document,) = docred_documents([one | {"pairs": [[0, 1]]}], "here")
    assert (document.entities[0].id, document.pairs) == ("D1", ((0, 1),))
    for wrong in ([[0, 0]], [[0, 9]], [[0]], [1]):
        with pytest.raises(CorpusError, match=r"pairs\[0\] is .*; expected two of the "):
            docred_documents([record() | {"pairs": wrong}], "here")


def test_data_of_a_training(tmp_path):
    path = tmp_path / "some.json"
    path.write_text(json.dumps(titled(60)))
    data = data_of(path)
    assert 0 < len(data.valid) < 15
    assert len(data.train) + len(data.valid) == 60
    assert data.labels == ("Na", "P1")
    assert data.types == ("LOC", "PER")
    assert data.seen == {("Ada Lovelace", "Babbage", "P1"), ("Ada", "Babbage", "P1")}
    assert data.stats["documents"] == len(data.train)
    assert data.stats["mentions"] == 4 * len(data.train)
    assert data.sources[0]["path"] == str(path)
    same = data_of(titled(60))
    assert same.fingerprint == data.fingerprint
    assert same.sources == []
    assert data_of(titled(60), valid_share=0.2).fingerprint != data.fingerprint
    assert data_of(titled(60), valid_share=0).valid == []


def test_other_files_that_are_not_there(tmp_path):
    (tmp_path / "some.txt").write_text(PUBTATOR)
    for spec, setting, why in (
        (titled(60), "meanings", "a JSON file of what relations mean"),
        (tmp_path / "some.txt", "hypernyms", "of MeSH tree numbers"),
    ):
        with pytest.raises(CorpusError, match=f"/nosuch: no such file; expected .*{why}, or data:NAME"):
            data_of(spec, valid_share=0, **{setting: "/nosuch"})


def test_hypernyms_are_of_mesh_identifiers(tmp_path):
    trees, path = tmp_path / "trees.txt", tmp_path / "documents.json"
    trees.write_text("D000001\tC01\n")
    path.write_text(json.dumps(titled(3)))
    with pytest.raises(SettingError, match=r"hypernyms=.* has no effect on documents of DocRED"):
        data_of(path, hypernyms=str(trees))
    some = tmp_path / "some.txt"
    some.write_text(PUBTATOR)
    with pytest.raises(
        CorpusError, match=r"trees.txt: has none of the identifiers of the documents, such as 'D1', but"
    ):
        data_of(some, valid_share=0, hypernyms=str(trees))
    trees.write_text("D2\tC01\n")
    valid = data_of(some, valid=str(path), hypernyms=str(trees))  # which has no identifiers
    assert [len(valid.train), len(valid.valid)] == [1, 3]


def test_documents_to_validate_on_have_a_relation(tmp_path):
    path = tmp_path / "valid.json"
    path.write_text(json.dumps([record(labels=[])]))
    with pytest.raises(CorpusError, match=r"valid\.json: no document to validate on has a relation"):
        data_of(titled(5), valid=str(path))
    aside = {int(one.title) for one in data_of(titled(60)).valid}
    alone = [record(title=str(number), labels=[] if number in aside else label()) for number in range(60)]
    with pytest.raises(CorpusError, match="no document to validate on has a relation"):
        data_of(alone)


@pytest.mark.parametrize("name", ["some.json", "some.data"])
def test_one_document_or_a_document_a_line(tmp_path, name):
    path = tmp_path / name
    for content, count in (
        (json.dumps(record()), 1),
        (json.dumps(record(), indent=1), 1),
        (json.dumps(record()) + "\n\n" + json.dumps(record(labels=[])) + "\n", 2),
    ):
        path.write_text(content)
        assert holds_documents(path)
        assert read_documents(open_documents(path)) == docred_documents([record(), record(labels=[])][:count], "here")


def test_documents_are_drawn_by_the_seed():
    one, again, other = (data_of(titled(60), seed=seed, limit=10, valid_share=0) for seed in (1, 1, 2))
    assert len(one.train) == 10
    assert one.train == again.train != other.train
    assert len(data_of(titled(60), limit=1000, valid_share=0).train) == 60


def test_files_by_their_contents(tmp_path):
    (tmp_path / "some.data").write_text(" \n" + json.dumps([record()]))
    (tmp_path / "other.data").write_text("1|t|Aspirin\n")
    found = read_documents(open_documents([tmp_path / "some.data", tmp_path / "other.data"]))
    assert [one.title for one in found] == ["Ada", "Aspirin"]


def test_valid_of_its_own(tmp_path):
    path = tmp_path / "valid.json"
    path.write_text(json.dumps(titled(2)))
    data = data_of(titled(5), valid=str(path))
    assert [len(data.train), len(data.valid)] == [5, 2]
    assert [one["path"] for one in data.sources] == [str(path)]
    path.write_text(json.dumps([*titled(2), *titled(1, "P2")]))
    assert data_of(titled(5), valid=str(path)).unknown == {"P2": 1}
    path.write_text(json.dumps(titled(1, "P2")))
    with pytest.raises(CorpusError, match="have no relation that those to train on have") as caught:
        data_of(titled(5), valid=str(path))
    assert str(path) in str(caught.value)
    assert "P1" in str(caught.value)
    require_measurable(docred_documents(titled(1, "P2"), "here"), "here")
    with pytest.raises(CorpusError, match="here: no document has a relation; expected labels to measure with"):
        require_measurable(docred_documents([record(labels=[])], "here"), "here")
    alone = [
        document._replace(entities=document.entities[:1], relations=()) for document in docred_documents(titled(2), "x")
    ]
    with pytest.raises(CorpusError, match="here: none of 2 documents has two entities"):
        require_measurable(alone, "here")


@pytest.mark.parametrize(
    ("documents", "settings", "why"),
    [
        ([], {}, "documents from Python: no documents"),
        (titled(1), {"valid_share": 0.001}, "too few documents to set some aside"),
        (titled(1), {"valid_share": 0.999}, "all documents were set aside"),
        ([record(labels=[])] * 2, {"valid_share": 0}, "no document has a relation"),
        ([record(vertexSet=[], labels=[])] * 2, {"valid_share": 0}, "no document has two entities"),
        ([record(vertexSet=vertex(), labels=[])], {"valid_share": 0}, "no document has two entities"),
        (titled(3, "Na"), {"valid_share": 0}, "a relation is called 'Na'"),
        ([*titled(1), 3], {}, "documents from Python: document 2: expected an object, not 3"),
    ],
)
def test_documents_to_learn_nothing_from(documents, settings, why):
    with pytest.raises(CorpusError) as caught:
        data_of(documents, **settings)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("nowhere.json", "no such file; expected documents"),
        (["nowhere.json", "else.json"], "no such file"),
        (record(), "are a list of documents, not dict"),
        (3, "are a list of documents, not int"),
    ],
)
def test_what_are_no_documents(spec, why):
    with pytest.raises(CorpusError, match=why):
        open_documents(spec)


GOOD = docred_documents([record()], "here")[0]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sentences": ()}, "entity 0: sentence 0 is none of the 0"),
        ({"entities": (Entity((), "PER"),)}, "entity 0 has no mention"),
        ({"entities": (Entity((Mention("x", 2, 0, 1, "PER"),), "PER"),)}, "entity 0: sentence 2"),
        ({"entities": (Entity((Mention("x", 0, 1, 1, "PER"),), "PER"),)}, "entity 0: words 1 to 1"),
        ({"entities": (Entity((Mention("x", 0, 0, 9, "PER"),), "PER"),)}, "entity 0: words 0 to 9"),
        ({"relations": (Relation(0, 3, "P1"),)}, "relation 'P1' between 0 and 3"),
        ({"relations": (Relation(1, 1, "P1"),)}, "relation 'P1' between 1 and 1"),
        ({"relations": (Relation(0, 1, "P1", (2,)),)}, "evidence"),
        ({"pairs": ((0, 1), (-1, 0))}, "pair of -1 and 0"),
        ({"pairs": ((2, 2),)}, "pair of 2 and 2"),
    ],
)
def test_documents_that_were_made_in_python(changed, why):
    assert read_documents(open_documents([GOOD])) == [GOOD]
    with pytest.raises(CorpusError) as caught:
        read_documents(open_documents([GOOD, GOOD._replace(**changed)]))
    assert why in str(caught.value)
    assert "documents from Python: document 2 ('Ada')" in str(caught.value)


def test_what_is_given_twice_in_python_counts_once():
    (relation, *_), pair = GOOD.relations, (GOOD.relations[0].head, GOOD.relations[0].tail)
    twice = GOOD._replace(relations=(*GOOD.relations, relation), pairs=(pair, [*pair]))
    (found,) = read_documents(open_documents([twice]))
    assert sorted(found.relations) == sorted(GOOD.relations)
    assert found.pairs == (pair,)
    (found,) = docred_documents([record(pairs=[[0, 1], [0, 1]])], "here")
    assert found.pairs == ((0, 1),)


def test_a_document_of_python_between_records():
    found = read_documents(open_documents([record(title="a"), GOOD, record(title="b")]))
    assert [one.title for one in found] == ["a", "Ada", "b"]
    assert isinstance(found[0], RelationDocument)


# --- Re-DocRED ------------------------------------------------------------------------------------------------------


def test_redocred(shared_data):
    folder = shared_data / "redocred"
    documents = read_docred(folder / "dev_revised.json.xz")
    names = relation_names(folder / "rel_info.json")
    with lzma.open(folder / "dev_revised.json.xz") as file:
        raw = json.load(file)
    assert len(documents) == len(raw) == 500
    assert len(names) == 96
    assert {one.relation for document in documents for one in document.relations} <= names.keys()
    for document, one in zip(documents, raw, strict=True):
        assert len(document.entities) == len(one["vertexSet"])
        assert {row[:3] for row in document.relations} == {(row["h"], row["t"], row["r"]) for row in one["labels"]}
    count = reduce(lambda total, one: total + len(one.relations), documents, 0)
    assert count / 500 == pytest.approx(34.6, abs=0.05)  # as its authors say
    data = data_of(documents)
    assert len(data.labels) <= 97
    assert data.types == ("LOC", "MISC", "NUM", "ORG", "PER", "TIME")
