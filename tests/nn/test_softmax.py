"""Output layers: probabilities from the definition, parts that add up to the loss, and what is shared."""

import pytest
import torch
from torch import nn

from wenmai.nn.softmax import AdaptiveEmbedding, AdaptiveSoftmax, Softmax
from wenmai.objectives.language import next_token_loss

V, SIZE, CUTOFFS = 12, 6, (4, 7)
EDGES = [(0, 4), (4, 7), (7, 12)]
VARIANTS = {
    "one table": {"embedding_size": SIZE},
    "one narrow table": {"embedding_size": 4},
    "tables": {"embedding_size": SIZE, "div_value": 2},
}


@pytest.fixture(params=VARIANTS)
def embedding(request):
    torch.manual_seed(1)
    return AdaptiveEmbedding(V, SIZE, cutoffs=CUTOFFS, **VARIANTS[request.param])


@pytest.fixture(params=[True, False], ids=["tied projections", "own projections"])
def output(request, embedding):
    output = AdaptiveSoftmax(embedding, tied_projections=request.param)
    for parameter in (*embedding.parameters(), *output.parameters()):
        nn.init.normal_(parameter, std=0.5)
    return output


def embedded(embedding, token):
    number = next(number for number, (low, high) in enumerate(EDGES) if low <= token < high)
    row = embedding.table(number)[token - EDGES[number][0]]
    projection = embedding.projection(number)
    return row if projection is None else projection @ row


def narrowed(output, embedding, hidden, number):
    """The hidden state in the columns of a cluster: by the output's own projection, or the embedding's."""
    own = output.projections
    projection = own[number] if number < len(own) else embedding.projection(number)
    return hidden if projection is None else projection.T @ hidden


def log_prob(output, embedding, hidden, token):
    """log p_head(w), or log p_head(cluster) + log p_cluster(w)."""
    head = [row @ narrowed(output, embedding, hidden, 0) for row in embedding.table(0)]
    head = torch.stack(head) + output.bias[:4]
    clusters = output.cluster_weight @ narrowed(output, embedding, hidden, 0) + output.cluster_bias
    first = torch.cat((head, clusters)).log_softmax(0)
    if token < 4:
        return first[token]
    number = 1 if token < 7 else 2
    low, high = EDGES[number]
    logits = embedding.table(number) @ narrowed(output, embedding, hidden, number) + output.bias[low:high]
    return first[4 + number - 1] + logits.log_softmax(0)[token - low]


def test_an_embedding_is_a_row_projected(embedding):
    tokens = torch.tensor([[0, 3, 4], [11, 6, 7]])
    found = embedding(tokens)
    assert found.shape == (2, 3, SIZE)
    for place in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)):
        torch.testing.assert_close(found[place], embedded(embedding, int(tokens[place])))


def test_every_probability_is_that_of_the_definition(output, embedding):
    hidden = torch.randn(3, SIZE)
    found = output.log_probs(hidden)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(3))
    for row in range(3):
        for token in range(V):
            torch.testing.assert_close(found[row, token], log_prob(output, embedding, hidden[row], token))


@pytest.mark.parametrize("targets", [[0, 11, 5, 5, 8], [1, 2, 3, 0, 1], [9, 9, 9, 9, 9]])
def test_the_loss_is_that_of_the_probabilities_with_its_gradients(output, embedding, targets):
    hidden, targets = torch.randn(5, SIZE, requires_grad=True), torch.tensor(targets)
    parameters = [hidden, *embedding.parameters(), *output.parameters()]
    loss = next_token_loss(output, hidden, targets)
    expected = -output.log_probs(hidden)[torch.arange(5), targets]
    torch.testing.assert_close(loss.total.float(), expected.sum())
    torch.testing.assert_close(output.target_log_probs(hidden, targets), -expected)
    assert loss.targets == 5
    found = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    wanted = torch.autograd.grad(expected.sum(), parameters, allow_unused=True)
    for one, other in zip(found, wanted, strict=True):
        if one is None or other is None:  # a cluster without a target, or what only the embedding uses
            assert all(gradient is None or not gradient.any() for gradient in (one, other))
        else:
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_clusters_are_narrower_the_rarer_the_words():
    with torch.device("meta"):
        embedding = AdaptiveEmbedding(
            267_735, 1024, embedding_size=1024, cutoffs=(20_000, 40_000, 200_000), div_value=4
        )
    assert [tuple(table.shape) for table in embedding.tables] == [
        (20_000, 1024),
        (20_000, 256),
        (160_000, 64),
        (67_735, 16),
    ]
    assert [projection.shape[1] for projection in embedding.projections] == [1024, 256, 64, 16]


def test_what_is_shared_has_one_name(output, embedding):
    shared = {id(parameter) for parameter in embedding.parameters()}
    assert not shared & {id(parameter) for parameter in output.parameters()}
    assert {name.split(".")[0] for name, _ in output.named_parameters()} <= {
        "bias",
        "cluster_weight",
        "cluster_bias",
        "projections",
    }


def test_clusters_that_do_not_fit_are_refused():
    for cutoffs in ((4, 4), (0, 3), (4, 12)):
        with pytest.raises(ValueError, match="do not rise"):
            AdaptiveEmbedding(V, SIZE, embedding_size=SIZE, cutoffs=cutoffs)
    with pytest.raises(ValueError, match="no column"):
        AdaptiveEmbedding(V, SIZE, embedding_size=SIZE, cutoffs=CUTOFFS, div_value=3)


@pytest.mark.parametrize("bias", [True, False])
def test_a_tied_softmax_follows_its_embedding(bias):
    table = nn.Embedding(V, SIZE)
    output = Softmax(V, SIZE, bias=bias, tied_to=table)
    assert output.weight is table.weight
    assert len(list(output.parameters())) == bias
    hidden, targets = torch.randn(3, SIZE), torch.tensor([1, 11, 0])
    next_token_loss(output, hidden, targets).total.backward()
    assert table.weight.grad.any()
    table.weight = nn.Parameter(torch.randn(V, SIZE))
    expected = (hidden @ table.weight.T).log_softmax(1)
    torch.testing.assert_close(output.log_probs(hidden), expected)
    torch.testing.assert_close(output.target_log_probs(hidden, targets), expected[range(3), targets])


def test_probabilities_of_many_targets_come_in_pieces(monkeypatch):
    monkeypatch.setattr("wenmai.nn.softmax._CHUNK_NUMBERS", 3 * V)
    output, hidden, targets = Softmax(V, SIZE), torch.randn(10, SIZE), torch.randint(0, V, (10,))
    expected = output.log_probs(hidden)[range(10), targets]
    torch.testing.assert_close(output.target_log_probs(hidden, targets), expected)
    assert output.target_log_probs(hidden[:0], targets[:0]).shape == (0,)
