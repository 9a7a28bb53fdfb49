"""Measures of word vectors: agreement with human similarity scores, and word analogies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError, SettingError
from wenmai.measures.bootstrap import percentile_interval, wilson_interval
from wenmai.vectors.lengths import cosines
from wenmai.vectors.questions import best_answers, given_words, searched_words
from wenmai.vectors.word_vectors import WordVectors

__all__ = [
    "AnalogyResult",
    "AnalogySection",
    "Pair",
    "SimilarityResult",
    "evaluate_analogies",
    "evaluate_similarity",
    "evaluate_text_similarity",
    "read_analogies",
    "read_similarity",
    "spearman",
]

Pair = tuple[str, str, float]
Question = tuple[str, str, str, str]

SEMANTIC_SECTIONS = 5  # as compute-accuracy counts them


@dataclass(frozen=True, kw_only=True)
class SimilarityResult:
    """How well the ranking of word pairs by cosine agrees with human ratings.

    ``spearman`` is from -1 to 1, between ``low`` and ``high`` with 95 % confidence; all three are ``None`` if it
    has no value, because fewer than two pairs are covered or all have the same score or cosine. ``covered`` of
    ``total`` pairs have vectors for both words; the others do not count.
    """

    name: str
    spearman: float | None
    low: float | None
    high: float | None
    covered: int
    total: int

    def __str__(self) -> str:
        pairs = f"{self.covered} of {self.total} pairs have vectors"
        if self.spearman is None:
            return f"{self.name}: no Spearman correlation ({pairs})"
        return f"{self.name}: Spearman {self.spearman:.4f} {_interval(self.low, self.high)}, {pairs}"


@dataclass(frozen=True, kw_only=True)
class AnalogySection:
    """One section of an analogy set: of ``total`` questions ``attempted`` have vectors for all four words."""

    name: str
    correct: int
    attempted: int
    total: int


@dataclass(frozen=True, kw_only=True)
class AnalogyResult:
    """How many analogy questions are answered correctly.

    ``accuracy`` is the proportion of the ``covered`` questions (those with vectors for all four words, of ``total``),
    between ``low`` and ``high`` with 95 % confidence. ``semantic`` is that of the first five sections and
    ``syntactic`` that of the rest, as compute-accuracy counts them; both are ``None`` for sets of five sections
    or fewer, which have no such division. The accuracy of no questions is ``None``.
    """

    name: str
    method: str
    restrict_vocab: int | None
    accuracy: float | None
    low: float | None
    high: float | None
    semantic: float | None
    syntactic: float | None
    covered: int
    total: int
    sections: tuple[AnalogySection, ...]

    def __str__(self) -> str:
        questions = f"{self.covered} of {self.total} questions have vectors"
        if self.accuracy is None:
            return f"{self.name}: no accuracy ({questions})"
        return f"{self.name}: accuracy {self.accuracy:.4f} {_interval(self.low, self.high)}, {questions}"


def read_similarity(path: str | Path) -> list[Pair]:
    """Reads a similarity set: ``word1 word2 score`` a line, separated by tabs, commas or spaces.

    Empty lines and lines beginning with ``#`` are left out. The file may be compressed.

    Raises:
        FormatError: if the file is missing, not UTF-8, empty, or a line is of another form.
    """
    pairs = []
    for number, line in _lines(path):
        separator = next((mark for mark in ("\t", ",") if mark in line), None)
        fields = [field.strip() for field in line.split(separator)]
        try:
            first, second, score = fields
            pairs.append((first, second, float(score)))
            if not (first and second and np.isfinite(pairs[-1][2])):
                raise ValueError
        except ValueError:
            raise FormatError(
                f"{path}, line {number}: {line[:80]!r} is not 'word1 word2 score'; a heading must begin with '#'"
            ) from None
    if not pairs:
        raise FormatError(f"{path}: no word pairs; expected lines of 'word1 word2 score'")
    return pairs


def read_analogies(path: str | Path) -> list[tuple[str, list[Question]]]:
    """Reads an analogy set: lines ``: section``, each followed by lines of four words.

    Empty lines and lines beginning with ``#`` are left out. The file may be compressed.

    Returns:
        The name and the questions of each section.

    Raises:
        FormatError: if the file is missing, not UTF-8, has no questions, or a line is of another form.
    """
    sections: list[tuple[str, list[Question]]] = []
    for number, line in _lines(path):
        if line.startswith(":"):
            sections.append((line[1:].strip(), []))
            continue
        words = line.split()
        if len(words) != 4 or not sections:
            expected = "': section'" if not sections else "four words or ': section'"
            raise FormatError(f"{path}, line {number}: expected {expected}, got {line[:80]!r}")
        sections[-1][1].append((words[0], words[1], words[2], words[3]))
    if not any(questions for _, questions in sections):
        raise FormatError(f"{path}: no analogy questions; expected lines of four words")
    return sections


def evaluate_similarity(
    vectors: WordVectors,
    pairs: str | Path | Sequence[Pair],
    *,
    restrict_vocab: int | None = None,
    case_insensitive: bool = True,
    seed: int = 0,
    resamples: int = 1000,
) -> SimilarityResult:
    """Correlates the cosines of word pairs with human scores (Spearman, average ranks for ties).

    Args:
        vectors: what to evaluate. Words outside the vocabulary count if they have a vector.
        pairs: a file that :func:`read_similarity` reads, or the pairs.
        restrict_vocab: of the vocabulary only the first so many words count as having vectors.
        case_insensitive: fold case; of several spellings the first (most frequent) counts.
        seed: of the bootstrap.
        resamples: of the bootstrap, over the covered pairs.

    Raises:
        FormatError: if the file cannot be read.
        SettingError: if a setting is out of range.
    """
    name = _name(pairs) if isinstance(pairs, str | Path) else "pairs"
    triples = read_similarity(pairs) if isinstance(pairs, str | Path) else pairs
    words = {word for first, second, _ in triples for word in (first, second)}
    limit = searched_words(vectors, restrict_vocab)
    given = given_words(vectors, words, limit=limit, fold_case=case_insensitive, unseen=True)
    covered = [pair for pair in triples if pair[0] in given and pair[1] in given]
    left = np.array([given[first].vector for first, _, _ in covered])
    right = np.array([given[second].vector for _, second, _ in covered])
    similar = cosines(left.reshape(-1, vectors.vector_size), right.reshape(-1, vectors.vector_size))
    people = np.array([score for _, _, score in covered], np.float64)
    return _correlated(name, similar, people, len(triples), seed=seed, resamples=resamples)


def evaluate_text_similarity(
    embed: Callable[[list[str]], NDArray[np.float32]],
    pairs: str | Path | Sequence[Pair],
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> SimilarityResult:
    """Correlates the cosines of pairs of texts with human scores, as :func:`evaluate_similarity` does of words.

    Args:
        embed: gives N texts their vectors (N, d); a text whose vector is zero does not count.
        pairs: a file that :func:`read_similarity` reads, or the pairs.
        seed: of the bootstrap.
        resamples: of the bootstrap, over the covered pairs.

    Raises:
        FormatError: if the file cannot be read.
        SettingError: if a setting is out of range.
    """
    name = _name(pairs) if isinstance(pairs, str | Path) else "pairs"
    triples = read_similarity(pairs) if isinstance(pairs, str | Path) else list(pairs)
    texts = list(dict.fromkeys(text for first, second, _ in triples for text in (first, second)))
    rows, vectors = {text: row for row, text in enumerate(texts)}, embed(texts)
    first, second = [rows[one] for one, _, _ in triples], [rows[other] for _, other, _ in triples]
    real: NDArray[np.bool_] = np.any(vectors, axis=1)
    covered = real[first] & real[second]
    similar = cosines(vectors[first][covered], vectors[second][covered])
    people = np.array([score for _, _, score in triples], np.float64)[covered]
    return _correlated(name, similar, people, len(triples), seed=seed, resamples=resamples)


def _correlated(
    name: str, similar: NDArray[np.float64], people: NDArray[np.float64], total: int, *, seed: int, resamples: int
) -> SimilarityResult:
    size = len(people)
    value = float(spearman(similar, people, np.ones((1, size)))[0]) if size > 1 else np.nan
    low, high = None, None
    if not np.isnan(value):
        low, high = percentile_interval(
            lambda weights: spearman(similar, people, weights), size, resamples=resamples, seed=seed
        )
    return SimilarityResult(
        name=name,
        spearman=None if np.isnan(value) else value,
        low=low,
        high=high,
        covered=size,
        total=total,
    )


def spearman(x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's rank correlation of n pairs, where pair i counts ``weights[r, i]`` times.

    Ties get their average rank. Ranking within the weights makes this one function both the correlation (all
    weights 1) and its value in many bootstrap resamples at once.

    Args:
        x: (n,) numbers.
        y: (n,) numbers.
        weights: (R, n) whole numbers from 0, of equal sum.

    Returns:
        (R,) correlations, NaN where all x or all y that count are equal.
    """
    left, right = _centred_ranks(x, weights), _centred_ranks(y, weights)
    together = (weights * left * right).sum(axis=1)
    spread = (weights * left**2).sum(axis=1) * (weights * right**2).sum(axis=1)
    correlations = np.full(len(weights), np.nan)
    np.divide(together, np.sqrt(spread), out=correlations, where=spread > 0)
    return correlations


