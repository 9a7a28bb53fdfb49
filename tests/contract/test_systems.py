"""One contract for every system, through public doors: what users do with a training and with what comes out of it."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import wenmai
from tests.contract.examples import ANSWERS, TEXTS, named_like, without_example
from wenmai.config.recipe import settings_of
from wenmai.core.clock import CLOCK
from wenmai.core.errors import RunError, SettingError, WenmaiError
from wenmai.core.registry import find_system
from wenmai.formats.format import formats
from wenmai.runs.formats import export_run
from wenmai.runs.train import Callback, train_recipe
from wenmai.training.progress import Progress
from wenmai.training.run import verify

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = {"run", "system", "loss", "objective", "seconds", "size_bytes", "peak_memory_bytes"}
PASSING = re.compile("seconds|per_second|memory|^run$")  # figures that differ from run to run


class Stopping(Callback):
    """Sends this process a signal at one of the records."""

    def __init__(self, records):
        self.left = records

    def record(self, record):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def files(run):
    """The files of a model."""
    model = run.path / "model"
    return {path.relative_to(model): path.read_bytes() for path in sorted(model.rglob("*")) if path.is_file()}


def answers(run):
    model = wenmai.load(run.path)
    return {verb: ANSWERS[verb](model) for verb in run.task.verbs if verb != "export"}


def lasting(figures):
    """Figures without those of time and memory; sums that are made in portions differ in their last digits."""
    kept = {name: value for name, value in figures.items() if not PASSING.search(name)}
    return json.loads(json.dumps(kept), parse_float=lambda digits: f"{float(digits):.9g}")


def assert_same(run, whole):
    """Two runs are of one training, however it was interrupted; steps of a sweep are recorded by the clock."""
    assert files(run) == files(whole)
    assert lasting(run.summary) == lasting(whole.summary)
    one, other = ([record for record in of.records if record["kind"] != "step"] for of in (run, whole))
    assert [*map(lasting, one)] == [*map(lasting, other)]
    positions = [record["position"] for record in run.records if record["kind"] == "step"]
    assert positions == sorted(positions)
    assert run.records[-1]["position"] == whole.records[-1]["position"]
    assert {path.name for path in run.path.iterdir()} == {path.name for path in whole.path.iterdir()}


def assert_refused(error, folder):
    """One line says what is wrong, and nothing is left behind."""
    assert str(error).strip()
    assert "\n" not in str(error)
    assert not folder.exists()


def random_states():
    """The states of the generators that a process shares; the linter keeps all code from numpy's."""
    torch = sys.modules.get("torch")
    return random.getstate(), None if torch is None else torch.get_rng_state().tolist()


def trained_or_refused(train, folder):
    """The run in a folder; None if the training was refused as it should be."""
    try:
        return train()
    except WenmaiError as error:
        assert_refused(error, folder)
        return None


# --- every system is there ------------------------------------------------------------------------------------------


def test_every_system_has_an_example(examples, pytestconfig):
    if pytestconfig.getoption("examples") is None:
        assert without_example(examples) == []
    assert [name for name in examples if len({*named_like(name)} & {*examples}) > 1] == []


def test_a_system_without_an_example_is_noticed(examples):
    name, *others = examples
    assert {*named_like(name)} <= {*without_example({other: examples[other] for other in others})}


def test_it_is_listed_with_its_settings(system, shell):
    rows = json.loads(shell("systems", "--json").out)
    assert {"name": system, "summary": find_system(system).summary} in rows
    listed = json.loads(shell("systems", system, "--json").out)
    known = {(one.section, one.name) for one in settings_of(find_system(system).load().sections)}
    assert {(row["section"], row["name"]) for row in listed} == known - {("model", "kind")}
    assert all(row["meaning"] for row in listed)


def test_a_page_names_it(system):
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"`{system}`" in page.read_text() for page in pages)


def test_its_settings_are_explained_in_one_line_each(system):
    for setting in settings_of(find_system(system).load().sections):
        assert setting.meaning, setting.name
        assert "\n" not in setting.meaning, setting.name


# --- one training ---------------------------------------------------------------------------------------------------


