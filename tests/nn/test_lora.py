"""LoRA: its equation for every kind of projection, what is trained, and weights that are the same when merged."""

import copy

import pytest
import torch
from torch import nn

from wenmai.core.errors import SettingError
from wenmai.models.bert import Bert, BertConfig
from wenmai.models.elmo import Elmo, ElmoConfig
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.nn.lora import LoraLinear, add_lora, merge_lora
from wenmai.nn.multihead import MultiHead
from wenmai.nn.transformer import FeedForward
from wenmai.training.tensors import load_model, save_model

M, HEADS, RANK, ALPHA, LAYERS = 12, 3, 2, 5.0, 2
SIZES = {"hidden_size": M, "num_heads": HEADS, "num_layers": LAYERS, "max_length": 9}
TOKENS = torch.tensor([[1, 4, 2, 9, 3], [5, 5, 0, 1, 8]])
MODELS = {
    "bert": lambda: Bert(BertConfig(**SIZES), vocab_size=11),
    "bert-efficient": lambda: Bert(
        BertConfig(**SIZES, positions="relative", norm="nested", gated=True, buckets=8), vocab_size=11
    ),
    "gpt": lambda: Gpt(GptConfig(**SIZES), vocab_size=11, bos_id=0),
}


def made(name, *, trained=True, **options):
    """A model with LoRA, whose matrices B are not zero any more if it is trained."""
    torch.manual_seed(3)
    model = MODELS[name]().double().eval()
    plain = copy.deepcopy(model)
    options = {"rank": RANK, "alpha": ALPHA, "dropout": 0.0, "targets": ["query", "value"]} | options
    names = add_lora(model, **options)
    if trained:
        for one in names:
            nn.init.normal_(model.get_parameter(one).data)
    return plain, model, names


def states(model, **options):
    return torch.stack([*model.hidden_states(TOKENS)]) if isinstance(model, Bert) else model(TOKENS, **options)


def deltas(part):
    """(α/r) B A of one projection, by the rows that they change."""
    return [
        (slice(place * part.size, place * part.size + part.size), ALPHA / RANK * up @ down)
        for place, down, up in zip(part.chosen, part.lora_a.detach(), part.lora_b.detach(), strict=True)
    ]


TARGETS = {  # by target: for each projection of a layer the rows that change, in units of M
    ("query",): {"attention.qkv": [0]},
    ("value",): {"attention.qkv": [2]},
    ("query", "value"): {"attention.qkv": [0, 2]},
    ("output", "key"): {"attention.qkv": [1], "attention.output": [0]},
    ("attention",): {"attention.qkv": [0, 1, 2], "attention.output": [0]},
    ("ffn",): {"ffn.inner": [0], "ffn.outer": [0]},
    ("all",): {"attention.qkv": [0, 1, 2], "attention.output": [0], "ffn.inner": [0], "ffn.outer": [0]},
}


@pytest.mark.parametrize("targets", TARGETS, ids=" ".join)
@pytest.mark.parametrize("name", MODELS)
def test_the_network_is_that_with_the_products_added_to_its_weights(name, targets):
    plain, model, names = made(name, targets=targets)
    expected = TARGETS[targets]
    changed = {n.partition(".lora_")[0].partition("layers.")[2].partition(".")[2] for n in names}
    assert changed == {*expected}
    for path, part in model.named_modules():
        if isinstance(part, LoraLinear):
            assert list(part.chosen) == expected[path.partition("layers.")[2].partition(".")[2]]
            assert path.endswith(("ffn.inner", "ffn.outer")) or part.size == M
            for rows, delta in deltas(part):
                plain.get_submodule(path).weight.data[rows] += delta
            torch.testing.assert_close(part.weight, plain.get_submodule(path).weight)
    torch.testing.assert_close(states(model), states(plain))


@pytest.mark.parametrize("name", MODELS)
def test_training_begins_with_the_network_as_it_was(name):
    plain, model, _ = made(name, trained=False, targets=["all"])
    assert torch.equal(states(model), states(plain))


@pytest.mark.parametrize("name", MODELS)
def test_merged_weights_give_the_same_states_in_the_files_of_the_plain_model(name, tmp_path):
    plain, model, _ = made(name, targets=["all"])
    for one in (plain, model):
        one.float()
    before = states(model)
    assert not torch.allclose(states(plain), before, atol=1e-2)  # a merge that leaves the products out would be seen
    merge_lora(model)
    torch.testing.assert_close(states(model), before, atol=1e-3, rtol=1e-4)
    assert {k: v.shape for k, v in model.state_dict().items()} == {k: v.shape for k, v in plain.state_dict().items()}
    assert all(one.requires_grad for one in model.parameters())
    save_model(model, tmp_path)
    load_model(plain, tmp_path)
    assert torch.equal(states(plain), states(model))
    assert not torch.allclose(states(plain), states(MODELS[name]().eval()), atol=1e-2)


