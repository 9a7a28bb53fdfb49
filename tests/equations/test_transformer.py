"""The Transformer against PyTorch's own layers with the same weights, and against its equations."""

import math

import pytest
import torch
from torch import nn

from wenmai.config.recipe import Recipe
from wenmai.core.registry import find_system
from wenmai.models.transformer import Transformer, TransformerConfig
from wenmai.nn.transformer import FeedForward

SIZE, HEADS, FFN, LAYERS, V = 12, 3, 20, 2, 9


@pytest.fixture(params=["post", "pre"])
def model(request):
    torch.manual_seed(1)
    config = TransformerConfig(
        hidden_size=SIZE, num_layers=LAYERS, num_heads=HEADS, ffn_size=FFN, norm=request.param, dropout=0.0
    )
    model = Transformer(config, source_vocab_size=V, target_vocab_size=V, tied_sources=True)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)  # biases and gains that are not at their start
    return model


@pytest.fixture
def batch():
    torch.manual_seed(2)
    source, target = torch.randint(0, V, (3, 7)), torch.randint(0, V, (3, 5))
    return source, torch.arange(7) < torch.tensor([7, 4, 1])[:, None], target


def copied(reference, own):
    """Gives one of PyTorch's layers the weights of ours."""
    pairs = [
        (reference.self_attn.in_proj_weight, own.attention.qkv.weight),
        (reference.self_attn.in_proj_bias, own.attention.qkv.bias),
        (reference.self_attn.out_proj.weight, own.attention.output.weight),
        (reference.self_attn.out_proj.bias, own.attention.output.bias),
        (reference.linear1.weight, own.ffn.inner.weight),
        (reference.linear1.bias, own.ffn.inner.bias),
        (reference.linear2.weight, own.ffn.outer.weight),
        (reference.linear2.bias, own.ffn.outer.bias),
    ]
    norms = [own.attention_residual.norm, own.ffn_residual.norm]
    if isinstance(reference, nn.TransformerDecoderLayer):
        norms.insert(1, own.memory_residual.norm)
        theirs, ours = reference.multihead_attn, own.memory_attention
        pairs += [
            (theirs.in_proj_weight, torch.cat((ours.query.weight, ours.memory.weight))),
            (theirs.in_proj_bias, torch.cat((ours.query.bias, ours.memory.bias))),
            (theirs.out_proj.weight, ours.output.weight),
            (theirs.out_proj.bias, ours.output.bias),
        ]
    for place, norm in enumerate(norms, 1):
        theirs = getattr(reference, f"norm{place}")
        pairs += [(theirs.weight, norm.weight), (theirs.bias, norm.bias)]
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
    return reference


def embedded(model, token_ids):
    """√M·E[x] + PE, one position at a time."""
    hidden = torch.zeros(*token_ids.shape, SIZE)
    for row, ids in enumerate(token_ids.tolist()):
        for position, token in enumerate(ids):
            for column in range(SIZE):
                angle = position / 10000 ** (2 * (column // 2) / SIZE)
                wave = math.cos(angle) if column % 2 else math.sin(angle)
                hidden[row, position, column] = math.sqrt(SIZE) * model.embedding[token, column].detach() + wave
    return hidden


@pytest.mark.parametrize("training", [True, False])
def test_the_whole_model_is_that_of_pytorchs_layers(model, batch, training):
    model.train(training)
    source, valid, target = batch
    pre = model.config.norm == "pre"
    options = {"dim_feedforward": FFN, "dropout": 0.0, "layer_norm_eps": 1e-6, "batch_first": True, "norm_first": pre}
    memory, hidden = embedded(model, source), embedded(model, target)
    for layer in model.encoder.layers:
        reference = copied(nn.TransformerEncoderLayer(SIZE, HEADS, **options), layer)
        memory = reference(memory, src_key_padding_mask=~valid)
    memory = model.encoder.norm(memory)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for layer in model.decoder.layers:
        reference = copied(nn.TransformerDecoderLayer(SIZE, HEADS, **options), layer)
        hidden = reference(hidden, memory, tgt_mask=future, memory_key_padding_mask=~valid)
    hidden = model.decoder.norm(hidden)
    found = model(source, valid, target)
    torch.testing.assert_close(model.encode(source, valid).hidden[valid], memory[valid], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found, hidden, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.logits(found), hidden @ model.embedding.T, atol=1e-5, rtol=1e-5)


def test_feed_forward_is_its_equation():
    """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, eq. 2), and with Φ(x)·x instead of max(0, x)."""
    hidden = torch.randn(4, 6)
    for activation, f in (("relu", lambda x: x.clamp(min=0)), ("gelu", lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2)):
        ffn = FeedForward(6, 10, activation=activation)
        nn.init.normal_(ffn.inner.bias)
        expected = f(hidden @ ffn.inner.weight.T + ffn.inner.bias) @ ffn.outer.weight.T + ffn.outer.bias
        torch.testing.assert_close(ffn(hidden), expected)


def test_dropout_stands_where_the_paper_has_it(monkeypatch, batch):
    """On the embedding sums and on what each sub-layer returns; on weights and activations where that is set."""
    rates = []
    for module in ("nn.attention", "nn.transformer", "nn.embeddings"):
        name = "apply_dropout" if module == "nn.attention" else "dropout"
        monkeypatch.setattr(f"wenmai.{module}.{name}", lambda hidden, rate: rates.append(rate) or hidden)
    config = TransformerConfig(
        hidden_size=SIZE, num_layers=1, num_heads=HEADS, ffn_size=FFN, dropout=0.3, activation_dropout=0.2
    )
    model = Transformer(config, source_vocab_size=V, target_vocab_size=V, tied_sources=True)
    model(*batch)
    assert sorted(rates) == [0.2] * 2 + [0.3] * (2 + 2 + 3)
    rates.clear()
    model.eval()(*batch)
    assert rates == []


@pytest.mark.parametrize(("name", "parameters"), [("transformer-base", 63_045_632), ("transformer-big", 214_171_648)])
def test_the_number_of_parameters(name, parameters):
    """Base and big with 37,000 shared tokens and no biases in attention."""
    settings = {**find_system(name).settings, "attention_bias": False}
    config = Recipe.build(name, find_system(name).load().sections, settings).sections["model"]
    with torch.device("meta"):
        model = Transformer(config, source_vocab_size=37_000, target_vocab_size=37_000, tied_sources=True)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
