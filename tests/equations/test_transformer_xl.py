"""Transformer-XL against its equations: terms a to d, the relative shift, memories, and what evaluation may change."""

import math

import pytest
import torch
from torch import nn

from wenmai.core.errors import SettingError
from wenmai.models.transformer_xl import Reading, TransformerXL, TransformerXLConfig
from wenmai.nn.attention import watch_attention
from wenmai.nn.masks import causal
from wenmai.nn.relative_xl import RelativeAttention, RelativeBiases, distance_sinusoids, relative_shift

V, SIZE, HEADS, LAYERS = 11, 8, 2, 2
D = SIZE // HEADS


def make(**settings):
    torch.manual_seed(1)
    sizes = {"hidden_size": SIZE, "num_heads": HEADS, "num_layers": LAYERS, "ffn_size": 12, "dropout": 0.0}
    return TransformerXL(TransformerXLConfig(**(sizes | settings)), vocab_size=V, bos_id=0)


def spread(model):
    """Biases and gains that are not at their start."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def sinusoid(distance, size=SIZE):
    """R_Δ = [sin(Δ ω_0) ... sin(Δ ω_{d/2-1}); cos(...)], ω_i = 10000^(-2i/d)."""
    angles = [distance * 10000 ** (-2 * i / size) for i in range(size // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def scores(attention, biases, memory, rows, *, clamp=None):
    """A_ij of every head, over [memory; rows], for j no later than i: a list for each query, of {j: score}."""
    qkv, keys = attention.qkv.weight, [*memory, *rows]
    found = []
    for i in range(len(rows)):
        for head in range(HEADS):
            part = slice(head * D, (head + 1) * D)
            u, v = biases.content[head], biases.distance[head]
            q = (qkv[:SIZE] @ rows[i])[part]
            own = {}
            for j in range(len(memory) + i + 1):
                distance = len(memory) + i - j
                distance = distance if clamp is None else min(distance, clamp)
                k = (qkv[SIZE : 2 * SIZE] @ keys[j])[part]
                r = (attention.positions.weight @ sinusoid(distance))[part]
                own[j] = (q @ k + q @ r + u @ k + v @ r) / math.sqrt(D)  # (a) + (b) + (c) + (d)
            found.append(own)
    return found


def attended(attention, biases, memory, rows, *, reach=None, clamp=None):
    keys = [*memory, *rows]
    every = scores(attention, biases, memory, rows, clamp=clamp)
    outputs = []
    for i in range(len(rows)):
        context = []
        for head in range(HEADS):
            part = slice(head * D, (head + 1) * D)
            seen = {j: s for j, s in every[i * HEADS + head].items() if reach is None or len(memory) + i - j < reach}
            total = sum(s.exp() for s in seen.values())
            values = [s.exp() / total * (attention.qkv.weight[2 * SIZE :] @ keys[j])[part] for j, s in seen.items()]
            context.append(sum(values))
        outputs.append(attention.output.weight @ torch.cat(context))
    return outputs


def normed(x, norm):
    mean = sum(x) / SIZE
    variance = sum((one - mean) ** 2 for one in x) / SIZE
    return norm.weight * (x - mean) / (variance + 1e-5) ** 0.5 + norm.bias


def fed(layer, row):
    inner = (layer.ffn.inner.weight @ row + layer.ffn.inner.bias).clamp(min=0)
    return layer.ffn.outer.weight @ inner + layer.ffn.outer.bias


def equations(model, segments, *, memory_length, reach=None, clamp=None):
    """The last layer's states of all segments; memories are the last inputs of each layer."""
    config, outputs = model.config, []
    memories = [[] for _ in range(LAYERS)]
    for segment in segments:
        rows = [model.embedding.weight[word] * math.sqrt(SIZE) for word in segment]
        for number, layer in enumerate(model.layers):
            biases = model.biases[0 if config.shared_biases else number]
            one, two = layer.attention_residual.norm, layer.ffn_residual.norm
            memory, inputs = memories[number], rows
            memories[number] = [*memory, *rows][-memory_length:] if memory_length else []
            if config.norm == "pre":
                memory, inputs = ([normed(x, one) for x in part] for part in (memory, rows))
            found = attended(layer.attention, biases, memory, inputs, reach=reach, clamp=clamp)
            rows = [x + f for x, f in zip(rows, found, strict=True)]
            if config.norm == "pre":
                rows = [x + fed(layer, normed(x, two)) for x in rows]
            else:
                rows = [normed(x, one) for x in rows]
                rows = [normed(x + fed(layer, x), two) for x in rows]
        outputs += [normed(x, model.norm) if config.norm == "pre" else x for x in rows]
    return torch.stack(outputs)


