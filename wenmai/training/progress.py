"""Progress on stderr: one live line in a terminal or notebook, plain lines elsewhere."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from wenmai.core.clock import CLOCK
from wenmai.core.columns import text_width
from wenmai.core.quantities import duration, plural, size, words_a_second
from wenmai.core.wording import say
from wenmai.training.callback import Callback
from wenmai.training.records import EpochRecord, EvaluationRecord, Record, StepRecord, UpdateRecord

if TYPE_CHECKING:
    from wenmai.training.run import Run

__all__ = ["Progress", "following"]

_PLAIN_SECONDS = 10.0  # between plain lines
_NOTEBOOK_COLUMNS = 100
_NOTEBOOK_SECONDS = 0.2  # between changes of a live line, each of which is sent to a browser
_LEFT_OUT = {
    "skipped_lines": "undecodable lines",
    "empty_files": "empty files",
    "skipped_files": "hidden or special files",
    "pruned_types": "rare types",
    "empty": "pairs with an empty side",
    "too_long": "pairs longer than longest or max_length allows",
    "repeated": "repeated sentences of gold files",
    "malformed": "bad lines of gold files",
}


@contextmanager
def following(callback: Callback | None, *, quiet: bool = False) -> Iterator[Callback]:
    """Lets a callback follow what is done meanwhile, compiling included; without one, shows the progress.

    Args:
        callback: Follows it; one that shows progress must have been entered.
        quiet: Without a callback: print warnings only.
    """
    with ExitStack() as held:
        follower = held.enter_context(Progress(quiet=quiet)) if callback is None else callback
        held.enter_context(CLOCK.announcing(follower.compiling))
        yield follower


class Progress(Callback):
    """Prints the progress of a training, an evaluation or a search.

    Args:
        quiet: Print warnings only.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None  # as under pythonw
        self._notebook = type(sys.stderr).__module__.partition(".")[0] == "ipykernel"
        self._live = not self._quiet and (self._notebook or sys.stderr.isatty())
        self._text = ""  # of the live line
        self._passing = False  # whether the live line says nothing once it is over
        self._shown = -_PLAIN_SECONDS
        self._reading = False
        self._compiling = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_line()

    def encoding_corpus(self, done_bytes: int, total_bytes: int | None) -> None:
        """Shows how much of the corpus has been read."""
        finished = total_bytes is not None and done_bytes >= total_bytes
        read = size(done_bytes)
        if total_bytes:
            read = say("{share} of {size}", share=f"{done_bytes / total_bytes:6.1%}", size=size(total_bytes))
        if self._live:
            self._line(["reading the corpus", read], keep=[1, 0], at_once=finished)
        elif not self._quiet and (self._is_due() or (finished and self._reading)):
            self._print(f"reading the corpus: {read.strip()}")
            self._reading = not finished

    def begin(self, run: "Run", facts: dict[str, Any]) -> None:
        """Shows system, sizes and effort."""
        self._end_line()
        self._shown = -_PLAIN_SECONDS
        stats = facts["stats"]
        left_out = {title: stats.get(name, 0) for name, title in _LEFT_OUT.items()}
        if any(left_out.values()):
            listed = ", ".join(f"{number:,} {say(name)}" for name, number in left_out.items() if number)
            self.note(f"left out of the corpus: {listed}")
        if self._quiet:
            return
        effort = plural(facts["epochs"], "epoch")
        if facts.get("steps"):
            effort = say("{updates} or {epochs} at most", updates=plural(facts["steps"], "update"), epochs=effort)
        comma = say(", ")
        effort += f"{comma}{plural(facts['threads'], 'thread')}"
        sizes = comma.join(map(say, facts["sizes"].split(", ")))
        whole = say(
            "{system}: {sizes}; {effort} -> {run}", system=facts["system"], sizes=sizes, effort=effort, run=run.path
        )
        self._print(whole)
        if facts["position"]:
            self._print("resumed from a checkpoint")

    def record(self, record: Record) -> None:
        """Shows speed, loss, learning rate and time left."""
        if isinstance(record, EpochRecord):
            spent = duration(record.seconds)
            loss = f"mean loss {record.loss:.4f}, {spent} so far" if record.loss is not None else f"{spent} so far"
            self.result(f"epoch {record.epoch} done: {loss}")
        elif isinstance(record, EvaluationRecord):
            if record.figures:
                metrics = "  ".join(f"{say(name)} {value:.4g}" for name, value in record.figures.items())
                self.result(
                    f"after {plural(record.position, 'update')}, {duration(record.seconds)}: validation {metrics}"
                )
        elif self._live:
            done, epoch, speed, loss, rate, left = _step(record)
            self._line([done, epoch, speed, loss, rate, left], keep=[0, 5, 3, 2, 1, 4])
        elif not self._quiet and self._is_due():
            self._print("  ".join(map(say, filter(None, _step(record)))))

    def compiling(self, what: str) -> None:
        """Says so once, or while it lasts."""
        if self._live:
            self._line([f"{what} ..."], keep=[0], at_once=True)
        elif not self._quiet and not self._compiling:
            self._print(what)
        self._compiling = True

    def evaluating(self, what: str, done: int, total: int) -> None:
        """Shows how far an evaluation is."""
        if self._live:
            self._line([what, _count(done, total)], keep=[1, 0])
            self._passing = True
        elif not self._quiet:
            if self._shown < 0:
                self._shown = time.monotonic()  # short evaluations need no word
            if self._is_due():
                self._print(f"{say(what)} {_count(done, total)}")

    def result(self, message: str) -> None:
        """Prints a result."""
        if not self._quiet:
            self._end_line()
            self._print(message)

    def note(self, message: str) -> None:
        """Prints a message."""
        self._end_line()
        self._print(f"note: {say(message)}")

    def _is_due(self) -> bool:
        """Whether it is time for another plain line."""
        now = time.monotonic()
        due = now - self._shown >= _PLAIN_SECONDS
        self._shown = now if due else self._shown
        return due

    def _line(self, parts: list[str], *, keep: list[int], at_once: bool = False) -> None:
        """Shows a live line in place of the one before.

        Args:
            parts: What it says, in order; empty parts are left out.
            keep: The places of the parts, the most important first: those that fit are shown.
            at_once: Show it even in a notebook that has just changed.
        """
        now = time.monotonic()
        if self._notebook and not at_once and now - self._shown < _NOTEBOOK_SECONDS:
            return
        width = _NOTEBOOK_COLUMNS if self._notebook else _columns()  # a notebook is not where its server runs
        text = _fitting(list(map(say, parts)), keep, width - 1)  # a line that wraps cannot be overwritten
        self._passing = False
        if text != self._text:
            rest = " " * (text_width(self._text) - text_width(text))
            self._write(f"\r{text}{rest}")
            self._text, self._shown = text, now

    def _end_line(self) -> None:
        if self._text:
            erased = "\r" + " " * text_width(self._text) + "\r"
            self._write(erased if self._passing else "\n")
            self._text = ""

    def _print(self, text: str) -> None:
        self._write(f"{say(text)}\n")

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError):  # whoever reads it has ended, or the terminal is gone, and the work is not
                print(text, end="", file=sys.stderr, flush=True)


