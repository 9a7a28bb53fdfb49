"""What a pre-training task is: raw text in, rows with labels out.

A task plans all its examples of one pass over a text, cheaply, and makes the tokens of one only when it is in a batch.
All that is random is drawn in the plan, from a generator that depends on the seed, the task and the pass: a training
that was killed makes the same plan again, and needs no state.

What a row needs besides follows from what the task says of itself: its masks from ``masking``, its outputs from
``level`` and ``classes``. See ``docs/ernie.md`` for a task that is made step by step.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.core.seeding import mixed_seed
from wenmai.data.corpus import Corpus
from wenmai.data.masking import MaskingConfig
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.sequences import SentenceStream
from wenmai.text.encodable import FOREIGN, MUCH_UNKNOWN
from wenmai.text.tokenizer import Tokenizer

__all__ = ["Context", "Drawn", "Level", "Planned", "PretrainingTask", "Row", "set_aside", "sources_of"]

_ONE_IN = 20  # of what a file has is to validate on
_ASIDE = 0xA51DE  # tells this draw, which is the same in every training, from others

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Marks = npt.NDArray[np.uint8]

Level = Literal["none", "token", "sequence"]


class Row(NamedTuple):
    """One example as the model reads it, before anything is masked.

    Attributes:
        tokens: (T,) int32, special tokens included, T at most ``max_length``.
        segments: (T,) int64, which text each token is of, or whose turn; below ``Context.segments``.
        labels: ``level=sequence``: the class; ``level=token``: (T,) int64, the class of each token, -1 where none is
            asked for; ``level=none``: None.
        units: (T,) uint8 or bool, where a unit begins that is masked together: 1, or 2 if it is a target before others
            are (``Masker.mask`` takes them as ``begins``); None: the words that the ids tell of.
    """

    tokens: Ids
    segments: Ints
    labels: int | Ints | None = None
    units: Bools | Marks | None = None


class Planned(Protocol):
    """The examples of one pass over a text; a task may plan with any class that has this."""

    @property
    def lengths(self) -> Ints:
        """(N,) int64, tokens of each row, special ones included; what batches of like lengths are made by."""


class Drawn(NamedTuple):
    """A plan as a table.

    Attributes:
        lengths: (N,) int64, tokens of each row, special ones included.
        table: (N, anything) int64, what the task needs to make each row.
    """

    lengths: Ints
    table: Ints


@dataclass(frozen=True, kw_only=True)
class Context:
    """What all tasks of a training share.

    Attributes:
        tokenizer: It has tokens for the beginning of a text and for its end, [CLS] and [SEP].
        max_length: Most tokens of a row, special ones included.
        segments: How many segments the model tells apart; 0: none.
        masking: How the recipe masks; a task may replace the policy.
        settings: Of the tasks.
    """

    tokenizer: Tokenizer
    max_length: int
    segments: int = 2
    masking: MaskingConfig
    settings: TasksConfig

    def room(self, texts: int) -> int:
        """Returns how many tokens so many texts of one row can have together."""
        return self.max_length - 1 - texts

    def frame(self, *texts: npt.NDArray[np.integer]) -> tuple[Ids, Ints]:
        """Returns [CLS] first [SEP] second [SEP] ..., and the segments of its tokens: 0, 1, ...

        Texts beyond the last segment that the model tells apart are of that one.
        """
        cls, sep = self.tokenizer.cls_id, self.tokenizer.sep_id
        assert cls is not None
        assert sep is not None
        tokens = np.empty(1 + len(texts) + sum(map(len, texts)), np.int32)
        segments = np.zeros(len(tokens), np.int64)
        tokens[0], place = cls, 1
        for number, text in enumerate(texts):
            end = place + len(text)
            tokens[place:end], tokens[end] = text, sep
            segments[place : end + 1] = min(number, max(0, self.segments - 1))
            place = end + 1
        return tokens, segments


class PretrainingTask(ABC):
    """One task: a subclass is registered by its name in ``wenmai.data.pretraining.TASKS``.

    Args:
        context: What all tasks of a training share.

    Attributes:
        name: In settings and reports.
        level: What is asked: a class of each ``token``, of the whole ``sequence``, or ``none`` but what is masked.
        classes: The names of the classes, in order; none of ``level=none``. Subclasses may set it when they are made.
        masking: How rows are masked; None: they stay as they are. By default as the recipe says.
        marks: The bits of ``wenmai.data.token_marks`` that the text must have been encoded with.
        sources: The files that it reads besides the text, as in ``corpus.json``; of :func:`sources_of`. A training does
            not go on with others.
        notes: What it left out, one sentence each.

    Raises:
        CorpusError: when it is made, if a file of its own cannot be read.
        SettingError: when it is made, if its settings are missing or have no effect.
    """

    name: ClassVar[str]
    level: ClassVar[Level]
    classes: tuple[str, ...] = ()
    masking: MaskingConfig | None
    marks: int = 0
    sources: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()

    def __init__(self, context: Context) -> None:
        self.context = context
        self.masking = context.masking

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that the task can be learned from a text, which messages call ``what``.

        Raises:
            CorpusError: if the text has not what the task needs; by default, if no example is found in it. A subclass
                says what is missing, such as paragraphs of several sentences.
        """
        if not len(self.examples(stream, np.random.default_rng(0)).lengths):
            raise CorpusError(
                f"{what} has no example for the task {self.name}; give more text, or leave {self.name} out of tasks"
            )

    def note_unknown(self, path: Path, rows: Sequence[npt.NDArray[np.integer]]) -> None:
        """Notes how much of a file of its own the vocabulary lacks: that of the text, or of the run of ``--from``.

        Args:
            path: The file.
            rows: Its tokens.

        Raises:
            CorpusError: if it lacks most.
        """
        tokenizer, total = self.context.tokenizer, sum(map(len, rows))
        if not total or tokenizer.unk_id in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id):
            return
        share = sum(np.count_nonzero(row == tokenizer.unk_id) for row in rows) / total
        lacking = f"{path}: the vocabulary lacks {share:.0%} of its pieces"
        if share >= FOREIGN:
            raise CorpusError(f"{lacking}; give a file in its language, or leave {self.name} out of tasks")
        if share > MUCH_UNKNOWN:
            self.notes = [*self.notes, lacking]

    @abstractmethod
    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Planned:
        """Plans the examples of one pass over a text, in any order; all that is random is drawn here.

        Args:
            stream: The text.
            random: A generator for this pass alone.
        """

    @abstractmethod
    def row(self, stream: SentenceStream, examples: Any, place: int) -> Row:  # noqa: ANN401  its own plan
        """Makes one of the planned examples.

        Args:
            stream: The text.
            examples: What :meth:`examples` returned.
            place: Which of them.
        """


def set_aside(groups: Sequence[Hashable]) -> Bools:
    """Returns which things of a file are to validate on: those of one group in 20, drawn by chance.

    Args:
        groups: The group of each thing, which is on one side as a whole. Of fewer than 60 groups two are taken, as one
            alone has no other to be compared with, and of fewer than four one; two at least are needed.
    """
    known: dict[Hashable, int] = {}
    numbers = [known.setdefault(group, len(known)) for group in groups]
    drawn = np.random.default_rng(mixed_seed(0, _ASIDE)).permutation(len(known))
    return (drawn < max(min(2, len(known) // 2), len(known) // _ONE_IN))[np.array(numbers, np.int64)]


def sources_of(path: Path) -> list[dict[str, Any]]:
    """Returns what ``corpus.json`` says of a file.

    Raises:
        CorpusError: if it is not there.
    """
    hashes = Corpus.of_paths([path]).hashes() or []
    return [file.as_json() for file in hashes]