SEGMENTS = [[3, 7, 7], [1, 0, 10], [2, 2, 4], [9]]


@pytest.mark.parametrize("memory_length", [0, 2, 4, 20])
@pytest.mark.parametrize("settings", [{}, {"norm": "pre", "shared_biases": False}], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("training", [True, False])
def test_every_state_is_that_of_the_equations(settings, memory_length, training):
    model = spread(make(memory_length=memory_length, **settings)).double().train(training)
    state = model.start(1)
    with torch.set_grad_enabled(training):
        found = torch.cat([model(torch.tensor([segment]), state)[0] for segment in SEGMENTS])
    expected = equations(model, SEGMENTS, memory_length=memory_length)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("reading", "twin"),
    [
        ({"memory": 5}, {"memory_length": 5}),
        ({"memory": 0}, {"memory_length": 0}),
        ({"clamp_length": 1}, {"memory_length": 2, "clamp": 1}),
        ({"same_length": True}, {"memory_length": 2, "reach": 2}),
        ({"memory": 5, "same_length": True, "clamp_length": 3}, {"memory_length": 5, "reach": 5, "clamp": 3}),
    ],
    ids=str,
)
def test_a_trained_model_may_remember_more_see_the_same_length_and_clamp_distances(reading, twin, training):
    trained = spread(make(memory_length=2)).double().eval()
    model = trained.with_reading(Reading(**reading))
    state = model.start(1)
    with torch.set_grad_enabled(training):
        found = torch.cat([model(torch.tensor([segment]), state)[0] for segment in SEGMENTS])
    torch.testing.assert_close(found, equations(trained, SEGMENTS, **twin), atol=1e-9, rtol=1e-9)
    assert trained.reading == Reading()


def test_every_token_sees_equally_many_when_the_memory_is_full():
    """The authors' code masks keys j <= i - s, s = mem_len - mlen or qlen: the last memory_length are left."""
    model = make(memory_length=4).eval().with_reading(Reading(same_length=True))
    state, tokens = model.start(1), torch.randint(0, V, (1, 12))
    with torch.no_grad():
        model(tokens[:, :6], state)
        with watch_attention(model) as watched:
            model(tokens[:, 6:], state)
    for weights in watched.values():
        (one,) = weights
        assert one.shape == (1, HEADS, 6, 10)
        assert ((one > 0).sum(-1) == 4).all()
    with pytest.raises(SettingError, match="same_length"):
        model.with_reading(Reading(memory=0, same_length=True))


def test_the_relative_shift():
    raw = torch.tensor([[10.0, 11, 12, 13], [14, 15, 16, 17]])
    assert relative_shift(raw).tolist() == [[11, 12, 13, 0], [14, 15, 16, 17]]  # row 0, column 3 is masked


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (3, 3), (4, 9), (7, 8)])
def test_the_shift_puts_every_distance_in_its_place(queries, keys):
    by_distance = torch.randn(2, 3, queries, keys)  # column c: distance keys - 1 - c
    found = relative_shift(by_distance)
    for i in range(queries):
        for j in range(i + keys - queries + 1):
            distance = i + keys - queries - j
            assert torch.equal(found[..., i, j], by_distance[..., i, keys - 1 - distance])


def test_sinusoids_of_distances_have_two_halves():
    found = distance_sinusoids(5, 6, like=torch.zeros((), dtype=torch.float64))
    for row, distance in enumerate((4, 3, 2, 1, 0)):
        torch.testing.assert_close(found[row], sinusoid(distance, 6))
    clamped = distance_sinusoids(5, 6, clamp=2, like=torch.zeros((), dtype=torch.float64))
    assert torch.equal(clamped, found[[2, 2, 2, 3, 4]])


