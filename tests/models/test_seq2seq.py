"""The contract of sequence-to-sequence models: padding, causality, decoding step by step, scheduled sampling."""

import pytest
import torch
import torch.nn.functional as F

from wenmai.core.errors import SettingError
from wenmai.decode.search import beam_search, greedy
from wenmai.models.seq2seq import Seq2Seq, Seq2SeqConfig
from wenmai.nn.attention import watch_attention

ATTENDING = [
    {"encoder": encoder, "attention": attention} for encoder in ("gru", "lstm") for attention in ("bahdanau", "luong")
] + [{"encoder": "cnn"}, {"attention": "luong", "num_layers": 2}, {"num_layers": 2, "scorer": "dot"}]
ATTENDING += [{"selection": "hard"}, {"selection": "sampled", "attention": "luong"}]
ATTENDING += [{"selection": "local-m", "window": 1}, {"selection": "local-p", "window": 2, "attention": "luong"}]
BLIND = [
    {"context": "every_step"},
    {"context": "first_state", "bidirectional": False, "reverse_source": True},
    {"context": "every_step", "encoder": "cnn", "num_layers": 2},
    {"context": "first_state", "encoder": "lstm", "num_layers": 2},
    {"context": "first_state", "encoder": "rnn"},
]
CONFIGS = ATTENDING + BLIND
VOCAB = 13
LENGTHS = (4, 1, 6)


def names(options):
    return "-".join(f"{value}" for value in options.values())


every_config = pytest.mark.parametrize("options", CONFIGS, ids=names)


def make(options, tied=False):
    torch.manual_seed(2)
    config = Seq2SeqConfig(**({"embedding_size": 6, "hidden_size": 8} | options))
    return Seq2Seq(config, source_vocab_size=VOCAB, target_vocab_size=VOCAB, tied_sources=tied)


def batch():
    torch.manual_seed(3)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(VOCAB, mask.shape), mask, torch.randint(VOCAB, (len(LENGTHS), 5))


@every_config
def test_shapes_follow_the_protocol(options):
    model, (source_ids, mask, target_ids) = make(options), batch()
    hidden = model(source_ids, mask, target_ids)
    assert hidden.shape == (3, 5, model.output_weight.shape[1])
    torch.testing.assert_close(model.logits(hidden), F.linear(hidden, model.output_weight, model.output_bias))
    assert model.logits(hidden).shape == (3, 5, VOCAB)
    assert model.encode(source_ids, mask).outputs.shape[:2] == (3, 6)


@every_config
def test_padding_of_the_source_changes_nothing(options):
    model, (source_ids, mask, target_ids) = make(options).eval(), batch()
    expected = model(source_ids, mask, target_ids)
    other = torch.where(mask, source_ids, (source_ids + 5) % VOCAB)
    longer = torch.cat((other, torch.full((3, 4), 7)), 1)
    torch.testing.assert_close(
        model(longer, torch.cat((mask, torch.zeros(3, 4, dtype=torch.bool)), 1), target_ids), expected
    )
    for row, length in enumerate(LENGTHS):
        alone = model(source_ids[row : row + 1, :length], mask[row : row + 1, :length], target_ids[row : row + 1])
        torch.testing.assert_close(alone[0], expected[row])


@every_config
def test_a_readout_depends_on_all_earlier_target_tokens_and_no_later_one(options):
    model, (source_ids, mask, target_ids) = make(options).eval(), batch()
    words = []
    model.target_embedding.register_forward_hook(lambda module, inputs, output: words.append(output))
    hidden = model(source_ids, mask, target_ids)
    (gradient,) = torch.autograd.grad(hidden[:, 2].sum(), words)
    reached = gradient.abs().sum((0, 2)) > 0
    assert reached.tolist() == [True, True, True, False, False]


