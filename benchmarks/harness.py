"""What every theme needs: the corpus, a process for each measurement, a file of results.

Everything is measured in a process of its own, so that memory and speed are measured alone. The parent process stays
small (it computes nothing and imports no numpy): on Linux a child begins with its parent's peak of memory.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wenmai.core.folder import file_sha256, writing_json
from wenmai.data.catalogue import from_catalogue
from wenmai.runs.environment import describe_environment

__all__ = [
    "DEFAULT_PAIRS",
    "ROOT",
    "SETTINGS",
    "Bench",
    "Options",
    "Results",
    "Text",
    "in_turn",
    "public_name",
    "require",
    "settings_of",
    "show_command",
]

ROOT = Path(__file__).resolve().parents[1]

DEFAULT_PAIRS = "data:multi30k-test-de,data:multi30k-test-en"
QUICK_BYTES = 1_720_000  # about 300,000 words
SYSTEMS = {  # name of the benchmark: name of our system
    "sgns": "word2vec-sgns",
    "sghs": "word2vec-sghs",
    "cbow-ns": "word2vec-cbow-ns",
    "cbow-hs": "word2vec-cbow-hs",
    "fasttext-skipgram": "fasttext-skipgram",
    "fasttext-cbow": "fasttext-cbow",
}
SETTINGS: dict[str, Any] = {"vector_size": 100, "window": 5, "sample": 1e-3, "min_count": 5, "epochs": 3, "threads": 2}
NEGATIVE = 5
STEERING = (
    *("ATEN_", "BLIS_", "DNNL_", "MKL_", "NUMBA_", "OMP_", "ONEDNN_", "OPENBLAS_"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE"),
)
INSTRUCTIONS = {  # by the newest vector instructions that a process may use: what keeps its libraries from newer ones
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
}
LEARNING_RATE = {"sgns": 0.025, "sghs": 0.025, "cbow-ns": 0.05, "cbow-hs": 0.05}  # those of word2vec.c


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for.

    Attributes:
        corpus: A path, or a name of the catalogue such as ``data:en8``.
        quick: Use the first 300,000 words and the smallest sizes: shows that everything works, measures nothing.
        repeats: How often to measure; None: the theme decides.
        results: Folder of the result files.
        systems: Which of the systems the theme ``quality`` trains.
        sides: Some of ``ours``, ``gensim`` and ``gensim-linear``, for the theme ``quality``.
        seeds: For themes that train with several seeds; None: the theme decides.
        runs: Finished runs that themes measure, or start from.
        pairs: The test set of the themes ``translation`` and ``minimal_pairs``.
        on: The text of the themes ``language``, ``minimal_pairs`` and ``knowledge``.
        only: Which parts of a theme are measured; empty: all.
        inputs: How many hostile inputs it tries; None: the theme decides.
        failures: Where it keeps probes that end badly; None: in the cache.
        replay: The one that it tries again.
        command: The command line, without folders.
        examples: How many the theme ``finetuning`` trains on; None: it decides.
        limit: How many examples or documents are trained on at most; None: all.
        minilm: Whether it also measures all-MiniLM-L6-v2.
        against_trainer: Whether it compares that with transformers' Trainer.
        names: Those that the theme ``knowledge`` asks for.
        minutes: How long the theme ``equal_time`` trains; None: it decides.
        settings: Assignments that the theme ``finetuned`` tries instead of the default ones.
        threads: Those of fine-tunings and of trainings from documents; None: the theme decides.
    """

    corpus: str
    quick: bool
    repeats: int | None
    results: Path
    systems: tuple[str, ...]
    sides: tuple[str, ...]
    seeds: tuple[int, ...] | None
    runs: tuple[Path, ...]
    pairs: str
    on: str | None
    only: tuple[str, ...]
    inputs: int | None
    failures: Path | None
    replay: Path | None
    command: str
    examples: int | None = None
    limit: int | None = None
    minilm: bool = False
    against_trainer: bool = False
    names: Path | None = None
    minutes: float | None = None
    settings: tuple[str, ...] = ()
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Text:
    """An encoded text to train on.

    Attributes:
        path: The file.
        settings: The text settings that fit it.
        facts: ``name``, ``sha256``, ``bytes``, ``words``, ``vocabulary``, ``kept_share``, and the time of encoding.
    """

    path: Path
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]

    @property
    def words(self) -> int:
        """Words in the text, those outside the vocabulary included."""
        return int(self.facts["words"])


