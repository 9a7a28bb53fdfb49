"""The Transformer: what it may depend on, decoding step by step, and that it learns."""

import pytest
import torch
import torch.nn.functional as F

from wenmai.core.errors import SettingError
from wenmai.models.transformer import Transformer, TransformerConfig
from wenmai.nn.attention import watch_attention

SOURCES, TARGETS = 11, 13
KINDS = {
    "sinusoidal": {},
    "pre-norm": {"norm": "pre", "activation": "gelu", "decoder_layers": 1, "attention_bias": False},
    "learned": {"positions": "learned"},
    "shaw": {"positions": "shaw", "max_distance": 2},
    "none": {"positions": "none"},
    "window": {"window": 1},
    "shaw in a window": {"positions": "shaw", "window": 2, "norm": "pre"},
}


def make(**settings):
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "ffn_size": 24, "max_length": 40}
    config = TransformerConfig(**(sizes | settings))
    return Transformer(config, source_vocab_size=SOURCES, target_vocab_size=TARGETS, tied_sources=False).eval()


@pytest.fixture(params=KINDS)
def model(request):
    return make(**KINDS[request.param])


@pytest.fixture
def batch():
    torch.manual_seed(2)
    source, target = torch.randint(0, SOURCES, (4, 9)), torch.randint(0, TARGETS, (4, 8))
    return source, torch.arange(9) < torch.tensor([9, 5, 7, 1])[:, None], target


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing(model, batch):
    source, valid, target = batch
    together = model(source, valid, target)
    for row in range(4):
        length = int(valid[row].sum())
        alone = model(source[row : row + 1, :length], valid[row : row + 1, :length], target[row : row + 1, :6])
        close(alone, together[row : row + 1, :6])
    close(model(source.masked_fill(~valid, 3), valid, target), together)


def test_the_order_of_a_batch_changes_nothing(model, batch):
    order = torch.tensor([2, 0, 3, 1])
    close(model(*(tensor[order] for tensor in batch)), model(*batch)[order])


def test_no_state_depends_on_a_later_target(model, batch):
    source, valid, target = batch
    embedded = []

    def keep(_, arguments):
        embedded.append(arguments[0].detach().requires_grad_())
        return (embedded[0], *arguments[1:])

    handle = model.decoder.register_forward_pre_hook(keep)
    states = model(source, valid, target)
    handle.remove()
    states = states * torch.randn(16)  # the plain sum of normed states is constant
    for position in range(8):
        (gradient,) = torch.autograd.grad(states[:, position].sum(), embedded, retain_graph=True)
        assert not gradient[:, position + 1 :].any()
        assert gradient[:, position].any()


def test_steps_give_the_logits_of_the_whole(model, batch):
    source, valid, target = batch
    with torch.no_grad():
        expected = model.logits(model(source, valid, target))
        state = model.begin(source, valid, max_length=8)
        for position in range(8):
            assert state.length == position
            step = model.step(target[:, position], state)
            close(step.logits, expected[:, position])
            assert step.attention is None


def test_selected_hypotheses_go_on_as_their_own(model, batch):
    """Beams: widen, reorder, cut off, and compare with the whole computed for each history."""
    source, valid, _ = batch
    choices = [
        torch.arange(4).repeat_interleave(3),
        torch.tensor([2, 0, 0, 3, 4, 5, 8, 8, 8, 11, 10, 9]),
        torch.tensor([9, 10, 11, 3, 4, 5]),
        torch.tensor([5, 0, 1]),
    ]
    origins, history = torch.arange(4), torch.empty(4, 0, dtype=torch.int64)
    with torch.no_grad():
        state = model.begin(source, valid, max_length=8)
        for rows in [*choices, None, None]:
            tokens = torch.randint(0, TARGETS, (state.batch_size,))
            history = torch.cat((history, tokens[:, None]), 1)
            logits = model.step(tokens, state).logits
            close(logits, model.logits(model(source[origins], valid[origins], history))[:, -1])
            if rows is not None:
                state.select(rows)
                origins, history = origins[rows], history[rows]
                assert state.batch_size == len(rows)


def test_a_step_returns_the_attention_of_the_last_layer(model, batch):
    source, valid, target = batch
    with torch.no_grad():
        with watch_attention(model) as watched:
            model(source, valid, target)
        last = len(model.decoder.layers) - 1
        expected = watched[f"decoder.layers.{last}.memory_attention"][0].mean(1)
        state = model.begin(source, valid, max_length=8, need_attention=True)
        plain = model.begin(source, valid, max_length=8)
        rows = torch.arange(4).repeat_interleave(2)
        state.select(rows)
        plain.select(rows)
        for position in range(8):
            step = model.step(target[rows, position], state)
            close(step.attention, expected[rows, position])
            close(step.logits, model.step(target[rows, position], plain).logits)
            assert not step.attention.masked_select(~valid[rows]).any()


