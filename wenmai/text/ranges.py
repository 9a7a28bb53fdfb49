"""Ranges of characters, to stand between the brackets of a regular expression.

Source: the blocks of Unicode 15, https://www.unicode.org/charts/.
"""

from typing import Final

__all__ = ["EAST_ASIAN", "HAN", "HANZI"]

HANZI: Final = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters that have readings of their own: ideographs, and the zero 〇."""

HAN: Final = "\u3005" + HANZI
"""What Chinese words, and those of Japanese that are written so, consist of: also 々, which repeats a character."""

EAST_ASIAN: Final = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
"""What is written without spaces: ideographs, kana, and the punctuation and letters as wide as they are."""
