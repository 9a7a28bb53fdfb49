"""Output layers over a vocabulary: the full softmax, and the adaptive softmax with its embedding.

Both give the loss as a sum of cross-entropies (:meth:`Softmax.parts`), so that objectives treat them alike.

- Grave, Joulin, Cissé, Grangier, Jégou, "Efficient softmax approximation for GPUs", ICML 2017,
  https://arxiv.org/abs/1609.04309: frequent words in a head, rarer ones in clusters of which the head knows one
  symbol each: log p(w) = log p_head(w), or log p_head(cluster i) + log p_i(w).
- Baevski, Auli, "Adaptive Input Representations for Neural Language Modeling", ICLR 2019,
  https://arxiv.org/abs/1809.10853: embeddings of the same clusters, narrower the rarer the words; the output
  may share them.

The ids of a vocabulary must be sorted by frequency, the most frequent first.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.linear import linear

__all__ = ["AdaptiveEmbedding", "AdaptiveSoftmax", "Part", "Softmax", "chosen_log_probs"]

_CHUNK_NUMBERS = 1 << 21  # logits alive at once: 8 MB


class Part(NamedTuple):
    """One cross-entropy of a loss, as :func:`wenmai.objectives.language.cross_entropy` takes it.

    Attributes:
        hidden: (N, M) states.
        weight: (V, M) output weights.
        bias: (V,) or none.
        targets: (N,) int64 in 0..V-1.
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    targets: Tensor