class Results:
    """A result file: facts about machine, versions and corpus, and one row for each measurement.

    The file is written after every row, so that nothing is lost when a long run is stopped.

    Args:
        path: The file.
        head: What describes all rows.
        keep: Keep the rows of the file.
    """

    def __init__(self, path: Path, head: Mapping[str, Any], *, keep: bool = False) -> None:
        self._path = path
        self._content = {**head, "rows": []}
        if keep and path.exists():
            self._content = json.loads(path.read_bytes())
            for name in ("corpus", "settings", "quick"):
                if _identity(self._content[name]) != _identity(head[name]):
                    raise SystemExit(f"{path.name} was measured with another {name}; remove it, or give --results")
            self._content["commands"] += [
                command for command in head["commands"] if command not in self._content["commands"]
            ]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return list(self._content["rows"])

    def remove(self, **wanted: object) -> None:
        """Leaves out the rows that have all the given values."""
        rows = self._content["rows"]
        self._content["rows"] = [row for row in rows if any(row.get(name) != value for name, value in wanted.items())]

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds a row, writes the file, and shows the row."""
        self._content["rows"].append({**row, "at": _now(), "commit": _commit(), "processor": _processor()})
        self._content["finished"] = _now()
        writing_json(self._path, self._content)
        print("  " + "  ".join(f"{name}={_short(value)}" for name, value in row.items()), flush=True)


class Bench:
    """The workbench of a theme: texts in a temporary folder, and processes that train on them.

    Args:
        options: What the command line asks for.
        work: An empty folder for texts, encoded corpora and runs.
    """

    def __init__(self, options: Options, work: Path) -> None:
        self.options = options
        self.quick = options.quick
        self.work = work

    def repeats(self, usual: int) -> int:
        """How often to measure."""
        return self.options.repeats or (1 if self.quick else usual)

    def seeds(self, *usual: int) -> tuple[int, ...]:
        """Which seeds to train with; with ``--quick`` the first."""
        seeds = self.options.seeds or usual
        return seeds[:1] if self.quick else seeds

    def results(
        self,
        theme: str,
        settings: Mapping[str, Any],
        *,
        corpus: bool = True,
        keep: bool = False,
        baselines: Sequence[str] = ("gensim", "scipy"),
    ) -> Results:
        """Opens the result file of a theme; the versions of ``baselines`` are noted."""
        print(f"{theme}:", flush=True)
        head = {
            "theme": theme,
            "quick": self.quick,
            "commands": [self.options.command],
            "started": _now(),
            "finished": _now(),
            "machine": describe_environment() | {"caches_bytes": _caches()},
            "peer": {name: found for name in baselines if (found := _version(name))},
            "corpus": dict(self.corpus.facts) if corpus else None,
            "settings": dict(settings),
        }
        return Results(self.options.results / f"{theme}.json", head, keep=keep)

    @cached_property
    def source(self) -> Text:
        """The given text (with ``--quick`` its beginning), before it is encoded."""
        paths, settings = from_catalogue([self.options.corpus])
        path, name = Path(paths[0]), self.options.corpus.removeprefix("data:")
        if ":" not in self.options.corpus:
            name = path.name
        if not path.is_file():
            raise SystemExit(
                f"{path}: no such file; --corpus takes one file, or a name of the catalogue such as data:en8"
            )
        if self.quick:
            path, source = self.work / "beginning.txt", path
            self.job("head", source=source, target=path, size=QUICK_BYTES)
            name = f"the beginning of {name}"
        facts = {"name": name, "sha256": file_sha256(path), "bytes": path.stat().st_size}
        return Text(path=path, settings=settings, facts=facts)

    @cached_property
    def corpus(self) -> Text:
        """The given text, encoded."""
        return self._encoded(self.source, min_count=SETTINGS["min_count"])

    @cached_property
    def broken_corpus(self) -> Path:
        """The words of the corpus in lines of 1,000, for the baseline.

        Its threads share a file by lines, and a line is cut after 10,000 words: of a corpus in one line it would
        train on 20,000 words and be done.
        """
        path = self.work / "lines.txt"
        self.job("break_lines", source=self.corpus.path, text=self.corpus.settings, target=path)
        return path

    def zipf(self, vocabulary: int, words: int) -> Text:
        """Returns an encoded synthetic text whose word frequencies follow Zipf's law.

        Word r of V is drawn with a probability proportional to 1/r, independently; each of the V words also occurs
        once for certain, so that the vocabulary is exactly V.
        """
        path = self.work / f"zipf-{vocabulary}-{words}.txt"
        self.job("zipf", vocabulary=vocabulary, words=words, target=path)
        name = f"Zipf, {vocabulary:,} types"
        return self._encoded(Text(path=path, settings={}, facts={"name": name}), min_count=1)

    def train(
        self, text: Text, system: str, settings: Mapping[str, Any], *, run: Path | None = None, cache: str = "cache"
    ) -> dict[str, Any]:
        """Trains one of our systems by ``wenmai train``.

        Returns:
            ``words_per_second`` (all words of the text, times epochs, over the time of training), ``seconds``,
            ``wall_seconds`` (of the whole process), ``peak_memory_bytes``, ``loss``, ``vocabulary``.
        """
        run = run or self.work / "run"
        self.clear(run)
        chosen = [f"--set={name}={value}" for name, value in {**text.settings, **settings}.items()]
        summary, wall = self.wenmai("train", SYSTEMS[system], text.path, "--quiet", "--out", run, *chosen, cache=cache)
        words = text.words * settings["epochs"]
        return {
            "words_per_second": words / summary["seconds"],
            "seconds": summary["seconds"],
            "wall_seconds": wall,
            **{name: summary[name] for name in ("peak_memory_bytes", "loss", "vocabulary")},
        }

    def train_baseline(
        self, system: str, settings: Mapping[str, Any], *, linear: bool = False, target: Path | None = None
    ) -> dict[str, Any]:
        """Trains the same with gensim's ``corpus_file`` path; ``linear`` corrects its learning rate, see ``jobs.py``.

        Returns:
            As :meth:`train`; also ``scan_seconds`` (its vocabulary scan) and ``words_read`` (which it reports itself;
            it is checked that they are all the words of the text).
        """
        require("gensim")
        chosen: dict[str, Any] = {"system": system, "settings": settings, "linear": linear, "target": target}
        found = self.job("gensim", lines=self.broken_corpus, **chosen)
        words = self.corpus.words * settings["epochs"]
        if abs(found["words_read"] / words - 1) > 0.02:  # each thread may go on for a batch of 10,000 words
            raise SystemExit(f"gensim read {found['words_read']:,} words, expected {words:,}: nothing to compare with")
        return {"words_per_second": words / found["seconds"], **found}

    def clear(self, folder: Path) -> None:
        """Removes a folder of an earlier measurement, if it is there."""
        shutil.rmtree(folder, ignore_errors=True)

    def wenmai(
        self, *arguments: str | Path, cache: str = "cache", instructions: str | None = None
    ) -> tuple[dict[str, Any], float]:
        """Runs ``wenmai ... --json``; returns what it prints, and the seconds of the whole process."""
        environment = self.environment(cache) | INSTRUCTIONS.get(instructions or "", {})
        return _last_json(["-m", "wenmai", *map(str, arguments), "--json"], environment)

    def job(
        self, name: str, *, cache: str = "cache", instructions: str | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Runs a function of ``benchmarks/jobs.py`` in a process of its own; adds ``wall_seconds`` to its result.

        ``instructions`` is one of ``INSTRUCTIONS``: as if the processor had no newer ones.
        """
        command = ["-m", "benchmarks.jobs", name, json.dumps(arguments, default=str)]
        found, wall = _last_json(command, self.environment(cache) | INSTRUCTIONS.get(instructions or "", {}))
        return {**found, "wall_seconds": wall}

    def _encoded(self, text: Text, *, min_count: int) -> Text:
        encoded = self.job("encode", source=text.path, text=text.settings, min_count=min_count)
        facts = ("words", "types", "vocabulary", "kept_share")
        found = {name: encoded[name] for name in facts} | {"numbering_seconds": encoded["seconds"]}
        return Text(path=text.path, settings=text.settings, facts={**text.facts, **found})

    def environment(self, cache: str = "cache") -> dict[str, str]:
        """The environment of a measured process.

        Encoded corpora go into the folder of the benchmark; ``cold`` is an empty cache of compiled code too. Variables
        of compilers, linear algebra and the interpreter are left out, so that both sides run with their defaults.
        """
        found = {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}
        found["WENMAI_CACHE"] = str(self.work / cache)
        if cache == "cold":
            found["NUMBA_CACHE_DIR"] = str(self.work / cache / "numba")
        return found


