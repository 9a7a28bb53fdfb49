"""The memory of a search with branches: where each row came from, and the best sequences of each sentence so far.

Rows are not copied when beams branch. Each step notes token and parent of every row it hands to the next step, and a
sequence is read off backwards when the search is over.
"""

import torch
from torch import Tensor

from wenmai.decode.protocol import Hypothesis

__all__ = ["NOTHING", "Found", "Trail"]

NOTHING = -1  # in place of a last token


class Trail:
    """What each step consumed and produced.

    Attributes:
        attention: For each step (N, S) weights of its input rows, or none.
    """

    def __init__(self) -> None:
        self.attention: list[Tensor | None] = []
        self._tokens: list[Tensor] = []
        self._parents: list[Tensor] = []

    def grow(self, tokens: Tensor, parents: Tensor) -> None:
        """Notes the rows that a step hands on: their (N',) tokens, and the input rows of the step they grew from."""
        self._tokens.append(tokens)
        self._parents.append(parents)

    def follow(self, steps: Tensor, rows: Tensor, last: Tensor) -> tuple[Tensor, Tensor | None]:
        """Reads sequences backwards.

        Args:
            steps: (F,) the step that made the last token of each sequence.
            rows: (F,) its input row at this step.
            last: (F,) its last token.

        Returns:
            (F, T) tokens and (F, T, S) attention; what lies after ``steps`` has no meaning.
        """
        length = int(steps.max()) + 1
        tokens = last.new_zeros(len(steps), length)
        first = self.attention[0]
        attention = None if first is None else first.new_zeros(len(steps), length, first.size(1))
        here = torch.zeros_like(rows)  # row of each sequence among those that the present step handed on
        for step in reversed(range(length)):
            inside = steps > step
            if step < len(self._tokens):
                tokens[inside, step] = self._tokens[step][here[inside]]
                here[inside] = self._parents[step][here[inside]]
            tip = steps == step
            tokens[tip, step] = last[tip]
            here[tip] = rows[tip]
            seen = self.attention[step]
            if attention is not None and seen is not None:
                attention[inside | tip, step] = seen[here[inside | tip]]
        return tokens, attention


class Found:
    """The best complete sequences of each sentence, as places in a trail.

    Args:
        batch_size: Sentences, B.
        n_best: How many are kept of each.
        device: Where the search works.

    Attributes:
        scores: (B, n_best) float64, descending; ``-inf`` where there is none yet.
    """

    def __init__(self, batch_size: int, n_best: int, device: torch.device) -> None:
        self.scores = torch.full((batch_size, n_best), -torch.inf, dtype=torch.float64, device=device)
        self._log_probs = torch.zeros_like(self.scores)
        self._steps = torch.zeros_like(self.scores, dtype=torch.int64)
        self._rows = torch.zeros_like(self._steps)
        self._tokens = torch.zeros_like(self._steps)

    def offer(
        self, sentences: Tensor, *, scores: Tensor, log_probs: Tensor, step: int, rows: Tensor, tokens: Tensor
    ) -> None:
        """Takes up new sequences that are better than those kept; of equal ones the earlier stays first.

        Args:
            sentences: (G,) different sentences.
            scores: (G, C); ``-inf`` for what is not offered.
            log_probs: (G, C).
            step: The step that made the last tokens.
            rows: (G, C) input rows of that step.
            tokens: (G, C) last tokens, or ``NOTHING``.
        """
        both = torch.cat([self.scores[sentences], scores], 1)
        order = both.sort(dim=1, descending=True, stable=True).indices[:, : self.scores.size(1)]
        fields = (
            (self.scores, scores),
            (self._log_probs, log_probs),
            (self._steps, torch.full_like(rows, step)),
            (self._rows, rows),
            (self._tokens, tokens),
        )
        for kept, new in fields:
            kept[sentences] = torch.cat([kept[sentences], new], 1).gather(1, order)

    def hypotheses(self, trail: Trail, eos_id: int) -> list[list[Hypothesis]]:
        """Returns the sequences of each sentence, best first."""
        there = self.scores > -torch.inf
        steps, last = self._steps[there], self._tokens[there]
        tokens, attention = trail.follow(steps, self._rows[there], last)
        finished = last == eos_id
        lengths = steps + (~finished & (last != NOTHING)).long()
        found = iter(
            Hypothesis(tokens=row[:length], log_prob=log_prob, score=score, finished=done, attention=weights)
            for row, length, log_prob, score, done, weights in zip(
                tokens.tolist(),
                lengths.tolist(),
                self._log_probs[there].tolist(),
                self.scores[there].tolist(),
                finished.tolist(),
                [None] * len(tokens)
                if attention is None
                else [whole[:n] for whole, n in zip(attention, lengths.tolist(), strict=True)],
                strict=True,
            )
        )
        return [[next(found) for _ in range(count)] for count in there.sum(1).tolist()]
