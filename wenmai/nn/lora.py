"""LoRA: the weights of an encoder stay as they are, and products of two small matrices beside them are trained.

Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", https://arxiv.org/abs/2106.09685, section 4.1:
h = W x + (α/r) B A dropout(x), with A of r rows drawn from a normal distribution and B of r columns zero, so that
training begins with the network as it was. Queries, keys and values that come from one product get a pair of matrices
each. Here the deviation of A is 1/√inputs, so that A x is about as large as x.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from wenmai.core.errors import SettingError
from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import Linear, linear
from wenmai.nn.multihead import MultiHead
from wenmai.nn.names import LoraTarget
from wenmai.nn.transformer import FeedForward, GatedFeedForward

__all__ = ["LoraLinear", "add_lora", "merge_lora"]

_ATTENTION: tuple[LoraTarget, ...] = ("query", "key", "value", "output")


class LoraLinear(nn.Module):
    """A linear map that stays as it is, and products of small matrices beside it, for all or some of its outputs.

    Args:
        base: W and b, (out, in) and (out,).
        parts: How many parts of equal size the outputs have.
        chosen: The parts that get a product, in order.
        rank: r.
        alpha: α.
        dropout: Of the input of the products, while training.

    Attributes:
        lora_a: A of each chosen part, (chosen, r, in).
        lora_b: B of each chosen part, (chosen, out/parts, r).
    """

    def __init__(
        self, base: Linear, *, parts: int, chosen: Sequence[int], rank: int, alpha: float, dropout: float
    ) -> None:
        super().__init__()
        self.base = base
        self.in_features, self.out_features = base.in_features, base.out_features
        self.scale = alpha / rank
        self.size = base.out_features // parts
        self.chosen = (*chosen,)
        self.dropout = Dropout(dropout)
        self.lora_a = nn.Parameter(base.weight.new_empty(len(chosen), rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_zeros(len(chosen), self.size, rank))
        nn.init.normal_(self.lora_a, std=base.in_features**-0.5)

    @property
    def weight(self) -> Tensor:
        """W + (α/r) B A, (out, in): what the map amounts to without dropout."""
        changed = self.base.weight.clone()
        for part, down, up in zip(self.chosen, self.lora_a, self.lora_b, strict=True):
            changed[part * self.size : (part + 1) * self.size] += self.scale * (up @ down)
        return changed

    @property
    def bias(self) -> Tensor | None:
        """b, (out,)."""
        return self.base.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns (..., out) of (..., in)."""
        return self.rows(hidden, slice(None))

    def rows(self, hidden: Tensor, rows: slice) -> Tensor:
        """Returns the outputs of some rows of the weight, of whole parts."""
        pieces = [*torch.split(self.base.rows(hidden, rows), self.size, -1)]
        first = rows.indices(self.out_features)[0] // self.size
        dropped = self.dropout(hidden)
        for part, down, up in zip(self.chosen, self.lora_a, self.lora_b, strict=True):
            if 0 <= (place := part - first) < len(pieces):
                pieces[place] = pieces[place] + linear(linear(dropped, down), self.scale * up)
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, -1)


class _Place(NamedTuple):
    """A projection, and which parts of it the targets are."""

    owner: nn.Module
    name: str
    parts: tuple[LoraTarget, ...]


def add_lora(module: nn.Module, *, rank: int, alpha: float, dropout: float, targets: Sequence[LoraTarget]) -> list[str]:
    """Gives projections of a network small matrices that are trained, and freezes everything else of it.

    Parameters W and b of a projection are then called ``base.weight`` and ``base.bias``. To be called after a model is
    filled with pre-trained parameters, and again before it is filled with those of a checkpoint.

    Args:
        module: With layers of Transformers in it.
        rank: r.
        alpha: α.
        dropout: Of the input of the products, while training.
        targets: Which projections; ``attention`` means ``query``, ``key``, ``value`` and ``output``, ``all`` means
            these and ``ffn``, both projections of feed-forward networks.

    Returns:
        The names of the parameters that are trained.

    Raises:
        SettingError: if the network has no such projection.
        ValueError: if it has such products already.
    """
    wanted = {*targets}
    wanted |= {*_ATTENTION} if wanted & {"attention", "all"} else set()
    wanted |= {"ffn"} if "all" in wanted else set()
    module.requires_grad_(False)
    for owner, name, parts in [*_places(module)]:
        chosen = [number for number, part in enumerate(parts) if part in wanted]
        if chosen:
            base = owner.get_submodule(name)
            if not isinstance(base, Linear):
                raise ValueError(f"{name} has such products already: merge them first")
            made = LoraLinear(base, parts=len(parts), chosen=chosen, rank=rank, alpha=alpha, dropout=dropout)
            setattr(owner, name, made.train(owner.training))
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not names:
        raise SettingError(
            f"the model has no projections {', '.join(targets)} of Transformer layers, which mode=lora needs; "
            "take mode=full or mode=top"
        )
    return names


def merge_lora(module: nn.Module) -> None:
    """Makes W + (α/r) B A the weights, in place; the network has the parameters that it had before :func:`add_lora`.

    All of them need a gradient again.
    """
    for owner in [*module.modules()]:
        for name, child in [*owner.named_children()]:
            if isinstance(child, LoraLinear):
                with torch.no_grad():
                    child.base.weight.copy_(child.weight)
                setattr(owner, name, child.base)
    module.requires_grad_(True)


def _places(module: nn.Module) -> Iterator[_Place]:
    """All projections of attention and of feed-forward networks."""
    for one in module.modules():
        if isinstance(one, MultiHead):
            if one.over_memory:
                yield _Place(one, "query", ("query",))
                yield _Place(one, "memory", ("key", "value"))
            else:
                yield _Place(one, "qkv", ("query", "key", "value"))
            yield _Place(one, "output", ("output",))
        elif isinstance(one, FeedForward | GatedFeedForward):
            yield _Place(one, "inner", ("ffn",))
            yield _Place(one, "outer", ("ffn",))
