"""Answers to questions, against torchmetrics and plain readings of the official scripts."""

import collections
import random
import re
import string

import numpy as np
import pytest

from wenmai.core.errors import CorpusError
from wenmai.measures.questions import _cmrc_words, answer_scores, fitting_rules, measure_questions

WORDS = ["the", "a", "The", "cat", "cat's", "A-team", "1,000", "Über", ",", "an", "dog", "B.C.", "—"]


def squad(gold, found):
    """Lower case, then punctuation, then articles, then white space, as a string; bags of words."""

    def plain(text):
        text = "".join(one for one in text.lower() if one not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    best = [0.0, 0.0]
    for one in [one for one in gold if plain(one)] or [""]:
        exact = float(plain(one) == plain(found))
        left, right = plain(one).split(), plain(found).split()
        shared = sum((collections.Counter(left) & collections.Counter(right)).values())
        if not left or not right:
            f1 = float(left == right)
        elif not shared:
            f1 = 0.0
        else:
            precision, recall = shared / len(right), shared / len(left)
            f1 = 2 * precision * recall / (precision + recall)
        best = [max(best[0], exact), max(best[1], f1)]
    return tuple(best)


@pytest.mark.parity
def test_squad_against_a_plain_reading():
    draw = random.Random(1)
    for _ in range(500):
        gold = [" ".join(draw.choices(WORDS, k=draw.randrange(4))) for _ in range(draw.randrange(4))]
        found = " ".join(draw.choices(WORDS, k=draw.randrange(5)))
        assert answer_scores(gold, found) == pytest.approx(squad(gold, found))


@pytest.mark.parity
def test_squad_against_torchmetrics():
    from torchmetrics.functional.text import squad as theirs

    draw = random.Random(2)
    drawn = []
    while len(drawn) < 300:
        gold = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 5))) for _ in range(draw.randrange(1, 4))]
        if any(answer_scores([one], "") != (0, 0) for one in gold):
            continue  # nothing but articles: version 2.0 takes such answers for none
        drawn.append((gold, " ".join(draw.choices(WORDS, k=draw.randrange(5)))))
    ours = [answer_scores(gold, found) for gold, found in drawn]
    for (gold, found), scores in zip(drawn, ours, strict=True):
        asked = {"answers": {"answer_start": [0] * len(gold), "text": gold}, "id": "1"}
        measured = theirs({"prediction_text": found, "id": "1"}, asked)
        assert scores == pytest.approx((float(measured["exact_match"]) / 100, float(measured["f1"]) / 100))
    assert 0 < sum(exact for exact, _ in ours) < sum(f1 for _, f1 in ours)


@pytest.mark.parametrize(
    ("gold", "found", "scores"),
    [
        (["the Norman conquest"], "Norman Conquest!", (1, 1)),
        (["Denver Broncos", "the Broncos"], "Broncos", (1, 1)),
        (["Denver Broncos"], "Carolina Broncos won", (0, 0.4)),
        ([], "", (1, 1)),
        ([], "something", (0, 0)),
        (["something"], "", (0, 0)),
        (["the"], "", (1, 1)),  # nothing is left of it: as if there were no answer
        (["the", "cat"], "", (0, 0)),
    ],
)
def test_squad_by_hand(gold, found, scores):
    assert answer_scores(gold, found) == pytest.approx(scores)


@pytest.mark.parametrize(
    ("gold", "found", "scores"),
    [
        (["北京大学"], "北京大学", (1, 1)),
        (["北京大学"], "北京大学。", (1, 1)),
        (["北京大学"], "北京的大学", (0, 4 / 9)),  # 北京 or 大学, not both: a substring
        (["1998年", "1998 年"], "1998年", (1, 1)),
        (["在NBA打球"], "nba打球", (0, 6 / 7)),
        (["《红楼梦》"], "红楼梦", (1, 1)),
        (["甲"], "乙", (0, 0)),
        (["甲"], "", (0, 0)),
        (["A-B"], "ab", (1, 1)),  # a mark that is taken out does not separate
        (["3.5万"], "10,000", (0, 0)),
        (["约3.5万"], "3.5万", (0, 0.8)),  # 约 3.5 万: a number is one word
        (["。"], "，", (1, 0)),
        ([], "", (1, 1)),
        (["等等…"], "等等", (0, 0.8)),  # a single … is not among the marks of the official script
    ],
)
def test_cmrc_by_hand(gold, found, scores):
    assert answer_scores(gold, found, "cmrc") == pytest.approx(scores)


