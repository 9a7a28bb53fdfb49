"""A stack of Transformer encoder blocks over one short text, compiled.

What :mod:`wenmai.kernels.decoder` is for one position, this is for a text of few tokens, which all see each other: the
rows are its tokens, and the blocks are

    x ← x + attention(x)      x ← x + ffn(x)      layer norm before each (pre) or after each sum (post)

Nothing here checks what the addresses point to: :class:`wenmai.nn.encoder_stack.EncoderStack` is the only caller.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cfunc
from numba.core import types

from wenmai.kernels.blocks import (
    PART_PLACES,
    RELU,
    activate,
    add_rows,
    attend,
    call,
    call_number,
    copy,
    inputs_of,
    number_at,
    product,
    share_of,
)
from wenmai.kernels.simd import load_float, load_int

__all__ = ["BARRIERS", "BLOCK_PLACES", "kernel"]  # and the places below

_MADE_OF = "blocks.py 0bed00d9ea73, simd.py 0a572d10aeed"  # for numba's cache, as in window.py

# Places at the head of the table.
# fmt: off
(
    ROWS, HIDDEN, HEADS, FFN, BLOCKS,  # T, M, H, F, how many
    PRE_NORM, ACTIVATION, EPSILON,  # a flag; RELU, GELU or GELU_TANH; float32
    TEAM, THREAD_NUMBER, BARRIER,  # functions: how many they are, 0 for one; one's own number; waiting for each other
    INPUT, OUTPUT,  # [T, M]; [blocks, T, M]
    QUERIES, KEYS, CONTEXT, INNER, OUTER,  # working memory: [T, 3M], [2, T, M], [T, M], [T, F], [T, M]
    OWN, OWN_BYTES,  # working memory of each thread
    HEAD,  # how many these are
) = range(21)
# fmt: on

BARRIERS = 4  # of a block
BLOCK_PLACES = 2 * PART_PLACES
_PART, _BLOCK = 8 * PART_PLACES, 8 * BLOCK_PLACES  # bytes


def _run(table):
    """Writes the states of all blocks: one thread's part of them."""
    rows, width = number_at(table, ROWS), number_at(table, HIDDEN)
    heads, ffn = number_at(table, HEADS), number_at(table, FFN)
    team, barrier = number_at(table, TEAM), number_at(table, BARRIER)
    threads = call_number(team) if team else 1
    thread = call_number(number_at(table, THREAD_NUMBER)) if team else 0
    pre_norm, activation = number_at(table, PRE_NORM), number_at(table, ACTIVATION)
    epsilon = load_float(table + 8 * EPSILON)
    queries, context = number_at(table, QUERIES), number_at(table, CONTEXT)
    inner, outer, output = number_at(table, INNER), number_at(table, OUTER), number_at(table, OUTPUT)

    nothing = np.int64(0)  # typed: numba would compile a function anew for each plain constant
    size = 4 * width
    piece = size // heads  # of a head, in bytes
    hidden = number_at(table, OWN) + thread * number_at(table, OWN_BYTES)
    normed = hidden + rows * size
    scores = normed + rows * size
    low, high = heads * thread // threads, heads * (thread + 1) // threads  # heads of this thread
    left, right = low * piece // 4, high * piece // 4  # their outputs
    begin, end = share_of(width, thread, threads), share_of(width, thread + 1, threads)
    begin_inner, end_inner = share_of(ffn, thread, threads), share_of(ffn, thread + 1, threads)

    copy(number_at(table, INPUT), hidden, rows * size)
    for number in range(number_at(table, BLOCKS)):
        part = table + 8 * HEAD + number * _BLOCK
        x = inputs_of(part, hidden, normed, rows, size, pre_norm, epsilon)
        for third in range(nothing, 3 * width, width):
            product(x, size, rows, load_int(part), load_int(part + 8), queries, 3 * size,
                    third + left, third + right, 3 * width, nothing)  # fmt: skip
        for head in range(low, high):
            keys = number_at(table, KEYS) + 2 * head * rows * piece
            values = keys + rows * piece
            for n in range(rows):
                query = queries + n * 3 * size + head * piece
                copy(query + size, keys + n * piece, piece)
                copy(query + 2 * size, values + n * piece, piece)
            for n in range(rows):
                attend(queries + n * 3 * size + head * piece, keys, values, nothing, rows, nothing, piece, scores,
                       context + n * size + head * piece)  # fmt: skip
        if barrier:
            call(barrier)
        product(context, size, rows, load_int(part + 16), load_int(part + 24), outer, size, begin, end, width, nothing)
        if barrier:
            call(barrier)
        add_rows(part, hidden, outer, rows, size, pre_norm, epsilon)

        part += _PART
        x = inputs_of(part, hidden, normed, rows, size, pre_norm, epsilon)
        product(x, size, rows, load_int(part), load_int(part + 8), inner, 4 * ffn,
                begin_inner, end_inner, ffn, 1 - min(activation, 1))  # fmt: skip
        if activation != RELU:
            for n in range(rows):
                activate(activation, inner + 4 * (n * ffn + begin_inner), inner + 4 * (n * ffn + end_inner))
        if barrier:
            call(barrier)
        product(inner, 4 * ffn, rows, load_int(part + 16), load_int(part + 24), outer, size, begin, end, width, nothing)
        if barrier:
            call(barrier)
        add_rows(part, hidden, outer, rows, size, pre_norm, epsilon)
        if thread == 0:
            copy(hidden, output + number * rows * size, rows * size)


@cache
def kernel() -> Any:
    """Returns the function ``void f(table)``: compiled once, then read from numba's cache."""
    return cfunc(types.void(types.int64), cache=True, error_model="numpy")(_run)
