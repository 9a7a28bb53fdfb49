"""A stream of labelled examples of one task, from files, a data set of the registry, or Python."""

import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

from wenmai.core.errors import CorpusError
from wenmai.core.task_names import TaskName
from wenmai.data.datasets import Dataset
from wenmai.data.drawing import drawn
from wenmai.data.example_files import Reading, Sentence, count_unlabelled
from wenmai.data.example_settings import ExamplesConfig, ExamplesStats, Placed
from wenmai.data.file_hash import FileHash, file_hashes
from wenmai.data.records import Roles, Unlabelled, checked, choice_of, is_empty
from wenmai.data.span_files import SpanReader
from wenmai.data.table_columns import LOOKED_AT, common_roles, guessed_roles, has_two_texts
from wenmai.data.tagged_records import tagged_of
from wenmai.data.tags import SchemeFinder, bio_tags, impossible_tags, with_outside
from wenmai.data.typed import (
    Answer,
    ChoiceExample,
    PairExample,
    ScoredExample,
    SpanExample,
    TaggedSentence,
    TextExample,
)

__all__ = ["FROM_PYTHON", "Examples", "parts_of_rows"]

FROM_PYTHON = "examples from Python"
_TYPES: Mapping[TaskName, type] = {
    "classification": TextExample,
    "pair": PairExample,
    "regression": ScoredExample,
    "tagging": TaggedSentence,
    "span": SpanExample,
    "choice": ChoiceExample,
}
_TEXTS: Mapping[TaskName, tuple[int, ...]] = {
    "classification": (1,),
    "pair": (2,),
    "regression": (1, 2),
    "tagging": (1,),
}


def parts_of_rows(task: TaskName, *, labelled: bool) -> list[int]:
    """Returns how many parts a row from Python may have; nothing for tasks whose examples are no rows."""
    return [texts + labelled for texts in _TEXTS.get(task, ())]


