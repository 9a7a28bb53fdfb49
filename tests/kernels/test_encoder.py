"""The compiled encoder for short texts against PyTorch's modules, and when it is taken."""

import copy

import pytest
import torch
from torch import nn

from wenmai.models.bert import Bert, BertConfig
from wenmai.nn import encoder_stack, plain, stack
from wenmai.nn.attention import watch_attention

VOCAB = 19
KINDS = {
    "post": {},
    "pre": {"norm": "pre"},
    "relu": {"activation": "relu"},
    "tanh": {"activation": "gelu_tanh"},
    "one head": {"num_heads": 1, "ffn_size": 80},
}


def make(**settings):
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "ffn_size": 48, "max_length": 64}
    model = Bert(BertConfig(**(sizes | settings)), vocab_size=VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def text(length, seed=2):
    return torch.randint(0, VOCAB, (1, length), generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def counted(monkeypatch):
    """Compiles for every model at once, and counts the texts that were read so."""
    texts, states = [], encoder_stack.EncoderStack.states

    def noting(self, hidden):
        texts.append(len(hidden))
        return states(self, hidden)

    monkeypatch.setattr(plain, "WORTH_TEXTS", 0)
    monkeypatch.setattr(encoder_stack.EncoderStack, "states", noting)
    return texts


def of_modules(model, tokens, monkeypatch):
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(plain, "FEW_TOKENS", 0)
        return model.hidden_states(tokens)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_states_are_those_of_the_modules(kind, threads, counted, monkeypatch):
    monkeypatch.setattr(stack, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(encoder_stack, "WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    model = make(**KINDS[kind])
    for length in [1, 2, 3, 4, 5, 9, 16, 31, 3]:
        tokens = text(length)
        expected = of_modules(model, tokens, monkeypatch)
        with torch.no_grad():
            found, last = model.hidden_states(tokens), model(tokens)
            at = model(tokens, places=torch.tensor([[length - 1, 0]]))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(last, expected[-1], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(at, expected[-1][:, [length - 1, 0]], atol=1e-5, rtol=1e-5)
    torch.set_num_threads(before)
    assert len(counted) == 27


def test_gelu_is_exact_to_rounding(counted, monkeypatch):
    """One block whose first product is the identity: large, small and negative numbers."""
    model = make(num_layers=1)
    with torch.no_grad():
        model.encoder.layers[0].ffn.inner.weight.mul_(60)
    tokens = text(20)
    expected = of_modules(model.double(), tokens, monkeypatch)[-1]
    with torch.no_grad():
        found = model.float()(tokens)
    assert counted == [20]
    torch.testing.assert_close(found.double(), expected, atol=3e-6, rtol=3e-6)


def read(model, tokens, **given):
    with torch.no_grad():
        return model(tokens, **given)


def test_it_is_taken_where_it_is_possible_alone(counted):
    model = make()
    read(model, text(40))  # longer than FEW_TOKENS
    read(model, text(8).repeat(2, 1))
    read(model, text(8), mask=torch.ones(1, 1, 1, 8, dtype=torch.bool))
    read(make(positions="relative", segments=0), text(8))
    read(make(ffn_size=40), text(8))
    model(text(8))  # with gradients
    with watch_attention(model):
        read(model, text(8))
    with torch.autocast("cpu", torch.bfloat16):
        read(model, text(8))
    read(make().bfloat16(), text(8))
    read(make().train(), text(8))
    hooked = make()
    hooked.encoder.layers[1].ffn.register_forward_hook(lambda *_: None)
    read(hooked, text(8))
    assert not counted
    read(model, text(8))
    read(copy.deepcopy(model), text(8))
    assert counted == [8, 8]


def write(model):
    with torch.no_grad():
        model.encoder.layers[0].ffn.inner.weight.mul_(1.5)


def replace_data(model):
    model.encoder.layers[1].attention.output.weight.data = torch.ones(32, 32)


def replace_parameter(model):
    model.encoder.layers[1].ffn.outer.bias = nn.Parameter(torch.ones(32))


def replace_module(model):
    model.encoder.layers[0].ffn = copy.deepcopy(model.encoder.layers[1].ffn)


def load(model):
    model.load_state_dict({name: tensor * 0.5 for name, tensor in model.state_dict().items()})


def share(model):
    model.share_memory()


def cast_and_back(model):
    model.double().float()


def free(model):
    model.encoder.layers[0].ffn.inner.weight.untyped_storage().resize_(0)
    model.encoder.layers[0].ffn.inner.weight = nn.Parameter(torch.ones(48, 32))


@pytest.mark.parametrize(
    "change", [write, replace_data, replace_parameter, replace_module, load, share, cast_and_back, free]
)
def test_a_model_that_was_changed_answers_as_it_is_now(change, counted, monkeypatch):
    model = make()
    read(model, text(8))
    try:
        change(model)
    except RuntimeError:  # PyTorch refuses to free memory that is held
        assert change is free
    expected = of_modules(model, text(8), monkeypatch)[-1]
    torch.testing.assert_close(read(model, text(8)), expected, atol=1e-5, rtol=1e-5)
    assert counted == [8, 8]


def test_another_thread_may_forget_what_was_made(counted, monkeypatch):
    model = make()
    expected = read(model, text(8))

    def forgotten(picture):
        model._shortcut._taken = None
        return True

    monkeypatch.setattr(plain._Picture, "holds", forgotten)
    torch.testing.assert_close(read(model, text(8)), expected)
    assert counted == [8, 8]


def test_what_is_not_compiled_is_read_by_the_modules(counted):
    model = make(activation="silu")
    with torch.no_grad():
        last = model(text(8))
    torch.testing.assert_close(last, model(text(8)))
    assert counted == []


def test_it_is_made_when_it_pays(monkeypatch):
    monkeypatch.setattr(plain, "WORTH_TEXTS", 3)
    model = make()
    for _ in range(3):
        read(model, text(8))
    assert model._shortcut._taken is None
    read(model, text(8))
    assert model._shortcut._taken is not None
