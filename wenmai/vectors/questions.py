"""What test sets ask of vectors: which words of a set have one, and the answers to analogy questions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError
from wenmai.vectors.lengths import Vector, unit
from wenmai.vectors.neighbours import COSMUL_EPSILON
from wenmai.vectors.table import VectorTable

__all__ = ["Given", "Question", "best_answers", "given_words", "searched_words"]

SCORES_AT_ONCE = 1 << 25


class Given(NamedTuple):
    """A word of a test set that has a vector.

    Attributes:
        rows: those of all its spellings, most frequent first; none for a word outside the vocabulary.
        vector: (d,) of the first spelling.
    """

    rows: list[int]
    vector: Vector


Question = tuple[Given, Given, Given]


def searched_words(vectors: VectorTable, restrict_vocab: int | None) -> int:
    """Returns how many of the first words count.

    Raises:
        SettingError: if none would.
    """
    if restrict_vocab is not None and restrict_vocab < 1:
        raise SettingError(f"restrict_vocab must be at least 1 word, got {restrict_vocab}")
    return min(restrict_vocab or len(vectors), len(vectors))


def given_words(
    vectors: VectorTable, words: Iterable[str], *, limit: int, fold_case: bool, unseen: bool
) -> dict[str, Given]:
    """Finds the vectors of the words of a test set; a word that has none is left out.

    Args:
        vectors: where to look.
        words: what is asked for.
        limit: only the first so many words of the vocabulary count.
        fold_case: a word is any of its spellings; the vector is that of the most frequent one.
        unseen: words outside the vocabulary count too, if they have a vector. With ``fold_case`` they are spelled in
            lower case if the whole vocabulary is.
    """
    wanted = set(words)
    fold = str.upper if fold_case else str
    rows: dict[str, list[int]] = {fold(word): [] for word in wanted}
    for row, key in enumerate(vectors.index_to_key[:limit]):
        spellings = rows.get(fold(key))
        if spellings is not None:
            spellings.append(row)
    found = {word: Given(rows[fold(word)], vectors.vectors[rows[fold(word)][0]]) for word in wanted if rows[fold(word)]}
    outside = [word for word in sorted(wanted - set(found)) if unseen and _has_vector(vectors, word)]
    lower = bool(outside) and fold_case and all(key == key.lower() for key in vectors.index_to_key)
    for word in outside:
        spelled = word.lower() if lower else word
        if spelled not in vectors and vectors.has_vector(spelled):
            found[word] = Given([], vectors.get_vector(spelled))
    return found


def best_answers(vectors: VectorTable, questions: Sequence[Question], limit: int, method: str) -> NDArray[np.int64]:
    """Answers "a is to b as c is to what?".

    All questions together name few words, so the cosines of these with every row are computed once, as one matrix
    product per block of rows; a question then only adds up three rows of it.

    Args:
        vectors: what is asked.
        questions: the words a, b and c of each; none of their spellings is an answer.
        limit: only the first so many rows are answers.
        method: ``add`` or ``mul``.

    Returns:
        The best row of each question; -1 if none is left.
    """
    asked = {_place(word): word.vector for question in questions for word in question}
    order = sorted(asked)
    place = {where: number for number, where in enumerate(order)}
    best = np.full(len(questions), -1, np.int64)
    best_scores = np.full(len(questions), -np.inf, np.float32)
    known = [row for row, outside in order if not outside]
    units = np.concatenate([vectors.unit_vectors(known), *(unit(asked[where])[None] for where in order[len(known) :])])
    step = max(1024, SCORES_AT_ONCE // max(len(asked), 1))
    for start in range(0, limit if questions else 0, step):
        stop = min(start + step, limit)
        cosines = units @ vectors.unit_vectors(slice(start, stop)).T
        if method == "mul":
            cosines = (cosines + np.float32(1)) / np.float32(2)
        scores = np.empty(stop - start, np.float32)
        for number, question in enumerate(questions):
            a, b, c = (cosines[place[_place(word)]] for word in question)
            if method == "add":
                np.subtract(b, a, out=scores)
                scores += c
            else:
                np.multiply(b, c, out=scores)
                scores /= a + np.float32(COSMUL_EPSILON)
            for word in question:
                for row in word.rows:
                    if start <= row < stop:
                        scores[row - start] = -np.inf
            winner = scores.argmax()
            if scores[winner] > best_scores[number]:
                best_scores[number], best[number] = scores[winner], start + winner
    return best


def _has_vector(vectors: VectorTable, word: str) -> bool:
    return vectors.has_vector(word) or vectors.has_vector(word.lower())


def _place(word: Given) -> tuple[int, bytes]:
    """Words of the vocabulary in row order, each once, then the others."""
    return (word.rows[0], b"") if word.rows else (1 << 62, word.vector.tobytes())
