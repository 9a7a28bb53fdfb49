"""The plots of the page."""

import statistics
from pathlib import Path
from typing import Any

from benchmarks import classification, fasttext, layers, quality
from benchmarks.figures import Content, Results, exponent, latest, median, round_ratios, speed_ratios
from benchmarks.harness import require
from benchmarks.static_page import TITLES

__all__ = ["draw"]

OURS, PEER, LINEAR, CBOW, GREEN, FAINT = "#1f77b4", "#9aa0a6", "#c0a060", "#d95f02", "#1b9e77", "#c8c8c8"
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#ececec",
    "axes.axisbelow": True,
    "svg.fonttype": "none",  # text stays text: small files, found by searching
    "svg.hashsalt": "wenmai",  # the same results give the same bytes
    "figure.constrained_layout.use": True,
}


def draw(results: Results, folder: Path) -> list[str]:
    """Draws what ``PLOTS`` has, as far as it was measured; returns the names of the plots."""
    drawn = [name for name in PLOTS if name in results]
    if not drawn:
        return []
    require("matplotlib")
    import matplotlib as mpl

    mpl.use("svg")
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in drawn:
            figure = PLOTS[name](results[name])
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return drawn


def _word2vec(content: Content) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.8))
    axes = figure.subplots()
    ratios = speed_ratios(content)
    for place, (system, size) in enumerate(ratios):
        for side, colour, shift in (("ours", OURS, -0.19), ("gensim", PEER, 0.19)):
            speed = median(content, "words_per_second", system=system, vector_size=size, side=side) / 1e6
            axes.barh(place + shift, speed, 0.36, color=colour, label=side if place == 0 else None)
            text = f" {speed:.2f}" + (f"  ({statistics.median(ratios[system, size]):.1f} ×)" if side == "ours" else "")
            axes.text(speed, place + shift, text, va="center")
    axes.set_yticks(range(len(ratios)), [f"{system}, d={size}" for system, size in ratios])
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"million words/s, {content['settings']['threads']} threads")
    figure.legend(frameon=False, loc="outside upper right", ncols=2)
    return figure


def _quality(content: Content) -> Any:
    from matplotlib.figure import Figure

    tests = quality.SIMILARITY | quality.ANALOGIES
    figure = Figure(figsize=(9, 3.1))
    panels = figure.subplots(1, len(tests), sharey=True)
    for axes, test in zip(panels, tests, strict=True):
        for place, (variant, (system, _)) in enumerate(quality.VARIANTS.items()):
            for side, colour, name, shift in (
                ("ours", OURS, variant, -0.2),
                ("gensim", PEER, system, 0),
                ("gensim-linear", LINEAR, system, 0.2),
            ):
                rows = [row for row in content["rows"] if (row["system"], row["side"]) == (name, side)]
                scores = [row["scores"][test] for row in rows if row["scores"][test] is not None]
                label = side if place == 0 and axes is panels[0] else None
                axes.plot(scores, [place + shift] * len(scores), "o", color=colour, alpha=0.8, ms=4, label=label)
        axes.set_title(test, fontsize=9)
        axes.margins(x=0.15)
    panels[0].set_yticks(range(len(quality.VARIANTS)), list(quality.VARIANTS))
    panels[0].invert_yaxis()
    figure.legend(frameon=False, loc="outside upper right", ncols=3)
    figure.supxlabel("score; one dot for each seed", fontsize=9)
    return figure


def _scaling(content: Content) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, NullLocator

    figure = Figure(figsize=(9, 3))
    panels = figure.subplots(1, 3)
    for axes, against, label in zip(
        panels, ("vocabulary", "dimension", "threads"), ("vocabulary", "vector_size", "threads"), strict=True
    ):
        values = list(dict.fromkeys(row[label] for row in content["rows"] if row["against"] == against))
        for system, colour, name in (("sgns", OURS, "skip-gram"), ("cbow-ns", CBOW, "CBOW")):
            speeds = [
                median(content, "words_per_second", against=against, system=system, **{label: value}) / 1e6
                for value in values
            ]
            axes.plot(values, speeds, "o-", color=colour, ms=4, label=name)
        if against != "threads":
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(values)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(against)
        if against == "vocabulary":
            size = content["settings"]["vector_size"]
            for cache, bytes_ in content["machine"]["caches_bytes"].items():
                if values[0] <= bytes_ / (8 * size) <= values[-1]:
                    axes.axvline(bytes_ / (8 * size), color=FAINT, ls=":")
                    axes.text(bytes_ / (8 * size), axes.get_ylim()[1], f" {cache}", va="top", color="#888888")
    panels[0].set_ylabel("million words/s")
    panels[0].legend(frameon=False, loc="lower left")
    return figure


def _fasttext(content: Content) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.2))
    axes = figure.subplots()
    ratios = round_ratios(content, "system", peer="official", value="words_per_second", turn="seed")
    colours = dict(zip(fasttext.SIDES, (OURS, PEER, LINEAR), strict=True))
    there = {(row["system"], row["side"]) for row in content["rows"]}
    for place, system in enumerate(fasttext.SYSTEMS):
        for shift, (side, colour) in zip((-0.27, 0, 0.27), colours.items(), strict=True):
            if (system, side) not in there:
                continue
            speed = median(content, "words_per_second", system=system, side=side) / 1e6
            axes.barh(place + shift, speed, 0.25, color=colour, label=side if place == 0 else None)
            times = statistics.median(ratios[system,]) if side == "ours" and (system,) in ratios else None
            axes.text(speed, place + shift, f" {speed:.2f}" + (f"  ({times:.1f} ×)" if times else ""), va="center")
    axes.set_yticks(range(len(fasttext.SYSTEMS)), list(fasttext.SYSTEMS))
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"million words/s, {content['settings']['threads']} threads")
    figure.legend(frameon=False, loc="outside upper right", ncols=3)
    return figure


