"""What Transformer blocks are made of, for a few rows: products, layer norms, attention, compiled.

For a few rows the time of a product is that of reading its weights, and calls cost more than the arithmetic: here
all works on addresses (:mod:`wenmai.kernels.simd`), so that a whole stack is one call. The steps that are made of these
parts are in :mod:`wenmai.kernels.decoder` and :mod:`wenmai.kernels.encoder`; each reads a table of int64 with sizes,
flags and addresses.

Threads run a step side by side, each on its part of the heads or of the outputs of a product, and wait for each
other where one needs what another wrote. What is cheap (sums, layer norms) each does for itself. How the work is
divided changes no bit of the result.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit
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
    zeros,
)

__all__ = [
    "COMPILE",
    "GELU",
    "GELU_TANH",
    "PART_PLACES",
    "RELU",
    "STRIP",
    "activate",
    "add_rows",
    "attend",
    "call",
    "call_number",
    "copy",
    "inputs_of",
    "norm",
    "number_at",
    "product",
    "share_of",
]

_MADE_OF = "simd.py 0a572d10aeed"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"fastmath": False, "error_model": "numpy", "boundscheck": False}
STRIP = 16  # sizes of rows are multiples of this
PART_PLACES = 6  # of a part of a block: its first weight and bias, its last, those of its layer norm
RELU, GELU, GELU_TANH = range(3)

_AHEAD = 1 << 14  # bytes from the weights that are multiplied to those that are asked for
_LANES = 16 if get_host_cpu_features().get("avx512f") else 8  # of a register: twelve sums of products stay in registers


# --- instructions -----------------------------------------------------------------------------------------------


@intrinsic
def four_sums(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
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
def positive(typing: Any, vector: Any) -> Any:
    """max(x, 0), lane by lane; NaN stays NaN."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, [0.0] * args[0].type.count)
        return builder.select(builder.fcmp_ordered("<", args[0], zero), zero, args[0])

    return vector(vector), build


@intrinsic
def multiply(typing: Any, left: Any, right: Any) -> Any:
    """``left * right``, lane by lane."""
    return left(left, right), lambda context, builder, sig, args: builder.fmul(args[0], args[1])


@intrinsic
def fill(typing: Any, value: Any, like: Any) -> Any:
    """A vector as wide as ``like``, all lanes ``value`` (float32)."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        empty = ir.Constant(args[1].type, ir.Undefined)
        first = builder.insert_element(empty, args[0], ir.Constant(ir.IntType(32), 0))
        return _shuffle(builder, first, first, [0] * args[1].type.count)

    return like(types.float32, like), build


@intrinsic
def _gelu(typing: Any, vector: Any) -> Any:
    """Lane by lane x/2 (1 + erf(x / √2)), with erf(z) = z P(z²) / Q(z²) to 5e-8 of itself (fitted for z <= 3.92)."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def constant(value: float) -> Any:
            return ir.Constant(args[0].type, [value] * args[0].type.count)

        def polynomial(coefficients: tuple[float, ...]) -> Any:
            value = constant(coefficients[0])
            for one in coefficients[1:]:
                value = builder.fadd(
                    builder.fmul(value, square, flags=("contract",)), constant(one), flags=("contract",)
                )
            return value

        z = builder.fmul(args[0], constant(math.sqrt(0.5)))
        z = builder.select(builder.fcmp_ordered(">", z, constant(3.92)), constant(3.92), z)
        z = builder.select(builder.fcmp_ordered("<", z, constant(-3.92)), constant(-3.92), z)
        square = builder.fmul(z, z)
        error = builder.fdiv(builder.fmul(z, polynomial(_ERF_ABOVE)), polynomial(_ERF_BELOW))
        half = builder.fmul(args[0], constant(0.5))
        return builder.fadd(half, builder.fmul(half, error))

    return vector(vector), build


_ERF_ABOVE = (1.9924196e-8, -1.9578911e-6, 1.4186185e-4, 3.7020482e-3, 5.0574671e-2, 1.9993456e-1, 1.1283791)
_ERF_BELOW = (9.5614855e-4, 1.4354075e-2, 1.1500258e-1, 5.1051903e-1, 1.0)


