"""A tiny recurrent model whose predictions depend on the whole history, so that a wrong reordering shows."""

from types import SimpleNamespace

import pytest
import torch

from wenmai.decode.protocol import Step

BOS, EOS = 0, 1


class ToyState:
    def __init__(self, hidden, source, mask):
        self.hidden, self.source, self.mask = hidden, source, mask
        self.selected = []

    @property
    def batch_size(self):
        return len(self.hidden)

    def select(self, rows):
        self.hidden, self.source, self.mask = self.hidden[rows], self.source[rows], self.mask[rows]
        self.selected.append(len(rows))


class Toy:
    """Row by row the same arithmetic in any batch: sums, no matrix products."""

    def __init__(self, seed, *, vocab_size=5, hidden_size=6, width=4, sharpness=2.0, end_bias=0.0):
        generator = torch.Generator().manual_seed(seed)

        def random(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.vocab_size, self.width = vocab_size, width
        self.embedding, self.recurrent = random(vocab_size, hidden_size), random(hidden_size, hidden_size)
        self.output, self.keys = sharpness * random(hidden_size, vocab_size), random(hidden_size, width)
        self.bias = torch.zeros(vocab_size, dtype=torch.float64)
        self.bias[EOS] = end_bias
        self.sentences, self.lengths = random(16, hidden_size), torch.randint(1, width + 1, (16,), generator=generator)
        self.calls = []

    def begin(self, numbers):
        numbers = torch.as_tensor(list(numbers))
        mask = torch.arange(self.width) < self.lengths[numbers][:, None]
        return ToyState(torch.zeros_like(self.sentences[numbers]), self.sentences[numbers], mask)

    def step(self, tokens, state):
        assert tokens.dtype == torch.int64
        assert tokens.shape == (state.batch_size,)
        self.calls.append(len(tokens))
        mixed = (state.hidden[:, :, None] * self.recurrent).sum(1)
        state.hidden = torch.tanh(mixed + self.embedding[tokens] + state.source)
        logits = (state.hidden[:, :, None] * self.output).sum(1) + self.bias
        scores = (state.hidden[:, :, None] * self.keys).sum(1).masked_fill(~state.mask, -torch.inf)
        return Step(logits, scores.softmax(1))


def forced(model, number, hypothesis):
    """Log-probability and attention of a given sequence, one step after the other."""
    targets = hypothesis.tokens + [EOS] * hypothesis.finished
    state, total, maps = model.begin([number]), 0.0, []
    for token, target in zip([BOS, *hypothesis.tokens], targets, strict=False):
        logits, attention = model.step(torch.tensor([token]), state)
        total += float(logits.log_softmax(1)[0, target])
        maps.append(attention[0])
    return total, torch.stack(maps[: len(hypothesis.tokens)]) if hypothesis.tokens else None


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads only wait for each other over so few numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def toy():
    return SimpleNamespace(
        Model=Toy, forced=forced, BOS=BOS, EOS=EOS, ends={"bos_id": BOS, "eos_id": EOS}, plain=plain, same=same
    )


def plain(hypotheses):
    """What can be compared with ==."""
    return [(h.tokens, h.log_prob, h.score, h.finished) for h in hypotheses]


def same(left, right):
    """Whether two lists hold the same sequences with the same scores up to rounding."""
    return len(left) == len(right) and all(
        a.tokens == b.tokens
        and a.finished == b.finished
        and a.log_prob == pytest.approx(b.log_prob, abs=1e-9)
        and a.score == pytest.approx(b.score, abs=1e-9)
        for a, b in zip(left, right, strict=True)
    )
