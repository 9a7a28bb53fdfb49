"""A trained ELMo: the network, its tokenizer, and its verbs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import FormatError, SettingError, require_list
from wenmai.core.tensors import require_numbers
from wenmai.data.batches import plan_batches
from wenmai.inference.architecture import Network, read_architecture, read_tokenizer
from wenmai.inference.embedding import (
    ContextualEncoder,
    InContext,
    Pooling,
    Rows,
    StateBatch,
    embed_texts,
    embed_tokens,
    embed_words,
)
from wenmai.inference.framing import portions
from wenmai.inference.language_model import Context, LanguageModel
from wenmai.inference.layers import Layers
from wenmai.inference.mixing import MixConfig, Mixed, shown_mix
from wenmai.inference.reading import Ids
from wenmai.measures.language import SentenceScore
from wenmai.models.elmo import Elmo
from wenmai.models.folder import CONFIG, read_settings, write_fields
from wenmai.models.rnnlm import RnnlmState
from wenmai.nn.characters import BEGIN, END, spelled
from wenmai.nn.language import LanguageState, NextToken, refuse_documents
from wenmai.nn.scalar_mix import ScalarMix
from wenmai.text.tokenizer import Tokenizer
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["ElmoModel", "Lexicon", "build"]

_CHUNK = 512  # texts that are sorted by length and read together
_BATCH_TOKENS = 4096
_MOST_UNKNOWN = 1 << 20  # spellings of unknown words that are remembered
_WORD = re.compile(r"\S+")


def build(architecture: type[Elmo], config: Any, tokenizer: Tokenizer) -> Elmo:  # noqa: ANN401  each has its own
    """Makes an ELMo with fresh parameters, which predicts the words of a tokenizer, or the most frequent of them."""
    size = tokenizer.vocab_size if config.predicted is None else min(config.predicted, tokenizer.vocab_size)
    if config.cutoffs and config.cutoffs[-1] >= size:
        raise SettingError(f"cutoffs={','.join(map(str, config.cutoffs))}: expected numbers below {size}, the words")
    return architecture(config, vocab_size=size)


class Lexicon:
    """The spelling of words: those of the vocabulary, and unknown ones as they come.

    Id V is the end of a text, read by the backward model; EOS is its begin, read by the forward model; unknown words
    follow.

    Args:
        tokenizer: Of V words.
        length: Characters of a word.
    """

    def __init__(self, tokenizer: Tokenizer, length: int) -> None:
        self._length = length
        size = tokenizer.vocab_size
        words: list[str | int] = [
            "" if number in tokenizer.nameless else tokenizer.token(number) for number in range(size)
        ]
        words[tokenizer.eos_id] = BEGIN
        self._table = spelled([*words, END], length)
        self._unknown: dict[str, int] = {}
        self._spellings = np.zeros((0, length), np.int16)
        self.end = size

    def number(self, word: str) -> int:
        """Returns the id of an unknown word."""
        if word not in self._unknown:
            if len(self._unknown) == len(self._spellings):
                more = np.zeros((len(self._spellings) + 1024, self._length), np.int16)
                self._spellings = np.concatenate([self._spellings, more])
            self._spellings[len(self._unknown)] = spelled([word], self._length)[0]
            self._unknown[word] = self.end + 1 + len(self._unknown)
        return self._unknown[word]

    def forget(self) -> None:
        """Forgets unknown words if there are many."""
        if len(self._unknown) > _MOST_UNKNOWN:
            self._unknown.clear()

    def distinct(self, *tokens: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
        """Returns the characters (U, K) of the different words of some arrays of ids, and these as numbers of rows."""
        ids, places = np.unique(np.concatenate([one.ravel() for one in tokens]), return_inverse=True)
        inside = ids <= self.end
        found = np.concatenate([self._table[ids[inside]], self._spellings[ids[~inside] - self.end - 1]])
        cuts = np.cumsum([one.size for one in tokens])[:-1]
        pieces = np.split(places.astype(np.int64).ravel(), cuts)
        return found.astype(np.int64), [one.reshape(of.shape) for one, of in zip(pieces, tokens, strict=True)]


class ElmoModel(Network):
    """Gives words in context vectors, and scores texts from left to right.

    Args:
        module: The network.
        tokenizer: The tokenizer; None: words are what white space separates, and nothing is predicted.
        mix: The weights of the layers, frozen; None: all have the same, and γ = 1.

    Attributes:
        mix: What ``layer="mix"`` is made by.
    """

    module: Elmo

    def __init__(self, module: Elmo, tokenizer: Tokenizer | None, *, mix: ScalarMix | None = None) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.mix = ScalarMix(1 + module.config.num_layers).requires_grad_(False) if mix is None else mix
        self._lexicon: Lexicon | None = None
        self._forward: LanguageModel | None = None

    def _sizes(self) -> dict[str, Any]:
        return {"predicted": self.module.vocab_size, "layer_weights": shown_mix(self.mix)["shares"]}

    @property
    def lexicon(self) -> Lexicon:
        """The spelling of words."""
        if self._lexicon is None:
            self._lexicon = Lexicon(self._require_tokenizer(), self.config.max_characters)
        return self._lexicon

    def _require_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None or self.module.output is None:
            raise SettingError(
                "this model predicts nothing: the files that it was imported from have no vocabulary and no softmax; "
                "its vectors can be used, or continue it on a text (--from)"
            )
        return self.tokenizer

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors``, and ``tokenizer.json`` if there is one."""
        facts = {"vocab_size": self.module.vocab_size, "mix": asdict(MixConfig.of(self.mix))}
        write_fields(folder, kind=self.kind, model=asdict(self.config), **facts)
        save_model(self.module, folder)
        if self.tokenizer is not None:
            self.tokenizer.save(folder / "tokenizer.json")

    @classmethod
    def load(cls, folder: Path) -> "ElmoModel":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        found = read_architecture(folder, Elmo)
        size = found.facts.get("vocab_size")
        tokenizer = None if size is None else read_tokenizer(folder, found, fewer=True)
        module = loaded_model(lambda: found.model(found.config, vocab_size=size), found.config, folder)
        if "mix" not in found.facts:
            return cls(module, tokenizer)
        mix, states = read_settings(folder / CONFIG, MixConfig, found.facts["mix"], "mix"), 1 + found.config.num_layers
        if len(mix.weights) != states:
            raise FormatError(f"{folder / CONFIG}: is damaged: {len(mix.weights)} weights of {states} layers")
        return cls(module, tokenizer, mix=mix.make())

    # --- vectors ------------------------------------------------------------------------------------------------

    @property
    def num_layers(self) -> int:
        """L: there are vectors of the layers 0 to L."""
        layers: int = self.config.num_layers
        return layers

    @property
    def vector_size(self) -> int:
        """2M."""
        return 2 * int(self.config.hidden_size)

    @property
    def poolings(self) -> Sequence[Pooling]:
        """The poolings that :meth:`embed` takes."""
        return ("mean", "max")

    def state_batches(self, texts: Sequence[str], layers: Sequence[int]) -> Iterator[StateBatch]:
        """Yields the vectors of texts; see :class:`wenmai.inference.embedding.ContextualEncoder`."""
        chosen = list(layers)
        for rows, vectors, lengths in self._batches([self.words(text)[0] for text in texts]):
            yield StateBatch(rows, list(vectors[chosen]), lengths)

    def pooled(self, states: Tensor) -> Tensor:
        """Not to be called: ``pooler`` is none of the poolings."""
        raise NotImplementedError

    def layers(self, texts: Iterable[str], *, carried: bool = False) -> Iterator[Layers]:
        """Yields the words of each text and their vectors before the first layer and after each, in order.

        Args:
            texts: Texts.
            carried: Whether each text is read after those before it, with the states that they left, as in bilm-tf;
                otherwise each is read by itself, from states of zeros, and its vectors depend on nothing else.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        require_list(texts, "layers")
        return self._carried_layers(texts) if carried else self._layers(iter(texts))

    def _carried_layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Reads texts one by one; one without words leaves the states as they are."""
        self.module.eval()
        state = self.module.start(1)
        for text in texts:
            tokens, offsets = self.words(text)
            vectors = np.zeros((1 + self.num_layers, 0, self.vector_size), np.float32)
            if tokens:
                characters = spelled([BEGIN, *tokens, END], self.config.max_characters).astype(np.int64)
                with torch.inference_mode():
                    read = self.module.layers_after(torch.from_numpy(characters).to(self.device), state)
                    vectors = read.float().cpu().numpy()
                require_numbers(not np.isnan(vectors).any())
            yield Layers(tokens, offsets, vectors)

    def _layers(self, lines: Iterator[str]) -> Iterator[Layers]:
        for chunk in portions(lines, _CHUNK):
            words = [self.words(text) for text in chunk]
            found = self._vectors([tokens for tokens, _ in words])
            for (tokens, offsets), vectors in zip(words, found, strict=True):
                yield Layers(tokens, offsets, vectors)

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: int | str | None = None,
        pooling: Pooling | None = None,
        concat: bool = False,
        normalise: bool | None = None,
    ) -> Rows:
        """Returns the vectors of texts, (N, 2M) float32; see :func:`wenmai.inference.embedding.embed_texts`.

        Args:
            texts: N texts.
            layer: ``mix``, also by default: the sum of all layers by the weights of :attr:`mix`.
            pooling: ``mean``, also by default, or ``max``.
            concat: Whether several layers are put side by side.
            normalise: Whether vectors have the length 1.
        """
        encoder, number = self._of(layer, concat)
        chosen: Pooling = pooling or "mean"
        return embed_texts(encoder, texts, layer=number, pooling=chosen, concat=concat, normalise=bool(normalise))

    def embed_words(
        self,
        texts: Iterable[str],
        *,
        layer: int | str | None = None,
        concat: bool = False,
        **options: Any,  # noqa: ANN401  those of embed_words
    ) -> Iterator[InContext]:
        """Yields the vectors of words in context; see :func:`wenmai.inference.embedding.embed_words`.

        ``layer`` is as of :meth:`embed`.
        """
        encoder, number = self._of(layer, concat)
        return embed_words(encoder, texts, layer=number, concat=concat, **options)

    def token_vectors(self, sentences: Iterable[Sequence[str]]) -> Iterator[Rows]:
        """Yields the vectors (T, 2M) of given tokens; see :func:`wenmai.inference.embedding.embed_tokens`."""
        return embed_tokens(self, sentences)

    def _of(self, layer: int | str | None, concat: bool) -> tuple[ContextualEncoder, int | str]:
        """Returns whose layer is meant, and its number."""
        if layer is not None and layer != "mix":
            return self, layer
        if concat:
            raise SettingError("concat has no effect on the mix of the layers; name layers, such as layer=0,1,2")
        return Mixed(self, self.mix), 0

    def words(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """Returns the words of a text as they are read, and where each begins and ends, in characters."""
        if self.tokenizer is None:
            found = [*_WORD.finditer(text)]
            return [one[0] for one in found], [one.span() for one in found]
        encoded, cutter = self.tokenizer.encode(text), self.tokenizer
        spelling = [
            cutter.normalise(text[slice(*offsets)]) if number == cutter.unk_id else cutter.token(number)
            for number, offsets in zip(encoded.ids, encoded.offsets, strict=True)
        ]
        return spelling, encoded.offsets

    def _vectors(self, texts: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float32]]:
        """Returns the vectors (1 + L, T, 2M) of texts."""
        found = [np.zeros((1 + self.num_layers, 0, self.vector_size), np.float32) for _ in texts]
        for numbers, states, lengths in self._batches(texts):
            vectors = states.cpu().numpy()
            require_numbers(not np.isnan(vectors).any())
            for row, (number, length) in enumerate(zip(numbers, lengths, strict=True)):
                found[number] = vectors[:, row, :length].copy()
        return found

    def _batches(
        self, texts: Sequence[Sequence[str]]
    ) -> Iterator[tuple[npt.NDArray[np.int64], Tensor, npt.NDArray[np.int64]]]:
        """Yields the numbers (B,) of texts of like lengths, their vectors (1 + L, B, T, 2M), and their lengths (B,)."""
        self.module.eval()
        filled = np.array([number for number, words in enumerate(texts) if words], np.int64)
        lengths = np.array([len(texts[number]) for number in filled], np.int64)
        for batch in plan_batches(lengths, max_tokens=_BATCH_TOKENS, seed=0, epoch=0) if len(filled) else []:
            numbers, sizes = filled[batch], lengths[batch]
            rows: dict[str, int] = {}
            for number in numbers:
                for word in texts[number]:
                    rows.setdefault(word, 2 + len(rows))
            characters = spelled([BEGIN, END, *rows], self.config.max_characters).astype(np.int64)
            places = np.zeros((len(numbers), max(sizes)), np.int64)
            for row, number in enumerate(numbers):
                places[row, : sizes[row]] = [rows[word] for word in texts[number]]
            mask = np.arange(places.shape[1]) < sizes[:, None]
            with torch.inference_mode():
                tensors = [torch.from_numpy(one).to(self.device) for one in (characters, places, mask)]
                vectors = self.module.layers(*tensors).float()
            yield numbers, vectors, sizes

    # --- scoring --------------------------------------------------------------------------------------------------

    @property
    def forward_model(self) -> LanguageModel:
        """The forward direction as a language model.

        Raises:
            SettingError: if the model was imported without a vocabulary.
        """
        if self._forward is None:
            tokenizer = self._require_tokenizer()
            self._forward = _ForwardModel(_Forward(self.module, self.lexicon, tokenizer), tokenizer)
        return self._forward

    def score(self, texts: Iterable[str], *, context: Context | None = None) -> Iterator[SentenceScore]:
        """Scores lines by the forward direction; see :meth:`LanguageModel.score`."""
        return self.forward_model.score(texts, context=context)

    def score_within(self, passages: Sequence[Sequence[str]], reaches: Sequence[int]) -> list[list[SentenceScore]]:
        """Scores lines when only so many tokens before each are known; see :meth:`LanguageModel.score_within`."""
        return self.forward_model.score_within(passages, reaches)

    def more_likely(self, first: str, second: str) -> tuple[SentenceScore, SentenceScore]:
        """Returns the scores of two texts, each by itself; the more likely has the higher ``log_prob``."""
        return self.forward_model.more_likely(first, second)

    def continuations(self, prompt: str, options: Sequence[str]) -> list[list[float]]:
        """Scores options after a prompt; see :meth:`LanguageModel.continuations`."""
        return self.forward_model.continuations(prompt, options)

    def overlong(self, prompt: str, options: Sequence[str]) -> int:
        """Returns 0: a prompt can have any length."""
        return self.forward_model.overlong(prompt, options)