def test_its_recipe_repeats_the_run_to_the_bit(system, train, tmp_path):
    whole = train(system)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(7)  # a state that no training has left
    before = random_states()
    again = train_recipe(whole.path / "recipe.yaml", out=tmp_path / "again")
    assert again.recipe == whole.recipe
    assert_same(again, whole)
    assert random_states() == before


class Ending(Progress):
    """Says what a training is of, and ends it at its first record."""

    def record(self, record):
        raise KeyboardInterrupt


def test_what_it_trains_on_is_said_in_chinese(system, train, tmp_path, capsys, monkeypatch):
    if not type(find_system(system).load()).__module__.startswith("wenmai."):
        pytest.skip("other packages speak as they like")
    recipe = train(system).path / "recipe.yaml"
    capsys.readouterr()
    monkeypatch.setenv("WENMAI_LANG", "zh")
    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, out=tmp_path / "run", callback=Ending())
    (said,) = re.findall(f"^{system}：(.*) -> ", capsys.readouterr().err, re.MULTILINE)
    english = set(re.findall("[a-z]+", re.sub(r"（.*?）", "", said)))  # in brackets are names
    assert english <= {"cpu", "n"}, said


def test_its_summary_says_how_it_ended(system, train):
    summary = train(system).summary
    assert summary.keys() >= SUMMARY
    assert (summary["run"], summary["system"]) == (str(train(system).path), system)
    assert summary["size_bytes"] == train(system).model_bytes > 0
    assert summary["seconds"] > 0


