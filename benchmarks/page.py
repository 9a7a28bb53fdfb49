"""``docs/benchmarks.md``: every figure on it, and every plot, is computed from the results."""

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import language_page, neural_page, numbering, quality, static_page, word2vec
from benchmarks.claims import claims
from benchmarks.figures import (
    SYSTEM_NAMES,
    Content,
    Results,
    extra_memory,
    median,
    quality_means,
    read_results,
    speed_ratios,
    words_per_core,
)
from benchmarks.harness import ROOT
from benchmarks.tables import megabytes, table

__all__ = ["PAGE", "page_text", "write_page"]

PAGE = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = """# How fast, how good

This page is written by `python -m benchmarks page` from the files in `benchmarks/results`; no figure on it is typed by
hand. `make bench` measures everything again; `benchmarks/README.md` tells how to measure a part. Speed is measured in
whole processes on an otherwise idle machine; sides that are compared take turns in one run. Where something was
repeated, the table shows the median, and the result file has every measurement.
"""


def write_page(folder: Path, page: Path) -> Path:
    """Writes the page, and its plots into a folder of the same name beside it.

    Args:
        folder: Where the results are.
        page: The Markdown file to write.
    """
    from benchmarks import plots

    results = read_results(folder)
    drawn = plots.draw(results, page.with_suffix(""))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(page_text(results, {name: f"{page.stem}/{name}.svg" for name in drawn}), encoding="utf-8")
    return page


def page_text(results: Results, plots: Mapping[str, str]) -> str:
    """Returns the page; ``plots`` has the relative path of each plot."""
    parts = [INTRODUCTION]
    if any(content["quick"] for content in results.values()):
        parts.append("**Some of these results are of a quick check with tiny sizes. They mean nothing.**\n")
    listed = [(claim.name[0], claim.target, claim.value, "yes" if claim.met else "**no**") for claim in claims(results)]
    parts.append(table(("what", "target", "measured", "met"), listed))
    for theme, (title, section) in SECTIONS.items():
        parts.append(f"## {title}\n")
        if theme not in results:
            parts.append(f"Not measured yet: `python -m benchmarks {theme}`.\n")
            continue
        if theme in plots:
            parts.append(f"![{title}]({plots[theme]})\n")
        parts += [section(results[theme]), _origin(results[theme])]
    return "\n".join(parts)


# --- sections -----------------------------------------------------------------------------------------------------


def _word2vec(content: Content) -> str:
    rows = []
    for (system, size), ratios in speed_ratios(content).items():
        ours, peer = (
            {
                name: median(content, name, system=system, vector_size=size, side=side)
                for name in ("words_per_second", "seconds", "wall_seconds", "peak_memory_bytes")
            }
            for side in ("ours", "gensim")
        )
        rows.append(
            (
                SYSTEM_NAMES[system][0],
                size,
                _millions(ours["words_per_second"]),
                _millions(peer["words_per_second"]),
                f"**{statistics.median(ratios):.2f}** ({', '.join(f'{ratio:.2f}' for ratio in ratios)})",
                f"≥ {word2vec.TARGETS[system, size]:g}",
                f"{ours['seconds']:.1f} / {peer['seconds']:.1f}",
                f"{ours['wall_seconds']:.1f} / {peer['wall_seconds']:.1f}",
                f"{megabytes(ours['peak_memory_bytes'])} / {megabytes(peer['peak_memory_bytes'])}",
            )
        )
    heading = (
        "system", "d", "ours, M words/s", "gensim", "ratio (each round)", "target",
        "seconds of training", "seconds of the process", "peak MB",
    )  # fmt: skip
    settings, corpus = content["settings"], content["corpus"]
    scan = median(content, "scan_seconds", side="gensim")
    read = max(row["words_read"] for row in content["rows"] if row["side"] == "gensim")
    text = (
        f"Window {settings['window']}, 5 negatives (or none), sample {settings['sample']:g}, "
        f"min_count {settings['min_count']}, {settings['epochs']} epochs, {settings['threads']} threads, the same "
        "learning rates. Words/s are all words of the text times epochs over the time of training alone, the same "
        "numerator on both sides; pairs of figures are ours / gensim. What comes before training is not in the ratio: "
        f"numbering the corpus took {corpus['numbering_seconds']:.1f} s (once, it is kept), gensim's vocabulary scan "
        f"{scan:.1f} s (every time).\n\ngensim reads a copy with a line break after every 1,000 words, because its "
        "threads share a file by lines and cut a line after 10,000 words: of a corpus in one line it would train on "
        f"20,000 words. It reports to have read {read:,} words, of {corpus['words'] * settings['epochs']:,}.\n"
    )
    return text + "\n" + table(heading, rows)


