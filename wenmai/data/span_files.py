"""Readers of questions whose answers are parts of texts: SQuAD 1.1 and 2.0, CMRC 2018 and DRCD, and JSON lines.

Sources: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; Rajpurkar et al. 2018,
"Know What You Don't Know"; Cui et al. 2019, "A Span-Extraction Dataset for Chinese Machine Reading Comprehension".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wenmai.core.errors import CorpusError
from wenmai.data.lines import read_json
from wenmai.data.typed import Answer, SpanExample

__all__ = ["SpanCounts", "SpanReader", "span_questions"]

_SHOWN = 60  # characters of a text in a message
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(slots=True, kw_only=True)
class SpanCounts:
    """What was repaired or left out.

    Attributes:
        moved_answers: Answers that stand elsewhere than said, taken from the nearest place.
        absent_answers: Answers that their text does not have; kept, for measuring.
        without_answer: Questions left out because their text has none of their answers.
        empty: Questions left out because they or their text are empty.
    """

    moved_answers: int = 0
    absent_answers: int = 0
    without_answer: int = 0
    empty: int = 0


@dataclass(frozen=True, kw_only=True)
class SpanReader:
    """Makes examples of JSON, and checks them.

    Attributes:
        answers: An answer that is not where it is said to be: ``error``, or ``repair``: it is taken from the nearest
            place where it stands; one that stands nowhere is kept with start -1, and a question without any other is
            left out.
        labelled: Whether questions must have answers, and may not be empty.
        counts: Is increased.
    """

    answers: Literal["error", "repair"] = "error"
    labelled: bool = True
    counts: SpanCounts = field(default_factory=SpanCounts)
    _seen: set[str] = field(default_factory=set)

    def articles(self, content: Any) -> Iterator[SpanExample]:  # noqa: ANN401  any JSON
        """Yields the questions of a file: SQuAD's object, or CMRC's list of texts.

        Raises:
            ValueError: if something is not as it should be.
        """
        articles = content.get("data") if isinstance(content, dict) else content
        if not isinstance(articles, list) or not articles:
            raise ValueError('expected SQuAD\'s {"data": [{"paragraphs": [...]}, ...]}, or CMRC\'s list of texts')
        for number, article in enumerate(articles, start=1):
            where = f"article {number}"
            if not isinstance(article, dict):
                raise ValueError(f"{where} is {str(article)[:_SHOWN]!r}; expected an object with paragraphs")
            if "paragraphs" not in article and "context_text" not in article:
                yield from self._one(article, where)
                continue
            title = _string(article.get("title", ""), f"the title of {where}")
            for paragraph in _list(article.get("paragraphs", [article]), f"the paragraphs of {where}"):
                if not isinstance(paragraph, dict):
                    raise ValueError(f"a paragraph of {where} is {str(paragraph)[:_SHOWN]!r}; expected an object")
                context = paragraph.get("context", paragraph.get("context_text"))
                text = _string(context, f"the context in {where}")
                for question in _list(paragraph.get("qas"), f"the questions (qas) of {where}"):
                    yield from self._question(question, title, text, where)

    def _one(self, record: Mapping[str, Any], where: str) -> Iterator[SpanExample]:
        """A question that is an object with its context, as in ``{"id", "context", "question", "answers"}``."""
        if "context" not in record or "question" not in record:
            found = ", ".join(map(str, record))[:_SHOWN] or "nothing"
            raise ValueError(f"{where} has {found}; expected paragraphs, or context, question and answers")
        context = _string(record["context"], f"the context of {where}")
        yield from self._question(record, _string(record.get("title", ""), f"the title of {where}"), context, where)

    def record(self, record: Any, where: str) -> SpanExample | None:  # noqa: ANN401  any JSON
        """Returns the question of an object with its context; None if it is left out.

        Raises:
            ValueError: if something is not as it should be.
        """
        if not isinstance(record, dict):
            raise ValueError(f"{where} is {str(record)[:_SHOWN]!r}; expected an object")
        return next(self._one(record, where), None)

    def _question(self, found: Any, title: str, context: str, where: str) -> Iterator[SpanExample]:  # noqa: ANN401
        if not isinstance(found, dict):
            raise ValueError(f"a question of {where} is {str(found)[:_SHOWN]!r}; expected an object")
        given = found.get("id", found.get("query_id"))
        if isinstance(given, int) and not isinstance(given, bool):
            given = str(given)
        name = _string(given if given is not None else f"{len(self._seen) + 1}", f"the id of a question of {where}")
        if name in self._seen:
            raise ValueError(f"two questions have the id {name[:_SHOWN]!r}; predictions could not be told apart")
        self._seen.add(name)
        where = f"question {name[:_SHOWN]}"
        question = _string(found.get("question", found.get("query_text")), f"the text of {where}")
        if self.labelled and not (question.strip() and context.strip()):
            self.counts.empty += 1
            return
        answers, impossible = self._answers(found, context, where)
        if self.labelled and not impossible and all(answer.start < 0 for answer in answers):
            self.counts.without_answer += 1
            return
        yield SpanExample(name, title, context, question, answers, impossible)

    def _answers(self, found: Mapping[str, Any], context: str, where: str) -> tuple[tuple[Answer, ...], bool]:
        impossible = found.get("is_impossible", found.get("answers") in ([], {"text": [], "answer_start": []}))
        if not isinstance(impossible, bool):
            raise ValueError(f"is_impossible of {where} is {impossible!r:.{_SHOWN}}; expected true or false")
        given = found.get("answers", [] if impossible else None)
        if given is None:
            if self.labelled:
                raise ValueError(f"{where} has no answers")
            return (), False
        if isinstance(given, dict):  # columns, as the datasets library has them
            texts, starts = given.get("text"), given.get("answer_start")
            if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
                raise ValueError(f"the answers of {where} are not as many texts as starts")
            given = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
        answers = tuple(self._answer(one, context, where) for one in _list(given, f"the answers of {where}"))
        if impossible and answers:
            raise ValueError(f"{where} has answers and is_impossible; it can be one of them only")
        if not impossible and not answers and self.labelled:
            raise ValueError(f"{where} has no answers; expected one, or is_impossible")
        return answers, impossible

    def _answer(self, found: Any, context: str, where: str) -> Answer:  # noqa: ANN401  any JSON
        if isinstance(found, str):  # CMRC's own form says no places
            found = {"text": found, "answer_start": max(context.find(found), 0)}
        if not isinstance(found, dict):
            raise ValueError(f"an answer of {where} is {str(found)[:_SHOWN]!r}; expected an object")
        text, start = _string(found.get("text"), f"an answer of {where}"), found.get("answer_start")
        if not text.strip():
            raise ValueError(f"an answer of {where} is empty")
        if not isinstance(start, int) or isinstance(start, bool):
            raise ValueError(f"answer_start of {where} is {str(start)[:_SHOWN]!r}; expected a number")
        if start >= 0 and context.startswith(text, start):
            return Answer(text, start)
        nearest = _nearest(context, text, start)
        if self.answers == "error":
            raise ValueError(self._misplaced(context, text, start, nearest, where))
        if nearest < 0:
            self.counts.absent_answers += 1
        else:
            self.counts.moved_answers += 1
        return Answer(text, nearest)

    @staticmethod
    def _misplaced(context: str, text: str, start: int, nearest: int, where: str) -> str:
        there = context[start : start + len(text)] if 0 <= start < len(context) else ""
        has = f"which has {there[:_SHOWN]!r} there" if there else f"which has {len(context)} characters"
        other = f"it stands at {nearest}" if nearest >= 0 else "it stands nowhere in it"
        return (
            f"the answer {text[:_SHOWN]!r} of {where} is not at character {start} of its context, {has}; {other}. "
            "bad_answers=repair takes answers from the nearest place, and counts"
        )


def _nearest(context: str, text: str, start: int) -> int:
    """The place of a text that is nearest to another; -1 if it is not there."""
    before = context.rfind(text, 0, max(start, 0) + len(text))
    after = context.find(text, max(start, 0))
    if before < 0 or after < 0:
        return max(before, after)
    return before if start - before <= after - start else after


def _string(value: Any, what: str) -> str:  # noqa: ANN401  any JSON
    if not isinstance(value, str):
        raise ValueError(f"{what} is {str(value)[:_SHOWN]!r}; expected a text")
    if _NO_TEXT.search(value):
        raise ValueError(f"{what} has a NUL or a lone surrogate, which no text has")
    return value


def _list(value: Any, what: str) -> list[Any]:  # noqa: ANN401  any JSON
    if not isinstance(value, list):
        raise ValueError(f"{what} are {str(value)[:_SHOWN]!r}; expected a list")
    return value


def span_questions(
    path: Path, answers: Literal["error", "repair"] = "error", *, make: Callable[..., SpanReader] = SpanReader
) -> Iterator[SpanExample]:
    """Reads the questions of a JSON file.

    Args:
        path: SQuAD's form, CMRC's, or a list of objects with context, question and answers.
        answers: As :class:`SpanReader` has it.
        make: Makes the reader, to which ``answers`` is given.

    Raises:
        CorpusError: if something is not as it should be.
    """
    content = read_json(path)
    try:
        yield from make(answers=answers).articles(content)
    except ValueError as error:
        raise CorpusError(f"{path}: {error}") from None
