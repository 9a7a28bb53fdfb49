"""SSAN's network against its equations, and what its settings refuse."""

import math
from types import SimpleNamespace

import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.models.bert import Bert
from wenmai.models.settings import BertConfig
from wenmai.models.ssan import Ssan, SsanConfig
from wenmai.nn.attention import watch_attention
from wenmai.nn.structure_bias import dependencies

V, C, TYPES, M, H, LENGTH = 13, 5, 3, 8, 2, 12
SIZES = {"entity_size": 6, "distance_size": 4, "most_entities": 2, "head_dropout": 0.0}


def encoder(seed=0, **settings):
    torch.manual_seed(seed)
    given = {"hidden_size": M, "num_layers": 2, "num_heads": H, "max_length": LENGTH, "dropout": 0.0}
    return Bert(BertConfig(**given | settings), vocab_size=V)


def network(structure="biaffine", *, zeros=False, seed=0, **settings):
    """A network in float64, with parameters of the structure that say something unless there are to be zeros."""
    config = SsanConfig(structure=structure, **{**SIZES, **settings})
    model = Ssan(config, encoder(seed), labels=C, types=TYPES).double().eval()
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        if not zeros and not parameter.any():
            torch.nn.init.normal_(parameter.data)
        elif name.startswith("encoder") and parameter.dim() > 1:
            parameter.data.mul_(15)  # as large as trained ones, so that attention matters
    return model


def documents(**changed):
    """A document of two windows, and one of a single window with padding; three entities and two."""
    given = {
        "tokens": [[1, 5, 6, 7, 8, 9, 2], [1, 9, 10, 11, 2, 0, 0], [1, 5, 7, 5, 2, 0, 0]],
        "real": [[True] * 7, [True] * 5 + [False] * 2, [True] * 5 + [False] * 2],
        "sentences": [[-1, 0, 0, 0, 1, 1, -1], [-1, 1, 2, 2, -1, -1, -1], [-1, 0, 0, 1, -1, -1, -1]],
        "entities": [[-1, 0, 0, -1, 1, -1, -1], [-1, 1, -1, 2, -1, -1, -1], [-1, 0, -1, 1, -1, -1, -1]],
        "types": [[-1, 1, 1, -1, 0, -1, -1], [-1, 0, -1, 2, -1, -1, -1], [-1, 1, -1, -1, -1, -1, -1]],
        "members": [[0, 0, 1], [0, 0, 2], [1, 0, 4], [1, 1, 1], [2, 1, 3], [3, 2, 1], [4, 2, 3]],
        "pairs": [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1], [3, 4], [4, 3]],
        "distances": [3, 300, -3, 40, -300, -40, 2, -2],
    }
    tensors = {name: torch.tensor(value) for name, value in {**given, **changed}.items()}
    return SimpleNamespace(**tensors, size=5, sizes=[6, 2])


def bucket(distance):
    """0, 1, 2 to 3, 4 to 7, and so on, 256 and more; signed."""
    size = 0 if distance == 0 else min(9, 1 + math.floor(math.log2(abs(distance))))
    return int(math.copysign(size, distance))


def naive_logits(model, states, given):
    """Eq. 6 for each pair and class, of states (R, T, M)."""
    vectors = []
    for entity in range(given.size):
        places = [(row, place) for one, row, place in given.members.tolist() if one == entity]
        rows = [torch.relu(model.entity.weight @ states[r, p] + model.entity.bias) for r, p in places]
        vectors.append(sum(rows) / len(rows))
    found = []
    for (head, tail), distance in zip(given.pairs.tolist(), given.distances.tolist(), strict=True):
        h, t = vectors[head], vectors[tail]
        if model.distance_vectors is not None:
            h = torch.cat((h, model.distance_vectors[10 + bucket(distance)]))
            t = torch.cat((t, model.distance_vectors[10 - bucket(distance)]))
        found.append(torch.stack([h @ model.relation[c] @ t + model.relation_bias[c] for c in range(C)]))
    return torch.stack(found)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("structure", ["none", "decomposed", "biaffine"])
def test_logits_of_each_pair(structure, features):
    sizes = {} if features else {"most_entities": 42, "distance_size": 20}
    model, given = network(structure, features=features, **sizes), documents()
    with torch.no_grad():
        logits = model(given)
        assert torch.allclose(logits, naive_logits(model, model.states(given), given), atol=1e-10)
    assert logits.shape == (8, C)


