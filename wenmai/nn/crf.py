"""A linear-chain conditional random field over tags, whose impossible transitions are never predicted.

Lafferty, McCallum, Pereira, "Conditional Random Fields", ICML 2001; in a network as in Lample et al. 2016,
https://aclanthology.org/N16-1030, section 2.2.

| equation | where |
|---|---|
| s(x, y) = b_{y_1} + Σ_t x_{t, y_t} + Σ_t A_{y_t, y_{t+1}} + e_{y_N} | ``_path_scores`` |
| log p(y given x) = s(x, y) - log Σ_y' exp s(x, y') | ``Crf.log_likelihood`` |
| log Σ_y' exp s(x, y') by α_t(k) = x_{t,k} + log Σ_j exp(α_{t-1}(j) + A_{j,k}) | ``_forward`` |
| argmax_y s(x, y) by the same recursion with max for log Σ exp (Viterbi) | ``Crf.decode`` |
| p(y_t = k given x) = exp(α_t(k) + β_t(k) - log Z) | ``Crf.marginals`` |

Shapes: B sentences, T words, K tags. A sentence of no words has log-likelihood 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from wenmai.core.errors import SettingError

__all__ = ["Constraints", "Crf", "Scheme", "constraints_of"]

Scheme = Literal["bio", "bioes", "io", "none"]

_IMPOSSIBLE = -1e6  # finite, so that no gradient is NaN; its exponential is 0, and sums of logits never reach it
_ROLES = {  # of prefixes, by scheme; those of BMES and BILOU mean the same as BIOES
    "io": {"I": "I"},
    "bio": {"B": "B", "I": "I"},
    "bioes": {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"},
}


@dataclass(frozen=True)
class Constraints:
    """Which sequences of tags are possible.

    Attributes:
        start: Of each tag, whether a sentence may begin with it.
        transitions: ``transitions[i][j]``: whether tag j may follow tag i.
        end: Of each tag, whether a sentence may end with it.
    """

    start: tuple[bool, ...]
    transitions: tuple[tuple[bool, ...], ...]
    end: tuple[bool, ...]

    def allow(self, tags: Sequence[int]) -> bool:
        """Returns whether a sequence of tags is possible."""
        if not tags:
            return True
        inner = all(self.transitions[one][other] for one, other in pairwise(tags))
        return self.start[tags[0]] and inner and self.end[tags[-1]]


def constraints_of(labels: Sequence[str], scheme: Scheme) -> Constraints:
    """Returns what a scheme says about tags such as ``O``, ``B-PER`` and ``I-PER``.

    Args:
        labels: The tags.
        scheme: ``bio``: I-X follows B-X or I-X alone. ``bioes``: entities of several words are B-X, any number of I-X,
            and E-X, those of one word are S-X; the prefixes of BMES and BILOU will do. ``io`` and ``none``: every
            sequence is possible.

    Raises:
        SettingError: if a tag is not of the scheme.
    """
    if scheme in ("io", "none"):
        for label in labels if scheme == "io" else ():
            _role(label, scheme)
        free = (True,) * len(labels)
        return Constraints(free, (free,) * len(labels), free)
    roles, outside = [_role(label, scheme) for label in labels], ("O", "")

    def possible(one: tuple[str, str], other: tuple[str, str]) -> bool:
        open_entity = one[0] in "BI"
        if other[0] in "IE":
            return open_entity and one[1] == other[1]
        return scheme == "bio" or not open_entity  # in BIOES, an entity has an end

    return Constraints(
        tuple(possible(outside, role) for role in roles),
        tuple(tuple(possible(one, other) for other in roles) for one in roles),
        tuple(possible(role, outside) for role in roles),
    )


def _role(label: str, scheme: Scheme) -> tuple[str, str]:
    """The role and the type of a tag."""
    prefix, _, kind = label.partition("-")
    if label == "O":
        return "O", ""
    if not kind or prefix not in _ROLES[scheme]:
        known = ", ".join(f"{one}-..." for one in _ROLES[scheme])
        raise SettingError(f"the tag {label!r} is not of the scheme {scheme}; expected O, {known}")
    return _ROLES[scheme][prefix], kind


class Crf(nn.Module):
    """Scores sequences of tags by what a network says about each word and by which tags follow each other.

    Scores of tags and transitions begin as zero, where tags are independent of each other.

    Args:
        num_tags: K.
        constraints: Which sequences are possible; None: all.
    """

    def __init__(self, num_tags: int, constraints: Constraints | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))
        free = constraints or constraints_of(["O"] * num_tags, "none")
        for name in ("start", "transitions", "end"):
            impossible = np.logical_not(getattr(free, name))  # on the meta device torch would load its compiler
            self.register_buffer(f"impossible_{name}", torch.tensor(impossible), persistent=False)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Returns log p(y given x) of every sentence, (B,), in nats.

        Args:
            emissions: (B, T, K) scores of the tags of each word.
            tags: (B, T) int64; what is beyond the end of a sentence does not matter.
            lengths: (B,) int64, words of each sentence.
        """
        if not emissions.shape[1]:
            return emissions.new_zeros(len(emissions))
        emissions, scores = emissions.to(self.start.dtype), self._scores()
        alphas = _forward(emissions, lengths, *scores[:2])
        log_z = (alphas[-1] + scores[2]).logsumexp(-1)
        found = _path_scores(emissions, tags, lengths, *scores) - log_z
        return found.masked_fill(lengths == 0, 0.0)

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> list[list[int]]:
        """Returns the most likely tags of every sentence (Viterbi), possible ones if there are any.

        Args:
            emissions: (B, T, K).
            lengths: (B,) int64.
        """
        batch, longest, _ = emissions.shape
        if not batch * longest:
            return [[] for _ in range(batch)]
        start, transitions, end = self._scores()
        words = emissions.to(start.dtype).unbind(1)
        incoming = transitions.T.contiguous()  # (to, from): the maximum is over numbers that are neighbours
        real = lengths[:, None] > torch.arange(longest, device=lengths.device)
        stay = torch.arange(self.num_tags, device=lengths.device)
        best, pointers = start + words[0], []
        for place in range(1, longest):
            top, back = (best[:, None, :] + incoming).max(-1)
            inside = real[:, place, None]
            best = torch.where(inside, top + words[place], best)
            pointers.append(torch.where(inside, back, stay))
        tag = (best + end).argmax(-1, keepdim=True)
        path = [tag]
        for back in reversed(pointers):
            tag = back.gather(1, tag)
            path.append(tag)
        rows = torch.cat(path[::-1], 1).tolist()
        return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """Returns p(y_t = k given x), (B, T, K); 0 beyond the end of a sentence.

        Args:
            emissions: (B, T, K).
            lengths: (B,) int64.
        """
        if not emissions.shape[1]:
            return emissions
        given = emissions
        emissions = emissions.double()  # sums over many words would lose what tells them apart
        start, transitions, end = (part.double() for part in self._scores())
        alphas = _forward(emissions, lengths, start, transitions)
        words, beta = emissions.unbind(1), end.expand(len(lengths), -1)
        betas = [beta]
        for place in range(len(words) - 1, 0, -1):
            earlier = (transitions + (beta + words[place])[:, None]).logsumexp(-1)
            beta = torch.where((place < lengths)[:, None], earlier, beta)
            betas.append(beta)
        log_z = (alphas[-1] + end).logsumexp(-1)
        shares = (torch.stack(alphas, 1) + torch.stack(betas[::-1], 1) - log_z[:, None, None]).exp()
        return shares.masked_fill(~_real(lengths, len(words))[..., None], 0.0).to(given.dtype)

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of first tags (K,), of transitions (K, K), and of last tags (K,)."""
        names = ("start", "transitions", "end")
        parts = ((self.get_parameter(name), self.get_buffer(f"impossible_{name}")) for name in names)
        start, transitions, end = (scores.masked_fill(impossible, _IMPOSSIBLE) for scores, impossible in parts)
        return start, transitions, end


def _forward(emissions: Tensor, lengths: Tensor, start: Tensor, transitions: Tensor) -> list[Tensor]:
    """α_t (B, K) of every t; beyond the end of a sentence that of its last word."""
    words = emissions.unbind(1)
    alphas = [start + words[0]]
    for place in range(1, len(words)):
        scores = (alphas[-1][:, :, None] + transitions).logsumexp(1) + words[place]
        alphas.append(torch.where((place < lengths)[:, None], scores, alphas[-1]))
    return alphas


def _path_scores(
    emissions: Tensor, tags: Tensor, lengths: Tensor, start: Tensor, transitions: Tensor, end: Tensor
) -> Tensor:
    """s(x, y), (B,)."""
    real = _real(lengths, tags.shape[1])
    tags = tags.masked_fill(~real, 0)
    words = emissions.gather(2, tags[..., None])[..., 0].masked_fill(~real, 0.0).sum(1)
    steps = transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~real[:, 1:], 0.0).sum(1)
    last = tags.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
    return start[tags[:, 0]] + words + steps + end[last]


def _real(lengths: Tensor, longest: int) -> Tensor:
    """(B, T) bool, True for words."""
    return lengths[:, None] > torch.arange(longest, device=lengths.device)
