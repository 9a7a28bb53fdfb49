"""What every attention promises: zeros where nothing may be seen, one result by two paths, watching."""

import pytest
import torch

from wenmai.nn import attention_dropout
from wenmai.nn.attention import Attention, attend, watch_attention
from wenmai.nn.masks import causal, padding, side_by_side
from wenmai.nn.scorers import SCORERS, Additive, Bilinear, make_scorer

LONG = 150  # more than two blocks of queries


@pytest.fixture
def tensors():
    torch.manual_seed(1)
    return [torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3)]


def gradients(tensors):
    found = [tensor.grad for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    return found


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "both", "side by side", "of one length"])
def test_the_fused_and_the_explicit_path_agree_forward_and_backward(tensors, kind, biased):
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    mask = {
        "none": None,
        "causal": causal(),
        "padding": padding(mask),
        "both": causal() & padding(mask),
        "side by side": side_by_side([3, 2]),
        "of one length": side_by_side([2, 2, 1]),
    }[kind]
    bias = torch.randn(2, 3, 5, 5) if biased else None
    results = []
    for need_weights in (False, True):
        context = attend(*tensors, mask=mask, bias=bias, need_weights=need_weights).context
        context.square().sum().backward()
        results.append([context, *gradients(tensors)])
    for fused, explicit in zip(*results, strict=True):
        torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "both", "side by side", "keys"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scores", [4 * 64 * LONG, attention_dropout._SCORES])  # four heads at a time, or one; all
def test_both_paths_drop_the_same_weights(monkeypatch, kind, biased, dtype, scores):
    monkeypatch.setattr(attention_dropout, "_SCORES", scores)
    torch.manual_seed(1)
    mask = torch.ones(2, LONG, dtype=torch.bool)
    mask[1, 90:] = False
    mask = {
        "none": None,
        "causal": causal(),
        "padding": padding(mask),
        "both": causal() & padding(mask),
        "side by side": side_by_side([60, 90]),
        "keys": mask[1],
    }[kind]
    tensors = [torch.randn(2, 3, LONG, 8, dtype=dtype, requires_grad=True) for _ in range(3)]
    if biased:
        tensors.append(torch.randn(2, 3, LONG, LONG, dtype=dtype, requires_grad=True))
    require_equal_paths(tensors, mask)


@pytest.mark.parametrize("need_weights", [False, True])
def test_no_keys_give_zeros_whatever_is_dropped(need_weights):
    query, key, value = torch.randn(2, 3, 4, 8, requires_grad=True), *torch.randn(2, 2, 3, 0, 8)
    context = attend(query, key, value, dropout=0.5, need_weights=need_weights).context
    assert context.shape == (2, 3, 4, 8)
    assert not context.any()
    context.sum().backward()
    assert not query.grad.any()


