"""How well a language model chooses among options by their likelihood: zero-, one- and few-shot evaluation.

With ``a`` the tokens of an option and ``q`` the prompt, an option is judged in three ways:

    raw         log P(a | q)
    per_token   log P(a | q) / number of tokens of a
    relative    log P(a | q) - log P(a | neutral prompt)

The first favours short options, the second long ones, the third measures how much more likely the prompt makes an
option than it is without.

Source: Brown et al. 2020, "Language Models are Few-Shot Learners", section 2.4.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import wilson_interval
from wenmai.measures.classification import measure_classification

__all__ = ["NORMALISATIONS", "FewShotResult", "OptionFigures", "judged", "measure_options"]

NORMALISATIONS = ("raw", "per_token", "relative")

Judgements = dict[str, list[float]]


@dataclass(frozen=True, kw_only=True)
class OptionFigures:
    """The metrics of one way of normalising likelihoods.

    Attributes:
        normalisation: ``raw``, ``per_token`` or ``relative``.
        accuracy: Proportion of the examples whose best option is right.
        low: 95 % interval of Wilson, from ...
        high: ... to.
        macro_f1: Mean F1 of the labels; None where each example has options of its own.
        ties: Examples of which several options are best; the first of them counts.
    """

    normalisation: str
    accuracy: float
    low: float
    high: float
    macro_f1: float | None
    ties: int


@dataclass(frozen=True, kw_only=True)
class FewShotResult:
    """The result of a few-shot evaluation.

    Attributes:
        dataset: The data set.
        split: What was measured on.
        shots: Solved examples in the prompt of each example.
        seed: Of the draws.
        examples: Examples that were evaluated.
        figures: The metrics, for each way of normalising likelihoods.
        majority: The accuracy of always choosing what is most often right in the training part: a label, or, where each
            example has options of its own, an index.
        chance: The expected accuracy of choosing at random.
        shortened: Examples of which solved examples were left out because the prompt exceeded the context.
        left_out: Solved examples that were left out, in all.
        cut: Examples that did not fit even by themselves, and were cut at their beginning.
        unknown_options: Different options with an out-of-vocabulary token.
        options: Different options.
        sample: The first prompt, without what was left out.
    """

    dataset: str
    split: str
    shots: int
    seed: int
    examples: int
    figures: tuple[OptionFigures, ...]
    majority: float
    chance: float
    shortened: int
    left_out: int
    cut: int
    unknown_options: int
    options: int
    sample: str

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.dataset} {self.split}, {self.shots} shots, {self.examples:,} examples: chance {self.chance:.4f}, "
            f"always the most frequent {self.majority:.4f}"
        ]
        for one in self.figures:
            f1 = "" if one.macro_f1 is None else f"  macro F1 {one.macro_f1:.4f}"
            ties = f"  ({one.ties:,} ties)" if one.ties else ""
            lines.append(
                f"{one.normalisation:<9}  accuracy {one.accuracy:.4f} [{one.low:.4f}, {one.high:.4f}]{f1}{ties}"
            )
        return "\n".join(lines)


def judged(log_probs: Sequence[Sequence[float]], neutral: Sequence[Sequence[float]]) -> Judgements:
    """Judges the options of an example.

    Args:
        log_probs: For each option the natural log-probabilities of its tokens after the prompt.
        neutral: The same after a neutral prompt.

    Returns:
        For each of :data:`NORMALISATIONS` a number for each option; an option without tokens is impossible.
    """
    raw = [math.fsum(tokens) if tokens else -math.inf for tokens in log_probs]
    per_token = [total / max(1, len(tokens)) for total, tokens in zip(raw, log_probs, strict=True)]
    alone = [math.fsum(tokens) for tokens in neutral]
    relative = [
        -math.inf if total == -math.inf else total - base for total, base in zip(raw, alone, strict=True)
    ]  # what is impossible after both prompts would be inf - inf
    return {"raw": raw, "per_token": per_token, "relative": relative}


def measure_options(
    judgements: Sequence[Judgements],
    options: Sequence[Sequence[str]],
    answers: Sequence[int],
    *,
    labels: Sequence[str] = (),
) -> tuple[OptionFigures, ...]:
    """Compares the best options with the right ones.

    Args:
        judgements: Of each example what :func:`judged` says.
        options: The options of each example; one that is equal to the right one is right.
        answers: The index of the right one.
        labels: The labels that the options of every example stand for, if they do.

    Raises:
        CorpusError: if there are no examples.
    """
    if not judgements:
        raise CorpusError("there are no examples to measure on")
    return tuple(_figures(name, judgements, options, answers, labels) for name in NORMALISATIONS)


def _figures(
    name: str,
    judgements: Sequence[Judgements],
    options: Sequence[Sequence[str]],
    answers: Sequence[int],
    labels: Sequence[str],
) -> OptionFigures:
    scores = [found[name] for found in judgements]
    best = [one.index(max(one)) for one in scores]
    right = np.array(
        [given[place] == given[answer] for given, place, answer in zip(options, best, answers, strict=True)], np.float64
    )
    low, high = wilson_interval(int(right.sum()), len(right))
    macro_f1 = None
    if labels:
        gold = [[labels[answer]] for answer in answers]
        macro_f1 = measure_classification(
            gold, [[(labels[place], 1.0)] for place in best], labels, resamples=1
        ).macro_f1
    return OptionFigures(
        normalisation=name,
        accuracy=float(right.mean()),
        low=low,
        high=high,
        macro_f1=macro_f1,
        ties=sum(
            len({option for option, score in zip(given, one, strict=True) if score == max(one)}) > 1
            for given, one in zip(options, scores, strict=True)
        ),
    )
