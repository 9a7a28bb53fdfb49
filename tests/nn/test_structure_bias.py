"""SSAN's structure bias: dependencies, both transformations, and what the rest of attention makes of them."""

import itertools
import math

import pytest
import torch
from torch.autograd import gradcheck

from wenmai.models.bert import Bert
from wenmai.models.settings import BertConfig
from wenmai.nn.attention import watch_attention
from wenmai.nn.masks import causal, window
from wenmai.nn.multihead import MultiHead
from wenmai.nn.structure_bias import DEPENDENCIES, Biaffine, Decomposed, dependencies

B, T, SIZE, H = 2, 9, 8, 2
D = SIZE // H
NONE = len(DEPENDENCIES)
NUMBERS = {name: number for number, name in enumerate(DEPENDENCIES)}
KINDS = pytest.mark.parametrize("kind", [Biaffine, Decomposed])


def dependency(sentences, entities, i, j):
    """The table of Xu et al. 2021, section 3.1, for one pair of tokens."""
    if sentences[i] < 0 or sentences[j] < 0 or entities[i] < 0:
        return NONE
    same = sentences[i] == sentences[j]
    if entities[j] < 0:
        return NUMBERS["intraNE"] if same else NONE
    kin = "coref" if entities[i] == entities[j] else "relate"
    return NUMBERS[f"{'intra' if same else 'inter'}+{kin}"]


def drawn_structure(seed, length=T):
    """Sentences in order with special tokens at both ends, and entities anywhere, also on special tokens."""
    draw = torch.Generator().manual_seed(seed)
    sentences = torch.randint(0, 3, (B, length), generator=draw).sort(1).values
    sentences[:, 0] = sentences[:, -1] = -1
    return sentences, torch.randint(-1, 3, (B, length), generator=draw)


@pytest.mark.parametrize("rows", [None, 1, 4, T])
def test_dependencies_of_all_pairs(rows):
    for seed in range(20):
        sentences, entities = drawn_structure(seed)
        found = dependencies(sentences, entities, rows)
        assert found.dtype is torch.int8
        assert found.shape == (B, rows or T, T)
        for b, i, j in itertools.product(range(B), range(rows or T), range(T)):
            assert int(found[b, i, j]) == dependency(sentences[b].tolist(), entities[b].tolist(), i, j)


def test_dependencies_by_hand():
    sentences = torch.tensor([[-1, 0, 0, 0, 0, 1, 1, 1, -1]])
    entities = torch.tensor([[-1, 0, -1, 1, -1, 0, -1, 2, -1]])  # A . B . A . C
    signs = {"intra+coref": "C", "intra+relate": "R", "intraNE": "N", "inter+coref": "c", "inter+relate": "r"}
    shown = [
        "".join([*(signs[name] for name in DEPENDENCIES), "."][number] for number in row)
        for row in dependencies(sentences, entities)[0].tolist()
    ]
    assert {place: row for place, row in enumerate(shown) if row.strip(".")} == {
        1: ".CNRNc.r.",
        3: ".RNCNr.r.",
        5: ".c.r.CNR.",
        7: ".r.r.RNC.",
    }


def test_names_of_entities_do_not_matter():
    sentences, entities = drawn_structure(1)
    other = torch.tensor([1, 0, 2, -1])[entities]  # -1 is the last
    assert torch.equal(dependencies(sentences, entities), dependencies(sentences, other))


def drawn(kind, seed=0):
    """A bias with parameters that say something, in float64."""
    torch.manual_seed(seed)
    bias = kind(H, D).double()
    for parameter in bias.parameters():
        torch.nn.init.normal_(parameter)
    return bias


@torch.no_grad()
def term(bias, h, q, k, s):
    """T_s(q, k) of Xu et al. 2021, eq. 4 and 5, element by element."""
    total = float(bias.prior[s, h])
    if isinstance(bias, Biaffine):
        return total + sum(float(q[a] * bias.matrix[s, h, a, b] * k[b]) for a in range(D) for b in range(D))
    return total + sum(float(q[a] * bias.of_query[s, h, a] + bias.of_key[s, h, a] * k[a]) for a in range(D))


def entities_first(sentences, entities):
    """Both with tokens of entities first, and how many rows have a bias at most."""
    order = (entities < 0).to(torch.int8).argsort(dim=1, stable=True)
    return sentences.gather(1, order), entities.gather(1, order), int((entities >= 0).sum(1).max())


@KINDS
@pytest.mark.parametrize("whole", [False, True], ids=["block", "all rows"])
def test_bias_of_each_pair(kind, whole):
    bias = drawn(kind)
    for seed in range(4):
        sentences, entities, rows = entities_first(*drawn_structure(seed))
        rows = T if whole else rows
        torch.manual_seed(seed)
        query, key = (torch.randn(B, H, T, D, dtype=torch.float64) for _ in "qk")
        slots = bias(query, key, {"dependencies": dependencies(sentences, entities, rows)})
        assert slots.query is query
        assert slots.bias.shape == (B, H, rows, T)
        for b, h, i, j in itertools.product(range(B), range(H), range(rows), range(T)):
            s = dependency(sentences[b].tolist(), entities[b].tolist(), i, j)
            expected = 0.0 if s == NONE else term(bias, h, query[b, h, i], key[b, h, j], s) / math.sqrt(D)
            assert float(slots.bias[b, h, i, j].detach()) == pytest.approx(expected, abs=1e-12)


