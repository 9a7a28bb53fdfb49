"""Zero-, one- and few-shot evaluation: a language model chooses answers by their likelihood after a prompt.

Nothing is trained. A prompt has the task in a line, K solved examples, and the example to answer. The solved examples
are drawn anew for each prompt, uniformly from the training part, without the example itself.

Source: Brown et al. 2020, "Language Models are Few-Shot Learners", section 2.4.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wenmai.core.errors import SettingError
from wenmai.data.datasets import Dataset, find_dataset
from wenmai.data.prompts import PromptTemplate, template_of
from wenmai.inference.verbs import ContextScorer
from wenmai.measures.options import FewShotResult, judged, measure_options
from wenmai.training.run import Run

__all__ = ["evaluate_few_shot", "few_shot"]

Progress = Callable[[int, int], None]


def evaluate_few_shot(
    run: str | Path | Run,
    on: str,
    *,
    shots: int,
    seed: int = 1,
    limit: int | None = None,
    progress: Progress | None = None,
) -> FewShotResult:
    """Evaluates how well a trained language model chooses the answers of a data set.

    Args:
        run: A run or its folder.
        on: A data set of classes, sentence pairs or multiple choice, as ``data:NAME``, or ``data:NAME/SPLIT`` to
            evaluate on another split than ``dev``.
        shots: Solved examples in a prompt (K).
        seed: Seed of the solved examples and of ``limit``.
        limit: Examples to evaluate, drawn from the split; none: all.
        progress: Called with the number of examples done, and of all.

    Raises:
        RunError: if the run is not finished, or does not predict text.
        SettingError: if there is no such data set or split, it has no answers to choose from, or has fewer
            training examples than ``shots``.
        CorpusError: if the data set's files are damaged.
        DownloadError: if they cannot be fetched.
    """
    name, _, split = on.removeprefix("data:").partition("/")
    dataset = find_dataset(name)
    template_of(dataset)
    opened = run if isinstance(run, Run) else Run(run)
    model = opened.model_for("score")
    if "next" not in opened.task.verbs:
        raise SettingError(
            f"{opened.path}: a {opened.recipe.system} does not predict what follows a prompt; leave out --few-shot"
        )
    return few_shot(model, dataset, split=split or "dev", shots=shots, seed=seed, limit=limit, progress=progress)


def few_shot(
    model: ContextScorer,
    dataset: Dataset,
    *,
    split: str = "dev",
    shots: int,
    seed: int = 1,
    limit: int | None = None,
    progress: Progress | None = None,
) -> FewShotResult:
    """Evaluates how well a model chooses by the likelihood of options; see :func:`evaluate_few_shot`."""
    template = template_of(dataset)
    asked = list(dataset.read(split))
    train = list(dataset.read("train"))
    room = len(train) - (split == "train")
    if not 0 <= shots <= room:
        raise SettingError(
            f"{shots} solved examples in a prompt: expected 0 to {room}, as many as the training part of "
            f"data:{dataset.name} has"
        )
    if limit is not None and limit < 1:
        raise SettingError(f"a limit of {limit} examples: expected 1 or more")
    places = np.arange(len(asked))
    if limit is not None and limit < len(asked):
        places = np.sort(np.random.default_rng(seed).permutation(len(asked))[:limit])
    prompts = _Prompts(model, template, train, shots, seed)
    alone: dict[str, list[float]] = {}
    options, answers, judgements = [], [], []
    for done, place in enumerate(places.tolist(), start=1):
        example = asked[place]
        given = template.options(example)
        missing = [option for option in dict.fromkeys(given) if option not in alone]
        if missing:
            alone.update(zip(missing, model.continuations(template.neutral, missing), strict=True))
        found = model.continuations(prompts.of(example, place), given)
        judgements.append(judged(found, [alone[option] for option in given]))
        options.append(given)
        answers.append(template.answer(example))
        if progress is not None:
            progress(done, len(places))
    metrics = measure_options(judgements, options, answers, labels=tuple(template.words))
    usual = Counter(map(template.answer, train)).most_common(1)[0][0]
    chances = [given.count(given[answer]) / len(given) for given, answer in zip(options, answers, strict=True)]
    return FewShotResult(
        dataset=dataset.name,
        split=split,
        shots=shots,
        seed=seed,
        examples=len(answers),
        figures=metrics,
        majority=answers.count(usual) / len(answers),
        chance=sum(chances) / len(chances),
        shortened=prompts.shortened,
        left_out=prompts.left_out,
        cut=prompts.cut,
        unknown_options=_unknown(model, template.neutral, list(alone)),
        options=len(alone),
        sample=prompts.sample,
    )


def _unknown(model: ContextScorer, prompt: str, options: Sequence[str]) -> int:
    """Returns how many options have unknown tokens after a prompt, or no token of their own."""
    alone, *joined = model.score([prompt, *[prompt + option for option in options]], context="fresh")
    return sum(one.oov > alone.oov or (one.oov > 0 and one.tokens == alone.tokens) for one in joined)


class _Prompts:
    """Makes the prompts, and counts what did not fit."""

    def __init__(
        self, model: ContextScorer, template: PromptTemplate, train: Sequence[Any], shots: int, seed: int
    ) -> None:
        self._model = model
        self._template = template
        self._train = train
        self._shots = shots
        self._seed = seed
        self.shortened = self.left_out = self.cut = 0
        self.sample = ""

    def of(self, example: Any, place: int) -> str:  # noqa: ANN401  an example of any kind
        """Returns the prompt of an example, without the first solved examples if it is too long."""
        template = self._template
        question, options = template.question(example), template.options(example)
        solved = [template.solved(shown) for shown in self._drawn(example, place)]

        def fits(without: int) -> bool:
            return self._model.overlong(template.prompt(solved[without:], question), options) == 0

        without = 0
        if solved and not fits(0):
            without = 1 + bisect_left(range(1, len(solved)), True, key=fits)
        prompt = template.prompt(solved[without:], question)
        self.left_out += without
        self.shortened += without > 0
        if without == len(solved) and not fits(without):
            self.cut += 1
        self.sample = self.sample or prompt
        return prompt

    def _drawn(self, example: Any, place: int) -> list[Any]:  # noqa: ANN401
        if not self._shots:
            return []
        order = np.random.default_rng([self._seed, place]).permutation(len(self._train)).tolist()
        found: list[Any] = []
        for number in order:
            if self._train[number] != example:
                found.append(self._train[number])
            if len(found) == self._shots:
                break
        return found