def test_states_of_some_tokens_alone_have_the_products_too():
    _, model, _ = made("bert", targets=["all"])
    places = torch.tensor([[0, 3], [4, 2]])
    some = model(TOKENS, places=places)
    every = model(TOKENS)
    for row in range(2):
        torch.testing.assert_close(some[row], every[row, places[row]])


def test_attention_over_a_memory_has_its_keys_and_values_in_one_product():
    torch.manual_seed(1)
    holder = nn.ModuleList([MultiHead(M, HEADS, memory_size=7)]).double().eval()
    attention, plain = holder[0], copy.deepcopy(holder[0])
    add_lora(holder, rank=RANK, alpha=ALPHA, dropout=0.0, targets=["value", "query"])
    assert (attention.query.chosen, attention.memory.chosen) == ((0,), (1,))
    for part, other in ((attention.query, plain.query), (attention.memory, plain.memory)):
        nn.init.normal_(part.lora_b)
        for rows, delta in deltas(part):
            other.weight.data[rows] += delta
    hidden, memory = torch.randn(2, 4, M, dtype=torch.float64), torch.randn(2, 5, 7, dtype=torch.float64)
    torch.testing.assert_close(attention(hidden, memory), plain(hidden, memory))


@pytest.mark.parametrize("name", MODELS)
def test_only_the_small_matrices_are_trained(name):
    plain, model, names = made(name, trained=False)
    assert [n for n, one in model.named_parameters() if one.requires_grad] == names
    assert sum(model.get_parameter(n).numel() for n in names) == LAYERS * 2 * (RANK * M + M * RANK)
    for _ in range(2):
        model.zero_grad()
        states(model)[..., 0].sum().backward()
        with torch.no_grad():
            for n in names:
                model.get_parameter(n).sub_(0.01 * model.get_parameter(n).grad)
    for n, one in model.named_parameters():
        if n in names:
            assert one.grad.any()  # of A only since B is no longer zero
        else:
            assert one.grad is None
            assert torch.equal(one, plain.get_parameter(n.replace(".base.", ".")))
    assert not torch.allclose(states(model), states(plain))


def test_gradients_are_those_of_the_equation():
    torch.manual_seed(2)
    _, model, _ = made("bert")
    part = model.encoder.layers[1].attention.qkv
    hidden = torch.randn(3, M, dtype=torch.float64)

    def call(hidden, a, b):
        return torch.func.functional_call(part, {"lora_a": a, "lora_b": b}, (hidden,))

    assert torch.autograd.gradcheck(call, (hidden.requires_grad_(), part.lora_a, part.lora_b))


def test_dropout_is_of_the_products_alone_and_only_while_training():
    _, model, _ = made("bert", dropout=0.5)
    part = model.encoder.layers[0].attention.qkv
    hidden = torch.randn(4, M, dtype=torch.float64)
    assert torch.equal(part(hidden), part(hidden))
    part.train()
    one, other, base = part(hidden), part(hidden), part.base(hidden)
    assert torch.equal(one[:, M : 2 * M], base[:, M : 2 * M])  # keys have no product
    for rows in (slice(M), slice(2 * M, None)):
        assert not torch.allclose(one[:, rows], other[:, rows])
    draws = torch.stack([part(hidden) for _ in range(3000)])
    part.eval()
    torch.testing.assert_close(draws.mean(0), part(hidden), atol=1.0, rtol=0.1)


def test_matrices_begin_normal_and_zero():
    torch.manual_seed(1)
    ffn = FeedForward(400, 50)
    add_lora(ffn, rank=64, alpha=1.0, dropout=0.0, targets=["ffn"])
    assert ffn.inner.lora_a.detach().std().item() == pytest.approx(0.05, rel=0.02)
    assert ffn.outer.lora_a.detach().std().item() == pytest.approx(50**-0.5, rel=0.05)
    assert not ffn.inner.lora_b.any()


def test_a_checkpoint_holds_base_and_products_exactly(tmp_path):
    _, model, names = made("bert")
    save_model(model, tmp_path)
    _, other, _ = made("bert", trained=False)
    load_model(other, tmp_path)
    assert torch.equal(states(other), states(model))
    assert [n for n, one in other.named_parameters() if one.requires_grad] == names


def test_models_that_have_no_such_projection_are_refused():
    elmo = Elmo(ElmoConfig(hidden_size=4, cell_size=4, character_size=3, filters=(2,)), vocab_size=5)
    with pytest.raises(SettingError, match="no projections query, value of Transformer layers"):
        add_lora(elmo, rank=1, alpha=1.0, dropout=0.0, targets=["query", "value"])
    _, model, _ = made("bert")
    with pytest.raises(ValueError, match="merge them first"):
        add_lora(model, rank=1, alpha=1.0, dropout=0.0, targets=["query"])
