import itertools
import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from wenmai.decode.protocol import Step
from wenmai.decode.search import beam_search, exhaustive, greedy

SEEDS = st.integers(0, 10**6)
PENALTIES = [("none", 0.0), ("mean", 1.0), ("gnmt", 0.6), ("reward", 0.8)]


# --- greedy -------------------------------------------------------------------------------------------------------


def test_greedy_takes_the_most_likely_token_at_every_step(toy):
    model = toy.Model(1)
    for number, found in enumerate(greedy(model, model.begin(range(8)), max_lengths=10, **toy.ends)):
        state, token, expected = model.begin([number]), toy.BOS, []
        while token != toy.EOS and len(expected) < 10:
            token = int(model.step(torch.tensor([token]), state).logits.argmax())
            expected.append(token)
        assert found.tokens + [toy.EOS] * found.finished == expected


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_scores_are_the_log_probabilities_of_the_tokens(toy, seed):
    model = toy.Model(seed)
    for number, found in enumerate(greedy(model, model.begin(range(6)), max_lengths=7, **toy.ends)):
        total, attention = toy.forced(model, number, found)
        assert found.log_prob == found.score == pytest.approx(total)
        assert attention is None or torch.allclose(found.attention, attention)
        assert len(found.attention) == len(found.tokens)


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.permutations(range(10)))
def test_a_sentence_does_not_depend_on_its_batch(toy, seed, order):
    model = toy.Model(seed)
    limits = torch.arange(3, 13)
    together = greedy(model, model.begin(range(10)), max_lengths=limits, **toy.ends)
    permuted = greedy(model, model.begin(order), max_lengths=limits[torch.tensor(order)], **toy.ends)
    assert toy.plain(permuted) == toy.plain([together[number] for number in order])
    for number in range(10):
        alone = greedy(model, model.begin([number]), max_lengths=3 + number, **toy.ends)
        assert toy.plain(alone) == toy.plain([together[number]])


def test_finished_rows_leave_the_batch(toy):
    model = toy.Model(5)
    state = model.begin(range(12))
    found = greedy(model, state, max_lengths=30, **toy.ends)
    lengths = sorted(len(hypothesis.tokens) + hypothesis.finished for hypothesis in found)
    assert len(model.calls) == lengths[-1]
    assert sum(model.calls) < 12 * lengths[-1]
    assert state.selected == sorted(state.selected, reverse=True)


# --- beam ---------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([-2.0, 0.0, 2.0]))
def test_a_beam_of_one_is_greedy(toy, seed, end_bias):
    model = toy.Model(seed, end_bias=end_bias)
    beam = beam_search(model, model.begin(range(6)), max_lengths=8, beam_size=1, **toy.ends)
    assert toy.plain([found[0] for found in beam]) == toy.plain(
        greedy(model, model.begin(range(6)), max_lengths=8, **toy.ends)
    )


def every_sequence(toy, model, number, limit):
    """All complete sequences of a toy model up to a length, with their log-probabilities, by plain enumeration."""
    words = [token for token in range(model.vocab_size) if token != toy.EOS]
    for length in range(limit):
        for tokens in itertools.product(words, repeat=length):
            state, total = model.begin([number]), 0.0
            for token, target in zip([toy.BOS, *tokens], [*tokens, toy.EOS], strict=True):
                total += float(model.step(torch.tensor([token]), state).logits.log_softmax(1)[0, target])
            yield list(tokens), total


@pytest.mark.parametrize("seed", range(3))
def test_exhaustive_search_sees_every_sequence(toy, seed):
    model = toy.Model(seed, vocab_size=3)
    found = exhaustive(model, model.begin(range(2)), max_lengths=4, n_best=99, **toy.ends)
    for number in range(2):
        expected = sorted(every_sequence(toy, model, number, 4), key=lambda pair: -pair[1])
        assert [hypothesis.tokens for hypothesis in found[number]] == [tokens for tokens, _ in expected]
        assert [hypothesis.score for hypothesis in found[number]] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("stop", ["finished", "bound", "limit"])
@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_a_beam_as_wide_as_the_space_is_exhaustive(toy, seed, kind, alpha, stop):
    model = toy.Model(seed, vocab_size=4)
    rules = {**toy.ends, "max_lengths": 4, "length_penalty": kind, "alpha": alpha, "coverage_beta": 0.3, "n_best": 5}
    rules["source_mask"] = model.begin(range(3)).mask
    truth = exhaustive(model, model.begin(range(3)), **rules)
    beam = beam_search(model, model.begin(range(3)), beam_size=4**4, stop=stop, **rules)
    for left, right in zip(truth, beam, strict=True):
        assert toy.same(left, right)
        for a, b in zip(left, right, strict=True):
            assert torch.allclose(a.attention, b.attention)


