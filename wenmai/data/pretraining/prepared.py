"""Examples that were prepared as ids: the files that the released program of ERNIE 1.0 is trained on.

A line is ``token_ids;sent_ids;pos_ids;seg_labels;label``, numbers with spaces between them: the tokens of a row with
its special ones, their segments, their positions, 0 where a unit (a word, a phrase, an entity) begins, 1 where it goes
on and -1 for [CLS] and [SEP]; the label is 1 if the second text follows the first one, else 0, the other way round than
in BERT. Alternatively a file lists such files, each with a tab and the probability that units are masked in a pass over
it, and not single tokens.

Rows that are longer than the model reads are left out, as there. One row in 20 is to validate on.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.lines import beginning, text_lines
from wenmai.data.masking import MaskingConfig
from wenmai.data.pretraining.knowledge import as_units
from wenmai.data.pretraining.task import Context, Drawn, PretrainingTask, Row, set_aside, sources_of
from wenmai.data.sequences import SentenceStream

__all__ = ["Prepared", "PreparedRow", "read_prepared"]

_FIELDS = ("token_ids", "sent_ids", "pos_ids", "seg_labels", "label")
_EXPECTED = f"expected {';'.join(_FIELDS)}, numbers with spaces between them"
_FEWEST = 2


class PreparedRow(NamedTuple):
    """A line of a file.

    Attributes:
        tokens: Ids, special ones included.
        segments: As many.
        units: As many: 0 where a unit begins, 1 where it goes on, -1 for special tokens.
        label: 1 if the second text follows the first one.
    """

    tokens: npt.NDArray[np.int32]
    segments: npt.NDArray[np.int8]
    units: npt.NDArray[np.int8]
    label: int


class Prepared(PretrainingTask):
    """Does the second text follow the first one? Rows are those of files."""

    name = "prepared"
    level = "sequence"
    classes = ("not next", "next")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if (named := context.settings.prepared_files) is None:
            raise SettingError(
                "the task prepared has no examples; name a file of them (prepared_files=FILE), or leave prepared out "
                "of tasks"
            )
        self.masking: MaskingConfig = as_units(context.masking)
        files = _files(Path(named))
        paths = dict.fromkeys([Path(named), *(path for path, _ in files)])
        self.sources = list(chain.from_iterable(map(sources_of, paths)))
        self._share = np.array([share for _, share in files])
        self._rows: list[PreparedRow] = []
        of, longer = [], 0
        for number, (path, _) in enumerate(files):
            for line, row in read_prepared(path):
                _require_fitting(row, context, f"{path}: line {line}")
                if len(row.tokens) > context.max_length:
                    longer += 1
                    continue
                self._rows.append(row)
                of.append(number)
        if longer:
            total = longer + len(self._rows)
            limit = f"max_length={context.max_length}"
            self.notes = [f"{named}: {longer:,} of {total:,} rows are longer than {limit}, and are left out"]
        if len(self._rows) < _FEWEST:
            raise CorpusError(
                f"{named}: has {len(self._rows)} rows of at most max_length={context.max_length} tokens; expected "
                f"{_FEWEST} at least, one of them to validate on"
            )
        self._of = np.array(of, np.int64)
        self._aside = set_aside(range(len(self._rows)))

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Nothing: the rows are not those of the text."""

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Takes all rows; the table has their numbers, and whether units are masked or single tokens."""
        chosen = np.flatnonzero(self._aside == stream.held_out)
        whole = random.random(len(self._share)) < self._share
        lengths = np.array([len(self._rows[row].tokens) for row in chosen.tolist()], np.int64)
        return Drawn(lengths, np.stack((chosen, whole[self._of[chosen]]), 1))

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row."""
        number, whole = examples.table[place].tolist()
        found = self._rows[number]
        units = (found.units < 1 if whole else np.ones(len(found.units), np.bool_)).astype(np.uint8)
        return Row(found.tokens, found.segments.astype(np.int64), found.label, units)


def _files(path: Path) -> list[tuple[Path, float]]:
    """Returns the files of a list, which may be named from its folder, and the share of units of each."""
    if ";" in beginning(path).lstrip().partition("\n")[0]:
        return [(path, 1.0)]
    found = []
    for number, line in text_lines(path):
        if not line.strip():
            continue
        name, _, share = line.rpartition("\t")
        try:
            value = float(share)
        except ValueError:
            value = -1.0
        if not name.strip() or not 0 <= value <= 1:
            raise CorpusError(
                f"{path}: line {number} is {line[:60]!r}; {_EXPECTED}, or a file of such lines, a tab, and a "
                "probability from 0 to 1"
            )
        found.append((path.parent / name.strip(), value))
    if not found:
        raise CorpusError(f"{path}: is empty; {_EXPECTED}")
    return found


def read_prepared(path: Path) -> Iterator[tuple[int, PreparedRow]]:
    """Yields the line and the content of each row of a file; compressed files are recognised.

    Raises:
        CorpusError: if a line is of another form.
    """
    for number, line in text_lines(path):
        if line.strip():
            try:
                yield number, _row(line)
            except (ValueError, OverflowError) as error:
                raise CorpusError(f"{path}: line {number} ({line[:40]!r}): {error}; {_EXPECTED}") from None


def _row(line: str) -> PreparedRow:
    fields = line.split(";")
    if len(fields) != len(_FIELDS):
        raise ValueError(f"has {len(fields)} fields, not {len(_FIELDS)}")
    columns = [list(map(int, field.split())) for field in fields]
    tokens, segments, positions, units, label = columns
    if not tokens:
        raise ValueError("it has no tokens")
    if len({len(tokens), len(segments), len(positions), len(units)}) > 1:
        sizes = ", ".join(str(len(column)) for column in columns[:-1])
        raise ValueError(f"its first fields have {sizes} numbers; expected as many")
    if len(label) != 1 or label[0] not in (0, 1):
        raise ValueError(f"the label is {fields[-1].strip()[:20]!r}, not 0 or 1")
    if not set(units) <= {-1, 0, 1}:
        raise ValueError("seg_labels are not all -1, 0 or 1")
    if positions != list(range(len(positions))):
        raise ValueError("pos_ids do not count from 0")
    return PreparedRow(np.array(tokens, np.int32), np.array(segments, np.int8), np.array(units, np.int8), label[0])


def _require_fitting(row: PreparedRow, context: Context, where: str) -> None:
    """Makes sure that the ids of a row are those of the tokenizer, and its segments those of the model."""
    tokenizer = context.tokenizer
    tokens = row.tokens
    if not (
        0 <= tokens.min() <= tokens.max() < tokenizer.vocab_size
        and (tokens[0], tokens[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
    ):
        raise CorpusError(
            f"{where}: has ids of another vocabulary: the row does not begin with {tokenizer.cls_id} and end with "
            f"{tokenizer.sep_id}, or has ids from {tokenizer.vocab_size} on; name the vocab.txt that it was made with "
            "(file=vocab.txt)"
        )
    lowest, highest = int(row.segments.min()), int(row.segments.max())
    if lowest < 0:
        raise CorpusError(f"{where}: has the segment {lowest}; {_EXPECTED}")
    if highest >= max(1, context.segments):
        raise CorpusError(f"{where}: has the segment {highest}; set segments={highest + 1}")
