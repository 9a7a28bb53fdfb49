"""What probes see: the states of all layers of a model, or its word vectors, for the units of a set."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import RunError, SettingError
from wenmai.core.folder import cache_folder
from wenmai.core.quantities import plural
from wenmai.core.scratch import scratch_array
from wenmai.runs.probes import covered, words_of_sentences, words_of_texts
from wenmai.runs.probing.sets import ProbeSet
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run
from wenmai.vectors.pooling import TokenVectors, pooled, token_encoder

__all__ = ["Reader", "SeenLayers", "layers_of", "reader_of"]

Rows = npt.NDArray[np.float32]
Pooling = Literal["mean", "text"]
Reader = Any  # wenmai.inference.states.LayerStates, which needs torch, or TokenVectors

_IN_MEMORY_BYTES = 1 << 29


@dataclass(frozen=True, eq=False, kw_only=True)
class SeenLayers:
    """The vectors of the units of a set.

    Attributes:
        states: (L + 1, N, M), of texts those of the different texts; of word vectors (1, N, M).
        static: Whether each word has one vector in every context.
        covered: Of word vectors, the proportion of the words to measure on that have one.
        note: What else to know, or nothing.
    """

    states: Rows
    static: bool
    covered: float | None = None
    note: str = ""

    def features(self, found: ProbeSet, layer: int) -> Rows:
        """Returns the features of all units, (N, D): states, of two texts u and v |u - v| beside u∘v."""
        states = np.asarray(self.states[layer])
        if found.task == "tagging":
            return states
        _, numbers = found.texts
        if found.task != "pair":
            return states[numbers]
        first, second = states[numbers[:, 0]], states[numbers[:, 1]]
        return np.concatenate([np.abs(first - second), first * second], axis=1)


def reader_of(run: Run, *, pooling: Pooling) -> Reader:
    """Returns what reads texts with the model of a run: its layers, or its word vectors.

    Raises:
        RunError: if it has neither.
    """
    model = run.model
    if _is_static(model):
        return token_encoder(model)
    try:
        from wenmai.inference.states import LayerStates
    except ImportError:
        raise _without_vectors(run) from None
    try:
        return LayerStates(model, pooling=pooling)
    except SettingError:
        raise _without_vectors(run) from None


def layers_of(run: Run, reader: Reader, found: ProbeSet) -> SeenLayers:
    """Reads the units of a set with the model of a run, once for all layers.

    Raises:
        FormatError: if the model is damaged.
        RunError: if there is no room for the states.
    """
    if not hasattr(reader, "num_layers"):
        return _of_words(reader, found, run)
    count = sum(map(len, found.sentences)) if found.task == "tagging" else len(found.texts[0])
    states, cut = _room((reader.num_layers + 1, count, reader.size)), reader.cut
    if found.task == "tagging":
        reader.of_words(found.sentences, states)
        told = f"{plural(reader.cut - cut, 'sentence')} longer than the model reads: read in windows"
    else:
        reader.of_texts(found.texts[0], states)
        told = f"{plural(reader.cut - cut, 'text')} longer than the model reads: cut"
    return SeenLayers(states=states, static=False, note=told if reader.cut > cut else "")


def _without_vectors(run: Run) -> RunError:
    return RunError(
        f"{run.path}: a run of {run.recipe.system} has neither layers nor vectors of words that can be probed; name a "
        "run of word vectors, of bert, gpt or elmo, or of an imported encoder"
    )


def _is_static(model: Any) -> bool:  # noqa: ANN401  whatever was trained
    return hasattr(model, "key_to_index") or callable(getattr(model, "vectors", None))


def _of_words(encoder: TokenVectors, found: ProbeSet, run: Run) -> SeenLayers:
    """The vectors of words, of a text their mean."""
    text = run.recipe.sections.get("text", TextConfig())
    plain = replace(text, segment=found.segment if text.segment == "whitespace" else text.segment)
    last = len(found.examples) - found.sizes[2]
    if found.task == "tagging":
        words = words_of_sentences(encoder, found.sentences, plain)
        table = np.zeros((1, sum(map(len, words)), encoder.vector_size), np.float32)
        at = 0
        for vectors in encoder.token_vectors(words):
            table[0, at : at + len(vectors)] = vectors
            at += len(vectors)
        return SeenLayers(states=table, static=True, covered=covered(encoder, words[last:]))
    texts, numbers = found.texts
    words = words_of_texts(encoder, texts, plain)
    measured = [words[number] for number in np.unique(numbers[last:])]
    return SeenLayers(states=pooled(encoder, words)[None], static=True, covered=covered(encoder, measured))


def _room(shape: tuple[int, int, int]) -> Rows:
    """Returns an array to fill.

    Raises:
        RunError: if the disk has too little room.
    """
    try:
        return scratch_array(shape, in_memory=_IN_MEMORY_BYTES)
    except OSError as error:
        raise RunError(
            f"{cache_folder()}: no room for the states of all layers, {4 * np.prod(shape) / 1e9:.1f} GB "
            f"({error.strerror}); probe on fewer examples with --limit"
        ) from None
