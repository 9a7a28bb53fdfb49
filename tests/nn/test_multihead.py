"""Multi-head attention: its projections, caches, windows and relative positions."""

import pytest
import torch

from wenmai.nn.attention import attend, watch_attention
from wenmai.nn.biases import ShawRelative
from wenmai.nn.cache import KeyValue
from wenmai.nn.masks import causal, padding, window
from wenmai.nn.multihead import MultiHead, banded_attend


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)


def test_one_head_with_identity_projections_is_plain_attention():
    module = MultiHead(6, 1, bias=False)
    with torch.no_grad():
        module.qkv.weight.copy_(torch.eye(6).repeat(3, 1))
        module.output.weight.copy_(torch.eye(6))
    hidden = torch.randn(2, 5, 6)
    torch.testing.assert_close(module(hidden), attend(hidden, hidden, hidden).context)


def test_each_projection_starts_xavier_uniform_for_itself():
    module = MultiHead(256, 4)
    for matrix in (*module.qkv.weight.detach().split(256), module.output.weight.detach()):
        bound = (6 / (256 + 256)) ** 0.5
        assert matrix.abs().max() <= bound
        assert float(matrix.std()) == pytest.approx(bound / 3**0.5, rel=0.02)
    assert not module.qkv.bias.any()


def test_self_attention_without_positions_does_not_know_the_order():
    module, hidden, order = MultiHead(8, 2), torch.randn(2, 5, 8), torch.randperm(5)
    torch.testing.assert_close(module(hidden)[:, order], module(hidden[:, order]))


def variants():
    return [
        pytest.param({}, id="plain"),
        pytest.param({"window": 2}, id="window"),
        pytest.param({"relative": ShawRelative(4, 3)}, id="shaw"),
        pytest.param({"relative": ShawRelative(4, 3, num_heads=2), "window": 2}, id="shaw per head in a window"),
    ]


@pytest.mark.parametrize("options", variants())
@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 4, 2]])
def test_a_cache_changes_nothing(options, pieces):
    module, hidden = MultiHead(8, 2, **options), torch.randn(3, 12, 8)
    cache, outputs = KeyValue.empty(3, 2, 12, 4), []
    with torch.no_grad():
        for piece in hidden.split(pieces, dim=1):
            outputs.append(module(piece, mask=None if piece.shape[1] == 1 else causal(), cache=cache))
        torch.testing.assert_close(torch.cat(outputs, 1), module(hidden, mask=causal()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", variants())
@pytest.mark.parametrize("is_causal", [False, True])
def test_watching_a_module_changes_no_output(options, is_causal):
    module, hidden = MultiHead(8, 2, **options), torch.randn(3, 12, 8)
    mask = causal() if is_causal else None
    with watch_attention(module) as watched:
        output = module(hidden, mask=mask)
    torch.testing.assert_close(output, module(hidden, mask=mask), atol=1e-5, rtol=1e-5)
    (weights,) = watched[""]
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 12))
    reach = window(2 if "window" in options else 12, 0 if is_causal else 2 if "window" in options else 12)
    assert not weights.masked_select(~reach.aligned(12, 12)).any()


@pytest.mark.parametrize("radius", [1, 3, 40])
@pytest.mark.parametrize("length", [1, 32, 77])
def test_the_banded_form_equals_the_dense_mask(radius, length):
    query, key, value = (torch.randn(2, 3, length, 4, requires_grad=True) for _ in range(3))
    valid = torch.rand(2, length) > 0.2
    for is_causal in (False, True):
        for real in (None, valid):
            mask = window(radius, 0 if is_causal else radius)
            mask = mask if real is None else mask & padding(real)
            dense = attend(query, key, value, mask=mask).context
            banded = banded_attend(query, key, value, radius=radius, is_causal=is_causal, valid=real)
            torch.testing.assert_close(banded, dense, atol=1e-5, rtol=1e-5)
    expected = torch.autograd.grad(dense.square().sum(), (query, key, value))
    found = torch.autograd.grad(banded.square().sum(), (query, key, value))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_window_is_kept_under_every_kind_of_mask():
    module, hidden = MultiHead(8, 2, window=2), torch.randn(3, 20, 8)
    valid = torch.arange(20) < torch.tensor([20, 13, 4])[:, None]
    free = MultiHead(8, 2)
    free.load_state_dict(module.state_dict())
    for mask, dense in (
        (None, window(2, 2)),
        (causal(), window(2, 0)),
        (padding(valid), window(2, 2) & padding(valid)),
        (causal() & padding(valid), window(2, 0) & padding(valid)),
        (valid[:, None, None, :], window(2, 2) & padding(valid)),
        (causal().aligned(20, 20), window(2, 0)),
    ):
        torch.testing.assert_close(module(hidden, mask=mask), free(hidden, mask=dense), atol=1e-5, rtol=1e-5)


def test_a_memory_is_projected_once_for_many_steps():
    module, memory = MultiHead(8, 2, memory_size=6), torch.randn(2, 5, 6)
    hidden = torch.randn(2, 3, 8)
    valid = torch.tensor([[True] * 5, [True, True, False, False, False]])
    cache = KeyValue(module.project_memory(memory), length=5)
    expected = module(hidden, memory, mask=padding(valid))
    for step in range(3):
        one = module(hidden[:, step : step + 1], mask=padding(valid), cache=cache)
        torch.testing.assert_close(one, expected[:, step : step + 1])
    with pytest.raises(ValueError, match="neither the memory nor its cache"):
        module(hidden)


def test_shaw_with_zero_tables_is_plain_attention_and_keeps_when_all_positions_shift():
    relative = ShawRelative(4, 2)
    module, plain, hidden = MultiHead(8, 2, relative=relative), MultiHead(8, 2), torch.randn(1, 6, 8)
    plain.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("relative")})
    shifted = torch.cat((torch.randn(1, 3, 8), hidden), 1)
    far = torch.tensor([False] * 3 + [True] * 6)  # what stands before is not seen, only counted
    torch.testing.assert_close(module(shifted, mask=far)[:, 3:], module(hidden), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(module(hidden), plain(hidden))
    with torch.no_grad():
        relative.keys.zero_()
        relative.values.zero_()
    torch.testing.assert_close(module(hidden), plain(hidden), atol=1e-5, rtol=1e-5)


def test_sizes_and_parts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="hidden_size=10 is not a multiple of num_heads=4"):
        MultiHead(10, 4)
    with pytest.raises(ValueError, match="for self-attention"):
        MultiHead(8, 2, memory_size=8, window=3)


@pytest.mark.parametrize("options", [{"relative": ShawRelative(4, 2)}, {"window": 1}])
def test_positions_alone_are_refused_where_the_whole_sequence_is_needed(options):
    module = MultiHead(8, 2, **options)
    with pytest.raises(ValueError, match="positions alone"):
        module(torch.randn(2, 5, 8), places=torch.zeros(2, 1, dtype=torch.int64))
