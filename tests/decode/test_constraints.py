import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from wenmai.decode.constraints import penalise_repetition, repeating_ngrams
from wenmai.decode.sampling import sample
from wenmai.decode.search import beam_search, greedy


def decoders(beam_size=3):
    return {
        "greedy": greedy,
        "beam": lambda *args, **rules: [found[0] for found in beam_search(*args, beam_size=beam_size, **rules)],
        "sample": lambda *args, **rules: sample(*args, generator=torch.Generator().manual_seed(3), **rules),
    }


every_decoder = pytest.mark.parametrize("decode", decoders().values(), ids=decoders())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=9), st.integers(1, 4))
def test_repeating_ngrams_are_those_a_loop_finds(history, order):
    grams = {tuple(history[i : i + order]) for i in range(len(history) - order + 1)}
    expected = {token for token in range(3) if (*history[len(history) - order + 1 :], token) in grams}
    if len(history) < order:
        expected = set()
    rows, tokens = repeating_ngrams(torch.tensor([history], dtype=torch.int64), order)
    assert set(tokens.tolist()) == expected
    assert set(rows.tolist()) <= {0}


def test_the_repetition_penalty_lowers_logits_of_either_sign():
    logits = torch.tensor([[2.0, -2.0, 1.0, 0.0]])
    penalised = penalise_repetition(logits, torch.tensor([[0, 1, 1]]), 2.0)
    assert penalised.tolist() == [[1, -4, 1, 0]]
    assert logits.tolist() == [[2, -2, 1, 0]]


@every_decoder
def test_a_minimum_length_holds_back_the_end(toy, decode):
    model = toy.Model(1, end_bias=6.0)
    rules = {**toy.ends, "max_lengths": 9}
    assert min(len(found.tokens) for found in decode(model, model.begin(range(8)), **rules)) < 4
    found = decode(model, model.begin(range(8)), min_length=4, **rules)
    assert min(len(hypothesis.tokens) for hypothesis in found) >= 4
    for number, hypothesis in enumerate(found):
        assert hypothesis.log_prob == pytest.approx(toy.forced(model, number, hypothesis)[0])


@every_decoder
def test_banned_tokens_never_appear(toy, decode):
    model = toy.Model(2, end_bias=-3.0)
    found = decode(model, model.begin(range(8)), max_lengths=8, banned={0, 3}, **toy.ends)
    assert not {0, 3} & {token for hypothesis in found for token in hypothesis.tokens}


@every_decoder
@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_ngram_is_repeated(toy, decode, order):
    model = toy.Model(3, end_bias=-3.0)
    for hypothesis in decode(model, model.begin(range(8)), max_lengths=12, no_repeat_ngram=order, **toy.ends):
        tokens = hypothesis.tokens
        grams = [tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1)]
        assert len(grams) == len(set(grams))


@every_decoder
def test_sequences_begin_with_their_prefixes_and_count_them(toy, decode):
    model = toy.Model(4)
    prefix = [[], [2], [4, 3, 2], [3, 3, 3, 3, 3, 3]]
    found = decode(model, model.begin(range(4)), max_lengths=6, prefix=prefix, **toy.ends)
    for number, (hypothesis, beginning) in enumerate(zip(found, prefix, strict=True)):
        assert hypothesis.tokens[: len(beginning)] == beginning
        assert len(hypothesis.tokens) <= 6
        assert hypothesis.log_prob == pytest.approx(toy.forced(model, number, hypothesis)[0])
    assert not found[3].finished


@every_decoder
def test_bans_do_not_concern_the_prefix(toy, decode):
    model = toy.Model(5)
    found = decode(
        model, model.begin(range(2)), max_lengths=6, prefix=[[3, 3, 3]] * 2, banned=[3], no_repeat_ngram=1, **toy.ends
    )
    for hypothesis in found:
        assert hypothesis.tokens[:3] == [3, 3, 3]
        assert 3 not in hypothesis.tokens[3:]


@every_decoder
def test_where_no_token_is_allowed_the_sequence_ends_unfinished(toy, decode):
    model = toy.Model(6)
    found = decode(model, model.begin(range(3)), max_lengths=20, no_repeat_ngram=1, banned=[toy.EOS], **toy.ends)
    for number, hypothesis in enumerate(found):
        assert sorted(hypothesis.tokens) == [0, 2, 3, 4]
        assert not hypothesis.finished
        assert hypothesis.log_prob == pytest.approx(toy.forced(model, number, hypothesis)[0])
    found = decode(model, model.begin(range(3)), max_lengths=20, banned=range(5), **toy.ends)
    assert [(hypothesis.tokens, hypothesis.log_prob) for hypothesis in found] == [([], 0)] * 3


@every_decoder
def test_a_strong_repetition_penalty_brings_variety(toy, decode):
    model = toy.Model(7, vocab_size=9, end_bias=-50.0)
    rules = {**toy.ends, "max_lengths": 8}
    free = decode(model, model.begin(range(8)), **rules)
    held = decode(model, model.begin(range(8)), repetition_penalty=50.0, **rules)
    assert sum(len(set(h.tokens)) for h in held) > sum(len(set(h.tokens)) for h in free)


@every_decoder
def test_lengths_may_differ_and_the_first_tokens_too(toy, decode):
    model = toy.Model(8, end_bias=-50.0)
    first = torch.tensor([2, 3, 4])
    found = decode(model, model.begin(range(3)), bos_id=first, eos_id=None, max_lengths=torch.tensor([1, 5, 3]))
    assert [len(hypothesis.tokens) for hypothesis in found] == [1, 5, 3]
    assert not any(hypothesis.finished for hypothesis in found)
    logits = model.step(first, model.begin(range(3))).logits.log_softmax(1)
    assert found[0].log_prob == pytest.approx(float(logits[0, found[0].tokens[0]]))


@every_decoder
@pytest.mark.parametrize(
    "rules",
    [
        {"max_lengths": 0},
        {"max_lengths": [3]},
        {"max_lengths": 2.5},
        {"min_length": -1},
        {"min_length": 1, "eos_id": None},
        {"no_repeat_ngram": -1},
        {"repetition_penalty": 0.0},
        {"prefix": [[2]]},
        {"prefix": [[2], [1]]},
        {"prefix": [[2], [-1]]},
        {"prefix": [[2], [2] * 9]},
        {"eos_id": 5},
    ],
    ids=str,
)
def test_rules_that_do_not_fit_are_refused(toy, decode, rules):
    model = toy.Model(9)
    with pytest.raises(ValueError, match=r"\w+"):
        decode(model, model.begin(range(2)), **{**toy.ends, "max_lengths": 4, **rules})


@every_decoder
def test_a_model_in_training_mode_is_refused(toy, decode):
    model = toy.Model(9)
    model.training = True
    with pytest.raises(ValueError, match="eval"):
        decode(model, model.begin(range(2)), max_lengths=4, **toy.ends)
