"""Chinese words with frequencies: jieba's dictionary, or a file of the same form.

The dictionary has 349,000 words with how often each was counted (jieba, Sun Junyi, MIT licence). It comes with
jieba-py, the kept up fork of jieba that has a wheel. rjieba, which segments, has the same words, but cannot list them.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError, SettingError, install_hint
from wenmai.text.ranges import HANZI

__all__ = ["word_list"]

_CHINESE: Final = re.compile(f"[{HANZI}]+")
_MOST_BYTES: Final = 1 << 28
_LONGEST: Final = 32  # characters of a word
_MOST: Final = 1 << 53  # of a frequency


def word_list(path: str | Path | None = None) -> Mapping[str, int]:
    """Returns words of Chinese characters and how often each was counted.

    Args:
        path: A file with a word, a space and its frequency a line (what follows is not read); words of other characters
            are left out. None: jieba's dictionary.

    Raises:
        SettingError: if jieba's dictionary is asked for, and jieba-py is not installed.
        FormatError: if the file is none of words.
    """
    if path is None:
        return _jieba_words()
    path = Path(path)
    with reading(path) as file:
        return MappingProxyType(_words(file, str(path)))


@cache
def _jieba_words() -> Mapping[str, int]:
    try:
        import jieba
    except ImportError:
        raise SettingError(f"the list of Chinese words needs jieba-py; {install_hint('pinyin')}") from None
    with jieba.dt.get_dict_file() as file:
        return MappingProxyType(_words(file, "the dictionary of jieba"))


def _words(file: BinaryIO, name: str) -> dict[str, int]:
    """Reads words; equal ones are added up."""
    content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise FormatError(f"{name}: has more than {_MOST_BYTES >> 20} MB; expected a word and its frequency a line")
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: is not UTF-8 text (byte {error.start})") from None
    words: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts or not _CHINESE.fullmatch(parts[0]) or len(parts[0]) > _LONGEST:
            continue
        digits = parts[1] if len(parts) > 1 else ""
        if not (digits.isascii() and digits.isdigit() and len(digits) < 17 and int(digits) <= _MOST):
            raise FormatError(f"{name}: line {number} has no frequency behind the word; expected '中国 129470'")
        words[parts[0]] = min(words.get(parts[0], 0) + int(digits), _MOST)
    if not words:
        raise FormatError(f"{name}: has no Chinese words; expected lines such as '中国 129470'")
    return words
