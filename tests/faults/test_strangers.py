"""A stranger's run folder full of traps: whatever is done with it, nothing outside is touched, and nothing hangs."""

import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import wenmai
from benchmarks.faults.victims import Ended, Victim
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.cli.main import main
from wenmai.core.folder import seal_files
from wenmai.runs.train import Callback
from wenmai.training.run import Run

SYSTEMS = (
    "word2vec",
    "fasttext-supervised",
    "ngram",
    "transformer",
    "gpt",
    "ernie",
    "ssan",
)  # with most verbs and all exports of folders
FORMS = (*SYSTEMS, "transformer-stopped")
EVERY_NTH = {"word2vec": 2}  # of the others every sixth trap is tried: they share the code that opens runs
VERBS = {  # what is done with a run that can do this
    "nearest": (
        ("nearest", "RUN", "a"),
        ("export", "RUN", "word2vec", "OUT"),
        ("evaluate", "RUN", "--similarity", "ON"),
    ),
    "score": (("score", "RUN", "ON"), ("next", "RUN", "a b"), ("evaluate", "RUN", "--on", "ON")),
    "generate": (("generate", "RUN", "a b", "--max-tokens", "3"), ("export", "RUN", "huggingface", "OUT")),
    "translate": (("translate", "RUN", "a b"), ("evaluate", "RUN", "--on", "ON")),
    "classify": (("classify", "RUN", "ON"), ("evaluate", "RUN", "--on", "ON"), ("export", "RUN", "fasttext", "OUT")),
    "embed": (("embed", "RUN", "a b"), ("export", "RUN", "huggingface", "OUT")),
    "fill": (("fill", "RUN", "a [MASK] b"), ("preview", "RUN")),
    "extract": (("extract", "RUN", "ON"), ("evaluate", "RUN", "--on", "ON")),
}
EVERY = (("compare", "RUN", "RUN", "--out", "OUT"), ("train", "SYSTEM", "DATA", "--from", "RUN", "--set", "epochs=1"))
_TOUCHING = ("os.", "shutil.", "glob.", "tempfile.")


class Stopped(Callback):
    """Ends a training with its second record."""

    left = 2

    def record(self, record):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished and an unfinished run of each system."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setenv("WENMAI_CACHE", str(folder / "cache"))
        for name, texts in TEXTS.items():
            (folder / name).write_text(texts["enough"])
        for system in SYSTEMS:
            example = EXAMPLES[system]
            given = {**example.settings} | ({} if system == "ngram" else {"checkpoint_seconds": 0, "epochs": 2})
            if example.start is not None:
                base = EXAMPLES[example.start]
                given["start"] = wenmai.train(example.start, folder / base.data, out=folder / "base", **base.settings)
            wenmai.train(system, folder / example.data, out=folder / system, **given)
            if f"{system}-stopped" not in FORMS:
                continue
            with pytest.raises(KeyboardInterrupt):
                wenmai.train(
                    system, folder / example.data, out=folder / f"{system}-stopped", callback=Stopped(), **given
                )
    return folder


@pytest.fixture
def outside(tmp_path):
    """What belongs to somebody else: a file, a folder, and a pipe that nobody writes to."""
    folder = Path(os.path.realpath(tmp_path)) / "outside"
    (folder / "step-7").mkdir(parents=True)
    (folder / "precious").write_text("precious")
    (folder / "step-7" / "precious").write_text("precious")
    os.mkfifo(folder / "pipe")
    return folder


def reseal(run):
    """Lets all checksums match, as a stranger would."""
    for folder in (run / "model", *(run / "checkpoints").glob("step-*")):
        if folder.is_dir() and not folder.is_symlink():
            names = [path.name for path in folder.iterdir() if path.name != "manifest.json" and path.is_file()]
            seal_files(folder, names)
    if (run / "recipe.yaml").is_file():
        seal_files(run, [name for name in ("recipe.yaml", "corpus.json") if (run / name).is_file()])


@contextmanager
def watched(outside, touched):
    """Notes whatever Python does with files outside."""

    def hook(event, arguments):
        if event == "open" or event.startswith(_TOUCHING):
            for argument in arguments[:2]:
                if isinstance(argument, str | bytes | os.PathLike):
                    path = os.path.abspath(os.fsdecode(argument))
                    parent, name = os.path.split(path)
                    of_link = event in ("os.remove", "os.rename")  # which leave alone what a link leads to
                    real = os.path.join(os.path.realpath(parent), name) if of_link else os.path.realpath(path)
                    if real.startswith(str(outside)):
                        touched.append(f"{event} {path}")

    sys.addaudithook(hook)
    yield


