"""Explicit SIMD for numba: vectors of 16, 32 or 64 floats as ordinary values of a compiled function.

LLVM keeps a ``float32x16`` in one 512-bit register, and splits it where the machine is narrower, so the kernels are
written once in the widest form. numba alone vectorises a reduction over a row of unknown length poorly, and passing
arrays to inner functions costs an atomic reference count each; therefore everything here works on *addresses*
(int64 byte addresses, :func:`address`), which also makes "a row of any of several matrices" one plain number.

Nothing checks bounds here: callers own the arrays for as long as they use their addresses.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

__all__ = [
    "LANE_BYTES",
    "STRIP",
    "add",
    "address",
    "decline_in_place",
    "lane_sum",
    "load",
    "load_float",
    "load_int",
    "multiply_add",
    "prefetch",
    "prefetch_to_read",
    "store",
    "store_float",
    "store_int",
    "store_sums",
    "zeros",
]

LANE_BYTES = 64  # one float32x16: rows are padded to a multiple of this
STRIP = 64 if binding.get_host_cpu_features().get("avx512f") else 32  # lanes of which a machine's registers hold three

_I32, _I64, _F32, _F64 = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
_REORDER = ("reassoc", "contract", "nsz")  # sums may be reordered and fused; NaN and infinity keep their meaning
Lowered = tuple[Any, Callable[..., Any]]


class FloatVector(types.Type):
    """The numba type of a SIMD vector of ``lanes`` float32 numbers."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"float32x{lanes}")


@register_model(FloatVector)
class _FloatVectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: FloatVector) -> None:
        super().__init__(manager, numba_type, _vector(numba_type.lanes))


def _vector(lanes: int) -> ir.VectorType:
    return ir.VectorType(_F32, lanes)


def _pointer(builder: ir.IRBuilder, where: ir.Value, pointee: ir.Type) -> ir.Value:
    return builder.inttoptr(where, pointee.as_pointer())