@dataclass(frozen=True, kw_only=True)
class _Survey:
    """What reading all tagged sentences, as they are written, finds."""

    scheme: str
    tags: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """Examples of one task that can be read repeatedly. Make them with :func:`~wenmai.data.examples.open_examples`.

    Attributes:
        task: The task.
        sources: What the data is called: absolute paths, and names of the registry as they are; empty if from Python.
        config: Where texts and labels are in files.
        split: Of a data set, or of a folder.
        labelled: Whether they have labels; without, labels are empty, numbers NaN, tags O, right answers -1 or none,
            and empty texts are kept, so that there are as many examples as lines.
        dataset: The data set of the registry, or None.
        part: The part that is read: ``all``, what is set aside to evaluate on, or the rest.
        limit: Most examples that are read, which are drawn by chance (:func:`wenmai.data.drawing.drawn`), or None.
        seed: Decides which are drawn.
    """

    task: TaskName
    sources: tuple[str, ...]
    config: ExamplesConfig
    split: str = "train"
    labelled: bool = True
    dataset: Dataset | None = None
    part: Literal["all", "aside", "rest"] = "all"
    limit: int | None = None
    seed: int = 1
    paths: tuple[Path, ...] = ()
    items: Iterable[Any] = field(default=(), repr=False)

    @property
    def repeatable(self) -> bool:
        """Whether the names alone suffice to read the same examples again."""
        return bool(self.sources)

    def describe(self) -> str:
        """Returns a name of the examples for messages."""
        return ", ".join(self.sources) or FROM_PYTHON

    def __iter__(self) -> Iterator[Any]:
        return (placed.example for placed in self.read(ExamplesStats()))

    def read(self, stats: ExamplesStats) -> Iterator[Placed]:
        """Reads the examples once more, from the first to the last, with their places.

        Args:
            stats: Counters to be increased.

        Raises:
            CorpusError: if something is not as it should be, or there is no example.
        """
        found, kept = 0, self._drawn
        for number, placed in enumerate(filter(self._is_in_part, self._all(stats))):
            if kept is None or number in kept:
                found += 1
                yield placed
            else:
                stats.not_drawn += 1
        stats.examples = found
        if not found:
            reasons = stats.left_out()
            elsewhere = 0 if self.part == "all" else sum(1 for _ in self._all(ExamplesStats()))
            if self.task == "tagging" and elsewhere == 1:
                reasons.append("all of it is one sentence; put a blank line after each sentence")
            raise CorpusError(self._nothing(elsewhere, "".join(f"; {reason}" for reason in reasons)))

    def stats(self) -> ExamplesStats:
        """Reads all, and returns what was found and left out.

        Raises:
            CorpusError: as :meth:`read`.
        """
        stats = ExamplesStats()
        for _ in self.read(stats):
            pass
        return stats

    def are_pairs(self) -> bool:
        """Whether examples of classes are of two texts each, as their names or their parts say; only these are read."""
        if self.config.second_column is not None or self.config.text_column is not None:
            return self.config.second_column is not None
        if self.paths:
            return has_two_texts(self._reading(self.paths[0], ExamplesStats()).names())
        first: Any = next(iter(self.items), None)
        if isinstance(first, Mapping):
            return has_two_texts(first)
        return isinstance(first, PairExample) or (type(first) in (tuple, list) and len(first) == 2 + self.labelled)

    def labels(self) -> tuple[str, ...]:
        """Returns the labels in a stable order; none of tasks without them.

        Those of a data set of the registry are in its order; others are sorted, numbers by their value. Of tagging
        with entities they are O, then B and I of each type.

        Raises:
            CorpusError: as :meth:`read`.
        """
        if self.task in ("regression", "span", "choice"):
            return ()
        if self.task == "tagging":
            return self._tag_labels()
        if self.dataset is not None:
            return self.dataset.labels
        return _in_order({placed.example.label for placed in self.read(ExamplesStats())})

    def hints(self) -> dict[str, Any]:
        """Returns text settings that fit the texts of a data set of the registry; otherwise none."""
        return self.dataset.text_settings if self.dataset else {}

    def hashes(self) -> list[FileHash]:
        """Returns what identifies the content of each file; nothing for examples from Python.

        Raises:
            CorpusError: if a file cannot be read.
        """
        return file_hashes(self.paths)

    def fingerprint(self) -> str:
        """Returns a hash of the examples, equal for equal examples wherever they are from.

        Raises:
            CorpusError: as :meth:`read`.
        """
        digest = hashlib.sha256(self.task.encode())
        for placed in self.read(ExamplesStats()):
            digest.update(json.dumps(placed.example).encode() + b"\n")
        return digest.hexdigest()

    def set_aside(self) -> "tuple[Examples, Examples]":
        """Returns what is trained on, and the share ``valid_share`` that is set aside to evaluate on.

        What is set aside depends on the texts alone (of pairs the first, of questions their text, or the question and
        its options where there is no text), by their CRC-32, so that equal texts are on the same side.
        """
        return replace(self, part="rest"), replace(self, part="aside", limit=None)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _nothing(self, elsewhere: int, why: str) -> str:
        path = self.describe()
        if not elsewhere:
            return f"{path}: no examples{why}"
        if self.part == "aside":
            share = f"{self.config.valid_share:g}"
            return (
                f"{path}: too few different examples to set some aside (valid_share={share}); give valid=FILE, or "
                f"valid_share=0{why}"
            )
        return f"{path}: too few different examples, all are set aside to measure on{why}"

    def _is_in_part(self, placed: Placed) -> bool:
        if self.part == "all":
            return True
        first = placed.example.context if self.task == "span" else placed.example[0]
        text = first if isinstance(first, str) else " ".join(first)
        if not text.strip() and self.task == "choice":
            text = " ".join((placed.example.question, *placed.example.options))
        aside = zlib.crc32(text.encode("utf-8", "surrogatepass")) % 1000 < 1000 * self.config.valid_share
        return aside == (self.part == "aside")

    @cached_property
    def _drawn(self) -> frozenset[int] | None:
        """The numbers of the examples that are drawn; None: all are read."""
        if self.limit is None:
            return None
        classes = self.task in ("classification", "pair")
        every = filter(self._is_in_part, self._all(ExamplesStats()))
        return drawn([one.example.label if classes else None for one in every], self.limit, self.seed)

    def _all(self, stats: ExamplesStats) -> Iterator[Placed]:
        if self.dataset is not None:
            yield from self._of_dataset(self.dataset, stats)
        elif self.task == "tagging":
            yield from self._tagged(stats)
        elif self.paths:
            for path in self.paths:
                yield from self._reading(path, stats).examples()
                stats.files += 1
        else:
            yield from self._of_items(stats)

    def _reading(self, path: Path, stats: ExamplesStats) -> Reading:
        return Reading(path=path, task=self.task, config=self.config, labelled=self.labelled, stats=stats)

    def _of_dataset(self, dataset: Dataset, stats: ExamplesStats) -> Iterator[Placed]:
        reader = dataset.readers.get(self.split, dataset.readers["train"])
        if self.task == "span":
            reader = partial(cast(Any, reader), make=partial(SpanReader, counts=stats.spans))
        for number, example in enumerate(dataset.read_file(self.paths[0], self.split, reader), start=1):
            if self.task == "regression":
                example = ScoredExample(example.first, example.second, example.score)
            yield Placed(example, f"{self.describe()}: example {number}")
        stats.files += 1

    def _of_items(self, stats: ExamplesStats) -> Iterator[Placed]:
        expected = _TYPES[self.task]
        spans = SpanReader(answers=self.config.bad_answers, labelled=self.labelled, counts=stats.spans)
        for number, item in enumerate(self.items):
            where = f"{FROM_PYTHON}: item {number}"
            found: Any
            item = _native(item)
            try:
                if self.task == "span":
                    found = spans.record(_span_record(item), where)
                elif isinstance(item, expected):
                    found = checked(cast(Any, item), labelled=self.labelled)
                else:
                    found = self._of_row(item)
            except Unlabelled as error:
                count_unlabelled(error, where, self.config, stats)
                continue
            except ValueError as error:
                raise CorpusError(f"{where}: {error}" if where not in str(error) else str(error)) from None
            except (TypeError, AttributeError):  # parts of a typed example may be anything
                raise CorpusError(f"{where}: is {str(item)[:60]!r}; expected a whole {expected.__name__}") from None
            if found is None:
                continue
            if self.labelled and is_empty(found):
                stats.blank += 1
                continue
            yield Placed(found, where)

    def _of_row(self, row: object) -> TextExample | PairExample | ScoredExample | ChoiceExample:
        """Returns the example of a mapping or a tuple, of any task but span and tagging.

        Args:
            row: A mapping, whose columns are named as those of a file; or a tuple, texts before the label, unless the
                settings have numbers of columns.

        Raises:
            Unlabelled: if it has no label.
            ValueError: if it is none.
        """
        task, labelled = self.task, self.labelled
        row = (row,) if isinstance(row, str) else row
        if task == "choice":
            if not isinstance(row, Mapping):
                raise ValueError(f"is {str(row)[:60]!r}; expected a mapping")
            return choice_of(row, labelled=labelled)
        if isinstance(row, Mapping):
            return self._roles.example(row, task)
        if not isinstance(row, tuple | list):
            raise ValueError(f"is {str(row)[:60]!r}; expected a mapping or a tuple")
        cells = {str(place): value for place, value in enumerate(row, start=1)}
        columns = self.config.columns
        if any(name is not None and name.replace(",", "").replace(" ", "").isdecimal() for name in columns.values()):
            return guessed_roles(list(cells), task, **columns, labelled=labelled).example(cells, task)
        if len(row) not in parts_of_rows(task, labelled=labelled):
            raise ValueError(
                f"has {len(row)} parts; expected {'two texts' if task == 'pair' else 'a text'} and a label, or their "
                "numbers, such as text_column=1 label_column=2"
            )
        roles = Roles(
            first=("1",), second=("2",) if len(row) - labelled == 2 else (), label=str(len(row)) if labelled else ""
        )
        return roles.example(cells, task)

    @cached_property
    def _roles(self) -> Roles:
        """Which part of a mapping from Python has what."""
        headers = (list(item) for item in self.items if isinstance(item, Mapping))
        return common_roles(islice(headers, LOOKED_AT), self.task, self.config.columns, labelled=self.labelled)

    # --- tags -------------------------------------------------------------------------------------------------------

    def _sentences(self, stats: ExamplesStats) -> Iterator[Sentence]:
        """Yields places, tokens and tags, as they are written."""
        for path in self.paths:
            yield from self._reading(path, stats).sentences()
            stats.files += 1
        if self.paths:
            return
        for number, item in enumerate(self.items):
            where = f"{FROM_PYTHON}: item {number}"
            item = _native(item)
            try:
                if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Mapping):
                    item = {"text": item[0], **item[1]}
                elif isinstance(item, tuple | list) and (len(item) == 2 or not self.labelled):
                    tokens, tags = item if self.labelled else (item, ())
                    item = {"tokens": list(tokens), "tags": list(tags)}
                yield where, *tagged_of(item, stats, labelled=self.labelled)
            except (ValueError, TypeError, AttributeError) as error:
                why = error if type(error) is ValueError else "is no (tokens, tags)"
                raise CorpusError(f"{where}: {why}") from None

    def _tagged(self, stats: ExamplesStats) -> Iterator[Placed]:
        scheme = cast(Any, self._survey.scheme)
        for where, tokens, tags in self._sentences(stats):
            if not tokens:
                stats.blank += 1
                continue
            if scheme != "none":
                try:
                    faults = list(impossible_tags(tags, scheme))
                    if faults and self.config.bad_tags == "error":
                        place, why = faults[0]
                        raise ValueError(
                            f"{why} (token {place + 1}, {tokens[place][:40]!r}). bad_tags=repair reads such tags as "
                            "conlleval does, and counts"
                        )
                    tags = bio_tags(tags, scheme)
                except ValueError as error:
                    raise CorpusError(f"{where}: {error}") from None
                stats.repaired_tags += len(faults)
            yield Placed(TaggedSentence(tokens, tags), where)

    @cached_property
    def _survey(self) -> _Survey:
        finder = SchemeFinder()
        for _, _, tags in self._sentences(ExamplesStats()):
            finder.add(tags)
        given = self.config.tag_scheme
        return _Survey(scheme={"auto": finder.scheme, "bio": "iob2"}.get(given, given), tags=_in_order(finder.tags))

    def _tag_labels(self) -> tuple[str, ...]:
        if self.dataset is not None and self.dataset.labels:
            return with_outside(self.dataset.labels)
        if self.dataset is not None:
            every = replace(self, limit=None, part="all").read(ExamplesStats())  # a rare tag may not be drawn
            return _in_order({tag for placed in every for tag in placed.example.tags})
        if self._survey.scheme == "none":
            return self._survey.tags
        return with_outside(_in_order({tag.partition("-")[2] for tag in self._survey.tags if tag != "O"}))


def _in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Sorts labels; numbers by their value."""
    found = list(labels)
    try:
        values = {label: float(label) for label in found}
    except ValueError:
        return tuple(sorted(found))
    if any(map(math.isnan, values.values())):  # which has no place among numbers
        return tuple(sorted(found))
    return tuple(sorted(found, key=lambda label: (values[label], label)))


def _native(item: object) -> Any:  # noqa: ANN401  what users give
    """An item from Python with Python's own values in the place of those of numpy."""
    if hasattr(item, "tolist"):
        return item.tolist()
    if isinstance(item, Mapping):
        return {name: _native(value) for name, value in item.items()}
    if type(item) is tuple:  # no example, which is a named one
        return tuple(map(_native, item))
    return list(map(_native, item)) if type(item) is list else item


def _span_record(item: Any) -> Any:  # noqa: ANN401
    """A question from Python as a file has it, so that it is checked in the same way."""
    if not isinstance(item, SpanExample):
        return item
    given: Any = item.answers
    answers = [{"text": one.text, "answer_start": one.start} if isinstance(one, Answer) else one for one in given]
    return _native({**item._asdict(), "answers": answers, "is_impossible": item.impossible})
