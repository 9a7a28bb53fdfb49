"""The networks of pinyin against their equations; the defects of the public example would show."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from wenmai.core.errors import SettingError
from wenmai.models.pinyin import Pinyin, PinyinConfig
from wenmai.models.pinyin_letters import PinyinLetters, PinyinLettersConfig

V, C, B, T, M, H = 23, 11, 3, 7, 12, 3


def made(seed=1, **settings):
    torch.manual_seed(seed)
    config = PinyinConfig(**{"hidden_size": M, "num_layers": 2, "num_heads": H, "norm": "post"} | settings)
    model = Pinyin(config, vocab_size=V, characters=C).double().eval()
    for name, parameter in model.named_parameters():  # so that biases and gains are seen
        if name.endswith("bias") or ".norm." in name:
            parameter.data += 0.3 * torch.randn(parameter.shape, dtype=torch.float64)
    return model


def letters(seed=1, **settings):
    torch.manual_seed(seed)
    config = PinyinLettersConfig(**{"encoder": "cbhg", "hidden_size": M, "widths": 4, "highway_layers": 2} | settings)
    return PinyinLetters(config, vocab_size=V, characters=C).double().eval()


def transformer(**settings):
    torch.manual_seed(1)
    config = PinyinLettersConfig(hidden_size=M, num_layers=2, num_heads=H, **settings)
    return PinyinLetters(config, vocab_size=V, characters=C).double().eval()


@pytest.fixture
def symbols():
    return torch.randint(1, V, (B, T), generator=torch.Generator().manual_seed(5))


@pytest.fixture
def real():
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[0, 4:] = mask[2, 6:] = False
    return mask


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def norm(x, layer):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + layer.eps).sqrt() * layer.weight + layer.bias


def convolved(hidden, convolution):
    """A convolution of (B, T, in), place by place."""
    width = convolution.kernel_size[0]
    left = (width - 1) // 2
    found = hidden.new_zeros(B, T, convolution.out_channels)
    for t in range(T):
        for j in range(width):
            if 0 <= t + j - left < T:
                found[:, t] += hidden[:, t + j - left] @ convolution.weight[:, :, j].T
    return found


def reference(model, symbols, real, defect=None):
    """The logits of the example, as the equations have them, or with one of the defects of the public copies."""
    size, heads = M // H, model.config.num_heads
    angles = torch.arange(T, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, M, 2, dtype=torch.float64) / M)
    x = model.embedding.weight[symbols]
    if (convolution := model.neighbours) is not None:
        x = x + convolved(x * real[..., None], convolution) + convolution.bias
    x = x + torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()
    for number in range(model.config.num_layers):
        layer = model.encoder.layers[0 if defect == "one layer" else number]
        parts = F.linear(x, layer.attention.qkv.weight, layer.attention.qkv.bias).chunk(3, -1)
        q, k, v = (part.view(B, T, heads, size).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(2, 3)
        if defect != "no scale":
            scores = scores / math.sqrt(size)
        hidden = (real if defect == "inverted mask" else ~real).double() * -1e5
        scores = scores + (hidden[:, None, :, None] if defect == "mask of queries" else hidden[:, None, None, :])
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, M)
        for residual, sublayer in (
            (layer.attention_residual, partial(F.linear, mixed, layer.attention.output.weight)),
            (layer.ffn_residual, None),
        ):
            if sublayer is None:
                inner = F.relu(F.linear(x, layer.ffn.inner.weight, layer.ffn.inner.bias))
                out = F.linear(inner, layer.ffn.outer.weight, layer.ffn.outer.bias)
            else:
                out = sublayer(layer.attention.output.bias)
            if defect == "activation before norm":
                out = F.relu(out)
            x = norm(out if defect == "no residual" else x + out, residual.norm)
        if defect == "dropout in inference":
            x = F.dropout(x, 0.1)
    return F.linear(x, model.heads["characters"].matrix, model.heads["characters"].bias)


@pytest.mark.parametrize("convolution", [0, 1, 3, 5])
def test_the_network_is_its_equations(symbols, real, convolution):
    model = made(convolution=convolution)
    close(model.logits(symbols, real)[real], reference(model, symbols, real)[real])


@pytest.mark.parametrize(
    "defect",
    [
        "inverted mask",
        "mask of queries",
        "no scale",
        "no residual",
        "activation before norm",
        "one layer",
        "dropout in inference",
    ],
)
def test_no_defect_of_the_public_example_is_in_it(symbols, real, defect):
    model = made()
    there = reference(model, symbols, real, defect)[real]
    assert not torch.isclose(model.logits(symbols, real)[real], there, atol=1e-4).all()


def test_every_layer_has_its_own_1172184_parameters():
    model = Pinyin(PinyinConfig(), vocab_size=V, characters=C)
    layers = model.encoder.layers
    assert len(layers) == 3
    assert [sum(one.numel() for one in layer.parameters()) for layer in layers] == [1_172_184] * 3
    assert len({id(one) for layer in layers for one in layer.parameters()}) == 3 * len(list(layers[0].parameters()))
    assert {layer.attention.head_size for layer in layers} == {52}


@pytest.mark.parametrize("make", [made, letters, transformer])
class TestLabellers:
    def test_padding_changes_nothing(self, make, symbols, real):
        model = make()
        logits = model.logits(symbols, real)
        close(model.logits(torch.where(real, symbols, 0), real)[real], logits[real])
        for row in range(B):
            length = int(real[row].sum())
            close(logits[row, :length], model.logits(symbols[row : row + 1, :length])[0])

    def test_both_sides_of_a_symbol_matter(self, make, symbols):
        model = make()
        logits = model.logits(symbols)
        assert logits.shape == (B, T, C)
        for place in range(T):
            changed = symbols.clone()
            changed[:, place] = symbols[:, place] % (V - 1) + 1
            assert not torch.isclose(model.logits(changed), logits).all(-1).any()

    def test_there_is_no_dropout_in_inference_but_in_training(self, make, symbols):
        model = make()
        assert torch.equal(model.logits(symbols), model.logits(symbols))
        model.train()
        assert not torch.equal(model.logits(symbols), model.logits(symbols))

    def test_a_text_that_is_too_long_is_refused(self, make):
        model = make(max_length=8)
        model(torch.ones(1, 8, dtype=torch.int64))
        with pytest.raises(ValueError, match="max_length=8"):
            model(torch.ones(1, 9, dtype=torch.int64))


def test_letters_pass_the_bank_the_highways_and_the_gru(symbols):
    model = letters()
    net = model.encoder
    x = model.embedding.weight[symbols]
    for layer in net.prenet:
        x = F.relu(F.linear(x, layer.weight, layer.bias))

    def normed(one, hidden):  # statistics of a new network are 0 and 1
        return convolved(hidden, one.convolution) / math.sqrt(1 + one.norm.eps)

    banked = torch.cat([F.relu(normed(one, x)) for one in net.bank], -1)
    pooled = torch.stack([banked[:, t : t + 2].amax(1) for t in range(T)], 1)
    first, second = net.projections
    x = x + normed(second, F.relu(normed(first, pooled)))
    for layer in net.highways:
        assert (layer.carry.bias == -1).all()
        gate = torch.sigmoid(F.linear(x, layer.carry.weight, layer.carry.bias))
        x = gate * F.relu(F.linear(x, layer.transform.weight, layer.transform.bias)) + (1 - gate) * x
    gru = net.recurrent.layers
    x, _ = gru(x)
    close(model.logits(symbols), x @ model.heads["characters"].matrix.T)


def test_letters_pass_the_network_of_syllables(symbols, real):
    model, other = transformer(convolution=3), made(convolution=3, norm="pre")
    other.load_state_dict(model.state_dict())
    close(model.logits(symbols, real)[real], other.logits(symbols, real)[real])


def test_norms_of_letters_see_real_ones_only(symbols, real):
    one, other = letters(prenet_dropout=0.0).train(), letters(prenet_dropout=0.0).train()
    close(one.logits(symbols, real)[real], other.logits(torch.where(real, symbols, 0), real)[real])
    one.logits(symbols[:1, :1])
    assert all(torch.isfinite(buffer).all() for buffer in one.buffers())


def test_settings_without_effect_are_refused():
    with pytest.raises(SettingError, match="not a multiple"):
        PinyinConfig(num_heads=5)
    with pytest.raises(SettingError, match="convolution=4 is even"):
        PinyinConfig(convolution=4)
    with pytest.raises(SettingError, match="convolution=4 is even"):
        PinyinLettersConfig(convolution=4)
    with pytest.raises(SettingError, match="are for encoder=cbhg"):
        PinyinLettersConfig(widths=3)
    with pytest.raises(SettingError, match="are for encoder=transformer"):
        PinyinLettersConfig(encoder="cbhg", num_layers=2)
    with pytest.raises(SettingError, match="odd"):
        PinyinLettersConfig(encoder="cbhg", hidden_size=3)
