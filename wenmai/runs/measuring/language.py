"""Evaluate language models: perplexity, the effect of context, samples, few-shot, minimal pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import SettingError
from wenmai.inference.verbs import AnyLanguageModel
from wenmai.measures.bootstrap import percentile_interval
from wenmai.measures.language import SentenceScore, TextScore, add_up
from wenmai.runs.comparison import Comparison, Kind, LinePoint, Measure, Panel, Samples
from wenmai.runs.fewshot import evaluate_few_shot
from wenmai.runs.language import (
    language_model_of,
    language_models_of,
    read_lines,
    require_tokens,
    scores,
    text_score_values,
)
from wenmai.runs.measuring.classification import check
from wenmai.runs.measuring.few_shot import FewShotEvaluation
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.runs.measuring.minimal_pairs import (
    MINIMAL_PAIRS,
    ComparedPairs,
    MinimalPairsEvaluation,
    check_minimal_pairs,
    evaluate_minimal_pairs,
)
from wenmai.runs.measuring.pseudo import PSEUDO_KINDS
from wenmai.runs.measuring.unpredicted import not_predicted, with_notes
from wenmai.text.unspaced import find_unspaced
from wenmai.training.run import Run

__all__ = [
    "LANGUAGE_MODELS",
    "LanguageEvaluation",
    "compare",
    "describe_contexts",
    "describe_positions",
    "evaluate",
    "measures_of",
    "samples",
]

_PASSAGES, _PASSAGE_CHARACTERS = 40, 4000
_BINS = 12
_REACHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # tokens
_PREDICTED_CHARACTERS, _LINE_CHARACTERS = 4000, 1000  # in all, and of one line
_PROMPTS = 3
_SAMPLE_CHARACTERS = 4096  # in which white space is looked for
_SAMPLE = {"top_p": 0.9}  # and as many tokens as a model gives by default: fewer if it cannot read more
_MOST_GROUPS = 20_000  # of lines in a row, for the interval


@dataclass(frozen=True, kw_only=True, repr=False)
class LanguageEvaluation(Evaluation):
    """The evaluation of a language model on a text.

    Attributes:
        on: The text.
        result: Perplexity, bits per character and so on.
    """

    on: str
    result: TextScore

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics are at the top."""
        return {"run": self.run, "on": self.on, **text_score_values(self.result)}

    def __str__(self) -> str:
        return str(self.result)


