"""Normalisation: text to text, before it is segmented."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from wenmai.text.settings import TextConfig

__all__ = ["normaliser"]

# The block "Halfwidth and Fullwidth Forms" and the ideographic space: all have their usual width in NFKC.
_OTHER_WIDTH = re.compile("[\u3000\uff00-\uffef]+")


def normaliser(text: TextConfig) -> Callable[[str], str]:
    """Returns the function that normalises as ``text`` says, in the order NFKC, width, case, script.

    Line ends stay where they are.
    """
    steps: list[Callable[[str], str]] = []
    if text.nfkc:
        steps.append(_nfkc)
    elif text.fold_width:  # NFKC does it too
        steps.append(_fold_width)
    if text.lowercase:
        steps.append(str.lower)
    if text.script == "simplified":
        steps.append(_simplifier())

    def normalise(string: str) -> str:
        for step in steps:
            string = step(string)
        return string

    return normalise


def _nfkc(string: str) -> str:
    return string if string.isascii() else unicodedata.normalize("NFKC", string)


def _fold_width(string: str) -> str:
    return _OTHER_WIDTH.sub(lambda found: unicodedata.normalize("NFKC", found[0]), string)


@cache
def _simplifier() -> Callable[[str], str]:
    from opencc import OpenCC

    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert
