"""The same training with a result that no number of threads can change.

Threads that write rows while others read them (Hogwild) give another result each time. Here a fixed number of *lanes*
each train a block of their own, in steps of a few windows: first every lane computes its changes from parameters that
nobody writes, then every row receives its changes in the order of the lanes. Both halves are parallel, over lanes and
over rows, and neither depends on who does the work.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import config, njit, prange, set_num_threads

from wenmai.kernels.simd import (
    LANE_BYTES,
    address,
    load,
    load_int,
    multiply_add,
    store,
    store_float,
    store_int,
    zeros,
)
from wenmai.kernels.window import (
    COMPILE,
    ROW_FLOATS,
    Choices,
    Rows,
    Tables,
    advance,
    aligned_rows,
    average,
    below,
    draw_outputs,
    gather_window,
    sample,
    smallest,
    step,
    whole_vectors,
)

__all__ = ["LANES", "LaneMemory", "train_lanes", "warm_up"]

_MADE_OF = "simd.py 0a572d10aeed, window.py 9f9192ae33ae"  # for numba's cache, as in window.py
# The steps are short, so threads wait for each other often. GNU OpenMP lets them spin for milliseconds, which on busy
# cores halves the speed; this is the time of a step, about 10 µs. It is read when the first parallel kernel starts.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")

LANES = 16
_WINDOWS = 16  # of a lane in a step: 256 windows see the same parameters, few enough not to hurt


class LaneMemory(NamedTuple):
    """Working memory of all lanes; the first axis is the lane, except in arrays of rows."""

    kept: np.ndarray  # int32 [L, block]: words that subsampling kept
    low: np.ndarray  # int32 [L, block]: where the word's sentence begins in `kept`
    high: np.ndarray  # int32 [L, block]: and ends
    inputs: np.ndarray  # int64 [L, inputs + 1]
    input_targets: np.ndarray  # int64 [L, inputs + 1]
    rates: np.ndarray  # float32 [L, inputs + 1]
    ones: np.ndarray  # float32 [L, inputs + 1]
    outputs: np.ndarray  # int64 [L, outputs + 1]
    output_targets: np.ndarray  # int64 [L, outputs + 1]
    signs: np.ndarray  # float32 [L, outputs + 1]
    signed: np.ndarray  # float32 rows [L * (outputs + 1)]
    signed_rows: np.ndarray  # int64 [L, outputs + 1]
    slopes: np.ndarray  # float32 [L, inputs * outputs + 16]
    hidden: np.ndarray  # float32 rows [L * 2]
    changes: np.ndarray  # float32 rows [L * changes]
    change_target: np.ndarray  # int64 [L, changes]: address of the parameter row
    change_source: np.ndarray  # int64 [L, changes]: address of what is added
    change_scale: np.ndarray  # float32 [L, changes]: times this

    @classmethod
    def allocate(cls, choices: Choices, *, block: int, padded: int, longest_path: int) -> "LaneMemory":
        """Room for blocks of at most ``block`` tokens and rows of ``padded`` floats."""
        whole = whole_vectors(padded)
        inputs = 2 * choices.window + 2
        outputs = 2 + choices.negative + longest_path
        together = choices.cbow or choices.shared
        changes = _WINDOWS * (inputs + outputs if together else inputs * (outputs + 1))
        signed = aligned_rows(LANES * outputs, whole)
        rows = signed.ctypes.data + np.arange(LANES * outputs, dtype=np.int64) * whole * 4
        return cls(
            kept=np.zeros((LANES, block + 1), np.int32),
            low=np.zeros((LANES, block + 1), np.int32),
            high=np.zeros((LANES, block + 1), np.int32),
            inputs=np.zeros((LANES, inputs), np.int64),
            input_targets=np.zeros((LANES, inputs), np.int64),
            rates=np.ones((LANES, inputs), np.float32),
            ones=np.ones((LANES, inputs), np.float32),
            outputs=np.zeros((LANES, outputs), np.int64),
            output_targets=np.zeros((LANES, outputs), np.int64),
            signs=np.zeros((LANES, outputs), np.float32),
            signed=signed,
            signed_rows=rows.reshape(LANES, outputs),
            slopes=np.zeros((LANES, inputs * (outputs + 1) + 16), np.float32),
            hidden=aligned_rows(LANES * 2, whole),
            changes=aligned_rows(LANES * changes, whole),
            change_target=np.zeros((LANES, changes), np.int64),
            change_source=np.zeros((LANES, changes), np.int64),
            change_scale=np.ones((LANES, changes), np.float32),
        )


def train_lanes(
    texts: Sequence[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]],
    rows: Rows,
    tables: Tables,
    choices: Choices,
    memory: LaneMemory,
    rates: npt.NDArray[np.float32],
    seeds: npt.NDArray[np.uint64],
    threads: int,
) -> npt.NDArray[np.float64]:
    """Trains on up to ``LANES`` blocks at once.

    Args:
        texts: Tokens and sentence starts of each block, as for ``train_block``.
        rows: The parameters, changed in place.
        tables: What the vocabulary decides.
        choices: What the settings decide.
        memory: Working memory of all lanes.
        rates: float32 [blocks], learning rates.
        seeds: uint64 [blocks].
        threads: How many may work; does not change the result.

    Returns:
        float64 [blocks, 3]: (loss, examples, known words) of each block.
    """
    tokens = np.concatenate([text for text, _ in texts])
    starts = np.concatenate([sentence for _, sentence in texts])
    token_bounds = np.cumsum([0, *(len(text) for text, _ in texts)])
    start_bounds = np.cumsum([0, *(len(sentence) for _, sentence in texts)])
    tally = np.zeros((len(texts), 3))
    threads = min(threads, config.NUMBA_NUM_THREADS)
    set_num_threads(threads)
    _train(tokens, token_bounds, starts, start_bounds, rows, tables, choices, memory, rates, seeds, tally, threads)
    return tally


@njit(parallel=True, **COMPILE)
def _train(tokens, token_bounds, starts, start_bounds, rows, tables, choices, memory, rates, seeds, tally, threads):
    lanes = seeds.shape[0]
    count = np.zeros(lanes, np.int64)
    changed = np.zeros(lanes, np.int64)
    state = np.zeros(lanes, np.uint64)
    for lane in prange(lanes):
        count[lane], state[lane] = _sample_lane(
            np.int64(lane),  # numba would compile it twice: the index of a parallel loop is unsigned in one place
            tokens[token_bounds[lane] : token_bounds[lane + 1]],
            starts[start_bounds[lane] : start_bounds[lane + 1]],
            tables,
            memory,
            seeds[lane],
            tally,
        )
    for place in range(0, count.max(), _WINDOWS):
        for lane in prange(lanes):
            changed[lane], state[lane] = _collect(
                np.int64(lane),
                place,
                min(place + _WINDOWS, count[lane]),
                rows,
                tables,
                choices,
                memory,
                rates[lane],
                state[lane],
                tally,
            )
        for owner in prange(threads):
            _apply(np.int64(owner), threads, 4 * rows.input.shape[1], changed, memory)


@njit(**COMPILE)
def _sample_lane(lane, tokens, starts, tables, memory, seed, tally):
    """Keeps the words of a block, and the bounds of each word's sentence; returns (count, generator state)."""
    state = advance(seed)
    count = 0
    for s in range(starts.shape[0] - 1):
        low = count
        count, known, state = sample(
            tokens, starts[s], starts[s + 1], tables.word, tables.keep, memory.kept[lane], count, state
        )
        tally[lane, 2] += known
        memory.low[lane, low:count] = low
        memory.high[lane, low:count] = count
    return count, state


