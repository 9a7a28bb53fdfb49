"""Training from Python: what comes out, that it comes out the same again, and what happens to bad input."""

import bz2
import gzip
import hashlib
import json
import lzma
import math
import re

import pytest
import zstandard

import wenmai
from wenmai.core.errors import CorpusError, RunError, SettingError, TrainingError, VocabError
from wenmai.data import pydocs
from wenmai.runs.planning import plan
from wenmai.runs.train import Callback, train_recipe

SMALL = {"vector_size": 16, "epochs": 1, "threads": 1}


def model_sha256(run):
    return hashlib.sha256((run.path / "model" / "model.safetensors").read_bytes()).hexdigest()


class Listener(Callback):
    """Keeps what a training says."""

    def __init__(self):
        self.read, self.facts, self.records, self.notes = [], [], [], []

    def encoding_corpus(self, done_bytes, total_bytes):
        self.read.append((done_bytes, total_bytes))

    def begin(self, run, facts):
        self.facts.append(facts)

    def record(self, record):
        self.records.append(record)

    def note(self, message):
        self.notes.append(message)


# --- what comes out ---------------------------------------------------------------------------------------------


def test_a_run_is_a_folder_that_says_everything_about_itself(topics, tmp_path):
    run = wenmai.train("word2vec", topics, out=tmp_path / "run", vector_size=16, epochs=2, threads=1, seed=5)
    assert sorted(path.name for path in run.path.iterdir()) == [
        ".lock",
        "corpus.json",
        "environment.json",
        "manifest.json",
        "metrics.jsonl",
        "model",
        "recipe.yaml",
        "summary.json",
    ]
    assert sorted(path.name for path in (run.path / "model").iterdir()) == [
        "config.json",
        "manifest.json",
        "model.safetensors",
        "vocab.json",
    ]
    summary = run.summary
    assert (summary["run"], summary["vocabulary"], summary["words"]) == (str(run.path), 80, 60_000)
    assert summary["words_per_second"] > 0
    assert summary["seconds"] > 0
    assert summary["peak_memory_bytes"] > 10e6
    sizes = {path.name: path.stat().st_size for path in (run.path / "model").iterdir()}
    assert summary["size_bytes"] == run.model_bytes == sum(sizes.values()) - sizes["manifest.json"]
    assert 0 < summary["loss"] < 6 * math.log(2)  # of six predictions that know nothing
    source = run.corpus["sources"][0]
    assert source["sha256"] == hashlib.sha256(topics.read_bytes()).hexdigest()
    assert (run.corpus["stats"]["tokens"], run.corpus["stats"]["lines"]) == (30_000, 3_000)
    assert run.environment["wenmai"] == wenmai.__version__
    assert run.recipe.flat_settings()["train.seed"] == 5
    assert len(run.recipe.flat_settings()) > 20  # the defaults are written out


def test_words_of_a_topic_are_near_each_other(topics, tmp_path):
    run = wenmai.train("word2vec", topics, out=tmp_path / "run", vector_size=16, epochs=5, threads=1, sample=0)
    vectors = wenmai.load(run.path)
    assert len(vectors) == 80
    for word in ("colour3", "number3"):
        near = [found for found, _ in vectors.most_similar(word, topn=20)]
        assert all(found.startswith(word[:-1]) for found in near), near


def test_the_loss_falls_and_the_records_are_in_order(topics, tmp_path):
    listener = Listener()
    run = wenmai.train("word2vec", topics, out=tmp_path / "run", callback=listener, vector_size=16, epochs=3, threads=1)
    records = run.records
    assert [record["position"] for record in records] == sorted(record["position"] for record in records)
    epochs = [record for record in records if record["kind"] == "epoch"]
    assert [record["epoch"] for record in epochs] == [1, 2, 3]
    assert epochs[0]["loss"] > epochs[1]["loss"] > epochs[2]["loss"] == run.summary["loss"]
    assert epochs[-1]["words"] == 3 * 30_000
    steps = [record for record in records if record["kind"] == "step"]
    assert steps[-1]["progress"] == 1
    rates = [record["learning_rate"] for record in steps]
    assert rates == sorted(rates, reverse=True)
    assert 0.024 < rates[0] < 0.025
    assert [record.position for record in listener.records] == [record["position"] for record in records]
    assert listener.facts[0]["tokens"] == 30_000
    assert listener.read[-1] == (topics.stat().st_size, topics.stat().st_size)


