"""What follows a training, an evaluation or a search."""

from typing import TYPE_CHECKING, Any

from wenmai.training.records import Record

if TYPE_CHECKING:
    from wenmai.training.run import Run

__all__ = ["Callback"]


class Callback:
    """Follows a training, for example to show its progress. Every method is optional."""

    def encoding_corpus(self, done_bytes: int, total_bytes: int | None) -> None:
        """The corpus is being read."""

    def begin(self, run: "Run", facts: dict[str, Any]) -> None:
        """Training begins; ``facts`` has system, tokens, types, vocabulary, blocks, threads."""

    def record(self, record: Record) -> None:
        """A record of the training."""

    def compiling(self, what: str) -> None:
        """Code is being compiled, which takes up to a minute and is on no clock; called often, and by any thread."""

    def evaluating(self, what: str, done: int, total: int) -> None:
        """``what``, such as an example, is number ``done`` of ``total`` in an evaluation, or in what comes before."""

    def result(self, message: str) -> None:
        """A result on the way, such as a trial of a search."""

    def note(self, message: str) -> None:
        """A message, such as a damaged checkpoint, skipped lines, or the drift of old vectors."""
