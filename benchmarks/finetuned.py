"""How well encoders do a task: from scratch, frozen, fine-tuned, beside word vectors; and beside transformers' Trainer.

Encoders are finished runs; each training from labelled examples is one row, with one seed, and is written down when it
is done. One that is there already is skipped, so a long run may be split.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.finetuning import SETTINGS as SPEED_SETTINGS
from benchmarks.finetuning import TASKS, finetuned
from benchmarks.harness import Bench, Results, require
from benchmarks.result import Numbers, Result, Row, Rows, Score
from benchmarks.section import Section, table
from benchmarks.translation import train_command

__all__ = [
    "ALLOWED",
    "FACTS",
    "LANGUAGES",
    "MINILM",
    "QUICK_SETTINGS",
    "SETS",
    "WAYS",
    "Model",
    "amount",
    "imported_minilm",
    "margin",
    "measure_sets",
    "models_of",
    "open_model",
    "run",
    "summarised",
    "with_same_settings",
]


@dataclass(frozen=True)
class LabelledSet:
    """A labelled set: its name on the page, what is learnt, what it is measured by, and its language.

    Of one with few examples to measure on, nothing is counted: chance decides which of two ways is better.
    """

    title: str
    task: str
    metric: str
    language: str = "en"
    few: bool = False


SETS = {
    "sst2": LabelledSet("SST-2", "classification", "accuracy"),
    "trec": LabelledSet("TREC", "classification", "accuracy"),
    "mrpc": LabelledSet("MRPC", "pair", "accuracy"),
    "rte": LabelledSet("RTE", "pair", "accuracy"),
    "sick": LabelledSet("SICK", "regression", "spearman"),
    "conll2003": LabelledSet("CoNLL-2003", "tagging", "f1"),
    "squad1": LabelledSet("SQuAD 1.1", "span", "f1"),
    "chnsenticorp": LabelledSet("ChnSentiCorp", "classification", "accuracy", "zh"),
    "thucnews": LabelledSet("THUCNews", "classification", "accuracy", "zh"),
    "cluener": LabelledSet("CLUENER", "tagging", "f1", "zh"),
    "resume-ner": LabelledSet("resume NER", "tagging", "f1", "zh"),
    "ocnli": LabelledSet("OCNLI", "pair", "accuracy", "zh"),
    "ernie-match": LabelledSet("question matching", "pair", "accuracy", "zh", few=True),
    "cmrc2018": LabelledSet("CMRC 2018", "span", "f1", "zh"),
    "c3": LabelledSet("C3", "choice", "accuracy", "zh"),
}
LANGUAGES = {"en": "English", "zh": "Chinese"}
PROBED = ("classification", "pair", "tagging")  # what a probe of word vectors can do
WAYS = {  # name: (what the table calls it, settings)
    "probe": ("word vectors, linear probe", {}),
    "scratch": ("from scratch", {"scratch": "true"}),
    "input": ("its input, frozen", {"mode": "frozen", "layer": "0"}),
    "first": ("first layer, frozen", {"mode": "frozen", "layer": "1"}),
    "frozen": ("last layer, frozen", {"mode": "frozen"}),
    "mix": ("mix of all layers, frozen", {"mode": "mix"}),
    "tuned": ("fine-tuned", {}),
}
FROZEN = ("input", "first", "frozen")
OF_FAMILY = {
    "vectors": ("probe",),
    "elmo": ("input", "first", "frozen", "mix"),
    "gpt": ("scratch", "tuned"),
    "encoder": ("scratch", "frozen", "tuned"),
    "published": ("tuned",),
}
FACTS = ("run", "system", "corpus", "valid", "changed", "parameters", "training_seconds", "model_sha256")
COMPARED = {  # name: (a way, those that it is compared with, all of which must be measured)
    "above_scratch": ("tuned", ("scratch",)),
    "above_frozen": ("tuned", ("frozen",)),
    "above_layers": ("mix", ("input", "first", "frozen")),
}
MINILM = "all-MiniLM-L6-v2"
THREADS = 2
ALLOWED = 0.01  # by which a mean over seeds may be lower and still be called equal
TURN = "seed"
AGAINST: dict[str, Any] = SPEED_SETTINGS | {"epochs": 3, "examples": None}
QUICK_LIMIT = 40
QUICK_SETTINGS = ("hidden_size=16", "num_layers=1", "num_heads=2", "steps=3", "threads=1", "vocab_size=300")


@dataclass(frozen=True)
class Model:
    """An encoder: its folder, its facts for the page, its family and its language."""

    path: Path
    facts: dict[str, Any]
    family: str
    language: str


def run(bench: Bench) -> None:
    """Measures each run of ``--runs`` and MiniLM on the sets of its language, and MiniLM beside Trainer."""
    options = bench.options
    models = list(_models(bench))
    if not models and not options.against_trainer:
        print(
            "finetuned: measures finished runs; name them: --runs RUN..., or --minilm, or --against-trainer", flush=True
        )
        return
    settings = {"threads": THREADS, "against": AGAINST}
    baselines = ("torch", "transformers", "accelerate")
    results = bench.results("finetuned", settings, corpus=False, keep=not bench.quick, baselines=baselines)
    if options.against_trainer:
        _beside_trainer(bench, results, _limit(bench))
    measure_sets(bench, results, models)


def measure_sets(
    bench: Bench,
    results: Results,
    models: Sequence[Model],
    *,
    sets: Sequence[str] = tuple(SETS),
    ways: Mapping[str, Sequence[str]] = OF_FAMILY,
) -> None:
    """Trains models on sets of their language, from each seed and in each way; what is there already is skipped.

    Args:
        bench: The workbench.
        results: What receives a row for each training.
        models: The models.
        sets: Those that are meant if ``--only`` names none.
        ways: Of each family of models.
    """
    limit, chosen = _limit(bench), bench.options.settings
    tried = {"part": "settings", "settings": ", ".join(sorted(chosen))} if chosen else {"part": "sets"}
    there = {_key(row) for row in results.rows if row["part"] == tried["part"]}
    for seed in bench.seeds(1, 2, 3):
        for name, about in SETS.items():
            for model in models:
                for way in ways[model.family]:
                    if chosen and way != "tuned":
                        continue
                    if way == "probe" and about.task not in PROBED:
                        continue
                    if way == "probe" and not limit and seed != bench.seeds(1, 2, 3)[0]:
                        continue  # a probe that learns from all examples draws nothing
                    row = {
                        **tried,
                        **model.facts,
                        "family": model.family,
                        "way": way,
                        "set": name,
                        "limit": limit,
                        "seed": seed,
                    }
                    asked = _is_asked(bench, name, way, sets) and about.language == model.language
                    if not asked or _key(row) in there:
                        continue
                    try:
                        found = _measured(bench, model, row)
                    except SystemExit as problem:  # one that fails does not end hours of others
                        print(f"  {model.facts['run']}, {way}, {name}: {problem}", flush=True)
                        continue
                    results.add(row | {"language": about.language} | found)


def _limit(bench: Bench) -> int | None:
    return bench.options.limit or (QUICK_LIMIT if bench.quick else None)


def _models(bench: Bench) -> Iterator[Model]:
    runs = bench.options.runs
    if bench.quick and not runs:
        runs = (bench.work / "bert",)
        chosen = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
        bench.wenmai("train", "bert", "builtin:pydocs", "--out", runs[0], "--quiet", *chosen)
    yield from models_of(bench, runs)


def models_of(bench: Bench, runs: Sequence[Path]) -> Iterator[Model]:
    """Yields finished runs, and MiniLM if it is asked for."""
    for path in runs:
        yield open_model(bench, path)
    if bench.options.minilm:
        facts = {"run": MINILM, "system": "bert", "model_sha256": imported_minilm(bench)[1]}
        yield Model(imported_minilm(bench)[0], facts, "published", "en")


def open_model(bench: Bench, run: Path, facts: Sequence[str] = FACTS) -> Model:
    """Returns a finished run with some of its facts."""
    path = run.absolute()
    found, about = (bench.job(job, run=path) for job in ("run_facts", "family_of"))
    return Model(path, {name: found[name] for name in facts}, about["family"], about["language"])


def imported_minilm(bench: Bench) -> tuple[Path, str]:
    """Returns the run of MiniLM, imported once, and the checksum of its weights."""
    place = bench.work / "minilm"
    if not place.exists():
        bench.job("import_minilm", run=place)
    return place, bench.job("minilm_facts")["weights_sha256"]


def _is_asked(bench: Bench, name: str, way: str, sets: Sequence[str] = tuple(SETS)) -> bool:
    """Whether ``--only`` names this set, or none, and this way, or none; with ``--quick`` one set is enough."""
    only = bench.options.only
    sets = [one for one in SETS if one in only] or (["sst2"] if bench.quick else list(sets))
    ways = [one for one in WAYS if one in only] or list(WAYS)
    return name in sets and way in ways


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("model_sha256", "way", "set", "limit", "seed", "settings"))


def _measured(bench: Bench, model: Model, row: Row) -> dict[str, Any]:
    """Trains on the training split, and returns the score on dev and what it cost."""
    way, name, limit = row["way"], row["set"], row["limit"]
    about = SETS[name]
    if way == "probe":
        return bench.job("linear_probe", run=model.path, dataset=name, task=about.task, limit=limit, seed=row["seed"])
    target = bench.work / "tuned"
    bench.clear(target)
    threads = bench.options.threads or THREADS
    settings = {**WAYS[way][1], "seed": row["seed"], "threads": threads} | ({"limit": limit} if limit else {})
    assigned = [*(f"{setting}={value}" for setting, value in settings.items()), *bench.options.settings]
    chosen = [f"--set={one}" for one in assigned]
    summary, wall = bench.wenmai(
        "finetune", model.path, f"data:{name}", "--task", about.task, "--out", target, "--quiet", *chosen
    )
    names = ("seconds", "examples", "steps", "layer_weights", "peak_memory_bytes")
    kept = {name: summary[name] for name in names if name in summary}
    measured = {"score": summary["validation"][about.metric], "scores": summary["validation"]}
    return measured | {"threads": threads, "wall_seconds": wall, **kept}


def _beside_trainer(bench: Bench, results: Results, limit: int | None) -> None:
    """Fine-tunes MiniLM on both sides with equal settings and seeds; what counts is the state after the last update."""
    require("transformers")
    require("accelerate")
    there = {(row["set"], row["side"], row["seed"], row["limit"]) for row in results.rows if row["part"] == "trainer"}
    for seed in bench.seeds(1, 2, 3):
        for name in TASKS:
            for side in ("ours", "trainer"):
                if (name, side, seed, limit) in there or not _is_asked(bench, name, "tuned"):
                    continue
                threads = bench.options.threads or THREADS
                chosen = AGAINST | {"examples": limit, "seed": seed, "threads": threads}
                found = finetuned(bench, side, name, "float32", imported_minilm(bench)[0], chosen, last=True)
                row = {"part": "trainer", "set": name, "side": side, "seed": seed, "limit": limit, "threads": threads}
                results.add(row | found)


# --- the page -------------------------------------------------------------------------------------------------------


def tables(_: Section, result: Result) -> Iterator[str]:
    """A table for each language and number of examples, the weights of layers, and the commands."""
    measured = result.rows.where(part="sets")
    for (language, limit), rows in measured.by("language limit").items():
        known = {name: about for name, about in SETS.items() if any(row["set"] == name for row in rows)}
        title = f"{LANGUAGES[language]}, {amount(limit)}"
        cells = []
        for own in sorted(rows.by("run way settings").values(), key=_place):
            scores = {about.title: _cell(own.where(set=one)) for one, about in known.items()}
            unusual = f" ({own[0]['settings']})" if own[0].get("settings") else ""
            cells.append({title: f"{own[0]['run']}, {WAYS[own[0]['way']][0]}{unusual}", **scores})
        sizes = {about.title: f"{rows.where(set=one).examples:,.0f}" for one, about in known.items()}
        metrics = {about.title: about.metric for about in known.values()}
        yield table([*cells, {title: "measured by", **metrics}, {title: "examples to train on", **sizes}])
    for name, rows in measured.where(way="mix").by("run").items():
        weights = {SETS[one].title: _weights(own) for one, own in rows.by("set").items()}
        yield table(
            [{f"{name}: weights of the layers, the lowest first": one, "": text} for one, text in weights.items()]
        )
    for (name, limit), rows in result.rows.where(part="settings").by("run limit").items():
        known = {one: about.title for one, about in SETS.items() if any(row["set"] == one for row in rows)}
        usual = measured.where(run=name, limit=limit, way="tuned", settings=None)
        title = f"{name}, {amount(limit)}: settings"
        cells = []
        for called, own in [("the default ones", usual), *rows.by("settings").items()]:
            cells.append({title: called} | {about: _cell(own.where(set=one)) for one, about in known.items()})
        yield table(cells)
    trained = (rows[0] for rows in measured.by("run").values() if "changed" in rows[0])
    commands = [*map(train_command, trained)]
    if commands:
        yield "```\n" + "\n".join(commands) + "\n```\n"


def amount(limit: int | None) -> str:
    """Returns in words how many examples of a set are trained on."""
    return "all examples" if limit is None else f"at most {limit:,} examples of each set"


def _place(rows: Rows) -> tuple[int, str, int, str]:
    """The order of rows: by family, then by run, then as in ``WAYS``, the default settings first."""
    first = rows[0]
    place = list(OF_FAMILY).index(first["family"]), first["run"], list(WAYS).index(first["way"])
    return *place, first.get("settings") or ""


def _cell(rows: Rows) -> str:
    return summarised([*latest(rows).values()])


def summarised(scores: Sequence[float]) -> str:
    """Returns the mean and half of its 95 % interval in words; a single one alone."""
    if not scores:
        return "-"
    if len(scores) == 1:
        return f"{scores[0]:.4f}"
    return f"**{statistics.mean(scores):.4f}** ± {margin(scores):.4f}"


def with_same_settings(rows: Rows, others: Rows, *, frozen: bool = False) -> tuple[Rows, Rows]:
    """Returns those of both that learned with the default settings, or else with the same earlier ones.

    Args:
        rows: Of one way, or of one variant.
        others: Of another one.
        frozen: Whether the others are of frozen encoders, which learn alike with all of these settings.
    """
    for settings in (None, *(one for one in rows.by("settings") if one)):
        both = rows.where(settings=settings), others if frozen else others.where(settings=settings)
        if all(both):
            return both
    return Rows(), Rows()


def latest(rows: Rows) -> dict[int, float]:
    """Returns the score of each seed."""
    return {row["seed"]: row["score"] for row in rows}


def margin(scores: Sequence[float]) -> float:
    """Returns half of the 95 % interval of a mean, by Student's t."""
    from wenmai.runs.finetune import SeedRuns

    return SeedRuns(runs=(), metric="", values=tuple(scores)).margin


