"""Similarity and analogy sets, and what they measure."""

import gzip
import json
from dataclasses import asdict

import numpy as np
import pytest

from wenmai.core.errors import FormatError, SettingError
from wenmai.measures.words import (
    AnalogySection,
    evaluate_analogies,
    evaluate_similarity,
    read_analogies,
    read_similarity,
    spearman,
)
from wenmai.vectors import questions as module
from wenmai.vectors.subword_vectors import SubwordVectors
from wenmai.vectors.word_vectors import WordVectors


def written(tmp_path, text: str, name: str = "set.txt"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def clock() -> WordVectors:
    """Twelve hours on a circle: similarity falls with the hours between."""
    angles = np.arange(12) * np.pi / 6
    return WordVectors([f"h{i}" for i in range(12)], np.stack([np.cos(angles), np.sin(angles)], axis=1))


@pytest.mark.parametrize(
    "text",
    [
        "old\tnew\t1.58\n老虎\t猫\t7\n",
        "# heading\r\nold new 1.58\r\n\r\n老虎  猫 7",
        "\ufeffold,new,1.58\n老虎, 猫, 7\n",
    ],
)
def test_reads_similarity_sets(tmp_path, text):
    expected = [("old", "new", 1.58), ("老虎", "猫", 7.0)]
    assert read_similarity(written(tmp_path, text)) == expected
    (tmp_path / "set.gz").write_bytes(gzip.compress(text.encode()))
    assert read_similarity(tmp_path / "set.gz") == expected


def test_tabs_let_words_hold_spaces(tmp_path):
    assert read_similarity(written(tmp_path, "New York\tbig city\t5\n")) == [("New York", "big city", 5.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b 1\nc d\n", "line 2: 'c d' is not 'word1 word2 score'"),
        ("Word 1,Word 2,Human\na,b,1\n", "line 1.*a heading must begin with '#'"),
        ("a b 1 2\n", "line 1"),
        ("a\t\t1\n", "line 1"),
        ("a b nan\n", "line 1"),
        ("# nothing\n\n", "no word pairs"),
    ],
)
def test_refuses_other_similarity_sets(tmp_path, text, message):
    with pytest.raises(FormatError, match=f"set.txt.*{message}"):
        read_similarity(written(tmp_path, text))


def test_reads_analogy_sets(tmp_path):
    text = ": capitals\nAthens Greece Oslo Norway\n\n: empty\n:plural\na as b bs\n# note\nc cs d ds\n"
    assert read_analogies(written(tmp_path, text)) == [
        ("capitals", [("Athens", "Greece", "Oslo", "Norway")]),
        ("empty", []),
        ("plural", [("a", "as", "b", "bs"), ("c", "cs", "d", "ds")]),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b c d\n", "line 1: expected ': section', got 'a b c d'"),
        (": x\na b c\n", "line 2: expected four words or ': section', got 'a b c'"),
        (": x\na b c d e\n", "line 2"),
        (": x\n: y\n", "no analogy questions"),
        ("", "no analogy questions"),
    ],
)
def test_refuses_other_analogy_sets(tmp_path, text, message):
    with pytest.raises(FormatError, match=f"set.txt.*{message}"):
        read_analogies(written(tmp_path, text))


