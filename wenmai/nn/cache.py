"""Caches of keys and values: buffers with an explicit length, owned by the caller."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["DecoderCache", "DecoderState", "KeyValue", "RollingKeyValue"]


class KeyValue:
    """Keys and values of one attention layer, in one preallocated buffer.

    Args:
        buffer: (2, B, H, capacity, D): keys, then values.
        length: Positions that are filled.
    """

    def __init__(self, buffer: Tensor, *, length: int = 0) -> None:
        self.buffer = buffer
        self.length = length
        self._spare: Tensor | None = None

    @classmethod
    def empty(
        cls, batch_size: int, num_heads: int, capacity: int, head_size: int, *, like: Tensor | None = None
    ) -> "KeyValue":
        """Returns an empty cache for ``capacity`` positions, of the type and device of ``like``."""
        shape = (2, batch_size, num_heads, capacity, head_size)
        return cls(torch.empty(shape) if like is None else like.new_empty(shape))

    @property
    def capacity(self) -> int:
        """Most positions it can hold."""
        return self.buffer.shape[3]

    @property
    def batch_size(self) -> int:
        """Rows."""
        return self.buffer.shape[1]

    def filled(self) -> tuple[Tensor, Tensor]:
        """Returns views of keys and values, (B, H, length, D) each."""
        key, value = self.buffer[:, :, :, : self.length].unbind(0)
        return key, value

    def append(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new positions after the filled ones and returns all filled ones.

        Args:
            keys_values: (2, B, H, T, D): keys, then values.

        Returns:
            Views of keys and values, (B, H, length, D) each, with the new length.

        Raises:
            ValueError: if they exceed the capacity.
        """
        begin = self.length
        self.extend(keys_values.shape[3])
        self.buffer[:, :, :, begin : self.length] = keys_values
        return self.filled()

    def extend(self, count: int) -> None:
        """Counts ``count`` more positions as filled; the caller writes them.

        Raises:
            ValueError: if they exceed the capacity.
        """
        self.require_room(count)
        self.length += count

    def require_room(self, count: int) -> None:
        """Makes sure that ``count`` more positions fit.

        Raises:
            ValueError: if they exceed the capacity.
        """
        end = self.length + count
        if end > self.buffer.shape[3]:
            raise ValueError(f"the cache holds at most {self.capacity} positions; position {end} does not fit")

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Replaces the rows by ``rows`` (K,) int64 of them: repeated, reordered or left out. Gradients end here."""
        shape = (2, rows.shape[0], *self.buffer.shape[2:])
        other = self._spare  # two buffers in turn: rows are copied once, not there and back
        if other is None or other.shape != shape:
            other = self.buffer.new_empty(shape)
        filled = (slice(None), slice(None), slice(None), slice(self.length))
        torch.index_select(self.buffer[filled], 1, rows, out=other[filled])
        self.buffer, self._spare = other, self.buffer if self.buffer.shape == shape else None

    def load(self, keys_values: Tensor) -> None:
        """Holds these positions (2, B, H, T, D) and no others, in as many rows.

        Raises:
            ValueError: if they have another shape, or exceed the capacity.
        """
        heads, length, size = keys_values.shape[2:] if keys_values.dim() == 5 else (0, 0, 0)
        if (heads, size) != (self.buffer.shape[2], self.buffer.shape[4]) or keys_values.shape[0] != 2:
            raise ValueError(f"keys and values of the shape {tuple(keys_values.shape)} do not fit this layer")
        if length > self.capacity:
            raise ValueError(f"the cache holds at most {self.capacity} positions, not {length}")
        if keys_values.shape[1] != self.batch_size:
            self.buffer = self.buffer.new_empty((2, keys_values.shape[1], *self.buffer.shape[2:]))
        self.buffer[:, :, :, :length] = keys_values
        self.length = length

    def crop(self, length: int) -> None:
        """Forgets every position from ``length`` on.

        Raises:
            ValueError: if fewer are filled.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"the cache holds {self.length} positions and cannot be cut to {length}")
        self.length = length