def _weights(rows: Rows) -> str:
    columns = zip(*(row["layer_weights"] for row in rows if "layer_weights" in row), strict=True)
    return ", ".join(f"{statistics.mean(column):.3f}" for column in columns)


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns on how many sets one way is better than another, and the scores beside Trainer's."""
    found: dict[str, Any] = {
        "name": SETS[rows[0]["set"]].title,
        "measured": SETS[rows[0]["set"]].metric,
    }
    own = rows.where(part="sets")
    for name, (way, others) in COMPARED.items():
        pairs = _compared(own, way, others)
        found[name] = Numbers([sum(one > two for one, two in pairs)] if pairs else [])
        found[f"{name}_of"] = len(pairs)
    default = latest(own.where(run=MINILM, set="sst2", way="tuned", limit=None, settings=None)).values()
    found["default_sst2"] = Numbers([statistics.mean(default)] if default else [])
    beside = [(ours["score"], theirs["score"]) for ours, theirs in rows.where(part="trainer").beside("trainer", "seed")]
    found["beside"] = Score(beside, allowed=ALLOWED) if beside else Numbers()
    for side in ("ours", "trainer"):
        found[f"{side}_scores"] = _cell(rows.where(part="trainer", side=side))
    return found


def _compared(rows: Rows, way: str, others: Sequence[str]) -> list[tuple[float, float]]:
    """Returns the mean scores of a way and of the best other one, of each set and number of examples that has all."""
    pairs = []
    for own in Rows(row for row in rows if not SETS[row["set"]].few).by("set limit").values():
        found = [_mean_scores(own.where(way=way), own.where(way=other), frozen=other in FROZEN) for other in others]
        if all(found):
            pairs.append(max(found, key=lambda pair: pair[1]))
    return pairs


def _mean_scores(rows: Rows, others: Rows, *, frozen: bool) -> tuple[float, float] | tuple[()]:
    """Returns the mean scores of two ways that learned with the same settings; nothing if there are none."""
    both = [list(latest(one).values()) for one in with_same_settings(rows, others, frozen=frozen)]
    return (statistics.mean(both[0]), statistics.mean(both[1])) if all(both) else ()
