import pytest
import tokenizers

from wenmai.core.errors import CorpusError
from wenmai.text.normalise import normaliser
from wenmai.text.pieces import TokenizerConfig, suitable
from wenmai.text.settings import TextConfig
from wenmai.text.tokenizer import Tokenizer

NORMALISATIONS = pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ({}, "Ａ ﬁ É 漢語\n", "Ａ ﬁ É 漢語\n"),
        ({"nfkc": True}, "Ａ１，ﬁ①e\u0301\u3000x", "A1,fi1\u00e9 x"),
        ({"fold_width": True}, "Ａ１，ﬁ①\u3000ｶﾞ。", "A1,ﬁ① ガ。"),
        ({"lowercase": True}, "WORD É Σ", "word é σ"),
        ({"script": "simplified"}, "漢語簡體\n頭髮", "汉语简体\n头发"),
        ({"nfkc": True, "lowercase": True, "script": "simplified"}, "ＡＢＣ漢", "abc汉"),
        ({"fold_width": True, "lowercase": True, "script": "simplified"}, "ＡＢＣ①漢，", "abc①汉,"),
    ],
)


@NORMALISATIONS
def test_normalisations(settings: dict[str, object], before: str, after: str) -> None:
    assert normaliser(TextConfig(**settings))(before) == after


def test_what_is_no_text_has_no_script():
    with pytest.raises(CorpusError, match=r"lone surrogate '\\udcff' at character 1"):
        normaliser(TextConfig(script="simplified"))("漢\udcff")


@NORMALISATIONS
def test_the_same_settings_do_the_same_in_a_tokenizer_and_its_file_says_all(settings, before, after, tmp_path):
    tokenizer = Tokenizer.train([after] * 2, TokenizerConfig(kind="characters", **settings))
    assert tokenizer.normalise(before) == after
    ids = tokenizer.encode(after).ids
    assert tokenizer.unk_id not in ids
    assert tokenizer.encode(before).ids == ids
    tokenizer.save(tmp_path / "tokenizer.json")
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(before).ids == ids


def test_every_character_has_the_same_width_and_script_on_both_sides():
    characters = [chr(code) for code in [*range(1, 0xD800), *range(0xE000, 0x32000)]]
    for settings in ({"fold_width": True}, {"script": "simplified"}):
        plain = normaliser(TextConfig(**settings))
        normalise = Tokenizer.train(["a"] * 2, TokenizerConfig(kind="whitespace", nfc=False, **settings)).normalise
        assert [character for character in characters if normalise(character) != plain(character)] == []


def test_places_in_the_text_survive_width_and_script():
    text = "Ｔhe 漢語，ｶﾞ"
    config = TokenizerConfig(kind="characters", fold_width=True, lowercase=True, script="simplified")
    found = Tokenizer.train(["the 汉语,ガ"] * 2, config).encode(text)
    assert "".join(found.tokens) == "the 汉语,ガ"
    assert [text[start:end] for start, end in found.offsets[:7]] == list("Ｔhe 漢語，")
    assert text[found.offsets[7][0] :] == "ｶﾞ"


def test_settings_that_suit_a_text_suit_its_tokenizer():
    known = {"segment": "characters", "lowercase": True, "script": "simplified", "format": "lines"}
    assert suitable(known) == {"kind": "characters", "lowercase": True, "script": "simplified"}
    assert suitable({"segment": "chinese", "nfkc": True}) == {"nfkc": True}


@pytest.mark.parametrize(
    ("settings", "lossy"),
    [
        (TextConfig(), {}),
        (TextConfig(fold_width=True, segment="words"), {"fold_width": True, "segment": "words"}),
        (TokenizerConfig(), {}),
        (TokenizerConfig(nfc=False, kind="characters"), {}),
        (TokenizerConfig(lowercase=True, script="simplified"), {"lowercase": True, "script": "simplified"}),
        (TokenizerConfig(nfkc=True, kind="wordpiece"), {"nfkc": True, "kind": "wordpiece"}),
    ],
)
def test_settings_know_what_they_take_from_a_text(settings, lossy):
    assert settings.lossy == lossy