def _quality(content: Content) -> str:
    settings = content["settings"]
    epochs, threads = settings["epochs"], settings["threads"]
    seeds = sorted({row["seed"] for row in content["rows"]})
    higher = (1 - (epochs - 1 + 1 / threads) / (2 * epochs)) / 0.5 - 1
    return (
        f"Means over the seeds {', '.join(map(str, seeds))}: ours / gensim's and the difference, which should not be "
        f"below -{quality.LARGEST_SHORTFALL}. Similarity is Spearman's correlation; analogies are asked among the "
        f"{settings['restrict_vocab']:,} most frequent words. Both sides are trained with the settings of the "
        "comparison above and scored by the same code.\n\n"
        + _scores(content, "gensim")
        + "\nOne setting is not the same in effect. Each thread of gensim's `corpus_file` path compares the words that "
        f"it has read itself with those of the whole text, so with {threads} threads the learning rate falls within an "
        f"epoch only by 1/{threads} of what it should; over {epochs} epochs it is {higher:.0%} higher on average. For "
        "the following, gensim was called once for each epoch with rates that make it fall as asked for:\n\n"
        + _scores(content, "gensim-linear")
    )


def _scores(content: Content, peer: str) -> str:
    means = quality_means(content, peer)
    tests = quality.SIMILARITY | quality.ANALOGIES
    rows = []
    for variant in quality.VARIANTS:
        cells = []
        for test in tests:
            if (variant, test) in means:
                ours, theirs, _ = means[variant, test]
                bold = "" if ours - theirs >= -quality.LARGEST_SHORTFALL else "**"
                cells.append(f"{ours:.4f} / {theirs:.4f} ({bold}{ours - theirs:+.4f}{bold})")
            else:
                cells.append("-")
        rows.append((SYSTEM_NAMES[variant][0], *cells))
    return table(("system", *tests), rows)


