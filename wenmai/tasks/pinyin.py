"""Pinyin to characters: an encoder of syllables, trained on text and its readings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.seeding import mixed_seed
from wenmai.data.batches import plan_batches
from wenmai.data.encoded_transliteration import EncodedTransliteration, TransliterationData
from wenmai.inference.pinyin_labelling import LabellingModel, build
from wenmai.inference.pinyin_model import PinyinModel
from wenmai.inference.pinyin_numbers import BLANK, UNKNOWN, Numbers, number_characters, number_symbols
from wenmai.nn.labelling import Labeller
from wenmai.objectives.language import cross_entropy, most_probable
from wenmai.objectives.loss import Loss, Losses, evaluated
from wenmai.tasks.asked import Asked, asked_tokens
from wenmai.tasks.neural import NeuralJob, NeuralTask
from wenmai.tasks.settings import PINYIN
from wenmai.tasks.sources.transliteration import TransliterationSource
from wenmai.text.pinyin.readings import CandidateTable
from wenmai.text.pinyin.syllables import TONED, TONELESS, split_tone, without_tone
from wenmai.text.pinyin.vocab import PinyinVocab

__all__ = ["SYLLABLES", "Made", "PinyinJob", "PinyinTask", "Sentences", "numbers_of"]

_VALIDATION_SYMBOLS = 100_000
_DRAW = 0x9121  # keeps the draws of a batch apart from others of the seed
SYLLABLES = frozenset(TONELESS)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class _Batch(NamedTuple):
    """Sentences.

    Attributes:
        numbers: Which.
        epoch: Decides what is left out of them, together with the number of the batch.
        number: Of the batch in the epoch.
    """

    numbers: Ints
    epoch: int
    number: int


class Made(NamedTuple):
    """A batch as arrays.

    Attributes:
        symbols: (B, T) what is read.
        real: (B, T) bool.
        wanted: (B, T) bool, by the name of each head: whose labels are predicted.
        targets: (N,) the labels there, in order.
    """

    symbols: Ints
    real: Bools
    wanted: dict[str, Bools]
    targets: dict[str, Ints]


class PinyinTask(NeuralTask):
    """Encoders of syllables."""

    previewed = True
    source = TransliterationSource()
    replicated = True
    sections: Mapping[str, type] = PINYIN
    inherited: ClassVar[tuple[str, ...]] = ("model",)
    verbs: tuple[str, ...] = ("convert", "annotate")

    def implied(self, given: Mapping[str, Any], base: Recipe | None) -> Mapping[str, Any]:
        """No readings, if the network of the continued run has not learned them."""
        name = "objective.reversed_share"
        return {name: 0.0} if base is not None and base.flat_settings().get(name) == 0 else {}

    def load(self, folder: Path) -> PinyinModel:
        """Reads a finished model."""
        return PinyinModel.load(folder)

    def make(self, recipe: Recipe, data: TransliterationData, base: PinyinModel | None) -> LabellingModel:
        """Makes a model for the characters of the text."""
        numbers = numbers_of(data, [*TONELESS, *TONED]) if base is None else base.numbers
        reads = recipe.sections["objective"].reversed_share > 0
        sizes = {"readings": len(numbers.symbols)} if reads else {}
        return PinyinModel(build(self.model, recipe.sections["model"], numbers, **sizes), numbers)

    def job(self, recipe: Recipe, data: TransliterationData, model: PinyinModel) -> "PinyinJob":
        """Returns a training."""
        return PinyinJob(recipe, data, model)


class Sentences:
    """Encoded sentences in the numbers of a model.

    Args:
        data: The sentences, in the numbers of their own vocabularies.
        syllables: (S,) the symbol of each of its syllables.
        characters: (C,) the label of each of its characters.
    """

    def __init__(self, data: EncodedTransliteration, syllables: Ints, characters: Ints) -> None:
        self._data, self._syllables, self._characters = data, syllables, characters
        self.lengths = data.lengths

    def take(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns the symbols of some sentences, their characters, and their lengths."""
        sizes, starts = self.lengths[numbers], self._data.starts[numbers]
        places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        found = self._syllables[self._data.symbols[places]], self._characters[self._data.characters[places]]
        return *found, sizes