@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
def test_an_exhaustive_search_keeps_what_cannot_go_on(toy, kind, alpha):
    model = toy.Model(4, vocab_size=4)
    rules = {**toy.ends, "max_lengths": 6, "no_repeat_ngram": 1, "banned": [toy.EOS]}
    rules |= {"length_penalty": kind, "alpha": alpha, "n_best": 6}
    truth = exhaustive(model, model.begin(range(3)), **rules)
    beam = beam_search(model, model.begin(range(3)), beam_size=4**4, **rules)
    for left, right in zip(truth, beam, strict=True):
        assert len(left) == 6  # every order of the three tokens, none of which may come twice
        assert toy.same(left, right)
        for a, b in zip(left, right, strict=True):
            assert torch.allclose(a.attention, b.attention)


@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
@pytest.mark.parametrize("n_best", [1, 3])
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_stopping_at_the_bound_loses_nothing(toy, seed, n_best, kind, alpha):
    model = toy.Model(seed, end_bias=1.0)
    rules = {**toy.ends, "max_lengths": 12, "beam_size": 3, "n_best": n_best, "length_penalty": kind, "alpha": alpha}
    steps = {}
    results = {}
    for stop in ("limit", "bound", *(["best"] if kind == "none" else [])):
        model.calls.clear()
        results[stop] = beam_search(model, model.begin(range(4)), stop=stop, **rules)
        steps[stop] = len(model.calls)
    for stop, found in results.items():
        assert [toy.plain(sentence) for sentence in found] == [toy.plain(sentence) for sentence in results["limit"]]
        assert steps[stop] <= steps["limit"]


def test_the_bound_stops_before_the_limit(toy):
    model = toy.Model(3, end_bias=3.0)
    beam_search(model, model.begin(range(4)), max_lengths=500, beam_size=3, stop="bound", **toy.ends)
    assert len(model.calls) < 50


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.integers(2, 4), st.sampled_from(PENALTIES))
def test_beams_hold_what_they_claim(toy, seed, beam_size, penalty):
    model = toy.Model(seed, vocab_size=7)
    kind, alpha = penalty
    rules = {**toy.ends, "length_penalty": kind, "alpha": alpha}
    found = beam_search(model, model.begin(range(5)), max_lengths=6, beam_size=beam_size, n_best=beam_size, **rules)
    for number, hypotheses in enumerate(found):
        assert 1 <= len(hypotheses) <= beam_size
        assert len({(tuple(h.tokens), h.finished) for h in hypotheses}) == len(hypotheses)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({h.finished for h in hypotheses}) == 1
        for hypothesis in hypotheses:
            total, attention = toy.forced(model, number, hypothesis)
            length = len(hypothesis.tokens) + hypothesis.finished
            assert length <= 6
            assert hypothesis.log_prob == pytest.approx(total)
            assert attention is None or torch.allclose(hypothesis.attention, attention)
            divisor = {"none": 1, "mean": length**alpha, "gnmt": ((5 + length) / 6) ** alpha, "reward": 1}[kind]
            reward = alpha * length if kind == "reward" else 0
            assert hypothesis.score == pytest.approx(total / divisor + reward)


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.permutations(range(7)), st.sampled_from(["finished", "bound"]))
def test_a_beam_does_not_depend_on_its_batch(toy, seed, order, stop):
    model = toy.Model(seed)
    limits = torch.tensor([2, 9, 4, 7, 8, 3, 6])
    mask = model.begin(range(7)).mask
    rules = {**toy.ends, "beam_size": 3, "n_best": 3, "length_penalty": "gnmt", "coverage_beta": 0.2, "stop": stop}
    together = beam_search(model, model.begin(range(7)), max_lengths=limits, source_mask=mask, **rules)
    places = torch.tensor(order)
    permuted = beam_search(model, model.begin(order), max_lengths=limits[places], source_mask=mask[places], **rules)
    assert [toy.plain(found) for found in permuted] == [toy.plain(together[number]) for number in order]
    for number in range(7):
        alone = beam_search(
            model, model.begin([number]), max_lengths=int(limits[number]), source_mask=mask[[number]], **rules
        )
        assert toy.plain(alone[0]) == toy.plain(together[number])


def test_forced_and_free_sentences_share_a_batch(toy):
    model = toy.Model(11)
    prefixes = [[2, 3, 4], [3], [], [4, 4]]
    rules = {**toy.ends, "max_lengths": 7, "beam_size": 3, "n_best": 3}
    together = beam_search(model, model.begin(range(4)), prefix=prefixes, **rules)
    for number, prefix in enumerate(prefixes):
        alone = beam_search(model, model.begin([number]), prefix=[prefix], **rules)
        assert toy.plain(alone[0]) == toy.plain(together[number])
        truth = exhaustive(model, model.begin([number]), max_lengths=5, prefix=[prefix], **toy.ends)[0][0]
        wide = beam_search(model, model.begin([number]), max_lengths=5, prefix=[prefix], beam_size=900, **toy.ends)[0]
        assert toy.same([truth], wide)


