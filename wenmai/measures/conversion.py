"""How well pinyin is converted to characters: character error rate, sentence accuracy, coverage of n-best lists.

With d the edit distance (insertions, deletions, substitutions; Levenshtein 1966) of a hypothesis h and its reference r,

    CER = Σ d(r, h) / Σ |r|        sentence accuracy = share of h = r        top-k = share of r among the best k

CER is a micro average, of all sentences together, punctuation included, as Kyubyong Park publishes it. *Character
accuracy* is the share of places with the right character, of the sentences in which both have as many characters.
*Syllable accuracy* is the share of the syllables whose character is right in the best alignment; it is split by tone,
and errors are counted by syllable.

Intervals are 95 % percentile intervals of the bootstrap over sentences, those of shares of sentences score intervals.
White space does not count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import percentile_intervals, wilson_interval

__all__ = [
    "Conversion",
    "Coverage",
    "SyllableErrors",
    "ToneResult",
    "edit_distance",
    "measure_conversion",
    "ratio_intervals",
]

_MOST_CONFUSIONS = 5  # that are listed for a syllable
Interval = tuple[float | None, float | None]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The share of the sentences whose reference is among the best ``k`` hypotheses, between ``low`` and ``high``."""

    k: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ToneResult:
    """The share of the syllables of a tone (0: without tone) whose character is right."""

    tone: int
    syllables: int
    accuracy: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class SyllableErrors:
    """How often a syllable's character is wrong.

    Attributes:
        syllable: The syllable, as in the readings.
        errors: How often it is wrong.
        total: How often the syllable is there.
        confusions: The most frequent errors: the right character, what was found instead (empty: nothing), and how
            often.
    """

    syllable: str
    errors: int
    total: int
    confusions: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How well pinyin was converted.

    Attributes:
        sentences: Sentences.
        characters: Characters of the references.
        distance: Sum of the edit distances.
        cer: Character error rate, from ``cer_low`` to ``cer_high``.
        sentence_accuracy: Share of the sentences that are right, from ``sentence_low`` to ``sentence_high``.
        equally_long: Sentences of which reference and hypothesis are equally long.
        character_accuracy: Share of right characters in these, from ``character_low`` to ``character_high``; None if
            there is none.
        syllable_accuracy: Share of the syllables whose character is right, from ``syllable_low`` to ``syllable_high``;
            None without readings.
        coverage: Of the n-best lists, if there are any.
        tones: By tone, if there are readings.
        syllables: The syllables with errors, most errors first.
    """

    sentences: int
    characters: int
    distance: int
    cer: float
    cer_low: float | None
    cer_high: float | None
    sentence_accuracy: float
    sentence_low: float
    sentence_high: float
    equally_long: int
    character_accuracy: float | None
    character_low: float | None
    character_high: float | None
    syllable_accuracy: float | None = None
    syllable_low: float | None = None
    syllable_high: float | None = None
    coverage: tuple[Coverage, ...] = ()
    tones: tuple[ToneResult, ...] = ()
    syllables: tuple[SyllableErrors, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values, ready for JSON."""
        found = asdict(self)
        for name in ("coverage", "tones", "syllables"):
            found[name] = list(found[name])
        for one in found["syllables"]:
            one["confusions"] = [list(confusion) for confusion in one["confusions"]]
        return found

    def __str__(self) -> str:
        cer = f"CER {self.cer:.4f}"
        if self.cer_low is not None and self.cer_high is not None:
            cer += f" [{self.cer_low:.4f}, {self.cer_high:.4f}]"
        right = f"sentences {self.sentence_accuracy:.1%} [{self.sentence_low:.1%}, {self.sentence_high:.1%}]"
        return f"{cer}, {right}, {self.sentences} sentences, {self.characters} characters"