class PinyinJob(NeuralJob):
    """Training an encoder of syllables."""

    objective_name = "cross-entropy of characters"
    length_step = 1
    objective: Any

    def __init__(self, recipe: Recipe, data: TransliterationData, model: LabellingModel) -> None:
        super().__init__(recipe, model)
        self.objective = recipe.sections["objective"]
        self.labelling = model
        self._data = data
        numbers = model.numbers
        self._places: dict[str, int] = {}  # of letters
        symbols, written = _tokens(data.vocab)
        syllables = np.array([self._symbol(token) for token in symbols], np.int64)
        known = [numbers.characters.get(token, UNKNOWN) for token in written]
        characters = np.array([UNKNOWN if one <= BLANK else one for one in known], np.int64)
        validated, self._aside = data.validated
        self._train = Sentences(data.train, syllables, characters)
        self._valid = Sentences(validated, syllables, characters)
        self._numbers = data.train_numbers
        self._prepare(numbers)
        self._made: dict[int, Made] = {}
        self.loss_weights = {
            name: self.objective.reversed_share if name == "readings" else 1.0 for name in self.module.heads
        }

    @property
    def module(self) -> Labeller:
        """The network."""
        return self.labelling.module

    def _symbol(self, token: str) -> int:
        return self.labelling.numbers.symbol(token)

    def _prepare(self, numbers: Numbers) -> None:
        """Makes tables of all symbols."""
        tokens = list(numbers.symbols.tokens)
        get = numbers.symbols.index
        plain = [get(without_tone(token)) if split_tone(token)[1] else place for place, token in enumerate(tokens)]
        self._plain = np.concatenate([plain, len(tokens) + np.arange(len(numbers.characters))])  # without tone
        self._toned = self._plain != np.arange(len(self._plain))

    # --- batches ------------------------------------------------------------------------------------------------

    def _sizes(self, sentences: Sentences) -> Ints:
        """Places that each sentence has in a batch, at most."""
        return self._rounded(sentences.lengths)

    def _rounded(self, lengths: Ints) -> Ints:
        """The next lengths that rows may have: few, as code is compiled for each size of a product in bfloat16."""
        found: Ints = np.minimum(-(-lengths // self.length_step) * self.length_step, self.module.max_length)
        return found

    def plan(self, epoch: int) -> Sequence[_Batch]:
        """The batches of an epoch."""
        config, sizes = self.config, self._sizes(self._train)[self._numbers]
        plan = plan_batches(sizes, max_tokens=config.batch_tokens, seed=config.seed, epoch=epoch)
        return [_Batch(self._numbers[batch], epoch, number) for number, batch in enumerate(plan)]

    def _drawn(self, batch: _Batch) -> Made:
        random = np.random.default_rng(mixed_seed(self.config.seed, batch.epoch, batch.number, _DRAW))
        symbols, characters, sizes = self._train.take(batch.numbers)
        share: float = self.objective.tone_dropout
        # Half of the sentences have all tones or none, the other half some.
        rates = np.where(random.random(len(sizes)) < 0.5, random.random(len(sizes)) < share, share)
        dropped = random.random(len(symbols)) < np.repeat(rates, sizes)
        return self._arrays(symbols, characters, sizes, dropped, random)

    def _arrays(
        self,
        symbols: Ints,
        characters: Ints,
        sizes: Ints,
        dropped: Bools,
        random: np.random.Generator | None,
        *,
        backwards: bool = False,
    ) -> Made:
        """Makes a batch.

        Args:
            symbols: Of all sentences.
            characters: Of all sentences.
            sizes: Of each sentence.
            dropped: Which syllables lose their tone.
            random: Draws what else changes; None: nothing.
            backwards: Whether characters are read, and readings predicted, in all sentences.
        """
        syllable = symbols < len(self.labelling.numbers.symbols)
        syllable &= symbols > BLANK
        as_characters = len(self.labelling.numbers.symbols) + characters
        read = np.where(dropped, self._plain[symbols], symbols)
        reversing = np.full(len(sizes), backwards)
        given = np.zeros(len(symbols), bool)
        if random is not None:
            objective = self.objective
            read[syllable & (random.random(len(read)) < objective.symbol_dropout)] = UNKNOWN
            kind = random.random(len(sizes))
            reversing = kind < objective.reversed_share
            beginning = (kind >= objective.reversed_share) & (kind < objective.reversed_share + objective.known_share)
            known = np.where(beginning, (random.random(len(sizes)) * sizes).astype(np.int64), 0)
            given = np.arange(len(symbols)) < np.repeat(np.cumsum(sizes) - sizes + known, sizes)
        every = np.repeat(reversing, sizes)
        shown = np.where(characters > BLANK, as_characters, UNKNOWN)
        read = np.where(every | given, shown, read)
        wanted = {
            "characters": syllable & ~every & ~given & (characters > BLANK),
            "readings": syllable & every & self._toned[symbols],
        }
        return self._filled(read, sizes, wanted, {"characters": characters, "readings": symbols})

    def _filled(self, read: Ints, sizes: Ints, wanted: dict[str, Bools], labels: dict[str, Ints]) -> Made:
        """Makes rows of sentences; what is longer than the network reads loses its end."""
        most = int(self._rounded(sizes.max()))
        within = np.arange(len(read)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        inside = within < most
        places = (np.repeat(np.arange(len(sizes)) * most, sizes) + within)[inside]

        def filled(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            rows = np.zeros(len(sizes) * most, values.dtype)
            rows[places] = values[inside]
            return rows.reshape(len(sizes), most)

        heads = list(self.module.heads)
        return Made(
            filled(read),
            filled(np.ones(len(read), bool)),
            {name: filled(wanted[name]) for name in heads},
            {name: labels[name][wanted[name] & inside] for name in heads},
        )

    def _losses(
        self, module: nn.Module, made: Made, right: Counter[str] | None = None, smoothing: float = 0.0
    ) -> dict[str, Loss]:
        device = self.labelling.device

        def tensor(array: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        hidden = module(tensor(made.symbols), None if made.real.all() else tensor(made.real))
        read, found = int(made.real.sum()), {}
        for name, targets in made.targets.items():
            head: Any = self.module.heads[name]
            states, labels = hidden[tensor(made.wanted[name])], tensor(targets)
            ((_, weight, bias, _),) = head.parts(states, labels)
            found[name] = cross_entropy(states, weight, bias, labels, label_smoothing=smoothing)._replace(tokens=read)
            if right is not None:
                right[name] += most_probable(head, states, labels)
        return found

    def asked(self, count: int) -> list[list[Asked]]:
        """The first sentences of the first batch."""
        made, numbers = self._drawn(self.plan(0)[0]), self.labelling.numbers
        names = {"characters": numbers.characters.tokens, "readings": numbers.symbols.tokens}
        read = [*names["readings"], *names["characters"]]
        answers = np.full(made.symbols.shape, "", object)
        for head, labels in made.targets.items():
            answers[made.wanted[head]] = [names[head][label] for label in labels.tolist()]
        rows = zip(made.symbols[:count], answers, made.real, strict=False)
        return [
            [Asked("characters", asked_tokens([read[one] for one in symbols[real].tolist()], answer[real].tolist()))]
            for symbols, answer, real in rows
        ]

    # --- what the loop calls ------------------------------------------------------------------------------------

    def counts(self, batch: _Batch) -> dict[str, int]:
        """Targets of a batch, which is kept until its loss is asked for."""
        made = self._made[batch.number] = self._drawn(batch)
        return {name: len(targets) for name, targets in made.targets.items()}

    def loss(self, module: nn.Module, batch: _Batch, step: int) -> Losses:
        """Cross-entropies of characters and of readings."""
        made = self._made.pop(batch.number, None)
        made = self._drawn(batch) if made is None else made
        return self._losses(module, made, smoothing=self.objective.label_smoothing)

    def evaluate(self) -> dict[str, float]:
        """Losses and accuracies on held-out sentences, each with all tones and with none; any character may be one."""
        right, counted = Counter[str](), Counter[str]()

        def losses() -> Iterator[dict[str, Loss]]:
            for name, options in self._passes().items():
                for made in self._validation(**options):
                    hits = Counter[str]()
                    found = self._losses(self.module, made, hits)
                    head = "readings" if name == "readings" else "characters"
                    right[name] += hits[head]
                    counted[name] += found[head].targets
                    yield found

        metrics = evaluated(losses(), self.loss_weights)
        return metrics | {f"{name}_accuracy": right[name] / count for name, count in counted.items() if count}

    def _passes(self) -> dict[str, dict[str, bool]]:
        found = {"toned": {"toned": True}, "toneless": {"toned": False}}
        return found | ({"readings": {"toned": True, "backwards": True}} if "readings" in self.module.heads else {})

    def _validation(self, *, toned: bool, backwards: bool = False) -> Iterator[Made]:
        sizes = self._sizes(self._valid)[self._aside]
        few = max(1, int(np.searchsorted(np.cumsum(sizes), _VALIDATION_SYMBOLS)))
        plan = plan_batches(sizes[:few], max_tokens=self.config.batch_tokens, seed=0, epoch=0)
        for batch in plan:
            symbols, characters, lengths = self._valid.take(self._aside[batch])
            dropped = np.full(len(symbols), not toned)
            yield self._arrays(symbols, characters, lengths, dropped, None, backwards=backwards)

    # --- what a run calls ---------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data, vocabulary and model, and the effort."""
        sizes = (
            f"{len(self._numbers):,} sentences, {len(self._aside):,} to validate on, "
            f"{len(self.labelling.numbers.characters):,} characters, {self.parameters:,} parameters on "
            f"{self.labelling.device}"
        )
        stats = asdict(self._data.train.stats)
        return {"sizes": sizes, **self.effort, "threads": self.threads, "stats": stats}

    def summary(self) -> dict[str, Any]:
        """Speed, losses and sizes."""
        return {**super().summary(), "vocabulary": len(self.labelling.numbers.characters)}


def _tokens(vocab: PinyinVocab) -> tuple[list[str], list[str]]:
    """The symbols and the characters of a text, by their ids; padding and unknown are empty."""
    return ["", "", *TONELESS, *TONED, *vocab.others], ["", "", *vocab.characters]


def numbers_of(data: TransliterationData, tokens: Iterable[str]) -> Numbers:
    """Numbers the characters of a text, and what a network reads."""
    train, (symbols, written) = data.train, _tokens(data.vocab)
    chosen = np.zeros(len(train), bool)
    chosen[data.train_numbers] = True
    inside = np.repeat(chosen, train.lengths)
    places = train.symbols[inside].astype(np.int64) * len(written) + train.characters[inside]
    pairs, counts = np.unique(places, return_counts=True)
    seen: dict[tuple[str, str], int] = {}
    syllables, characters = Counter[str](), Counter(dict.fromkeys(written[2:], 0))
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        syllable, character = symbols[pair // len(written)], written[pair % len(written)]
        if not character:
            continue
        characters[character] += count
        if without_tone(syllable) in SYLLABLES:
            syllables[without_tone(syllable)] += count
            if split_tone(syllable)[1]:
                seen[character, syllable] = count
    table = CandidateTable.from_dictionary(seen)
    candidates = {syllable: "".join(table.characters_of(syllable)) for syllable in table.syllables}
    return Numbers(
        number_symbols(tokens, syllables),
        number_characters(list(characters), list(characters.values())),
        candidates,
    )
