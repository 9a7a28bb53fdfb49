"""The theme of equal time: its texts, its trainings, and the table with means over seeds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import equal_time
from benchmarks.__main__ import main
from benchmarks.harness import Bench, Options
from benchmarks.jobs import JOBS
from benchmarks.page import page_text
from benchmarks.result import Result
from tests.benchmarks.test_minimal_pairs import HEAD

OPTIONS = Options(
    corpus="", quick=False, repeats=None, results=Path(), systems=(), sides=(), seeds=None, runs=(), pairs="", on=None,
    only=(), inputs=None, failures=None, replay=None, command="",
)  # fmt: skip


def row(system: str, seed: int, accuracy: float, **more: Any) -> dict[str, Any]:
    facts = {"language": "en", "system": system, "seed": seed, "threads": 1, "minutes": 8, "parameters": 1000}
    measured = {"training_tokens": 5000, "bits": 1.5, "pseudo": system.startswith("bert"), "accuracy": accuracy}
    return facts | measured | {"commit": "abc"} | more


def test_a_table_has_the_systems_by_age_and_means_over_seeds() -> None:
    rows = [
        *(row("bert", seed, 0.55 + seed / 100, masked_accuracy=0.3) for seed in (1, 2, 3)),
        *(row("bert-efficient", seed, 0.56 + seed / 100, masked_accuracy=0.3 + seed / 100) for seed in (1, 2)),
        row("bert", 1, 0.6, minutes=60, threads=2, masked_accuracy=0.4),
        row("ngram", 1, 0.52, minutes=None),
    ]
    text = page_text({"equal_time": Result(HEAD | {"theme": "equal_time", "rows": rows})})
    counted, some, more, efficient = [line for line in text.splitlines() if line.startswith(("| ngram", "| bert"))][:4]
    assert counted.startswith("| ngram | - | 1 | 1 | 1,000 | 5,000 | 1.5000 |")
    assert some.startswith("| bert | 8 | 1 | 3 |")
    assert some.endswith("| **1.5000** ± 0.0000 (pseudo) | **0.3000** ± 0.0000 | **0.5700** ± 0.0248 |")
    assert more.startswith("| bert | 60 | 2 | 1 |")
    assert efficient.startswith("| bert-efficient | 8 |")
    assert "| bert-efficient minus bert, 8 minutes | +0.0150 ± 0.0635 | **+0.0100** ± 0.0000 |" in text


def test_the_repeated_systems_alone_have_more_seeds(tmp_path: Path) -> None:
    language = equal_time.LANGUAGES["zh"]
    trainings = list(equal_time._trainings(Bench(OPTIONS, tmp_path), language, 8))
    assert [one.system for one in trainings if one.seed == 1] == [*equal_time.SYSTEMS]
    assert [one.system for one in trainings if one.seed > 1] == 2 * [*equal_time.REPEATED]
    assert trainings[0].settings == ("segment=characters",)
    assert trainings[1].settings == ("kind=characters", "minutes=8", "seed=1", "threads=1")
    some = replace(OPTIONS, only=("zh", "gpt"))
    assert [one.system for one in equal_time._trainings(Bench(some, tmp_path), language, 8)] == ["gpt"]


def test_what_is_measured_is_not_trained_on(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one\ntwo\n\nthree\nfour\n \nfive\n", encoding="utf-8")
    held, rest = tmp_path / "held.txt", tmp_path / "rest.txt"
    JOBS["hold_out"](text=str(text), lines=2, target=str(held), rest=str(rest))
    assert (held.read_text(), rest.read_text()) == ("four\nfive\n", "one\ntwo\n\nthree\n")
    JOBS["first_lines"](text=str(text), lines=3, target=str(held))
    assert held.read_text() == "one\ntwo\nthree\n"


def test_without_a_theme_nothing_is_measured(capsys: Any) -> None:
    main([])
    assert "equal_time" in capsys.readouterr().out