def measure_conversion(
    references: Sequence[str],
    hypotheses: Sequence[str],
    *,
    readings: Sequence[Sequence[str]] | None = None,
    n_best: Sequence[Sequence[str]] | None = None,
    top: Sequence[int] = (1, 2, 3, 5, 10),
    resamples: int = 1000,
    seed: int = 0,
) -> Conversion:
    """Measures conversions against their references.

    Args:
        references: The right texts.
        hypotheses: What was found, one for each reference.
        readings: Of each reference its reading, one item a character, the character itself where it has no syllable.
        n_best: Of each reference the best hypotheses, the best first.
        top: The sizes k of n-best lists; those larger than the longest list are left out.
        resamples: Of the bootstrap.
        seed: Makes the intervals reproducible.

    Raises:
        CorpusError: if there is no sentence, a reference is empty, or the lists do not fit each other.
        SettingError: for fewer than one resample.
    """
    right = ["".join(text.split()) for text in references]
    found = ["".join(text.split()) for text in hypotheses]
    _check(right, found, readings, n_best)
    count = len(right)
    hits = [_hits(one, other) for one, other in zip(right, found, strict=True)]
    lengths = np.array([len(one) for one in right], np.float64)
    distances = np.array([distance for distance, _ in hits], np.float64)
    exact = np.array([one == other for one, other in zip(right, found, strict=True)])
    same = np.array([len(one) == len(other) for one, other in zip(right, found, strict=True)])
    places = np.array([_equal_places(one, other) for one, other in zip(right, found, strict=True)], np.float64)

    rows = [(distances, lengths), (places * same, lengths * same)]
    tones: list[int] = []
    if readings is not None:
        by_tone = _by_tone(right, readings, hits)
        tones = sorted(by_tone)
        rows += [tuple(sum(tables) for tables in zip(*by_tone.values(), strict=True))] if tones else []
        rows += [by_tone[tone] for tone in tones]
    values = [_ratio(above, below) for above, below in rows]
    intervals = ratio_intervals(rows, resamples=resamples, seed=seed)

    sentence_low, sentence_high = wilson_interval(int(exact.sum()), count)
    return Conversion(
        sentences=count,
        characters=int(lengths.sum()),
        distance=int(distances.sum()),
        cer=values[0] or 0.0,
        cer_low=intervals[0][0],
        cer_high=intervals[0][1],
        sentence_accuracy=float(exact.mean()),
        sentence_low=sentence_low,
        sentence_high=sentence_high,
        equally_long=int(same.sum()),
        character_accuracy=values[1],
        character_low=intervals[1][0],
        character_high=intervals[1][1],
        syllable_accuracy=values[2] if tones else None,
        syllable_low=intervals[2][0] if tones else None,
        syllable_high=intervals[2][1] if tones else None,
        coverage=() if n_best is None else _coverage(right, n_best, top),
        tones=tuple(
            ToneResult(
                tone=tone,
                syllables=int(rows[place][1].sum()),
                accuracy=values[place] or 0.0,
                low=intervals[place][0],
                high=intervals[place][1],
            )
            for place, tone in enumerate(tones, 3)
        ),
        syllables=() if readings is None else _by_syllable(right, readings, hits),
    )


Row = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
Hits = tuple[int, tuple[str, ...]]


def _check(
    right: Sequence[str],
    found: Sequence[str],
    readings: Sequence[Sequence[str]] | None,
    n_best: Sequence[Sequence[str]] | None,
) -> None:
    if not right:
        raise CorpusError("there is no sentence to measure; expected one at least")
    lists = {"hypotheses": found, "readings": readings, "n-best lists": n_best}
    for name, given in lists.items():
        if given is not None and len(given) != len(right):
            raise CorpusError(f"there are {len(right)} references and {len(given)} {name}; expected one for each")
    for number, one in enumerate(right):
        if not one:
            raise CorpusError(f"reference {number} is empty; expected characters")
        if readings is not None and len(readings[number]) != len(one):
            raise CorpusError(
                f"reference {number} has {len(one)} characters, and its reading has {len(readings[number])} items;"
                " expected one for each"
            )


def edit_distance(first: str, second: str) -> int:
    """Returns the Levenshtein distance of two texts in characters."""
    return _hits(first, second)[0]


