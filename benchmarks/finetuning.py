"""Fine-tuning speed: `wenmai finetune` against ``transformers``' Trainer, the same weights and examples, in turn."""

from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.result import Result, Rows

__all__ = ["MODES", "SETS", "SETTINGS", "SIDES", "TASKS", "finetuned", "run"]

TASKS = {  # name of a set: (task, metric)
    "sst2": ("classification", "accuracy"),
    "mrpc": ("pair", "accuracy"),
    "conll2003": ("tagging", "f1"),
}
SETS = ("sst2", "conll2003")
NEVER = 1_000_000_000
MODES = {  # name: (our precision, the newest vector instructions for both); Trainer computes in float32
    "float32": ("float32", None),
    "default": ("auto", None),  # what each side does if nothing is said
    "avx2": ("float32", "avx2"),
}
SIDES = ("ours", "trainer", "trainer-grouped")
GROUPED_IN = "float32"  # the mode in which Trainer also sorts by length, which it does not by itself
SPEED = "examples_per_second"
SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "max_length": 256,
    "learning_rate": 5e-5,
    "weight_decay": 0.0,  # Trainer's default
    "warmup": 0,  # likewise
    "epochs": 1,
    "threads": 2,
}
EXAMPLES, QUICK_EXAMPLES = 2048, 64


def run(bench: Bench) -> None:
    """Measures the sides in turn; the first changes with every round. What is there already is not repeated."""
    require("transformers")
    require("accelerate")
    settings = SETTINGS | {"examples": bench.options.examples or (QUICK_EXAMPLES if bench.quick else EXAMPLES)}
    base = bench.work / "minilm"
    settings |= {name: value for name, value in bench.job("import_minilm", run=base).items() if name != "wall_seconds"}
    results = bench.results(
        "finetuning", settings, corpus=False, keep=not bench.quick, baselines=("torch", "transformers", "accelerate")
    )
    there = {(row["set"], row["mode"], row["side"], row["repeat"]) for row in results.rows}
    modes = _asked(bench, MODES, ("default",))
    for repeat in range(bench.repeats(3)):
        for name in _asked(bench, SETS, SETS):
            for mode in modes:
                for side in in_turn(SIDES if mode == GROUPED_IN else SIDES[:2], repeat):
                    if (name, mode, side, repeat) in there:
                        continue
                    chosen = {name: value for name, value in settings.items() if name != "weights_sha256"}
                    chosen["seed"] = repeat + 1
                    found = finetuned(bench, side, name, mode, base, chosen)
                    results.add({"set": name, "mode": mode, "side": side, "repeat": repeat, **found})


def _asked(bench: Bench, known: Any, quick: tuple[str, ...]) -> list[str]:
    """Those that ``--only`` names, all of them if it names none."""
    named = [name for name in known if name in bench.options.only]
    return named or [name for name in known if not bench.quick or name in quick]


def finetuned(
    bench: Bench, side: str, name: str, mode: str, base: Path, settings: dict[str, Any], *, last: bool = False
) -> dict[str, Any]:
    """Fine-tunes on one side with equal settings, and measures the result on the dev split.

    With ``last`` our side measures only after the last update, as Trainer does, and does not choose the best epoch.

    Returns:
        ``examples_per_second`` (those of all epochs, over the time from the first update to the last), ``seconds``,
        ``wall_seconds`` (of the whole process: reading, encoding, training, measuring, writing), ``score``, ``steps``,
        ``loss``, ``peak_memory_bytes``.
    """
    task, metric = TASKS[name]
    precision, instructions = MODES[mode]
    target = bench.work / "tuned"
    bench.clear(target)
    if side == "ours":
        given = {name: value for name, value in settings.items() if name != "examples"} | {"precision": precision}
        if settings["examples"]:
            given["limit"] = settings["examples"]
        if task != "tagging":
            given["pooling"] = "pooler"  # as BertForSequenceClassification
        if last:
            given["evaluate_steps"] = NEVER
        chosen = [f"--set={name}={value}" for name, value in given.items()]
        summary, wall = bench.wenmai(
            "finetune", base, f"data:{name}", "--out", target, "--quiet", *chosen, instructions=instructions
        )
        kept = ("seconds", "examples", "steps", "loss", "parameters", "peak_memory_bytes")
        found = {name: summary[name] for name in kept} | {"wall_seconds": wall}
        found["examples_per_second"] = summary["examples"] * summary["epochs"] / summary["seconds"]
        scores = summary["validation"]
    else:
        theirs = settings | {"limit": settings["examples"]}
        found = bench.job(
            "finetune_trainer",
            instructions=instructions,
            dataset=name,
            task=task,
            settings=theirs,
            grouped=side == "trainer-grouped",
            folder=target,
        )
        scores = found.pop("scores")
    return {**found, "score": scores[metric]}


NAMES = {"float32": "float32", "default": "defaults of each side", "avx2": "float32, AVX2 only"}
TITLES = {"sst2": "SST-2", "conll2003": "CoNLL-2003"}


def facts(rows: Rows, _: Result) -> dict[str, object]:
    """Returns the names of set, mode and score, and the ratio of the whole processes."""
    return {
        "name": f"{TITLES[rows[0]['set']]}, {NAMES[rows[0]['mode']]}",
        "measured": TASKS[rows[0]["set"]][1],
        "whole": rows.ratios("trainer", "wall_seconds", "repeat"),
    }
