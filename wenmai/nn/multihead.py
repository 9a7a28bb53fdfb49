"""Multi-head attention over one sequence or over a memory, with caches, windows and biases."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.attention import Attention, attend
from wenmai.nn.biases import Bias, Structure
from wenmai.nn.cache import KeyValue
from wenmai.nn.linear import Linear
from wenmai.nn.masks import Mask, window

__all__ = ["MultiHead", "banded_attend", "rows_at"]


class MultiHead(Attention):
    """concat(head_1 .. head_H) W^O, head_i = attention(Q W_i^Q, K W_i^K, V W_i^V) (Vaswani et al. 2017, section 3.2.2).

    Queries, keys and values of self-attention come from one product, keys and values of a memory from another.

    Args:
        hidden_size: M.
        num_heads: H; M is a multiple of it.
        memory_size: Size of the memory that is attended to; None: self-attention.
        dropout: Of the weights, while training.
        bias: Whether projections have biases.
        relative: Bias of self-attention, from the relation of two positions.
        window: Radius r of restricted self-attention: i sees j only where abs(i - j) <= r.

    Raises:
        ValueError: if the sizes do not fit, or a memory is combined with a bias of scores or a window.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *,
        memory_size: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        relative: Bias | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        if hidden_size % num_heads:
            raise ValueError(f"hidden_size={hidden_size} is not a multiple of num_heads={num_heads}")
        if memory_size is not None and (relative is not None or window is not None):
            raise ValueError("biases of scores and windows are for self-attention; leave them out with a memory")
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.dropout = dropout
        self.relative = relative
        self.window = window
        self.over_memory = memory_size is not None
        if memory_size is None:
            self.qkv = Linear(hidden_size, 3 * hidden_size, bias)
        else:
            self.query = Linear(hidden_size, hidden_size, bias)
            self.memory = Linear(memory_size, 2 * hidden_size, bias)
        self.output = Linear(hidden_size, hidden_size, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform for W^Q, W^K, W^V and W^O, each for itself; zero biases."""
        for part in self.children():
            if isinstance(part, Linear):
                for matrix in part.weight.detach().view(-1, self.hidden_size, part.in_features):
                    nn.init.xavier_uniform_(matrix)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        structure: Structure | None = None,
        cache: KeyValue | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Attends.

        Args:
            hidden: (B, T, M) queries.
            memory: (B, S, memory_size), not needed when ``cache`` holds what :meth:`project_memory` returned. Of
                self-attention without a cache: (B, S - T, M), hidden states before these, or none.
            mask: As of :func:`wenmai.nn.attention.attend`, over all S positions.
            structure: Of the S positions, for the bias of self-attention.
            cache: Self-attention: earlier positions, which the new ones are appended to. Memory: its keys and values;
                it may have fewer rows than there are queries, whose rows then share one each, in order.
            places: Self-attention without window: (B, K) int64, the positions that are queries; None: all.

        Returns:
            (B, T, M), or (B, K, M).

        Raises:
            ValueError: if there is neither a memory nor a cache of it, or there are ``places`` for a window or for a
                bias that knows whole sequences only.
        """
        if places is not None:
            return self._attend_at(hidden, places, mask, structure)
        shape = hidden.shape
        if self.over_memory:
            if cache is not None:  # hypotheses that share a row of the memory are queries of one sequence
                hidden = hidden.view(cache.batch_size, -1, self.hidden_size)
            query = self._heads(self.query(hidden))[0]
            if cache is not None:
                key, value = cache.filled()
            elif memory is not None:
                key, value = self.project_memory(memory).unbind(0)
            else:
                raise ValueError("attention over a memory was given neither the memory nor its cache")
        elif cache is not None:
            projected = self._heads(self.qkv(hidden))
            query = projected[0]
            key, value = cache.append(projected[1:])
        elif memory is None:  # so that the three gradients are joined, not added
            query, key, value = (self._heads(part)[0] for part in self.qkv(hidden).chunk(3, -1))
        else:
            query = self._projected(hidden, slice(self.hidden_size))[0]
            key, value = self.project_memory(torch.cat((memory, hidden), 1)).unbind(0)
        continued = cache is not None or memory is not None
        context = self._attend(query, key, value, mask, structure, continued=continued)
        output: Tensor = self.output(context.transpose(1, 2).reshape(shape))
        return output

    def structure_at(self, structure: Structure, places: Tensor) -> Structure:
        """Returns the structure with some positions (B, K) as queries; a bias for which there is one overrides this.

        Raises:
            ValueError: if the bias knows whole sequences only.
        """
        raise ValueError("some positions alone are queries of plain self-attention only, not with this bias")

    def _attend_at(
        self, hidden: Tensor, places: Tensor, mask: Mask | Tensor | None, structure: Structure | None
    ) -> Tensor:
        """Attends from some positions."""
        if self.over_memory or self.window is not None or isinstance(mask, Mask):
            raise ValueError("some positions alone are queries of plain self-attention only, with a mask of keys")
        structure = None if self.relative is None else self.structure_at(structure or {}, places)
        if mask is not None and mask.shape[2] > 1:
            mask = mask.expand(len(places), 1, -1, -1).gather(
                2, places[:, None, :, None].expand(-1, 1, -1, mask.shape[3])
            )
        query = self._projected(rows_at(hidden, places), slice(self.hidden_size))[0]
        key, value = self._projected(hidden, slice(self.hidden_size, None)).unbind(0)
        context = self._attend(query, key, value, mask, structure, continued=False)
        output: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return output

    def project_memory(self, memory: Tensor) -> Tensor:
        """Returns the keys and values (2, B, H, S, D) of a memory (B, S, memory_size), or of earlier hidden states."""
        if self.over_memory:
            return self._heads(self.memory(memory))
        return self._projected(memory, slice(self.hidden_size, None))

    def _projected(self, hidden: Tensor, rows: slice) -> Tensor:
        """Returns the projections of some rows of ``qkv``, split into heads."""
        return self._heads(self.qkv.rows(hidden, rows))

    def _heads(self, projected: Tensor) -> Tensor:
        """Returns (n, B, H, T, D) of n projections side by side (B, T, n·M)."""
        batch, length, size = projected.shape
        count = size // self.hidden_size  # not left to view: a memory may be of no position
        return projected.view(batch, length, count, self.num_heads, self.head_size).permute(2, 0, 3, 1, 4)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | Tensor | None,
        structure: Structure | None,
        *,
        continued: bool,
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        radius = self.window
        if radius is not None and not self.watched:
            queries = query.shape[2]
            if continued and queries == 1 and mask is None and structure is None:  # the keys in reach are the last ones
                key, value, radius = key[:, :, -radius - 1 :], value[:, :, -radius - 1 :], None
            elif not continued and self.relative is None and queries > 4 * radius and _along_keys(mask):
                return banded_attend(
                    query,
                    key,
                    value,
                    radius=radius,
                    is_causal=isinstance(mask, Mask),
                    valid=mask[:, 0, 0] if isinstance(mask, Tensor) else None,
                    dropout=dropout,
                )
        if radius is not None:
            mask = _windowed(mask, radius, query.shape[2], key.shape[2], query.device)
        if self.relative is None:
            return self.attend(query, key, value, mask=mask, dropout=dropout).context
        query, bias, values = self.relative(query, key, structure or {})
        rows = bias.shape[2]
        if 1 < rows < query.shape[2]:  # the other queries need no bias
            if (
                values is None
                and not self.watched
                and not isinstance(mask, Mask)
                and (mask is None or _along_keys(mask))
            ):
                parts = (query[:, :, :rows], bias), (query[:, :, rows:], None)
                found = [self.attend(part, key, value, mask=mask, bias=one, dropout=dropout) for part, one in parts]
                return torch.cat([one.context for one in found], 2)
            bias = F.pad(bias, (0, 0, 0, query.shape[2] - rows))
        return self.attend(query, key, value, mask=mask, bias=bias, values=values, dropout=dropout).context


def rows_at(hidden: Tensor, places: Tensor) -> Tensor:
    """Returns the states (B, K, M) at ``places`` (B, K) of (B, T, M)."""
    return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[2]))


