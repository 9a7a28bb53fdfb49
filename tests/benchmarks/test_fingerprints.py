"""The command that shows that a refactor changed nothing."""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.fingerprints import _written, differences
from wenmai.core.registry import systems


def fingerprints(folder: Path, *more: str) -> None:
    main(["fingerprints", "--results", str(folder), "--only", "classifier-closed", *more])


def test_a_changed_fact_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    fingerprints(tmp_path, "--write")
    path = tmp_path / "fingerprints.json"
    content = json.loads(path.read_bytes())
    facts = content["facts"]["classifier-closed"]
    assert {"recipe.yaml", "config.json", "summary", "labels", "evaluation"} <= set(facts)
    right, facts["config.json"] = facts["config.json"], "another"
    content["machines"][0]["numpy"] = "0.1"
    path.write_text(json.dumps(content), encoding="utf-8")
    capsys.readouterr()
    with pytest.raises(SystemExit, match=f"^1 differences in {len(facts)} facts of 1 trainings$"):
        fingerprints(tmp_path)
    printed = capsys.readouterr().out
    assert f"classifier-closed: config.json: was another, is {right}\n" in printed
    assert "the file is from 0.1: bytes may differ" in printed


def test_each_training_keeps_the_machine_it_was_made_on():
    known = {"machines": [{"processor": "A"}, {"processor": "B"}], "made_on": {"a": 0, "b": 1}}
    known |= {"facts": {"a": {"x": "1"}, "b": {"x": "1"}}}
    written = _written(known, {"b": {"x": "2"}, "c": {"x": "3"}}, {"processor": "C"})
    assert written["machines"] == [{"processor": "A"}, {"processor": "C"}]
    assert written["made_on"] == {"a": 0, "b": 1, "c": 1}
    assert written["facts"] == {"a": {"x": "1"}, "b": {"x": "2"}, "c": {"x": "3"}}


def test_facts_that_are_new_or_missing_are_differences():
    assert differences({"a": {"x": "1", "y": "2"}}, {"a": {"x": "1"}, "b": {"z": "3"}}) == [
        "a: y: was 2, is not there",
        "b: z: was not there, is 3",
    ]


def test_every_system_has_facts():
    known = json.loads((Path(main.__code__.co_filename).parent / "results" / "fingerprints.json").read_bytes())["facts"]
    assert set(known["settings"]) == {name for name, system in systems().items() if system.task.startswith("wenmai.")}
    assert not [name for name, facts in known.items() if "failed" in facts or facts.get("resumed") == "other files"]


def test_an_unknown_training_is_a_mistake(tmp_path: Path):
    with pytest.raises(SystemExit, match="unknown training: word3vec"):
        main(["fingerprints", "--results", str(tmp_path), "--only", "word3vec"])
