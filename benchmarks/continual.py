"""What learning several tasks in stages teaches (ERNIE 2.0): what is forgotten, fine-tuning, and each task left out.

Nothing is trained here but what is fine-tuned (and tiny encoders with ``--quick``): the page shows the command of
every run. The runs should differ in tasks and stages alone.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.finetuned import LANGUAGES, measure_sets
from benchmarks.harness import Bench
from benchmarks.result import Numbers, Result, Rows
from benchmarks.section import Section, table
from benchmarks.variants import STAGES, TUNED, asked, average_gain, commands, opened, set_tables

__all__ = ["ALONE", "CONTINUAL", "SEQUENTIAL", "SETS", "run"]

CONTINUAL, SEQUENTIAL, ALONE, LONGER = "continual", "sequential", "masking alone", "masking alone, equal time"
VARIANTS = (ALONE, LONGER, CONTINUAL, SEQUENTIAL, "all at once")
SETS = (
    *("chnsenticorp", "thucnews", "cluener", "resume-ner", "ocnli", "cmrc2018"),
    *("mrpc", "rte", "sst2", "conll2003"),
)
TURN = "run_seed"
QUICK_TASKS = "characters,token-document"
QUICK_RUNS = {
    "alone": ("tasks=characters", "budget=8"),
    "continual": (f"tasks={QUICK_TASKS}", "stages=continual", "budget=4"),
    "sequential": (f"tasks={QUICK_TASKS}", "stages=sequential", "budget=4"),
}
QUICK_SETTINGS = (
    *("hidden_size=16", "num_layers=1", "num_heads=2", "max_length=16", "epochs=2", "evaluate_steps=2", "threads=1"),
    *("kind=whitespace", "min_count=1", "batch_tokens=512"),
)
QUICK_TEXT = "the cat saw the dog\na bird sings in the tree\nthe dog runs home\nit rains on the old house\n\n" * 40


def run(bench: Bench) -> None:
    """Reads what each run of ``--runs`` learned, and fine-tunes it; what is there already is skipped."""
    runs = bench.options.runs
    if bench.quick and not runs:
        runs = _tiny(bench)
    if not runs:
        print("continual: measures finished runs; name them: --runs RUN...", flush=True)
        return
    results = bench.results("continual", {}, corpus=False, keep=not bench.quick, baselines=("torch",))
    there = {row["model_sha256"] for row in results.rows if row["part"] == "stages"}
    models = []
    for model, learned in opened(bench, runs):
        kept = {name: learned[name] for name in ("tasks", "stages", "run_seed")}
        facts = model.facts | kept | {"variant": variant(learned)}
        models.append(replace(model, facts=facts))
        if facts["model_sha256"] not in there and asked(bench, "stages"):
            more = {name: learned[name] for name in ("table", "by_stage")}
            results.add({"part": "stages", **facts, "language": model.language, **more})
    if asked(bench, "sets"):
        measure_sets(bench, results, models, sets=SETS, ways=TUNED)


def variant(learned: Mapping[str, Any]) -> str:
    """Returns what a run is called: by its stages, or by what it does not learn."""
    tasks, stages, missing = (learned[name] for name in ("tasks", "stages", "missing"))
    if len(tasks) == 1:
        return LONGER if learned["in_minutes"] else ALONE
    name: str = STAGES.get(stages, stages)
    if not missing:
        return name
    left = f"without {', '.join(missing)}"
    return left if stages == CONTINUAL else f"{name}, {left}"


def _tiny(bench: Bench) -> tuple[Path, ...]:
    text = bench.work / "text.txt"
    text.write_text(QUICK_TEXT, encoding="utf-8")
    runs = []
    for name, more in QUICK_RUNS.items():
        runs.append(bench.work / name)
        chosen = [f"--set={assignment}" for assignment in (*QUICK_SETTINGS, *more)]
        bench.wenmai("train", "ernie-2", text, "--out", runs[-1], "--quiet", *chosen)
    return tuple(runs)


# --- the page -------------------------------------------------------------------------------------------------------


def tables(_: Section, result: Result) -> Iterator[str]:
    """The loss of the first task after each stage, fine-tuning, and the commands."""
    for language, rows in result.rows.where(part="stages").by("language").items():
        first = rows[0]["tasks"][0]
        several = Rows(row for row in rows if len(row["tasks"]) > 1 and row["tasks"][0] == first)
        most = max((len(row["by_stage"]) for row in several), default=0)
        title = f"{LANGUAGES[language]}: loss of the first task after stage"
        cells: list[dict[str, Any]] = []
        for name, own in several.by("variant").items():
            losses = [_losses(own, stage) for stage in range(most)]
            shown = {
                str(stage): "-" if not found else f"{float(Numbers(found)):.3f}"
                for stage, found in enumerate(losses, 1)
            }
            cells.append({title: name} | shown | {"in the end": f"{float(Numbers(_losses(own, -1))):.3f}"})
        if cells:
            yield table(cells)
    yield from set_tables(result.rows.where(part="sets"), VARIANTS, _compared_with)
    yield from commands(result.rows)


def _compared_with(name: str) -> str:
    """The variant that another one is compared with: of one with a task left out the one with all tasks."""
    return CONTINUAL if name.startswith("without ") else ALONE


def _losses(rows: Rows, stage: int) -> list[float]:
    """The loss of the first task after a stage, of each run that has it."""
    found = []
    for row in rows:
        name = f"{row['tasks'][0].replace('-', '_')}_loss"
        figures = row["by_stage"][stage] if stage < len(row["by_stage"]) else {}
        found += [figures[name]] if name in figures else []
    return found


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    """Returns by how much less continual training forgets, and the mean gains over masking alone."""
    first = rows[0]
    of = {"language": first.get("language")}
    stages = result.rows.where(part="stages", **of)
    sides = [_last(stages.where(variant=name)) for name in (CONTINUAL, SEQUENTIAL)]
    shared = [sides[0][seed] - sides[1][seed] for seed in sides[0] if seed in sides[1]]
    sets = result.rows.where(part="sets", limit=first.get("limit"), **of)
    continual = sets.where(variant=CONTINUAL)
    learned = sorted(
        f"{name.replace('_', ' ')} {value:.3f}" for row in rows[:1] for name, value in _learned(row).items()
    )
    return {
        "of": LANGUAGES.get(str(of["language"]), ""),
        "amount": "" if first.get("limit") is None else f", at most {first['limit']:,} examples",
        "forgotten": Numbers(shared),
        "gain": Numbers(average_gain(continual, sets.where(variant=ALONE))),
        "gain_in_time": Numbers(average_gain(continual, sets.where(variant=LONGER))),
        "learned": ", ".join(learned) or "-",
    }


def _last(rows: Rows) -> dict[int, float]:
    """The loss of the first task in the end, by the seed of the pre-training: the mean of its runs."""
    found = {seed: _losses(own, -1) for seed, own in rows.by("run_seed").items()}
    return {seed: statistics.mean(losses) for seed, losses in found.items() if losses}


def _learned(row: Mapping[str, Any]) -> dict[str, float]:
    """The accuracies of tasks in the end, without those of masked tokens of other tasks."""
    figures: Mapping[str, float] = row["by_stage"][-1] if row.get("by_stage") else {}
    return {
        name.removesuffix("_accuracy"): value
        for name, value in figures.items()
        if name.endswith("_accuracy") and not name.endswith("_masked_accuracy")
    }