def banded_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    radius: int,
    is_causal: bool = False,
    valid: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Restricted self-attention, abs(i - j) <= radius, in O(T·radius) memory (Vaswani et al. 2017, section 4).

    The sequence is cut into blocks; each attends to itself and ``radius`` keys on both sides.

    Args:
        query: (B, H, T, D).
        key: (B, H, T, D).
        value: (B, H, T, D).
        radius: r.
        is_causal: Whether a query sees no later key.
        valid: (B, T) bool, True = real token; None: all are.
        dropout: Probability that a weight is dropped.

    Returns:
        The context (B, H, T, D), equal to that of :func:`attend` with the mask ``window(radius, radius)``.
    """
    batch, heads, length, head_size = query.shape
    step = max(2 * radius, 32)  # queries of a block: long enough for efficient matrix products
    blocks = -(-length // step)
    span = step + 2 * radius  # keys of a block
    missing = blocks * step - length

    def windows(tensor: Tensor) -> Tensor:
        padded = F.pad(tensor, (0, 0, radius, missing + radius))
        return padded.unfold(2, span, step).permute(0, 2, 1, 4, 3).flatten(0, 1)  # (B·blocks, H, span, D)

    queries = F.pad(query, (0, 0, 0, missing)).view(batch, heads, blocks, step, head_size)
    queries = queries.transpose(1, 2).flatten(0, 1)  # (B·blocks, H, step, D)
    q = torch.arange(step, device=query.device)[:, None] + radius  # positions counted from the first key of the block
    k = torch.arange(span, device=query.device)
    near = (k - q).abs() <= radius  # (step, span)
    if is_causal:
        near &= k <= q
    first = torch.arange(blocks, device=query.device) * step - radius
    positions = first[:, None] + k  # (blocks, span)
    real = ((positions >= 0) & (positions < length)).expand(batch, blocks, span)
    if valid is not None:
        real = real & F.pad(valid, (radius, missing + radius)).unfold(1, span, step)
    allowed = near & real.reshape(-1, 1, 1, span)  # (B·blocks, 1, step, span)
    context = attend(queries, windows(key), windows(value), mask=allowed, dropout=dropout).context
    context = context.view(batch, blocks, heads, step, -1).transpose(1, 2).flatten(2, 3)
    return context[:, :, :length]


def _along_keys(mask: Mask | Tensor | None) -> bool:
    """Whether a mask is one that :func:`banded_attend` knows: none, plainly causal, or padding."""
    if isinstance(mask, Mask):
        return mask.is_causal
    return mask is None or (mask.dim() == 4 and mask.shape[1:3] == (1, 1))


def _windowed(mask: Mask | Tensor | None, radius: int, queries: int, keys: int, device: torch.device) -> Mask | Tensor:
    near = window(radius, radius)
    if mask is None:
        return near
    if isinstance(mask, Mask):
        return mask & near
    return mask & near.aligned(queries, keys, device=device)
