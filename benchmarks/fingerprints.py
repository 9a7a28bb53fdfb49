"""Whether anything changed: every system trained at toy size, and checksums of all results.

``python -m benchmarks fingerprints`` measures nothing. It trains each entry of :data:`~benchmarks.toys.TRAININGS` with
one thread, asks the model everything that it can answer, and compares the facts with ``results/fingerprints.json``.
Only the public interface is used: ``wenmai.train``, ``wenmai.resume`` and the command line.

The settings, the model's files and the answers are separate facts, so that a renamed setting changes one line only.
Files that name the temporary folder have ``WORK`` in its place.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from benchmarks.harness import ROOT
from benchmarks.toys import TRAININGS, questions, write_texts
from wenmai.core.folder import writing_json
from wenmai.runs.environment import describe_environment

__all__ = ["SETTINGS", "check", "differences"]

Facts = dict[str, dict[str, str]]

SETTINGS = "settings"  # the facts that need no training: what each name of `wenmai systems` stands for
FAILED = "failed"  # the fact of a training or a question that ended in an error
_LONGEST = 300  # characters of an answer that is written down as it is
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# In names of values that differ from run to run; the size of a model does if its settings name a folder.
_PASSING = re.compile("second|memory|utilisation|size_bytes")


class _RefusedError(Exception):
    """A command that ended with a message to the user; it is on standard error."""


class _Work:
    """A folder with the texts and the runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        write_texts(self.folder)

    def facts(self, name: str) -> Iterator[tuple[str, str]]:
        """Trains, and yields the name and the value of each fact."""
        if name == SETTINGS:
            for system in json.loads(self._wenmai("systems", "--json")):
                settings = json.loads(self._wenmai("systems", system["name"], "--json"))
                chosen = {f"{one['section']}.{one['name']}": one["default"] for one in settings}
                yield system["name"], _digest(json.dumps(chosen).encode())
            return
        training, run = TRAININGS[name], self._run(name)
        recipe = yaml.safe_load((run / "recipe.yaml").read_text(encoding="utf-8"))  # its comments are words
        yield "recipe.yaml", _digest(json.dumps(recipe).replace(str(self.folder), "WORK").encode())
        yield from self._files(run / "model")
        summary = json.loads((run / "summary.json").read_bytes())
        yield "summary", self._shown(_lasting({key: value for key, value in summary.items() if key != "run"}))
        if (records := run / "metrics.jsonl").exists():
            lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
            # Passes write their steps by the clock.
            yield "records", self._shown([_lasting(line) for line in lines if line["kind"] != "step"])
        for what, question in questions(training.system).items():
            arguments = [str(run) if word == "RUN" else word.replace("WORK", str(self.folder)) for word in question]
            try:
                printed = self._wenmai(*arguments, "--json")
            except _RefusedError as refusal:  # such as a penalty on attention that a model does not have
                yield what, str(refusal).replace(str(self.folder), "WORK")
                continue
            answers = [_lasting(json.loads(line)) for line in printed.splitlines()]
            yield what, self._shown(answers[0] if len(answers) == 1 else answers)
        for form, target in training.exports.items():
            written = self.folder / f"{name}.{form}" / target
            written.parent.mkdir()
            self._wenmai("export", str(run), form, str(written))
            yield from ((f"export {form} {file}", value) for file, value in self._files(written.parent))
        if training.resumed:
            again = dict(self._files(self._interrupted(name) / "model"))
            yield "resumed", "the same files" if again == dict(self._files(run / "model")) else "other files"

    def _run(self, name: str) -> Path:
        """The run of a training, trained if it is not there."""
        out = self.folder / name
        if not out.exists():
            self._train(name, out)
        return out

    def _train(self, name: str, out: Path, **watched: Any) -> None:
        import wenmai

        training = TRAININGS[name]
        for other in re.findall(r"WORK/([\w-]+)(?: |$)", training.settings):
            self._run(other)
        start = None if training.start is None else self._run(training.start)
        given = training.settings.replace("WORK", str(self.folder))
        settings: dict[str, Any] = dict(one.split("=", 1) for one in given.split())
        wenmai.train(
            training.system, self.folder / training.corpus, out=out, start=start, quiet=True, **settings, **watched
        )

    def _interrupted(self, name: str) -> Path:
        """The run of a training that is interrupted in its middle, and resumed."""
        import wenmai
        from wenmai.runs.train import Callback

        class Impatient(Callback):
            def record(self, record: Any) -> None:
                raise KeyboardInterrupt

        out = self.folder / f"{name}-interrupted"
        try:
            self._train(name, out, callback=Impatient())
        except KeyboardInterrupt:
            wenmai.resume(out, quiet=True)
            return out
        raise RuntimeError(f"{name}: the training cannot be interrupted: it has no records")

    def _wenmai(self, *arguments: str) -> str:
        """What a ``wenmai`` command prints."""
        from wenmai.cli.main import main

        with redirect_stdout(StringIO()) as printed:
            code = main(arguments)
        if code != 0:
            raise _RefusedError(f"`wenmai {' '.join(arguments)}` ended with exit code {code}")
        return printed.getvalue()

    def _files(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Checksums of files, but for the manifest, which has checksums itself."""
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "manifest.json":
                yield str(path.relative_to(folder)), self._file(path)

    def _file(self, path: Path) -> str:
        return _digest(path.read_bytes().replace(str(self.folder).encode(), b"WORK"))

    def _shown(self, value: Any) -> str:
        """A value as it is, or its beginning and its checksum if it is long."""
        text = json.dumps(value, ensure_ascii=False).replace(str(self.folder), "WORK")
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... {_digest(text.encode())}"


def _lasting(value: Any) -> Any:
    """A value without time and memory; numbers have ten digits.

    Passes add up their loss in portions that the clock decides, so that its last digits differ from run to run.
    """
    if isinstance(value, dict):
        return {name: _lasting(one) for name, one in value.items() if not _PASSING.search(name)}
    if isinstance(value, list):
        return [_lasting(one) for one in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


# --- comparing ------------------------------------------------------------------------------------------------------


def check(results: Path, *, only: Sequence[str] = (), write: bool = False) -> None:
    """Computes the facts, and compares them with those of the file, or writes the file.

    Args:
        results: The folder of the file.
        only: Names of trainings; none: all of them.
        write: Write what was found instead of comparing.

    Raises:
        SystemExit: if any fact differs, or no training has one of the names.
    """
    if unknown := [name for name in only if name not in {SETTINGS, *TRAININGS}]:
        raise SystemExit(f"unknown training: {', '.join(unknown)}; expected some of {SETTINGS}, {', '.join(TRAININGS)}")
    path, machine = results / "fingerprints.json", _machine()
    known = json.loads(path.read_bytes()) if path.exists() else {"machines": [], "made_on": {}, "facts": {}}
    names = only or (SETTINGS, *TRAININGS)
    for place in sorted({known["made_on"][name] for name in names if name in known["made_on"]}):
        print(*_unlike(known["machines"][place], machine), sep="\n")
    found = _in_one_thread(names)
    if failed := [name for name, facts in found.items() if FAILED in facts]:
        raise SystemExit(f"failed: {', '.join(failed)}; the messages are above")
    if write:
        writing_json(path, _written(known if only else {"machines": [], "made_on": {}, "facts": {}}, found, machine))
        print(f"wrote {path}")
        return
    expected = {name: facts for name, facts in known["facts"].items() if not only or name in only}
    changed = differences(expected, found)
    print(*changed, sep="\n")
    count = sum(map(len, found.values()))
    if changed:
        raise SystemExit(f"{len(changed)} differences in {count} facts of {len(found)} trainings")
    print(f"nothing changed: {count} facts of {len(found)} trainings")


def _written(known: dict[str, Any], found: Facts, machine: dict[str, Any]) -> dict[str, Any]:
    """What the file has then: all facts, and the machine that each training was made on."""
    machines = {name: known["machines"][place] for name, place in known["made_on"].items()}
    machines |= dict.fromkeys(found, machine)
    distinct: list[dict[str, Any]] = []
    for one in machines.values():
        distinct += [] if one in distinct else [one]
    return {
        "machines": distinct,
        "made_on": {name: distinct.index(machines[name]) for name in sorted(machines)},
        "facts": dict(sorted((known["facts"] | found).items())),
    }


def _unlike(known: dict[str, Any], machine: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each fact in which a machine of the file is not like this one."""
    for name in sorted({*machine, *known}):
        if machine.get(name) != known.get(name):
            yield f"{name} is {machine.get(name)}; the file is from {known.get(name)}: bytes may differ"


def differences(expected: Facts, found: Facts) -> list[str]:
    """Returns a line for each fact that changed, is new, or is missing."""
    lines = []
    for name in sorted({*expected, *found}):
        before, now = expected.get(name, {}), found.get(name, {})
        for fact in dict.fromkeys([*before, *now]):
            if before.get(fact) != now.get(fact):
                lines.append(f"{name}: {fact}: was {before.get(fact, 'not there')}, is {now.get(fact, 'not there')}")
    return lines


def _in_one_thread(names: Sequence[str]) -> Facts:
    """Computes facts in a process of its own, in which the libraries have one thread too; prints them."""
    found: Facts = {name: {} for name in names}
    with tempfile.TemporaryDirectory(prefix="wenmai-fingerprints-") as work:
        environment = os.environ | dict.fromkeys(_ONE_THREAD, "1")
        environment |= {"WENMAI_CACHE": f"{work}/cache", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "benchmarks.fingerprints", work, *names]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, fact, value = json.loads(line)
                found[name][fact] = value
                print(f"{name}: {fact}: {value}", flush=True)
        if process.returncode != 0:
            raise SystemExit("the trainings stopped; the message is above")
    return found


def _machine() -> dict[str, Any]:
    """The facts of the machine that the bytes may depend on."""
    from llvmlite.binding import get_host_cpu_features

    named = ("python", "processor", "numpy", "numba", "llvmlite", "scikit-learn")
    found = {name: value for name, value in describe_environment().items() if name in named}
    found |= {name: version(name) for name in ("torch", "tokenizers", "sacrebleu", "safetensors")}
    return found | {"vector_units": " ".join(sorted(name for name, has in get_host_cpu_features().items() if has))}


if __name__ == "__main__":
    place = _Work(Path(sys.argv[1]))
    for chosen in sys.argv[2:]:
        try:
            for of, result in place.facts(chosen):
                print(json.dumps([chosen, of, result]), flush=True)
        except Exception as problem:  # the others are shown too
            traceback.print_exc()
            print(json.dumps([chosen, FAILED, f"{type(problem).__name__}: {problem}"]), flush=True)
