"""How good the static vectors of encoders are, beside word2vec and fastText of the same text.

Encoders are finished runs that have learned from ``TEXT``; their vectors are made over it, and the others are trained
on it. What is there already is skipped.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.equal_time import QUICK_TEXT
from benchmarks.finetuned import QUICK_SETTINGS, models_of, summarised
from benchmarks.harness import Bench
from benchmarks.quality import RESTRICT_VOCAB, SIMILARITY, TESTS
from benchmarks.result import Numbers, Result, Rows
from benchmarks.section import Section
from benchmarks.translation import train_command
from wenmai.data.catalogue import get

__all__ = ["LAYERS", "STATIC", "TEXT", "run"]

STATIC = ("word2vec-sgns", "fasttext-skipgram")
TEXT = ("data:enwiki-sample", "data:wikitext-2-train")
SETTINGS = {"lowercase": "true", "min_count": 5, "vector_size": 100}  # words are counted as `distil` counts them
LAYERS = {"elmo": ("0", "mix")}
OTHER_LAYERS = ("last", "1", "0")
TURN = "seed"


def run(bench: Bench) -> None:
    """Trains the static systems, and makes the vectors of each run of ``--runs``, and of MiniLM, of several layers."""
    runs, text, sets = bench.options.runs, TEXT, {}
    if bench.quick:
        small = bench.work / "text.txt"
        small.write_text(QUICK_TEXT, encoding="utf-8")
        runs, text = (bench.work / "bert",), (str(small),)
        chosen = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
        bench.wenmai("train", "bert", *text, "--out", runs[0], "--quiet", *chosen)
    else:
        sets = {name: get(entry) for name, entry in TESTS.items()}
    settings = {**SETTINGS, "restrict_vocab": RESTRICT_VOCAB}
    results = bench.results("distilled", settings, corpus=False, keep=not bench.quick, baselines=("torch",))
    there = {tuple(row.get(name) for name in ("model_sha256", "run", "layer", "seed")) for row in results.rows}
    target = bench.work / "vectors"
    for seed in bench.seeds(1, 2, 3):
        for system in STATIC:
            if (None, system, None, seed) not in there:
                bench.clear(target)
                chosen = [f"--set={name}={value}" for name, value in {**SETTINGS, "seed": seed}.items()]
                found, wall = bench.wenmai("train", system, *text, "--out", target, "--quiet", *chosen)
                size = {"vocabulary": found["vocabulary"], "vector_size": SETTINGS["vector_size"]}
                row = {"run": system, "layer": None, "seed": seed, **size, "wall_seconds": wall}
                results.add(row | _scores(bench, target, sets))
    for model in models_of(bench, runs):
        for layer in LAYERS.get(model.family, OTHER_LAYERS):
            if (model.facts["model_sha256"], model.facts["run"], layer, None) not in there:
                bench.clear(target)
                found, wall = bench.wenmai("distil", model.path, *text, "--out", target, "--layer", layer, "--quiet")
                size = {name: found[name] for name in ("vocabulary", "vector_size")}
                row = {**model.facts, "layer": layer, "seed": None, **size, "wall_seconds": wall}
                results.add(row | _scores(bench, target, sets))


def _scores(bench: Bench, run: Path, sets: dict[str, Path]) -> dict[str, Any]:
    """Spearman's correlation or accuracy on each set, and how much of it has vectors."""
    asked: list[str | Path] = []
    for name, path in sets.items():
        asked += ["--similarity" if name in SIMILARITY else "--analogy", path]
    if not asked:
        return {"scores": {}, "covered": {}}
    found, _ = bench.wenmai("evaluate", run, *asked, "--restrict-vocab", str(RESTRICT_VOCAB))
    measured = [*found["similarity"], *found["analogy"]]
    values = [one["spearman"] for one in found["similarity"]] + [one["accuracy"] for one in found["analogy"]]
    return {
        "scores": dict(zip(sets, values, strict=True)),
        "covered": {name: one["covered"] / one["total"] for name, one in zip(sets, measured, strict=True)},
    }


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns what a line of the table says."""
    found: dict[str, Any] = {"of": rows[0]["run"] + ("" if (layer := rows[0]["layer"]) is None else f", layer {layer}")}
    for test in TESTS:
        scores = {row["seed"]: row["scores"][test] for row in rows if row["scores"].get(test) is not None}
        found[test] = summarised([*scores.values()])
    found["dimensions"] = rows[0]["vector_size"]  # the settings have that of the static systems
    covered = [row["covered"].get("WS-353") for row in rows]
    found["ws353"] = Numbers([one for one in covered if one is not None])
    return found


def tables(_: Section, result: Result) -> Iterator[str]:
    """The command of each run."""
    trained = (rows[0] for rows in result.rows.by("run").values() if "changed" in rows[0])
    commands = [*map(train_command, trained)]
    if commands:
        yield "```\n" + "\n".join(commands) + "\n```\n"
