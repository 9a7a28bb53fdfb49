"""Text generation for every language model, from n-grams to GPT."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from wenmai.core.errors import SettingError
from wenmai.core.quantities import plural
from wenmai.decode.protocol import Hypothesis, Step
from wenmai.decode.sampling import sample
from wenmai.decode.search import beam_search, greedy
from wenmai.inference.options import Options, require_positive, require_repetition_penalty, require_sampling

__all__ = ["Generated", "GenerationConfig", "Generator", "Vocabulary", "generate", "note_cut", "stream"]

_log = logging.getLogger(__name__)

_MAX_TOKENS = 50
_CONTEXT = 16  # last tokens of the prompt, which decide how the first generated token joins
_HALF_CHARACTER = "\ufffd"  # what a decoder gives for bytes that are not yet a whole character


class Vocabulary(Protocol):
    """Turns text into tokens and back."""

    @property
    def eos_id(self) -> int:
        """The token that ends a line, and stands before a text."""

    @property
    def suppressed(self) -> Collection[int]:
        """Tokens that are never generated: padding, BOS, unknown."""

    @property
    def continues_words(self) -> bool:
        """Whether a token may continue the word before it, and so change the spaces around that."""

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of some tokens."""


class Generator(Protocol):
    """A model that predicts the next token; see :class:`wenmai.decode.protocol.Decodable`."""

    @property
    def max_length(self) -> int | None:
        """Most tokens of a text; none: no limit."""

    @property
    def device(self) -> torch.device | str:
        """The device it computes on."""

    def read(self, tokens: Sequence[int], *, rows: int, capacity: int) -> Any:  # noqa: ANN401  the model's own state
        """Returns ``rows`` copies of the state after some tokens, with room for ``capacity`` tokens."""

    def step(self, tokens: Tensor, state: Any) -> Step:  # noqa: ANN401
        """Reads one token for each row, and returns the logits (N, V) of the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationConfig(Options):
    """How to generate text.

    Attributes:
        max_tokens: Most tokens to generate, the end of a line included; none: 50, or as many as fit.
        count: Number of texts.
        beam: Hypotheses of a beam search; none: tokens are sampled.
        temperature: Temperature of sampling, 1000 at most; 0 takes the most likely token.
        greedy: The same as ``temperature=0``.
        top_k: Sample from this many of the most likely tokens.
        top_p: Sample from the most likely tokens with this total probability.
        repetition_penalty: Above 1 makes generated tokens less likely to be repeated; 0.01 to 100.
        stop: Strings that end a text; they are left out.
        seed: Seed of the sampling, of 64 bits.
        past_end: Whether to continue after the end of a line.

    Raises:
        SettingError: if a value makes no sense or would have no effect.
    """

    work: ClassVar[str] = "generation"

    max_tokens: int | None = None
    count: int = 1
    beam: int | None = None
    temperature: float = 1.0
    greedy: bool = False
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 1
    past_end: bool = False

    def __post_init__(self) -> None:
        for name in ("max_tokens", "count", "beam"):
            value = getattr(self, name)
            if value is not None:
                require_positive(name, value)
        require_repetition_penalty(self.repetition_penalty)
        if self.greedy:
            if self.beam is not None or self.temperature not in (0.0, 1.0):
                raise SettingError("greedy takes the most likely token; leave out temperature and beam")
            object.__setattr__(self, "temperature", 0.0)  # frozen
        require_sampling(self.seed, self.temperature, self.top_k, self.top_p)
        drawn = (self.temperature, self.top_k, self.top_p) != (1.0, None, None)
        if self.beam is not None and drawn:
            raise SettingError("temperature, top_k and top_p belong to sampling and have no effect on a beam search")
        if self.temperature == 0 and self.count > 1:
            raise SettingError(f"count={self.count}: at temperature 0 there is one text only; sample, or use a beam")
        if self.beam is not None and self.count > self.beam:
            raise SettingError(f"count={self.count}: a beam of {self.beam} has no more than {self.beam} texts")
        stop: Any = self.stop
        if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
            raise SettingError("stop: expected strings that are not empty")


@dataclass(frozen=True, kw_only=True, slots=True)
class Generated:
    """A generated text.

    Attributes:
        prompt: The prompt.
        text: The generated text, without the prompt.
        tokens: Its tokens, the last ones those of a stop string if one ended it.
        log_prob: Natural log-probability of the tokens by the model, but for a repetition penalty.
        reason: Why it ends: ``end`` of the line or text, ``stop`` string, or ``length``.
        cut: Tokens cut off the beginning of the prompt, as it was too long.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    log_prob: float
    reason: str
    cut: int = 0


