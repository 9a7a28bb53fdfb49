"""Parallel text that needs no download and has exactly one right answer: English numbers and dates, and Chinese ones.

Made by rule: cardinals (``one hundred five`` and ``一百零五``), ordinals (``the twenty-first`` and ``第二十一``)
and dates (``March 5, 1998`` and ``一九九八年三月五日``), 20,000 pairs in all. A number is in one split only, as
cardinal and as ordinal, so that the numbers of the test split are new to a model; those below one hundred, whose names
have to be learnt by heart, are all in the training split.

The Chinese rules are those of school books: a zero is read once wherever zeros stand between other digits, not at the
end of a group of four; 10 to 19 begin with 十 where nothing stands before them; years are read digit by digit.
"""

import hashlib
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

from wenmai.core.folder import writing

__all__ = [
    "SUGGESTED_SETTINGS",
    "Split",
    "chinese",
    "chinese_date",
    "english",
    "english_date",
    "english_ordinal",
    "pairs",
    "sha256",
    "text_file",
    "text_path",
]

Split = Literal["train", "valid", "test"]

SUGGESTED_SETTINGS: dict[str, Any] = {  # of a translator that learns them, where the user names none
    "data.valid": "builtin:numerals-valid",
    "tokenizer.vocab_size": 150,
    "model.hidden_size": 128,
    "model.num_layers": 2,
    "model.ffn_size": 512,
    "model.dropout": 0.0,
    "model.norm": "pre",
    "objective.label_smoothing": 0.05,
    "train.epochs": 9,
    "train.batch_tokens": 2048,
    "train.schedule": "cosine",
    "train.learning_rate": 0.002,
    "train.warmup": 200,
    "train.clip": 1.0,
}

_ONES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ("", "thousand", "million", "billion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DIGITS = "零一二三四五六七八九"
_YEAR_DIGITS = "〇一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿")
_LIMIT = 10**12

_FIRST_YEAR = date(1900, 1, 1)
_DAYS = 73_049  # to the end of 2099
# How many pairs of which numbers: all below two thousand, and ever fewer of the ever more that are longer.
_CARDINALS = {(0, 2_000): 2_000, (2_000, 10_000): 3_000, (10_000, 100_000): 4_000, (100_000, 1_000_000): 5_000}
_ORDINAL_COUNTS = {(1, 1_000): 999, (1_000, 10_000): 1_001}
_DATES = 4_000


def english(number: int) -> str:
    """Returns the name of a number below 10^12, as in ``one hundred five thousand twenty-one``.

    Raises:
        ValueError: if the number is out of range.
    """
    _check(number)
    if number < 20:
        return _ONES[number]
    words = []
    for power in range(len(_SCALES) - 1, -1, -1):
        group = number // 1000**power % 1000
        if group:
            words += [_hundreds(group), _SCALES[power]]
    return " ".join(word for word in words if word)