def _scaling(content: Content) -> str:
    caches = content["machine"]["caches_bytes"]
    known = ", ".join(f"{name} {size / 2**20:.3g} MiB" for name, size in caches.items())
    parts = []
    for against, label in (("vocabulary", "vocabulary"), ("dimension", "vector_size"), ("threads", "threads")):
        rows = [row for row in content["rows"] if row["against"] == against]
        cells = []
        for value in dict.fromkeys(row[label] for row in rows):
            chosen = {"against": against, label: value}
            speeds = [median(content, "words_per_second", **chosen, system=system) for system in ("sgns", "cbow-ns")]
            row = next(row for row in rows if row[label] == value)
            matrices = 8 * row["vocabulary"] * row["vector_size"]
            kept = [_millions(speed * row["kept_share"]) for speed in speeds]
            cells.append((f"{value:,}", f"{matrices / 2**20:,.0f}", *map(_millions, speeds), *kept))
        heading = (
            against, "matrices, MiB", "skip-gram, M words/s", "CBOW, M words/s", "skip-gram, kept", "CBOW, kept",
        )  # fmt: skip
        parts.append(table(heading, cells))
    fixed, each = _cost_of_dimension(content)
    threads = max(row["threads"] for row in content["rows"] if row["against"] == "threads")
    one, all_ = (
        median(content, "words_per_second", against="threads", system="sgns", threads=count) for count in (1, threads)
    )
    return (
        "One thing changes at a time; the others stay at the settings of the comparison above, for one epoch. Against "
        "the vocabulary the text is made up: 1/rank frequencies, and every word at least once. *Kept* counts only the "
        "words that sub-sampling leaves over, which are the ones that cost something.\n\n"
        "**Where it bends, and why.** *Vocabulary*: a kept word costs the same arithmetic whatever the vocabulary, but "
        "its rows have to come from somewhere. The dotted lines are where the two matrices outgrow a cache "
        f"({known}). Beyond the last one, noise words and rare words come from main memory, and prefetching hides only "
        "a part of the wait; frequent words stay in the cache, which is why the curve falls slowly. *Dimension*: a "
        "word costs a part that does not depend on d (drawing windows and noise, finding rows) and a part that grows "
        f"with d. A straight line through skip-gram's times gives {fixed:.0f} ns and {each:.2f} ns for each dimension, "
        "per word of the text, so the two are equal where d is "
        f"{fixed / each:.0f}, and the speed falls in proportion to d only well beyond. Rows of vocabularies "
        f"this small are padded to multiples of 16 numbers, so d = 50 costs as much as 64; where that would cost more "
        f"than 8 MB a matrix, to multiples of 4. *Threads* share nothing but the matrices; with {threads}, skip-gram "
        f"trains "
        f"{all_ / one:.2f} times as fast as with one.\n\n"
    ) + "\n".join(parts)


def _cost_of_dimension(content: Content) -> tuple[float, float]:
    """Least squares of skip-gram's nanoseconds per word: (constant, per dimension)."""
    points = [
        (row["vector_size"], 1e9 / row["words_per_second"])
        for row in content["rows"]
        if row["against"] == "dimension" and row["system"] == "sgns"
    ]
    line = statistics.linear_regression([size for size, _ in points], [time for _, time in points])
    return line.intercept, line.slope


def _memory(content: Content) -> str:
    rows = [
        (
            f"{row['vocabulary']:,}",
            row["vector_size"],
            f"{row['words']:,}",
            megabytes(row["matrices_bytes"]),
            megabytes(row["training_peak_bytes"]),
            megabytes(row["numbering_peak_bytes"]),
            megabytes(extra_memory(row)),
        )
        for row in content["rows"]
    ]
    heading = (
        "vocabulary",
        "d",
        "words of the text",
        "matrices, MB",
        "peak, MB",
        "peak with numbering, MB",
        "beyond, MB",
    )
    text = (
        "The most that a training process held (resident), in MB: skip-gram with negative sampling on made-up text, "
        "with the corpus numbered before, and with numbering in the same process.\n"
    )
    return text + "\n" + table(heading, rows)


def _numbering(content: Content) -> str:
    rows = []
    for packing in dict.fromkeys(row["packing"] for row in content["rows"]):
        chosen = [row for row in content["rows"] if row["packing"] == packing]
        speeds = (statistics.median(row["words"] / row["seconds"] for row in chosen), words_per_core(content, packing))
        peak = max(row["peak_memory_bytes"] for row in chosen)
        rows.append((packing, megabytes(chosen[0]["bytes"]), *map(_millions, speeds), megabytes(peak)))
    heading = ("file", "its MB", "M words/s", "M words/s per core", "peak MB")
    text = (
        "From an empty cache: hashing the file, reading it, numbering, ordering by frequency, writing. *Per core* is "
        f"per second of processor time, and should be at least {numbering.TARGET_WORDS_PER_SECOND / 1e6:g} M.\n"
    )
    return text + "\n" + table(heading, rows)


