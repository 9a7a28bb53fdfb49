"""Word similarity of encoders by the sentences of a text, beside that of static vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError
from wenmai.data.sources import named_texts
from wenmai.measures.contextual import InContextResult, evaluate_in_context
from wenmai.measures.words import read_similarity
from wenmai.runs.measuring.measurer import Progress
from wenmai.runs.occurrences import mean_states
from wenmai.training.run import Run
from wenmai.vectors.questions import given_words
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["require_occurrences", "words_compared"]

_OCCURRENCES = 20  # sentences of a word


def require_occurrences(
    runs: Sequence[Run],
    occurrences: str | Path | None,
    max_occurrences: int | None,
    similarity: Sequence[str | Path],
) -> None:
    """Makes sure that options of the sentences of words have an effect.

    Raises:
        SettingError: if there is nothing to compare, no text, or no encoder.
    """
    if occurrences is not None and all("nearest" in run.task.verbs for run in runs):
        raise SettingError(
            "--occurrences is a text for encoders; static vectors have one vector of a word: leave it out"
        )
    if occurrences is not None and not similarity:
        raise SettingError("--occurrences is a text for pairs of words; name them by --similarity FILE")
    if max_occurrences is not None and (occurrences is None or max_occurrences < 1):
        raise SettingError("--max-occurrences is a number from 1, of sentences of the text of --occurrences")


def words_compared(
    runs: Sequence[Run],
    named: Sequence[tuple[str, Path]],
    occurrences: str | Path,
    max_occurrences: int | None,
    progress: Progress,
) -> list[list[InContextResult]]:
    """Compares words by their means over sentences; static vectors, which are compared beside them, as they are.

    Several runs are measured on the same pairs: those whose words all of them know.

    Args:
        runs: The runs.
        named: The name and the file of each set of pairs.
        occurrences: The text.
        max_occurrences: Sentences of a word; None: 20.
        progress: Watches.

    Returns:
        Of each run, the results of the sets.

    Raises:
        FormatError: if a set has a malformed line.
        RunError: if a run has neither vectors of words nor words in context.
        CorpusError: if the text cannot be read.
    """
    sets = [read_similarity(path) for _, path in named]
    words = {word.lower() for pairs in sets for first, second, _ in pairs for word in (first, second)}
    corpus, most = named_texts([str(occurrences)]), max_occurrences or _OCCURRENCES
    found: list[dict[str, NDArray[np.float32]]] = []
    for run in runs:
        model = run.model
        if isinstance(model, WordVectors):
            given = given_words(model, words, limit=len(model), fold_case=True, unseen=True)
            found.append({word: one.vector[None] for word, one in given.items()})
        else:
            found.append(mean_states(run, corpus, words, max_occurrences=most, progress=progress))
    shared = set.intersection(*({*vectors} for vectors in found))
    return [
        [
            evaluate_in_context(name, pairs, {word: vectors[word] for word in shared})
            for (name, _), pairs in zip(named, sets, strict=True)
        ]
        for vectors in found
    ]
