"""What masking phrases and entities teaches (ERNIE 1.0): names that a model fills in, and fine-tuning, by level.

Nothing is trained here but what is fine-tuned (and tiny encoders with ``--quick``): the page shows the command of
every run. The runs should differ in what is masked alone.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.finetuned import LANGUAGES, Model, margin, measure_sets
from benchmarks.harness import Bench, Results, public_name
from benchmarks.knowledge_jobs import MOST
from benchmarks.result import Numbers, Result, Rows
from benchmarks.section import Section, table
from benchmarks.variants import STAGES, TUNED, asked, average_gain, commands, opened, set_tables, values
from wenmai.core.folder import file_sha256

__all__ = ["BASIC", "MOST", "ORDERS", "RECOVERY", "SETS", "run"]

RECOVERY = 1.5  # times as many names as with basic masking
ORDERS = {"in-order": "one token after the other", "together": "all tokens at once"}
SETS = ("chnsenticorp", "thucnews", "cluener", "resume-ner", "ocnli", "cmrc2018", "conll2003", "sst2", "mrpc", "rte")
BASIC = "characters"
VARIANTS = (BASIC, "characters + phrases", "characters + phrases + entities")
IN_STAGES = "sequential"  # the default of ERNIE 1.0; runs with others are variants of their own
TURN = "run_seed"
LENGTHS = 20  # names of a length, for it to be in the table
QUICK_SETTINGS = (
    *("hidden_size=16", "num_layers=1", "num_heads=2", "max_length=16", "budget=4", "epochs=1", "threads=1"),
    *("kind=whitespace", "min_count=1"),
)
QUICK_TEXT = "we saw New York in the rain\nshe knows Ada Lee well\n\n" * 40
QUICK_NAMES = "New York\nAda Lee\n"


def run(bench: Bench) -> None:
    """Asks each run of ``--runs`` for the names in ``--on``, and fine-tunes it; what is there already is skipped."""
    options = bench.options
    runs, on, names = options.runs, options.on, options.names
    if bench.quick and not runs:
        runs, on, names = _tiny(bench)
    if not runs:
        print("knowledge: measures finished runs; name them: --runs RUN... --on TEXT --names FILE", flush=True)
        return
    results = bench.results("knowledge", {}, corpus=False, keep=not bench.quick, baselines=("torch",))
    models = []
    for model, learned in opened(bench, runs):
        kept = {name: learned[name] for name in ("tasks", "stages", "run_seed")}
        models.append(replace(model, facts=model.facts | kept | {"variant": variant(learned)}))
    if asked(bench, "cloze"):
        if on is None or names is None:
            raise SystemExit(
                "a cloze test needs a text and names: --on TEXT --names FILE; or leave it out: --only sets"
            )
        _fill(bench, results, models, Path(on), names)
    if asked(bench, "sets"):
        measure_sets(bench, results, models, sets=SETS, ways=TUNED)


def variant(learned: Mapping[str, Any]) -> str:
    """Returns what a run is called: by what it masked, and by its stages if they are not the usual ones."""
    tasks, stages = learned["tasks"], learned["stages"]
    several = len(tasks) > 1 and stages != IN_STAGES
    return " + ".join(tasks) + (f", {STAGES.get(stages, stages)}" if several else "")


def _fill(bench: Bench, results: Results, models: Sequence[Model], on: Path, names: Path) -> None:
    """Asks models for names, in both orders."""
    asked_for = {"on": public_name(str(on)), "text_sha256": file_sha256(on), "names_sha256": file_sha256(names)}
    there = {_key(row) for row in results.rows if row["part"] == "cloze"}
    for model in models:
        for order in ORDERS:
            row = {"part": "cloze", **model.facts, "language": model.language, **asked_for, "order": order}
            if _key(row) not in there:
                arguments: dict[str, Any] = {"on": on.absolute(), "names": names.absolute(), "order": order}
                results.add(row | bench.job("fill_names", run=model.path, **arguments))


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model_sha256", "text_sha256", "names_sha256", "order"))


def _tiny(bench: Bench) -> tuple[tuple[Path, ...], str, Path]:
    """Trains briefly with and without entities; returns the runs, a text and names."""
    text, names = bench.work / "text.txt", bench.work / "names.txt"
    text.write_text(QUICK_TEXT, encoding="utf-8")
    names.write_text(QUICK_NAMES, encoding="utf-8")
    chosen = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
    runs = []
    for tasks in ("characters", "characters,phrases,entities"):
        runs.append(bench.work / tasks.replace(",", "-"))
        of_marks = ["--set=phrases_min_count=1", f"--set=entities_list={names}"] if "entities" in tasks else []
        bench.wenmai("train", "ernie", text, "--out", runs[-1], "--quiet", *chosen, f"--set=tasks={tasks}", *of_marks)
    return tuple(runs), str(text), names


# --- the page -------------------------------------------------------------------------------------------------------


def tables(_: Section, result: Result) -> Iterator[str]:
    """Recovered names by their length, fine-tuning, and the commands."""
    for (language, _), rows in result.rows.where(part="cloze", order="in-order").by("language entities").items():
        asked_for = _by_length(rows)
        lengths = [length for length, found in sorted(asked_for.items()) if found["entities"] >= LENGTHS]
        title = f"{LANGUAGES[language]}: recovered, by the tokens of the name"
        cells: list[dict[str, Any]] = []
        for variant, own in rows.by("variant").items():
            shares = {length: found["right"] / found["entities"] for length, found in _by_length(own).items()}
            cells.append({title: variant} | {str(length): f"{shares.get(length, 0):.1%}" for length in lengths})
        each = len({row["run"] for row in rows})
        yield table(
            [*cells, {title: "names"} | {str(one): f"{asked_for[one]['entities'] // each:,}" for one in lengths}]
        )
    yield from set_tables(result.rows.where(part="sets"), VARIANTS, lambda _: BASIC)
    yield from commands(result.rows)


def _by_length(rows: Rows) -> dict[int, dict[str, float]]:
    """Adds up the names of each length, and those that were recovered."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        for length, one in row["by_length"].items():
            sums = found.setdefault(int(length), {"entities": 0, "right": 0.0})
            sums["entities"] += one["entities"]
            sums["right"] += one["entities"] * one["exact"]
    return found


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    """Returns the share of names in words, times as many as with basic masking, and the mean gain over it.

    Shares of other names, such as a text has by another rule, are not compared.
    """
    first = rows[0]
    language = first.get("language")
    own, basic = (
        some.where(part="cloze", language=language, order=first.get("order"), entities=first.get("entities"))
        for some in (rows, result.rows.where(variant=BASIC))
    )
    named = {"of": LANGUAGES.get(str(language), ""), "filled": ORDERS.get(str(first.get("order")), "")}
    sets = rows.where(part="sets")
    gain = average_gain(
        sets, result.rows.where(part="sets", variant=BASIC, language=language, limit=first.get("limit"))
    )
    is_basic = first["variant"] == BASIC
    return {
        **named,
        "interval": _interval(own),
        "times": Numbers([] if is_basic else _ratios(own, basic)),
        "gain": Numbers([] if is_basic else gain),
        "amount": "" if first.get("limit") is None else f", at most {first['limit']:,} examples",
    }


def _ratios(rows: Rows, others: Rows) -> list[float]:
    """How many times as many names, seed by seed of the pre-training; of the means if no seed is the same."""
    ours, theirs = values(rows, "exact"), values(others, "exact")
    if not ours or not theirs or not all(theirs.values()):
        return []
    if shared := [seed for seed in ours if seed in theirs]:
        return [ours[seed] / theirs[seed] for seed in shared]
    return [statistics.mean(ours.values()) / statistics.mean(theirs.values())]


def _interval(rows: Rows) -> str:
    """The share of names; its interval over texts, or with several runs over their seeds."""
    shares = [*values(rows, "exact").values()]
    if len(shares) > 1:
        return f"**{statistics.mean(shares):.1%}** ± {margin(shares):.1%}"
    return f"**{shares[0]:.1%}** [{rows[0]['low']:.1%}, {rows[0]['high']:.1%}]" if shares else "-"
