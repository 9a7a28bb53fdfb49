"""Damage to one file of a run, interrupted or finished: refused with one line, or the result is the same."""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import wenmai
from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Probe
from benchmarks.faults.subjects import answers
from benchmarks.faults.trainings import Training, Trainings
from wenmai.core.errors import WenmaiError
from wenmai.training.run import verify

__all__ = ["Corruption"]

INTERRUPTED, FINISHED = "corruption", "corruption of finished runs"
SEALED = ("recipe.yaml", "corpus.json", "model")  # the files and folders whose damage verify must find
EACH = 5  # for each repeat


class Corruption:
    """Copies a run and the cache of its data, damages one file, and does with it what users do.

    Args:
        lab: How often.
        trainings: What is trained.
    """

    parts = (INTERRUPTED, FINISHED)

    def __init__(self, lab: Lab, trainings: Trainings) -> None:
        self._lab, self._trainings = lab, trainings

    def probes(self, system: str) -> Iterator[Probe]:
        """Files and kinds of damage come in turn."""
        for part in self.parts:
            yield from (Probe(part, system, number) for number in range(EACH * self._lab.repeats))

    def make(self, probe: Probe, folder: Path) -> None:
        """Copies, and damages a file."""
        training = self._trainings[probe.group]
        if probe.part == INTERRUPTED:
            shutil.copytree(training.interrupted, folder, dirs_exist_ok=True)
        else:
            shutil.copytree(training.run, folder / "run")
        every = sorted(path for path in folder.rglob("*") if path.is_file())
        turn, place = divmod(probe.number, len(every))
        damaged = DAMAGE[turn % len(DAMAGE)](every[place], every, self._lab.draw(probe))
        (folder / "damaged.txt").write_text(f"{every[place].relative_to(folder)}: {damaged}\n", encoding="utf-8")

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Verifies, resumes and asks; returns what is wrong with what came out."""
        training, run = self._trainings[probe.group], folder / "run"
        os.environ["WENMAI_CACHE"] = str(folder / "cache")
        damaged = (folder / "damaged.txt").read_text(encoding="utf-8")
        wrong = _resumed(training, run) if probe.part == INTERRUPTED else _used(training, run, damaged)
        return None if wrong is None else f"{wrong} ({damaged.strip()})"


def _resumed(training: Training, run: Path) -> str | None:
    """Resumes an interrupted run; the model must be the same."""
    with suppress(WenmaiError):
        verify(run)
    with suppress(WenmaiError):
        wenmai.load(run)
        return "the model of an unfinished run was loaded"
    wenmai.resume(run)
    return training.another_model(run)


def _used(training: Training, run: Path, damaged: str) -> str | None:
    """Asks a finished run; it must answer as before, and verify must find the damage."""
    try:
        problems = verify(run)[1]
    except WenmaiError as error:
        problems = [str(error)]
    name = damaged.removeprefix("run/").split("/")[0].split(":")[0]
    if name in SEALED and not problems and "the same" not in damaged:
        return "verify finds nothing"
    wenmai.resume(run)
    return None if answers(wenmai.Run(run)) == training.answers else "other answers"


# --- kinds of damage: each is done to one of several files, and described ---------------------------------------------


def _flip(path: Path, every: list[Path], draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    if not content:
        return "the same"
    place, bit = draw.randrange(len(content)), draw.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place} flipped"


def _truncate(path: Path, every: list[Path], draw: random.Random) -> str:
    if not (size := path.stat().st_size):
        return "the same"
    left = draw.randrange(size)
    os.truncate(path, left)
    return f"truncated to {left} of {size} bytes"


def _empty(path: Path, every: list[Path], draw: random.Random) -> str:
    if not path.stat().st_size:
        return "the same"
    os.truncate(path, 0)
    return "emptied"


def _delete(path: Path, every: list[Path], draw: random.Random) -> str:
    path.unlink()
    return "deleted"


def _swap(path: Path, every: list[Path], draw: random.Random) -> str:
    other = draw.choice([one for one in every if one != path])
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)
    return f"swapped with {other.name}" if mine != its else "the same"


def _overwrite(path: Path, every: list[Path], draw: random.Random) -> str:
    content = bytearray(path.read_bytes())
    if not content:
        return "the same"
    begin = draw.randrange(len(content))
    end = min(len(content), begin + draw.randint(1, 64))
    content[begin:end] = draw.randbytes(end - begin)
    path.write_bytes(content)
    return f"bytes {begin} to {end} overwritten"


DAMAGE = (_flip, _truncate, _delete, _swap, _empty, _overwrite)
