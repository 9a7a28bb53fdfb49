"""ELMo against its equations in numpy, in float64, and the invariances that follow from them."""

import numpy as np
import pytest
import torch
from torch import nn

from wenmai.models.elmo import Elmo, ElmoConfig
from wenmai.nn.characters import BEGIN, END, spelled
from wenmai.nn.scalar_mix import ScalarMix
from wenmai.systems import SYSTEMS

LENGTH = 9
SMALL = {
    "character_size": 3,
    "filters": (2, 0, 4),
    "highway_layers": 2,
    "max_characters": LENGTH,
    "hidden_size": 5,
    "cell_size": 7,
    "num_layers": 3,
    "cell_clip": 0.4,
    "state_clip": 0.3,
    "dropout": 0.0,
}
WORDS = ["cat", "", "中文字", "longer-than-that", "a"]


def make(**settings):
    torch.manual_seed(1)
    model = Elmo(ElmoConfig(**SMALL | settings), vocab_size=6).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    with torch.no_grad():
        model.words.embedding.weight[0] = 0
    return model


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def naive_word(word, p, config):
    """A word to its vector, from its bytes on."""
    middle = [word] if isinstance(word, int) else [*word.encode()][: LENGTH - 2]
    numbers = [258, *middle, 259]
    numbers += [260] * (LENGTH - len(numbers))
    table = np.array([p["words.embedding.weight"][number + 1] for number in numbers])
    found = []
    activation = np.tanh if config.activation == "tanh" else lambda x: np.maximum(x, 0)
    for place, width in enumerate(width for width, number in enumerate(config.filters, start=1) if number):
        weight, bias = p[f"words.convolutions.{place}.weight"], p[f"words.convolutions.{place}.bias"]
        windows = [
            np.einsum("ncw,wc->n", weight, table[start : start + width]) + bias for start in range(LENGTH - width + 1)
        ]
        found.append(activation(np.max(windows, 0)))
    x = np.concatenate(found)
    for layer in range(config.highway_layers):
        name = f"words.highways.{layer}"
        gate = sigmoid(p[f"{name}.carry.weight"] @ x + p[f"{name}.carry.bias"])
        new = np.maximum(p[f"{name}.transform.weight"] @ x + p[f"{name}.transform.bias"], 0)
        x = gate * new + (1 - gate) * x
    return p["words.projection.weight"] @ x + p["words.projection.bias"]


def naive_layers(inputs, stack, p, config):
    """The outputs of each layer for vectors in the order of reading."""
    outputs = []
    for layer in range(config.num_layers):
        name = f"{stack}.layers.{layer}"
        h, c, found = np.zeros(config.hidden_size), np.zeros(config.cell_size), []
        for x in inputs:
            z = p[f"{name}.input_weight"] @ x + p[f"{name}.recurrent_weight"] @ h + p[f"{name}.bias"]
            i, j, f, o = np.split(z, 4)
            c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -config.cell_clip, config.cell_clip)
            h = np.clip(p[f"{name}.projection"] @ (sigmoid(o) * np.tanh(c)), -config.state_clip, config.state_clip)
            found.append(h + x if layer and config.residual else h)
        inputs = found
        outputs.append(found)
    return np.array(outputs)


def layers(model, *texts):
    """What the model says of texts of words, read in one batch."""
    rows = [BEGIN, END, *dict.fromkeys(word for text in texts for word in text)]
    places = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
    mask = torch.zeros(places.shape, dtype=torch.bool)
    for row, text in enumerate(texts):
        places[row, : len(text)] = torch.tensor([rows.index(word) for word in text])
        mask[row, : len(text)] = True
    characters = torch.from_numpy(spelled(rows, LENGTH).astype(np.int64))
    with torch.no_grad():
        found = model.layers(characters, places, mask).numpy()
    return [found[:, row, : len(text)] for row, text in enumerate(texts)]


def test_the_characters_of_a_word_are_its_bytes():
    cat, begin, end, long = spelled(["cat", BEGIN, END, "é" * 40], 50)
    assert cat.tolist() == [259, 100, 98, 117, 260] + [261] * 45
    assert begin.tolist() == [259, 257, 260] + [261] * 47
    assert end.tolist() == [259, 258, 260] + [261] * 47
    assert long.tolist() == [259, *[0xC3 + 1, 0xA9 + 1] * 24, 260]


