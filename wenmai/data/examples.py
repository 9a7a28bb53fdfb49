"""Labelled examples from files, data sets and Python."""

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import CorpusError
from wenmai.data.datasets import named_dataset
from wenmai.data.readers import PairExample, TextExample, choices, columns
from wenmai.data.sources import absolute_name


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ExamplesConfig:
    """Where examples are."""

    valid: Annotated[str | None, Doc("examples to validate on; none: some are set aside"), Located(absolute_name)] = (
        None
    )
    valid_share: Annotated[float, Ge(0), Lt(1), Doc("share set aside")] = 0.1
    text_column: Annotated[str | None, Doc("column of the text")] = None
    second_column: Annotated[str | None, Doc("column of the second text")] = None
    label_column: Annotated[str | None, Doc("column of the label")] = None
    limit: Annotated[int | None, Gt(0), Doc("first examples only")] = None


class Examples:
    def __init__(self, spec: Any, task: str, config: ExamplesConfig, split: str) -> None:
        self.spec, self.task, self.config, self.split = spec, task, config, split
        named = named_dataset(spec)
        self.dataset = named
        self.path = None if named else Path(spec if isinstance(spec, str | Path) else spec[0])
        self.sources = (str(spec),) if named else (str(self.path.absolute()),)

    def _all(self) -> Iterator[Any]:
        if self.dataset:
            yield from self.dataset[0].read(self.dataset[1] or self.split)
            return
        if not self.path.exists():
            raise CorpusError(f"{self.path}: no such file")
        if self.task == "tagging":
            yield from columns(self.path, 2, 1, None)
            return
        if self.path.suffix in (".json", ".jsonl"):
            if self.task == "choice":
                yield from choices(self.path)
                return
            text = self.path.read_text()
            if not text.strip():
                raise CorpusError(f"{self.path}: is empty")
            for one in json.loads(text)["data"]:
                for paragraph in one["paragraphs"]:
                    for qa in paragraph["qas"]:
                        found = tuple(Answer(a["text"], a["answer_start"]) for a in qa["answers"])
                        yield SpanExample(qa["id"], "", paragraph["context"], qa["question"], found, not found)
            return
        text = self.path.read_text("utf-8")
        if not text.strip():
            raise CorpusError(f"{self.path}: is empty")
        for row in csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
            label = row.get(self.config.label_column or "label")
            if label is None:
                raise CorpusError(f"{self.path}: has no column 'label'")
            if self.task == "regression":
                try:
                    yield ScoredExample(row.get("first") or row["text"], row.get("second"), float(label))
                except ValueError:
                    raise CorpusError(f"{self.path}: {label!r} is no number") from None
            elif "second" in row:
                yield PairExample(row["first"], row["second"], label)
            else:
                yield TextExample(row["text"], label)

    def __iter__(self) -> Iterator[Any]:
        for number, one in enumerate(self._all()):
            if self.config.limit and number >= self.config.limit:
                return
            yield one

    def fingerprint(self) -> str:
        content = self.path.read_bytes() if self.path else repr(self.spec).encode()
        return hashlib.sha256(content + json.dumps(asdict(self.config)).encode()).hexdigest()

    def describe(self) -> str:
        return self.sources[0]


def open_examples(spec: Any, task: str, config: ExamplesConfig, *, split: str = "train") -> Examples:
    return Examples(spec, task, config, split)
