"""The decoders of four papers as loops over sentences, steps and source tokens in float64.

Every loop begins from the encoder's memory, which tests/nn/test_recurrent.py and test_convolution.py check.
"""

import pytest
import torch
from torch import nn

from wenmai.models.seq2seq import Seq2Seq, Seq2SeqConfig

LENGTHS = (4, 2, 5)
LOCAL = [{"selection": kind, "window": window} for kind in ("local-m", "local-p") for window in (1, 2, 10)]
SCORERS = ("additive", "dot", "scaled_dot", "bilinear", "concat", "cosine")


def make(**options):
    torch.manual_seed(11)
    options = {"embedding_size": 3, "hidden_size": 4, "dropout": 0.0} | options
    model = Seq2Seq(Seq2SeqConfig(**options), source_vocab_size=9, target_vocab_size=8, tied_sources=False).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    return model


def batch():
    torch.manual_seed(12)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(9, mask.shape), mask, torch.randint(8, (len(LENGTHS), 6))


def affine(linear, x):
    return linear.weight @ x if linear.bias is None else linear.weight @ x + linear.bias


def step(kind, gates, u, c, state):
    """One step from W x + b, the recurrent matrices U and their bias c, and the state [h] or [h; memory]."""
    size = u.shape[1]
    h = state[:size]
    g, r = gates.split(size), (u @ h + c).split(size)
    if kind == "rnn":
        return torch.tanh(g[0] + r[0])
    if kind == "gru":
        reset, keep = torch.sigmoid(g[0] + r[0]), torch.sigmoid(g[1] + r[1])
        return (1 - keep) * torch.tanh(g[2] + reset * r[2]) + keep * h
    enter, forget, out = (torch.sigmoid(g[k] + r[k]) for k in (0, 1, 3))
    memory = forget * state[size:] + enter * torch.tanh(g[2] + r[2])
    return torch.cat((out * torch.tanh(memory), memory))


def cell_step(kind, cell, gates, state):
    return step(kind, gates, cell.recurrent.weight, cell.recurrent.bias, state)