@pytest.mark.parametrize("settings", [{}, {"residual": False, "activation": "tanh", "num_layers": 1}])
def test_every_vector_is_that_of_the_equations(settings):
    model = make(**settings)
    p = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    x = np.array([naive_word(word, p, model.config) for word in [BEGIN, *WORDS, END]])
    forward = naive_layers(x[:-1], "forwards", p, model.config)[:, 1:]
    backward = naive_layers(x[:0:-1], "backwards", p, model.config)[:, 1:][:, ::-1]
    expected = [np.concatenate([x[1:-1], x[1:-1]], 1), *np.concatenate([forward, backward], 2)]
    (found,) = layers(model, WORDS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    clipped = np.abs(forward[0])
    assert (clipped == model.config.state_clip).any()


def test_segments_say_what_the_whole_says():
    model = make()
    characters = torch.from_numpy(spelled([BEGIN, END, *WORDS], LENGTH).astype(np.int64))
    fed, back = torch.randint(0, 7, (2, 3, 8), generator=torch.Generator().manual_seed(2))
    whole = model(characters, fed, back, model.start(3))
    state = model.start(3)
    parts = [model(characters, one, other, state) for one, other in zip(fed.split(3, 1), back.split(3, 1), strict=True)]
    for name in ("forward", "backward"):
        torch.testing.assert_close(torch.cat([getattr(part, name) for part in parts], 1), getattr(whole, name))


def test_a_word_is_seen_by_what_follows_and_what_precedes():
    model = make()
    size = model.config.hidden_size
    (one,), (other,) = layers(model, WORDS), layers(model, [*WORDS[:2], "other", *WORDS[3:]])
    same = np.isclose(one[1:], other[1:], rtol=0, atol=1e-14)
    assert same[:, :2, :size].all()
    assert same[:, 3:, size:].all()
    assert not same[:, 2:, :size].all(-1).any()
    assert not same[:, :3, size:].all(-1).any()
    (last,) = layers(model, ["a"])
    np.testing.assert_allclose(last[:, 0, size:], one[:, -1, size:], rtol=0, atol=1e-14)  # knows its word and the end


def test_other_texts_of_the_batch_change_nothing():
    model = make()
    texts = [WORDS, ["a"], ["cat", "longer-than-that", "cat"]]
    for text, found in zip(texts, layers(model, *texts), strict=True):
        np.testing.assert_allclose(found, layers(model, text)[0], rtol=0, atol=1e-14)


def test_the_published_architecture_has_its_parameters():
    (original,) = (system for system in SYSTEMS if system.name == "elmo-original")
    names = ElmoConfig.__dataclass_fields__
    config = ElmoConfig(**{name: value for name, value in original.settings.items() if name in names})
    with torch.device("meta"):
        model = Elmo(config, vocab_size=None)

    def parameters(*parts):
        return sum(p.numel() for name, p in model.named_parameters() if name.startswith(parts))

    assert parameters("words.embedding", "words.convolutions") == 203_360
    assert parameters("words.highways") == 16_785_408
    assert parameters("words.projection") == 1_049_088
    assert parameters("forwards", "backwards") == 75_563_008
    assert parameters("") == 93_600_864


def test_a_mix_is_a_weighted_sum_of_layers():
    found = torch.randn(3, 2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mix = ScalarMix(3).double()
    torch.testing.assert_close(mix(found), found.mean(0))
    with torch.no_grad():
        mix.weights.add_(7.0)
        torch.testing.assert_close(mix(found), found.mean(0))
        mix.scale.fill_(2.0)
        mix.weights.copy_(torch.tensor([0.0, 0.0, 50.0]))
    torch.testing.assert_close(mix(found), 2 * found[2])


def test_layers_are_normalised_over_the_real_tokens():
    found = torch.randn(3, 2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    expected = [(layer - layer[mask].mean()) / layer[mask].std(correction=0) for layer in found]
    mixed = ScalarMix(3, layer_norm=True).double()(found, mask)
    torch.testing.assert_close(mixed, torch.stack(expected).mean(0))
