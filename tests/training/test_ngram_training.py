"""Training n-gram models on texts of any kind, from the shell and from Python."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import CorpusError, SettingError, VocabError
from wenmai.runs.train import Callback
from wenmai.training.records import StepRecord
from wenmai.training.run import Run, verify

LINES = ["a b c", "a b d", "b c", "a"] * 5


def test_the_summary(topics, tmp_path):
    run = wenmai.train("ngram", topics, out=tmp_path / "run", order=3)
    summary = run.summary
    assert summary["ngrams"][0] == summary["vocabulary"] == 83
    assert summary["words"] == 30_000
    assert len(summary["ngrams"]) == 3
    text = topics.read_text().splitlines()
    scores = list(run.model.score(text))
    mean = -sum(score.log_prob for score in scores) / sum(score.tokens for score in scores)
    assert summary["loss"] == pytest.approx(mean, abs=1e-5)
    assert verify(run.path)[1] == []


@pytest.mark.parametrize("settings", [{"prune": "0,0,2"}, {"smoothing": "mle"}, {"smoothing": "add-k"}, {"order": 1}])
def test_the_loss_is_that_of_the_text(settings, topics, tmp_path):
    run = wenmai.train("ngram", topics, out=tmp_path / "run", **{"order": 3, **settings})
    scores = list(run.model.score(topics.read_text().splitlines()))
    mean = -sum(score.log_prob for score in scores) / sum(score.tokens for score in scores)
    assert run.summary["loss"] == pytest.approx(mean, abs=1e-5)


def test_little_memory_gives_the_same_bytes(topics, tmp_path):
    whole = wenmai.train("ngram", [topics] * 4, out=tmp_path / "whole", order=4)
    parts = wenmai.train("ngram", [topics] * 4, out=tmp_path / "parts", order=4, memory=1e-6)
    assert parts.summary["parts"] > 1
    assert whole.summary["parts"] == 1
    for name in ("contexts.bin", "leaves.bin", "words.txt"):
        assert (whole.path / "model" / name).read_bytes() == (parts.path / "model" / name).read_bytes()


def test_progress_goes_on_while_files_are_sorted(topics, tmp_path):
    progress = []

    class Listener(Callback):
        def record(self, record):
            if isinstance(record, StepRecord):
                progress.append(record.progress)

    wenmai.train("ngram", [topics] * 4, out=tmp_path / "run", memory=1e-6, callback=Listener())
    assert progress == sorted(progress)
    assert sum(0.2 < value < 0.99 for value in progress) > 5


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 1},
        {"order": 3, "prune": "0,1,2"},
        {"order": 4, "prune": "0,0,1", "smoothing": "kneser-ney", "min_count": 30},
        {"order": 3, "smoothing": "add-k", "k": 0.3},
        {"order": 3, "smoothing": "mle"},
        {"order": 2, "smoothing": "absolute", "interpolate_unigrams": False},
    ],
)
def test_little_memory_gives_the_same_bytes_whatever_the_settings(settings, topics, tmp_path):
    whole = wenmai.train("ngram", topics, out=tmp_path / "whole", **settings)
    parts = wenmai.train("ngram", topics, out=tmp_path / "parts", **settings, memory=1e-6)
    for name in ("contexts.bin", "leaves.bin", "config.json"):
        assert (whole.path / "model" / name).read_bytes() == (parts.path / "model" / name).read_bytes()
    for name in ("loss", "ngrams", "ngrams_counted", "discounts"):
        assert whole.summary[name] == parts.summary[name]


PEAKS = """
import sys, wenmai
from wenmai.runs.environment import peak_memory_bytes
text, out, memory = *sys.argv[1:3], float(sys.argv[3])
for name, order, some in (("encoded", 1, 1e-6), ("little", 5, memory), ("much", 5, 1.0)):
    run = wenmai.train("ngram", text, out=f"{out}-{name}", order=order, memory=some)
    print(peak_memory_bytes(), run.summary["parts"], sum(run.summary["ngrams"]))
