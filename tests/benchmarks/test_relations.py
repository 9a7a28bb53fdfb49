"""The section on relations of documents, and the measurements that it is made of."""

import json
from pathlib import Path
from typing import Any

import pytest

import wenmai
from benchmarks import relation_jobs, relations
from benchmarks.harness import Bench
from benchmarks.page import checked, page_text
from benchmarks.result import Result, read_results
from tests.benchmarks.test_finetuning import options
from tests.benchmarks.test_variants import HEAD, TINY
from tests.contract.examples import TEXTS


def trained(structure: str, seed: int, f1: float, *, name: str = "cdr") -> dict[str, Any]:
    return {
        "part": "sets", "run": "minilm", "model_sha256": "minilm", "set": name, "structure": structure, "seed": seed,
        "f1": f1, "ign_f1": f1, "intra_f1": f1, "inter_f1": None, "f1_1": f1 / 2, "f1_2": None, "f1_3": None,
        "seconds": 60.0, "commit": "abc",
    }  # fmt: skip


def timed(structure: str, repeat: int, seconds: float, length: int = 512) -> dict[str, Any]:
    return {
        "part": "updates", "run": "minilm", "structure": structure, "repeat": repeat, "update_seconds": seconds,
        "update_encoder_seconds": seconds / 2, "length": length, "rows": 4, "commit": "abc",
    }  # fmt: skip


def test_structures_are_compared_with_the_plain_encoder() -> None:
    rows = [
        trained("none", 1, 0.5),
        trained("none", 2, 0.52),
        trained("biaffine", 1, 0.52),
        trained("biaffine", 2, 0.53),
    ]
    rows += [trained("biaffine", 1, 0.6, name="redocred"), trained("none", 1, 0.61, name="redocred")]
    rows += [timed("none", 0, 1.0), timed("none", 1, 2.0), timed("biaffine", 0, 1.5), timed("biaffine", 1, 3.4)]
    rows += [timed("decomposed", 0, 1.0, length=128)]
    results = {"relations": Result(HEAD | {"rows": rows, "settings": relations.SETTINGS})}
    assert [(one.name, one.value, one.met) for one in checked(results)] == [
        ("relations, biaffine minus the plain encoder, best of all (CDR, minilm): F1", "+1.50 points", True),
        ("relations, minilm, biaffine, 512 tokens: time of an update over the plain encoder's", "1.60 ×", True),
    ]
    text = page_text(results)
    titles = "F1 | Ign F1 | intra F1 | inter F1 | next sentence | two sentences apart | farther apart"
    assert f"| CDR | {titles} | seconds of training |" in text
    assert "was trained again" not in text
    rows[0] = rows[0] | {"model_sha256": "another"}
    again = page_text({"relations": Result(HEAD | {"rows": rows, "settings": relations.SETTINGS})})
    assert "For some seeds minilm was trained again with this command" in again
    assert "| minilm, biaffine | +1.50 ± 6.35 | +1.50 ± 6.35 | +1.50 ± 6.35 | - | +0.75 ± 3.18 | - | - |" in text
    assert "| minilm | biaffine | 512 | 2,450.0 | **1.60** (1.50, 1.70) | 1,225.0 | 1.60 |" in text


class Stub(Bench):
    """A workbench that trains nothing and notes what it was asked for."""

    def job(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(name)
        if name == "run_facts":
            return {**dict.fromkeys(relations.FACTS), "run": "one", "model_sha256": "one"}
        if name == "family_of":
            return {"family": "encoder", "language": "en"}
        both = {"seconds": 1.0, "encoder_seconds": 0.5}
        sizes = dict.fromkeys(("length", "rows", "pairs", "updates"), 4)
        return {"structures": dict.fromkeys(relations.STRUCTURES, both), **sizes}

    def wenmai(self, *arguments: Any, **_: Any) -> tuple[dict[str, Any], float]:
        if arguments[0] == "train":
            given = dict(one.removeprefix("--set=").split("=") for one in arguments if str(one).startswith("--set="))
            if given["structure"] == "decomposed":
                raise SystemExit("it failed")
            self.asked.append((Path(arguments[2]).name, Path(given["valid"]).name, given["structure"], given["seed"]))
        measures = ("f1_low", "f1_high", "ign_f1_low", "ign_f1_high", "precision", "recall", "evidence_f1")
        return dict.fromkeys((*relations.MEASURES, *measures), 0.5) | {"by_distance": [{"f1": 0.5}] * 4}, 1.0


def test_what_is_there_is_not_measured_again_and_a_failure_does_not_end_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = ["run_facts", "family_of"]
    cdr, redocred = ("data:cdr-train", "data:cdr-dev"), ("train.json", "dev.json")
    for only, seeds, wanted in (
        (("cdr",), (1,), [(*cdr, "none", "1"), (*cdr, "biaffine", "1")]),
        (("cdr", "none"), (1, 2), [(*cdr, "none", "2")]),
        (("redocred", "none"), (1,), ["split_documents", (*redocred, "none", "1")]),
        (("updates",), (1,), ["split_documents", "time_updates"] + 2 * ["split_documents", "time_updates"]),
        (("updates",), (1,), []),
    ):
        bench = Stub(options(tmp_path, runs=(tmp_path / "one",), only=only, seeds=seeds), tmp_path / "work")
        bench.asked = []
        relations.run(bench)
        assert bench.asked == [*opened, *wanted]
    assert "one, decomposed, cdr: it failed" in capsys.readouterr().out
    assert len(read_results(tmp_path)["relations"].rows.where(part="updates")) == 9


def test_documents_with_a_relation_of_their_own_are_trained_on(tmp_path: Path) -> None:
    documents = [
        {"title": str(number), "labels": [{"r": "P1" if number else "P2"}], "sents": []} for number in range(50)
    ]
    names = [one["title"] for one in documents]
    aside = [name for name in names if not relation_jobs.zlib.crc32(name.encode()) % relation_jobs.DEV]
    documents[int(aside[0])]["labels"] = [{"r": "P3"}]
    path = tmp_path / "documents.json"
    path.write_text(json.dumps(documents))
    assert relation_jobs.split_documents(str(path), str(tmp_path), None) == {
        "train": 50 - len(aside) + 1,
        "dev": len(aside) - 1,
    }
    assert [one["title"] for one in json.loads((tmp_path / "dev.json").read_text())] == aside[1:]


def test_the_updates_that_are_timed_fill_the_encoder(tmp_path: Path) -> None:
    (tmp_path / "documents.json").write_text(TEXTS["relations.json"]["enough"])
    settings = {**TINY, "evaluate_steps": None, "steps": 1, "max_length": 12}
    run = wenmai.train("bert", ["a b c d e f g h"] * 30, out=tmp_path / "run", **settings)
    structures = ("none", "biaffine")
    found = relation_jobs.time_updates(str(run.path), str(tmp_path / "documents.json"), structures, 2, 1, 0.0)
    assert (found["length"], found["rows"], found["updates"]) == (12, 2, 3)
    assert found["pairs"] > 0
    assert found["structures"].keys() == set(structures)