def test_words_of_cmrc_are_chinese_characters_and_what_is_between_them():
    drawn = random.Random(1)
    characters = "中文龥〇,.1２ aＡé_'!。，-\t\u3000😀"
    for _ in range(2000):
        text = "".join(drawn.choices(characters, k=drawn.randint(0, 12)))
        plain = "".join(
            one for one in text.lower().strip() if one not in "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
        )
        apart = re.sub("[\u4e00-\u9fa5]", r" \g<0> ", plain)
        assert _cmrc_words(text) == re.findall(r"\d+(?:[.,]\d+)+|\w+|[^\w\s]", apart)


def test_a_test_set_as_a_whole():
    gold = [["cat"], ["the dog"], [], [], ["a b c d"]]
    found = ["cat", "", "", "something", "b c"]
    result = measure_questions(gold, found, best=["cat", "dog", "x", "something", "b c"], gaps=[-3, 1, 2, -1, -2])
    assert (result.answerable, result.unanswerable) == (3, 2)
    assert result.exact == pytest.approx(2 / 5)
    assert result.answerable_exact == pytest.approx(1 / 3)
    assert result.unanswerable_exact == 0.5
    f1 = [1, 0, 1, 0, 0.8]  # of "b c" and "b c d"
    assert result.f1 == pytest.approx(np.mean(f1))
    assert result.f1_low <= result.f1 <= result.f1_high
    # with the best threshold cat and b c are answered, then something (wrong), then dog: all but the last is as good
    assert result.best_exact == pytest.approx(3 / 5)
    assert result.best_f1 == pytest.approx((1 + 0.8 + 2) / 5)
    assert result.best_threshold == -1.5
    assert "unanswerable 0.5000" in str(result)
    assert "best F1 0.7600 with threshold -1.5, exact 0.6000" in str(result)


def best_of_all_thresholds(gold, best, gaps):
    """The official script's walk: questions by rising gap, a mistake for any answer where there is none."""
    score = highest = sum(not right for right in gold)
    for place in np.argsort(gaps, kind="stable").tolist():
        score += answer_scores(gold[place], best[place])[1] if gold[place] else -bool(best[place])
        highest = max(highest, score)
    return highest / len(gold)


def test_the_best_threshold_is_that_of_the_official_script():
    draw = random.Random(3)
    for _ in range(200):
        count = draw.randrange(1, 12)
        gold = [[draw.choice(["yes", "the", "yes sir"])] if draw.random() < 0.6 else [] for _ in range(count)]
        best = [draw.choice(["yes", "no", "the", ""]) for _ in range(count)]
        gaps = draw.choices(range(5), k=count)
        result = measure_questions(gold, best, best=best, gaps=gaps, resamples=2)
        assert result.best_f1 == pytest.approx(best_of_all_thresholds(gold, best, gaps))


def test_the_best_threshold_gives_the_best_score():
    draw = random.Random(4)
    for _ in range(200):
        count = draw.randrange(1, 12)
        gold = [[draw.choice(["yes", "yes sir"])] if draw.random() < 0.6 else [] for _ in range(count)]
        best, gaps = draw.choices(["yes", "no"], k=count), draw.sample(range(20), k=count)
        found = measure_questions(gold, best, best=best, gaps=gaps, resamples=2)
        given = [one if gap <= found.best_threshold else "" for one, gap in zip(best, gaps, strict=True)]
        assert measure_questions(gold, given, resamples=2).f1 == pytest.approx(found.best_f1)


@pytest.mark.parametrize(("gold", "found", "scores"), [(["the"], "", (1, 0)), (["the", "cat"], "a", (1, 0))])
def test_version_1_counts_answers_of_which_nothing_is_left(gold, found, scores):
    assert answer_scores(gold, found, "squad") == scores
    assert answer_scores(gold, found, "squad2") != scores


def test_rules_follow_the_language():
    assert fitting_rules([["北京"], ["上海", "in 1998"]]) == "cmrc"
    assert fitting_rules([["Paris"], []]) == "squad2"
    assert fitting_rules([["Paris"]]) == "squad"


def test_questions_without_answers_are_refused():
    with pytest.raises(CorpusError, match="2 questions have 1 answers"):
        measure_questions([["a"], []], ["a"])
    with pytest.raises(CorpusError, match="0 questions"):
        measure_questions([], [])