@pytest.mark.parametrize(
    "system", ["word2vec", "word2vec-sgns", "word2vec-sghs", "word2vec-cbow-ns", "word2vec-cbow-hs"]
)
def test_every_system_learns(system, topics, tmp_path):
    run = wenmai.train(system, topics, out=tmp_path / "run", vector_size=16, epochs=3, threads=2, sample=0)
    losses = [record["loss"] for record in run.records if record["kind"] == "epoch"]
    assert losses[-1] < losses[0]


# --- the same again ---------------------------------------------------------------------------------------------


def test_a_setting_overrules_a_recipe(topics, tmp_path):
    first = wenmai.train("word2vec", topics, out=tmp_path / "first", **SMALL)
    other = train_recipe(first.path / "recipe.yaml", out=tmp_path / "other", seed=2)
    assert other.recipe.flat_settings() == {**first.recipe.flat_settings(), "train.seed": 2}
    assert model_sha256(first) != model_sha256(other)


def test_processes_agree_whatever_the_hash_seed(topics, tmp_path, shell):
    here = wenmai.train("word2vec", topics, out=tmp_path / "here", **SMALL)
    arguments = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
    for seed in ("0", "4321"):
        shell.process("train", "word2vec", topics, "--out", seed, *arguments, environment={"PYTHONHASHSEED": seed})
        assert model_sha256(wenmai.Run(tmp_path / seed)) == model_sha256(here)


def test_threads_change_the_loss_little(topics, tmp_path):
    one = wenmai.train("word2vec", topics, out=tmp_path / "one", vector_size=16, epochs=3, threads=1)
    two = wenmai.train("word2vec", topics, out=tmp_path / "two", vector_size=16, epochs=3, threads=2)
    assert two.summary["loss"] == pytest.approx(one.summary["loss"], rel=0.02)
    assert one.summary["words"] == two.summary["words"]


@pytest.mark.parametrize("system", ["word2vec-sgns", "word2vec-cbow-hs"])
def test_deterministic_mode_gives_the_same_bytes_for_any_number_of_threads(system, topics, tmp_path):
    settings = {"vector_size": 16, "epochs": 1, "deterministic": True}
    runs = [wenmai.train(system, topics, out=tmp_path / str(n), threads=n, **settings) for n in (1, 2, 3)]
    assert len({model_sha256(run) for run in runs}) == 1
    assert len({run.summary["loss"] for run in runs}) == 1


# --- where text comes from --------------------------------------------------------------------------------------


def test_the_form_of_the_text_does_not_matter(topics, tmp_path):
    text = topics.read_text()
    lines = text.splitlines()
    zst = zstandard.ZstdCompressor().compress(text.encode())
    packed = {
        "plain.txt": text.encode(),
        "gz": gzip.compress(text.encode()),
        "bz2": bz2.compress(text.encode()),
        "xz": lzma.compress(text.encode()),
        "zst": zst,
    }
    forms = {
        "strings": lines,
        "generator of strings": (line for line in lines),
        "token lists": [line.split() for line in lines],
        "generator of token lists": (line.split() for line in lines),
        "two files": [tmp_path / "a half", tmp_path / "b half"],
        "a folder": str(tmp_path / "folder"),
        "a glob": str(tmp_path / "folder" / "*"),
    }
    (tmp_path / "folder").mkdir()
    for name, half in (("a half", lines[:1000]), ("b half", lines[1000:])):
        content = "".join(line + "\n" for line in half)
        (tmp_path / name).write_text(content)
        (tmp_path / "folder" / name).write_text(content)
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
        forms[name] = tmp_path / name
    found = {
        name: model_sha256(wenmai.train("word2vec", form, out=tmp_path / "runs" / name, **SMALL))
        for name, form in forms.items()
    }
    assert len(found) == 12
    assert len(set(found.values())) == 1, found


