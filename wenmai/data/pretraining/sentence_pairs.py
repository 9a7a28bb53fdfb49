"""Rows of two texts, and the classes that say how they are related."""

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.pretraining.task import Context, Drawn, PretrainingTask, Row
from wenmai.data.sequences import SentenceStream

__all__ = ["PairTask", "other_documents"]

Ints = npt.NDArray[np.int64]


class PairTask(PretrainingTask):
    """A task of two texts of the stream; a subclass makes its table with :meth:`drawn`."""

    level = "sequence"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if context.room(2) < 2:
            raise SettingError(f"the task {self.name} needs max_length=5 at least, for two texts")

    @property
    def otherwise(self) -> str:
        """What to do with a text that has not what the task needs."""
        return f"leave {self.name} out of tasks"

    def require_documents(self, stream: SentenceStream, what: str) -> None:
        """Makes sure that there are several documents, one of them with two sentences.

        Raises:
            CorpusError: if not.
        """
        bounds = stream.document_sentences
        if len(bounds) < 2:
            raise CorpusError(
                f"{what} is one document, and the task {self.name} needs several; separate documents by blank lines, "
                f"or {self.otherwise}"
            )
        if all(behind - first < 2 for first, behind in bounds):
            raise CorpusError(
                f"{what} has one sentence in each document, and the task {self.name} needs several; split lines into "
                f"sentences (sentences=split), or {self.otherwise}"
            )

    def drawn(self, one: Ints, other: Ints, labels: Ints) -> Drawn:
        """Returns a plan in which texts that are too long together lose their ends, the longer one first.

        Args:
            one: (N, 2) where each first text begins and ends.
            other: (N, 2) the same of the second texts.
            labels: (N,) the classes.
        """
        room = self.context.room(2)
        sizes, others = one[:, 1] - one[:, 0], other[:, 1] - other[:, 0]
        first = np.minimum(sizes, np.maximum(room - others, room - room // 2))
        second = np.minimum(others, room - first)
        table = np.stack((one[:, 0], one[:, 0] + first, other[:, 0], other[:, 0] + second, labels), 1)
        return Drawn(first + second + 3, table)

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row."""
        begin, end, start, stop, label = examples.table[place].tolist()
        tokens, segments = self.context.frame(stream.read(begin, end), stream.read(start, stop))
        return Row(tokens, segments, label)


def other_documents(of: Ints, bounds: Ints, random: np.random.Generator) -> Ints:
    """Draws for each of some documents another one.

    Args:
        of: (N,) their numbers.
        bounds: (D, anything) one row for each document, two at least.
        random: Draws.
    """
    drawn = (random.random(len(of)) * (len(bounds) - 1)).astype(np.int64)
    found: Ints = drawn + (drawn >= of)
    return found
