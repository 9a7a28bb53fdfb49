"""Attention against its equations, written out naively in float64: one query, one key, one sum at a time."""

import math

import pytest
import torch

from wenmai.nn.attention import attend
from wenmai.nn.biases import ShawRelative
from wenmai.nn.masks import causal, padding, window
from wenmai.nn.scorers import Additive, Bilinear, Concat, Cosine, Dot, ScaledDot

B, H, T, S, D = 2, 3, 4, 6, 5  # the queries are the last T of S positions


def double(*shape):
    return torch.randn(shape, dtype=torch.float64)


def naive(score, value, allowed):
    """o_i = Σ_j a_ij v_ij, a_i = softmax_j over the allowed keys; score(b, h, i, j) and value(b, h, i, j)."""
    context = torch.zeros(B, H, T, D, dtype=torch.float64)
    weights = torch.zeros(B, H, T, S, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                keys = [j for j in range(S) if allowed(b, i, j)]
                exponentials = {j: math.exp(score(b, h, i, j).detach()) for j in keys}
                for j in keys:
                    weights[b, h, i, j] = exponentials[j] / sum(exponentials.values())
                    context[b, h, i] += weights[b, h, i, j] * value(b, h, i, j)
    return context, weights


@pytest.fixture
def tensors():
    torch.manual_seed(1)
    return double(B, H, T, D), double(B, H, S, D), double(B, H, S, D)


@pytest.fixture
def valid():
    return torch.tensor([[True] * 6, [False, True, True, False, True, False]])


def test_the_values_of_the_specification():
    query, key = torch.eye(2), torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    value = torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    context, weights = attend(query[None], key[None], value[None], need_weights=True)
    torch.testing.assert_close(
        weights[0], torch.tensor([[0.401112, 0.197776, 0.401112], [0.197776, 0.401112, 0.401112]]), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(context[0], torch.tensor([[3.0, 4], [3.406673, 4.406673]]), atol=1e-6, rtol=0)
    mask = torch.tensor([True, True, False])
    for need_weights in (False, True):
        context, weights = attend(query[None], key[None], value[None], mask=mask, need_weights=need_weights)
        expected = torch.tensor([[1.660477, 2.660477], [2.339523, 3.339523]])
        torch.testing.assert_close(context[0], expected, atol=1e-6, rtol=0)
    assert weights[0, :, 2].tolist() == [0, 0]


def test_the_scores_of_the_specification():
    query, keys = torch.tensor([[1.0, 0]]), torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    additive = Additive(2, 2, 2)
    with torch.no_grad():
        additive.query_weight.copy_(torch.eye(2))
        additive.key_weight.copy_(torch.eye(2))
        additive.vector.fill_(1)
    scores = additive(query, additive.prepare(keys))[0]
    torch.testing.assert_close(scores, torch.tensor([0.964028, 1.523188, 1.725622]), atol=1e-6, rtol=0)
    cosine = Cosine()
    scores = cosine(query, cosine.prepare(keys))[0]
    torch.testing.assert_close(scores, torch.tensor([1, 0, 0.707107]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("need_weights", [False, True])
def test_scaled_dot_with_causal_window_and_padding_behind_an_offset(tensors, valid, need_weights):
    query, key, value = tensors
    offset = S - T
    expected, weights = naive(
        lambda b, h, i, j: query[b, h, i] @ key[b, h, j] / math.sqrt(D),
        lambda b, h, i, j: value[b, h, j],
        lambda b, i, j: j <= i + offset and abs(i + offset - j) <= 2 and bool(valid[b, j]),
    )
    mask = causal() & window(2, 2) & padding(valid)
    context, attended = attend(query, key, value, mask=mask, need_weights=need_weights)
    torch.testing.assert_close(context, expected, atol=1e-14, rtol=0)
    if need_weights:
        torch.testing.assert_close(attended, weights, atol=1e-14, rtol=0)


def scores_of(scorer, query, key):
    """The formulas of the table, for one query and one key."""
    match scorer:
        case ScaledDot():
            return query @ key / math.sqrt(D)
        case Dot():
            return query @ key
        case Bilinear():
            return query @ scorer.weight @ key
        case Additive():
            return scorer.vector @ torch.tanh(scorer.query_weight @ query + scorer.key_weight @ key)
        case Concat():
            return scorer.vector @ torch.tanh(scorer.weight @ torch.cat((query, key)))
        case Cosine():
            return scorer.sharpness * (query @ key) / (query.norm() * key.norm())


@pytest.mark.parametrize(
    "scorer", [Dot(), ScaledDot(), Bilinear(D, D), Additive(D, D, 7), Concat(D, D, 7), Cosine(temperature=0.5)]
)
def test_every_scorer(tensors, valid, scorer):
    query, key, value = tensors
    scorer = scorer.double()
    expected, weights = naive(
        lambda b, h, i, j: scores_of(scorer, query[b, h, i], key[b, h, j]),
        lambda b, h, i, j: value[b, h, j],
        lambda b, i, j: bool(valid[b, j]),
    )
    for need_weights in (False, True):
        context, attended = attend(
            query, scorer.prepare(key), value, scorer=scorer, mask=padding(valid), need_weights=need_weights
        )
        torch.testing.assert_close(context, expected, atol=1e-14, rtol=0)
    torch.testing.assert_close(attended, weights, atol=1e-14, rtol=0)


@pytest.mark.parametrize("per_head", [False, True])
def test_shaw_relative_keys_and_values(tensors, per_head):
    query, key, value = tensors
    shaw = ShawRelative(D, 2, num_heads=H if per_head else None).double()

    def row(table, h, i, j):
        return table[h if per_head else 0, max(-2, min(2, j - (i + S - T))) + 2]

    expected, _ = naive(
        lambda b, h, i, j: query[b, h, i] @ (key[b, h, j] + row(shaw.keys, h, i, j)) / math.sqrt(D),
        lambda b, h, i, j: value[b, h, j] + row(shaw.values, h, i, j),
        lambda b, i, j: j <= i + S - T,
    )
    _, bias, values = shaw(query, key, {})
    context = attend(query, key, value, mask=causal(), bias=bias, values=values).context
    torch.testing.assert_close(context, expected, atol=1e-14, rtol=0)


def test_shaw_distances_have_the_sign_of_key_minus_query():
    assert ShawRelative(D, 1).distances(3, 3).tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]


@pytest.mark.parametrize("need_weights", [False, True])
def test_transformer_xl_fits_the_bias_slot(tensors, need_weights):
    """(q_i·k_j + q_i·r_Δ + u·k_j + v·r_Δ)/√D, Δ = i - j counted with the memory (Dai et al. 2019, section 3.3)."""
    query, key, value = tensors
    u, v, r = double(H, D), double(H, D), double(S, H, D)  # r[Δ]
    memory = S - T
    expected, _ = naive(
        lambda b, h, i, j: (
            (
                query[b, h, i] @ key[b, h, j]
                + query[b, h, i] @ r[i + memory - j, h]
                + u[h] @ key[b, h, j]
                + v[h] @ r[i + memory - j, h]
            )
            / math.sqrt(D)
        ),
        lambda b, h, i, j: value[b, h, j],
        lambda b, i, j: j <= i + memory,
    )
    by_distance = (query + v[:, None]) @ r.flip(0).permute(1, 2, 0)  # (B, H, T, S): distances S-1 .. 0
    shifted = torch.nn.functional.pad(by_distance, (1, 0)).view(B, H, S + 1, T)[:, :, 1:].reshape(B, H, T, S)
    bias = (shifted + (u[:, None] @ key.mT)) / math.sqrt(D)
    context = attend(query, key, value, mask=causal(), bias=bias, need_weights=need_weights).context
    torch.testing.assert_close(context, expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize("need_weights", [False, True])
def test_ssan_fits_the_bias_slot(tensors, valid, need_weights):
    """(q_iᵀ k_j + q_iᵀ A_s k_j + b_s)/√D for the structure s_ij of two tokens; s = 5: none (Xu et al. 2021, eq. 3)."""
    query, key, value = tensors
    structure = torch.randint(0, 6, (B, T, S))
    matrices, constants = double(5, H, D, D), double(5, H)

    def structural(b, h, i, j):
        s = int(structure[b, i, j])
        return 0.0 if s == 5 else query[b, h, i] @ matrices[s, h] @ key[b, h, j] + constants[s, h]

    expected, _ = naive(
        lambda b, h, i, j: (query[b, h, i] @ key[b, h, j] + structural(b, h, i, j)) / math.sqrt(D),
        lambda b, h, i, j: value[b, h, j],
        lambda b, i, j: bool(valid[b, j]),
    )
    every = torch.einsum("bhid,shde,bhje->sbhij", query, matrices, key) + constants[:, None, :, None, None]
    chosen = torch.stack([structure == s for s in range(5)])[:, :, None]
    bias = (every * chosen).sum(0) / math.sqrt(D)
    context = attend(query, key, value, mask=padding(valid), bias=bias, need_weights=need_weights).context
    torch.testing.assert_close(context, expected, atol=1e-14, rtol=0)


def test_luong_local_p_fits_the_reweight_slot(tensors, valid):
    """Weights times exp(-(j - p_i)²/2σ²), not renormalised (Luong et al. 2015, eq. 10)."""
    query, key, value = tensors
    centre, sigma = torch.rand(B, H, T, 1, dtype=torch.float64) * S, 1.5
    gaussian = torch.exp(-((torch.arange(S) - centre) ** 2) / (2 * sigma**2))
    expected = naive(
        lambda b, h, i, j: query[b, h, i] @ key[b, h, j] / math.sqrt(D),
        lambda b, h, i, j: value[b, h, j] * gaussian[b, h, i, j],
        lambda b, i, j: bool(valid[b, j]),
    )[0]
    context = attend(query, key, value, mask=padding(valid), reweight=lambda weights: weights * gaussian).context
    torch.testing.assert_close(context, expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize("slots", ["plain", "bias", "values"])
def test_gradients_are_those_of_the_formula(slots):
    torch.manual_seed(2)
    query, key, value = (double(1, 1, 3, 2).requires_grad_() for _ in range(3))
    shaw = ShawRelative(2, 1).double()

    def run(query, key, value, keys, values):
        _, bias, added = shaw(query, key, {})
        return attend(
            query,
            key,
            value,
            mask=causal(),
            bias=None if slots == "plain" else bias,
            values=added if slots == "values" else None,
        ).context

    assert torch.autograd.gradcheck(run, (query, key, value, shaw.keys, shaw.values))
