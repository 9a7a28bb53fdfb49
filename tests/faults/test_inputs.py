"""Some of the inputs of the fault lab, of every reader and every family; and nothing that reads is left out of it."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

import wenmai
from benchmarks.faults import inputs
from benchmarks.faults.damage import PARTS
from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Failures, Probe
from wenmai.core.registry import systems
from wenmai.formats.format import formats

PACKAGE = Path(wenmai.__file__).parent
READING = {"reading", "read_bytes", "read_text", "open", "safe_open", "load_file", "memmap", "fromfile", "plain_file"}
NOT_OF_STRANGERS = {  # functions that read only what wenmai itself has written, or what comes with it, and where
    "cli/formats.py": "an export of the same process",
    "cli/lines.py": "the texts that a command is given, by the same reader as all",
    "cli/main.py": "the null device",
    "core/folder.py": "locks, and files that are synced or hashed",
    "core/wording.py": "the package itself",
    "data/cached.py": "the cache",
    "data/catalogue.py": "the catalogue of the package, and receipts of the cache",
    "data/cooccurrence_counting.py": "counts that are being made",
    "data/download.py": "what is being downloaded, against a checksum",
    "data/encoded_corpus.py": "the cache",
    "data/encoded_labelled.py": "the cache",
    "data/encoded_pairs.py": "the cache",
    "data/encoded_text.py": "the cache",
    "core/scratch.py": "an array that is being made",
    "data/encoded_transliteration.py": "the cache",
    "data/external_sort.py": "parts that are being sorted",
    "formats/onnx/__init__.py": "a graph of the same process",
    "data/features.py": "opened by read_json_object",
    "data/ngram_counting.py": "counts that are being made",
    "data/numerals.py": "the package itself",
    "data/parallel.py": "the cache",
    "data/pydocs.py": "the documentation of Python",
    "data/running_text.py": "the cache",
    "fasttext/training.py": "opens a corpus by its source",
    "models/ngram/estimate.py": "a model that is being made",
    "models/ngram/streamed_estimate.py": "a model that is being made",
    "runs/autotune.py": "opens a corpus by its source",
    "runs/environment.py": "facts about the machine",
    "runs/finetuned_estimator.py": "a model of the same process, for a pickle",
    "runs/language.py": "opens a corpus by its source",
    "runs/overlap.py": "a part of a text that the reader of corpora has read",
    "runs/owner.py": "locks",
    "runs/page/__init__.py": "the package itself",
    "runs/planning.py": "opens a corpus by its source",
    "runs/train.py": "opens a corpus by its source",
    "tasks/sources/labelled.py": "opens a corpus by its source",
    "tasks/sources/pairs.py": "opens a corpus by its source",
    "tasks/sources/running_text.py": "opens a corpus by its source",
    "tasks/sources/text.py": "opens a corpus by its source",
    "tasks/sources/transliteration.py": "opens a corpus by its source",
    "training/records.py": "the file that a training writes",
}
LAB_INPUTS = 500
QUICK = tuple(part for part in PARTS if part != "structures")  # which have megabytes
SLOW = ("checkpoints of",)  # trainings that are resumed


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    return Lab(work=folder, failures=Failures(folder / "failures"), inputs=LAB_INPUTS, only=QUICK, workers=1)


def test_every_format_and_every_system_is_attacked(lab: Lab) -> None:
    names = set(inputs.known_subjects(lab))
    assert names >= {f"format {one.name}" for one in formats().values() if one.read}
    families = {name.removeprefix("run of ") for name in names if name.startswith("run of ")}
    kinds = {(one.task, one.model) for one in systems().values()}
    assert kinds == {(systems()[name].task, systems()[name].model) for name in families}


def reading_functions() -> set[tuple[str, str]]:
    """File and name of each function of the package that opens a file."""
    found, some = set(), re.compile(rf"\b({'|'.join(READING)})\(")
    for path in sorted(PACKAGE.rglob("*.py")):
        name, source = path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")
        for function in ast.walk(ast.parse(source)) if some.search(source) else ():
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("write"):
                continue
            for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
                called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if called in READING:
                    found.add((name, function.name))
    return found


def test_every_function_that_reads_a_file_is_reached_by_the_lab(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = {}

    def called(frame, event, _):  # returns None, so that lines are not traced
        reached[id(frame.f_code)] = frame.f_code

    known = inputs.known_subjects(lab)
    subjects = [one for one in known.values() if not one.name.startswith(SLOW) or one.name == "checkpoints of nnlm"]
    for subject in subjects:
        assert subject.damage.samples
        sys.settrace(called)
        try:
            inputs.warm(subject, lab)
        finally:
            sys.settrace(None)
    names = {
        (Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_name)
        for code in reached.values()
        if code.co_filename.startswith(str(PACKAGE))
    }
    missing = {one for one in reading_functions() - names if one[0] not in NOT_OF_STRANGERS}
    assert missing == set(), "readers that the fault lab does not know: add a subject in benchmarks/faults/readers.py"


def test_some_inputs_of_each_are_refused_or_harmless(lab: Lab) -> None:
    outcomes, bad = Counter(), []
    for finding in inputs.findings(lab, leaving_out=SLOW):
        outcomes[finding.outcome] += 1
        if finding.outcome.bad:
            bad.append((finding.outcome.value, finding.probe, finding.message))
    assert bad == []
    assert outcomes.total() > 0.5 * LAB_INPUTS
    assert outcomes["refused"] > 0.3 * outcomes.total()


def test_an_input_is_the_same_in_every_process_and_other_with_another_seed(lab: Lab, tmp_path: Path) -> None:
    subject = inputs.known_subjects(lab)["analogies"]

    def made(seed: int) -> list[bytes]:
        found = []
        for part in PARTS:
            for number in range(min(5, subject.damage.count(part, 5))):
                probe = Probe(part, subject.name, number)
                folder = tmp_path / f"{seed}-{probe.name}-{len(list(tmp_path.iterdir()))}"
                folder.mkdir()
                other = Lab(work=lab.work, failures=lab.failures, seed=seed)
                subject.damage.write(part, number, other.draw(probe), folder)
                if part != "links and pipes":
                    found.append((folder / "questions.txt").read_bytes())
        return found

    assert made(1) == made(1)
    assert made(1) != made(2)
