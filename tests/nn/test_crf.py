"""Conditional random fields against sums over all sequences of tags, in float64."""

import itertools
import math

import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.nn.crf import Constraints, Crf, constraints_of

BIO = ["O", "B-A", "I-A", "B-B", "I-B"]
BIOES = ["O", "B-A", "I-A", "E-A", "S-A", "S-B"]
LENGTHS = torch.tensor([4, 1, 3, 2])
LABELS = {"none": BIO, "io": ["O", "I-A", "I-B"], "bio": BIO, "bioes": BIOES}


def made(scheme, labels=None):
    labels = labels or LABELS[scheme]
    crf = Crf(len(labels), constraints_of(labels, scheme)).double()
    draw = torch.Generator().manual_seed(len(labels))
    for one in crf.parameters():
        torch.nn.init.normal_(one, generator=draw)
    return crf


def batch(crf, lengths=LENGTHS):
    draw = torch.Generator().manual_seed(7)
    return 2 * torch.randn(len(lengths), int(max(lengths)), crf.num_tags, generator=draw, dtype=torch.float64)


def valid(labels, scheme, path):
    """By reading from left to right, unlike the tables."""
    if scheme in ("none", "io"):
        return True
    inside = None  # the type of an entity that goes on, or must go on
    for label in [labels[tag] for tag in path]:
        role, _, kind = label.partition("-")
        if role in ("I", "E"):
            if inside != kind:
                return False
        elif scheme == "bioes" and inside:
            return False
        inside = kind if role in ("B", "I") else None
    return not (scheme == "bioes" and inside)


def paths(crf, scheme, emissions):
    """The scores of all possible sequences of a sentence."""
    start, transitions, end = (one.tolist() for one in (crf.start, crf.transitions, crf.end))
    rows, found = emissions.tolist(), {}
    for path in itertools.product(range(crf.num_tags), repeat=len(rows)):
        if valid(LABELS[scheme], scheme, path):
            score = start[path[0]] + end[path[-1]] + sum(row[tag] for row, tag in zip(rows, path, strict=True))
            found[path] = score + sum(transitions[one][other] for one, other in itertools.pairwise(path))
    return found


