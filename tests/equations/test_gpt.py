"""GPT against its equations, PyTorch's layers and Hugging Face's GPT-2 with the same weights."""

import math

import pytest
import torch
from torch import nn

from wenmai.models.gpt import Gpt, GptConfig
from wenmai.nn.transformer import FeedForward
from wenmai.objectives.language import next_token_loss

V, SIZE, HEADS, LAYERS, LENGTH = 11, 8, 2, 3, 10


def make(**settings):
    torch.manual_seed(1)
    sizes = {"hidden_size": SIZE, "num_heads": HEADS, "num_layers": LAYERS, "max_length": LENGTH, "dropout": 0.0}
    return Gpt(GptConfig(**(sizes | settings)), vocab_size=V, bos_id=0)


def spread(model):
    """Biases and gains that are not at their start."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def normed(x, norm):
    mean = sum(x) / SIZE
    variance = sum((one - mean) ** 2 for one in x) / SIZE
    return norm.weight * (x - mean) / (variance + 1e-5) ** 0.5 + norm.bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attended(layer, rows, window):
    """Causal attention of each row to those before it, and no farther back than the window, head by head."""
    d = SIZE // HEADS
    projected = [layer.attention.qkv.weight @ row + layer.attention.qkv.bias for row in rows]
    outputs = []
    for i in range(len(rows)):
        heads = []
        for head in range(HEADS):
            q, k, v = (slice(part * SIZE + head * d, part * SIZE + (head + 1) * d) for part in range(3))
            seen = [j for j in range(i + 1) if window is None or i - j <= window]
            scores = torch.stack([projected[i][q] @ projected[j][k] / math.sqrt(d) for j in seen])
            weights = scores.exp() / scores.exp().sum()
            heads.append(sum(weight * projected[j][v] for weight, j in zip(weights, seen, strict=True)))
        outputs.append(layer.attention.output.weight @ torch.cat(heads) + layer.attention.output.bias)
    return outputs


def fed(layer, row):
    inner = gelu(layer.ffn.inner.weight @ row + layer.ffn.inner.bias)
    return layer.ffn.outer.weight @ inner + layer.ffn.outer.bias


def equations(model, sentence):
    rows = [model.embedding.weight[word] + model.positions.weight[place] for place, word in enumerate(sentence)]
    for number, layer in enumerate(model.decoder.layers):
        window = model.config.window if number % 2 else None
        one, two = layer.attention_residual.norm, layer.ffn_residual.norm
        if model.config.norm == "post":
            rows = [normed(x + f, one) for x, f in zip(rows, attended(layer, rows, window), strict=True)]
            rows = [normed(x + fed(layer, x), two) for x in rows]
        else:
            found = attended(layer, [normed(x, one) for x in rows], window)
            rows = [x + f for x, f in zip(rows, found, strict=True)]
            rows = [x + fed(layer, normed(x, two)) for x in rows]
    if model.config.norm == "pre":
        rows = [normed(x, model.decoder.norm) for x in rows]
    return torch.stack(rows)


@pytest.mark.parametrize(
    "settings", [{"norm": "post"}, {}, {"window": 2}], ids=["GPT-1", "GPT-2", "GPT-3: dense and banded layers"]
)
def test_every_state_is_that_of_the_equations(settings):
    model = spread(make(**settings)).double()
    sentence = [3, 7, 7, 1, 0, 10, 2, 2, 4]
    with torch.no_grad():
        found = model(torch.tensor([sentence]))[0]
        torch.testing.assert_close(found, equations(model, sentence), atol=1e-9, rtol=1e-9)
        logits = torch.stack([(model.embedding.weight[word] * found[-1]).sum() for word in range(V)])
        torch.testing.assert_close(model.output(found[-1:])[0], logits)


def test_the_tanh_form_of_gelu():
    ffn = FeedForward(6, 10, activation="gelu_tanh")
    hidden = torch.randn(4, 6)
    expected = gelu(hidden @ ffn.inner.weight.T + ffn.inner.bias) @ ffn.outer.weight.T + ffn.outer.bias
    torch.testing.assert_close(ffn(hidden), expected)


@pytest.mark.parametrize(
    ("settings", "vocab_size", "count"),
    [
        (
            {"num_layers": 12, "hidden_size": 768, "num_heads": 12, "norm": "post", "max_length": 512},
            40_478,
            116_534_784,
        ),
        ({"num_layers": 12, "hidden_size": 768, "num_heads": 12}, 50_257, 124_439_808),
        ({"num_layers": 24, "hidden_size": 1024, "num_heads": 16}, 50_257, 354_823_168),
        ({"num_layers": 36, "hidden_size": 1280, "num_heads": 20}, 50_257, 774_030_080),
        ({"num_layers": 48, "hidden_size": 1600, "num_heads": 25}, 50_257, 1_557_611_200),
    ],
)
def test_the_number_of_parameters(settings, vocab_size, count):
    with torch.device("meta"):
        model = Gpt(GptConfig(**({"max_length": 1024} | settings)), vocab_size=vocab_size, bos_id=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_how_weights_begin(norm):
    model = make(norm=norm, hidden_size=64, max_length=200)
    for name, parameter in model.named_parameters():
        spread_of = float(parameter.detach().std())
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        elif norm == "pre" and name.endswith(("attention.output.weight", "ffn.outer.weight")):
            assert spread_of == pytest.approx(0.02 / math.sqrt(2 * LAYERS), rel=0.05), name
        else:
            expected = 0.01 if norm == "pre" and name == "positions.weight" else 0.02
            assert spread_of == pytest.approx(expected, rel=0.07), name


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_loss_begins_near_that_of_a_guess(norm):
    torch.manual_seed(3)
    model = Gpt(GptConfig(norm=norm), vocab_size=5000, bos_id=0).eval()
    tokens = torch.randint(0, 5000, (2, 65))
    loss = next_token_loss(model.output, model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    assert float(loss.nll) / loss.targets == pytest.approx(math.log(5000), abs=0.15)


def test_a_text_longer_than_the_positions_is_refused():
    model = make()
    with pytest.raises(ValueError, match="10 were learned"):
        model(torch.zeros(1, 11, dtype=torch.int64))
    with pytest.raises(ValueError, match="learned up to 10"):
        model.start(1, capacity=11)
    state = model.start(1)
    model(torch.zeros(1, 10, dtype=torch.int64), state)
    with pytest.raises(ValueError, match="10 were learned"):
        model.step(torch.zeros(1, dtype=torch.int64), state)


def test_documents_and_a_state_do_not_go_together():
    model, tokens = make(), torch.zeros(1, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match="leave out the state"):
        model(tokens, model.start(1), documents=tokens)


def copied(reference, model):
    """Gives Hugging Face's GPT-2 the weights of ours; its matrices are transposed."""
    theirs = reference.transformer
    pairs = [(theirs.wte.weight, model.embedding.weight), (theirs.wpe.weight, model.positions.weight)]
    pairs += [(theirs.ln_f.weight, model.decoder.norm.weight), (theirs.ln_f.bias, model.decoder.norm.bias)]
    for block, layer in zip(theirs.h, model.decoder.layers, strict=True):
        norms = ((block.ln_1, layer.attention_residual.norm), (block.ln_2, layer.ffn_residual.norm))
        maps = (
            (block.attn.c_attn, layer.attention.qkv),
            (block.attn.c_proj, layer.attention.output),
            (block.mlp.c_fc, layer.ffn.inner),
            (block.mlp.c_proj, layer.ffn.outer),
        )
        pairs += [(one.weight, other.weight) for one, other in norms]
        pairs += [(one.weight, other.weight.T) for one, other in maps]
        pairs += [(one.bias, other.bias) for one, other in (*norms, *maps)]
    with torch.no_grad():
        for one, other in pairs:
            one.copy_(other)
    return reference.eval()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_logits_and_loss_are_those_of_hugging_face():
    transformers = pytest.importorskip("transformers")
    model = spread(make()).eval()
    config = transformers.GPT2Config(
        vocab_size=V,
        n_positions=LENGTH,
        n_embd=SIZE,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=0,
        eos_token_id=0,
    )
    reference = copied(transformers.GPT2LMHeadModel(config), model)
    tokens = torch.randint(0, V, (3, LENGTH))
    with torch.no_grad():
        expected = reference(input_ids=tokens, labels=tokens)
        hidden = model(tokens)
        torch.testing.assert_close(model.output(hidden), expected.logits, atol=1e-4, rtol=1e-4)
        loss = next_token_loss(model.output, hidden[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert float(loss.nll) / loss.targets == pytest.approx(float(expected.loss), rel=1e-5)
