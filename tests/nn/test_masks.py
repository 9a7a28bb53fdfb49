"""Masks are predicates over positions, and their algebra is that of sets."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wenmai.nn.masks import Mask, block, causal, padding, real_keys, side_by_side, window

POSITIONS = st.lists(st.integers(0, 30), min_size=1, max_size=6).map(torch.tensor)
MASKS = st.one_of(
    st.just(causal()),
    st.builds(window, st.integers(0, 4), st.integers(0, 4)),
    st.builds(lambda size, previous: block(size, previous=previous), st.integers(1, 5), st.integers(0, 2)),
)


@given(MASKS, MASKS, POSITIONS, POSITIONS)
def test_joined_masks_are_the_joined_tensors(one, other, queries, keys):
    first, second = one.dense(queries, keys), other.dense(queries, keys)
    assert (one & other).dense(queries, keys).equal(first & second)
    assert (one | other).dense(queries, keys).equal(first | second)
    assert (~one).dense(queries, keys).equal(~first)
    assert (~(one | other)).dense(queries, keys).equal((~one & ~other).dense(queries, keys))


def test_each_mask_is_its_definition():
    positions = torch.arange(8)

    def dense(mask):
        return mask.dense(positions, positions).tolist()

    assert dense(causal()) == [[j <= i for j in range(8)] for i in range(8)]
    assert dense(window(2, 1)) == [[i - 2 <= j <= i + 1 for j in range(8)] for i in range(8)]
    assert dense(block(3)) == [[j // 3 in (i // 3, i // 3 - 1) for j in range(8)] for i in range(8)]
    assert dense(block(3, previous=0)) == [[j // 3 == i // 3 for j in range(8)] for i in range(8)]
    texts = [0, 0, 0, 1, 2, 2, 2, 2]
    assert dense(side_by_side([3, 1, 4])) == [[one == other for other in texts] for one in texts]
    mask = torch.rand(2, 8) > 0.5
    assert padding(mask).dense(positions[:3], positions).equal(mask[:, None, None, :])


def test_aligned_masks_let_the_last_query_see_every_key():
    assert causal().aligned(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_only_the_mask_of_texts_side_by_side_has_their_lengths():
    mask = side_by_side([2, 3])
    assert mask.lengths == [2, 3]
    assert all(one.lengths is None for one in (causal(), mask & causal(), mask | causal(), ~mask))


def test_only_the_plain_causal_mask_says_so():
    assert causal().is_causal
    assert not (causal() & window(1, 1)).is_causal
    assert not (~causal()).is_causal
    assert isinstance(causal() & window(1, 1), Mask)


def test_keys_need_a_mask_where_one_is_padding():
    real = torch.tensor([[True, True], [True, False]])
    assert real_keys(real[:1]) is None
    assert real_keys(real).equal(padding(real).aligned(2, 2))


def test_impossible_masks_are_refused():
    with pytest.raises(ValueError, match="window reaches -1"):
        window(-1, 0)
    with pytest.raises(ValueError, match="blocks of 0"):
        block(0)
