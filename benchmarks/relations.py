"""Relations of documents with and without structured attention (SSAN), beside each other, and what the structure costs.

Encoders are finished runs; each training from documents is one row, with one seed, and is written down when it is done.
One that is there already is skipped, so a long run may be split.
"""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.finetuned import FACTS, MINILM, Model, imported_minilm, margin, open_model, summarised
from benchmarks.harness import Bench, Results
from benchmarks.result import Numbers, Result, Row, Rows
from benchmarks.section import Section, table
from benchmarks.translation import train_command

__all__ = ["LENGTH", "PLAIN", "SETS", "STRUCTURES", "run"]

SETS = {"redocred": "Re-DocRED", "cdr": "CDR"}
PLAIN = "none"
STRUCTURES = {PLAIN: "without structure", "decomposed": "decomposed", "biaffine": "biaffine"}
DISTANCES = {1: "next sentence", 2: "two sentences apart", 3: "farther apart"}
MEASURES = {
    "f1": "F1",
    "ign_f1": "Ign F1",
    "intra_f1": "intra F1",
    "inter_f1": "inter F1",
    **{f"f1_{distance}": title for distance, title in DISTANCES.items()},
}
LENGTH = 512  # tokens at which the cost counts
SETTINGS: dict[str, Any] = {"epochs": 6, "threads": 2}
STEPS: dict[str, Any] = {"rows": 4, "seconds": 60}
QUICK_DOCUMENTS = 12
QUICK_SETTINGS = (
    *("hidden_size=16", "num_layers=1", "num_heads=2", "max_length=64", "steps=3", "threads=1", "vocab_size=300"),
    "batch_tokens=256",
)


def run(bench: Bench) -> None:
    """Trains from each run of ``--runs`` and from MiniLM on each set, and times the updates."""
    options = bench.options
    models = list(_models(bench))
    if not models:
        print("relations: starts from finished encoders; name them: --runs RUN..., or --minilm", flush=True)
        return
    settings = SETTINGS | ({"epochs": 1, "threads": 1} if bench.quick else {})
    threads = options.threads or settings["threads"]
    results = bench.results("relations", settings, corpus=False, keep=not bench.quick, baselines=("torch",))
    if not options.only or "updates" in options.only:
        _time(bench, results, models, threads)
    there = {_key(row) for row in results.rows if row["part"] == "sets"}
    for seed in bench.seeds(1, 2, 3):
        for name in _asked(bench, tuple(SETS), quick=("redocred",)):
            for model in models:
                for structure in _asked(bench, tuple(STRUCTURES), quick=(PLAIN, "biaffine")):
                    row = {"part": "sets", **model.facts, "set": name, "structure": structure, "seed": seed}
                    if _key(row) in there or (options.only and set(options.only) == {"updates"}):
                        continue
                    try:
                        found = _trained(bench, model, row, settings | {"threads": threads})
                    except SystemExit as problem:  # one that fails does not end hours of others
                        print(f"  {model.facts['run']}, {structure}, {name}: {problem}", flush=True)
                        continue
                    results.add(row | found)


def _models(bench: Bench) -> Iterator[Model]:
    runs = bench.options.runs
    if bench.quick and not runs:
        runs = (bench.work / "bert",)
        chosen = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
        bench.wenmai("train", "bert", "builtin:pydocs", "--out", runs[0], "--quiet", *chosen)
    for path in runs:
        yield open_model(bench, path, FACTS)
    if bench.options.minilm:
        path, sha256 = imported_minilm(bench)
        yield Model(path, {"run": MINILM, "system": "bert", "model_sha256": sha256}, "published", "en")


def _asked(bench: Bench, known: tuple[str, ...], *, quick: tuple[str, ...]) -> tuple[str, ...]:
    """Those that ``--only`` names; all of them if it names none, with ``--quick`` some."""
    named = tuple(name for name in known if name in bench.options.only)
    return named or (quick if bench.quick else known)


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model_sha256", "set", "structure", "seed"))


def _documents(bench: Bench, name: str) -> tuple[str | Path, str | Path]:
    """Returns what is trained on, and what is measured on; a set of one part is divided."""
    if name == "cdr":
        return "data:cdr-train", "data:cdr-dev"
    folder = bench.work / name
    if not folder.exists():
        bench.job(
            "split_documents", documents=f"data:{name}", target=folder, most=QUICK_DOCUMENTS if bench.quick else None
        )
    return folder / "train.json", folder / "dev.json"


def _trained(bench: Bench, model: Model, row: Row, settings: dict[str, Any]) -> dict[str, Any]:
    """Trains, and returns the measures on dev, where the threshold and the best epoch were chosen too."""
    train, dev = _documents(bench, row["set"])
    target = bench.work / "trained"
    bench.clear(target)
    chosen = {**settings, "structure": row["structure"], "seed": row["seed"], "valid": dev}
    given = [f"--set={name}={value}" for name, value in chosen.items()]
    summary, wall = bench.wenmai("train", "ssan", train, "--from", model.path, "--out", target, "--quiet", *given)
    found, _ = bench.wenmai("evaluate", target, "--on", dev)
    found |= {f"f1_{distance}": found["by_distance"][distance]["f1"] for distance in DISTANCES}
    names = ("seconds", "documents", "steps", "threshold", "peak_memory_bytes")
    measures = ("f1_low", "f1_high", "ign_f1_low", "ign_f1_high", "precision", "recall", "evidence_f1")
    kept = {name: summary[name] for name in names if name in summary}
    kept |= {name: found[name] for name in (*MEASURES, *measures)}
    return kept | {"threads": settings["threads"], "wall_seconds": wall}