@intrinsic
def number_at(typing: Any, table: Any, place: Any) -> Any:
    """The number at a place of the table."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = ir.IntType(64)
        return builder.load(builder.gep(builder.inttoptr(args[0], number.as_pointer()), [args[1]]), typ=number)

    return types.int64(types.int64, types.int64), build


@intrinsic
def load_byte(typing: Any, where: Any) -> Any:
    """The byte at an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        return builder.zext(builder.load(builder.inttoptr(args[0], byte.as_pointer()), typ=byte), ir.IntType(64))

    return types.int64(types.int64), build


@intrinsic
def call_number(typing: Any, function: Any) -> Any:
    """Calls the C function ``int f(void)`` at an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), ir.IntType(64))

    return types.int64(types.int64), build


@intrinsic
def call(typing: Any, function: Any) -> Any:
    """Calls the C function ``void f(void)`` at an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), build


# --- parts ---------------------------------------------------------------------------------------------------


@njit(**COMPILE)
def _ask(ahead, asked):
    """Prefetches a group's part of the weights that come."""
    prefetch_to_read(ahead)
    if asked > 64:  # bytes of a line
        for line in range(64, 16 * _LANES, 64):
            prefetch_to_read(ahead + line)


@njit(**COMPILE)
def product(inputs, width, rows, weight, bias, outputs, stride, first, last, most, relu):
    """Writes outputs[n, o] = inputs[n] · weight[o] + bias[o] for all rows and first <= o < last, four at a time.

    Inputs and weights have ``width`` bytes a row, outputs ``stride``. Four outputs never go beyond the first ``most``:
    rather they begin earlier, so that some are computed twice. Rows are taken in groups of three, the last four or two
    in groups of two. Each group prefetches its part of the weights ``_AHEAD``, so that memory works while the
    products are made.
    """
    zero = zeros(_LANES)
    four = zeros(4)
    vector = 4 * _LANES
    pairs = (3 - rows % 3) % 3 if rows > 1 else 0
    threes = (rows - 2 * pairs) // 3
    asked = 4 * vector // max(1, threes + pairs)  # bytes, for each step of a group
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
        for _ in range(threes):
            y = x + width
            z = y + width
            x0, x1, x2, x3, y0, y1, y2, y3 = zero, zero, zero, zero, zero, zero, zero, zero
            z0, z1, z2, z3 = zero, zero, zero, zero
            for j in range(0, width, vector):
                _ask(ahead, asked)
                ahead += asked
                a, b, c, w = load(x + j, zero), load(y + j, zero), load(z + j, zero), load(w0 + j, zero)
                x0, y0, z0 = multiply_add(a, w, x0), multiply_add(b, w, y0), multiply_add(c, w, z0)
                w = load(w1 + j, zero)
                x1, y1, z1 = multiply_add(a, w, x1), multiply_add(b, w, y1), multiply_add(c, w, z1)
                w = load(w2 + j, zero)
                x2, y2, z2 = multiply_add(a, w, x2), multiply_add(b, w, y2), multiply_add(c, w, z2)
                w = load(w3 + j, zero)
                x3, y3, z3 = multiply_add(a, w, x3), multiply_add(b, w, y3), multiply_add(c, w, z3)
            upper = add(four_sums(x0, x1, x2, x3), offset)
            middle = add(four_sums(y0, y1, y2, y3), offset)
            lower = add(four_sums(z0, z1, z2, z3), offset)
            store(target, positive(upper) if relu else upper)
            store(target + stride, positive(middle) if relu else middle)
            store(target + 2 * stride, positive(lower) if relu else lower)
            x += 3 * width
            target += 3 * stride
        for _ in range(pairs):
            y = x + width
            x0, x1, x2, x3, y0, y1, y2, y3 = zero, zero, zero, zero, zero, zero, zero, zero
            for j in range(0, width, vector):
                _ask(ahead, asked)
                ahead += asked
                a, b, w = load(x + j, zero), load(y + j, zero), load(w0 + j, zero)
                x0, y0 = multiply_add(a, w, x0), multiply_add(b, w, y0)
                w = load(w1 + j, zero)
                x1, y1 = multiply_add(a, w, x1), multiply_add(b, w, y1)
                w = load(w2 + j, zero)
                x2, y2 = multiply_add(a, w, x2), multiply_add(b, w, y2)
                w = load(w3 + j, zero)
                x3, y3 = multiply_add(a, w, x3), multiply_add(b, w, y3)
            upper = add(four_sums(x0, x1, x2, x3), offset)
            lower = add(four_sums(y0, y1, y2, y3), offset)
            store(target, positive(upper) if relu else upper)
            store(target + stride, positive(lower) if relu else lower)
            x += 2 * width
            target += 2 * stride
        if rows == 1:
            x0, x1, x2, x3 = zero, zero, zero, zero
            for j in range(0, width, vector):
                _ask(ahead, asked)
                ahead += asked
                a = load(x + j, zero)
                x0 = multiply_add(a, load(w0 + j, zero), x0)
                x1 = multiply_add(a, load(w1 + j, zero), x1)
                x2 = multiply_add(a, load(w2 + j, zero), x2)
                x3 = multiply_add(a, load(w3 + j, zero), x3)
            only = add(four_sums(x0, x1, x2, x3), offset)
            store(target, positive(only) if relu else only)


