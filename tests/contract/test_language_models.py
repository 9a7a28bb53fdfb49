"""One contract for every neural language model that is registered: what must hold for each form of its example."""

import math
from itertools import pairwise

import pytest
import torch

from wenmai.core.registry import find_system
from wenmai.decode.search import beam_search, greedy
from wenmai.nn.language import NextToken
from wenmai.objectives.language import next_token_loss
from wenmai.training.tensors import load_model, save_model

FAMILY = NextToken  # of which a test gets each entry, the name of a system and that of a form
V, BOS, B, T = 23, 2, 3, 12


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """For models this small, threads that wait for each other are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make(entry, examples):
    """Makes a model of the entry."""
    system, form = entry
    architecture, example = find_system(system).load_model(), examples[system]

    def made(seed=1, **changes):
        sizes = example.sizes(architecture.config_class)
        settings = {name: value for name, value in sizes.items() if not name.endswith("dropout")}  # as by default
        torch.manual_seed(seed)
        config = architecture.config_class(**settings | example.forms[form] | changes)
        return architecture(config, vocab_size=V, bos_id=BOS)

    return made


@pytest.fixture
def still(make):
    """A model in training whose dropout drops nothing."""
    fields = make().config.__dataclass_fields__
    return make(**{name: 0.0 for name in fields if name.endswith("dropout")}).train()


@pytest.fixture
def model(make):
    return make().eval()


@pytest.fixture
def tokens():
    return torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(5))


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def log_probs(model, hidden):
    return model.output.log_probs(hidden.flatten(0, 1)).view(*hidden.shape[:2], V)


def test_shapes(model, tokens):
    hidden = model(tokens)
    assert hidden.shape[:2] == (B, T)
    probabilities = log_probs(model, hidden)
    assert probabilities.dtype == torch.float32
    close(probabilities.exp().sum(-1), torch.ones(B, T))
    assert model.output.vocab_size == model.vocab_size == V
    state = model.start(B)
    assert state.batch_size == B
    assert model.step(tokens[:, 0], state).logits.shape == (B, V)


def test_a_later_token_changes_no_earlier_state(model, tokens):
    changed = tokens.clone()
    changed[:, 7:] = (tokens[:, 7:] + 1) % V
    hidden, other = model(tokens), model(changed)
    assert torch.equal(hidden[:, :7], other[:, :7])
    assert not torch.isclose(hidden[:, 7:], other[:, 7:]).all(-1).any()


def test_steps_say_what_one_pass_says(model, tokens):
    with torch.no_grad():
        expected = log_probs(model, model(tokens))
        state = model.start(B, capacity=T)
        for place in range(T):
            close(model.step(tokens[:, place], state).logits.log_softmax(-1), expected[:, place])


@pytest.mark.parametrize("cuts", [(5, 7), (1, 4, 4, 3), (11, 1)])
def test_pieces_say_what_one_pass_says(model, tokens, cuts):
    with torch.no_grad():
        state = model.start(B)
        found = [model(piece, state) for piece in tokens.split(cuts, 1)]
        close(torch.cat(found, 1), model(tokens))


def test_segments_in_training_say_what_one_pass_says_where_the_state_is_carried(still, tokens):
    model = still
    if not model.stateful:
        pytest.skip("trains on segments that stand alone")
    state = model.start(B)
    found = [model(piece, state) for piece in tokens.split(4, 1)]
    close(torch.cat(found, 1), model(tokens))


def test_no_gradient_flows_into_what_came_before_a_segment(still, tokens):
    model = still
    if not model.stateful:
        pytest.skip("trains on segments that stand alone")
    state = model.start(B)
    first = model(tokens[:, :6], state)
    next_token_loss(model.output, first.flatten(0, 1), tokens[:, :6].flatten()).total.backward()
    second = model(tokens[:, 6:], state)
    next_token_loss(model.output, second.flatten(0, 1), tokens[:, 6:].flatten()).total.backward()  # nothing freed


def test_a_state_can_branch(model, tokens):
    """Rows repeated, reordered and left out go on as their own."""
    with torch.no_grad():
        state = model.start(B)
        model(tokens[:, :5], state)
        rows = torch.tensor([2, 0, 0, 1, 2])
        state.select(rows)
        assert state.batch_size == 5
        history = torch.cat((tokens[rows, :5], torch.arange(10).view(5, 2)), 1)
        for place in (5, 6):
            found = model.step(history[:, place], state).logits.log_softmax(-1)
            close(found, log_probs(model, model(history[:, : place + 1]))[:, -1])
        state.select(torch.tensor([4]))
        found = model.step(tokens[:1, 0], state).logits.log_softmax(-1)
        close(found, log_probs(model, model(torch.cat((history[4:], tokens[:1, :1]), 1)))[:, -1])


@pytest.mark.parametrize("training", [False, True])
def test_a_state_that_was_kept_goes_on_as_if_it_had_not_been(still, tokens, training):
    model = still.train(training)
    with torch.set_grad_enabled(training and model.stateful):
        state = model.start(B)
        model(tokens[:, :5], state)
        kept = {name: tensor.detach().clone() for name, tensor in state.tensors().items()}
        again = model.start(B + 1)
        again.load(kept)
        assert again.batch_size == B
        assert all(torch.equal(tensor, kept[name]) for name, tensor in again.tensors().items())
        assert torch.equal(model(tokens[:, 5:], again), model(tokens[:, 5:], state))
        after, other = again.tensors(), state.tensors()
        assert after.keys() == other.keys()
        assert all(torch.equal(after[name], other[name]) for name in after)


def test_a_foreign_state_is_refused(model):
    state = model.start(B)
    for tensors in ({}, {"other": torch.zeros(1)}):
        with pytest.raises(ValueError, match="was expected"):
            state.load(tensors)


def test_documents_are_kept_apart_or_refused(model, tokens):
    documents = torch.tensor([[1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2], [3] * 12, [4] + [5] * 10 + [6]])
    if not model.masks_documents:
        with pytest.raises(ValueError, match="cannot keep the documents"):
            model(tokens, documents=documents)
        return
    found = model(tokens, documents=documents)
    for row in range(B):
        for number in documents[row].unique():
            own = documents[row] == number
            close(found[row, own], model(tokens[row, own][None])[0])


def test_evaluation_is_deterministic_and_a_seed_decides_training(model, make, tokens):
    assert torch.equal(model(tokens), model(tokens))

    def run(seed):
        module = make(seed).train()
        return module.state_dict(), module(tokens)

    (first, states), (second, again), (other, _) = run(1), run(1), run(2)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert torch.equal(states, again)
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())


def test_every_parameter_gets_a_gradient(make, tokens):
    model = make().train()
    loss = next_token_loss(model.output, model(tokens).flatten(0, 1), tokens.flatten())
    loss.total.backward()
    assert loss.targets == B * T
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_the_loss_is_that_of_the_probabilities(model, tokens):
    hidden, targets = model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    expected = model.output.log_probs(hidden).gather(1, targets[:, None])[:, 0]
    loss = next_token_loss(model.output, hidden, targets)
    close(loss.total.detach().float(), -expected.sum())
    close(loss.nll.float(), -expected.sum())
    close(model.output.target_log_probs(hidden, targets), expected)
    assert not loss.nll.requires_grad


def test_it_begins_without_an_opinion(model, tokens):
    """-log P of any token is near ln V, or what a softmax of softmaxes gives."""
    found = -log_probs(model, model(tokens)).mean((0, 1))
    expected = torch.full((V,), math.log(V))
    if cutoffs := getattr(model.config, "cutoffs", ()):
        edges = [0, *cutoffs, V]
        expected[:] = math.log(edges[1] + len(cutoffs))
        for low, high in pairwise(edges[1:]):
            expected[low:high] += math.log(high - low)
    torch.testing.assert_close(found.mean(), expected.mean(), atol=0.05, rtol=0)


def test_a_text_is_learned_by_heart(entry, still, tokens):
    model = still
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    inputs = torch.cat((torch.full((B, 1), BOS), tokens[:, :-1]), 1)
    inputs[:, 0] = torch.arange(B)  # so that the first token can be known
    for _ in range(200):
        optimiser.zero_grad(set_to_none=True)
        loss = next_token_loss(model.output, model(inputs).flatten(0, 1), tokens.flatten())
        loss.total.backward()
        optimiser.step()
        if loss.nll < 0.3 * loss.targets:
            return
    assert entry[1] == "bigrams"  # which see too little for that
    assert loss.nll < 1.5 * loss.targets


def test_a_saved_model_is_the_same_model(make, tokens, tmp_path):
    before, after = make().eval(), make(2).eval()
    save_model(before, tmp_path)
    load_model(after, tmp_path)
    assert torch.equal(before(tokens), after(tokens))
    assert len(before.state_dict()) == len(list(before.named_parameters()))


def test_a_beam_of_one_is_greedy(model):
    options = {"bos_id": BOS, "eos_id": 0, "max_lengths": 8}
    with torch.no_grad():
        first = greedy(model, model.start(2, capacity=T), **options)
        second = beam_search(model, model.start(2, capacity=T), beam_size=1, **options)
    assert [one.tokens for one in first] == [one.tokens for (one,) in second]
    assert [one.log_prob for one in first] == pytest.approx([one.log_prob for (one,) in second])


def test_half_precision_is_close(model, tokens):
    expected = log_probs(model, model(tokens))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        state = model.start(B)
        found = torch.cat([log_probs(model, model(piece, state)) for piece in tokens.split((7, 1, 4), 1)], 1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0.05)


def test_a_begin_token_outside_of_the_vocabulary_is_refused(entry, examples):
    architecture = find_system(entry[0]).load_model()
    with pytest.raises(ValueError, match="bos_id=9 is not one of 5 tokens"):
        architecture(architecture.config_class(), vocab_size=5, bos_id=9)
