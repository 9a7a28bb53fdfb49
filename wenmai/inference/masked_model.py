"""A trained contextual encoder: the network, its tokenizer, and its verbs."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wenmai.core.errors import SettingError, require_list
from wenmai.core.quantities import plural
from wenmai.core.tensors import require_numbers
from wenmai.inference.architecture import Network, read_architecture, read_tokenizer
from wenmai.inference.embedding import InContext, Pooling, Rows, StateBatch, embed_texts, embed_tokens, embed_words
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.inference.framing import Framer, covering, joined, portions
from wenmai.inference.layers import Layers
from wenmai.inference.options import require_one_text, require_positive
from wenmai.inference.pseudo import mask_probabilities, pseudo_log_probs, require_predictions
from wenmai.inference.scored import sentence_score
from wenmai.measures.language import SentenceScore
from wenmai.models.folder import CONFIG, read_settings, write_fields
from wenmai.nn.encoder import TextEncoder
from wenmai.text.encodable import MUCH_UNKNOWN
from wenmai.text.tokenizer import Tokenizer
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["MaskedModel", "build"]

_log = logging.getLogger(__name__)

_CHUNK = 512  # lines that are sorted by length and scored together
_FEWER = 64  # texts at most of which all layers are kept at once
_MASK = "[MASK]"  # what stands for a mask, whatever the tokenizer calls it


def build(
    architecture: type[TextEncoder],
    config: Any,  # noqa: ANN401  each architecture has its own
    tokenizer: Tokenizer,
    *,
    vocab_size: int | None = None,
) -> TextEncoder:
    """Makes an encoder with fresh parameters for a tokenizer.

    Args:
        architecture: The class of the network.
        config: Its settings.
        tokenizer: The tokenizer.
        vocab_size: V, where it is more than the tokenizer's; some imported models have such rows.
    """
    size = tokenizer.vocab_size if vocab_size is None else vocab_size
    make: Any = architecture
    module: TextEncoder = make(config, vocab_size=size)
    return module


class MaskedModel(Network):
    """Fills in masked tokens, scores texts by their pseudo-log-likelihood, and gives tokens and texts vectors.

    Args:
        module: The network.
        tokenizer: The tokenizer, with tokens for the beginning of a text, its end, and a masked token.
        embedding: How its states become vectors of texts; None: the mean of the last layer's.

    Attributes:
        embedding: What :meth:`embed` does unless it is told otherwise.
        pseudo: True: texts are scored by pseudo-log-likelihoods.
    """

    module: TextEncoder
    pseudo = True  # what it scores texts by is no probability

    def __init__(self, module: TextEncoder, tokenizer: Tokenizer, *, embedding: EmbeddingConfig | None = None) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.embedding = EmbeddingConfig() if embedding is None else embedding
        self._warned = False

    def _sizes(self) -> dict[str, Any]:
        return {"vocabulary": self.tokenizer.vocab_size, "heads": ", ".join(self.config.heads)}

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and ``tokenizer.json``."""
        facts = {"vocab_size": self.module.vocab_size, "embedding": asdict(self.embedding)}
        write_fields(folder, kind=self.kind, model=asdict(self.config), **facts)
        save_model(self.module, folder)
        self.tokenizer.save(folder / "tokenizer.json")

    @classmethod
    def load(cls, folder: Path) -> "MaskedModel":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        found = read_architecture(folder, TextEncoder)
        size = found.facts.get("vocab_size")
        tokenizer = read_tokenizer(folder, found)
        module = loaded_model(
            lambda: build(found.model, found.config, tokenizer, vocab_size=size), found.config, folder
        )
        settings = read_settings(folder / CONFIG, EmbeddingConfig, found.facts.get("embedding", {}), "vectors of texts")
        return cls(module, tokenizer, embedding=settings)

    # --- scoring ------------------------------------------------------------------------------------------------

    @property
    def _framer(self) -> Framer:
        if self.module.training:
            self.module.eval()
        return Framer(self.module, self.tokenizer)

    def score(self, texts: Iterable[str], *, context: Literal["fresh"] | None = None) -> Iterator[SentenceScore]:
        """Scores lines by their pseudo-log-likelihoods, in order: each token is predicted from all others of its line.

        See :mod:`wenmai.inference.pseudo`. Special tokens and the end of a line are not predicted.

        Args:
            texts: Lines, read as they are needed.
            context: ``fresh``, or None: each line is read by itself.

        Yields:
            The score of each line, with ``pseudo`` true; that of an empty line has no predictions.

        Raises:
            SettingError: for another ``context``, if ``texts`` is one string, or if the encoder predicts no tokens.
        """
        require_list(texts, "score")
        if context not in (None, "fresh"):
            raise SettingError(f"context={context}: a masked language model reads each line by itself; leave it out")
        require_predictions(self.module)
        return self._scores(iter(texts))

    def _scores(self, lines: Iterator[str]) -> Iterator[SentenceScore]:
        framer, mask = self._framer, self._mask_id
        while chunk := list(islice(lines, _CHUNK)):
            rows = self.tokenizer.encode_batch(chunk)
            found = pseudo_log_probs(self.module, framer, rows, mask_id=mask)
            for text, ids, log_probs in zip(chunk, rows, found, strict=True):
                yield sentence_score(self.tokenizer, text, np.array(ids, np.int32), log_probs, pseudo=True)

    def more_likely(self, first: str, second: str) -> tuple[SentenceScore, SentenceScore]:
        """Returns the scores of two texts; the more acceptable has the higher ``log_prob``."""
        one, other = self.score([first, second])
        return one, other

    def fill(self, text: str, topn: int = 5) -> list[list[tuple[str, float]]]:
        """Returns the most likely tokens at each mask of a text, with their probabilities.

        Several masks are filled in independently of each other: each list is what could stand there if nothing is
        known of the other masks. A text that is longer than the model reads is seen through a window around each mask.

        Args:
            text: A text with ``[MASK]``, or the mask as the tokenizer spells it, at one place or several.
            topn: How many tokens; special ones are never among them.

        Raises:
            SettingError: if the text has no mask or is none, ``topn`` is below 1, or the encoder predicts no tokens.
        """
        require_positive("topn", topn)
        require_predictions(self.module)
        require_one_text("fill", text)
        mask, spelled = self._mask_id, self.tokenizer.token(self._mask_id)
        ids = self.tokenizer.encode_masked(text.replace(_MASK, spelled)).ids
        places = [place for place, number in enumerate(ids) if number == mask]
        if not places:
            raise SettingError(f"{text[:60]!r} has no mask; write {spelled} where a token is to be filled in")
        probabilities = mask_probabilities(self.module, self._framer, ids, places)
        one = self.tokenizer
        never = one.special_ids | one.nameless | set(range(one.vocab_size, self.module.vocab_size))
        probabilities[:, list(never)] = 0.0
        top = probabilities.topk(min(topn, probabilities.shape[1] - len(never)), dim=1)
        rows = zip(top.values.tolist(), top.indices.tolist(), strict=True)
        return [[(self._shown(n), p) for p, n in zip(*row, strict=True)] for row in rows]

    @property
    def _mask_id(self) -> int:
        if self.tokenizer.mask_id is None:
            raise SettingError("the tokenizer has no mask; the encoder can embed, but not score or fill")
        return self.tokenizer.mask_id

    def _shown(self, number: int) -> str:
        token = self.tokenizer.token(number)
        return token if token.startswith("##") else self.tokenizer.decode([number]) or token

    # --- states and vectors -------------------------------------------------------------------------------------

    @property
    def num_layers(self) -> int:
        """L: there are states of the layers 0 to L."""
        layers: int = self.config.num_layers
        return layers

    @property
    def vector_size(self) -> int:
        """M, the size of a state."""
        size: int = self.config.hidden_size
        return size

    @property
    def poolings(self) -> tuple[Pooling, ...]:
        """The poolings that :meth:`embed` takes."""
        has = getattr(self.module, "pooler", None) is not None
        return ("mean", "max", "cls", "pooler") if has else ("mean", "max", "cls")

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: int | str | None = None,
        pooling: Pooling | None = None,
        concat: bool = False,
        normalise: bool | None = None,
        prompt: str | None = None,
    ) -> Rows:
        """Returns the vectors of texts, (N, d) float32; see :func:`wenmai.inference.embedding.embed_texts`.

        Texts that are longer than the model reads, or than :attr:`embedding` says, are cut at their ends, and counted
        in a note.

        Args:
            texts: N texts.
            layer: None: that of :attr:`embedding`; the other settings too.
            pooling: From tokens to a text.
            concat: Whether several layers are put side by side.
            normalise: Whether vectors have the length 1.
            prompt: The name of what stands before each text.

        Raises:
            SettingError: if there is no such layer, pooling or prompt, or ``texts`` is one string.
        """
        require_list(texts, "embed")
        usual = self.embedding
        name = usual.default_prompt if prompt is None else prompt
        if name is not None and name not in usual.prompts:
            known = ", ".join(usual.prompts) or "none"
            raise SettingError(f"prompt={name} is none of the prompts; there are: {known}")
        before = "" if name is None else usual.prompts[name]
        return embed_texts(
            self,
            [before + text for text in texts] if before else texts,
            layer=usual.layer if layer is None else layer,
            pooling=usual.pooling if pooling is None else pooling,
            concat=concat,
            normalise=usual.normalise if normalise is None else normalise,
        )

    def embed_words(self, texts: Iterable[str], **options: Any) -> Iterator[InContext]:  # noqa: ANN401
        """Yields the vectors of words in context; see :func:`wenmai.inference.embedding.embed_words`.

        Long texts are read as of :meth:`layers`.
        """
        return embed_words(self, texts, **options)

    def token_vectors(self, sentences: Iterable[Sequence[str]]) -> Iterator[Rows]:
        """Yields the vectors (T, M) of given tokens; see :func:`wenmai.inference.embedding.embed_tokens`."""
        return embed_tokens(self, sentences)

    def layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Yields the states of all tokens of each text in all layers, in order.

        A text that is longer than the model reads is read in windows of which each begins in the middle of the one
        before; the states of a token are those of the window whose middle is nearest.

        Args:
            texts: Texts, read as they are needed.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        require_list(texts, "layers")
        return self._layers(iter(texts))

    def _layers(self, texts: Iterator[str]) -> Iterator[Layers]:
        framer, size = self._framer, (self.num_layers + 1, self.vector_size)
        for chunk in portions(texts, _FEWER):
            encodings = [self.tokenizer.encode(text) for text in chunk]
            rows = [one.ids for one in encodings]
            self._warn_of_unknown(rows)
            tokens, starts, sizes = joined(rows)
            states = np.empty((size[0], len(tokens), size[1]), np.float32)
            found = covering(starts, sizes, framer.room)
            for batch in framer.batches(tokens, found.starts, found.widths):
                with torch.inference_mode():
                    fed, mask = batch.fed(self.device)
                    layers = torch.stack(self.module.hidden_states(fed, mask=mask)).float().cpu().numpy()
                for row, number in enumerate(batch.rows.tolist()):
                    low, high = found.own[number].tolist()
                    skipped = 1 + low - int(found.starts[number])
                    states[:, low:high] = layers[:, row, skipped : skipped + high - low]
            require_numbers(not np.isnan(states).any())
            for one, start, width in zip(encodings, starts.tolist(), sizes.tolist(), strict=True):
                yield Layers(one.tokens, one.offsets, states[:, start : start + width])

    def state_batches(self, texts: Sequence[str], layers: Sequence[int]) -> Iterator[StateBatch]:
        """Yields the states of texts in some layers; see :class:`wenmai.inference.embedding.ContextualEncoder`."""
        framer = self._framer
        rows = self.tokenizer.encode_batch(list(texts))
        self._warn_of_unknown(rows)
        length = min(self.module.max_length, self.embedding.max_length or self.module.max_length)
        room = length - 2  # between the special tokens
        longer = sum(len(row) > room for row in rows)
        if longer:
            _log.warning("%s", f"{plural(longer, 'text')} longer than the model reads (max_length={length}): cut")
        tokens, starts, sizes = joined(rows)
        some = np.flatnonzero(sizes)
        last = list(layers) == [self.num_layers]
        with torch.inference_mode():
            for batch in framer.batches(tokens, starts[some], np.minimum(sizes[some], room)):
                fed, mask = batch.fed(self.device)
                if last:
                    states = [self.module(fed, mask=mask)]
                else:
                    found = self.module.hidden_states(fed, mask=mask)
                    states = [found[number] for number in layers]
                yield StateBatch(some[batch.rows], states, batch.lengths)

    def _warn_of_unknown(self, rows: Sequence[Sequence[int]]) -> None:
        """Logs a warning, once, if the vocabulary lacks much of some texts."""
        unknown, total = sum(row.count(self.tokenizer.unk_id) for row in rows), sum(map(len, rows))
        if unknown > MUCH_UNKNOWN * total and not self._warned:
            self._warned = True
            share = unknown / total
            lacking = f"{self.kind}: the vocabulary of the encoder lacks {share:.0%} of the pieces of the text"
            _log.warning("%s", f"{lacking}; a model whose encoder was trained on such text knows more")

    def pooled(self, states: Tensor) -> Tensor:
        """Returns what the pooler makes of the states (B, T, M) of the last layer, (B, M)."""
        module: Any = self.module
        vectors: Tensor = module.pooled(states)
        return vectors
