"""Sentence distance: do two sentences follow each other, stand in one document, or in two?

Sun et al. 2020 (ERNIE 2.0), section 4.2.2. Each sentence is the first one of a row; of the three classes each is as
frequent, as far as documents have enough sentences.
"""

import numpy as np

from wenmai.data.pretraining.sentence_pairs import PairTask, other_documents
from wenmai.data.pretraining.task import Drawn
from wenmai.data.sequences import SentenceStream

__all__ = ["Distance"]

_ADJACENT, _SAME, _OTHER = range(3)


class Distance(PairTask):
    """How far two sentences are apart."""

    name = "distance"
    classes = ("adjacent", "same document", "other document")

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that there are several documents, one of them with two sentences."""
        self.require_documents(stream, what)

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Draws a second sentence for each sentence."""
        bounds = np.array(stream.document_sentences, np.int64)
        spans = np.stack(stream.sentences, 1)
        sizes = bounds[:, 1] - bounds[:, 0]
        of = np.repeat(np.arange(len(bounds)), sizes)
        place = np.arange(len(spans)) - bounds[of, 0]
        labels = (random.random(len(spans)) * 3).astype(np.int64)
        # A last sentence is followed by none; one that all others are beside has none far from it.
        far = sizes[of] - 1 - (place > 0) - (place < sizes[of] - 1)
        labels[(labels == _ADJACENT) & (place == sizes[of] - 1)] = _OTHER
        labels[(labels == _SAME) & (far < 1)] = _OTHER
        chosen = np.arange(len(spans)) + 1
        same = np.flatnonzero(labels == _SAME)
        drawn = (random.random(len(same)) * far[same]).astype(np.int64)
        before = np.maximum(place[same] - 1, 0)  # sentences far in front of it
        chosen[same] = bounds[of[same], 0] + np.where(drawn < before, drawn, drawn + place[same] + 2 - before)
        other = np.flatnonzero(labels == _OTHER) if len(bounds) > 1 else np.zeros(0, np.int64)
        elsewhere = other_documents(of[other], bounds, random)
        chosen[other] = bounds[elsewhere, 0] + (random.random(len(other)) * sizes[elsewhere]).astype(np.int64)
        known = (labels != _OTHER) | (len(bounds) > 1)  # a text to validate on may be one document
        chosen = np.where(known, chosen, 0)
        keep = np.flatnonzero(known & (spans[:, 1] > spans[:, 0]) & (spans[chosen, 1] > spans[chosen, 0]))
        return self.drawn(spans[keep], spans[chosen[keep]], labels[keep])
