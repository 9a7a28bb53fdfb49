"""What hostile inputs, kills, corruption, races and full disks do, tried many times and counted by outcome.

Each module that tries something is named in ``TRIED`` and has ``findings(lab)``, which yields a finding of each probe,
and ``retry(lab, probe, folder)``, which tries one that was kept again in this process: None if it is not its own.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Failures, Finding, Outcome, Tally, summed
from benchmarks.harness import Bench
from benchmarks.result import Result, Rows
from benchmarks.section import Section, table
from wenmai.core.folder import cache_folder
from wenmai.core.registry import systems

__all__ = ["run"]

TRIED = ("inputs", "processes")  # modules of this package
SHOWN_SECONDS = 20  # between two lines of progress
QUICK_INPUTS, INPUTS = 2_000, 300_000


def run(bench: Bench) -> None:
    """Tries everything, or what ``--only`` names, or again what ``--replay`` names."""
    options = bench.options
    inputs = options.inputs or (QUICK_INPUTS if bench.quick else INPUTS)
    (seed,) = bench.seeds(1)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # inputs come and go by the hundred thousand
    with tempfile.TemporaryDirectory(prefix="wenmai-faults-", dir=memory) as work:
        failures = Failures(options.failures or cache_folder() / "benchmarks" / "failures")
        repeats = bench.repeats(10)
        lab = Lab(work=Path(work), failures=failures, inputs=inputs, repeats=repeats, only=options.only, seed=seed)
        if options.replay is not None:
            finding = _again(lab, options.replay)
            print(f"{finding.outcome}: {finding.message}")
            return
        tally = Tally()
        try:
            _count(lab, tally)
        finally:  # what was tried counts, even if it is stopped
            _store(bench, lab, tally)


def _store(bench: Bench, lab: Lab, tally: Tally) -> None:
    print(tally)
    settings = {"seed": lab.seed, "workers": lab.workers}
    results = bench.results("faults", settings, corpus=False, keep=bool(lab.only), baselines=())
    for row in tally.rows():
        results.remove(part=row["part"], group=row["group"])  # of an earlier command
        results.add(row)


def _count(lab: Lab, tally: Tally) -> None:
    """Counts the findings, and shows how far it is and what is bad."""
    begin, shown = time.perf_counter(), 0.0
    for finding in _findings(lab):
        tally.add(finding)
        if finding.outcome.bad:
            print(f"{finding.outcome}: {finding.probe.part}, {finding.probe.group}: {finding.message}", flush=True)
        if (now := time.perf_counter()) - shown > SHOWN_SECONDS:
            shown = now
            counts = "  ".join(f"{name} {count:,}" for name, count in tally.totals().items())
            print(f"{now - begin:6.0f} s  {counts}", flush=True)


def _findings(lab: Lab) -> Iterator[Finding]:
    for name in TRIED:
        yield from import_module(f"benchmarks.faults.{name}").findings(lab)


def _again(lab: Lab, folder: Path) -> Finding:
    probe, given = Failures.read(folder, lab.work / "again")
    for name in TRIED:
        found: Finding | None = import_module(f"benchmarks.faults.{name}").retry(lab, probe, given)
        if found is not None:
            return found
    raise SystemExit(f"{folder}: nothing tries {probe.part} of {probe.group}")


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns the sums of some rows, of all or of a part, and of how many readers and families of systems they are."""
    groups = {row["group"] for row in rows}
    families = {name for group in groups if (name := group.rpartition(" of ")[2]) in systems()}
    readers = {group for group in groups if group.rpartition(" of ")[2] not in families}
    return {**summed(rows), "bad": sum(map(_bad, rows)), "readers": len(readers), "families": len(families)}


def tables(_: Section, result: Result) -> Iterator[str]:
    """Yields a table of what ended badly, if anything did."""
    if bad := [row for row in result.rows if _bad(row)]:
        shown = ("tried", *(outcome.value for outcome in Outcome))
        yield table(
            [{"what ended badly": f"{row['part']}, {row['group']}"} | {k: row[k] for k in shown} for row in bad]
        )


def _bad(row: Mapping[str, Any]) -> int:
    return sum(row[outcome] for outcome in Outcome if outcome.bad)