def test_without_its_positions_it_is_attention_to_content():
    torch.manual_seed(1)
    attention, biases = RelativeAttention(SIZE, HEADS), RelativeBiases(HEADS, D)
    with torch.no_grad():
        for parameter in (*biases.parameters(), attention.positions.weight):
            parameter.zero_()
    plain = nn.MultiheadAttention(SIZE, HEADS, bias=False, batch_first=True)
    with torch.no_grad():
        plain.in_proj_weight.copy_(attention.qkv.weight)
        plain.out_proj.weight.copy_(attention.output.weight)
    hidden = torch.randn(2, 6, SIZE)
    relative = attention.project_distances(distance_sinusoids(6, SIZE, like=hidden))
    found = attention(hidden, mask=causal(), structure=biases.structure(relative))
    expected, _ = plain(hidden, hidden, hidden, attn_mask=torch.ones(6, 6, dtype=torch.bool).triu(1))
    torch.testing.assert_close(found, expected)


def test_the_memory_has_no_gradient_and_grows_to_its_length():
    model = make(memory_length=5).train()
    state = model.start(2)
    for length in (3, 5, 5):
        hidden = model(torch.randint(0, V, (2, 3)), state)
        for memory in state.memories:
            assert memory.shape == (2, length, SIZE)
            assert not memory.requires_grad
    assert len(state.memories) == LAYERS
    hidden.square().sum().backward()


def test_gradients_reach_the_keys_of_the_memory():
    """The memory is given, but W_k and W_v learn from it: equal to differences of the loss."""
    model = spread(make(memory_length=4)).double().train()
    state = model.start(1)
    model(torch.tensor([[3, 4, 5]]), state)
    kept = [memory.clone() for memory in state.memories]
    parameters = [parameter for name, parameter in model.named_parameters() if "qkv" in name or "biases" in name]

    def loss(*values):
        state = model.start(1)
        state.load({f"memory.{number}": memory for number, memory in enumerate(kept)})
        return model(torch.tensor([[7, 1]]), state).sin().sum()

    assert torch.autograd.gradcheck(loss, parameters)


def test_without_recurrence_segments_are_not_one_text():
    model = spread(make(memory_length=0)).eval()
    tokens = torch.randint(0, V, (1, 8))
    with torch.no_grad():
        state = model.start(1)
        found = torch.cat([model(piece, state) for piece in tokens.split(4, 1)], 1)
        whole = model(tokens)
    torch.testing.assert_close(found[:, :4], whole[:, :4], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found[:, 4:], whole[:, 4:], atol=1e-2)


def test_a_memory_of_training_serves_reading_but_not_the_other_way():
    model = spread(make(memory_length=6)).double().eval()
    tokens = torch.randint(0, V, (2, 9))
    trained, read = model.start(2), model.start(2)
    model(tokens[:, :5], trained)
    with torch.no_grad():
        model(tokens[:, :5], read)
        torch.testing.assert_close(model(tokens[:, 5:], trained), model(tokens[:, 5:], read))
    with pytest.raises(ValueError, match="cannot be trained on"):
        model(tokens, read)


@pytest.mark.parametrize("training", [False, True])
def test_a_memory_of_other_sizes_is_refused(training):
    model = make(memory_length=6).train(training)
    state = model.start(2)
    with torch.set_grad_enabled(training):
        model(torch.randint(0, V, (2, 5)), state)
    tensors = state.tensors()
    for name in tensors:
        with pytest.raises(ValueError, match="expected"):
            model.start(2).load(tensors | {name: tensors[name][..., None]})


def test_a_long_text_is_read_within_a_bounded_memory():
    model = make(memory_length=8).eval()
    state = model.start(1)
    with torch.no_grad():
        for _ in range(400):
            model.step(torch.randint(0, V, (1,)), state)
    assert all(cache.capacity < 100 for cache in state.caches)
    assert all(tensor.shape[3] == 8 for tensor in state.tensors().values())


def test_how_weights_begin():
    model = make(hidden_size=64, ffn_size=128, cutoffs=(4, 8), div_value=2)
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        if "norm.weight" in name:
            assert float(value.mean()) == pytest.approx(1, abs=0.02), name
        elif name.endswith("bias"):
            assert not value.any(), name
        elif parameter.numel() > 200:
            assert float(value.std()) == pytest.approx(0.01 if "projections" in name else 0.02, rel=0.15), name


def test_clusters_beyond_the_vocabulary_are_refused():
    with pytest.raises(SettingError, match="cutoffs reach 20"):
        make(cutoffs=(5, 20))
