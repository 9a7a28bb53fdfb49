"""Heads against their equations, and the mix of layers that they may read."""

import numpy as np
import pytest
import torch

from wenmai.nn.heads import ChoiceHead, ClassificationHead, SpanHead, TokenHead, choice_log_probabilities
from wenmai.nn.scalar_mix import ScalarMix

ROWS, TOKENS, WIDTH = 3, 5, 8


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def made(kind, *sizes, **options):
    torch.manual_seed(1)
    head = kind(WIDTH, *sizes, **options).double()
    for one in head.parameters():
        if one.dim() == 1:
            torch.nn.init.normal_(one)  # zeros would hide biases that are not added
    return head


def affine(layer, x):
    return x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def test_labels_come_from_the_vector_of_the_text():
    vectors = numbers(ROWS, WIDTH)
    head = made(ClassificationHead, 4).eval()
    assert head(vectors).detach().numpy() == pytest.approx(affine(head.output, vectors))
    deep = made(ClassificationHead, 4, dense=True).eval()
    hidden = torch.from_numpy(np.tanh(affine(deep.dense, vectors)))
    assert deep(vectors).detach().numpy() == pytest.approx(affine(deep.output, hidden))


def test_tags_come_from_the_states_of_chosen_tokens():
    hidden, head = numbers(ROWS, TOKENS, WIDTH), made(TokenHead, 4).eval()
    everywhere = head(hidden)
    assert everywhere.detach().numpy() == pytest.approx(affine(head.output, hidden))
    places = torch.tensor([[0, 2], [4, 4], [1, 3]])
    for row, chosen in enumerate(places.tolist()):
        torch.testing.assert_close(head(hidden, places)[row], everywhere[row, chosen])


def test_an_answer_begins_and_ends_only_where_it_may():
    hidden, head = numbers(ROWS, TOKENS, WIDTH), made(SpanHead).eval()
    free, expected = head(hidden), affine(head.output, hidden)
    assert free.start.detach().numpy() == pytest.approx(expected[..., 0])
    assert free.end.detach().numpy() == pytest.approx(expected[..., 1])
    allowed = torch.tensor([[0, 1, 1, 1, 0]] * ROWS).bool()
    for one, unbound in zip(head(hidden, allowed), free, strict=True):
        shares = one.softmax(-1)
        assert not shares[~allowed].any()
        torch.testing.assert_close(shares[allowed].view(ROWS, 3), unbound[:, 1:4].softmax(-1))
        head.zero_grad()
        torch.nn.functional.cross_entropy(one, torch.tensor([1, 2, 3])).backward(retain_graph=True)
        assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_choices_of_one_question_compete_however_many_they_are():
    vectors, head = numbers(9, WIDTH), made(ChoiceHead).eval()
    scores = head(vectors)
    assert scores.detach().numpy() == pytest.approx(affine(head.score.output, vectors)[:, 0])
    found = choice_log_probabilities(scores, [4, 2, 3])
    assert found.shape == (3, 4)
    for row, (start, end) in enumerate(((0, 4), (4, 6), (6, 9))):
        torch.testing.assert_close(found[row, : end - start], scores[start:end].log_softmax(0))
        assert (found[row, end - start :] == -torch.inf).all()
    torch.nn.functional.nll_loss(found, torch.tensor([3, 1, 0])).backward()
    assert head.score.output.weight.grad.isfinite().all()


@pytest.mark.parametrize(("kind", "sizes"), [(ClassificationHead, (4,)), (TokenHead, (4,)), (SpanHead, ())])
def test_dropout_is_for_training_alone(kind, sizes):
    hidden = numbers(ROWS, TOKENS, WIDTH)
    head = made(kind, *sizes, dropout=0.5)
    one, other = (torch.stack([*head(hidden)]) for _ in range(2))
    assert not torch.equal(one, other)
    head.eval()
    assert torch.equal(torch.stack([*head(hidden)]), torch.stack([*head(hidden)]))


def test_weights_begin_as_those_of_bert():
    torch.manual_seed(1)
    head = ClassificationHead(400, 300, dense=True)
    for layer in (head.dense, head.output):
        assert not layer.bias.any()
        assert layer.weight.detach().std().item() == pytest.approx(0.02 * 0.88, rel=0.02)  # of a normal cut at 2σ
        assert layer.weight.detach().abs().max().item() <= 0.04


@pytest.mark.parametrize("layer_norm", [False, True])
def test_layers_are_mixed_from_a_list_as_from_one_tensor(layer_norm):
    mix = ScalarMix(3, layer_norm=layer_norm).double()
    torch.nn.init.normal_(mix.weights)
    layers, mask = numbers(3, ROWS, TOKENS, WIDTH), torch.arange(TOKENS) < torch.tensor([5, 2, 1])[:, None]
    mixed = mix(list(layers), mask)
    assert torch.equal(mixed, mix(layers, mask))
    shares = np.exp(mix.weights.detach().numpy())
    plain = layers.numpy()
    if layer_norm:
        real = [one[mask.numpy()] for one in plain]
        plain = np.stack([(one - r.mean()) / r.std() for one, r in zip(plain, real, strict=True)])
    assert mixed.detach().numpy() == pytest.approx(np.tensordot(shares / shares.sum(), plain, 1))
