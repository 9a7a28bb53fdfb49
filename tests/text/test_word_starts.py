"""Where words begin among the tokens of a text."""

import json

import numpy as np
import pytest
import tokenizers

from wenmai.text.pieces import CHOICES, TokenizerConfig
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.vocabulary_files import read_vocabulary
from wenmai.text.word_starts import WordStarts

TEXTS = [
    "The twenty-first cats don't watch 1998, naïve été (dogs) 12 3.5!",
    "我们在北京学习中文，明天去上海。",
    "The 2 cats 在北京 watch DNA中国",
] * 3


def train(kind: str, roles=("cls", "sep", "mask"), **settings) -> Tokenizer:
    size = {"vocab_size": 350, "min_count": None if kind == "unigram" else 1}
    return Tokenizer.train(iter(TEXTS), TokenizerConfig(kind=kind, **size | settings), roles=roles)


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text, spelled by their tokens."""
    ids = np.array(tokenizer.encode(text).ids)
    begins = WordStarts(tokenizer)(ids)
    assert begins.dtype == np.bool_
    assert begins[0]
    groups = np.split(ids, np.flatnonzero(begins)[1:])
    return [tokenizer.decode(group).strip() for group in groups]


CHINESE = ["我们", "在", "北京", "学习", "中文", "，", "明天", "去", "上海", "。"]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "characters", "wordpiece"])
def test_words_of_english(kind):
    spaced = "The twenty - first cats don ' t watch 1998 , naïve été ( dogs ) 12 3 . 5 !"
    found = " ".join(word for word in words(train(kind), TEXTS[0]) if word)
    assert found.replace(" 't ", " ' t ") == spaced  # a piece of its own in GPT-2


@pytest.mark.parametrize("kind", ["characters", "wordpiece"])
def test_words_of_chinese_are_those_of_the_segmentation(kind):
    tokenizer = train(kind)
    assert words(tokenizer, TEXTS[1]) == CHINESE
    mixed = ["The", "2", "cats", "在", "北京", "watch", "DNA", "中国"]
    assert [word for word in words(tokenizer, TEXTS[2]) if word] == mixed


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_longer_pieces_of_chinese_are_put_together(kind):
    tokenizer = Tokenizer.train(["我们 在 北京 学习"] * 9 + ["中 文"], TokenizerConfig(kind=kind, vocab_size=40))
    assert [word for word in words(tokenizer, TEXTS[1]) if word][:5] == CHINESE[:5]


def test_tokens_that_were_added_to_pieces_of_bytes_are_written_as_they_are():
    backend = tokenizers.Tokenizer.from_str(train("byte-bpe").to_json())
    backend.add_tokens(["北京", "café", "   "])
    backend.add_special_tokens(["<|\uff5c|>"])
    tokenizer = Tokenizer.of_json(backend.to_str(), "others.json")
    ids = np.array([tokenizer.id(token) for token in ("cat", "café", "s", "   ", "café", "北京", "<|\uff5c|>")])
    assert WordStarts(tokenizer)(ids).tolist() == [True, False, False, True, True, True, True]


def test_pieces_of_bytes_go_on_within_a_character():
    tokenizer = Tokenizer.train(["abc"] * 2, TokenizerConfig(kind="byte-bpe", vocab_size=256 + 4))
    found = words(tokenizer, "naïve été 北京 — x")
    assert [word for word in found if word] == ["naïve", "été", "北", "京", "—", "x"]


def test_words_of_whole_words_are_tokens():
    for kind in ("words", "whitespace"):
        tokenizer = train(kind)
        ids = np.array(tokenizer.encode(TEXTS[2]).ids)
        assert WordStarts(tokenizer)(ids).all()


def test_words_of_gpt1_end_where_their_pieces_say(tmp_path):
    vocab = {token: number for number, token in enumerate(["<unk>", "l", "o", "w</w>", "lo", ".</w>", "\n</w>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("l o\n")
    tokenizer = read_vocabulary(tmp_path / "vocab.json", tmp_path / "merges.txt")
    found = tokenizer.encode("low low.")
    assert found.tokens == ["lo", "w</w>", "lo", "w</w>", ".</w>"]
    assert WordStarts(tokenizer)(np.array(found.ids)).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("kind", CHOICES["kind"])
def test_special_tokens_stand_alone(kind):
    tokenizer = train(kind)
    one = tokenizer.encode("The").ids
    ids = np.array(
        [tokenizer.cls_id, *one, tokenizer.mask_id, *one, tokenizer.sep_id, tokenizer.unk_id, tokenizer.pad_id]
    )
    begins = WordStarts(tokenizer)(ids)
    special = np.isin(ids, sorted(tokenizer.special_ids))
    assert begins[special].all()
    assert begins[1:][special[:-1]].all()
    assert WordStarts(tokenizer)(ids[:0]).tolist() == []


def test_chinese_words_do_not_reach_across_other_tokens():
    tokenizer = train("wordpiece")
    north, capital = tokenizer.id("北"), tokenizer.id("京")
    starts = WordStarts(tokenizer)
    assert starts(np.array([north, capital])).tolist() == [True, False]
    for between in (tokenizer.sep_id, tokenizer.unk_id, tokenizer.id("，")):
        assert starts(np.array([north, between, capital])).all()