def _shuffle(builder: ir.IRBuilder, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


def _splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    undefined = ir.Constant(_vector(lanes), ir.Undefined)
    return _shuffle(builder, builder.insert_element(undefined, scalar, ir.Constant(_I32, 0)), undefined, [0] * lanes)


@intrinsic(prefer_literal=True)
def zeros(typing: Any, lanes: Any) -> Lowered:
    """``zeros(16)``: a vector of zeros; its type says how much :func:`load` reads."""
    width = lanes.literal_value
    return FloatVector(width)(lanes), lambda context, builder, sig, args: ir.Constant(_vector(width), [0.0] * width)


@intrinsic
def address(typing: Any, array: Any) -> Lowered:
    """The address of the first element of a C-contiguous array."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ptrtoint(context.make_array(sig.args[0])(context, builder, args[0]).data, _I64)

    return types.int64(array), build


def _scalar_access(kind: ir.Type, numba_type: Any) -> tuple[Any, Any]:
    @intrinsic
    def load_scalar(typing: Any, where: Any) -> Lowered:
        """The number at an address."""

        def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.load(_pointer(builder, args[0], kind), typ=kind)

        return numba_type(types.int64), build

    @intrinsic
    def store_scalar(typing: Any, where: Any, value: Any) -> Lowered:
        """Stores a number at an address."""

        def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            builder.store(args[1], _pointer(builder, args[0], kind))
            return context.get_dummy_value()

        return types.void(types.int64, numba_type), build

    return load_scalar, store_scalar


load_int, store_int = _scalar_access(_I64, types.int64)
load_float, store_float = _scalar_access(_F32, types.float32)


@intrinsic
def load(typing: Any, where: Any, like: Any) -> Lowered:
    """``load(where, like)``: as many floats as ``like`` has, read from an address."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = _vector(sig.return_type.lanes)
        return builder.load(_pointer(builder, args[0], kind), align=4, typ=kind)

    return like(types.int64, like), build


@intrinsic
def store(typing: Any, where: Any, vector: Any) -> Lowered:
    """``store(where, vector)``."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[1], _pointer(builder, args[0], args[1].type), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, vector), build


@intrinsic
def add(typing: Any, left: Any, right: Any) -> Lowered:
    """``left + right``, lane by lane."""
    return left(left, right), lambda context, builder, sig, args: builder.fadd(args[0], args[1], flags=_REORDER)


@intrinsic
def multiply_add(typing: Any, scale: Any, vector: Any, offset: Any) -> Lowered:
    """``scale * vector + offset``; ``scale`` is a float32 or a vector."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        factor = args[0]
        if not isinstance(sig.args[0], FloatVector):
            factor = _splat(builder, context.cast(builder, factor, sig.args[0], types.float32), sig.return_type.lanes)
        return builder.fadd(builder.fmul(factor, args[1], flags=_REORDER), args[2], flags=_REORDER)

    return offset(scale, vector, offset), build


def _halve(builder: ir.IRBuilder, vector: ir.Value, lanes: int) -> ir.Value:
    while vector.type.count > lanes:
        half = vector.type.count // 2
        low, high = list(range(half)), list(range(half, 2 * half))
        vector = builder.fadd(
            _shuffle(builder, vector, vector, low), _shuffle(builder, vector, vector, high), flags=_REORDER
        )
    return vector


@intrinsic
def lane_sum(typing: Any, vector: Any) -> Lowered:
    """The sum of all lanes, float32."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(_halve(builder, args[0], 1), ir.Constant(_I32, 0))

    return types.float32(vector), build


@intrinsic
def prefetch(typing: Any, where: Any) -> Lowered:
    """Prefetches the cache line at an address, to be written soon."""
    return _prefetching(write=1)


@intrinsic
def prefetch_to_read(typing: Any, where: Any) -> Lowered:
    """Prefetches the cache line at an address, to be read soon: other processors keep their copies of it."""
    return _prefetching(write=0)


def _prefetching(*, write: int) -> Lowered:
    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _pointer(builder, args[0], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        keep_close, data = 3, 1
        builder.call(function, [pointer, *(ir.Constant(_I32, value) for value in (write, keep_close, data))])
        return context.get_dummy_value()

    return types.void(types.int64), build


@intrinsic
def store_sums(typing: Any, first: Any, second: Any, a: Any, b: Any, c: Any, d: Any) -> Lowered:
    """Stores ``sum(a), sum(b)`` at ``first`` and ``sum(c), sum(d)`` at ``second`` (all vectors of 16).

    The four sums share one reduction tree: 13 instructions instead of 32.
    """

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def join(x: ir.Value, y: ir.Value, width: int) -> ir.Value:
            # in each 128-bit quarter: [x_low, y_low] + [x_high, y_high], in pieces of `width` lanes
            low: list[int] = []
            high: list[int] = []
            for quarter in range(0, 16, 4):
                for start, chosen in ((0, low), (2, high)):
                    picks = [quarter + start + offset for offset in range(2)]
                    if width == 1:
                        chosen += [picks[0], 16 + picks[0], picks[1], 16 + picks[1]]
                    else:
                        chosen += picks + [16 + pick for pick in picks]
            return builder.fadd(_shuffle(builder, x, y, low), _shuffle(builder, x, y, high), flags=_REORDER)

        sums = _halve(builder, join(join(args[2], args[3], 1), join(args[4], args[5], 1), 2), 4)
        for where, lanes in ((args[0], [0, 1]), (args[1], [2, 3])):
            builder.store(_shuffle(builder, sums, sums, lanes), _pointer(builder, where, _vector(2)), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, a, b, c, d), build


@intrinsic
def decline_in_place(typing: Any, where: Any, count: Any, rate: Any) -> Lowered:
    """Turns each margin ``x`` of a flat array into ``rate * σ(-x)``, in blocks of 16, and returns ``Σ -log σ(x)``.

    ``x`` is the logit of the right answer, so ``σ(-x)`` is the slope of its logistic loss (what the step declines
    by) and ``-log σ(x)`` the loss itself; the sum is a float64, NaN if any ``x`` is. ``x`` is clipped to ±30,
    where σ is 0 or 1 up to rounding. exp and log are the Cephes single-precision polynomials (relative error below
    2e-7).
    """

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def constant(value: float) -> ir.Constant:
            return ir.Constant(_vector(16), [value] * 16)

        scale = _splat(builder, args[2], 16)
        total = cgutils.alloca_once_value(builder, constant(0.0))
        with cgutils.for_range_slice(builder, ir.Constant(_I64, 0), args[1], ir.Constant(_I64, 16)) as (index, _):
            pointer = _pointer(builder, builder.add(args[0], builder.shl(index, ir.Constant(_I64, 2))), _vector(16))
            margin = builder.load(pointer, align=4, typ=_vector(16))
            margin = builder.select(builder.fcmp_ordered("<", margin, constant(-30.0)), constant(-30.0), margin)
            margin = builder.select(builder.fcmp_ordered(">", margin, constant(30.0)), constant(30.0), margin)
            odds = _exponential(builder, margin)
            slope = builder.fdiv(constant(1.0), builder.fadd(constant(1.0), odds))
            log_probability = _logarithm(builder, builder.fmul(odds, slope))
            is_number = builder.fcmp_ordered("ord", margin, margin)  # the logarithm works on bits and would hide a NaN
            log_probability = builder.select(is_number, log_probability, margin)
            builder.store(builder.fadd(builder.load(total), log_probability), total)
            builder.store(builder.fmul(scale, slope), pointer, align=4)
        kind = ir.FunctionType(_F32, [_F32, _vector(16)])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.fadd.v16f32")
        summed = builder.call(reduce, [ir.Constant(_F32, 0.0), builder.load(total)], fastmath=("reassoc",))
        return builder.fneg(builder.fpext(summed, _F64))

    return types.float64(types.int64, types.int64, types.float32), build


def _polynomial(builder: ir.IRBuilder, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    value = ir.Constant(x.type, [coefficients[0]] * 16)
    for coefficient in coefficients[1:]:
        value = _fused(builder, value, x, ir.Constant(x.type, [coefficient] * 16))
    return value


def _fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return builder.fadd(builder.fmul(a, b, flags=_REORDER), c, flags=_REORDER)


def _exponential(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """exp(x) = 2^n · e^r with n = round(x / ln 2); the float trick ``x + 1.5·2^23`` rounds and leaves n in the bits."""
    real, integer = x.type, ir.VectorType(_I32, 16)

    def constant(value: float) -> ir.Constant:
        return ir.Constant(real, [value] * 16)

    shifted = builder.fadd(builder.fmul(x, constant(1.4426950408889634)), constant(12582912.0))
    rounded = builder.fsub(shifted, constant(12582912.0))
    r = _fused(builder, rounded, constant(-0.693145751953125), x)
    r = _fused(builder, rounded, constant(-1.42860682030941723e-6), r)
    series = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
    tail = builder.fmul(_polynomial(builder, r, series), r, flags=_REORDER)
    value = _fused(builder, tail, r, builder.fadd(r, constant(1.0)))
    exponent = builder.shl(builder.bitcast(shifted, integer), ir.Constant(integer, [23] * 16))
    return builder.bitcast(builder.add(builder.bitcast(value, integer), exponent), real)


def _logarithm(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """log(x) = e·ln 2 + log(m) for positive normal x, with m in [√½, √2)."""
    real, integer = x.type, ir.VectorType(_I32, 16)

    def constant(value: float) -> ir.Constant:
        return ir.Constant(real, [value] * 16)

    bits = builder.bitcast(x, integer)
    shift = ir.Constant(integer, [23] * 16)
    exponent = builder.ashr(builder.sub(bits, ir.Constant(integer, [0x3F3504F3] * 16)), shift)
    f = builder.fsub(builder.bitcast(builder.sub(bits, builder.shl(exponent, shift)), real), constant(1.0))
    square = builder.fmul(f, f)
    series = (
        *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
    tail = builder.fmul(builder.fmul(_polynomial(builder, f, series), f), square)
    value = builder.fadd(f, _fused(builder, square, constant(-0.5), tail))
    return _fused(builder, builder.sitofp(exponent, real), constant(0.6931471805599453), value)
