"""One position of a stack of Transformer decoder blocks for a few rows, compiled.

A step of a small model for one sentence is a hundred tiny products; called one by one, the calls cost more than the
arithmetic. Here the whole stack is one call. A table of int64 says everything: sizes, flags, and the addresses of
parameters, caches and working memory (:mod:`wenmai.nn.stack` fills it in), so that the kernel serves every model
whose blocks are

    x ← x + attention(x), over the cached positions      x ← x + attention(x, memory), left out without a memory
    x ← x + ffn(x)                                       layer norm before each (pre) or after each sum (post)

Threads run the kernel side by side, each on its part of the heads or of the outputs of a product, and wait for each
other where one needs what another wrote: six times in a block. What is cheap (sums, layer norms) each does for itself.
How the work is divided changes no bit of the result.

Nothing here checks what the addresses point to: :class:`wenmai.nn.stack.Stack` is the only caller, and does.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import cfunc, njit
from numba.core import types
from numba.extending import intrinsic

from wenmai.kernels.simd import (
    FloatVector,
    add,
    lane_sum,
    load,
    load_float,
    load_int,
    multiply_add,
    prefetch_to_read,
    store,
    store_float,
    store_int,
    zeros,
)

__all__ = ["BLOCK_PLACES", "CACHE_PLACES", "PART_PLACES", "STRIP", "kernel"]  # and the places below

_MADE_OF = "simd.py 0a572d10aeed"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"fastmath": False, "error_model": "numpy", "boundscheck": False}
STRIP = 16  # sizes of rows are multiples of this
_AHEAD = 1 << 14  # bytes from the weights that are multiplied to those that are asked for
_LANES = 16 if get_host_cpu_features().get("avx512f") else 8  # of a register: eight sums of products stay in registers

# Places at the head of the table.
# fmt: off
(
    ROWS, HIDDEN, HEADS, FFN, BLOCKS, VOCAB,  # N, M, H, F, how many, V
    POSITION, CAPACITY, WINDOW,  # t of the new tokens; capacity of the cache; positions that are attended to
    SOURCES, SOURCE_LENGTH,  # rows of the memory, a divisor of N, and S
    PRE_NORM, ACTIVATION,  # a flag; one of the three below
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

RELU, GELU, GELU_TANH = range(3)
BARRIERS = 6  # of a block

PART_PLACES, CACHE_PLACES = 6, 2  # of three parts of a block, then of its caches
BLOCK_PLACES = 3 * PART_PLACES + CACHE_PLACES
_PART, _CACHES, _BLOCK = 8 * PART_PLACES, 24 * PART_PLACES, 8 * BLOCK_PLACES  # bytes


# --- instructions -----------------------------------------------------------------------------------------------


@intrinsic
def _four_sums(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The sums of four vectors, as one vector of four."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def neighbours(x: Any, y: Any) -> Any:  # in each 128 bits: x0 + x1, x2 + x3, y0 + y1, y2 + y3
            lanes = x.type.count
            even = [place for quarter in range(0, lanes, 4) for side in (0, lanes) for place in
                    (side + quarter, side + quarter + 2)]  # fmt: skip
            return builder.fadd(_shuffle(builder, x, y, even), _shuffle(builder, x, y, [place + 1 for place in even]))

        sums = neighbours(neighbours(args[0], args[1]), neighbours(args[2], args[3]))
        while sums.type.count > 4:
            half = sums.type.count // 2
            low, high = list(range(half)), list(range(half, 2 * half))
            sums = builder.fadd(_shuffle(builder, sums, sums, low), _shuffle(builder, sums, sums, high))
        return sums

    return FloatVector(4)(a, b, c, d), build


def _shuffle(builder: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


@intrinsic
def _positive(typing: Any, vector: Any) -> Any:
    """max(x, 0), lane by lane; NaN stays NaN."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, [0.0] * args[0].type.count)
        return builder.select(builder.fcmp_ordered("<", args[0], zero), zero, args[0])

    return vector(vector), build


