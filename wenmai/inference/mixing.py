"""Vectors from the weighted sum of all layers of an encoder, γ Σ_j s_j h_j (Peters et al. 2018, eq. 1)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from typing_extensions import Doc

from wenmai.core.errors import SettingError
from wenmai.inference.embedding import ContextualEncoder, Pooling, StateBatch
from wenmai.inference.layers import Layers
from wenmai.nn.scalar_mix import ScalarMix

__all__ = ["MixConfig", "Mixed", "shown_mix"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MixConfig:
    """The numbers of a :class:`wenmai.nn.scalar_mix.ScalarMix`, as a model folder has them.

    Raises:
        SettingError: if one of them is not finite.
    """

    weights: Annotated[tuple[float, ...], Doc("w of each layer, the input first; the shares s are their softmax")]
    scale: Annotated[float, Doc("γ")] = 1.0

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (*self.weights, self.scale))):
            raise SettingError("the weights of the layers and their scale: expected finite numbers")

    @classmethod
    def of(cls, mix: ScalarMix) -> "MixConfig":
        """Returns the numbers of a mix."""
        return cls(weights=tuple(mix.weights.tolist()), scale=float(mix.scale))

    def make(self) -> ScalarMix:
        """Returns a frozen mix of these numbers."""
        mix = ScalarMix(len(self.weights)).requires_grad_(False)
        mix.weights.copy_(torch.tensor(self.weights))
        mix.scale.fill_(self.scale)
        return mix


def shown_mix(mix: ScalarMix) -> dict[str, str]:
    """Returns s and γ as they are shown."""
    return {"shares": ", ".join(f"{share:.3f}" for share in mix.shares.tolist()), "scale": f"{float(mix.scale):.3f}"}


class Mixed:
    """An encoder whose only layer is the mix of all layers of another.

    Args:
        encoder: The other, of L layers.
        mix: Of 1 + L layers.
    """

    num_layers = 0

    def __init__(self, encoder: ContextualEncoder, mix: ScalarMix) -> None:
        self._encoder, self._mix = encoder, mix
        self._every = range(encoder.num_layers + 1)

    @property
    def vector_size(self) -> int:
        """M."""
        return self._encoder.vector_size

    @property
    def poolings(self) -> Sequence[Pooling]:
        """Those of the encoder."""
        return self._encoder.poolings

    def state_batches(self, texts: Sequence[str], layers: Sequence[int]) -> Iterator[StateBatch]:
        """Yields the mixed states of texts; see :class:`wenmai.inference.embedding.ContextualEncoder`."""
        for batch in self._encoder.state_batches(texts, self._every):
            yield batch._replace(states=[self._mixed(torch.stack(batch.states))])

    def pooled(self, states: Tensor) -> Tensor:
        """Returns what the pooler of the encoder makes of states."""
        return self._encoder.pooled(states)

    def layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Yields the mixed states (1, T, M) of all tokens of each text."""
        for found in self._encoder.layers(texts):
            states: Any = self._mixed(torch.from_numpy(found.vectors)[:, None])
            yield found._replace(vectors=states.numpy())

    def _mixed(self, layers: Tensor) -> Tensor:
        with torch.inference_mode():
            mixed: Tensor = self._mix.to(layers.device)(layers)
        return mixed
