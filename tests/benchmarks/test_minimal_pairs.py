"""The section on minimal pairs: ours beside what was published, and the gain of masked models over n-grams."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import minimal_pairs
from benchmarks.harness import Results
from benchmarks.page import checked, page_text
from benchmarks.result import read_results

HEAD: dict[str, Any] = {
    "theme": "minimal_pairs", "quick": False, "commands": ["python -m benchmarks minimal_pairs"], "peer": {},
    "finished": "2026-01-01T00:00:00+00:00", "corpus": None, "settings": {},
    "machine": {"processor": "A", "cores": 2, "memory_bytes": 8e9, "platform": "Linux"},
}  # fmt: skip


def row(system: str, accuracy: float, seconds: float) -> dict[str, Any]:
    return {
        "run": f"a-{system}", "system": system, "corpus": "text.txt", "valid": None, "changed": {}, "on": None,
        "training_seconds": seconds, "threads": 2, "pairs": "blimp", "accuracy": accuracy, "low": accuracy - 0.01,
        "high": accuracy + 0.01, "ties": 3, "spelling": "written",
        "phenomena": {"binding": [accuracy, accuracy - 0.02, accuracy + 0.02]},
    }  # fmt: skip


def test_the_page_has_published_figures_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blimp").mkdir()
    published = [
        {"UID": f"principle_{name}", "linguistics_term": "other", "ngram": 0.5, "lstm": 0.6, "txl": 0.7, "gpt2": gpt2}
        for name, gpt2 in (("A", 0.8), ("B", 0.9))
    ]
    (tmp_path / "blimp" / "published.jsonl").write_text("".join(json.dumps(one) + "\n" for one in published))
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(tmp_path))
    results = Results(tmp_path / "minimal_pairs.json", HEAD)
    minimal_pairs._add_published(results, {"another": "binding"})  # of other paradigms
    assert results.rows == []
    for _ in range(2):  # the second time they are there
        minimal_pairs._add_published(results, {"principle_A": "binding", "principle_B": "binding"})
    assert [one["run"] for one in results.rows][-1] == "GPT-2, published"
    for one in (row("ngram", 0.6, 2), row("bert", 0.65, 3600), row("bert-mini", 0.72, 36000)):
        results.add(one)
    found = read_results(tmp_path)
    text = page_text(found)
    assert "| GPT-2, published | - | - | - | - | - | - | - | **0.850** | - | - |" in text
    assert "| phenomenon | 5-gram, published | LSTM, published | a-ngram |" in text
    assert "| binding | 50.0 | 60.0 | 60.0 ± 2.0 |" in text
    assert "wenmai train bert text.txt --out runs/a-bert" in text
    assert [(one.value, one.met) for one in checked(found)] == [("0.720", True), ("+5.0 points", False)]
