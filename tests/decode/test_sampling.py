import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from wenmai.decode.protocol import Step
from wenmai.decode.sampling import draw, nucleus_filter, sample, top_k_filter
from wenmai.decode.search import greedy

LOGITS = st.lists(st.floats(-6, 6) | st.sampled_from([0.0, 1.0, -math.inf]), min_size=1, max_size=12).filter(
    lambda row: max(row) > -math.inf
)


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=60, deadline=None)
@given(LOGITS, st.integers(1, 14))
def test_top_k_keeps_the_k_largest_and_their_ties(row, k):
    kept = (top_k_filter(torch.tensor([row], dtype=torch.float64), k)[0] > -torch.inf).tolist()
    least = sorted(row, reverse=True)[:k][-1]
    assert kept == [value >= least and value > -math.inf for value in row]


@settings(max_examples=100, deadline=None)
@given(LOGITS, st.floats(0.01, 1.0))
def test_the_nucleus_is_the_smallest_set_with_the_mass(row, p):
    filtered = nucleus_filter(torch.tensor([row], dtype=torch.float64), p)
    probabilities = torch.tensor(row, dtype=torch.float64).softmax(0)
    kept = (filtered[0] > -torch.inf).nonzero()[:, 0].tolist()
    order = sorted(range(len(row)), key=lambda token: (-float(probabilities[token]), token))
    assert set(kept) == set(order[: len(kept)])
    mass = float(probabilities[kept].sum())
    assert mass >= p - 1e-12
    if p < 1:
        assert mass - float(probabilities[order[len(kept) - 1]]) < p + 1e-12
    assert float(filtered.softmax(1).sum()) == pytest.approx(1)
    assert filtered[0, kept].tolist() == [row[token] for token in kept]


@pytest.mark.parametrize(
    ("p", "expected"), [(0.5, [1]), (0.51, [1, 3]), (0.75, [1, 3]), (0.8, [0, 1, 3]), (1.0, [0, 1, 2, 3])]
)
def test_the_token_that_crosses_the_mass_is_in_the_nucleus(p, expected):
    logits = torch.tensor([[0.125, 0.5, 0.125, 0.25]]).log()
    assert (nucleus_filter(logits, p)[0] > -torch.inf).nonzero()[:, 0].tolist() == expected


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 5.0])
def test_a_large_vocabulary_has_the_same_nucleus_as_a_sort(scale):
    logits = scale * torch.randn(3, 3000, generator=generator())
    probabilities, ids = logits.softmax(1, dtype=torch.float64).sort(dim=1, descending=True, stable=True)
    kept = nucleus_filter(logits, 0.9) > -torch.inf
    for row in range(3):
        size = int((probabilities[row].cumsum(0) < 0.9).sum()) + 1
        assert set(kept[row].nonzero()[:, 0].tolist()) == set(ids[row, :size].tolist())


def chi_square(counts, probabilities):
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_have_the_frequencies_of_the_probabilities():
    probabilities = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64)
    tokens = draw(probabilities.log().expand(20000, -1), generator())
    assert chi_square(tokens.bincount(minlength=5), probabilities) < 18.5  # 0.1 % level, 4 degrees of freedom


def test_what_is_impossible_is_never_drawn():
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, -5.0]).expand(5000, -1)
    assert set(draw(logits, generator()).tolist()) == {1, 3}


@pytest.mark.parametrize(
    ("filters", "kept"),
    [({}, [0, 1, 2, 3]), ({"top_k": 2}, [1, 3]), ({"top_p": 0.9}, [0, 1, 3]), ({"temperature": 0.5}, [0, 1, 2, 3])],
)
def test_sampled_sequences_have_the_frequencies_of_the_filtered_distribution(filters, kept):
    logits = torch.tensor([0.0, 1.5, -0.5, 1.0])

    class Fixed:
        def step(self, tokens, state):
            return Step(logits.expand(len(tokens), -1))

    class State:
        batch_size = 4000

        def select(self, rows):
            raise AssertionError("no row finishes before the others")

    found = sample(Fixed(), State(), bos_id=0, eos_id=None, max_lengths=3, generator=generator(), **filters)
    probabilities = torch.zeros(4, dtype=torch.float64)
    probabilities[kept] = (logits[kept].double() / filters.get("temperature", 1)).softmax(0)
    pairs = probabilities[:, None] * probabilities  # of the second and third token
    counts = torch.zeros(4, 4)
    for hypothesis in found:
        counts[hypothesis.tokens[1], hypothesis.tokens[2]] += 1
        own = sum(float(logits.log_softmax(0)[token]) for token in hypothesis.tokens)
        assert hypothesis.log_prob == pytest.approx(own, abs=1e-5)
    possible = pairs > 0
    assert not counts[~possible].any()
    assert chi_square(counts[possible], pairs[possible]) < 37.7  # 0.1 % level, 15 degrees of freedom at most


@pytest.mark.parametrize(
    "filters", [{"top_k": 1}, {"temperature": 0.0}, {"temperature": 1e-6}, {"top_p": 1e-6}], ids=str
)
def test_sampling_without_a_choice_is_greedy(toy, filters):
    model = toy.Model(4)
    found = sample(model, model.begin(range(10)), max_lengths=9, generator=generator(), **toy.ends, **filters)
    assert toy.plain(found) == toy.plain(greedy(model, model.begin(range(10)), max_lengths=9, **toy.ends))


def test_the_seed_decides(toy):
    model = toy.Model(4)

    def run(seed):
        return toy.plain(sample(model, model.begin(range(10)), max_lengths=9, generator=generator(seed), **toy.ends))

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_samples_report_the_probability_of_the_model(toy):
    model = toy.Model(6)
    rules = {**toy.ends, "max_lengths": 9, "temperature": 3.0, "top_k": 3}
    for number, found in enumerate(sample(model, model.begin(range(8)), generator=generator(), **rules)):
        total, attention = toy.forced(model, number, found)
        assert found.log_prob == found.score == pytest.approx(total)
        assert attention is None or torch.allclose(found.attention, attention)


def test_whoever_watches_sees_the_tokens_of_the_sequences_alone(toy):
    model, seen = toy.Model(4), [[] for _ in range(10)]

    def watch(sentences, tokens):
        for sentence, token in zip(sentences.tolist(), tokens.tolist(), strict=True):
            seen[sentence].append(token)

    rules = {**toy.ends, "max_lengths": 9, "no_repeat_ngram": 1, "banned": [toy.ends["eos_id"]]}
    found = sample(model, model.begin(range(10)), generator=generator(), watch=watch, **rules)
    assert [one.tokens for one in found] == seen  # all end where every token was there already
    assert {len(tokens) for tokens in seen} == {4}


@pytest.mark.parametrize(
    "filters",
    [
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"temperature": 0.0, "top_k": 3},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
    ],
    ids=str,
)
def test_settings_without_a_meaning_are_refused(toy, filters):
    model = toy.Model(1)
    with pytest.raises(ValueError, match=r"temperature|top_"):
        sample(model, model.begin([0]), max_lengths=3, generator=generator(), **toy.ends, **filters)


def test_of_equal_tokens_at_the_edge_of_what_is_sorted_first_the_lower_numbers_stay():
    logits = torch.zeros(1, 400)  # a nucleus of 256 ends where the head does
    kept = nucleus_filter(logits, 256 / 400).isfinite()[0]
    assert kept.nonzero()[:, 0].tolist() == list(range(int(kept.sum())))
    assert 255 <= int(kept.sum()) <= 257