def _count(done: int, total: int) -> str:
    return say("{done} of {total}", done=f"{done:,}", total=f"{total:,}")


def _step(record: StepRecord | UpdateRecord) -> tuple[str, str, str, str, str, str]:
    """Returns progress, epoch, speed, loss, learning rate and time left; what there is none of is empty."""
    loss = "" if record.loss is None else f"loss {record.loss:.4f}"
    if isinstance(record, StepRecord):
        speed = f"{words_a_second(record.words_per_second)} words/s" if record.words_per_second >= 1 else ""
    else:
        loss += "".join(f", {name} {value:.4f}" for name, value in record.losses.items() if value is not None)
        utilisation = "" if record.flops_share is None else f" ({record.flops_share:.0%} of the GPU)"
        speed = f"{record.tokens_per_second:,.0f} tokens/s{utilisation}"
    rate = f"rate {record.learning_rate:.3g}" if record.learning_rate else ""
    return (
        f"{record.progress:6.1%}",
        f"epoch {record.epoch}",
        speed,
        loss,
        rate,
        f"{duration(record.seconds_left)} left",
    )


def _fitting(parts: list[str], keep: list[int], width: int) -> str:
    """Joins as many of the parts as fit, the most important first; cuts the very first if it does not."""
    kept: list[int] = []
    for place in keep:
        wanted = sorted([*kept, place])
        if parts[place] and (not kept or text_width("  ".join(parts[one] for one in wanted)) <= width):
            kept = wanted
    text = "  ".join(parts[place] for place in kept)
    while text_width(text) > width:
        text = text[:-1]
    return text


def _columns() -> int:
    """Returns how wide the terminal of standard error is; standard output, which is asked first, may be a file."""
    if "COLUMNS" not in os.environ:
        with suppress(OSError, ValueError, AttributeError):  # not a terminal, or no file at all
            return os.get_terminal_size(sys.stderr.fileno()).columns or shutil.get_terminal_size().columns
    return shutil.get_terminal_size().columns
