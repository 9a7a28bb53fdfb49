"""Readers of the files of evaluation data: typed examples, in the order of the files.

A malformed row is a :class:`~wenmai.core.errors.CorpusError` that names file and line.
"""

import csv
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

from wenmai.core.compressed import reading
from wenmai.core.errors import CorpusError
from wenmai.data.lines import read_json
from wenmai.data.tags import bio_tags
from wenmai.data.typed import (
    ChoiceExample,
    LabelledExample,
    MinimalPair,
    PairExample,
    TaggedSentence,
    TextExample,
)

__all__ = [
    "ENTAILMENT",
    "EQUIVALENCE",
    "INFERENCE",
    "QUESTIONS",
    "ChoiceExample",
    "LabelledExample",
    "MinimalPair",
    "PairExample",
    "TaggedSentence",
    "TextExample",
    "bio_tags",
    "choices",
    "columns",
    "entailed",
    "inferences",
    "label_and_text",
    "matches",
    "minimal_pairs",
    "paraphrases",
    "questions",
    "questions_of_text",
    "related",
    "reviews",
    "segmented",
    "spans",
    "tagged_spans",
    "text_and_label",
    "title_and_text",
    "triples",
]

QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")  # codespell:ignore enty
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("entailment", "neutral", "contradiction")
EQUIVALENCE = {"0": "not_equivalent", "1": "equivalent"}
_JUDGEMENTS = {name.upper(): name for name in INFERENCE}
_POLES = {"neg": "negative", "pos": "positive"}
_MAX_LINE = 1 << 20


def _lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields number and content of the lines of a file, without their ends."""
    number = 0
    with reading(path, error=CorpusError) as raw:
        file = io.BufferedReader(cast(io.RawIOBase, raw), 1 << 20)
        while line := file.readline(_MAX_LINE):
            number += 1
            if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                raise CorpusError(f"{path}: line {number} is longer than a megabyte; this is not the file it should be")
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError as error:
                raise CorpusError(f"{path}: line {number} is not {encoding} ({error.reason})") from None
            yield number, (text.removeprefix("\ufeff") if number == 1 else text).rstrip("\r\n")
    if number == 0:
        raise CorpusError(f"{path}: is empty")


def _error(path: Path, number: int, found: object, expected: str) -> CorpusError:
    return CorpusError(f"{path}: line {number} is {str(found)[:60]!r}; expected {expected}")


def _label(names: Mapping[str, str], value: str, path: Path, number: int) -> str:
    try:
        return names[value]
    except KeyError:
        raise _error(path, number, value, f"one of the labels {', '.join(names)}") from None


def _tabbed(path: Path, columns: int, *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yields number and cells of lines with so many columns."""
    for number, line in islice(_lines(path), int(header), None):
        cells = line.split("\t")
        if len(cells) != columns:
            raise _error(path, number, line, f"{columns} columns with tabs between them, not {len(cells)}")
        yield number, cells


def text_and_label(path: Path, names: Mapping[str, str]) -> Iterator[TextExample]:
    """Reads lines of a text, a tab and a label."""
    for number, (text, label) in _tabbed(path, 2):
        yield TextExample(text, _label(names, label, path, number))


def _comma_rows(path: Path, columns: int, *, header: bool) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader((line + "\n" for _, line in _lines(path)), strict=True)
    begin = 1
    try:
        for place, row in enumerate(rows):
            if len(row) != columns:
                raise _error(path, begin, row, f"{columns} columns with commas between them, not {len(row)}")
            if place or not header:
                yield begin, [cell.replace("\n", " ") for cell in row]
            begin = rows.line_num + 1
    except csv.Error as error:
        raise CorpusError(f"{path}: line {begin}: is not CSV ({error})") from None


def label_and_text(path: Path, names: Mapping[str, str]) -> Iterator[TextExample]:
    """Reads CSV with a heading and the columns label and text."""
    for number, (label, text) in _comma_rows(path, 2, header=True):
        yield TextExample(text, _label(names, label, path, number))


def title_and_text(path: Path, names: Mapping[str, str]) -> Iterator[TextExample]:
    """Reads CSV without a heading and with the columns label, title and text."""
    for number, (label, title, text) in _comma_rows(path, 3, header=False):
        yield TextExample(f"{title} {text}", _label(names, label, path, number))


def questions(path: Path, *, fine: bool) -> Iterator[TextExample]:
    """Reads TREC: COARSE:fine and the question, in Latin-1."""
    for number, line in _lines(path, "latin-1"):
        label, _, text = line.partition(" ")
        coarse, colon, _ = label.partition(":")
        if not colon or coarse not in QUESTIONS or not text:
            raise _error(path, number, line, "COARSE:fine and a question")
        yield TextExample(text, label if fine else coarse)