@njit(**COMPILE)
def _new_change(memory, lane, changed, target, scale):
    """Opens a zeroed change of a parameter row; returns its address."""
    whole = 4 * memory.changes.shape[1]
    source = address(memory.changes) + (lane * memory.change_target.shape[1] + changed) * whole
    zero = zeros(16)
    for j in range(0, whole, LANE_BYTES):
        store(source + j, zero)
    memory.change_target[lane, changed] = target
    memory.change_source[lane, changed] = source
    memory.change_scale[lane, changed] = scale
    return source


@njit(**COMPILE)
def _collect(lane, first, last, rows, tables, choices, memory, rate, state, tally):
    """Computes the changes of the windows first..last-1 of a lane; returns (changes, generator state)."""
    row = 4 * rows.input.shape[1]
    input_rows, negative, hierarchical = address(rows.input), address(rows.negative), address(rows.hierarchical)
    inputs, input_targets = address(memory.inputs[lane]), address(memory.input_targets[lane])
    input_rates, ones = address(memory.rates[lane]), address(memory.ones[lane])
    outputs, output_targets = address(memory.outputs[lane]), address(memory.output_targets[lane])
    signs, slopes = address(memory.signs[lane]), address(memory.slopes[lane])
    signed_rows = address(memory.signed_rows[lane])
    signed = load_int(signed_rows)
    hidden = address(memory.hidden) + 8 * lane * memory.hidden.shape[1]
    kept = memory.kept[lane]
    changed = 0
    for i in range(first, last):
        half = choices.window
        if choices.dynamic:
            state = advance(state)
            half = 1 + below(state, choices.window)
        m = gather_window(
            kept, memory.low[lane, i], memory.high[lane, i], i, half, input_rows, row, rows, inputs, input_rates
        )
        if m == 0:
            continue
        tally[lane, 1] += 1 if choices.cbow else m
        together = choices.cbow or choices.shared
        for c in range(0, m, m if together else 1):
            n, state = draw_outputs(
                np.int64(kept[i]), row, negative, choices, tables, hierarchical, outputs, signs, state
            )
            for o in range(n):
                change = _new_change(memory, lane, changed, load_int(outputs + 8 * o), np.float32(1))
                store_int(output_targets + 8 * o, change)
                changed += 1
            if choices.cbow:
                average(row, inputs, m, choices.mean, hidden)
                scale = np.float32(1) / np.float32(m) if choices.true_gradient and choices.mean else np.float32(1)
                change = _new_change(memory, lane, changed, load_int(inputs), scale * memory.rates[lane, 0])
                for w in range(m):  # the same change goes to every word of the window
                    memory.change_target[lane, changed] = load_int(inputs + 8 * w)
                    memory.change_source[lane, changed] = change
                    memory.change_scale[lane, changed] = scale * memory.rates[lane, w]
                    changed += 1
                store_int(inputs, hidden)
                store_int(input_targets, change)
                store_float(ones, np.float32(1))
                used = 1
            else:
                used = m if together else 1
                for w in range(c, c + used):
                    change = _new_change(memory, lane, changed, load_int(inputs + 8 * w), memory.rates[lane, w])
                    store_int(input_targets + 8 * w, change)
                    changed += 1
            if n > 0:
                at = 0 if choices.cbow else 8 * c
                tally[lane, 0] += step(row, inputs + at, input_targets + at, ones, used, outputs, output_targets,
                                       signs, n, signed, signed_rows, slopes, rate)  # fmt: skip
    return changed, state


@njit(**COMPILE)
def _apply(owner, owners, row, changed, memory):
    """Adds, in the order of the lanes, all changes of the rows that belong to this owner."""
    wide = row & -LANE_BYTES
    zero = zeros(16)
    small = zeros(ROW_FLOATS)
    for lane in range(changed.shape[0]):
        for k in range(changed[lane]):
            target = memory.change_target[lane, k]
            if (target // row) % owners != owner:
                continue
            source = memory.change_source[lane, k]
            scale = memory.change_scale[lane, k]
            for j in range(0, wide, LANE_BYTES):
                store(target + j, multiply_add(scale, load(source + j, zero), load(target + j, zero)))
            for j in range(wide, row, 4 * ROW_FLOATS):
                store(target + j, multiply_add(scale, load(source + j, small), load(target + j, small)))


def warm_up() -> None:
    """Compiles the kernel, or reads it from the cache."""
    rows, tables, choices = smallest()
    memory = LaneMemory.allocate(choices, block=1, padded=LANE_BYTES // 4, longest_path=0)
    nothing = (np.zeros(0, np.int32), np.zeros(2, np.int64))
    train_lanes([nothing], rows, tables, choices, memory, np.zeros(1, np.float32), np.zeros(1, np.uint64), 1)