def test_the_catalogue_gives_text_and_the_settings_that_fit(monkeypatch):
    monkeypatch.setattr(pydocs, "lines", lambda: iter(["a line of text", "and another one"]))
    recipe, corpus = plan("word2vec", "builtin:pydocs")
    assert (recipe.sections["text"].segment, recipe.sections["text"].lowercase) == ("words", True)
    assert recipe.corpus == ("builtin:pydocs",)  # not a path, so that the recipe works elsewhere
    assert corpus.source.size_bytes == 31
    recipe, _ = plan("word2vec", ["builtin:pydocs"], lowercase=False)
    assert (recipe.sections["text"].segment, recipe.sections["text"].lowercase) == ("words", False)


def test_numerals_bring_their_validation_set_and_settings_that_fit_unless_others_are_named():
    pytest.importorskip("torch")
    recipe, _ = plan("transformer", "builtin:numerals")
    settings = recipe.flat_settings()
    for name, value in {
        "data.valid": "builtin:numerals-valid",
        "tokenizer.vocab_size": 150,
        "model.hidden_size": 128,
        "model.norm": "pre",
        "train.epochs": 9,
        "train.schedule": "cosine",
        "train.clip": 1.0,
    }.items():
        assert settings[name] == value
    recipe, _ = plan("transformer", "builtin:numerals", epochs=3, norm="post")
    assert (recipe.flat_settings()["train.epochs"], recipe.flat_settings()["model.norm"]) == (3, "post")
    recipe, _ = plan("seq2seq", "builtin:numerals")
    assert recipe.flat_settings()["tokenizer.vocab_size"] == 150
    recipe, _ = plan("transformer", [("a", "b")] * 60)
    assert recipe.flat_settings()["tokenizer.vocab_size"] != 150


# --- what goes wrong --------------------------------------------------------------------------------------------


def bad_folder(path):
    path.mkdir()
    (path / ".hidden").write_text("a b c")