def _hits(right: str, found: str) -> Hits:
    """Returns the edit distance, and for each right character what stands for it, empty if nothing does.

    Of the best alignments it is the one with the latest gaps.
    """
    begin = 0
    while begin < min(len(right), len(found)) and right[begin] == found[begin]:
        begin += 1
    behind = 0
    while behind < min(len(right), len(found)) - begin and right[-1 - behind] == found[-1 - behind]:
        behind += 1
    middle, other = right[begin : len(right) - behind], found[begin : len(found) - behind]
    costs = [list(range(len(other), -1, -1))]  # of what is left of both, from the end on
    for character in reversed(middle):
        below = costs[-1]
        row = [below[-1] + 1] * (len(other) + 1)
        for place in range(len(other) - 1, -1, -1):
            step = below[place + 1] + (character != other[place])
            row[place] = min(step, below[place] + 1, row[place + 1] + 1)
        costs.append(row)
    costs.reverse()
    aligned, place = [], 0
    for number, character in enumerate(middle):
        while True:
            cost = costs[number][place]
            if place < len(other) and cost == costs[number + 1][place + 1] + (character != other[place]):
                aligned.append(other[place])
                place += 1
                break
            if cost == costs[number + 1][place] + 1:
                aligned.append("")
                break
            place += 1
    return costs[0][0], (*right[:begin], *aligned, *right[len(right) - behind :])


def _equal_places(first: str, second: str) -> int:
    return sum(map(str.__eq__, first, second))


def _is_syllable(item: str, character: str) -> bool:
    return item != character


def _tone(syllable: str) -> int:
    return int(syllable[-1]) if syllable[-1] in "12345" else 0


def _by_tone(right: Sequence[str], readings: Sequence[Sequence[str]], hits: Sequence[Hits]) -> dict[int, Row]:
    """Returns for each tone how many syllables of each sentence are right, and how many there are."""
    table = np.zeros((2, 6, len(right)))
    for number, (text, reading, (_, aligned)) in enumerate(zip(right, readings, hits, strict=True)):
        for character, item, other in zip(text, reading, aligned, strict=True):
            if _is_syllable(item, character):
                table[:, _tone(item), number] += character == other, 1
    return {tone: (table[0, tone], table[1, tone]) for tone in range(6) if table[1, tone].any()}


def _by_syllable(
    right: Sequence[str], readings: Sequence[Sequence[str]], hits: Sequence[Hits]
) -> tuple[SyllableErrors, ...]:
    totals: Counter[str] = Counter()
    errors: dict[str, Counter[tuple[str, str]]] = {}
    for text, reading, (_, aligned) in zip(right, readings, hits, strict=True):
        for character, item, other in zip(text, reading, aligned, strict=True):
            if _is_syllable(item, character):
                totals[item] += 1
                if character != other:
                    errors.setdefault(item, Counter())[character, other] += 1
    found = [
        SyllableErrors(
            syllable=syllable,
            errors=confusions.total(),
            total=totals[syllable],
            confusions=tuple((*pair, count) for pair, count in confusions.most_common(_MOST_CONFUSIONS)),
        )
        for syllable, confusions in errors.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.errors, one.total, one.syllable)))


def _coverage(right: Sequence[str], n_best: Sequence[Sequence[str]], top: Sequence[int]) -> tuple[Coverage, ...]:
    lists = [["".join(text.split()) for text in one] for one in n_best]
    longest = max(map(len, lists))
    found = []
    for k in sorted({size for size in top if 1 <= size <= longest}):
        covered = sum(one in best[:k] for one, best in zip(right, lists, strict=True))
        low, high = wilson_interval(covered, len(right))
        found.append(Coverage(k=k, share=covered / len(right), low=low, high=high))
    return tuple(found)


def _ratio(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> float | None:
    total = float(below.sum())
    return float(above.sum()) / total if total else None


def ratio_intervals(rows: Sequence[Row], *, resamples: int = 1000, seed: int = 0) -> list[Interval]:
    """Returns the intervals of ratios of sums over sentences, all from the same draws.

    Args:
        rows: Of each ratio what is summed above and below the line, (sentences,) each.
        resamples: Of the bootstrap.
        seed: Makes the intervals reproducible.
    """
    above, below = (np.stack(tables) for tables in zip(*rows, strict=True))  # (count, sentences) each

    def ratios(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        denominators = weights @ below.T
        filled = np.where(denominators > 0, denominators, 1)
        return np.where(denominators > 0, weights @ above.T / filled, np.nan)

    return [*percentile_intervals(ratios, above.shape[1], len(rows), resamples=resamples, seed=seed)]
