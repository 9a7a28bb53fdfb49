"""A stack of Transformer decoder blocks as one compiled function: the table of the kernel, and its call.

The kernel trusts the addresses in its table. This is the only place that writes them: each belongs to a tensor that is
checked and held (:mod:`wenmai.nn.held`), or to memory of the stack itself.

Its threads are those of the OpenMP library that PyTorch computes with, where that is GNU's, as on Linux: a second pool
would compete with PyTorch's for the processor. Elsewhere there is one thread.
"""

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wenmai.kernels import decoder
from wenmai.kernels.blocks import GELU, GELU_TANH, PART_PLACES, RELU, STRIP
from wenmai.nn.cache import KeyValue
from wenmai.nn.held import Held, Parameters
from wenmai.nn.names import ActivationName

__all__ = ["ACTIVATIONS", "WORTH_A_THREAD", "Block", "Stack", "SubLayer", "shapes_of", "threads_of"]

WORTH_A_THREAD = 1 << 16  # multiplications between two places where threads wait for each other

_Shaped = tuple[Tensor | None, tuple[int, ...]]

ACTIVATIONS: dict[ActivationName, int] = {"relu": RELU, "gelu": GELU, "gelu_tanh": GELU_TANH}


class SubLayer(NamedTuple):
    """The parameters of one part of a block, float32; weights are (out, in).

    ``first`` makes queries, keys and values side by side (3M, M), only queries over a memory (M, M), or the inner layer
    of a feed-forward network (F, M); ``second`` leads back to M.
    """

    first_weight: Tensor
    first_bias: Tensor | None
    second_weight: Tensor
    second_bias: Tensor | None
    norm_weight: Tensor | None
    norm_bias: Tensor | None


class Block(NamedTuple):
    """A block of the stack; without ``memory`` it attends to its own positions only."""

    attention: SubLayer
    memory: SubLayer | None
    ffn: SubLayer


class _Threads(NamedTuple):
    """Functions of the OpenMP library."""

    run: Any  # f(function, its argument, how many threads, 0)
    team: int  # the addresses of: how many threads there are,
    number: int  # which one this is,
    barrier: int  # waiting for the others


