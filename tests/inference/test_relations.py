"""Documents as windows of an encoder, the scores of their pairs, evidence, and files of the model."""

import json
import random

import numpy as np
import pytest
import torch

from wenmai.core.errors import CorpusError, FormatError, SettingError
from wenmai.data.mentions import Found, cut_words, entities_of
from wenmai.data.relations import Entity, Mention, Relation, RelationDocument
from wenmai.inference import framing
from wenmai.inference import relations as module_of_relations
from wenmai.inference.families import backbone_like
from wenmai.inference.masked_model import MaskedModel
from wenmai.inference.reading_config import RelationReadingConfig
from wenmai.inference.relation_facts import RelationFacts
from wenmai.inference.relation_rows import document_rows
from wenmai.inference.relations import RelationModel
from wenmai.models.bert import Bert
from wenmai.models.settings import BertConfig
from wenmai.models.ssan import Ssan, SsanConfig
from wenmai.nn.attention import watch_attention
from wenmai.nn.structure_bias import dependencies
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

WORDS = 400
LABELS, TYPES = ("Na", "P1", "P2"), ("LOC", "PER")


def dense(model, rows):
    """A probability for each pair and relation, (P, C - 1), "no relation" left out."""
    found = np.full((len(rows.pairs), len(model.labels) - 1), np.nan)
    for pair, label, probability in model.likely(rows, 0.0)[0]:
        found[pair, label] = probability
    return found


@pytest.fixture(scope="module")
def tokenizer():
    """Of the words w0 to w399, each a token."""
    text = [f"w{number}" for number in range(WORDS)] * 2
    return Tokenizer.train(
        text, TokenizerConfig(kind="whitespace", vocab_size=WORDS + 20), roles=("cls", "sep", "mask")
    )


@pytest.fixture
def make(tokenizer):
    """Makes a model with drawn parameters, of windows of ``length``."""

    def made(length=64, *, decision="threshold", threshold=0.5, stride=None, most=None, structure="biaffine"):
        torch.manual_seed(0)
        config = BertConfig(hidden_size=8, num_layers=2, num_heads=2, max_length=length, dropout=0.1)
        encoder = Bert(config, vocab_size=tokenizer.vocab_size)
        backbone = backbone_like(MaskedModel(encoder, tokenizer))
        module = Ssan(
            SsanConfig(structure=structure, entity_size=6, distance_size=3),
            encoder,
            labels=len(LABELS),
            types=len(TYPES),
        )
        for name, parameter in module.named_parameters():
            if not parameter.any():
                torch.nn.init.normal_(parameter.data)
            elif name.startswith("encoder.") and parameter.dim() > 1:
                parameter.data.mul_(15)  # so that attention matters
        return RelationModel(
            module,
            backbone,
            RelationReadingConfig(max_length=most, stride=stride),
            LABELS,
            TYPES,
            decision=decision,
            threshold=threshold,
            facts=RelationFacts({"P1": "knows"}, frozenset({("a", "b", "P1")})),
        )

    return made


def document(size, mentions, *, sentence=7, seed=None, pairs=None):
    """A document of ``size`` words w0, w1, ...; of each entity the words (first, behind) of its mentions."""
    words = [f"w{number % WORDS}" for number in range(size)]
    if seed is not None:
        random.Random(seed).shuffle(words)
    sentences = tuple(tuple(words[at : at + sentence]) for at in range(0, size, sentence))
    entities = []
    for number, spans in enumerate(mentions):
        kind = ("PER", "LOC", "unknown")[number % 3]
        own = []
        for first, behind in spans:
            place, start = divmod(first, sentence)
            assert behind - first <= sentence - start
            own.append(Mention(" ".join(words[first:behind]), place, start, start + behind - first, kind))
        entities.append(Entity(tuple(own), kind))
    return RelationDocument("d", sentences, tuple(entities), (), pairs)


DOCUMENT = document(30, [[(0, 2), (17, 18)], [(8, 9)], [(22, 25), (1, 3)]])


# --- rows ------------------------------------------------------------------------------------------------------------


def rows_of(model, given, length, stride=None):
    return document_rows(given, model.backbone, TYPES, length=length, stride=stride, known={})


