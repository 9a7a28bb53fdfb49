"""The sections of the page about fastText, GloVe, PPMI-SVD and fastText's classifier."""

import statistics
from collections.abc import Callable

from benchmarks import classification, fasttext, glove, quality
from benchmarks.figures import SYSTEM_NAMES, Content, accuracy_means, median, round_ratios, subword_means, total_ratios
from benchmarks.tables import megabytes, table

__all__ = ["SECTIONS", "TITLES"]

TITLES = {
    "glove": "GloVe",
    glove.REFERENCE: "GloVe, its own programs",
    "ppmi-svd": "PPMI-SVD",
    "word2vec-sgns": "word2vec, skip-gram",
}
_TESTS = quality.SIMILARITY | quality.ANALOGIES


def _fasttext(content: Content) -> str:
    settings = content["settings"]
    rows = []
    for system in fasttext.SYSTEMS:
        ratios = {
            peer: round_ratios(content, "system", peer=peer, value="words_per_second", turn="seed").get((system,), [])
            for peer in ("official", "gensim")
        }
        sides = [
            side
            for side in fasttext.SIDES
            if any((row["system"], row["side"]) == (system, side) for row in content["rows"])
        ]
        for side in sides:
            found = {
                name: median(content, name, system=system, side=side)
                for name in ("words_per_second", "seconds", "wall_seconds", "peak_memory_bytes")
            }
            target = fasttext.TARGETS.get(system) if side == "official" else None
            rows.append(
                (
                    SYSTEM_NAMES[system][0],
                    side,
                    f"{found['words_per_second'] / 1e6:.3f}",
                    _ratio(ratios.get(side, [])),
                    "" if target is None else f"≥ {target:g}",
                    f"{found['seconds']:.1f}",
                    f"{found['wall_seconds']:.1f}",
                    megabytes(found["peak_memory_bytes"]),
                )
            )
    heading = (
        "system", "side", "M words/s", "ours over it (each seed)", "target", "seconds of training",
        "seconds of the process", "peak MB",
    )  # fmt: skip
    scores, seeds = [], []
    for peer in ("official", "gensim"):
        means = subword_means(content, peer)
        shared = {row["seed"] for row in content["rows"] if row["side"] == "ours"}
        shared &= {row["seed"] for row in content["rows"] if row["side"] == peer}
        seeds.append(f"{', '.join(map(str, sorted(shared)))} beside {peer}")
        for system in fasttext.SYSTEMS:
            cells = [_difference(means.get((system, test)), fasttext.LARGEST_SHORTFALL) for test in _TESTS]
            scores.append((f"{SYSTEM_NAMES[system][0]}: ours / {peer}", *cells))
    return (
        f"d = {settings['vector_size']}, n-grams of {settings['min_ngram']} to {settings['max_ngram']} characters in "
        f"{settings['buckets']:,} buckets, window {settings['window']}, {settings['negative']} negatives drawn by the "
        f"counts to the power {settings['noise_exponent']:g}, sample {settings['sample']:g}, min_count "
        f"{settings['min_count']}, epochs: {settings['epochs']}, {settings['threads']} threads, learning rate "
        f"{settings['learning_rate']:g}; the same on all sides. *official* is the fastText project's Python package. "
        "Words/s are all words of the text times epochs over the time of training alone, the same numerator "
        "everywhere. The official package reads, allocates and trains in one call; of its time that of the same call "
        "with no epochs is taken off; it takes no seed from Python, and fills a tenth of its rows "
        "for each thread before it trains, so that with few threads most begin as zeros. Both peers read a "
        "copy with a line break after every 1,000 words.\n\n"
        + table(heading, rows)
        + f"\nMeans over the seeds that both have ({'; '.join(seeds)}): ours / the peer's and the difference. All "
        "vectors are scored by the same code, as under *Quality*.\n\n" + table(("system", *_TESTS), scores)
    )


