"""The slot for biases of self-attention: a bias of one's own, by what is known of a sequence, in a whole encoder."""

import math

import pytest
import torch
from torch import nn

from wenmai.nn.attention import watch_attention
from wenmai.nn.biases import Slots
from wenmai.nn.cache import KeyValue
from wenmai.nn.masks import causal, padding
from wenmai.nn.multihead import MultiHead
from wenmai.nn.transformer import Encoder, EncoderLayer, FeedForward

B, T, SIZE, H = 2, 6, 8, 2
D = SIZE // H


class Relations(nn.Module):
    """(q·a_s + k·c_s + e_s)/√D for the relation s of two tokens, as SSAN's entity structure (Xu et al. 2021, eq. 4)."""

    def __init__(self, count):
        super().__init__()
        self.of_query, self.of_key = (nn.Parameter(torch.randn(H, count, D)) for _ in range(2))
        self.prior = nn.Parameter(torch.randn(H, 1, count))

    def forward(self, query, key, structure):
        relations = structure["relations"][:, None].expand(-1, H, -1, -1)  # (B, H, T, S)
        of_query = (query @ self.of_query.mT + self.prior).gather(-1, relations)
        of_key = (key @ self.of_key.mT).mT.gather(-2, relations)
        return Slots(query, (of_query + of_key) / math.sqrt(D))


def normed(x, norm):
    return norm.weight * (x - x.mean()) / ((x - x.mean()).square().mean() + norm.eps).sqrt() + norm.bias


def attended(attention, rows, relations, mask):
    """One sentence, one head, one query at a time."""
    bias, outputs = attention.relative, []
    q, k, v = (torch.stack(rows) @ attention.qkv.weight.T + attention.qkv.bias).chunk(3, 1)
    for i in range(len(rows)):
        context = []
        for h in range(H):
            own = slice(h * D, (h + 1) * D)
            scores = {}
            for j in range(len(rows)):
                if mask[j]:
                    s = int(relations[i, j])
                    added = q[i, own] @ bias.of_query[h, s] + k[j, own] @ bias.of_key[h, s] + bias.prior[h, 0, s]
                    scores[j] = ((q[i, own] @ k[j, own] + added) / math.sqrt(D)).exp()
            context.append(sum(score / sum(scores.values()) * v[j, own] for j, score in scores.items()))
        outputs.append(attention.output.weight @ torch.cat(context) + attention.output.bias)
    return outputs


def naive(encoder, hidden, relations, mask):
    found = []
    for sentence in range(B):
        rows = list(hidden[sentence])
        for layer in encoder.layers:
            one, two, ffn = layer.attention_residual.norm, layer.ffn_residual.norm, layer.ffn
            added = attended(layer.attention, rows, relations[sentence], mask[sentence])
            rows = [normed(x + f, one) for x, f in zip(rows, added, strict=True)]
            inner = [(ffn.inner.weight @ x + ffn.inner.bias).clamp(min=0) for x in rows]
            rows = [normed(x + ffn.outer.weight @ f + ffn.outer.bias, two) for x, f in zip(rows, inner, strict=True)]
        found.append(torch.stack(rows))
    return torch.stack(found)


def make(count=3):
    torch.manual_seed(1)
    layers = (
        EncoderLayer(MultiHead(SIZE, H, relative=Relations(count)), FeedForward(SIZE, 12), norm="post", dropout=0.0)
        for _ in range(2)
    )
    return Encoder(layers, hidden_size=SIZE).double()


@pytest.mark.parametrize("watched", [False, True])
def test_a_bias_by_structure_reaches_every_layer_of_an_encoder(watched):
    encoder = make()
    hidden, relations = torch.randn(B, T, SIZE, dtype=torch.float64), torch.randint(0, 3, (B, T, T))
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    results = []
    for run in ("naive", "encoder"):
        if run == "naive":
            states = naive(encoder, hidden, relations, mask)
        elif watched:  # the explicit path, with weights
            with watch_attention(encoder):
                states = encoder(hidden, mask=padding(mask), structure={"relations": relations})
        else:
            states = encoder(hidden, mask=padding(mask), structure={"relations": relations})
        results.append([states, *torch.autograd.grad(states.sin().sum(), list(encoder.parameters()))])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)
    assert not torch.allclose(encoder(hidden, mask=padding(mask), structure={"relations": 0 * relations}), states)


def test_a_bias_of_nothing_changes_nothing():
    encoder, plain = make(), make()
    for layer, other in zip(encoder.layers, plain.layers, strict=True):
        other.attention.relative = None
        for parameter in layer.attention.relative.parameters():
            nn.init.zeros_(parameter)
    hidden = torch.randn(B, T, SIZE, dtype=torch.float64)
    torch.testing.assert_close(encoder(hidden, structure={"relations": torch.zeros(B, T, T).long()}), plain(hidden))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("window", [None, 2])
def test_earlier_hidden_states_serve_as_a_cache_of_them(norm, window):
    torch.manual_seed(1)
    layer = EncoderLayer(MultiHead(SIZE, H, window=window), FeedForward(SIZE, 12), norm=norm, dropout=0.0)
    hidden, cache = torch.randn(B, 20, SIZE), KeyValue.empty(B, H, 20, D)
    whole = layer(hidden, mask=causal())
    with torch.no_grad():
        cache.append(layer.project_memory(hidden[:, :8]))
        for found in (
            layer(hidden[:, 8:], hidden[:, :8], mask=causal()),
            layer(hidden[:, 8:], mask=causal(), cache=cache),
            torch.cat([layer(hidden[:, i : i + 1], hidden[:, :i]) for i in range(8, 20)], 1),
        ):
            torch.testing.assert_close(found, whole[:, 8:], atol=1e-5, rtol=1e-5)
