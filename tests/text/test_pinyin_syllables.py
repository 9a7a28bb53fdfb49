"""Syllables of pinyin: the inventory, the forms that are read, and erhua."""

import pytest

from wenmai.core.errors import PinyinError
from wenmai.text.pinyin.syllables import (
    TONED,
    TONELESS,
    normal_syllable,
    spelt,
    split_erhua,
    split_tone,
    without_tone,
)


def test_the_inventory_has_about_as_many_syllables_as_dictionaries():
    assert 405 <= len(TONELESS) <= 420
    assert 1_250 <= len(TONED) <= 1_400
    assert {without_tone(one) for one in TONED} == set(TONELESS)
    assert list(TONED) == sorted(set(TONED))
    assert {"lv4", "nve4", "ju1", "yue4", "er2", "zhuang4", "de5", "a1"} <= set(TONED)
    assert not {"lue4", "jv1", "m2", "hng5"} & set(TONED)


def test_every_syllable_survives_every_style():
    for syllable in TONED:
        letters, tone = split_tone(syllable)
        assert f"{letters}{tone}" == syllable == normal_syllable(syllable) == spelt(syllable, "number")
        assert normal_syllable(spelt(syllable, "mark")) == (letters if tone == 5 else syllable)
        assert normal_syllable(spelt(syllable, "bare")) == letters


@pytest.mark.parametrize("form", ["lü4", "lu:4", "lv4", "lǜ", "LV4", "Lǜ", "ｌｖ４", " lv4 ", "lu\u0308\u0300", "LU:4"])
def test_all_forms_of_a_syllable_with_umlaut(form):
    assert normal_syllable(form) == "lv4"


@pytest.mark.parametrize(
    ("form", "syllable"),
    [
        ("ma0", "ma5"),
        ("ma", "ma"),
        ("lue4", "lve4"),
        ("nüe", "nve"),
        ("jü2", "ju2"),
        ("xv", "xu"),
        ("yve4", "yue4"),
        ("ń", "en2"),
        ("r5", "er5"),
        ("ê4", "ei4"),
        ("lu4", "lu4"),
        ("zhōng", "zhong1"),
    ],
)
def test_other_forms(form, syllable):
    assert normal_syllable(form) == syllable


@pytest.mark.parametrize(
    ("syllable", "marked"),
    [
        ("lve4", "lüè"),
        ("liu2", "liú"),
        ("gui4", "guì"),
        ("xiong2", "xióng"),
        ("hao3", "hǎo"),
        ("ou1", "ōu"),
        ("ma5", "ma"),
    ],
)
def test_marks_stand_where_the_rules_say(syllable, marked):
    assert spelt(syllable, "mark") == marked


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ma6", "there is no tone 6"),
        ("ma9", "there is no tone 9"),
        ("zhongg", "did you mean 'zhong'"),
        ("xyz", "is no syllable"),
        ("", "is no syllable"),
        ("4", "because of '4'"),
        ("ma12", "because of '1'"),
        ("mā1", "two tones"),
        ("马", "because of '马'"),
        ("x" * 10_000, "x…"),
    ],
)
def test_what_is_no_syllable_is_said(text, says):
    with pytest.raises(PinyinError) as error:
        normal_syllable(text)
    assert says in str(error.value)
    assert len(str(error.value)) < 200


def test_a_digit_of_a_text_is_no_tone():
    assert [split_tone(one) for one in ("wo3", "wo", "3", "")] == [("wo", 3), ("wo", 0), ("3", 0), ("", 0)]
    assert [without_tone(one) for one in ("wo3", "3")] == ["wo", "3"]


def test_erhua_is_two_syllables():
    assert split_erhua("zher4") == ("zhe4", "er5")
    assert split_erhua("zhe4r") == ("zhe4", "er5")
    assert split_erhua("nar") == ("na", "er")
    assert split_erhua("er2") == ("er2",)
    assert split_erhua("huir4") == ("hui4", "er5")
    assert split_erhua("lü4") == ("lv4",)
    with pytest.raises(PinyinError):
        split_erhua("xyzr")
