"""Labelled examples of the six fine-tuning tasks, from files as people have them, the registry, or Python."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wenmai.core.task_names import TASK_NAMES, TaskName
from wenmai.data.readers import ChoiceExample, PairExample, TaggedSentence, TextExample

__all__ = [
    "TASK_NAMES",
    "Answer",
    "ChoiceExample",
    "Examples",
    "ExamplesConfig",
    "ExamplesStats",
    "PairExample",
    "Placed",
    "ScoredExample",
    "SpanExample",
    "TaggedSentence",
    "TaskExample",
    "TaskName",
    "TextExample",
    "open_examples",
    "require_known",
]


class ScoredExample(NamedTuple):
    """A text, or two (``second`` is None if there is one), and a number."""

    first: str
    second: str | None
    score: float


class Answer(NamedTuple):
    """An answer: its text, and the index of its first character in the context."""

    text: str
    start: int


class SpanExample(NamedTuple):
    """A question whose answer is a part of a text; ``impossible`` if the text has none (then ``answers`` is empty)."""

    id: str
    title: str
    context: str
    question: str
    answers: tuple[Answer, ...]
    impossible: bool = False


TaskExample = TextExample | PairExample | ScoredExample | TaggedSentence | SpanExample | ChoiceExample


@dataclass(frozen=True, kw_only=True, slots=True)
class ExamplesConfig:
    """Where texts and labels are in files, and what is read of them."""

    valid: str | None = None
    valid_share: float = 0.1
    text_column: str | None = None
    second_column: str | None = None
    label_column: str | None = None
    token_column: int = 1
    tag_column: int = -1
    tag_scheme: Literal["auto", "iob1", "bio", "bioes", "none"] = "auto"
    bad_tags: Literal["repair", "error"] = "repair"
    unlabelled: Literal["error", "skip"] = "error"
    bad_answers: Literal["error", "skip"] = "error"
    encoding: str = "utf-8"
    limit: int | None = None


@dataclass(slots=True, kw_only=True)
class ExamplesStats:
    """What was found, and what was left out (``left_out()`` says it in sentences)."""

    files: int = 0
    records: int = 0
    examples: int = 0
    without_label: int = 0
    empty: int = 0
    bad_answers: int = 0
    repaired_tags: int = 0

    def left_out(self) -> list[str]:
        """Returns what was left out or repaired, one sentence for each reason."""
        return []


class Placed(NamedTuple):
    """An example, and where it stands (such as ``FILE: line 3``)."""

    example: Any
    where: str


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of one task that can be read repeatedly. Make them with :func:`open_examples`."""

    task: TaskName
    sources: tuple[str, ...]
    config: ExamplesConfig
    split: str = "train"
    paths: tuple[Path, ...] = ()
    items: Iterable[Any] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[Any]:
        return (placed.example for placed in self.read(ExamplesStats()))

    def read(self, stats: ExamplesStats) -> Iterator[Placed]:
        """Yields the examples once more with their places, from the first to the last, and counts."""
        raise NotImplementedError

    def labels(self) -> tuple[str, ...]:
        """Returns the labels in a stable order (of tagging the tags, of other tasks than these none)."""
        raise NotImplementedError

    def stats(self) -> ExamplesStats:
        """Returns what is found, and left out, in reading all."""
        raise NotImplementedError

    def set_aside(self) -> "tuple[Examples, Examples]":
        """Returns what is trained on, and a share (``valid_share``) to evaluate on, by the texts' CRC-32."""
        raise NotImplementedError

    def describe(self) -> str:
        """Returns a name for messages."""
        return ", ".join(self.sources) or "examples from Python"

    def hints(self) -> Mapping[str, Any]:
        """Returns text settings that fit, of sets of the registry."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Returns a hash of the content and of how it is read."""
        raise NotImplementedError


def open_examples(
    spec: Any,  # noqa: ANN401  whatever names or holds examples
    task: TaskName,
    config: ExamplesConfig | None = None,
    *,
    split: str = "train",
) -> Examples:
    """Opens examples of a task: a file, files, ``data:NAME[/SPLIT]``, or typed examples (or rows) from Python."""
    raise NotImplementedError


def require_known(labels: Sequence[str], examples: Examples) -> None:
    """Checks that no example has a label that is not among these.

    Raises:
        CorpusError: if one has; it names label, file and line.
    """
    raise NotImplementedError
