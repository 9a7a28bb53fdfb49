"""The measures of relations, against a plain reading of DocRED's official script and by hand."""

import random

import pytest

from wenmai.core.errors import CorpusError
from wenmai.data.relations import Entity, Mention, Relation, RelationDocument, facts_of
from wenmai.measures.relations import Scored, best_threshold, measure_relations

NAMES = ("a", "b", "c", "d")
LABELS = ("P1", "P2")


def drawn_documents(draw, count=6):
    """Documents of three sentences and up to four entities, whose names come again in others."""
    found = []
    for number in range(count):
        entities = tuple(
            Entity(
                tuple(Mention(draw.choice(NAMES), draw.randrange(6), 0, 1, "X") for _ in range(draw.randint(1, 2))), "X"
            )
            for _ in range(draw.randint(0, 4))
        )
        pairs = [(h, t) for h in range(len(entities)) for t in range(len(entities)) if h != t]
        relations = tuple(
            Relation(*pair, label, tuple(sorted(draw.sample(range(3), draw.randrange(3)))))
            for pair in pairs
            for label in LABELS
            if draw.random() < 0.3
        )
        twice = relations[:: draw.choice((2, 9))]
        found.append(RelationDocument(str(number), (("w",),) * 6, entities, relations + twice))
    return found


def drawn_predictions(draw, documents):
    """All relations of some pairs, each with a score and evidence."""
    return [
        Scored(number, head, tail, label, draw.choice((0.1, 0.2, 0.5, 0.9, draw.random())), evidence)
        for number, document in enumerate(documents)
        for head in range(len(document.entities))
        for tail in range(len(document.entities))
        for label in LABELS
        if head != tail and draw.random() < 0.5
        for evidence in [tuple(draw.choices(range(3), k=draw.randrange(3)))]
    ]


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def official(predicted, documents, seen):
    """Sorted, what comes twice left out, then counted; facts by the names of all mentions."""
    gold = {
        (n, one.relation, one.head, one.tail): set(one.evidence) for n, d in enumerate(documents) for one in d.relations
    }
    answers = []
    for one in sorted(predicted, key=lambda one: one[:4]):
        if not answers or one[:4] != answers[-1][:4]:
            answers.append(one)
    right = known = shared = said = 0
    for one in answers:
        said += len(set(one.evidence))
        if (evidence := gold.get((one.document, one.relation, one.head, one.tail))) is None:
            continue
        right += 1
        shared += len(evidence & set(one.evidence))
        entities = documents[one.document].entities
        known += any(
            (head.name, tail.name, one.relation) in seen
            for head in entities[one.head].mentions
            for tail in entities[one.tail].mentions
        )

    def share(part, whole):
        return part / whole if whole else 0.0

    recall = share(right, len(gold))
    total = sum(map(len, gold.values()))
    return {
        "gold": len(gold),
        "found": len(answers),
        "right": right,
        "known": known,
        "f1": f1(share(right, len(answers)), recall),
        "ign_f1": f1(share(right - known, len(answers) - known), recall),
        "evidence_f1": f1(share(shared, said), share(shared, total)) if total else None,
    }


def parts(predicted, documents):
    """F1 of the pairs that share a sentence, and of the others."""

    def near(one, document):
        sentences = [{mention.sentence for mention in document.entities[side].mentions} for side in one]
        return bool(sentences[0] & sentences[1])

    found = []
    for wanted in (True, False):
        gold = {(n, *one[:3]) for n, d in enumerate(documents) for one in d.relations if near(one[:2], d) is wanted}
        said = {one[:4] for one in predicted if near(one[1:3], documents[one.document]) is wanted}
        right = len(gold & said)
        found.append(f1(right / len(said) if said else 0, right / len(gold)) if gold else None)
    return found