def test_a_training_interrupted_twice_ends_as_if_nothing_had_happened(system, train, tmp_path):
    whole, out = train(system), tmp_path / "run"
    third = max(1, len(whole.records) // 3)
    with pytest.raises(KeyboardInterrupt) as caught:
        train(system, out=out, callback=Stopping(third))
    assert caught.value.__notes__ == [f"`wenmai resume {out}` continues it"]
    with pytest.raises(RunError, match="has not finished"):
        wenmai.load(out)
    try:
        wenmai.resume(out, callback=Stopping(third))
    except KeyboardInterrupt:
        assert not wenmai.Run(out).finished
    assert_same(wenmai.resume(out), whole)


KILLED = """
import json, os, signal, sys
import wenmai
from wenmai.runs.train import Callback

for module, given, records in json.loads(sys.argv[1]):
    __import__(module)  # here once for all the children
    child = os.fork()
    if child == 0:
        class Killed(Callback):
            left = records
            def record(self, record):
                assert "torch._dynamo" not in sys.modules, "a second or two before every training"
                self.left -= 1
                if self.left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        wenmai.train(**given, callback=Killed())
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, given
"""


def test_a_training_of_each_kind_of_data_survives_kill_9(examples, train, texts, tmp_path):
    kinds = {type(find_system(name).load().source): name for name in reversed(examples)}
    trainings = []
    for name in kinds.values():
        example = examples[name]
        given = {"system": name, "corpus": str(texts / example.data), "out": str(tmp_path / name)}
        given |= {**example.settings, "start": example.start and str(train(example.start).path)}
        records = max(1, len(train(name).records) // 2)
        trainings.append((type(find_system(name).load()).__module__, given, records))
    package = os.pathsep.join([str(Path(wenmai.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, json.dumps(trainings)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    for name in kinds.values():
        assert_same(wenmai.resume(tmp_path / name), train(name))


class Compiling(Callback):
    """Compiles for an hour at each record, by a clock of its own."""

    hours = 0

    def record(self, record):
        CLOCK.stop()
        self.hours += 1
        CLOCK.go_on()

    def time(self):
        return time.monotonic() + 3600 * self.hours


def test_compiling_is_on_no_clock(examples, train, tmp_path, monkeypatch):
    for name in {type(find_system(name).load()): name for name in reversed(examples)}.values():
        callback = Compiling()
        monkeypatch.setattr(CLOCK, "_time", callback.time)
        run = train(name, out=tmp_path / name, callback=callback)
        assert callback.hours
        assert run.summary["seconds"] < 600, name
        for record in run.records:
            assert record["seconds"] < 600, name
            assert record.get("seconds_left", 0) < 600, name


# --- what comes out -------------------------------------------------------------------------------------------------


def test_a_run_and_its_model_show_themselves(system, train):
    run = train(system)
    assert repr(run).startswith(f"Run(path={str(run.path)!r}, system={system!r}, finished=True")
    ours = type(run.model).__module__.startswith("wenmai.")  # models of other packages show themselves as they like
    for shown in (run, run.model) if ours else (run,):
        assert " at 0x" not in repr(shown)
        assert type(shown).__name__ in shown._repr_html_()


def test_a_run_that_is_moved_is_sound_and_says_the_same(system, train, tmp_path):
    run = train(system)
    said = answers(run)
    assert said
    shutil.copytree(run.path, tmp_path / "moved")
    moved = wenmai.Run(tmp_path / "moved")
    assert verify(moved.path)[1] == []
    assert repr(answers(moved)) == repr(said)
    assert repr(answers(run)) == repr(said)


def test_damage_is_noticed(system, train, tmp_path):
    shutil.copytree(train(system).path, tmp_path / "run")
    run = wenmai.Run(tmp_path / "run")
    for name, content in files(run).items():
        for damaged in (content[: len(content) // 2], b""):
            (run.path / "model" / name).write_bytes(damaged)
            assert verify(run.path)[1], name
            if name.name != "manifest.json":
                with pytest.raises(WenmaiError) as error:
                    answers(run)
                assert "\n" not in str(error.value)
        (run.path / "model" / name).write_bytes(content)
    assert verify(run.path)[1] == []


def test_it_is_exported_in_every_format_or_the_refusal_says_in_which(system, train, tmp_path):
    run, written, refusals = train(system), set(), {}
    for name in [one.name for one in formats().values() if one.write]:
        try:
            export_run(run, name, tmp_path / name)
            written.add(name)
        except WenmaiError as error:
            refusals[name] = str(error)
            assert not (tmp_path / name).exists()
        else:
            assert (tmp_path / name).exists()
    for name, refusal in refusals.items():
        assert "\n" not in refusal
        if name not in offered(refusals):
            instead = "it can as" if offered(refusals) else "no format takes such a model yet"
            assert f"a run of {system}, which cannot be exported as {name}; {instead}" in refusal
    assert written <= offered(refusals)


def offered(refusals):
    """The formats that refusals name instead."""
    found = [re.search(r"it can as (.*)$", refusal) for refusal in refusals.values()]
    return {name for one in found if one for name in one[1].split(", ")}


def test_it_is_continued_or_the_refusal_says_so(system, examples, train, tmp_path):
    run, out = train(system), tmp_path / "more"
    inherited = {name.partition(".")[2] for name in run.recipe.flat_settings() if name.startswith(run.task.inherited)}
    given = {name: value for name, value in examples[system].settings.items() if name not in inherited}
    again = partial(wenmai.train, system, run.recipe.corpus[0], out=out, start=run.path, **given)
    more = trained_or_refused(again, out)
    if more is None:
        with pytest.raises(SettingError, match="cannot be continued"):
            again()
        return
    assert more.recipe.start == str(run.path)
    assert answers(more).keys() == answers(run).keys()
    assert files(more) != files(run)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_wrong_settings_are_refused(system, examples, train, tmp_path):
    assert examples[system].wrong
    for settings, message in examples[system].wrong:
        with pytest.raises(SettingError, match=message) as error:
            train(system, out=tmp_path / "run", **settings)
        assert_refused(error.value, tmp_path / "run")


def test_a_setting_that_it_does_not_have_is_refused(system, train, tmp_path):
    with pytest.raises(SettingError, match=f"{system} has no setting 'nothing_like_it'") as error:
        train(system, out=tmp_path / "run", nothing_like_it=1)
    assert_refused(error.value, tmp_path / "run")


def test_hardly_any_data_is_enough_or_refused(system, examples, train, tmp_path):
    file = examples[system].data
    for number, (name, content) in enumerate(TEXTS[file].items()):
        corpus, out = tmp_path / f"{number}-{file}", tmp_path / f"run-{number}"
        corpus.write_text(content)
        run = trained_or_refused(partial(train, system, corpus=corpus, out=out), out)
        assert content.strip() if run else name != "enough", name
        assert run is None or answers(run), name
