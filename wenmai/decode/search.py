"""The most likely sequences: greedy, beam and exhaustive search.

The rules on tokens and lengths are described in full at :class:`~wenmai.decode.constraints.Constraints`, the penalties
at :class:`~wenmai.decode.scoring.Scoring`.
"""

from typing import Literal, TypeVar, Unpack

import torch
from torch import Tensor

from wenmai.decode.constraints import Constraints, Rules
from wenmai.decode.hypotheses import NOTHING, Found, Trail
from wenmai.decode.largest import first_largest, largest
from wenmai.decode.protocol import Decodable, Hypothesis, State
from wenmai.decode.rollout import refuse_training_mode, roll_out
from wenmai.decode.scoring import LengthPenalty, Scoring

__all__ = ["StopRule", "beam_search", "exhaustive", "greedy"]

StopRule = Literal["finished", "bound", "best", "limit"]

_StateT = TypeVar("_StateT", bound=State)

_MOST_ROWS = 1 << 20  # of an exhaustive search


def greedy(
    model: Decodable[_StateT],
    state: _StateT,
    **rules: Unpack[Rules],
) -> list[Hypothesis]:
    """Takes the most likely token at every step; of equally likely ones the lowest.

    Args:
        model: Any decodable model, not in training mode.
        state: Fresh from the model; used up.
        rules: What sequences may be, and where the model works: see :class:`~wenmai.decode.constraints.Constraints`.

    Returns:
        One hypothesis for each row of the state.

    Raises:
        ValueError: if a setting makes no sense.
    """
    constraints = Constraints(state.batch_size, **rules)
    return roll_out(model, state, first_largest, constraints)


@torch.no_grad()
def beam_search(
    model: Decodable[_StateT],
    state: _StateT,
    *,
    beam_size: int,
    n_best: int = 1,
    length_penalty: LengthPenalty = "none",
    alpha: float = 1.0,
    coverage_beta: float = 0.0,
    source_mask: Tensor | None = None,
    stop: StopRule = "finished",
    **rules: Unpack[Rules],
) -> list[list[Hypothesis]]:
    """Keeps the K most likely unfinished sequences of each sentence and collects those that finish.

    At each step the best 2K continuations are considered (ties: lower beam, then lower token), so that ended ones
    cannot starve the beam. Ended ones count only among the first K of them (as in fairseq; so K = 1 is greedy), the
    best K others go on. All sentences and beams are one batch; a sentence leaves it when its stop rule holds:

    * ``finished``: K sequences have finished. The usual rule; with a length penalty a better one may be missed.
    * ``bound``: no unfinished sequence can still enter the n best, as its log-probability over the penalty of the
      greatest length shows (Tensor2Tensor). Loses nothing that the beam would find, for every penalty here.
    * ``best``: the best unfinished log-probability is below the n-th best finished one; the same as ``bound``, but
      valid for raw log-probabilities only.
    * ``limit``: only at ``max_lengths``, where every search ends.

    Args:
        model: Any decodable model, not in training mode.
        state: Fresh from the model, one row for each sentence; used up.
        beam_size: K.
        n_best: How many hypotheses of each sentence are wanted, K at most.
        length_penalty: How finished sequences are ranked; the beam itself is ranked by log-probability.
        alpha: Exponent of the penalty, or the reward of each token.
        coverage_beta: Factor of the penalty on source positions with less than 1 of attention in total.
        source_mask: (B, S) bool, True for a real source token: padding need not be covered. None: all are real.
        stop: When a sentence is done.
        rules: What sequences may be, and where the model works: see :class:`~wenmai.decode.constraints.Constraints`.

    Returns:
        For each sentence its hypotheses, best first: finished ones only, fewer than ``n_best`` if fewer were found;
        if none finished, unfinished ones.

    Raises:
        ValueError: if a setting makes no sense, or coverage is asked of a model that gives no attention.

    Source:
        Sutskever, Vinyals, Le 2014, sec. 3.2; penalties Wu et al. 2016, eq. 14. Differs from GNMT: no pruning by a
        distance from the best.
    """
    refuse_training_mode(model)
    scoring = Scoring(length_penalty=length_penalty, alpha=alpha, coverage_beta=coverage_beta)
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best ({n_best}) must lie between 1 and beam_size ({beam_size})")
    if stop not in ("finished", "bound", "best", "limit"):
        raise ValueError(f"stop must be finished, bound, best or limit, found {stop!r}")
    if stop == "best" and not scoring.is_raw:
        raise ValueError("stop='best' is valid for raw log-probabilities only; use 'bound' with penalties")
    constraints = Constraints(state.batch_size, **rules)
    found = Found(state.batch_size, n_best, constraints.first_tokens.device)
    trail = Trail()
    _search(model, state, constraints, scoring, beam_size, stop, source_mask, found=found, trail=trail)
    return found.hypotheses(trail, constraints.eos_id)


