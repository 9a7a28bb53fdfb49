"""How the threshold of relations is chosen, kept and used."""

import json

import pytest
import torch

import wenmai
from tests.tasks.relations.made import PLAIN, records
from wenmai.inference.relations import RelationModel
from wenmai.measures.relations import Scored, measure_relations
from wenmai.training import loop


def test_the_threshold_survives_the_moment_before_the_end(base, tmp_path, monkeypatch):
    (tmp_path / "train.json").write_text(json.dumps(records(60)))
    given = {**PLAIN, "epochs": 2, "learning_rate": 0.02, "start": base.path, "quiet": True}
    whole = wenmai.train("ssan", tmp_path / "train.json", out=tmp_path / "whole", **given)

    def stopped(*_):
        raise KeyboardInterrupt

    finish = loop._finish
    monkeypatch.setattr(loop, "_finish", stopped)
    with pytest.raises(KeyboardInterrupt):
        wenmai.train("ssan", tmp_path / "train.json", out=tmp_path / "stopped", **given)
    monkeypatch.setattr(loop, "_finish", finish)
    resumed = wenmai.resume(tmp_path / "stopped", quiet=True)
    assert resumed.model.threshold == whole.model.threshold != 0.5
    assert resumed.summary["threshold"] == whole.summary["threshold"] == whole.model.threshold


def test_the_threshold_is_a_half_where_nothing_is_right(begin, monkeypatch):
    job = begin(records(40), valid_share=0.3)
    monkeypatch.setattr(RelationModel, "scored", lambda *_, **options: [Scored(0, 1, 0, "likes", 0.9)])
    assert job.evaluate()["f1"] == 0
    assert job.model.threshold == 0.5


def test_it_is_found_as_it_will_be_used(begin):
    job = begin(records(40), valid_share=0.3)
    exact = job.evaluate(), job.model.threshold
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (job.evaluate(), job.model.threshold) == exact


def test_hardly_more_predictions_are_kept_than_a_threshold_leads_to(begin, monkeypatch):
    job = begin(records(40), valid_share=0.3)
    whole = job.evaluate()
    kept = []
    scored = RelationModel.scored

    def watched(*given, **options):
        kept.append(options["most"])
        return scored(*given, **options)

    monkeypatch.setattr(RelationModel, "scored", watched)
    assert job.evaluate() == whole
    assert kept == [20 * sum(len(document.relations) for document in job._data.valid)]


def test_adaptive_thresholds_need_none(begin):
    job = begin(records(40), loss="adaptive", valid_share=0.3)
    metrics = job.evaluate()
    model, valid = job.model, job._data.valid
    assert model.cut == 0.5
    assert model.threshold == 0.5
    decided = [Scored(*one[:4]) for one in model.scored([*map(model.rows, valid)]) if one.score >= 0.5]
    assert metrics["f1"] == pytest.approx(measure_relations(decided, valid).f1)
