"""fastText's classifier, in turns with the reference implementation, on the same lines with the same settings.

A measurement that is there already is skipped, so a long run may be split.
"""

import statistics
from typing import Any

from benchmarks.harness import Bench, require
from benchmarks.result import Numbers, Result, Row, Rows, Score
from benchmarks.section import Bars, Claim, Part, Section

__all__ = [
    "ACCURACY_LOST_BY_QUANTISING",
    "CONFIGURATIONS",
    "CUTOFF",
    "LARGEST_SHORTFALL",
    "PREDICTION_TARGET",
    "QUANTISED",
    "QUANTISED_SHARE",
    "SECTION",
    "SETS",
    "TRAINING_TARGET",
    "run",
]

TRAINING_TARGET, PREDICTION_TARGET = 2.0, 3.0  # times the speed of the reference implementation
LARGEST_SHORTFALL = 0.005  # of the mean accuracy
QUANTISED_SHARE, ACCURACY_LOST_BY_QUANTISING = 0.05, 0.01  # of .ftz against .bin
SETS = {"ag-news": "AG News", "thucnews": "THUCNews", "chnsenticorp": "ChnSentiCorp", "sst2": "SST-2", "trec": "TREC"}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "defaults": {"learning_rate": 0.1, "vector_size": 100, "epochs": 5, "word_ngrams": 1, "buckets": 200_000},
    "bigrams": {"learning_rate": 0.5, "vector_size": 50, "epochs": 25, "word_ngrams": 2, "buckets": 200_000},
}
QUANTISED = "bigrams"  # hashed n-grams are what makes models large
CUTOFF = 40_000  # rows that the quantised model keeps
_THREADS = 2
_CHOSEN = "; ".join(
    f"*{name}*: " + ", ".join(f"{setting}={value:g}" for setting, value in chosen.items())
    for name, chosen in CONFIGURATIONS.items()
)


def run(bench: Bench) -> None:
    """Measures both sides in turns; who begins changes with every seed."""
    require("fasttext")
    settings = {"threads": _THREADS, "configurations": CONFIGURATIONS, "cutoff": CUTOFF}
    peers = ("fasttext-numpy2-wheel",)
    results = bench.results("classification", settings, corpus=False, keep=not bench.quick, peers=peers)
    there = {(row["set"], row["configuration"], row["side"], row["seed"]) for row in results.rows}
    for name in list(SETS)[-1:] if bench.quick else SETS:
        texts = bench.work / name
        sizes = bench.job("label_texts", dataset=name, target=texts)
        for turn, seed in enumerate(bench.seeds(1, 2, 3)):
            for configuration, chosen in CONFIGURATIONS.items():
                both = {**chosen, "threads": _THREADS, "seed": seed}
                for side in ("ours", "reference") if turn % 2 == 0 else ("reference", "ours"):
                    if (name, configuration, side, seed) in there:
                        continue
                    if side == "ours":
                        found = _ours(bench, name, both, quantised=configuration == QUANTISED and turn == 0)
                    else:
                        found = bench.job("classify_reference", folder=texts, settings=both)
                    row = {"set": name, "configuration": configuration, "side": side, "seed": seed}
                    results.add({**row, "texts": sizes["train"], "tested": sizes["test"], **found})


def _ours(bench: Bench, name: str, settings: dict[str, Any], *, quantised: bool) -> dict[str, Any]:
    """Trains ours; the text is numbered anew, as the other side reads it anew each time."""
    model, texts = bench.work / "run", bench.work / name
    bench.clear(model)
    bench.clear(bench.work / "cache" / "labelled")
    found = bench.job("classify_ours", folder=texts, settings=settings, run=model)
    if quantised:
        small = bench.job("quantise_classifier", folder=texts, run=model, cutoff=CUTOFF, target=bench.work)
        found |= {key: value for key, value in small.items() if key != "wall_seconds"}
    return found


# --- the page -------------------------------------------------------------------------------------------------------


def _facts(rows: Rows, result: Result) -> dict[str, Any]:
    scores = []
    for group in rows.by("configuration").values():
        if pairs := [(ours["accuracy"], theirs["accuracy"]) for ours, theirs in _pairs(group)]:
            scores.append(Score(pairs, allowed=LARGEST_SHORTFALL))
    small = [row for row in rows if "ftz_bytes" in row]
    times = {"training": "seconds", "whole": "whole_seconds", "predicting": "predict_seconds"}
    return {
        "name": SETS[rows[0]["set"]],
        "seeds": ", ".join(map(str, sorted(result.rows.by("seed")))),
        "texts_predicted": result.rows[0]["predicted"],
        "medians": {name: _medians(rows, seconds) for name, seconds in times.items()},
        "totals": {name: _totals(rows, seconds) for name, seconds in times.items()},
        "plotted": {
            f"{name} {configuration}": _medians(rows.where(configuration=configuration), seconds)
            for name, seconds in times.items()
            for configuration in CONFIGURATIONS
        },
        "accuracies": scores[0] if scores else Numbers(),
        "lead": Numbers([statistics.mean(map(float, scores))] if scores else []),
        "share": Numbers(row["ftz_bytes"] / row["bin_bytes"] for row in small),
        "gain": Numbers(row["ftz_accuracy"] - row["bin_accuracy"] for row in small),
        "lost": Numbers(row["bin_accuracy"] - row["ftz_accuracy"] for row in small),
    }


