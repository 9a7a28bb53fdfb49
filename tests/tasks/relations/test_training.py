"""Training models of relations: what is minimised, what is trained, what is measured."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import wenmai
from tests.contract.examples import TEXTS
from tests.tasks.relations.made import PLAIN, records
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.relation_files import open_documents, read_documents
from wenmai.data.relations import docred_documents
from wenmai.inference import framing, relations
from wenmai.inference.relations import RelationModel
from wenmai.measures.relations import best_threshold, measure_relations
from wenmai.nn import recomputing
from wenmai.objectives.relations import adaptive_threshold_loss, binary_loss
from wenmai.training.callback import Callback


@pytest.mark.parametrize("loss", ["binary", "adaptive"])
def test_the_loss_is_the_sum_of_the_means_of_documents(begin, loss):
    given = records(6)
    given[1]["vertexSet"].pop()
    given[2]["labels"] = []
    given[3]["labels"] += [{"h": 1, "t": 0, "r": "likes"}, {"h": 1, "t": 0, "r": "hates"}]
    job = begin(given, loss=loss)
    job.module.eval()
    found = job.loss(job.module, np.arange(6), 0)
    model, expected = job.model, 0.0
    for document in docred_documents(given, "here"):
        rows = model.rows(document)
        with torch.no_grad():
            logits = job.module(model.batch([rows]))
        gold = torch.zeros_like(logits)
        for place, pair in enumerate(rows.pairs.tolist()):
            for one in document.relations:
                if [one.head, one.tail] == pair:
                    gold[place, model.labels.index(one.relation)] = 1
            gold[place, 0] = float(not gold[place].any())
        expected += float((binary_loss if loss == "binary" else adaptive_threshold_loss)(logits, gold))
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(found.nll) == pytest.approx(expected, rel=1e-5)
    assert (found.targets, found.tokens) == (6, 6 * 7)


def test_documents_without_a_pair_or_longer_than_a_window_are_noted(begin):
    given = records(8, filler=14)
    given[0]["vertexSet"], given[0]["labels"] = given[0]["vertexSet"][:1], []
    given[1]["vertexSet"], given[1]["labels"] = [], []
    job = begin(given)
    _, notes = job.changes(None)
    assert notes[0].startswith("2 of 8 documents have no pair")
    assert notes[1].startswith("6 of 6 documents are longer than the 16 tokens")
    planned = job.plan(0)
    assert sorted(np.concatenate(planned).tolist()) == [*range(6)]
    assert max(map(len, planned)) <= 4
    assert job.evaluate() == {}
    assert job.best_by == "loss"


def gradients(job, parts):
    job.module.zero_grad()
    for part in parts:
        job.loss(job.module, part, 0).total.backward()
    return [one.grad.clone() for one in job.module.parameters()]


def test_documents_without_room_in_memory_together_are_learned_from_in_parts(begin, monkeypatch):
    job = begin([*records(3), *records(1, filler=7)])
    job.module.eval()
    batch = np.arange(4)
    assert [part.tolist() for part in job.parts(batch)] == [[0, 1, 2, 3]]
    whole = gradients(job, [batch])
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 20)
    parts = job.parts(batch)
    assert [part.tolist() for part in parts] == [[3], [0, 1], [2]]
    for ours, theirs in zip(gradients(job, parts), whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_windows_that_are_made_again_drop_the_same_numbers(begin, monkeypatch):
    job = begin(records(2, filler=60), dropout=0.4)
    batch = job.plan(0)[0][:1]
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 16)
    torch.manual_seed(3)
    again = gradients(job, [batch])
    monkeypatch.setattr(recomputing, "checkpoint", lambda compute, part, **_: compute(part))
    torch.manual_seed(3)
    for ours, theirs in zip(again, gradients(job, [batch]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("structure", ["none", "biaffine"])
def test_windows_of_one_document_may_be_made_again_for_the_gradients(begin, monkeypatch, structure):
    job = begin(records(2, filler=60), structure=structure, dropout=0.0, head_dropout=0.0)
    (batch, *_) = job.plan(0)
    whole = gradients(job, [batch[:1]])
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 16)
    calls = []
    monkeypatch.setattr(recomputing, "checkpoint", lambda *given, **more: calls.append(1) or checkpoint(*given, **more))
    again = gradients(job, job.parts(batch[:1]))
    assert len(calls) == 2
    assert all(one.grad is not None for one in job.module.parameters())
    for ours, theirs in zip(again, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("loss", ["binary", "adaptive"])
def test_pairs_of_a_long_document_may_be_scored_again_for_the_gradients(begin, monkeypatch, loss):
    job = begin(records(2, filler=60), loss=loss, dropout=0.0, head_dropout=0.0)
    batch = job.plan(0)[0][:1]
    assert len(job._targets[batch[0]])
    whole = gradients(job, [batch])
    monkeypatch.setitem(framing._BATCH_TOKENS, "cpu", 16)
    monkeypatch.setattr(relations, "_PAIRS_AT_ONCE", 4)
    calls = []
    monkeypatch.setattr(recomputing, "checkpoint", lambda *given, **more: calls.append(1) or checkpoint(*given, **more))
    again = gradients(job, [batch])
    assert len(calls) > 3  # two windows, and at least as many parts of the pairs
    for ours, theirs in zip(again, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_windows_that_would_leave_text_between_them_are_refused(begin):
    with pytest.raises(SettingError, match="stride=11 is more than the 10 tokens of a window"):
        begin(records(2), max_length=12, stride=11)


def test_pairs_that_are_not_asked_for_teach_nothing(begin):
    (document,) = docred_documents(records(1), "here")
    named = document._replace(pairs=((1, 0),))
    job = begin([named, document])
    sizes = job.model.batch([job.model.rows(one) for one in (named, document)]).sizes
    assert sizes == [1, 6]
    assert [len(one) for one in job._targets] == [0, 1]


def test_other_documents_are_asked_for_the_pairs_of_the_training(begin, tmp_path):
    (document,) = docred_documents(records(1), "here")
    typed = [one._replace(type=kind) for one, kind in zip(document.entities, ("A", "B", "B"), strict=True)]
    document = document._replace(entities=tuple(typed))
    named = document._replace(pairs=((0, 1), (0, 2)))
    begun = begin([named]).model
    begun.save(tmp_path)
    for model in (begun, RelationModel.load(tmp_path)):
        assert model.facts.asked == {("A", "B")}
        assert model.rows(document).pairs.tolist() == [[0, 1], [0, 2]]
        assert model.rows(named._replace(pairs=((2, 1),))).pairs.tolist() == [[2, 1]]
    facts = json.loads((tmp_path / "facts.json").read_text())
    (tmp_path / "facts.json").write_text(json.dumps({name: facts[name] for name in ("meanings", "seen")}))
    assert len(RelationModel.load(tmp_path).rows(document).pairs) == 6  # of an older version
    assert begin([named, document]).model.facts.asked is None


def parameters(job):
    return {name: one.detach().clone() for name, one in job.module.named_parameters()}


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_encoder_learns_less_but_not_its_structure(begin, share):
    job = begin(records(20), encoder_share=share, learning_rate=0.1, dropout=0.0)
    assert job.rate_share("encoder.embedding.weight", 0) == share
    for name in ("encoder.encoder.layers.0.attention.relative.matrix", "relation", "type_vectors"):
        assert job.rate_share(name, 0) == 1
    before = parameters(job)
    job.loss(job.module.train(), np.arange(4), 0).total.backward()
    learned = {name for name, one in job.module.named_parameters() if one.grad is not None and one.grad.any()}
    structure = {name for name in before if ".relative." in name}
    assert structure | {"relation", "entity.weight", "type_vectors", "number_vectors"} <= learned
    plain = {name for name in before if name.startswith("encoder.")} - structure
    assert bool(plain & learned) == bool(share)
    assert job.trained_parameters == sum(one.numel() for name, one in before.items() if share or name not in plain)


def test_rates(begin, base):
    assert begin(records(20)).learning_rate == 1e-3  # ten times the published one, of a small encoder, but no more
    assert begin(records(20), learning_rate=0.5).learning_rate == 0.5
    scratch, kept = begin(records(20), scratch=True), begin(records(20))
    trained = base.model.module.embedding.weight
    assert torch.equal(kept.module.encoder.embedding.weight, trained)
    assert not torch.equal(scratch.module.encoder.embedding.weight, trained)


class Metrics(Callback):
    def __init__(self):
        self.found = []

    def record(self, record):
        if type(record).__name__ == "EvaluationRecord":
            self.found.append(dict(record.figures))


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    """A run that has learned the relations, with documents to validate on."""
    folder = tmp_path_factory.mktemp("ssan")
    for name, seed, count in (("train", 1, 120), ("valid", 2, 20), ("test", 3, 20)):
        (folder / f"{name}.json").write_text(json.dumps(records(count, seed)))
    seen = Metrics()
    settings = {"valid": str(folder / "valid.json"), "epochs": 15, "learning_rate": 0.005, "encoder_share": 1.0}
    settings |= {"dropout": 0.0, "head_dropout": 0.0, "features": False, "most_entities": 42, "distance_size": 20}
    run = wenmai.train(
        "ssan",
        folder / "train.json",
        out=folder / "run",
        start=base.path,
        callback=seen,
        **(PLAIN | settings),
    )
    return SimpleNamespace(run=run, folder=folder, seen=seen.found)


def documents_of(trained, name):
    return docred_documents(json.loads((trained.folder / f"{name}.json").read_text()), name)


def test_it_learns_and_the_threshold_is_the_best_of_the_validation_data(trained):
    model, valid = trained.run.model, documents_of(trained, "valid")
    scored = model.scored([*map(model.rows, valid)])
    threshold, f1 = best_threshold(scored, valid)
    assert model.threshold == threshold
    best = max(one["f1"] for one in trained.seen)
    assert f1 == pytest.approx(best, abs=1e-6)
    assert best > 0.8
    assert trained.seen[0]["f1"] < best
    assert set(trained.seen[0]) == {"loss", "f1", "precision", "recall", "ign_f1"}


def test_evaluation(trained):
    test = documents_of(trained, "test")
    found = wenmai.evaluate(trained.run, on=str(trained.folder / "test.json"))
    assert found.threshold == trained.run.model.threshold
    model = trained.run.model
    decided = [one for one in model.scored([*map(model.rows, test)]) if one.score >= found.threshold]
    expected = measure_relations(decided, test, trained.run.model.facts.seen)
    for name in ("gold", "found", "right", "known", "f1", "ign_f1", "intra_f1", "inter_f1", "f1_low"):
        assert getattr(found.result, name) == getattr(expected, name)
    assert found.result.f1 > 0.8
    assert found.result.evidence_f1 > 0.8
    assert found.as_dict()["f1"] == found.result.f1
    attended = wenmai.evaluate(trained.run, on=test, evidence="attention").result
    assert attended.f1 == found.result.f1
    gold = {(n, o.head, o.tail, o.relation): set(o.evidence) for n, one in enumerate(test) for o in one.relations}
    named = [
        (set(o.evidence), gold.get((n, o.head, o.tail, o.relation), set()))
        for n, one in enumerate(model.extract(test, evidence="attention"))
        for o in one.relations
    ]
    right, said = sum(len(ours & theirs) for ours, theirs in named), sum(len(ours) for ours, _ in named)
    assert attended.evidence_f1 == pytest.approx(2 * right / (said + sum(map(len, gold.values()))))
    with pytest.raises(SettingError, match="expected co-occurrence or attention"):
        wenmai.evaluate(trained.run, on=test, evidence="guess")
    everything = wenmai.evaluate(trained.run, on=test, threshold=0.0).result
    assert (everything.found, everything.recall) == (20 * 6 * 2, 1.0)
    assert wenmai.evaluate(trained.run, on=test, threshold=1.0).result.found == 0
    with pytest.raises(SettingError, match="no probability"):
        wenmai.evaluate(trained.run, on=test, threshold=2.0)
    with pytest.raises(CorpusError, match="has the relations 'loves', none of which the model knows; it knows 'hates'"):
        wenmai.evaluate(trained.run, on=records(3, verbs=("loves",)))
    known, unknown = records(20, seed=9), records(5, verbs=("loves",))
    mixed = wenmai.evaluate(trained.run, on=[*known, *unknown])
    assert mixed.notes == ["5 relations of the test set are unknown to the model and count as missed: loves (5)"]
    assert mixed.result.recall == pytest.approx(wenmai.evaluate(trained.run, on=known).result.recall * 20 / 25)


def test_one_unknown_relation_is_noted_in_the_singular(trained):
    (note,) = wenmai.evaluate(trained.run, on=[*records(20, seed=9), *records(1, verbs=("loves",))]).notes
    assert note == "1 relation of the test set is unknown to the model and counts as missed: loves (1)"


def test_documents_that_were_trained_on_are_noted(trained):
    some = [*documents_of(trained, "train")[:3], *documents_of(trained, "test")]
    note = "3 of 23 documents are among those that the model was trained on; name others to measure what it has learned"
    assert note in wenmai.evaluate(trained.run, on=some).notes
    for name in ("valid", "test"):
        assert wenmai.evaluate(trained.run, on=str(trained.folder / f"{name}.json")).notes == []
    (noted,) = wenmai.evaluate(trained.run, on=str(trained.folder / "train.json")).notes
    assert re.search(r"of \d+ documents are among those that the model was trained on", noted)


def test_more_general_pairs_are_left_out_of_a_comparison_if_all_left_them_out(base, tmp_path):
    one = "{n}|t|a likes b c\n{n}\t0\t1\ta\tChemical\tD1\n{n}\t8\t9\tb\tDisease\tD2\n{n}\t10\t11\tc\tDisease\tD3\n"
    train, test, trees, other = (tmp_path / name for name in ("train.txt", "test.txt", "trees.tsv", "other.json"))
    for file, verb in ((train, "likes"), (test, "loves")):
        texts = (one.replace("likes", verb).format(n=n) + f"{n}\tCID\tD1\tD2\n" for n in range(4))
        file.write_text("\n".join(texts))
    trees.write_text("D2\tC01.2\nD3\tC01\n")
    other.write_text(json.dumps(records(3, verbs=("CID",))))
    chosen = PLAIN | {"start": base.path, "valid_share": 0, "quiet": True}
    runs = [
        wenmai.train("ssan", train, out=tmp_path / name, **chosen, **more)
        for name, more in (("filtered", {"hypernyms": str(trees)}), ("plain", {}))
    ]
    filtered, plain = (wenmai.evaluate(run, on=test, threshold=0.0) for run in runs)
    assert (filtered.result.found, plain.result.found) == (4, 8)
    assert [note.partition(" were")[0] for note in filtered.notes] == [
        "pairs whose disease is more general than a right one"
    ]
    assert not plain.notes
    assert not wenmai.evaluate(runs[0], on=other).notes  # has no identifiers
    both = wenmai.compare(runs, out=tmp_path / "both", on=[str(test)])
    (note,) = next(iter(both.notes.values()))
    assert note.startswith("all pairs are asked for; the model was trained without more general ones")
    alone = wenmai.compare(runs[:1], out=tmp_path / "alone", on=[str(test)])
    assert next(iter(alone.notes.values()))[0].startswith("pairs whose disease is more general")


def test_what_is_asked_of_a_file_without_relations_is_what_the_training_asked_for(base, tmp_path):
    one = "{n}|t|a likes b\n{n}\t0\t1\ta\tChemical\tD1\n{n}\t8\t9\tb\tChemical\tD2\n"
    train, new = tmp_path / "train.txt", tmp_path / "new.txt"
    train.write_text("\n".join(one.format(n=n) + f"{n}\tDDI\tD1\tD2\n" for n in range(4)))
    new.write_text(one.format(n=9))
    run = wenmai.train("ssan", train, out=tmp_path / "run", start=base.path, quiet=True, **PLAIN, valid_share=0)
    (found,) = run.model.extract(read_documents(open_documents(new)), threshold=0.0)
    assert found.pairs == 2


def test_comparison(trained, tmp_path):
    test = str(trained.folder / "test.json")
    (system,) = wenmai.compare([trained.run], out=tmp_path / "report", on=[test]).systems
    result = wenmai.evaluate(trained.run, on=test).result
    assert [(one.kind, one.value) for one in system.measures] == [
        ("relations", result.f1),
        ("new relations", result.ign_f1),
    ]
    mixed = tmp_path / "mixed.json"
    mixed.write_text(json.dumps([*records(20, seed=9), *records(5, verbs=("loves",))]))
    found = wenmai.compare([trained.run], out=tmp_path / "mixed", on=[str(mixed)])
    ((place, (note,)),) = found.notes.items()
    assert place.startswith(f"{found.systems[0].name}, mixed")
    assert note.startswith("5 relations of the test set are unknown to the model")
    assert note in (tmp_path / "mixed" / "report.html").read_text("utf-8")
    with pytest.raises(CorpusError, match="no such file"):
        wenmai.compare([trained.run], out=tmp_path / "other", on=[str(tmp_path / "nowhere.json")])


def test_one_may_start_from_a_model_of_relations(trained, begin):
    job = begin(records(20), start=trained.run)
    old, new = trained.run.model.module.state_dict(), job.module.state_dict()
    same = {
        name
        for name, one in new.items()
        if name in old and one.shape == old[name].shape and torch.equal(one, old[name])
    }
    assert {name for name in new if name.startswith("encoder.") and ".relative." not in name} <= same
    assert not any(new[name].any() for name in new if ".relative." in name)


def test_patience_needs_something_to_wait_for(begin):
    with pytest.raises(SettingError, match="patience=2 has no effect without examples to evaluate on"):
        begin(records(40), valid_share=0, patience=2)


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("enough", {"max_length": 17}, "more than the 16 tokens"),
        ("an entity", {}, "no document has two entities"),
        ("no relation", {}, "no document has a relation"),
        ("one", {"valid_share": 0.1}, "too few documents to set some aside"),
        ("none", {}, "no documents"),
        ("nothing", {}, "is not JSON"),
    ],
)
def test_what_cannot_be_trained_on(begin, tmp_path, name, settings, why):
    path = tmp_path / "relations.json"
    path.write_text(TEXTS["relations.json"][name])
    with pytest.raises((CorpusError, SettingError)) as caught:
        begin(path, **settings)
    assert why in str(caught.value)


def test_a_relation_that_the_training_has_not(begin, tmp_path):
    path = tmp_path / "valid.json"
    path.write_text(json.dumps(records(3, verbs=("loves",))))
    with pytest.raises(CorpusError, match="have no relation that those to train on have"):
        begin(records(20), valid=str(path))
    path.write_text(json.dumps([*records(3, verbs=("loves",)), *records(9, seed=9)]))
    _, notes = begin(records(20), valid=str(path)).changes(None)
    assert "to validate on: 3 relations that no document to train on has count as missed: loves (3)" in notes