def used(run, runs, system, outside, turn):
    """Does something with a run, in a copy of this process; returns what was touched outside, and how it failed.

    It is verified and resumed, and three of all other things are done, other ones each turn.
    """
    every = [*EVERY, *(command for verb in Run(runs / system).task.verbs for command in VERBS.get(verb, ()))]
    commands = [("verify", "RUN"), *((every * 3)[3 * turn % len(every) :][:3])]
    data = runs / EXAMPLES[system].data
    places = {"RUN": run, "ON": data, "DATA": data, "SYSTEM": system}

    def work(victim):
        touched, failed = [], []
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as it lives
        os.chdir(run.parent)
        with watched(outside, touched):
            for number, command in enumerate([*commands, ("resume", "RUN")]):
                places["OUT"] = run.parent / f"out-{number}"
                words = [str(places.get(word, word)) for word in command]
                try:
                    main(words)
                except BaseException as error:
                    failed.append(f"{command}: {error!r}")
        victim.mark()
        return [touched, failed]

    victim = Victim(work)
    try:
        assert victim.marked(60), f"it hangs: {run}"
        return victim.wait()
    except Ended as ended:
        return [[], [str(ended)]]
    finally:
        victim.kill()


def assert_safe(run, runs, system, outside, turn):
    before = {path: path.is_file() and path.read_text() for path in outside.rglob("*")}
    touched, failed = used(run, runs, system, outside, turn)
    assert failed == []
    assert touched == []
    assert {path: path.is_file() and path.read_text() for path in outside.rglob("*")} == before


def copied(runs, name, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for left in folder.parent.glob("out-*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return shutil.copytree(runs / name, folder)


def parts(run):
    """Files and folders of a run, those of each kind once."""
    found = {}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        found.setdefault("/".join("step" if part.startswith("step-") else part for part in name.split("/")), name)
    return [*found.values()]


@pytest.mark.parametrize("form", FORMS)
def test_links_and_pipes_lead_nowhere(form, runs, outside, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    system = form.removesuffix("-stopped")
    names = parts(runs / form)[:: EVERY_NTH.get(form, 6)]
    for turn, name in enumerate([*names, "checkpoints/snapshots", "checkpoints/.left.tmp", ".left.tmp"]):
        run = copied(runs, form, tmp_path / "run")
        path = run / name
        was_folder = path.is_dir()
        shutil.rmtree(path) if was_folder else path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        if turn % 3 == 0 and not was_folder:
            os.mkfifo(path)
        else:
            like_folder = was_folder or "." not in path.name[1:]
            path.symlink_to(outside if like_folder else outside / ("precious", "pipe")[turn % 2])
        reseal(run)
        assert_safe(run, runs, system, outside, turn)


def leaves(value, place=()):
    """The places of all strings in a JSON value."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, (*place, key))


def replaced(value, place, new):
    if not place:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[place[0]] = replaced(value[place[0]], place[1:], new)
    return changed


@pytest.mark.parametrize("form", FORMS)
def test_paths_in_files_lead_nowhere(form, runs, outside, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    system, whole = form.removesuffix("-stopped"), runs / form
    targets = [str(outside / "pipe"), "../outside/precious", "../../outside", str(outside)]
    named = [name for name in parts(whole) if name.endswith(".json") and "vocab" not in name]
    for name in named[:: 1 if form in EVERY_NTH else 2]:
        content = json.loads((whole / name).read_bytes())
        every = [*leaves(content)]
        for turn, place in enumerate(every[:: 1 + len(every) // EVERY_NTH.get(form, 1)]):
            run = copied(runs, form, tmp_path / "run")
            (run / name).write_text(json.dumps(replaced(content, place, targets[turn % len(targets)])))
            if not name.endswith("manifest.json"):
                reseal(run)
            assert_safe(run, runs, system, outside, turn)


@pytest.mark.parametrize("system", ["transformer"])
def test_a_recipe_reads_only_the_data_that_it_names(system, runs, outside, tmp_path, monkeypatch):
    """It names a pipe, a folder and a file where data are expected; the file may be read when the run is resumed."""
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    recipe = (runs / f"{system}-stopped" / "recipe.yaml").read_text()
    corpus = str(runs / EXAMPLES[system].data)
    for target in (outside / "pipe", Path("/dev/zero"), outside / "precious"):
        run = copied(runs, f"{system}-stopped", tmp_path / "run")
        (run / "recipe.yaml").write_text(recipe.replace(corpus, str(target)))
        reseal(run)
        before = (outside / "precious").read_text()
        touched, failed = used(run, runs, system, outside, 0)
        assert failed == []
        assert not [one for one in touched if not one.startswith(("open", "os.listdir", "os.scandir", "glob."))]
        assert (outside / "precious").read_text() == before
