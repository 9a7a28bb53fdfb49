"""word2vec's training loops: every position of a sentence predicts, or is predicted by, the words around it.

One step serves all of them (Mikolov et al. 2013a, 2013b; in the batched form of Ji et al. 2016, arXiv:1604.04661).
It takes *inputs* ``a_c`` and *outputs* ``u_o`` with signs ``s_o`` (+1 true, -1 false) and descends the logistic loss
of every pair at once, as three small matrix products over rows that stay in L1:

    margins   x_co = s_o u_o·a_c          loss Σ -log σ(x_co)
    slopes    q_co = α σ(-x_co)
    updates   a_c += Σ_o q_co s_o u_o      u_o += s_o Σ_c q_co a_c       (both from the old values)

| algorithm                        | inputs                  | outputs                                   |
|----------------------------------|-------------------------|-------------------------------------------|
| skip-gram, shared negatives      | all words of the window | the centre, k negatives                   |
| skip-gram, classic               | one word of the window  | the centre, k negatives of its own        |
| skip-gram, hierarchical softmax  | all words of the window | the inner nodes on the centre's path      |
| CBOW                             | mean of the window      | as above; the input's update goes to all  |

Rows of parameters are padded with zeros to multiples of ``ROW_FLOATS``, rows of working memory to whole SIMD vectors.
Loops over a row go in whole vectors as far as these reach and then in small ones. Only sums of products read past a
row's end: the other factor is zero there. (Rows that are whole vectors all begin on a cache line, which is faster.)
Every block of text has its own random stream, so that a block's draws depend on (seed, epoch, block) alone: no
generator state has to be saved, and threads may take blocks in any order.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from wenmai.kernels.simd import (
    LANE_BYTES,
    STRIP,
    add,
    address,
    decline_in_place,
    lane_sum,
    load,
    load_float,
    load_int,
    multiply_add,
    prefetch,
    store,
    store_float,
    store_int,
    store_sums,
    zeros,
)

__all__ = [
    "ROW_FLOATS",
    "Choices",
    "Rows",
    "Scratch",
    "Tables",
    "aligned_rows",
    "noise_table",
    "train_block",
    "warm_up",
]

_MADE_OF = "simd.py 0a572d10aeed"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"nogil": True, "cache": True, "fastmath": False, "error_model": "numpy", "boundscheck": False}
ROW_FLOATS = 4
_SMALL_BYTES = 4 * ROW_FLOATS
_SURE = np.float32(80.0)  # a margin without loss, for places whose slope nobody reads
_MULTIPLIER, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's MMIX generator
_UNIT_24 = np.float32(2.0**-24)
_UNIT_36 = np.float32(2.0**-36)


class Rows(NamedTuple):
    """The parameters, each ``[rows, padded size]`` float32 (:func:`aligned_rows`); an unused matrix has one row."""

    input: np.ndarray
    negative: np.ndarray
    hierarchical: np.ndarray
    old_rows: int  # input rows below this number ...
    old_rate: np.float32  # ... have their updates multiplied by this (continued training)


class Tables(NamedTuple):
    """What the vocabulary decides: ids, subsampling, noise distribution, Huffman paths."""

    word: np.ndarray  # int32 [types of the corpus]: its row, or -1 for a word outside the vocabulary
    keep: np.ndarray  # float32 [V]: probability that an occurrence is kept
    noise_threshold: np.ndarray  # float32 [V] and ...
    noise_alias: np.ndarray  # int32 [V]: Walker's alias table of the noise distribution
    path_start: np.ndarray  # int64 [V + 1]: where a word's path begins in ...
    path_node: np.ndarray  # int32: inner nodes from the root and ...
    path_sign: np.ndarray  # float32: +1 for code 0, -1 for code 1


class Choices(NamedTuple):
    """What the settings decide."""

    window: int
    dynamic: bool  # half-width uniform in 1..window, as word2vec.c; otherwise always `window`
    negative: int
    hierarchical: bool
    softmax: bool
    cbow: bool
    mean: bool
    true_gradient: bool
    shared: bool


class Scratch(NamedTuple):
    """Working memory of one worker."""

    kept: np.ndarray  # int32 [block]
    inputs: np.ndarray  # int64 [inputs]: addresses of rows
    rates: np.ndarray  # float32 [inputs]
    outputs: np.ndarray  # int64 [2, outputs]: this position's and the next one's
    signs: np.ndarray  # float32 [2, outputs]
    signed: np.ndarray  # float32 [outputs, whole vectors]: s_o u_o before the step, then zeros
    signed_rows: np.ndarray  # int64 [outputs]: their addresses
    slopes: np.ndarray  # float32 [inputs * outputs + 16]
    hidden: np.ndarray  # float32 [2, whole vectors]: the mean of a CBOW window, then zeros; and its update
    scores: np.ndarray  # float32 [V] for the full softmax, else [1]

    @classmethod
    def allocate(cls, choices: Choices, *, block: int, padded: int, longest_path: int, vocabulary: int) -> "Scratch":
        """Room for blocks of at most ``block`` tokens and rows of ``padded`` floats."""
        whole = whole_vectors(padded)
        inputs = 2 * choices.window + 3  # a window, the hidden row and its update; rows are listed in pairs
        outputs = 2 + choices.negative + longest_path
        signed = aligned_rows(outputs + 1, whole)
        return cls(
            kept=np.empty(block + 1, np.int32),
            inputs=np.zeros(inputs, np.int64),
            rates=np.ones(inputs, np.float32),
            outputs=np.zeros((2, outputs), np.int64),
            signs=np.zeros((2, outputs), np.float32),
            signed=signed,
            signed_rows=signed.ctypes.data + np.arange(outputs, dtype=np.int64) * whole * 4,
            slopes=np.zeros(inputs * (outputs + 1) + 16, np.float32),
            hidden=aligned_rows(2, whole),
            scores=np.zeros(vocabulary if choices.softmax else 1, np.float32),
        )


def aligned_rows(rows: int, padded: int) -> np.ndarray:
    """Returns zeros ``[rows, padded]`` float32 that begin on a cache line; a vector may be read past the end."""
    memory = np.zeros(rows * padded + 2 * LANE_BYTES // 4, np.float32)
    skip = (-memory.ctypes.data % LANE_BYTES) // 4
    return memory[skip : skip + rows * padded].reshape(rows, padded)


def whole_vectors(padded: int) -> int:
    """The floats of a row that is padded to whole SIMD vectors."""
    return -(-padded * 4 // LANE_BYTES) * LANE_BYTES // 4


# --- random numbers ---------------------------------------------------------------------------------------------


@njit(**COMPILE)
def advance(state):
    return state * _MULTIPLIER + _INCREMENT


@njit(**COMPILE)
def below(state, limit):
    return np.int64(((state >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


@njit(**COMPILE)
def noise_table(weights):
    """Walker's alias table of a distribution given by float64 weights: draw slot i, keep it with probability t_i.

    Returns ``(threshold float32 [V], alias int32 [V])``; exact up to float32 rounding of the thresholds.
    """
    size = weights.shape[0]
    share = weights * (size / weights.sum())
    threshold = np.ones(size, np.float32)
    alias = np.empty(size, np.int32)
    waiting = np.empty(size, np.int32)  # two stacks: the slots below 1 from the left, the others from the right
    smalls, larges = 0, size
    for i in range(size):
        alias[i] = i
        if share[i] < 1.0:
            waiting[smalls] = i
            smalls += 1
        else:
            larges -= 1
            waiting[larges] = i
    while smalls > 0 and larges < size:
        smalls -= 1
        poor, rich = waiting[smalls], waiting[larges]
        threshold[poor] = share[poor]
        alias[poor] = rich
        share[rich] -= 1.0 - share[poor]
        if share[rich] < 1.0:
            larges += 1
            waiting[smalls] = rich
            smalls += 1
    return threshold, alias


# --- the step ---------------------------------------------------------------------------------------------------


@njit(**COMPILE)
def _weighted_sum(target0, target1, both, scale0, scale1, weight0, weight1, stride, sources, count, offset, zero):
    """target0 += scale0 Σ_k weight0[k] source_k, and the same for target1: one strip of SIMD width of two rows."""
    sum0 = zero
    sum1 = zero
    for k in range(count):
        source = load(load_int(sources + 8 * k) + offset, zero)
        sum0 = multiply_add(load_float(weight0), source, sum0)
        sum1 = multiply_add(load_float(weight1), source, sum1)
        weight0 += stride
        weight1 += stride
    store(target0 + offset, multiply_add(scale0, sum0, load(target0 + offset, zero)))
    if both:
        store(target1 + offset, multiply_add(scale1, sum1, load(target1 + offset, zero)))


@njit(**COMPILE)
def _weighted_rows(row, targets, scales, count, weights, weight_step, weight_stride, sources, source_count):
    """targets_i += scale_i Σ_k weights[i, k] source_k for all i, two rows and at most ``STRIP`` lanes at a time.

    Writes ``row`` bytes of each target.
    """
    wide = row & ~(4 * STRIP - 1)
    for i in range(0, count, 2):
        both = i + 1 < count
        target0 = load_int(targets + 8 * i)
        target1 = load_int(targets + 8 * i + 8)
        scale0 = load_float(scales + 4 * i)
        scale1 = load_float(scales + 4 * i + 4)
        first = weights + i * weight_step
        second = first + weight_step
        for offset in range(0, wide, 4 * STRIP):
            _weighted_sum(target0, target1, both, scale0, scale1, first, second, weight_stride,
                          sources, source_count, offset, zeros(STRIP))  # fmt: skip
        offset = wide
        if row & (2 * LANE_BYTES) & (4 * STRIP - 1):
            _weighted_sum(target0, target1, both, scale0, scale1, first, second, weight_stride,
                          sources, source_count, offset, zeros(32))  # fmt: skip
            offset += 2 * LANE_BYTES
        if row & LANE_BYTES:
            _weighted_sum(target0, target1, both, scale0, scale1, first, second, weight_stride,
                          sources, source_count, offset, zeros(16))  # fmt: skip
            offset += LANE_BYTES
        if row & (LANE_BYTES // 2):
            _weighted_sum(target0, target1, both, scale0, scale1, first, second, weight_stride,
                          sources, source_count, offset, zeros(8))  # fmt: skip
            offset += LANE_BYTES // 2
        if row & (LANE_BYTES // 4):
            _weighted_sum(target0, target1, both, scale0, scale1, first, second, weight_stride,
                          sources, source_count, offset, zeros(4))  # fmt: skip


@njit(**COMPILE)
def step(row, inputs, input_targets, rates, m, outputs, output_targets, signs, n, signed, signed_rows, slopes, rate):
    """Descends the logistic loss of m inputs against n signed outputs; returns the loss before the step.

    Every argument but the counts and ``rate`` is an address; ``row`` is the padded row length in bytes. The updates
    are added to the ``*_targets`` rows, which are the parameters themselves or a buffer.
    """
    zero = zeros(16)
    small = zeros(ROW_FLOATS)
    wide = row & -LANE_BYTES
    whole = (row + LANE_BYTES - 1) & -LANE_BYTES
    for o in range(n):
        source = load_int(outputs + 8 * o)
        target = signed + o * whole
        sign = load_float(signs + 4 * o)
        for j in range(0, wide, LANE_BYTES):
            store(target + j, multiply_add(sign, load(source + j, zero), zero))
        for j in range(wide, row, _SMALL_BYTES):
            store(target + j, multiply_add(sign, load(source + j, small), small))
    odd = n & 1
    columns = n + odd
    if odd:
        for j in range(0, whole, LANE_BYTES):
            store(signed + n * whole + j, zero)
    stride = 4 * columns
    for c in range(0, m, 2):
        a0 = load_int(inputs + 8 * c)
        a1 = load_int(inputs + 8 * c + 8) if c + 1 < m else a0
        for o in range(0, n, 2):
            u0 = signed + o * whole
            u1 = u0 + whole
            s00, s01, s10, s11 = zero, zero, zero, zero
            for j in range(0, row, LANE_BYTES):
                x0, x1, y0, y1 = load(a0 + j, zero), load(a1 + j, zero), load(u0 + j, zero), load(u1 + j, zero)
                s00 = multiply_add(x0, y0, s00)
                s01 = multiply_add(x0, y1, s01)
                s10 = multiply_add(x1, y0, s10)
                s11 = multiply_add(x1, y1, s11)
            corner = slopes + c * stride + 4 * o
            store_sums(corner, corner + stride, s00, s01, s10, s11)
    if odd:
        for c in range(m):
            store_float(slopes + c * stride + 4 * n, _SURE)
    used = m * columns
    for place in range(used, (used + 15) & ~15):
        store_float(slopes + 4 * place, _SURE)
    loss = decline_in_place(slopes, used, rate)
    four = np.int64(4)  # typed: numba would compile the function anew for each plain constant
    _weighted_rows(row, output_targets, signs, n, slopes, four, stride, inputs, m)
    _weighted_rows(row, input_targets, rates, m, slopes, stride, four, signed_rows, n)
    return loss


@njit(**COMPILE)
def _softmax_step(row, hidden, update, output, size, target, scores, rate):
    """Descends the exact softmax loss of one hidden row; ``update`` receives the step of the hidden row.

    P(o|h) = exp(u_o·h) / Σ_w exp(u_w·h); the slope of -log P(target|h) at score w is P(w|h) - 1[w = target].
    """
    zero = zeros(16)
    small = zeros(ROW_FLOATS)
    wide = row & -LANE_BYTES
    highest = np.float32(-np.inf)
    for w in range(size):
        products = zero
        for j in range(0, row, LANE_BYTES):
            products = multiply_add(load(hidden + j, zero), load(output + w * row + j, zero), products)
        total = lane_sum(products)
        store_float(scores + 4 * w, total)
        highest = max(highest, total)
    normaliser = 0.0
    for w in range(size):
        normaliser += math.exp(np.float64(load_float(scores + 4 * w) - highest))
    loss = math.log(normaliser) + np.float64(highest) - np.float64(load_float(scores + 4 * target))
    for w in range(size):
        share = math.exp(np.float64(load_float(scores + 4 * w) - highest)) / normaliser
        slope = np.float32(rate * ((1.0 if w == target else 0.0) - share))
        u = output + w * row
        for j in range(0, wide, LANE_BYTES):
            old = load(u + j, zero)
            store(update + j, multiply_add(slope, old, load(update + j, zero)))
            store(u + j, multiply_add(slope, load(hidden + j, zero), old))
        for j in range(wide, row, _SMALL_BYTES):
            last = load(u + j, small)
            store(update + j, multiply_add(slope, last, load(update + j, small)))
            store(u + j, multiply_add(slope, load(hidden + j, small), last))
    return loss


# --- a sentence -------------------------------------------------------------------------------------------------


@njit(**COMPILE)
def sample(tokens, begin, end, word, keep, kept, count, state):
    """Appends the known words that subsampling keeps of a sentence to kept[:count].

    Returns (new count, known words, generator state).
    """
    known = 0
    for i in range(begin, end):
        token = tokens[i]
        if token < 0:
            continue
        w = word[token]
        if w < 0:
            continue
        known += 1
        state = advance(state)
        kept[count] = w
        count += np.int64(np.float32(state >> np.uint64(40)) * _UNIT_24 < keep[w])
    return count, known, state


@njit(**COMPILE)
def draw_outputs(centre, row, negative, choices, tables, hierarchical, outputs, signs, state):
    """Lists the outputs of a centre word (addresses and signs) and prefetches them.

    The true word and k draws from the noise distribution (a draw equal to the true word is dropped), then the inner
    nodes of its Huffman path. Returns (count, generator state).
    """
    n = 0
    if choices.negative > 0:
        where = negative + centre * row
        store_int(outputs, where)
        store_float(signs, np.float32(1))
        for j in range(0, row, LANE_BYTES):
            prefetch(where + j)
        n = 1
        size = np.uint64(tables.noise_alias.shape[0])
        for _ in range(choices.negative):
            state = advance(state)
            draw = (state >> np.uint64(28)) * size  # 36 random bits times V: the slot, and 36 bits of fraction
            slot = np.int64(draw >> np.uint64(36))
            if np.float32(draw & np.uint64(0xFFFFFFFFF)) * _UNIT_36 >= tables.noise_threshold[slot]:
                slot = np.int64(tables.noise_alias[slot])
            if slot == centre:
                continue
            where = negative + slot * row
            store_int(outputs + 8 * n, where)
            store_float(signs + 4 * n, np.float32(-1))
            for j in range(0, row, LANE_BYTES):
                prefetch(where + j)
            n += 1
    if choices.hierarchical:
        for p in range(tables.path_start[centre], tables.path_start[centre + 1]):
            where = hierarchical + np.int64(tables.path_node[p]) * row
            store_int(outputs + 8 * n, where)
            store_float(signs + 4 * n, tables.path_sign[p])
            for j in range(0, row, LANE_BYTES):
                prefetch(where + j)
            n += 1
    return n, state


@njit(**COMPILE)
def gather_window(kept, low, high, i, half, input_rows, row, rows, inputs, rates):
    """Lists the rows of the words around position i of the sentence kept[low:high]; returns how many."""
    m = 0
    for p in range(max(low, i - half), min(high, i + half + 1)):
        if p == i:
            continue
        w = np.int64(kept[p])
        store_int(inputs + 8 * m, input_rows + w * row)
        store_float(rates + 4 * m, rows.old_rate if w < rows.old_rows else np.float32(1))
        m += 1
    return m


@njit(**COMPILE)
def average(row, inputs, m, mean, hidden):
    """hidden[0] = mean (or sum) of the window's rows; hidden[1] = 0, to receive the update."""
    zero = zeros(16)
    small = zeros(ROW_FLOATS)
    wide = row & -LANE_BYTES
    update = hidden + ((row + LANE_BYTES - 1) & -LANE_BYTES)
    scale = np.float32(1) / np.float32(m) if mean else np.float32(1)
    for j in range(0, wide, LANE_BYTES):
        total = zero
        for c in range(m):
            total = add(total, load(load_int(inputs + 8 * c) + j, zero))
        store(hidden + j, multiply_add(scale, total, zero))
        store(update + j, zero)
    for j in range(wide, row, _SMALL_BYTES):
        rest = small
        for c in range(m):
            rest = add(rest, load(load_int(inputs + 8 * c) + j, small))
        store(hidden + j, multiply_add(scale, rest, small))
        store(update + j, small)


