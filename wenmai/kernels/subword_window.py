"""fastText's training loops: a word is the mean of its rows, which are its own and those of its n-grams.

Bojanowski et al. 2017, "Enriching Word Vectors with Subword Information", arXiv:1607.04606. One step serves all forms:
one *hidden* row ``h`` against *outputs* ``u_o`` with signs ``s_o`` (+1 true, -1 false), by the logistic loss

    loss Σ -log σ(s_o h·u_o)      slopes q_o = α s_o σ(-s_o h·u_o)
    updates   h += Σ_o q_o u_o    u_o += q_o h

| algorithm  | hidden row                                          | outputs of a step                             |
|------------|-----------------------------------------------------|-----------------------------------------------|
| skip-gram  | mean of the centre's rows                           | one word of the window, and k negatives       |
|            |                                                     | of its own or the inner nodes on its path     |
| CBOW       | mean of all rows of all words of the window         | the centre, likewise                          |

fastText gathers the mean anew for every prediction and adds the update of ``h`` to every row, undivided. If all rows
of a mean move by ``e``, the mean moves by ``e``; so here rows are gathered once and moved once:

* skip-gram: ``h`` moves along from pair to pair of a window, and the sum of its moves is added to the rows at the end;
* CBOW: every word keeps the sum of its rows while it is within reach of the centre, moves it along, and gives the rows
  their sum of moves when it leaves. Rows that two words of a window share see each other's moves only then.

(In a word with an n-gram twice, the row moves by ``2e``; its mean is moved along by ``e`` until the next gathering.)
Rows, addresses, draws and the random stream of a block are those of ``window.py``.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from wenmai.kernels.simd import (
    LANE_BYTES,
    add,
    address,
    decline_in_place,
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
from wenmai.kernels.window import (
    COMPILE,
    ROW_FLOATS,
    Tables,
    advance,
    aligned_rows,
    below,
    draw_outputs,
    sample,
    whole_vectors,
)

__all__ = ["Choices", "Rows", "Scratch", "Subwords", "train_block", "warm_up"]

_MADE_OF = "simd.py 0a572d10aeed, window.py 9f9192ae33ae"  # numba checks this file alone, see window.py
_INNER = {**COMPILE, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # functions that only kernels call
_SURE = np.float32(80.0)  # a margin without loss, for places whose slope nobody reads
_AT_ONCE = 16  # margins whose slopes are taken at once


class Rows(NamedTuple):
    """The parameters, each ``[rows, padded size]`` float32 (``aligned_rows``), and which input rows learn fully."""

    input: np.ndarray
    output: np.ndarray  # of words, or of inner nodes for hierarchical softmax
    first_new: int  # input rows from here ...
    last_new: int  # ... to before here move by the whole update, ...
    old_rate: np.float32  # ... the others by this fraction of it (continued training)


class Subwords(NamedTuple):
    """The input rows of each word: ``row[start[w]:start[w + 1]]``, at least one."""

    start: np.ndarray  # int64 [V + 1]
    row: np.ndarray  # int32


class Choices(NamedTuple):
    """What the settings decide."""

    window: int  # the half-width is uniform in 1..window
    negative: int
    hierarchical: bool
    cbow: bool


class Scratch(NamedTuple):
    """Working memory of one worker. A pair is one prediction; its outputs fill whole vectors."""

    kept: np.ndarray  # int32 [block]
    outputs: np.ndarray  # int64 [2, pairs, outputs]: addresses, for this position and the next one
    signs: np.ndarray  # float32 [2, pairs, outputs]
    counts: np.ndarray  # int64 [2, pairs]: outputs of each pair
    slopes: np.ndarray  # float32 [outputs]
    hidden: np.ndarray  # float32 [2, whole vectors]: h, then zeros; and the sum of its moves
    places: np.ndarray  # int64 [words within reach, rows]: addresses of the rows of each word, and ...
    shares: np.ndarray  # float32 [words within reach, rows]: ... which fraction of a move each makes
    sums: np.ndarray  # float32 [words within reach, whole vectors]: CBOW: the sum of each word's rows, ...
    moves: np.ndarray  # float32 [words within reach, whole vectors]: ... by what each of them is to be moved, ...
    weights: np.ndarray  # float32 [words within reach]: ... and by how much more their sum moves

    @classmethod
    def allocate(cls, choices: Choices, subwords: Subwords, *, block: int, padded: int, longest_path: int) -> "Scratch":
        """Room for blocks of at most ``block`` tokens and rows of at most ``padded`` floats."""
        whole = whole_vectors(padded)
        pairs = 1 if choices.cbow else 2 * choices.window
        outputs = -(-(1 + choices.negative + longest_path) // _AT_ONCE) * _AT_ONCE
        reach = 2 * choices.window + 2  # the window, the centre and the next word to come
        longest = int(np.diff(subwords.start).max(initial=1))
        return cls(
            kept=np.empty(block + 1, np.int32),
            outputs=np.zeros((2, pairs, outputs), np.int64),
            signs=np.zeros((2, pairs, outputs), np.float32),
            counts=np.zeros((2, pairs), np.int64),
            slopes=np.zeros(outputs, np.float32),
            hidden=aligned_rows(2, whole),
            places=np.zeros((reach, longest), np.int64),
            shares=np.zeros((reach, longest), np.float32),
            sums=aligned_rows(reach, whole),
            moves=aligned_rows(reach, whole),
            weights=np.zeros(reach, np.float32),
        )


# --- rows of a word ---------------------------------------------------------------------------------------------


@njit(**_INNER)
def _list_rows(subwords, word, rows, input_rows, row, places, shares):
    """Lists a word's rows (addresses, fractions); returns how many, and by how many moves of a row their sum moves."""
    first, last = subwords.start[word], subwords.start[word + 1]
    weight = np.float32(0)
    for k in range(first, last):
        number = np.int64(subwords.row[k])
        share = np.float32(1) if rows.first_new <= number < rows.last_new else rows.old_rate
        store_int(places + 8 * (k - first), input_rows + number * row)
        store_float(shares + 4 * (k - first), share)
        weight += share
    return last - first, weight