@intrinsic
def _multiply(typing: Any, left: Any, right: Any) -> Any:
    """``left * right``, lane by lane."""
    return left(left, right), lambda context, builder, sig, args: builder.fmul(args[0], args[1])


@intrinsic
def _fill(typing: Any, value: Any, like: Any) -> Any:
    """A vector as wide as ``like``, all lanes ``value`` (float32)."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        empty = ir.Constant(args[1].type, ir.Undefined)
        first = builder.insert_element(empty, args[0], ir.Constant(ir.IntType(32), 0))
        return _shuffle(builder, first, first, [0] * args[1].type.count)

    return like(types.float32, like), build


@intrinsic
def _number(typing: Any, table: Any, place: Any) -> Any:
    """The number at a place of the table."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = ir.IntType(64)
        return builder.load(builder.gep(builder.inttoptr(args[0], number.as_pointer()), [args[1]]), typ=number)

    return types.int64(types.int64, types.int64), build


@intrinsic
def _load_byte(typing: Any, where: Any) -> Any:
    """The byte at an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        return builder.zext(builder.load(builder.inttoptr(args[0], byte.as_pointer()), typ=byte), ir.IntType(64))

    return types.int64(types.int64), build


@intrinsic
def _call_number(typing: Any, function: Any) -> Any:
    """Calls the C function ``int f(void)`` at an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), ir.IntType(64))

    return types.int64(types.int64), build


