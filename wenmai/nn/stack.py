"""A stack of Transformer decoder blocks as one compiled function: the table of the kernel, and its call.

Its threads are those of the OpenMP library that PyTorch computes with, where that is GNU's, as on Linux: a second pool
would compete with PyTorch's for the processor. Elsewhere there is one thread.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wenmai.kernels import decoder
from wenmai.nn.transformer import ActivationName

__all__ = ["Block", "Stack", "SubLayer"]

_ACTIVATIONS: dict[ActivationName, int] = {"relu": decoder.RELU, "gelu": decoder.GELU, "gelu_tanh": decoder.GELU_TANH}


class SubLayer(NamedTuple):
    """The parameters of one part of a block, float32; weights are (out, in).

    ``first`` makes queries, keys and values side by side (3M, M), only queries over a memory (M, M), or the inner layer
    of a feed-forward network (F, M); ``second`` leads back to M.
    """

    first_weight: Tensor
    first_bias: Tensor | None
    second_weight: Tensor
    second_bias: Tensor | None
    norm_weight: Tensor
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
def _threads() -> _Threads | None:
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

    It keeps addresses of the parameters: they may be changed in place, not replaced or moved.

    Args:
        blocks: The blocks.
        num_heads: H.
        embedding: (V, M).
        scale: Embeddings are multiplied by it.
        output: (V, M).
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
        output_bias: Tensor | None = None,
        final_norm: tuple[Tensor, Tensor] | None = None,
        pre_norm: bool,
        activation: ActivationName,
        epsilon: float,
        window: int | None = None,
    ) -> None:
        self.num_heads = num_heads
        self.vocab_size, self.hidden_size = output.shape
        self.ffn_size = blocks[0].ffn.first_weight.shape[0]
        norm = (None, None) if final_norm is None else final_norm
        parts = [part or (None,) * len(SubLayer._fields) for block in blocks for part in block]
        self._parameters = [embedding, output, output_bias, *norm, *(tensor for part in parts for tensor in part)]
        wrong = [tensor for tensor in self._parameters if tensor is not None and not _usable(tensor)]
        if (
            wrong
            or self.ffn_size % decoder.STRIP
            or self.hidden_size % (decoder.STRIP * num_heads)
            or self.vocab_size < 4
        ):
            raise ValueError(
                f"parameters are not contiguous float32 on the CPU, or sizes no multiples of {decoder.STRIP}"
            )
        self._table = table = np.zeros(decoder.HEAD + len(blocks) * decoder.BLOCK_PLACES, np.int64)
        begins = range(decoder.HEAD, len(table), decoder.BLOCK_PLACES)
        self._caches = [begin + 3 * decoder.PART_PLACES for begin in begins]
        for number, begin in enumerate(begins):
            addresses = [_address(tensor) for part in parts[3 * number : 3 * number + 3] for tensor in part]
            table[begin : begin + len(addresses)] = addresses
        table[decoder.HIDDEN], table[decoder.HEADS], table[decoder.FFN] = self.hidden_size, num_heads, self.ffn_size
        table[decoder.BLOCKS], table[decoder.VOCAB] = len(blocks), self.vocab_size
        table[decoder.WINDOW] = np.iinfo(np.int64).max if window is None else window
        table[decoder.PRE_NORM], table[decoder.ACTIVATION] = pre_norm, _ACTIVATIONS[activation]
        table[decoder.EMBEDDING], table[decoder.OUTPUT] = embedding.data_ptr(), output.data_ptr()
        table[decoder.OUTPUT_BIAS] = _address(output_bias)
        table[decoder.FINAL_NORM_WEIGHT], table[decoder.FINAL_NORM_BIAS] = map(_address, norm)
        for place, value in ((decoder.SCALE, scale), (decoder.EPSILON, epsilon)):
            table[place] = np.float32(value).view(np.int32)  # its four bytes come first
        self._allocated = (0, 0, 0)  # rows, length and threads that the working memory is for
        self._memory = np.empty(0, np.float32)

    def step(
        self,
        tokens: Tensor,
        caches: Sequence[tuple[Tensor, Tensor | None]],
        *,
        length: int,
        position: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Consumes a token for each row, and writes its keys and values into the caches.

        Args:
            tokens: (N,) int64.
            caches: For each block the keys, then values of the positions so far, (2, N, H, capacity, D), with space
                for one more, and (2, sources, H, S, D) of a memory, or none; contiguous float32.
            length: Positions that are filled, t.
            position: (M,) added to the embeddings.
            mask: (sources, ..., S) bool, contiguous: which positions of the memory are attended to; none: all.

        Returns:
            Logits (N, V).

        Raises:
            IndexError: if a token is not in the vocabulary.
        """
        table, rows = self._table, tokens.shape[0]
        logits = torch.empty(rows, self.vocab_size)
        for place, (own, memory) in zip(self._caches, caches, strict=True):
            table[place], table[place + 1] = own.data_ptr(), _address(memory)
        own, memory = caches[0]
        table[decoder.POSITION], table[decoder.CAPACITY] = length, own.shape[3]
        if memory is not None:
            table[decoder.SOURCES], table[decoder.SOURCE_LENGTH] = memory.shape[1], memory.shape[3]
        threads = _threads()
        number = 1 if threads is None else min(torch.get_num_threads(), self.num_heads)
        self._allocate((rows, max(own.shape[3], 0 if memory is None else memory.shape[3]), number), threads)
        tokens = tokens.to("cpu", torch.int64).contiguous()
        table[decoder.TOKENS], table[decoder.LOGITS] = tokens.data_ptr(), logits.data_ptr()
        table[decoder.POSITIONS], table[decoder.MASK] = _address(position), _address(mask)
        if threads is None or number == 1:
            decoder.kernel().ctypes(table.ctypes.data)
        else:
            threads.run(decoder.kernel().address, table.ctypes.data, number, 0)
        if table[decoder.STATUS]:
            table[decoder.STATUS] = 0
            raise IndexError(f"a token is none of the {self.vocab_size} of the vocabulary")
        return logits

    def _allocate(self, sizes: tuple[int, int, int], threads: _Threads | None) -> None:
        """Allocates working memory for so many rows, positions and threads."""
        if sizes == self._allocated:
            return
        self._allocated, table = sizes, self._table
        rows, length, number = sizes
        functions = (0, 0, 0) if threads is None or number == 1 else threads[1:]
        hidden = rows * self.hidden_size
        own = 2 * hidden + length + decoder.STRIP  # scores are written four at a time
        parts = (3 * hidden, hidden, rows * self.ffn_size, hidden, number * own)
        self._memory = np.empty(sum(parts), np.float32)
        begins = self._memory.ctypes.data + 4 * np.cumsum([0, *parts[:-1]])
        table[[decoder.QUERIES, decoder.CONTEXT, decoder.INNER, decoder.OUTER, decoder.OWN]] = begins
        table[[decoder.TEAM, decoder.THREAD_NUMBER, decoder.BARRIER]] = functions
        table[decoder.ROWS], table[decoder.OWN_BYTES] = rows, 4 * own


def _usable(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.is_contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
