"""A trained neural language model: the network, its tokenizer, and its verbs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from wenmai.core.errors import FormatError, SettingError, require_list
from wenmai.core.tensors import require_numbers
from wenmai.data.batches import pad, plan_batches
from wenmai.inference.architecture import Network, read_architecture, read_tokenizer
from wenmai.inference.embedding import (
    ContextualEncoder,
    InContext,
    Pooling,
    Rows,
    embed_texts,
    embed_tokens,
    embed_words,
)
from wenmai.inference.generation import Generated, GenerationConfig, generate, note_cut, stream
from wenmai.inference.layers import Layers
from wenmai.inference.network_generation import NetworkGenerator, Pieces
from wenmai.inference.options import require_one_text, require_positive
from wenmai.inference.reading import READ, Ids, Scores, StreamScorer, log_probs_within, read_on
from wenmai.inference.scored import sentence_score
from wenmai.measures.language import SentenceScore
from wenmai.models.folder import CONFIG, write_fields
from wenmai.nn.language import NextToken
from wenmai.text.tokenizer import Tokenizer
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["Context", "LanguageModel", "build"]

Context = Literal["fresh", "carried"]

_CHUNK = 512  # lines that are sorted by length and scored together
_BATCH_TOKENS = 4096


def build(
    architecture: type[NextToken],
    config: Any,  # noqa: ANN401  each architecture has its own
    tokenizer: Tokenizer,
    *,
    vocab_size: int | None = None,
) -> NextToken:
    """Makes a model with fresh parameters for a tokenizer; the end of a line also serves as BOS.

    Args:
        architecture: The class of the network.
        config: Its settings.
        tokenizer: The tokenizer.
        vocab_size: V, where it is more than the tokenizer's; some imported models have such rows.
    """
    size = tokenizer.vocab_size if vocab_size is None else vocab_size
    make: Any = architecture
    module: NextToken = make(config, vocab_size=size, bos_id=tokenizer.eos_id)
    return module


class LanguageModel(Network):
    """Scores text, predicts the next token, and generates text.

    Args:
        module: The network.
        tokenizer: The tokenizer.
        context: What precedes a line: nothing, or the lines before.
    """

    module: NextToken

    def __init__(
        self,
        module: NextToken,
        tokenizer: Tokenizer,
        *,
        context: Context = "carried",
    ) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.context: Context = context

    def _sizes(self) -> dict[str, Any]:
        return {"vocabulary": self.tokenizer.vocab_size, "context": self.context}

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and ``tokenizer.json``."""
        write_fields(
            folder,
            kind=self.kind,
            vocab_size=self.module.vocab_size,
            context=self.context,
            model=asdict(self.config),
        )
        save_model(self.module, folder)
        self.tokenizer.save(folder / "tokenizer.json")

    @classmethod
    def load(cls, folder: Path) -> "LanguageModel":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        found = read_architecture(folder, NextToken)
        context, size = found.facts.get("context"), found.facts.get("vocab_size")
        if context not in ("fresh", "carried"):
            raise FormatError(f"{folder / CONFIG}: is damaged: the context {context!r} is neither fresh nor carried")
        tokenizer = read_tokenizer(folder, found)
        module = loaded_model(
            lambda: build(found.model, found.config, tokenizer, vocab_size=size), found.config, folder
        )
        return cls(module, tokenizer, context=context)

    # --- scoring --------------------------------------------------------------------------------------------------

    def score(self, texts: Iterable[str], *, context: Context | None = None) -> Iterator[SentenceScore]:
        """Scores lines, in order.

        Args:
            texts: Lines, read as they are needed.
            context: ``fresh``: each line by itself; ``carried``: the lines before it are known, as far as the model
                reaches. None: as it was trained.

        Yields:
            The score of each line; that of an empty line has no predictions.

        Raises:
            SettingError: if there is no such ``context``, or ``texts`` is one string.
        """
        require_list(texts, "score")
        if context not in (None, "fresh", "carried"):
            raise SettingError(f"context={context!r}: expected fresh or carried")
        lines = iter(texts)
        stream = StreamScorer(self.module) if (context or self.context) == "carried" else None
        self.module.eval()
        while chunk := list(islice(lines, _CHUNK)):
            encoded = self._encoded(chunk)
            rows = [np.array([*ids, self.tokenizer.eos_id] if ids else [], np.int32) for ids in encoded]
            with torch.inference_mode():
                found = self._fresh(rows) if stream is None else stream.lines(rows)
            for text, ids, log_probs in zip(chunk, rows, found, strict=True):
                yield self._scored(text, ids, log_probs)

    def score_within(self, passages: Sequence[Sequence[str]], reaches: Sequence[int]) -> list[list[SentenceScore]]:
        """Scores lines when only so many tokens before each token are known.

        Args:
            passages: Lists of lines, whose last is scored; a model trained on single lines does not see those before.
                BOS is a token, too.
            reaches: Tokens that are known, 1 or more: this many to an eighth more, see
                :func:`~wenmai.inference.reading.log_probs_within`.

        Returns:
            The score of each line, for each reach.
        """
        end = self.tokenizer.eos_id
        encoded = [[[*ids, end] if ids else [] for ids in self._encoded([*lines])] for lines in passages]
        rows = [np.array(ids[-1], np.int32) for ids in encoded]
        before = [[end, *(chain(*ids[:-1]) if self.context == "carried" else ())] for ids in encoded]
        texts = [np.array([*known, *row], np.int32) for known, row in zip(before, rows, strict=True)]
        self.module.eval()
        with torch.inference_mode():
            found = [log_probs_within(self.module, texts, [*map(len, rows)], reach) for reach in reaches]
        lines = [passage[-1] for passage in passages]
        return [[self._scored(*one) for one in zip(lines, rows, scores, strict=True)] for scores in found]

    def more_likely(self, first: str, second: str) -> tuple[SentenceScore, SentenceScore]:
        """Returns the scores of two texts, each by itself; the more likely has the higher ``log_prob``."""
        one, other = self.score([first, second], context="fresh")
        return one, other

    def continuations(self, prompt: str, options: Sequence[str]) -> list[list[float]]:
        r"""Scores options after a prompt, which is read once for all of them.

        Args:
            prompt: The text before, from the beginning of a line on; ``\n`` ends a line, but not for a model trained
                on single lines. A prompt that is too long is cut at its beginning, see :meth:`overlong`.
            options: The possible continuations, each with its leading space.

        Returns:
            The natural log-probabilities of the tokens that each option adds to the prompt.

        Raises:
            SettingError: if an option is longer than the model can read.
        """
        read, added = self._joined(prompt, options)
        read = read[self._too_many(read, added) :]
        if not any(added):
            return [[] for _ in options]
        self.module.eval()
        with torch.inference_mode():
            state = self.module.start(1, capacity=len(read) + max(map(len, added)) - 1)
            read_on(self.module, read[:-1], state)
            state.select(torch.zeros(len(added), dtype=torch.int64, device=self.device))
            wanted, real = pad([np.array(tokens, np.int32) for tokens in added], self.tokenizer.pad_id)
            fed = np.concatenate([np.full((len(added), 1), read[-1], wanted.dtype), wanted[:, :-1]], 1)
            mask = torch.from_numpy(real).to(self.device)
            hidden = self.module(torch.from_numpy(fed).to(self.device).long(), state)[mask]
            targets = torch.from_numpy(wanted).to(self.device).long()[mask]
            found = self.module.output.target_log_probs(hidden, targets).cpu().double().numpy()
        require_numbers(not np.isnan(found).any())
        return [piece.tolist() for piece in np.split(found, np.cumsum(real.sum(1))[:-1])]

    def overlong(self, prompt: str, options: Sequence[str]) -> int:
        """Returns how many tokens :meth:`continuations` cuts off the beginning of a prompt.

        Raises:
            SettingError: if an option is longer than the model can read.
        """
        return 0 if self.module.max_length is None else self._too_many(*self._joined(prompt, options))

    def _joined(self, prompt: str, options: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """Returns the tokens common to all options, those of the prompt, and what each option adds."""
        *lines, last = prompt.split("\n") if self.context == "carried" else [prompt]
        begin = self.tokenizer.eos_id
        read = [begin]
        for ids in self._encoded(lines):
            read += [*ids, begin]
        rows = self._encoded([last, *[last + option for option in options]])
        columns = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
        shared = [column[0] for column in columns]  # fewer than the prompt's where a piece spans its end
        return [*read, *shared], [row[len(shared) :] for row in rows[1:]]

    def _too_many(self, read: list[int], added: list[list[int]]) -> int:
        longest = max(map(len, added), default=0)
        if self.module.max_length is None or not longest:
            return 0
        if longest > self.module.max_length:
            raise SettingError(
                f"an option has {longest} tokens, and the model reads texts of {self.module.max_length}; expected "
                "shorter options, or a model trained with a larger max_length"
            )
        return max(0, len(read) + longest - 1 - self.module.max_length)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of texts; a subclass may have more than the tokenizer."""
        return self.tokenizer.encode_batch(texts)

    def _unpredicted(self, ids: Ids) -> npt.NDArray[np.int64]:
        """Returns the places of the tokens that are predicted as the unknown one."""
        one = self.tokenizer
        return np.flatnonzero(ids == one.unk_id) if one.unk_id != one.eos_id else np.zeros(0, np.int64)

    def _scored(self, text: str, ids: Ids, log_probs: Scores) -> SentenceScore:
        return sentence_score(self.tokenizer, text, ids, log_probs, unpredicted=self._unpredicted(ids))

    def _fresh(self, rows: Sequence[Ids]) -> list[Scores]:
        """Scores lines in batches; lines longer than the model reads at once as streams of their own."""
        longest = self.module.max_length or READ
        found = [np.zeros(0)] * len(rows)
        short = [place for place, row in enumerate(rows) if 0 < len(row) <= longest]
        lengths = np.array([len(rows[place]) for place in short], np.int64)
        for batch in plan_batches(lengths, max_tokens=_BATCH_TOKENS, seed=0, epoch=0) if short else []:
            places = [short[index] for index in batch]
            wanted, real = pad([rows[place] for place in places], self.tokenizer.pad_id)
            begin = np.full((len(places), 1), self.tokenizer.eos_id, wanted.dtype)
            fed = torch.from_numpy(np.concatenate([begin, wanted[:, :-1]], 1)).to(self.device).long()
            mask = torch.from_numpy(real).to(self.device)
            targets = torch.from_numpy(wanted).to(self.device).long()[mask]
            log_probs = self.module.output.target_log_probs(self.module(fed)[mask], targets).cpu().double().numpy()
            pieces = np.split(log_probs, np.cumsum(real.sum(1))[:-1])
            for place, piece in zip(places, pieces, strict=True):
                found[place] = piece
        for place, row in enumerate(rows):
            if len(row) > longest:
                (found[place],) = StreamScorer(self.module).lines([row])
        return found

    # --- states and vectors -------------------------------------------------------------------------------------

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: int | str = "last",
        pooling: Pooling = "mean",
        concat: bool = False,
        normalise: bool | None = None,
    ) -> Rows:
        """Returns the vectors of texts, (N, d) float32; see :func:`wenmai.inference.embedding.embed_texts`.

        Each token has seen those before it alone; ``last`` is the pooling by the one that has seen all. The begin of a
        text is none of its tokens. Texts that are longer than the model reads are cut, and counted in a note.

        Raises:
            SettingError: if the model has no states of layers, no such layer or pooling, or ``texts`` is one string.
        """
        options: dict[str, Any] = {"layer": layer, "pooling": pooling, "concat": concat, "normalise": bool(normalise)}
        return embed_texts(self._reader, texts, **options)

    def embed_words(self, texts: Iterable[str], **options: Any) -> Iterator[InContext]:  # noqa: ANN401
        """Yields the vectors of words in context; see :func:`wenmai.inference.embedding.embed_words`."""
        return embed_words(self._reader, texts, **options)

    def token_vectors(self, sentences: Iterable[Sequence[str]]) -> Iterator[Rows]:
        """Yields the vectors (T, M) of given tokens; see :func:`wenmai.inference.embedding.embed_tokens`."""
        return embed_tokens(self._reader, sentences)

    @property
    def vector_size(self) -> int:
        """M, the size of a state."""
        return self.module.state_size

    def layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Yields the states of all tokens of each text in all layers, in order; long texts are read in windows."""
        return self._reader.layers(texts)

    @property
    def _reader(self) -> ContextualEncoder:
        from wenmai.inference.contextual import BackboneReader  # which knows all models

        return BackboneReader(self)

    # --- prediction and generation -----------------------------------------------------------------------------

    def next(self, text: str, topn: int = 10) -> list[tuple[str, float]]:
        r"""Returns the most likely continuations of a text by one token, with their probabilities.

        Args:
            text: The text; empty: the beginning of a line. The end of a line is ``\n``, unless the model was trained on
                single lines.
            topn: How many.

        Raises:
            SettingError: if ``text`` is none, or ``topn`` is below 1.
        """
        require_one_text("next", text)
        require_positive("topn", topn)
        generator = NetworkGenerator(self.module)
        tokens = [self.tokenizer.eos_id, *self.vocabulary.encode(text)]
        if self.module.max_length is not None:
            note_cut(len(tokens) - 1 - self.module.max_length)
            tokens = tokens[-self.module.max_length :]
        with torch.inference_mode():
            state = generator.read(tokens[:-1], rows=1, capacity=len(tokens))
            step = generator.step(torch.tensor(tokens[-1:], device=self.device), state)
        probabilities = step.logits[0].double().softmax(0)
        require_numbers(not probabilities.isnan().any())
        never = [token for token in self.vocabulary.suppressed if token != self.tokenizer.unk_id]
        probabilities[never] = 0.0
        top = probabilities.topk(min(topn, len(probabilities) - len(never)))
        shown = zip(top.values.tolist(), top.indices.tolist(), strict=True)
        return [(self.vocabulary.shown(token), probability) for probability, token in shown]

    def generate(self, prompt: str = "", **options: Any) -> list[Generated]:  # noqa: ANN401
        """Generates texts; ``options`` as of :class:`~wenmai.inference.generation.GenerationConfig`."""
        return generate(NetworkGenerator(self.module), self.vocabulary, prompt, GenerationConfig.of(options))

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:  # noqa: ANN401
        """Yields one text in pieces as it is generated; ``options`` as of :meth:`generate`."""
        return stream(NetworkGenerator(self.module), self.vocabulary, prompt, GenerationConfig.of(options))

    @property
    def vocabulary(self) -> Pieces:
        """The tokens, for generation."""
        return Pieces(self.tokenizer, self.module.vocab_size, lines=self.context == "carried")

    @property
    def readings(self) -> tuple[str, ...]:
        """What :meth:`reading` can change."""
        return () if self.module.reading_class is None else tuple(one.name for one in fields(self.module.reading_class))

    def reading(self, **settings: Any) -> "LanguageModel":  # noqa: ANN401  of the model's reading_class
        """Returns the same model that reads texts otherwise than it was trained, such as with a longer memory.

        Args:
            **settings: Those of :class:`wenmai.models.transformer_xl.Reading`; other models have none.

        Raises:
            SettingError: if the model has no such setting, or a value makes no sense.
        """
        kind: Any = self.module.reading_class
        if unknown := ", ".join(settings.keys() - set(self.readings)):
            can = f"it has {', '.join(self.readings)}" if self.readings else "it always reads as it was trained"
            raise SettingError(f"{unknown}: no setting with which a {self.kind} could read a text; {can}")
        if not settings:
            return self
        return LanguageModel(self.module.with_reading(kind(**settings)), self.tokenizer, context=self.context)
