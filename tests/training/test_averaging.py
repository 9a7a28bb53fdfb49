"""Which state the loop chooses as the result, and means of several."""

import pytest
import torch
from torch import nn

from tests.training.toys import Toy, looks_of, same, train, weights
from wenmai.core.errors import FormatError
from wenmai.training.tensors import load_model, mean_of_models

pytestmark = pytest.mark.usefixtures("unsynced")


def snapshots(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "snapshots").glob("step-*"))


def test_the_model_is_the_mean_of_the_best_snapshots(tmp_path):
    job = Toy()
    job.values = [5.0, 2.0, 4.0, 3.0]
    kept = {}

    def listen(record):
        if record.kind == "evaluation":
            kept[record.position] = weights(job)

    state, records = train(job, tmp_path / "run", listen=listen, average=2)
    positions = [record["position"] for record in looks_of(records)]
    assert [step for step, _ in state.snapshots] == [positions[1], positions[3]] == snapshots(tmp_path / "run")
    assert (state.best, state.best_evaluation) == (2.0, 2)
    expected = {name: (kept[positions[1]][name] + kept[positions[3]][name]) / 2 for name in weights(job)}
    for name, tensor in weights(job).items():
        torch.testing.assert_close(tensor, expected[name])
    assert not job.module.training


def test_without_averaging_the_model_is_the_best_on_the_validation_data(tmp_path):
    job, kept = Toy(), []
    job.values = [5.0, 2.0, 4.0, 3.0]

    def listen(record):
        if record.kind == "evaluation":
            kept.append(weights(job))

    state, _ = train(job, tmp_path / "run", listen=listen)
    assert same(weights(job), kept[1])
    assert snapshots(tmp_path / "run") == [state.snapshots[0][0]]


def test_the_figures_in_the_end_are_those_of_the_final_model(tmp_path):
    job = Toy()
    state, _ = train(job, tmp_path / "run", average=3)
    assert state.metrics == job.evaluate()


def test_without_validation_data_the_last_snapshots_are_averaged(tmp_path):
    job = Toy(validated=False)
    state, records = train(job, tmp_path / "run", average=2)
    positions = [record["position"] for record in looks_of(records)]
    assert [step for step, _ in state.snapshots] == positions[-2:] == snapshots(tmp_path / "run")
    last = Toy(validated=False)
    state, _ = train(last, tmp_path / "last", average=1)
    assert state.snapshots == []
    assert not (tmp_path / "last" / "snapshots").exists()


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_the_mean_of_identical_models_is_that_model(tmp_path, number):
    job = Toy()
    folders = [tmp_path / str(place) for place in range(number)]
    for folder in folders:
        folder.mkdir()
        job.save(folder)
    assert same(mean_of_models(folders), weights(job))


def test_a_folder_that_does_not_fit_is_refused_with_all_differences(tmp_path):
    Toy().save(tmp_path)
    with pytest.raises(FormatError, match=r"weight is missing.*output is unexpected"):
        load_model(nn.Linear(2, 3), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="is not a whole safetensors file"):
        load_model(nn.Linear(2, 3), tmp_path)