BAD = {
    "missing": (None, CorpusError, "no such file or folder"),
    "empty": (lambda path: path.write_bytes(b""), CorpusError, "is empty; expected text"),
    "empty folder": (lambda path: path.mkdir(), CorpusError, "the folder has no files; expected text files"),
    "hidden only": (bad_folder, CorpusError, "no files but 1 hidden"),
    "blank": (lambda path: path.write_bytes(b" \n\n"), CorpusError, "no words in 2 lines"),
    "binary": (
        lambda path: path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(600)),
        CorpusError,
        "is a program, not text",
    ),
    "NUL": (lambda path: path.write_bytes(b"a b\nc \0 d\n"), CorpusError, "line 2, byte 6: a NUL"),
    "encoding": (
        lambda path: path.write_bytes("a\n中文 文字\n".encode("gb18030")),
        CorpusError,
        r"line 2, byte 2: 0xd6 is not utf-8.*encoding=gb18030",
    ),
    "endless word": (
        lambda path: path.write_bytes(b"x" * 2_500_000),
        CorpusError,
        "line 1, byte 0: a word of more than",
    ),
    "truncated": (
        lambda path: path.write_bytes(gzip.compress(b"a b\n" * 9999)[:-9]),
        CorpusError,
        "the gzip data is damaged",
    ),
    "rare words": (
        lambda path: path.write_bytes(b"a b b c\n"),
        VocabError,
        r"most frequent occurs 2 times.*min_count=2",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_text_is_an_error_that_leaves_nothing_behind(kind, tmp_path):
    make, error, message = BAD[kind]
    if make is not None:
        make(tmp_path / kind)
    with pytest.raises(error, match=message) as raised:
        wenmai.train("word2vec", tmp_path / kind, out=tmp_path / "run", **SMALL)
    assert kind in str(raised.value) or error is VocabError  # the file is named
    assert not (tmp_path / "run").exists()


def test_what_is_skipped_is_counted(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a b a b a b\n" * 50 + b"\xff\n" * 3 + b"a b a b\n")
    run = wenmai.train("word2vec", path, out=tmp_path / "run", bad_lines="skip", **SMALL)
    assert run.corpus["stats"]["skipped_lines"] == 3
    assert run.corpus["stats"]["lines"] == 54


def test_a_text_to_learn_nothing_from_is_trained_with_a_warning(tmp_path):
    listener = Listener()
    run = wenmai.train("word2vec", (["lonely"] for _ in range(100)), out=tmp_path / "run", callback=listener, **SMALL)
    assert run.summary["loss"] is None
    assert "nothing was learnt" in listener.notes[0]
    assert list(run.vectors.index_to_key) == ["lonely"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vectr_size": 5}, "no setting 'vectr_size'; did you mean 'vector_size'"),
        ({"vector_size": 0}, "vector_size=0: expected"),
        ({"algorithm": "cbw"}, "did you mean 'cbow'"),
        ({"negative": 0}, "nothing to learn from"),
        ({"softmax": True}, "negative=0"),
        ({"softmax": True, "negative": 0, "deterministic": True}, "no deterministic mode"),
        ({"encoding": "utf-99"}, "not a text encoding"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_made(settings, message, topics, tmp_path):
    with pytest.raises(SettingError, match=message):
        wenmai.train("word2vec", topics, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_settings_without_effect_on_token_lists_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"normalisation and segmentation have no effect"):
        wenmai.train("word2vec", [["a", "b"]] * 9, out=tmp_path / "run", lowercase=True)
    assert not (tmp_path / "run").exists()


def test_an_unknown_system_suggests_the_nearest(topics):
    with pytest.raises(SettingError, match="did you mean 'word2vec-sgns'"):
        wenmai.train("word2vec-sgn", topics)


def test_a_folder_that_holds_something_is_never_touched(topics, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    with pytest.raises(RunError, match=r"mine: exists already; choose another --out$"):
        wenmai.train("word2vec", topics, out=tmp_path / "mine", **SMALL)
    with pytest.raises(RunError, match="file: exists already"):
        wenmai.train("word2vec", topics, out=tmp_path / "mine" / "file", **SMALL)
    assert (tmp_path / "mine" / "file").read_text() == "kept"


def test_an_empty_folder_is_taken_and_left_where_it_is(topics, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(SettingError):
        wenmai.train("word2vec", topics, out=tmp_path / "run", softmax=True)
    with pytest.raises(VocabError):
        wenmai.train("word2vec", topics, out=tmp_path / "run", min_count=1_000_000)
    assert list((tmp_path / "run").iterdir()) == []
    assert wenmai.train("word2vec", topics, out=tmp_path / "run", **SMALL).finished


def test_a_place_that_cannot_be_written_is_found_before_the_text_is_read(topics, tmp_path):
    (tmp_path / "file").write_text("kept")
    listener = Listener()
    with pytest.raises(RunError, match=r"cannot be (written|read).*choose another --out"):
        wenmai.train("word2vec", topics, out=tmp_path / "file" / "run", callback=listener, **SMALL)
    assert listener.read == []


def test_a_run_of_text_from_memory_cannot_be_repeated_from_its_recipe(tmp_path):
    run = wenmai.train("word2vec", ["a b c d"] * 50, out=tmp_path / "run", **SMALL)
    assert run.recipe.corpus == ()
    with pytest.raises(SettingError, match="names no corpus"):
        train_recipe(run.path / "recipe.yaml", out=tmp_path / "again")


@pytest.mark.parametrize("name", ["system", "corpus", "start"])
def test_a_recipe_names_its_own_text(name, topics, tmp_path):
    (tmp_path / "recipe.yaml").write_text(f"version: 1\nsystem: word2vec\ncorpus: [{topics}]\n")
    with pytest.raises(SettingError, match=rf"recipe\.yaml: names its own {name}; leave {name} out"):
        train_recipe(tmp_path / "recipe.yaml", out=tmp_path / "run", **{name: str(topics)})


def test_a_training_that_diverges_says_so(topics, tmp_path):
    settings = {"algorithm": "cbow", "cbow_mean": False, "learning_rate": 1e30, "vector_size": 16, "threads": 1}
    with pytest.raises(TrainingError, match=r"no longer a number.*lower learning_rate"):
        wenmai.train("word2vec", topics, out=tmp_path / "run", **settings)


def test_runs_are_named_by_system_and_date(topics, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = wenmai.train("word2vec-sghs", topics, **SMALL)
    assert re.fullmatch(r"runs/word2vec-sghs-\d{8}-\d{6}", str(run.path))
    assert json.loads((tmp_path / run.path / "summary.json").read_text())["run"] == str(run.path)


def test_the_published_names_are_there():
    for name in wenmai.__all__:
        assert getattr(wenmai, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'tran'"):
        _ = wenmai.tran