def _pairs(rows: Rows) -> list[tuple[Row, Row]]:
    return [pair for group in rows.by("set configuration").values() for pair in group.beside("reference", "seed")]


def _medians(rows: Rows, seconds: str) -> Numbers:
    """How many times as fast ours is, by the medians of both sides."""
    ours, theirs = (getattr(rows.where(side=side), seconds) for side in ("ours", "reference"))
    return Numbers([float(theirs) / float(ours)] if ours and theirs else [])


def _totals(rows: Rows, seconds: str) -> Numbers:
    """How many times as fast ours is, summed over the sets that both sides have, seed by seed."""
    sums: dict[int, list[tuple[float, float]]] = {}
    for ours, theirs in _pairs(rows):
        sums.setdefault(ours["seed"], []).append((ours[seconds], theirs[seconds]))
    totals = [[sum(side) for side in zip(*times, strict=True)] for times in sums.values()]
    return Numbers(theirs / ours for ours, theirs in totals)


SECTION = Section(
    "Text classification",
    (
        Part(
            f"""
            fastText's classifier beside the fastText project's Python package: ours / the peer's, and in brackets how
            many times as fast ours is, or the difference of accuracy. {_CHOSEN}; {{threads}} threads. Accuracy is the
            mean over the seeds {{seeds}} on held-out texts, and should on no set be lower by more than
            {100 * LARGEST_SHORTFALL:g} points over both settings; both sides read the same lines. *Training* leaves out
            reading, as above; the *whole call* has it, and of ours also encoding the text anew and writing the run. The
            fastText package checks only every tenth of a second whether its threads are done, which counts on small
            sets; therefore the targets are for the time of all sets together:
            """,
            {
                "all sets together, times as fast": "{configuration}",
                "training": "{totals[training]:each}",
                "whole call of training": "{totals[whole]:each}",
                "classifying": "{totals[predicting]:each}",
                "targets": f"≥ {TRAINING_TARGET:g}, -, ≥ {PREDICTION_TARGET:g}",
            },
            by="configuration",
        ),
        Part(
            "Set by set; the time for classifying is that of {texts_predicted:,} texts:",
            {
                "set": "{name}",
                "settings": "{configuration}",
                "texts for training / for testing": "{texts:,} / {tested:,}",
                "training, s": "{ours.seconds:.2f} / {reference.seconds:.2f} (**{medians[training]:.2f}**)",
                "whole call, s": "{ours.whole_seconds:.2f} / {reference.whole_seconds:.2f} (**{medians[whole]:.2f}**)",
                "classifying, s": "{ours.predict_seconds:.2f} / {reference.predict_seconds:.2f} "
                "(**{medians[predicting]:.2f}**)",
                "accuracy": "{accuracies}",
            },
            by="set configuration",
        ),
        Part(
            f"""
            The models of *{QUANTISED}*, as files: `wenmai export RUN fasttext model.ftz --set cutoff={{cutoff}} --set
            retrain=true` keeps the {{cutoff:,}} longest rows, trains them again and writes a byte for every two
            numbers. The target is at most {QUANTISED_SHARE:.0%} of the size for at most
            {100 * ACCURACY_LOST_BY_QUANTISING:g} point.
            """,
            {
                "set": "{name}",
                "`.bin`, MB": "{bin_bytes:.2fMB}",
                "`.ftz`, MB": "{ftz_bytes:.2fMB}",
                "share": "**{share:.1%}**",
                "accuracy of `.bin`": "{bin_accuracy:.2%}",
                "of `.ftz`": "{ftz_accuracy:.2%}",
                "points": "{gain:pp}",
                "seconds": "{ftz_seconds:.1f}",
            },
            by="set",
            has="ftz_bytes",
        ),
    ),
    *(
        Claim(
            f"{name}: speed over official fastText's (the lower of two configurations)",
            f"{{totals[{value}]:.2f}} ×",
            f"≥ {target:g} ×",
            by="configuration",
            worst=True,
            chinese=f"{chinese}：速度与官方 fastText 之比（两种配置中较低者）",
        )
        for name, chinese, value, target in (
            ("training a classifier", "训练文本分类器", "training", TRAINING_TARGET),
            ("classifying many texts", "批量分类文本", "predicting", PREDICTION_TARGET),
        )
    ),
    Claim(
        "accuracy minus official fastText's, the lowest of the five sets",
        "{lead:pp} points",
        f"≥ {-100 * LARGEST_SHORTFALL:g} points",
        by="set",
        worst=True,
        chinese="文本分类准确率减官方 fastText 准确率，五个数据集中最低者（points 为百分点）",
    ),
    Claim(
        "quantised classifier: size of `.ftz` over `.bin`, the largest",
        "{share.most:.3gpp} %",
        f"≤ {100 * QUANTISED_SHARE:g} %",
    ),
    Claim(
        "quantised classifier: accuracy lost, the most",
        "{lost.most:.3gpp} points",
        f"≤ {100 * ACCURACY_LOST_BY_QUANTISING:g} points",
    ),
    facts=_facts,
    plot=Bars(
        by="set",
        label="{name}",
        panels={
            "training": {name: f"plotted[training {name}]" for name in CONFIGURATIONS},
            "classifying": {name: f"plotted[predicting {name}]" for name in CONFIGURATIONS},
        },
        x="times as fast as the fastText package",
        size=(9, 2.8),
        mark={"training": TRAINING_TARGET, "classifying": PREDICTION_TARGET},
    ),
)