@njit(**_INNER)
def _fetch_rows(places, first, last, row):
    """Asks the memory for listed rows."""
    for k in range(first, last):
        where = load_int(places + 8 * k)
        for j in range(0, row, LANE_BYTES):
            prefetch(where + j)


@njit(**_INNER)
def _sum_strip(places, length, target, offset, zero):
    total = zero
    for k in range(length):
        total = add(total, load(load_int(places + 8 * k) + offset, zero))
    store(target + offset, total)


@njit(**_INNER)
def _sum_rows(places, length, row, target):
    """Writes the sum of listed rows, at most 64 lanes at a time."""
    offset = np.int64(0)
    while row - offset >= 4 * LANE_BYTES:
        _sum_strip(places, length, target, offset, zeros(64))
        offset += 4 * LANE_BYTES
    while row - offset >= LANE_BYTES:
        _sum_strip(places, length, target, offset, zeros(16))
        offset += LANE_BYTES
    while offset < row:
        _sum_strip(places, length, target, offset, zeros(ROW_FLOATS))
        offset += 4 * ROW_FLOATS


@njit(**_INNER)
def _move_rows(places, shares, length, row, move):
    """Adds a move to each of the listed rows, or the fraction of it that the row makes."""
    zero, small = zeros(16), zeros(ROW_FLOATS)
    wide = row & -LANE_BYTES
    for k in range(length):
        where = load_int(places + 8 * k)
        share = load_float(shares + 4 * k)
        for j in range(0, wide, LANE_BYTES):
            store(where + j, multiply_add(share, load(move + j, zero), load(where + j, zero)))
        for j in range(wide, row, 4 * ROW_FLOATS):
            store(where + j, multiply_add(share, load(move + j, small), load(where + j, small)))


