"""What a model offers so that it can be searched or sampled from, and what a search gives back.

A model makes a *state* (its cache: key-value buffers, recurrent states, the encoded source), which the caller owns and
passes to every step. ``model.step(tokens, state)`` consumes one token for each row and advances the state once;
``state.select(rows)`` reorders, repeats or drops rows, so that beams can branch and finished rows can leave. Nothing
here knows what the model is.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

__all__ = ["Decodable", "Hypothesis", "State", "Step"]


class Step(NamedTuple):
    """The answer of a model to one token for each row.

    Attributes:
        logits: (N, V) scores of the next token, natural-log units; they need not be normalised. ``-inf`` is allowed.
        attention: (N, S) weights over the source, zero at padding, or none for a model without a source.
    """

    logits: Tensor
    attention: Tensor | None = None


class State(Protocol):
    """Everything a model remembers of the tokens consumed so far, for each row of the batch."""

    @property
    def batch_size(self) -> int:
        """Rows it holds now."""
        ...

    def select(self, rows: Tensor) -> None:
        """Makes row ``i`` what row ``rows[i]`` was, in place; rows may repeat or be left out.

        Args:
            rows: (K,) int64 numbers of present rows; K becomes the batch size.
        """
        ...


_StateT = TypeVar("_StateT", bound=State, contravariant=True)


class Decodable(Protocol[_StateT]):
    """A model that predicts the next token from the tokens consumed so far."""

    def step(self, tokens: Tensor, state: _StateT) -> Step:
        """Consumes one token for each row and advances the state once.

        Args:
            tokens: (N,) int64, N the batch size of the state.
            state: What the model made at the beginning; changed in place.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hypothesis:
    """One sequence that a search or a sampler found.

    Attributes:
        tokens: Its tokens with the forced prefix, without BOS and EOS.
        log_prob: Sum of the model's log-probabilities of ``tokens`` and of the end token if it is finished; natural
            logarithm. Nothing is renormalised without suppressed tokens. Only a repetition penalty
            changes the distribution that is summed.
        score: What it was ranked by: ``log_prob`` after length and coverage penalties; higher is better.
        finished: Whether the end token was reached; otherwise the length limit, or a place where no token is allowed.
        attention: (len(tokens), S) weights over the source when each token was predicted, if the model gives them.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool
    attention: Tensor | None = None
