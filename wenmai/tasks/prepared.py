"""Labelled examples as a fine-tuning takes them: rows, targets, and what a frozen encoder says of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.inference.finetuned import FineTuned
from wenmai.inference.framing import tokens_at_once

__all__ = ["Prepared"]


class Prepared:
    """Examples for a model.

    Args:
        model: The model.
        examples: N examples of its task.

    Attributes:
        items: What the encoder reads of each.
        cut: How many are longer than the model reads.
        targets: The target of each.
        widths: Tokens of each, (N,), with what fills up.
        features: What a frozen encoder says of each row of each item, (J, M) of texts or (J, K, M) of places; None: it
            is computed anew for each batch.
    """

    def __init__(self, model: FineTuned, examples: Sequence[Any]) -> None:
        self.examples = examples
        self.items = model.items([model.gold(example) for example in examples])
        self.cut = model.cut
        self.targets = model.targets(examples, self.items)
        self.widths = np.array([len(item.rows) * item.width for item in self.items], np.int64)
        self.features: list[list[Tensor]] | None = None

    def unknown(self, model: FineTuned) -> float:
        """Returns which share of the pieces the vocabulary of the encoder lacks."""
        return model.backbone.unknown(row.tokens for item in self.items for row in item.rows)

    def numbers(self, model: FineTuned) -> int:
        """Returns how many numbers its features would have."""
        wanted = [len(row.places) + 1 if model.over_tokens else 1 for item in self.items for row in item.rows]
        layers = 1 if model.module.mix is None else model.backbone.num_layers + 1
        return sum(wanted) * layers * model.backbone.size

    def compute_features(self, model: FineTuned, room: npt.NDArray[np.float32], done: Callable[[int], None]) -> None:
        """Computes what the encoder says.

        Args:
            model: The model, whose encoder does not learn.
            room: What takes it, as many as :meth:`numbers`.
            done: Is told after each batch how many examples it had.
        """
        found: list[list[Tensor]] = [[] for _ in self.items]
        place_in, kept = 0, torch.from_numpy(room)
        model.module.eval()
        with torch.no_grad():
            for batch in model.batches(self.items):
                fed, sizes = model.fed([self.items[place] for place in batch])
                parts = fed.parts(tokens_at_once(model.device))
                features = torch.cat([model.module.features(part)[0].float().cpu() for part in parts], 1)
                owners = (place for place, size in zip(batch, sizes, strict=True) for _ in range(size))
                for row, (owner, width) in enumerate(zip(owners, fed.filled.sum(1).tolist(), strict=True)):
                    one = features[:, row, :width] if model.over_tokens else features[:, row]
                    found[owner].append(kept[place_in : place_in + one.numel()].view(one.shape).copy_(one))
                    place_in += one.numel()
                done(len(batch))
        self.features = found