def test_worked_values():
    sentences, entities, rows = entities_first(*drawn_structure(3))
    found = dependencies(sentences, entities, rows)
    query, key = (torch.randn(B, H, T, D, dtype=torch.float64) for _ in "qk")
    product = (query @ key.mT / math.sqrt(D))[:, :, :rows]
    here = (found < NONE)[:, None].expand_as(product)
    bias = Biaffine(H, D).double()
    torch.nn.init.eye_(bias.matrix.data.view(-1, D, D)[0])
    bias.matrix.data.copy_(torch.eye(D, dtype=torch.float64))
    doubled = product + bias(query, key, {"dependencies": found}).bias  # A_s = I doubles the product
    assert torch.allclose(doubled[here], 2 * product[here])
    assert torch.equal(doubled[~here], product[~here])
    bias = Decomposed(H, D).double()
    bias.prior.data.fill_(3.0)  # K_s = Q_s = 0 leaves b_s/√D
    added = bias(query, key, {"dependencies": found}).bias
    assert torch.allclose(added[here], torch.tensor(3.0 / math.sqrt(D), dtype=torch.float64))
    assert not added[~here].any()


@pytest.mark.parametrize(
    ("kind", "heads", "size", "layers", "count"),
    [
        (Biaffine, 12, 64, 12, 2_949_840),  # of BERT-base
        (Biaffine, H, D, 1, 5 * H * (D * D + 1)),
        (Decomposed, 12, 64, 12, 12 * 5 * 12 * (2 * 64 + 1)),
    ],
)
def test_how_many_parameters(kind, heads, size, layers, count):
    assert layers * sum(one.numel() for one in kind(heads, size).parameters()) == count


@KINDS
def test_gradients(kind):
    bias = drawn(kind)
    sentences, entities, rows = entities_first(*drawn_structure(2, 6))
    found = dependencies(sentences, entities, rows)
    query, key = (torch.randn(B, H, 6, D, dtype=torch.float64, requires_grad=True) for _ in "qk")
    assert gradcheck(lambda q, k, *_: bias(q, k, {"dependencies": found}).bias, (query, key, *bias.parameters()))


@KINDS
def test_the_first_update_learns_from_zeros(kind):
    bias = kind(H, D)
    assert not any(one.any() for one in bias.parameters())
    sentences, entities, rows = entities_first(*drawn_structure(0))
    found = dependencies(sentences, entities, rows)
    assert set(range(NONE)) <= set(found.unique().tolist())
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, T, D)
    (bias(query, key, {"dependencies": found}).bias * torch.randn(B, H, rows, T)).sum().backward()
    for parameter in bias.parameters():  # of each dependency and head
        assert parameter.grad.flatten(2).any(-1).all() if parameter.dim() > 2 else parameter.grad.all()


@KINDS
@pytest.mark.parametrize("structure", [{}, {"dependencies": torch.zeros(B, 0, T, dtype=torch.int8)}])
def test_no_structure_is_no_bias(kind, structure):
    slots = drawn(kind)(torch.randn(B, H, T, D), torch.randn(B, H, T, D), structure)
    assert not slots.bias.any()


@KINDS
def test_the_kind_of_numbers_stays(kind):
    sentences, entities, rows = entities_first(*drawn_structure(0))
    query, key = (torch.randn(B, H, T, D, dtype=torch.bfloat16) for _ in "qk")
    found = drawn(kind).float()(query, key, {"dependencies": dependencies(sentences, entities, rows)})
    assert found.bias.dtype is torch.bfloat16


# --- within attention ------------------------------------------------------------------------------------------------


def attention(kind, seed=0):
    torch.manual_seed(seed)
    return MultiHead(SIZE, H, relative=drawn(kind)).double().eval()


@torch.no_grad()
def naive(module, hidden, sentences, entities, real):
    """Attention with the scores of eq. 3, one query at a time."""
    outputs = torch.zeros_like(hidden)
    for b in range(B):
        q, k, v = (hidden[b] @ module.qkv.weight.T + module.qkv.bias).chunk(3, 1)
        for i in range(T):
            context = []
            for h in range(H):
                own = slice(h * D, (h + 1) * D)
                scores = []
                for j in range(T):
                    s = dependency(sentences[b].tolist(), entities[b].tolist(), i, j)
                    added = 0.0 if s == NONE else term(module.relative, h, q[i, own], k[j, own], s)
                    scores.append((float(q[i, own] @ k[j, own]) + added) / math.sqrt(D))
                weights = [math.exp(one) if real[b, j] else 0.0 for j, one in enumerate(scores)]
                context.append(sum(one / sum(weights) * v[j, own] for j, one in enumerate(weights)))
            outputs[b, i] = module.output.weight @ torch.cat(context) + module.output.bias
    return outputs


