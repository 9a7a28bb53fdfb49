import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import FormatError, VocabError
from wenmai.text.vocab import Vocab, WordTable


def test_from_counts_keeps_frequent_types_in_order_and_is_stable_on_ties() -> None:
    vocab = Vocab.from_counts(["a", "b", "c", "d", "e"], [9, 5, 5, 2, 1], min_count=2)
    assert vocab.tokens == ["a", "b", "c", "d"]
    assert vocab.counts.tolist() == [9, 5, 5, 2]
    assert Vocab.from_counts(["x", "y", "z"], [1, 7, 7], min_count=1).tokens == ["y", "z", "x"]


def test_max_size_counts_special_tokens() -> None:
    vocab = Vocab.from_counts(
        ["the", "<unk>", "cat"], [9, 5, 2], min_count=1, max_size=3, specials={"pad": "<pad>", "unknown": "<unk>"}
    )
    assert vocab.tokens == ["<pad>", "<unk>", "the"]
    assert vocab.counts.tolist() == [0, 5, 9]
    assert vocab.specials == {"pad": "<pad>", "unknown": "<unk>"}
    with pytest.raises(VocabError, match="no words beside"):
        Vocab.from_counts(["the"], [9], min_count=1, max_size=1, specials={"pad": "<pad>"})


def test_rare_special_tokens_stay_and_may_have_two_roles() -> None:
    vocab = Vocab.from_counts(["the", "</s>"], [9, 1], min_count=5, specials={"begin": "</s>", "end": "</s>"})
    assert vocab.tokens == ["</s>", "the"]
    assert vocab.counts.tolist() == [1, 9]


def test_nothing_reaches_min_count() -> None:
    with pytest.raises(VocabError, match=r"min_count=5 times.*occurs 3 times.*min_count=3"):
        Vocab.from_counts(["a", "b"], [3, 1], min_count=5)
    with pytest.raises(VocabError, match="empty"):
        Vocab.from_counts([], [], min_count=1)


def test_lookup() -> None:
    vocab = Vocab(["king", "queen"], [2, 1])
    assert vocab.index("queen") == 1
    assert vocab.get("queen") == 1
    assert vocab.get("prince") is None
    assert vocab.get("prince", -1) == -1
    assert "king" in vocab
    assert "prince" not in vocab
    assert len(vocab) == 2
    with pytest.raises(VocabError, match="did you mean 'queen'"):
        vocab.index("quen")


def test_counts_cannot_be_changed() -> None:
    given_counts = np.array([2, 1])
    vocab = Vocab(["a", "b"], given_counts)
    given_counts[0] = 7
    assert vocab.counts.tolist() == [2, 1]
    with pytest.raises(ValueError, match="read-only"):
        vocab.counts[0] = 3


def test_growing_never_moves_an_id() -> None:
    old = Vocab.from_counts(["a", "b"], [5, 3], min_count=1, specials={"pad": "<pad>"})
    new = old.grow(["new", "b", "rare", "a"], [50, 4, 1, 1], min_count=2)
    assert new.tokens == ["<pad>", "a", "b", "new"]
    assert new.counts.tolist() == [0, 6, 7, 50]
    assert new.specials == old.specials
    assert old.counts.tolist() == [0, 5, 3]


# ---- the table of words


@given(st.lists(st.text()), st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([None, 1, 2, -1]))
def test_a_table_of_words_is_like_a_list(words: list[str], start: int, stop: int, step: int | None) -> None:
    table = WordTable(words)
    assert table == words
    assert words == table
    assert table == WordTable(words)
    assert list(table) == words
    assert [table[place] for place in range(-len(words), len(words))] == 2 * words
    assert table[start:stop:step] == words[start:stop:step]
    assert table != [*words, "x"]
    assert table != WordTable([*words, ""])
    assert (len(table), "x" in table) == (len(words), "x" in words)
    assert table != "x"
    for place in (len(words), -len(words) - 1):
        with pytest.raises(IndexError):
            table[place]


def test_tables_tell_words_apart_that_have_the_same_bytes() -> None:
    assert WordTable(["a\nb"]) != WordTable(["a", "b"])
    assert WordTable(["\ud800", "中"]) == ["\ud800", "中"]