@njit(**COMPILE)
def norm(source, target, weight, bias, size, epsilon):
    """Normalises a row: weight (x - mean) / sqrt(variance + ε) + bias. ``size`` is in bytes."""
    zero = zeros(_LANES)
    total = zero
    for j in range(0, size, 4 * _LANES):
        total = add(total, load(source + j, zero))
    count = np.float32(size // 4)
    mean = fill(-lane_sum(total) / count, zero)
    total = zero
    for j in range(0, size, 4 * _LANES):
        x = add(load(source + j, zero), mean)
        total = multiply_add(x, x, total)
    scale = fill(np.float32(1.0) / np.float32(math.sqrt(lane_sum(total) / count + epsilon)), zero)
    for j in range(0, size, 4 * _LANES):
        x = multiply(add(load(source + j, zero), mean), scale)
        store(target + j, multiply_add(x, load(weight + j, zero), load(bias + j, zero)))


@njit(**COMPILE)
def attend(query, keys, values, first, last, mask, size, scores, context):
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
        store(scores + 4 * s, four_sums(s0, s1, s2, s3))
    highest = np.float32(-np.inf)
    for s in range(first, last):
        if mask == 0 or load_byte(mask + s):
            highest = max(highest, load_float(scores + 4 * s))
    total = np.float32(0.0)
    for s in range(first, last):
        weight = np.float32(0.0)
        if mask == 0 or load_byte(mask + s):
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
def copy(source, target, size):
    """Copies so many bytes, a multiple of ``4 * STRIP``."""
    zero = zeros(STRIP)
    for j in range(0, size, 4 * STRIP):
        store(target + j, load(source + j, zero))


@njit(**COMPILE)
def inputs_of(part, hidden, normed, rows, size, pre_norm, epsilon):
    """Where the inputs of a part are: the hidden rows, or their layer norms."""
    if not pre_norm:
        return hidden
    for n in range(rows):
        norm(hidden + n * size, normed + n * size, load_int(part + 32), load_int(part + 40), size, epsilon)
    return normed


@njit(**COMPILE)
def add_rows(part, hidden, found, rows, size, pre_norm, epsilon):
    """Adds what a part found to the hidden rows."""
    zero = zeros(STRIP)
    for j in range(0, rows * size, 4 * STRIP):
        store(hidden + j, add(load(hidden + j, zero), load(found + j, zero)))
    if not pre_norm:
        for n in range(rows):
            row = hidden + n * size
            norm(row, row, load_int(part + 32), load_int(part + 40), size, epsilon)


@njit(**COMPILE)
def share_of(count, thread, threads):
    """The part of a thread: from here on, in groups of four; the next thread's begin is this one's end."""
    return count // 4 * thread // threads * 4


@njit(**COMPILE)
def activate(activation, begin, end):
    """Applies ``GELU`` or ``GELU_TANH`` to the numbers between two addresses, a multiple of four; others stay."""
    many, four = zeros(STRIP), zeros(4)
    where = begin
    if activation == GELU:
        while where + 4 * STRIP <= end:
            store(where, _gelu(load(where, many)))
            where += 4 * STRIP
        while where < end:
            store(where, _gelu(load(where, four)))
            where += 16
    elif activation == GELU_TANH:
        while where < end:
            value = load_float(where)
            half = np.float32(0.5) * value
            cubed = value * value * value * np.float32(0.044715)
            store_float(
                where, half + half * np.float32(math.tanh(np.float32(math.sqrt(2 / math.pi)) * (value + cubed)))
            )
            where += 4
