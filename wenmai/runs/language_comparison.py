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
from wenmai.runs.comparison import ContextPoint, Measure
from wenmai.runs.language import AnyLanguageModel, read_lines, require_tokens, scores

__all__ = ["describe_contexts", "describe_positions", "foretelling", "samples"]

_PASSAGES, _PASSAGE_CHARACTERS = 40, 4000
_BINS = 12
_REACHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # tokens
_FORETOLD_CHARACTERS, _LINE_CHARACTERS = 4000, 1000  # in all, and of one line
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
    passages = [_passage(lines, start) for start in dict.fromkeys(starts.tolist())] if lines else []
    bits, characters = _by_position(model, passages)
    middle = (np.arange(_BINS) + 0.5) * _PASSAGE_CHARACTERS / _BINS
    return [
        (float(place), float(one / size)) for place, one, size in zip(middle, bits, characters, strict=True) if size
    ]


def describe_contexts(model: AnyLanguageModel, text: str) -> list[ContextPoint]:
    """Returns bits per character of some lines by how many tokens before each token the model is given.

    The lines are the same for every number of tokens and for every model: some thousand characters, taken at even
    distances from where enough stands before them. Of a long line the beginning is foretold. Context is the text just
    before each token, across the ends of lines where the model was trained so, and the model is given it anew: a
    recurrent state or a memory holds nothing else. ``score_within`` of the models says what exactly is known. As many
    tokens are asked for as stand before each of the lines.
    """
    lines = [line for line in read_lines(text) if line.strip()]
    before = np.cumsum([0, *(len(line) + 1 for line in lines)])
    first = int(np.searchsorted(before, min(_PASSAGE_CHARACTERS, before[-1] // 2)))
    wanted = [(number, _cut(lines[number], _LINE_CHARACTERS)) for number in range(first, len(lines))]
    if not wanted:
        return []
    count = _FORETOLD_CHARACTERS * len(wanted) // sum(len(line) + 1 for _, line in wanted) + 1
    chosen = [wanted[place] for place in np.arange(min(count, len(wanted))) * len(wanted) // min(count, len(wanted))]
    passages = [[*_before(lines, number), line] for number, line in chosen]
    found: list[ContextPoint] = []
    for reach, told in zip(_REACHES, model.score_within(passages, _REACHES), strict=True):
        bits = characters = tokens = 0.0
        for (number, line), score in zip(chosen, told, strict=True):
            costs, size = _costs(score, whole=line == lines[number])
            if len(costs):
                bits, characters, tokens = bits + costs.sum(), characters + size, tokens + len(costs)
        if not tokens or (found and reach * characters / tokens > before[chosen[0][0]]):
            break
        cost = float(bits / characters)
        point = ContextPoint(
            tokens=reach, characters=reach * characters / tokens, bits=cost if math.isfinite(cost) else None
        )
        found.append(point)
    return found


def samples(model: AnyLanguageModel, text: str) -> dict[str, str]:
    """Returns how a model goes on from the beginnings of some lines of a text; nothing without torch."""
    if find_spec("torch") is None:
        return {}
    lines = [line.split() for line in read_lines(text)]
    lines = [words for words in lines if len(words) >= 8]
    places = np.linspace(0, len(lines) - 1, _PROMPTS + 2)[1:-1].astype(int) if lines else ()
    prompts = [" ".join(lines[place][:4]) for place in places]
    return {prompt: model.generate(prompt, **_SAMPLE)[0].text for prompt in prompts}


def _by_position(
    model: AnyLanguageModel, passages: Sequence[Sequence[tuple[str, bool]]]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the bits and the characters of passages by place; the tokens of a line count as equally long."""
    bits, characters = np.zeros(_BINS), np.zeros(_BINS)
    for passage in passages:
        read = 0
        for (_, whole), score in zip(passage, model.score([line for line, _ in passage]), strict=True):
            costs, size = _costs(score, whole=whole)
            if len(costs) and np.isfinite(costs).all():
                begins = read + np.arange(len(costs)) * size / len(costs)
                places = np.minimum(begins * _BINS / _PASSAGE_CHARACTERS, _BINS - 1).astype(np.int64)
                np.add.at(bits, places, costs)
                np.add.at(characters, places, size / len(costs))
            read += size
    return bits, characters


def _costs(score: SentenceScore, *, whole: bool) -> tuple[npt.NDArray[np.float64], int]:
    """Returns the bits of each token of a line, and its characters; what spells unknown words is shared out evenly.

    Of a line that is not ``whole`` the end does not count, which is none.
    """
    costs = -np.array(score.token_log_probs, float) / math.log(2)
    size = score.characters if whole else score.characters - 1
    costs = costs if whole else costs[:-1]
    return costs + 8 * score.oov_bytes / max(1, len(costs)), size


def _passage(lines: Sequence[str], start: int) -> list[tuple[str, bool]]:
    """Returns lines from one on, and whether each is whole: the last is cut where the passage is long enough."""
    found: list[tuple[str, bool]] = []
    left = _PASSAGE_CHARACTERS
    for line in lines[start:]:
        if len(line) >= left:
            found.append((_cut(line, left), False))
            break
        found.append((line, True))
        left -= len(line) + 1
        if left <= 0:
            break
    return [(line, whole) for line, whole in found if line]


def _before(lines: Sequence[str], number: int) -> list[str]:
    found, left = list[str](), _PASSAGE_CHARACTERS
    while number and left > 0:
        number -= 1
        found.append(lines[number][-left:])
        left -= len(lines[number]) + 1
    return found[::-1]


def _cut(line: str, size: int) -> str:
    """Returns the beginning of a line, up to white space where there is some."""
    if len(line) <= size:
        return line
    begun = line[: size + 1]
    return begun.rstrip() if begun[-1].isspace() else (begun.rpartition(" ")[0].rstrip() or line[:size])


def _bits(score: SentenceScore) -> float:
    return -score.log_prob / math.log(2) + 8 * score.oov_bytes


def _interval(bits: npt.NDArray[np.float64], characters: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    if not np.isfinite(bits).all():
        return None, None
    return percentile_interval(lambda weights: (weights @ bits) / (weights @ characters), len(bits))