def english_ordinal(number: int) -> str:
    """Returns the name of a place in an order, as in ``twenty-first``.

    Raises:
        ValueError: if the number is out of range.
    """
    name = english(number)
    cut = max(name.rfind(" "), name.rfind("-")) + 1
    last = name[cut:]
    return name[:cut] + _ORDINALS.get(last, f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")


def english_date(day: date) -> str:
    """Returns a date as in ``March 5, 1998``."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


def chinese(number: int) -> str:
    """Returns a number below 10^12 in Chinese numerals, as in 十万五千零二十一.

    Raises:
        ValueError: if the number is out of range.
    """
    _check(number)
    if number == 0:
        return _DIGITS[0]
    text = ""
    for power in range(len(_GROUPS) - 1, -1, -1):
        group = number // 10_000**power % 10_000
        if group:
            # The first digit of the group is zero, or all of the group before is: a zero is read.
            gap = bool(text) and (group < 1000 or not text.endswith(_GROUPS[power + 1]))
            text += _DIGITS[0] * gap + _thousands(group) + _GROUPS[power]
    return text[1:] if text.startswith("一十") else text


def chinese_date(day: date) -> str:
    """Returns a date as in 一九九八年三月五日."""
    year = "".join(_YEAR_DIGITS[int(digit)] for digit in str(day.year))
    return f"{year}年{chinese(day.month)}月{chinese(day.day)}日"


def pairs(split: Split) -> Iterator[tuple[str, str]]:
    """Yields the English and the Chinese side of all pairs of a split, in a fixed order that mixes all kinds."""
    for source, target, found in _all():
        if found == split:
            yield source, target


def text_path(folder: str | Path, split: Split) -> Path:
    """Returns where :func:`text_file` puts a split in ``folder``; the name carries a hash of the rules."""
    rules = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return Path(folder) / f"numerals-{split}-{rules[:12]}.tsv"


def text_file(folder: str | Path, split: Split) -> Path:
    """Returns a split as a file of English TAB Chinese in ``folder``, writing it unless it is there already."""
    path = text_path(folder, split)
    if not path.is_file():
        with writing(path) as file:
            file.write(_content(split))
    return path


def sha256(split: Split) -> str:
    """Returns the SHA-256 of the file of a split."""
    return hashlib.sha256(_content(split)).hexdigest()


def _content(split: Split) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs(split)).encode()


def _check(number: int) -> None:
    if not 0 <= number < _LIMIT:
        raise ValueError(f"{number} has no name here; expected 0 to {_LIMIT - 1:,}")


def _hundreds(group: int) -> str:
    hundreds, rest = divmod(group, 100)
    words = [f"{_ONES[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10] + (f"-{_ONES[rest % 10]}" if rest % 10 else ""))
    elif rest:
        words.append(_ONES[rest])
    return " ".join(words)


def _thousands(group: int) -> str:
    """Reads a group of four digits, without zeros at either end."""
    text = ""
    for place in range(3, -1, -1):
        digit = group // 10**place % 10
        if digit:
            text += _DIGITS[digit] + _PLACES[place]
        elif text and not text.endswith(_DIGITS[0]):
            text += _DIGITS[0]
    return text.rstrip(_DIGITS[0])


@cache
def _all() -> list[tuple[str, str, Split]]:
    found: list[tuple[str, str, str, Split]] = []

    def add(key: str, source: str, target: str, split: Split) -> None:
        found.append((hashlib.sha256(key.encode()).hexdigest(), source, target, split))

    for (start, end), count in _CARDINALS.items():
        for number in _sample("cardinal", start, end, count):
            add(f"cardinal {number}", english(number), chinese(number), _split_of_number(number))
    for (start, end), count in _ORDINAL_COUNTS.items():
        for number in _sample("ordinal", start, end, count):
            source, target = f"the {english_ordinal(number)}", f"第{chinese(number)}"
            add(f"ordinal {number}", source, target, _split_of_number(number))
    for offset in _sample("date", 0, _DAYS, _DATES):
        day = _FIRST_YEAR + timedelta(days=offset)
        add(f"date {day}", english_date(day), chinese_date(day), _split(str(day)))
    return [(source, target, split) for _, source, target, split in sorted(found)]


def _sample(kind: str, start: int, end: int, count: int) -> list[int]:
    """Returns distinct numbers of a range, the same on every machine and in every version of Python."""
    if count >= end - start:
        return list(range(start, end))
    found: dict[int, None] = {}
    place = 0
    while len(found) < count:
        digest = hashlib.sha256(f"{kind} {start} {place}".encode()).digest()
        found[start + int.from_bytes(digest[:8], "big") % (end - start)] = None
        place += 1
    return list(found)


def _split_of_number(number: int) -> Split:
    return "train" if number < 100 else _split(str(number))


def _split(key: str) -> Split:
    share = hashlib.sha256(key.encode()).digest()[0] % 20
    return "valid" if share == 0 else "test" if share == 1 else "train"
