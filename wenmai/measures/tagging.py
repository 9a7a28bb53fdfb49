"""How well sentences are tagged: accuracy of tokens; precision, recall and F1 of entities, with intervals.

An entity is right if its first token, its last token and its type are. With ``true`` the entities that are right,
``found`` those that were predicted and ``given`` those of the gold tags,

    precision = true / found        recall = true / given        F1 = 2 true / (found + given)

*Micro* metrics count the entities of all types, *macro* metrics are means over the types that occur in the gold or in
the predicted tags. A metric without a denominator is 0, as seqeval and conlleval have it.

Which tokens are an entity where the tags break their scheme is a matter of rules. The ``lenient`` ones are those of
seqeval's default mode, which on B, I and O are conlleval's too; the name of a scheme stands for seqeval's strict mode,
where what breaks the scheme is no entity.

Source: Tjong Kim Sang and Buchholz 2000, "Introduction to the CoNLL-2000 Shared Task: Chunking"; seqeval 1.2.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import percentile_interval, percentile_intervals

__all__ = ["EntityRules", "TagFigures", "TaggingResult", "TypeResult", "entities", "measure_tagging", "measure_tags"]

Entity = tuple[int, int, str]
EntityRules = Literal["none", "lenient", "IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU"]


def _patterns(text: str) -> frozenset[str]:
    """Reads words such as ``BI=``: mark before (* is any), mark, types the same (=), different (!) or either (?)."""
    found: set[str] = set()
    for before, mark, types in map(tuple, text.split()):
        for one in "OIBESUL" if before == "*" else before:
            for other in "OIBESUL" if mark == "*" else mark:
                found |= {one + other + kind for kind in ("=!" if types == "?" else types)}
    return frozenset(found)


# Of each scheme where an entity starts, goes on, and ends before a token.
_SCHEMES = {
    "IOB1": ("OI? II! BI? IB= BB=", "BI= II=", "II! IO? IB? BO? BI! BB="),
    "IOE1": ("OI? II! EI? EE=", "II= IE=", "II! IO? IE! EI= EE="),
    "IOB2": ("*B?", "BI= II=", "IO? II! IB? BO? BI! BB?"),
    "IOE2": ("OI? OE? EI? EE? II! IE!", "IE= II=", "E*?"),
    "IOBES": ("*B? *S?", "BI= BE= II= IE=", "S*? E*?"),
    "BILOU": ("*B? *U?", "BI= BL= II= IL=", "U*? L*?"),
}
_STRICT = {name: tuple(_patterns(text) for text in parts) for name, parts in _SCHEMES.items()}
_MARKS = {"IOB1": "IOB", "IOB2": "IOB", "IOE1": "IOE", "IOE2": "IOE", "IOBES": "IOBES", "BILOU": "BILOU"}
_MOST_TYPES = 100  # of a confusion table
_ENDS = frozenset(["BB", "BS", "BO", "IB", "IS", "IO"])  # and after E and S
_STARTS = frozenset(["EE", "EI", "SE", "SI", "OE", "OI"])  # and at B and S


@dataclass(frozen=True, kw_only=True)
class TagFigures:
    """Token accuracy, and precision, recall and F1 of entities (None where the tags have none), with an interval."""

    accuracy: float
    precision: float | None
    recall: float | None
    f1: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class TypeResult:
    """The metrics of one type of entity.

    Attributes:
        label: The type.
        precision: Proportion of the predicted entities that are right.
        recall: Proportion of the entities that are found.
        f1: Harmonic mean of the two.
        low: 95 % bootstrap interval of the F1, from ...
        high: ... to.
        support: Entities in the gold tags.
        found: Predicted entities.
    """

    label: str
    precision: float
    recall: float
    f1: float
    low: float | None
    high: float | None
    support: int
    found: int


@dataclass(frozen=True, kw_only=True)
class TaggingResult:
    """The result of tagging; intervals are 95 % bootstrap intervals over sentences.

    Attributes:
        rules: Those of the entities.
        sentences: Sentences.
        tokens: Tokens.
        accuracy: Proportion of the tokens that are tagged correctly.
        accuracy_low: Its interval, from ...
        accuracy_high: ... to.
        precision: Micro precision of entities.
        recall: Micro recall of entities.
        f1: Micro F1 of entities.
        f1_low: Its interval, from ...
        f1_high: ... to.
        macro_f1: Mean of the F1 of the types.
        macro_f1_low: Its interval, from ...
        macro_f1_high: ... to.
        types: By type, in alphabetical order.
        confusion: A row for each type, and one for what is no entity: for how many entities each type was predicted
            with the same first and last token, or none; None if there are no entities, or more than 100 types.
    """

    rules: str
    sentences: int
    tokens: int
    accuracy: float
    accuracy_low: float | None
    accuracy_high: float | None
    precision: float
    recall: float
    f1: float
    f1_low: float | None
    f1_high: float | None
    macro_f1: float
    macro_f1_low: float | None
    macro_f1_high: float | None
    types: tuple[TypeResult, ...]
    confusion: tuple[tuple[int, ...], ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        if self.rules == "none":
            interval = "" if self.accuracy_low is None else f" [{self.accuracy_low:.4f}, {self.accuracy_high:.4f}]"
            return f"accuracy {self.accuracy:.4f}{interval}  ({self.tokens:,} tokens of {self.sentences:,} sentences)"
        interval = "" if self.f1_low is None else f" [{self.f1_low:.4f}, {self.f1_high:.4f}]"
        return (
            f"entity F1 {self.f1:.4f}{interval} (precision {self.precision:.4f}, recall {self.recall:.4f})  "
            f"macro F1 {self.macro_f1:.4f}  token accuracy {self.accuracy:.4f}  ({self.sentences:,} sentences)"
        )


def entities(tags: Sequence[str], *, rules: EntityRules = "lenient") -> set[Entity]:
    """Returns the entities of a tagged sentence as (first token, place behind the last, type).

    Args:
        tags: O, or a mark and a type, such as B-PER; the marks are B, I, E and S, with ``BILOU`` L and U too.
        rules: ``lenient``, where an I-TYPE after O or after another type begins an entity, or a scheme, where only
            what keeps to it is an entity; ``none``: tags are no marks of entities.

    Raises:
        CorpusError: if a tag has a mark that the scheme has not.
    """
    if rules == "none":
        return set()
    marks = [tag[:1] for tag in tags]
    types = [tag[1:].split("-", 1)[-1] for tag in tags]
    return _lenient(marks, types) if rules == "lenient" else _strict(marks, types, rules)


def measure_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, seed: int = 0) -> TagFigures:
    """Compares the predicted tags of sentences with the gold ones.

    An entity is right if first token, last token and type are. The interval is that of the F1, or of the accuracy of
    tags that are not O, B-TYPE and I-TYPE, over sentences drawn with replacement.

    Args:
        gold: The right tags of each sentence.
        predicted: As many tags for each.
        seed: Decides the draws.
    """
    counts = np.array([len(tags) for tags in gold], np.float64)
    right = np.array([sum(a == b for a, b in zip(*pair, strict=True)) for pair in zip(gold, predicted, strict=True)])
    accuracy = float(right.sum() / max(1.0, counts.sum()))
    if any(not tag.startswith(("B-", "I-")) and tag != "O" for tags in gold for tag in tags):
        low, high = percentile_interval(lambda w: _share(w @ right, w @ counts), len(gold), seed=seed)
        return TagFigures(accuracy=accuracy, precision=None, recall=None, f1=None, low=low, high=high)
    true, found, given = np.zeros((3, len(gold)))
    for place, (tags, named) in enumerate(zip(gold, predicted, strict=True)):
        wanted, got = entities(tags), entities(named)
        true[place], found[place], given[place] = len(wanted & got), len(got), len(wanted)
    low, high = percentile_interval(lambda w: _share(2 * (w @ true), w @ (found + given)), len(gold), seed=seed)
    precision, recall = true.sum() / max(1.0, found.sum()), true.sum() / max(1.0, given.sum())
    f1 = 2 * true.sum() / max(1.0, (found + given).sum())
    return TagFigures(
        accuracy=accuracy, precision=float(precision), recall=float(recall), f1=float(f1), low=low, high=high
    )


def measure_tagging(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    rules: EntityRules = "lenient",
    resamples: int = 1000,
    seed: int = 0,
) -> TaggingResult:
    """Compares the predicted tags of sentences with the gold ones, type by type.

    Args:
        gold: The right tags of each sentence.
        predicted: As many tags for each.
        rules: Which tokens are an entity, see :func:`entities`.
        resamples: Draws of the bootstrap.
        seed: Decides the draws.

    Raises:
        CorpusError: if there are no sentences, a sentence has not as many predicted tags, or a tag has a mark that the
            scheme has not.
    """
    if not gold or len(gold) != len(predicted):
        raise CorpusError(
            f"{len(gold)} sentences have {len(predicted)} predictions; expected one for each of at least one"
        )
    for place, (tags, named) in enumerate(zip(gold, predicted, strict=True), 1):
        if len(tags) != len(named):
            raise CorpusError(
                f"sentence {place}: {len(tags)} tokens have {len(named)} predicted tags; expected one each"
            )
    wanted = [entities(tags, rules=rules) for tags in gold]
    got = [entities(tags, rules=rules) for tags in predicted]
    names = sorted({kind for found in (*wanted, *got) for _, _, kind in found})
    number = {name: place for place, name in enumerate(names)}

    def table(rows: Iterable[set[Entity]]) -> npt.NDArray[np.float64]:
        counts = np.zeros((len(gold), len(names)))
        for place, found in enumerate(rows):
            for _, _, kind in found:
                counts[place, number[kind]] += 1
        return counts

    true, of_found, of_given = table(a & b for a, b in zip(wanted, got, strict=True)), table(got), table(wanted)
    tokens = np.array([len(tags) for tags in gold], np.float64)
    right = np.array([sum(map(str.__eq__, *pair)) for pair in zip(gold, predicted, strict=True)], np.float64)
    columns = np.concatenate([true, of_found + of_given, right[:, None], tokens[:, None]], axis=1)

    def statistics(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        sums = weights @ columns
        good, both = sums[:, : len(names)], sums[:, len(names) : -2]
        occurs = both > 0  # a type that was not drawn has no value
        micro = np.where(occurs.any(axis=1), _share(2 * good.sum(axis=1), both.sum(axis=1)), np.nan)
        macro = np.where(occurs.any(axis=1), _share(_share(2 * good, both).sum(axis=1), occurs.sum(axis=1)), np.nan)
        by_type = np.where(occurs, _share(2 * good, both), np.nan)
        return np.column_stack([_share(sums[:, -2], sums[:, -1]), micro, macro, by_type])

    values = np.nan_to_num(statistics(np.ones((1, len(gold))))[0]).tolist()
    bounds = percentile_intervals(statistics, len(gold), len(values), resamples=resamples, seed=seed)
    sums = [part.sum(axis=0) for part in (true, of_found, of_given)]
    precision, recall = _share(sums[0], sums[1]).tolist(), _share(sums[0], sums[2]).tolist()
    whole = [float(part.sum()) for part in sums]
    return TaggingResult(
        rules=rules,
        sentences=len(gold),
        tokens=int(tokens.sum()),
        accuracy=values[0],
        accuracy_low=bounds[0][0],
        accuracy_high=bounds[0][1],
        precision=whole[0] / max(1.0, whole[1]),
        recall=whole[0] / max(1.0, whole[2]),
        f1=values[1],
        f1_low=bounds[1][0],
        f1_high=bounds[1][1],
        macro_f1=values[2],
        macro_f1_low=bounds[2][0],
        macro_f1_high=bounds[2][1],
        types=tuple(
            TypeResult(
                label=name,
                precision=precision[place],
                recall=recall[place],
                f1=values[3 + place],
                low=bounds[3 + place][0],
                high=bounds[3 + place][1],
                support=int(sums[2][place]),
                found=int(sums[1][place]),
            )
            for place, name in enumerate(names)
        ),
        confusion=_confusion(wanted, got, names) if 0 < len(names) <= _MOST_TYPES else None,
    )


def _confusion(
    gold: Sequence[set[Entity]], predicted: Sequence[set[Entity]], names: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Counts pairs of types of the same tokens; the last row and column are those of no entity."""
    none = len(names)
    number = {name: place for place, name in enumerate(names)}
    counts = np.zeros((none + 1, none + 1), np.int64)
    for wanted, got in zip(gold, predicted, strict=True):
        right, named = ({(begin, end): number[kind] for begin, end, kind in found} for found in (wanted, got))
        for place in right.keys() | named.keys():
            counts[right.get(place, none), named.get(place, none)] += 1
    return tuple(map(tuple, counts.tolist()))


