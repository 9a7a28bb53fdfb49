"""Score text with a run, predict the next token, and generate text."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
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
    "language_models_of",
    "read_lines",
    "require_tokens",
    "score_json",
    "scores",
    "text_score_values",
]


def language_model_of(run: str | Path | Run, *, verb: str = "score", **reading: Any) -> AnyLanguageModel:  # noqa: ANN401
    """Loads the model of a finished run that predicts text.

    Args:
        run: A run or its folder.
        verb: What it is for: ``score``, ``next`` or ``generate``.
        **reading: How it reads, see :meth:`wenmai.inference.language_model.LanguageModel.reading`; None: as in
            training.

    Raises:
        RunError: if the run is not finished, or is of a system that does not predict text.
        SettingError: if the model has no such setting.
    """
    opened = run if isinstance(run, Run) else Run(run)
    return _reading(opened.model_for(verb), opened.recipe.system, reading)


def language_models_of(runs: Sequence[Run], **reading: Any) -> list[AnyLanguageModel]:  # noqa: ANN401
    """Loads the models of runs; those that have the settings of ``reading`` read so, and at least one must.

    Raises:
        RunError: if a run is not finished.
        SettingError: if no model has such a setting.
    """
    models: list[AnyLanguageModel] = [run.read_model() for run in runs]
    systems = [run.recipe.system for run in runs]
    if not any(getattr(model, "readings", ()) for model in models):
        return [_reading(model, ", ".join(systems), reading) for model in models]
    return [
        _reading(model, system, reading) if getattr(model, "readings", ()) else model
        for model, system in zip(models, systems, strict=True)
    ]


def _reading(model: Any, system: str, reading: Mapping[str, Any]) -> AnyLanguageModel:  # noqa: ANN401
    given = {name: value for name, value in reading.items() if value is not None}
    if given and not getattr(model, "readings", ()):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise SettingError(f"{system} always reads a text as it was trained; leave out {options}")
    found: AnyLanguageModel = model.reading(**given) if given else model
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
    if score.pseudo:
        found["pseudo"] = True
    if tokens:
        found["token_log_probs"] = [_number(value) for value in score.token_log_probs]
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


def text_score_values(score: TextScore) -> dict[str, float | None]:
    """Returns the metrics of a text as JSON values; those that are not finite are None."""
    return {name: _number(value) for name, value in score.as_dict().items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