def in_turn(sides: Iterable[str], turn: int) -> list[str]:
    """Returns the sides of a comparison in the order of a round: the first changes with every round."""
    names = list(sides)
    first = turn % len(names)
    return names[first:] + names[:first]


def settings_of(system: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a comparison: the same for both sides, learning rates included."""
    negative = NEGATIVE if system.endswith("ns") else 0
    return {**SETTINGS, "negative": negative, "learning_rate": LEARNING_RATE[system], **changed}


def require(package: str) -> None:
    """Ends with a clear message if a package of the ``bench`` extra is missing."""
    if find_spec(package) is None:
        raise SystemExit(f"this needs {package}: pip install 'wenmai[bench]', or in the checkout `make bench`")


def show_command(arguments: Sequence[str]) -> str:
    """The command line as it is published: no folders of this machine in it."""
    return shlex.join(["python", "-m", "benchmarks", *map(public_name, arguments)])


def public_name(name: str) -> str:
    """Returns a path, or several with commas between them, as it is published: without folders."""
    return ",".join(Path(part).name for part in name.split(","))


def _last_json(command: Sequence[str], environment: dict[str, str]) -> tuple[dict[str, Any], float]:
    """Runs Python and returns the JSON object of its last line, and how long it took from start to end."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    wall = time.perf_counter() - begin
    if done.returncode != 0:
        raise SystemExit(
            f"`{shlex.join(command[1:4])} …` failed with exit code {done.returncode}; its message is above"
        )
    return json.loads(done.stdout.splitlines()[-1]), wall


def _identity(value: Any) -> Any:
    """What must be equal for results to stand in one file, in the form that JSON gives it; times may differ."""
    found = json.loads(json.dumps(value))
    if isinstance(found, dict):
        found.pop("numbering_seconds", None)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def _commit() -> str:
    """The commit that is measured, with ``+`` if the package has changes on top of it."""
    try:
        found = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        changed = subprocess.run(["git", "status", "--porcelain", "wenmai"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return found.stdout.strip() + ("+" if changed.stdout.strip() else "") or "unknown"


@cache
def _processor() -> str:
    return str(describe_environment()["processor"])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _caches() -> dict[str, int]:
    """Sizes of the data caches of a core, where the system reports them."""
    found = {}
    units = {"K": 1 << 10, "M": 1 << 20}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found[f"L{level}"] = int(size[:-1]) * units[size[-1]]
    return found


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_short(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "[" + ", ".join(_short(item) for item in value) + "]"
    return str(value)
