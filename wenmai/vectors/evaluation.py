"""Test sets as gensim reads and reports them; :mod:`wenmai.measures.words` adds intervals and names what is wrong."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError, SettingError
from wenmai.text.settings import require_encoding
from wenmai.vectors.lengths import cosines
from wenmai.vectors.questions import best_answers, given_words, searched_words
from wenmai.vectors.table import VectorTable

__all__ = ["Correlation", "Section", "SimilarityFunction", "analogy_sections", "pair_correlations"]

logger = logging.getLogger(__name__)

Correlation = tuple[float, float]  # scipy's, with its p-value; the two have names too, statistic and pvalue
SimilarityFunction = Literal["most_similar", "most_similar_cosmul"]


class Section(TypedDict):
    """The questions of a section of an analogy set by what became of them."""

    section: str
    correct: list[tuple[str, ...]]
    incorrect: list[tuple[str, ...]]


def pair_correlations(
    vectors: VectorTable,
    pairs: str | Path,
    *,
    delimiter: str,
    encoding: str,
    restrict_vocab: int | None,
    case_insensitive: bool,
    dummy4unknown: bool,
) -> tuple[Correlation, Correlation, float]:
    """The work of :meth:`WordVectors.evaluate_word_pairs`, whose arguments these are."""
    from scipy import stats

    triples: list[tuple[str, str, float]] = []
    for number, line in _lines(pairs, encoding):
        fields = [field.strip() for field in line.split(delimiter)]
        try:
            first, second, score = fields
            triples.append((first, second, float(score)))
        except ValueError:
            if not line.startswith("#"):
                logger.info("%s: left out line %d, which is not two words and a number", pairs, number)
    words = {word for first, second, _ in triples for word in (first, second)}
    limit = searched_words(vectors, restrict_vocab)
    given = given_words(vectors, words, limit=limit, fold_case=case_insensitive, unseen=True)
    zero = np.zeros(vectors.vector_size, np.float32)
    covered = [first in given and second in given for first, second, _ in triples]
    taken = [(*pair, known) for pair, known in zip(triples, covered, strict=True) if known or dummy4unknown]
    if len(taken) < 2:
        raise FormatError(
            f"{pairs}: {len(taken)} pairs of words that both have vectors, but a correlation needs 2; expected "
            "lines of word, word, number"
        )
    left = np.array([given[first].vector if known else zero for first, _, _, known in taken])
    right = np.array([given[second].vector if known else zero for _, second, _, known in taken])
    people, ours = [score for _, _, score, _ in taken], cosines(left, right)
    pearson, spearman = stats.pearsonr(people, ours), stats.spearmanr(people, ours)
    return pearson, spearman, 100 * (1 - sum(covered) / len(triples))


def analogy_sections(
    vectors: VectorTable,
    analogies: str | Path,
    *,
    restrict_vocab: int | None,
    case_insensitive: bool,
    dummy4unknown: bool,
    similarity_function: SimilarityFunction,
) -> tuple[float, list[Section]]:
    """The work of :meth:`WordVectors.evaluate_word_analogies`, whose arguments these are."""
    methods = {"most_similar": "add", "most_similar_cosmul": "mul"}
    if similarity_function not in methods:
        raise SettingError(f"similarity_function={similarity_function!r}: expected {' or '.join(methods)}")
    sections: list[Section] = []
    questions: list[tuple[Section, tuple[str, ...]]] = []
    for number, line in _lines(analogies, "utf-8"):
        if line.startswith(": "):
            sections.append({"section": line.lstrip(": ").strip(), "correct": [], "incorrect": []})
            continue
        if not sections:
            raise FormatError(f"{analogies}, line {number}: expected a line ': section' before the first question")
        words = tuple((line.upper() if case_insensitive else line).split())
        if len(words) == 4:
            questions.append((sections[-1], words))
        else:
            logger.info("%s: left out line %d, which is not four words", analogies, number)
    limit = searched_words(vectors, restrict_vocab)
    every = {word for _, words in questions for word in words}
    given = given_words(vectors, every, limit=limit, fold_case=case_insensitive, unseen=restrict_vocab is None)
    asked = [all(word in given for word in words) and bool(given[words[3]].rows) for _, words in questions]
    posed = [(given[a], given[b], given[c]) for (_, (a, b, c, _)), known in zip(questions, asked, strict=True) if known]
    answers = iter(best_answers(vectors, posed, limit, methods[similarity_function]).tolist())
    for (section, words), known in zip(questions, asked, strict=True):
        if known:
            section["correct" if next(answers) in given[words[3]].rows else "incorrect"].append(words)
        elif dummy4unknown:
            section["incorrect"].append(words)
    total = Section(
        section="Total accuracy",
        correct=[words for section in sections for words in section["correct"]],
        incorrect=[words for section in sections for words in section["incorrect"]],
    )
    right, wrong = len(total["correct"]), len(total["incorrect"])
    return right / max(1, right + wrong), [*sections, total]


def _lines(path: str | Path, encoding: str) -> Iterator[tuple[int, str]]:
    require_encoding(encoding)
    with reading(path) as file:
        content = file.read()
    try:
        lines = content.decode(encoding).split("\n")
    except UnicodeDecodeError as error:
        before = content[: error.start].split(b"\n")
        raise FormatError(f"{path}, line {len(before)}, byte {len(before[-1])}: is not {encoding}") from None
    for number, line in enumerate(lines, 1):
        if text := line.strip("\ufeff \r\n"):
            yield number, text