def reviews(path: Path) -> Iterator[TextExample]:
    """Reads a tar archive of the original layout: SPLIT/{pos,neg}/ID_RATING.txt."""
    try:
        with reading(path, error=CorpusError) as raw, tarfile.open(fileobj=raw, mode="r|") as archive:
            for member in archive:
                place = re.search(r"/(pos|neg)/\d+_\d+\.txt$", member.name)
                if not place or not member.isfile():
                    continue
                content = archive.extractfile(member) if member.size <= _MAX_LINE else None
                if content is None:
                    raise CorpusError(f"{path}: {member.name} has {member.size} bytes, more than any review")
                text = content.read().decode()
                yield TextExample(re.sub(r"(?:\s*<br\s*/?>)+\s*|\s*\n\s*", " ", text), _POLES[place[1]])
    except (tarfile.TarError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: is not a whole tar archive of reviews ({error})") from None


def columns(path: Path, width: int, column: int, scheme: Literal["iob1", "bmes"] | None) -> Iterator[TaggedSentence]:
    """Reads a token and its tags a line, blank lines between sentences."""
    tokens: list[str] = []
    tags: list[str] = []
    begin = 1

    def sentence() -> TaggedSentence:
        try:
            return TaggedSentence(tuple(tokens), bio_tags(tags, scheme) if scheme else tuple(tags))
        except ValueError as error:
            raise CorpusError(f"{path}: in the sentence of line {begin}: {error}") from None

    for number, line in _lines(path):
        if not line.strip() or line.startswith("-DOCSTART-"):
            if tokens:
                yield sentence()
            tokens, tags, begin = [], [], number + 1
            continue
        cells = line.split(" ")
        if len(cells) != width or not all(cells):
            raise _error(path, number, line, f"{width} columns with spaces between them")
        tokens.append(cells[0])
        tags.append(cells[column])
    if tokens:
        yield sentence()


def spans(path: Path) -> Iterator[TaggedSentence]:
    """Reads CLUENER's JSON lines; of overlapping entities the first stays, of those with one start the longest."""
    expected = '{"text": ..., "label": {TYPE: {SURFACE: [[first, last], ...]}}}'
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            text, label = record["text"], record["label"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _error(path, number, line, expected) from None
        try:
            yield tagged_spans(text, label)
        except ValueError as error:
            raise CorpusError(f"{path}: line {number} {error}") from None
        except (KeyError, TypeError, AttributeError):
            raise _error(path, number, line, expected) from None


def tagged_spans(text: Any, label: Any) -> TaggedSentence:  # noqa: ANN401  any JSON
    """Returns the characters of a text with the tags of its entities ``{TYPE: {SURFACE: [[first, last], ...]}}``.

    Raises:
        ValueError: if an entity is not where it is said to be.
        TypeError, AttributeError: if it is none.
    """
    spans = [
        (int(first), -int(last), str(kind), str(surface))
        for kind, surfaces in label.items()
        for surface, places in surfaces.items()
        for first, last in places
    ]
    tags = ["O"] * len(text)
    end = 0
    for first, minus_last, kind, surface in sorted(spans):
        last = -minus_last
        if not 0 <= first <= last < len(text) or text[first : last + 1] != surface:
            raise ValueError(f"is {surface[:60]!r}; expected the characters {first} to {last} of the text")
        if first >= end:
            tags[first : last + 1] = [f"B-{kind}"] + [f"I-{kind}"] * (last - first)
            end = last + 1
    return TaggedSentence(tuple(text), tuple(tags))


def segmented(path: Path) -> Iterator[TaggedSentence]:
    """Reads words with spaces between them, a sentence a line, as characters that begin or continue a word.

    So the F1 of the words is that of entities of one type, ``word``. Blank lines are left out.
    """
    for _, line in _lines(path):
        if words := line.split():
            tags = (tag for word in words for tag in ("B-word", *["I-word"] * (len(word) - 1)))
            yield TaggedSentence(tuple("".join(words)), tuple(tags))


def paraphrases(path: Path) -> Iterator[PairExample]:
    """Reads MRPC."""
    for number, (label, _, _, first, second) in _tabbed(path, 5, header=True):
        yield PairExample(first, second, _label(EQUIVALENCE, label, path, number))


def related(path: Path) -> Iterator[PairExample]:
    """Reads SICK."""
    for number, (_, first, second, score, label) in _tabbed(path, 5, header=True):
        if not re.fullmatch(r"[1-5](\.\d+)?", score):
            raise _error(path, number, score, "a score from 1 to 5")
        yield PairExample(first, second, _label(_JUDGEMENTS, label, path, number), float(score))


def entailed(path: Path) -> Iterator[PairExample]:
    """Reads RTE as GLUE has it."""
    for number, (_, first, second, label) in _tabbed(path, 4, header=True):
        yield PairExample(first, second, _label({name: name for name in ENTAILMENT}, label, path, number))


def inferences(path: Path) -> Iterator[PairExample]:
    """Reads OCNLI; pairs that its annotators did not agree on (label ``-``) are left out."""
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            first, second, label = str(record["sentence1"]), str(record["sentence2"]), str(record["label"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _error(path, number, line, "a JSON object with sentence1, sentence2 and label") from None
        if label != "-":
            yield PairExample(first, second, _label({name: name for name in INFERENCE}, label, path, number))


def matches(path: Path) -> Iterator[PairExample]:
    """Reads lines of two sentences and 0 or 1."""
    for number, (first, second, label) in _tabbed(path, 3):
        yield PairExample(first, second, _label({"0": "0", "1": "1"}, label, path, number))


def triples(path: Path) -> Iterator[PairExample]:
    """Reads lines of a sentence, one that fits and one that does not: two pairs each."""
    for _, (query, positive, negative) in _tabbed(path, 3):
        yield PairExample(query, positive, "1")
        yield PairExample(query, negative, "0")


def choices(path: Path) -> Iterator[ChoiceExample]:
    """Reads DREAM and C3: JSON ``[[turns, [{"question", "choice": [...], "answer"}, ...], id], ...]``."""
    records = read_json(path)
    if not isinstance(records, list) or not records:
        raise CorpusError(f"{path}: has no list of texts with questions")
    for number, record in enumerate(records, start=1):
        try:
            found = questions_of_text(record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            expected = 'expected [turns, [{"question", "choice", "answer"}, ...], id], the answer one of the choices'
            raise CorpusError(f"{path}: text {number}: {error}; {expected}") from None
        yield from found


def questions_of_text(record: Any) -> list[ChoiceExample]:  # noqa: ANN401  any JSON
    """Returns the questions of a text of DREAM or C3.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: if it is none.
    """
    turns, questions, _ = record
    found = [
        ChoiceExample(
            turns=_texts(turns),
            question=_text(question["question"]),
            options=_texts(question["choice"]),
            answer=question["choice"].index(question["answer"]),
        )
        for question in questions
    ]
    if any(len(example.options) < 2 for example in found):
        raise ValueError("a question has fewer than two answers")
    return found


def minimal_pairs(path: Path) -> Iterator[MinimalPair]:
    """Reads minimal pairs: JSON lines as BLiMP has them, or lines of a good sentence, a tab and a bad one.

    JSON objects have ``sentence_good`` and ``sentence_bad`` (or ``good`` and ``bad``), and may have ``UID``, the
    paradigm, and ``linguistics_term``, the phenomenon. Lines with tabs may have these two as further columns. Without
    a paradigm the pairs are that of the file's name, and without a phenomenon a paradigm is one of its own. Blank lines
    and a heading ``good<TAB>bad`` are left out.
    """
    own, read, anything = path.name.partition(".")[0], None, False
    for number, line in _lines(path):
        if not line.strip():
            continue
        read = read or (_json_pair if line.lstrip().startswith("{") else _tabbed_pair)
        try:
            if (found := read(line, own)) is not None:
                anything = True
                yield found
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            form = "JSON object with sentence_good and sentence_bad" if read is _json_pair else "GOOD<TAB>BAD sentence"
            why = f" ({error})" if type(error) is ValueError else ""
            raise _error(path, number, line, f"a {form}{why}") from None
    if not anything:
        raise CorpusError(f"{path}: has no pairs; expected lines of GOOD<TAB>BAD, or JSON lines as BLiMP has them")


def _json_pair(line: str, own: str) -> MinimalPair:
    record = json.loads(line)
    long = "sentence_good" in record
    good, bad = (record[f"sentence_{name}" if long else name] for name in ("good", "bad"))
    return _minimal_pair(good, bad, record.get("UID"), record.get("linguistics_term"), own)


def _tabbed_pair(line: str, own: str) -> MinimalPair | None:
    cells = [cell.strip() for cell in line.split("\t")]
    if not 2 <= len(cells) <= 4:
        raise ValueError(f"{len(cells)} columns, not 2 to 4")
    good, bad, paradigm, phenomenon = [*cells, "", ""][:4]
    if (good.lower(), bad.lower()) in (("good", "bad"), ("sentence_good", "sentence_bad")):
        return None
    return _minimal_pair(good, bad, paradigm, phenomenon, own)


def _minimal_pair(good: object, bad: object, paradigm: object, phenomenon: object, own: str) -> MinimalPair:
    first, second = _line(good), _line(bad)
    if first == second:
        raise ValueError("both sentences are the same")
    named = own if paradigm in (None, "") else _line(paradigm)
    return MinimalPair(first, second, named, named if phenomenon in (None, "") else _line(phenomenon))


def _line(value: object) -> str:
    """Returns a text that can stand on a line, without white space around it."""
    text = _text(value).strip()
    if any(mark in text for mark in "\n\r\0"):
        raise ValueError("a line end or a NUL within a text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a lone surrogate, which is no character")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{str(value)[:60]!r} is no text")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{str(values)[:60]!r} is no list of texts")
    return tuple(map(_text, values))
