"""Vocabularies that grow with a new text."""

from itertools import pairwise

import pytest
import tokenizers

from wenmai.core.errors import SettingError
from wenmai.text.growth import grow
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

ROLES = ("cls", "sep", "mask")
OLD = ["the cat sat on the mat, the cat sat on the hat"] * 4
NEW = ["neural networks learn language", "neural language models learn"] * 5


def made(kind, **settings):
    size = {"byte-bpe": 280, "bpe": 40}.get(kind, 100)
    return Tokenizer.train(OLD, TokenizerConfig(**{"kind": kind, "vocab_size": size, "min_count": 1} | settings))


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "words", "whitespace", "chinese", "characters"])
def test_old_texts_keep_their_tokens_and_new_ones_get_fewer_or_known_ones(kind):
    old = made(kind)
    grown, parts = grow(old, iter(NEW), 20)
    assert grown.vocab_size == old.vocab_size + len(parts) <= old.vocab_size + 20
    assert len(parts) > 0
    assert [grown.encode(text).ids for text in OLD] == [old.encode(text).ids for text in OLD]
    before, after = (one.encode_batch(NEW) for one in (old, grown))
    unknown = [sum(row.count(one.unk_id) for row in rows) for one, rows in ((old, before), (grown, after))]
    assert unknown[1] <= unknown[0]
    assert sum(map(len, after)) < sum(map(len, before)) or unknown[1] < unknown[0]
    for number, token_parts in enumerate(parts):
        assert all(0 <= part < old.vocab_size + number for part in token_parts)


def test_a_merge_is_spelled_by_the_pieces_that_it_joins():
    old = made("byte-bpe")
    grown, parts = grow(old, NEW, 50)
    for number, (first, second) in enumerate(parts, start=old.vocab_size):
        assert grown.token(number) == grown.token(first) + grown.token(second)
    assert grown.encode("neural networks").tokens == ["neural", "Ġnetworks"]
    assert grown.decode(grown.encode(NEW[0]).ids) == NEW[0]


def test_merges_are_those_of_a_naive_search():
    old = made("byte-bpe")
    grown, parts = grow(old, NEW, 6)
    words = [list(word) for word in old.pieces_of_words(NEW)]
    for number, expected in enumerate(parts, start=old.vocab_size):
        counts = {}
        for word in words:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        assert list(best) == expected
        for word in words:
            while (
                place := next((i for i in range(len(word) - 1) if tuple(word[i : i + 2]) == best), None)
            ) is not None:
                word[place : place + 2] = [number]
    assert grown.vocab_size == old.vocab_size + 6


def test_grown_tokenizers_are_saved_and_loaded(tmp_path):
    grown, _ = grow(made("bpe"), NEW, 10)
    grown.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").fingerprint == grown.fingerprint


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "words", "characters"])
def test_tokens_that_were_added_to_a_vocabulary_keep_their_ids(kind):
    backend = tokenizers.Tokenizer.from_str(made(kind).to_json())
    backend.add_tokens(["<new>"])
    backend.add_special_tokens(["<extra>"])
    old = Tokenizer.of_json(backend.to_str(), "others.json")
    text = "<new>cat <new> <extra>"
    assert old.id("<new>") in old.encode(text).ids
    grown, parts = grow(old, [*NEW, text], 20)
    assert grown.vocab_size == old.vocab_size + len(parts) > old.vocab_size
    tokens = [[one.token(number) for number in range(old.vocab_size)] for one in (old, grown)]
    assert tokens[0] == tokens[1]
    assert grown.encode(text).ids.count(old.id("<new>")) == 2
    assert old.id("<extra>") not in grown.encode(text).ids  # a special token is none in a text


def test_bytes_that_stand_for_unknown_characters_stay_alone():
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abc", "▁a"]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("▁", "a")], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    steps = (tokenizers.decoders.ByteFallback(), tokenizers.decoders.Metaspace())
    backend.decoder = tokenizers.decoders.Sequence([*steps, tokenizers.decoders.Fuse()])
    old = Tokenizer.of_json(backend.to_str(), "others.json")
    texts = ["ab 北京bc"] * 5
    grown, parts = grow(old, texts, 20)
    assert [grown.token(number) for number in range(old.vocab_size, grown.vocab_size)] == ["bc", "▁ab"]
    assert len(parts) == 2
    assert grown.decode(grown.encode(texts[0]).ids) == old.decode(old.encode(texts[0]).ids) == texts[0]


def test_what_occurs_once_is_not_added():
    assert grow(made("whitespace"), ["zebra"], 5)[1] == []
    assert grow(made("byte-bpe"), ["zq"], 5)[1] == []


def test_vocabularies_that_follow_from_a_whole_text_are_refused():
    with pytest.raises(SettingError, match="can grow"):
        grow(made("unigram", min_count=None), NEW, 5)


def test_wordpieces_grow_by_characters_and_merges():
    old = Tokenizer.train(OLD, TokenizerConfig(kind="wordpiece", vocab_size=40, min_count=1), roles=ROLES)
    assert old.encode("北京 zebra").tokens == ["[UNK]"] * 3
    grown, parts = grow(old, ["北京 zebra zebras 京 京"] * 3 + ["x"], 100)
    assert {"北", "京", "z", "##b", "##r"} <= {
        grown.token(number) for number in range(old.vocab_size, grown.vocab_size)
    }
    assert parts[0] == []
    assert grown.token(old.vocab_size) == "京"  # the most frequent
    assert grown.encode("北京 zebra zebras x").tokens == ["北", "京", "zebra", "zebras", "[UNK]"]
    for number, (first, second) in enumerate(pair for pair in parts if pair):
        place = old.vocab_size + parts.count([]) + number
        assert grown.token(place) == grown.token(first) + grown.token(second).removeprefix("##")
    assert (grown.cls_id, grown.sep_id, grown.mask_id) == (old.cls_id, old.sep_id, old.mask_id)
    assert len(grow(old, ["北京 zebra"] * 3, 2)[1]) == 2


def test_wordpieces_without_a_common_piece_do_not_grow():
    old = made("wordpiece")
    assert grow(old, ["the cat sat"] * 9, 5)[1] == []
    assert grow(old, ["y" * 200] * 9, 5)[1] == []  # longer than any word


@pytest.mark.parametrize("kind", ["characters", "wordpiece", "bpe", "byte-bpe"])
def test_the_mask_stays_what_it_is(kind):
    size = {"byte-bpe": 280, "bpe": 40}.get(kind, 100)
    config = TokenizerConfig(kind=kind, vocab_size=size, min_count=1)
    old = Tokenizer.train([*OLD, "我们"], config, roles=ROLES)
    grown, _ = grow(old, [*NEW, "[MASK] 语言 语言", "[MASK]", "[CLS]"], 30)
    assert grown.vocab_size > old.vocab_size
    assert grown.special_ids == old.special_ids
    assert grown.mask_id not in grown.encode("[MASK] 语言").ids
    assert grown.encode_masked("a [MASK]").ids[-1] == old.mask_id
