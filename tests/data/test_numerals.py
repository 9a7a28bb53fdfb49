"""The parallel numbers and dates that are made by rule."""

import hashlib
import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.data import catalogue, numerals
from wenmai.data.numerals import chinese, chinese_date, english, english_date, english_ordinal

KNOWN = [
    (0, "zero", "零"),
    (7, "seven", "七"),
    (10, "ten", "十"),
    (11, "eleven", "十一"),
    (20, "twenty", "二十"),
    (42, "forty-two", "四十二"),
    (99, "ninety-nine", "九十九"),
    (100, "one hundred", "一百"),
    (105, "one hundred five", "一百零五"),
    (110, "one hundred ten", "一百一十"),
    (123, "one hundred twenty-three", "一百二十三"),
    (200, "two hundred", "二百"),
    (1000, "one thousand", "一千"),
    (1001, "one thousand one", "一千零一"),
    (1010, "one thousand ten", "一千零一十"),
    (1100, "one thousand one hundred", "一千一百"),
    (2024, "two thousand twenty-four", "二千零二十四"),
    (10_000, "ten thousand", "一万"),
    (10_001, "ten thousand one", "一万零一"),
    (10_100, "ten thousand one hundred", "一万零一百"),
    (15_000, "fifteen thousand", "一万五千"),
    (30_500, "thirty thousand five hundred", "三万零五百"),
    (100_000, "one hundred thousand", "十万"),
    (100_001, "one hundred thousand one", "十万零一"),
    (101_000, "one hundred one thousand", "十万一千"),
    (110_000, "one hundred ten thousand", "十一万"),
    (123_456, "one hundred twenty-three thousand four hundred fifty-six", "十二万三千四百五十六"),
    (305_000, "three hundred five thousand", "三十万五千"),
    (1_000_000, "one million", "一百万"),
    (1_010_000, "one million ten thousand", "一百零一万"),
    (12_000_000, "twelve million", "一千二百万"),
    (100_000_000, "one hundred million", "一亿"),
    (100_000_001, "one hundred million one", "一亿零一"),
    (100_001_234, "one hundred million one thousand two hundred thirty-four", "一亿零一千二百三十四"),
    (1_400_000_000, "one billion four hundred million", "十四亿"),
]


@pytest.mark.parametrize(("number", "words", "numeral"), KNOWN)
def test_known_numbers_have_their_names(number, words, numeral):
    assert (english(number), chinese(number)) == (words, numeral)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "first"),
        (2, "second"),
        (3, "third"),
        (4, "fourth"),
        (5, "fifth"),
        (8, "eighth"),
        (9, "ninth"),
        (12, "twelfth"),
        (13, "thirteenth"),
        (20, "twentieth"),
        (21, "twenty-first"),
        (100, "one hundredth"),
        (112, "one hundred twelfth"),
        (1000, "one thousandth"),
    ],
)
def test_known_places_have_their_names(number, words):
    assert english_ordinal(number) == words


@pytest.mark.parametrize(
    ("day", "words", "numeral"),
    [
        (date(1998, 3, 5), "March 5, 1998", "一九九八年三月五日"),
        (date(2000, 12, 31), "December 31, 2000", "二〇〇〇年十二月三十一日"),
        (date(1905, 10, 20), "October 20, 1905", "一九〇五年十月二十日"),
    ],
)
def test_known_dates_have_their_names(day, words, numeral):
    assert (english_date(day), chinese_date(day)) == (words, numeral)


def value(numeral: str) -> int:
    """Reads a Chinese numeral, by units and not by the rules that wrote it."""
    total = section = digit = 0
    for character in numeral:
        if character in "十百千":
            section += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[character]
            digit = 0
        elif character in "万亿":
            total += (section + digit) * {"万": 10_000, "亿": 100_000_000}[character]
            section = digit = 0
        else:
            digit = "零一二三四五六七八九".index(character)
    return total + section + digit


@given(st.integers(0, 10**12 - 1))
def test_a_chinese_number_can_be_read_back(number):
    assert value(chinese(number)) == number
    assert not re.search("零零|零$|^一十|零[十百千万亿]", chinese(number)) or number == 0


def test_a_number_without_a_name_is_refused():
    for name in (english, chinese, english_ordinal):
        for number in (-1, 10**12):
            with pytest.raises(ValueError, match="no name"):
                name(number)


def test_there_are_twenty_thousand_pairs_with_one_answer_each():
    splits = {split: list(numerals.pairs(split)) for split in ("train", "valid", "test")}
    everything = [pair for pairs in splits.values() for pair in pairs]
    assert len(everything) == 20_000
    assert len({source for source, _ in everything}) == len({target for _, target in everything}) == 20_000
    assert all(0.04 < len(splits[split]) / 20_000 < 0.06 for split in ("valid", "test"))
    assert max(len(target) for _, target in everything) <= 12


def test_the_numbers_of_the_test_split_are_new():
    def numbers(split):
        return {target.removeprefix("第") for _, target in numerals.pairs(split)}

    assert not numbers("train") & (numbers("test") | numbers("valid"))
    assert not numbers("valid") & numbers("test")
    assert {chinese(number) for number in range(100)} <= numbers("train")
    words = {word for source, _ in numerals.pairs("train") for word in re.split("[ -]", source)}
    characters = {character for _, target in numerals.pairs("train") for character in target}
    for split in ("valid", "test"):
        for source, target in numerals.pairs(split):
            assert set(re.split("[ -]", source)) <= words
            assert set(target) <= characters


def test_the_pairs_are_the_same_everywhere():
    assert numerals.sha256("train") == "5b775aeaf74ed26c6e593847a3fcd80569dfa8c5783cd003d7896d7665b3a308"
    assert numerals.sha256("valid") == "fd7032bc9626485296cbe1f953725e9582ba81041e45f4d0ebfc1a72f9d98598"
    assert numerals.sha256("test") == "070718944cd000cbb91c4ec7d1ca636994c8ecea2e59d9802b3224f5071dd786"


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_the_catalogue_writes_a_split_to_a_file(split, cache_folder):
    name = "builtin:numerals" if split == "train" else f"builtin:numerals-{split}"
    assert catalogue.cached(name) is None
    path = catalogue.get(name)
    assert path == catalogue.cached(name)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == numerals.sha256(split)
    lines = [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == list(numerals.pairs(split))
    assert catalogue.check(name).status == "good"
    path.write_text("other", encoding="utf-8")
    assert catalogue.check(name).status == "damaged"
