"""How much memory building an n-gram model takes beyond what it may.

What has been measured already is skipped, so that the trainings may be split.
"""

from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, Text
from benchmarks.ngram import ORDER
from benchmarks.result import Numbers, Result, Rows
from wenmai.core.folder import file_sha256

__all__ = ["run"]

CAPS = (64, 256, 1024)  # MiB
_ZIPF, _QUICK_ZIPF = (100_000, 100_000_000), (1000, 100_000)  # vocabulary, words
_FILES = ("contexts.bin", "leaves.bin")


def run(bench: Bench) -> None:
    """Trains within each memory: on the given text, and on a made-up one of more words."""
    results = bench.results("ngram_memory", {"order": ORDER}, keep=not bench.quick, baselines=())
    there = {(row["words"], row["memory_bytes"]) for row in results.rows}
    _train(bench, bench.zipf(*_QUICK_ZIPF), 1)  # so that everything is compiled
    for find in (lambda: bench.corpus, lambda: bench.zipf(*(_QUICK_ZIPF if bench.quick else _ZIPF))):
        text = find()  # one after the other: the made-up text is large
        for cap in CAPS:
            if (text.words, cap << 20) not in there:
                results.add({"text": text.facts["name"], "words": text.words, **_train(bench, text, cap)})


def _train(bench: Bench, text: Text, cap: int) -> dict[str, Any]:
    """Trains a model in a process of its own; the text is encoded already."""
    model: Path = bench.work / "run"
    bench.clear(model)
    settings = {**text.settings, "order": ORDER, "min_count": 1, "memory": cap / 1024}
    chosen = [f"--set={name}={value}" for name, value in settings.items()]
    summary, wall = bench.wenmai("train", "ngram", text.path, "--quiet", "--out", model, *chosen)
    facts = {name: summary[name] for name in ("vocabulary", "ngrams", "parts", "peak_memory_bytes", "seconds")}
    hashes = {name: file_sha256(model / "model" / name) for name in _FILES}
    bench.clear(model)
    return {"memory_bytes": cap << 20, **facts, "wall_seconds": wall, "sha256": hashes}


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    same = all(len({str(row["sha256"]) for row in group}) == 1 for group in rows.by("text").values())
    return {
        "beyond": Numbers(row["peak_memory_bytes"] - row["memory_bytes"] for row in rows),
        "all_ngrams": Numbers(sum(row["ngrams"]) for row in rows),
        "same": "the same bytes" if same else "**other** bytes",
    }