class Uniform:
    """Every token is equally likely; remembers nothing but how many rows it has."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def begin(self, batch_size):
        return UniformState(batch_size)

    def step(self, tokens, state):
        return Step(torch.zeros(state.batch_size, self.vocab_size))


class UniformState:
    def __init__(self, batch_size):
        self.batch_size = batch_size

    def select(self, rows):
        self.batch_size = len(rows)


def test_ties_go_to_the_lower_beam_and_the_lower_token():
    model = Uniform(2000)
    found = beam_search(model, model.begin(2), bos_id=0, eos_id=1999, max_lengths=3, beam_size=3, n_best=3)
    for hypotheses in found:
        assert [hypothesis.tokens for hypothesis in hypotheses] == [[0, 0, 0], [0, 0, 1], [0, 0, 2]]
        assert all(h.attention is None and not h.finished for h in hypotheses)
        assert hypotheses[0].log_prob == pytest.approx(-3 * math.log(2000))


def test_an_ended_sequence_counts_only_among_the_first_k():
    probabilities = torch.tensor([[0.1, 0.3, 0.6]])

    class Fixed(Uniform):
        def step(self, tokens, state):
            return Step(probabilities.log().expand(state.batch_size, -1))

    found = beam_search(Fixed(3), UniformState(1), bos_id=0, eos_id=1, max_lengths=4, beam_size=1, stop="limit")
    assert found[0][0].tokens == [2, 2, 2, 2]
    assert not found[0][0].finished
    found = beam_search(Fixed(3), UniformState(1), bos_id=0, eos_id=1, max_lengths=4, beam_size=2)
    assert found[0][0].tokens == []
    assert found[0][0].log_prob == pytest.approx(math.log(0.3))


def test_sentences_leave_the_beam_when_they_are_done(toy):
    model = toy.Model(2)
    state = model.begin(range(6))
    beam_search(model, state, max_lengths=torch.tensor([1, 2, 3, 4, 5, 20]), beam_size=2, **toy.ends)
    assert model.calls[0] == 6
    assert model.calls[1] <= 10
    assert model.calls[-1] <= 4


def test_coverage_prefers_what_reads_the_whole_source():
    class Reader(Uniform):
        """Token 2 attends to the first half of the source, token 3 to the second; 2 is a little likelier."""

        def step(self, tokens, state):
            attention = torch.tensor([[0.0, 1.0] if token == 3 else [1.0, 0.0] for token in tokens.tolist()])
            logits = torch.tensor([-9.0, 0.0, 0.3, 0.0]).expand(state.batch_size, -1)
            return Step(logits, attention)

    rules = {"bos_id": 0, "eos_id": 1, "max_lengths": 4, "min_length": 3, "beam_size": 32, "stop": "limit"}
    blind = beam_search(Reader(4), UniformState(1), **rules)[0][0]
    covering = beam_search(Reader(4), UniformState(1), coverage_beta=1.0, **rules)[0][0]
    assert blind.tokens == [2, 2, 2]
    assert 3 in covering.tokens
    assert covering.score == pytest.approx(covering.log_prob)  # all is covered, so nothing is taken off


def test_half_precision_logits_are_summed_in_full():
    class Half(Uniform):
        def step(self, tokens, state):
            return Step(torch.zeros(state.batch_size, self.vocab_size, dtype=torch.bfloat16))

    found = greedy(Half(1000), UniformState(1), bos_id=0, eos_id=None, max_lengths=50)
    assert found[0].log_prob == pytest.approx(-50 * math.log(1000), rel=1e-6)


@pytest.mark.parametrize(
    "settings_",
    [
        {"beam_size": 0},
        {"beam_size": 2, "n_best": 3},
        {"beam_size": 2, "n_best": 0},
        {"beam_size": 2, "stop": "soon"},
        {"beam_size": 2, "stop": "best", "length_penalty": "gnmt"},
        {"beam_size": 2, "stop": "best", "coverage_beta": 0.2},
        {"beam_size": 2, "length_penalty": "cubic"},
        {"beam_size": 2, "coverage_beta": 0.2},
    ],
    ids=str,
)
def test_searches_that_make_no_sense_are_refused(settings_):
    with pytest.raises(ValueError, match=r"must|valid|needs"):
        beam_search(Uniform(5), UniformState(1), bos_id=0, eos_id=1, max_lengths=3, **settings_)


def test_an_exhaustive_search_refuses_what_it_cannot_hold():
    with pytest.raises(ValueError, match="too many"):
        exhaustive(Uniform(2000), UniformState(1), bos_id=0, eos_id=1, max_lengths=3)


def test_a_common_prefix_costs_one_row_for_each_sentence(toy):
    model = toy.Model(2, end_bias=-9.0)
    beam_search(model, model.begin(range(2)), max_lengths=5, prefix=[[2, 3], [4, 2, 3]], beam_size=3, **toy.ends)
    assert model.calls == [2, 2, 2, 6, 6]