def by_distance(predicted, documents):
    """Relations, predictions and F1 of pairs 0, 1, 2 and more sentences apart."""

    def distance(document, head, tail):
        one, other = (document.entities[side].mentions for side in (head, tail))
        return min(abs(a.sentence - b.sentence) for a in one for b in other)

    found = []
    for wanted in ({0}, {1}, {2}, set(range(3, 99))):
        gold = {
            (n, *one[:3]) for n, d in enumerate(documents) for one in d.relations if distance(d, *one[:2]) in wanted
        }
        said = {one[:4] for one in predicted if distance(documents[one.document], *one[1:3]) in wanted}
        right = len(gold & said)
        score = f1(right / len(said) if said else 0, right / len(gold)) if gold else None
        found.append((len(gold), len(said), pytest.approx(score)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_against_the_official_script(seed):
    draw = random.Random(seed)
    documents = drawn_documents(draw)
    predicted = drawn_predictions(draw, documents)
    predicted += [one._replace(score=0.3, evidence=()) for one in predicted[::3]]  # twice
    seen = facts_of(drawn_documents(draw, 2))
    found = measure_relations(predicted, documents, seen, intervals=False)
    expected = official(predicted, documents, seen)
    assert {name: getattr(found, name) for name in expected} == pytest.approx(expected)
    assert [found.intra_f1, found.inter_f1] == pytest.approx(parts(predicted, documents))
    assert [(one.gold, one.found, one.f1) for one in found.by_distance] == by_distance(predicted, documents)
    assert found.documents == len(documents)
    assert found.f1 == pytest.approx(f1(found.precision, found.recall))


def test_order_does_not_matter():
    draw = random.Random(3)
    documents = drawn_documents(draw, 20)
    predicted, seen = drawn_predictions(draw, documents), facts_of(drawn_documents(draw, 2))
    found, cut = measure_relations(predicted, documents, seen), best_threshold(predicted, documents)
    for _ in range(5):
        draw.shuffle(predicted)
        assert measure_relations(predicted, documents, seen) == found
        assert best_threshold(predicted, documents) == cut


def worked():
    """Four gold relations; five predicted, three of them right, one of them known."""
    entities = tuple(Entity((Mention(name, place // 2, 0, 1, "X"),), "X") for place, name in enumerate(NAMES))
    relations = tuple(Relation(*pair, "P1", (0,)) for pair in ((0, 1), (1, 0), (0, 2), (3, 0)))
    document = RelationDocument("", (("w",),) * 2, entities, relations)
    predicted = [Scored(0, h, t, "P1", evidence=(0,)) for h, t in ((0, 1), (1, 0), (0, 2), (2, 3), (3, 2))]
    return document, predicted


def test_worked_values():
    document, predicted = worked()
    found = measure_relations(predicted, [document], {("a", "c", "P1"), ("b", "a", "P2")})
    assert (found.gold, found.found, found.right, found.known) == (4, 5, 3, 1)
    assert (found.precision, found.recall) == (0.6, 0.75)
    assert found.f1 == pytest.approx(0.666667, abs=1e-6)
    assert found.ign_f1 == pytest.approx(0.6)  # of a precision of 0.5
    assert found.intra_f1 == pytest.approx(2 * 2 / (2 + 4))
    assert found.inter_f1 == pytest.approx(2 * 1 / (2 + 1))
    assert found.evidence_f1 == pytest.approx(2 * 3 / (5 + 4))
    assert found.f1_low is None  # of one document
    assert "0.6667" in str(found)
    assert found.as_dict()["ign_f1"] == found.ign_f1


def test_any_name_of_an_entity_is_known():
    document, predicted = worked()
    mentions = (*document.entities[0].mentions, Mention("A", 1, 0, 1, "X"))
    document = document._replace(entities=(Entity(mentions, "X"), *document.entities[1:]))
    assert measure_relations(predicted, [document], {("A", "c", "P1")}).known == 1
    assert measure_relations(predicted, [document], {("a", "C", "P1"), ("c", "a", "P1")}).known == 0


def test_where_there_is_nothing():
    document, predicted = worked()
    everything = {(one, other, "P1") for one in NAMES for other in NAMES}
    found = measure_relations(predicted[:3], [document], everything)
    assert (found.f1, found.ign_f1) == (pytest.approx(6 / 7), 0.0)  # all right ones are known: 0/0
    found = measure_relations([], [document])
    assert (found.f1, found.precision, found.recall, found.ign_f1, found.evidence_f1) == (0, 0, 0, None, 0)
    bare = RelationDocument("", (("w",),), document.entities)
    found = measure_relations([], [bare, RelationDocument("", (("w",),), ())], set())
    assert (found.f1, found.intra_f1, found.inter_f1, found.evidence_f1) == (0, None, None, None)
    assert measure_relations([], []).documents == 0
    assert "-" in str(found)


@pytest.mark.parametrize("where", [(1, 0, 1), (-1, 0, 1), (0, 4, 1), (0, 1, 4), (0, -1, 1), (0, 1, -2)])
def test_predictions_of_nothing_that_there_is(where):
    document, _ = worked()
    with pytest.raises(CorpusError, match="there is none"):
        measure_relations([Scored(*where, "P1")], [document])


def test_intervals():
    draw = random.Random(1)
    documents = drawn_documents(draw, 60)
    predicted, seen = drawn_predictions(draw, documents), facts_of(drawn_documents(draw, 2))
    found = measure_relations(predicted, documents, seen)
    assert 0 < found.f1_low < found.f1 < found.f1_high < 1
    assert 0 < found.ign_f1_low < found.ign_f1 < found.ign_f1_high < 1
    assert found == measure_relations(predicted, documents, seen)
    assert found.f1_low != measure_relations(predicted, documents, seen, seed=1).f1_low
    assert measure_relations(predicted, documents, seen, intervals=False).f1_low is None


# --- thresholds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_best_threshold_of_all(seed):
    draw = random.Random(seed)
    documents = drawn_documents(draw)
    scored = drawn_predictions(draw, documents)
    cuts = {one.score for one in scored}

    def of(cut):
        return measure_relations([one for one in scored if one.score >= cut], documents, intervals=False).f1

    threshold, best = best_threshold(scored, documents)
    assert best == pytest.approx(max(map(of, cuts), default=0.0))
    assert of(threshold) == pytest.approx(best)
    lowest = min((cut for cut in cuts if cut >= threshold), default=0)
    lower = [cut for cut in cuts if cut < threshold]
    assert best == 0 or threshold == pytest.approx((lowest + max(lower)) / 2 if lower else lowest)


def test_thresholds_of_nothing():
    document, predicted = worked()
    assert best_threshold([], [document]) == (1.0, 0.0)
    assert best_threshold(predicted, [document._replace(relations=())]) == (1.0, 0.0)
    assert best_threshold(predicted[3:], [document]) == (1.0, 0.0)  # none of them is right


def test_the_higher_score_of_what_is_said_twice():
    document, predicted = worked()
    twice = [predicted[0]._replace(score=score) for score in (0.2, 0.9, 0.1)] + [predicted[3]._replace(score=0.5)]
    assert best_threshold(twice, [document]) == (pytest.approx(0.7), pytest.approx(2 / 5))