@every_config
def test_every_parameter_gets_a_gradient(options):
    model, (source_ids, mask, target_ids) = make(options), batch()
    logits = model.logits(model(source_ids, mask, target_ids))
    F.cross_entropy(logits.flatten(0, 1), target_ids.roll(-1, 1).flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@every_config
def test_decoding_step_by_step_equals_teacher_forcing(options):
    model, (source_ids, mask, target_ids) = make(options).eval(), batch()
    with torch.inference_mode():
        expected = model.logits(model(source_ids, mask, target_ids))
        state = model.begin(source_ids, mask, max_length=5)
        for place in range(5):
            logits, attention = model.step(target_ids[:, place], state)
            torch.testing.assert_close(logits, expected[:, place], rtol=0, atol=1e-5)
            assert attention is None


@every_config
def test_selected_rows_go_on_as_their_parents_would(options):
    model, (source_ids, mask, _) = make(options).eval(), batch()
    beams = torch.tensor([0, 0, 1, 1, 2, 2])
    with torch.inference_mode():
        state = model.begin(source_ids, mask, max_length=5)
        assert state.batch_size == 3
        state.select(beams)
        assert state.batch_size == 6
        rows, fed = beams, []  # the source of each hypothesis and what it was fed
        for place, parents in enumerate(([1, 0, 2, 2, 5, 4], [1, 1, 3, 2, 4, 4], [5, 0, 2], [2, 0, 1])):
            tokens = (torch.arange(len(rows)) * 3 + place) % VOCAB
            model.step(tokens, state)
            fed.append(tokens)
            chosen = torch.tensor(parents)
            state.select(chosen)
            rows, fed = rows[chosen], [one[chosen] for one in fed]
        last = torch.tensor([4, 5, 6])
        logits = model.step(last, state).logits
        expected = model.logits(model(source_ids[rows], mask[rows], torch.stack([*fed, last], 1)))[:, -1]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", ATTENDING, ids=names)
def test_attention_can_be_watched_and_asked_for(options):
    model, (source_ids, mask, target_ids) = make(options).eval(), batch()
    with torch.inference_mode(), watch_attention(model) as seen:
        model(source_ids, mask, target_ids)
    ((weights,),) = seen.values()
    assert weights.shape == (3, 1, 5, 6)
    if options.get("window") is None:  # else fewer than all tokens may share less than all weight
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 5))
    assert (weights.sum(-1) < 1 + 1e-5).all()
    assert not weights.masked_select(~mask[:, None, None]).any()
    with torch.inference_mode():
        state = model.begin(source_ids, mask, max_length=5, need_attention=True)
        for place in range(5):
            attention = model.step(target_ids[:, place], state).attention
            torch.testing.assert_close(attention, weights[:, 0, place])


@pytest.mark.parametrize("options", BLIND, ids=names)
def test_a_decoder_without_attention_returns_none(options):
    model, (source_ids, mask, target_ids) = make(options).eval(), batch()
    state = model.begin(source_ids, mask, max_length=5, need_attention=True)
    assert model.step(target_ids[:, 0], state).attention is None


@pytest.mark.parametrize("options", ATTENDING, ids=names)
def test_searches_agree_and_score_what_the_model_scores(options):
    model, (source_ids, mask, _) = make(options).eval(), batch()
    rules = {"bos_id": 1, "eos_id": 2, "max_lengths": torch.tensor([4, 6, 3]), "device": source_ids.device}
    with torch.inference_mode():
        straight = greedy(model, model.begin(source_ids, mask, max_length=6), **rules)
        beams = beam_search(
            model,
            model.begin(source_ids, mask, max_length=6, need_attention=True),
            source_mask=mask,
            beam_size=3,
            n_best=1,
            length_penalty="none",
            coverage_beta=0.2,
            **rules,
        )
        for row, found in enumerate([*straight, *(best for (best,) in beams)]):
            row %= len(LENGTHS)
            wanted = torch.tensor([[*found.tokens, 2][: len(found.tokens) + found.finished]])
            fed = torch.cat((torch.tensor([[1]]), wanted[:, :-1]), 1)
            log_probs = model.logits(model(source_ids[row : row + 1], mask[row : row + 1], fed)).log_softmax(-1)
            expected = log_probs.gather(2, wanted[..., None]).sum().item()
            assert found.log_prob == pytest.approx(expected, abs=1e-4)


# --- scheduled sampling -------------------------------------------------------------------------------------------


@every_config
def test_a_teacher_who_always_speaks_is_teacher_forcing(options):
    model, (source_ids, mask, target_ids) = make(options).eval(), batch()
    almost = model(source_ids, mask, target_ids, teacher_share=1 - 1e-12)  # step by step, and yet always taught
    torch.testing.assert_close(almost, model(source_ids, mask, target_ids))


def sure_of_the_next_number(options):
    """A model that predicts the same token at every step, whatever it reads."""
    model = make(options).eval()
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.fill_(-100.0)
        model.output.bias[9] = 100.0
    return model


