"""The last layer of an encoder at some positions alone gives what the whole layer gives there."""

import pytest
import torch

from wenmai.core.registry import find_system
from wenmai.models.bert import Bert, BertConfig
from wenmai.nn.encoder import apart
from wenmai.nn.multihead import rows_at

VOCAB, ROWS, TOKENS = 30, 3, 9
FORMS = {
    "bert": {},
    "bert-efficient": {"positions": "relative", "buckets": 4, "norm": "nested", "gated": True, "segments": 0},
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("mask", ["none", "padding", "pieces"])
def test_states_and_gradients_at_some_positions(form, mask):
    torch.manual_seed(3)
    config = BertConfig(hidden_size=12, num_layers=2, num_heads=3, max_length=16, heads=("mlm",), **FORMS[form])
    model = Bert(config, vocab_size=VOCAB).double().eval()
    tokens = torch.randint(0, VOCAB, (ROWS, TOKENS))
    places = torch.stack([torch.randperm(TOKENS)[:4] for _ in range(ROWS)])
    pieces = torch.tensor([[0] * 5 + [1] * 4] * ROWS)
    masks = {"none": None, "padding": (torch.arange(TOKENS) < 7).expand(ROWS, 1, 1, -1), "pieces": apart(pieces)}
    positions = torch.tensor([[*range(5), *range(4)]] * ROWS) if mask == "pieces" else None
    given = {"mask": masks[mask], "positions": positions}
    found, whole = model(tokens, places=places, **given), rows_at(model(tokens, **given), places)
    torch.testing.assert_close(found, whole)
    parameters = [parameter for name, parameter in model.named_parameters() if "heads" not in name]
    weights = torch.randn_like(found)
    ours, theirs = (
        torch.autograd.grad((states * weights).sum(), parameters, allow_unused=True) for states in (found, whole)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("size", "inner"), [(256, 683), (128, 341), (12, 32)])
def test_gated_networks_have_as_many_weights_as_those_without(size, inner):
    settings = find_system("bert-efficient").settings
    sizes = {name: settings[name] for name in ("positions", "norm", "gated", "activation", "epsilon", "segments")}
    assert "ffn_size" not in settings
    model = Bert(BertConfig(hidden_size=size, num_layers=1, **sizes), vocab_size=VOCAB)
    ffn = model.encoder.layers[0].ffn
    assert ffn.outer.weight.shape == (size, inner)
    assert sum(one.weight.numel() for one in (ffn.inner, ffn.outer)) == pytest.approx(8 * size**2, rel=0.02)


def test_learned_positions_begin_as_sinusoids_of_the_size_of_the_other_embeddings():
    torch.manual_seed(3)
    positions = Bert(BertConfig(hidden_size=64, num_heads=4, max_length=50), vocab_size=VOCAB).positions.weight.detach()
    products = positions @ positions.T
    for distance in (1, 2, 7):
        beside = products.diagonal(distance)
        torch.testing.assert_close(beside, beside[:1].expand_as(beside))  # they know distances, not places
    assert positions.square().mean().sqrt().item() == pytest.approx(0.02, rel=1e-5)
    model = Bert(BertConfig(hidden_size=64, num_heads=4, max_length=50), vocab_size=VOCAB)
    assert model.positions.weight.requires_grad  # and are learned from there on