def evaluate(
    run: Run,
    *,
    on: str | Path | None = None,
    pairs: str | Path | None = None,
    by: str | None = None,
    spelling: str | None = None,
    few_shot: int | None = None,
    seed: int | None = None,
    limit: int | None = None,
    context: str | None = None,
    memory: int | None = None,
    same_length: bool | None = None,
    clamp_length: int | None = None,
    progress: Progress = unwatched,
) -> LanguageEvaluation | FewShotEvaluation | MinimalPairsEvaluation:
    """Evaluates how well a language model predicts a text, chooses answers, or tells good sentences from bad ones.

    Args:
        run: A finished run.
        on: A text; with ``few_shot`` a data set, see :func:`wenmai.runs.fewshot.evaluate_few_shot`.
        pairs: Minimal pairs instead, see :func:`~wenmai.runs.measuring.minimal_pairs.evaluate_minimal_pairs`, which
            takes ``by``, ``spelling`` and ``limit``.
        by: Whether they are shown by ``phenomenon`` or by ``paradigm``.
        spelling: How they are spelled.
        few_shot: Solved examples in a prompt.
        seed: Seed of ``few_shot``; None: 1.
        limit: Examples to evaluate with ``few_shot``, or pairs of each paradigm; None: all.
        context: ``fresh`` or ``carried``: whether the lines before are known; None: as trained.
        memory: Tokens that a Transformer-XL remembers; None: as in training.
        same_length: Whether each of its tokens sees equally many.
        clamp_length: Its farther distances are clipped to this one.
        progress: Watches.

    Raises:
        CorpusError: if the text has no token.
        RunError: if the run is not finished.
        SettingError: if an option needs another that is not given, or ``on`` is no name.
    """
    reading: dict[str, Any] = {"memory": memory, "same_length": same_length, "clamp_length": clamp_length}
    if pairs is not None:
        if any(value is not None for value in (on, few_shot, seed, context, *reading.values())):
            raise SettingError("--pairs is evaluated by itself; only --by, --spelling and --limit go with it")
        return evaluate_minimal_pairs(run, pairs, by=by, spelling=spelling, limit=limit, progress=progress)
    if by is not None or spelling is not None:
        raise SettingError("--by and --spelling go with --pairs FILE")
    _require_test_set(on is not None)
    if not isinstance(on, str | Path):
        raise SettingError(
            f"on is the name of a file, not {type(on).__name__}; texts in memory are for run.model.score(texts)"
        )
    if few_shot is None:
        if seed is not None or limit is not None:
            raise SettingError("--seed and --limit go with --few-shot K, and --limit with --pairs FILE")
        model = language_model_of(run, **reading)
        Turns(progress, sets=1).begin(on)
        found = add_up(score for score in scores(model, on, context=context) if score.tokens)
        require_tokens(found, on)
        return LanguageEvaluation(run=str(run.path), on=str(on), result=found)
    if context is not None or any(value is not None for value in reading.values()):
        raise SettingError(
            "--context, --memory, --same-length and --clamp-length are for texts; leave them out of --few-shot"
        )
    seed = 1 if seed is None else seed
    examples = partial(progress, f"evaluating on {title_of(on)}, example")
    result = evaluate_few_shot(run, str(on), shots=few_shot, seed=seed, limit=limit, progress=examples)
    return FewShotEvaluation(run=str(run.path), result=result)


def compare(
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    on: Sequence[str] = (),
    pairs: Sequence[str] = (),
    memory: int | None = None,
    same_length: bool | None = None,
    clamp_length: int | None = None,
    progress: Progress = unwatched,
) -> Comparison:
    """Compares on texts and on minimal pairs; the first text gives the effect of context, and prompts for samples.

    ``memory``, ``same_length`` and ``clamp_length`` are those of :func:`evaluate`, for each Transformer-XL of the runs.

    Raises:
        CorpusError: if a text cannot be read.
        SettingError: if no model has such a setting.
    """
    reading: dict[str, Any] = {"memory": memory, "same_length": same_length, "clamp_length": clamp_length}
    chosen = {name: value for name, value in reading.items() if value is not None}
    _require_test_set(on, pairs)
    compared = ComparedPairs(pairs)
    systems, turns = [], Turns(progress, runs=len(runs), sets=len(on) + len(pairs))
    for model, system in zip(language_models_of(runs, **chosen), comparison.systems, strict=True):
        measures = list[Measure]()
        for text in on:
            turns.begin(text, system.name)
            measures += measures_of(model, text, title_of(text, on))
        for name in pairs:
            turns.begin(name, system.name)
            measures.append(compared.measure(model, name))
        settings = system.settings | (chosen if getattr(model, "readings", ()) else {})
        found = replace(system, settings=settings, measures=measures)
        if on and hasattr(model, "generate"):  # it reads from left to right
            lines = {"positions": describe_positions(model, on[0]), "contexts": describe_contexts(model, on[0])}
            found = replace(found, lines=lines, samples=samples(model, on[0]))
        systems.append(found)
    corpus = comparison.corpus
    if on and (left_out := not_predicted([system.name for system in systems], runs)):
        corpus = replace(corpus, facts=corpus.facts | {"not predicted": left_out})
        systems = with_notes(systems, runs)
    shown: dict[str, Any] = {"panels": _PANELS, "sampled": _SAMPLED} if any(one.lines for one in systems) else {}
    return replace(comparison, systems=systems, corpus=corpus, **shown)


def _check(*, on: Sequence[str] = (), pairs: Sequence[str] = (), **reading: Any) -> None:  # noqa: ANN401  no files
    _require_test_set(on, pairs)
    check(on=on)
    check_minimal_pairs(pairs)