@pytest.mark.parametrize("at_once", [2, 512])
def test_pairs_of_few_heads_and_tails_are_counted_one_by_one(monkeypatch, at_once):
    """What is asked for need not be all heads with all tails."""
    monkeypatch.setattr("wenmai.models.ssan._SPARSE", 0)
    monkeypatch.setattr("wenmai.models.ssan._AT_ONCE", at_once)
    model, given = network("biaffine"), documents()
    with torch.no_grad():
        assert torch.allclose(model(given), naive_logits(model, model.states(given), given), atol=1e-10)


def test_distances_in_buckets():
    places = [*range(-9, 10), 255, 256, 257, 511, 512, 5000, -255, -256, -1 << 40]
    pairs = torch.tensor([[0, 1]] * len(places))
    model = network()
    model.relation.data.zero_()
    model.relation.data[:, -1, -1] = 1.0
    model.distance_vectors.data[:, -1] = torch.arange(20.0)
    found = model.logits(torch.zeros(2, 6).double(), pairs, torch.tensor(places))[:, 0] - model.relation_bias[0]
    assert found.tolist() == pytest.approx([(10 + bucket(one)) * (10 - bucket(one)) for one in places])


def in_order(model, given):
    """The encoder's states, the tokens being in their own order and each pair of them having a bias or not."""
    added = torch.zeros(*given.tokens.shape, M, dtype=torch.float64)
    if model.type_vectors is not None:
        for row, place in (given.entities >= 0).nonzero().tolist():
            kind, number = int(given.types[row, place]), int(given.entities[row, place])
            added[row, place] += model.type_vectors[kind] if kind >= 0 else 0
            added[row, place] += model.number_vectors[number] if number < len(model.number_vectors) else 0
    structure = {"dependencies": dependencies(given.sentences, given.entities)}
    embedded = model.encoder.embed(given.tokens, features=added)
    return model.encoder.encoder(embedded, mask=given.real[:, None, None], structure=structure)


@pytest.mark.parametrize("structure", ["none", "decomposed", "biaffine"])
def test_states_are_those_of_tokens_in_order(structure):
    nowhere = [[-1] * 7] * 3
    for given in (documents(), documents(real=[[True] * 7] * 3), documents(entities=nowhere, types=nowhere)):
        model = network(structure)
        with torch.no_grad():
            found, expected = model.states(given), in_order(model, given)
            for layer in model.encoder.encoder.layers:
                layer.attention.relative = None
            without = model.states(given)
        assert torch.allclose(found[given.real], expected[given.real], atol=1e-10)
        mentioned = (given.entities >= 0).any(1) & (structure != "none")
        changed = ((found - without).abs() * given.real[..., None]).amax((1, 2))
        assert (changed > 1e-4).tolist() == mentioned.tolist()


@pytest.mark.parametrize("structure", ["decomposed", "biaffine"])
def test_at_first_the_encoder_says_what_it_did(structure):
    model, plain, given = network(structure, zeros=True), encoder().double().eval(), documents()
    plain.load_state_dict({name: one for name, one in model.encoder.state_dict().items() if "relative" not in name})
    with torch.no_grad():
        before = plain(given.tokens, mask=given.real[:, None, None])
        assert torch.allclose(model.states(given)[given.real], before[given.real], atol=1e-12)


def test_relative_positions_without_structure():
    given, before = documents(), encoder(positions="relative", norm="nested").double().eval()
    model = Ssan(SsanConfig(structure="none", **SIZES), before, labels=C, types=TYPES).double().eval()
    with torch.no_grad():
        expected = before(given.tokens, mask=given.real[:, None, None])
        assert torch.allclose(model.states(given)[given.real], expected[given.real], atol=1e-12)
    model.train()(given).square().sum().backward()
    still = {name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()}
    assert all(name.startswith("encoder.heads.") for name in still)


@pytest.mark.parametrize("structure", ["decomposed", "biaffine"])
def test_everything_learns(structure):
    model, given = network(structure, zeros=True), documents()
    model.train()
    model(given).square().sum().backward()
    still = {name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()}
    assert all(name.startswith("encoder.heads.") for name in still)
    relative = [name for name, _ in model.named_parameters() if ".relative." in name]
    assert len(relative) == 2 * (2 if structure == "biaffine" else 3)


