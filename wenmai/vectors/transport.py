"""Word mover's distance: what it costs to move the words of one text to those of another.

Kusner, Sun, Kolkin and Weinberger 2015, "From Word Embeddings To Document Distances", section 4: a text is the
relative frequencies of its words, and moving a word costs the Euclidean distance of the vectors.
"""

import logging
from collections import Counter
from collections.abc import Sequence

import numpy as np

from wenmai.core.errors import SettingError, install_hint
from wenmai.vectors.table import Key, VectorTable

__all__ = ["MissingPackageError", "word_movers_distance"]

logger = logging.getLogger(__name__)


class MissingPackageError(SettingError, ImportError):
    """A package that one method needs and that is not installed."""


def word_movers_distance(
    vectors: VectorTable, document1: Sequence[Key], document2: Sequence[Key], *, norm: bool
) -> float:
    """Returns the word mover's distance of two texts; see :meth:`WordVectors.wmdistance`."""
    try:
        from ot import emd2
    except ImportError as error:
        raise MissingPackageError(
            f"the word mover's distance needs POT, which cannot be imported ({error}); {install_hint('transport')}"
        ) from None
    from scipy.spatial.distance import cdist

    texts = [[word for word in document if vectors.has_vector(word)] for document in (document1, document2)]
    lost = len(document1) + len(document2) - len(texts[0]) - len(texts[1])
    if lost:
        logger.info("%d words without a vector are left out", lost)
    if not (texts[0] and texts[1]):
        logger.warning("a text has no word with a vector; its distance to another is infinite")
        return float("inf")
    counts = [Counter(words) for words in texts]
    first, second = (vectors.get_vectors(list(count), norm) for count in counts)
    costs = cdist(first, second)
    if costs.max() < 1e-12:
        return 0.0
    masses = [np.array(list(count.values()), np.float64) / count.total() for count in counts]
    return float(emd2(*masses, costs))
