"""What every way of decoding has in common: the first token, lengths, a forced prefix, and suppressed tokens.

Bans set log-probabilities to ``-inf`` and never renormalise, so that the score of a sequence stays the model's own.
All rules work on whole batches.
"""

from collections.abc import Collection, Sequence
from typing import Any, Required, TypedDict

import torch
from torch import Tensor

from wenmai.core.tensors import require_numbers

__all__ = ["Constraints", "Rules", "penalise_repetition", "repeating_ngrams"]

_FREE = -1  # in the table of forced tokens
_NO_TOKEN = -2  # compares unequal with every token


class Rules(TypedDict, total=False):
    """The rules of a decoding as all ways of decoding take them, by name: :class:`Constraints` says what they mean."""

    bos_id: Required[int | Tensor]
    eos_id: Required[int | None]
    max_lengths: Required[int | Sequence[int] | Tensor]
    min_length: int
    prefix: Sequence[Sequence[int]] | None
    banned: Collection[int]
    no_repeat_ngram: int
    repetition_penalty: float
    device: torch.device | str


class Constraints:
    """The rules of one decoding of a batch, as tensors.

    Args:
        batch_size: Sentences, B.
        bos_id: The token consumed first, one for all or (B,), such as the last token of each prompt.
        eos_id: The token that ends a sequence; none if no token does.
        max_lengths: The most tokens of a sequence, the end token counted, one for all or (B,): one step each.
        min_length: The fewest tokens before the end token.
        prefix: Tokens that each of the B sequences begins with; they count in its length and log-probability, and no
            ban concerns them.
        banned: Suppressed tokens, which are never generated.
        no_repeat_ngram: Sequences hold no n-gram of this length twice; 0 lets them.
        repetition_penalty: Divides positive and multiplies negative logits of tokens already in the sequence; 1 does
            nothing. Keskar et al. 2019 (CTRL), sec. 4.1, use 1.2 and divide whatever the sign.
        device: Where the model works.

    Raises:
        ValueError: if a value makes no sense or does not fit the batch.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        bos_id: int | Tensor,
        eos_id: int | None,
        max_lengths: int | Sequence[int] | Tensor,
        min_length: int = 0,
        prefix: Sequence[Sequence[int]] | None = None,
        banned: Collection[int] = (),
        no_repeat_ngram: int = 0,
        repetition_penalty: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> None:
        if batch_size < 1:
            raise ValueError("the state has no rows")
        if min_length < 0 or no_repeat_ngram < 0:
            raise ValueError(f"min_length ({min_length}) and no_repeat_ngram ({no_repeat_ngram}) cannot be negative")
        if min_length and eos_id is None:
            raise ValueError("min_length has no effect without an eos_id")
        if not repetition_penalty > 0:
            raise ValueError(f"repetition_penalty must be positive, found {repetition_penalty}")
        self.first_tokens = _for_each(bos_id, batch_size, "bos_id", device)  # (B,)
        self.limits = _for_each(max_lengths, batch_size, "max_lengths", device)  # (B,)
        self.longest = int(self.limits.max())
        if int(self.limits.min()) < 1:
            raise ValueError("max_lengths must be at least 1")
        self.eos_id = _NO_TOKEN if eos_id is None else eos_id
        self.needs_history = bool(no_repeat_ngram) or repetition_penalty != 1
        self._min_length = min_length
        self._no_repeat_ngram = no_repeat_ngram
        self._repetition_penalty = repetition_penalty
        self._banned = torch.tensor(sorted(set(banned)), dtype=torch.int64, device=device)
        self._forced, self.shortest_prefix = self._table([[]] * batch_size if prefix is None else prefix, device)
        self._buffer: Tensor | None = None

    def _table(self, prefix: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, int]:
        """Returns the prefixes as a padded table, (B, P), and the length of the shortest."""
        if len(prefix) != len(self.limits):
            raise ValueError(f"{len(prefix)} prefixes for {len(self.limits)} sentences")
        width = max(map(len, prefix))
        for tokens, limit in zip(prefix, self.limits.tolist(), strict=True):
            if self.eos_id in tokens or any(token < 0 for token in tokens):
                raise ValueError("a prefix holds the end token or a negative one")
            if len(tokens) > limit:
                raise ValueError(f"a prefix of {len(tokens)} tokens is longer than its limit, {limit}")
        padded = [[*tokens, *[_FREE] * (width - len(tokens))] for tokens in prefix]
        table = torch.tensor(padded, dtype=torch.int64, device=device).view(len(prefix), width)
        return table, min(map(len, prefix))

    def log_probs(self, logits: Tensor, *, sentences: Tensor, position: int, history: Tensor | None) -> Tensor:
        """Turns the logits of a step into log-probabilities, with ``-inf`` for every token that is not allowed.

        Args:
            logits: (N, V).
            sentences: (N,) the sentence that each row belongs to.
            position: Tokens already produced.
            history: (N, position) these tokens; may be none unless ``needs_history``.

        Returns:
            (N, V), at least float32; valid until the next call.

        Raises:
            FormatError: if they are no numbers.
        """
        if self.eos_id >= logits.size(1):
            raise ValueError(f"eos_id {self.eos_id} is not among the {logits.size(1)} tokens of the model")
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if history is not None and self._repetition_penalty != 1:
            logits = penalise_repetition(logits, history, self._repetition_penalty)
        if self._buffer is None or len(self._buffer) < len(logits):
            self._buffer = torch.empty_like(logits)  # kept: for large vocabularies fresh memory costs more than the sum
        log_probs = torch.log_softmax(logits, 1, out=self._buffer[: len(logits)])
        require_numbers(not log_probs[:, 0].isnan().any())  # one that is none makes all of its row so

        forced = self._forced[sentences, position] if position < self._forced.size(1) else None
        kept = None if forced is None else log_probs.gather(1, forced.clamp(min=0)[:, None])
        if len(self._banned):
            log_probs.index_fill_(1, self._banned, -torch.inf)
        if position < self._min_length:
            log_probs[:, self.eos_id] = -torch.inf
        if history is not None and self._no_repeat_ngram:
            rows, tokens = repeating_ngrams(history, self._no_repeat_ngram)
            log_probs[rows, tokens] = -torch.inf
        if forced is not None and kept is not None:
            rows = (forced != _FREE).nonzero()[:, 0]
            log_probs[rows] = -torch.inf
            log_probs[rows, forced[rows]] = kept[rows, 0]
        return log_probs


def penalise_repetition(logits: Tensor, history: Tensor, penalty: float) -> Tensor:
    """Makes the tokens of the history less likely: positive logits are divided, negative ones multiplied.

    Args:
        logits: (N, V); left as it is.
        history: (N, T) tokens.
        penalty: Above 1 against repetition.
    """
    seen = logits.gather(1, history)
    return logits.scatter(1, history, torch.where(seen > 0, seen / penalty, seen * penalty))


def repeating_ngrams(history: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Finds the tokens that would complete an n-gram which the sequence already holds.

    Args:
        history: (N, T) tokens.
        order: Length of the n-grams, 1 or more.

    Returns:
        Rows and tokens, (F,) each, possibly with repetitions.
    """
    length = history.size(1)
    if length < order:
        nothing = history.new_empty(0)
        return nothing, nothing
    windows = history.unfold(1, order, 1)  # (N, T - n + 1, n)
    suffix = history[:, length - order + 1 :]  # (N, n - 1)
    rows, places = (windows[:, :, :-1] == suffix[:, None]).all(2).nonzero(as_tuple=True)
    return rows, windows[rows, places, -1]


def _for_each(value: Any, batch_size: int, name: str, device: torch.device | str) -> Tensor:  # noqa: ANN401  number or numbers
    """Returns one integer for each sentence, (B,)."""
    numbers = torch.as_tensor(value, device=device)
    if numbers.is_floating_point() or numbers.shape not in ((), (batch_size,)):
        raise ValueError(f"{name} must be an integer, or one for each of the {batch_size} sentences")
    return numbers.long().expand(batch_size)