@KINDS
@pytest.mark.parametrize("padded", [False, True])
def test_attention_fused_watched_and_naive(kind, padded):
    module = attention(kind)
    sentences, entities, rows = entities_first(*drawn_structure(5))
    assert 1 < rows < T  # so that only some rows have a bias
    hidden = torch.randn(B, T, SIZE, dtype=torch.float64)
    real = torch.ones(B, T, dtype=torch.bool)
    if padded:
        real[1, -2:] = False
        sentences[1, -2:] = entities[1, -2:] = -1
    mask = real[:, None, None] if padded else None
    with torch.no_grad():
        structure = {"dependencies": dependencies(sentences, entities, rows)}
        fused = module(hidden, mask=mask, structure=structure)
        whole = module(hidden, mask=mask, structure={"dependencies": dependencies(sentences, entities)})
        with watch_attention(module) as watched:
            explicit = module(hidden, mask=mask, structure=structure)
        expected = naive(module, hidden, sentences, entities, real)
    assert torch.allclose(fused, expected, atol=1e-10)
    assert torch.allclose(explicit, expected, atol=1e-10)
    assert torch.allclose(whole, expected, atol=1e-10)
    (weights,) = watched[""]
    assert weights.shape == (B, H, T, T)
    assert torch.allclose(weights.sum(-1), torch.ones((), dtype=torch.float64))
    assert padded <= (not weights[1, :, :, -2:].any())


@KINDS
@pytest.mark.parametrize("mask", [None, "padding", causal(), window(2, 2)], ids=["none", "padding", "causal", "window"])
def test_a_block_of_rows_has_the_gradients_of_all(kind, mask):
    module = attention(kind).train()
    sentences, entities, rows = entities_first(*drawn_structure(5))
    if mask == "padding":
        mask = torch.ones(B, 1, 1, T, dtype=torch.bool)
        mask[1, ..., -2:] = False
    torch.manual_seed(1)
    hidden, wanted = torch.randn(2, B, T, SIZE, dtype=torch.float64)
    found = []
    for count in (rows, T):
        module.zero_grad()
        given = hidden.clone().requires_grad_()
        structure = {"dependencies": dependencies(sentences, entities, count)}
        (module(given, mask=mask, structure=structure) * wanted).sum().backward()
        found.append([given.grad, *(one.grad for one in module.parameters())])
    for block, whole in zip(*found, strict=True):
        assert torch.allclose(block, whole, atol=1e-10)
        assert block.any()


def test_dense_masks_and_dropout_see_all_rows():
    module = attention(Biaffine)
    sentences, entities, rows = entities_first(*drawn_structure(5))
    structure = {"dependencies": dependencies(sentences, entities, rows)}
    hidden = torch.randn(B, T, SIZE, dtype=torch.float64)
    all_seen = torch.ones(B, 1, T, T, dtype=torch.bool)
    plain = module(hidden, structure=structure)
    assert torch.allclose(module(hidden, structure=structure, mask=all_seen), plain)
    module.dropout = 0.5
    assert torch.equal(module(hidden, structure=structure), plain)  # not while it is not trained
    module.train()
    torch.manual_seed(0)
    mean = torch.stack([module(hidden, structure=structure) for _ in range(2000)]).mean(0)
    assert (mean - plain).abs().max() < 0.1


@KINDS
def test_zeros_leave_an_encoder_as_it_was(kind):
    torch.manual_seed(0)
    config = BertConfig(hidden_size=SIZE, num_layers=3, num_heads=H, max_length=T, dropout=0.0, attention_dropout=0.0)
    encoder = Bert(config, vocab_size=11).double().eval()
    tokens = torch.randint(0, 11, (B, T))
    sentences, entities, rows = entities_first(*drawn_structure(4))
    structure = {"dependencies": dependencies(sentences, entities, rows)}
    real = torch.ones(B, T, dtype=torch.bool)
    real[1, -1] = False
    with torch.no_grad():
        for mask in (None, real[:, None, None]):
            embedded = encoder.embed(tokens)
            before = encoder.encoder(embedded, mask=mask)
            for layer in encoder.encoder.layers:
                layer.attention.relative = kind(H, D).double()
            after = encoder.encoder(embedded, mask=mask, structure=structure)
            read = torch.ones_like(real) if mask is None else real  # what padding gives does not matter
            assert torch.allclose(after[read], before[read], atol=1e-12)
            encoder.encoder.layers[1].attention.relative.prior.fill_(2.0)
            changed = encoder.encoder(embedded, mask=mask, structure=structure)
            assert (changed - before)[read].abs().max() > 1e-5
            for layer in encoder.encoder.layers:
                layer.attention.relative = None
