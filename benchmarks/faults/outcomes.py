"""How a probe of the fault lab ends, and the counts of that."""

import json
import shlex
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.section import table

__all__ = ["Failures", "Finding", "Outcome", "Probe", "Tally", "place_of"]


class Outcome(StrEnum):
    """How a probe ends."""

    REFUSED = "refused"
    """One clear message: a ``WenmaiError``; of a command, an exit code that is not zero."""
    BENIGN = "benign"
    """Accepted, and harmless."""
    SILENT = "silent"
    """Accepted, but what comes out is wrong."""
    TRACEBACK = "traceback"
    """Any other exception."""
    CRASH = "crash"
    """Killed by a signal, or more memory than the limit."""
    HANG = "hang"
    """More time than the limit."""

    @property
    def bad(self) -> bool:
        """Whether it is a defect."""
        return self not in (Outcome.REFUSED, Outcome.BENIGN)


@dataclass(frozen=True)
class Probe:
    """One thing that is tried.

    Attributes:
        part: What is done, such as ``prefixes`` or ``kills``.
        group: To what: a reader of files, or a family of systems.
        number: Which of its kind; with the seed of the lab it says all about it.
    """

    part: str
    group: str
    number: int

    @property
    def name(self) -> str:
        """The name of a file or folder of its own."""
        return f"{self.part}-{self.group}-{self.number}".replace(" ", "-").replace("/", "-")


@dataclass(frozen=True)
class Finding:
    """How a probe ended.

    Attributes:
        probe: Which.
        outcome: How.
        message: Of the error, or what is wrong.
        seconds: How long it took.
    """

    probe: Probe
    outcome: Outcome
    message: str = ""
    seconds: float = 0.0


class Tally:
    """How many probes of each part and group ended how."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._seconds: Counter[tuple[str, str]] = Counter()

    def add(self, finding: Finding) -> None:
        """Counts a probe."""
        key = finding.probe.part, finding.probe.group
        self._counts.setdefault(key, Counter())[finding.outcome] += 1
        self._seconds[key] += finding.seconds

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row of each part and group: how many were tried, and how many ended how."""
        for (part, group), counts in sorted(self._counts.items()):
            yield {
                "part": part,
                "group": group,
                "tried": counts.total(),
                **{outcome.value: counts[outcome] for outcome in Outcome},
                "seconds": round(self._seconds[part, group], 3),
            }

    def totals(self) -> dict[str, int]:
        """Returns how many probes there were of all parts, and how many ended how."""
        return summed(self.rows())

    @property
    def bad(self) -> int:
        """How many defects there are."""
        return sum(self.totals()[outcome] for outcome in Outcome if outcome.bad)

    def __str__(self) -> str:
        names = ("part", "group", "tried", *Outcome)
        rows = [{name: row[name] for name in names} for row in self.rows()]
        return table([*rows, {"part": "all", "group": "", **self.totals()}])


def summed(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Adds up the counts of rows."""
    found = dict.fromkeys(("tried", *(outcome.value for outcome in Outcome)), 0)
    for row in rows:
        for name in found:
            found[name] += row[name]
    return found


class Failures:
    """The folder of the probes that ended badly, each with what it was given, so that it can be tried again.

    Args:
        folder: Made when there is one to keep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, finding: Finding, given: Path | None = None) -> str:
        """Keeps a probe.

        Args:
            finding: How it ended.
            given: The folder of its input, which is packed and removed; None if the probe makes all it needs.

        Returns:
            The command that tries it again.
        """
        own = self.folder / finding.probe.name
        if own.exists():
            shutil.rmtree(own)
        own.mkdir(parents=True)
        if given is not None and given.exists():
            with tarfile.open(own / "input.tar", "w") as archive:  # which keeps links and pipes
                archive.add(given, "input")
            shutil.rmtree(given)
        facts = asdict(finding.probe) | {"outcome": finding.outcome, "message": finding.message}
        (own / "probe.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        return shlex.join(["python", "-m", "benchmarks", "faults", "--replay", str(own)])

    @staticmethod
    def read(folder: Path, into: Path) -> tuple[Probe, Path]:
        """Returns a probe that was kept, and the folder of its input, which is unpacked into another."""
        facts = json.loads((folder / "probe.json").read_bytes())
        if (packed := folder / "input.tar").exists():
            with tarfile.open(packed) as archive:
                archive.extraction_filter = lambda member, _: member  # our own archive; Python 3.11.2 has no filters
                archive.extractall(into)
        return Probe(facts["part"], facts["group"], facts["number"]), into / "input"


def place_of(error: BaseException) -> str:
    """Where in the package it was raised, and from where that was called."""
    found, trace = ["?"], error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "wenmai" in Path(name).parts:
            found.insert(0, f"{name.rpartition('wenmai/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return ", from ".join(found[:4])
