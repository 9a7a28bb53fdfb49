"""Measures of translations: BLEU and chrF with intervals, by source length, and the comparison of two systems.

The counts of every sentence are taken once; corpus scores, buckets, bootstrap intervals and randomisation tests are
then sums of rows of two tables. Tokens are those of sacreBLEU and the scores equal its own, so they have its
signature and may be compared with published ones. Texts must be detokenised and in their own case.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import FormatError, SettingError, install_hint
from wenmai.measures.bootstrap import randomisation_p_value, resampled

__all__ = [
    "LengthBucket",
    "PairedDifference",
    "PairedResult",
    "Tokenization",
    "TranslationResult",
    "compare_translations",
    "measure_translation",
    "require_tokenization",
]

Tokenization = Literal["13a", "intl", "zh", "char", "none"]
Table = NDArray[np.float64]

BLEU_ORDER = 4
CHRF_ORDER = 6
CHRF_BETA = 2
BUCKET_ENDS = (5, 10, 15, 20, 30)


@dataclass(frozen=True, kw_only=True)
class LengthBucket:
    """The scores of the sentences whose source has ``low`` to ``high`` words or characters.

    ``high`` is ``None`` for the last bucket, which has no end. ``bleu`` and ``chrf`` are corpus scores of the bucket,
    0 to 100; BLEU is 0 where no hypothesis has four tokens. ``exact_match`` is a proportion, 0 to 1.
    """

    low: int
    high: int | None
    sentences: int
    bleu: float
    chrf: float
    exact_match: float

    @property
    def name(self) -> str:
        """``1-5``, or ``31+`` for the last."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True, kw_only=True)