@pytest.mark.parametrize("shape", [(3, LONG, LONG), (2, 1, LONG, LONG), (1, 3, 1, LONG), (2, 3, LONG, 1)], ids=str)
@pytest.mark.parametrize("heads", [1, 4, 6])
def test_a_bias_of_several_heads_or_rows_gets_the_gradients_of_all(monkeypatch, shape, heads):
    monkeypatch.setattr(attention_dropout, "_SCORES", heads * LONG * LONG)
    torch.manual_seed(1)
    tensors = [torch.randn(2, 3, LONG, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    require_equal_paths([*tensors, torch.randn(shape, dtype=torch.float64, requires_grad=True)], None)


def require_equal_paths(tensors, mask):
    """Compares what is made in blocks with what is made of all weights, and the gradients of all tensors."""
    query, key, value, *bias = tensors
    results = []
    for need_weights in (False, True):
        torch.manual_seed(2)
        slots = {"mask": mask, "bias": bias[0] if bias else None, "dropout": 0.3, "need_weights": need_weights}
        context = attend(query, key, value, **slots).context
        context.square().sum().backward()
        results.append([context, *gradients(tensors)])
    tolerance = 1e-5 if query.dtype is torch.float32 else 1e-12
    for fused, explicit in zip(*results, strict=True):
        assert fused.dtype is query.dtype
        torch.testing.assert_close(fused, explicit, atol=tolerance, rtol=tolerance)


def test_weights_are_dropped_between_other_keys_than_queries():
    torch.manual_seed(1)
    tensors = [torch.randn(2, 3, length, size, requires_grad=True) for length, size in ((4, 8), (7, 8), (7, 5))]
    results = []
    for need_weights in (False, True):
        torch.manual_seed(2)
        context = attend(*tensors, dropout=0.3, need_weights=need_weights).context
        context.square().sum().backward()
        results.append([context, *gradients(tensors)])
    for fused, explicit in zip(*results, strict=True):
        torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("biased", [False, True])
def test_a_query_that_may_see_nothing_gets_zeros_and_finite_gradients(tensors, need_weights, dropout, biased):
    mask = torch.rand(2, 1, 5, 5) > 0.3
    mask[:, :, 2] = False
    bias = torch.randn(2, 3, 5, 5, requires_grad=True) if biased else None
    attended = attend(*tensors, mask=mask, bias=bias, dropout=dropout, need_weights=need_weights)
    assert not attended.context[:, :, 2].any()
    if need_weights:
        assert not attended.weights[:, :, 2].any()
    attended.context.sum().backward()
    found = gradients(tensors)
    assert all(gradient.isfinite().all() for gradient in found)
    assert not found[0][:, :, 2].any()
    assert bias is None or bias.grad.isfinite().all()


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_masked_key_changes_nothing_and_gets_no_gradient(tensors, need_weights):
    query, key, value = tensors
    mask = torch.tensor([True, True, False, True, True])
    context = attend(query, key, value, mask=mask, need_weights=need_weights).context
    context.sum().backward()
    assert not key.grad[:, :, 2].any()
    assert not value.grad[:, :, 2].any()
    with torch.no_grad():
        key[:, :, 2], value[:, :, 2] = 50.0, -50.0
    torch.testing.assert_close(context, attend(query, key, value, mask=mask, need_weights=need_weights).context)


def test_permuting_keys_with_their_values_leaves_the_context(tensors):
    query, key, value = tensors
    order = torch.randperm(5)
    permuted = attend(query, key[:, :, order], value[:, :, order]).context
    torch.testing.assert_close(attend(query, key, value).context, permuted)


@pytest.mark.parametrize("name", list(SCORERS))
def test_one_head_without_its_dimension_is_the_same(tensors, name):
    query, key, value = (tensor[:, 0] for tensor in tensors)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    scorer = make_scorer(name, query_size=8, key_size=8, attention_size=6)
    prepared = scorer.prepare(key)
    results = [
        attend(query, prepared, value, scorer=scorer, mask=mask, need_weights=True)
        for mask in (padding(mask), mask[:, None, :])
    ]
    lifted = attend(
        query[:, None], prepared[:, None], value[:, None], scorer=scorer, mask=padding(mask), need_weights=True
    )
    for result in results:
        assert result.context.shape == (2, 5, 8)
        torch.testing.assert_close(result.context, lifted.context[:, 0])
        torch.testing.assert_close(result.weights, lifted.weights[:, 0])


def test_scorers_take_sizes_that_differ_or_say_why_not():
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 6)
    for scorer in (
        Bilinear(4, 6),
        Additive(4, 6, 7),
        make_scorer("concat", query_size=4, key_size=6, attention_size=7),
    ):
        assert scorer(query, scorer.prepare(keys)).shape == (2, 3, 5)
    with pytest.raises(ValueError, match="'scaled_dot' compares queries of size 4 with keys of size 6"):
        make_scorer("scaled_dot", query_size=4, key_size=6, attention_size=7)
    with pytest.raises(ValueError, match="choose one of dot, scaled_dot"):
        make_scorer("dott", query_size=4, key_size=4, attention_size=7)


def test_a_mask_of_numbers_is_refused(tensors):
    with pytest.raises(ValueError, match="a mask is bool"):
        attend(*tensors, mask=torch.zeros(5, 5))


def test_dropout_drops_weights_and_keeps_their_mean():
    torch.manual_seed(1)
    query, key, value = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 4000, 4), torch.ones(1, 1, 4000, 4)
    for need_weights in (False, True):
        context = attend(query, key, value, dropout=0.5, need_weights=need_weights).context
        assert context[0, 0, 0, 0] == pytest.approx(1.0, abs=0.1)
        assert context[0, 0, 0, 0] != 1.0


class Pooled(Attention):
    """One head over a sequence, as the recurrent models have it."""

    def forward(self, hidden):
        return self.attend(hidden, hidden, hidden).context


def test_watching_collects_weights_by_name_and_changes_no_output():
    model = torch.nn.Sequential(Pooled(), torch.nn.Tanh(), Pooled())
    hidden = torch.randn(2, 4, 8)
    before = model(hidden)
    with watch_attention(model) as watched:
        during = model(hidden)
        model(hidden)
    assert {name: [weights.shape for weights in all_] for name, all_ in watched.items()} == {
        "0": [(2, 1, 4, 4)] * 2,
        "2": [(2, 1, 4, 4)] * 2,
    }
    torch.testing.assert_close(watched["0"][0].sum(-1), torch.ones(2, 1, 4))
    torch.testing.assert_close(before, during)
    model(hidden)
    assert len(watched["0"]) == 2