@intrinsic
def _call(typing: Any, function: Any) -> Any:
    """Calls the C function ``void f(void)`` at an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), build


# --- the step ---------------------------------------------------------------------------------------------------


@njit(**COMPILE)
def _product(inputs, width, rows, weight, bias, outputs, stride, first, last, most, relu):
    """Writes outputs[n, o] = inputs[n] · weight[o] + bias[o] for all rows and first <= o < last, four at a time.

    Inputs and weights have ``width`` bytes a row, outputs ``stride``. Four outputs never go beyond the first ``most``:
    rather they begin earlier, so that some are computed twice. Each pair of rows prefetches its part of the weights
    ``_AHEAD``, so that memory works while the products are made.
    """
    zero = zeros(_LANES)
    four = zeros(4)
    vector = 4 * _LANES
    asked = 4 * vector // max(1, rows // 2)  # bytes, for each step of a pair
    for start in range(first, last, 4):
        o = min(start, most - 4)
        w0 = weight + o * width
        w1 = w0 + width
        w2 = w1 + width
        w3 = w2 + width
        ahead = w0 + _AHEAD
        offset = four if bias == 0 else load(bias + 4 * o, four)
        target = outputs + 4 * o
        x = inputs
        for _ in range(rows // 2):
            y = x + width
            x0, x1, x2, x3, y0, y1, y2, y3 = zero, zero, zero, zero, zero, zero, zero, zero
            for j in range(0, width, vector):
                prefetch_to_read(ahead)
                if asked > 64:  # bytes of a line
                    for line in range(64, 4 * vector, 64):
                        prefetch_to_read(ahead + line)
                ahead += asked
                a, b, w = load(x + j, zero), load(y + j, zero), load(w0 + j, zero)
                x0, y0 = multiply_add(a, w, x0), multiply_add(b, w, y0)
                w = load(w1 + j, zero)
                x1, y1 = multiply_add(a, w, x1), multiply_add(b, w, y1)
                w = load(w2 + j, zero)
                x2, y2 = multiply_add(a, w, x2), multiply_add(b, w, y2)
                w = load(w3 + j, zero)
                x3, y3 = multiply_add(a, w, x3), multiply_add(b, w, y3)
            above = add(_four_sums(x0, x1, x2, x3), offset)
            below = add(_four_sums(y0, y1, y2, y3), offset)
            store(target, _positive(above) if relu else above)
            store(target + stride, _positive(below) if relu else below)
            x += 2 * width
            target += 2 * stride
        if rows & 1:
            x0, x1, x2, x3 = zero, zero, zero, zero
            for j in range(0, width, vector):
                for line in range(0, 4 * vector, 64):
                    prefetch_to_read(ahead + line)
                ahead += 4 * vector
                a = load(x + j, zero)
                x0 = multiply_add(a, load(w0 + j, zero), x0)
                x1 = multiply_add(a, load(w1 + j, zero), x1)
                x2 = multiply_add(a, load(w2 + j, zero), x2)
                x3 = multiply_add(a, load(w3 + j, zero), x3)
            above = add(_four_sums(x0, x1, x2, x3), offset)
            store(target, _positive(above) if relu else above)


@njit(**COMPILE)
def _norm(source, target, weight, bias, size, epsilon):
    """Normalises a row: weight (x - mean) / sqrt(variance + ε) + bias. ``size`` is in bytes."""
    zero = zeros(_LANES)
    total = zero
    for j in range(0, size, 4 * _LANES):
        total = add(total, load(source + j, zero))
    count = np.float32(size // 4)
    mean = _fill(-lane_sum(total) / count, zero)
    total = zero
    for j in range(0, size, 4 * _LANES):
        x = add(load(source + j, zero), mean)
        total = multiply_add(x, x, total)
    scale = _fill(np.float32(1.0) / np.float32(math.sqrt(lane_sum(total) / count + epsilon)), zero)
    for j in range(0, size, 4 * _LANES):
        x = _multiply(add(load(source + j, zero), mean), scale)
        store(target + j, multiply_add(x, load(weight + j, zero), load(bias + j, zero)))


@njit(**COMPILE)
def _attend(query, keys, values, first, last, mask, size, scores, context):
    """Gives Σ_s softmax(query · key_s / √D) value_s over first <= s < last where the mask is 1; zeros if it is nowhere.

    ``size``: bytes of a key.
    """
    zero = zeros(_LANES)
    scale = np.float32(1.0) / np.float32(math.sqrt(np.float32(size // 4)))
    end = keys + (last - 1) * size
    for s in range(first, last, 4):
        k0 = keys + s * size
        k1, k2, k3 = min(k0 + size, end), min(k0 + 2 * size, end), min(k0 + 3 * size, end)
        s0, s1, s2, s3 = zero, zero, zero, zero
        for j in range(0, size, 4 * _LANES):
            q = load(query + j, zero)
            s0 = multiply_add(q, load(k0 + j, zero), s0)
            s1 = multiply_add(q, load(k1 + j, zero), s1)
            s2 = multiply_add(q, load(k2 + j, zero), s2)
            s3 = multiply_add(q, load(k3 + j, zero), s3)
        store(scores + 4 * s, _four_sums(s0, s1, s2, s3))
    highest = np.float32(-np.inf)
    for s in range(first, last):
        if mask == 0 or _load_byte(mask + s):
            highest = max(highest, load_float(scores + 4 * s))
    total = np.float32(0.0)
    for s in range(first, last):
        weight = np.float32(0.0)
        if mask == 0 or _load_byte(mask + s):
            weight = np.float32(math.exp(scale * (load_float(scores + 4 * s) - highest)))
        store_float(scores + 4 * s, weight)
        total += weight
    share = np.float32(0.0) if total == np.float32(0.0) else np.float32(1.0) / total
    strip = zeros(STRIP)
    for j in range(0, size, 4 * STRIP):
        even, odd = strip, strip
        for s in range(first, last - 1, 2):
            v = values + s * size + j
            even = multiply_add(load_float(scores + 4 * s), load(v, strip), even)
            odd = multiply_add(load_float(scores + 4 * s + 4), load(v + size, strip), odd)
        if (last - first) & 1:
            v = values + (last - 1) * size + j
            even = multiply_add(load_float(scores + 4 * last - 4), load(v, strip), even)
        store(context + j, multiply_add(share, add(even, odd), strip))


@njit(**COMPILE)
def _copy(source, target, size):
    zero = zeros(STRIP)
    for j in range(0, size, 4 * STRIP):
        store(target + j, load(source + j, zero))


@njit(**COMPILE)
def _inputs(part, hidden, normed, rows, size, pre_norm, epsilon):
    """Where the inputs of a part are: the hidden rows, or their layer norms."""
    if not pre_norm:
        return hidden
    for n in range(rows):
        _norm(hidden + n * size, normed + n * size, load_int(part + 32), load_int(part + 40), size, epsilon)
    return normed


@njit(**COMPILE)
def _add(part, hidden, found, rows, size, pre_norm, epsilon):
    """Adds what a part found to the hidden rows."""
    zero = zeros(STRIP)
    for j in range(0, rows * size, 4 * STRIP):
        store(hidden + j, add(load(hidden + j, zero), load(found + j, zero)))
    if not pre_norm:
        for n in range(rows):
            row = hidden + n * size
            _norm(row, row, load_int(part + 32), load_int(part + 40), size, epsilon)


@njit(**COMPILE)
def _share(count, thread, threads):
    """The part of a thread: from here on, in groups of four; the next thread's begin is this one's end."""
    return count // 4 * thread // threads * 4


@njit(**COMPILE)
def _embed(table, hidden, rows, size):
    """Writes scale · E[token] + position for each row, or returns False if a token is none of the vocabulary."""
    zero = zeros(STRIP)
    scale = load_float(table + 8 * SCALE)
    position = _number(table, POSITIONS)
    for n in range(rows):
        token = load_int(_number(table, TOKENS) + 8 * n)
        if token < 0 or token >= _number(table, VOCAB):
            return False
        row = _number(table, EMBEDDING) + token * size
        for j in range(0, size, 4 * STRIP):
            offset = load(position + j, zero) if position else zero
            store(hidden + n * size + j, multiply_add(scale, load(row + j, zero), offset))
    return True


def _run(table):
    """Takes one step: one thread's part of it."""
    rows, width = _number(table, ROWS), _number(table, HIDDEN)
    heads, ffn = _number(table, HEADS), _number(table, FFN)
    team, barrier = _number(table, TEAM), _number(table, BARRIER)
    threads = _call_number(team) if team else 1
    thread = _call_number(_number(table, THREAD_NUMBER)) if team else 0
    pre_norm, activation = _number(table, PRE_NORM), _number(table, ACTIVATION)
    epsilon = load_float(table + 8 * EPSILON)
    position, capacity = _number(table, POSITION), _number(table, CAPACITY)
    sources, source_length, mask = _number(table, SOURCES), _number(table, SOURCE_LENGTH), _number(table, MASK)
    queries, context = _number(table, QUERIES), _number(table, CONTEXT)
    inner, outer = _number(table, INNER), _number(table, OUTER)

    nothing = np.int64(0)  # typed: numba would compile a function anew for each plain constant
    size = 4 * width
    piece = size // heads  # of a head, in bytes
    hidden = _number(table, OWN) + thread * _number(table, OWN_BYTES)
    normed = hidden + rows * size
    scores = normed + rows * size
    low, high = heads * thread // threads, heads * (thread + 1) // threads  # heads of this thread
    left, right = low * piece // 4, high * piece // 4  # their outputs
    begin, end = _share(width, thread, threads), _share(width, thread + 1, threads)
    begin_inner, end_inner = _share(ffn, thread, threads), _share(ffn, thread + 1, threads)
    first = max(0, position - _number(table, WINDOW))

    if not _embed(table, hidden, rows, size):
        store_int(table + 8 * STATUS, 1)
        return
    for number in range(_number(table, BLOCKS)):
        part = table + 8 * HEAD + number * _BLOCK
        own, memory = load_int(part + _CACHES), load_int(part + _CACHES + 8)

        x = _inputs(part, hidden, normed, rows, size, pre_norm, epsilon)
        for third in range(nothing, 3 * width, width):
            _product(x, size, rows, load_int(part), load_int(part + 8), queries, 3 * size,
                     third + left, third + right, 3 * width, nothing)  # fmt: skip
        for n in range(rows):
            for head in range(low, high):
                query = queries + n * 3 * size + head * piece
                keys = own + (n * heads + head) * capacity * piece
                values = keys + rows * heads * capacity * piece
                _copy(query + size, keys + position * piece, piece)
                _copy(query + 2 * size, values + position * piece, piece)
                _attend(
                    query, keys, values, first, position + 1, nothing, piece, scores, context + n * size + head * piece
                )
        if barrier:
            _call(barrier)
        _product(context, size, rows, load_int(part + 16), load_int(part + 24), outer, size, begin, end, width, nothing)
        if barrier:
            _call(barrier)
        _add(part, hidden, outer, rows, size, pre_norm, epsilon)

        part += _PART
        if memory:
            x = _inputs(part, hidden, normed, rows, size, pre_norm, epsilon)
            _product(x, size, rows, load_int(part), load_int(part + 8), queries, 3 * size, left, right, width, nothing)
            for n in range(rows):
                source = n * sources // rows
                seen = mask + source * source_length if mask else nothing
                for head in range(low, high):
                    keys = memory + (source * heads + head) * source_length * piece
                    values = keys + sources * heads * source_length * piece
                    _attend(queries + n * 3 * size + head * piece, keys, values, nothing, source_length, seen, piece,
                            scores, context + n * size + head * piece)  # fmt: skip
            if barrier:
                _call(barrier)
            _product(context, size, rows, load_int(part + 16), load_int(part + 24), outer, size,
                     begin, end, width, nothing)  # fmt: skip
            if barrier:
                _call(barrier)
            _add(part, hidden, outer, rows, size, pre_norm, epsilon)

        part += _PART
        x = _inputs(part, hidden, normed, rows, size, pre_norm, epsilon)
        _product(x, size, rows, load_int(part), load_int(part + 8), inner, 4 * ffn,
                 begin_inner, end_inner, ffn, 1 - min(activation, 1))  # fmt: skip
        if activation != RELU:
            for n in range(rows):
                for where in range(inner + 4 * (n * ffn + begin_inner), inner + 4 * (n * ffn + end_inner), 4):
                    value = load_float(where)
                    half = np.float32(0.5) * value
                    if activation == GELU:
                        share = np.float32(math.erf(value * np.float32(math.sqrt(0.5))))
                    else:
                        cubed = value * value * value * np.float32(0.044715)
                        share = np.float32(math.tanh(np.float32(math.sqrt(2 / math.pi)) * (value + cubed)))
                    store_float(where, half + half * share)
        if barrier:
            _call(barrier)
        _product(inner, 4 * ffn, rows, load_int(part + 16), load_int(part + 24), outer, size,
                 begin, end, width, nothing)  # fmt: skip
        if barrier:
            _call(barrier)
        _add(part, hidden, outer, rows, size, pre_norm, epsilon)

    final = _number(table, FINAL_NORM_WEIGHT)
    if final:
        for n in range(rows):
            row = hidden + n * size
            _norm(row, row, final, _number(table, FINAL_NORM_BIAS), size, epsilon)
    vocab = _number(table, VOCAB)
    groups = (vocab + 3) // 4
    start, stop = groups * thread // threads * 4, groups * (thread + 1) // threads * 4
    _product(hidden, size, rows, _number(table, OUTPUT), _number(table, OUTPUT_BIAS), _number(table, LOGITS),
             4 * vocab, start, stop, vocab, nothing)  # fmt: skip


@cache
def kernel() -> Any:
    """Returns the step, ``void f(table)``: compiled once, then read from numba's cache."""
    return cfunc(types.void(types.int64), cache=True, error_model="numpy")(_run)
