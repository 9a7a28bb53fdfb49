"""What the reference implementation of fastText would answer with a model; see ``wenmai/kernels/reference.py``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from wenmai.models.fasttext.matrices import Matrix

if TYPE_CHECKING:
    from wenmai.kernels.classes import Tree
    from wenmai.kernels.reference import Labels, Outputs

__all__ = [
    "Loss",
    "probabilities_of",
    "reference_labels",
    "reference_length",
    "reference_nearest",
    "reference_outputs",
    "reference_units",
]

Loss = Literal["softmax", "hs", "ns", "ova"]
_RAISED = 1e-5  # what is added to a probability before its logarithm is taken


def reference_outputs(output: Matrix, width: int, tree: "Tree | None") -> "Outputs":
    """Arranges the output of a model for :func:`reference_labels`."""
    from wenmai.kernels.classes import Tree
    from wenmai.kernels.reference import Outputs

    norms = np.empty(0, np.float32)
    if isinstance(output, np.ndarray):
        rows = output[:, :width]
    else:  # a product with a quantised row is multiplied by its length at the end
        rows = replace(output, norm_codes=None, norm_centres=None).dense()
        if output.norm_codes is not None and output.norm_centres is not None:
            norms = output.norm_centres[output.norm_codes]
    return Outputs(np.ascontiguousarray(rows.T), norms, tree or Tree(np.empty((0, 2), np.int32), 0))


def reference_labels(
    hidden: npt.NDArray[np.float32], outputs: "Outputs", loss: Loss, k: int, threshold: float
) -> "Labels":
    """Returns the ``k`` best labels of texts with the hidden vectors (B, d), none less probable than ``threshold``."""
    from wenmai.kernels.reference import HIERARCHICAL, SOFTMAX, TABLE, best_labels

    kinds = {"softmax": SOFTMAX, "hs": HIERARCHICAL}
    return best_labels(hidden, outputs, kinds.get(loss, TABLE), k, threshold)


def probabilities_of(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns the p of scores log(p + 1e-5)."""
    return np.maximum(np.exp(scores.astype(np.float64)) - _RAISED, 0).astype(np.float32)


def reference_units(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns vectors (V, d) at length 1, those of length 0 as they are."""
    from wenmai.kernels.reference import unit_rows

    return unit_rows(vectors)


def reference_length(vector: npt.NDArray[np.float32]) -> float:
    """Returns the length of a vector, summed in 32 bits."""
    from wenmai.kernels.reference import length

    return float(length(vector))


def reference_nearest(
    units: npt.NDArray[np.float32], query: npt.NDArray[np.float32], k: int, banned: Sequence[int]
) -> list[tuple[float, int]]:
    """Returns cosine and number of the ``k`` rows nearest to ``query``, best first, without those that are banned."""
    from wenmai.kernels.reference import nearest

    scores, ids = nearest(units, query, k, np.array(banned, np.int64))
    return list(zip(scores.tolist(), ids.tolist(), strict=True))
