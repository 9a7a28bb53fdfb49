"""Readings of texts, and the table of candidates."""

import gzip
from collections import Counter

import pytest

from wenmai.core.errors import FormatError, PinyinError
from wenmai.text.pinyin.readings import CandidateTable, is_hanzi, readings_of

TEXT = "银行里行走的女人，abc12 重要的重庆！\n一会儿３。嗯"


def counted(text):
    """How often a character has a reading in a text."""
    return Counter((one, item) for one, item in zip(text, readings_of(text), strict=True) if one != item)


def test_a_reading_has_one_item_for_each_character():
    items = readings_of(TEXT)
    assert len(items) == len(TEXT)
    assert items[:8] == ["yin2", "hang2", "li3", "xing2", "zou3", "de5", "nv3", "ren2"]
    assert "".join(items[8:14]) == "，abc12"
    assert items[15:20] == ["zhong4", "yao4", "de5", "chong2", "qing4"]
    assert items[-1] == "en2"


def test_a_reading_without_tones():
    assert readings_of("啊a绿1", toned=False) == ["a", "a", "lv", "1"]
    assert readings_of("") == []


@pytest.mark.parity
def test_readings_are_those_of_pypinyin():
    from pypinyin import Style, lazy_pinyin
    from pypinyin.constants import PHRASES_DICT

    phrases = [phrase for phrase in PHRASES_DICT if all(map(is_hanzi, phrase))]
    texts = ["".join(phrases[place : place + 9]) for place in range(0, len(phrases), 97)]
    texts += [phrase[:-1] + other[1:] for phrase, other in zip(phrases[::53], phrases[1::53], strict=False)]
    assert len(texts) > 1_000
    for text in texts:
        theirs = lazy_pinyin(text, style=Style.TONE3, neutral_tone_with_five=True, v_to_u=False, errors=list)
        assert readings_of(text) == theirs


def test_what_is_a_chinese_character():
    assert all(map(is_hanzi, "中〇㐀𠀀豈"))
    assert not any(map(is_hanzi, ["", "a", "。", "１", "中国", "の", " "]))


def test_candidates_are_ordered_by_counts():
    counts = counted("是市市式，市的地")
    table = CandidateTable.from_dictionary(counts)
    assert table.characters_of("shi4")[:3] == ("市", *sorted("是式", key=table.characters_of("shi4").index))
    assert table.characters_of("shi")[0] == "市"
    assert {"shi4", "shi"} <= set(table.syllables_of("市"))
    assert "𠀀" not in table.characters
    assert "㐀" in CandidateTable.from_dictionary(counted("㐀")).characters


def test_every_character_of_a_reading_is_a_candidate():
    table = CandidateTable.from_dictionary(counted(TEXT))
    for character, toned, bare in zip(TEXT, readings_of(TEXT), readings_of(TEXT, toned=False), strict=True):
        if is_hanzi(character):
            assert character in table.characters_of(toned)
            assert character in table.characters_of(bare)


def test_a_syllable_falls_back_to_its_letters():
    table = CandidateTable({"ma1": "妈抹", "ma3": "马"})
    assert table.characters_of("ma") == ("妈", "马", "抹")
    assert table.characters_of("ma4") == ("妈", "马", "抹")
    assert table.characters_of("MĀ") == ("妈", "抹")
    assert table.characters_of("zhong1") == ()
    with pytest.raises(PinyinError):
        table.characters_of("xyz")
    assert CandidateTable({}).characters_of("ma") == ()


def test_a_table_is_read_and_written(tmp_path):
    table = CandidateTable.from_dictionary(counted(TEXT))
    table.save(tmp_path / "table.txt")
    again = CandidateTable.from_file(tmp_path / "table.txt")
    assert again.syllables == table.syllables
    assert all(again.characters_of(one) == table.characters_of(one) for one in table.syllables)


def test_a_table_of_others_with_neutral_tones_without_digits(tmp_path):
    (tmp_path / "dict.gz").write_bytes(gzip.compress("de\t的得\nde2\t得\n\n# words\nde 地\nlü4\t绿 律\n".encode()))
    table = CandidateTable.from_file(tmp_path / "dict.gz")
    assert table.characters_of("de5") == ("的", "得", "地")
    assert table.characters_of("de") == ("得", "的", "地")
    assert table.characters_of("lv4") == ("绿", "律")
    (tmp_path / "bare.txt").write_text("de\t的得\n", "utf-8")
    assert CandidateTable.from_file(tmp_path / "bare.txt").characters_of("de4") == ("的", "得")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "has no syllables"),
        (b"ma1\n", "line 1 has no characters"),
        ("ma1\t妈\nxyz\t马\n".encode(), "line 2: 'xyz' is no syllable"),
        ("ma6\t妈\n".encode(), "there is no tone 6"),
        (b"ma1\t\xff\xfe\n", "not UTF-8"),
    ],
)
def test_damaged_tables(tmp_path, content, says):
    (tmp_path / "table.txt").write_bytes(content)
    with pytest.raises(FormatError, match=says):
        CandidateTable.from_file(tmp_path / "table.txt")
    with pytest.raises(FormatError, match="no such file"):
        CandidateTable.from_file(tmp_path / "none.txt")
