"""Perplexity and bits per character from the scores of lines."""

import math

import pytest

from wenmai.measures.language import SentenceScore, add_up


def line(text, *probabilities, oov=()):
    logs = [math.log(p) for p in probabilities]
    return SentenceScore(
        text=text,
        log_prob=sum(logs),
        tokens=len(logs),
        oov=len(oov),
        known_log_prob=sum(log for place, log in enumerate(logs) if place not in oov),
        token_log_probs=tuple(logs),
    )


def test_the_figures_of_a_text_are_those_of_all_its_predictions():
    total = add_up([line("ab c", 0.5, 0.25, 0.5), line("é", 0.125, 0.5)])
    assert (total.sentences, total.tokens, total.words, total.characters, total.bytes) == (2, 5, 5, 7, 8)
    bits = 1 + 2 + 1 + 3 + 1
    assert total.perplexity == pytest.approx(2 ** (bits / 5))
    assert total.word_perplexity == pytest.approx(2 ** (bits / 5))
    assert total.bits_per_character == pytest.approx(bits / 7)
    assert total.bits_per_byte == pytest.approx(bits / 8)
    assert total.log10 == pytest.approx(-bits * math.log10(2))


def test_the_worked_example_with_an_unknown_word():
    logs = [-0.818_287, -1.077_255, -0.866_106, -0.411_588]  # of the specification's sentence, made to its total
    probabilities = [10**value for value in logs]
    total = add_up([line("d zzz a", *probabilities, oov=[1])])
    assert total.perplexity == pytest.approx(6.213, abs=2e-3)
    assert total.perplexity_without_oov == pytest.approx(4.996, abs=3e-3)
    assert total.oov == 1


def test_an_impossible_unknown_word_leaves_the_others_their_perplexity():
    score = SentenceScore(text="d zzz a", log_prob=-math.inf, tokens=4, oov=1, known_log_prob=3 * math.log(0.5))
    total = add_up([score])
    assert total.perplexity == math.inf
    assert total.perplexity_without_oov == pytest.approx(2)


def test_bits_per_character_do_not_depend_on_how_the_text_was_cut():
    whole, pieces = line("abcd", 0.01, 0.5), line("abcd", 0.1, 0.1, 0.5)
    assert add_up([whole]).bits_per_character == pytest.approx(add_up([pieces]).bits_per_character)
    assert add_up([whole]).perplexity != pytest.approx(add_up([pieces]).perplexity)


@pytest.mark.parametrize(
    ("text", "has_words"),
    [
        ("我们在大学里学习自然语言处理，很有意思。", False),
        ("我们 在 大学 里 学习 自然语言处理 ， 很 有意思 。", True),
        ("床前明月光", False),
        ("我们去", False),  # the end of a line separates no words
        ("我们 去", True),
        ("สวัสดีชาวโลกทั้งหลาย", False),
        ("これは日本語の文です", False),
        ("한국어는 띄어 쓴다", True),
        ("the word 语言 is Chinese", True),
        ("Donaudampfschifffahrtsgesellschaftskapitän", True),
    ],
)
def test_perplexity_by_word_is_left_out_where_spaces_do_not_separate_words(text, has_words):
    total = add_up([line(text, 0.5, 0.25), line(text, 0.5)])
    assert total.has_words is has_words
    assert math.isnan(total.word_perplexity) is not has_words
    assert ("by word" in str(total)) is has_words


def test_one_line_is_not_lines():
    assert "(1 line, 2 tokens)" in str(add_up([line("ab", 0.5, 0.25)]))
    assert "(2 lines, 3 tokens)" in str(add_up([line("ab", 0.5, 0.25), line("", 0.5)]))


def test_what_cannot_happen_has_no_finite_perplexity():
    impossible = SentenceScore(text="a", log_prob=-math.inf, tokens=2)
    assert add_up([impossible]).perplexity == math.inf


def test_a_text_of_nothing_has_no_score():
    nothing = add_up([])
    assert math.isnan(nothing.perplexity)
    assert math.isnan(nothing.bits_per_byte)
    assert "nan bits per character" in str(nothing)