def _time(bench: Bench, results: Results, models: list[Model], threads: int) -> None:
    """Times updates of each encoder with each structure, in turn within a process."""
    there = {(row["model_sha256"], row["repeat"]) for row in results.rows if row["part"] == "updates"}
    for repeat in range(bench.repeats(3)):
        for model in models:
            if (model.facts["model_sha256"], repeat) in there:
                continue
            chosen = {"structures": list(STRUCTURES), "threads": threads, **STEPS}
            chosen |= {"seconds": 0, "rows": 2} if bench.quick else {}
            train, _ = _documents(bench, "redocred")
            found = bench.job("time_updates", base=model.path, documents=train, **chosen)
            of_all = {name: found[name] for name in ("length", "rows", "pairs", "updates")}
            for structure, times in found["structures"].items():
                row = {"part": "updates", **model.facts, "structure": structure, "repeat": repeat}
                results.add(row | {f"update_{name}": value for name, value in times.items()} | of_all)


# --- the page -------------------------------------------------------------------------------------------------------


def tables(_: Section, result: Result) -> Iterator[str]:
    """Means over the seeds of each set, encoder and structure, and their differences from the plain encoder's."""
    measured = result.rows.where(part="sets")
    for name, rows in measured.by("set").items():
        title, cells, better = SETS[name], [], []
        for (encoder, structure), own in sorted(rows.by("run structure").items(), key=_place):
            called = f"{encoder}, {STRUCTURES[structure]}"
            shown = {measure: summarised([*_latest(own, key).values()]) for key, measure in MEASURES.items()}
            cells.append({title: called, **shown, "seconds of training": f"{own.seconds:,.0f}"})
            plain = rows.where(run=encoder, structure=PLAIN)
            gains = {measure: _gains(own, plain, key) for key, measure in MEASURES.items()}
            if structure != PLAIN and any(gains.values()):
                better.append(
                    {"minus the plain encoder, points": called} | {key: _points(one) for key, one in gains.items()}
                )
        yield table(cells)
        if better:
            yield table(better)
    trained = [rows[0] for rows in measured.by("run").values() if "changed" in rows[0]]
    if trained:
        yield "```\n" + "\n".join(map(train_command, trained)) + "\n```\n"
    again = [name for name, own in measured.by("run").items() if len({row["model_sha256"] for row in own}) > 1]
    if again:
        yield f"For some seeds {', '.join(again)} was trained again with this command; sums round otherwise there.\n"


def _place(group: tuple[tuple[str, str], Rows]) -> tuple[str, int]:
    (encoder, structure), _ = group
    return encoder, list(STRUCTURES).index(structure)


def _latest(rows: Rows, name: str) -> dict[int, float]:
    """The value of each seed, where there is one."""
    return {row["seed"]: row[name] for row in rows if row.get(name) is not None}


def _gains(rows: Rows, plain: Rows, name: str) -> list[float]:
    """By how many points a measure is better than the plain encoder's, seed by seed."""
    ours, theirs = _latest(rows, name), _latest(plain, name)
    return [100 * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]


def _points(gains: list[float]) -> str:
    if not gains:
        return "-"
    return f"{statistics.mean(gains):+.2f}" + (f" ± {margin(gains):.2f}" if len(gains) > 1 else "")


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    """Returns the largest mean gain of biaffine structure, and times as many as the plain encoder's."""
    first = rows[0]
    gains = {
        (name, encoder): statistics.mean(found)
        for (name, encoder), own in rows.where(part="sets").by("set run").items()
        if (found := _gains(own.where(structure="biaffine"), own.where(structure=PLAIN), "f1"))
    }
    best = max(gains, key=lambda one: gains[one], default=None)
    plain = {row["repeat"]: row for row in result.rows.where(part="updates", structure=PLAIN, run=first.get("run"))}
    own = [row for row in rows.where(part="updates") if row["structure"] != PLAIN and row["repeat"] in plain]
    at_length = [row for row in own if row["length"] == LENGTH]
    return {
        "name": STRUCTURES.get(first.get("structure", ""), ""),
        "best_gain": Numbers([] if best is None else [gains[best]]),
        "where": "" if best is None else f"{SETS[best[0]]}, {best[1]}",
        "times": _times(own, plain, "update_seconds"),
        "encoder_times": _times(own, plain, "update_encoder_seconds"),
        "judged": _times(at_length, plain, "update_seconds"),
    }


def _times(rows: list[Row], plain: dict[int, Row], name: str) -> Numbers:
    return Numbers(row[name] / plain[row["repeat"]][name] for row in rows)
