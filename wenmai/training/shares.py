"""Which share of the learning rate each parameter of a fine-tuned encoder has, by its depth below the head.

| what | source |
|---|---|
| the rate falls from layer to layer (discriminative) | Howard, Ruder 2018, https://aclanthology.org/P18-1031, 3.2 |
| one layer after another begins to learn, from the top (gradual unfreezing) | the same, section 3.3 |
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

__all__ = ["RateShares", "layer_depths"]

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def layer_depths(names: Iterable[str], *, heads: Collection[str]) -> dict[str, int]:
    """Returns how deep below the head each parameter is.

    Args:
        names: Of all parameters, in the order of the module; those of layer l are called ``...layers.l....``.
        heads: The modules that are heads, such as ``head`` or ``encoder.pooler``, by the beginnings of their names.

    Returns:
        0 for those of heads, L - l for those of layer l from 0, and 1 for what follows the layers, such as the last
        norm; L + 1 for what precedes them: embeddings.
    """
    places = {name: None if _within(name, heads) else _LAYER.search(name) for name in names}
    layers = 1 + max((int(found[1]) for found in places.values() if found), default=-1)
    depths, below = {}, layers + 1
    for name, found in places.items():
        if _within(name, heads):
            depths[name] = 0
        elif found:
            depths[name], below = layers - int(found[1]), 1
        else:
            depths[name] = below
    return depths


@dataclass(frozen=True, kw_only=True)
class RateShares:
    """The share of the learning rate that a parameter has in an epoch; what a job's ``rate_share`` returns.

    Attributes:
        depths: Of every parameter, as of :func:`layer_depths`.
        decay: The share of depth d is decay^d.
        deepest: What is deeper is never trained; 0: heads alone learn. None: everything is.
        unfreeze: Depths that begin to learn with every epoch after the first, in which heads learn alone; None: all
            learn from the beginning.
    """

    depths: Mapping[str, int]
    decay: float = 1.0
    deepest: int | None = None
    unfreeze: int | None = None

    @property
    def last(self) -> int:
        """The depth of the deepest parameters that are ever trained."""
        deepest = max(self.depths.values())
        return deepest if self.deepest is None else min(deepest, self.deepest)

    def __call__(self, name: str, epoch: int) -> float:
        """Returns the share of a parameter in an epoch from 0."""
        depth = self.depths[name]
        frozen = self.deepest is not None and depth > self.deepest
        early = self.unfreeze is not None and depth > epoch * self.unfreeze
        return 0.0 if frozen or early else self.decay**depth


def _within(name: str, modules: Collection[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)