def _search(
    model: Decodable[_StateT],
    state: _StateT,
    constraints: Constraints,
    scoring: Scoring,
    beam_size: int,
    stop: StopRule,
    source_mask: Tensor | None,
    *,
    found: Found,
    trail: Trail,
) -> None:
    """The loop of beam search over G sentences, which become fewer, by W beams, which become more up to K."""
    tokens = constraints.first_tokens  # (N,), N = G * W
    sentences = torch.arange(len(tokens), device=tokens.device)  # (G,) still searched
    totals = torch.zeros(len(tokens), 1, dtype=torch.float64, device=tokens.device)  # (G, W) log P, descending
    num_ended = torch.zeros_like(sentences)  # (G,)
    history = tokens.new_empty(len(tokens), 0)
    attended: Tensor | None = None  # (N, S) before this step

    for position in range(constraints.longest):
        logits, seen = model.step(tokens, state)
        trail.attention.append(seen)
        groups, width = totals.shape
        of_row = sentences.repeat_interleave(width)  # (N,)
        log_probs = constraints.log_probs(
            logits, sentences=of_row, position=position, history=history if constraints.needs_history else None
        )
        room = 1 if position < constraints.shortest_prefix else beam_size
        values, rows, next_tokens = _continuations(log_probs, totals, 2 * room)  # (G, C) each, best first
        scores = scoring.scores(values, position + 1)
        if scoring.coverage_beta:
            if seen is None:
                raise ValueError("coverage_beta needs a model that gives attention over the source")
            attended = seen if attended is None else attended + seen
            mask = None if source_mask is None else source_mask[of_row]
            scores = scores + scoring.coverage(attended, mask)[rows]

        ends = next_tokens == constraints.eos_id
        ranked = ends & (values > -torch.inf)
        ranked[:, room:] = False
        if bool(ranked.any()):
            ended_scores = scores.masked_fill(~ranked, -torch.inf)
            found.offer(sentences, scores=ended_scores, log_probs=values, step=position, rows=rows, tokens=next_tokens)
            num_ended += ranked.sum(1)

        onward = ends.long().argsort(dim=1, stable=True)[:, :room]  # the best that go on; at most W of 2K ended
        before, totals = totals, values.masked_fill(ends, -torch.inf).gather(1, onward)
        rows, next_tokens = rows.gather(1, onward), next_tokens.gather(1, onward)  # (G, W')
        limits = constraints.limits[sentences]
        stuck = totals[:, 0] == -torch.inf
        done = (
            stuck | (limits <= position + 1) | _is_settled(stop, scoring, found.scores[sentences, -1], totals, limits)
        )
        if stop == "finished":
            done |= num_ended >= beam_size

        if bool(done.any()):
            nothing = done & (found.scores[sentences, 0] == -torch.inf)
            cut = nothing & ~stuck  # by the limit
            if bool(cut.any()):
                alive = scores.gather(1, onward).masked_fill(~cut[:, None] | (totals == -torch.inf), -torch.inf)
                found.offer(sentences, scores=alive, log_probs=totals, step=position, rows=rows, tokens=next_tokens)
            lost = nothing & stuck  # no token is allowed: what there was before this step
            if bool(lost.any()):
                alive = scoring.scores(before, max(position, 1)).masked_fill(~lost[:, None], -torch.inf)
                here = torch.arange(groups * width, device=rows.device).view(groups, width)
                last = torch.full_like(here, NOTHING)
                found.offer(sentences, scores=alive, log_probs=before, step=position, rows=here, tokens=last)
            if bool(done.all()):
                return
            sentences, num_ended, totals = sentences[~done], num_ended[~done], totals[~done]
            rows, next_tokens = rows[~done], next_tokens[~done]

        parents, tokens = rows.flatten(), next_tokens.flatten()
        trail.grow(tokens, parents)
        if len(parents) != groups * width or not torch.equal(parents, torch.arange(len(parents), device=rows.device)):
            state.select(parents)  # left out when every row stays in its place: selecting copies caches
        if constraints.needs_history:
            history = torch.cat([history[parents], tokens[:, None]], 1)
        if attended is not None:
            attended = attended[parents]