def test_watching_names_every_attention(model, batch):
    before = model(*batch)
    with watch_attention(model) as watched:
        close(model(*batch), before)
    for name, (weights,) in watched.items():
        queries, keys = weights.shape[2:]
        assert (queries, keys) == ((9, 9) if "encoder" in name else (8, 9) if "memory" in name else (8, 8))
    layers = len(model.encoder.layers) + 2 * len(model.decoder.layers)
    assert len(watched) == layers


def test_a_source_without_real_tokens_is_harmless(model, batch):
    source, valid, target = batch
    valid = valid.clone()
    valid[1] = False
    states = model(source, valid, target)
    F.cross_entropy(model.logits(states).flatten(0, 1), target.flatten()).backward()
    assert states.isfinite().all()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
    close(states[[0, 2, 3]], model(*batch)[[0, 2, 3]])


def test_every_parameter_gets_a_gradient(model, batch):
    F.cross_entropy(model.logits(model(*batch)).flatten(0, 1), batch[2].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any() or name.endswith("qkv.bias"), name


def test_a_batch_is_learned_by_heart(batch):
    source, valid, target = batch
    model = make(dropout=0.0, norm="pre", num_layers=1).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        loss = F.cross_entropy(
            model.logits(model(source, valid, target[:, :-1])).flatten(0, 1), target[:, 1:].flatten()
        )
        loss.backward()
        optimiser.step()
    assert loss < 0.1


def test_settings_that_do_not_fit_together_are_refused():
    with pytest.raises(SettingError, match="hidden_size=10 is not a multiple of num_heads=4"):
        TransformerConfig(hidden_size=10, num_heads=4)
    with pytest.raises(SettingError, match="max_distance has no effect with positions=learned"):
        TransformerConfig(positions="learned", max_distance=4)


def test_one_vocabulary_means_one_matrix():
    config = TransformerConfig(hidden_size=8, num_layers=1, num_heads=2, ffn_size=8)
    tied = Transformer(config, source_vocab_size=9, target_vocab_size=9, tied_sources=True)
    apart = Transformer(config, source_vocab_size=7, target_vocab_size=9, tied_sources=False)
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (tied, apart)]
    assert sizes[1] - sizes[0] == 7 * 8
    assert tied.output_weight is tied.embedding
    assert tied.output_bias is None
    assert [name for name in tied.state_dict() if "embedding" in name] == ["embedding"]
    with pytest.raises(ValueError, match="7 source and 9 target tokens cannot share"):
        Transformer(config, source_vocab_size=7, target_vocab_size=9, tied_sources=True)


def test_embeddings_start_with_unit_variance_after_scaling():
    model = Transformer(TransformerConfig(), source_vocab_size=99, target_vocab_size=500, tied_sources=False)
    for table in (model.embedding, model.source_embedding):
        assert float(table.detach().std()) * model.config.hidden_size**0.5 == pytest.approx(1, rel=0.02)


def test_learned_positions_end_at_max_length():
    model = make(positions="learned", max_length=4)
    ids = torch.zeros(1, 5, dtype=torch.int64)
    with pytest.raises(ValueError, match="4 were learned"):
        model.encode(ids, torch.ones(1, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="max_length=4"):
        model.begin(ids[:, :3], torch.ones(1, 3, dtype=torch.bool), max_length=5)


def test_sinusoids_go_on_beyond_max_length():
    ids, valid = torch.randint(0, SOURCES, (1, 30)), torch.ones(1, 30, dtype=torch.bool)
    close(make(max_length=4).encode(ids, valid).hidden, make(max_length=40).encode(ids, valid).hidden)


def test_relative_positions_do_not_change_when_all_shift():
    source = torch.randint(0, SOURCES, (1, 6))
    shifted = torch.cat((torch.zeros(1, 3, dtype=torch.int64), source), 1)
    valid = torch.tensor([[False] * 3 + [True] * 6])
    for positions, same in (("shaw", True), ("none", True), ("sinusoidal", False), ("learned", False)):
        model = make(positions=positions)
        left, right = model.encode(shifted, valid).hidden[:, 3:], model.encode(source, valid[:, 3:]).hidden
        assert torch.allclose(left, right, atol=1e-5) is same