@cache
def threads_of() -> _Threads | None:
    """Returns the functions of the OpenMP library that PyTorch computes with; none where it has another."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        run = library.GOMP_parallel
        found = (library.omp_get_num_threads, library.omp_get_thread_num, library.GOMP_barrier)
    except (OSError, AttributeError):
        return None
    run.restype, run.argtypes = None, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    return _Threads(run, *(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found))


class Stack:
    """A stack of decoder blocks, between an embedding matrix and an output matrix.

    It goes on with the parameters as they are now, whatever becomes of the model: they are held here, and whoever
    writes to them or shares them with another process ends it. Threads may share it; they take turns.

    Args:
        blocks: The blocks.
        num_heads: H.
        embedding: (V, M).
        scale: Embeddings are multiplied by it.
        output: (V, M).
        positions: (P, M), added to the embeddings; none: nothing is added.
        output_bias: (V,) or none.
        final_norm: Weight and bias (M,) of a layer norm before the output; none: no norm.
        pre_norm: Whether layer norms come before a part of a block rather than after its sum.
        activation: Of the feed-forward networks.
        epsilon: Of the layer norms.
        window: Earlier positions that self-attention sees; none: all.

    Raises:
        ValueError: if a tensor is not float32, contiguous and on the CPU, or sizes do not fit: F and the size of a
            head are multiples of 16, V at least 4.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        *,
        num_heads: int,
        embedding: Tensor,
        scale: float,
        output: Tensor,
        positions: Tensor | None = None,
        output_bias: Tensor | None = None,
        final_norm: tuple[Tensor, Tensor] | None = None,
        pre_norm: bool,
        activation: ActivationName,
        epsilon: float,
        window: int | None = None,
    ) -> None:
        self.num_heads = num_heads
        vocab, hidden = self.vocab_size, self.hidden_size = output.shape
        self.ffn_size = ffn = blocks[0].ffn.first_weight.shape[0]
        if ffn % STRIP or hidden % (STRIP * num_heads) or vocab < 4 or (window or 0) < 0:
            raise ValueError(f"sizes are no multiples of {STRIP}, or the vocabulary is too small")
        self._has_memory = blocks[0].memory is not None
        self._positions = 0 if positions is None else positions.shape[0]
        norm = (None, None) if final_norm is None else final_norm
        whole = [(embedding, (vocab, hidden)), (output, (vocab, hidden)), (positions, (self._positions, hidden)),
                 (output_bias, (vocab,)), (norm[0], (hidden,)), (norm[1], (hidden,))]  # fmt: skip
        parts: list[_Shaped] = []
        for block in blocks:
            if (block.memory is not None) != self._has_memory:
                raise ValueError("some blocks have a memory, and some have none")
            parts += shapes_of(block.attention, 3 * hidden, hidden, outputs=hidden)
            parts += shapes_of(block.memory, hidden, hidden, outputs=hidden)
            parts += shapes_of(block.ffn, ffn, ffn, outputs=hidden)
        self._parameters = Parameters([*whole, *parts])
        addresses = self._parameters.addresses
        table = self._table = array("q", bytes(8 * (decoder.HEAD + len(blocks) * decoder.BLOCK_PLACES)))
        self._where = table.buffer_info()[0]
        begins = range(decoder.HEAD, len(table), decoder.BLOCK_PLACES)
        self._caches = [begin + 3 * PART_PLACES for begin in begins]
        size = 3 * PART_PLACES
        for number, begin in enumerate(begins):
            first = len(whole) + number * size
            table[begin : begin + size] = array("q", addresses[first : first + size])
        table[decoder.HIDDEN], table[decoder.HEADS], table[decoder.FFN] = hidden, num_heads, ffn
        table[decoder.BLOCKS], table[decoder.VOCAB] = len(blocks), vocab
        table[decoder.WINDOW] = np.iinfo(np.int64).max if window is None else window
        table[decoder.PRE_NORM], table[decoder.ACTIVATION] = pre_norm, ACTIVATIONS[activation]
        table[decoder.EMBEDDING], table[decoder.OUTPUT], self._first_position = addresses[:3]
        table[decoder.OUTPUT_BIAS], table[decoder.FINAL_NORM_WEIGHT], table[decoder.FINAL_NORM_BIAS] = addresses[3:6]
        for place, value in ((decoder.SCALE, scale), (decoder.EPSILON, epsilon)):
            table[place] = int(np.float32(value).view(np.int32))  # its four bytes come first
        self._products = ((4 + 2 * self._has_memory) * hidden**2 + 2 * hidden * ffn) // decoder.BARRIERS
        self._held: dict[int, Held] = {}  # caches and mask, by their place in the table
        self._allocated = (0, 0, 0)  # rows, length and threads that the working memory is for
        self._memory = np.empty(0, np.float32)
        self._tokens = torch.empty(0, dtype=torch.int64, device="cpu")
        self._lock = Lock()  # the table and the working memory are for one step at a time

    def step(
        self, tokens: Tensor, caches: Sequence[tuple[KeyValue, Tensor | None]], *, mask: Tensor | None = None
    ) -> Tensor:
        """Consumes a token for each row, and appends its keys and values to the caches.

        Args:
            tokens: (N,) int64.
            caches: For each block that of its own positions, N rows, and keys and values (2, sources, H, S, D) of the
                memory, or none.
            mask: (sources, ..., S) bool: which positions of the memory are attended to; none: all.

        Returns:
            Logits (N, V).

        Raises:
            IndexError: if a token is not in the vocabulary.
            ValueError: if the caches are full, or do not fit; or if the parameters were changed in place.
        """
        with self._lock:
            return self._step(tokens, caches, mask)

    def _step(self, tokens: Tensor, caches: Sequence[tuple[KeyValue, Tensor | None]], mask: Tensor | None) -> Tensor:
        table, (rows,) = self._table, tokens.shape
        own, memory = caches[0]
        own.require_room(1)
        length, capacity, head_size = own.length, own.capacity, self.hidden_size // self.num_heads
        if self._positions and length >= self._positions:
            raise ValueError(f"position {length + 1} was asked for; there are {self._positions}")
        sources, source_length = (0, 0) if memory is None else (memory.shape[1], memory.shape[3])
        if memory is not None and (not source_length or (rows and (not sources or rows % sources))):
            raise ValueError(f"{rows} rows cannot share a memory of {sources} rows and {source_length} positions")
        shape = (2, rows, self.num_heads, capacity, head_size)
        memory_shape = (2, sources, self.num_heads, source_length, head_size)
        for place, (positions, known) in zip(self._caches, caches, strict=True):
            if positions.length != length or (known is not None) != self._has_memory:
                raise ValueError("the caches of the blocks do not fit each other")
            self._hold(place, positions.buffer, shape, "a cache")
            if known is not None:
                self._hold(place + 1, known, memory_shape, "a memory")
        table[decoder.MASK] = 0
        if mask is not None:
            if mask.numel() != sources * source_length:
                raise ValueError(f"a mask of the shape {(*mask.shape,)} does not fit the memory")
            self._hold(decoder.MASK, mask, mask.shape, "a mask", torch.bool)
        table[decoder.POSITION], table[decoder.CAPACITY] = length, capacity
        table[decoder.SOURCES], table[decoder.SOURCE_LENGTH] = sources, source_length
        table[decoder.POSITIONS] = self._first_position and self._first_position + 4 * length * self.hidden_size
        threads = threads_of()
        worth = rows * self._products // WORTH_A_THREAD
        number = 1 if threads is None else max(1, min(torch.get_num_threads(), self.num_heads, worth))
        self._allocate((rows, max(capacity, source_length), number), threads)
        self._tokens.copy_(tokens)
        logits = torch.empty(rows, self.vocab_size, dtype=torch.float32, device="cpu")
        table[decoder.LOGITS] = logits.data_ptr()
        self._parameters.require_unchanged()
        alone, address = _kernel()
        if threads is None or number == 1:
            alone(self._where)
        else:
            threads.run(address, self._where, number, 0)
        if table[decoder.STATUS]:
            table[decoder.STATUS] = 0
            raise IndexError(f"a token is none of the {self.vocab_size} of the vocabulary")
        for positions, _ in caches:
            positions.extend(1)
        return logits

    def _hold(
        self, place: int, tensor: Tensor, shape: Sequence[int], what: str, dtype: torch.dtype = torch.float32
    ) -> None:
        """Notes the address of a tensor, which is held until another comes into its place."""
        held = self._held.get(place)
        if held is None or held.address != tensor.data_ptr() or held.shape != shape or not held.describes(tensor):
            self._held[place] = held = Held(tensor, shape, what, dtype)
        self._table[place] = held.address

    def _allocate(self, sizes: tuple[int, int, int], threads: _Threads | None) -> None:
        """Allocates working memory for so many rows, positions and threads."""
        if sizes == self._allocated:
            return
        self._allocated, table = sizes, self._table
        rows, length, number = sizes
        functions = (0, 0, 0) if threads is None or number == 1 else threads[1:]
        hidden = rows * self.hidden_size
        own = 2 * hidden + length + STRIP  # scores are written four at a time
        parts = (3 * hidden, hidden, rows * self.ffn_size, hidden, number * own)
        self._memory = np.empty(sum(parts), np.float32)
        begins = self._memory.ctypes.data + 4 * np.cumsum([0, *parts[:-1]])
        places = (decoder.QUERIES, decoder.CONTEXT, decoder.INNER, decoder.OUTER, decoder.OWN)
        for place, begin in zip(places, begins.tolist(), strict=True):
            table[place] = begin
        table[decoder.TEAM], table[decoder.THREAD_NUMBER], table[decoder.BARRIER] = functions
        table[decoder.ROWS], table[decoder.OWN_BYTES] = rows, 4 * own
        self._tokens = torch.empty(rows, dtype=torch.int64, device="cpu")
        table[decoder.TOKENS] = self._tokens.data_ptr()


def shapes_of(part: SubLayer | None, first: int, second: int, *, outputs: int) -> list[_Shaped]:
    """The tensors of a part of a block, with the shapes that they must have.

    Args:
        part: The part, or none.
        first: Rows of its first weight.
        second: Columns of its second weight.
        outputs: M.
    """
    if part is None:
        return [(None, ())] * len(SubLayer._fields)
    if part.norm_weight is None or part.norm_bias is None:
        raise ValueError("a layer norm has no weight or no bias")
    shapes = ((first, outputs), (first,), (outputs, second), (outputs,), (outputs,), (outputs,))
    return list(zip(part, shapes, strict=True))


@cache
def _kernel() -> tuple[Any, int]:
    """The compiled step as a function of Python, and its address."""
    kernel = decoder.kernel()
    return kernel.ctypes, kernel.address
