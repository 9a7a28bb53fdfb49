"""Networks and tokenizers as text generation needs them, see :mod:`wenmai.inference.generation`."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from wenmai.decode.protocol import Step
from wenmai.inference.reading import read_on
from wenmai.nn.language import LanguageState, NextToken
from wenmai.text.shown import shown_token
from wenmai.text.tokenizer import Tokenizer

__all__ = ["NetworkGenerator", "Pieces"]


class NetworkGenerator:
    """A network, for generation.

    Args:
        module: The network.
    """

    def __init__(self, module: NextToken) -> None:
        self._module = module.eval()

    @property
    def max_length(self) -> int | None:
        """Most tokens of a text; none: no limit."""
        return self._module.max_length

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._module.device

    def read(self, tokens: Sequence[int], *, rows: int, capacity: int) -> LanguageState:
        """Reads tokens once, and repeats the state."""
        state = self._module.start(1, capacity=capacity)
        read_on(self._module, tokens, state)
        if rows > 1:
            state.select(torch.zeros(rows, dtype=torch.int64, device=self.device))
        return state

    def step(self, tokens: Tensor, state: LanguageState) -> Step:
        """Reads one token for each row."""
        return self._module.step(tokens, state)


class Pieces:
    """A tokenizer, for generation.

    Args:
        tokenizer: The tokenizer.
        vocab_size: Rows of the network; those without a token are never generated.
        lines: Whether a line feed ends a line rather than being part of the text.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, *, lines: bool) -> None:
        self._tokenizer = tokenizer
        self._lines = lines
        self._nameless = tokenizer.nameless.union(range(tokenizer.vocab_size, vocab_size))

    @property
    def eos_id(self) -> int:
        """The end of a line."""
        return self._tokenizer.eos_id

    @property
    def suppressed(self) -> Collection[int]:
        """Tokens that are never generated."""
        one = self._tokenizer
        return {one.pad_id, one.unk_id, one.bos_id} - {one.eos_id} | self._nameless

    @property
    def continues_words(self) -> bool:
        """Whether a token may continue the word before it."""
        return self._tokenizer.continues_words

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text."""
        first, *others = self._tokenizer.encode_batch(text.split("\n") if self._lines else [text])
        return [*first, *(token for ids in others for token in (self.eos_id, *ids))]

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of some tokens."""
        lines: list[list[int]] = [[]]
        for token in tokens:
            if token == self.eos_id:
                lines.append([])
            else:
                lines[-1].append(token)
        return "\n".join(map(self._tokenizer.decode, lines))

    def shown(self, token: int) -> str:
        """Returns a token by itself; the end of a line is a line feed."""
        return "\n" if token == self.eos_id else shown_token(self._tokenizer, token)