@njit(**COMPILE)
def _spread(row, update, targets, rates, m, scale):
    """Adds a CBOW update to every row of the window."""
    zero = zeros(16)
    small = zeros(ROW_FLOATS)
    wide = row & -LANE_BYTES
    for j in range(0, wide, LANE_BYTES):
        change = load(update + j, zero)
        for c in range(m):
            where = load_int(targets + 8 * c) + j
            store(where, multiply_add(scale * load_float(rates + 4 * c), change, load(where, zero)))
    for j in range(wide, row, _SMALL_BYTES):
        rest = load(update + j, small)
        for c in range(m):
            where = load_int(targets + 8 * c) + j
            store(where, multiply_add(scale * load_float(rates + 4 * c), rest, load(where, small)))


@njit(**COMPILE)
def _train_sentence(kept, count, rows, tables, choices, scratch, rate, state):
    """One pass over the kept words of a sentence; returns (loss, examples, generator state).

    An example is one prediction: a (word, context word) pair for skip-gram, a window for CBOW.
    """
    row = 4 * rows.input.shape[1]
    input_rows, negative, hierarchical = address(rows.input), address(rows.negative), address(rows.hierarchical)
    inputs, rates, slopes = address(scratch.inputs), address(scratch.rates), address(scratch.slopes)
    outputs, signs = address(scratch.outputs), address(scratch.signs)
    signed, signed_rows, hidden = address(scratch.signed), address(scratch.signed_rows), address(scratch.hidden)
    scores = address(scratch.scores)
    update = hidden + 4 * scratch.hidden.shape[1]
    hidden_row, hidden_update, one = inputs, inputs, rates
    if choices.cbow:  # two places after the window's: the hidden row, its update
        hidden_row = inputs + 16 * choices.window
        hidden_update = hidden_row + 8
        one = rates + 8 * choices.window
        store_int(hidden_row, hidden)
        store_int(hidden_update, update)
        store_float(one, np.float32(1))
    capacity = scratch.outputs.shape[1]
    ahead = choices.cbow or choices.shared  # outputs belong to the position, so the next ones are drawn early
    loss, examples = 0.0, 0
    n = following = np.int64(0)  # typed: numba would compile `step` anew for each plain constant
    single = np.int64(1)
    for i in range(-1, count):
        here = (i & 1) * capacity
        n = following
        if i + 1 < count:
            if ahead and not choices.softmax:
                there = ((i + 1) & 1) * capacity
                following, state = draw_outputs(
                    np.int64(kept[i + 1]), row, negative, choices, tables, hierarchical,
                    outputs + 8 * there, signs + 4 * there, state,
                )  # fmt: skip
            if i + 1 + choices.window < count:
                where = input_rows + np.int64(kept[i + 1 + choices.window]) * row
                for j in range(0, row, LANE_BYTES):
                    prefetch(where + j)
        if i < 0:
            continue
        half = choices.window
        if choices.dynamic:
            state = advance(state)
            half = 1 + below(state, choices.window)
        m = gather_window(kept, 0, count, i, half, input_rows, row, rows, inputs, rates)
        if m == 0:
            continue
        centre = np.int64(kept[i])
        if choices.cbow:
            examples += 1
            average(row, inputs, m, choices.mean, hidden)
            if choices.softmax:
                loss += _softmax_step(row, hidden, update, negative, scratch.scores.shape[0], centre, scores, rate)
            elif n > 0:
                loss += step(row, hidden_row, hidden_update, one, single, outputs + 8 * here, outputs + 8 * here,
                              signs + 4 * here, n, signed, signed_rows, slopes, rate)  # fmt: skip
            scale = np.float32(1) / np.float32(m) if choices.true_gradient and choices.mean else np.float32(1)
            _spread(row, update, inputs, rates, m, scale)
        elif choices.softmax:
            examples += m
            for c in range(m):
                average(row, inputs + 8 * c, 1, False, hidden)
                loss += _softmax_step(row, hidden, update, negative, scratch.scores.shape[0], centre, scores, rate)
                _spread(row, update, inputs + 8 * c, rates + 4 * c, 1, np.float32(1))
        elif choices.shared:
            examples += m
            if n > 0:
                loss += step(row, inputs, inputs, rates, m, outputs + 8 * here, outputs + 8 * here,
                              signs + 4 * here, n, signed, signed_rows, slopes, rate)  # fmt: skip
        else:
            examples += m
            for c in range(m):
                n, state = draw_outputs(centre, row, negative, choices, tables, hierarchical, outputs, signs, state)
                if n > 0:
                    loss += step(row, inputs + 8 * c, inputs + 8 * c, rates + 4 * c, single, outputs, outputs,
                                  signs, n, signed, signed_rows, slopes, rate)  # fmt: skip
    return loss, examples, state


