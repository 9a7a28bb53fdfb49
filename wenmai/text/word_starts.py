"""Which tokens begin a word, found from their ids alone: what is masked, or counted, as one word.

| pieces | a token goes on with a word if |
|---|---|
| of WordPiece | it begins with ``##`` |
| of GPT-1 | the one before it does not end with ``</w>`` |
| whole words | never |
| all others | it begins with a letter or digit, the one before it ends with one, and there is no space between them |

Chinese has no spaces: the words of its characters are those of ``segment=chinese`` (:mod:`wenmai.text.segment`), for
which neighbouring tokens of Chinese characters are put together again. Special tokens stand alone.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.text.ranges import HAN
from wenmai.text.segment import segmenter
from wenmai.text.tokenizer import Tokenizer

__all__ = ["WordStarts"]

_SPACES = ("▁", " ")
_WORD_END = "</w>"
_CHINESE = re.compile(f"[{HAN}]+")

Parts = tuple[bool, bool, str]
"""Of a token: whether it may go on with the word before it, whether the next may go on with it, and what it spells."""


class WordStarts:
    """Finds where words begin in encoded texts.

    Args:
        tokenizer: That of the texts.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        alone = tokenizer.special_ids | tokenizer.nameless
        tokens = [None if number in alone else tokenizer.token(number) for number in range(tokenizer.vocab_size)]
        look = _look(json.loads(tokenizer.to_json()), any(token and token.endswith(_WORD_END) for token in tokens))
        parts = [(False, False, "") if token is None else look(token) for token in tokens]
        self._goes_on = np.array([part[0] for part in parts])
        self._open = np.array([part[1] for part in parts])
        self._written = [part[2].lstrip("▁ ") for part in parts]
        self._spaced = np.array([part[2][:1] in _SPACES for part in parts])
        self._chinese = np.array([_CHINESE.fullmatch(written) is not None for written in self._written])

    def __call__(self, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Returns where words begin among the tokens (N,) of a text; the first one always does."""
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = ~(self._goes_on[ids[1:]] & self._open[ids[:-1]])
        places = np.flatnonzero(self._chinese[ids] & ~self._goes_on[ids])
        if len(places):
            begins[places] = self._spaced[ids[places]] | self._first_of_words(
                ids[places], np.diff(places, prepend=-2) > 1
            )
        return begins

    def _first_of_words(self, ids: npt.NDArray[np.integer], apart: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Segments tokens of Chinese characters, some of which do not follow the one before; where words begin."""
        parts = [self._written[number] for number in ids.tolist()]
        text = "".join("\n" + part if first else part for part, first in zip(parts, apart.tolist(), strict=True))
        words = [len(word) for word in segmenter("chinese").tokens(text)]  # the end of a line is one too
        begins = np.zeros(len(text) + 1, np.bool_)
        begins[list(accumulate(words, initial=0))] = True
        sizes = np.array([len(part) for part in parts])
        found: npt.NDArray[np.bool_] = begins[np.cumsum(sizes + apart) - sizes]
        return found


def _look(content: dict[str, Any], ends: bool) -> Callable[[str], Parts]:
    """Returns what finds the parts of a token of a tokenizer."""
    if content["model"]["type"] == "WordPiece":
        return lambda token: (token.startswith("##") and len(token) > 2, True, token)
    if content["model"]["type"] == "WordLevel":
        return lambda token: (False, False, "")  # whatever it spells
    if ends:
        return lambda token: (True, not token.endswith(_WORD_END), token.removesuffix(_WORD_END))
    if '"ByteLevel"' in json.dumps([content["pre_tokenizer"], content["decoder"]]):
        added, bytes_of = {one["content"] for one in content["added_tokens"]}, _printed_bytes()
        return lambda token: _plain(
            token  # which is written as it is
            if token in added
            else bytes(map(bytes_of.__getitem__, token)).decode("utf-8", "surrogateescape")
        )
    return _plain


def _plain(written: str) -> Parts:
    """The parts of a token that spells some text; bytes that are no whole character are lone surrogates there."""
    first, last = written[:1], written[-1:]
    symbol = "\udce2" <= first <= "\udcff"  # the first of three bytes or more: punctuation, or a Chinese character
    return _is_inner(first) and not symbol, _is_inner(last) or written in _SPACES, written


def _is_inner(character: str) -> bool:
    """Whether a character stands in words beside others, or is a byte of one."""
    if not character or _CHINESE.match(character):
        return False
    return "\udc80" <= character <= "\udcff" or unicodedata.category(character)[0] in "LMN"


def _printed_bytes() -> dict[str, int]:
    """The byte that each character stands for in pieces of bytes, as in GPT-2: itself, or the next one from 256 on."""
    themselves = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in themselves]
    return {chr(byte): byte for byte in themselves} | {chr(256 + place): byte for place, byte in enumerate(others)}
