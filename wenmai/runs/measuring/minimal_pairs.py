"""Minimal pairs: whether a language model finds the acceptable one of two sentences likelier.

Every model with the verb ``score`` is asked alike, from n-grams to masked models: the sum of the log-probabilities of a
sentence and its end, each sentence by itself. See :mod:`wenmai.measures.minimal_pairs` for what counts as right.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wenmai.core.columns import in_columns
from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.quantities import plural
from wenmai.core.showing import Table
from wenmai.core.wording import say
from wenmai.data.minimal_pairs import SPELLINGS, MinimalPair, read_minimal_pairs, require_minimal_pairs
from wenmai.inference.verbs import Scorer
from wenmai.measures.language import SentenceScore
from wenmai.measures.minimal_pairs import MinimalPairsResult, PairsFigure, compare_outcomes, measure_minimal_pairs
from wenmai.runs.comparison import Difference, Kind, Measure
from wenmai.runs.language import language_model_of
from wenmai.runs.measuring.measurer import Evaluation, Progress, title_of, unwatched
from wenmai.training.run import Run

__all__ = [
    "MINIMAL_PAIRS",
    "ComparedPairs",
    "MinimalPairsEvaluation",
    "check_minimal_pairs",
    "evaluate_minimal_pairs",
    "find_spelling",
    "measured",
]

_BY = ("phenomenon", "paradigm")
_ASKED = 100  # pairs with which spellings are tried
_FEWER = 0.75  # of the unknown words: another spelling than the written one must be clearly better known
_REPORTED = 500  # sentences between two reports of progress


@dataclass(frozen=True, kw_only=True, repr=False)
class MinimalPairsEvaluation(Evaluation):
    """The evaluation of a language model on minimal pairs.

    Attributes:
        on: The pairs.
        by: What is shown: ``phenomenon`` or ``paradigm``.
        spelling: How they were spelled, one of :data:`~wenmai.data.minimal_pairs.SPELLINGS`.
        found: Whether the spelling is the one of :func:`find_spelling`, and not one that was asked for.
        result: The metrics.
    """

    on: str
    by: str = "phenomenon"
    spelling: str
    found: bool = True
    result: MinimalPairsResult

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; those of all pairs are at the top."""
        return {"run": self.run, "on": self.on, "spelling": self.spelling, **self.result.as_dict()}

    def __str__(self) -> str:
        found, paradigms = self.result.total, len(self.result.paradigms)
        tied = f"; {found.ties:,} ties count as wrong" if found.ties else ""
        accuracy = f"{title_of(self.on)}: accuracy {found.accuracy:.4f} [{found.low:.4f}, {found.high:.4f}]"
        if paradigms == 1:
            return f"{accuracy}, {plural(found.pairs, 'pair')}{tied}"
        about = (
            f"{accuracy}, the mean of {paradigms:,} paradigms; {self.result.pair_accuracy:.4f} of "
            f"{plural(found.pairs, 'pair')}"
        )
        about += tied
        heads = [say(name) for name in (self.by, "accuracy", "", "minimal pairs", "ties")]
        return f"{about}\n{in_columns([heads, *map(_row, self._figures())])}"

    def table(self) -> Table:
        """Returns a row for all pairs, and one for each phenomenon or paradigm."""
        return Table.of([one.as_dict() for one in (self.result.total, *self._figures())])

    @property
    def notes(self) -> list[str]:
        """How the pairs were spelled, and what unknown words do."""
        return _notes(self.result, self.spelling if self.found else "written")

    def _figures(self) -> Sequence[PairsFigure]:
        return self.result.phenomena if self.by == "phenomenon" else self.result.paradigms


def _notes(found: MinimalPairsResult, spelling: str) -> list[str]:
    notes = []
    if spelling != "written":
        notes.append(f"the pairs are spelled as the model knows more words: {spelling}")
    if found.unknown_ties:
        share = found.unknown_ties / found.total.pairs
        notes.append(
            f"in {plural(found.unknown_ties, 'pair')} ({share:.1%}) the words that differ are unknown, and the model "
            "reads both sentences alike"
        )
    if found.uneven:
        share = found.uneven / found.total.pairs
        notes.append(
            f"in {plural(found.uneven, 'pair')} ({share:.1%}) one sentence has more unknown words than the other, "
            "which have the probability of any unknown word"
        )
    return notes


def _row(figure: PairsFigure) -> list[str]:
    interval = f"[{figure.low:.4f}, {figure.high:.4f}]"
    return [figure.name, f"{figure.accuracy:.4f}", interval, f"{figure.pairs:,}", f"{figure.ties:,}"]


def evaluate_minimal_pairs(
    run: Run,
    pairs: str | Path,
    *,
    by: str | None = None,
    spelling: str | None = None,
    limit: int | None = None,
    progress: Progress = unwatched,
) -> MinimalPairsEvaluation:
    """Evaluates a language model on minimal pairs.

    Args:
        run: A finished run.
        pairs: See :func:`~wenmai.data.minimal_pairs.read_minimal_pairs`.
        by: ``phenomenon`` or ``paradigm``, whichever is to be shown; None: ``phenomenon``.
        spelling: One of :data:`~wenmai.data.minimal_pairs.SPELLINGS`; None: see :func:`find_spelling`.
        limit: The first pairs of each paradigm, so many; None: all.
        progress: Watches.

    Raises:
        CorpusError: if the pairs cannot be read.
        RunError: if the run is not finished, or does not predict text.
        SettingError: for an unknown name, or a limit below 1.
    """
    if not isinstance(pairs, str | Path):
        raise SettingError(
            f"pairs is the name of a file, not {type(pairs).__name__}; texts in memory are for run.model.score(texts)"
        )
    if by is not None and by not in _BY:
        raise SettingError(f"--by {by}: expected phenomenon or paradigm{nearest_name(by, _BY)}")
    if spelling is not None and spelling not in SPELLINGS:
        known = ", ".join(SPELLINGS)
        raise SettingError(f"--spelling {spelling}: expected {known}{nearest_name(spelling, SPELLINGS)}")
    read = _limited(read_minimal_pairs(pairs), limit)
    model = language_model_of(run)
    found, chosen = measured(model, read, spelling, partial(progress, f"evaluating on {title_of(pairs)}, sentence"))
    return MinimalPairsEvaluation(
        run=str(run.path),
        on=str(pairs),
        by=by or "phenomenon",
        spelling=chosen,
        found=spelling is None,
        result=found,
    )


