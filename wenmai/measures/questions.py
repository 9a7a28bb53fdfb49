"""How well questions are answered by parts of texts: exact match and F1, as the official scripts compute them.

- ``squad`` (1.1, Rajpurkar et al. 2016): in lower case, without ASCII punctuation and articles; F1 of the words.
- ``squad2`` (2.0, Rajpurkar et al. 2018): likewise; a right answer of which nothing is left does not count.
- ``cmrc`` (CMRC 2018, Cui et al. 2019): in lower case, without punctuation; F1 of the longest common substring.

Words of ``cmrc`` are single Chinese characters, and words, numbers and marks of the text between them (which the
official script leaves to NLTK: ``don't`` is three here, and two there). Of several right answers the one counts
that gives the most. Where a question has no answer, the only right answer is the empty one.

SQuAD 2.0 also asks how good the answers *would* be with the best threshold: each answer comes with how much better no
answer is, and above the threshold none is given.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import percentile_intervals

__all__ = ["AnswerRules", "QuestionResult", "answer_scores", "fitting_rules", "measure_questions", "threshold_behind"]

AnswerRules = Literal["squad", "squad2", "cmrc"]
Floats = npt.NDArray[np.float64]

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_ASCII = str.maketrans("", "", string.punctuation)
_CHINESE = re.compile(r"[\u4e00-\u9fa5]")
_MARK = re.compile(r"\d+(?:[.,]\d+)+|[\u4e00-\u9fa5]|[^\W\u4e00-\u9fa5]+|[^\w\s]")
_CMRC_MARKS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")


@dataclass(frozen=True, kw_only=True)
class QuestionResult:
    """The result on a test set; intervals are 95 % bootstrap intervals over questions.

    Attributes:
        rules: How answers were compared.
        questions: Questions.
        exact: Proportion of the answers that match exactly.
        exact_low: Its interval, from ...
        exact_high: ... to.
        f1: Mean F1.
        f1_low: Its interval, from ...
        f1_high: ... to.
        answerable: Questions that have an answer, with
        answerable_exact: their exact match (None without such questions) and
        answerable_f1: F1.
        unanswerable: Questions that have none, with
        unanswerable_exact: how many of these were left without an answer.
        best_exact: Exact match with the best threshold for it (None if it is not known how good no answer is).
        best_f1: F1 with the best threshold for it.
        best_threshold: One of the highest F1: no answer is given where none is better than the best by more.
    """

    rules: str
    questions: int
    exact: float
    exact_low: float | None
    exact_high: float | None
    f1: float
    f1_low: float | None
    f1_high: float | None
    answerable: int
    answerable_exact: float | None
    answerable_f1: float | None
    unanswerable: int
    unanswerable_exact: float | None
    best_exact: float | None
    best_f1: float | None
    best_threshold: float | None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        def interval(low: float | None, high: float | None) -> str:
            return "" if low is None else f" [{low:.4f}, {high:.4f}]"

        parts = [
            f"F1 {self.f1:.4f}{interval(self.f1_low, self.f1_high)}",
            f"exact match {self.exact:.4f}{interval(self.exact_low, self.exact_high)}",
        ]
        if self.unanswerable:
            if self.answerable:
                parts.append(f"answerable F1 {self.answerable_f1:.4f}, exact {self.answerable_exact:.4f}")
            parts.append(f"unanswerable {self.unanswerable_exact:.4f}")
            if self.best_f1 is not None:
                parts.append(
                    f"best F1 {self.best_f1:.4f} with threshold {self.best_threshold:.6g}, exact {self.best_exact:.4f}"
                )
        return "  ".join([*parts, f"({self.questions:,} questions)"])


def fitting_rules(answers: Sequence[Sequence[str]]) -> AnswerRules:
    """Returns the rules for some test set.

    They are ``cmrc`` if most answers are Chinese, ``squad2`` if some questions have none.
    """
    found = [one for several in answers for one in several]
    if 2 * sum(_CHINESE.search(one) is not None for one in found) > len(found):
        return "cmrc"
    return "squad" if all(answers) else "squad2"


def answer_scores(gold: Sequence[str], found: str, rules: AnswerRules = "squad2") -> tuple[float, float]:
    """Returns exact match and F1 of one answer.

    Args:
        gold: The right answers; none: the question has no answer.
        found: The answer; empty: none was given.
        rules: How answers are compared.
    """
    if rules == "cmrc":
        pairs = [_cmrc(one, found) for one in gold or [""]]
    elif rules == "squad" and gold:
        pairs = [_squad(one, found, of_nothing=0.0) for one in gold]
    else:
        pairs = [_squad(one, found) for one in [one for one in gold if _squad_words(one)] or [""]]
    return max(exact for exact, _ in pairs), max(f1 for _, f1 in pairs)


def measure_questions(
    gold: Sequence[Sequence[str]],
    found: Sequence[str],
    *,
    rules: AnswerRules = "squad2",
    best: Sequence[str] | None = None,
    gaps: Sequence[float] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> QuestionResult:
    """Compares answers with the right ones.

    Args:
        gold: The right answers of each question; none: it has no answer.
        found: The answer to each; empty: none was given.
        rules: How answers are compared.
        best: The best answer to each, if one has to be given; with it ...
        gaps: ... how much better it is to give none.
        resamples: Draws of the bootstrap.
        seed: Decides the draws.

    Raises:
        CorpusError: if there are no questions, or not as many answers.
    """
    if not gold or len(gold) != len(found):
        raise CorpusError(f"{len(gold)} questions have {len(found)} answers; expected one for each of at least one")
    scores = np.array([answer_scores(right, given, rules) for right, given in zip(gold, found, strict=True)])
    bounds = percentile_intervals(
        lambda weights: weights @ scores / len(scores), len(scores), 2, resamples=resamples, seed=seed
    )
    has = np.array([bool(right) for right in gold])
    best_exact: float | None = None
    best_f1: float | None = None
    threshold: float | None = None
    if best is not None and gaps is not None:
        given = np.array([answer_scores(right, one, rules) for right, one in zip(gold, best, strict=True)])
        # As the official script counts: where there is no answer, any answer is a mistake, whatever is left of it.
        gained = np.where(has[:, None], given, -np.array([[bool(one)] for one in best], np.float64))
        right = int((~has).sum())
        best_exact, _ = _with_threshold(gained[:, 0], right, gaps)
        best_f1, threshold = _with_threshold(gained[:, 1], right, gaps)
    exact, f1 = scores.mean(0).tolist()
    known = scores[has].mean(0).tolist() if has.any() else [None, None]
    return QuestionResult(
        rules=rules,
        questions=len(scores),
        exact=exact,
        exact_low=bounds[0][0],
        exact_high=bounds[0][1],
        f1=f1,
        f1_low=bounds[1][0],
        f1_high=bounds[1][1],
        answerable=int(has.sum()),
        answerable_exact=known[0],
        answerable_f1=known[1],
        unanswerable=int((~has).sum()),
        unanswerable_exact=None if has.all() else float(scores[~has, 0].mean()),
        best_exact=best_exact,
        best_f1=best_f1,
        best_threshold=threshold,
    )


def _with_threshold(gained: Floats, right: int, gaps: Sequence[float]) -> tuple[float, float]:
    """The highest mean score if the questions of the smallest gaps are answered, and the threshold by which they are.

    Args:
        gained: (N,) what answering adds to the score of none, 1 for each of the ``right``.
        right: Questions without an answer.
        gaps: (N,) how much better it is to give none.
    """
    sums = np.concatenate([[0.0], np.cumsum(gained[np.argsort(np.array(gaps), kind="stable")])])
    count = int(sums.argmax())
    return float((right + sums[count]) / len(gained)), threshold_behind(gaps, count)


def threshold_behind(gaps: Sequence[float], count: int) -> float:
    """Returns a threshold for no answer by which ``count`` questions are answered, those of the smallest gaps.

    It lies in the middle between two gaps, so that it may be rounded.

    Args:
        gaps: (N,) how much better it is to give none than the best answer.
        count: 0 to N.
    """
    ordered = np.sort(np.array(gaps, np.float64))
    edges = np.concatenate([[ordered[0] - 1.0], ordered, [ordered[-1] + 1.0]])
    return float(np.clip((edges[count] + edges[count + 1]) / 2, -1e6, 1e6))


# --- SQuAD ------------------------------------------------------------------------------------------------------


def _squad_words(answer: str) -> list[str]:
    return _ARTICLES.sub(" ", answer.lower().translate(_ASCII)).split()


def _squad(gold: str, found: str, of_nothing: float = 1.0) -> tuple[float, float]:
    """Exact match and F1, which is ``of_nothing`` if nothing is left of both."""
    wanted, words = _squad_words(gold), _squad_words(found)
    exact = float(wanted == words)
    if not wanted or not words:
        return exact, exact * of_nothing
    common = sum((Counter(wanted) & Counter(words)).values())
    return exact, 2 * common / (len(wanted) + len(words))


# --- CMRC 2018 --------------------------------------------------------------------------------------------------


def _cmrc_plain(answer: str) -> str:
    return answer.lower().strip().translate(_CMRC_MARKS)


def _cmrc_words(answer: str) -> list[str]:
    return _MARK.findall(_cmrc_plain(answer))


def _cmrc(gold: str, found: str) -> tuple[float, float]:
    exact = float(_cmrc_plain(gold) == _cmrc_plain(found))
    wanted, words = _cmrc_words(gold), _cmrc_words(found)
    common = _longest_common(wanted, words)
    if not common:
        return exact, float(not gold and not found)
    return exact, 2 * common / (len(wanted) + len(words))


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How long the longest common substring is."""
    longest, before = 0, [0] * (len(other) + 1)
    for word in one:
        row = [0] * (len(other) + 1)
        for place, its in enumerate(other):
            if word == its:
                row[place + 1] = before[place] + 1
                longest = max(longest, row[place + 1])
        before = row
    return longest
