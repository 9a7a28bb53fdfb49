"""The verbs of the shell as a newcomer and a script use them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wenmai
from wenmai.core import registry

VERBS = [
    *(
        ["help"],
        ["systems"],
        ["train"],
        ["resume"],
        ["evaluate"],
        ["compare"],
        ["nearest"],
        ["analogy"],
        ["similarity"],
        ["embed"],
        ["formats"],
        ["export"],
    ),
    *(["import"], ["verify"], ["data"], ["data", "list"], ["data", "get"], ["data", "check"]),
]


@pytest.fixture(scope="module")
def run(topics, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = {"vector_size": 16, "epochs": 3, "threads": 1, "sample": 0}
        return wenmai.train("word2vec", topics, out=tmp_path_factory.mktemp("run") / "run", **settings).path


# --- help and lists ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_shows_an_example_that_could_be_typed(verb, shell):
    out = shell(*verb, "--help").out
    text = " ".join(out.split())
    example = re.search(r"Example: (wenmai .*?)(?= Example| Arguments| Options)", text)
    assert example is not None
    words = example.group(1).split()[1:]
    assert words[: len(verb)] == verb
    for option in (word for word in words if word.startswith("--")):
        assert option in text.replace(example.group(0), "")
    assert shell(*verb, "-h").out == out


def test_the_first_help_leads_to_a_first_training(shell):
    text = " ".join(shell("--help").out.split())
    assert "wenmai train word2vec builtin:pydocs --out runs/first" in text
    for verb in {verb[0] for verb in VERBS}:
        assert f" {verb} " in text
    assert "..." not in text.replace("[ARGS]...", "")  # no summary is cut short


def test_without_arguments_there_is_help_and_a_version(shell):
    assert shell("--version").out == f"{wenmai.__version__}\n"
    finished = shell(code=2)
    assert "Usage: wenmai" in finished.out + finished.err


def test_systems_and_their_settings_are_listed(shell):
    out = shell("systems").out
    assert [line.split()[0] for line in out.splitlines()][:2] == ["word2vec", "word2vec-sgns"]
    listed = json.loads(shell("systems", "word2vec-cbow-hs", "--json").out)
    found = {setting["name"]: setting for setting in listed}
    assert (found["algorithm"]["default"], found["algorithm"]["choices"]) == ("cbow", ["skipgram", "cbow"])
    assert (found["negative"]["default"], found["hierarchical"]["default"]) == (0, True)
    assert all(setting["meaning"] for setting in listed)
    assert {row["name"] for row in json.loads(shell("systems", "--json").out)} > {"word2vec", "word2vec-sghs"}
    assert "train.learning_rate       none" in shell("systems", "word2vec").out


# --- the main way -----------------------------------------------------------------------------------------------


def test_a_script_gets_one_line_of_json_and_progress_goes_elsewhere(topics, shell, tmp_path):
    arguments = ["--set", "vector_size=16", "--set", "epochs=2", "--set", "threads=1"]
    finished = shell("train", "word2vec", topics, "--out", "runs/first", *arguments, "--json")
    assert finished.out.count("\n") == 1
    found = json.loads(finished.out)
    assert found == json.loads((tmp_path / "runs" / "first" / "summary.json").read_text())
    assert found["run"] == "runs/first"
    for name in ("words_per_second", "loss", "seconds", "peak_memory_bytes"):
        assert found[name] > 0
    assert "30,000 tokens, 80 types, vocabulary 80; 2 epochs, 1 thread -> runs/first" in finished.err
    assert "epoch 2 done: mean loss" in finished.err
    assert "\r" not in finished.err  # no live line where there is no terminal

    again = shell("train", "runs/first/recipe.yaml", "--out", "runs/again", "--set", "threads=1", "--quiet")
    assert again.err == ""
    assert re.fullmatch(r"runs/again: loss \d\.\d{4}, (\d+\.\d\d M|\d+,\d{3}) words/s, \d+\.\d s\n", again.out)
    first, second = (tmp_path / "runs" / name / "model" / "model.safetensors" for name in ("first", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_standard_input_is_a_corpus(topics, shell, tmp_path):
    finished = shell("train", "word2vec", "-", "--out", "run", "--set", "epochs=1", stdin=topics.read_text())
    assert finished.out.startswith("run: loss")
    assert wenmai.Run(tmp_path / "run").corpus["stats"]["tokens"] == 30_000
    finished = shell("train", "word2vec", "-", "--out", "other", code=3, stdin="")
    assert "is empty" in finished.err
    assert not (tmp_path / "other").exists()


def test_nearest_and_analogy(run, shell):
    lines = shell("nearest", run, "colour3", "--topn", "5").out.splitlines()
    assert len(lines) == 5
    for line in lines:
        score, word = line.split()
        assert word.startswith("colour")
        assert -1 <= float(score) <= 1
    expected = wenmai.load(run).most_similar(["colour3", "colour4"], topn=10)
    found = json.loads(shell("nearest", run, "colour3", "colour4", "--json").out)
    assert found["words"] == ["colour3", "colour4"]
    assert [(one["word"], one["score"]) for one in found["nearest"]] == expected
    answers = json.loads(shell("analogy", run, "colour1", "colour2", "number1", "--topn", "7", "--json").out)["answers"]
    assert len(answers) == 7
    others = json.loads(shell("analogy", run, "colour1", "colour2", "number1", "--multiply", "--json").out)["answers"]
    assert len(others) == 5
    assert not {"colour1", "colour2", "number1"} & {one["word"] for one in answers + others}


def test_export_and_import(run, shell, tmp_path):
    assert shell("export", run, "word2vec-binary", "vectors.bin").out == "vectors.bin\n"
    exported = shell("export", run, "projector", tmp_path / "tables", "--json")
    assert json.loads(exported.out) == {"path": str(tmp_path / "tables"), "format": "projector"}
    found = json.loads(shell("import", "word2vec", "vectors.bin", "--out", "imported", "--json").out)
    assert found["vocabulary"] == 80
    assert shell("nearest", "imported", "colour3") == shell("nearest", run, "colour3")
    finished = shell("resume", "imported")
    assert finished.out == f"imported: imported from {tmp_path}/vectors.bin\n"
    assert "finished already" in finished.err


# --- mistakes ---------------------------------------------------------------------------------------------------

MISTAKES = [
    (2, ["trian"], "Did you mean 'train'"),
    (2, ["train"], "Missing argument 'SYSTEM'"),
    (2, ["train", "word2vec"], "wenmai train word2vec corpus.txt"),
    (2, ["train", "word2vek", "TEXT"], "did you mean 'word2vec'"),
    (2, ["train", "word2vec", "TEXT", "--set", "epohcs=3"], "did you mean 'epochs'? (`wenmai systems word2vec` lists"),
    (
        2,
        ["train", "word2vec", "TEXT", "--set", "model.epochs=3"],
        "no setting 'model.epochs'; did you mean 'epochs'",
    ),
    *(
        (2, ["train", "word2vec", "TEXT", "--set", f"{name}=x"], f"word2vec has no setting '{name}'")
        for name in ("system", "corpus", "out", "start", "quiet", "callback")  # arguments of the function
    ),
    (2, ["train", "word2vec", "TEXT", "--set", "epochs=many"], "epochs='many': expected"),
    (2, ["train", "word2vec", "TEXT", "--set", "epochs=0"], "epochs='0': expected"),
    (2, ["train", "word2vec", "TEXT", "--set", "epochs"], "expected name=value, for example --set epochs=3"),
    (2, ["train", "word2vec", "TEXT", "--set", "epochs=1", "--set", "epochs=2"], "was given twice"),
    (2, ["train", "word2vec", "TEXT", "--sets", "epochs=1"], "no such option: --sets; did you mean '--set'?"),
    (2, ["train", "nowhere.yaml"], "nowhere.yaml: cannot be read (No such file or directory)"),
    (2, ["train", "RUN/recipe.yaml", "TEXT"], "a recipe names its own corpus"),
    (2, ["train", "RUN/recipe.yaml", "--from", "RUN"], "a recipe names its own corpus"),
    (3, ["train", "word2vec", "nowhere.txt"], "nowhere.txt: no such file or folder"),
    (3, ["train", "word2vec", "https://example.org/x.txt"], "(a web address: download it first)"),
    (3, ["train", "--from", "RUN", "nowhere.txt"], "nowhere.txt: no such file or folder"),
    (2, ["train", "word2vec", "builtin:pydoc"], "did you mean 'builtin:pydocs'"),
    (4, ["train", "word2vec", "TEXT", "--set", "min_count=9999999"], "Use more text, or min_count="),
    (6, ["train", "word2vec", "TEXT", "--out", "RUN"], "run: exists already; choose another --out\n"),
    (2, ["systems", "word2ve"], "did you mean 'word2vec'"),
    (6, ["resume", "nowhere"], "nowhere: no such run folder"),
    (6, ["nearest", "TEXT", "colour1"], "is a file, not a run folder"),
    (4, ["nearest", "RUN", "colours1"], "no vector for 'colours1'; did you mean 'colour1'?"),
    (4, ["nearest", "RUN", "Colour1"], "no vector for 'Colour1'; did you mean 'colour1'?"),
    (4, ["nearest", "RUN", "colour1 number2"], "it is taken as one word; give 'colour1', 'number2' separately"),
    (4, ["analogy", "RUN", "colour1", "colour2", "numbre1"], "did you mean 'number1'?"),
    (2, ["analogy", "RUN", "colour1", "colour2"], "Missing argument 'C'"),
    (2, ["nearest", "RUN", "colour1", "--topn", "0"], "greater than or equal to 1"),
    (2, ["export", "RUN", "word2vec-bin", "x"], "did you mean 'word2vec-binary'? (formats: arpa,"),
    (2, ["import", "word2wec", "x", "--out", "y"], "did you mean 'word2vec'?"),
    (5, ["import", "word2vec", "TEXT", "--out", "y"], "topics.txt"),
    (5, ["import", "word2vec", "nowhere", "--out", "y"], "nowhere: no such file"),
    (5, ["import", "word2vec", "CUT", "--out", "y"], "it is truncated or damaged"),
    (2, ["evaluate", "RUN"], "name at least one test set"),
    (5, ["evaluate", "RUN", "--analogy", "TEXT"], "topics.txt, line 1: expected ': section'"),
    (2, ["evaluate", "RUN", "--similarity", "data:ws353"], "did you mean 'data:ws353-"),
    (2, ["compare", "RUN", "--set", "epochs=3"], "settings go with --systems"),
    (2, ["compare", "--systems", "word2vec-sgn", "TEXT"], "did you mean 'word2vec-sgns'"),
    (2, ["compare", "--systems", "word2vec-sgns", "-"], "give it files, not stdin"),
    (3, ["compare", "--systems", "word2vec-sgns", "nowhere.txt"], "nowhere.txt: no such file"),
    (6, ["compare", "RUN", "RUN", "--out", "OUT"], "named twice"),
    (6, ["verify", "nowhere"], "no such run folder"),
    (2, ["data", "get", "text9"], "did you mean 'text8'"),
    (8, ["data", "check", "text8"], "not good: text8"),
]


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "vectors.txt"
    path.write_text("3 2\na 1 2\n")
    return path


@pytest.mark.parametrize(("code", "arguments", "message"), MISTAKES, ids=[" ".join(case[1]) for case in MISTAKES])
def test_a_mistake_is_one_clear_message_and_an_exit_code(code, arguments, message, run, topics, cut, shell, tmp_path):
    places = {"RUN": str(run), "TEXT": str(topics), "CUT": str(cut), "OUT": str(tmp_path / "out")}
    arguments = [re.sub("RUN|TEXT|CUT|OUT", lambda found: places[found.group()], argument) for argument in arguments]
    finished = shell(*arguments, code=code)
    assert message in finished.err
    assert finished.out == "" or arguments[0] == "data"
    last = finished.err.splitlines()[-1]
    assert last.startswith(("wenmai: ", "Error: "))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_mistakes_in_real_processes(run, shell):
    finished = shell.process("nearest", run, "colours1", code=4)
    assert (finished.out, finished.err) == ("", "wenmai: no vector for 'colours1'; did you mean 'colour1'?\n")
    finished = shell.process("train", "word2vec", "nowhere.txt", code=3)
    assert finished.err.count("\n") == 1


# --- pipes ------------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_crash(run, shell):
    process = shell.start("nearest", run, "colour1", "--topn", "1000000")
    process.stdout.close()
    process.stdout = None
    finished = shell.end(process)
    assert finished.err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_result_that_cannot_be_written_is_an_error(run, shell):
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "wenmai", "systems"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=shell.environment,
        )
    assert finished.returncode not in (0, None)
    assert "wenmai: No space left on device" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [(0, ["embed", "RUN"], 0), (1, ["nearest", "RUN", "colour1"], 0), (2, ["nearest", "nowhere", "colour1"], 6)],
)
def test_a_closed_stream_is_no_crash(closed, arguments, code, run, shell):
    finished = subprocess.run(
        [sys.executable, "-m", "wenmai", *(str(run) if one == "RUN" else one for one in arguments)],
        capture_output=True,
        text=True,
        env=shell.environment,
        preexec_fn=lambda: os.close(closed),
    )
    assert (finished.returncode, finished.stdout) == (code, "")
    assert "Traceback" not in finished.stderr


def test_words_of_any_script_are_printed_whatever_the_locale(shell, tmp_path):
    (tmp_path / "text.txt").write_text("文脉 语料 向量 词\n" * 50, encoding="utf-8")
    plain = {"PYTHONUTF8": "", "PYTHONIOENCODING": "", "LC_ALL": "C"}
    arguments = ["--set", "vector_size=4", "--set", "epochs=1", "--set", "sample=0"]
    shell.process("train", "word2vec", "text.txt", "--out", "run", *arguments, environment=plain)
    finished = shell.process("nearest", "run", "文脉", "--topn", "3", environment=plain)
    assert {line.split()[1] for line in finished.out.splitlines()} == {"语料", "向量", "词"}
    ascii_only = {"PYTHONIOENCODING": "ascii"}  # as an old console, or a Windows pipe
    finished = shell.process("nearest", "run", "文脉", "--topn", "3", "--json", environment=ascii_only)
    assert r'"word": "\u8bcd"' in finished.out
    shell.process("--help", environment=ascii_only)


def test_the_installed_command_is_the_same(shell):
    command = Path(sys.executable).with_name("wenmai")
    if not command.exists():
        command = [sys.executable, "-c", "import sys; from wenmai.cli.main import main; sys.exit(main())"]
    else:
        command = [str(command)]
    finished = subprocess.run([*command, "--version"], capture_output=True, text=True, env=shell.environment)
    assert (finished.stdout, finished.returncode) == (f"{wenmai.__version__}\n", 0)


def test_names_that_begin_with_a_dash(topics, shell, tmp_path):
    (tmp_path / "-text.txt").write_text(topics.read_text())
    small = ["--set=vector_size=8", "--set=epochs=1", "--set=threads=1", "--quiet"]
    shell("train", "word2vec", "./-text.txt", "--out", "./-run", *small)
    assert shell("verify", "./-run").out.splitlines() == ["recipe: word2vec", "model: good"]
    assert shell("nearest", "./-run", "colour1").out
    (tmp_path / "-run" / "model").rename(tmp_path / "model")
    refused = shell("nearest", "./-run", "colour1", code=6).err
    assert "`wenmai resume ./-run` continues it" in refused
    shell("resume", "./-run", "--quiet")
    assert "No such option" in shell("resume", "-run", code=2).err


def test_every_verb_says_that_it_was_stopped(shell, monkeypatch):
    def interrupted():
        error = KeyboardInterrupt()
        error.add_note("`wenmai resume run` continues it")
        raise error

    monkeypatch.setattr(registry, "systems", interrupted)
    assert shell("systems", code=130).err == "wenmai: stopped; `wenmai resume run` continues it\n"
