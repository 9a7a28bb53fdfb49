"""Names found in texts."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.text.names import NameMatcher


def found(text, names, **settings):
    return [text[low:high] for low, high in NameMatcher(names, **settings).spans(text).tolist()]


@pytest.mark.parametrize(
    ("text", "names", "wanted"),
    [
        ("Ann met Annual Ann.", ["Ann"], ["Ann", "Ann"]),
        ("New York City and New York", ["New York", "New York City"], ["New York City", "New York"]),
        ("New York Cityscape", ["New York", "New York City"], ["New York"]),
        ("我爱北京天安门", ["北京", "北京天安门", "天安"], ["北京天安门"]),
        ("在法国学法", ["法", "法国"], ["法国", "法"]),
        ("C++ and C", ["C++", "C"], ["C++", "C"]),
        ("R2D2 R2", ["R2"], ["R2"]),
        ("ann", ["Ann"], []),
        ("𠮷野家在此", ["𠮷野家"], ["𠮷野家"]),
        ("New\nYork", ["New York"], []),
        ("New\u2028York", ["New York"], []),
        ("of New\xa0York", ["New York"], ["New\xa0York"]),
        ("汤姆\u3000克鲁斯来了", ["汤姆\u3000克鲁斯"], ["汤姆\u3000克鲁斯"]),
        ("", ["a"], []),
        ("abc", [" ", ""], []),
        ("the United States of A", ["United States of America", "United", "States of A"], ["United", "States of A"]),
        ("a bcd", ["bcde", "bcdefghij"], []),
    ],
)
def test_the_longest_name_from_left_to_right(text, names, wanted):
    assert found(text, names) == wanted


def test_case_may_be_the_same():
    assert found("İ NEW york", ["New York"], fold=True) == ["NEW york"]


@settings(max_examples=150, deadline=None)
@given(
    st.text("ab 中国", max_size=40),
    st.lists(st.text("ab 中国", min_size=1, max_size=9), max_size=6),
)
def test_against_a_naive_twin(text, names):
    matcher = NameMatcher(names)
    wanted, place = [], 0
    while place < len(text):
        for name in sorted(matcher.names, key=len, reverse=True):
            end = place + len(name)
            inside = re.match(r"[ab]{2}", text[place - 1 : place + 1]) if place else None
            goes_on = re.match(r"[ab]{2}", text[end - 1 : end + 1])
            if text.startswith(name, place) and not inside and not goes_on:
                wanted.append([place, end])
                place = end
                break
        else:
            place += 1
    assert matcher.spans(text).tolist() == np.array(wanted).reshape(-1, 2).tolist()


def test_no_other_character_becomes_longer_in_lower_case():
    assert [code for code in range(0x110000) if len(chr(code).lower()) > 1] == [0x130]
