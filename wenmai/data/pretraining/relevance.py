"""Relevance: how well does a text answer a query?

Sun et al. 2020 (ERNIE 2.0), section 4.2.3: queries and titles of a search engine, whose users clicked on a title
(strong), saw it and did not (weak), or never saw it (irrelevant). With ``relevance_file`` they are read from a table of
query, title and label. Without, the documents of the text stand in: the first sentence of a document, its title, is the
query; the sentence behind it answers it strongly, a later one weakly, and one of another document not at all.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from wenmai.core.errors import CorpusError, nearest_name
from wenmai.data.lines import text_lines
from wenmai.data.pretraining.sentence_pairs import PairTask, other_documents
from wenmai.data.pretraining.task import Context, Drawn, Row, set_aside, sources_of
from wenmai.data.sequences import SentenceStream

__all__ = ["Relevance", "read_queries"]

_CLASSES = ("strong", "weak", "irrelevant")
_FEWEST = 2


class Relevance(PairTask):
    """Queries and texts."""

    name = "relevance"
    classes = _CLASSES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._rows: list[tuple[np.ndarray, np.ndarray]] = []
        if (named := context.settings.relevance_file) is None:
            return
        path = Path(named)
        self.sources = sources_of(path)
        rows = read_queries(path)
        encoded = context.tokenizer.encode_batch([text for query, title, _ in rows for text in (query, title)])
        self._rows = [
            (np.array(one, np.int32), np.array(other, np.int32))
            for one, other in zip(encoded[::2], encoded[1::2], strict=True)
        ]
        self.note_unknown(path, [text for row in self._rows for text in row])
        self._labels = np.array([label for _, _, label in rows], np.int64)
        aside = set_aside([query for query, _, _ in rows])  # a query has several titles
        filled = np.array([bool(len(one)) and bool(len(other)) for one, other in self._rows])
        if not filled.all():
            left_out = np.count_nonzero(~filled)
            told = f"{path}: {left_out:,} of {len(rows):,} rows have no query or no title, and are left out"
            self.notes = [*self.notes, told]
        self._train, self._valid = np.flatnonzero(~aside & filled), np.flatnonzero(aside & filled)

    @property
    def otherwise(self) -> str:
        """What to do without documents."""
        return "name a table of queries, titles and labels (relevance_file=FILE), or leave relevance out of tasks"

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that there are documents with something behind their titles."""
        if self._rows:
            if not len(self._valid if stream.held_out else self._train):
                raise CorpusError(f"{self.sources[0]['path']}: has no row of a query and a title with words")
            return
        self.require_documents(stream, what)

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Takes all rows of the file, or three of each document: one of each class."""
        if self._rows:
            chosen = self._valid if stream.held_out else self._train
            sizes = np.array([(len(self._rows[row][0]), len(self._rows[row][1])) for row in chosen.tolist()])
            sizes = sizes.reshape(-1, 2).astype(np.int64)
            zeros = np.zeros(len(chosen), np.int64)
            drawn = self.drawn(
                np.stack((zeros, sizes[:, 0]), 1), np.stack((zeros, sizes[:, 1]), 1), self._labels[chosen]
            )
            return drawn._replace(table=np.concatenate((drawn.table, chosen[:, None]), 1))
        bounds = np.array(stream.document_sentences, np.int64)
        spans = np.stack(stream.sentences, 1)
        sizes = bounds[:, 1] - bounds[:, 0]
        long = np.flatnonzero(sizes > 2)
        later = bounds[long, 0] + 2 + (random.random(len(long)) * (sizes[long] - 2)).astype(np.int64)
        titled = np.flatnonzero(sizes > 1)
        weak = titled if len(bounds) > 1 else titled[:0]  # a text to validate on may be one document
        elsewhere = other_documents(weak, bounds, random)
        another = bounds[elsewhere, 0] + (random.random(len(weak)) * sizes[elsewhere]).astype(np.int64)
        of = np.concatenate((titled, long, weak))
        texts = np.concatenate((bounds[titled, 0] + 1, later, another))
        labels = np.repeat(np.arange(3), (len(titled), len(long), len(weak)))
        queries = bounds[of, 0]
        keep = np.flatnonzero((spans[queries, 1] > spans[queries, 0]) & (spans[texts, 1] > spans[texts, 0]))
        return self.drawn(spans[queries[keep]], spans[texts[keep]], labels[keep])

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row."""
        if not self._rows:
            return super().row(stream, examples, place)
        _, first, _, second, label, number = examples.table[place].tolist()
        one, other = self._rows[number]
        tokens, segments = self.context.frame(one[:first], other[:second])
        return Row(tokens, segments, label)


def _is_heading(cell: str, names: Iterable[str]) -> bool:
    """Whether a cell where labels are names the column, and is no misspelt label."""
    cell = cell.casefold()
    usual = cell in ("label", "labels", "relevance", "relevant", "class")
    return usual or (cell.replace("_", "").isalpha() and cell not in names and not nearest_name(cell, names))


def read_queries(path: Path) -> list[tuple[str, str, int]]:
    """Reads a table of queries, titles and labels, with tabs between them: 0 or strong, 1 or weak, 2 or irrelevant.

    A first line of names is skipped.

    Raises:
        CorpusError: if a line is of another form, or there are too few.
    """
    names = {name: number for number, name in enumerate(_CLASSES)} | {str(number): number for number in range(3)}
    found = []
    for number, line in text_lines(path):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 3 or cells[2] not in names:
            if number == 1 and len(cells) == 3 and _is_heading(cells[2], names):
                continue
            raise CorpusError(
                f"{path}: line {number} is {line[:60]!r}; expected a query, a title and a label (0 strong, 1 weak, 2 "
                "irrelevant) with tabs between them"
            )
        found.append((cells[0], cells[1], names[cells[2]]))
    if (count := len({query for query, _, _ in found})) < _FEWEST:
        raise CorpusError(f"{path}: has {count} queries; expected {_FEWEST} at least, one of them to validate on")
    return found
