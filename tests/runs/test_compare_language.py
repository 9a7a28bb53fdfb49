"""Comparisons of language models: what a character costs, where in a text, and with how much context."""

import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import RunError, SettingError
from wenmai.measures.language import SentenceScore
from wenmai.runs.compare import compare
from wenmai.runs.compare_systems import compare_systems
from wenmai.runs.comparison import Comparison
from wenmai.runs.measuring import language


def test_language_models_are_compared_by_what_a_character_costs(tmp_path):
    text, test = tmp_path / "text.txt", tmp_path / "test.txt"
    text.write_text("the cat sat on the mat with the dog and the hat\n" * 60)
    test.write_text("the cat sat on the hat with the dog and a zebra\n" * 12)
    common = {"min_count": 1}
    small = {"threads": 1, "epochs": 1, "hidden_size": 8, "num_layers": 1, "batch_tokens": 64, "segment_length": 8}
    wenmai.train("ngram", text, out=tmp_path / "ngram", order=3, **common)
    wenmai.train("rnnlm", text, out=tmp_path / "rnnlm", **common | small)
    found = compare([tmp_path / "ngram", tmp_path / "rnnlm"], out=tmp_path / "both", on=[str(test)])
    assert found.corpus.name == "text.txt"  # the same, though each cuts it in its own way
    for system in found.systems:
        bits, perplexity = system.measures
        assert (bits.kind, perplexity.kind, bits.lower_is_better) == ("bits", "perplexity", True)
        assert bits.low <= bits.value <= bits.high
        assert (bits.covered, bits.total) == (120, 144)  # "a" and "zebra" are unknown
        total = wenmai.evaluate(tmp_path / system.name, on=str(test)).result
        assert bits.value == pytest.approx(total.spelled_bits_per_character)
        assert total.oov_bytes == 12 * (len("a") + len("zebra") + 2)
        assert perplexity.value == pytest.approx(total.word_perplexity)
        assert system.lines["positions"][0].y > 0
        contexts = system.lines["contexts"]
        assert [point.note for point in contexts] == [f"{2**n} tokens" for n in range(7)]  # half of the text is context
        assert all(point.y > 0 for point in contexts)
        assert set(system.samples) == {"the cat sat on"}
    page = (tmp_path / "both" / "report.html").read_text()
    assert "Bits per character" in page
    assert "Generated text" in page
    assert (
        Comparison.from_json(json.loads((tmp_path / "both" / "comparison.json").read_text())).systems == found.systems
    )
    with pytest.raises(SettingError, match="--on FILE"):
        compare([tmp_path / "ngram"], out=tmp_path / "none")


def test_each_sample_of_a_report_has_draws_of_its_own(tmp_path):
    asked = []

    class Writer:
        def generate(self, prompt, **options):
            asked.append((prompt, options["seed"]))
            return [SimpleNamespace(text=" and so on")]

    text = tmp_path / "text.txt"
    text.write_text("".join(f"line {number} has these eight words in it\n" for number in range(9)))
    for _ in range(2):
        assert len(language.samples(Writer(), text)) == 3
    assert len({seed for _, seed in asked}) == 3
    assert asked[:3] == asked[3:]


def test_text_without_spaces_is_continued_behind_its_first_characters(tmp_path):
    asked = []

    class Writer:
        def generate(self, prompt, **options):
            asked.append(prompt)
            return [SimpleNamespace(text="。")]

    (tmp_path / "text.txt").write_text("学而时习之，不亦说乎？有朋自远方来\n短\n" * 5)
    assert set(language.samples(Writer(), tmp_path / "text.txt")) == {"学而时习之，不亦"} == set(asked)


