"""Batches by length, and padding."""

import gzip
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wenmai.data.batches import pad, padding_waste, plan_batches

LENGTHS = arrays(
    np.int64,
    st.one_of(st.tuples(st.integers(0, 60)), st.tuples(st.integers(0, 60), st.just(2))),
    elements=st.integers(0, 40),
)


@settings(max_examples=100, deadline=None)
@given(LENGTHS, st.integers(1, 100), st.none() | st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_every_example_is_in_one_batch_and_no_batch_is_over_budget(lengths, max_tokens, max_rows, seed, epoch):
    batches = plan_batches(lengths, max_tokens=max_tokens, max_rows=max_rows, seed=seed, epoch=epoch)
    assert sorted(np.concatenate([np.empty(0, np.int64), *batches]).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= max_tokens
        assert 1 <= len(batch) <= (max_rows or len(lengths))


@pytest.fixture(scope="module")
def lengths():
    draw = np.random.default_rng(0)
    source = draw.poisson(14, 20_000) + 1
    return np.stack([source, np.maximum(1, source + draw.integers(-3, 4, source.size))], axis=1)


def test_the_order_follows_from_seed_and_epoch_alone(lengths):
    def plan(**chosen):
        return [batch.tolist() for batch in plan_batches(lengths, max_tokens=2000, **chosen)]

    first = plan(seed=1, epoch=0)
    assert first == plan(seed=1, epoch=0)
    assert first != plan(seed=1, epoch=1)
    assert first != plan(seed=2, epoch=0)
    script = (
        "import numpy as np; from wenmai.data.batches import plan_batches\n"
        "lengths = np.arange(1000) % 37\n"
        "print([batch.tolist() for batch in plan_batches(lengths, max_tokens=100, seed=3, epoch=4)])"
    )
    here = plan_batches(np.arange(1000) % 37, max_tokens=100, seed=3, epoch=4)
    there = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert there.strip() == str([batch.tolist() for batch in here])


@pytest.mark.parametrize("columns", [1, 2])
def test_batches_meet_other_examples_in_each_epoch(lengths, columns):
    chosen = lengths if columns == 2 else lengths[:, 0]
    before, after = (plan_batches(chosen, max_tokens=2000, seed=1, epoch=epoch) for epoch in (0, 1))
    batch_of = np.empty(len(chosen), np.int64)
    for number, batch in enumerate(before):
        batch_of[batch] = number
    together = np.mean([np.bincount(batch_of[batch]).max() / len(batch) for batch in after])
    assert together < 0.7


def test_lengths_come_in_mixed_order(lengths):
    longest = [lengths[batch].max() for batch in plan_batches(lengths, max_tokens=2000, seed=1, epoch=0)]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


@pytest.mark.parametrize("columns", [1, 2])
def test_little_is_padding_and_the_budget_is_used(lengths, columns):
    chosen = lengths if columns == 2 else lengths[:, 0]
    batches = plan_batches(chosen, max_tokens=4000, seed=1, epoch=0)
    assert padding_waste(chosen, batches) < 0.06
    longest = chosen.reshape(len(chosen), -1).max(axis=1)
    assert longest.sum() / len(batches) > 0.95 * 4000


@pytest.mark.shared_data
def test_little_is_padding_on_the_pairs_of_multi30k(shared_data):
    sides = []
    for language in ("de", "en"):
        with gzip.open(shared_data / "multi30k" / f"train.{language}.gz", "rt", encoding="utf-8") as file:
            sides.append([len(line.split()) + line.count(",") + line.count(".") + 1 for line in file])
    lengths = np.array(sides).T
    for epoch in range(2):
        assert padding_waste(lengths, plan_batches(lengths, max_tokens=4000, seed=1, epoch=epoch)) < 0.06


def test_a_million_pairs_are_planned_in_two_seconds():
    lengths = np.random.default_rng(0).poisson(25, (1_000_000, 2))
    start = time.process_time()
    plan_batches(lengths, max_tokens=4096, seed=1, epoch=0)
    assert time.process_time() - start < 2


def test_padding_waste_counts_both_sides():
    lengths = np.array([[1, 4], [3, 4], [2, 2]])
    assert padding_waste(lengths, [np.array([0, 1]), np.array([2])]) == pytest.approx(2 / 18)
    assert padding_waste(lengths[:, 0], [np.array([0, 1, 2])]) == pytest.approx(3 / 9)
    assert padding_waste(np.zeros(0, np.int64), []) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": np.ones((3, 3), np.int64)}, r"\(3, 3\)"),
        ({"lengths": np.ones(3)}, "whole numbers"),
        ({"lengths": np.array([1, -2])}, "-2"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"seed": -1}, "seed=-1"),
        ({"epoch": -1}, "epoch=-1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan_batches(**({"lengths": np.array([1, 2]), "max_tokens": 9, "seed": 1, "epoch": 0} | arguments))


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=6))
def test_padding_fills_up_the_ends(rows):
    ids, mask = pad(rows, 7)
    width = max(map(len, rows), default=0)
    assert ids.shape == mask.shape == (len(rows), width)
    assert (ids.dtype, mask.dtype) == (np.int64, np.bool_)
    for row, padded, real in zip(rows, ids.tolist(), mask.tolist(), strict=True):
        assert padded == row + [7] * (width - len(row))
        assert real == [True] * len(row) + [False] * (width - len(row))


def test_rows_may_be_arrays():
    ids, _ = pad([np.array([1, 2], np.int32), np.array([3], np.int32)], 0)
    assert ids.tolist() == [[1, 2], [3, 0]]
