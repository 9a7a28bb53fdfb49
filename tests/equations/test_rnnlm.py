"""The recurrent language model against its equations, one number at a time, and against torch's own modules."""

import pytest
import torch
from torch import nn

from wenmai.models.rnnlm import Rnnlm, RnnlmConfig
from wenmai.objectives.language import next_token_loss

V, SIZE, LAYERS = 9, 4, 2


def make(**settings):
    torch.manual_seed(1)
    config = RnnlmConfig(**({"hidden_size": SIZE, "num_layers": LAYERS} | settings))
    return Rnnlm(config, vocab_size=V, bos_id=0)


def step(cell, weights, x, state):
    """One step of one layer, from the equations: x and the hidden state are vectors."""
    w, u, b, c = weights
    h = state[:SIZE]
    gates, own = [], []
    for row in range(len(b)):
        gates.append(b[row] + sum(w[row, j] * x[j] for j in range(len(x))))
        own.append(c[row] + sum(u[row, j] * h[j] for j in range(SIZE)))
    new = []
    for k in range(SIZE):
        parts = [(gates[k + SIZE * n], own[k + SIZE * n]) for n in range(len(b) // SIZE)]
        if cell == "rnn":
            new.append(torch.tanh(sum(parts[0])))
        elif cell == "gru":
            reset, keep = (torch.sigmoid(sum(part)) for part in parts[:2])
            new.append((1 - keep) * torch.tanh(parts[2][0] + reset * parts[2][1]) + keep * h[k])
        else:
            enter, forget, candidate, out = (sum(part) for part in parts)
            memory = torch.sigmoid(forget) * state[SIZE + k] + torch.sigmoid(enter) * torch.tanh(candidate)
            new.append((torch.sigmoid(out) * torch.tanh(memory), memory))
    if cell == "lstm":
        return torch.stack([one for one, _ in new] + [other for _, other in new])
    return torch.stack(new)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("tied", [False, True])
def test_every_probability_is_that_of_the_equations(cell, tied):
    model = make(cell=cell, tied=tied, dropout=0.0, embedding_size=None if tied else 3).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    tokens = torch.tensor([[3, 8, 8, 1, 5]])
    state = [torch.zeros(model.layers.cell_size, dtype=torch.float64) for _ in range(LAYERS)]
    found = model(tokens)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    for place, word in enumerate(tokens[0].tolist()):
        x = model.embedding.weight[word]
        for layer in range(LAYERS):
            weights = [getattr(model.layers.layers, f"{name}_l{layer}") for name in names]
            state[layer] = step(cell, weights, x, state[layer])
            x = state[layer][:SIZE]
        torch.testing.assert_close(found[0, place], x)
        matrix = model.embedding.weight if tied else model.output.matrix
        logits = torch.stack([model.output.bias[v] + (matrix[v] * x).sum() for v in range(V)])
        expected = logits - logits.exp().sum().log()
        torch.testing.assert_close(
            model.output.log_probs(found[0, place][None])[0].double(), expected, atol=1e-6, rtol=0
        )


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_it_is_a_stack_of_torchs_modules(cell):
    model = make(cell=cell).eval()
    tokens = torch.randint(0, V, (3, 7))
    expected, _ = model.layers.layers(model.embedding(tokens))
    torch.testing.assert_close(model(tokens), expected)


@pytest.mark.parametrize("tied", [False, True])
def test_the_number_of_parameters(tied):
    """The small LSTM of Zaremba et al. 2014: V=10,000, two layers of 200, forget gates and output with biases."""
    with torch.device("meta"):
        model = Rnnlm(RnnlmConfig(hidden_size=200, tied=tied), vocab_size=10_000, bos_id=0)
    lstm = 2 * 4 * (200 * 200 + 200 * 200 + 200 + 200)
    tables = 10_000 * 200 * (1 if tied else 2)
    assert sum(parameter.numel() for parameter in model.parameters()) == tables + 10_000 + lstm


def test_every_number_begins_in_the_range_that_was_asked_for():
    model = make(init_range=0.05, cell="lstm")
    for name, parameter in model.named_parameters():
        assert 0.02 < float(parameter.detach().abs().max()) <= 0.05, name


def test_dropout_stands_where_zaremba_has_it():
    """On the embeddings, between layers and before the output; never on what is carried."""
    model = make(dropout=0.5, hidden_size=64, cell="rnn", num_layers=1).train()
    tokens = torch.randint(0, V, (8, 10))
    state = model.start(8)
    hidden = model(tokens, state)
    assert 0.4 < float((hidden == 0).float().mean()) < 0.6
    assert (state.hidden != 0).all()
    seen = []
    model.layers.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    model(tokens, state)
    assert 0.4 < float((seen[0] == 0).float().mean()) < 0.6


def test_gradients_end_where_a_segment_begins():
    """Truncated back-propagation: the loss of a segment is that of one begun with numbers, not with a past."""
    model = make(dropout=0.0).double()
    first, second = torch.randint(0, V, (2, 2, 5))
    carried = model.start(2)
    model(first, carried)
    fresh = model.start(2)
    fresh.load({name: tensor.detach().clone() for name, tensor in carried.tensors().items()})
    gradients = []
    for state in (carried, fresh):
        loss = next_token_loss(model.output, model(second, state).flatten(0, 1), first.flatten())
        gradients.append(torch.autograd.grad(loss.total, list(model.parameters())))
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)