class TranslationResult:
    """How well translations agree with their references.

    ``bleu`` and ``chrf`` (chrF2) are corpus scores from 0 to 100, each between its ``low`` and ``high`` with 95 %
    confidence, as far as the choice of sentences goes. ``signature`` and ``chrf_signature`` are sacreBLEU's: scores of
    different signatures must not be compared. ``exact_match`` is the proportion of hypotheses equal to their reference,
    white space at the ends aside. Lengths are in tokens of BLEU. ``buckets`` are those that have sentences, by source
    length in ``length_unit``; an empty source counts in the first.
    """

    sentences: int
    bleu: float
    bleu_low: float
    bleu_high: float
    chrf: float
    chrf_low: float
    chrf_high: float
    exact_match: float
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    tokenize: Tokenization
    signature: str
    chrf_signature: str
    length_unit: Literal["words", "characters"]
    buckets: tuple[LengthBucket, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values, ready for JSON."""
        return {**asdict(self), "buckets": [asdict(bucket) for bucket in self.buckets]}

    def __str__(self) -> str:
        bleu = f"BLEU {self.bleu:.2f} [{self.bleu_low:.2f}, {self.bleu_high:.2f}]"
        chrf = f"chrF2 {self.chrf:.2f} [{self.chrf_low:.2f}, {self.chrf_high:.2f}]"
        return f"{bleu}, {chrf}, {self.sentences} sentences ({self.signature})"


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """By how much the second system's score is above the first's.

    ``difference`` is ``second - first``, between ``low`` and ``high`` with 95 % confidence. ``p_value`` is the chance
    of a difference at least as large, in either direction, between systems that do not differ. ``second_wins`` is the
    proportion of bootstrap resamples in which the second system scores higher.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    second_wins: float


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """Two systems that translated the same sentences, compared by BLEU and chrF2."""

    sentences: int
    tokenize: Tokenization
    signature: str
    chrf_signature: str
    bleu: PairedDifference
    chrf: PairedDifference

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        def shown(name: str, result: PairedDifference) -> str:
            interval = f"[{result.low:+z.2f}, {result.high:+z.2f}]"
            return f"{name} {result.difference:+z.2f} {interval}, p = {result.p_value:.4f}"

        return f"{shown('BLEU', self.bleu)}; {shown('chrF2', self.chrf)}; {self.sentences} sentences ({self.signature})"


def measure_translation(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: Tokenization | None = None,
    bucket_ends: Sequence[int] = BUCKET_ENDS,
    seed: int = 0,
    resamples: int = 1000,
) -> TranslationResult:
    """Scores translations against one reference each.

    Args:
        sources: what was translated; its lengths make the buckets, counted in characters (white space aside) if the
            sources are mostly Chinese and in words between white space otherwise.
        hypotheses: the translations, detokenised.
        references: the right translations, detokenised.
        tokenize: how sacreBLEU splits words for BLEU. ``None`` takes ``zh`` if more than half of the letters of the
            references are Chinese characters, and ``13a`` otherwise.
        bucket_ends: the longest source length of each bucket, rising; one bucket more holds all longer sources.
        seed: of the bootstrap.
        resamples: of the bootstrap, over sentences.

    Raises:
        FormatError: if there are no sentences, or not as many of each.
        SettingError: if a setting makes no sense, or sacreBLEU is not installed.

    Source: Papineni et al. 2002, section 2.3 (BLEU, with the smoothing of mteval-v13a where an order has no match);
    Popović 2015, equation 1 (chrF); Post 2018 (signature); Koehn 2004 (bootstrap).
    """
    _check_sizes(sources=sources, hypotheses=hypotheses, references=references)
    ends = list(bucket_ends)
    if not ends or ends[0] < 1 or any(low >= high for low, high in pairwise(ends)):
        raise SettingError(f"bucket_ends must be rising numbers from 1, got {ends}")
    tokenize = _tokenization(tokenize, references)
    bleu_table, chrf_table = _bleu_table(hypotheses, references, tokenize), _chrf_table(hypotheses, references)
    size = len(references)
    exact = np.array([a.strip() == b.strip() for a, b in zip(hypotheses, references, strict=True)], np.float64)

    def interval(score: Callable[[Table], Table], table: Table) -> tuple[float, float]:
        return _middle(resampled(lambda weights: score(weights @ table), size, resamples=resamples, seed=seed))

    bleu_low, bleu_high = interval(_bleu, bleu_table)
    chrf_low, chrf_high = interval(_chrf, chrf_table)
    signature, chrf_signature = _signatures(tokenize)
    by_characters = _mostly_chinese(sources)
    lengths = [len("".join(text.split()) if by_characters else text.split()) for text in sources]
    total = bleu_table.sum(axis=0)
    return TranslationResult(
        sentences=size,
        bleu=_corpus(_bleu, bleu_table),
        bleu_low=bleu_low,
        bleu_high=bleu_high,
        chrf=_corpus(_chrf, chrf_table),
        chrf_low=chrf_low,
        chrf_high=chrf_high,
        exact_match=float(exact.mean()),
        brevity_penalty=float(_brevity_penalty(total[None])[0]),
        hypothesis_length=int(total[0]),
        reference_length=int(total[1]),
        tokenize=tokenize,
        signature=signature,
        chrf_signature=chrf_signature,
        length_unit="characters" if by_characters else "words",
        buckets=tuple(_buckets(np.array(lengths), ends, bleu_table, chrf_table, exact)),
    )


def compare_translations(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: Tokenization | None = None,
    seed: int = 0,
    resamples: int = 1000,
    trials: int = 10_000,
) -> PairedResult:
    """Compares two systems' translations of the same sentences, sentence by sentence.

    Args:
        first: translations of the first system, usually the baseline, detokenised.
        second: translations of the second system.
        references: the right translations.
        tokenize: as in :func:`measure_translation`.
        seed: of the bootstrap and the randomisation.
        resamples: of the paired bootstrap, which gives the intervals.
        trials: of the approximate randomisation, which gives the p-values.

    Raises:
        FormatError: if there are no sentences, or not as many of each.
        SettingError: if a setting makes no sense, or sacreBLEU is not installed.

    Source: Koehn 2004 (paired bootstrap); Riezler and Maxwell 2005 (randomisation, whose p-values are more reliable:
    the bootstrap's assume that its draws, moved to a mean of no difference, are what equal systems would give).
    """
    _check_sizes(first=first, second=second, references=references)
    tokenize = _tokenization(tokenize, references)
    signature, chrf_signature = _signatures(tokenize)

    def difference(score: Callable[[Table], Table], table: Callable[[Sequence[str]], Table]) -> PairedDifference:
        one, other = table(first), table(second)
        draws = resampled(
            lambda weights: score(weights @ other) - score(weights @ one), len(one), resamples=resamples, seed=seed
        )
        low, high = _middle(draws)
        before, after = _corpus(score, one), _corpus(score, other)
        return PairedDifference(
            first=before,
            second=after,
            difference=after - before,
            low=low,
            high=high,
            p_value=randomisation_p_value(score, one, other, trials=trials, seed=seed),
            second_wins=float((draws > 0).mean()),
        )

    return PairedResult(
        sentences=len(references),
        tokenize=tokenize,
        signature=signature,
        chrf_signature=chrf_signature,
        bleu=difference(_bleu, partial(_bleu_table, references=references, tokenize=tokenize)),
        chrf=difference(_chrf, partial(_chrf_table, references=references)),
    )


def _buckets(
    lengths: NDArray[np.int64], ends: list[int], bleu_table: Table, chrf_table: Table, exact: Table
) -> Iterable[LengthBucket]:
    place = np.searchsorted(ends, lengths)
    for number, (low, high) in enumerate(zip([1, *(end + 1 for end in ends)], [*ends, None], strict=True)):
        inside = place == number
        if inside.any():
            yield LengthBucket(
                low=low,
                high=high,
                sentences=int(inside.sum()),
                bleu=_corpus(_bleu, bleu_table[inside]),
                chrf=_corpus(_chrf, chrf_table[inside]),
                exact_match=float(exact[inside].mean()),
            )


# Counts of sentences


def _bleu_table(hypotheses: Sequence[str], references: Sequence[str], tokenize: Tokenization) -> Table:
    """Returns (n, 10): hypothesis and reference length, then matches and totals of the orders 1 to 4."""
    bleu = _metrics().BLEU(tokenize=tokenize, effective_order=True)  # the order matters to unused sentence scores only
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = bleu.sentence_score(hypothesis, [reference])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, np.float64)


