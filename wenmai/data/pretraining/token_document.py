"""Token-document relation: does a token of this part of a document stand in another part of it too?

Sun et al. 2020 (ERNIE 2.0), section 4.2.1: words that occur in many parts are the words that a document is about, or
words of grammar. The parts are what the model reads at once.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.data.pretraining.task import Context, PretrainingTask, Row
from wenmai.data.sequences import SentenceStream, documents

__all__ = ["TokenDocument"]

_AT_ONCE = 1 << 22  # tokens that are sorted together

Ints = npt.NDArray[np.int64]


class _Parts(NamedTuple):
    """Parts of documents: tokens with special ones, where they begin and end, and of all tokens whether they return."""

    lengths: Ints
    spans: Ints
    returning: npt.NDArray[np.bool_]


class TokenDocument(PretrainingTask):
    """Tokens that return in their document."""

    name = "token-document"
    level = "token"
    classes = ("here", "elsewhere")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        tokenizer = context.tokenizer
        self._special = np.array(sorted({*tokenizer.special_ids} - {tokenizer.unk_id}), np.int64)

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that a document has several parts."""
        longest = max((end - begin for begin, end in _bounds(stream).tolist()), default=0)
        if longest <= self.context.room(1):
            raise CorpusError(
                f"{what} has no document of more than {self.context.room(1)} tokens, which the task token-document "
                "needs to have another part to look at; separate documents by blank lines, lower max_length, or leave "
                "token-document out of tasks"
            )

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> _Parts:
        """Cuts documents into parts, and finds the tokens that are in several parts of one document."""
        spans = documents(stream, self.context.room(1), random).spans[:, :2]
        bounds = _bounds(stream)
        of = np.searchsorted(bounds[:, 1], spans[:, 0], side="right")
        several = np.bincount(of, minlength=len(bounds)) > 1
        returning = np.zeros(len(stream), np.bool_)
        chosen = np.flatnonzero(several)
        window = bounds[chosen, 0] // _AT_ONCE  # documents that begin in the same part of the text are read together
        for group in np.split(chosen, np.flatnonzero(np.diff(window)) + 1):
            if len(group):
                first, behind = int(bounds[group[0], 0]), int(bounds[group[-1], 1])
                inside = spans[(of >= group[0]) & (of <= group[-1])]
                returning[first:behind] = self._returning(stream.read(first, behind), first, bounds, inside)
        kept = spans[several[of]]
        return _Parts(kept[:, 1] - kept[:, 0] + 2, kept, returning)

    def _returning(self, tokens: npt.NDArray[np.int32], first: int, bounds: Ints, spans: Ints) -> npt.NDArray[np.bool_]:
        """Returns which of some tokens, from the ``first`` one of the text on, are in several parts of a document."""
        places = first + np.arange(len(tokens))
        part = np.searchsorted(spans[:, 0], places, side="right")
        document = np.searchsorted(bounds[:, 1], places, side="right")
        key = (document - document[0]) * self.context.tokenizer.vocab_size + tokens
        order = np.argsort(key, kind="stable")
        begins = np.flatnonzero(np.diff(key[order], prepend=-1))  # of equal tokens of one document
        ends = np.append(begins[1:], len(order)) - 1
        several = part[order[begins]] != part[order[ends]]
        found = np.zeros(len(tokens), np.bool_)
        found[order] = np.repeat(several, ends - begins + 1)
        return found

    def row(self, stream: SentenceStream, examples: _Parts, place: int) -> Row:
        """Makes a row."""
        begin, end = examples.spans[place].tolist()
        tokens, segments = self.context.frame(stream.read(begin, end))
        labels = np.full(len(tokens), -1, np.int64)
        labels[1:-1] = examples.returning[begin:end]
        labels[np.isin(tokens, self._special)] = -1
        return Row(tokens, segments, labels)


def _bounds(stream: SentenceStream) -> Ints:
    """Returns where each document begins and ends, (documents, 2)."""
    begins, ends = stream.sentences
    bounds = np.array(stream.document_sentences, np.int64)
    return np.stack((begins[bounds[:, 0]], ends[bounds[:, 1] - 1]), 1)
