"""What fine-tuned models are made of: rows of texts, an encoder with a head, and what it makes of them.

Shapes: R rows, K places of a row, J layers that are looked at, M size of a state, C outputs of the head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from wenmai.inference.backbones import Backbone, Fed, Row
from wenmai.nn.names import LoraTarget
from wenmai.nn.scalar_mix import ScalarMix

__all__ = ["HeadShape", "Item", "Network", "Outputs", "fitted"]

_HEAD_SHARE = 4  # keep=both: a quarter of a text that is cut is its beginning (Sun et al. 2019, section 5.3.1)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadShape:
    """What a model has besides its encoder.

    Attributes:
        compares: Whether the vectors of two texts, read one by one, are compared.
        mix: Whether the head sees a weighted sum of all layers.
        layer: Else the one that it sees: 0 the embeddings, -1 the last one.
        dense: Whether a tanh layer comes before the outputs.
        crf: Whether sequences of tags are scored as wholes.
        entities: Whether tags that look like entities are some.
        dropout: Before the head, while training.
        lora_rank: Inner size of the products beside the matrices of the encoder; 0: there are none.
        lora_alpha: They are scaled by ``lora_alpha / lora_rank``.
        lora_dropout: Of their inputs.
        lora_targets: Where they are.
    """

    compares: bool = False
    mix: bool = False
    layer: int = -1
    dense: bool = False
    crf: bool = False
    entities: bool = True
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.1
    lora_rank: Annotated[int, Ge(0)] = 0
    lora_alpha: Annotated[float, Gt(0)] = 16.0
    lora_dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    lora_targets: tuple[LoraTarget, ...] = ()

    def differences(self, other: "HeadShape") -> list[str]:
        """Returns what another head has, and this one has not, as settings say it, whatever is dropped or trained."""
        of_other = {
            "compares": "pairs of texts" if other.compares else "single texts",
            "mix": "mode=mix" if other.mix else "another mode",
            "layer": f"layer={other.layer}",
            "dense": f"dense_head={str(other.dense).lower()}",
            "crf": f"crf={str(other.crf).lower()}",
            "entities": "tags of entities" if other.entities else "tag_scheme=none",
        }
        return [said for name, said in of_other.items() if getattr(self, name) != getattr(other, name)]


class Item(NamedTuple):
    """What is read of one input.

    Attributes:
        rows: Of the encoder: usually one; a long text has several, multiple choice one for each option.
        info: What else is to be known of them; each task has its own.
    """

    rows: tuple[Row, ...]
    info: Any = None

    @property
    def width(self) -> int:
        """Tokens of its longest row."""
        return max(len(row.tokens) for row in self.rows)


class Outputs(NamedTuple):
    """What a head makes of the rows of items.

    Attributes:
        logits: (B, C) of texts, (B, N, C) of parts of texts.
        filled: (B, N) which of these there are; None: all.
        sizes: How many parts each item has in ``logits``: 1 where it is one row there.
    """

    logits: Tensor
    filled: Tensor | None = None
    sizes: Sequence[int] = ()


class Network(nn.Module):
    """An encoder with a head.

    Args:
        backbone: The encoder, which becomes a part of this.
        shape: What there is besides.
        head: From vectors to outputs.
        pooling: How the vector of a text is made; None: the head takes the states of the places.

    Attributes:
        frozen: Whether the encoder is not trained, so that it has no dropout either.
        whole: Whether :meth:`read` returns all states too, to predict the next token from.
    """

    def __init__(self, backbone: Backbone, shape: HeadShape, head: nn.Module, *, pooling: str | None) -> None:
        super().__init__()
        self.backbone = backbone
        self.encoder = backbone.module
        self.mix = ScalarMix(backbone.num_layers + 1) if shape.mix else None
        self.layer = shape.layer
        self.head = head
        self.pooling = pooling
        self.frozen = self.whole = False

    def train(self, mode: bool = True) -> Self:
        """Switches dropout on or off, but not within a frozen encoder."""
        super().train(mode)
        if self.frozen:
            self.encoder.train(False)
        return self

    def features(self, fed: Fed) -> tuple[Tensor, Tensor | None]:
        """Returns what the encoder says, (J, R, M) of texts or (J, R, K, M) of places, and (R, T, M) if ``whole``."""
        backbone = self.backbone
        if self.mix is not None:
            layers = backbone.every(fed)
            return torch.stack([self._picked(layer, fed) for layer in layers]), None
        if self.layer != -1:
            return self._picked(backbone.every(fed)[self.layer], fed)[None], None
        if self.whole or self.pooling == "mean":
            states = backbone.last(fed, None)
            return self._picked(states, fed)[None], states if self.whole else None
        places = fed.places if self.pooling is None else fed.places[:, :1]
        states = backbone.last(fed, places)
        if self.pooling == "pooler":
            return backbone.pooled(states)[None], None
        return (states if self.pooling is None else states[:, 0])[None], None

    def _picked(self, states: Tensor, fed: Fed) -> Tensor:
        """(R, M) or (R, K, M) of (R, T, M)."""
        if self.pooling == "mean":
            real = fed.real[..., None]
            return (states * real).sum(1) / real.sum(1)
        places = fed.places if self.pooling is None else fed.places[:, :1]
        found = states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))
        if self.pooling == "pooler":
            return self.backbone.pooled(found)
        return found if self.pooling is None else found[:, 0]

    def mixed(self, features: Tensor) -> Tensor:
        """Returns (R, M) or (R, K, M) of the features of J layers."""
        if self.mix is None:
            return features[0]
        mixed: Tensor = self.mix(features.unsqueeze(2)).squeeze(1) if features.dim() == 3 else self.mix(features)
        return mixed

    def forward(self, fed: Fed) -> tuple[Tensor, Tensor | None]:
        """Returns the vectors that the head takes, (R, M) or (R, K, M), and all states if ``whole``."""
        features, states = self.features(fed)
        return self.mixed(features), states


def fitted(texts: Sequence[Sequence[Any]], room: int, keep: str) -> list[list[Any]]:
    """Cuts texts so that together they have at most ``room`` pieces, of the longest first.

    Args:
        texts: One or two.
        room: Most pieces.
        keep: ``head``: the beginning of a text stays; ``both``: its beginning and its end.
    """
    sizes = [len(text) for text in texts]
    if len(sizes) == 1:
        sizes = [min(sizes[0], room)]
    elif sum(sizes) > room:  # each has half of the room, but for what the other leaves
        first = min(sizes[0], max(room // 2, room - sizes[1]))
        sizes = [first, room - first]
    found = []
    for text, size in zip(texts, sizes, strict=True):
        head = size if keep == "head" or size == len(text) else max(1, size // _HEAD_SHARE)
        found.append([*text[:head], *(text[len(text) - (size - head) :] if head < size else ())])
    return found
