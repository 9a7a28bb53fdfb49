"""The results of a comparison: plain records of everything in its report.

The records can be written to JSON and read back, so a report can be drawn again later. A missing quantity is
``None``; a number that is not finite is stored as ``None`` too, so that the file is always valid JSON. The report of a
single run is a comparison with one system.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from wenmai.core.columns import in_columns
from wenmai.core.errors import RunError
from wenmai.core.showing import Table, Tabled
from wenmai.core.wording import say
from wenmai.runs.tables import csv_table, latex_table, markdown_table, shown_rows

__all__ = [
    "ComparedCorpus",
    "ComparedSystem",
    "Comparison",
    "CurvePoint",
    "Difference",
    "Facts",
    "Kind",
    "LinePoint",
    "MapWord",
    "Measure",
    "Panel",
    "Samples",
]

Facts = dict[str, str | int | float | bool | None]
_MOST_COLUMNS = 12  # of a table as text


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One record of a training.

    Attributes:
        progress: Fraction of the training that is done, 0 to 1.
        loss: Mean loss since the record before, in nats per prediction.
        epoch: Its epoch, from 1.
        seconds: Wall time since the training began.
        learning_rate: Learning rate at that moment.
        words_per_second: Corpus words read per second since the record before.
    """

    progress: float
    loss: float | None
    epoch: int | None = None
    seconds: float | None = None
    learning_rate: float | None = None
    words_per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of a system from the first of its comparison on the same test items.

    Attributes:
        value: This system minus the first.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        p_value: The chance of a difference at least as large between systems that do not differ.
    """

    value: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One metric of a system on one test set.

    Attributes:
        name: Name of the test set, the title of the column.
        kind: ``similarity``, ``analogy`` or another family of measures; columns of a kind are adjacent.
        value: The metric, or ``None`` if it could not be computed.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        covered: Test items that the system could answer.
        total: Test items in the set.
        lower_is_better: Whether a smaller value is better.
        parts: The sections of the test set, if it has any, as measures of their own.
        difference: Its difference from the first system, if tested.
        notes: What was left out or is unknown of the test set, one sentence each.
    """

    name: str
    kind: str
    value: float | None
    low: float | None = None
    high: float | None = None
    covered: int | None = None
    total: int | None = None
    lower_is_better: bool = False
    parts: list["Measure"] = field(default_factory=list)
    difference: Difference | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How measures of one kind are shown.

    Attributes:
        title: Heading of their columns.
        name: What distinguishes them from others of the same test set; empty: the kind.
        items: The items of a test set, such as pairs.
        about: The note on them, after the first words of the title.
        percent: Whether they are fractions, shown in percent.
        short: Whether three digits are shown, however large the numbers are.
        judged: Whether they count when the best system is named.
    """

    title: str
    name: str = ""
    items: str = "items"
    about: str = ""
    percent: bool = False
    short: bool = False
    judged: bool = True


@dataclass(frozen=True, kw_only=True)
class MapWord:
    """One word of a two-dimensional map.

    Attributes:
        word: The word.
        x: Horizontal position, in any unit.
        y: Vertical position, in the same unit.
        count: How often the word occurs in the corpus.
        cluster: Number of its cluster, from 0, which gives the colour.
    """

    word: str
    x: float
    y: float
    count: int
    cluster: int = 0


@dataclass(frozen=True, kw_only=True)
class LinePoint:
    """A point of a line of a drawing.

    Attributes:
        x: Position on the horizontal axis.
        y: Value, or ``None`` if there is none.
        note: Shown beside its value.
    """

    x: float
    y: float | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A drawing with a line for each system.

    Attributes:
        section: Heading above it; successive panels may share it.
        title: What the lines show.
        axis: Title of the horizontal axis.
        unit: The unit of a position on this axis.
        caption: How to read it.
        log: Whether the horizontal axis is logarithmic.
        whole: Whether only whole numbers are marked on it.
    """

    section: str
    title: str
    axis: str
    unit: str
    caption: str = ""
    log: bool = False
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Samples:
    """How samples of the systems are shown.

    Attributes:
        title: Heading above them.
        caption: How they were made.
        continued: Whether a text continues its prompt.
        references: The reference for each prompt.
    """

    title: str
    caption: str
    continued: bool = True
    references: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ComparedSystem:
    """A trained system and all its measures.

    Attributes:
        name: Name of the system, unique in the comparison.
        label: A short description.
        run: Path of the run folder.
        settings: The settings that differ from the system's defaults.
        loss_kind: The kind of its loss; only losses of the same kind are drawn in one panel.
        curve: Records of the training in order of progress.
        measures: Metrics of quality; they may differ from system to system.
        words_per_second: Corpus words read per second, over the whole training.
        seconds: Wall time of the training.
        peak_memory_bytes: Largest resident memory of the training process.
        size_bytes: Size of the model on disk.
        corpus_bytes: Size of the files that it was trained on.
        answers_per_second: How fast it answers the test sets.
        vocabulary: Size of the vocabulary.
        parameters: Number of trained parameters.
        neighbours: For each query word, its nearest words and their cosines, nearest first.
        map: Frequent words in two dimensions.
        samples: The output of the model for each prompt.
        lines: Its lines in panels, by the names of :attr:`Comparison.panels`.
        by_task: ``loss`` and ``accuracy`` on the validation data, if there are several of them, by name and update.
        stages: After how many updates each stage of the training but the first began.
    """

    name: str
    label: str = ""
    run: str = ""
    settings: Facts = field(default_factory=dict)
    loss_kind: str = ""
    curve: list[CurvePoint] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    words_per_second: float | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    size_bytes: int | None = None
    corpus_bytes: int | None = None
    answers_per_second: float | None = None
    vocabulary: int | None = None
    parameters: int | None = None
    neighbours: dict[str, list[tuple[str, float | None]]] = field(default_factory=dict)
    map: list[MapWord] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)
    lines: dict[str, list[LinePoint]] = field(default_factory=dict)
    by_task: dict[str, dict[str, list[LinePoint]]] = field(default_factory=dict)
    stages: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ComparedCorpus:
    """The text that every system of a comparison was trained on.

    Attributes:
        name: Name or path of the corpus.
        tokens: Number of tokens in the training text.
        sentences: Number of sentences (or documents, or lines).
        types: Number of different tokens before rare ones are dropped.
        segment: Name of the segmentation.
        fingerprint: Hash of the encoded corpus.
        facts: Other facts by printed name, such as normalisation or skipped lines.
    """

    name: str
    tokens: int | None = None
    sentences: int | None = None
    types: int | None = None
    segment: str = ""
    fingerprint: str = ""
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Tabled):
    """Systems trained on one corpus, and their measures; ``str()`` is what the command line prints.

    Attributes:
        systems: The systems in order; at least one.
        corpus: The text they were trained on.
        title: Title of the report; empty: made from the names.
        command: The command that repeats the comparison.
        created: Date and time, as printed.
        machine: Facts about machine and software versions, by printed name.
        queries: Words whose neighbours are shown, in order.
        map_method: The method of the maps, such as ``PCA``.
        kinds: How each kind of measure is shown, if known.
        panels: Drawings with a line for each system, by name, in order.
        sampled: How samples are shown.
        confidence: Level of the intervals of all measures, between 0 and 1.

    Raises:
        RunError: if there is no system, or two have the same name.
    """

    systems: list[ComparedSystem]
    corpus: ComparedCorpus
    title: str = ""
    command: str = ""
    created: str = ""
    machine: Facts = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)
    map_method: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    panels: dict[str, Panel] = field(default_factory=dict)
    sampled: Samples | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not self.systems:
            raise RunError("a comparison needs at least one trained system")
        names = [system.name for system in self.systems]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise RunError(f"two systems of a comparison are both named {repeated[0]!r}: give each its own name")

    def _facts(self) -> Facts:
        return {"corpus": self.corpus.name, "command": self.command or None, "created": self.created or None}

    def table(self) -> Table:
        """Returns a row for each system: each measure with its interval, speed and sizes."""
        titles = self._titles()
        rows = []
        for system in self.systems:
            row: dict[str, Any] = {"system": system.name}
            for measure in system.measures:
                title = titles[measure.name, measure.kind]
                row |= {title: measure.value, f"{title} low": measure.low, f"{title} high": measure.high}
            sizes = {"peak MB": system.peak_memory_bytes, "size MB": system.size_bytes}
            megabytes = {name: None if size is None else size / 1e6 for name, size in sizes.items()}
            rows.append(row | {"words/s": system.words_per_second, "seconds": system.seconds, **megabytes})
        return Table.of(rows)

    def __str__(self) -> str:
        rows = shown_rows(self)
        many = len(rows[0]) > _MOST_COLUMNS  # then the systems are the columns, so that lines fit a screen
        return in_columns([*zip(*rows, strict=True)] if many else rows)

    @property
    def notes(self) -> dict[str, list[str]]:
        """The notes on measures, by system and test set."""
        found: dict[str, list[str]] = {}
        for system in self.systems:
            for measure in system.measures:
                if measure.notes:
                    found.setdefault(f"{system.name}, {measure.name}", []).extend(measure.notes)
        return found

    def columns(self, *, spoken: bool = False) -> dict[str, list[Measure | None]]:
        """Returns the measures of each column, in the order of the systems; None where one was not measured.

        Args:
            spoken: With titles in the language of the reader.
        """
        found = [{(one.name, one.kind): one for one in system.measures} for system in self.systems]
        return {title: [own.get(key) for own in found] for key, title in self._titles(spoken=spoken).items()}

    def _titles(self, *, spoken: bool = False) -> dict[tuple[str, str], str]:
        """The title of each column of measures; it has the kind where a test set has several."""
        columns = dict.fromkeys((measure.name, measure.kind) for one in self.systems for measure in one.measures)
        names = [name for name, _ in columns]
        kinds = {kind: self.kinds[kind].name or kind if kind in self.kinds else kind for _, kind in columns}
        shown = {kind: say(name) if spoken else name for kind, name in kinds.items()}
        return {(name, kind): f"{name} ({shown[kind]})" if names.count(name) > 1 else name for name, kind in columns}

    def to_csv(self) -> str:
        """Returns :meth:`table` as comma-separated values, for spreadsheets."""
        return csv_table(self.table())

    def to_markdown(self) -> str:
        """Returns the table in Markdown: intervals in brackets, the best of each test set in bold."""
        return markdown_table(self)

    def to_latex(self) -> str:
        """Returns the table as a ``tabular`` of LaTeX with the rules of the package booktabs."""
        return latex_table(self)

    def write_charts(self, folder: str | Path, form: str = "svg") -> list[Path]:
        """Writes each chart into a folder as an SVG or PNG file; returns the files.

        Args:
            folder: Where they go.
            form: ``svg``, or ``png``, which needs the extra ``plot``.

        Raises:
            SettingError: if there is no such form, or matplotlib is not installed.
            RunError: if the folder cannot be written.
        """
        from wenmai.runs.charts import write_charts

        try:
            return write_charts(self, folder, form)
        except OSError as error:
            raise RunError(f"{folder}: cannot be written ({error.strerror})") from None

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON values; numbers that are not finite become ``None``."""
        value: dict[str, Any] = _json_value(asdict(self))
        return value

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Returns the comparison whose :meth:`to_json` is ``value``.

        Raises:
            RunError: if a field is missing or of the wrong type; the message names the first one.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(cls).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise RunError(f"not a comparison: {place}: {first['msg']}") from None


def _json_value(value: Any) -> Any:  # noqa: ANN401  any nesting of containers and numbers, also numpy's
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    return str(value)
