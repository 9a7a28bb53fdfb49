"""Which source tokens a look takes: the promises of every selection, and those of each."""

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.nn.attention import attend, watch_attention
from wenmai.nn.masks import padding
from wenmai.nn.names import Selection
from wenmai.nn.scorers import SCORERS
from wenmai.nn.stepwise_attention import Look, make_stepwise_attention, side_by_side

SELECTIONS = get_args(Selection)
every_selection = pytest.mark.parametrize("selection", SELECTIONS)


def make(selection, scorer="additive", memory_size=4, window=1):
    torch.manual_seed(5)
    return make_stepwise_attention(selection, scorer, query_size=4, memory_size=memory_size, window=window).double()


def inputs(lengths, longest=None, memory_size=4):
    torch.manual_seed(6)
    rows, longest = len(lengths), longest or max(lengths)
    query, memory, values = torch.randn(rows, 4), torch.randn(rows, 8, memory_size), torch.randn(rows, 8, 3)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return query.double(), memory[:, :longest].double(), values[:, :longest].double(), mask


def look(attention, query, memory, values, mask, steps=0):
    return attention(query, attention.prepare(memory), values, mask, torch.full((len(query),), steps))


@pytest.mark.parametrize("scorer", list(SCORERS))
@pytest.mark.parametrize("memory_size", [4, 6])
def test_soft_looks_equal_attention_at_once(scorer, memory_size):
    attention = make("soft", scorer, memory_size)
    _, memory, values, mask = inputs((5, 2), memory_size=memory_size)
    queries = torch.randn(2, 3, 4, dtype=torch.float64)
    weights, choice = side_by_side([look(attention, query, memory, values, mask) for query in queries.unbind(1)])
    keys = attention.prepare(memory)
    once = attend(queries, keys, values, scorer=attention.scorer, mask=padding(mask), need_weights=True)
    torch.testing.assert_close(weights, once.weights)
    assert choice is None


@every_selection
@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    more=st.integers(1, 3),
    steps=st.integers(0, 9),
    training=st.booleans(),
)
def test_every_selection_ignores_padding_and_weighs_its_values(selection, lengths, more, steps, training):
    attention = make(selection).train(training)
    longest = max(lengths) + more
    query, memory, values, mask = inputs(lengths, longest)
    memory.requires_grad_()
    torch.manual_seed(1)
    found = look(attention, query, memory, values, mask, steps)
    torch.testing.assert_close(found.context, found.weights @ values)
    assert not found.weights.masked_select(~mask[:, None]).any()
    total = found.weights.sum(-1)
    assert ((total >= 0) & (total < 1 + 1e-9)).all()
    empty = torch.tensor(lengths) == 0
    assert not found.context[empty].any()
    parts = (found.context, *(found.choice or ()))
    sum(part.sum() for part in parts).backward()
    gradients = [memory.grad, *(parameter.grad for parameter in attention.parameters() if parameter.grad is not None)]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not memory.grad.masked_select(~mask[..., None]).any()
    if selection in ("soft", "hard", "sampled"):
        torch.testing.assert_close(total[~empty], torch.ones_like(total[~empty]))
    torch.manual_seed(1)
    changed = torch.where(mask[..., None], memory.detach(), 9.0)
    torch.testing.assert_close(look(attention, query, changed, values, mask, steps).context, found.context)


@pytest.mark.parametrize("selection", ["hard", "sampled"])
def test_a_hard_look_takes_the_best_token_and_has_the_gradient_of_a_soft_one(selection):
    hard, soft = make(selection).eval(), make("soft")
    tensors, weight = inputs((5, 2, 4)), torch.randn(5, dtype=torch.float64)
    found, expected = look(hard, *tensors), look(soft, *tensors)
    best = expected.weights.argmax(-1)
    assert found.weights.detach().equal(torch.nn.functional.one_hot(best, 5).double())
    torch.testing.assert_close(found.context[:, 0], tensors[2][torch.arange(3), best[:, 0]])
    for one in (found, expected):
        (one.weights @ weight).sum().backward()
    for one, other in zip(hard.parameters(), soft.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_draws_follow_the_weights_and_are_their_expectation_half_of_the_time():
    many = 40_000
    query, memory, values, mask = (tensor.expand(many, *tensor.shape[1:]) for tensor in inputs((4,), 5))
    soft = look(make("soft"), query, memory, values, mask).weights[0, 0].detach()
    torch.manual_seed(1)
    found = look(make("sampled"), query, memory, values, mask)
    weights, (log_probs, entropies) = found.weights[:, 0], found.choice
    drawn = log_probs[:, 0] != 0
    assert drawn.double().mean().item() == pytest.approx(0.5, abs=0.015)  # six standard deviations
    torch.testing.assert_close(weights[~drawn], soft.expand(many, 5)[~drawn])
    torch.testing.assert_close(weights[drawn].mean(0), soft, atol=0.02, rtol=0)
    torch.testing.assert_close(log_probs[drawn, 0], (weights[drawn] @ soft).log())
    torch.testing.assert_close(entropies[0, 0], -(soft[:4] * soft[:4].log()).sum())


@pytest.mark.parametrize("steps", [0, 2, 4, 5, 9])
def test_a_window_that_leaves_the_source_holds_what_is_left_of_it(steps):
    found = look(make("local-m", window=2), *inputs((3,)), steps).weights[0, 0]
    assert (found > 0).tolist() == [abs(token - steps) <= 2 for token in range(3)]


def test_looks_are_watched_side_by_side():
    attention = make("hard")
    looks = [Look(torch.zeros(2, 1, 3), torch.full((2, 1, 5), float(step))) for step in range(3)]
    weights, choice = side_by_side(looks)
    assert weights[:, :, 0].tolist() == [[0, 1, 2]] * 2
    assert choice is None
    attention.show(weights)  # nobody watches
    with watch_attention(attention) as seen:
        attention.show(weights)
    (shown,) = seen[""]
    assert shown.equal(weights[:, None])