@njit(**COMPILE)
def train_block(tokens, starts, rows, tables, choices, scratch, rate, seed, tally):
    """Trains on one block of text.

    Args:
        tokens: int32 ids of the corpus; -1 is skipped.
        starts: int64 places in ``tokens`` where a sentence begins, then ``len(tokens)``; no window crosses them.
        rows: The parameters, changed in place.
        tables: What the vocabulary decides.
        choices: What the settings decide.
        scratch: Working memory that no other thread uses.
        rate: float32 learning rate α of this block.
        seed: uint64 that decides every draw of this block.
        tally: float64 [3], receives (loss, examples, known words); the loss is summed in float64.
    """
    state = advance(seed)
    loss, examples, known = 0.0, 0, 0
    for s in range(starts.shape[0] - 1):
        count, here, state = sample(tokens, starts[s], starts[s + 1], tables.word, tables.keep, scratch.kept, 0, state)
        known += here
        if count > 0:
            more, pairs, state = _train_sentence(scratch.kept, count, rows, tables, choices, scratch, rate, state)
            loss += more
            examples += pairs
    tally[0] = loss
    tally[1] = examples
    tally[2] = known


def smallest() -> tuple[Rows, Tables, Choices]:
    """The arguments of a kernel for a vocabulary of one word: enough to compile it, as types are all that matters."""
    row, zero, one = aligned_rows(1, LANE_BYTES // 4), np.zeros(1, np.int32), np.ones(1, np.float32)
    rows = Rows(row, row.copy(), row.copy(), 0, np.float32(1))
    tables = Tables(zero, one, one, zero, np.zeros(2, np.int64), zero, one)
    choices = Choices(
        window=1, dynamic=True, negative=1, hierarchical=False, softmax=False, cbow=False, mean=True,
        true_gradient=False, shared=True,
    )  # fmt: skip
    return rows, tables, choices


def warm_up() -> None:
    """Compiles ``train_block``, or reads it from the cache: before the parameters are there, as LLVM needs room too."""
    rows, tables, choices = smallest()
    scratch = Scratch.allocate(choices, block=1, padded=LANE_BYTES // 4, longest_path=0, vocabulary=1)
    nothing, starts = np.zeros(0, np.int32), np.zeros(2, np.int64)
    train_block(nothing, starts, rows, tables, choices, scratch, np.float32(0), np.uint64(0), np.zeros(3))
