"""Losses of the relations of a document, of which a pair of entities may have none, one, or several.

Shapes: P pairs, C classes, of which class 0 is "no relation".
"""

import math

import torch.nn.functional as F
from torch import Tensor

__all__ = ["adaptive_threshold_loss", "binary_loss"]


def binary_loss(logits: Tensor, gold: Tensor) -> Tensor:
    """The binary cross-entropy, mean over classes and pairs (Xu et al. 2021, eq. 7).

    Args:
        logits: (P, C).
        gold: (P, C), 1 for relations that a pair has, and for class 0 of a pair that has none.

    Returns:
        A scalar; 0 without a pair.
    """
    if not len(logits):
        return logits.sum()
    return F.binary_cross_entropy_with_logits(logits, gold)


def adaptive_threshold_loss(logits: Tensor, gold: Tensor) -> Tensor:
    """Relations that a pair has are to be above class 0, all others below it; mean over pairs.

    Zhou, Huang, Ma, Huang, "Document-Level Relation Extraction with Adaptive Thresholding and Localized Context
    Pooling", AAAI 2021, https://arxiv.org/abs/2010.11304, eq. 4 to 6.

    Args:
        logits: (P, C).
        gold: (P, C), 1 for relations that a pair has; class 0 is not looked at.

    Returns:
        A scalar; 0 without a pair.
    """
    if not len(logits):
        return logits.sum()
    positive = gold.clone()
    positive[:, 0] = 0
    beside = positive.clone()
    beside[:, 0] = 1
    # -Σ_{r positive} log softmax of r among the positive classes and class 0
    among = logits.masked_fill(beside == 0, -math.inf).log_softmax(-1)
    above = -(among.masked_fill(positive == 0, 0.0)).sum(-1)
    # -log softmax of class 0 among the other classes and class 0
    below = -logits.masked_fill(positive == 1, -math.inf).log_softmax(-1)[:, 0]
    return (above + below).mean()
