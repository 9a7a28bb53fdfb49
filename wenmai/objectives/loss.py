"""A loss as sums and counts: one loss, or several named parts, each divided by its own count."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from wenmai.core.errors import TrainingError

__all__ = ["GroupLoss", "Loss", "Losses", "combined", "evaluated", "part_means"]


class Loss(NamedTuple):
    """A loss, or a part of one, as sum and count, so that accumulation, processes and perplexity are exact by target.

    Attributes:
        total: Scalar with a gradient: summed over the targets, label smoothing included, in nats.
        nll: Scalar without a gradient: -Σ log p(target), what perplexities are made of.
        targets: How many there are.
        tokens: How many tokens were read; None: as many as there are targets.
    """

    total: Tensor
    nll: Tensor
    targets: int
    tokens: int | None = None


Losses = Loss | Mapping[str, Loss]  # of a batch: the only part, or the parts it has by name


class GroupLoss:
    """The loss of the batches of one update, Σ_p weight_p · (sum of part p / targets of part p in all batches).

    Gradients are summed batch by batch, so each of several parts is divided before, by a count known in advance. A
    single part is divided once, at the end, when its count is known.

    Args:
        weights: The parts by name, with the weight of each.
        counts: Targets of each part in all batches of all processes; None if there is one part.
        device: Where the losses are.

    Attributes:
        tally: (parts, 3) float64: sum and targets of each part, and in the first row all tokens; to be summed over the
            processes.
    """

    def __init__(self, weights: Mapping[str, float], counts: Sequence[int] | None, device: torch.device) -> None:
        self._weights = weights
        self._counts = counts
        self._scales = (
            [1.0] if counts is None else [w / max(1, n) for w, n in zip(weights.values(), counts, strict=True)]
        )
        self._places = {name: place for place, name in enumerate(weights)}
        self.tally = torch.zeros((len(weights), 3), dtype=torch.float64, device=device)

    def backward(self, losses: Losses) -> None:
        """Adds the gradient of a batch to the parameters', and its loss to the tally."""
        parts = {self._places[name]: part for name, part in _named(losses, self._weights).items()}
        scaled = [self._scales[place] * part.total for place, part in parts.items()]
        reduce(torch.add, scaled).backward()  # type: ignore[no-untyped-call]
        for place, part in parts.items():
            self.tally[place, 0] += part.total.detach()
            self.tally[place, 1] += part.targets
        first = next(iter(parts.values()))
        self.tally[0, 2] += first.targets if first.tokens is None else first.tokens

    @property
    def tokens(self) -> int:
        """Tokens that were read, by the first part of the loss of each batch."""
        return int(self.tally[0, 2])

    def finish(self, gradients: list[Tensor]) -> dict[str, tuple[float, float]]:
        """Divides the gradients of a single part, once they and the tally are summed over the processes.

        Returns:
            Sum and targets of each part.

        Raises:
            TrainingError: if the batches had other numbers of targets than the counts that were known in advance.
        """
        sums = {
            name: (total, count) for name, (total, count, _) in zip(self._weights, self.tally.tolist(), strict=True)
        }
        came = [count for _, count in sums.values()]
        if self._counts is None:
            torch._foreach_mul_(gradients, next(iter(self._weights.values())) / max(1.0, came[0]))
        elif came != [*self._counts]:
            raise TrainingError(
                f"the parts {', '.join(sums)} of the loss have {came} targets instead of {self._counts}"
            )
        return sums


def part_means(sums: Mapping[str, tuple[float, float]]) -> dict[str, float | None]:
    """Returns the mean of each part by name from its sum and count; None where nothing was counted."""
    return {name: total / count if count else None for name, (total, count) in sums.items()}


def combined(weights: Mapping[str, float], means: Mapping[str, float | None]) -> float | None:
    """Returns Σ_p weight_p · mean_p over the parts that have a mean; None if none has."""
    known = [weights[name] * mean for name, mean in means.items() if mean is not None]
    return sum(known) if known else None


def evaluated(batches: Iterable[Losses], weights: Mapping[str, float]) -> dict[str, float]:
    """Returns the metrics of a loss on validation data, without label smoothing.

    Args:
        batches: The loss of each batch.
        weights: The weight of each part by name; one where losses have no names.

    Returns:
        ``loss``, the weighted sum of the parts' means; of several parts also ``NAME_loss``. A part without a target
        is left out; without any target nothing is returned.
    """
    sums = dict.fromkeys(weights, (0.0, 0))
    for losses in batches:
        for name, part in _named(losses, weights).items():
            total, count = sums[name]
            sums[name] = total + float(part.nll), count + part.targets
    means = part_means(sums)
    parts = {f"{name}_loss": mean for name, mean in means.items()} if len(weights) > 1 else {}
    metrics = {"loss": combined(weights, means), **parts}
    return {name: value for name, value in metrics.items() if value is not None}


def _named(losses: Losses, weights: Mapping[str, float]) -> Mapping[str, Loss]:
    """Returns the parts of a batch by name; a loss without a name is the only part."""
    if not isinstance(losses, Loss):
        return losses
    (name,) = weights
    return {name: losses}
