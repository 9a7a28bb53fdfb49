"""How fast the examples of pre-training tasks are made, beside the training that reads them."""

from typing import Any

from benchmarks.harness import Bench
from benchmarks.result import Numbers, Result, Rows

__all__ = ["LEAST", "SETTINGS", "TASKS", "run"]

LEAST = 3  # times as fast as they are read
TASKS = {  # by language; those of both are measured in both, as phrases and connectives are found otherwise
    "english": ("characters", "phrases", "entities", "capitalisation", "token-document", "reordering", "discourse"),
    "chinese": ("characters", "phrases", "entities", "reordering", "distance", "discourse", "relevance"),
}
CORPORA = {"english": "data:enwiki-sample", "chinese": "data:zhwiki-sample"}
KINDS = {"english": "wordpiece", "chinese": "characters"}
SHORT = {"english": "en", "chinese": "zh"}
SETTINGS: dict[str, Any] = {
    "hidden_size": 256,
    "num_layers": 4,
    "num_heads": 4,
    "max_length": 128,
    "batch_tokens": 4096,
    "threads": 2,
    "updates": 25,
    "warm_up": 5,
}
QUICK = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 32, "batch_tokens": 256, "threads": 1}
QUICK_CORPUS, QUICK_TASKS = "builtin:pydocs", ("phrases", "token-document")


def run(bench: Bench) -> None:
    """Measures each task in each language; what is there already is not repeated."""
    settings = SETTINGS | ({**QUICK, "updates": 2, "warm_up": 1} if bench.quick else {})
    results = bench.results("pretraining_tasks", settings, corpus=False, keep=not bench.quick, baselines=("torch",))
    there = {(row["language"], row["task"], row["repeat"]) for row in results.rows}
    for repeat in range(bench.repeats(3)):
        for language, tasks in TASKS.items():
            for task in tasks:
                if (language, task, repeat) not in there and _is_asked(bench, language, task):
                    results.add({"language": language, "task": task, "repeat": repeat, **_made(bench, language, task)})


def _is_asked(bench: Bench, language: str, task: str) -> bool:
    """Whether ``--only`` names this language, or none, and this task, or none; with ``--quick`` two are enough."""
    only = bench.options.only
    languages = [one for one in TASKS if one in only] or (["english"] if bench.quick else list(TASKS))
    known = dict.fromkeys(one for tasks in TASKS.values() for one in tasks)
    tasks = [one for one in known if one in only] or (QUICK_TASKS if bench.quick else list(known))
    return language in languages and task in tasks


def _made(bench: Bench, language: str, task: str) -> dict[str, Any]:
    sizes = SETTINGS | (QUICK if bench.quick else {})
    updates, warm_up = (2, 1) if bench.quick else (SETTINGS["updates"], SETTINGS["warm_up"])
    chosen = {name: value for name, value in sizes.items() if name not in ("updates", "warm_up")}
    chosen |= {"language": language, "kind": KINDS[language], "tasks": task, "epochs": 1, "budget": updates + warm_up}
    if bench.quick:
        chosen |= {"vocab_size": 300}
    if task == "entities":
        names = bench.work / f"{language}.txt"
        bench.job("labelled_names", language=SHORT[language], target=names)
        chosen["entities_list"] = names
    corpus = QUICK_CORPUS if bench.quick else CORPORA[language]
    folder = bench.work / "training"
    bench.clear(folder)
    return bench.job("make_examples", corpus=corpus, settings=chosen, warm_up=warm_up, folder=folder)


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns how many times as fast the examples are made as they are read, round by round."""
    return {"over": Numbers(row["made_per_second"] / row["examples_per_second"] for row in rows)}