def test_sets_must_be_there_and_utf8(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        read_analogies(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"a b 1\ncaf\xe9 b 2\n")
    with pytest.raises(FormatError, match="line 2, byte 3: not UTF-8"):
        read_similarity(tmp_path / "latin")


def naive_ranks(values: list[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]


def test_spearman_is_the_correlation_of_average_ranks_in_every_resample():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, 15).astype(float), rng.normal(size=15).round(1)
    weights = np.stack([np.ones(15), *(np.bincount(rng.integers(15, size=15), minlength=15) for _ in range(20))])
    found = spearman(x, y, weights)
    for row, value in zip(weights.astype(int), found, strict=True):
        left, right = np.repeat(x, row).tolist(), np.repeat(y, row).tolist()
        assert value == pytest.approx(np.corrcoef(naive_ranks(left), naive_ranks(right))[0, 1])


def test_similarity_against_people(clock):
    pairs = [("h0", f"h{i}", 10.0 - i) for i in range(6)]
    result = evaluate_similarity(clock, [*pairs, ("h0", "h99", 5.0)])
    assert (result.name, result.covered, result.total) == ("pairs", 6, 7)
    assert result.spearman == pytest.approx(1)
    assert result.low == result.high == pytest.approx(1)
    backwards = evaluate_similarity(clock, [(a, b, -score) for a, b, score in pairs])
    assert backwards.spearman == pytest.approx(-1)
    assert "Spearman 1.0000 [1.0000, 1.0000], 6 of 7 pairs have vectors" in str(result)


def test_the_interval_holds_the_value_and_repeats():
    rng = np.random.default_rng(0)
    vectors = WordVectors([f"w{i}" for i in range(80)], rng.normal(size=(80, 5)))
    pairs = [(f"w{i}", f"w{i + 1}", vectors.similarity(f"w{i}", f"w{i + 1}") + rng.normal(0, 0.5)) for i in range(79)]
    result = evaluate_similarity(vectors, pairs)
    assert result.low < result.spearman < result.high
    assert 0.1 < result.high - result.low < 0.6
    assert evaluate_similarity(vectors, pairs) == result
    assert evaluate_similarity(vectors, pairs, seed=1).low != result.low


def test_case_is_folded_to_the_most_frequent_spelling(tmp_path):
    vectors = WordVectors(["paris", "Paris", "France"], [[1, 0], [0, 1], [1, 0.1]])
    path = written(tmp_path, "PARIS france 1\nparis Paris 0\n")
    assert evaluate_similarity(vectors, path).covered == 2
    assert evaluate_similarity(vectors, path, case_insensitive=False).covered == 1
    assert evaluate_similarity(vectors, path, restrict_vocab=2).covered == 1


@pytest.mark.parametrize("pairs", [[("x", "y", 1.0)], [("h0", "h1", 1.0)], [("h0", "h1", 1.0), ("h0", "h2", 1.0)]])
def test_without_a_value_the_result_says_so(clock, pairs):
    result = evaluate_similarity(clock, pairs)
    assert (result.spearman, result.low, result.high) == (None, None, None)
    assert "no Spearman correlation" in str(result)
    assert json.loads(json.dumps(asdict(result), allow_nan=False))["spearman"] is None


def test_zero_vectors_do_not_break_the_measure():
    vectors = WordVectors(["a", "b", "c"], [[0, 0], [1, 0], [1, 1]])
    result = evaluate_similarity(vectors, [("a", "b", 0.0), ("b", "c", 1.0), ("b", "b", 2.0)])
    assert result.spearman == pytest.approx(1)


def naive_analogy(vectors: WordVectors, a: str, b: str, c: str, method: str) -> str:
    excluded = {word.upper() for word in (a, b, c)}
    found = vectors.analogy(a, b, c, topn=len(vectors), method=method)
    return next(word for word, _ in found if word.upper() not in excluded)


@pytest.mark.parametrize("method", ["add", "mul"])
@pytest.mark.parametrize("at_once", [1, 1 << 25])
def test_analogies_are_answered_as_one_by_one(tmp_path, monkeypatch, method, at_once):
    rng = np.random.default_rng(3)
    base = rng.normal(size=(30, 20))
    shift = rng.normal(size=20)
    rows = np.concatenate([base, base + shift + rng.normal(0, 0.7, (30, 20)), rng.normal(size=(2000, 20))])
    keys = [f"s{i}" for i in range(30)] + [f"S{i}es" for i in range(30)] + [f"x{i}" for i in range(2000)]
    keys[1500] = "S1"  # another spelling of s1, which may not be the answer where s1 is in the question
    rows[1500] = rows[1] * 1.1
    vectors = WordVectors(keys, rows)
    questions = [(f"s{i}", f"S{i}es", f"s{j}", f"s{j}es") for i in range(6) for j in range(30) if i != j]
    text = "".join(f"{' '.join(question)}\n" for question in questions)
    path = written(tmp_path, f": plural\n{text}s1 s1es none nones\n")
    monkeypatch.setattr(module, "SCORES_AT_ONCE", at_once)
    result = evaluate_analogies(vectors, path, method=method, restrict_vocab=None)
    expected = sum(naive_analogy(vectors, a, b, c, method).upper() == d.upper() for a, b, c, d in questions)
    assert 20 < expected < 174
    assert result.sections == (AnalogySection(name="plural", correct=expected, attempted=174, total=175),)
    assert result.accuracy == expected / 174
    assert result.low < result.accuracy < result.high
    error = np.sqrt(result.accuracy * (1 - result.accuracy) / 174)
    assert result.high - result.low == pytest.approx(3.92 * error, rel=0.2)


def test_counts_as_compute_accuracy_does(tmp_path, clock):
    text = "".join(f": section{i}\nh0 h1 h2 {'h3' if i < 4 else 'h9'}\nh0 h1 h2 unknown\n" for i in range(7))
    result = evaluate_analogies(clock, written(tmp_path, text, "hours.txt"))
    assert [section.correct for section in result.sections] == [1, 1, 1, 1, 0, 0, 0]
    assert (result.name, result.covered, result.total) == ("hours", 7, 14)
    assert result.accuracy == pytest.approx(4 / 7)
    assert result.semantic == pytest.approx(4 / 5)
    assert result.syntactic == 0
    assert str(result).startswith("hours: accuracy 0.5714 [")
    assert json.loads(json.dumps(asdict(result)))["sections"][0]["name"] == "section0"


@pytest.fixture
def parts() -> SubwordVectors:
    """An hour's vector is that of its number, and hours from 12 on are outside the vocabulary."""
    angles = np.arange(12) * np.pi / 6
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def compose(word):
        return rows[int(word[1:]) % 12] if word[:1] == "h" and word[1:].isdigit() else None

    def split(word):
        return [word], np.zeros(1, np.int32)

    return SubwordVectors([f"h{i}" for i in range(12)], rows, compose=compose, split=split)


def test_all_pairs_of_a_model_with_subwords_are_covered(parts):
    pairs = [("h0", f"h{i}", 10.0 - i) for i in range(5)] + [("h12", "h17", 5.0), ("H24", "h6", 4.0)]
    result = evaluate_similarity(parts, pairs)
    assert (result.covered, result.total) == (7, 7)  # in lower case, as the vocabulary is
    assert result.spearman == pytest.approx(1)
    assert evaluate_similarity(parts, pairs, case_insensitive=False).covered == 6
    assert evaluate_similarity(parts, [*pairs, ("h0", "x", 1.0)]).covered == 7
    assert evaluate_similarity(parts, [*pairs, ("h0", "h11", 1.0)], restrict_vocab=11).covered == 7


def test_unseen_words_ask_but_do_not_answer(tmp_path, parts):
    path = written(tmp_path, ": hours\nh12 h1 h2 h3\nh0 h1 h2 h15\n")
    every = evaluate_analogies(parts, path, restrict_vocab=None)
    assert (every.covered, every.total, every.accuracy) == (1, 2, 1)
    assert evaluate_analogies(parts, path).covered == 0  # among the most frequent words


def test_only_the_most_frequent_words_are_asked_and_answer(tmp_path, clock):
    path = written(tmp_path, ": hours\nh0 h1 h1 h2\nh0 h1 h5 h6\n")
    assert evaluate_analogies(clock, path).covered == 2
    assert evaluate_analogies(clock, path, restrict_vocab=6).covered == 1
    assert evaluate_analogies(clock, path, restrict_vocab=3).accuracy == 1


def test_a_set_of_which_nothing_is_covered(tmp_path, clock):
    result = evaluate_analogies(clock, written(tmp_path, ": x\na b c d\n"))
    assert (result.accuracy, result.low, result.high, result.covered, result.total) == (None, None, None, 0, 1)
    assert "no accuracy (0 of 1 questions" in str(result)
    json.dumps(asdict(result), allow_nan=False)


def test_a_question_whose_words_are_all_the_vocabulary_has_no_answer(tmp_path):
    vectors = WordVectors(["a", "b", "c"], np.eye(3))
    assert evaluate_analogies(vectors, written(tmp_path, ": x\na b c a\n")).accuracy == 0


def test_settings_without_sense_are_refused(tmp_path, clock):
    path = written(tmp_path, ": x\nh0 h1 h2 h3\n")
    with pytest.raises(SettingError, match="'add' or 'mul'"):
        evaluate_analogies(clock, path, method="plus")
    for evaluate, data in ((evaluate_analogies, path), (evaluate_similarity, [("h0", "h1", 1.0)])):
        with pytest.raises(SettingError, match="restrict_vocab must be at least 1"):
            evaluate(clock, data, restrict_vocab=0)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("EN-MC-30.txt", 30),
        ("EN-MTurk-771.txt", 771),
        ("EN-RG-65.txt", 65),
        ("EN-SIMLEX-999.txt", 999),
        ("EN-SimVerb-3500.txt", 3500),
        ("EN-WS-353-ALL.txt", 353),
        ("EN-WS-353-REL.txt", 252),
        ("EN-WS-353-SIM.txt", 203),
        ("zh/240.txt", 240),
        ("zh/297.txt", 297),
    ],
)
def test_reads_the_public_similarity_sets(shared_data, name, total):
    pairs = read_similarity(shared_data / "wordsim" / name)
    assert len(pairs) == total
    people = WordVectors(
        sorted({word for pair in pairs for word in pair[:2]}),
        np.ones((1, 1)).repeat(len({word for pair in pairs for word in pair[:2]}), axis=0),
    )
    assert evaluate_similarity(people, pairs).covered == total


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "sections", "total"),
    [
        ("questions-words.txt.gz", 14, 19544),
        ("questions-phrases.txt.gz", 5, 3218),
        ("CA8/morphological.txt.gz", 4, 10177),
        ("CA8/semantic.txt.gz", 4, 7636),
        ("CA_translated/ca_translated.txt.gz", 3, 953),
    ],
)
def test_reads_the_public_analogy_sets(shared_data, name, sections, total):
    found = read_analogies(shared_data / "wordsim" / name)
    assert len(found) == sections
    assert sum(len(questions) for _, questions in found) == total
