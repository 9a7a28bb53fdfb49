"""The compiled step of a decoder against PyTorch's modules, and when it is taken."""

import pytest
import torch

from wenmai.decode.search import beam_search, greedy
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.models.transformer import Transformer, TransformerConfig
from wenmai.nn import plain, stack
from wenmai.nn.attention import watch_attention
from wenmai.nn.stack import Stack

SOURCES, TARGETS = 19, 23
KINDS = {
    "sinusoidal": {},
    "pre-norm": {"norm": "pre", "activation": "gelu", "decoder_layers": 1, "attention_bias": False},
    "learned": {"positions": "learned", "ffn_size": 80},
    "none": {"positions": "none", "num_heads": 1},
    "window": {"window": 1, "norm": "pre"},
}
CHOICES = [  # how beams branch after each step
    torch.arange(4).repeat_interleave(3),
    torch.tensor([2, 0, 0, 3, 4, 5, 8, 8, 8, 11, 10, 9]),
    torch.tensor([9, 10, 11, 3, 4, 5]),
    torch.tensor([5, 0, 1]),
    None,
    None,
]


def make(**settings):
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "ffn_size": 48, "max_length": 40}
    config = TransformerConfig(**(sizes | settings))
    model = Transformer(config, source_vocab_size=SOURCES, target_vocab_size=TARGETS, tied_sources=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and layer norms begin as zeros and ones
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


@pytest.fixture
def source():
    torch.manual_seed(2)
    return torch.randint(0, SOURCES, (4, 9)), torch.arange(9) < torch.tensor([9, 5, 7, 1])[:, None]


@pytest.fixture
def counted(monkeypatch):
    """Compiles for every model at once, and counts the steps taken so."""
    steps, step = [], Stack.step

    def noting(self, *arguments, **named):
        steps.append(len(arguments[0]))
        return step(self, *arguments, **named)

    monkeypatch.setattr(plain, "WORTH", 0)
    monkeypatch.setattr(Stack, "step", noting)
    return steps


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(stack, "WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def steps_of(model, source):
    """Every logit and cache of a search that branches, reorders and ends."""
    torch.manual_seed(3)
    state, found = model.begin(*source, max_length=len(CHOICES)), []
    for rows in CHOICES:
        found.append(model.step(torch.randint(0, TARGETS, (state.batch_size,)), state).logits)
        if rows is not None:
            state.select(rows)
    return found + [part for cache in state.caches for part in cache.own.filled()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "unpadded"])
def test_a_compiled_step_says_what_the_modules_say(kind, padded, source, counted, monkeypatch, threads):
    threads(1)
    ids, valid = source
    model, source = make(**KINDS[kind]), (ids, valid | (not padded))
    found = steps_of(model, source)
    assert counted == [4, 12, 12, 6, 3, 3]
    monkeypatch.setattr(plain, "FEW", 0)
    for one, other in zip(found, steps_of(model, source), strict=True):
        close(one, other)
    assert len(counted) == 6


def test_threads_change_nothing(source, counted, threads):
    model = make(num_heads=4, hidden_size=64)
    threads(1)
    found = steps_of(model, source)
    for number in (2, 3):
        threads(number)
        assert all(map(torch.equal, found, steps_of(model, source)))
    assert len(counted) == 18


def test_a_source_of_nothing_but_padding_is_attended_to_with_zeros(source, counted, monkeypatch):
    model = make()
    valid = source[1].clone()
    valid[2] = False
    found = steps_of(model, (source[0], valid))
    monkeypatch.setattr(plain, "FEW", 0)
    for one, other in zip(found, steps_of(model, (source[0], valid)), strict=True):
        close(one, other)


def test_searches_find_the_same(source, counted, monkeypatch):
    model = make()
    options = {"bos_id": 2, "eos_id": 3, "max_lengths": 12, "banned": (0, 1, 2), "prefix": [[4, 5], [6], [7], []]}

    def search():
        first = greedy(model, model.begin(*source, max_length=12), **options)
        found = beam_search(model, model.begin(*source, max_length=12), beam_size=3, n_best=3, **options)
        return [*first, *(hypothesis for hypotheses in found for hypothesis in hypotheses)]

    compiled = search()
    assert {4, 12} <= set(counted)
    monkeypatch.setattr(plain, "FEW", 0)
    for one, other in zip(compiled, search(), strict=True):
        assert one.tokens == other.tokens
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_a_model_in_earnest_use_is_compiled(source, counted, monkeypatch):
    model = make()
    monkeypatch.setattr(plain, "WORTH", 13)
    for taken in (0, 0, 0, 6):
        steps_of(model, source)
        assert len(counted) == taken


@pytest.mark.parametrize(
    "settings",
    [{"positions": "shaw"}, {"num_heads": 4}, {"ffn_size": 40}],
    ids=["relative positions", "small heads", "odd sizes"],
)
def test_what_cannot_be_compiled_is_not(settings, source, counted):
    steps_of(make(**settings), source)
    assert counted == []


def test_other_types_and_hooks_are_not_compiled(source, counted):
    steps_of(make().double(), source)
    model, seen = make(), []
    model.decoder.layers[0].ffn.register_forward_hook(lambda *_: seen.append(1))
    steps_of(model, source)
    assert counted == []
    assert seen


def test_gradients_autocast_and_watching_take_the_modules(source, counted):
    model, tokens = make(), torch.zeros(4, dtype=torch.int64)
    with torch.no_grad():
        state = model.begin(*source, max_length=4)
    assert model.step(tokens, state).logits.requires_grad
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model.step(tokens, state)
    with torch.no_grad(), watch_attention(model.decoder) as watched:
        model.step(tokens, state)
    assert watched
    assert counted == []
    with torch.no_grad():
        model.step(tokens, state)
    assert counted == [4]


@torch.no_grad()
def test_mistakes_are_told(source, counted):
    model = make()
    state = model.begin(*source, max_length=1)
    for token in (-1, TARGETS):
        with pytest.raises(IndexError, match=r"none of the 23"):
            model.step(torch.tensor([0, 1, token, 2]), model.begin(*source, max_length=1))
    model.step(torch.zeros(4, dtype=torch.int64), state)
    with pytest.raises(ValueError, match="holds at most 1 positions"):
        model.step(torch.zeros(4, dtype=torch.int64), state)


@pytest.mark.parametrize(
    "settings",
    [{}, {"norm": "post"}, {"tied": False, "activation": "relu", "epsilon": 0.1}, {"activation": "gelu"}],
    ids=["GPT-2", "GPT-1", "untied", "gelu"],
)
def test_a_compiled_step_of_gpt_says_what_the_modules_say(settings, counted, monkeypatch, threads):
    torch.manual_seed(1)
    config = GptConfig(hidden_size=32, num_layers=2, num_heads=2, ffn_size=48, max_length=30, **settings)
    model = Gpt(config, vocab_size=TARGETS, bos_id=0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)

    @torch.no_grad()
    def steps():
        torch.manual_seed(3)
        state = model.start(4)
        found = [model(torch.randint(0, TARGETS, (4, 7)), state)]  # a prompt goes through the modules
        for rows in CHOICES:
            found.append(model.step(torch.randint(0, TARGETS, (state.batch_size,)), state).logits)
            if rows is not None:
                state.select(rows)
        return found + list(state.tensors().values())

    for number in (1, 2):
        threads(number)
        found, before = steps(), len(counted)
        assert before == 6 * number
    monkeypatch.setattr(plain, "FEW", 0)
    for one, other in zip(found, steps(), strict=True):
        close(one, other)
    assert len(counted) == before


@pytest.mark.parametrize("settings", [{"window": 2}, {"activation": "silu"}], ids=["window", "silu"])
def test_a_gpt_that_the_kernel_does_not_know_is_not_compiled(settings, counted):
    config = GptConfig(hidden_size=32, num_layers=2, num_heads=2, ffn_size=48, max_length=30, **settings)
    model = Gpt(config, vocab_size=TARGETS, bos_id=0).eval()
    with torch.no_grad():
        model.step(torch.zeros(1, dtype=torch.int64), model.start(1))
    assert not counted