def test_a_document_that_fits(make, tokenizer):
    model = make()
    rows = rows_of(model, DOCUMENT, 64)
    (tokens,), (sentences,), (entities,), (types,) = rows[:4]
    assert tokens.tolist() == [
        tokenizer.cls_id,
        *tokenizer.encode(" ".join(f"w{n}" for n in range(30))).ids,
        tokenizer.sep_id,
    ]
    assert sentences.tolist() == [-1, *(number // 7 for number in range(30)), -1]
    expected = np.full(32, -1)
    for number, first, behind in ((0, 0, 2), (0, 17, 18), (1, 8, 9), (2, 22, 25), (2, 1, 3)):  # the last of several
        expected[1 + first : 1 + behind] = number
    assert entities.tolist() == expected.tolist()
    assert types.tolist() == [{0: 1, 1: 0}.get(number, -1) for number in expected.tolist()]
    members = {(0, 0), (0, 1), (0, 17), (1, 8), (2, 1), (2, 2), (2, 22), (2, 23), (2, 24)}  # but of all in the mean
    assert {tuple(one) for one in rows.members.tolist()} == {(entity, 0, 1 + place) for entity, place in members}
    assert rows.firsts.tolist() == [0, 8, 1]
    assert rows.pairs.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert rows.distances.tolist() == [8, 1, -8, -7, -1, 7]
    assert rows.width == 32


@pytest.mark.parametrize("stride", [None, 1, 4, 12, 99])
@pytest.mark.parametrize("length", [8, 14, 31])
def test_windows(make, length, stride):
    model, given = make(), document(100, [[(n, n + 1) for n in range(3, 99, 5)], [(0, 1), (99, 100)], [(50, 53)]])
    whole, rows = rows_of(model, given, 200), rows_of(model, given, length, stride)
    number = {token: place for place, token in enumerate(whole.tokens[0].tolist()[1:-1])}
    assert len(number) == 100
    covered = [[number[token] for token in row.tolist()[1:-1]] for row in rows.tokens]
    assert all(len(row) == length - 2 and row == [*range(row[0], row[0] + len(row))] for row in covered)
    every = [*range(0, 100 - length + 2, min(stride or (length - 2) // 2, length - 2)), 100 - length + 2]
    assert {row[0] for row in covered} <= set(every)
    for name in ("sentences", "entities", "types"):
        for places, values in zip(covered, getattr(rows, name), strict=True):
            assert values.tolist() == [-1, *(getattr(whole, name)[0][1:-1][places].tolist()), -1]
    found = {}
    for entity, row, place in rows.members.tolist():
        piece = covered[row][place - 1]
        assert found.setdefault((entity, piece), row) == row
        context = [min(piece - one, one + length - 3 - piece) for one in every]
        assert (
            min(piece - covered[row][0], covered[row][-1] - piece) >= max(context) - 1
        )  # in the middle either will do
    assert len(found) == len(rows.members)
    assert set(found) == {(entity, place - 1) for entity, _, place in whole.members.tolist()}
    for name in ("firsts", "pairs", "distances"):
        assert np.array_equal(getattr(rows, name), getattr(whole, name))


def test_pairs_of_a_document_that_names_them(make):
    model = make()
    assert rows_of(model, DOCUMENT._replace(pairs=((2, 0),)), 64).pairs.tolist() == [[2, 0]]
    assert rows_of(model, DOCUMENT._replace(pairs=()), 64).pairs.shape == (0, 2)


def test_entities_without_an_identifier_are_in_no_pair_where_others_have_one(make):
    model = make()
    types = [one.type for one in DOCUMENT.entities]
    model.facts = model.facts._replace(asked=frozenset((one, other) for one in types for other in types))
    every = [(head, tail) for head in range(3) for tail in range(3) if head != tail]
    assert [*map(tuple, model.rows(DOCUMENT).pairs.tolist())] == every
    first, *rest = DOCUMENT.entities
    some = DOCUMENT._replace(entities=(first, *(one._replace(id=f"D{number}") for number, one in enumerate(rest))))
    assert model.rows(some).pairs.tolist() == [[1, 2], [2, 1]]


# --- scores ----------------------------------------------------------------------------------------------------------


NOBODY, ONE = document(9, []), document(9, [[(2, 3)]])
SOME = [
    DOCUMENT,
    document(20, [[(1, 2)], [(3, 4)]], seed=1),
    document(45, [[(1, 2)], [(30, 34), (7, 8)], [(9, 10)], [(40, 41)]], seed=2),
    document(100, [[(n, n + 1)] for n in range(2, 98, 9)], seed=3),
]


@pytest.mark.parametrize("decision", ["threshold", "adaptive"])
def test_scores_are_those_of_the_network(make, decision):
    model = make(40, decision=decision)
    rows = [model.rows(one) for one in SOME]
    with torch.no_grad():
        logits = model.module.eval()(model.batch(rows))  # as in training: all documents at once
    begin = 0
    for one, read in zip(SOME, rows, strict=True):
        part = logits[begin : begin + len(read.pairs)]
        begin += len(read.pairs)
        expected = (part[:, 1:] - part[:, :1] if decision == "adaptive" else part[:, 1:]).sigmoid()
        assert np.allclose(dense(model, read), expected.numpy(), atol=1e-5)
        assert len(read.tokens) == (1 if len(one.sentences) < 6 else len(read.tokens))
    assert begin == len(logits)
    assert len(rows[-1].tokens) > 3


def test_how_much_is_read_at_once_does_not_matter(make, monkeypatch):
    model = make(20)
    expected = [dense(model, model.rows(one)) for one in SOME]
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 1)
    monkeypatch.setattr(module_of_relations, "_PAIRS_AT_ONCE", 3)
    for one, scores in zip(SOME, expected, strict=True):
        assert np.allclose(dense(model, model.rows(one)), scores, atol=1e-6)


def test_what_fits_is_read_as_a_whole_whatever_the_windows(make):
    expected = dense(make(64), make(64).rows(DOCUMENT))
    for model in (make(64, stride=1), make(64, most=32), make(64, most=33, stride=40)):
        assert np.array_equal(dense(model, model.rows(DOCUMENT)), expected)
    assert not np.allclose(dense(make(64, most=20), make(64, most=20).rows(DOCUMENT)), expected, atol=1e-4)


@pytest.mark.parametrize("evidence", ["co-occurrence", "attention"])
def test_documents_with_hardly_an_entity(make, evidence):
    model = make()
    empty = RelationDocument("", (), ())
    found = model.extract([NOBODY, ONE, empty, DOCUMENT, NOBODY._replace(pairs=())], threshold=0.0, evidence=evidence)
    assert [len(one.relations) for one in found] == [0, 0, 0, 12, 0]
    assert [one.document for one in found[:2]] == [NOBODY, ONE]
    assert model.scored([model.rows(NOBODY), model.rows(ONE)], floor=0.0) == []
    assert model.extract([]) == []


@pytest.mark.parametrize("evidence", ["co-occurrence", "attention"])
def test_a_document_of_twenty_thousand_tokens(make, evidence):
    spans = [[(place * 97 + 7 * number, place * 97 + 7 * number + 1) for place in range(200)] for number in range(12)]
    spans.append([(19_990, 19_991), (10_000, 10_001)])
    given = document(20_000, spans, sentence=20, pairs=tuple((head, 12) for head in range(12)))
    (found,) = make(128).extract([given], threshold=0.0, evidence=evidence)
    assert len(found.relations) == 24
    assert all(0 < one.probability < 1 and one.evidence for one in found.relations)


@pytest.mark.parametrize("most", [1, 3, 7, 16, 100])
def test_the_most_probable(make, most, monkeypatch):
    model = make()
    given = [model.rows(one) for one in SOME]
    every = model.scored(given, floor=0.0)
    monkeypatch.setattr(module_of_relations, "_PAIRS_AT_ONCE", 2)
    best = sorted(every, key=lambda one: -one.score)[:most]
    found = model.scored(given, floor=0.0, most=most)
    assert [one[:4] for one in found] == [one[:4] for one in every if one in best]


def test_scored(make):
    model = make()
    given = [model.rows(one) for one in SOME[:2]]
    found = model.scored(given, floor=0.0)
    done = []
    again = model.scored(given, floor=0.5, follow=lambda number, begin, logits: done.append((number, len(logits))))
    assert len(found) == 2 * (6 + 2)
    assert again == [one for one in found if one.score >= 0.5]
    assert done == [(number, len(rows.pairs)) for number, rows in enumerate(given)]
    scores = dense(model, model.rows(DOCUMENT))
    one = next(one for one in found if one[:4] == (0, 1, 2, "P2"))
    assert one.score == scores[3, 1]


# --- the verb --------------------------------------------------------------------------------------------------------


def test_extract(make):
    model = make(threshold=0.4)
    (found,) = model.extract([DOCUMENT])
    scores = dense(model, model.rows(DOCUMENT))
    assert len(found.relations) == int((scores >= 0.4).sum()) < scores.size
    assert [one.probability for one in found.relations] == sorted(
        (one.probability for one in found.relations), reverse=True
    )
    for one in found.relations:
        place = model.rows(DOCUMENT).pairs.tolist().index([one.head, one.tail])
        assert one.probability == scores[place, LABELS.index(one.relation) - 1]
        assert one.meaning == {"P1": "knows"}.get(one.relation, one.relation)
    assert model.extract([DOCUMENT], threshold=1.0)[0].relations == []
    assert make(decision="adaptive", threshold=0.9).cut == 0.5


def test_records_are_documents(make):
    record = {
        "sents": [["w1", "w2"]],
        "vertexSet": [[{"sent_id": 0, "pos": [0, 1]}], [{"sent_id": 0, "pos": [1, 2]}]],
    }
    (found,) = make().extract([record], threshold=0.0)
    assert found.document.entities[1].mentions[0].name == "w2"
    assert len(found.relations) == 4


@pytest.mark.parametrize(
    ("given", "settings", "error", "why"),
    [
        ([DOCUMENT], {"threshold": 1.5}, SettingError, "threshold=1.5 is no probability"),
        ([DOCUMENT], {"threshold": float("nan")}, SettingError, "is no probability"),
        ([DOCUMENT], {"evidence": "guess"}, SettingError, "evidence='guess'"),
        (DOCUMENT, {}, SettingError, "put a single one in brackets"),
        ({"sents": []}, {}, SettingError, "put a single one in brackets"),
        ("a.json", {}, SettingError, "put a single one in brackets"),
        ([DOCUMENT, 3], {}, CorpusError, "document 2: expected an object, not 3"),
        ([DOCUMENT, DOCUMENT._replace(pairs=((0, 9),))], {}, CorpusError, "document 2 ('d'): pair of 0 and 9"),
    ],
)
def test_what_cannot_be_extracted_from(make, given, settings, error, why):
    with pytest.raises(error) as caught:
        make().extract(given, **settings)
    assert why in str(caught.value)


def test_evidence_by_co_occurrence(make):
    (found,) = make().extract([DOCUMENT], threshold=0.0)
    by = {(one.head, one.tail): (one.evidence, one.evidence_by) for one in found.relations}
    assert by[0, 2] == by[2, 0] == ((0,), "co-occurrence")
    assert by[0, 1][1] == by[1, 2][1] == "attention"  # they share no sentence
    (attended,) = make().extract([DOCUMENT], threshold=0.0, evidence="attention")
    assert {(one.head, one.tail): one.evidence for one in attended.relations}[0, 1] == by[0, 1][0]


def attended_sentences(model, given):
    """What the tokens of each entity attend to in the last layer, the tokens being in their own order."""
    rows = model.rows(given)
    batch = model.batch([rows])
    (sentences,) = rows.sentences
    network = model.module
    with torch.no_grad(), watch_attention(network) as watched:
        features = network._features(batch.entities, batch.types)
        structure = {"dependencies": dependencies(batch.sentences, batch.entities)}
        network.encoder.encoder(network.encoder.embed(batch.tokens, features=features), structure=structure)
    weights = [*watched.values()][-1][0][0].mean(0).numpy()  # (T, T)
    found = np.zeros((len(given.entities), len(given.sentences)))
    for entity, _, place in rows.members.tolist():
        for other, sentence in enumerate(sentences.tolist()):
            if sentence >= 0:
                found[entity, sentence] += weights[place, other]
    return found


@pytest.mark.parametrize("structure", ["none", "biaffine"])
def test_evidence_by_attention(make, structure):
    for given in SOME[:3]:
        model = make(structure=structure)
        model.module.eval()
        attended = attended_sentences(model, given)
        (found,) = model.extract([given], threshold=0.0, evidence="attention")
        assert found.relations
        for one in found.relations:
            shares = attended[one.head] * attended[one.tail]
            order = np.argsort(-shares).tolist()
            count = next(n for n in range(1, len(order) + 1) if shares[order[:n]].sum() >= 0.5 * shares.sum())
            assert one.evidence == tuple(sorted(order[:count]))
            assert one.evidence_by == "attention"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Anna met w2. Then w3 left.\n\nAnna Bell came, too.",
            [("Anna", "PER"), ("w2", "LOC"), ("w3", "PER"), ("Anna Bell", "PER")],
        ),
        ("张伟在北京。北京下雨！", [("张伟", "PER"), ("北京", "LOC"), ("北京", "LOC")]),
    ],
    ids=["English", "Chinese"],
)
def test_plain_text(make, text, names):
    found, begin = [], 0
    for name, kind in names:
        begin = text.index(name, begin)
        found.append(Found(begin, begin + len(name), kind))
        begin += len(name)
    given = entities_of("", cut_words(text), found)
    (extracted,) = make().extract([given], threshold=0.0)
    count = len(given.entities)
    assert count == len({name for name, _ in names}) - (("Anna Bell", "PER") in names)  # who is Anna
    assert len(extracted.relations) == count * (count - 1) * 2
    assert all(one.evidence for one in extracted.relations)


# --- files -----------------------------------------------------------------------------------------------------------


def test_files(make, tmp_path):
    model = make(40, decision="adaptive", threshold=0.3, stride=5, most=30)
    model.save(tmp_path)
    again = RelationModel.load(tmp_path)
    for one in SOME:
        assert np.array_equal(dense(again, again.rows(one)), dense(model, model.rows(one)))
    assert (again.labels, again.types, again.decision, again.threshold) == ([*LABELS], [*TYPES], "adaptive", 0.3)
    assert (again.reading, again.facts, again.length) == (model.reading, model.facts, 30)


CONFIG = [
    ("kind", "bert"),
    ("labels", ["Na"]),
    ("labels", ["Na", "P1", "P1"]),
    ("labels", ["Na", "P1", "P2", "P3"]),
    ("labels", "Na"),
    ("labels", None),
    ("types", ["PER", "PER"]),
    ("types", ["PER"]),
    ("types", [1, 2]),
    ("decision", "guess"),
    ("decision", ["threshold"]),
    ("threshold", 1.5),
    ("threshold", float("nan")),
    ("threshold", "0.5"),
    ("ssan", None),
    ("ssan.structure", "other"),
    ("ssan.structure", "none"),
    ("ssan.structure", "decomposed"),
    ("ssan.structured", [3]),
    ("ssan.entity_size", 1 << 40),
    ("ssan.most_entities", 1 << 60),
    ("ssan.features", False),
    ("ssan.unknown", 1),
    ("reading.max_length", 3),
    ("reading.stride", 0),
    ("encoder", None),
    ("encoder.kind", "gpt"),
    ("encoder.kind", "ssan"),
    ("encoder.kind", "elmo"),
    ("encoder.model.max_length", 5),
    ("encoder.model.positions", "relative"),
    ("encoder.vocab_size", 3),
    ("encoder.tokens", False),
]


@pytest.mark.parametrize(("name", "value"), CONFIG, ids=[f"{name}={value}" for name, value in CONFIG])
def test_nothing_of_a_config_is_trusted(make, tmp_path, name, value):
    make().save(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    *path, last = name.split(".")
    part = content
    for one in path:
        part = part[one]
    part[last] = value
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(FormatError) as caught:
        RelationModel.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"meanings": {"a": 1}, "seen": []}',
        '{"meanings": {}, "seen": [["a"]]}',
    ],
)
def test_facts_that_are_none(make, tmp_path, content):
    make().save(tmp_path)
    (tmp_path / "facts.json").write_text(content)
    with pytest.raises(FormatError, match=r"facts\.json"):
        RelationModel.load(tmp_path)
    (tmp_path / "facts.json").unlink()
    with pytest.raises(FormatError, match=r"facts\.json"):
        RelationModel.load(tmp_path)


def test_relations_of_documents_may_be_given(make):
    given = DOCUMENT._replace(relations=(Relation(0, 1, "P1"),))
    assert make().extract([given], threshold=0.0)[0].relations == make().extract([DOCUMENT], threshold=0.0)[0].relations
