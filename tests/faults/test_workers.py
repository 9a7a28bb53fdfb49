"""A probe that dies, or takes too much, costs only itself, and is kept."""

import json
import os
import signal
import time

import numpy as np
import pytest

from benchmarks.faults.outcomes import Failures, Outcome, Probe, Tally
from benchmarks.faults.workers import Limits, run_probes
from benchmarks.result import Result
from benchmarks.section import sections
from wenmai.core.errors import FormatError

LIMITS = Limits(processor_seconds=0.3, clock_seconds=4, memory_bytes=256 << 20)


def spin():
    while True:
        pass


def refuse(message):
    raise FormatError(message)


ACTIONS = {
    "fine": (lambda: None, "benign", ""),
    "wrong": (lambda: "a number has changed", "silent", "a number has changed"),
    "refuses": (lambda: refuse("line 3: no number"), "refused", "line 3: no number"),
    "rambles": (lambda: refuse("one\ntwo"), "traceback", "not one line"),
    "fails": (lambda: {}["key"], "traceback", "KeyError: 'key'"),
    "exits": (lambda: os._exit(3), "crash", "exit code 3"),
    "faults": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "crash", "SIGSEGV"),
    "swells": (lambda: np.empty(1 << 34), "crash", "not enough memory"),
    "spins": (spin, "hang", "more processor time"),
    "waits": (lambda: time.sleep(60), "hang", "more time on the clock"),
}
NAMES = [*ACTIONS]


def make(probe, folder):
    (folder / "input").write_text(NAMES[probe.number % len(NAMES)])


def check(probe, folder):
    return ACTIONS[(folder / "input").read_text()][0]()


def test_each_probe_ends_as_it_should_whatever_the_others_do(tmp_path):
    probes = [Probe("actions", "all", number) for number in range(len(NAMES))]
    failures = Failures(tmp_path / "failures")
    found = list(run_probes(probes, make, check, work=tmp_path / "work", failures=failures, limits=LIMITS))
    assert sorted(one.probe.number for one in found) == [*range(len(NAMES))]
    for finding in found:
        _, outcome, message = ACTIONS[NAMES[finding.probe.number]]
        assert finding.outcome == outcome, finding
        assert message in finding.message
        kept = failures.folder / finding.probe.name
        assert kept.exists() == finding.outcome.bad
        if finding.outcome.bad:
            assert f"--replay {kept}" in finding.message
            assert json.loads((kept / "probe.json").read_text())["outcome"] == outcome
            probe, folder = Failures.read(kept, tmp_path / kept.name)
            assert probe == finding.probe
            assert (folder / "input").read_text() == NAMES[finding.probe.number]
    assert not any((tmp_path / "work").rglob("input"))
    tally = Tally()
    for finding in found:
        tally.add(finding)
    (row,) = tally.rows()
    assert (row["tried"], row["refused"], row["benign"], tally.bad) == (10, 1, 1, 8)
    assert {name: row[name] for name in Outcome} == {
        "refused": 1,
        "benign": 1,
        "silent": 1,
        "traceback": 2,
        "crash": 3,
        "hang": 2,
    }
    shown = "\n".join(sections()["faults"].body(Result({"rows": [{**row, "commit": "abc"}], "settings": {}})))
    assert "actions, all | 10 | 1 | 1 | 1 | 2 | 3 | 2 |" in shown
    assert "| actions | all | 10 | 1 | 1 | 1 | 2 | 3 | 2 |" in str(tally)


def test_an_input_that_cannot_be_made_is_a_defect_of_the_lab(tmp_path):
    def broken(probe, folder):
        raise ValueError("no sample")

    probes = [Probe("actions", "all", 0)]
    with pytest.raises(RuntimeError, match="no sample"):
        list(run_probes(probes, broken, check, work=tmp_path, failures=Failures(tmp_path / "failures")))


def test_many_probes_are_shared_out(tmp_path):
    def number(probe, folder):
        (folder / "input").write_text(str(probe.number))

    def even(probe, folder):
        return None if int((folder / "input").read_text()) % 2 == 0 else refuse("odd")

    probes = (Probe("numbers", "all", number) for number in range(200))
    found = list(run_probes(probes, number, even, work=tmp_path, failures=Failures(tmp_path / "failures")))
    assert sum(finding.outcome == "refused" for finding in found) == 100
