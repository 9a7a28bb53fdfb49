"""One contract for every model that translates: a table of tiny configs, and what must hold for each of them.

A public model in ``wenmai.models`` that is in no table, here or in ``test_language_models.py``, fails the suite.
"""

import inspect
import os
import pkgutil
from dataclasses import asdict
from importlib import import_module

import pytest
import torch
from torch import nn

import wenmai.models
from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.registry import find_system
from wenmai.decode.search import beam_search, greedy
from wenmai.inference.translator import Translator, build
from wenmai.models.seq2seq import Seq2Seq
from wenmai.models.transformer import Transformer
from wenmai.nn.attention import watch_attention
from wenmai.nn.language import NextToken
from wenmai.objectives.language import cross_entropy
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

TABLE = {
    Transformer: {
        "sinusoidal": {},
        "pre-norm": {"norm": "pre", "activation": "gelu", "decoder_layers": 1, "attention_bias": False},
        "learned": {"positions": "learned", "attention_dropout": 0.1, "activation_dropout": 0.1},
        "shaw": {"positions": "shaw", "max_distance": 2, "decoder_layers": 2},
        "no positions": {"positions": "none"},
        "window": {"window": 1},
        "shaw in a window": {"positions": "shaw", "window": 2, "norm": "pre"},
    },
    Seq2Seq: {
        "gru bahdanau additive": {},
        "lstm bahdanau scaled_dot": {
            "encoder": "lstm",
            "scorer": "scaled_dot",
            "num_layers": 2,
            "bidirectional": False,
        },
        "rnn bahdanau concat": {
            "encoder": "rnn",
            "scorer": "concat",
            "bidirectional": False,
            "reverse_source": True,
        },
        "cnn bahdanau cosine": {"encoder": "cnn", "scorer": "cosine", "num_layers": 2},
        "gru luong additive": {"attention": "luong"},
        "lstm luong bilinear": {"encoder": "lstm", "attention": "luong", "scorer": "bilinear", "num_layers": 2},
        "cnn luong dot": {"encoder": "cnn", "attention": "luong", "scorer": "dot", "kernel_size": 2},
        "gru every_step": {"context": "every_step", "num_layers": 2},
        "cnn every_step": {"encoder": "cnn", "context": "every_step"},
        "lstm first_state": {
            "encoder": "lstm",
            "context": "first_state",
            "bidirectional": False,
            "reverse_source": True,
        },
        "rnn first_state": {"encoder": "rnn", "context": "first_state"},
    },
}
SIZES = {
    Transformer: {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 24, "max_length": 40},
    Seq2Seq: {"embedding_size": 8, "hidden_size": 12, "max_length": 40},
}
TARGET_TABLE = {Transformer: "embedding", Seq2Seq: "target_embedding.weight"}
KINDS = {find_system(kind).load_model(): kind for kind in ("transformer", "seq2seq")}
ENTRIES = [(architecture, name) for architecture, configs in TABLE.items() for name in configs]
LENGTHS = (7, 1, 4)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """For models this small, threads that wait for each other are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=ENTRIES, ids=[f"{architecture.__name__}-{name}" for architecture, name in ENTRIES])
def entry(request):
    return request.param


@pytest.fixture(scope="module")
def source():
    return words("s", 15)


@pytest.fixture(scope="module")
def target():
    return words("t", 17)


@pytest.fixture
def translator(entry, source, target):
    return make(entry, source, target)


@pytest.fixture
def model(translator):
    return translator.module


@pytest.fixture
def batch(source, target):
    generator = torch.Generator().manual_seed(3)
    valid = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source_ids = torch.randint(4, source.vocab_size, valid.shape, generator=generator)
    target_ids = torch.randint(4, target.vocab_size, (len(LENGTHS), 6), generator=generator)
    return source_ids.masked_fill(~valid, source.pad_id), valid, target_ids


def words(letter, count):
    texts = [f"{letter}{number}" for number in range(count) for _ in range(2)]
    return Tokenizer.train(texts, TokenizerConfig(kind="words"))


def settings_of(entry):
    architecture, name = entry
    return SIZES[architecture] | TABLE[architecture][name]


def make(entry, source, target, seed=1, **changes):
    kind = KINDS[entry[0]]
    config = find_system(kind).load_model().config_class(**(settings_of(entry) | changes))
    torch.manual_seed(seed)
    module = build(find_system(kind).load_model(), config, source=source, target=target)
    return Translator(module.eval(), source, target)


def attends(entry):
    return entry[0] is Transformer or settings_of(entry).get("context", "attention") == "attention"


def close(one, other):
    torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)


def test_no_model_is_missing_from_the_table():
    public, modules = set(), set()
    for info in pkgutil.iter_modules(wenmai.models.__path__, "wenmai.models."):
        module = import_module(info.name)
        own = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == info.name]
        found = {kind for kind in own if issubclass(kind, nn.Module)}
        if found and not any(issubclass(kind, NextToken) for kind in found):  # those are in test_language_models.py
            modules.add(info.name)
            public |= {kind for kind in found if kind.__name__ in module.__all__}
    assert public == set(TABLE)
    assert modules == {kind.__module__ for kind in TABLE}


def test_shapes(entry, model, batch, source, target):
    hidden = model(*batch)
    size = model.output_weight.shape[1]
    assert hidden.shape == (3, 6, size)
    assert model.output_weight.shape == (target.vocab_size, size)
    assert model.output_bias is None or model.output_bias.shape == (target.vocab_size,)
    logits = model.logits(hidden)
    assert logits.shape == (3, 6, target.vocab_size)
    close(logits, nn.functional.linear(hidden, model.output_weight, model.output_bias))
    state = model.begin(*batch[:2], max_length=6, need_attention=True)
    assert state.batch_size == 3
    step = model.step(batch[2][:, 0], state)
    assert step.logits.shape == (3, target.vocab_size)
    assert (step.attention is not None) is attends(entry)
    assert step.attention is None or step.attention.shape == (3, 7)


def test_padding_changes_nothing(model, batch):
    source_ids, valid, target_ids = batch
    together = model(source_ids, valid, target_ids)
    other = source_ids.masked_fill(~valid, 5)
    longer = nn.functional.pad(other, (0, 3), value=6), nn.functional.pad(valid, (0, 3))
    close(model(*longer, target_ids), together)
    for row, length in enumerate(LENGTHS):
        alone = model(source_ids[row : row + 1, :length], valid[row : row + 1, :length], target_ids[row : row + 1])
        close(alone[0], together[row])


def test_the_order_of_a_batch_changes_nothing(model, batch):
    order = torch.tensor([2, 0, 1])
    close(model(*(tensor[order] for tensor in batch)), model(*batch)[order])


def test_no_gradient_flows_from_a_state_to_a_later_token(entry, model, batch):
    source_ids, valid, _ = (tensor[:1] for tensor in batch)
    target_ids = torch.arange(4, 10)  # all different: a row of the table is a position
    hidden = model(source_ids, valid, target_ids[None])
    hidden = hidden * torch.randn(hidden.shape[-1])  # the plain sum of a normed state is constant
    table = model.get_parameter(TARGET_TABLE[entry[0]])
    for position in range(6):
        (gradient,) = torch.autograd.grad(hidden[:, position].sum(), table, retain_graph=True)
        assert not gradient[target_ids[position + 1 :]].any()
        assert gradient[target_ids[position]].any()


def test_steps_give_the_logits_of_the_whole(model, batch):
    source_ids, valid, target_ids = batch
    with torch.no_grad():
        expected = model.logits(model(*batch))
        state = model.begin(source_ids, valid, max_length=6)
        for position in range(6):
            close(model.step(target_ids[:, position], state).logits, expected[:, position])


def test_a_beam_of_one_is_greedy(model, batch, target):
    options = {"bos_id": target.bos_id, "eos_id": target.eos_id, "max_lengths": 12}
    first = greedy(model, model.begin(*batch[:2], max_length=12), **options)
    second = beam_search(model, model.begin(*batch[:2], max_length=12), beam_size=1, **options)
    assert [one.tokens for one in first] == [one.tokens for (one,) in second]
    assert [one.log_prob for one in first] == pytest.approx([one.log_prob for (one,) in second])


@pytest.mark.parametrize("joint", [False, True], ids=["two vocabularies", "one vocabulary"])
def test_a_saved_model_is_the_same_model(entry, joint, source, target, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # how fast the disk is does not matter here
    first = target if joint else source
    before = make(entry, first, target)
    before.save(tmp_path)
    after = Translator.load(tmp_path)
    assert (after.kind, after.config) == (before.kind, before.config)
    assert (after.source is after.target) is joint
    assert not after.module.training
    assert after.module.state_dict().keys() == before.module.state_dict().keys()
    for name, tensor in before.module.state_dict().items():
        assert torch.equal(after.module.state_dict()[name], tensor), name
    texts = [" ".join(first.token(number) for number in row) for row in ([4, 5, 6], [9, 7])]
    assert list(after.stream(texts, beam_size=2)) == list(before.stream(texts, beam_size=2))


def test_a_recipe_keeps_every_setting(entry, tmp_path):
    kind = KINDS[entry[0]]
    sections = find_system(kind).load().sections
    recipe = Recipe.build(kind, sections, {f"model.{name}": value for name, value in settings_of(entry).items()})
    recipe.write(tmp_path / "recipe.yaml")
    found = read_recipe(tmp_path / "recipe.yaml")
    again = Recipe.build(found["system"], sections, found["settings"])
    assert again.sections == recipe.sections
    expected = find_system(kind).load_model().config_class(**settings_of(entry))
    assert asdict(again.sections["model"]) == asdict(expected)


def test_a_seed_decides_everything(entry, batch, source, target):
    def run(seed):
        module = make(entry, source, target, seed=seed).module.train()
        return module.state_dict(), module(*batch)

    (first, states), (second, again), (other, _) = run(1), run(1), run(2)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert torch.equal(states, again)  # dropout too
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())


def test_every_parameter_gets_a_gradient(model, batch):
    loss_of(model.train(), batch).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def loss_of(model, batch):
    source_ids, valid, target_ids = batch
    hidden = model(source_ids, valid, target_ids[:, :-1]).flatten(0, 1)
    return cross_entropy(hidden, model.output_weight, model.output_bias, target_ids[:, 1:].flatten())


def test_a_batch_is_learned_by_heart(entry, batch, source, target):
    off = {name: 0.0 for name in settings_of(entry) if name.endswith("dropout")} | {"dropout": 0.0}
    model = make(entry, source, target, **off).module.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(80):
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(model, batch)
        loss.total.backward()
        optimiser.step()
        if loss.nll < 0.1 * loss.targets:
            break
    assert loss.nll < 0.1 * loss.targets


def test_attention_sums_to_one_over_real_tokens(entry, model, batch):
    _, valid, _ = batch
    with torch.no_grad(), watch_attention(model) as watched:
        model(*batch)
    assert bool(watched) is attends(entry)
    for name, found in watched.items():
        weights = torch.cat(found, dim=2)  # (B, H, T, S)
        sums = weights.sum(-1).transpose(1, 2)  # (B, T, H)
        real = sums[valid] if sums.shape[1] == valid.shape[1] else sums  # padding may see nothing in its window
        close(real, torch.ones_like(real))
        if weights.shape[-1] == valid.shape[1]:
            assert not weights.masked_select(~valid[:, None, None]).any(), name


@pytest.mark.filterwarnings("ignore")  # the compiler warns of what it does itself
@pytest.mark.parametrize("architecture", TABLE)
def test_a_compiled_model_says_the_same(architecture, batch, source, target):
    model = make((architecture, next(iter(TABLE[architecture]))), source, target).module
    expected = model(*batch)
    close(torch.compile(model, backend="eager")(*batch), expected)