"""


def test_the_peak_of_the_process_stays_within_the_memory_that_is_allowed(tmp_path):
    draw = np.random.default_rng(1)
    words = np.array([f"w{number}" for number in range(2000)])
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words[draw.integers(0, 2000, 40)]) for _ in range(18_000)))
    wenmai.train("ngram", LINES, out=tmp_path / "compiled", memory=1e-6)  # compiling takes memory too
    allowed = 12 << 20
    command = [sys.executable, "-c", PEAKS, text, tmp_path / "run", str(allowed / 2**30)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (before, _, _), (little, parts, sizes), (much, _, expected) = (
        map(int, line.split()) for line in done.stdout.splitlines()
    )
    assert parts > 1
    assert sizes == expected
    assert much - before > 5 * allowed
    assert little - before < allowed + (16 << 20)


def test_rare_words_become_unknown(tmp_path):
    run = wenmai.train("ngram", [*LINES, "rare", "rarer d"], out=tmp_path / "run", order=2, min_count=2)
    model = run.model
    assert "rare" not in list(model.model.vocab)
    assert dict(model.next("", topn=99))["<unk>"] > dict(model.next("", topn=99))["d"]
    (score,) = model.score(["rare"])
    assert score.oov == 1


def test_an_unknown_word_of_the_text_is_an_ordinary_word(tmp_path):
    run = wenmai.train("ngram", ["a <unk> b", "a <unk> c", "<unk> b"] * 3, out=tmp_path / "run", order=2)
    one, other = run.model.score(["a <unk> b", "a zzz b"])
    assert one.oov == 0
    assert other.oov == 1
    assert one.log_prob == other.log_prob
    assert run.model.next("a")[0][0] == "<unk>"


def test_a_word_of_the_text_without_any_probability_leaves_no_loss(tmp_path):
    text = ["a a a b b c c d d e e f g h i j k"]
    run = wenmai.train("ngram", text, out=tmp_path / "run", order=1, interpolate_unigrams=False, min_count=1)
    assert json.loads((run.path / "summary.json").read_text(), parse_constant=pytest.fail)["loss"] is None


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_marks_of_sentences_in_a_text_are_refused(mark, tmp_path):
    with pytest.raises(CorpusError, match=f"the text has the word '{mark}'"):
        wenmai.train("ngram", [f"a {mark} b"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order"),
        ({"order": 99}, "order"),
        ({"smoothing": "kneser"}, "expected one of .*kneser-ney"),
        ({"smoothing": "arpa"}, "choose a smoothing to train with"),
        ({"prune": "1,1"}, "the first is of single words"),
        ({"prune": "0,2,1"}, "none smaller than the one before"),
        ({"prune": "0,x"}, "expected whole numbers"),
        ({"prune": "0,0,0,0,0,0"}, "at most 5 numbers"),
        ({"prune": "0,1", "smoothing": "add-k"}, "prune cannot be used with add-k"),
        ({"phrases": 1}, "an n-gram model takes no phrases"),
        ({"k": 0}, "k=0"),
        ({"k": 0.5}, "k=0.5 has no effect with smoothing=modified-kneser-ney"),
        ({"interpolate_unigrams": False, "smoothing": "mle"}, "interpolate_unigrams has no effect"),
    ],
)
def test_settings_that_make_no_sense(settings, message, tmp_path):
    with pytest.raises(SettingError, match=message):
        wenmai.train("ngram", LINES, out=tmp_path / "run", **settings)


def test_no_word_is_frequent_enough(tmp_path):
    with pytest.raises(VocabError, match="min_count"):
        wenmai.train("ngram", LINES, out=tmp_path / "run", min_count=1000)


def test_the_shell(shell, topics, tmp_path):
    shell("train", "ngram", topics, "--out", "run", "--quiet", "--set", "order=3")
    (tmp_path / "test.txt").write_text("number1 number2 number3\n\ncolour1 other\n")
    lines = [json.loads(line) for line in shell("score", "run", "--file", "test.txt", "--json").out.splitlines()]
    assert [line.get("oov") for line in lines[:3]] == [0, 0, 1]
    assert lines[-1]["perplexity"] > 1
    assert lines[-1]["sentences"] == 2
    shell("export", "run", "arpa", "model.arpa")
    shell("import", "arpa", "model.arpa", "--out", "imported")
    again = [json.loads(line) for line in shell("score", "imported", "--file", "test.txt", "--json").out.splitlines()]
    assert again[-1]["log_prob"] == pytest.approx(lines[-1]["log_prob"], abs=1e-4)
    assert len(json.loads(shell("next", "run", "number1", "--json").out)["next"]) == 10


@pytest.mark.shared_data
def test_penn_treebank(shared_data, tmp_path):
    run = wenmai.train("ngram", shared_data / "ptb" / "ptb.train.txt.xz", out=tmp_path / "run")
    found = wenmai.evaluate(run, on=shared_data / "ptb" / "ptb.valid.txt.xz").result
    assert found.tokens == 73_760
    assert found.oov == 0
    assert found.perplexity == pytest.approx(148.008, abs=0.005)  # lmplz, with <unk> as another word: 148.007
    assert Run(run.path).summary["ngrams"] == [10001, 264990, 586558, 717733, 737952]
    assert math.exp(run.summary["loss"]) == pytest.approx(7.849, abs=0.001)
