"""Words with frequencies."""

import lzma

import pytest

from wenmai.core.errors import FormatError
from wenmai.text.pinyin.words import word_list


def test_the_dictionary_has_words_with_frequencies():
    words = word_list()
    assert len(words) > 300_000
    assert words["中国"] > words["中庸"] > 0
    assert word_list() is words
    with pytest.raises(TypeError):
        words["中国"] = 1  # type: ignore[index]


def test_rjieba_has_the_same_dictionary():
    import rjieba

    assert all(map(rjieba.has_word, list(word_list())[::997]))


def test_a_file_of_words(tmp_path):
    (tmp_path / "words.xz").write_bytes(lzma.compress("\ufeff中国 5 ns\nB超 3 n\n\n中国 2\n〇 1".encode()))
    assert dict(word_list(tmp_path / "words.xz")) == {"中国": 7, "〇": 1}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "has no Chinese words"),
        ("中国\n".encode(), "line 1 has no frequency"),
        ("中国 1\n美国 -1\n".encode(), "line 2 has no frequency"),
        ("中国 1e5".encode(), "no frequency"),
        ("中国 ".encode() + b"9" * 5_000, "no frequency"),
        ("中国 ٣".encode(), "no frequency"),
        (b"\xff\xfe 1", "not UTF-8"),
    ],
)
def test_damaged_files(tmp_path, content, says):
    (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(FormatError, match=says):
        word_list(tmp_path / "words.txt")