def measured(
    model: Scorer,
    pairs: Sequence[MinimalPair],
    spelling: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[MinimalPairsResult, str]:
    """Measures a model on pairs.

    Args:
        model: The model.
        pairs: The pairs.
        spelling: How they are spelled; None: see :func:`find_spelling`.
        progress: Called with the number of sentences that are done, and of all.

    Returns:
        The result, and the spelling.
    """
    chosen = spelling or find_spelling(model, pairs)
    spell = SPELLINGS[chosen]
    sentences = [spell(sentence) for pair in pairs for sentence in (pair.good, pair.bad)]
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))  # batches of equal lengths
    scores: list[SentenceScore | None] = [None] * len(sentences)
    answers = model.score((sentences[place] for place in order), context="fresh")
    for done, (place, score) in enumerate(zip(order, answers, strict=True), start=1):
        scores[place] = score
        if done % _REPORTED == 0 or done == len(sentences):
            progress(done, len(sentences))
    known = [score for score in scores if score is not None]
    names = [(pair.phenomenon, pair.paradigm) for pair in pairs]
    return measure_minimal_pairs(known[::2], known[1::2], names), chosen


def find_spelling(model: Scorer, pairs: Sequence[MinimalPair]) -> str:
    """Returns the spelling of sentences in which a model knows most words: as they are written, unless others help.

    Models of words know those of their training text. If that has spaces before punctuation, as WikiText has, or no
    capitals, then the last word of nearly every sentence, or the first, is unknown as it is written. Spellings are
    tried with some pairs at even distances; another than the written one is taken if it clearly has fewer unknown
    words. A model of pieces knows all words, and reads pairs as they are written; so does any model those that have
    other letters than English.
    """
    step = max(1, len(pairs) // _ASKED)
    asked = [sentence for pair in pairs[::step] for sentence in (pair.good, pair.bad)]
    if not all(map(str.isascii, asked)):
        return "written"

    def unknown(name: str) -> int:
        return sum(score.oov for score in model.score(map(SPELLINGS[name], asked), context="fresh"))

    written = unknown("written")
    if not written:
        return "written"
    counts = {name: unknown(name) for name in SPELLINGS if name != "written"}
    best = min(counts, key=lambda name: counts[name])
    return best if counts[best] < _FEWER * written else "written"


class ComparedPairs:
    """Minimal pairs on which models are compared, all with the first of them.

    Args:
        names: The sets.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._sets = {name: read_minimal_pairs(name) for name in names}
        self._first: dict[str, MinimalPairsResult] = {}

    def measure(self, model: Scorer, name: str) -> Measure:
        """Returns the accuracy of the next model on a set, with phenomena as parts."""
        result, spelling = measured(model, self._sets[name])
        difference = None
        if name in self._first:
            found = compare_outcomes(self._first[name], result)
            difference = Difference(value=found.difference, low=found.low, high=found.high, p_value=found.p_value)
        self._first.setdefault(name, result)
        total = result.total
        known = total.pairs - result.unknown_ties
        phenomena = result.phenomena if len(result.phenomena) > 1 else ()
        return Measure(
            name=title_of(name, self._sets),
            kind="minimal-pairs",
            value=total.accuracy,
            low=total.low,
            high=total.high,
            covered=known,
            total=total.pairs,
            parts=[_part(one) for one in phenomena],
            difference=difference,
            notes=_notes(result, spelling),
        )


def _part(figure: PairsFigure) -> Measure:
    return Measure(
        name=figure.name,
        kind="minimal-pairs",
        value=figure.accuracy,
        low=figure.low,
        high=figure.high,
        total=figure.pairs,
    )


def check_minimal_pairs(names: Sequence[str]) -> None:
    """Makes sure that pairs are there, and downloads them if need be.

    Raises:
        WenmaiError: if they are not.
    """
    for name in names:
        require_minimal_pairs(name)


def _limited(pairs: Sequence[MinimalPair], limit: int | None) -> list[MinimalPair]:
    if limit is None:
        return list(pairs)
    if limit < 1:
        raise SettingError(f"a limit of {limit} pairs of a paradigm: expected 1 or more")
    seen = Counter[tuple[str, str]]()
    kept = []
    for pair in pairs:
        seen[pair.phenomenon, pair.paradigm] += 1
        if seen[pair.phenomenon, pair.paradigm] <= limit:
            kept.append(pair)
    return kept


MINIMAL_PAIRS = Kind(
    title="Minimal pairs, % right",
    name="minimal pairs",
    items="minimal pairs",
    about="is the proportion of pairs of which the acceptable sentence has the greater probability, the mean of the "
    "paradigms; ties count as wrong. Covered are the pairs of which not all words that differ are unknown.",
    percent=True,
)