def _lenient(marks: Sequence[str], types: Sequence[str]) -> set[Entity]:
    found = set()
    before, kind, begin = "O", "", 0
    for place, (mark, type_) in enumerate(zip([*marks, "O"], [*types, ""], strict=True)):
        other = type_ != kind
        if before in "ES" or before + mark in _ENDS or (before != "O" and other):
            found.add((begin, place, kind))
        if mark in "BS" or before + mark in _STARTS or (mark != "O" and other):
            begin = place
        before, kind = mark, type_
    return found


def _strict(marks: Sequence[str], types: Sequence[str], rules: str) -> set[Entity]:
    for mark in marks:
        if mark not in _MARKS[rules]:
            raise CorpusError(f"a tag has the mark {mark!r}; expected one of {', '.join(_MARKS[rules])} for {rules}")
    starts, inside, ends = _STRICT[rules]
    marks, types = ["O", *marks, "O"], ["", *types, ""]
    steps = [
        marks[place - 1] + marks[place] + ("=" if types[place - 1] == types[place] else "!")
        for place in range(1, len(marks))
    ]
    found, place = set(), 0
    while place < len(steps):
        if steps[place] not in starts:
            place += 1
            continue
        end = place + 1
        while end < len(steps) and steps[end] in inside:
            end += 1
        if end < len(steps) and steps[end] in ends:
            found.add((place, end, types[place + 1]))
        place = end
    return found


def _share(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return part / np.maximum(1.0, whole)
