"""N-gram models: building and scoring speed, size and agreement, against KenLM.

Building is compared with KenLM's ``lmplz``, which no package has: it is used if it is on the path. Without it,
KenLM's Python package reads the ARPA file of our model, and scoring alone is compared.
"""

import shutil
from typing import Any

from benchmarks.harness import Bench, Results, require
from benchmarks.result import Numbers, Result, Rows
from wenmai.data.catalogue import get

__all__ = ["ORDER", "PERPLEXITY", "run"]

ORDER = 5
_LINES, _LINE_WORDS = 10_000, 20  # of the text that is scored: from the training text, and as many shuffled
_COPIES = 10  # of it, so that the clock has something to measure
PERPLEXITY = ("data:ptb-train", "data:ptb-valid")
_FACTS = ("seconds", "loss", "peak_memory_bytes", "size_bytes", "vocabulary", "ngrams", "discounts")


def run(bench: Bench) -> None:
    """Builds alternately, then scores alternately."""
    require("kenlm")
    lmplz = shutil.which("lmplz")
    settings = {"order": ORDER, "smoothing": "modified-kneser-ney", "lmplz": lmplz is not None, "threads": 2}
    results = bench.results("ngram", settings, baselines=("kenlm",))
    model, arpa, plain = bench.work / "run", bench.work / "model.arpa", bench.work / "plain.txt"
    bench.job("ngram_text", source=bench.corpus.path, target=plain)
    for repeat in range(bench.repeats(3)):
        bench.clear(model)
        bench.clear(bench.work / "cache" / "corpora")
        flags = [f"--set={name}={value}" for name, value in bench.corpus.settings.items()]
        chosen = ("--quiet", "--out", model, f"--set=order={ORDER}", *flags)
        summary, wall = bench.wenmai("train", "ngram", bench.corpus.path, *chosen)
        found = {name: summary[name] for name in _FACTS}
        results.add({"measure": "build", "side": "ours", "repeat": repeat, "wall_seconds": wall, **found})
        if lmplz:
            theirs = bench.job("lmplz", program=lmplz, order=ORDER, text=plain, target=arpa, work=bench.work)
            results.add({"measure": "build", "side": "kenlm", "repeat": repeat, **theirs})
    if not lmplz:
        bench.wenmai("export", model, "arpa", arpa)
    binary = shutil.which("build_binary")
    baseline = arpa
    if binary:
        baseline = bench.work / "model.binary"
        made = bench.job("ngram_binary", program=binary, arpa=arpa, target=baseline)
        results.add({"measure": "size", "side": "kenlm", **made})
    lines = bench.work / "lines.txt"
    bench.job("ngram_lines", source=plain, target=lines, lines=_LINES, words=_LINE_WORDS)
    agreement: dict[str, Any] = bench.job("ngram_agreement", run=model, baseline=baseline, lines=lines)
    results.add({"measure": "agreement", **agreement})
    _perplexities(bench, results, lmplz)
    for repeat in range(bench.repeats(3)):
        for side, path, threads in (("ours", model, 2), ("ours", model, 1), ("kenlm", baseline, 1)):
            chosen = {"side": side, "threads": threads}
            scored = bench.job("ngram_scoring", model=path, lines=lines, copies=_COPIES, **chosen)
            results.add({"measure": "score", **chosen, "repeat": repeat, **scored})


def _perplexities(bench: Bench, results: Results, lmplz: str | None) -> None:
    """Measures both on the Penn Treebank, where ``<unk>`` is a word of the text."""
    train, valid = (get(name.removeprefix("data:")) for name in PERPLEXITY)
    model = bench.work / "ptb"
    bench.clear(model)
    summary, _ = bench.wenmai("train", "ngram", train, "--quiet", "--out", model, f"--set=order={ORDER}")
    found, _ = bench.wenmai("score", model, "--file", valid)
    row = {"measure": "perplexity", "train": PERPLEXITY[0], "on": PERPLEXITY[1]}
    results.add({**row, "side": "ours", "perplexity": found["perplexity"], "vocabulary": summary["vocabulary"]})
    if lmplz:
        texts = [bench.work / f"ptb-{part}.txt" for part in ("train", "valid")]
        for source, target in zip((train, valid), texts, strict=True):
            bench.job("ngram_text", source=source, target=target, unknown="unknown-word")
        arpa = bench.work / "ptb.arpa"
        bench.job("lmplz", program=lmplz, order=ORDER, text=texts[0], target=arpa, work=bench.work)
        results.add({**row, "side": "kenlm", **bench.job("kenlm_perplexity", arpa=arpa, lines=texts[1])})


def _scoring(rows: Rows, threads: int) -> Numbers:
    """Our speed over KenLM's, with some threads of ours; KenLM scores with one."""
    chosen = Rows(row for row in rows if row["side"] == "kenlm" or row.get("threads", 2) == threads)
    return chosen.ratios("kenlm", "words_per_second", "repeat")


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    measures = result.rows.by("measure")
    build, score, sizes = (measures.get(name, Rows()) for name in ("build", "score", "size"))
    binary = rows.where(side="kenlm") and sizes  # of KenLM, what can be queried
    return {
        "agreement": measures["agreement"],
        "building": build.ratios("kenlm", "wall_seconds", "repeat"),
        "scoring": _scoring(score, 2),
        "scoring_alone": _scoring(score, 1),
        "loading": score.where(side="ours").load_seconds,
        "model": (binary or rows).size_bytes,
        "ours_size": build.where(side="ours").size_bytes if sizes else Numbers(),
        "binary_size": sizes.size_bytes,
        "values": ", ".join(f"{row['side']} {row['perplexity']:.3f}" for row in measures.get("perplexity", ())),
    }
