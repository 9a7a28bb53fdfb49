"""Comparisons: systems on one corpus or finished runs, one table, one report."""

import json
import re
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

import wenmai
from wenmai.core.errors import RunError, SettingError, VocabError, WenmaiError
from wenmai.data.datasets import Dataset, TextExample
from wenmai.runs.compare import compare
from wenmai.runs.compare_systems import compare_systems
from wenmai.runs.comparison import Comparison, Measure
from wenmai.runs.formats import export_run, import_run
from wenmai.runs.measuring.measurer import Measurer, title_of
from wenmai.training.callback import Callback

SMALL = {"vector_size": 16, "epochs": 2, "threads": 1}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    pairs = [
        (f"colour{n}", f"{topic}{n + 1}", score) for topic, score in (("colour", 9), ("number", 1)) for n in range(9)
    ]
    (folder / "alike.txt").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in pairs))
    (folder / "ratios.txt").write_text(": topics\ncolour1 colour2 number1 number2\ncolour1 unknown number1 number2\n")
    return folder


@pytest.fixture(scope="module")
def runs(topics, tmp_path_factory):
    """Two finished runs of one text."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        for system in ("word2vec-sgns", "word2vec-cbow-hs"):
            wenmai.train(system, topics, out=folder / system, **SMALL)
    return [folder / "word2vec-sgns", folder / "word2vec-cbow-hs"]


def test_finished_runs_are_compared(runs, sets, tmp_path):
    found = wenmai.compare(
        runs, out=tmp_path / "report", similarity=[sets / "alike.txt"], analogy=[sets / "ratios.txt"], words=["colour1"]
    )
    assert [system.name for system in found.systems] == ["word2vec-sgns", "word2vec-cbow-hs"]
    for system, path in zip(found.systems, runs, strict=True):
        run = wenmai.Run(path)
        assert system.settings | {"epochs": 2} == system.settings
        assert [(measure.name, measure.total) for measure in system.measures] == [("alike", 18), ("ratios", 2)]
        similarity, analogy = system.measures
        assert similarity.low <= similarity.value <= similarity.high
        assert (analogy.covered, analogy.parts[0].name) == (1, "topics")
        assert system.words_per_second == run.summary["words_per_second"]
        assert (system.size_bytes, system.vocabulary) == (run.model_bytes, 80)
        assert system.curve[-1].progress == 1
        assert [word for word, _ in system.neighbours["colour1"]] == [
            word for word, _ in run.vectors.most_similar("colour1", topn=10)
        ]
        assert system.map == []  # no word here reads as one; see the test below
    assert found.corpus.tokens == 30_000
    assert found.corpus.fingerprint == wenmai.Run(runs[0]).corpus["fingerprint"]
    stored = json.loads((tmp_path / "report" / "comparison.json").read_text())
    assert Comparison.from_json(stored) == found
    page = (tmp_path / "report" / "report.html").read_text()
    assert "word2vec-cbow-hs" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)


@pytest.mark.parametrize(
    ("name", "among", "title"),
    [
        ("a/test.tsv", ["b/valid.tsv"], "test.tsv"),
        ("a/test.tsv", ["a/test.tsv", "b/test.tsv"], "a/test.tsv"),
        ("x/a/test.tsv", ["y/a/test.tsv", "test.tsv"], "x/a/test.tsv"),
        ("test.tsv", ["y/test.tsv"], "test.tsv"),
        ("data:test.tsv", ["y/valid.tsv"], "test.tsv"),
        ("data:test.tsv", ["y/test.tsv"], "data:test.tsv"),
    ],
)
def test_titles_tell_files_apart(name, among, title):
    assert title_of(name, among) == title


def test_words_that_read_as_words_are_mapped(tmp_path):
    names = ["red", "green", "blue", "seven", "eight", "nine", "文脉", "语料"]
    text = iter([" ".join(names[n % 8 :] + names[: n % 8]) for n in range(400)])
    run = wenmai.train("word2vec", text, out=tmp_path / "run", **SMALL)
    found = wenmai.compare([run], out=tmp_path / "report")
    assert {word.word for word in found.systems[0].map} == set(names)
    assert {word.count for word in found.systems[0].map} == {400}
    assert found.queries


def test_systems_are_trained_once_on_one_text_and_compared(topics, sets, shell, tmp_path):
    command = ["compare", "--systems", "word2vec-sgns,word2vec-cbow-ns", topics, "--out", "both"]
    command += [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
    finished = shell.process(*command, "--similarity", sets / "alike.txt")  # with what its own processes tell
    lines = finished.out.splitlines()
    assert lines[0].split() == ["system", "alike", "words/s", "seconds", "peak", "MB", "size", "MB"]
    assert [line.split()[0] for line in lines[1:3]] == ["word2vec-sgns", "word2vec-cbow-ns"]
    assert lines[-1] == "report: both/report.html"
    assert "epoch 2 done" in finished.err
    made = [(tmp_path / "both" / name / "model").stat().st_mtime_ns for name in ("word2vec-sgns", "word2vec-cbow-ns")]

    shutil.rmtree(tmp_path / "both" / "word2vec-cbow-ns" / "model")  # as if it had been interrupted
    finished = shell(*command, "--json")
    found = json.loads(finished.out)
    assert found["report"] == "both/report.html"
    assert found["command"].startswith("wenmai compare --systems")
    assert {system["settings"]["vector_size"] for system in found["systems"]} == {16}
    again = [(tmp_path / "both" / name / "model").stat().st_mtime_ns for name in ("word2vec-sgns", "word2vec-cbow-ns")]
    assert again[0] == made[0]
    assert again[1] > made[1]
    assert len(list((tmp_path / "both").iterdir())) == 4


def test_runs_that_were_made_otherwise_are_not_passed_off_as_what_was_asked_for(runs, topics, tmp_path):
    folder = runs[0].parent
    with pytest.raises(RunError, match=r"word2vec-sgns: was trained with train\.epochs=2; choose another --out"):
        compare_systems(["word2vec-sgns"], [topics], out=folder, settings=SMALL | {"epochs": 3})
    (tmp_path / "other.txt").write_text("a b\n")
    with pytest.raises(RunError, match=r"word2vec-sgns: was trained on .*topics\.txt; choose another --out"):
        compare_systems(["word2vec-sgns"], [tmp_path / "other.txt"], out=folder, settings=SMALL)


def test_runs_of_a_text_that_has_changed_are_not_taken_again(tmp_path):
    text, given = tmp_path / "text.txt", SMALL | {"min_count": 1}
    text.write_text("one two three\n" * 50)
    wenmai.train("word2vec-sgns", text, out=tmp_path / "both" / "word2vec-sgns", quiet=True, **given)
    text.write_text("three four\n" * 50)
    with pytest.raises(RunError, match="word2vec-sgns: was trained on files that have changed since"):
        compare_systems(["word2vec-sgns"], [text], out=tmp_path / "both", settings=given)
    for left in (tmp_path / "both" / "word2vec-sgns").iterdir():
        if left.name != "recipe.yaml":  # as if it had been killed before it read the text
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    assert compare_systems(["word2vec-sgns"], [text], out=tmp_path / "both", settings=given, quiet=True).systems
    assert wenmai.Run(tmp_path / "both" / "word2vec-sgns").model.index_to_key == ["three", "four"]


@pytest.mark.parametrize(
    ("systems", "settings", "error", "message"),
    [
        (["word2vec-sgns", "word2vec-sgsn"], {}, SettingError, "did you mean 'word2vec-sgns'"),
        (["word2vec-sgns", "word2vec-sgns"], {}, SettingError, "name each system once"),
        ([], {}, SettingError, "at least one"),
        (["word2vec-sgns"], {"epohcs": "1"}, SettingError, "did you mean 'epochs'"),
        (["word2vec-sgns", "word2vec-cbow-hs"], {"softmax": "true"}, SettingError, "negative=0"),
    ],
)
def test_mistakes_are_found_before_the_first_training(systems, settings, error, message, topics, tmp_path):
    with pytest.raises(error, match=message):
        compare_systems(systems, [topics], out=tmp_path / "out", settings=settings)
    assert not (tmp_path / "out").exists()


def test_systems_that_count_share_the_text_and_get_the_settings_that_they_have(topics, sets, tmp_path):
    systems = ["word2vec-sgns", "glove", "ppmi-svd"]
    settings = SMALL | {"x_max": 5, "train.seed": 2}
    found = compare_systems(systems, [topics], out=tmp_path / "out", settings=settings, similarity=[sets / "alike.txt"])
    assert found.corpus.tokens == 30_000
    chosen = {system.name: system.settings for system in found.systems}
    assert [(chosen[name].get("epochs"), chosen[name].get("x_max")) for name in systems] == [
        (2, None),
        (2, 5),
        (None, None),
    ]
    assert all(chosen[name]["seed"] == 2 for name in systems)
    assert all(system.measures[0].value > 0.5 for system in found.systems)


def test_probes_are_columns(runs, tmp_path, monkeypatch):
    texts = [TextExample(f"{topic}{n % 9} {topic}{n % 7}", topic) for n in range(60) for topic in ("colour", "number")]
    monkeypatch.setattr(Dataset, "read", lambda self, split: iter(texts))
    found = wenmai.compare(runs, out=tmp_path / "out", probe=["trec"])
    for system in found.systems:
        (measure,) = system.measures
        assert (measure.kind, measure.name) == ("probe", "trec")
        assert 0.5 < measure.low <= measure.value <= measure.high <= 1
        assert [part.name for part in measure.parts] == ["mean", "tfidf", "sif"]
    assert "Linear probes" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_classifiers_are_compared_on_labelled_text(tmp_path):
    lines = [f"__label__{topic} {topic}{n % 9} {topic}{n % 7}\n" for n in range(60) for topic in ("colour", "number")]
    (tmp_path / "train.txt").write_text("".join(lines))
    (tmp_path / "test.txt").write_text("".join(lines[:20]))
    settings = {"epochs": 4, "buckets": 1000, "valid": str(tmp_path / "test.txt")}
    for name, batch_size in (("batch", 0), ("stochastic", 1)):
        wenmai.train("classifier", tmp_path / "train.txt", out=tmp_path / name, batch_size=batch_size, **settings)
    wenmai.train("fasttext-supervised", tmp_path / "train.txt", out=tmp_path / "mean", vector_size=8, **settings)
    runs = [tmp_path / name for name in ("batch", "stochastic", "mean")]
    found = wenmai.compare(runs, out=tmp_path / "out", on=[str(tmp_path / "test.txt")])
    assert [system.name for system in found.systems] == ["batch", "stochastic", "mean"]
    assert found.corpus.name == "train.txt"
    for system in found.systems:
        (measure,) = system.measures
        assert (measure.kind, measure.name) == ("classification", "test.txt")
        assert measure.low <= measure.value <= measure.high
        assert {part.name for part in measure.parts} == {"colour", "number"}
        assert len(system.curve) >= 4
    test = tmp_path / "other" / "test.txt"
    test.parent.mkdir()
    test.write_text("".join(lines[:8]))
    both = wenmai.compare(runs[:2], out=tmp_path / "both", on=[str(tmp_path / "test.txt"), str(test)])
    shown = [f"{tmp_path.name}/test.txt", "other/test.txt"]  # files of one name are told apart by their folders
    assert [one.name for one in both.systems[0].measures] == shown
    assert all(name in (tmp_path / "both" / "report.html").read_text() for name in shown)
    with pytest.raises(SettingError, match="--probe: not for classifiers, which take --on"):
        wenmai.compare(runs, out=tmp_path / "again", probe=["trec"])


def test_another_package_brings_what_measures_its_verb(runs, tmp_path, monkeypatch):
    def count(run, *, on):
        return f"{run.recipe.system} counts {on}"

    def counted(runs, comparison, *, on):
        measured = [replace(one, measures=[Measure(name=on[0], kind="count", value=2)]) for one in comparison.systems]
        return replace(comparison, systems=measured)

    this = SimpleNamespace(COUNTED=Measurer(models="counters", evaluate=count, compare=counted, check=lambda on: None))
    monkeypatch.setitem(sys.modules, "counters", this)
    monkeypatch.setattr(type(wenmai.Run(runs[0]).task), "verbs", ("nearest", "count"))
    monkeypatch.setattr(type(wenmai.Run(runs[0]).task), "measurers", {"count": "counters:COUNTED"})
    assert wenmai.evaluate(runs[0], on="a.txt") == "word2vec-sgns counts a.txt"
    found = wenmai.compare(runs, out=tmp_path / "out", on=["a.txt"])
    assert [system.measures[0].value for system in found.systems] == [2, 2]
    assert "Count" in (tmp_path / "out" / "report.html").read_text()


def test_vectors_of_whatever_has_some_are_probed(tmp_path, monkeypatch):
    texts = [TextExample(f"{topic}{n % 9} {topic}{n % 7}", topic) for n in range(40) for topic in ("colour", "number")]
    monkeypatch.setattr(Dataset, "read", lambda self, split: iter(texts))
    labelled = [(example.text, example.label) for example in texts]
    run = wenmai.train("fasttext-supervised", labelled, out=tmp_path / "run", vector_size=4, epochs=5, threads=1)
    found = wenmai.evaluate(run, probe=["trec"])
    assert [result.weighting for result in found.probes] == ["mean", "tfidf", "sif"]
    assert set(found.as_dict()) == {"run", "similarity", "analogy", "probes"}
    compared = wenmai.compare([run], out=tmp_path / "out", probe=["trec"])
    assert compared.systems[0].measures[0].value == found.probes[0].accuracy


def test_classifiers_and_vectors_are_not_compared(runs, tmp_path):
    with pytest.raises(SettingError, match="--on: not for word vectors, which take --similarity"):
        wenmai.compare(runs, out=tmp_path / "out", on=["test.txt"])


def test_standard_input_cannot_be_read_twice(tmp_path):
    with pytest.raises(SettingError, match="give it files, not stdin"):
        compare_systems(["word2vec-sgns"], ["-"], out=tmp_path)
    (tmp_path / "test.txt").write_text("colour1 colour2\n")
    with pytest.raises(SettingError, match="reads its test sets once for each run; give it files, not stdin"):
        compare_systems("ngram", tmp_path / "test.txt", out=tmp_path / "out", on="-")
    assert not (tmp_path / "out").exists()


def test_a_training_that_fails_is_told(topics, tmp_path, capfd):
    with pytest.raises(RunError, match=r"training word2vec-sgns failed \(exit code 4\); its message is above"):
        compare_systems(["word2vec-sgns"], [topics], out=tmp_path / "out", settings={"min_count": 10**9})
    assert "most frequent occurs" in capfd.readouterr().err


def test_runs_of_different_texts_are_told_apart(runs, tmp_path):
    other = wenmai.train("word2vec", iter(["a b c d e"] * 99), out=tmp_path / "other", **SMALL)
    found = wenmai.compare([runs[0], other], out=tmp_path / "report")
    assert found.corpus.name == "2 different corpora"
    assert [system.name for system in found.systems] == ["word2vec-sgns", "word2vec"]
    assert found.systems[0].neighbours == {}


def test_a_single_run_and_set_need_no_list(runs, sets, tmp_path):
    given = {"similarity": str(sets / "alike.txt"), "analogy": sets / "ratios.txt", "words": "colour1"}
    found = wenmai.compare(str(runs[0]), out=tmp_path / "report", **given)
    assert [measure.name for measure in found.systems[0].measures] == ["alike", "ratios"]
    assert list(found.systems[0].neighbours) == ["colour1"]
    assert wenmai.evaluate(runs[0], similarity=given["similarity"]).similarity[0].name == "alike"
    (tmp_path / "test.txt").write_text("colour1 colour2\n")
    test = str(tmp_path / "test.txt")
    found = compare_systems(
        "ngram", str(tmp_path / "test.txt"), out=tmp_path / "all", settings={"min_count": 1}, on=test
    )
    assert [system.name for system in found.systems] == ["ngram"]


def test_runs_of_one_system_are_named_by_folder(runs, tmp_path, monkeypatch):
    copy = shutil.copytree(runs[0], tmp_path / "copy")
    found = wenmai.compare([runs[0], copy], out=tmp_path / "report")
    assert [system.name for system in found.systems] == ["word2vec-sgns", "copy"]
    with pytest.raises(RunError, match="copy: is named twice; expected each run once"):
        wenmai.compare([runs[0], copy, copy.parent / "." / "copy"], out=tmp_path / "report")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="copy: is named twice; expected each run once"):
        wenmai.compare(["copy", copy], out=tmp_path / "report")


@pytest.mark.parametrize("stages", [3, {"first": [1], "second": [1, 2]}])
def test_a_run_whose_facts_were_edited_is_named(runs, tmp_path, stages):
    summary = shutil.copytree(runs[0], tmp_path / "copy") / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"stages": stages}))
    with pytest.raises(RunError, match=r"copy: summary.json, corpus.json, metrics.jsonl: one of them is damaged"):
        wenmai.compare([summary.parent], out=tmp_path / "report")


def test_what_cannot_be_compared(runs, tmp_path):
    with pytest.raises(RunError, match="nothing to compare"):
        wenmai.compare([], out=tmp_path)
    with pytest.raises(RunError, match="no such run folder"):
        wenmai.compare([runs[0], tmp_path / "nowhere"], out=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file: .*file is a file; name a folder"):
        wenmai.compare(runs, out=tmp_path / "file")
    with pytest.raises((VocabError, SettingError), match="no run has a vector for 'colour'"):
        wenmai.compare(runs, out=tmp_path, words=["colour"])


def test_a_missing_set_is_told_before_any_is_measured(runs, sets, tmp_path):
    class Following(Callback):
        measured = ()

        def evaluating(self, what, done, total):
            self.measured += (what,)

    following = Following()
    with pytest.raises(WenmaiError, match=r"nowhere.txt: no such file"):
        wenmai.compare(
            runs, out=tmp_path / "report", similarity=[sets / "alike.txt", "nowhere.txt"], callback=following
        )
    assert not following.measured
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"similarity": ["data:simlex999"]}, "did you mean 'data:simlex-999'"),
        ({"analogy": ["nowhere.txt"]}, "nowhere.txt: no such file"),
        ({"restrict_vocab": 10, "probe": ["sst2"]}, "--restrict-vocab has no effect without --analogy"),
        ({"probe": ["sst3"]}, "sst2"),
        ({"probe": ["mrpc"]}, "is of sentence pairs"),
        ({"on": ["text.txt"]}, "--on: not for word vectors"),
        ({"systems": ["ngram"], "on": ["nowhere.txt"]}, "nowhere.txt"),
        ({"systems": ["ngram"], "on": ["data:sst2/evening"]}, "evening"),
        ({"systems": ["ngram"]}, "--on FILE"),
        ({"systems": ["ngram"], "probe": ["sst2"]}, "--probe: not for language models, which take --on"),
        (
            {"systems": ["ngram", "word2vec"], "on": ["text.txt"]},
            "share no verb that can be measured (ngram: score",
        ),
    ],
)
def test_what_cannot_be_measured_is_told_before_the_first_training(topics, tmp_path, wrong, message):
    with pytest.raises(WenmaiError, match=re.escape(message)):
        compare_systems(**{"systems": ["word2vec-sgns"], "corpus": [topics], "out": tmp_path / "all"} | wrong)
    assert not (tmp_path / "all").exists()


def test_texts_may_be_named_in_every_way_that_they_can_be_read(topics, tmp_path):
    (tmp_path / "test-1.txt").write_text("the cat\n")
    compare_systems(["ngram"], [topics], out=tmp_path / "all", on=[str(tmp_path / "test-*.txt")])
    assert (tmp_path / "all" / "report.html").exists()


def test_vectors_from_elsewhere_are_not_said_to_be_of_the_same_text(runs, tmp_path):
    export_run(runs[0], "word2vec", tmp_path / "vectors.txt")
    import_run("word2vec", tmp_path / "vectors.txt", tmp_path / "imported")
    found = compare([runs[0], tmp_path / "imported"], out=tmp_path / "report")
    assert found.corpus.name == "different or unknown corpora"
