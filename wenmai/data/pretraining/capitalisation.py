"""Capitalisation prediction: was the word of each token written with a capital letter first?

Sun et al. 2020 (ERNIE 2.0), section 4.2.1. The model reads text without capital letters, so names are what it has to
know. All pieces of a word have the answer of the word; special tokens have none.
"""

import numpy as np

from wenmai.core.errors import SettingError
from wenmai.data.pretraining.task import Context, Drawn, Row
from wenmai.data.pretraining.windows import WindowTask
from wenmai.data.sequences import SentenceStream
from wenmai.data.token_marks import CAPITAL

__all__ = ["Capitalisation"]


class Capitalisation(WindowTask):
    """Capital letters of a text that is read without them."""

    name = "capitalisation"
    level = "token"
    classes = ("small", "capital")
    marks = CAPITAL

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        tokenizer = context.tokenizer
        kept, lost = tokenizer.encode_batch(["An Apple", "an apple"])
        if kept != lost:
            raise SettingError(
                "the task capitalisation guesses capital letters, but the tokenizer keeps them; leave capitalisation "
                "out of tasks, or begin with a tokenizer that has lowercase=true"
            )
        self._special = np.array(sorted({*tokenizer.special_ids} - {tokenizer.unk_id}), np.int64)

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row."""
        begin, end = examples.table[place].tolist()
        tokens, segments = self.context.frame(stream.read(begin, end))
        labels = np.zeros(len(tokens), np.int64)
        labels[1:-1] = (stream.read_marks(begin, end) & CAPITAL) > 0
        labels[np.isin(tokens, self._special)] = -1
        return Row(tokens, segments, labels)