def _startup(content: Content) -> str:
    rows = [(f"`{row['what']}`", f"{row['best'] * 1e3:.0f}", f"{row['median'] * 1e3:.0f}") for row in content["rows"]]
    settings = content["settings"]
    text = (
        "Whole processes, the start of the interpreter included (*python alone* is nothing but that). "
        f"`wenmai nearest` loads {settings['words']:,} vectors of {settings['vector_size']} dimensions.\n"
    )
    return text + "\n" + table(("what", "best, ms", "median, ms"), rows)


def _compile(content: Content) -> str:
    rows = []
    for name, deterministic in (("ordinary", False), ("deterministic=true", True)):
        seconds = [
            median(content, "seconds", deterministic=deterministic, cache=cache) for cache in ("empty", "filled")
        ]
        rows.append((name, *(f"{value:.1f}" for value in seconds)))
    text = "Compiled code is kept in numba's cache, once for a machine; one kernel serves all settings.\n"
    return text + "\n" + table(("kernel", "first time, s", "from the cache, s"), rows)


def _deterministic(content: Content) -> str:
    rows = []
    for system, threads in dict.fromkeys((row["system"], row["threads"]) for row in content["rows"]):
        plain, fixed = (
            median(content, "words_per_second", system=system, threads=threads, deterministic=value)
            for value in (False, True)
        )
        rows.append((SYSTEM_NAMES[system][0], threads, _millions(plain), _millions(fixed), f"{plain / fixed:.2f} ×"))
    text = (
        "With one thread the ordinary mode gives the same bytes every time; `deterministic=true` gives the same bytes "
        "for any number of threads, at this price:\n"
    )
    heading = ("system", "threads", "ordinary, M words/s", "deterministic, M words/s", "its cost")
    return text + "\n" + table(heading, rows)


def _search(content: Content) -> str:
    rows = [
        (row["side"], *(f"{row[name] * 1e3:,.1f}" for name in ("median_seconds", "first_seconds", "load_seconds")))
        for row in content["rows"]
    ]
    size, vector_size = content["settings"]["size"], content["settings"]["vector_size"]
    text = f"`most_similar(word, topn=10)` among {size:,} random vectors of {vector_size} dimensions.\n"
    return text + "\n" + table(("side", "median, ms", "first query, ms", "making the object, ms"), rows)


SECTIONS: dict[str, tuple[str, Callable[[Content], str]]] = {
    "word2vec": ("Training speed", _word2vec),
    "quality": ("Quality", _quality),
    "scaling": ("Cost as work grows", _scaling),
    "deterministic": ("The deterministic mode", _deterministic),
    "memory": ("Memory", _memory),
    "numbering": ("Numbering a corpus", _numbering),
    "compile": ("Compilation", _compile),
    "startup": ("Starting", _startup),
    "search": ("Neighbours", _search),
    **static_page.SECTIONS,
    **neural_page.SECTIONS,
    **language_page.SECTIONS,
}


# --- form ---------------------------------------------------------------------------------------------------------


def _origin(content: Content) -> str:
    """Which command measured this, when, of what, and where."""
    machine, corpus = content["machine"], content["corpus"]
    versions = [f"{name} {machine[name]}" for name in ("wenmai", "python", "numpy", "numba") if name in machine]
    versions += [f"{name} {version}" for name, version in content["peer"].items()]
    commits = dict.fromkeys(row["commit"] for row in content["rows"])
    text = "; ".join(f"`{command}`" for command in content["commands"])
    if corpus:
        text += f" on {corpus['name']} ({corpus['words']:,} words, {corpus['vocabulary']:,} in the vocabulary"
        text += f", SHA-256 {corpus['sha256'][:12]}…)"
    memory = f", {machine['memory_bytes'] / 1e9:.0f} GB" if machine["memory_bytes"] else ""
    text += f". {machine['processor']}, {machine['cores']} cores{memory}, {machine['platform']}; {', '.join(versions)}"
    return f"*{text}; commit {', '.join(commits)}, {content['finished'][:10]}.*\n"


def _millions(value: float) -> str:
    return f"{value / 1e6:.2f}"