def test_chosen_layers_alone():
    model = network(structured=(2,), zeros=True)
    assert {name.split(".")[3] for name, _ in model.named_parameters() if ".relative." in name} == {"1"}
    assert not [name for name, _ in network("none").named_parameters() if ".relative." in name]
    base = Ssan(SsanConfig(), encoder(), labels=C, types=TYPES)
    plain = Ssan(SsanConfig(structure="none"), encoder(), labels=C, types=TYPES)
    sizes = [sum(one.numel() for one in model.parameters()) for model in (base, plain)]
    assert sizes[0] - sizes[1] == 2 * 5 * H * ((M // H) ** 2 + 1)
    assert plain.relation.shape == (C, 148, 148)


def test_watching_changes_nothing():
    model, given = network(), documents()
    with torch.no_grad():
        plain = model(given)
        with watch_attention(model) as watched:
            assert torch.allclose(model(given), plain, atol=1e-10)
    assert [one.shape for seen in watched.values() for one in seen] == [(3, H, 7, 7)] * 2


def test_numbers_of_entities_and_of_documents_do_not_matter():
    model, given = network(features=False, most_entities=42, distance_size=20), documents()
    swapped = torch.tensor([1, 0, 2, -1])[given.entities]
    members = given.members.clone()
    members[:, 0] = torch.tensor([1, 0, 2, 4, 3])[members[:, 0]]
    pairs = torch.tensor([1, 0, 2, 4, 3])[given.pairs]
    other = documents(entities=swapped.tolist(), members=members.tolist(), pairs=pairs.tolist())
    with torch.no_grad():
        assert torch.allclose(model(other), model(given), atol=1e-12)


def test_an_entity_without_a_token_is_a_vector_of_zeros():
    model, given = network(), documents(members=[[0, 0, 1], [1, 0, 4], [2, 1, 3], [3, 2, 1]])
    with torch.no_grad():
        sums, counts = model.sums(model.states(given), given.members, given.size)
        assert counts.tolist() == [1, 1, 1, 1, 0]
        assert not sums[4].any()
        assert model(given).isfinite().all()


def test_dropout_of_entities_only_while_training():
    model, given = network(head_dropout=0.5), documents()
    with torch.no_grad():
        assert torch.equal(model(given), model(given))
        model.train()
        assert not torch.equal(model(given), model(given))


def test_encoders_that_will_not_do():
    relative = encoder(positions="relative", norm="nested")
    with pytest.raises(SettingError, match="structure=biaffine needs an encoder with a vector for each position"):
        Ssan(SsanConfig(), relative, labels=C, types=TYPES)
    with pytest.raises(SettingError, match="needs a BERT"):
        Ssan(SsanConfig(), torch.nn.Linear(2, 2), labels=C, types=TYPES)
    with pytest.raises(SettingError, match="structured=3: the encoder has 2 layers"):
        Ssan(SsanConfig(structured=(1, 3)), encoder(), labels=C, types=TYPES)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"structured": (0,)}, "structured=0: expected different numbers"),
        ({"structured": (2, 1, 2)}, "structured=2,1,2: expected different numbers"),
        ({"structure": "none", "structured": (1,)}, "has no effect with structure=none"),
        ({"features": False, "most_entities": 3}, "has no effect with features=false"),
    ],
)
def test_settings_that_say_nothing(settings, why):
    with pytest.raises(SettingError, match=why):
        SsanConfig(**settings)


def test_means_of_many_tokens_with_few_bits():
    """Sums go on beyond 256 where numbers are bfloat16, which cannot tell 256 from 257."""
    model = network().float()
    model.entity.weight.data.zero_()
    model.entity.bias.data.fill_(1.0)
    members = torch.tensor([[0, 0, place] for place in range(1001)])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        sums, counts = model.sums(torch.randn(1, 1001, M), members, 1)
    assert counts.tolist() == [1001]
    assert (sums / counts[:, None]).flatten().tolist() == [1.0] * 6


@pytest.mark.parametrize("structure", ["none", "decomposed", "biaffine"])
def test_fewer_bits_say_nearly_the_same(structure):
    model, given = network(structure).float(), documents()
    with torch.no_grad():
        expected = model(given)
        with torch.autocast("cpu", torch.bfloat16):
            found = model(given).float()
    assert (found - expected).abs().max() < 0.1 * expected.abs().max()
