"""Strings as bytes behind one another."""

from itertools import pairwise

import numpy as np
import pytest

from wenmai.text.utf8 import encode, encode_lines

LISTS = [
    [],
    [""],
    ["one", "", "two three"],
    ["中文", "é", "a"],
    ["", "的", ""],
    ["中\n文", "line\nfeeds"],
    ["中", "\udcff", "x"],
    ["中", "\ud800", "x\udcff"],
    ["\n"],
]


def parts(found):
    content, bounds = found
    assert bounds.dtype == np.int64
    assert (bounds[0], bounds[-1]) == (0, len(content))
    return [content[begin:end].tobytes() for begin, end in pairwise(bounds)]


@pytest.mark.parametrize("words", LISTS, ids=repr)
def test_every_string_has_its_bytes(words):
    def expected(word):
        return word.encode("utf-8", "surrogatepass" if "\ud800" in word else "surrogateescape")

    assert parts(encode(words)) == [expected(word) for word in words]
    assert parts(encode(iter(words))) == [expected(word) for word in words]


@pytest.mark.parametrize("texts", LISTS, ids=repr)
def test_lines_differ_by_line_feeds_behind_them(texts):
    found, expected = parts(encode_lines(texts)), parts(encode(texts))
    assert len(found) == len(texts)
    for line, text in zip(found, expected, strict=True):
        assert line in (text, text + b"\n")
