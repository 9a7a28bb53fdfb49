"""Fixtures shared by all tests."""

import gc
import io
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import wenmai
from wenmai.cli.main import main
from wenmai.core import wording
from wenmai.data import pydocs

# The same examples for everybody, see CONTRIBUTING for others; and no busy machine fails.
settings.register_profile("fixed", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for numpy, and for processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs in the background without it


def pytest_addoption(parser: pytest.Parser) -> None:
    """Lets another package hold its systems to the contract of ours."""
    parser.addoption("--examples", metavar="MODULE", help="tests/contract: of the systems in this module's EXAMPLES")


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end; to look for garbage in it takes half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public corpora and test sets that some tests read."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WENMAI_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data pack at {folder} (set WENMAI_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yields new folders; ``mktemp`` would look at those of all tests before each."""
    within = tmp_path_factory.mktemp("caches")
    return (within / str(number) for number in count())


@pytest.fixture(autouse=True)
def cache_folder(caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test numbers its corpora in a cache of its own, which is made by the first thing that is kept there."""
    folder = next(caches)
    monkeypatch.setenv("WENMAI_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """The language that a test has chosen ends with it."""
    yield
    wording.speak(None)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Threads only wait for each other over what tests compute, unless they ask for them; settings outlive a test."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 30,000 words in 3,000 lines, each about one of two topics with 40 words of its own."""
    draw = random.Random(1)
    lines = []
    for _ in range(3_000):
        topic = draw.choice(("colour", "number"))
        words = draw.choices([f"{topic}{place}" for place in range(40)], [40 - place for place in range(40)], k=10)
        lines.append(" ".join(words) + "\n")
    path = tmp_path_factory.mktemp("topics") / "topics.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def pydocs_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text of ``builtin:pydocs``, which takes many seconds to make; all processes of xdist have one."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "pydocs"
    folder.mkdir(exist_ok=True)
    return pydocs.text_file(folder)


@dataclass
class Finished:
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int


@dataclass
class Shell:
    """Runs ``wenmai`` in a folder: called, in this process; ``start`` and ``process``, in processes of their own."""

    folder: Path
    environment: dict[str, str]
    running: list["subprocess.Popen[str]"] = field(default_factory=list)

    def __call__(self, *arguments: object, code: int = 0, stdin: str | bytes = "", together: bool = False) -> Finished:
        """Runs a command without a process, which would import anew what it needs; ``together`` is ``2>&1``."""
        words = [str(argument) for argument in arguments]
        given = io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin)
        printed = {"stdout": io.BytesIO(), "stderr": io.BytesIO()}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["wenmai", *words])
            patch.setattr(logging.getLogger(), "handlers", [])  # as in a new process, for the command to add its own
            for name, stream in {"stdin": given, **printed}.items():
                patch.setattr(sys, name, io.TextIOWrapper(stream, encoding="utf-8"))
            if together:
                patch.setattr(sys, "stderr", sys.stdout)
            try:
                found = main(words)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
            out, err = (stream.getvalue().decode() for stream in printed.values())
        return checked(Finished(out, err, found), code)

    def process(self, *arguments: object, code: int = 0, stdin: str | None = None, **options: Any) -> Finished:
        """Runs a command in a process of its own, for tests of what only processes do."""
        return checked(self.end(self.start(*arguments, **options), stdin), code)

    def start(self, *arguments: object, **options: Any) -> "subprocess.Popen[str]":
        """Starts a process; whatever still runs at the end of the test is killed."""
        command = [sys.executable, "-m", "wenmai", *map(str, arguments)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = self.environment | options.pop("environment", {})
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, encoding="utf-8", **pipes, **options
        )
        self.running.append(process)
        return process

    def end(self, process: "subprocess.Popen[str]", stdin: str | None = None) -> Finished:
        """Waits for a process."""
        out, err = process.communicate(stdin, timeout=100)
        self.running.remove(process)
        assert "Traceback" not in err, err
        return Finished(out, err, process.returncode)


def checked(finished: Finished, code: int) -> Finished:
    """Returns what a command left behind, if it ended with this exit code and no traceback."""
    assert "Traceback" not in finished.err, finished.err
    assert finished.code == code, f"exit code {finished.code}: {finished.err}"
    return finished


@pytest.fixture
def shell(tmp_path: Path, cache_folder: Path) -> Iterator[Shell]:
    """Runs commands in ``tmp_path``."""
    package = str(Path(wenmai.__file__).parents[1])
    runner = Shell(tmp_path, {**os.environ, "PYTHONPATH": package, "PYTHONUTF8": "1"})
    yield runner
    for process in runner.running:
        process.kill()
        process.communicate()
