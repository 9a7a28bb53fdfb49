"""What a comparison found: plain records that hold everything its report shows.

The records are JSON both ways, so a comparison can be kept in a file and its report drawn again later. A
quantity that a system does not have is ``None``; a number that is not finite is stored as ``None`` too, so
that the file is always valid JSON. The report of a single run is a comparison with one system.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from wenmai.core.errors import RunError

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


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One record of a training.

    Attributes:
        progress: Share of the whole training that is done, 0 to 1.
        loss: Mean loss since the record before, in nats per prediction.
        epoch: Epoch in which the record was made, from 1.
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
    """By how much a system differs from the first of its comparison on the same test items.

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
        kind: ``similarity``, ``analogy`` or another family of measures; columns of a kind stand together.
        value: The metric, or ``None`` if it could not be computed.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        covered: Test items that the system could answer.
        total: Test items in the set.
        lower_is_better: Whether a smaller value is the better one.
        parts: The sections of the test set, if it has any, as measures of their own.
        difference: How it differs from the first system, if that was tested.
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


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How measures of one kind are shown.

    Attributes:
        title: Heading of their columns.
        name: What tells them from others of the same test set; empty: the kind as it is.
        items: What a test set has.
        about: How the note on them goes on after the first words of the title.
        percent: Whether they are shares, shown in percent.
        short: Whether three digits are shown, however large the numbers are.
        judged: Whether they count where the best system is named.
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
        x: Horizontal place, in any unit.
        y: Vertical place, in the same unit.
        count: How often the word occurs in the corpus.
        cluster: Number of the cluster it belongs to, from 0; it gives the colour.
    """

    word: str
    x: float
    y: float
    count: int
    cluster: int = 0


@dataclass(frozen=True, kw_only=True)
class LinePoint:
    """A point of a line in a :class:`Panel`.

    Attributes:
        x: Place on the horizontal axis.
        y: Value, or ``None`` if there is none.
        note: What is said of it beside its value.
    """

    x: float
    y: float | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A drawing with a line for each system.

    Attributes:
        section: Heading above it; panels in a row with the same one share it.
        title: What the lines are.
        axis: Title of the horizontal axis.
        unit: What follows a place on this axis where it is read off.
        caption: What must be known to read it.
        log: Whether the horizontal axis is logarithmic.
    """

    section: str
    title: str
    axis: str
    unit: str
    caption: str = ""
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Samples:
    """How what the systems make of prompts is shown.

    Attributes:
        title: Heading above them.
        caption: Where they come from.
        continued: Whether a text goes on where its prompt ends.
        references: For each prompt, what should be made of it.
    """

    title: str
    caption: str
    continued: bool = True
    references: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ComparedSystem:
    """One trained system and everything measured on it.

    Attributes:
        name: Name of the system, unique in the comparison.
        label: A few words that say what it is, for people who do not know the name.
        run: Path of the run folder.
        settings: The settings that differ from the system's defaults.
        loss_kind: What the loss is of; only losses of the same kind are drawn in one panel.
        curve: Records of the training in order of progress.
        measures: Metrics of quality; systems need not have the same ones.
        words_per_second: Corpus words read per second, over the whole training.
        seconds: Wall time of the training.
        peak_memory_bytes: Largest resident memory of the training process.
        size_bytes: Size of the model on disk.
        vocabulary: Number of words (or other units) in the vocabulary.
        parameters: Number of trained numbers in the model.
        neighbours: For each query word, its nearest words and their cosines, nearest first.
        map: Places of frequent words in two dimensions.
        samples: For each prompt, what the model makes of it.
        lines: What is drawn of it in panels, by the names of :attr:`Comparison.panels`.
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
    vocabulary: int | None = None
    parameters: int | None = None
    neighbours: dict[str, list[tuple[str, float | None]]] = field(default_factory=dict)
    map: list[MapWord] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)
    lines: dict[str, list[LinePoint]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ComparedCorpus:
    """The text that every system of a comparison was trained on.

    Attributes:
        name: Name or path of the corpus.
        tokens: Number of tokens in the training text.
        sentences: Number of sentences (or documents, or lines).
        types: Number of different tokens before rare ones are dropped.
        segment: Name of the segmentation.
        fingerprint: Hash of the numbered corpus.
        facts: Anything else worth recording, such as normalisation or skipped lines, by its printed name.
    """

    name: str
    tokens: int | None = None
    sentences: int | None = None
    types: int | None = None
    segment: str = ""
    fingerprint: str = ""
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Systems trained on one corpus, with what was measured on each.

    Attributes:
        systems: The systems, in the order in which they are shown; at least one.
        corpus: The text they were trained on.
        title: Headline of the report; empty for one made from the names.
        command: The command that repeats the comparison.
        created: When it was made, as printed.
        machine: Facts about the machine and the versions of the software, by their printed names.
        queries: Words whose neighbours are shown, in order; the first is shown first.
        map_method: What laid out the maps, such as ``PCA``.
        kinds: How each kind of measure is shown, as far as that is known.
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
            raise RunError("a comparison without systems: expected at least one trained system")
        names = [system.name for system in self.systems]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise RunError(f"two systems of a comparison are both named {repeated[0]!r}: give each its own name")

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON values; numbers that are not finite become ``None``."""
        value: dict[str, Any] = _json_value(asdict(self))
        return value

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Returns the comparison that :meth:`to_json` gave ``value`` for.

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