class Softmax(nn.Module):
    """P(w | h) = softmax(W h + b)_w.

    Args:
        vocab_size: V.
        hidden_size: M.
        bias: Whether there is b.
        tied_to: The embedding whose matrix W is (Press, Wolf 2017, https://aclanthology.org/E17-2025); none: its own.
    """

    matrix: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self, vocab_size: int, hidden_size: int, *, bias: bool = False, tied_to: nn.Embedding | None = None
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self._owner = (tied_to,)  # not a submodule: its parameter has one name
        self.matrix = nn.Parameter(torch.empty(vocab_size, hidden_size).normal_(std=0.02)) if tied_to is None else None
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None

    @property
    def weight(self) -> Tensor:
        """W, (V, M)."""
        (owner,) = self._owner
        weight = self.matrix if owner is None else owner.weight
        assert weight is not None
        return weight

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns logits (..., V) of (..., M)."""
        return linear(hidden, self.weight, self.bias)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Returns log P, (N, V) float32, of hidden states (N, M)."""
        return linear(hidden, self.weight, self.bias).log_softmax(-1, dtype=torch.float32)

    def target_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Returns log P(target), (N,) float32, of hidden states (N, M) and targets (N,) int64."""
        return chosen_log_probs(self.parts(hidden, targets)[0])

    def parts(self, hidden: Tensor, targets: Tensor) -> list[Part]:
        """Returns the cross-entropies whose sum is the loss, from hidden states (N, M) and targets (N,)."""
        return [Part(hidden, self.weight, self.bias, targets)]


def _ranges(vocab_size: int, cutoffs: Sequence[int]) -> list[tuple[int, int]]:
    """First and last-plus-one id of the shortlist and of each cluster."""
    edges = [0, *cutoffs, vocab_size]
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"cutoffs {list(cutoffs)} do not rise between 1 and the {vocab_size} tokens of the vocabulary")
    return list(pairwise(edges))


class AdaptiveEmbedding(nn.Module):
    """Embeddings that are narrower the rarer the words: tables of E/kⁱ columns, each with a projection to M.

    Args:
        vocab_size: V.
        hidden_size: M.
        embedding_size: E.
        cutoffs: First id of each cluster behind the shortlist, rising.
        div_value: k; 1: one table with one projection, or none where E is M.
        init_std: Of the tables, normally distributed; that of projections is 0.01.

    Raises:
        ValueError: if the cutoffs do not rise within the vocabulary, or the last cluster has no columns left.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        embedding_size: int,
        cutoffs: Sequence[int],
        div_value: int = 1,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.ranges = _ranges(vocab_size, cutoffs)
        tables = [(0, vocab_size)] if div_value == 1 else self.ranges
        sizes = [embedding_size // div_value**number for number in range(len(tables))]
        if sizes[-1] == 0:
            raise ValueError(
                f"embedding_size={embedding_size} divided by {div_value} for each of {len(cutoffs)} cutoffs leaves no "
                "column"
            )
        self.tables = nn.ParameterList(
            torch.empty(high - low, size).normal_(std=init_std) for (low, high), size in zip(tables, sizes, strict=True)
        )
        projected = div_value > 1 or embedding_size != hidden_size
        self.projections = nn.ParameterList(
            torch.empty(hidden_size, size).normal_(std=0.01) for size in (sizes if projected else ())
        )

    def table(self, number: int) -> Tensor:
        """Returns the rows of the shortlist (0) or of cluster ``number``."""
        if len(self.tables) == 1:
            low, high = self.ranges[number]
            return self._table(0)[low:high]
        return self._table(number)

    def projection(self, number: int) -> Tensor | None:
        """Returns (M, columns) of the shortlist (0) or of cluster ``number``; none: the rows are as wide as M."""
        return self.projections[min(number, len(self.projections) - 1)] if len(self.projections) else None

    def _table(self, number: int) -> Tensor:
        return self.get_parameter(f"tables.{number}")

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns (..., M) of (...) int64."""
        if len(self.tables) == 1:
            return _projected(F.embedding(tokens, self.tables[0]), self.projection(0))
        flat = tokens.flatten()
        embedded = self._table(0).new_zeros(flat.shape[0], self.hidden_size)
        for number, (low, high) in enumerate(self.ranges):
            (places,) = ((flat >= low) & (flat < high)).nonzero(as_tuple=True)
            rows = F.embedding(flat[places] - low, self.tables[number])
            embedded = embedded.index_copy(0, places, _projected(rows, self.projection(number)).to(embedded.dtype))
        return embedded.view(*tokens.shape, self.hidden_size)


class AdaptiveSoftmax(nn.Module):
    """The adaptive softmax; its weights are the tables of an adaptive embedding, as in Transformer-XL.

    Args:
        embedding: Of the same clusters, whose tables are shared.
        tied_projections: Whether clusters share the embedding's projections too; the shortlist never does.

    Attributes:
        vocab_size: V.
    """

    def __init__(self, embedding: AdaptiveEmbedding, *, tied_projections: bool) -> None:
        super().__init__()
        self.vocab_size = embedding.vocab_size
        self._owner = (embedding,)  # not a submodule: its parameters have one name
        clusters = len(embedding.ranges) - 1
        self.bias = nn.Parameter(torch.zeros(self.vocab_size))
        self.cluster_weight = nn.Parameter(torch.empty(clusters, embedding.table(0).shape[1]).normal_(std=0.02))
        self.cluster_bias = nn.Parameter(torch.zeros(clusters))
        own = (clusters + 1 if not tied_projections else 1) if len(embedding.projections) else 0
        self.projections = nn.ParameterList(
            torch.empty(embedding.hidden_size, embedding.table(number).shape[1]).normal_(std=0.01)
            for number in range(own)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns log P as logits, (N, V), of hidden states (N, M)."""
        return self.log_probs(hidden)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Returns log P, (N, V) float32, of hidden states (N, M)."""
        (embedding,) = self._owner
        weight, bias = self._head()
        shortlist = embedding.ranges[0][1]
        head = linear(self._narrowed(hidden, 0), weight, bias).log_softmax(-1, dtype=torch.float32)
        pieces = [head[:, :shortlist]]
        for number, (low, high) in enumerate(embedding.ranges[1:], start=1):
            logits = linear(self._narrowed(hidden, number), embedding.table(number), self.bias[low:high])
            cluster = head[:, shortlist + number - 1 : shortlist + number]
            pieces.append(cluster + logits.log_softmax(-1, dtype=torch.float32))
        return torch.cat(pieces, 1)

    def target_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Returns log P(target), (N,) float32, of hidden states (N, M) and targets (N,) int64."""
        found = hidden.new_zeros(hidden.shape[0], dtype=torch.float32)
        for places, part in self._placed_parts(hidden, targets):
            found = chosen_log_probs(part) if places is None else found.index_add(0, places, chosen_log_probs(part))
        return found

    def parts(self, hidden: Tensor, targets: Tensor) -> list[Part]:
        """Returns the cross-entropies whose sum is the loss, from hidden states (N, M) and targets (N,).

        The first is over the shortlist and the clusters, the others over the words of one cluster.
        """
        return [part for _, part in self._placed_parts(hidden, targets)]

    def _placed_parts(self, hidden: Tensor, targets: Tensor) -> Iterator[tuple[Tensor | None, Part]]:
        """Yields the parts, each with the positions of its targets; none: all of them."""
        (embedding,) = self._owner
        shortlist = embedding.ranges[0][1]
        rare = embedding.ranges[1:]
        edges = torch.tensor([low for low, _ in rare], device=targets.device)
        cluster = torch.bucketize(targets, edges, right=True)  # 0: shortlist
        weight, bias = self._head()
        heads = torch.where(cluster > 0, shortlist + cluster - 1, targets)
        yield None, Part(self._narrowed(hidden, 0), weight, bias, heads)
        for number, (low, high) in enumerate(rare, start=1):
            (places,) = (cluster == number).nonzero(as_tuple=True)
            narrowed = self._narrowed(hidden[places], number)
            yield places, Part(narrowed, embedding.table(number), self.bias[low:high], targets[places] - low)

    def _head(self) -> tuple[Tensor, Tensor]:
        (embedding,) = self._owner
        shortlist = embedding.ranges[0][1]
        weight = torch.cat((embedding.table(0), self.cluster_weight))
        return weight, torch.cat((self.bias[:shortlist], self.cluster_bias))

    def _narrowed(self, hidden: Tensor, number: int) -> Tensor:
        """Returns h P_i: (N, M) to the columns of a cluster."""
        (embedding,) = self._owner
        projection = self.projections[number] if number < len(self.projections) else embedding.projection(number)
        return hidden if projection is None else linear(hidden, projection.T)


def _projected(rows: Tensor, projection: Tensor | None) -> Tensor:
    return rows if projection is None else linear(rows, projection)


def chosen_log_probs(part: Part) -> Tensor:
    """Returns log softmax(W h + b)_target, (N,) float32, a few rows at a time."""
    hidden, weight, bias, targets = part
    chunk = max(1, _CHUNK_NUMBERS // weight.shape[0])
    found = []
    for start in range(0, targets.shape[0] or 1, chunk):
        logits = linear(hidden[start : start + chunk], weight, bias).float()
        chosen = logits.gather(1, targets[start : start + chunk, None])[:, 0]
        found.append(chosen - logits.logsumexp(1))
    return torch.cat(found)