@pytest.mark.parametrize("scheme", LABELS)
def test_probabilities_equal_sums_over_all_possible_sequences(scheme):
    crf = made(scheme)
    emissions = batch(crf)
    marginals = crf.marginals(emissions, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        scores = paths(crf, scheme, emissions[row, :length])
        log_z = math.log(sum(map(math.exp, scores.values())))
        for path in itertools.islice(scores, 0, None, max(1, len(scores) // 9)):
            tags = torch.zeros(4, 4, dtype=torch.int64).masked_fill(torch.arange(4) >= LENGTHS[:, None], -100)
            tags[row, :length] = torch.tensor(path)
            found = crf.log_likelihood(emissions, tags, LENGTHS)[row]
            assert found.item() == pytest.approx(scores[path] - log_z, abs=1e-10)
        for place, tag in itertools.product(range(length), range(crf.num_tags)):
            share = sum(math.exp(score - log_z) for path, score in scores.items() if path[place] == tag)
            assert marginals[row, place, tag].item() == pytest.approx(share, abs=1e-12)
        assert not marginals[row, length:].any()


@pytest.mark.parametrize("scheme", LABELS)
def test_the_most_likely_sequence_is_found(scheme):
    crf = made(scheme)
    emissions = batch(crf)
    for row, (length, tags) in enumerate(zip(LENGTHS.tolist(), crf.decode(emissions, LENGTHS), strict=True)):
        scores = paths(crf, scheme, emissions[row, :length])
        assert tuple(tags) == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_only_possible_sequences_are_predicted_however_the_network_wants_others(scheme):
    crf = made(scheme)
    lengths = torch.tensor([1, 2, 5, 9, 30] * 8)
    emissions = 500 * batch(crf, lengths)
    constraints = constraints_of(LABELS[scheme], scheme)
    for path in crf.decode(emissions, lengths):
        assert valid(LABELS[scheme], scheme, path)
        assert constraints.allow(path)
    free = Crf(crf.num_tags).double()
    assert not all(constraints.allow(path) for path in free.decode(emissions, lengths))  # they are wanted


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_what_is_allowed_is_what_can_be_read_from_left_to_right(scheme):
    constraints = constraints_of(LABELS[scheme], scheme)
    seen = set()
    for length in range(4):
        for path in itertools.product(range(len(LABELS[scheme])), repeat=length):
            seen.add(valid(LABELS[scheme], scheme, path))
            assert constraints.allow(path) == valid(LABELS[scheme], scheme, path)
    assert seen == {True, False}


def test_other_names_of_the_same_roles():
    expected = constraints_of(["O", "B-A", "I-A", "E-A", "S-A"], "bioes")
    assert constraints_of(["O", "B-A", "M-A", "E-A", "S-A"], "bioes") == expected
    assert constraints_of(["O", "B-A", "I-A", "L-A", "U-A"], "bioes") == expected
    dashed = constraints_of(["O", "B-A-1", "I-A-1", "B-A-2"], "bio")
    assert (dashed.allow([1, 2]), dashed.allow([3, 2])) == (True, False)


@pytest.mark.parametrize(("label", "scheme"), [("E-A", "bio"), ("B", "bio"), ("A", "bioes"), ("B-A", "io"), ("", "io")])
def test_a_tag_of_another_scheme_is_refused(label, scheme):
    with pytest.raises(SettingError, match=f"the tag '{label}' is not of the scheme {scheme}; expected O, "):
        constraints_of(["O", label], scheme)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scheme", LABELS)
def test_gradients_are_right_and_never_nan(scheme, dtype):
    crf = made(scheme).to(dtype)
    emissions = batch(crf).to(dtype).requires_grad_()
    tags = torch.zeros(4, 4, dtype=torch.int64)  # O
    crf.log_likelihood(emissions, tags, LENGTHS).sum().backward()
    for one in (emissions, *crf.parameters()):
        assert one.grad.isfinite().all()
    marginals = crf.marginals(emissions.detach(), LENGTHS)
    gold = torch.zeros_like(marginals)
    gold[..., 0] = 1
    gold[torch.arange(4) >= LENGTHS[:, None]] = 0
    torch.testing.assert_close(emissions.grad, gold - marginals, atol=1e-5, rtol=1e-5)
    for name in ("start", "transitions", "end"):
        assert not crf.get_parameter(name).grad[crf.get_buffer(f"impossible_{name}")].any()


def test_numerical_gradients():
    crf = made("bio")
    emissions = batch(crf).requires_grad_()
    tags = torch.tensor([[1, 2, 0, 3], [0] * 4, [3, 4, 4, 0], [0, 1, 0, 0]])

    def likelihood(emissions, *parameters):
        names = [name for name, _ in crf.named_parameters()]
        call = (emissions, tags, LENGTHS)
        return torch.func.functional_call(_Call(crf), {f"crf.{n}": p for n, p in zip(names, parameters)}, call)  # noqa: B905

    assert torch.autograd.gradcheck(likelihood, (emissions, *crf.parameters()))


class _Call(torch.nn.Module):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def forward(self, *inputs):
        return self.crf.log_likelihood(*inputs)


def test_an_impossible_sequence_in_the_data_gives_finite_numbers():
    crf = made("bio").float()
    emissions = batch(crf).float().requires_grad_()
    found = crf.log_likelihood(emissions, torch.full((4, 4), 2), LENGTHS)
    assert (found < -1e5).all()
    found.sum().backward()
    assert emissions.grad.isfinite().all()


@pytest.mark.parametrize(("labels", "scheme"), [(["O", "I-A"], "bio"), (["B-A", "E-A"], "bioes")])
def test_tags_that_nothing_leads_to_give_finite_gradients(labels, scheme):
    crf = Crf(2, constraints_of(labels, scheme))
    emissions = batch(crf).float().requires_grad_()
    crf.log_likelihood(emissions, torch.zeros(4, 4, dtype=torch.int64), LENGTHS).sum().backward()
    assert all(one.grad.isfinite().all() for one in (emissions, *crf.parameters()))
    assert crf.marginals(emissions.detach(), LENGTHS).isfinite().all()


def test_where_no_sequence_is_possible_the_least_impossible_is_found():
    crf = Crf(2, constraints_of(["B-A", "E-A"], "bioes"))
    found = crf.decode(torch.zeros(2, 3, 2), torch.tensor([1, 3]))
    assert [len(path) for path in found] == [1, 3]


def test_padding_and_neighbours_change_nothing():
    crf = made("bioes")
    emissions, tags = batch(crf), torch.zeros(4, 4, dtype=torch.int64)
    longer = torch.cat((emissions, emissions.new_full((4, 3, crf.num_tags), 1e4)), 1)
    more = torch.cat((tags, torch.full((4, 3), -100)), 1)
    torch.testing.assert_close(crf.log_likelihood(longer, more, LENGTHS), crf.log_likelihood(emissions, tags, LENGTHS))
    assert crf.decode(longer, LENGTHS) == crf.decode(emissions, LENGTHS)
    torch.testing.assert_close(crf.marginals(longer, LENGTHS)[:, :4], crf.marginals(emissions, LENGTHS))
    for row, length in enumerate(LENGTHS.tolist()):
        alone = emissions[row : row + 1, :length]
        assert crf.decode(alone, LENGTHS[row : row + 1]) == crf.decode(emissions, LENGTHS)[row : row + 1]


@pytest.mark.parametrize("longest", [0, 2])
def test_sentences_without_words(longest):
    crf = made("bio")
    emissions, lengths = torch.ones(2, longest, 5, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    assert crf.decode(emissions, lengths) == [[], []]
    assert not crf.marginals(emissions, lengths).any()
    assert not crf.log_likelihood(emissions, torch.zeros(2, longest, dtype=torch.int64), lengths).any()
    assert crf.decode(emissions[:0], lengths[:0]) == []


def test_it_begins_as_independent_tags():
    crf = Crf(3).double()
    emissions, tags = batch(crf), torch.ones(4, 4, dtype=torch.int64)
    real = torch.arange(4) < LENGTHS[:, None]
    expected = (emissions.log_softmax(-1)[..., 1] * real).sum(1)
    torch.testing.assert_close(crf.log_likelihood(emissions, tags, LENGTHS), expected)
    assert crf.decode(emissions, LENGTHS)[0] == emissions[0].argmax(-1).tolist()


def test_half_precision_of_the_network_is_not_that_of_the_sums():
    crf = made("bio").float()
    emissions, tags = batch(crf).bfloat16(), torch.zeros(4, 4, dtype=torch.int64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = crf.log_likelihood(emissions, tags, LENGTHS)
    assert found.dtype == torch.float32
    assert torch.equal(found, crf.log_likelihood(emissions.float(), tags, LENGTHS))


def test_probabilities_of_a_long_sentence_are_no_more_than_1():
    crf = made("bio").float()
    emissions = 3 * torch.randn(1, 3000, crf.num_tags, generator=torch.Generator().manual_seed(1))
    emissions[..., 0] += 8
    found = crf.marginals(emissions, torch.tensor([3000]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.sum(-1), torch.ones(1, 3000), rtol=0, atol=1e-5)
    expected = made("bio").marginals(emissions.double(), torch.tensor([3000]))
    torch.testing.assert_close(found, expected.float(), rtol=0, atol=1e-5)


def test_a_file_has_the_scores_alone():
    assert {*made("bio").state_dict()} == {"start", "transitions", "end"}
    assert Crf(2, Constraints((True, False), ((True, True), (False, True)), (True, True))).start.shape == (2,)
