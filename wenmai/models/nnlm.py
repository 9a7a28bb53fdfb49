"""NNLM: the neural probabilistic language model, a feed-forward network over the vectors of the last words.

Bengio, Ducharme, Vincent, Jauvin, "A Neural Probabilistic Language Model", JMLR 3 (2003),
https://www.jmlr.org/papers/v3/bengio03a.html.

| equation (section 3) | where |
|---|---|
| x = [C(w_{t-1}); C(w_{t-2}); ...; C(w_{t-n+1})], the most recent word first | ``Nnlm._contexts`` |
| tanh(d + H x) | ``Nnlm.hidden`` (weight H, bias d) |
| y = b + W x + U tanh(d + H x) | ``Nnlm.output`` (weight [U W], bias b) over [tanh(d + H x); x] |

Without direct connections W is left out; without hidden units, only W is left. BOS stands before a text, as often as
needed.

Differs from the paper: mini-batches, and whatever optimiser the training uses; the mixture with a trigram model is left
to evaluation.

Shapes: B rows, T tokens, n order, m embedding size, h hidden units, V vocabulary.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.models.settings import NnlmConfig
from wenmai.nn.language import LanguageState, NextToken
from wenmai.nn.linear import Linear
from wenmai.nn.softmax import Softmax

__all__ = ["Nnlm", "NnlmConfig", "NnlmState"]


class NnlmState:
    """The last n-2 words read, which with the next make up a context.

    Args:
        tokens: (B, n-2) int64, BOS where there was none, or another document.
        document: (B,) int64, what the last token belonged to; none: what follows belongs to it too.
    """

    def __init__(self, tokens: Tensor, document: Tensor | None = None) -> None:
        self.tokens = tokens
        self.document = document

    @property
    def batch_size(self) -> int:
        """Rows."""
        return self.tokens.shape[0]

    def select(self, rows: Tensor) -> None:
        """Replaces the rows by ``rows`` (K,) int64 of them."""
        self.tokens = self.tokens[rows]
        self.document = None if self.document is None else self.document[rows]

    def detach(self) -> None:
        """Does nothing: tokens have no gradient."""

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tokens, and the document if one is known."""
        return {"tokens": self.tokens} | ({} if self.document is None else {"document": self.document})

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are.

        Raises:
            ValueError: if they are of another model.
        """
        tokens = tensors.get("tokens")
        if tokens is None or tokens.shape[1:] != self.tokens.shape[1:] or tensors.keys() - {"tokens", "document"}:
            raise ValueError(f"a state of {self.tokens.shape[1]} tokens was expected, not one of {', '.join(tensors)}")
        self.tokens, self.document = tokens, tensors.get("document")


class Nnlm(NextToken):
    """The neural probabilistic language model.

    Args:
        config: Sizes.
        vocab_size: V.
        bos_id: BOS, before every text.
    """

    kind: ClassVar[str] = "nnlm"
    config_class: ClassVar[type] = NnlmConfig
    stateful: ClassVar[bool] = True
    masks_documents: ClassVar[bool] = True

    def __init__(self, config: NnlmConfig, *, vocab_size: int, bos_id: int) -> None:
        super().__init__(vocab_size=vocab_size, bos_id=bos_id)
        self.config = config
        input_size = (config.order - 1) * config.embedding_size
        self.embedding = nn.Embedding(vocab_size, config.embedding_size)
        self.hidden = Linear(input_size, config.hidden_size) if config.hidden_size else None
        self.output = Softmax(vocab_size, config.hidden_size + (input_size if config.direct else 0), bias=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small uniform numbers (section 3.1), scaled to the inputs of H; zero biases."""
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        if self.hidden is not None:
            nn.init.xavier_uniform_(self.hidden.weight, gain=nn.init.calculate_gain("tanh"))
            nn.init.zeros_(self.hidden.bias)

    def start(self, batch_size: int, *, capacity: int | None = None) -> NnlmState:
        """Returns the initial state: BOS tokens."""
        tokens = torch.full((batch_size, self.config.order - 2), self.bos_id, device=self.embedding.weight.device)
        return NnlmState(tokens)

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Returns [tanh(d + H x); x], (B, T, h + (n-1)m), or the part of it that there is."""
        state = self.start(tokens.shape[0]) if state is None else state
        assert isinstance(state, NnlmState)
        vectors = F.embedding(self._contexts(tokens, state, documents), self.embedding.weight)  # (B, T, n-1, m)
        x = vectors.flatten(2)
        if self.hidden is None:
            return x
        units = torch.tanh(self.hidden(x))  # (B, T, h)
        return torch.cat((units, x), -1) if self.config.direct else units

    def _contexts(self, tokens: Tensor, state: NnlmState, documents: Tensor | None) -> Tensor:
        """Returns the n-1 words up to each place, (B, T, n-1), the most recent first; advances the state."""
        words = _windows(torch.cat((state.tokens, tokens), 1), self.config.order - 1)
        if documents is not None:
            before = documents[:, 0] if state.document is None else state.document
            numbers = torch.cat((before[:, None].expand_as(state.tokens), documents), 1)
            same = _windows(numbers, self.config.order - 1) == documents[..., None]
            words = words.where(same, self.bos_id)
            state.document = documents[:, -1]
        state.tokens = words[:, -1, :-1].flip(1)
        return words


def _windows(numbers: Tensor, size: int) -> Tensor:
    """Returns (B, T, size) of (B, T + size - 1): each number after the last one, going back."""
    return numbers.unfold(1, size, 1).flip(2)