def _continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the most likely continuations of each sentence; of equal ones the lowest in the flat order.

    Args:
        log_probs: (G * W, V).
        totals: (G, W) of the sequences so far.
        count: How many for each sentence, C.

    Returns:
        (G, C) log-probabilities with their input rows and tokens, best first; C is at most W * V.
    """
    groups, width = totals.shape
    best, tokens = largest(log_probs, count)  # the best of all are among the best of each row
    sums = (totals.flatten()[:, None] + best).view(groups, -1)  # (G, W * C), flat order kept among equal ones
    values, places = largest(sums, count)
    first_row = width * torch.arange(groups, device=places.device)[:, None]
    return values, first_row + places // best.size(1), tokens.reshape(groups, -1).gather(1, places)


def _is_settled(stop: StopRule, scoring: Scoring, worst: Tensor, totals: Tensor, limits: Tensor) -> Tensor:
    """Whether the n-th best finished score of each sentence, ``worst``, can no longer be exceeded, (G,)."""
    if stop == "bound":
        return worst > scoring.bound(totals[:, 0], limits)
    if stop == "best":
        return worst > totals[:, 0]
    return torch.zeros_like(worst, dtype=torch.bool)


@torch.no_grad()
def exhaustive(
    model: Decodable[_StateT],
    state: _StateT,
    *,
    n_best: int = 1,
    length_penalty: LengthPenalty = "none",
    alpha: float = 1.0,
    coverage_beta: float = 0.0,
    source_mask: Tensor | None = None,
    **rules: Unpack[Rules],
) -> list[list[Hypothesis]]:
    """Scores every sequence there is: the truth that beam search approximates, for toy vocabularies.

    Args and results are those of :func:`beam_search`; the rows grow to V ** T for each sentence.

    Raises:
        ValueError: if a setting makes no sense, or there are more than a million rows.
    """
    refuse_training_mode(model)
    scoring = Scoring(length_penalty=length_penalty, alpha=alpha, coverage_beta=coverage_beta)
    constraints = Constraints(state.batch_size, **rules)
    results: list[list[Hypothesis]] = [[] for _ in range(state.batch_size)]
    tokens = constraints.first_tokens
    sentences = torch.arange(len(tokens), device=tokens.device)  # (N,)
    totals = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)  # (N,)
    history = tokens.new_empty(len(tokens), 0)  # (N, T)
    maps: Tensor | None = None  # (N, T, S)
    for position in range(constraints.longest):
        logits, seen = model.step(tokens, state)
        log_probs = constraints.log_probs(logits, sentences=sentences, position=position, history=history)
        if seen is not None:
            maps = seen[:, None] if maps is None else torch.cat([maps, seen[:, None]], 1)
        allowed = log_probs > -torch.inf
        for row in (~allowed.any(1)).nonzero()[:, 0].tolist():  # what there was before this step
            found = Hypothesis(
                tokens=history[row].tolist(),
                log_prob=float(totals[row]),
                score=float(scoring.scores(totals[row], max(position, 1))),
                finished=False,
                attention=None if maps is None else maps[row, :position],
            )
            results[int(sentences[row])].append(found)
        rows = int(allowed.sum())
        if rows > _MOST_ROWS:
            raise ValueError(f"{rows} sequences are too many for an exhaustive search; use beam_search")
        parents, tokens = allowed.nonzero(as_tuple=True)
        totals = totals[parents] + log_probs[parents, tokens]
        sentences, history = sentences[parents], torch.cat([history[parents], tokens[:, None]], 1)
        scores = scoring.scores(totals, position + 1)
        if coverage_beta:
            if maps is None:
                raise ValueError("coverage_beta needs a model that gives attention over the source")
            mask = None if source_mask is None else source_mask[sentences]
            scores = scores + scoring.coverage(maps.sum(1)[parents], mask)
        ends = tokens == constraints.eos_id
        done = ends | (constraints.limits[sentences] <= position + 1)
        for row in done.nonzero()[:, 0].tolist():
            length = position + 1 - int(ends[row])
            hypothesis = Hypothesis(
                tokens=history[row, :length].tolist(),
                log_prob=float(totals[row]),
                score=float(scores[row]),
                finished=bool(ends[row]),
                attention=None if maps is None else maps[parents[row], :length],
            )
            results[int(sentences[row])].append(hypothesis)
        if bool(done.all()):
            break
        state.select(parents[~done])
        maps = None if maps is None else maps[parents[~done]]
        tokens, sentences, totals, history = tokens[~done], sentences[~done], totals[~done], history[~done]
    return [_best(sequences, n_best) for sequences in results]


def _best(sequences: list[Hypothesis], n_best: int) -> list[Hypothesis]:
    """Returns the best finished sequences, or the best of all if none is."""
    finished = [sequence for sequence in sequences if sequence.finished]
    return sorted(finished or sequences, key=lambda sequence: -sequence.score)[:n_best]