# --- the step ---------------------------------------------------------------------------------------------------


@njit(**_INNER)
def _descend_strip(hidden, moved, share, outputs, n, slopes, offset, zero):
    h = load(hidden + offset, zero)
    move = zero
    for o in range(n):
        where = load_int(outputs + 8 * o) + offset
        slope = load_float(slopes + 4 * o)
        u = load(where, zero)
        move = multiply_add(slope, u, move)
        store(where, multiply_add(slope, h, u))
    store(hidden + offset, multiply_add(share, move, h))
    store(moved + offset, add(load(moved + offset, zero), move))


@njit(**_INNER)
def step(row, hidden, moved, share, outputs, signs, n, slopes, rate):
    """Descends the logistic loss of one hidden row against n signed outputs; returns the loss before the step.

    Every argument but ``share``, ``n`` and ``rate`` is an address; ``row`` is the bytes of an output row. Outputs
    move by their slopes, one after the other; the hidden row by the fraction ``share`` of its move, which is added to
    ``moved``. ``outputs``, ``signs`` and ``slopes`` have room for whole vectors.
    """
    zero = zeros(16)
    whole = (n + _AT_ONCE - 1) & -_AT_ONCE
    for o in range(n, whole):
        store_int(outputs + 8 * o, hidden)
        store_float(signs + 4 * o, np.float32(1))
    for o in range(0, n, 4):
        u0, u1 = load_int(outputs + 8 * o), load_int(outputs + 8 * o + 8)
        u2, u3 = load_int(outputs + 8 * o + 16), load_int(outputs + 8 * o + 24)
        s0, s1, s2, s3 = zero, zero, zero, zero
        for j in range(0, row, LANE_BYTES):
            h = load(hidden + j, zero)
            s0 = multiply_add(h, load(u0 + j, zero), s0)
            s1 = multiply_add(h, load(u1 + j, zero), s1)
            s2 = multiply_add(h, load(u2 + j, zero), s2)
            s3 = multiply_add(h, load(u3 + j, zero), s3)
        store_sums(slopes + 4 * o, slopes + 4 * o + 8, s0, s1, s2, s3)
    for o in range(0, whole, _AT_ONCE):
        where = slopes + 4 * o
        store(where, multiply_add(load(where, zero), load(signs + 4 * o, zero), zero))
    for o in range(n, whole):
        store_float(slopes + 4 * o, _SURE)
    loss = decline_in_place(slopes, n, rate)
    for o in range(0, whole, _AT_ONCE):
        where = slopes + 4 * o
        store(where, multiply_add(load(where, zero), load(signs + 4 * o, zero), zero))
    offset = np.int64(0)
    while row - offset >= 2 * LANE_BYTES:
        _descend_strip(hidden, moved, share, outputs, n, slopes, offset, zeros(32))
        offset += 2 * LANE_BYTES
    while row - offset >= LANE_BYTES:
        _descend_strip(hidden, moved, share, outputs, n, slopes, offset, zero)
        offset += LANE_BYTES
    while offset < row:
        _descend_strip(hidden, moved, share, outputs, n, slopes, offset, zeros(ROW_FLOATS))
        offset += 4 * ROW_FLOATS
    return loss


@njit(**_INNER)
def _scale(source, target, size, scale):
    """Sets target = scale * source, over whole vectors."""
    zero = zeros(16)
    for j in range(0, size, LANE_BYTES):
        store(target + j, multiply_add(scale, load(source + j, zero), zero))


@njit(**_INNER)
def _shift(target, size, scale, move):
    """Adds scale * move to target, over whole vectors."""
    zero = zeros(16)
    for j in range(0, size, LANE_BYTES):
        store(target + j, multiply_add(scale, load(move + j, zero), load(target + j, zero)))


# --- a sentence -------------------------------------------------------------------------------------------------


