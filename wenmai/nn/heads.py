"""Heads of fine-tuned encoders: from states to the logits of labels, tags, answers and choices.

Devlin, Chang, Lee, Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
NAACL 2019, https://aclanthology.org/N19-1423, sections 4.1 to 4.4 and 5.3.

| head | equation |
|---|---|
| ``ClassificationHead`` | W dropout(c) + b, c the vector of the text, or a new layer's tanh(W' dropout(c) + b') |
| ``TokenHead`` | W dropout(h_i) + b |
| ``SpanHead`` | start_i = s·h_i + b_s, end_i = e·h_i + b_e |
| ``ChoiceHead`` | v·dropout(c_k) of every choice k, P = softmax over the choices of a question |

Shapes: B rows, T tokens, M hidden size, K labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import Linear
from wenmai.nn.multihead import rows_at

__all__ = ["ChoiceHead", "ClassificationHead", "SpanHead", "SpanLogits", "TokenHead", "choice_log_probabilities"]

_STD = 0.02  # of every weight, cut at two standard deviations


class ClassificationHead(nn.Module):
    """The logits of labels from the vector of a text; with one label, a number.

    Args:
        hidden_size: M.
        num_labels: K.
        dropout: Of the vector, while training.
        dense: Whether a new tanh layer comes before, for encoders that have no pooler.
    """

    def __init__(self, hidden_size: int, num_labels: int, *, dropout: float = 0.1, dense: bool = False) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.dense = _linear(hidden_size, hidden_size) if dense else None
        self.output = _linear(hidden_size, num_labels)

    def forward(self, vectors: Tensor) -> Tensor:
        """Returns logits (..., K) of vectors (..., M)."""
        if self.dense is not None:
            vectors = torch.tanh(self.dense(self.dropout(vectors)))
        logits: Tensor = self.output(self.dropout(vectors))
        return logits


class TokenHead(nn.Module):
    """The logits of tags from the states of tokens.

    Args:
        hidden_size: M.
        num_tags: K.
        dropout: Of the states, while training.
    """

    def __init__(self, hidden_size: int, num_tags: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = _linear(hidden_size, num_tags)

    def forward(self, hidden: Tensor, places: Tensor | None = None) -> Tensor:
        """Scores tags.

        Args:
            hidden: (B, T, M).
            places: (B, N) int64, the tokens that have a tag, such as the first of each word; None: all.

        Returns:
            Logits (B, T, K), or (B, N, K).
        """
        logits: Tensor = self.output(self.dropout(hidden if places is None else rows_at(hidden, places)))
        return logits


class SpanLogits(NamedTuple):
    """Where an answer may be.

    Attributes:
        start: (B, T) logits of its first token.
        end: (B, T) logits of its last token.
    """

    start: Tensor
    end: Tensor


class SpanHead(nn.Module):
    """The logits of the first and of the last token of an answer.

    Args:
        hidden_size: M.
        dropout: Of the states, while training; none in BERT.
    """

    def __init__(self, hidden_size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = _linear(hidden_size, 2)

    def forward(self, hidden: Tensor, allowed: Tensor | None = None) -> SpanLogits:
        """Scores places.

        Args:
            hidden: (B, T, M).
            allowed: (B, T) bool, True where an answer may begin or end; the others get the lowest number there is,
                whose probability is 0. None: everywhere.
        """
        logits: Tensor = self.output(self.dropout(hidden))
        if allowed is not None:
            logits = logits.masked_fill(~allowed[..., None], torch.finfo(logits.dtype).min)
        return SpanLogits(*logits.unbind(-1))


class ChoiceHead(nn.Module):
    """One score for each choice, from the vector of the text that the question and this choice make.

    Args:
        hidden_size: M.
        dropout: Of the vector, while training.
        dense: Whether a new tanh layer comes before, for encoders that have no pooler.
    """

    def __init__(self, hidden_size: int, *, dropout: float = 0.1, dense: bool = False) -> None:
        super().__init__()
        self.score = ClassificationHead(hidden_size, 1, dropout=dropout, dense=dense)

    def forward(self, vectors: Tensor) -> Tensor:
        """Returns scores (...,) of vectors (..., M)."""
        return self.score(vectors)[..., 0]  # type: ignore[no-any-return]


def choice_log_probabilities(scores: Tensor, counts: Sequence[int]) -> Tensor:
    """Returns log softmax over the choices of each question; questions may have different numbers of choices.

    Args:
        scores: (N,) of all choices, question after question.
        counts: How many choices each question has; their sum is N.

    Returns:
        (questions, most choices); -inf where a question has no such choice.
    """
    padded = nn.utils.rnn.pad_sequence(list(torch.split(scores, [*counts])), batch_first=True, padding_value=-torch.inf)
    return padded.log_softmax(-1)


def _linear(inputs: int, outputs: int) -> Linear:
    """N(0, 0.02²) cut at two standard deviations, and zero biases, as all weights of BERT."""
    made = Linear(inputs, outputs)
    nn.init.trunc_normal_(made.weight, std=_STD, a=-2 * _STD, b=2 * _STD)
    nn.init.zeros_(made.bias)
    return made
