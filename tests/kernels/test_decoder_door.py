"""An open generation of the compiled decoder, while its model is moved, replaced, resized, cast, written to or shared.

Either it goes on with the parameters of its beginning, or one clear error ends it.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from wenmai.models.gpt import Gpt, GptConfig
from wenmai.models.transformer import Transformer, TransformerConfig
from wenmai.nn import plain, stack
from wenmai.nn.stack import Block, Stack, SubLayer

SIZES = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "ffn_size": 48, "max_length": 24}
ROWS, STEPS, VOCAB = 2, 6, 19
CHANGED = r"parameters of the model were changed|expected contiguous|not fit|cannot share|holds at most"


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(plain, "WORTH", 0)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def gpt(seed=1):
    torch.manual_seed(seed)
    return Gpt(GptConfig(**SIZES), vocab_size=VOCAB, bos_id=0).eval()


def transformer(seed=1):
    torch.manual_seed(seed)
    config = TransformerConfig(**SIZES, positions="learned")
    return Transformer(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, tied_sources=False).eval()


@torch.no_grad()
def begun(model):
    if isinstance(model, Gpt):
        state = model.start(ROWS, capacity=STEPS + 1)
        model(torch.ones(ROWS, 1, dtype=torch.int64), state)
    else:
        source = torch.arange(8).view(2, 4)
        state = model.begin(source, source != 3, max_length=STEPS + 1)
    assert state.compiled is not None
    return state


@torch.no_grad()
def step(state, place):
    tokens = torch.tensor([place + 2, 2 * place + 1])
    return state.compiled(tokens, state)


def some_parameter(model, draw):
    """One of those that the decoder reads."""
    parameters = [one for name, one in model.named_parameters() if not name.startswith(("source", "encoder"))]
    return parameters[draw.integers(len(parameters))]


def cast(model, draw):
    model.to([torch.float16, torch.float64, torch.bfloat16][draw.integers(3)])


def move(model, draw):
    model.to("meta")


def put_other_numbers(model, draw):
    for parameter in model.parameters():
        parameter.data = torch.full((3,), torch.nan)


def put_other_parameters(model, draw):
    for module in model.modules():
        for name, _ in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.full((2, 2), torch.nan)))


def point_elsewhere(model, draw):
    some_parameter(model, draw).data.set_(torch.full((5,), torch.nan))


def other_values(model):
    return {name: torch.full_like(tensor, torch.nan) for name, tensor in model.state_dict().items()}


def assign(model, draw):
    model.load_state_dict(other_values(model), assign=True)


def load(model, draw):
    model.load_state_dict(other_values(model))


def write(model, draw):
    with torch.no_grad():
        some_parameter(model, draw).mul_(1.5)


def share(model, draw):
    some_parameter(model, draw).share_memory_()


def resize(model, draw):
    some_parameter(model, draw).data.resize_(100_000)


def free(model, draw):
    some_parameter(model, draw).untyped_storage().resize_(0)


def train(model, draw):
    model.train()


KEEPS_ON = [cast, move, put_other_numbers, put_other_parameters, point_elsewhere, assign, resize, free, train]
ENDS = [load, write, share]


def fill_free_memory():
    """What was freed has other numbers now, so that reading it shows."""
    return [torch.full((size,), torch.nan) for size in (16, 32, 48, 96, 608, 768, 1024, 1536, 3072) for _ in range(8)]


@pytest.mark.parametrize("make", [gpt, transformer])
def test_a_generation_goes_on_or_ends(make, monkeypatch):
    draw = np.random.default_rng(5)
    expected = [step(state, place) for state in [begun(make())] for place in range(STEPS)]
    for trial in range(40):
        torch.set_num_threads(1 if trial else 2)
        monkeypatch.setattr(stack, "WORTH_A_THREAD", 1 << 16 if trial else 1)
        model, done, ended = make(), [], False
        state = begun(model)
        for place in range(STEPS):
            for change in draw.permutation(KEEPS_ON + ENDS)[: draw.integers(2)]:
                with suppress(RuntimeError):  # PyTorch refuses some of them after others, or while memory is held
                    change(model, draw)
                done.append(change)
            kept = fill_free_memory()
            if ended := len(step_or_error(state, place, expected[place])) > 0:
                break
            del kept
        if set(done) <= set(KEEPS_ON) or done[:1] in [[end] for end in ENDS]:
            assert ended == bool(set(done[:1]) & set(ENDS)), done


def step_or_error(state, place, expected):
    """Takes a step; returns the error that ended the generation, or nothing."""
    try:
        found = step(state, place)
    except ValueError as error:
        return str(error)
    torch.testing.assert_close(found, expected)  # the threads differ, and on some processors the last bits
    return ""


def test_a_generation_outlives_its_model():
    model = gpt()
    expected = [step(state, place) for state in [begun(model)] for place in range(STEPS)]
    state = begun(model)
    del model
    kept = fill_free_memory()
    assert all(torch.equal(step(state, place), expected[place]) for place in range(STEPS))
    assert kept


@pytest.mark.parametrize("make", [gpt, transformer])
def test_threads_share_a_model_that_changes(make):
    """Six threads generate; another thread changes the model all the time."""
    model, draw = make(), np.random.default_rng(1)
    expected = [step(state, place) for state in [begun(model)] for place in range(STEPS)]
    states = [begun(model) for _ in range(12)]

    def generate(state):
        for place in range(STEPS):
            if error := step_or_error(state, place, expected[place]):
                return error
        return "whole"

    def change():
        for one in (resize, free, cast, point_elsewhere, put_other_numbers, assign, cast, put_other_parameters):
            with suppress(RuntimeError):
                one(model, draw)
            fill_free_memory()
        return "whole"

    with ThreadPoolExecutor(7) as pool:
        ends = [pool.submit(generate, state) for state in states[:6]]
        ends += [pool.submit(change)]
        ends += [pool.submit(generate, state) for state in states[6:]]
        assert {end.result() for end in ends} == {"whole"}


def test_threads_share_one_generation():
    """Whatever the order in which they come, each step is taken once, in memory of its own."""
    state, tokens = begun(gpt()), torch.tensor([3, 4])
    with torch.no_grad(), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: state.compiled(tokens, state), range(STEPS)))
    again = begun(gpt())
    with torch.no_grad():
        expected = [again.compiled(tokens, again) for _ in range(STEPS)]
    assert state.length == STEPS + 1
    assert {tuple(one.flatten().tolist()) for one in found} == {tuple(one.flatten().tolist()) for one in expected}


def breakages(state):
    """Ways to break a state."""
    own = [getattr(cache, "own", cache) for cache in state.caches]
    yield "cast", lambda: setattr(own[0], "buffer", own[0].buffer.half())
    yield "fewer positions", lambda: setattr(own[1], "buffer", own[1].buffer[:, :, :, :2].contiguous())
    yield "fewer rows", lambda: setattr(own[1], "buffer", own[1].buffer[:, :1].contiguous())
    yield "strides", lambda: setattr(own[0], "buffer", own[0].buffer.mT.contiguous().mT)
    yield "moved", lambda: setattr(own[0], "buffer", own[0].buffer.to("meta"))
    yield "another length", lambda: own[1].crop(0)
    yield "full", lambda: own[0].extend(own[0].capacity - own[0].length)
    if hasattr(state, "memory_mask"):
        memory = state.caches[1].memory
        yield "memory cast", lambda: setattr(memory, "buffer", memory.buffer.double())
        yield "memory cut", lambda: setattr(memory, "buffer", memory.buffer[:, :, :, :1].contiguous())
        yield "no memory", lambda: setattr(memory, "buffer", memory.buffer[:, :0])
        yield "mask cut", lambda: setattr(state, "memory_mask", state.memory_mask[:1])
        yield "mask cast", lambda: setattr(state, "memory_mask", state.memory_mask.float())


@pytest.mark.parametrize("make", [gpt, transformer])
def test_a_broken_state_is_refused(make):
    model = make()
    for number in range(len(list(breakages(begun(model))))):
        state = begun(model)
        step(state, 0)
        name, spoil = list(breakages(state))[number]
        lengths = [getattr(cache, "own", cache).length for cache in state.caches]
        spoil()
        with pytest.raises(ValueError, match=CHANGED):
            step(state, 1)
        if name not in ("another length", "full"):
            assert [getattr(cache, "own", cache).length for cache in state.caches] == lengths, name


def test_another_default_type_changes_nothing():
    model = gpt()
    expected = step(begun(model), 0)
    state = begun(model)
    torch.set_default_dtype(torch.float16)
    try:
        assert torch.equal(step(state, 0), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def parts():
    def part(first, second):
        return SubLayer(torch.ones(first, 16), None, torch.ones(16, second), None, torch.ones(16), torch.ones(16))

    return part(48, 16), None, part(32, 32)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda attention, ffn: (attention._replace(norm_bias=None), ffn),
        lambda attention, ffn: (attention, ffn._replace(second_weight=torch.ones(16, 16))),
        lambda attention, ffn: (attention._replace(first_weight=torch.ones(48, 16).half()), ffn),
        lambda attention, ffn: (attention, ffn._replace(first_bias=torch.ones(31))),
        lambda attention, ffn: (attention, ffn._replace(first_weight=torch.ones(16, 32).T)),
    ],
    ids=["no bias of a norm", "size", "type", "bias", "strides"],
)
def test_parameters_that_do_not_fit_are_refused(spoil):
    attention, memory, ffn = parts()
    options = {"num_heads": 1, "scale": 1.0, "pre_norm": True, "activation": "relu", "epsilon": 1e-5}
    table = torch.ones(7, 16)
    Stack([Block(attention, memory, ffn)], embedding=table, output=table, **options)
    spoiled, other = spoil(attention, ffn)
    with pytest.raises(ValueError, match=r"expected contiguous|no multiples|layer norm has no"):
        Stack([Block(spoiled, memory, other)], embedding=table, output=table, **options)
    with pytest.raises(ValueError, match="expected contiguous"):
        Stack([Block(attention, memory, ffn)], embedding=torch.ones(6, 16), output=table, **options)


def test_a_model_without_memory_behind_its_parameters_takes_the_modules():
    model = gpt()
    model.decoder.layers[1].ffn.inner.weight.untyped_storage().resize_(0)
    assert model.start(1).compiled is None