def test_what_is_covered_are_tokens_also_where_no_spaces_separate_words(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("学而时习之不亦说乎\n" * 20)
    run = wenmai.train("ngram", text, out=tmp_path / "run", order=2, min_count=1, segment="characters")
    (tmp_path / "test.txt").write_text("学而时习之\n有朋不亦说乎\n")
    (bits,) = language.measures_of(run.model, str(tmp_path / "test.txt"), "test")
    assert (bits.covered, bits.total) == (9, 11)
    assert bits.low < bits.value < bits.high
    (tmp_path / "test.txt").write_text("学而时习之不亦乎\n\n")
    (bits,) = language.measures_of(run.model, str(tmp_path / "test.txt"), "test")
    assert (bits.low, bits.high) == (None, None)  # one line says nothing of others


def test_a_model_of_short_texts_is_compared(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat with the dog and the hat\n" * 30)
    small = {"hidden_size": 8, "num_layers": 1, "num_heads": 1, "max_length": 6, "batch_tokens": 64}
    settings = small | {"threads": 1, "epochs": 1, "tokenizer.kind": "words", "min_count": 1}
    options = {"settings": settings, "on": [str(text)], "quiet": True}
    (system,) = compare_systems(["gpt"], [text], out=tmp_path / "both", **options).systems
    (sample,) = system.samples.values()
    assert len(sample.split()) <= 3  # it reads the beginning of a line and four words of the prompt
    assert system.lines["positions"][0].y > 0


def test_a_run_of_another_system_is_not_taken(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat with the dog and the hat\n" * 30)
    wenmai.train("ngram", text, out=tmp_path / "both" / "gpt", min_count=1, quiet=True)
    with pytest.raises(RunError, match=r"gpt: is a run of ngram; choose another --out for a run of gpt$"):
        compare_systems(["gpt"], [text], out=tmp_path / "both", on=[str(text)], quiet=True)


def test_models_that_need_not_predict_all_of_a_text_are_named(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on The mat\n" * 20)
    settings = {"whole": {}, "lower": {"lowercase": True}, "words": {"segment": "words", "nfkc": True}}
    for name, chosen in settings.items():
        wenmai.train("ngram", text, out=tmp_path / name, order=2, **chosen)

    def facts(*names):
        found = compare([tmp_path / name for name in names], out=tmp_path / "both", on=[str(text)])
        noted = {place for place, notes in found.notes.items() if any("favour this model" in one for one in notes)}
        told = found.corpus.facts.get("not predicted")
        assert noted == ({f"{name}, text.txt" for name in names if f"{name} (" in told} if told else set())
        return told

    assert facts("whole") is facts("lower") is None  # nothing is compared
    told = facts("whole", "lower", "words")
    assert told.startswith("lower (lowercase=true), words (nfkc=true segment=words): ")
    assert "whole" not in told
    assert "lower (lowercase=true)" in (tmp_path / "both" / "report.html").read_text()
    shutil.copytree(tmp_path / "lower", tmp_path / "again")
    assert facts("lower", "again") is None  # they leave out the same
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the cat sat\tthe sat cat\n" * 3)
    both = [tmp_path / "whole", tmp_path / "lower"]
    found = compare(both, out=tmp_path / "pairs", pairs=[str(pairs)])  # which one of two texts is likelier
    assert (found.notes, found.corpus.facts.get("not predicted")) == ({}, None)


class Told:
    """Says of every token, a letter, that it costs as many bits as the line has digits, and of ends one bit more."""

    def score(self, texts, *, context=None):
        for text in texts:
            digits = sum(letter.isdigit() for letter in text)
            costs = [*[digits] * len(text), digits + 1]
            logs = tuple(-cost * math.log(2) for cost in costs)
            yield SentenceScore(text=text, log_prob=sum(logs), tokens=len(logs), oov_bytes=1, token_log_probs=logs)


def test_a_line_is_spread_over_the_places_that_its_tokens_have(tmp_path, monkeypatch):
    monkeypatch.setattr(language, "_PASSAGES", 1)
    monkeypatch.setattr(language, "_BINS", 4)  # of 1000 characters
    lines = ["a" * 499, "b" * 998 + "1", "c" * 1997 + "23", "d" * 999]
    (tmp_path / "test.txt").write_text("\n".join(lines))
    found = language.describe_positions(Told(), str(tmp_path / "test.txt"))
    lines[3] = "d" * 500  # the passage ends there, and the line has no end
    assert [point.x for point in found] == [500, 1500, 2500, 3500]
    totals = [1 + 8 + 500 + 8 * 0.5, 500 + 1 + 8 * 0.5 + 500 * 2 + 8 / 4, 2000 + 8 / 2, 1000 + 1 + 8 / 4 + 8]
    assert [point.y for point in found] == pytest.approx([total / 1000 for total in totals])
    passage = [(line, True) for line in lines[:3]]
    bits, characters = language._by_position(Told(), [passage, passage[:1]])
    whole = list(Told().score([*lines[:3], lines[0]]))
    assert characters.sum() == pytest.approx(sum(score.characters for score in whole))
    assert bits.sum() == pytest.approx(sum(-score.log_prob / math.log(2) + 8 for score in whole))


def test_an_ngram_model_gains_by_context_up_to_its_order_and_no_farther(tmp_path):
    """Two letters decide the next; one does not."""
    draw = np.random.default_rng(1)
    lines = []
    for _ in range(400):
        letters = draw.integers(0, 5, 2).tolist()
        while len(letters) < 12:
            letters.append((letters[-1] + letters[-2]) % 5)
        lines.append(" ".join("abcde"[letter] for letter in letters))
    (tmp_path / "train.txt").write_text("\n".join(lines[:300]))
    (tmp_path / "test.txt").write_text("\n".join(lines[300:]))
    points = {}
    for order in (1, 3, 4):
        run = wenmai.train("ngram", tmp_path / "train.txt", out=tmp_path / f"{order}", order=order, min_count=1)
        points[order] = language.describe_contexts(run.model, str(tmp_path / "test.txt"))
        assert [point.note for point in points[order]] == [f"{2**n} tokens" for n in range(10)]
        assert [point.x for point in points[order]] == pytest.approx([24 / 13 * 2**n for n in range(10)])
    bits = {order: [point.y for point in found] for order, found in points.items()}
    assert len(set(bits[1])) == 1
    assert bits[3][0] > 1.2 * bits[3][1]
    assert len(set(bits[3][1:])) == 1
    assert bits[4][0] > 1.2 * bits[4][1] > bits[4][2]  # how far the end of the line is, the fourth does not know
    assert len(set(bits[4][2:])) == 1
    (whole, _) = language.measures_of(run.model, str(tmp_path / "test.txt"), "test")
    assert bits[4][-1] == pytest.approx(whole.value, rel=0.05)


def test_few_words_are_known_to_an_ngram_model_as_counting_says(tmp_path):
    (tmp_path / "train.txt").write_text("a b\nc b\nc a\n")
    run = wenmai.train("ngram", tmp_path / "train.txt", out=tmp_path / "run", order=4, smoothing="mle", min_count=1)
    (one,), (two,), (all_,) = run.model.score_within([["c a", "a b"]], (1, 2, 4))
    first, second = math.log(1 / 3), math.log(1 / 2)
    assert one.token_log_probs == pytest.approx([first, second, 0], abs=1e-6)
    assert two.token_log_probs == pytest.approx([first, 0, 0], abs=1e-6)
    assert all_ == next(run.model.score(["a b"]))


def test_a_model_gains_where_what_decides_the_next_word_comes_into_reach(tmp_path):
    """Every word is that of four words before: fewer words of context say nothing, more say no more."""
    draw = np.random.default_rng(1)
    for name, count in (("train", 400), ("test", 120)):
        lines = [" ".join([*draw.choice([*"abcdefgh"], 4)] * 6) for _ in range(count)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    settings = {"order": 5, "epochs": 5, "hidden_size": 64, "embedding_size": 16, "batch_tokens": 320, "threads": 1}
    run = wenmai.train("nnlm", tmp_path / "train.txt", out=tmp_path / "run", learning_rate=0.01, **settings)
    found = language.describe_contexts(run.model, str(tmp_path / "test.txt"))
    bits = {int(point.note.split()[0]): point.y for point in found}
    assert bits[2] > 0.9 * bits[1]
    assert bits[4] < 0.6 * bits[2]
    assert [bits[8], bits[64], bits[512]] == pytest.approx([bits[4]] * 3, rel=1e-5)


def test_the_interval_is_that_of_all_lines(tmp_path, monkeypatch):
    """Also where there are too many to be drawn one by one, and they get harder."""
    monkeypatch.setattr(language, "_MOST_GROUPS", 30)
    text = ["a b c"] * 200 + ["c a"] * 10
    run = wenmai.train("ngram", text, out=tmp_path / "run", order=2, min_count=1)
    (tmp_path / "test.txt").write_text("a b c\n" * 200 + "c c c c\n" * 100)
    bits, _ = language.measures_of(run.model, str(tmp_path / "test.txt"), "test")
    assert bits.low <= bits.value <= bits.high
