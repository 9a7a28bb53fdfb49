"""The NNLM against its equations, its counts of parameters and its worked case."""

import math

import pytest
import torch

from wenmai.models.nnlm import Nnlm, NnlmConfig
from wenmai.objectives.language import next_token_loss

V, BOS = 7, 3
SHAPES = {
    "plain": {"order": 4, "embedding_size": 3, "hidden_size": 5},
    "direct": {"order": 4, "embedding_size": 3, "hidden_size": 5, "direct": True},
    "no hidden units": {"order": 3, "embedding_size": 2, "hidden_size": 0, "direct": True},
}


def make(vocab_size=V, **settings):
    return Nnlm(NnlmConfig(**settings), vocab_size=vocab_size, bos_id=BOS % vocab_size)


@pytest.fixture(params=SHAPES)
def model(request):
    torch.manual_seed(1)
    model = make(**SHAPES[request.param]).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


def probabilities(model, context):
    """P(· | context), context the most recent word first: y = b + W x + U tanh(d + H x), one number at a time."""
    config = model.config
    x = [model.embedding.weight[word, column] for word in context for column in range(config.embedding_size)]
    inputs = []
    if config.hidden_size:
        h, d = model.hidden.weight, model.hidden.bias
        inputs = [torch.tanh(d[i] + sum(h[i, j] * x[j] for j in range(len(x)))) for i in range(config.hidden_size)]
    inputs += x if config.direct else []
    y = [
        model.output.bias[word] + sum(model.output.weight[word, j] * inputs[j] for j in range(len(inputs)))
        for word in range(V)
    ]
    powers = torch.stack(y).exp()
    return powers / powers.sum()


def test_every_probability_is_that_of_the_equation(model):
    tokens = torch.tensor([[1, 4, 4, 0, 6], [5, 5, 5, 5, 2]])
    found = model(tokens)
    for row, sentence in enumerate(tokens.tolist()):
        for place in range(5):
            before = sentence[: place + 1][::-1] + [BOS] * 4
            expected = probabilities(model, before[: model.config.order - 1])
            logits = found[row, place] @ model.output.weight.T + model.output.bias
            torch.testing.assert_close(logits.softmax(-1), expected)


def test_gradients_are_those_of_differences(model):
    """With a word that occurs twice in a context."""
    tokens, targets = torch.tensor([[2, 2, 5, 2]]), torch.tensor([1, 2, 0, 6])
    parameters = list(model.parameters())

    def loss(*values):
        return next_token_loss(model.output, model(tokens).flatten(0, 1), targets).total

    assert torch.autograd.gradcheck(loss, parameters, rtol=1e-6)


def test_the_gradient_of_b_is_the_probabilities_less_the_target(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "output.bias":
                parameter.zero_()
    loss = next_token_loss(model.output, model(torch.tensor([[1]]))[0], torch.tensor([4]))
    loss.total.backward()
    expected = model.output.bias.detach().softmax(0)
    torch.testing.assert_close(model.output.log_probs(model(torch.tensor([[6]]))[0])[0].exp().double(), expected)
    expected[4] -= 1
    torch.testing.assert_close(model.output.bias.grad, expected)


@pytest.mark.parametrize(
    ("vocab_size", "settings", "count"),
    [
        (17_964, {"order": 6, "embedding_size": 100, "hidden_size": 60, "direct": True}, 11_904_264),
        (16_383, {"order": 5, "embedding_size": 30, "hidden_size": 100}, 2_158_273),
    ],
)
def test_the_number_of_parameters(vocab_size, settings, count):
    """V(1 + nm + h) + h(1 + (n-1)m), without direct connections V(1 + m + h) + h(1 + (n-1)m)."""
    with torch.device("meta"):
        model = make(vocab_size, **settings)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_the_worked_case():
    """V=3, m=1, n=2, h=1; C=(1, 2, 3), H=0.5, U=(1, 0, -1), no biases: after the word 1."""
    model = make(3, order=2, embedding_size=1, hidden_size=1)
    with torch.no_grad():
        model.embedding.weight.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
        model.hidden.weight.fill_(0.5)
        model.hidden.bias.zero_()
        model.output.matrix.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
        hidden = model(torch.tensor([[1]]))
        assert float(hidden) == pytest.approx(0.761594, abs=1e-6)
        found = model.output.log_probs(hidden[0]).exp()[0]
    assert found.tolist() == pytest.approx([0.593494, 0.277115, 0.129391], abs=1e-6)


def test_the_order_of_a_context_matters_unless_words_look_alike():
    torch.manual_seed(2)
    model = make(order=3, embedding_size=2, hidden_size=0, direct=True)
    first, second = torch.tensor([[1, 5]]), torch.tensor([[5, 1]])
    assert not torch.allclose(model.output(model(first)[:, -1]), model.output(model(second)[:, -1]), atol=1e-4)
    with torch.no_grad():
        model.output.matrix[:, :2] = model.output.matrix[:, 2:]  # equal blocks of W
        torch.testing.assert_close(model.output(model(first)[:, -1]), model.output(model(second)[:, -1]))
        model.output.matrix.normal_()
        model.embedding.weight.fill_(0.3)
        torch.testing.assert_close(model(first), model(second))


def test_the_state_is_what_the_next_context_needs():
    model = make(order=4, embedding_size=3, hidden_size=5)
    state = model.start(2)
    assert state.tokens.tolist() == [[BOS, BOS]] * 2
    model(torch.tensor([[1], [2]]), state)
    assert state.tokens.tolist() == [[BOS, 1], [BOS, 2]]
    model(torch.tensor([[4, 5, 6], [0, 1, 2]]), state)
    assert state.tokens.tolist() == [[5, 6], [1, 2]]


def test_a_carried_context_ends_where_its_document_ends():
    model = make(order=4, embedding_size=3, hidden_size=5)
    tokens, documents = torch.tensor([[1, 2, 3, 4, 5, 6, 0, 1]]), torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2]])
    expected = model(tokens, documents=documents)
    for cut in range(1, 8):
        state = model.start(1)
        pieces = [
            model(tokens[:, part], state, documents=documents[:, part]) for part in (slice(cut), slice(cut, None))
        ]
        torch.testing.assert_close(torch.cat(pieces, 1), expected)


def test_it_begins_uniform():
    model = make(1000)
    hidden = model(torch.randint(0, 1000, (4, 9))).flatten(0, 1)
    loss = next_token_loss(model.output, hidden, torch.randint(0, 1000, (36,)))
    assert float(loss.nll) / 36 == pytest.approx(math.log(1000), abs=0.05)