def layer_step(kind, layers, layer, x, state):
    w, u, b, c = (getattr(layers, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return step(kind, w @ x + b, u, c, state)


def alignment(model, query, memory, step):
    """Weights over the source tokens of one sentence: a softmax of scores, one by one, and what is selected of it."""
    attention, selection, window = model.decoder.attention, model.config.selection, model.config.window
    name, scorer, scores = type(attention.scorer).__name__, attention.scorer, []
    for h in memory:
        k = attention.key.weight @ h if isinstance(attention.key, nn.Linear) else h
        match name:
            case "Additive":
                scores.append(scorer.vector @ torch.tanh(scorer.query_weight @ query + scorer.key_weight @ k))
            case "Concat":
                scores.append(scorer.vector @ torch.tanh(scorer.weight @ torch.cat((query, k))))
            case "Bilinear":
                scores.append(query @ scorer.weight @ k)
            case "Cosine":
                scores.append(scorer.sharpness * (query @ k) / (query.norm() * k.norm()))
            case "Dot":
                scores.append(query @ k)
            case "ScaledDot":
                scores.append(query @ k / len(k) ** 0.5)
    if selection in ("soft", "hard", "sampled"):
        weights = torch.softmax(torch.stack(scores), 0)
        return weights if selection == "soft" else torch.eye(len(scores), dtype=torch.float64)[weights.argmax()]
    centre, weights = step, []
    if selection == "local-p":
        outer, inner = attention.centre[2].weight[0], attention.centre[0].weight
        centre = len(memory) * torch.sigmoid(outer @ torch.tanh(inner @ query))
    inside = [abs(place - centre) <= window for place in range(len(memory))]
    total = sum(score.exp() for score, near in zip(scores, inside, strict=True) if near)
    for place, (score, near) in enumerate(zip(scores, inside, strict=True)):
        factor = torch.exp(-((place - centre) ** 2) / (2 * (window / 2) ** 2)) if selection == "local-p" else 1.0
        weights.append(factor * score.exp() / total if near else torch.zeros_like(score))
    return torch.stack(weights)


def first_states(bridge, last):
    return [torch.tanh(affine(layer, x)) for layer, x in zip(bridge.layers, last, strict=True)]


def maxout(readout, *inputs):
    return torch.stack(affine(readout.linear, torch.cat(inputs)).chunk(2)).amax(0)


def bahdanau(model, memory, last, target_ids):
    decoder, kind, size = model.decoder, model.config.cell, model.config.hidden_size
    states, outputs = first_states(decoder.bridge, last), []
    for place, token in enumerate(target_ids):
        y = model.target_embedding.weight[token]
        weights = alignment(model, states[0][:size], memory, place)  # the state before the step
        c = sum(weight * h for weight, h in zip(weights, memory, strict=True))
        w = torch.cat((decoder.words.weight, decoder.context.weight), 1)  # of [E y; c]
        states[0] = cell_step(kind, decoder.cell, w @ torch.cat((y, c)) + decoder.words.bias, states[0])
        for layer in range(1, len(states)):
            below = states[layer - 1][:size]
            states[layer] = layer_step(kind, decoder.upper.layers, layer - 1, below, states[layer])
        outputs.append(maxout(decoder.readout, states[-1][:size], y, c))
    return torch.stack(outputs)


def luong(model, memory, last, target_ids):
    decoder, kind, size = model.decoder, model.config.cell, model.config.hidden_size
    states, outputs = first_states(decoder.bridge, last), []
    fed = torch.zeros(size, dtype=torch.float64)
    for place, token in enumerate(target_ids):
        y = model.target_embedding.weight[token]
        w = torch.cat((decoder.words.weight, decoder.feed.weight), 1)  # of [E y; h̃]
        gates = w @ torch.cat((y, fed)) + decoder.words.bias
        for layer, cell in enumerate(decoder.cells):
            if layer:
                gates = affine(decoder.between[layer - 1], states[layer - 1][:size])
            states[layer] = cell_step(kind, cell, gates, states[layer])
        s = states[-1][:size]
        weights = alignment(model, s, memory, place)  # the state after the step
        c = sum(weight * h for weight, h in zip(weights, memory, strict=True))
        fed = torch.tanh(torch.cat((decoder.context.weight, decoder.top.weight), 1) @ torch.cat((c, s)))
        outputs.append(fed)
    return torch.stack(outputs)


def cho(model, memory, last, target_ids):
    decoder, kind, size = model.decoder, model.config.cell, model.config.hidden_size
    c = torch.tanh(affine(decoder.summary, last[-1]))
    states, outputs = first_states(decoder.bridge, [c] * len(last)), []
    for token in target_ids:
        below = torch.cat((y := model.target_embedding.weight[token], c))
        for layer in range(len(states)):
            states[layer] = layer_step(kind, decoder.layers.layers, layer, below, states[layer])
            below = states[layer][:size]
        outputs.append(maxout(decoder.readout, below, y, c))
    return torch.stack(outputs)


def sutskever(model, memory, last, target_ids):
    decoder, kind, size = model.decoder, model.config.cell, model.config.hidden_size
    states, outputs = first_states(decoder.bridge, last), []
    for token in target_ids:
        below = model.target_embedding.weight[token]
        for layer in range(len(states)):
            states[layer] = layer_step(kind, decoder.layers.layers, layer, below, states[layer])
            below = states[layer][:size]
        outputs.append(below)
    return torch.stack(outputs)


def assert_equal(model, equations):
    source_ids, mask, target_ids = batch()
    hidden, memory = model(source_ids, mask, target_ids), model.encode(source_ids, mask)
    for row, length in enumerate(LENGTHS):
        expected = equations(model, memory.outputs[row, :length], memory.last[:, row], target_ids[row])
        torch.testing.assert_close(hidden[row], expected)


@pytest.mark.parametrize("scorer", SCORERS)
def test_bahdanau_with_every_scorer(scorer):
    assert_equal(make(scorer=scorer), bahdanau)


@pytest.mark.parametrize("scorer", SCORERS)
def test_luong_with_every_scorer(scorer):
    assert_equal(make(attention="luong", scorer=scorer, bidirectional=scorer == "dot"), luong)


@pytest.mark.parametrize("selection", [{"selection": kind} for kind in ("hard", "sampled")] + LOCAL)
@pytest.mark.parametrize("equations", [bahdanau, luong])
def test_every_selection_of_source_tokens(equations, selection):
    assert_equal(make(attention=equations.__name__, num_layers=2, **selection).eval(), equations)


@pytest.mark.parametrize("encoder", ["rnn", "lstm", "gru", "cnn"])
@pytest.mark.parametrize(
    ("options", "equations"),
    [
        ({"attention": "bahdanau"}, bahdanau),
        ({"attention": "luong"}, luong),
        ({"context": "every_step"}, cho),
        ({"context": "first_state"}, sutskever),
    ],
)
def test_two_layers_of_every_kind(encoder, options, equations):
    assert_equal(make(encoder=encoder, num_layers=2, **options), equations)


def test_sutskever_reads_the_source_from_its_end():
    forward, backward = (
        make(context="first_state", bidirectional=False, reverse_source=reverse) for reverse in (False, True)
    )
    source_ids, mask, target_ids = batch()
    turned = source_ids.clone()
    for row, length in enumerate(LENGTHS):
        turned[row, :length] = source_ids[row, :length].flip(0)
    torch.testing.assert_close(backward(source_ids, mask, target_ids), forward(turned, mask, target_ids))


def test_attention_over_a_reversed_source_counts_from_its_first_word():
    forward, backward = (make(bidirectional=False, reverse_source=reverse) for reverse in (False, True))
    source_ids, _, target_ids = batch()
    mask = torch.ones_like(source_ids, dtype=torch.bool)
    a = forward.begin(source_ids.flip(1), mask, max_length=1, need_attention=True)
    b = backward.begin(source_ids, mask, max_length=1, need_attention=True)
    torch.testing.assert_close(
        forward.step(target_ids[:, 0], a).attention.flip(1), backward.step(target_ids[:, 0], b).attention
    )