def generate(model: Generator, vocabulary: Vocabulary, prompt: str, config: GenerationConfig) -> list[Generated]:
    """Generates texts.

    Args:
        model: The model.
        vocabulary: Its tokens.
        prompt: The beginning of the texts; may be empty.
        config: How to generate.

    Returns:
        ``config.count`` texts, of a beam search the best first; fewer if the search found fewer, or several that are
        equal up to a stop string.

    Raises:
        SettingError: if the model cannot generate so many tokens.
    """
    return _generate(model, vocabulary, prompt, config, None)


def stream(model: Generator, vocabulary: Vocabulary, prompt: str, config: GenerationConfig) -> Iterator[str]:
    """Yields one text in pieces as it is generated, without half characters and beginnings of stop strings.

    Raises:
        SettingError: as of :func:`generate`, and for more than one text or a beam, which has no text before its end.
    """
    if config.count != 1 or config.beam is not None:
        raise SettingError("only one sampled text can be shown as it is generated; leave out count and beam")
    pieces: SimpleQueue[str | BaseException | None] = SimpleQueue()
    abandoned = Event()

    def show(piece: str) -> None:
        if abandoned.is_set():
            raise GeneratorExit
        pieces.put(piece)

    def work() -> None:
        try:
            _generate(model, vocabulary, prompt, config, show)
            pieces.put(None)
        except BaseException as error:  # raised again by the reader of the pieces, if there is one
            pieces.put(error)

    Thread(target=work, daemon=True).start()
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        abandoned.set()


@torch.inference_mode()
def _generate(
    model: Generator,
    vocabulary: Vocabulary,
    prompt: str,
    config: GenerationConfig,
    show: Callable[[str], None] | None,
) -> list[Generated]:
    if not isinstance(prompt, str):
        raise SettingError(f"generate takes one prompt, a string, not {type(prompt).__name__}")
    read, cut, longest = _plan(model, vocabulary, prompt, config)
    end = None if config.past_end else vocabulary.eos_id
    rows = 1 if config.beam is not None else config.count
    state = model.read(read[:-1], rows=rows, capacity=len(read) - 1 + longest)
    common: dict[str, Any] = {
        "device": model.device,
        "bos_id": read[-1],
        "eos_id": end,
        "max_lengths": longest,
        "banned": tuple(vocabulary.suppressed),
        "repetition_penalty": config.repetition_penalty,
    }
    texts = [_Text(vocabulary, prompt, read[1:], config.stop, show) for _ in range(rows)]
    found: Sequence[Hypothesis]
    if config.beam is not None:
        found = beam_search(model, state, beam_size=config.beam, n_best=config.count, stop="bound", **common)[0]
        if config.stop:
            found = _cut(model, vocabulary, prompt, read, config.stop, found, common)
        texts = [_Text(vocabulary, prompt, read[1:], config.stop, show) for _ in found]
        for text, hypothesis in zip(texts, found, strict=True):
            text.add_all(hypothesis.tokens)
    else:
        found = sample(
            model,
            state,
            generator=torch.Generator(model.device).manual_seed(config.seed),
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            watch=_watching(texts, end) if config.stop or show is not None else None,
            **common,
        )
    results = []
    for text, hypothesis in zip(texts, found, strict=True):
        written = text.finish(hypothesis.tokens)
        reason = "stop" if text.stopped else "end" if hypothesis.finished else "length"
        results.append(
            Generated(
                prompt=prompt,
                text=written,
                tokens=tuple(hypothesis.tokens),
                log_prob=hypothesis.log_prob,
                reason=reason,
                cut=cut,
            )
        )
    return results


def _cut(
    model: Generator,
    vocabulary: Vocabulary,
    prompt: str,
    read: Sequence[int],
    stop: tuple[str, ...],
    found: Sequence[Hypothesis],
    common: dict[str, Any],
) -> list[Hypothesis]:
    """Cuts the hypotheses of a beam search after stop strings, which it does not know; best first, each once.

    What is left is scored again, as a search keeps no log-probabilities of prefixes.
    """
    whole: list[Hypothesis] = []
    ended: dict[tuple[int, ...], None] = {}
    for hypothesis in found:
        text = _Text(vocabulary, prompt, read[1:], stop, None)
        text.add_all(hypothesis.tokens)
        if text.stopped:
            ended[text.tokens] = None
        else:
            whole.append(hypothesis)
    if not ended:
        return whole
    lengths = [len(tokens) for tokens in ended]
    state = model.read(read[:-1], rows=len(ended), capacity=len(read) - 1 + max(lengths))
    scored = greedy(model, state, **common | {"max_lengths": lengths, "prefix": list(ended)})
    return sorted([*whole, *scored], key=lambda one: -one.log_prob)


