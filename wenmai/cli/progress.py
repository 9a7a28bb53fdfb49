"""The progress of a training on stderr: one live line in a terminal, plain lines elsewhere."""

import shutil
import sys
import time
from types import TracebackType
from typing import Any, Self

from wenmai.cli.printing import words_a_second
from wenmai.runs.train import Callback
from wenmai.training.records import EpochRecord, EvaluationRecord, Record, StepRecord, UpdateRecord
from wenmai.training.run import Run

__all__ = ["Progress"]

_PLAIN_SECONDS = 10.0
_LEFT_OUT = {
    "skipped_lines": "undecodable lines",
    "empty_files": "empty files",
    "skipped_files": "hidden or special files",
    "pruned_types": "rare types",
    "empty": "pairs with an empty side",
    "too_long": "pairs longer than data.longest",
}


class Progress(Callback):
    """Prints the progress of a training.

    Args:
        quiet: Print warnings only.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._width = 0
        self._shown = -_PLAIN_SECONDS
        self._reading = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_line()

    def encoding_corpus(self, done_bytes: int, total_bytes: int | None) -> None:
        """Shows how much of the corpus has been read."""
        finished = total_bytes is not None and done_bytes >= total_bytes
        read = f"{done_bytes / total_bytes:6.1%} of {_bytes(total_bytes)}" if total_bytes else _bytes(done_bytes)
        if self._live:
            self._line(f"reading the corpus  {read}")
        elif not self._quiet and (time.monotonic() - self._shown >= _PLAIN_SECONDS or (finished and self._reading)):
            self._print(f"reading the corpus: {read.strip()}")
            self._shown = time.monotonic()
            self._reading = not finished

    def begin(self, run: Run, facts: dict[str, Any]) -> None:
        """Shows system, sizes and effort."""
        self._end_line()
        self._shown = -_PLAIN_SECONDS
        stats = facts["stats"]
        left_out = {title: stats.get(name, 0) for name, title in _LEFT_OUT.items()}
        if any(left_out.values()):
            listed = ", ".join(f"{number:,} {name}" for name, number in left_out.items() if number)
            self.note(f"left out of the corpus: {listed}")
        if self._quiet:
            return
        effort = f"{_plural(facts['epochs'], 'epoch')}, {_plural(facts['threads'], 'thread')}"
        self._print(f"{facts['system']}: {facts['sizes']}; {effort} -> {run.path}")
        if facts["position"]:
            self._print("resumed from a checkpoint")

    def record(self, record: Record) -> None:
        """Shows speed, loss, learning rate and time left."""
        if isinstance(record, EpochRecord):
            if not self._quiet:
                self._end_line()
                loss = "-" if record.loss is None else f"{record.loss:.4f}"
                self._print(f"epoch {record.epoch} done: mean loss {loss}, {_seconds(record.seconds)} so far")
            return
        if isinstance(record, EvaluationRecord):
            if not self._quiet and record.figures:
                self._end_line()
                metrics = "  ".join(f"{name} {value:.4g}" for name, value in record.figures.items())
                self._print(f"after {record.position:,} updates, {_seconds(record.seconds)}: validation {metrics}")
            return
        if self._live:
            self._line(_step(record))
        elif not self._quiet and time.monotonic() - self._shown >= _PLAIN_SECONDS:
            self._print(_step(record))
            self._shown = time.monotonic()

    def note(self, message: str) -> None:
        """Prints a message."""
        self._end_line()
        self._print(f"note: {message}")

    def _line(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be overwritten
        print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def _end_line(self) -> None:
        if self._width:
            print(file=sys.stderr)
            self._width = 0

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _step(record: StepRecord | UpdateRecord) -> str:
    loss = "-" if record.loss is None else f"{record.loss:.4f}"
    if isinstance(record, StepRecord):
        speed = f"{words_a_second(record.words_per_second)} words/s"
    else:
        loss += "".join(f", {name} {value:.4f}" for name, value in record.losses.items() if value is not None)
        utilisation = "" if record.flops_share is None else f" ({record.flops_share:.0%} of the GPU)"
        speed = f"{record.tokens_per_second:,.0f} tokens/s{utilisation}"
    return (
        f"{record.progress:6.1%}  epoch {record.epoch}  {speed}  loss {loss}  "
        f"rate {record.learning_rate:.3g}  {_seconds(record.seconds_left)} left"
    )


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _plural(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _bytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
