"""Disentangled attention against its equation, score by score."""

import math

import pytest
import torch

from wenmai.nn.disentangled import Buckets, DisentangledAttention, bucket_of
from wenmai.nn.encoder import apart

M, H, T = 12, 3, 7


def test_near_distances_have_buckets_of_their_own_and_far_ones_share():
    distances = torch.arange(-600, 601)
    found = bucket_of(distances, 32, 512)
    assert found[600 - 15 : 600 + 16].tolist() == [*range(31 - 15, 31 + 16)]
    assert (found.diff() >= 0).all()
    assert (found.diff() <= 1).all()
    assert (found[0], found[600], found[-1]) == (0, 31, 62)
    assert torch.equal(found, 62 - found.flip(0))
    by_hand = 16 + math.ceil(math.log(100 / 16) / math.log(511 / 16) * 15)
    assert found[600 + 100] == 31 + by_hand


@pytest.mark.parametrize("several", [False, True])
def test_scores_are_those_of_the_equation(several):
    torch.manual_seed(1)
    attention, buckets = DisentangledAttention(M, H).double().eval(), Buckets(M, 4, 16).double()
    hidden = torch.randn(2, T, M, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2]] * 2) if several else torch.arange(T)
    mask = apart(torch.tensor([[0] * 4 + [1] * 3] * 2)) if several else None
    found = attention(hidden, mask=mask, structure=buckets.structure(positions))

    size = M // H
    weight, bias = attention.qkv.weight.split(M), attention.qkv.bias.split(M)
    vectors = torch.nn.functional.layer_norm(buckets.weight, (M,), buckets.norm.weight, buckets.norm.bias, 1e-7)
    for row in range(2):
        places = positions[row] if several else positions
        heads = []
        for head in range(H):
            own = slice(head * size, head * size + size)
            query, key, value = (hidden[row] @ w[own].T + b[own] for w, b in zip(weight, bias, strict=True))
            query_of, key_of = (vectors @ w[own].T + b[own] for w, b in zip(weight[:2], bias[:2], strict=True))
            scores = torch.full((T, T), -math.inf, dtype=torch.float64)
            for i in range(T):
                for j in range(T):
                    if mask is None or mask[row, 0, i, j]:
                        d = int(bucket_of(places[j] - places[i], 4, 16))
                        total = query[i] @ key[j] + query[i] @ key_of[d] + query_of[d] @ key[j]
                        scores[i, j] = total / math.sqrt(3 * size)
            heads.append(scores.softmax(-1) @ value)
        expected = torch.cat(heads, 1) @ attention.output.weight.T + attention.output.bias
        torch.testing.assert_close(found[row], expected)


def test_order_matters_by_distance_alone():
    torch.manual_seed(2)
    attention, buckets = DisentangledAttention(M, H).double().eval(), Buckets(M, 4, 16).double()
    hidden = torch.randn(1, T, M, dtype=torch.float64)
    moved = attention(hidden, structure=buckets.structure(torch.arange(50, 50 + T)))
    torch.testing.assert_close(moved, attention(hidden, structure=buckets.structure(torch.arange(T))))
    turned = attention(hidden.flip(1), structure=buckets.structure(torch.arange(T))).flip(1)
    assert not torch.isclose(turned, moved).all(-1).any()