class RollingKeyValue(KeyValue):
    """Keys and values of the last positions; earlier ones are dropped, and the buffer grows as needed.

    Args:
        buffer: As of :class:`KeyValue`.
        reach: Positions before the new ones that are still attended to.
        length: Positions that are filled.
    """

    def __init__(self, buffer: Tensor, *, reach: int, length: int = 0) -> None:
        super().__init__(buffer, length=length)
        self.reach = reach

    def filled(self) -> tuple[Tensor, Tensor]:
        """Returns views of keys and values of the last ``reach`` positions, or of as many as there are."""
        return self._last(min(self.length, self.reach))

    def append(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new positions and returns them after the last ``reach`` before them.

        Args:
            keys_values: (2, B, H, T, D): keys, then values.

        Returns:
            Views of keys and values, (B, H, up to reach + T, D) each.
        """
        kept = min(self.length, self.reach)
        needed = kept + keys_values.shape[3]
        if self.length + keys_values.shape[3] > self.capacity:
            buffer = self.buffer.new_empty(
                (*self.buffer.shape[:3], needed + max(64, needed // 4), self.buffer.shape[4])
            )
            buffer[:, :, :, :kept] = self.buffer[:, :, :, self.length - kept : self.length]
            self.buffer, self.length = buffer, kept
        super().append(keys_values)
        return self._last(needed)

    def load(self, keys_values: Tensor) -> None:
        """Holds these positions (2, B, H, T, D) and no others, in as many rows.

        Raises:
            ValueError: if they have another shape.
        """
        if keys_values.dim() == 5 and keys_values.shape[3] > self.capacity:
            self.buffer = self.buffer.new_empty((*self.buffer.shape[:3], keys_values.shape[3], self.buffer.shape[4]))
        super().load(keys_values)

    def _last(self, count: int) -> tuple[Tensor, Tensor]:
        key, value = self.buffer[:, :, :, self.length - count : self.length].unbind(0)
        return key, value


@dataclass(slots=True)
class DecoderCache:
    """The state of one decoder layer.

    Attributes:
        own: Keys and values of the positions so far, one row for each hypothesis.
        memory: Keys and values of the encoder's output, one row for each source.
    """

    own: KeyValue
    memory: KeyValue


class DecoderState:
    """The state of decoding a batch: a cache for each layer.

    The hypotheses of one source share its row of the memory while every source has equally many, side by side.

    Args:
        caches: One for each layer, of B rows.
        memory_mask: (B, 1, 1, S) bool, True = real token; None: no padding.
        need_attention: Whether each step returns attention weights.
        compiled: Takes a step in place of the model's modules, from (N,) tokens and this state to (N, V) logits; for
            few hypotheses, where the model has it.
    """

    def __init__(
        self,
        caches: list[DecoderCache],
        *,
        memory_mask: Tensor | None = None,
        need_attention: bool = False,
        compiled: "Callable[[Tensor, DecoderState], Tensor] | None" = None,
    ) -> None:
        self.caches = caches
        self.memory_mask = memory_mask
        self.need_attention = need_attention
        self.compiled = compiled

    @property
    def length(self) -> int:
        """Steps taken."""
        return self.caches[0].own.length

    @property
    def batch_size(self) -> int:
        """Hypotheses."""
        return self.caches[0].own.batch_size

    @property
    def sources(self) -> int:
        """Rows of the memory; a divisor of :attr:`batch_size`."""
        return self.caches[0].memory.batch_size

    def select(self, rows: Tensor) -> None:
        """Replaces the hypotheses by ``rows`` (K,) int64 of them: repeated, reordered or left out."""
        sources = rows // max(1, self.batch_size // max(1, self.sources))  # (K,) of each new hypothesis
        shared = int((sources == sources[0]).sum()) if rows.shape[0] else 1
        grouped = rows.shape[0] % shared == 0 and bool((sources.view(-1, shared) == sources[::shared, None]).all())
        if grouped:
            sources = sources[::shared]
        kept = sources.shape[0] == self.sources and bool(
            (sources == torch.arange(self.sources, device=rows.device)).all()
        )
        for cache in self.caches:
            cache.own.select(rows)
            if not kept:
                cache.memory.select(sources)
        if self.memory_mask is not None and not kept:
            self.memory_mask = self.memory_mask.index_select(0, sources)
