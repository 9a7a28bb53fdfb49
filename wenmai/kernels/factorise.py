"""GloVe's training loop: a weighted least-squares factorisation of log counts, one count at a time, by AdaGrad.

For a count x of word i and context j (Pennington et al. 2014, eq. 8; the steps are those of its authors' program):

    diff = w_i·w̃_j + b_i + b̃_j - log x        loss ½ f(x) diff²,  f(x) = min(1, x / x_max)^α
    step of w_i   t = η clip(f diff w̃_j, ±c)    w_i -= t / √G_i, then G_i += t²    (and w̃_j alike, from the old values)
    step of b_i   t = η f diff                   b_i -= t / √G, then G += t²

The counts come in tiles of a few hundred rows and columns. All counts of a tile are visited in random order before
the next tile, also drawn at random, so that the rows of parameters in use stay in the processor's cache. A *visit* is a
tile, or its mirror image: of a symmetric matrix the lower triangle alone is stored.

A row of parameters holds what a step changes, side by side: the vector, its sums of squares G, bias and bias sum.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

from wenmai.kernels.simd import (
    LANE_BYTES,
    address,
    lane_sum,
    load,
    load_float,
    multiply_add,
    prefetch,
    store,
    store_float,
    zeros,
)

__all__ = ["ROW_FLOATS", "Counts", "Settings", "Visited", "parameter_rows", "train_visits", "warm_up"]

_MADE_OF = "simd.py 0a572d10aeed"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
ROW_FLOATS = 8  # vectors are padded with zeros to a multiple of this
_SMALL_BYTES = 4 * ROW_FLOATS
_BIAS_FLOATS = 8  # after the vector and its sums: bias, its sum, padding
_AHEAD = 4  # counts whose rows are prefetched
_MULTIPLIER, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's MMIX generator


class Counts(NamedTuple):
    """The non-zero counts, as :class:`wenmai.data.cooccurrence.Cooccurrences` has them."""

    bounds: np.ndarray  # int64 [tiles * tiles + 1]
    places: np.ndarray  # uint32: row << 16 | column
    weights: np.ndarray  # float32
    tiles: int  # side by side
    width: int  # of a tile


class Settings(NamedTuple):
    """What the settings decide."""

    rate: np.float32  # η
    x_max: np.float32
    alpha: np.float32
    clip: np.float32
    bias_rate: np.float32  # η, or 1 where biases take steps of their own size


class Visited(NamedTuple):
    """Working memory of one thread: the counts of a tile in random order."""

    places: np.ndarray  # uint32
    weights: np.ndarray  # float32

    @classmethod
    def allocate(cls, counts: Counts) -> "Visited":
        """Room for the fullest tile."""
        most = max(1, int(np.diff(counts.bounds).max()))
        return cls(np.empty(most, np.uint32), np.empty(most, np.float32))


def parameter_rows(words: int, vector_size: int) -> npt.NDArray[np.float32]:
    """Rows of parameters ``[words, 2 P + 8]`` with vectors and biases 0, sums 1; they begin on a cache line.

    P is ``vector_size`` padded to a multiple of ``ROW_FLOATS``: columns up to P are the vector, up to 2 P its sums,
    then come bias and bias sum.
    """
    padded = -(-vector_size // ROW_FLOATS) * ROW_FLOATS
    floats = 2 * padded + _BIAS_FLOATS
    memory = np.zeros(words * floats + LANE_BYTES // 4, np.float32)
    skip = (-memory.ctypes.data % LANE_BYTES) // 4
    rows = memory[skip : skip + words * floats].reshape(words, floats)
    rows[:, padded : 2 * padded] = 1
    rows[:, 2 * padded + 1] = 1
    return rows


# --- vectors ----------------------------------------------------------------------------------------------------


@intrinsic
def _held_within(typing, vector, limit):
    """The vector with every lane held within ±limit."""

    def build(context, builder, sig, args):
        kind = args[0].type
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), args[1], ir.Constant(ir.IntType(32), 0))
        high = builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)
        low = builder.fneg(high)
        held = builder.select(builder.fcmp_ordered("<", args[0], low), low, args[0])
        return builder.select(builder.fcmp_ordered(">", held, high), high, held)

    return vector(vector, limit), build


@intrinsic
def _inverse_root(typing, vector):
    """1 / √x of positive normal x by two of Newton's steps from a guess on the bits; relative error below 5e-6.

    It is three times as fast as square root and division, which share one slow unit of the processor.
    """

    def build(context, builder, sig, args):
        real = args[0].type
        integer = ir.VectorType(ir.IntType(32), real.count)
        flags = ("reassoc", "contract", "nsz")

        def constant(value):
            return ir.Constant(real, [value] * real.count)

        bits = builder.lshr(builder.bitcast(args[0], integer), ir.Constant(integer, [1] * real.count))
        guess = builder.bitcast(builder.sub(ir.Constant(integer, [0x5F375A86] * real.count), bits), real)
        half = builder.fmul(args[0], constant(-0.5), flags=flags)
        for _ in range(2):
            square = builder.fmul(guess, guess, flags=flags)
            factor = builder.fadd(builder.fmul(half, square, flags=flags), constant(1.5), flags=flags)
            guess = builder.fmul(guess, factor, flags=flags)
        return guess

    return vector(vector), build


# --- the step ---------------------------------------------------------------------------------------------------


@njit(**COMPILE)
def _change(word, context, sums, slope, settings, zero):
    """One strip of SIMD width of both vectors, and of their sums ``sums`` bytes further on."""
    w, c = load(word, zero), load(context, zero)
    word_sum, context_sum = load(word + sums, zero), load(context + sums, zero)
    of_word = multiply_add(settings.rate, _held_within(multiply_add(slope, c, zero), settings.clip), zero)
    of_context = multiply_add(settings.rate, _held_within(multiply_add(slope, w, zero), settings.clip), zero)
    minus = np.float32(-1)
    store(word, multiply_add(multiply_add(minus, of_word, zero), _inverse_root(word_sum), w))
    store(context, multiply_add(multiply_add(minus, of_context, zero), _inverse_root(context_sum), c))
    store(word + sums, multiply_add(of_word, of_word, word_sum))
    store(context + sums, multiply_add(of_context, of_context, context_sum))


@njit(**COMPILE)
def _change_bias(where, step):
    total = load_float(where + 4)
    store_float(where, load_float(where) - step / np.sqrt(total))
    store_float(where + 4, total + step * step)


@njit(**COMPILE)
def _step(word, context, size, count, settings):
    """Descends the loss of one count; returns the loss."""
    zero, small = zeros(16), zeros(ROW_FLOATS)
    wide = size & -LANE_BYTES
    products, rest = zero, small
    for j in range(0, wide, LANE_BYTES):
        products = multiply_add(load(word + j, zero), load(context + j, zero), products)
    for j in range(wide, size, _SMALL_BYTES):
        rest = multiply_add(load(word + j, small), load(context + j, small), rest)
    biases = 2 * size
    log_count = np.float32(np.log(count))
    score = lane_sum(products) + lane_sum(rest) + load_float(word + biases) + load_float(context + biases)
    diff = score - log_count
    weight = np.float32(1)
    if count < settings.x_max:
        weight = np.float32(np.exp(settings.alpha * (log_count - np.log(settings.x_max))))
    slope = weight * diff
    for j in range(0, wide, LANE_BYTES):
        _change(word + j, context + j, size, slope, settings, zero)
    for j in range(wide, size, _SMALL_BYTES):
        _change(word + j, context + j, size, slope, settings, small)
    step = settings.bias_rate * slope
    _change_bias(word + biases, step)
    _change_bias(context + biases, step)
    return 0.5 * np.float64(slope) * np.float64(diff)


@njit(**COMPILE)
def _shuffled(counts, tile, mirrored, visited, state):
    """Brings the counts of a tile into random order (Durstenfeld's shuffle); returns (how many, generator state)."""
    on_diagonal = tile // counts.tiles == tile % counts.tiles
    count = 0
    for entry in range(counts.bounds[tile], counts.bounds[tile + 1]):
        place = counts.places[entry]
        if mirrored:
            turned = np.uint32((place << np.uint32(16)) | (place >> np.uint32(16)))  # numba widens shifts to 64 bits
            if on_diagonal and turned == place:
                continue  # the diagonal is its own mirror image
            place = turned
        state = state * _MULTIPLIER + _INCREMENT
        chosen = np.int64(((state >> np.uint64(32)) * np.uint64(count + 1)) >> np.uint64(32))
        visited.places[count] = visited.places[chosen]
        visited.weights[count] = visited.weights[chosen]
        visited.places[chosen] = place
        visited.weights[chosen] = counts.weights[entry]
        count += 1
    return count, state


@njit(**COMPILE)
def train_visits(visits, counts, words, contexts, size, settings, visited, seed, tally):
    """Trains on some tiles.

    Args:
        visits: int64, ``2 * tile``, one more for the mirror image.
        counts: The non-zero counts.
        words: Parameters of words, from :func:`parameter_rows`; changed in place.
        contexts: Parameters of contexts, likewise.
        size: Floats of a vector, padding included.
        settings: What the settings decide.
        visited: Working memory that no other thread uses.
        seed: uint64 that decides the order within the tiles.
        tally: float64 [2], receives (loss, counts); the loss is summed in float64.
    """
    state = seed * _MULTIPLIER + _INCREMENT
    row = 4 * words.shape[1]
    loss, done = 0.0, 0
    for visit in visits:
        tile, mirrored = visit >> 1, (visit & 1) == 1
        word_band, context_band = tile // counts.tiles, tile % counts.tiles
        if mirrored:
            word_band, context_band = context_band, word_band
        first_word = address(words) + word_band * counts.width * row
        first_context = address(contexts) + context_band * counts.width * row
        count, state = _shuffled(counts, tile, mirrored, visited, state)
        for entry in range(count):
            if entry + _AHEAD < count:
                coming = visited.places[entry + _AHEAD]
                word = first_word + np.int64(coming >> np.uint32(16)) * row
                context = first_context + np.int64(coming & np.uint32(0xFFFF)) * row
                for j in range(0, row, LANE_BYTES):
                    prefetch(word + j)
                    prefetch(context + j)
            place = visited.places[entry]
            word = first_word + np.int64(place >> np.uint32(16)) * row
            context = first_context + np.int64(place & np.uint32(0xFFFF)) * row
            loss += _step(word, context, 4 * size, visited.weights[entry], settings)
        done += count
    tally[0] = loss
    tally[1] = done


def warm_up() -> None:
    """Compiles the kernel, or reads it from the cache."""
    places, weights = np.zeros(1, np.uint32), np.zeros(1, np.float32)
    for mapped in (places, weights):
        mapped.flags.writeable = False  # as the file's are, which to numba is a type of its own
    counts = Counts(np.zeros(2, np.int64), places, weights, 1, 256)
    rows = parameter_rows(1, 1)
    one = np.float32(1)
    settings = Settings(one, one, one, one, one)
    visited = Visited.allocate(counts)
    train_visits(np.zeros(0, np.int64), counts, rows, rows.copy(), 8, settings, visited, np.uint64(0), np.zeros(2))
