"""Recurrent layers: the equations one sentence and one step at a time, and what padding must not do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from wenmai.nn.recurrent import Bridge, Cell, Maxout, Recurrent, reverse

KINDS = ("rnn", "lstm", "gru")
LENGTHS = (4, 1, 5, 3)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


def batch(width=3, lengths=LENGTHS, extra=0):
    longest = max(lengths) + extra
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), longest, width, dtype=torch.float64), mask


def network(kind, **options):
    options = {"input_size": 3, "hidden_size": 4} | options
    made = Recurrent(kind, **options).double()
    for parameter in made.parameters():  # biases begin with zeros, which would hide mistakes
        nn.init.normal_(parameter, std=0.5)
    return made


def naive_step(kind, x, state, w, u, b, c):
    """One step of one sentence: x (I,), state (h,) or (h, c), gates stacked in W, U and both biases."""
    h = state[0]
    gates, recurrent = w @ x + b, u @ h + c
    if kind == "rnn":
        return (torch.tanh(gates + recurrent),)
    size = len(h)
    g = [gates[k * size : (k + 1) * size] for k in range(4)]
    r = [recurrent[k * size : (k + 1) * size] for k in range(4)]
    if kind == "gru":
        reset, keep = torch.sigmoid(g[0] + r[0]), torch.sigmoid(g[1] + r[1])
        return ((1 - keep) * torch.tanh(g[2] + reset * r[2]) + keep * h,)
    enter, forget, out = (torch.sigmoid(g[k] + r[k]) for k in (0, 1, 3))
    memory = forget * state[1] + enter * torch.tanh(g[2] + r[2])
    return out * torch.tanh(memory), memory


def naive_network(kind, made, sentence):
    """Reads one sentence without any padding; returns the outputs and, layer by layer, the last state."""
    layers = made.layers
    size, hidden, last = layers.hidden_size, sentence, []
    for layer in range(layers.num_layers):
        sides, ends = [], []
        for suffix in ("", "_reverse")[: 2 if layers.bidirectional else 1]:
            weights = [
                getattr(layers, f"{name}_l{layer}{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            state = tuple(hidden.new_zeros(size) for _ in range(2 if kind == "lstm" else 1))
            outputs = []
            for x in hidden.flip(0) if suffix else hidden:
                state = naive_step(kind, x, state, *weights)
                outputs.append(state[0])
            sides.append(torch.stack(outputs[::-1] if suffix else outputs))
            ends.append(state)
        hidden = torch.cat(sides, -1)
        last.append(torch.cat([end[part] for part in range(len(ends[0])) for end in ends]))
    return hidden, torch.stack(last)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_equals_the_equations_sentence_by_sentence(kind, bidirectional):
    made = network(kind, num_layers=2, bidirectional=bidirectional)
    inputs, mask = batch(extra=2)
    outputs, state = made(inputs, mask)
    assert outputs.shape[2] == made.output_size
    assert state.shape == (2, len(inputs), made.state_size)
    for row, length in enumerate(LENGTHS):
        expected, last = naive_network(kind, made, inputs[row, :length])
        torch.testing.assert_close(outputs[row, :length], expected)
        torch.testing.assert_close(state[:, row], last)
        assert not outputs[row, length:].any()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_of_computing_agree(kind, bidirectional, padded):
    """In float32 the steps are taken by the oneDNN product, in float64 by PyTorch's own layers."""
    made = network(kind, num_layers=2, bidirectional=bidirectional, hidden_size=5)
    inputs, mask = batch(lengths=(7, 3, 1, 7, 6, 5, 4, 2, 7), extra=int(padded))
    mask = mask if padded else None
    state = None if bidirectional else torch.randn(2, 9, made.state_size, dtype=torch.float64)
    results = []
    for dtype in (torch.float64, torch.float32):
        made.to(dtype).zero_grad()
        leaf = inputs.detach().to(dtype, copy=True).requires_grad_()
        outputs, last = made(leaf, mask, state=None if state is None else state.to(dtype))
        (outputs.square().sum() + last.sin().sum()).backward()
        results.append([outputs, last, leaf.grad, *(parameter.grad for parameter in made.parameters())])
    for exact, fast in zip(*results, strict=True):
        assert fast.dtype is torch.float32
        torch.testing.assert_close(fast.double(), exact.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing_and_gets_no_gradient(kind):
    made = network(kind, num_layers=2, bidirectional=True)
    inputs, mask = batch()
    longer = torch.cat((inputs, inputs.new_full((4, 3, 3), 1e3)), 1)
    longer[:, :5][~mask] = -77.0
    longer.requires_grad_()
    padded = made(longer, torch.cat((mask, mask.new_zeros(4, 3)), 1))
    expected = made(inputs, mask)
    torch.testing.assert_close(padded.outputs[:, :5], expected.outputs, rtol=0, atol=0)
    torch.testing.assert_close(padded.state, expected.state, rtol=0, atol=0)
    (padded.outputs.square().sum() + padded.state.sum()).backward()
    assert longer.grad[:, :5][mask].any(-1).all()
    assert not longer.grad[:, :5][~mask].any()
    assert not longer.grad[:, 5:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_cell_is_one_step_of_the_network(kind):
    made, cell = network(kind), Cell(kind, 4).double()
    with torch.no_grad():
        cell.recurrent.weight.copy_(made.layers.weight_hh_l0)
        cell.recurrent.bias.copy_(made.layers.bias_hh_l0)
    inputs, _ = batch()
    state = torch.randn(4, cell.state_size, dtype=torch.float64)
    outputs, last = made(inputs, state=state[None])
    for step in range(inputs.shape[1]):
        gates = inputs[:, step] @ made.layers.weight_ih_l0.T + made.layers.bias_ih_l0
        assert gates.shape[1] == cell.gates_size
        state = cell(gates, state)
        torch.testing.assert_close(state[:, :4], outputs[:, step])
    torch.testing.assert_close(state, last[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_read_in_two_parts_ends_in_the_same_state(kind):
    made = network(kind, num_layers=2)
    inputs, _ = batch()
    whole = made(inputs)
    first = made(inputs[:, :2])
    second = made(inputs[:, 2:], state=first.state)
    torch.testing.assert_close(torch.cat((first.outputs, second.outputs), 1), whole.outputs)
    torch.testing.assert_close(second.state, whole.state)


def test_a_sentence_without_tokens_stays_finite_and_leaves_the_others_alone():
    made = network("gru", bidirectional=True)
    inputs, mask = batch()
    expected = made(inputs, mask).outputs
    mask[1] = False
    outputs, state = made(inputs, mask)
    assert state.isfinite().all()
    torch.testing.assert_close(outputs[[0, 2, 3]], expected[[0, 2, 3]], rtol=0, atol=0)


def test_padding_before_tokens_is_refused():
    inputs, mask = batch()
    with pytest.raises(ValueError, match="right-pad"):
        network("gru")(inputs, mask.flip(1))


def test_a_bidirectional_network_takes_no_first_state():
    inputs, _ = batch()
    with pytest.raises(ValueError, match="both ends"):
        network("gru", bidirectional=True)(inputs, state=torch.zeros(1, 4, 8, dtype=torch.float64))


def test_dropout_works_between_layers_in_training_only():
    inputs, _ = batch()
    one, two = network("gru", dropout=0.5), network("gru", num_layers=2, dropout=0.5)
    torch.testing.assert_close(one(inputs).outputs, one(inputs).outputs)
    assert not torch.equal(two(inputs).outputs, two(inputs).outputs)
    two.eval()
    torch.testing.assert_close(two(inputs).outputs, two(inputs).outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_matrices_begin_orthogonal_and_memories_begin_open(kind):
    made, cell = Recurrent(kind, input_size=3, hidden_size=4), Cell(kind, 4)
    for weight in (made.layers.weight_hh_l0, cell.recurrent.weight):
        for block in weight.split(4):
            torch.testing.assert_close(block @ block.T, torch.eye(4))
    if kind == "lstm":
        assert made.layers.bias_ih_l0.tolist() == cell.recurrent.bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.booleans())
def test_reversing_turns_real_tokens_around_and_twice_is_nothing(lengths, wide):
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    sequence = torch.arange(len(lengths) * 6).view(len(lengths), 6)
    if wide:
        sequence = torch.stack((sequence, -sequence), -1)
    turned = reverse(sequence, mask)
    for row, length in enumerate(lengths):
        assert torch.equal(turned[row, :length], sequence[row, :length].flip(0))
        assert torch.equal(turned[row, length:], sequence[row, length:])
    assert torch.equal(reverse(turned, mask), sequence)


def test_a_bridge_maps_each_layer_by_its_own_matrix():
    bridge, last = Bridge(3, 2, num_layers=2), torch.randn(2, 5, 3)
    states = bridge(last)
    for layer in range(2):
        expected = torch.tanh(last[layer] @ bridge.layers[layer].weight.T + bridge.layers[layer].bias)
        torch.testing.assert_close(states[:, layer], expected)


def test_maxout_takes_the_greater_of_two_maps():
    maxout, a, b = Maxout(5, 2), torch.randn(4, 3), torch.randn(4, 2)
    both = torch.cat((a, b), 1) @ maxout.linear.weight.T + maxout.linear.bias
    expected = [[max(row[0], row[2]), max(row[1], row[3])] for row in both.tolist()]
    torch.testing.assert_close(maxout(a, b), torch.tensor(expected))
