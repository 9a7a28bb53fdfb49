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

__all__ = ["Comparison", "ContextPoint", "Corpus", "CurvePoint", "Facts", "MapWord", "Measure", "System"]

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
class Measure:
    """One quality figure of a system on one test set.

    Attributes:
        name: Name of the test set, the title of the column.
        kind: ``similarity``, ``analogy`` or another family of measures; columns of a kind stand together.
        value: The figure, or ``None`` if it could not be computed.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        covered: Test items that the system could answer.
        total: Test items in the set.
        lower_is_better: Whether a smaller value is the better one.
        parts: The sections of the test set, if it has any, as measures of their own.
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
class ContextPoint:
    """How well a language model foretells a text of which it knows only so much.

    Attributes:
        tokens: Tokens of the model's own that are known before each one that it foretells.
        characters: How many characters they are, on average.
        bits: Bits per character of what is foretold; none where the model excludes some of it.
    """

    tokens: int
    characters: float
    bits: float | None = None


@dataclass(frozen=True, kw_only=True)
class System:
    """One trained system and everything measured on it.

    Attributes:
        name: Name of the system, unique in the comparison.
        label: A few words that say what it is, for people who do not know the name.
        run: Path of the run folder.
        settings: The settings that differ from the system's defaults.
        loss_kind: What the loss is of; only losses of the same kind are drawn in one panel.
        curve: Records of the training in order of progress.
        measures: Quality figures; systems need not have the same ones.
        words_per_second: Corpus words read per second, over the whole training.
        seconds: Wall time of the training.
        peak_memory_bytes: Largest resident memory of the training process.
        size_bytes: Size of the model on disk.
        vocabulary: Number of words (or other units) in the vocabulary.
        parameters: Number of trained numbers in the model.
        neighbours: For each query word, its nearest words and their cosines, nearest first.
        map: Places of frequent words in two dimensions.
        samples: For each prompt, how the model writes on.
        positions: Of a language model: characters read before, and bits per character from there on.
        contexts: Of a language model: bits per character of one text by how much before each token is known.
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
    positions: list[tuple[float, float | None]] = field(default_factory=list)
    contexts: list[ContextPoint] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Corpus:
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
        confidence: Level of the intervals of all measures, between 0 and 1.

    Raises:
        RunError: if there is no system, or two have the same name.
    """

    systems: list[System]
    corpus: Corpus
    title: str = ""
    command: str = ""
    created: str = ""
    machine: Facts = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)
    map_method: str = ""
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
