"""The functions of the official ``fasttext.util``, but for the download of models."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.fasttext.errors import FastTextError
from wenmai.fasttext.model import FastTextModel

__all__ = ["find_nearest_neighbor", "reduce_model", "test"]

_MOST_ROWS = 100_000  # of the input, whose principal axes are taken


def precision_and_recall(
    predictions: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], k: int = 1
) -> tuple[float, float]:
    """Returns precision and recall at ``k`` of predictions for texts with these labels."""
    right = sum(name in gold for found, gold in zip(predictions, labels, strict=True) for name in found)
    return right / (k * len(labels)), right / sum(map(len, labels))


test = precision_and_recall  # its official name


def find_nearest_neighbor(
    query: npt.NDArray[Any],
    vectors: npt.NDArray[Any],
    ban_set: Collection[int],
    cossims: npt.NDArray[Any] | None = None,
) -> int:
    """Returns the number of the vector (V, d) with the largest product with ``query``, none of ``ban_set``.

    ``cossims`` (V,) receives the products.
    """
    products = np.matmul(vectors, query, out=cossims)
    order: list[int] = np.argsort(-products, kind="stable").tolist()
    return next(number for number in order if number not in ban_set)


def reduce_model(ft_model: FastTextModel, target_dim: int) -> FastTextModel:
    """Replaces the matrices of a model by their first principal components; returns the model.

    Raises:
        FastTextError: if the model does not have so many dimensions, or is quantised.
    """
    if not 1 <= target_dim <= ft_model.get_dimension():
        raise FastTextError(f"target_dim={target_dim}: expected 1 to {ft_model.get_dimension()}, the size of a vector")
    rows, output = ft_model.get_input_matrix(), ft_model.get_output_matrix()
    sample = rows[:_MOST_ROWS] - rows[:_MOST_ROWS].mean(axis=0)
    _, axes = np.linalg.eigh(np.matmul(sample.T, sample))
    axes = axes[:, ::-1][:, :target_dim]
    ft_model.set_matrices(np.matmul(rows, axes), np.matmul(output, axes))
    return ft_model
