import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError, SettingError
from wenmai.text.segment import (
    LINE_END,
    places_before_spacing,
    segmenter,
    spaced_words,
    token_spans,
    treebank_spans,
    word_spans,
)

NAMES = ["whitespace", "words", "characters", "chinese"]
# Without NUL, which text never holds, and without lone surrogates, which cannot be read from a file.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
LIVELY = st.lists(st.sampled_from(["word", "don't", " ", "3.14", "\n", "\r\n", "，", "北京大学", "é", "_", "."])).map(
    "".join
)


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("whitespace", "a  b,\tc\u3000d\r\n\ne", ["a", "b,", "c", "d", LINE_END, LINE_END, "e"]),
        ("words", "Don't stop: 3.14, 1,000 (x_y) 'quoted' l’eau!", None),
        ("characters", "我 ab\n。", ["我", "a", "b", LINE_END, "。"]),
        ("chinese", "我来到北京清华大学，\n用 Python 3.11", None),
    ],
)
def test_each_segmenter(name: str, text: str, tokens: list[str] | None) -> None:
    expected = {
        "words": "Don't|stop|:|3.14|,|1,000|(|x_y|)|'|quoted|'|l’eau|!",
        "chinese": f"我|来到|北京|清华大学|，|{LINE_END}|用|Python|3.11",
    }
    assert segmenter(name).tokens(text) == (tokens or expected[name].split("|"))


def test_words_keep_combining_marks_and_joiners() -> None:
    assert segmenter("words").tokens("हिन्दी e\u0301tat می\u200cخواهم") == ["हिन्दी", "e\u0301tat", "می\u200cخواهم"]


def test_lines_end_with_any_number_of_carriage_returns() -> None:
    expected = ["我们", LINE_END, "北京", LINE_END]
    for end in ("\n", "\r\n", "\r\r\n"):
        assert segmenter("chinese").tokens(f"我们{end}北京{end}") == expected


def test_half_a_character_is_no_chinese_word() -> None:
    with pytest.raises(CorpusError, match=r"a text has the lone surrogate '.udcff' at character 1"):
        segmenter("chinese").tokens("我\udcff")


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXT | LIVELY)
def test_nothing_but_white_space_is_lost(name: str, text: str) -> None:
    tokens = segmenter(name).tokens(text)
    assert tokens.count(LINE_END) == text.count("\n")
    assert all(token and not any(character.isspace() for character in token) for token in tokens)
    assert "".join(tokens).replace(LINE_END, "") == "".join(text.split())


@pytest.mark.parametrize("name", ["whitespace", "words", "characters"])
@given(text=TEXT | LIVELY)
def test_a_cut_changes_no_token(name: str, text: str) -> None:
    text = text.replace("\n", " ")
    chosen = segmenter(name)
    place = chosen.cut(text)
    assert chosen.tokens(text[:place]) + chosen.tokens(text[place:]) == chosen.tokens(text)


def test_chinese_is_cut_after_punctuation_or_else_after_a_chinese_character() -> None:
    cut = segmenter("chinese").cut
    assert cut("我来到北京，清华") == 6
    assert cut("我来到北京abc") == 5
    assert cut("abc") == 0


def test_unknown_segmenter() -> None:
    with pytest.raises(SettingError, match="did you mean 'characters'"):
        segmenter("charakters")


def test_spaces_between_chinese_words_and_where_they_came_from():
    text = "我爱 北京天安门，ok good"
    spaced = spaced_words(text, text)
    assert spaced == "我 爱 北京 天安门 ， ok good"
    places = places_before_spacing(text, spaced)
    assert "".join(text[place] for character, place in zip(spaced, places, strict=False) if character != " ") == (
        "我爱北京天安门，okgood"
    )
    assert [text[low:high] for low, high in token_spans(text, "chinese")] == spaced.split(" ")


def test_the_dictionary_reads_the_normalised_text_where_it_is_as_long():
    assert spaced_words("風險評估", "风险评估") == "风险 评估"
    assert spaced_words("風險評估", "shorter") == spaced_words("風險評估", "風險評估")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The party's leader didn't win.", "The party 's leader did n't win ."),
        ("Mr. O'Brien of the U.S. paid $1,000.50 (10%).", "Mr. O'Brien of the U.S. paid $ 1,000.50 ( 10 % ) ."),
        ("They're well-known at AT&T... CAN'T", "They 're well-known at AT&T ... CA N'T"),
        ("naïve cafe\u0301 1990s 3rd a.b", "naïve cafe\u0301 1990s 3rd a.b"),
        ("我爱北京天安门。", "我 爱 北京 天安门 。"),
        ("今天 天气 很 好", "今天 天气 很 好"),
        ("", ""),
    ],
)
def test_words_as_in_corpora_of_tagged_sentences(text, words):
    assert [text[low:high] for low, high in treebank_spans(text)] == words.split()


@given(TEXT | LIVELY)
def test_words_of_sentences_hold_all_but_white_space(text):
    for spans in (word_spans(text), treebank_spans(text)):
        held = "".join(text[low:high] for low, high in spans)
        assert "".join(held.split()) == "".join(text.split())