def test_a_table_of_words_shows_its_first_ones() -> None:
    assert repr(WordTable(["a", "b"])) == "WordTable(['a', 'b'], 2 words)"
    assert repr(WordTable(["a"] * 11)) == f"WordTable({['a'] * 10}, ..., 11 words)"


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_a_table_of_words_takes_lines_as_they_are(words: list[str]) -> None:
    text = "".join(word + "\n" for word in words).encode()
    assert WordTable.of_lines(text) == words
    assert WordTable.of_lines(text + b"an end without a line feed is none") == words


def test_a_vocabulary_of_all_words_shares_them_with_the_corpus() -> None:
    words, counts = WordTable(["a", "b", "c"]), np.array([3, 2, 1])
    counts.flags.writeable = False
    whole = Vocab.from_counts(words, counts, min_count=1)
    assert whole.tokens is words
    assert whole.counts is counts
    part = Vocab.from_counts(words, counts, min_count=2)
    assert part.tokens == ["a", "b"]
    assert part.counts.base is None, "a few words do not keep the counts of a whole corpus in memory"


def test_a_view_that_others_may_write_is_not_shared() -> None:
    counts = np.array([2, 1])
    view = counts[:]
    view.flags.writeable = False
    vocab = Vocab(["a", "b"], view)
    counts[0] = 7
    assert vocab.counts.tolist() == [2, 1]


def test_a_vocabulary_of_many_words_is_written_in_pieces(tmp_path: Path) -> None:
    vocab = Vocab([f'w"{number}' for number in range(40_000)], range(40_000, 0, -1), {"unknown": 'w"0'})
    vocab.save(tmp_path / "vocab.json")
    content = {"version": 1, "specials": vocab.specials, "tokens": list(vocab.tokens), "counts": vocab.counts.tolist()}
    expected = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    assert (tmp_path / "vocab.json").read_text(encoding="utf-8") == expected
    assert Vocab.load(tmp_path / "vocab.json") == vocab


# ---- mistakes and files


@pytest.mark.parametrize(
    ("tokens", "counts", "specials", "message"),
    [
        (["a", "b", "a"], [1, 1, 1], None, "'a' occurs twice"),
        (["a"], [1, 2], None, "1 tokens have 2 counts"),
        (["", "a"], [1, 1], {"unknown": ""}, "a special token of the vocabulary is empty"),
        (["a"], [-1], None, "has the count -1"),
        (["a", "<pad>"], [1, 0], {"pad": "<pad>"}, "special tokens come first"),
    ],
)
def test_parts_that_do_not_fit(
    tokens: list[str], counts: list[int], specials: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(VocabError, match=message):
        Vocab(tokens, counts, specials)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(0, 2**63 - 1)))
def test_files_give_back_what_was_saved(tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int]) -> None:
    path = tmp_path_factory.mktemp("vocab") / "vocab.json"
    vocab = Vocab(
        ["<unk>\u2028", *(f"w{token}" for token in counts)], [0, *counts.values()], {"unknown": "<unk>\u2028"}
    )
    vocab.save(path)
    assert Vocab.load(path) == vocab


def test_a_token_that_is_no_text_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(VocabError, match="UTF-8"):
        Vocab(["\ud800"], [1]).save(tmp_path / "vocab.json")
    assert list(tmp_path.iterdir()) == []


GOOD = {"version": 1, "specials": {}, "tokens": ["a", "b"], "counts": [2, 1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD | {"tokens": ["a", "a"]}, "occurs twice"),
        (GOOD | {"tokens": ["a", 1]}, "'tokens' is not a list of strings"),
        (GOOD | {"tokens": "ab"}, "'tokens' is not a list of strings"),
        (GOOD | {"counts": [2]}, "2 tokens have 1 counts"),
        (GOOD | {"counts": [2, True]}, "whole numbers"),
        (GOOD | {"counts": [2, 1.5]}, "whole numbers"),
        (GOOD | {"counts": [2**63, 1]}, "64 bits"),
        (GOOD | {"counts": [2, -1]}, "count -1"),
        (GOOD | {"specials": {"pad": 1}}, "roles"),
        (GOOD | {"specials": {"pad": "b"}}, "come first"),
        (GOOD | {"version": 2}, "version 1"),
        ([GOOD], "version 1"),
    ],
)
def test_malformed_files(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=message) as caught:
        Vocab.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"version": ' + b"9" * 5000 + b"}"])
def test_files_that_are_not_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocab.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a vocabulary"):
        Vocab.load(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"
    Vocab(["a", "b"], [2, 1]).save(path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            Vocab.load(path)
    with pytest.raises(FormatError, match="cannot be read"):
        Vocab.load(tmp_path / "missing.json")