def _require_test_set(*given: object) -> None:
    if not any(given):
        raise SettingError("name at least one test set: --on FILE or --pairs FILE, for language models")


def measures_of(model: AnyLanguageModel, text: str, title: str) -> list[Measure]:
    """Returns bits per character and perplexity by word on a text, with intervals over its lines."""
    lines = [score for score in scores(model, text) if score.tokens]
    total = add_up(lines)
    require_tokens(total, text)
    edges = np.linspace(0, len(lines), min(len(lines), _MOST_GROUPS), endpoint=False).astype(int)
    bits, characters = (
        np.add.reduceat(np.array([of(line) for line in lines], float), edges)
        for of in (_bits, attrgetter("characters"))
    )
    low, high = _interval(bits, characters)
    tokens, kind = total.tokens - (0 if total.pseudo else total.sentences), "pseudo-" if total.pseudo else ""
    bits_measure = Measure(
        name=title,
        kind=f"{kind}bits",
        value=total.spelled_bits_per_character,
        low=low,
        high=high,
        covered=tokens - total.oov,
        total=tokens,
        lower_is_better=True,
    )
    if not total.has_words:
        return [bits_measure]
    perplexity = Measure(name=title, kind=f"{kind}perplexity", value=total.word_perplexity, lower_is_better=True)
    return [bits_measure, perplexity]


def describe_positions(model: AnyLanguageModel, text: str) -> list[LinePoint]:
    """Returns bits per character by how many characters of a passage were read before.

    Passages are successive lines, taken at even distances, which share half of their text at most; the model reads each
    without the text before it.
    """
    lines = [line for line in read_lines(text) if line.strip()]
    apart = math.ceil(2 * sum(len(line) + 1 for line in lines) / _PASSAGE_CHARACTERS)
    starts = np.linspace(0, max(0, len(lines) - 1), min(_PASSAGES, apart) + 1)[:-1].astype(int)
    passages = [_passage(lines, start) for start in dict.fromkeys(starts.tolist())] if lines else []
    bits, characters = _by_position(model, passages)
    middle = (np.arange(_BINS) + 0.5) * _PASSAGE_CHARACTERS / _BINS
    return [
        LinePoint(x=float(place), y=float(one / size))
        for place, one, size in zip(middle, bits, characters, strict=True)
        if size
    ]