def _chrf_table(hypotheses: Sequence[str], references: Sequence[str]) -> Table:
    """Returns (n, 18): hypothesis n-grams, reference n-grams and matches, each of the orders 1 to 6."""
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        made, right = "".join(hypothesis.split()), "".join(reference.split())
        row = np.zeros((3, CHRF_ORDER))
        for n in range(1, CHRF_ORDER + 1):
            found, wanted = _character_ngrams(made, n), _character_ngrams(right, n)
            # an order that the reference is too short for does not count against the hypothesis
            row[:, n - 1] = found.total() if wanted else 0, wanted.total(), (found & wanted).total()
        rows.append(row.ravel())
    return np.array(rows)


def _character_ngrams(text: str, n: int) -> Counter[str]:
    return Counter(text[start : start + n] for start in range(len(text) - n + 1))


# Scores of sums of counts


def _middle(draws: Table) -> tuple[float, float]:
    low, high = np.percentile(draws, (2.5, 97.5)).tolist()
    return low, high


def _corpus(score: Callable[[Table], Table], table: Table) -> float:
    return float(score(table.sum(axis=0, keepdims=True))[0])


def _bleu(sums: Table) -> Table:
    """Maps (R, 10) sums of :func:`_bleu_table` to (R,) corpus scores."""
    matches, totals = sums[:, 2 : 2 + BLEU_ORDER], sums[:, 2 + BLEU_ORDER :]
    missed = matches == 0
    smoothed = 0.5 ** np.cumsum(missed, axis=1)  # the k-th order without a match counts 1 / 2^k of a match
    logs = np.log(np.where(missed, smoothed, matches)) - np.log(np.maximum(totals, 1))
    scores = 100 * _brevity_penalty(sums) * np.exp(logs.mean(axis=1))
    return np.where(missed.all(axis=1) | (totals == 0).any(axis=1), 0.0, scores)


def _brevity_penalty(sums: Table) -> Table:
    hypothesis, reference = sums[:, 0], sums[:, 1]
    short = np.exp(1 - reference / np.maximum(hypothesis, 1)) * (hypothesis > 0)
    return np.where(hypothesis < reference, short, 1.0)


def _chrf(sums: Table) -> Table:
    """Maps (R, 18) sums of :func:`_chrf_table` to (R,) corpus scores."""
    found, wanted, matches = sums.reshape(len(sums), 3, CHRF_ORDER).transpose(1, 0, 2)
    counts = (found > 0) & (wanted > 0)
    orders = np.maximum(counts.sum(axis=1), 1)
    precision = np.where(counts, matches / np.maximum(found, 1), 0).sum(axis=1) / orders
    recall = np.where(counts, matches / np.maximum(wanted, 1), 0).sum(axis=1) / orders
    weight = CHRF_BETA**2
    scores = np.zeros(len(sums))
    np.divide((1 + weight) * precision * recall, weight * precision + recall, out=scores, where=precision > 0)
    return 100 * scores


# sacreBLEU and settings


def _metrics() -> ModuleType:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise SettingError(f"BLEU needs sacreBLEU; {install_hint('neural')}") from None
    return metrics


def _signatures(tokenize: Tokenization) -> tuple[str, str]:
    metrics = _metrics()
    bleu, chrf = metrics.BLEU(tokenize=tokenize), metrics.CHRF(char_order=CHRF_ORDER, beta=CHRF_BETA)
    for metric in (bleu, chrf):
        metric.corpus_score(["a"], [["a"]])  # a signature exists after a score, which sets the number of references
    return str(bleu.get_signature()), str(chrf.get_signature())


def require_tokenization(tokenize: str | None) -> None:
    """Makes sure, before anything is translated, that BLEU can be computed.

    Raises:
        SettingError: if there is no such way to split words, or sacreBLEU is not installed.
    """
    _metrics()
    if tokenize is not None and tokenize not in get_args(Tokenization):
        raise SettingError(f"no tokenize {tokenize!r} for BLEU; expected one of {', '.join(get_args(Tokenization))}")


def _tokenization(tokenize: Tokenization | None, references: Sequence[str]) -> Tokenization:
    require_tokenization(tokenize)
    return tokenize or ("zh" if _mostly_chinese(references) else "13a")


def _mostly_chinese(texts: Iterable[str]) -> bool:
    letters = chinese = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        chinese += sum("\u3400" <= character <= "\u9fff" or character >= "\U00020000" for character in text)
    return 2 * chinese > letters


def _check_sizes(**texts: Sequence[str]) -> None:
    sizes = {name: len(lines) for name, lines in texts.items()}
    if len(set(sizes.values())) > 1:
        counted = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise FormatError(f"not as many of each: {counted}; line i of each must belong to the same sentence")
    if not any(sizes.values()):
        raise FormatError("there are no sentences to measure; expected at least one")
