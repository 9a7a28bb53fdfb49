"""The sets that probes are trained and measured on, with the random labels of their control tasks."""

import os
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, SettingError, nearest_name
from wenmai.data.datasets import find_dataset, named_dataset
from wenmai.data.drawing import drawn
from wenmai.data.example_settings import ExamplesConfig, with_columns
from wenmai.data.examples import Examples, ExamplesStats, has_split, open_examples
from wenmai.runs.measuring.measurer import title_of

__all__ = ["PROBE_TASKS", "ProbeSet", "open_probe_set"]

Ints = npt.NDArray[np.int64]
ProbeTask = Literal["classification", "pair", "tagging"]
PROBE_TASKS: tuple[ProbeTask, ...] = get_args(ProbeTask)

_ASIDE_TO_MEASURE = 0.2  # of a file that comes alone
_CHOOSING = 0.1  # of the training examples


@dataclass(frozen=True, eq=False, kw_only=True)
class ProbeSet:
    """Labelled examples in three parts, one after the other: to train on, to choose by, to measure on.

    Attributes:
        name: Title.
        task: ``classification``, ``pair`` or ``tagging``.
        source: What is trained on.
        measured: What is measured on.
        segment: How texts are cut into words where the vectors of a model do not say; of the data set.
        examples: All, in the order of the parts.
        sizes: Examples of the three parts.
        available: Training examples that there are; more than the first two sizes if only some were taken.
        entities: Whether tags are entities, B-TYPE and I-TYPE.
        left_out: What was left out or repaired, one sentence for each reason.
    """

    name: str
    task: ProbeTask
    source: str
    measured: str
    segment: str
    examples: Sequence[Any]
    sizes: tuple[int, int, int]
    available: int
    entities: bool = False
    left_out: tuple[str, ...] = ()

    @cached_property
    def texts(self) -> tuple[list[str], Ints]:
        """The different texts, and the number of each text of the examples: (N,), of pairs (N, 2)."""
        numbers: dict[str, int] = {}
        width = 2 if self.task == "pair" else 1
        rows = [[numbers.setdefault(text, len(numbers)) for text in example[:width]] for example in self.examples]
        found = np.array(rows, np.int64)
        return list(numbers), found if width == 2 else found[:, 0]

    @cached_property
    def sentences(self) -> list[tuple[str, ...]]:
        """The words of each example; of tagging."""
        return [example.tokens for example in self.examples]

    @cached_property
    def parts(self) -> tuple[slice, slice, slice]:
        """Where the units of the three parts are: examples, of tagging words."""
        if self.task == "tagging":
            ends = np.cumsum([0, *map(len, self.sentences)])[np.cumsum([0, *self.sizes])].tolist()
        else:
            ends = np.cumsum([0, *self.sizes]).tolist()
        return slice(ends[0], ends[1]), slice(ends[1], ends[2]), slice(ends[2], ends[3])

    @cached_property
    def gold(self) -> tuple[list[str], Ints]:
        """The labels to learn, and the number of the label of each unit; -1 if it is none of them."""
        given = _units(self)
        return _numbered(given, self.parts[0])

    def control(self, seed: int) -> tuple[list[str], Ints]:
        """Returns random labels that are as frequent as the real ones, as :attr:`gold` does.

        Of tagging each word type has one of its own in all parts (Hewitt, Liang 2019, section 2); else each example of
        the first part has one, and the others have none, since nothing about them could be learnt.
        """
        labels, gold = self.gold
        draws, train = np.random.default_rng(seed), self.parts[0]
        found = np.full(len(gold), -1, np.int64)
        if self.task != "tagging":
            found[train] = draws.permutation(gold[train])
            return labels, found
        words: dict[Hashable, int] = {}
        types = np.array([words.setdefault(word, len(words)) for word in chain.from_iterable(self.sentences)], np.int64)
        shares = np.bincount(gold[train], minlength=len(labels)) / (train.stop - train.start)
        found[:] = draws.choice(len(labels), size=len(words), p=shares)[types]
        return labels, found

    def sentence_tags(self, named: Sequence[str]) -> list[list[str]]:
        """Returns the tags of the words of the last part, by sentence."""
        found, at = [], 0
        for example in self.examples[len(self.examples) - self.sizes[2] :]:
            found.append(list(named[at : at + len(example.tokens)]))
            at += len(example.tokens)
        return found


def _units(found: ProbeSet) -> list[str]:
    if found.task == "tagging":
        return list(chain.from_iterable(example.tags for example in found.examples))
    return [example.label for example in found.examples]


def _numbered(given: Sequence[str], train: slice) -> tuple[list[str], Ints]:
    labels = sorted(set(given[train]))
    numbers = {label: number for number, label in enumerate(labels)}
    return labels, np.array([numbers.get(label, -1) for label in given], np.int64)


