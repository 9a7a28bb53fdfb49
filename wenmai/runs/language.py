"""Ask a run for the probability of texts, for what comes next, and to write on."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.corpus import Corpus, CorpusStats
from wenmai.data.sources import open_texts
from wenmai.measures.language import SentenceScore, TextScore, add_up
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run

__all__ = [
    "AnyLanguageModel",
    "language_model_of",
    "measure_language",
    "read_lines",
    "require_tokens",
    "score_json",
    "scores",
    "text_score_json",
]


class AnyLanguageModel(Protocol):
    """What every language model does, from n-grams to GPT."""

    def score(self, texts: Any, *, context: Any = None) -> Iterator[SentenceScore]:  # noqa: ANN401
        """Says how likely lines are."""

    def score_within(self, passages: Sequence[Sequence[str]], reaches: Sequence[int]) -> list[list[SentenceScore]]:
        """Says how likely the last lines of passages are when only so many tokens before each token are known."""

    def next(self, text: str, topn: int = 10) -> list[tuple[str, float]]:
        """Returns the most likely continuations by one token."""

    def generate(self, prompt: str = "", **options: Any) -> list[Any]:  # noqa: ANN401
        """Writes texts on."""

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:  # noqa: ANN401
        """Yields one text in pieces as it is written."""


def language_model_of(run: str | Path | Run, *, memory: int | None = None) -> Any:  # noqa: ANN401  an AnyLanguageModel
    """Loads the model of a finished run that predicts text.

    Args:
        run: A run or its folder.
        memory: Tokens that a Transformer-XL remembers, if not as many as in its training.

    Raises:
        RunError: if the run is not finished, or is of a system that does not predict text.
        SettingError: if ``memory`` is asked of another model.
    """
    opened = run if isinstance(run, Run) else Run(run)
    opened.require("score")
    model = opened.model
    if memory is None:
        return model
    if not hasattr(model, "with_memory"):
        raise SettingError(f"{opened.recipe.system} has no memory whose length can be chosen; leave out --memory")
    return model.with_memory(memory)


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


def scores(
    model: AnyLanguageModel, source: str | Path | Corpus, *, context: str | None = None
) -> Iterator[SentenceScore]:
    """Yields the score of each line of a text.

    Raises:
        CorpusError: if the text cannot be read, or is empty.
    """
    return model.score(read_lines(source), context=context)


def measure_language(
    run: str | Path | Run, on: str | Path, *, context: str | None = None, memory: int | None = None
) -> TextScore:
    """Returns perplexity, bits per character and so on of a run on a text.

    Raises:
        CorpusError: if the text has no token.
        RunError: if the run cannot score text.
    """
    found = add_up(
        score for score in scores(language_model_of(run, memory=memory), on, context=context) if score.tokens
    )
    require_tokens(found, on)
    return found


def require_tokens(found: TextScore, on: str | Path) -> None:
    """Raises CorpusError if nothing was predicted."""
    if found.tokens == 0:
        raise CorpusError(f"{on}: has no token to predict; all its lines are blank")


def score_json(score: SentenceScore, *, tokens: bool = False) -> str:
    """Returns the score of a line as a JSON object; a probability of zero has null as its logarithm."""
    found: dict[str, Any] = {
        "text": score.text,
        "log10": _number(score.log10),
        "ln": _number(score.log_prob),
        "tokens": score.tokens,
        "oov": score.oov,
    }
    if tokens:
        found["token_log10"] = [_number(value / math.log(10)) for value in score.token_log_probs]
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


def text_score_json(score: TextScore) -> str:
    """Returns the figures of a text as a JSON object; those that are not finite are null."""
    return json.dumps({name: _number(value) for name, value in score.as_dict().items()}, allow_nan=False)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
