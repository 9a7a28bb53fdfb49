"""What happens to trainings, as in the lab but less often: kills, signals, damage, races, full disks, little memory."""

import os
import signal
from collections import Counter
from functools import cache

import pytest

from benchmarks.faults import trainings
from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Failures, Outcome
from benchmarks.faults.processes import EXPERIMENTS, LIMITS, retry
from benchmarks.faults.trainings import Trainings
from benchmarks.faults.victims import Area, Ended, Victim, changing
from benchmarks.faults.workers import run_probes
from wenmai.core.errors import RunError

TRIED = {  # how often each part is tried on each of the systems
    "kills": 2,
    "kills while writing": 3,
    "several kills": 1,
    "signals": 2,
    "corruption": 24,
    "corruption of finished runs": 24,
    "races of starts": 1,
    "races of resumes": 1,
    "races with readers": 1,
    "full disks": 2,
    "limits of file sizes": 1,
    "too little memory": 1,
}
SYSTEMS = ("fasttext-supervised", "nnlm")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # what a kill leaves behind is in the memory of the system
        patch.setattr(trainings, "SECONDS", 0.05)
        patch.setattr(trainings, "LINES", 40)
        patch.setenv("WENMAI_CACHE", "")
        work = tmp_path_factory.mktemp("lab")
        yield Lab(work=work, failures=Failures(work / "failures"), workers=1)


@pytest.fixture(scope="module")
def prepared(lab):
    found = Trainings(lab)

    @cache
    def prepare(system):
        found.prepare(system)

    def of(system):
        prepare(system)
        return found

    return of


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kind", EXPERIMENTS, ids=lambda kind: kind.__name__)
def test_nothing_that_happens_to_a_training_spoils_it(kind, system, lab, prepared, tmp_path):
    experiment = kind(lab, prepared(system))
    probes = [probe for probe in experiment.probes(system) if probe.number < TRIED.get(probe.part, 0)]
    found = run_probes(
        probes, experiment.make, experiment.check, work=tmp_path, failures=lab.failures, workers=1, limits=LIMITS
    )
    assert [finding for finding in found if finding.outcome.bad] == []


def test_the_lab_sees_what_is_wrong(lab, prepared, tmp_path):
    training = prepared("nnlm")["nnlm"]
    training.train(tmp_path / "run")
    assert training.defects(tmp_path / "run") is None
    (tmp_path / "run" / "notes.txt").touch()
    assert "left over" in training.defects(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text("[")
    assert "summary.json: is damaged" in training.defects(tmp_path / "run")
    config = tmp_path / "run" / "model" / "config.json"
    config.write_text(config.read_text() + " ")
    assert training.defects(tmp_path / "run") == "another model: config.json"


def test_a_probe_can_be_tried_again(lab, prepared, tmp_path):
    lab = Lab(work=tmp_path, failures=lab.failures)
    (probe, *_) = [one for kind in EXPERIMENTS for one in kind(lab, None).probes("nnlm") if one.part == "corruption"]
    assert retry(lab, probe, tmp_path).outcome in (Outcome.BENIGN, Outcome.REFUSED)


# --- victims --------------------------------------------------------------------------------------------------------


def refuse(_):
    raise RunError("no")


def fail(_):
    raise KeyError("no")


@pytest.mark.parametrize(
    ("work", "message", "refused"),
    [
        (refuse, "no", True),
        (fail, "KeyError: 'no'", False),
        (lambda _: os._exit(3), "it died: 3", False),
        (lambda _: os.kill(os.getpid(), signal.SIGTERM), "it died: SIGTERM", False),
    ],
)
def test_how_a_victim_ends_is_told(work, message, refused):
    with pytest.raises(Ended, match=message) as ended:
        Victim(work).wait()
    assert ended.value.refused == refused


def test_a_victim_that_has_ended_is_not_killed():
    assert Victim(lambda _: {"is": "done"}).wait() == {"is": "done"}
    waiting = Victim(lambda victim: (victim.mark(), os.read(os.pipe()[0], 1)))
    assert waiting.marked()
    assert waiting.kill()
    ended = Victim(lambda _: None)
    assert not ended.marked()
    assert not ended.kill()


def test_changes_of_files_are_seen_with_their_area(tmp_path):
    def work(_):
        seen = Counter()
        changing(tmp_path, lambda area: seen.update([area]))
        for name in ("recipe.yaml", "checkpoints/step-1/state.json", "model/config.json", ".model.x.tmp/config.json"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")
            (tmp_path / name).read_text()
        (tmp_path / "model").rename(tmp_path / "summary.json")
        (tmp_path.parent / "elsewhere").touch()
        return seen

    found = Victim(work).wait()
    assert found == {Area.BEGINNING: 1, Area.CHECKPOINTS: 4, Area.MODEL: 5}
