"""Which column of a table has what: by the usual names of columns, or by what stands in them."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.quantities import plural
from wenmai.core.task_names import TaskName
from wenmai.data.records import ANSWER, CONTEXT, QUESTION, Roles, folded, listed

__all__ = [
    "LOOKED_AT",
    "are_usual_names",
    "common_roles",
    "guessed_roles",
    "has_two_texts",
    "is_heading",
    "labels_apart",
    "looks_like_names",
    "unnamed_roles",
]

LOOKED_AT = 1000  # rows or records that show which column or part has what

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
_USUAL = {*_TEXT, *_FIRST, *_SECOND, *_LABEL, *_SCORE, *CONTEXT, *QUESTION, *ANSWER}
_FEWEST_ROWS = 10  # that show whether the first one has names
_NAME = re.compile(r"\w[\w.-]{0,29}( [A-Z][\w.-]*){0,2}")  # a word, or a few as in Review Text


def has_two_texts(names: Iterable[Any]) -> bool:
    """Whether columns have the usual names of two texts, such as ``premise`` and ``hypothesis``."""
    usual = set(map(folded, names))
    return any(one in usual and other in usual for one in _FIRST for other in _SECOND)


def is_heading(cells: Sequence[str]) -> bool:
    """Whether a row of a table names its columns: one has a usual name, and none is named twice."""
    found = [folded(cell) for cell in cells]
    if len(found) == 1:  # a line of text, unless it says so
        return found[0] in ("text", "sentence", "文本", "句子")
    return len(set(found)) == len(found) and any(name in _USUAL for name in found)


def are_usual_names(cells: Sequence[str]) -> bool:
    """Whether all these are usual names of columns, each another one."""
    found = {folded(cell) for cell in cells}
    return len(found) == len(cells) and found <= _USUAL


def looks_like_names(rows: Sequence[Sequence[str]], roles: Roles) -> bool:
    """Whether the first row of a table without usual names seems to have names that are unusual.

    So it is if its label stands in no other row, and each of its texts is a single word or a few with capitals, which
    most others are not, or no other label is so rare. A few rows show nothing: there a label may have one example.

    Args:
        rows: The first rows.
        roles: The columns, by their numbers.
    """
    if not roles.label or len(rows) < _FEWEST_ROWS:
        return False
    counted = Counter(row[int(roles.label) - 1].strip() for row in rows)
    texts = [int(name) - 1 for name in (*roles.first, *roles.second)]
    words = [all(_NAME.fullmatch(row[place].strip()) for place in texts) for row in rows]
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
    usual = dict(zip(map(folded, header), header, strict=True))
    taken = {*firsts, *seconds, *labels}

    def guess(names: Iterable[str], setting: str, what: str) -> tuple[str, ...]:
        for name in names:
            if name in usual and usual[name] not in taken:
                taken.add(usual[name])
                return (usual[name],)
        if not setting:
            return ()
        raise ValueError(f"no column has a usual name for {what} (columns: {listed(header)}); name it: {setting}=NAME")

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


def common_roles(
    headers: Iterable[Sequence[str]], task: TaskName, columns: Mapping[str, str | None], *, labelled: bool
) -> Roles:
    """Finds the columns of records, by the first that has all: others may lack their label.

    Args:
        headers: The names that each record has, of one record at least.
        task: As of :func:`guessed_roles`.
        columns: The ``text``, ``second`` and ``label`` of :func:`guessed_roles`.
        labelled: As of it.

    Raises:
        ValueError: if none has all; it says what the first lacks.
    """
    problems = []
    for header in headers:
        try:
            return guessed_roles(header, task, **columns, labelled=labelled)
        except ValueError as error:
            problems.append(error)
    raise problems[0]


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
            raise ValueError(f"no column is called {name!r}{hint} (columns: {listed(header)}; {setting} names one)")
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
            f"has {plural(len(columns), 'column')} without usual names, and it cannot be told which are texts and "
            f"labels ({shown}); give their numbers, or names if the first line has them: text_column=1 label_column=2"
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
        return "_" not in cell and math.isfinite(float(cell))
    except ValueError:
        return False
