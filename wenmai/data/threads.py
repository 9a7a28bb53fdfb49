"""Dialogues and threads of forums: who said what, one after the other, from JSON.

A file has a dialogue a line, or is one JSON list of dialogues, such as those of KdConv. A dialogue is a list of turns,
or has one under ``messages``, ``turns``, ``dialogue``, ``conversation``, ``posts`` or ``utterances``. A turn is a text,
or has one under ``message``, ``text``, ``content``, ``value`` or ``utterance``, and who speaks under ``speaker``,
``role``, ``from``, ``user`` or ``author``. Where no turn of a dialogue says so, two speak in turn.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from wenmai.core.errors import CorpusError
from wenmai.data.lines import beginning, read_json, text_lines

__all__ = ["Turn", "read_threads"]

_TURNS = ("messages", "turns", "dialogue", "conversation", "conversations", "dialog", "posts", "utterances")
_TEXT = ("message", "text", "content", "value", "utterance")
_SPEAKER = ("speaker", "role", "from", "user", "author")
_EXPECTED = 'expected a dialogue a line, such as ["How are you?", "Well."] or {"messages": [{"message": "Hello."}]}'


class Turn(NamedTuple):
    """What one said.

    Attributes:
        text: The text, without white space around it.
        speaker: Who: any name, the same for all turns of one speaker in a dialogue.
    """

    text: str
    speaker: str


def read_threads(path: Path) -> list[tuple[Turn, ...]]:
    """Reads dialogues; turns without text are left out.

    Raises:
        CorpusError: if the file cannot be read, is not what it should be, or has no dialogue.
    """
    found: list[tuple[Turn, ...]] = []
    for where, value in _values(path):
        try:
            found += map(_thread, value if _has_dialogues(value) else [value])
        except ValueError as error:
            raise CorpusError(f"{path}: {where}: {error}; {_EXPECTED}") from None
    found = [thread for thread in found if thread]
    if not found:
        raise CorpusError(f"{path}: has no dialogue; {_EXPECTED}")
    return found


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the JSON values of a file, and where they are."""
    lines = text_lines(path)
    try:
        head = list(islice(lines, 1))
    except CorpusError:
        if not beginning(path).lstrip().startswith("["):
            raise
        yield "the list", read_json(path)  # in one line, which may be longer than lines of texts are
        return
    first = True
    for number, line in chain(head, lines):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            if first and line.lstrip()[0] in "[{":
                yield "the list", read_json(path)  # one value on several lines
                return
            raise CorpusError(f"{path}: line {number}: is not JSON ({error}); {_EXPECTED}") from None
        first = False


def _has_dialogues(value: Any) -> bool:  # noqa: ANN401  any JSON
    """Whether a list has dialogues, not turns."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, list) or (isinstance(one, Mapping) and _of(one, _TURNS) is not None) for one in value)


def _thread(value: Any) -> tuple[Turn, ...]:  # noqa: ANN401  any JSON
    turns = _of(value, _TURNS) if isinstance(value, Mapping) else value
    if not isinstance(turns, list):
        raise ValueError(f"{str(value)[:60]!r} is no dialogue")
    found: list[tuple[str, str | None]] = []
    for turn in turns:
        text = _of(turn, _TEXT) if isinstance(turn, Mapping) else turn
        if text is None and isinstance(turn, Mapping) and any(name in turn for name in _TEXT):
            text = ""  # such as a turn that calls a program
        if not isinstance(text, str):
            raise ValueError(f"{str(turn)[:60]!r} is no turn of a dialogue")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"{text[:60]!a} has a lone surrogate, which no text has")
        speaker = _of(turn, _SPEAKER) if isinstance(turn, Mapping) else None
        found.append((text.strip(), None if speaker is None else str(speaker)))
    known = any(speaker is not None for _, speaker in found)
    return tuple(
        Turn(text, (speaker or "") if known else str(place % 2)) for place, (text, speaker) in enumerate(found) if text
    )


def _of(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:  # noqa: ANN401  any JSON
    return next((record[name] for name in names if record.get(name) is not None), None)
