"""WordPiece as BERT has it, and masks in texts."""

import pytest

from wenmai.core.errors import SettingError, VocabError
from wenmai.text.pieces import CHOICES, TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

ROLES = ("cls", "sep", "mask")
TEXTS = ["The cat sat on the mat, and 12 dogs watched.", "我们在北京学习中文，明天去上海。", "He's café"] * 3


def train(kind="wordpiece", texts=TEXTS, roles=ROLES, **settings) -> Tokenizer:
    size = {"vocab_size": 400, "min_count": None if kind == "unigram" else 1}
    return Tokenizer.train(iter(texts), TokenizerConfig(kind=kind, **size | settings), roles=roles)


# --- basic tokenisation (spec of BERT, section 2) -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cased", "uncased"),
    [
        ("He's 北京!", ["He", "'", "s", "北", "京", "!"], ["he", "'", "s", "北", "京", "!"]),
        ("Café ÀÉ İ", ["Café", "ÀÉ", "İ"], ["cafe", "ae", "i"]),
        ("e\u0301le\u0300ve", ["e\u0301le\u0300ve"], ["eleve"]),
        ("a\u0000b\ufffdc\u200bd\u00ade\x07f", ["abcdef"], ["abcdef"]),  # removed
        ("a\tb\r\nc\u00a0d\u3000e\u2003f", list("abcdef"), list("abcdef")),
        ("x=1$ ^`|~", ["x", "=", "1", "$", "^", "`", "|", "~"], ["x", "=", "1", "$", "^", "`", "|", "~"]),
        ("¿Qué? «Ja» — 100 €", ["¿", "Qué", "?", "«", "Ja", "»", "—", "100", "€"], None),
        ("ひらカナ한국漢字", ["ひらカナ한국", "漢", "字"], None),
        ("\U00020000\U0002a700\uf900\u3400", ["\U00020000", "\U0002a700", "\uf900", "\u3400"], None),
        ("中文。「好」", ["中", "文", "。", "「", "好", "」"], None),
    ],
)
def test_text_becomes_words_as_in_bert(text, cased, uncased):
    assert train().words(text) == cased
    if uncased is not None:
        assert train(lowercase=True).words(text) == uncased


def test_case_and_accents_may_be_set_apart():
    assert train(lowercase=True, strip_accents=False).words("CAFÉ") == ["café"]
    assert train(strip_accents=True).words("CAFÉ") == ["CAFE"]
    assert train(nfc=True).words("e\u0301") == ["é"]
    assert train(script="simplified", fold_width=True).words("學ＡＢ") == ["学", "AB"]
    with pytest.raises(SettingError, match="strip_accents has no effect with kind=bpe"):
        TokenizerConfig(kind="bpe", strip_accents=True)


def test_the_longest_piece_is_taken_and_a_word_with_a_gap_is_unknown():
    tokenizer = train(texts=["un unaffable affable unaffable able"] * 9, vocab_size=60)
    assert tokenizer.encode("unaffable").tokens == ["unaffable"]
    assert train(texts=["ab ac"] * 2).encode("ab ad bad").tokens == ["ab", "[UNK]", "[UNK]"]
    assert train().encode("a" * 101).tokens == ["[UNK]"]


def test_words_without_end_teach_nothing():
    tokenizer = train(texts=["ab " + "x" * 150] * 9)
    assert tokenizer.encode("ab").tokens == ["ab"]
    assert tokenizer.encode("x").tokens == ["[UNK]"]


def test_the_text_comes_back_as_it_is_written():
    tokenizer = train()
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text).ids) == tokenizer.normalise(text) == text


# --- masks in texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHOICES["kind"])
def test_a_mask_in_a_text_is_the_mask_and_its_neighbours_are_what_they_are_without_it(kind):
    tokenizer = train(kind)
    for before, after in (
        ("The cat", " on the mat"),
        ("", " sat"),
        ("The", ", the"),
        ("我们在", "学习"),
        ("[CLS] the", " [SEP]"),
    ):
        text = f"{before} [MASK]{after}" if before.isascii() and before else f"{before}[MASK]{after}"
        found = tokenizer.encode_masked(text)
        place = found.ids.index(tokenizer.mask_id)
        assert found.ids.count(tokenizer.mask_id) == 1
        assert not {tokenizer.cls_id, tokenizer.sep_id} & set(found.ids)
        assert text[slice(*found.offsets[place])] == "[MASK]"
        assert [tokenizer.token(number) for number in found.ids] == found.tokens
        alone = tokenizer.encode(before + (" " if kind == "characters" and before.isascii() and before else ""))
        assert found.ids[:place] == alone.ids
        whole = tokenizer.encode("x" + after).ids[len(tokenizer.encode("x").ids) :]
        assert found.ids[place + 1 :] == whole or (kind in ("words", "whitespace") and not after[0].isspace())
        covered = {place for low, high in found.offsets for place in range(low, high)}
        assert covered >= {place for place, one in enumerate(text) if not one.isspace() and kind != "words"}
        assert all(0 <= low < high <= len(text) for low, high in found.offsets)


def test_several_masks_and_none():
    tokenizer = train()
    found = tokenizer.encode_masked("[MASK] [MASK]cat[MASK]")
    assert found.tokens == ["[MASK]", "[MASK]", "cat", "[MASK]"]
    assert found.offsets == [(0, 6), (7, 13), (13, 16), (16, 22)]
    assert tokenizer.encode_masked("the cat") == tokenizer.encode("the cat")
    assert tokenizer.encode_masked("").ids == []
    with pytest.raises(VocabError, match="no token for the mask"):
        train(roles=()).encode_masked("a [MASK]")


@pytest.mark.parametrize("kind", CHOICES["kind"])
def test_without_its_own_door_a_mask_in_a_text_is_text(kind):
    tokenizer = train(kind)
    assert tokenizer.mask_id not in tokenizer.encode("the [MASK]").ids
