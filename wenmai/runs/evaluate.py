"""Measure the vectors of a run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wenmai.measures.words import AnalogyResult, SimilarityResult, evaluate_analogies, evaluate_similarity
from wenmai.training.run import Run
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
        similarity: Files of word pairs with human scores, or names of the catalogue such as ``"data:ws353-all"``.
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
    return (
        tuple(replace(evaluate_similarity(vectors, path), name=name) for name, path in _sets(similarity)),
        tuple(
            replace(evaluate_analogies(vectors, path, restrict_vocab=restrict_vocab), name=name)
            for name, path in _sets(analogy)
        ),
    )


def _sets(names: Sequence[str | Path]) -> list[tuple[str, Path]]:
    """Returns each set's title and file: a name of the catalogue is its own title, a file's is its plain name."""
    from wenmai.data.catalogue import resolve

    found = []
    for name in names:
        path = resolve(name) if isinstance(name, str) else None
        if path is not None:
            found.append((str(name).partition(":")[2], path))
        else:
            plain = Path(name).name
            found.append((plain.removesuffix(".gz").removesuffix(".txt") or plain, Path(name)))
    return found
