"""One contract for every contextual encoder that is registered: what must hold for each form of its example."""

import pytest
import torch

from wenmai.core.registry import find_system
from wenmai.nn.encoder import TextEncoder, apart
from wenmai.training.tensors import load_model, save_model

FAMILY = TextEncoder  # of which a test gets each entry, the name of a system and that of a form
V, B, T = 23, 3, 10


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """For models this small, threads that wait for each other are slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make(entry, examples):
    """Makes a model of the entry, in float64."""
    system, form = entry
    architecture, example = find_system(system).load_model(), examples[system]

    def made(seed=1, **changes):
        sizes = example.sizes(architecture.config_class)
        torch.manual_seed(seed)
        config = architecture.config_class(**sizes | example.forms[form] | changes)
        return architecture(config, vocab_size=V).double().eval()

    return made


@pytest.fixture
def model(make):
    return make()


@pytest.fixture
def tokens():
    return torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(5))


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_every_state_depends_on_every_token(model, tokens):
    hidden = model(tokens)
    assert hidden.shape == (B, T, model.config.hidden_size)
    for place in range(T):
        changed = tokens.clone()
        changed[:, place] = (tokens[:, place] + 1) % V
        assert not torch.isclose(model(changed), hidden).all(-1).any()


def test_padding_changes_nothing(model, tokens):
    real = torch.ones(B, T, dtype=torch.bool)
    real[0, 7:] = real[2, 4:] = False
    hidden = model(tokens, mask=real[:, None, None])
    for row in range(B):
        length = int(real[row].sum())
        close(hidden[row, :length], model(tokens[row : row + 1, :length])[0])


def test_pieces_in_one_row_are_as_alone(model, tokens):
    pieces = torch.tensor([0] * 4 + [1] * 5 + [2])
    positions = torch.tensor([*range(4), *range(5), 0])
    hidden = model(tokens, mask=apart(pieces.expand(B, T)), positions=positions.expand(B, T))
    for first, last in ((0, 4), (4, 9), (9, 10)):
        close(hidden[:, first:last], model(tokens[:, first:last]))


def test_some_positions_have_the_states_that_they_have_among_all(model, tokens):
    places = torch.tensor([[0, 3, 9], [1, 1, 2], [5, 4, 0]])
    real = torch.ones(B, T, dtype=torch.bool)
    real[1, 5:] = False
    pieces = torch.tensor([0] * 4 + [1] * 6).expand(B, T)
    for mask in (None, real[:, None, None], apart(pieces)):
        hidden = model(tokens, mask=mask)
        close(model(tokens, mask=mask, places=places), torch.stack([hidden[row, places[row]] for row in range(B)]))


def test_the_states_of_all_layers_end_with_those_of_the_model(model, tokens):
    segments = (torch.arange(T) > 4).long().expand(B, T) if model.segments is not None else None
    states = model.hidden_states(tokens, segments=segments)
    assert len(states) == 1 + model.config.num_layers
    close(states[-1], model(tokens, segments=segments))
    if segments is not None:
        assert not torch.isclose(states[-1], model(tokens)).all(-1).any()


def test_a_text_that_is_too_long_is_refused(model):
    with pytest.raises(ValueError, match="max_length"):
        model(torch.zeros(1, model.max_length + 1, dtype=torch.int64))


def test_heads_predict_what_their_shapes_say(model, tokens):
    hidden = model(tokens)
    sizes = {"mlm": V, "replaced": 1, "pair": 2, "classification": len(model.config.labels)}
    for name, head in model.heads.items():
        taken = model.pooled(hidden) if name in ("pair", "classification") else hidden
        assert head(taken).shape == (*taken.shape[:-1], sizes[name])


def test_a_tied_table_learns_from_both_ends(make, tokens):
    if "mlm" not in make().heads:
        pytest.skip("predicts no tokens")
    model = make()
    logits = model.heads["mlm"](model(tokens[:, :3]))
    logits[..., V - 1].sum().backward()
    outside = [token for token in range(V - 1) if token not in tokens[:, :3]]
    table = model.embedding.weight.grad
    assert (table[V - 1].abs().sum() > 0) == (model.config.tied or V - 1 in tokens[:, :3])
    assert table[outside].abs().sum() == 0


def test_a_model_is_stored_whole(make, tokens, tmp_path):
    model, other = make().float(), make(seed=2).float()
    save_model(model, tmp_path)
    load_model(other, tmp_path)
    assert torch.equal(model(tokens), other(tokens))