def _centred_ranks(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    distinct, codes = np.unique(values, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(distinct)))
    counts = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(counts, axis=1) - (counts - 1) / 2
    centred: NDArray[np.float64] = ranks[:, codes] - (weights.sum(axis=1, keepdims=True) + 1) / 2
    return centred


def evaluate_analogies(
    vectors: WordVectors,
    path: str | Path,
    *,
    restrict_vocab: int | None = 30_000,
    method: Literal["add", "mul"] = "add",
) -> AnalogyResult:
    """Answers analogy questions "a is to b as c is to what?" by the rules of word2vec's compute-accuracy.

    Case is folded; questions with a word that has no vector are not counted; the three words of a question
    (in any case) are never its answer; the total is over all questions (micro average).

    Args:
        vectors: what to evaluate.
        path: a file that :func:`read_analogies` reads.
        restrict_vocab: use the first so many words only; ``None`` uses all, and words outside the vocabulary in
            questions if they have a vector (answers are words of the vocabulary).
        method: ``add`` maximises ``cos(w, b) - cos(w, a) + cos(w, c)``, ``mul`` the product and quotient of
            Levy and Goldberg 2014, equation 4.

    Raises:
        FormatError: if the file cannot be read.
        SettingError: if a setting is out of range.
    """
    if method not in ("add", "mul"):
        raise SettingError(f"no analogy method {method!r}; expected 'add' or 'mul'")
    sections = read_analogies(path)
    words = {word for _, questions in sections for question in questions for word in question}
    limit = searched_words(vectors, restrict_vocab)
    given = given_words(vectors, words, limit=limit, fold_case=True, unseen=restrict_vocab is None)
    questions = [
        (number, question)
        for number, (_, section) in enumerate(sections)
        for question in section
        if all(word in given for word in question) and given[question[3]].rows
    ]
    asked = [(given[a], given[b], given[c]) for _, (a, b, c, _) in questions]
    best = best_answers(vectors, asked, limit, method).tolist()
    correct = np.array(
        [answer in given[question[3]].rows for answer, (_, question) in zip(best, questions, strict=True)], np.float64
    )
    section_of = np.array([number for number, _ in questions], np.int64)
    right = np.bincount(section_of, correct, len(sections)).astype(int).tolist()
    attempted = np.bincount(section_of, minlength=len(sections)).tolist()
    size = len(questions)
    low, high = wilson_interval(int(correct.sum()), size) if size else (None, None)
    divided = len(sections) > SEMANTIC_SECTIONS
    first, rest = slice(SEMANTIC_SECTIONS), slice(SEMANTIC_SECTIONS, None)
    return AnalogyResult(
        name=_name(path),
        method=method,
        restrict_vocab=restrict_vocab,
        accuracy=_share(right, attempted),
        low=low,
        high=high,
        semantic=_share(right[first], attempted[first]) if divided else None,
        syntactic=_share(right[rest], attempted[rest]) if divided else None,
        covered=size,
        total=sum(len(section) for _, section in sections),
        sections=tuple(
            AnalogySection(name=name, correct=right[i], attempted=attempted[i], total=len(section))
            for i, (name, section) in enumerate(sections)
        ),
    )


def _share(part: list[int], whole: list[int]) -> float | None:
    return sum(part) / sum(whole) if sum(whole) else None


def _interval(low: float | None, high: float | None) -> str:
    return "[no interval]" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"


def _name(path: str | Path) -> str:
    """The file name without its endings: ``questions-words.txt.gz`` is ``questions-words``."""
    name = Path(path).name
    for ending in (".gz", ".bz2", ".xz", ".zst", ".txt", ".tsv", ".csv"):
        name = name.removesuffix(ending)
    return name


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    with reading(path) as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise FormatError(
                    f"{path}, line {number}, byte {error.start}: not UTF-8; convert the file to UTF-8"
                ) from None
            if text and not text.startswith("#"):
                yield number, text
