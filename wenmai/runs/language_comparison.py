"""What a comparison says of a language model: how well it foretells texts, what context is worth to it, samples."""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wenmai.data.sources import in_catalogue
from wenmai.measures.bootstrap import percentile_interval
from wenmai.measures.language import SentenceScore, add_up
from wenmai.runs.comparison import Measure
from wenmai.runs.language import AnyLanguageModel, read_lines, require_tokens, scores

__all__ = ["describe_positions", "foretelling", "samples"]

_PASSAGES, _PASSAGE_CHARACTERS = 40, 4000
_BINS = 12
_PROMPTS = 3
_SAMPLE = {"max_tokens": 40, "top_p": 0.9, "seed": 1}
_MOST_GROUPS = 20_000  # of lines in a row, for the interval


def foretelling(model: AnyLanguageModel, on: Sequence[str]) -> list[Measure]:
    """Returns bits per character and perplexity by word on each text, with intervals over its lines."""
    found = []
    for text in on:
        name = text.removeprefix("data:") if in_catalogue(text) else Path(text).name
        lines = [score for score in scores(model, text) if score.tokens]
        total = add_up(lines)
        require_tokens(total, text)
        edges = np.linspace(0, len(lines), min(len(lines), _MOST_GROUPS), endpoint=False).astype(int)
        bits, characters = (
            np.add.reduceat(np.array([of(line) for line in lines], float), edges)
            for of in (_bits, attrgetter("characters"))
        )
        low, high = _interval(bits, characters)
        words = total.words - total.sentences
        bits_measure = Measure(
            name=name,
            kind="bits",
            value=total.spelled_bits_per_character,
            low=low,
            high=high,
            covered=words - total.oov if words >= total.oov else None,
            total=words,
            lower_is_better=True,
        )
        found.append(bits_measure)
        found.append(Measure(name=name, kind="perplexity", value=total.word_perplexity, lower_is_better=True))
    return found


def describe_positions(model: AnyLanguageModel, text: str) -> list[tuple[float, float | None]]:
    """Returns bits per character by how many characters of a passage were read before.

    Passages are lines in a row of the text, taken at even distances; the model reads each without what stood before.
    """
    lines = [line for line in read_lines(text) if line.strip()]
    starts = np.linspace(0, max(0, len(lines) - 1), _PASSAGES + 1)[:-1].astype(int)
    bits, characters = np.zeros(_BINS), np.zeros(_BINS)
    for start in dict.fromkeys(starts.tolist()):
        read = 0
        for score in model.score(_passage(lines, start)):
            place = min(_BINS - 1, read * _BINS // _PASSAGE_CHARACTERS)
            if math.isfinite(score.log_prob):
                bits[place] += _bits(score)
                characters[place] += score.characters
            read += score.characters
    middle = (np.arange(_BINS) + 0.5) * _PASSAGE_CHARACTERS / _BINS
    return [
        (float(place), float(one / size)) for place, one, size in zip(middle, bits, characters, strict=True) if size
    ]


def samples(model: AnyLanguageModel, text: str) -> dict[str, str]:
    """Returns how a model goes on from the beginnings of some lines of a text; nothing without torch."""
    if find_spec("torch") is None:
        return {}
    lines = [line.split() for line in read_lines(text)]
    lines = [words for words in lines if len(words) >= 8]
    places = np.linspace(0, len(lines) - 1, _PROMPTS + 2)[1:-1].astype(int) if lines else ()
    prompts = [" ".join(lines[place][:4]) for place in places]
    return {prompt: model.generate(prompt, **_SAMPLE)[0].text for prompt in prompts}


def _passage(lines: Sequence[str], start: int) -> list[str]:
    found, read = [], 0
    for line in lines[start:]:
        found.append(line)
        read += len(line) + 1
        if read >= _PASSAGE_CHARACTERS:
            break
    return found


def _bits(score: SentenceScore) -> float:
    return -score.log_prob / math.log(2) + 8 * score.oov_bytes


def _interval(bits: npt.NDArray[np.float64], characters: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    if not np.isfinite(bits).all():
        return None, None
    return percentile_interval(lambda weights: (weights @ bits) / (weights @ characters), len(bits))
