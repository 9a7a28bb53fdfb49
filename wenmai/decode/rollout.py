"""One sequence for each row, grown token by token: what greedy decoding and sampling have in common."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from wenmai.decode.constraints import Constraints
from wenmai.decode.protocol import Decodable, Hypothesis, State

__all__ = ["Watch", "refuse_training_mode", "roll_out"]

_StateT = TypeVar("_StateT", bound=State)

Watch = Callable[[Tensor, Tensor], Tensor | None]
"""Is called after each step with sequences (N,) and their new tokens (N,); returns which of them end, (N,) bool."""

_CROWDED = 0.75  # rows leave when fewer than this fraction still grow: dropping them copies the model's caches


def refuse_training_mode(model: object) -> None:
    """Raises ValueError if the model is a torch module in training mode, where dropout would disturb the scores."""
    if getattr(model, "training", False):
        raise ValueError("the model is in training mode; call its eval() before decoding")


@torch.no_grad()
def roll_out(
    model: Decodable[_StateT],
    state: _StateT,
    choose: Callable[[Tensor], Tensor],
    constraints: Constraints,
    watch: Watch | None = None,
) -> list[Hypothesis]:
    """Grows one sequence for each row of the state; one model step for each token, finished rows leave the batch.

    Args:
        model: Any decodable model, not in training mode.
        state: Fresh from the model; used up.
        choose: From (N, V) log-probabilities, ``-inf`` where a token is not allowed, to (N,) tokens. A row without
            any allowed token ends unfinished, whatever is chosen.
        constraints: The rules.
        watch: A callback after each step; it may end sequences, which are then not finished.

    Returns:
        One hypothesis for each row, its score its log-probability.
    """
    refuse_training_mode(model)
    batch_size, longest = state.batch_size, constraints.longest
    tokens = constraints.first_tokens
    made = tokens.new_zeros(batch_size, longest)
    lengths = tokens.new_zeros(batch_size)
    finished = torch.zeros_like(tokens, dtype=torch.bool)
    log_prob = torch.zeros_like(tokens, dtype=torch.float64)
    attention: list[tuple[Tensor, Tensor]] = []

    sentences = torch.arange(batch_size, device=tokens.device)  # (N,) that the rows belong to
    growing = torch.ones_like(finished)  # (N,)
    undisturbed = True  # every sentence has its row, and all grow: nothing but the new tokens is to be noted
    shortest = int(constraints.limits.min())
    for position in range(longest):
        logits, seen = model.step(tokens, state)
        history = made[sentences, :position] if constraints.needs_history else None
        log_probs = constraints.log_probs(logits, sentences=sentences, position=position, history=history)
        tokens = choose(log_probs)
        gained = log_probs.gather(1, tokens[:, None])[:, 0].double()
        if seen is not None:
            attention.append((sentences, seen))
        stopped = None
        if watch is not None:
            alive = growing & (gained > -torch.inf)  # in the other rows no token is allowed
            if (ended := watch(sentences[alive], tokens[alive])) is not None:
                stopped = torch.zeros_like(growing).masked_scatter(alive, ended)
        if undisturbed and stopped is None and position + 1 < shortest:
            goes_on = (tokens != constraints.eos_id) & (gained > -torch.inf)
            if bool(goes_on.all()):
                made[:, position] = tokens
                lengths += 1
                log_prob += gained
                continue
        growing &= gained > -torch.inf
        ends = growing & (tokens == constraints.eos_id)

        made[sentences, position] = tokens.where(growing, 0)
        lengths[sentences] += growing & ~ends
        finished[sentences] |= ends
        log_prob[sentences] += gained.where(growing, 0)

        growing &= ~ends & (constraints.limits[sentences] > position + 1)
        if stopped is not None:
            growing &= ~stopped
        left = int(growing.sum())
        if not left:
            break
        undisturbed = left == batch_size
        if left <= _CROWDED * len(growing):
            rows = growing.nonzero()[:, 0]
            state.select(rows)
            sentences, tokens, growing = sentences[rows], tokens[rows], growing[rows]

    maps = _gathered(attention, batch_size)
    return [
        Hypothesis(tokens=row[:length], log_prob=total, score=total, finished=done, attention=weights)
        for row, length, total, done, weights in zip(
            made.tolist(),
            lengths.tolist(),
            log_prob.tolist(),
            finished.tolist(),
            [None] * batch_size if maps is None else [whole[:n] for whole, n in zip(maps, lengths, strict=True)],
            strict=True,
        )
    ]


def _gathered(attention: list[tuple[Tensor, Tensor]], batch_size: int) -> Tensor | None:
    """Returns (B, T, S) from each step's rows and weights, zero where a sentence had already left."""
    if not attention:
        return None
    weights = attention[0][1]
    whole = weights.new_zeros(batch_size, len(attention), weights.size(1))
    for position, (sentences, seen) in enumerate(attention):
        whole[sentences, position] = seen
    return whole
