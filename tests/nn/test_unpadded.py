"""Batches that are read without their padding: the states are those of padded batches, and when it is done."""

import pytest
import torch

from wenmai.models.bert import Bert, BertConfig
from wenmai.nn import transformer
from wenmai.nn.attention import watch_attention
from wenmai.nn.encoder import apart
from wenmai.nn.multihead import MultiHead
from wenmai.nn.transformer import Encoder, EncoderLayer, FeedForward

VOCAB, TOKENS = 19, 9
LENGTHS = [9, 4, 4, 7, 1, 4]
REAL = torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]
SCATTERED = REAL[:, torch.tensor([3, 0, 8, 1, 5, 2, 4, 7, 6])]
EMPTY = REAL.clone()
EMPTY[[0, 3]] = False


def make(**settings):
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_layers": 3, "num_heads": 2, "max_length": 12, "heads": ()}
    model = Bert(BertConfig(**(sizes | settings)), vocab_size=VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


@pytest.fixture
def tokens():
    return torch.randint(0, VOCAB, REAL.shape, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def joined(monkeypatch):
    """Counts the batches that are read without padding."""
    found, of = [], transformer.unpadded

    def noting(hidden, mask):
        texts = of(hidden, mask)
        found.extend([] if texts is None else [texts])
        return texts

    monkeypatch.setattr(transformer, "unpadded", noting)
    return found


def padded(model, monkeypatch, *given, **options):
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(transformer, "unpadded", lambda *_: None)
        return model(*given, **options)


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"norm": "pre"}, {"norm": "nested", "gated": True}], ids=str)
@pytest.mark.parametrize("real", [REAL, SCATTERED, EMPTY], ids=["at the end", "anywhere", "no token"])
def test_states_are_those_of_padded_batches(settings, real, tokens, joined, monkeypatch):
    model, mask = make(**settings), real[:, None, None]
    segments = (torch.arange(TOKENS) > 3).long().expand(tokens.shape)
    expected = padded(model, monkeypatch, tokens, mask=mask, segments=segments)
    layers = padded(model.hidden_states, monkeypatch, tokens, mask=mask, segments=segments)
    with torch.no_grad():
        found = model(tokens, mask=mask, segments=segments)
        each = model.hidden_states(tokens, mask=mask, segments=segments)
    assert len(joined) == 2
    close(found[real], expected[real])
    assert len(each) == len(layers) == 4
    for one, other in zip(each, layers, strict=True):
        assert one.shape == other.shape == (*tokens.shape, 16)
        close(one[real], other[real])


def test_states_at_some_positions(tokens, joined, monkeypatch):
    model, mask = make(), REAL[:, None, None]
    places = torch.tensor([[8, 0], [1, 3], [0, 0], [6, 2], [0, 0], [3, 1]])
    with torch.no_grad():
        found = model(tokens, mask=mask, places=places)
    assert joined
    close(found, padded(model, monkeypatch, tokens, mask=mask, places=places))


def test_what_is_computed_with_gradients_watched_or_dropped_stays_padded(tokens, joined):
    model, mask = make(), REAL[:, None, None]
    model(tokens, mask=mask).sum().backward()
    with torch.no_grad():
        with watch_attention(model) as weights:
            model(tokens, mask=mask)
        assert {one.shape for (one,) in weights.values()} == {(6, 2, TOKENS, TOKENS)}
        model(tokens, mask=apart(REAL.long()))
        model(tokens)
        model(tokens, mask=torch.zeros(6, 1, 1, TOKENS, dtype=torch.bool))
        model.train()(tokens, mask=mask)
        model.eval()
        assert not joined
        model(tokens, mask=mask)
    assert len(joined) == 1


@pytest.mark.parametrize("settings", [{"window": 1}, {"relative": lambda q, k, s: None}], ids=["window", "relative"])
def test_attention_that_knows_places_needs_texts_apart(settings):
    def encoder(**options):
        layers = (
            EncoderLayer(MultiHead(8, 2, **one), FeedForward(8, 8), norm="post", dropout=0.0) for one in ({}, options)
        )
        return Encoder(layers, hidden_size=8)

    assert encoder().unpads
    assert not encoder(**settings).unpads


def test_an_encoder_says_what_its_batches_may_be():
    assert make().unpads
    assert not make(positions="relative", buckets=4).unpads
    assert not make().to("meta").unpads
