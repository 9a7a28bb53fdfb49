"""Scoring functions of attention: how well a key fits a query.

| name | score of query q and key k | source |
|---|---|---|
| dot | q·k | Luong et al. 2015, eq. 8 |
| scaled_dot | q·k/√D | Vaswani et al. 2017, eq. 1 |
| bilinear | qᵀ W k | Luong et al. 2015, eq. 8 (general) |
| additive | vᵀ tanh(W q + U k) | Bahdanau et al. 2015, section A.1.2 |
| concat | vᵀ tanh(W [q; k]) | Luong et al. 2015, eq. 8 |
| cosine | β q·k/(‖q‖‖k‖) | Graves et al. 2014, eq. 6 |

A scorer is called with keys that went through :meth:`Scorer.prepare`, so that a decoder projects its memory once.
Differs from the papers: Xavier-uniform weights instead of N(0, 0.001²) and v = 0, which Adam does not need.
"""

from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.names import ScorerName

__all__ = [
    "SCORERS",
    "Additive",
    "Bilinear",
    "Concat",
    "Cosine",
    "Dot",
    "ScaledDot",
    "Scorer",
    "make_scorer",
]


class Scorer(nn.Module):
    """Scores prepared keys for each query: ``scorer(query (..., T, Dq), keys (..., S, D)) -> (..., T, S)``."""

    def prepare(self, keys: Tensor) -> Tensor:
        """Projects keys (..., S, Dk) once per source, as far as they do not depend on the query."""
        return keys

    def product_scale(self, query: Tensor) -> float | None:
        """The factor of a scorer of the form ``factor · query · prepared key``, which fused kernels compute."""
        return None


class Dot(Scorer):
    """q·k; both of one size."""

    def product_scale(self, query: Tensor) -> float | None:
        """1."""
        return 1.0

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns scores (..., T, S)."""
        return query @ keys.mT


class ScaledDot(Scorer):
    """q·k/√D: for independent components of variance 1 the score has variance 1 too."""

    def product_scale(self, query: Tensor) -> float | None:
        """1/√D."""
        return float(query.shape[-1] ** -0.5)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns scores (..., T, S)."""
        return torch.mul(query, query.shape[-1] ** -0.5) @ keys.mT  # scaled first: safe in half precision


class Bilinear(Scorer):
    """qᵀ W k, W (Dq, Dk): Luong's "general"."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.weight = _matrix(query_size, key_size)

    def prepare(self, keys: Tensor) -> Tensor:
        """Returns W k, (..., S, Dq)."""
        return F.linear(keys, self.weight)

    def product_scale(self, query: Tensor) -> float | None:
        """1, for prepared keys."""
        return 1.0

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns scores (..., T, S)."""
        return query @ keys.mT


class Additive(Scorer):
    """vᵀ tanh(W q + U k): Bahdanau's alignment model, ``attention_size`` hidden units."""

    def __init__(self, query_size: int, key_size: int, attention_size: int) -> None:
        super().__init__()
        self.query_weight = _matrix(attention_size, query_size)
        self.key_weight = _matrix(attention_size, key_size)
        self.vector = nn.Parameter(_matrix(1, attention_size)[0].detach().clone())

    def prepare(self, keys: Tensor) -> Tensor:
        """Returns U k, (..., S, attention_size)."""
        return F.linear(keys, self.key_weight)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns scores (..., T, S); needs memory for (..., T, S, attention_size)."""
        projected = F.linear(query, self.query_weight)
        return torch.tanh(projected.unsqueeze(-2) + keys.unsqueeze(-3)) @ self.vector


class Concat(Scorer):
    """vᵀ tanh(W [q; k]): Luong's "concat". The same function as additive, with one matrix for both."""

    def __init__(self, query_size: int, key_size: int, attention_size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.weight = _matrix(attention_size, query_size + key_size)
        self.vector = nn.Parameter(_matrix(1, attention_size)[0].detach().clone())

    def prepare(self, keys: Tensor) -> Tensor:
        """Returns the key half of W times k, (..., S, attention_size)."""
        return F.linear(keys, self.weight[:, self.query_size :])

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns scores (..., T, S); needs memory for (..., T, S, attention_size)."""
        projected = F.linear(query, self.weight[:, : self.query_size])
        return torch.tanh(projected.unsqueeze(-2) + keys.unsqueeze(-3)) @ self.vector


class Cosine(Scorer):
    """β q·k/(‖q‖‖k‖) with a learned sharpness β, 1/temperature at the start. A zero vector scores 0."""

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(1.0 / temperature))

    def prepare(self, keys: Tensor) -> Tensor:
        """Returns keys of length 1."""
        return F.normalize(keys, dim=-1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns scores (..., T, S)."""
        return (self.sharpness * F.normalize(query, dim=-1)) @ keys.mT


SCORERS: dict[str, type[Scorer]] = dict(
    zip(get_args(ScorerName), (Dot, ScaledDot, Bilinear, Additive, Concat, Cosine), strict=True)
)


def make_scorer(name: ScorerName, *, query_size: int, key_size: int, attention_size: int) -> Scorer:
    """Builds the scorer of a setting.

    Args:
        name: One of the table above.
        query_size: Size of a query.
        key_size: Size of a key before ``prepare``.
        attention_size: Hidden units of the additive and concat networks; others have none.

    Raises:
        ValueError: if the scorer needs queries and keys of one size and they differ, or the name is unknown.
    """
    match name:
        case "bilinear":
            return Bilinear(query_size, key_size)
        case "additive":
            return Additive(query_size, key_size, attention_size)
        case "concat":
            return Concat(query_size, key_size, attention_size)
        case "dot" | "scaled_dot" | "cosine":
            if query_size != key_size:
                raise ValueError(
                    f"the scorer {name!r} compares queries of size {query_size} with keys of size {key_size}; make "
                    "them equal, or take 'bilinear' or 'additive'"
                )
            return SCORERS[name]()
    raise ValueError(f"no scorer is called {name!r}; choose one of {', '.join(SCORERS)}")


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns)))