def _glove(content: Content) -> Any:
    from matplotlib.figure import Figure

    tests = quality.SIMILARITY | quality.ANALOGIES
    there = {row["system"] for row in content["rows"]}
    titles = {system: title for system, title in TITLES.items() if system in there}
    colours = dict(zip(TITLES, (GREEN, PEER, CBOW, OURS), strict=True))
    figure = Figure(figsize=(9, 0.7 + 0.5 * len(titles)))
    panels = figure.subplots(1, len(tests), sharey=True)
    for axes, test in zip(panels, tests, strict=True):
        for place, system in enumerate(titles):
            scores = [row["scores"][test] for row in content["rows"] if row["system"] == system]
            found = [score for score in scores if score is not None]
            if found:
                axes.barh(place, statistics.mean(found), 0.6, color=colours[system])
        axes.set_title(test, fontsize=9)
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(titles)), list(titles.values()))
    panels[0].invert_yaxis()
    figure.supxlabel("score, mean over the seeds", fontsize=9)
    return figure


def _classification(content: Content) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.8))
    panels = figure.subplots(1, 2, sharey=True)
    shown = (
        ("training", "seconds", classification.TRAINING_TARGET),
        ("classifying", "predict_seconds", classification.PREDICTION_TARGET),
    )
    sets = list(dict.fromkeys(row["set"] for row in content["rows"]))
    there = {(row["set"], row["configuration"], row["side"]) for row in content["rows"]}
    for axes, (title, seconds, target) in zip(panels, shown, strict=True):
        for configuration, colour, shift in zip(
            classification.CONFIGURATIONS, (OURS, GREEN), (-0.19, 0.19), strict=True
        ):
            for place, name in enumerate(sets):
                chosen = {"set": name, "configuration": configuration}
                times = 0.0
                if all((name, configuration, side) in there for side in ("ours", "reference")):
                    ours, peer = (median(content, seconds, **chosen, side=side) for side in ("ours", "reference"))
                    times = peer / ours
                label = configuration if place == 0 and axes is panels[0] else None
                axes.barh(place + shift, times, 0.36, color=colour, label=label)
        axes.axvline(target, color=FAINT, ls=":")
        axes.set_title(title, fontsize=9)
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(sets)), [classification.SETS[name] for name in sets])
    panels[0].invert_yaxis()
    figure.supxlabel("times as fast as the official package; dotted: the target for all sets together", fontsize=9)
    figure.legend(frameon=False, loc="outside upper right", ncols=2)
    return figure


def _layers(content: Content) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4))
    panels = figure.subplots(1, 2)
    units = (("seconds", 1e3, "milliseconds, forward and backward"), ("memory_bytes", 1e-6, "peak memory, MB"))
    for axes, (value, scale, label) in zip(panels, units, strict=True):
        for kind, colour in zip(layers.KINDS, (OURS, CBOW, LINEAR, GREEN), strict=True):
            lengths = list(dict.fromkeys(row["length"] for row in content["rows"] if row["kind"] == kind))
            sizes = [scale * median(content, value, kind=kind, length=length) for length in lengths]
            points = [(length, size) for length, size in zip(lengths, sizes, strict=True) if size > 0]
            power = exponent(content, kind, value)
            name = kind if power is None else f"{kind}: n^{power:.2f}"
            axes.plot([n for n, _ in points], [size for _, size in points], "o-", color=colour, ms=3.5, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("tokens of a sequence, n")
        axes.set_ylabel(label)
        axes.legend(frameon=False, fontsize=8)
    return figure


def _translation(content: Content) -> Any:
    from matplotlib.figure import Figure

    sets = latest(content)
    figure = Figure(figsize=(1.5 + 4.2 * len(sets), 3.4))
    runs = list(dict.fromkeys(row["run"] for rows in sets.values() for row in rows))
    colours = dict(zip(runs, [(OURS, CBOW, GREEN, LINEAR, PEER)[place % 5] for place in range(len(runs))], strict=True))
    for axes, (pairs, rows) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
        places = sorted(
            {(bucket["low"], bucket["high"]) for row in rows for bucket in row["buckets"]}, key=lambda ends: ends[0]
        )
        for row in rows:
            scores = {bucket["low"]: bucket["bleu"] for bucket in row["buckets"]}
            x = [place for place, (low, _) in enumerate(places) if low in scores]
            style = "o-" if row["attention"] else "s--"
            label = row["run"] + ("" if row["attention"] else " (no attention)")
            y = [scores[places[place][0]] for place in x]
            axes.plot(x, y, style, color=colours[row["run"]], ms=4, label=label)
        axes.set_xticks(range(len(places)), [f"{low}+" if high is None else f"{low}-{high}" for low, high in places])
        axes.set_ylim(bottom=0)
        axes.set_title(pairs, fontsize=8)
        axes.set_xlabel(f"{rows[0]['length_unit']} of the source")
        axes.set_ylabel("BLEU")
        axes.legend(frameon=False, fontsize=8)
    return figure


PLOTS = {
    "word2vec": _word2vec,
    "quality": _quality,
    "scaling": _scaling,
    "fasttext": _fasttext,
    "glove": _glove,
    "classification": _classification,
    "layers": _layers,
    "translation": _translation,
}
