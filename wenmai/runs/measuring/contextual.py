"""Word similarity of encoders by the sentences of a text, beside that of static vectors."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wenmai.core.errors import SettingError
from wenmai.data.sources import named_texts
from wenmai.measures.contextual import evaluate_in_context
from wenmai.measures.words import SimilarityResult, evaluate_similarity, read_similarity
from wenmai.runs.measuring.measurer import Progress
from wenmai.runs.occurrences import mean_states
from wenmai.training.run import Run
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
    run: Run,
    named: Sequence[tuple[str, Path]],
    occurrences: str | Path,
    max_occurrences: int | None,
    progress: Progress,
) -> list[SimilarityResult]:
    """Compares words by their means over sentences; static vectors, which are compared beside them, as they are.

    Args:
        run: The run.
        named: The name and the file of each set of pairs.
        occurrences: The text.
        max_occurrences: Sentences of a word; None: 20.
        progress: Watches.

    Raises:
        FormatError: if a set has a malformed line.
        RunError: if a run has neither vectors of words nor words in context.
        CorpusError: if the text cannot be read.
    """
    model = run.model
    if isinstance(model, WordVectors):
        return [replace(evaluate_similarity(model, path), name=name) for name, path in named]
    sets = [read_similarity(path) for _, path in named]
    words = {word.lower() for pairs in sets for first, second, _ in pairs for word in (first, second)}
    corpus, most = named_texts([str(occurrences)]), max_occurrences or _OCCURRENCES
    vectors = mean_states(run, corpus, words, max_occurrences=most, progress=progress)
    return [evaluate_in_context(name, pairs, vectors) for (name, _), pairs in zip(named, sets, strict=True)]