@every_config
def test_without_a_teacher_the_model_reads_what_it_predicts(options):
    model, (source_ids, mask, target_ids) = sure_of_the_next_number(options), batch()
    expected = target_ids.clone()
    expected[:, 1:] = 9  # the first token is always given
    free = model(source_ids, mask, target_ids, teacher_share=0.0)
    torch.testing.assert_close(free, model(source_ids, mask, expected))


def test_each_token_is_taught_with_the_given_probability():
    model = sure_of_the_next_number({"context": "first_state"})
    fed = []
    model.target_embedding.register_forward_hook(lambda module, inputs, output: fed.append(inputs[0]))
    source_ids = torch.zeros(4000, 1, dtype=torch.int64)
    target_ids = torch.ones(4000, 3, dtype=torch.int64)
    with torch.inference_mode():
        model(source_ids, source_ids == 0, target_ids, teacher_share=0.3)
    taught = [(tokens == 1).float().mean().item() for tokens in fed]
    assert taught[0] == 1.0
    assert taught[1:] == pytest.approx([0.3, 0.3], abs=0.04)  # more than five standard deviations


def test_drawn_tokens_follow_the_model_and_pass_no_gradient():
    model = make({"context": "first_state"})
    fed = []
    model.target_embedding.register_forward_hook(lambda module, inputs, output: fed.append(inputs[0]))
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.tensor([0.5, 0.25, 0.25] + [0.0] * (VOCAB - 3)).log())
    source_ids = torch.zeros(4000, 1, dtype=torch.int64)
    hidden = model(source_ids, source_ids == 0, torch.ones(4000, 2, dtype=torch.int64), teacher_share=0.0)
    assert (fed[1].flatten().bincount(minlength=3) / 4000).tolist() == pytest.approx([0.5, 0.25, 0.25], abs=0.04)
    hidden.sum().backward()
    assert model.output.weight.grad is None  # drawing is the only use of the output layer here


# --- construction -------------------------------------------------------------------------------------------------


def test_a_shared_vocabulary_shares_one_embedding():
    tied, apart = make({}, tied=True), make({})
    source_ids, mask, _ = batch()
    assert "source_embedding.weight" not in tied.state_dict()
    assert len(set(tied.state_dict()) ^ set(apart.state_dict())) == 1
    tied.encode(source_ids, mask).outputs.sum().backward()
    assert tied.target_embedding.weight.grad.any()


def test_vocabularies_of_two_sizes_cannot_be_shared():
    with pytest.raises(ValueError, match="5 source and 6 target tokens cannot share"):
        Seq2Seq(Seq2SeqConfig(), source_vocab_size=5, target_vocab_size=6, tied_sources=True)


def test_a_source_longer_than_max_length_is_refused():
    source_ids, mask, _ = batch()
    with pytest.raises(ValueError, match="max_length is 5"):
        make({"max_length": 5}).encode(source_ids, mask)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "cnn", "bidirectional": False}, "both sides"),
        ({"kernel_size": 5}, "kernel_size"),
        ({"reverse_source": True}, "bidirectional=false"),
        ({"context": "first_state", "attention": "luong"}, "no attention"),
        ({"context": "every_step", "scorer": "dot"}, "no attention"),
        ({"context": "first_state", "selection": "hard"}, "no attention"),
        ({"context": "every_step", "selection": "local-p"}, "no attention"),
        ({"window": 5}, "window belongs to local-m and local-p, not to selection=soft"),
        ({"selection": "sampled", "window": 5}, "not to selection=sampled"),
    ],
)
def test_settings_without_effect_are_refused(options, message):
    with pytest.raises(SettingError, match=message):
        Seq2SeqConfig(**options)


@pytest.mark.parametrize("options", [{}, {"attention": "luong"}], ids=names)
def test_a_model_learns_to_repeat_its_source(options):
    model = make(options | {"hidden_size": 32, "embedding_size": 16, "dropout": 0.0})
    source_ids = torch.randint(2, VOCAB, (8, 3), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(source_ids, dtype=torch.bool)
    fed = torch.cat((torch.ones(8, 1, dtype=torch.int64), source_ids[:, :-1]), 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(model.logits(model(source_ids, mask, fed)).flatten(0, 1), source_ids.flatten())
        loss.backward()
        optimizer.step()
    assert loss < 0.2
