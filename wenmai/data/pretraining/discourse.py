"""Discourse relation: with which word does a sentence go on from the one before it, if that word is taken away?

Sun et al. 2020 (ERNIE 2.0), section 4.2.3, after Sileo et al. 2019, "Mining Discourse Markers for Unsupervised Sentence
Representation Learning", https://arxiv.org/abs/1903.11850: sentences that begin with a connective such as *however*
follow another one; the connective, and a comma behind it, are left out, and are the class. The lists are those of
:mod:`wenmai.data.pretraining.connectives`; all of a list are classes, whichever the text has.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.data.pretraining.connectives import CONNECTIVES
from wenmai.data.pretraining.sentence_pairs import PairTask
from wenmai.data.pretraining.task import Context, Drawn
from wenmai.data.sequences import SentenceStream
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.word_starts import WordStarts

__all__ = ["Discourse"]

_AT_ONCE = 1 << 22  # tokens that are looked at together
_NO_TOKEN = -1

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


class Discourse(PairTask):
    """Connectives between sentences."""

    name = "discourse"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.classes = CONNECTIVES[context.settings.language]
        self._spelled = _spelled(self.classes, context.tokenizer)
        behind = _encoded("a,", "一，", tokenizer=context.tokenizer)  # by some tokenizers unlike one by itself
        commas = {ids[-1] for ids in behind if len(ids) > 1}
        commas |= {ids[0] for ids in _encoded(",", "，", tokenizer=context.tokenizer) if len(ids) == 1}
        self._commas = np.array(sorted(commas - {context.tokenizer.unk_id}), np.int64)
        self._words = None if context.settings.language == "chinese" else WordStarts(context.tokenizer)

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that some sentence begins with a connective."""
        if not len(self.examples(stream, np.random.default_rng(0)).lengths):
            known = ", ".join(self.classes[:3])
            other = "chinese" if self._words is not None else "english"
            raise CorpusError(
                f"{what} has no sentence that follows another one and begins with a connective such as {known}, which "
                f"the task discourse needs; set language={other} if the text is {other.capitalize()}, set "
                "sentences=split, or leave discourse out of tasks"
            )

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Finds sentences that begin with a connective; nothing is random."""
        begins, ends = stream.sentences
        firsts = np.array([first for first, _ in stream.document_sentences], np.int64)
        follows = np.ones(len(begins), np.bool_)
        follows[firsts] = False
        found, labels, skipped = [], [], []
        for group in _groups(ends):
            head = self._heads(stream, begins[group], ends[group])
            numbers, size = self._matched(head, ends[group] - begins[group])
            right = np.flatnonzero((numbers >= 0) & follows[group])
            found.append(group[right])
            labels.append(numbers[right])
            skipped.append(size[right])
        sentences, cut = np.concatenate(found), np.concatenate(skipped)
        spans = np.stack((begins, ends), 1)
        other = spans[sentences] + np.stack((cut, np.zeros_like(cut)), 1)
        filled = np.flatnonzero((spans[sentences - 1, 1] > spans[sentences - 1, 0]) & (other[:, 1] > other[:, 0]))
        return self.drawn(spans[sentences - 1][filled], other[filled], np.concatenate(labels)[filled])

    def _heads(self, stream: SentenceStream, begins: Ints, ends: Ints) -> Ids:
        """Returns the first tokens of sentences, (sentences, longest + 2)."""
        low, high = int(begins[0]), int(ends[-1])
        tokens = stream.read(low, high)
        width = max((len(ids) for ids, _ in self._spelled), default=0) + 2
        places = begins[:, None] + np.arange(width)
        inside = places < ends[:, None]
        return np.where(inside, tokens[np.minimum(places - low, max(0, high - low - 1))], _NO_TOKEN).astype(np.int32)

    def _matched(self, heads: Ids, sizes: Ints) -> tuple[Ints, Ints]:
        """Returns the connective with which each sentence begins, -1 if with none, and how many tokens are cut off."""
        numbers, cut = np.full(len(heads), -1), np.zeros(len(heads), np.int64)
        starts = np.ones(heads.shape, np.bool_)
        if self._words is not None:
            starts = self._words(np.maximum(heads, 0).ravel()).reshape(heads.shape) | (heads == _NO_TOKEN)
        for ids, number in self._spelled:  # the longest first
            fits = (numbers < 0) & (heads[:, : len(ids)] == ids).all(1) & starts[:, len(ids)]
            numbers[fits] = number
            cut[fits] = len(ids) + np.isin(heads[fits, len(ids)], self._commas)
        return numbers, np.minimum(cut, sizes)


def _groups(ends: Ints) -> list[Ints]:
    """Returns the numbers of sentences, in groups of so many tokens together."""
    edges = np.searchsorted(ends, np.arange(_AT_ONCE, int(ends[-1]), _AT_ONCE))
    return [group for group in np.split(np.arange(len(ends)), edges) if len(group)]


def _encoded(*texts: str, tokenizer: Tokenizer) -> list[list[int]]:
    return tokenizer.encode_batch(list(texts))


def _spelled(connectives: Sequence[str], tokenizer: Tokenizer) -> list[tuple[Ids, int]]:
    """Returns the ids of connectives, as they begin sentences, with their numbers; those of most tokens first."""
    found: dict[tuple[int, ...], int] = {}
    for number, one in enumerate(connectives):
        for ids in _encoded(one, one[0].upper() + one[1:], tokenizer=tokenizer):
            if ids and tokenizer.unk_id not in ids:
                found.setdefault(tuple(ids), number)
    ordered = sorted(found.items(), key=lambda item: -len(item[0]))
    return [(np.array(ids, np.int32), number) for ids, number in ordered]
