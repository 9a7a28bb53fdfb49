"""One position of a stack of Transformer decoder blocks for a few rows, compiled.

A step of a small model for one sentence is a hundred tiny products; called one by one, the calls cost more than the
arithmetic. Here the whole stack is one call. A table of int64 says everything: sizes, flags, and the addresses of
parameters, caches and working memory (:mod:`wenmai.nn.stack` fills it in), so that the kernel serves every model
whose blocks are

    x ← x + attention(x), over the cached positions      x ← x + attention(x, memory), left out without a memory
    x ← x + ffn(x)                                       layer norm before each (pre) or after each sum (post)

Threads wait for each other six times in a block.

Nothing here checks what the addresses point to: :class:`wenmai.nn.stack.Stack` is the only caller, and does.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cfunc, njit
from numba.core import types

from wenmai.kernels.blocks import (
    COMPILE,
    PART_PLACES,
    RELU,
    STRIP,
    activate,
    add_rows,
    attend,
    call,
    call_number,
    copy,
    inputs_of,
    norm,
    number_at,
    product,
    share_of,
)
from wenmai.kernels.simd import load, load_float, load_int, multiply_add, store, store_int, zeros

__all__ = ["BLOCK_PLACES", "CACHE_PLACES", "kernel"]  # and the places below

_MADE_OF = "blocks.py 0bed00d9ea73, simd.py 0a572d10aeed"  # for numba's cache, as in window.py

# Places at the head of the table.
# fmt: off
(
    ROWS, HIDDEN, HEADS, FFN, BLOCKS, VOCAB,  # N, M, H, F, how many, V
    POSITION, CAPACITY, WINDOW,  # t of the new tokens; capacity of the cache; positions that are attended to
    SOURCES, SOURCE_LENGTH,  # rows of the memory, a divisor of N, and S
    PRE_NORM, ACTIVATION,  # a flag; RELU, GELU or GELU_TANH
    TEAM, THREAD_NUMBER, BARRIER,  # functions: how many they are, 0 for one; one's own number; waiting for each other
    TOKENS, EMBEDDING, SCALE, POSITIONS,  # int64 [N]; [V, M]; a float32 for all of it; [M] or 0
    MASK, EPSILON,  # bytes [sources, S] or 0; float32
    FINAL_NORM_WEIGHT, FINAL_NORM_BIAS, OUTPUT, OUTPUT_BIAS,  # [M] or 0; likewise; [V, M]; [V] or 0
    LOGITS, QUERIES, CONTEXT, INNER, OUTER,  # [N, V]; working memory: [N, 3M], [N, M], [N, F], [N, M]
    OWN, OWN_BYTES,  # working memory of each thread
    STATUS,  # set to 1 if a token is none of the vocabulary
    HEAD,  # how many these are
) = range(35)
# fmt: on

BARRIERS = 6  # of a block

CACHE_PLACES = 2  # of a block, behind its three parts
BLOCK_PLACES = 3 * PART_PLACES + CACHE_PLACES
_PART, _CACHES, _BLOCK = 8 * PART_PLACES, 24 * PART_PLACES, 8 * BLOCK_PLACES  # bytes


@njit(**COMPILE)
def _embed(table, hidden, rows, size):
    """Writes scale · E[token] + position for each row, or returns False if a token is none of the vocabulary."""
    zero = zeros(STRIP)
    scale = load_float(table + 8 * SCALE)
    position = number_at(table, POSITIONS)
    for n in range(rows):
        token = load_int(number_at(table, TOKENS) + 8 * n)
        if token < 0 or token >= number_at(table, VOCAB):
            return False
        row = number_at(table, EMBEDDING) + token * size
        for j in range(0, size, 4 * STRIP):
            offset = load(position + j, zero) if position else zero
            store(hidden + n * size + j, multiply_add(scale, load(row + j, zero), offset))
    return True


def _run(table):
    """Takes one step: one thread's part of it."""
    rows, width = number_at(table, ROWS), number_at(table, HIDDEN)
    heads, ffn = number_at(table, HEADS), number_at(table, FFN)
    team, barrier = number_at(table, TEAM), number_at(table, BARRIER)
    threads = call_number(team) if team else 1
    thread = call_number(number_at(table, THREAD_NUMBER)) if team else 0
    pre_norm, activation = number_at(table, PRE_NORM), number_at(table, ACTIVATION)
    epsilon = load_float(table + 8 * EPSILON)
    position, capacity = number_at(table, POSITION), number_at(table, CAPACITY)
    sources, source_length, mask = number_at(table, SOURCES), number_at(table, SOURCE_LENGTH), number_at(table, MASK)
    queries, context = number_at(table, QUERIES), number_at(table, CONTEXT)
    inner, outer = number_at(table, INNER), number_at(table, OUTER)

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
    first = max(0, position - number_at(table, WINDOW))

    if not _embed(table, hidden, rows, size):
        store_int(table + 8 * STATUS, 1)
        return
    for number in range(number_at(table, BLOCKS)):
        part = table + 8 * HEAD + number * _BLOCK
        own, memory = load_int(part + _CACHES), load_int(part + _CACHES + 8)

        x = inputs_of(part, hidden, normed, rows, size, pre_norm, epsilon)
        for third in range(nothing, 3 * width, width):
            product(x, size, rows, load_int(part), load_int(part + 8), queries, 3 * size,
                     third + left, third + right, 3 * width, nothing)  # fmt: skip
        for n in range(rows):
            for head in range(low, high):
                query = queries + n * 3 * size + head * piece
                keys = own + (n * heads + head) * capacity * piece
                values = keys + rows * heads * capacity * piece
                copy(query + size, keys + position * piece, piece)
                copy(query + 2 * size, values + position * piece, piece)
                attend(
                    query, keys, values, first, position + 1, nothing, piece, scores, context + n * size + head * piece
                )
        if barrier:
            call(barrier)
        product(context, size, rows, load_int(part + 16), load_int(part + 24), outer, size, begin, end, width, nothing)
        if barrier:
            call(barrier)
        add_rows(part, hidden, outer, rows, size, pre_norm, epsilon)

        part += _PART
        if memory:
            x = inputs_of(part, hidden, normed, rows, size, pre_norm, epsilon)
            product(x, size, rows, load_int(part), load_int(part + 8), queries, 3 * size, left, right, width, nothing)
            for n in range(rows):
                source = n * sources // rows
                seen = mask + source * source_length if mask else nothing
                for head in range(low, high):
                    keys = memory + (source * heads + head) * source_length * piece
                    values = keys + sources * heads * source_length * piece
                    attend(queries + n * 3 * size + head * piece, keys, values, nothing, source_length, seen, piece,
                            scores, context + n * size + head * piece)  # fmt: skip
            if barrier:
                call(barrier)
            product(context, size, rows, load_int(part + 16), load_int(part + 24), outer, size,
                     begin, end, width, nothing)  # fmt: skip
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
        product(inner, 4 * ffn, rows, load_int(part + 16), load_int(part + 24), outer, size,
                 begin, end, width, nothing)  # fmt: skip
        if barrier:
            call(barrier)
        add_rows(part, hidden, outer, rows, size, pre_norm, epsilon)

    final = number_at(table, FINAL_NORM_WEIGHT)
    if final:
        for n in range(rows):
            row = hidden + n * size
            norm(row, row, final, number_at(table, FINAL_NORM_BIAS), size, epsilon)
    vocab = number_at(table, VOCAB)
    groups = (vocab + 3) // 4
    start, stop = groups * thread // threads * 4, groups * (thread + 1) // threads * 4
    product(hidden, size, rows, number_at(table, OUTPUT), number_at(table, OUTPUT_BIAS), number_at(table, LOGITS),
             4 * vocab, start, stop, vocab, nothing)  # fmt: skip


@cache
def kernel() -> Any:
    """Returns the step, ``void f(table)``: compiled once, then read from numba's cache."""
    return cfunc(types.void(types.int64), cache=True, error_model="numpy")(_run)
