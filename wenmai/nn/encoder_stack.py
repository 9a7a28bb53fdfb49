"""A stack of Transformer encoder blocks as one compiled function for short texts: its table, and its call.

As in :mod:`wenmai.nn.stack`, the kernel trusts the addresses in its table, and this is the only place that writes
them: each belongs to a tensor that is checked and held (:mod:`wenmai.nn.held`), or to memory of the stack itself.
"""

from array import array
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wenmai.kernels import encoder
from wenmai.kernels.blocks import STRIP
from wenmai.nn.held import Held, Parameters
from wenmai.nn.names import ActivationName
from wenmai.nn.stack import ACTIVATIONS, WORTH_A_THREAD, SubLayer, shapes_of, threads_of

__all__ = ["EncoderStack"]


class EncoderStack:
    """A stack of encoder blocks.

    It goes on with the parameters as they are now: they are held here, and whoever writes to them or shares them with
    another process ends it. Threads may share it; they take turns.

    Args:
        blocks: Self-attention and feed-forward network of each.
        num_heads: H.
        pre_norm: Whether layer norms come before a part of a block rather than after its sum.
        activation: Of the feed-forward networks.
        epsilon: Of the layer norms.

    Raises:
        ValueError: if a tensor is not float32, contiguous and on the CPU, or sizes do not fit: F and the size of a
            head are multiples of 16.
    """

    def __init__(
        self,
        blocks: Sequence[tuple[SubLayer, SubLayer]],
        *,
        num_heads: int,
        pre_norm: bool,
        activation: ActivationName,
        epsilon: float,
    ) -> None:
        self.num_heads, self.num_blocks = num_heads, len(blocks)
        ffn, hidden = self.ffn_size, self.hidden_size = blocks[0][1].first_weight.shape
        if ffn % STRIP or hidden % (STRIP * num_heads):
            raise ValueError(f"sizes are no multiples of {STRIP}")
        parts = []
        for attention, network in blocks:
            parts += shapes_of(attention, 3 * hidden, hidden, outputs=hidden)
            parts += shapes_of(network, ffn, ffn, outputs=hidden)
        self._parameters = Parameters(parts)
        table = self._table = array("q", bytes(8 * encoder.HEAD)) + array("q", self._parameters.addresses)
        self._where = table.buffer_info()[0]
        table[encoder.HIDDEN], table[encoder.HEADS], table[encoder.FFN] = hidden, num_heads, ffn
        table[encoder.BLOCKS] = len(blocks)
        table[encoder.PRE_NORM], table[encoder.ACTIVATION] = pre_norm, ACTIVATIONS[activation]
        table[encoder.EPSILON] = int(np.float32(epsilon).view(np.int32))  # its four bytes come first
        self._products = (4 * hidden**2 + 2 * hidden * ffn) // encoder.BARRIERS
        self._allocated = (0, 0)  # rows and threads that the working memory is for
        self._memory = np.empty(0, np.float32)
        self._lock = Lock()  # the table and the working memory are for one text at a time

    def states(self, hidden: Tensor) -> Tensor:
        """Returns the states of all blocks.

        Args:
            hidden: (T, M), the embedded text.

        Returns:
            (blocks, T, M), without the norm that ends a stack of pre-norm blocks.

        Raises:
            ValueError: if ``hidden`` does not fit, or the parameters were changed in place.
        """
        with self._lock:
            table, (rows, _) = self._table, hidden.shape
            held = Held(hidden, (rows, self.hidden_size), "the embedded text")
            threads = threads_of()
            worth = rows * self._products // WORTH_A_THREAD
            number = 1 if threads is None else max(1, min(torch.get_num_threads(), self.num_heads, worth))
            self._allocate(rows, number)
            states = torch.empty(self.num_blocks, rows, self.hidden_size, dtype=torch.float32, device="cpu")
            table[encoder.INPUT], table[encoder.OUTPUT] = held.address, states.data_ptr()
            self._parameters.require_unchanged()
            alone, address = _kernel()
            if threads is None or number == 1:
                alone(self._where)
            else:
                threads.run(address, self._where, number, 0)
            return states

    def _allocate(self, rows: int, number: int) -> None:
        """Allocates working memory for so many rows and threads."""
        if (rows, number) == self._allocated:
            return
        self._allocated, table = (rows, number), self._table
        threads = threads_of()
        functions = (0, 0, 0) if threads is None or number == 1 else threads[1:]
        hidden = rows * self.hidden_size
        own = 2 * hidden + rows + STRIP  # scores are written four at a time
        parts = (3 * hidden, 2 * hidden, hidden, rows * self.ffn_size, hidden, number * own)
        self._memory = np.empty(sum(parts), np.float32)
        begins = self._memory.ctypes.data + 4 * np.cumsum([0, *parts[:-1]])
        places = (encoder.QUERIES, encoder.KEYS, encoder.CONTEXT, encoder.INNER, encoder.OUTER, encoder.OWN)
        for place, begin in zip(places, begins.tolist(), strict=True):
            table[place] = begin
        table[encoder.TEAM], table[encoder.THREAD_NUMBER], table[encoder.BARRIER] = functions
        table[encoder.ROWS], table[encoder.OWN_BYTES] = rows, 4 * own


@cache
def _kernel() -> tuple[Any, int]:
    """The compiled function for Python, and its address."""
    kernel = encoder.kernel()
    return kernel.ctypes, kernel.address
