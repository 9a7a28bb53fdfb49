"""Rows of a table and objects of JSON as examples: which column is which, and what may stand in it."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from wenmai.core.task_names import TaskName
from wenmai.data.typed import ChoiceExample, PairExample, ScoredExample, SpanExample, TextExample

__all__ = [
    "ANSWER",
    "CONTEXT",
    "QUESTION",
    "Roles",
    "Undecided",
    "Unlabelled",
    "checked",
    "choice_of",
    "folded",
    "is_empty",
    "listed",
    "marked",
    "text_of",
    "unmarked",
    "without_empty_end",
]

Record = Mapping[str, Any]

# usual names of columns, see table_columns.py
CONTEXT = ("context", "passage", "article", "document", "dialogue", "turns", "premise", "sent1", "ctx", "text",
            "content", "startphrase", "文章", "文本", "对话", "上下文")  # fmt: skip
QUESTION = ("question", "query", "sent2", "问题")
_OPTIONS = ("options", "choices", "choice", "endings", "answers", "candidates", "选项")
ANSWER = ("answer", "label", "answerkey", "correct", "gold", "target", "correctanswer", "答案", "标签")
_NUMBERED = ("ending", "choice", "option", "answer", "选项", "")  # and a number or a letter
_MARK = "__label__"
_UNDECIDED = "-"  # of pairs on which the annotators did not agree, in SNLI and its relatives


class Unlabelled(ValueError):
    """A record has no label."""


class Undecided(Unlabelled):
    """A pair whose annotators did not agree."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns have what; several columns of a text are joined with spaces.

    Attributes:
        first: Of the text, or of the first of two.
        second: Of the second text, or none.
        label: Of the label or the number; empty if it is not wanted.
    """

    first: tuple[str, ...]
    second: tuple[str, ...] = ()
    label: str = ""

    def example(self, record: Record, task: TaskName) -> TextExample | PairExample | ScoredExample:
        """Returns the example that a record is.

        Raises:
            Unlabelled: if it has no label.
            ValueError: if a column is missing, or is not what it should be.
        """
        first = " ".join(text_of(record, name) for name in self.first)
        second = " ".join(text_of(record, name) for name in self.second)
        if self.label and self.label not in record:
            raise Unlabelled(f"has no {self.label!r}; it has {listed(record)}")
        given = record[self.label] if self.label else None
        if task == "regression":
            number = _number(given, _called(self.label)) if self.label else math.nan
            return ScoredExample(first, second if self.second else None, number)
        label = _label(given, _called(self.label), undecided=task == "pair") if self.label else ""
        return PairExample(first, second, label) if task == "pair" else TextExample(first, label)


def checked(
    example: TextExample | PairExample | ScoredExample | ChoiceExample, *, labelled: bool
) -> TextExample | PairExample | ScoredExample | ChoiceExample:
    """Returns an example from Python with its label as text, or its number as a float, as those of files are.

    Raises:
        Unlabelled: if it has no label.
        ValueError: if a text is none, or the label or number is not what it should be.
    """
    if isinstance(example, ChoiceExample):
        answer = None if example.answer == -1 else example.answer
        named = {"context": [*example.turns], "question": example.question, "options": [*example.options]}
        return choice_of({**named, "answer": answer}, labelled=labelled)
    for name in ("text", "first", "second"):
        value = getattr(example, name, "")
        if value is None and isinstance(example, ScoredExample) and name == "second":
            continue
        if not isinstance(value, str):
            raise ValueError(f"{name} is {_shown(value)}; expected a text")
        _plain(value, name)
    if isinstance(example, ScoredExample):
        return example._replace(score=_number(example.score, "score") if labelled else math.nan)
    if not labelled:
        return example
    given: Any = example.label
    if isinstance(given, str) and (given or hasattr(example, "weight")):
        _plain(given, "label")  # it stays as it is: the classes of an estimator may be any texts
        return example
    label = _label(example.label, "label", undecided=False)
    found = example._replace(label=label)
    if hasattr(example, "weight"):
        vars(found).update(vars(example))
    return found


def is_empty(example: object) -> bool:
    """Whether a text of an example is empty; questions are checked where they are read."""
    if isinstance(example, ChoiceExample | SpanExample):
        return False
    texts = (getattr(example, name, None) for name in ("text", "first", "second"))
    return not all(text.strip() for text in texts if isinstance(text, str))


def marked(line: str) -> TextExample:
    """Returns the example of a line of words, one of which is ``__label__NAME``.

    Raises:
        Unlabelled: if none is.
        ValueError: if several are.
    """
    words = line.split()
    labels = [word.removeprefix(_MARK) for word in words if word.startswith(_MARK) and word != _MARK]
    if not labels:
        raise Unlabelled(f"has no {_MARK}NAME")
    if len(labels) > 1:
        raise ValueError(f"has the labels {', '.join(labels)[:60]}; expected one")
    return unmarked(line)._replace(label=labels[0])


def unmarked(line: str) -> TextExample:
    """Returns the words of a line that are not ``__label__NAME``, without a label."""
    return TextExample(" ".join(word for word in line.split() if not word.startswith(_MARK)), "")


def _cell(record: Record, name: str) -> Any:  # noqa: ANN401  any JSON
    if name not in record:
        raise ValueError(f"has no {name!r}; it has {listed(record)}")
    return record[name]


def text_of(record: Record, name: str) -> str:
    """Returns a text of a record on one line.

    Raises:
        ValueError: if it is none.
    """
    value = _cell(record, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{_called(name)} is {_shown(value)}; expected a text")
    return _plain(value, _called(name)).replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def _called(name: str) -> str:
    """What a message calls a column: its name, or its number with a word that says so."""
    return f"column {name}" if name.isdecimal() else name


def _plain(value: str, name: str) -> str:
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{name} has a NUL or a lone surrogate, which no text has")
    return value


def _label(value: Any, name: str, *, undecided: bool) -> str:  # noqa: ANN401  any JSON
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    value = value.item() if hasattr(value, "item") else value  # a number of numpy, in an example from Python
    value = None if isinstance(value, float) and math.isnan(value) else value  # what a table lacks
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {_shown(value)}; expected one label")
    label = _plain(value or "", name).strip()
    if len(label.splitlines()) > 1 or "\t" in label:
        raise ValueError(f"{name} is {_shown(label)}; expected a label without tabs and line ends")
    if not label:
        raise Unlabelled(f"has no {name}")
    if undecided and label == _UNDECIDED:
        raise Undecided(f"{name} is -, as its annotators did not agree")
    return label


def _number(value: Any, name: str) -> float:  # noqa: ANN401  any JSON
    if value is None or (isinstance(value, str) and not value.strip()):
        raise Unlabelled(f"has no {name}")
    try:
        number = math.nan if isinstance(value, bool) or "_" in str(value) else float(value)  # not 1_000, as in Python
    except (ValueError, TypeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {_shown(value)}; expected a number")
    return number


def choice_of(record: Record, *, labelled: bool = True) -> ChoiceExample:
    """Returns the example that an object or a row is: SWAG's columns, or names like theirs.

    The answers are a list, or columns such as ``ending0``, ``choice1`` or ``A``; the right one is its index from 0, its
    letter, or the answer itself.

    Raises:
        Unlabelled: if the right answer is not said.
        ValueError: if something is missing.
    """
    usual = {folded(name): name for name in record}

    def find(names: Iterable[str]) -> Any:  # noqa: ANN401  any JSON
        return next((record[usual[name]] for name in names if name in usual), None)

    keys: Sequence[str] = ()
    options = find(_OPTIONS)
    if isinstance(options, Mapping):  # columns, as the datasets library has them
        keys, options = _strings(options.get("label", []), "labels"), options.get("text")
    if options is None or isinstance(options, str):
        options = _numbered(record, usual)
    texts = _strings(options, "answers")
    if "" in map(str.strip, texts):
        raise ValueError("one of its answers is empty")
    if len(texts) < 2:
        raise ValueError(f"has {len(texts)} answers to choose from (columns: {listed(record)}); expected two or more")
    context, question = find(CONTEXT), find(QUESTION)
    turns = (context,) if isinstance(context, str) else tuple(_strings([] if context is None else context, "text"))
    question = _plain(question if isinstance(question, str) else "", "question")
    if labelled and not (question.strip() or any(turn.strip() for turn in turns)):
        raise ValueError(f"has no question and no text (columns: {listed(record)})")
    answer = _chosen(find(ANSWER), texts, keys) if labelled else -1
    return ChoiceExample(tuple(_plain(turn, "text") for turn in turns), question, tuple(texts), answer)


def _numbered(record: Record, usual: Mapping[str, str]) -> list[Any]:
    """Answers in columns of their own."""
    for stem in _NUMBERED:
        for marks in (map(str, count(0)), map(str, count(1)), ascii_lowercase):
            found = []
            for mark in marks:
                if stem + mark not in usual:
                    break
                found.append(record[usual[stem + mark]])
            if len(found) > 1:
                return without_empty_end(found)
    return []


def without_empty_end(options: Sequence[Any]) -> list[Any]:
    """Returns options without empty ones at their end, which fill a table up."""
    filled = [number for number, option in enumerate(options, start=1) if str(option or "").strip()]
    return list(options[: max(filled, default=0)])


def _chosen(given: Any, texts: Sequence[str], keys: Sequence[str]) -> int:  # noqa: ANN401  any JSON
    if given is None or given == "":
        raise Unlabelled("has no right answer")
    said = given = given.item() if hasattr(given, "item") else given  # a number of numpy, in an example from Python
    if isinstance(given, str):
        if given in keys:
            return list(keys).index(given)
        if len(given) == 1 and given.upper() in ascii_uppercase:
            given = ascii_uppercase.index(given.upper())
        elif given.isdecimal() and len(given) < 3:
            given = int(given)
        if said in texts:
            if isinstance(given, int) and given < len(texts) and texts[given] != said:
                raise ValueError(
                    f"the right answer is {_shown(said)}, which is one of the answers, and says where another one is; "
                    "expected an answer or a place that cannot be mistaken"
                )
            return texts.index(said)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(texts):
        raise ValueError(
            f"the right answer is {_shown(said)}; expected one of the {len(texts)} answers, or its index, from 0"
        )
    return given


def _strings(values: Any, what: str) -> list[str]:  # noqa: ANN401  any JSON
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"its {what} are {_shown(values)}; expected a list of texts")
    return [_plain(value, what) for value in values]


def folded(name: object) -> str:
    """Returns the name of a column without capitals, spaces, dashes and underlines."""
    return "".join(letter for letter in str(name).lower().strip() if letter not in " _-")


def _shown(value: Any) -> str:  # noqa: ANN401
    return repr(str(value)[:60])


def listed(names: Iterable[object]) -> str:
    """Returns names for a message."""
    return ", ".join(map(str, names))[:200] or "nothing"