def _plan(
    model: Generator, vocabulary: Vocabulary, prompt: str, config: GenerationConfig
) -> tuple[list[int], int, int]:
    """Returns the tokens to read, how many of the prompt are cut off, and how many to generate at most.

    The last generated token need not be read.
    """
    tokens, room = [vocabulary.eos_id, *vocabulary.encode(prompt)], model.max_length
    if room is None:
        return tokens, 0, config.max_tokens or _MAX_TOKENS
    if (config.max_tokens or 0) > room:
        raise SettingError(
            f"max_tokens={config.max_tokens}: the model reads texts of {room} tokens, so it can generate {room} at most"
        )
    left = room - len(tokens) + 1
    longest = config.max_tokens or min(_MAX_TOKENS, left if left > 0 else (room + 1) // 2)
    kept = tokens[-(room - longest + 1) :]
    cut = max(0, len(tokens) - 1 - len(kept))  # the begin token is none of the prompt
    note_cut(cut)
    return kept, cut, longest


def note_cut(cut: int) -> None:
    """Notes that tokens were cut off the beginning of a prompt, if there are any."""
    if cut > 0:
        _log.warning("%s", f"the prompt is longer than the model reads: {plural(cut, 'token')} cut off its beginning")


def _watching(texts: Sequence["_Text"], end: int | None) -> Callable[[Tensor, Tensor], Tensor | None]:
    def watch(sentences: Tensor, tokens: Tensor) -> Tensor | None:
        stops = [
            token != end and texts[number].add(token)
            for number, token in zip(sentences.tolist(), tokens.tolist(), strict=True)
        ]
        return torch.tensor(stops, device=tokens.device) if any(stops) else None

    return watch


class _Text:
    """A growing text: stop strings end it, and whole characters are shown as they come."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt: str,
        read: Sequence[int],
        stop: tuple[str, ...],
        show: Callable[[str], None] | None,
    ) -> None:
        self.stopped = False
        self._vocabulary = vocabulary
        self._before = list(read[-_CONTEXT:])  # whether there is a space between depends on both sides
        before = vocabulary.decode(self._before)
        self._skip = len(before)
        self._spaced = prompt[-1:].isspace() and not before[-1:].isspace()  # the prompt has a space that no token keeps
        self._stop = stop
        self._show = show
        self._tokens: list[int] = []
        self._text = self._last_text = ""
        self._shown = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens so far."""
        return tuple(self._tokens)

    def add(self, token: int) -> bool:
        """Adds a token; returns whether the text ends here."""
        if self.stopped:
            return True
        self._tokens.append(token)
        self._last_text = self._text
        self._text = self._decoded(self._tokens)
        places = [place for text in self._stop if (place := self._text.find(text)) >= 0]
        if places:
            self._text, self.stopped = self._text[: min(places)], True
        if self._show is not None:
            self._tell(self._text if self.stopped else self._text[: self._sure()])
        return self.stopped

    def add_all(self, tokens: Sequence[int]) -> None:
        """Adds tokens until the text ends."""
        any(self.add(token) for token in tokens)

    def finish(self, tokens: Sequence[int]) -> str:
        """Returns the whole text, that of ``tokens`` unless a stop string ended it."""
        if not self.stopped:
            self._text = self._decoded(tokens)
        if self._show is not None:
            self._tell(self._text)
        return self._text

    def _decoded(self, tokens: Sequence[int]) -> str:
        text = self._vocabulary.decode([*self._before, *tokens])[self._skip :]
        return text.removeprefix(" ") if self._spaced else text

    def _sure(self) -> int:
        """Characters that no later token can change."""
        end = len(self._text.rstrip(_HALF_CHARACTER))
        if self._vocabulary.continues_words:
            alike = takewhile(lambda pair: pair[0] == pair[1], zip(self._last_text, self._text, strict=False))
            end = min(end, sum(1 for _ in alike))  # the last token is told with the next
        for text in self._stop:
            held = next((size for size in range(len(text) - 1, 0, -1) if self._text[:end].endswith(text[:size])), 0)
            end = min(end, len(self._text[:end]) - held)
        return end

    def _tell(self, text: str) -> None:
        if self._show is not None and len(text) > self._shown:
            self._show(text[self._shown :])
            self._shown = len(text)
