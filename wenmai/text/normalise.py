"""Normalisation: text to text, before segmentation.

The settings are the same for static models and for tokenizers (:mod:`wenmai.text.settings`), and so is the order:
width, Unicode form, case, script. Static models are normalised here; a tokenizer carries its normalisation in its file,
as steps that the library ``tokenizers`` knows, so that every reader of the file gets the same ids.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from wenmai.text.charsmap import charsmap
from wenmai.text.encodable import explaining
from wenmai.text.settings import TextConfig

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer

    from wenmai.text.pieces import TokenizerConfig

__all__ = ["normaliser", "tokenizer_steps"]

# The block "Halfwidth and Fullwidth Forms" and the ideographic space: all have their usual width in NFKC.
_OTHER_WIDTH = re.compile("[\u3000\uff00-\uffef]+")
# Where Unicode has Chinese characters: radicals to unified ideographs, compatibility, the supplementary planes.
_CHINESE = (range(0x2E80, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x32000))


def normaliser(text: TextConfig) -> Callable[[str], str]:
    """Returns the function that normalises as ``text`` says. Line ends stay where they are.

    With ``script="simplified"`` it raises a CorpusError for a lone surrogate, which is no character.
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


def tokenizer_steps(config: "TokenizerConfig") -> "list[Normalizer]":
    """Returns the same as steps of the library ``tokenizers``.

    Differs from :func:`normaliser`: characters become simplified one by one, whatever is beside them (OpenCC keeps the
    乾 of 乾隆); a combining mark of the basic alphabets behind a full-width letter goes; and Σ has one lower case.
    """
    from tokenizers import normalizers

    steps: list[Normalizer] = []
    if config.fold_width and not config.nfkc:
        steps.append(normalizers.Precompiled(_widths()))
    if config.nfkc or config.form_c:
        steps.append(normalizers.NFKC() if config.nfkc else normalizers.NFC())
    if config.lowercase and config.kind != "wordpiece":  # BERT's own step does it too
        steps.append(normalizers.Lowercase())
    if config.script == "simplified":
        steps.append(normalizers.Precompiled(_simplified()))
    return steps


def _nfkc(string: str) -> str:
    return string if string.isascii() else unicodedata.normalize("NFKC", string)


def _fold_width(string: str) -> str:
    return _OTHER_WIDTH.sub(lambda found: unicodedata.normalize("NFKC", found[0]), string)


@cache
def _simplifier() -> Callable[[str], str]:
    from opencc import OpenCC

    convert: Callable[[str], str] = OpenCC("t2s").convert

    def simplified(string: str) -> str:
        with explaining([string]):
            return convert(string)

    return simplified


@cache
def _widths() -> bytes:
    codes = (0x3000, *range(0xFF00, 0xFFF0))
    return charsmap({chr(code): unicodedata.normalize("NFKC", chr(code)) for code in codes})


@cache
def _simplified() -> bytes:
    characters = [chr(code) for codes in _CHINESE for code in codes]
    found = _simplifier()("\n".join(characters)).split("\n")
    return charsmap(dict(zip(characters, found, strict=True)))