def describe_contexts(model: AnyLanguageModel, text: str) -> list[LinePoint]:
    """Returns bits per character of some lines by how many tokens before each token the model is given.

    The lines are the same for every number of tokens and every model: some thousand characters, taken at even distances
    where enough text precedes them. Of a long line the beginning is predicted. Context is the text just before each
    token, across line ends if the model was trained so; a recurrent state or a memory holds nothing else. See
    ``score_within`` of the models. Contexts are at most as long as the text before each of the lines.
    """
    lines = [line for line in read_lines(text) if line.strip()]
    before = np.cumsum([0, *(len(line) + 1 for line in lines)])
    first = int(np.searchsorted(before, min(_PASSAGE_CHARACTERS, before[-1] // 2)))
    wanted = [(number, _cut(lines[number], _LINE_CHARACTERS)) for number in range(first, len(lines))]
    if not wanted:
        return []
    count = _PREDICTED_CHARACTERS * len(wanted) // sum(len(line) + 1 for _, line in wanted) + 1
    chosen = [wanted[place] for place in np.arange(min(count, len(wanted))) * len(wanted) // min(count, len(wanted))]
    passages = [[*_before(lines, number), line] for number, line in chosen]
    found: list[LinePoint] = []
    for reach, scored in zip(_REACHES, model.score_within(passages, _REACHES), strict=True):
        bits = characters = tokens = 0.0
        for (number, line), score in zip(chosen, scored, strict=True):
            costs, size = _costs(score, whole=line == lines[number])
            if len(costs):
                bits, characters, tokens = bits + costs.sum(), characters + size, tokens + len(costs)
        if not tokens or (found and reach * characters / tokens > before[chosen[0][0]]):
            break
        cost = float(bits / characters)
        cost_or_none = cost if math.isfinite(cost) else None
        found.append(LinePoint(x=reach * characters / tokens, y=cost_or_none, note=f"{reach} tokens"))
    return found


def samples(model: AnyLanguageModel, text: str) -> dict[str, str]:
    """Returns how a model continues the beginnings of some lines of a text; nothing without torch.

    A beginning has four words, or eight characters of text without spaces; lines are at least twice as long.
    """
    if find_spec("torch") is None:
        return {}
    lines = [line.strip() for line in read_lines(text)]
    unspaced = find_unspaced("\n".join(lines)[:_SAMPLE_CHARACTERS]) is not None
    between, size = ("", 8) if unspaced else (" ", 4)  # characters, or words
    parts = [[*line] if unspaced else line.split() for line in lines]
    parts = [one for one in parts if len(one) >= 2 * size]
    places = np.linspace(0, len(parts) - 1, _PROMPTS + 2)[1:-1].astype(int) if parts else ()
    prompts = [between.join(parts[place][:size]) for place in places]
    return {prompt: model.generate(prompt, seed=seed, **_SAMPLE)[0].text for seed, prompt in enumerate(prompts, 1)}


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
    """Returns the bits of each token of a line, and its characters; the cost of unknown words is spread evenly.

    The end of a line that is not ``whole`` does not count.
    """
    costs = -np.array(score.token_log_probs, float) / math.log(2)
    size = score.characters if whole else score.characters - 1
    costs = costs if whole else costs[:-1]
    return costs + 8 * score.oov_bytes / max(1, len(costs)), size


def _passage(lines: Sequence[str], start: int) -> list[tuple[str, bool]]:
    """Returns the lines of a passage, and whether each is whole: the last may be cut."""
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
    if len(bits) < 2 or not np.isfinite(bits).all():
        return None, None
    return percentile_interval(lambda weights: (weights @ bits) / (weights @ characters), len(bits))


_PANELS = {
    "positions": Panel(
        section="Effect of context",
        title="Bits per character",
        axis="Characters read before",
        unit="characters before",
        caption="Bits per character of passages that each begin without any context, by how much of the passage was"
        " read before: a model that uses long contexts keeps improving.",
    ),
    "contexts": Panel(
        section="Effect of context",
        title="Bits per character",
        axis="Characters known before",
        unit="characters before",
        log=True,
        caption="The same lines predicted repeatedly, each token from a context of limited length: a curve is flat "
        "from where a model does not use a longer context, or gains nothing from it. Context is counted in tokens of "
        "each model, 1, 2, 4 and so on up to 512 (from 16 on up to an eighth more), and drawn at the average number "
        "of characters of so many tokens. It ends at the beginning of the line where a model reads every line "
        "separately. What lies more than 128 tokens back, a model has only in its recurrent state or its memory.",
    ),
}
_SAMPLED = Samples(
    title="Generated text",
    caption="Each model continues the words in bold: one draw from the nine tenths of the probability that are most"
    " likely, with the same seed for every model. Nothing was chosen by hand.",
)
LANGUAGE_MODELS = Measurer(
    models="language models",
    evaluate=evaluate,
    compare=compare,
    check=_check,
    own_tokens=True,
    kinds={
        "bits": Kind(
            title="Bits per character",
            name="bits per character",
            items="tokens",
            about="is the cross-entropy of a text, ends of lines included, divided by its characters: less is better, "
            "and models with different tokens are comparable. An unknown word costs 8 bits more for "
            "each of its bytes.",
        ),
        "perplexity": Kind(
            title="Perplexity by word",
            name="perplexity by word",
            about="is the number of equally likely words that would be as hard to predict; an unknown word counts "
            "as one word, whichever it is, which favours models that know few words.",
            short=True,
            judged=False,
        ),
        **PSEUDO_KINDS,
        "minimal-pairs": MINIMAL_PAIRS,
    },
)
