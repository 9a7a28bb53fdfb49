"""N-gram models as users have them: files, scores, next words, writing on."""

import json
import math

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import CorpusError, FormatError, SettingError
from wenmai.formats.arpa import write_arpa
from wenmai.inference.ngram_model import _Vocabulary
from wenmai.models.ngram import Ngram, NgramConfig

TEXT = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog sat", "the mat sat", "the end"] * 3


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ngram")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(folder / "cache"))
        return wenmai.train("ngram", TEXT, out=folder / "run", order=3)


@pytest.fixture
def model(run):
    return run.model


# --- scores ---------------------------------------------------------------------------------------------------------


def test_scores_add_up(model):
    (score,) = model.score(["the cat sat"])
    assert score.tokens == 4
    assert score.log_prob == pytest.approx(sum(score.token_log_probs))
    assert score.log10 == pytest.approx(score.log_prob / math.log(10))
    assert score.oov == 0


def test_scores_of_many_lines_are_those_of_each(model):
    lines = [*TEXT, "", "unknown words", " the  cat\tsat ", "<s> the </s>", "two\nlines"] * 50
    together = list(model.score(lines))
    assert [score.text for score in together] == lines
    for place in range(20):
        (alone,) = model.score([lines[place]])
        assert alone == together[place]


def test_the_number_of_threads_changes_nothing(model):
    words, _ = model.number(TEXT * 400)
    assert np.array_equal(model.model.log_probs(words), model.model.log_probs(words, threads=3))


def test_the_end_of_a_line_begins_a_new_one(model):
    assert model.next("the cat\n") == model.next("")
    assert model.next("the cat\nthe dog") == model.next("the dog")
    vocabulary = _Vocabulary(model)
    assert vocabulary.decode(vocabulary.encode("the cat\nsat on")) == "the cat\nsat on"
    (found,) = model.generate("the", max_tokens=30, past_end=True, seed=3)
    assert "\n" in found.text
    assert all(line == line.strip() for line in found.text.split("\n")[1:-1])


def test_bytes_that_are_no_characters_are_an_unknown_word(model):
    (score,) = model.score(["the \udcff"])
    assert (score.oov, score.oov_bytes) == (1, 4)


def test_a_blank_line_has_no_predictions(model):
    assert [(score.tokens, score.log_prob) for score in model.score(["", "   "])] == [(0, 0.0)] * 2


def test_a_line_of_unknown_words(model):
    (score,) = model.score(["x y z"])
    assert score.oov == 3
    assert math.isfinite(score.log_prob)


def test_likelier(model):
    one, other = model.more_likely("the cat sat", "sat cat the")
    assert one.log_prob > other.log_prob


def test_lines_stand_for_themselves(model):
    assert list(model.score(["the cat"], context="fresh"))
    with pytest.raises(SettingError, match="an n-gram model scores each line by itself"):
        list(model.score(["the cat"], context="carried"))
    with pytest.raises(SettingError, match="score takes a list; put a single one in brackets"):
        list(model.score("the cat"))
    with pytest.raises(CorpusError, match="texts from Python are strings; one is NoneType"):
        list(model.score(["the cat", None]))
    with pytest.raises(SettingError, match="next takes one text, not a list; call it for each text"):
        model.next(["the cat"])


# --- next words, and writing on ---------------------------------------------------------------------------------------


def test_next_words_are_the_most_likely(model):
    found = model.next("the cat", topn=3)
    assert found[0][0] == "sat"
    assert [probability for _, probability in found] == sorted((p for _, p in found), reverse=True)
    everything = model.next("on the", topn=1000)
    assert len(everything) == model.model.predictable
    assert sum(probability for _, probability in everything) == pytest.approx(1, abs=1e-6)
    assert "\n" in dict(everything)
    assert "<s>" not in dict(everything)
    with pytest.raises(SettingError, match="topn=-1: expected 1 or more"):
        model.next("the cat", topn=-1)


def test_next_agrees_with_score(model):
    for word, probability in model.next("the dog sat", topn=50):
        if word != "\n":
            (score,) = model.score([f"the dog sat {word}"])
            assert score.token_log_probs[3] == pytest.approx(math.log(probability), abs=1e-5)


