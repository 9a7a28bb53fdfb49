"""What a ``tokenizer.json`` of a stranger may hold: nothing that takes time or memory without bound.

The library ``tokenizers`` believes its files. A regular expression can take it forever, a few replacements can turn
four characters into a trillion. So a file is looked through before the library sees it.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from wenmai.core.errors import FormatError
from wenmai.text.patterns import Wild, shortest_match
from wenmai.text.pieces import WORDS

__all__ = ["adds_tokens", "require_harmless"]

_KNOWN = {WORDS: 1}  # patterns whose groups repeat, without harm, and their shortest match
_STEPS = ("normalizer", "pre_tokenizer", "decoder")  # what text and tokens pass through
_LISTS = {"normalizers", "pretokenizers", "decoders"}
_MOST_STEPS = 100
_MOST_GROWTH = 100  # times; that of the largest known, NFKC and a replacement, is 36
_MOST_PREPENDED = 1000  # characters
_LONGEST_WORD = 1000  # characters; those of BERT have 100


def require_harmless(content: Mapping[str, Any], path: object) -> None:
    """Makes sure that a tokenizer takes time and memory in keeping with its text.

    Args:
        content: What ``tokenizer.json`` holds.
        path: What to call it.

    Raises:
        FormatError: if a part of it could take more, or cannot be judged.
    """
    try:
        for place in _STEPS:
            _check(list(_steps(content.get(place))))
        longest = content["model"].get("max_input_chars_per_word", 0)
        if not isinstance(longest, int) or longest > _LONGEST_WORD:
            raise ValueError(f"max_input_chars_per_word is {longest}, expected at most {_LONGEST_WORD}")
    except ValueError as error:
        raise FormatError(f"{path}: is refused, as it could take time or memory without end: {error}") from None
    except (TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{path}: is damaged ({type(error).__name__}: {error})") from None


def _steps(step: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401  any JSON value
    """Yields the steps of a normalizer, pre-tokenizer or decoder, in whatever sequences they are."""
    waiting = [step]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            for name in _LISTS & one.keys():
                waiting += one[name]


def _check(steps: list[Mapping[str, Any]]) -> None:
    """Raises ValueError if some steps, one after the other, make too much of a text."""
    if len(steps) > _MOST_STEPS:
        raise ValueError(f"it has {len(steps)} steps, expected at most {_MOST_STEPS}")
    growth = 1.0
    for step in steps:
        shortest = _shortest(step["pattern"]) if "pattern" in step else 1
        if "content" in step and "pattern" in step:
            added = len(step["content"])
            growth *= max(1.0, added / shortest) if shortest else 1 + added
        elif "prepend" in step and len(step["prepend"]) > _MOST_PREPENDED:
            raise ValueError(f"it puts {len(step['prepend'])} characters before a text")
        elif "precompiled_charsmap" in step:
            growth *= _longest_text(step["precompiled_charsmap"])
        elif step.get("type") == "FixedLength" and not step.get("length", 1):
            raise ValueError("it cuts a text into pieces of no length")
    if growth > _MOST_GROWTH:
        raise ValueError(f"it can make a text {growth:.3g} times as long, expected at most {_MOST_GROWTH} times")


def _shortest(pattern: Mapping[str, str]) -> int:
    """The characters that a pattern matches at least."""
    if "Regex" not in pattern:
        return len(pattern["String"])
    expression = pattern["Regex"]
    if expression in _KNOWN:
        return _KNOWN[expression]
    try:
        return shortest_match(expression)
    except Wild as problem:
        shown = expression if len(expression) <= 80 else f"{expression[:77]}..."
        raise ValueError(f"the regular expression {shown!r}: {problem}") from None


def _longest_text(charsmap: str) -> int:
    """The characters that a character becomes at most, by a map as :mod:`wenmai.text.charsmap` describes it."""
    data = base64.b64decode(charsmap)
    size = int.from_bytes(data[:4], "little")
    if size % 4 or not 0 < size <= len(data) - 4:
        raise ValueError("its map of characters is damaged")
    texts = data[4 + size :].split(b"\0")
    return max(1, *(len(text.decode(errors="replace")) for text in texts))


def adds_tokens(step: Any) -> bool:  # noqa: ANN401  any JSON value
    """Whether the last step of a tokenizer puts special tokens around a text; it may only move offsets."""
    waiting = [step]
    while waiting:
        match waiting.pop():
            case {"processors": list(steps)}:
                waiting += steps
            case {"type": "TemplateProcessing", "single": list(parts)} if not any(
                not isinstance(part, dict) or "SpecialToken" in part for part in parts
            ):
                pass
            case {"type": "ByteLevel"} | None:
                pass
            case _:
                return True
    return False
