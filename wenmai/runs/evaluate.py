"""Measure the vectors of a run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wenmai.measures.words import AnalogyResult, SimilarityResult, evaluate_analogies, evaluate_similarity
from wenmai.runs.run import Run
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["Evaluation", "evaluate", "measure_vectors"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured on a run, set by set."""

    run: str
    similarity: tuple[SimilarityResult, ...]
    analogy: tuple[AnalogyResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)


def evaluate(
    run: str | Path | Run,
    *,
    similarity: Sequence[str | Path] = (),
    analogy: Sequence[str | Path] = (),
    restrict_vocab: int | None = 30_000,
) -> Evaluation:
    """Measures the word vectors of a finished run.

    Args:
        run: A run or its folder.
        similarity: Files of word pairs with human scores, or names of the catalogue such as ``"data:ws-353"``.
        analogy: Files of analogy questions, or names of the catalogue.
        restrict_vocab: Analogies are asked and answered among this many of the most frequent words, as published
            figures are; None for all words.

    Raises:
        FormatError: if a test set has a malformed line.
        RunError: if the run is not finished.
    """
    opened = run if isinstance(run, Run) else Run(run)
    pairs, questions = measure_vectors(opened.vectors, similarity, analogy, restrict_vocab=restrict_vocab)
    return Evaluation(run=str(opened.path), similarity=pairs, analogy=questions)


def measure_vectors(
    vectors: WordVectors,
    similarity: Sequence[str | Path],
    analogy: Sequence[str | Path],
    *,
    restrict_vocab: int | None,
) -> tuple[tuple[SimilarityResult, ...], tuple[AnalogyResult, ...]]:
    """Measures vectors on similarity and analogy sets, given as files or names of the catalogue."""
    from wenmai.data.catalogue import resolve

    def file(name: str | Path) -> str | Path:
        return (resolve(name) or name) if isinstance(name, str) else name

    return (
        tuple(evaluate_similarity(vectors, file(name)) for name in similarity),
        tuple(evaluate_analogies(vectors, file(name), restrict_vocab=restrict_vocab) for name in analogy),
    )
