"""The states that language models give the tokens of a text, layer by layer, and the vectors made of them."""

import logging

import numpy as np
import pytest
import torch

from tests.inference.toy import toy_language_model
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system
from wenmai.inference.states import LayerStates

SIZES = {
    "gpt": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "max_length": 12},
    "gpt-2": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "max_length": 12, "norm": "pre", "window": 2},
    "transformer-xl": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "ffn_size": 8, "memory_length": 4},
    "rnn": {"hidden_size": 8, "num_layers": 2, "cell": "rnn", "dropout": 0.5},
    "lstm": {"hidden_size": 8, "num_layers": 2, "cell": "lstm", "dropout": 0.5},
    "gru": {"hidden_size": 8, "num_layers": 2, "cell": "gru", "dropout": 0.5},
}
SYSTEMS = {"gpt-2": "gpt", "rnn": "rnnlm", "lstm": "rnnlm", "gru": "rnnlm"}
TEXTS = ["a b c", "", "d", "e d c b a"]


def make(name, **changes):
    return toy_language_model(SYSTEMS.get(name, name), **SIZES.get(name, {}) | changes)


@pytest.fixture(params=SIZES)
def model(request):
    return make(request.param)


def states(model, text):
    """The states of the tokens of a text in all layers, (L + 1, T, M), read alone and from its beginning."""
    ids = torch.tensor([[model.module.bos_id, *model.tokenizer.encode(text).ids]])
    with torch.no_grad():
        return torch.stack(model.module.hidden_states(ids))[:, 0, 1:].numpy()


def test_the_states_of_the_last_layer_predict_and_those_of_the_first_are_embeddings(model):
    ids = torch.tensor([[0, 1, 2, 3, 2, 1]])
    with torch.no_grad():
        found = model.module.hidden_states(ids)
        torch.testing.assert_close(found[-1], model.module(ids), atol=1e-6, rtol=1e-5)
    assert [one.shape for one in found] == [(1, 6, 8)] * 3
    if model.kind != "gpt":  # which adds positions
        torch.testing.assert_close(found[0][0, 1], found[0][0, 5])
    assert not torch.allclose(found[1][0, 1], found[1][0, 5])


def test_vectors_of_texts_are_made_of_the_states_of_their_tokens(model):
    expected = [states(model, text) for text in TEXTS]
    poolings = {"mean": lambda one: one.mean(0), "max": lambda one: one.max(0), "last": lambda one: one[-1]}
    for pooling, pool in poolings.items():
        for layer, number in (("last", 2), (0, 0), (-2, 1)):
            found = model.embed(TEXTS, layer=layer, pooling=pooling)
            assert found.dtype == np.float32
            for row, one in zip(found, expected, strict=True):
                assert row == pytest.approx(pool(one[number]) if one.shape[1] else np.zeros(8), abs=1e-5)
    beside = model.embed(TEXTS[:1], layer="1,2", concat=True)
    assert beside[0] == pytest.approx(np.concatenate([expected[0][1].mean(0), expected[0][2].mean(0)]), abs=1e-5)
    assert np.linalg.norm(model.embed(TEXTS[:1], normalise=True)) == pytest.approx(1)


def test_words_have_the_states_of_their_pieces(model):
    (found,) = model.embed_words(["e d c"], layer=1)
    assert found.words == ["e", "d", "c"]
    assert found.vectors == pytest.approx(states(model, "e d c")[1], abs=1e-5)
    (vectors,) = model.token_vectors([["e", "d", "c"]])
    assert vectors == pytest.approx(states(model, "e d c")[2], abs=1e-5)


def test_a_probe_reads_the_same_vectors_of_texts(model):
    found = np.zeros((3, 4, 8), np.float32)
    LayerStates(model).of_texts(TEXTS, found)
    for number in range(3):
        assert found[number] == pytest.approx(model.embed(TEXTS, layer=number), abs=1e-5)
    LayerStates(model, pooling="text").of_texts(TEXTS[:1], one := np.zeros((3, 1, 8), np.float32))
    assert one[2] == pytest.approx(model.embed(TEXTS[:1], pooling="last"), abs=1e-5)


def test_long_texts_are_cut_where_the_model_ends_and_read_whole_where_it_does_not(caplog):
    long = "a b c d e " * 5
    gpt = make("gpt")
    with caplog.at_level(logging.WARNING):
        found = gpt.embed([long, "a"], pooling="last")
    assert "1 text longer than the model reads (max_length=12): cut" in caplog.text
    assert found[0] == pytest.approx(states(gpt, "a b c d e a b c d e a")[-1, -1], abs=1e-5)
    (layers,) = gpt.layers([long])
    assert layers.vectors.shape == (3, 25, 8)
    assert layers.vectors.any(axis=2).all()
    caplog.clear()
    lstm = make("lstm")
    assert lstm.embed([long], pooling="last")[0] == pytest.approx(states(lstm, long)[-1, -1], abs=1e-5)
    assert not caplog.text


@pytest.mark.parametrize("size", [4, 12])
def test_layers_of_unlike_sizes_are_filled_up_with_zeros(size):
    model = make("lstm", embedding_size=size)
    wide = max(size, 8)
    words, first, last = states(model, "a b c")
    assert words.shape == first.shape == last.shape == (3, wide)
    assert not words[:, size:].any()
    assert not last[:, 8:].any()
    assert model.embed(["a b c"]).shape == (1, wide)
    with torch.no_grad():
        ids = torch.tensor([[model.module.bos_id, *model.tokenizer.encode("a b c").ids]])
        assert last[:, :8] == pytest.approx(model.module(ids)[0, 1:].numpy(), abs=1e-5)


def test_what_a_language_model_does_not_have_is_refused():
    gpt = make("gpt")
    with pytest.raises(SettingError, match="pooling=cls: the model has mean, max, last"):
        gpt.embed(["a"], pooling="cls")
    with pytest.raises(SettingError, match="layer=3: expected last"):
        gpt.embed(["a"], layer=3)
    for wrong in (gpt.embed, gpt.embed_words, gpt.layers):
        with pytest.raises(SettingError, match="takes a list"):
            [*wrong("a")]
    with pytest.raises(SettingError, match="nnlm has no states of layers"):
        make("nnlm", embedding_size=4, hidden_size=8, order=3).embed(["a"])


def test_the_verb_is_that_of_models_with_layers():
    has = {name: "embed" in find_system(name).load().verbs for name in ("gpt", "transformer-xl", "rnnlm", "nnlm")}
    assert has == {"gpt": True, "transformer-xl": True, "rnnlm": True, "nnlm": False}