class _ForwardModel(LanguageModel):
    """The forward direction as a language model, which reads unknown words by their characters."""

    module: "_Forward"

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        lexicon, cutter = self.module.lexicon, self.tokenizer
        lexicon.forget()
        rows = cutter.encode_batch(texts)
        for text, row in zip(texts, rows, strict=True):
            if cutter.unk_id in row:
                for place, (low, high) in enumerate(cutter.encode(text).offsets):
                    if row[place] == cutter.unk_id:
                        row[place] = lexicon.number(cutter.normalise(text[low:high]))
        return rows

    def _unpredicted(self, ids: Ids) -> npt.NDArray[np.int64]:
        return np.flatnonzero((ids == self.tokenizer.unk_id) | (ids >= self.module.output.vocab_size))


class _Forward(NextToken):
    """The forward direction of an ELMo, by the ids of a lexicon."""

    kind, config_class, stateful, masks_documents = Elmo.kind, Elmo.config_class, True, False

    def __init__(self, elmo: Elmo, lexicon: Lexicon, tokenizer: Tokenizer) -> None:
        assert elmo.vocab_size is not None
        super().__init__(vocab_size=tokenizer.vocab_size, bos_id=tokenizer.eos_id)
        self.elmo = elmo
        self.config = elmo.config
        self.lexicon = lexicon
        self.output: Any = _Output(elmo, tokenizer.unk_id)

    def start(self, batch_size: int, *, capacity: int | None = None) -> RnnlmState:
        """Returns the initial state: zeros."""
        return RnnlmState(self.elmo.start(batch_size).forward)

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Returns the states (B, T, M) of the last layer."""
        refuse_documents(self, documents)
        state = self.start(len(tokens)) if state is None else state
        assert isinstance(state, RnnlmState)
        characters, (places,) = self.lexicon.distinct(tokens.cpu().numpy())
        words, fed = (torch.from_numpy(one).to(tokens.device) for one in (characters, places))
        hidden, state.hidden = self.elmo.forward_states(words, fed, state.hidden)
        return hidden


class _Output(torch.nn.Module):
    """The softmax, for which every word that it does not know is the unknown one."""

    def __init__(self, elmo: Elmo, unknown: int) -> None:
        super().__init__()
        self._elmo = (elmo,)  # not a submodule: it is one of the owner
        self._unknown = unknown
        self.vocab_size = elmo.vocab_size or 0

    def target_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        output = self._elmo[0].output
        assert output is not None
        return output.target_log_probs(hidden, targets.masked_fill(targets >= self.vocab_size, self._unknown))