def open_probe_set(
    spec: str,
    *,
    task: str | None = None,
    columns: Mapping[str, Any] | None = None,
    limit: int | None = None,
    seed: int = 1,
) -> ProbeSet:
    """Reads a set.

    Args:
        spec: ``data:NAME``, measured on its dev split, or ``data:NAME/SPLIT`` on that; a file or a folder with files of
            the splits' names; or TRAIN,TEST. Of a file that comes alone a fifth is set aside to measure on.
        task: ``classification``, ``pair`` or ``tagging``; of a data set known.
        columns: Where texts and labels are in files, such as ``text_column``; otherwise they are found.
        limit: Train and choose on at most so many examples, those that fine-tuning draws with this limit and seed;
            None: all.
        seed: Decides which.

    Raises:
        SettingError: if the set is for none of the tasks, the task of a file is not named, or there are more labels
            than ``limit``.
        CorpusError: if it cannot be read, has too few examples, or all of them have one label.
    """
    if task is not None and task not in PROBE_TASKS:
        hint = nearest_name(task, PROBE_TASKS)
        raise SettingError(f"task {task!r}{hint}: a probe is for classification, pair or tagging")
    first, _, second = spec.partition(",")
    named = named_dataset(first)
    if named is not None:
        dataset, split = named
        usable = [one for one in dataset.tasks if one in PROBE_TASKS]
        if not usable:
            kind = {"span": "questions"}.get(dataset.task, "multiple choice")
            raise SettingError(f"data:{dataset.name} is of {kind}; a probe needs texts with classes, or tags")
        chosen = task or usable[0]
        base = f"data:{dataset.name}"
        if second:
            train = open_examples(base, chosen, split=split or "train")
            test = open_examples(second, chosen, with_columns(ExamplesConfig(), columns), split="test")
        else:
            train, test = open_examples(base, chosen), open_examples(base, chosen, split=split or "dev")
        segment = dataset.segment
    else:
        if first.startswith("data:"):
            find_dataset(first.partition("/")[0])  # says what there is
        if task is None:
            raise SettingError(f"{first}: name what its examples are: --task classification, pair or tagging")
        chosen, segment = task, "whitespace"
        train, test = _opened(first, second, chosen, columns)
    return _made(title_of(first if named is None else spec), chosen, train, test, segment, limit, seed)


def _opened(first: str, second: str, task: ProbeTask, columns: Mapping[str, Any] | None) -> tuple[Examples, Examples]:
    config = with_columns(ExamplesConfig(valid_share=_ASIDE_TO_MEASURE), columns)
    train = open_examples(first, task, config)
    if second:
        return train, open_examples(second, task, config, split="test")
    if os.path.isdir(first):
        for split in ("test", "dev"):
            if has_split(first, split):
                return train, open_examples(first, task, config, split=split)
    return train.set_aside()


def _made(
    name: str, task: ProbeTask, train: Examples, test: Examples, segment: str, limit: int | None, seed: int
) -> ProbeSet:
    stats, stats_measured = ExamplesStats(), ExamplesStats()
    learnt = [one.example for one in train.read(stats)]
    try:
        measured = [one.example for one in test.read(stats_measured)]
    except CorpusError:
        if test.part == "all":
            raise
        raise CorpusError(
            f"{train.describe()}: too few examples to set some aside to measure on; name what to measure on, TRAIN,TEST"
        ) from None
    available = len(learnt)
    if limit is not None and available > limit:
        kept = drawn([getattr(example, "label", None) for example in learnt], limit, seed)
        learnt = [learnt[place] for place in sorted(kept)]
    fit = [one for one in learnt if not _chooses(one)]
    choose = [one for one in learnt if _chooses(one)]
    where = train.describe()
    if not fit or not choose:
        count = len({_text(example) for example in learnt})
        raise CorpusError(f"{where}: a probe needs more different texts than {count:,}; give more, or a higher limit")
    left_out = stats.left_out()
    if test.part == "all":  # else both parts are of one file
        left_out += stats_measured.left_out()
    found = ProbeSet(
        name=name,
        task=task,
        source=where,
        measured=test.describe(),
        segment=segment,
        examples=[*fit, *choose, *measured],
        sizes=(len(fit), len(choose), len(measured)),
        available=available,
        left_out=tuple(dict.fromkeys(left_out)),
        entities=task == "tagging" and any("-" in tag and tag[:2] in ("B-", "I-") for one in fit for tag in one.tags),
    )
    labels, gold = found.gold
    if len(labels) < 2:
        raise CorpusError(f"{where}: all training examples have the label {labels[0]!r}; a probe needs at least two")
    if (gold[found.parts[2]] < 0).all():
        raise CorpusError(
            f"{found.measured}: no label is one of those to train on; there are {', '.join(labels)[:200]}"
        )
    return found


def _text(example: Any) -> str:  # noqa: ANN401  of any task
    return example[0] if isinstance(example[0], str) else " ".join(example[0])


def _chooses(example: Any) -> bool:  # noqa: ANN401  of any task
    """Whether an example is one to choose by; equal texts are on the same side."""
    return zlib.crc32(b"probe " + _text(example).encode("utf-8", "surrogatepass")) % 1000 < 1000 * _CHOOSING