def _glove(content: Content) -> str:
    settings = content["settings"]
    found = list(dict.fromkeys(row["system"] for row in content["rows"]))
    rows = []
    for system in found:
        chosen = [row for row in content["rows"] if row["system"] == system]
        counted = [row for row in chosen if "counting_seconds" in row]
        swept = [row for row in chosen if "non_zeros_per_second" in row]
        scores = []
        for test in _TESTS:
            values = [row["scores"][test] for row in chosen if row["scores"][test] is not None]
            scores.append(f"{statistics.mean(values):.4f}" if values else "-")
        rows.append(
            (
                TITLES[system],
                _middle(counted, "counted_per_second", 1e6),
                f"{counted[0]['non_zeros']:,}" if counted else "-",
                _middle(swept, "non_zeros_per_second", 1e6),
                _middle(chosen, "seconds", 1, digits=1),
                megabytes(median(content, "peak_memory_bytes", system=system)),
                *scores,
            )
        )
    heading = (
        "system", "counting, M words/s", "counts", "training, M counts/s", "seconds of training", "peak MB", *_TESTS,
    )  # fmt: skip
    seeds = sorted({row["seed"] for row in content["rows"]})
    epochs = settings["systems"]["glove"]["epochs"]
    return (
        f"d = {settings['vector_size']}, min_count {settings['min_count']}, {settings['threads']} threads; GloVe with "
        f"{epochs} epochs and its window of 10 on both sides, PPMI-SVD with its window of 5, skip-gram as in the "
        "comparison with gensim; everything else is the default. *Counts* are the cells of the table of co-occurrences "
        "that are not zero. Counting should reach "
        f"{glove.COUNTING_TARGET / 1e6:g} M words/s and training {glove.TRAINING_TARGET / 1e6:g} M counts/s with "
        "GloVe's settings; seconds of training are without counting, and PPMI-SVD's are those of its decomposition. "
        f"Scores are means over the seeds {', '.join(map(str, seeds))}. Of GloVe's own programs (in C, double "
        "precision) counting is `cooccur` alone and training the whole of `glove`; the memory that of the largest.\n\n"
    ) + table(heading, rows)


def _classification(content: Content) -> str:
    settings = content["settings"]
    means = accuracy_means(content)
    rows = []
    for name, configuration in means:
        chosen = {"set": name, "configuration": configuration}
        one = next(row for row in content["rows"] if row["set"] == name)
        times = [
            [median(content, seconds, **chosen, side=side) for side in ("ours", "reference")]
            for seconds in ("seconds", "whole_seconds", "predict_seconds")
        ]
        rows.append(
            (
                classification.SETS[name],
                configuration,
                f"{one['texts']:,} / {one['tested']:,}",
                *(f"{ours:.2f} / {theirs:.2f} (**{theirs / ours:.2f}**)" for ours, theirs in times),
                _difference(means[name, configuration], classification.LARGEST_SHORTFALL),
            )
        )
    totals = []
    for label, seconds, target in (
        ("training", "seconds", classification.TRAINING_TARGET),
        ("the whole call of training", "whole_seconds", None),
        ("classifying", "predict_seconds", classification.PREDICTION_TARGET),
    ):
        ratios = total_ratios(content, seconds)
        cells = [_ratio(ratios.get(configuration, [])) for configuration in settings["configurations"]]
        totals.append((label, *cells, "-" if target is None else f"≥ {target:g}"))
    told = "; ".join(
        f"*{name}*: " + ", ".join(f"{setting}={value:g}" for setting, value in chosen.items())
        for name, chosen in settings["configurations"].items()
    )
    predicted = content["rows"][0]["predicted"]
    seeds = sorted({row["seed"] for row in content["rows"]})
    heading = (
        "set", "settings", "texts for training / for testing", "training, s", "whole call, s",
        f"classifying {predicted:,}, s", "accuracy",
    )  # fmt: skip
    text = (
        "fastText's classifier beside the fastText project's Python package: ours / the peer's, and in brackets how "
        f"many times as fast ours is, or the difference of accuracy. {told}; {settings['threads']} threads. Accuracy "
        f"is the mean over the seeds {', '.join(map(str, seeds))} on texts set aside, and should on no set be lower by "
        f"more than {100 * classification.LARGEST_SHORTFALL:g} points over both settings; both sides read the "
        "same lines. *Training* leaves out reading, as above; the *whole call* has it, and of ours also numbering the "
        "text anew and writing the run. The fastText package looks only every tenth of a second whether its threads "
        "are done, which counts on small sets; therefore the targets are asked of the time of all sets together:\n\n"
        + table(("all sets together, times as fast", *settings["configurations"], "target"), totals)
        + "\n"
        + table(heading, rows)
    )
    return text + _quantised(content)


