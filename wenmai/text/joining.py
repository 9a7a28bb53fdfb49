"""Words as they are usually written: which of them have a space between them."""

import re
from collections.abc import Iterable

__all__ = ["joined"]

_OPENING = frozenset("([{‘“«¿¡$£€#")
_CLOSING = frozenset(".,;:!?%)]}’”»…")
_JOINING = frozenset("-/'")
_UNSPACED = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def joined(tokens: Iterable[str]) -> str:
    """Joins words and punctuation as they are usually written; ``##`` continues a word."""
    words: list[str] = []
    for token in tokens:
        if token.startswith("##") and len(token) > 2 and words:
            words[-1] += token[2:]
        elif token:
            words.append(token)
    parts: list[str] = []
    before = ""
    quoted = False
    for word in words:
        opens = word in _OPENING or (word == '"' and not quoted)
        closes = word in _CLOSING or (word == '"' and quoted)
        joined = word in _JOINING or _UNSPACED.match(word) is not None
        if parts and before != "open" and not closes and not joined:
            parts.append(" ")
        parts.append(word)
        before = "open" if opens or joined or _UNSPACED.search(word[-1]) else "word"
        quoted ^= word == '"'
    return "".join(parts)