@njit(**_INNER)
def _train_skipgram(kept, count, rows, subwords, tables, choices, scratch, rate, state):
    """Every kept word of a sentence predicts the words around it; returns (loss, pairs, generator state)."""
    row, output_row = 4 * rows.input.shape[1], 4 * rows.output.shape[1]
    input_rows, output_rows = address(rows.input), address(rows.output)
    outputs, signs, slopes = address(scratch.outputs), address(scratch.signs), address(scratch.slopes)
    hidden, size = address(scratch.hidden), 4 * scratch.hidden.shape[1]
    moved = hidden + size
    places, shares, longest = address(scratch.places), address(scratch.shares), scratch.places.shape[1]
    counts = scratch.counts
    _, pairs, room = scratch.outputs.shape
    nothing = np.int64(0)  # typed: numba would compile functions anew for each plain constant
    low, high, next_length = nothing, nothing, nothing
    next_weight = np.float32(0)
    loss, examples = 0.0, nothing
    for i in range(-1, count):
        m, length, weight = high - low, next_length, next_weight
        here, there = i & 1, (i + 1) & 1
        low, high, next_length = nothing, nothing, nothing
        next_places = places + 8 * there * longest
        if i + 1 < count:  # what the next position needs is drawn and listed now, so that memory can be asked for it
            next_length, next_weight = _list_rows(
                subwords, np.int64(kept[i + 1]), rows, input_rows, row, next_places, shares + 4 * there * longest
            )
            state = advance(state)
            half = 1 + below(state, choices.window)
            low, high = max(nothing, i + 1 - half), min(count, i + 2 + half) - 1
            for c in range(high - low):
                target = np.int64(kept[low + c + (low + c > i)])
                pair = (there * pairs + c) * room
                counts[there, c], state = draw_outputs(
                    target, output_row, output_rows, choices, tables, output_rows,
                    outputs + 8 * pair, signs + 4 * pair, state,
                )  # fmt: skip
        if i < 0 or m == 0:
            _fetch_rows(next_places, nothing, next_length, row)
            continue
        _sum_rows(places + 8 * here * longest, length, row, hidden)
        scale = np.float32(1) / np.float32(length)
        _scale(hidden, hidden, size, scale)
        _scale(moved, moved, size, np.float32(0))
        for c in range(m):
            _fetch_rows(next_places, next_length * c // m, next_length * (c + 1) // m, row)
            pair = (here * pairs + c) * room
            loss += step(output_row, hidden, moved, scale * weight, outputs + 8 * pair, signs + 4 * pair,
                         counts[here, c], slopes, rate)  # fmt: skip
        _move_rows(places + 8 * here * longest, shares + 4 * here * longest, length, row, moved)
        examples += m
    return loss, examples, state


@njit(**_INNER)
def _train_cbow(kept, count, rows, subwords, tables, choices, scratch, rate, state):
    """Every kept word of a sentence is predicted by the words around it; returns (loss, windows, generator state)."""
    row, output_row = 4 * rows.input.shape[1], 4 * rows.output.shape[1]
    input_rows, output_rows = address(rows.input), address(rows.output)
    outputs, signs, slopes = address(scratch.outputs), address(scratch.signs), address(scratch.slopes)
    hidden, size = address(scratch.hidden), 4 * scratch.hidden.shape[1]
    moved = hidden + size
    places, shares, longest = address(scratch.places), address(scratch.shares), scratch.places.shape[1]
    sums, moves, weights = address(scratch.sums), address(scratch.moves), scratch.weights
    slots, room = weights.shape[0], scratch.outputs.shape[2]
    nothing = np.int64(0)  # typed, see above
    following, next_length, next_weight = nothing, nothing, np.float32(0)
    loss, examples = 0.0, nothing
    for i in range(-choices.window - 1, count + choices.window + 1):
        leaving, coming = i - choices.window - 1, i + choices.window
        if 0 <= leaving < count:
            slot = leaving % slots
            word = np.int64(kept[leaving])
            length = subwords.start[word + 1] - subwords.start[word]
            _move_rows(places + 8 * slot * longest, shares + 4 * slot * longest, length, row, moves + slot * size)
        if 0 <= coming < count:
            slot = coming % slots
            _sum_rows(places + 8 * slot * longest, next_length, row, sums + slot * size)
            _scale(moves + slot * size, moves + slot * size, size, np.float32(0))
            weights[slot] = next_weight
        if 0 <= coming + 1 < count:
            slot = (coming + 1) % slots
            next_length, next_weight = _list_rows(
                subwords, np.int64(kept[coming + 1]), rows, input_rows, row,
                places + 8 * slot * longest, shares + 4 * slot * longest,
            )  # fmt: skip
            _fetch_rows(places + 8 * slot * longest, nothing, next_length, row)
        here = (i & 1) * room
        there = room - here
        n = following
        if 0 <= i + 1 < count:
            following, state = draw_outputs(
                np.int64(kept[i + 1]), output_row, output_rows, choices, tables, output_rows,
                outputs + 8 * there, signs + 4 * there, state,
            )  # fmt: skip
        if not 0 <= i < count:
            continue
        state = advance(state)
        half = 1 + below(state, choices.window)
        low, high = max(nothing, i - half), min(count, i + half + 1)
        if high - low < 2:
            continue
        _scale(hidden, hidden, size, np.float32(0))
        _scale(moved, moved, size, np.float32(0))
        total = 0
        for p in range(low, high):
            if p != i:
                total += subwords.start[kept[p] + 1] - subwords.start[kept[p]]
                _shift(hidden, size, np.float32(1), sums + p % slots * size)
        _scale(hidden, hidden, size, np.float32(1) / np.float32(total))
        loss += step(output_row, hidden, moved, np.float32(0), outputs + 8 * here, signs + 4 * here, n, slopes, rate)
        for p in range(low, high):
            if p != i:
                slot = p % slots
                _shift(sums + slot * size, size, weights[slot], moved)
                _shift(moves + slot * size, size, np.float32(1), moved)
        examples += 1
    return loss, examples, state


@njit(**COMPILE)
def train_block(tokens, starts, rows, subwords, tables, choices, scratch, rate, seed, tally):
    """Trains on one block of text.

    Args:
        tokens: int32 ids of the corpus; -1 is skipped.
        starts: int64 places in ``tokens`` where a sentence begins, then ``len(tokens)``; no window crosses them.
        rows: The parameters, changed in place.
        subwords: The rows of each word.
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
        if choices.cbow:
            more, pairs, state = _train_cbow(scratch.kept, count, rows, subwords, tables, choices, scratch, rate, state)
        else:
            more, pairs, state = _train_skipgram(
                scratch.kept, count, rows, subwords, tables, choices, scratch, rate, state
            )
        loss += more
        examples += pairs
    tally[0] = loss
    tally[1] = examples
    tally[2] = known


def warm_up() -> None:
    """Compiles ``train_block``, or reads it from the cache: before the parameters are there, as LLVM needs room too."""
    row, zero, one = aligned_rows(1, LANE_BYTES // 4), np.zeros(1, np.int32), np.ones(1, np.float32)
    rows = Rows(row, row.copy(), 0, 1, np.float32(1))
    tables = Tables(zero, one, one, zero, np.zeros(2, np.int64), zero, one)
    subwords = Subwords(np.array([0, 1]), zero)
    choices = Choices(window=1, negative=1, hierarchical=False, cbow=False)
    scratch = Scratch.allocate(choices, subwords, block=1, padded=LANE_BYTES // 4, longest_path=0)
    nothing, starts = np.zeros(0, np.int32), np.zeros(2, np.int64)
    train_block(nothing, starts, rows, subwords, tables, choices, scratch, np.float32(0), np.uint64(0), np.zeros(3))