def _quantised(content: Content) -> str:
    small = [row for row in content["rows"] if "ftz_bytes" in row]
    if not small:
        return ""
    rows = [
        (
            classification.SETS[row["set"]],
            f"{row['bin_bytes'] / 1e6:.2f}",
            f"{row['ftz_bytes'] / 1e6:.2f}",
            f"**{row['ftz_bytes'] / row['bin_bytes']:.1%}**",
            f"{row['bin_accuracy']:.2%}",
            f"{row['ftz_accuracy']:.2%}",
            f"{100 * (row['ftz_accuracy'] - row['bin_accuracy']):+.2f}",
            f"{row['ftz_seconds']:.1f}",
        )
        for row in small
    ]
    cutoff = content["settings"]["cutoff"]
    heading = (
        "set", "`.bin`, MB", "`.ftz`, MB", "share", "accuracy of `.bin`", "of `.ftz`", "points", "seconds",
    )  # fmt: skip
    return (
        f"\nThe models of *{classification.QUANTISED}*, as files: `wenmai export RUN fasttext model.ftz --set cutoff="
        f"{cutoff} --set retrain=true` keeps the {cutoff:,} longest rows, trains them again and writes a byte for "
        f"every two numbers. At most {classification.QUANTISED_SHARE:.0%} of the size for at most "
        f"{100 * classification.ACCURACY_LOST_BY_QUANTISING:g} point is the target.\n\n"
    ) + table(heading, rows)


def _autotune(content: Content) -> str:
    rows = []
    for row in content["rows"]:
        names = ("epochs", "learning_rate", "vector_size", "word_ngrams", "min_ngram", "max_ngram", "buckets")
        found = ", ".join(
            f"{name}={row[name]:.3g}" if name == "learning_rate" else f"{name}={row[name]}" for name in names
        )
        rows.append(
            (
                classification.SETS[row["set"]],
                f"{row['default']:.2%}",
                f"**{row['tuned']:.2%}**",
                f"{100 * (row['tuned'] - row['default']):+.2f}",
                row["trials"],
                found,
            )
        )
    heading = ("set", "defaults", "tuned", "points", "trials", "settings found")
    return (
        f"`wenmai autotune` for {content['settings']['seconds']:g} s, {content['settings']['threads']} threads, on the "
        "sets above: it sees the texts for training and those for validation; accuracy is that on the texts for "
        "testing, beside a training with the defaults of `fasttext-supervised`.\n\n"
    ) + table(heading, rows)


def _ratio(ratios: list[float]) -> str:
    if not ratios:
        return "-"
    return f"**{statistics.median(ratios):.2f}** ({', '.join(f'{ratio:.2f}' for ratio in ratios)})"


def _difference(means: tuple[float, float, int] | None, allowed: float) -> str:
    if means is None:
        return "-"
    ours, theirs, _ = means
    bold = "" if ours - theirs >= -allowed else "**"
    return f"{ours:.4f} / {theirs:.4f} ({bold}{ours - theirs:+.4f}{bold})"


def _middle(rows: list[dict[str, float]], name: str, unit: float, *, digits: int = 2) -> str:
    return f"{statistics.median(row[name] for row in rows) / unit:.{digits}f}" if rows else "-"


SECTIONS: dict[str, tuple[str, Callable[[Content], str]]] = {
    "fasttext": ("fastText: vectors with subwords", _fasttext),
    "glove": ("GloVe and PPMI-SVD", _glove),
    "classification": ("Classifying texts", _classification),
    "autotune": ("Settings found by search", _autotune),
}
