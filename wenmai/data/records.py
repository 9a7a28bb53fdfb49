"""Rows of a table and objects of JSON as examples: which column is which, and what may stand in it."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.task_names import TaskName
from wenmai.data.typed import ChoiceExample, PairExample, ScoredExample, TextExample

__all__ = [
    "Roles",
    "Unlabelled",
    "checked",
    "choice_of",
    "guessed_roles",
    "has_two_texts",
    "is_heading",
    "labels_apart",
    "looks_like_names",
    "marked",
    "text_of",
    "unnamed_roles",
    "without_empty_end",
]

Record = Mapping[str, Any]

# usual names of columns, without spaces, dashes and underlines, the likelier first
_TEXT = ("text", "sentence", "review", "content", "document", "headline", "title", "tweet", "comment", "utterance",
         "body", "article", "question", "query", "texta", "文本", "内容", "句子", "评论", "标题", "正文")  # fmt: skip
_FIRST = ("sentence1", "text1", "texta", "sentencea", "senta", "premise", "question1", "#1string", "string1", "first",
          "query", "question", "target1", "文本1", "句子1", "文本一", "句子一", "前提", "问题1", "问题一")  # fmt: skip
_SECOND = ("sentence2", "text2", "textb", "sentenceb", "sentb", "hypothesis", "question2", "#2string", "string2",
           "second", "sentence", "response", "passage", "title", "文本2", "句子2", "文本二", "句子二", "假设", "问题2",
           "问题二")  # fmt: skip
_LABEL = ("label", "goldlabel", "class", "labels", "category", "sentiment", "polarity", "quality", "isduplicate",
          "entailmentjudgment", "intent", "topic", "tag", "target", "labeldesc", "coarselabel", "标签", "类别", "分类",
          "情感")  # fmt: skip
_SCORE = ("score", "similarity", "relatednessscore", "similarityscore", "relatedness", "rating", "stars", "label",
          "target", "value", "y", "分数", "得分", "相似度", "评分")  # fmt: skip
_CONTEXT = ("context", "passage", "article", "document", "dialogue", "turns", "premise", "sent1", "ctx", "text",
            "content", "startphrase", "文章", "文本", "对话", "上下文")  # fmt: skip
_QUESTION = ("question", "query", "sent2", "问题")
_OPTIONS = ("options", "choices", "choice", "endings", "answers", "candidates", "选项")
_ANSWER = ("answer", "label", "answerkey", "correct", "gold", "target", "correctanswer", "答案", "标签")
_NUMBERED = ("ending", "choice", "option", "answer", "选项", "")  # and a number or a letter
_LETTERS = "ABCDEFGHIJ"
_MARK = "__label__"
_FEWEST_ROWS = 10  # that show whether the first one has names
_WORD = re.compile(r"\w[\w.-]{0,29}")
_UNDECIDED = "-"  # of pairs on which the annotators did not agree, in SNLI and its relatives


class Unlabelled(ValueError):
    """A record has no label."""


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
        given = _cell(record, self.label) if self.label else None
        if task == "regression":
            number = _number(given, self.label) if self.label else math.nan
            return ScoredExample(first, second if self.second else None, number)
        label = _label(given, self.label, undecided=task == "pair") if self.label else ""
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
    return TextExample(" ".join(word for word in words if not word.startswith(_MARK)), labels[0])


def _cell(record: Record, name: str) -> Any:  # noqa: ANN401  any JSON
    if name not in record:
        raise ValueError(f"has no {name!r}; it has {_listed(record)}")
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
        raise ValueError(f"{name} is {_shown(value)}; expected a text")
    return _plain(value, name).replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def _plain(value: str, name: str) -> str:
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{name} has a NUL or a lone surrogate, which no text has")
    return value


def _label(value: Any, name: str, *, undecided: bool) -> str:  # noqa: ANN401  any JSON
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {_shown(value)}; expected one label")
    label = _plain(value or "", name).strip()
    if len(label.splitlines()) > 1 or "\t" in label:
        raise ValueError(f"{name} is {_shown(label)}; expected a label without tabs and line ends")
    if not label or (undecided and label == _UNDECIDED):
        raise Unlabelled(f"has no {name}" if not label else f"{name} is -, as its annotators did not agree")
    return label


def _number(value: Any, name: str) -> float:  # noqa: ANN401  any JSON
    if value is None or (isinstance(value, str) and not value.strip()):
        raise Unlabelled(f"has no {name}")
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {_shown(value)}; expected a number")
    return number


def has_two_texts(names: Iterable[Any]) -> bool:
    """Whether columns have the usual names of two texts, such as ``premise`` and ``hypothesis``."""
    usual = set(map(_folded, names))
    return any(one in usual and other in usual for one in _FIRST for other in _SECOND)


def is_heading(cells: Sequence[str]) -> bool:
    """Whether a row of a table names its columns: one has a usual name, and none is named twice."""
    found = [_folded(cell) for cell in cells]
    if len(found) == 1:  # a line of text, unless it says so
        return found[0] in ("text", "sentence", "文本", "句子")
    usual = {*_TEXT, *_FIRST, *_SECOND, *_LABEL, *_SCORE, *_CONTEXT, *_QUESTION, *_ANSWER}
    return len(set(found)) == len(found) and any(name in usual for name in found)


def looks_like_names(rows: Sequence[Sequence[str]], roles: Roles) -> bool:
    """Whether the first row of a table without usual names seems to have names that are unusual.

    So it is if its label stands in no other row, and each of its texts is a single word, which most others are not,
    or no other label is so rare. A few rows show nothing: there a label may have one example.

    Args:
        rows: The first rows.
        roles: The columns, by their numbers.
    """
    if not roles.label or len(rows) < _FEWEST_ROWS:
        return False
    counted = Counter(row[int(roles.label) - 1].strip() for row in rows)
    texts = [int(name) - 1 for name in (*roles.first, *roles.second)]
    words = [all(_WORD.fullmatch(row[place].strip()) for place in texts) for row in rows]
    alone = [label for label, count in counted.items() if count == 1]
    return (
        words[0] and rows[0][int(roles.label) - 1].strip() in alone and (len(alone) == 1 or 2 * sum(words) < len(rows))
    )


def guessed_roles(
    header: Sequence[str],
    task: TaskName,
    *,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    labelled: bool = True,
) -> Roles:
    """Finds the columns of a task by their names.

    Args:
        header: The names of all columns.
        task: ``classification``, ``pair`` or ``regression``.
        text: Name of the column with the (first) text, or several with commas between; none: a usual one.
        second: Likewise of the second text.
        label: Likewise of the label.
        labelled: Whether there is a label.

    Raises:
        ValueError: if one is missing; it says which columns there are.
    """
    firsts = _named(text, header, "text_column")
    seconds = _named(second, header, "second_column")
    labels = _named(label, header, "label_column")
    if len(labels) > 1:
        raise SettingError(f"label_column={label}: expected one column")
    usual = dict(zip(map(_folded, header), header, strict=True))
    taken = {*firsts, *seconds, *labels}

    def guess(names: Iterable[str], setting: str, what: str) -> tuple[str, ...]:
        for name in names:
            if name in usual and usual[name] not in taken:
                taken.add(usual[name])
                return (usual[name],)
        if not setting:
            return ()
        raise ValueError(f"no column has a usual name for {what} (columns: {_listed(header)}); name it: {setting}=NAME")

    if task == "pair" or (task == "regression" and seconds):
        firsts = firsts or guess(_FIRST, "text_column", "the first text")
        seconds = seconds or guess(_SECOND, "second_column", "the second text")
    elif task == "regression" and not firsts and any(n in usual for n in _FIRST) and any(n in usual for n in _SECOND):
        firsts, seconds = guess(_FIRST, "text_column", "a text"), guess(_SECOND, "second_column", "the second text")
    else:
        firsts = firsts or guess(_TEXT, "text_column", "the text")
    if labelled and not labels:
        if task == "regression":
            labels = guess(_SCORE, "label_column", "the number")
        else:
            labels = guess(_LABEL, "label_column", "the label")
    return Roles(first=firsts, second=seconds, label=labels[0] if labelled else "")


def _named(given: str | None, header: Sequence[str], setting: str) -> tuple[str, ...]:
    """The columns that a setting names."""
    if given is None:
        return ()
    if given in header:
        return (given,)
    names = tuple(name.strip() for name in given.split(","))
    for name in names:
        if name not in header:
            hint = nearest_name(name, header)
            raise ValueError(f"no column is called {name!r}{hint} (columns: {_listed(header)}; {setting} names one)")
    return names


def unnamed_roles(rows: Sequence[Sequence[str]], task: TaskName, *, labelled: bool) -> Roles:
    """Finds the columns of a table without names by what stands in them; they are called 1, 2, 3 and so on.

    CoLA's four columns are known. Otherwise there must be as many columns as the task needs: that of the label is the
    one with fewest different cells, or of numbers, and the others are texts in their order.

    Args:
        rows: The first rows.
        task: ``classification``, ``pair`` or ``regression``.
        labelled: Whether there is a label.

    Raises:
        ValueError: if it cannot be told.
    """
    columns = list(zip(*rows, strict=True))
    names = [str(place) for place in range(1, len(columns) + 1)]
    texts = 2 if task == "pair" or (task == "regression" and len(columns) == 3) else 1
    if (
        labelled
        and task == "classification"
        and len(columns) == 4
        and {*columns[1]} <= {"0", "1"} >= {*columns[2]} - {"*", ""}
    ):
        return Roles(first=("4",), label="2")
    shown = "; ".join(f"{name}: {column[0][:30]!r}" for name, column in zip(names, columns, strict=True))
    if not labelled and len(columns) == texts:
        return Roles(first=(names[0],), second=tuple(names[1:]))
    if len(columns) != texts + 1:
        raise ValueError(
            f"has {len(columns)} columns without usual names, and it cannot be told which are texts and labels "
            f"({shown}); give their numbers, or names if the first line has them: text_column=1 label_column=2"
        )
    kinds = [len({*column}) for column in columns]
    wanted = [all(map(_is_number, column)) for column in columns] if task == "regression" else labels_apart(kinds)
    if sum(wanted) != 1:
        raise ValueError(f"it cannot be told which column has the labels ({shown}); give text_column=1 label_column=2")
    label = names[wanted.index(True)]
    rest = [name for name in names if name != label]
    return Roles(first=(rest[0],), second=tuple(rest[1:]), label=label if labelled else "")


def labels_apart(kinds: Sequence[int]) -> list[bool]:
    """Which column has fewer different cells than all others."""
    return [kind == min(kinds) and sum(other == kind for other in kinds) == 1 for kind in kinds]


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def choice_of(record: Record, *, labelled: bool = True) -> ChoiceExample:
    """Returns the example that an object or a row is: SWAG's columns, or names like theirs.

    The answers are a list, or columns such as ``ending0``, ``choice1`` or ``A``; the right one is its index from 0, its
    letter, or the answer itself.

    Raises:
        Unlabelled: if the right answer is not said.
        ValueError: if something is missing.
    """
    usual = {_folded(name): name for name in record}

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
        raise ValueError(f"has {len(texts)} answers to choose from (columns: {_listed(record)}); expected two or more")
    context, question = find(_CONTEXT), find(_QUESTION)
    turns = (context,) if isinstance(context, str) else tuple(_strings([] if context is None else context, "text"))
    question = _plain(question if isinstance(question, str) else "", "question")
    if labelled and not (question.strip() or any(turn.strip() for turn in turns)):
        raise ValueError(f"has no question and no text (columns: {_listed(record)})")
    answer = _chosen(find(_ANSWER), texts, keys) if labelled else -1
    return ChoiceExample(tuple(_plain(turn, "text") for turn in turns), question, tuple(texts), answer)


def _numbered(record: Record, usual: Mapping[str, str]) -> list[Any]:
    """Answers in columns of their own."""
    for stem in _NUMBERED:
        for marks in ("0123456789", "123456789", _LETTERS.lower()):
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
    said = given
    if isinstance(given, str):
        if given in keys:
            return list(keys).index(given)
        if len(given) == 1 and given.upper() in _LETTERS:
            given = _LETTERS.index(given.upper())
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
        raise ValueError(f"the right answer is {_shown(said)}; expected one of the {len(texts)} answers, or its index")
    return given


def _strings(values: Any, what: str) -> list[str]:  # noqa: ANN401  any JSON
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"its {what} are {_shown(values)}; expected a list of texts")
    return [_plain(value, what) for value in values]


def _folded(name: Any) -> str:  # noqa: ANN401
    return "".join(letter for letter in str(name).lower().strip() if letter not in " _-")


def _shown(value: Any) -> str:  # noqa: ANN401
    return repr(str(value)[:60])


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))[:200] or "nothing"
