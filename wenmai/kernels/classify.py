"""fastText's classifier: the mean of a text's features against its label.

Joulin, Grave, Bojanowski, Mikolov 2017, "Bag of Tricks for Efficient Text Classification", EACL, arXiv:1607.01759.
An example is a text of m features (words, their character n-grams, n-grams of words; a feature that comes twice counts
twice) and one of its labels, drawn anew in every epoch; for one-versus-all it is the text and all its labels:

    hidden    h = 1/m Σ_f A_f
    softmax   loss -log p_y with p = softmax(O h)         slope of score o: p_o - 1[o = y]
    others    loss Σ_o -log σ(s_o u_o·h)                  slope of score o: -s_o σ(-s_o u_o·h)
    updates   u_o -= α slope_o h,  A_f -= α/m Σ_o slope_o u_o    (both from the old values)

| loss | outputs u_o, with s_o = +1 and then with s_o = -1                                          |
|------|--------------------------------------------------------------------------------------------|
| hs   | the inner nodes on the label's path in a Huffman tree: those left by bit 1, those by bit 0 |
| ns   | the label; k labels drawn by count^½, drawn again while they are the label                 |
| ova  | the labels of the text; all others                                                         |

Rows, addresses and random streams are those of ``window.py``. While one example is computed, the rows of the next are
on their way from memory.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from wenmai.kernels.simd import (
    LANE_BYTES,
    add,
    address,
    lane_sum,
    load,
    load_float,
    load_int,
    multiply_add,
    prefetch,
    store,
    store_float,
    store_int,
    zeros,
)
from wenmai.kernels.subwords import KeptBuckets, bucket_row, hash_word, kept_table
from wenmai.kernels.window import COMPILE, ROW_FLOATS, advance, aligned_rows, below, noise_table, step, whole_vectors

__all__ = [
    "HIERARCHICAL",
    "NEGATIVE",
    "ONE_VERSUS_ALL",
    "SOFTMAX",
    "Choices",
    "Examples",
    "Rows",
    "Scratch",
    "Tables",
    "most_features",
    "noise_table",
    "train_block",
    "warm_up",
    "word_hashes",
]

_MADE_OF = "simd.py 0a572d10aeed, subwords.py 9df7d29a5ca1, window.py 9f9192ae33ae"  # see window.py
SOFTMAX, HIERARCHICAL, NEGATIVE, ONE_VERSUS_ALL = 0, 1, 2, 3
_SMALL_BYTES = 4 * ROW_FLOATS
_FOUR = 4 * LANE_BYTES
_UNIT_36 = np.float32(2.0**-36)
_FACTOR = np.uint64(116049371)  # of the polynomial that hashes word n-grams


class Rows(NamedTuple):
    """The parameters, ``[rows, padded size]`` float32 (``aligned_rows``)."""

    input: np.ndarray  # words, then buckets
    output: np.ndarray  # labels, or inner nodes
    old_words: int  # words below this number and ...
    old_bucket: int  # ... rows from this on ...
    old_rate: np.float32  # ... have their updates multiplied by this (continued training)


class Examples(NamedTuple):
    """Encoded texts, read-only."""

    tokens: np.ndarray  # int32: types of the corpus
    starts: np.ndarray  # int64 [examples + 1]: where each text begins, and the end
    labels: np.ndarray  # int32: labels of the model, or -1 for one that it lacks
    label_starts: np.ndarray  # int64 [examples + 1]


class Tables(NamedTuple):
    """What vocabulary and labels decide."""

    start: np.ndarray  # int64 [types + 1]: where the features of a type begin in ...
    rows: np.ndarray  # int32: ... the rows of the word and its character n-grams
    hashes: np.ndarray  # int64 [types]: hashes as signed numbers of 32 bits
    noise_threshold: np.ndarray  # float32 [L] and ...
    noise_alias: np.ndarray  # int32 [L]: Walker's alias table of the noise distribution
    path_start: np.ndarray  # int64 [L + 1]: where a label's path begins in ...
    path_node: np.ndarray  # int32: inner nodes from the root and ...
    path_sign: np.ndarray  # float32: +1 for bit 1, -1 for bit 0
    kept: KeptBuckets  # the buckets of a pruned model


class Choices(NamedTuple):
    """What the settings decide."""

    loss: int  # SOFTMAX, HIERARCHICAL, NEGATIVE or ONE_VERSUS_ALL
    negative: int
    labels: int
    word_ngrams: int
    words: int  # rows of words, behind which the buckets' are
    buckets: int


class Scratch(NamedTuple):
    """Working memory of one worker."""

    inputs: np.ndarray  # int64 [2, features]: addresses of this example's rows and the next one's
    rates: np.ndarray  # float32 [2, features]
    hidden: np.ndarray  # float32 [2, whole vectors]: h, and its update
    scores: np.ndarray  # float32 [L]
    outputs: np.ndarray  # int64 [outputs]: addresses of rows
    signs: np.ndarray  # float32 [outputs]
    signed: np.ndarray  # float32 [outputs + 1, whole vectors]
    signed_rows: np.ndarray  # int64 [outputs]: their addresses
    slopes: np.ndarray  # float32 [2 (outputs + 1) + 32]
    single: np.ndarray  # int64 [2]: the addresses of ``hidden``
    one: np.ndarray  # float32 [1]: 1

    @classmethod
    def allocate(cls, choices: Choices, *, features: int, padded: int, longest_path: int) -> "Scratch":
        """Room for examples of at most ``features`` features and rows of ``padded`` floats."""
        whole = whole_vectors(padded)
        kinds = {SOFTMAX: 1, HIERARCHICAL: longest_path, NEGATIVE: 1 + choices.negative, ONE_VERSUS_ALL: choices.labels}
        outputs = kinds[choices.loss] + 2
        signed, hidden = aligned_rows(outputs + 1, whole), aligned_rows(2, whole)
        return cls(
            inputs=np.zeros((2, features + 1), np.int64),
            rates=np.ones((2, features + 1), np.float32),
            hidden=hidden,
            scores=np.zeros(choices.labels if choices.loss == SOFTMAX else 1, np.float32),
            outputs=np.zeros(outputs, np.int64),
            signs=np.zeros(outputs, np.float32),
            signed=signed,
            signed_rows=signed.ctypes.data + np.arange(outputs, dtype=np.int64) * whole * 4,
            slopes=np.zeros(2 * (outputs + 1) + 32, np.float32),  # `step` writes for pairs of inputs
            single=hidden.ctypes.data + np.arange(2, dtype=np.int64) * whole * 4,
            one=np.ones(2, np.float32),
        )


@njit(**COMPILE)
def word_hashes(text, bounds):
    """The hash of each word as a signed number of 32 bits, int64 [words]; arguments as ``subwords.encode`` returns."""
    hashes = np.empty(bounds.shape[0] - 1, np.int64)
    for word in range(hashes.shape[0]):
        state = np.int64(hash_word(text, bounds[word], bounds[word + 1]))
        hashes[word] = state - (np.int64(1) << 32) if state >> 31 else state
    return hashes


@njit(**COMPILE)
def most_features(tokens, starts, start, word_ngrams):
    """The most features that a text may have."""
    most = np.int64(0)
    for e in range(starts.shape[0] - 1):
        count = np.int64(0)
        for i in range(starts[e], starts[e + 1]):
            count += start[tokens[i] + 1] - start[tokens[i]]
        most = max(most, count + (starts[e + 1] - starts[e]) * (word_ngrams - 1))
    return most


@njit(**COMPILE)
def _list_row(index, rows, inputs, rates, m):
    """Lists a row and asks the memory for it."""
    row = 4 * rows.input.shape[1]
    where = address(rows.input) + index * row
    store_int(inputs + 8 * m, where)
    old = index < rows.old_words or index >= rows.old_bucket
    store_float(rates + 4 * m, rows.old_rate if old else np.float32(1))
    for j in range(0, row, LANE_BYTES):
        prefetch(where + j)


@njit(**COMPILE)
def _gather(examples, e, rows, tables, choices, inputs, rates):
    """Lists the rows of a text; returns how many."""
    m = np.int64(0)
    begin, end = examples.starts[e], examples.starts[e + 1]
    for i in range(begin, end):
        token = examples.tokens[i]
        for f in range(tables.start[token], tables.start[token + 1]):
            _list_row(np.int64(tables.rows[f]), rows, inputs, rates, m)
            m += 1
    if choices.word_ngrams > 1:
        for i in range(begin, end):
            state = np.uint64(tables.hashes[examples.tokens[i]])
            for j in range(i + 1, min(end, i + choices.word_ngrams)):
                state = state * _FACTOR + np.uint64(tables.hashes[examples.tokens[j]])
                index = bucket_row(np.int64(state % np.uint64(choices.buckets)), choices.words, tables.kept)
                if index >= 0:
                    _list_row(index, rows, inputs, rates, m)
                    m += 1
    return m


@njit(**COMPILE)
def _mean_strip(inputs, m, scale, hidden, update, j, zero):
    total = zero
    for c in range(m):
        total = add(total, load(load_int(inputs + 8 * c) + j, zero))
    store(hidden + j, multiply_add(scale, total, zero))
    store(update + j, zero)


@njit(**COMPILE)
def _mean(row, inputs, m, hidden, update):
    """Sets hidden to the mean of rows and update to 0."""
    scale = np.float32(1) / np.float32(m)
    wide, whole = row & ~(_FOUR - 1), row & -LANE_BYTES
    for j in range(0, wide, _FOUR):
        _mean_strip(inputs, m, scale, hidden, update, j, zeros(64))
    for j in range(wide, whole, LANE_BYTES):
        _mean_strip(inputs, m, scale, hidden, update, j, zeros(16))
    for j in range(whole, row, _SMALL_BYTES):
        _mean_strip(inputs, m, scale, hidden, update, j, zeros(ROW_FLOATS))


@njit(**COMPILE)
def _spread_strip(inputs, rates, m, scale, update, j, zero):
    change = load(update + j, zero)
    for c in range(m):
        where = load_int(inputs + 8 * c) + j
        store(where, multiply_add(scale * load_float(rates + 4 * c), change, load(where, zero)))


@njit(**COMPILE)
def _spread(row, inputs, rates, m, update):
    """Adds an m-th of the update of the mean to every row."""
    scale = np.float32(1) / np.float32(m)
    wide, whole = row & ~(_FOUR - 1), row & -LANE_BYTES
    for j in range(0, wide, _FOUR):
        _spread_strip(inputs, rates, m, scale, update, j, zeros(64))
    for j in range(wide, whole, LANE_BYTES):
        _spread_strip(inputs, rates, m, scale, update, j, zeros(16))
    for j in range(whole, row, _SMALL_BYTES):
        _spread_strip(inputs, rates, m, scale, update, j, zeros(ROW_FLOATS))


@njit(**COMPILE)
def _softmax(row, hidden, update, output, stride, labels, target, scores, rate):
    """One step of the softmax; returns its loss. Past their ends rows may be read: h is zero there."""
    zero, small = zeros(16), zeros(ROW_FLOATS)
    whole = row & -LANE_BYTES
    highest = np.float32(-np.inf)
    for o in range(labels):
        products = zero
        for j in range(0, row, LANE_BYTES):
            products = multiply_add(load(hidden + j, zero), load(output + o * stride + j, zero), products)
        score = lane_sum(products)
        store_float(scores + 4 * o, score)
        if not score <= highest:  # so that a NaN is not overlooked
            highest = score
    loss = np.float64(highest - load_float(scores + 4 * target))
    normaliser = 0.0
    for o in range(labels):
        share = math.exp(np.float64(load_float(scores + 4 * o) - highest))
        store_float(scores + 4 * o, np.float32(share))
        normaliser += share
    inverse = np.float32(1.0 / normaliser)
    for o in range(labels):
        slope = rate * ((np.float32(1) if o == target else np.float32(0)) - load_float(scores + 4 * o) * inverse)
        u = output + o * stride
        for j in range(0, whole, LANE_BYTES):
            old = load(u + j, zero)
            store(update + j, multiply_add(slope, old, load(update + j, zero)))
            store(u + j, multiply_add(slope, load(hidden + j, zero), old))
        for j in range(whole, row, _SMALL_BYTES):
            last = load(u + j, small)
            store(update + j, multiply_add(slope, last, load(update + j, small)))
            store(u + j, multiply_add(slope, load(hidden + j, small), last))
    return loss + math.log(normaliser)


@njit(**COMPILE)
def _list_outputs(examples, e, target, tables, choices, output, stride, outputs, signs, state):
    """Lists the outputs of an example, addresses and signs; returns (count, generator state)."""
    n = np.int64(0)
    if choices.loss == HIERARCHICAL:
        for p in range(tables.path_start[target], tables.path_start[target + 1]):
            store_int(outputs + 8 * n, output + np.int64(tables.path_node[p]) * stride)
            store_float(signs + 4 * n, tables.path_sign[p])
            n += 1
    elif choices.loss == NEGATIVE:
        store_int(outputs, output + target * stride)
        store_float(signs, np.float32(1))
        n = np.int64(1)
        size = np.uint64(choices.labels)
        while n <= choices.negative:
            state = advance(state)
            draw = (state >> np.uint64(28)) * size  # 36 random bits times L: the slot, and 36 bits of fraction
            slot = np.int64(draw >> np.uint64(36))
            if np.float32(draw & np.uint64(0xFFFFFFFFF)) * _UNIT_36 >= tables.noise_threshold[slot]:
                slot = np.int64(tables.noise_alias[slot])
            if slot != target:
                store_int(outputs + 8 * n, output + slot * stride)
                store_float(signs + 4 * n, np.float32(-1))
                n += 1
    else:
        n = np.int64(choices.labels)
        for o in range(n):
            store_int(outputs + 8 * o, output + o * stride)
            store_float(signs + 4 * o, np.float32(-1))
        for place in range(examples.label_starts[e], examples.label_starts[e + 1]):
            if examples.labels[place] >= 0:
                store_float(signs + 4 * np.int64(examples.labels[place]), np.float32(1))
    return n, state


@njit(**COMPILE)
def _draw_label(examples, e, state):
    """One of the known labels of a text, or -1; returns (label, generator state)."""
    known = 0
    for place in range(examples.label_starts[e], examples.label_starts[e + 1]):
        known += examples.labels[place] >= 0
    if known == 0:
        return np.int64(-1), state
    skip = np.int64(0)
    if known > 1:
        state = advance(state)
        skip = below(state, known)
    for place in range(examples.label_starts[e], examples.label_starts[e + 1]):
        if examples.labels[place] >= 0:
            if skip == 0:
                return np.int64(examples.labels[place]), state
            skip -= 1
    return np.int64(-1), state


@njit(**COMPILE)
def train_block(examples, order, rows, tables, choices, scratch, rate, seed, tally):
    """Trains on some examples.

    Args:
        examples: Encoded texts and their labels.
        order: int64, the examples to train on, one after the other.
        rows: The parameters, changed in place.
        tables: What vocabulary and labels decide.
        choices: What the settings decide.
        scratch: Working memory that no other thread uses.
        rate: float32 learning rate α.
        seed: uint64 that decides every draw.
        tally: float64 [3], receives (loss, examples, tokens); the loss is summed in float64. Examples without any
            feature or known label are skipped.
    """
    state = advance(seed)
    stride = 4 * rows.output.shape[1]
    row = min(4 * rows.input.shape[1], stride)  # padding may differ, and is zero
    output = address(rows.output)
    inputs, rates = address(scratch.inputs), address(scratch.rates)
    capacity = scratch.inputs.shape[1]
    hidden = address(scratch.hidden)
    update = hidden + 4 * scratch.hidden.shape[1]
    single, one, scores = address(scratch.single), address(scratch.one), address(scratch.scores)
    outputs, signs = address(scratch.outputs), address(scratch.signs)
    signed, signed_rows, slopes = address(scratch.signed), address(scratch.signed_rows), address(scratch.slopes)
    loss, trained, seen = 0.0, 0, 0
    m = following = np.int64(0)  # typed: numba would compile `step` anew for each plain constant
    first = np.int64(1)
    for i in range(-1, order.shape[0]):
        m = following
        if i + 1 < order.shape[0]:
            there = ((i + 1) & 1) * capacity
            following = _gather(examples, order[i + 1], rows, tables, choices, inputs + 8 * there, rates + 4 * there)
        if i < 0:
            continue
        e = order[i]
        here = (i & 1) * capacity
        seen += examples.starts[e + 1] - examples.starts[e]
        target, state = _draw_label(examples, e, state)
        if m == 0 or target < 0:
            continue
        _mean(row, inputs + 8 * here, m, hidden, update)
        if choices.loss == SOFTMAX:
            loss += _softmax(row, hidden, update, output, stride, choices.labels, target, scores, rate)
        else:
            n, state = _list_outputs(examples, e, target, tables, choices, output, stride, outputs, signs, state)
            if n > 0:
                loss += step(row, single, single + 8, one, first, outputs, outputs, signs, n,
                             signed, signed_rows, slopes, rate)  # fmt: skip
        _spread(row, inputs + 8 * here, rates + 4 * here, m, update)
        trained += 1
    tally[0] = loss
    tally[1] = trained
    tally[2] = seen


def warm_up() -> None:
    """Compiles ``train_block``, or reads it from the cache: before the parameters are there, as LLVM needs room too."""
    row, zero, one = aligned_rows(1, LANE_BYTES // 4), np.zeros(1, np.int32), np.ones(1, np.float32)
    starts, nothing = np.zeros(1, np.int64), np.zeros(0, np.int32)
    for array in (starts, nothing):
        array.flags.writeable = False
    choices = Choices(loss=SOFTMAX, negative=1, labels=1, word_ngrams=1, words=0, buckets=1)
    none, kept = np.zeros(2, np.int64), kept_table(None)
    tables = Tables(none, zero, np.zeros(1, np.int64), one, zero, none, zero, one, kept)
    scratch = Scratch.allocate(choices, features=1, padded=LANE_BYTES // 4, longest_path=0)
    train_block(
        Examples(nothing, starts, nothing, starts), np.zeros(0, np.int64), Rows(row, row.copy(), 0, 0, np.float32(1)),
        tables, choices, scratch, np.float32(0), np.uint64(0), np.zeros(3),
    )  # fmt: skip