def test_writing_on(model):
    pytest.importorskip("torch")
    (greedy,) = model.generate("the dog", temperature=0, max_tokens=20)
    (beam,) = model.generate("the dog", beam=4, max_tokens=20)
    assert greedy.text.startswith(" sat")
    assert beam.log_prob >= greedy.log_prob
    drawn = model.generate("", count=50, max_tokens=5, seed=2)
    assert len(drawn) == 50
    assert not any("<" in one.text for one in drawn)
    assert {one.reason for one in drawn} <= {"end", "length"}
    assert "".join(model.stream("the dog", temperature=0)) == greedy.text


def test_what_is_written_has_the_log_probability_that_scoring_gives(model):
    pytest.importorskip("torch")
    for one in model.generate("the", count=20, max_tokens=50, seed=4):
        (score,) = model.score([f"the{one.text}"])
        if one.reason == "end":
            assert one.log_prob == pytest.approx(sum(score.token_log_probs[1:]), abs=1e-4)


def test_characters(tmp_path):
    lines = iter(["天地玄黄", "宇宙洪荒", "天地人"] * 5)
    made = wenmai.train("ngram", lines, out=tmp_path / "run", order=3, segment="characters")
    assert made.model.next("天")[0][0] == "地"
    (score,) = made.model.score(["天地人"])
    assert score.tokens == 4
    pytest.importorskip("torch")
    assert "天地" in made.model.generate("", temperature=0, max_tokens=9)[0].text


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_model_is_what_was_saved(run, model, tmp_path):
    again = Ngram.load(run.path / "model")
    assert again.config == model.model.config == NgramConfig(order=3)
    assert list(again.vocab) == list(model.model.vocab)
    again.save(tmp_path)
    third = Ngram.load(tmp_path)
    words, _ = model.number(TEXT)
    assert np.array_equal(third.log_probs(words), model.model.log_probs(words))


def copied(run, tmp_path):
    for path in (run.path / "model").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "name", ["config.json", "contexts.bin", "leaves.bin", "words.txt", "word-bounds.bin", "word-slots.bin"]
)
def test_missing_and_truncated_files_are_refused(run, name, tmp_path):
    folder = copied(run, tmp_path)
    whole = (folder / name).read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 2):
        (folder / name).write_bytes(whole[:size])
        with pytest.raises(FormatError):
            Ngram.load(folder)
    (folder / name).unlink()
    with pytest.raises(FormatError, match="cannot be read"):
        Ngram.load(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 2),
        ("order", 4),
        ("order", "3"),
        ("vocab_size", 10**12),
        ("ngrams", [1, 2, 3]),
        ("ngrams", [10**12] * 3),
        ("smoothing", "none"),
        ("text", {"segment": "x"}),
        ("text", None),
        ("facts", 1),
        ("extra", 1),
    ],
)
def test_a_damaged_configuration_is_refused(run, name, value, tmp_path):
    folder = copied(run, tmp_path)
    content = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(content | {name: value}))
    with pytest.raises(FormatError):
        Ngram.load(folder)


def test_a_damaged_model_is_not_exported(run, tmp_path):
    folder = copied(run, tmp_path)
    model = Ngram.load(folder)
    for name in ("word", "first"):
        records = np.array(model.contexts)
        records[name][len(model.vocab) + 1] ^= 1 << 31
        records.tofile(folder / "contexts.bin")
        with pytest.raises(FormatError, match="n-grams are damaged"):
            write_arpa(tmp_path / "model.arpa", Ngram.load(folder))
    assert not (tmp_path / "model.arpa").exists()


@pytest.mark.parametrize("name", ["contexts.bin", "leaves.bin", "word-slots.bin", "words.txt"])
def test_damaged_records_never_lead_astray(run, name, tmp_path):
    """Any bytes give scores or a clear error: nothing outside the files is read, and every walk ends."""
    folder = copied(run, tmp_path)
    whole = np.frombuffer((folder / name).read_bytes(), np.uint8)
    draw = np.random.default_rng(1)
    refused = 0
    for _ in range(60):
        damaged = whole.copy()
        places = draw.integers(0, whole.size, draw.integers(1, 40))
        damaged[places] = draw.integers(0, 256, places.size)
        (folder / name).write_bytes(damaged.tobytes())
        try:
            model = Ngram.load(folder)
            words, _ = model.vocab.number("the cat sat on the mat\nx y\nthe end\n")
            model.log_probs(words)
            state = model.begin()
            model.advance(state, words[:2])
            model.distribution(state)
        except FormatError:
            refused += 1
    assert refused or name != "contexts.bin"
