"""The sampled softmax: each target against a few words that are drawn, instead of against the whole vocabulary.

Jean, Cho, Memisevic, Bengio 2015, "On Using Very Large Target Vocabulary", https://aclanthology.org/P15-1001: with
logits that are lowered by log E[how often a word is drawn], Σ exp over the drawn words estimates Σ exp over all. The
loss is biased, and not comparable to that of a full softmax.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.nn.linear import linear
from wenmai.nn.softmax import Softmax
from wenmai.objectives.loss import Loss

__all__ = ["Drawn", "expected_counts", "log_uniform_draw", "sampled_loss"]

_CHUNK = 256  # draws at once, at least


class Drawn(NamedTuple):
    """Words that were drawn for a batch.

    Attributes:
        words: (S,) int64, all different.
        tries: How many draws it took.
    """

    words: npt.NDArray[np.int64]
    tries: int


def log_uniform_draw(vocab_size: int, number: int, random: np.random.Generator) -> Drawn:
    """Draws different words from P(k) = log((k + 2)/(k + 1)) / log(V + 1), about Zipf's law of sorted vocabularies.

    Args:
        vocab_size: V, whose ids fall in frequency.
        number: How many, below V.
        random: Decides them.
    """
    if not 0 < number < vocab_size:
        raise ValueError(f"{number} of {vocab_size} words cannot be drawn")
    known = np.zeros(0, np.int64)
    while True:
        uniform = random.random(max(_CHUNK, 2 * number))
        fresh = np.expm1(uniform * np.log(vocab_size + 1)).astype(np.int64).clip(0, vocab_size - 1)
        known = np.concatenate([known, fresh])
        words, first = np.unique(known, return_index=True)
        if len(words) >= number:
            tries = int(np.partition(first, number - 1)[number - 1]) + 1
            return Drawn(words[first < tries], tries)


def expected_counts(words: Tensor, vocab_size: int, tries: int) -> Tensor:
    """Returns the probability that words are among those that ``tries`` draws find, float64."""
    ids = words.double()
    probability = torch.log((ids + 2) / (ids + 1)) / float(np.log(vocab_size + 1))
    return -torch.expm1(tries * torch.log1p(-probability))


def sampled_loss(output: Softmax, hidden: Tensor, targets: Tensor, drawn: Drawn) -> Loss:
    """Returns -Σ_n log softmax over the target and the drawn words; a drawn word that is the target is left out.

    Args:
        output: The output layer.
        hidden: (N, M) states.
        targets: (N,) int64.
        drawn: For the whole batch.
    """
    size = output.vocab_size
    words = torch.from_numpy(drawn.words).to(targets.device)
    corrections = [expected_counts(one, size, drawn.tries).log().to(hidden.dtype) for one in (targets, words)]
    weight, bias = output.weight, output.bias
    own = (hidden * weight[targets]).sum(1) - corrections[0]
    others = linear(hidden, weight[words]) - corrections[1]
    if bias is not None:
        own, others = own + bias[targets], others + bias[words]
    others = others.masked_fill(targets[:, None] == words, -torch.inf)
    scores = torch.cat((own[:, None], others), 1).float()
    total = (scores.logsumexp(1) - scores[:, 0]).sum(dtype=torch.float64)
    return Loss(total, total.detach(), targets.shape[0])
