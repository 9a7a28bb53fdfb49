"""Rows of running text, across sentences and documents, which several tasks ask different things of."""

import numpy as np

from wenmai.data.pretraining.task import Drawn, PretrainingTask
from wenmai.data.sequences import SentenceStream, windows

__all__ = ["WindowTask"]


class WindowTask(PretrainingTask):
    """A task of rows as long as the model reads; a subclass says what it asks of them."""

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Cuts a text into rows; the table has where each begins and ends."""
        spans = windows(stream, self.context.room(1), random).spans[:, :2]
        return Drawn(spans[:, 1] - spans[:, 0] + 2, spans)
