"""The curves for TensorBoard, read back by TensorBoard."""

import sys

import pytest

import wenmai
from wenmai.core.errors import SettingError
from wenmai.training.records import EpochRecord, EvaluationRecord, UpdateRecord, read_records
from wenmai.training.tensorboard import reporting_curves

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

PAIRS = [(f"a{number} b{number % 7}", f"y{number % 7} x{number}") for number in range(60)]
SIZES = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 16, "kind": "words", "threads": 1}


def curves(folder):
    """Tag to (step, value) of all that TensorBoard shows."""
    found = event_accumulator.EventAccumulator(str(folder)).Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def update(position, loss, **losses):
    return UpdateRecord(
        progress=0.5,
        position=position,
        epoch=1,
        loss=loss,
        losses=losses,
        learning_rate=0.01,
        gradient_norm=2.0,
        tokens_per_second=1e4,
        flops_share=None,
        seconds=1.0,
        seconds_left=1.0,
    )


def evaluation(position, loss):
    return EvaluationRecord(position=position, epoch=1, seconds=1.0, learning_rate=0.01, figures={"loss": loss})


def test_a_training_shows_what_its_records_say(tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    run = wenmai.train("transformer", PAIRS, out=tmp_path / "run", epochs=3, tensorboard=True, batch_tokens=64, **SIZES)
    records = read_records(run.path / "metrics.jsonl")
    shown = curves(run.path / "tensorboard")
    expected = {}
    for record in records:
        if record["kind"] == "evaluation":
            figures = {f"validation/{name}": value for name, value in record["figures"].items()}
        else:
            names = ("loss", "learning_rate", "gradient_norm", "tokens_per_second")
            figures = {f"train/{name}": record[name] for name in names}
        for name, value in figures.items():
            expected.setdefault(name, []).append((record["position"], pytest.approx(value, rel=1e-6)))
    assert shown == expected
    assert len(shown["validation/perplexity"]) == 3
    assert len(shown["train/loss"]) > 3
    plain = wenmai.train("transformer", PAIRS, out=tmp_path / "plain", epochs=1, **SIZES)
    assert not (plain.path / "tensorboard").exists()


def test_a_resumed_training_takes_back_what_it_does_again(tmp_path):
    reported = []
    with reporting_curves(tmp_path / "curves", reported.append, position=0) as report:
        for position in (1, 2, 3):
            report(update(position, float(position)))
    with reporting_curves(tmp_path / "curves", reported.append, position=2) as report:
        report(update(3, 30.0, masked=20.0, next=None))
        report(EpochRecord(position=3, epoch=1, loss=1.0, seconds=1.0, words=1))
        report(evaluation(3, 4.0))
    shown = curves(tmp_path / "curves")
    assert shown["train/loss"] == [(1, 1.0), (2, 2.0), (3, 30.0)]
    assert shown["train/masked_loss"] == [(3, 20.0)]
    assert "train/next_loss" not in shown
    assert shown["validation/loss"] == [(3, 4.0)]
    assert len(reported) == 6


def test_without_the_package_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(SettingError, match=r"tensorboard=true needs .*pip install -e '\.\[tensorboard\]'"):
        wenmai.train("transformer", PAIRS, out=tmp_path / "run", tensorboard=True, **SIZES)
    assert not (tmp_path / "run").exists()
