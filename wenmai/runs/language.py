"""Score text with a run, predict the next token, and generate text."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.corpus import Corpus, CorpusStats
from wenmai.data.sources import open_texts
from wenmai.inference.verbs import AnyLanguageModel, Scorer
from wenmai.measures.language import SentenceScore, TextScore
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run

__all__ = [
    "language_model_of",
    "read_lines",
    "require_tokens",
    "score_json",
    "scores",
    "text_score_values",
]


def language_model_of(run: str | Path | Run, *, verb: str = "score", memory: int | None = None) -> AnyLanguageModel:
    """Loads the model of a finished run that predicts text.

    Args:
        run: A run or its folder.
        verb: What it is for: ``score``, ``next`` or ``generate``.
        memory: Memory length of a Transformer-XL, if not as in training.

    Raises:
        RunError: if the run is not finished, or is of a system that does not predict text.
        SettingError: if ``memory`` is given for another model.
    """
    opened = run if isinstance(run, Run) else Run(run)
    model = opened.model_for(verb)
    if memory is not None:
        if not hasattr(model, "with_memory"):
            raise SettingError(f"{opened.recipe.system} has no memory whose length can be chosen; leave out --memory")
        model = model.with_memory(memory)
    found: AnyLanguageModel = model
    return found


def read_lines(source: str | Path | Corpus) -> Iterator[str]:
    """Yields the lines of a text, blank ones too, as they are.

    Args:
        source: A file, folder, glob, ``-``, or a name of the catalogue.

    Raises:
        CorpusError: if it cannot be read, or is empty.
    """
    corpus = source if isinstance(source, Corpus) else open_texts(source)[0]
    parts: list[str] = []
    anything = False
    for line in corpus.lines(TextConfig(), stats=CorpusStats()):
        anything = True
        parts.append(line.text)
        if line.ends:
            yield "".join(parts)
            parts = []
    if not anything:
        raise CorpusError(f"{corpus.describe()}: is empty; expected text, one sentence a line")


def scores(model: Scorer, source: str | Path | Corpus, *, context: str | None = None) -> Iterator[SentenceScore]:
    """Yields the score of each line of a text.

    Raises:
        CorpusError: if the text cannot be read, or is empty.
    """
    return model.score(read_lines(source), context=context)


def require_tokens(found: TextScore, on: str | Path) -> None:
    """Raises CorpusError if nothing was predicted."""
    if found.tokens == 0:
        raise CorpusError(f"{on}: has no token to predict; all its lines are blank")


def score_json(score: SentenceScore, *, tokens: bool = False) -> str:
    """Returns the score of a line as a JSON object; a probability of zero has null as its logarithm."""
    found: dict[str, Any] = {
        "text": score.text,
        "log_prob": _number(score.log_prob),
        "tokens": score.tokens,
        "oov": score.oov,
    }
    if tokens:
        found["token_log_probs"] = [_number(value) for value in score.token_log_probs]
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


def text_score_values(score: TextScore) -> dict[str, float | None]:
    """Returns the metrics of a text as JSON values; those that are not finite are None."""
    return {name: _number(value) for name, value in score.as_dict().items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
