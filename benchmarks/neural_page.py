"""The sections of ``docs/benchmarks.md`` on the neural systems."""

import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import decoding, training
from benchmarks.figures import Content, exponent, latest, median, round_ratios
from benchmarks.layers import KINDS
from benchmarks.neural import COMPILED_AFTER
from benchmarks.tables import megabytes, table

__all__ = ["SECTIONS", "ratio_cell", "train_command"]

MODE_NAMES = {"float32": "float32", "bfloat16": "bfloat16 (autocast)", "default": "as users have it"}
_HIDDEN = ("threads", "seed")  # of a run: they are in its command, but do not make it another model


def _decoding(content: Content) -> str:
    rows = []
    ratios = {peer: round_ratios(content, "case", "batch", peer=peer) for peer in ("generate", "ctranslate2")}
    for case, batch in dict.fromkeys((row["case"], row["batch"]) for row in content["rows"]):
        speeds = []
        for side in decoding.SIDES:
            there = any((row["case"], row["batch"], row["side"]) == (case, batch, side) for row in content["rows"])
            speed = median(content, "tokens_per_second", case=case, batch=batch, side=side) if there else None
            speeds.append("-" if speed is None else f"{speed:,.0f}")
        cells = []
        for peer in ratios:
            found = ratios[peer].get((case, batch))
            cells += [ratio_cell(found), f"≥ {decoding.TARGETS[case, batch][peer]:g}"]
        rows.append((case, batch, *speeds, *cells))
    heading = (
        "model", "batch", "ours, tokens/s", "generate", "CTranslate2", "over generate (each round)", "target",
        "over CTranslate2", "target",
    )  # fmt: skip
    settings = content["settings"]
    text = (
        f"Equal random models in float32, {settings['threads']} threads; sources of {settings['source_length']} "
        f"tokens, {settings['steps']} tokens made for each (the end token is banned until then), a vocabulary of "
        f"{next(iter(decoding.CASES.values()))['vocab_size']:,}. The encoder's time is in it. CTranslate2 decodes our "
        "own model, exported; `generate` is Hugging Face's with `MarianMTModel`, one beam and its cache. Each "
        f"measurement is a process that decodes for {settings['seconds']:g} s, the peers after a first batch, ours "
        f"after {COMPILED_AFTER:,} steps: from then on a step of few rows is one compiled function, as in a long job "
        "or a service ([decision 14](adr/0014-a-compiled-step-for-few-hypotheses.md)); a short job has less. "
        "The median batch counts.\n"
    )
    return text + "\n" + table(heading, rows)


def _training(content: Content) -> str:
    rows = []
    for (mode,), ratios in round_ratios(content, "mode", peer="trainer").items():
        ours, peer = (
            {
                name: median(content, name, mode=mode, side=side)
                for name in ("tokens_per_second", "seconds", "peak_memory_bytes")
            }
            for side in ("ours", "trainer")
        )
        updates = content["settings"]["steps"]
        rows.append(
            (
                MODE_NAMES[mode],
                f"{ours['tokens_per_second']:,.0f}",
                f"{peer['tokens_per_second']:,.0f}",
                ratio_cell(ratios),
                f"≥ {training.TARGET:g}",
                f"{ours['seconds'] / updates:.2f} / {peer['seconds'] / updates:.2f}",
                f"{megabytes(ours['peak_memory_bytes'])} / {megabytes(peer['peak_memory_bytes'])}",
            )
        )
    settings, first = content["settings"], content["rows"][0]
    text = (
        f"A Transformer of {settings['num_layers']}+{settings['num_layers']} layers of {settings['hidden_size']} "
        f"({first['parameters']:,} parameters, the same on both sides) on `{settings['pairs']}`: batches of at most "
        f"{settings['batch_tokens']:,} tokens, planned and padded by us ({first['target_padding']:.1%} of the targets "
        "is padding), the very same for both and in the same order; label smoothing, Adam, clipping and dropout as "
        f"ours; {settings['threads']} threads. Tokens are real target tokens: padding is work but counts for nothing. "
        f"Measured are {settings['steps']} updates after {settings['warm_up']}. Ours is the loop that `wenmai train` "
        "runs; the peer is `MarianMTModel` in `transformers.Trainer`. *As users have it* is our `precision=auto`, "
        "which takes bfloat16 where the processor has it, against what `Trainer` does unless told otherwise. The lead "
        "is smaller where a processor has neither AVX-512 nor bfloat16: "
        "[decision 11](adr/0011-products-by-onednn-and-bfloat16-where-it-is-real.md) says how much.\n"
    )
    heading = (
        "precision", "ours, tokens/s", "Trainer", "ratio (each round)", "target", "seconds an update", "peak MB",
    )  # fmt: skip
    return text + "\n" + table(heading, rows)


def _layers(content: Content) -> str:
    lengths = list(dict.fromkeys(row["length"] for row in content["rows"]))
    tables = []
    for value, scale, title, digits in (
        ("seconds", 1e3, "milliseconds, forward and backward", 1),
        ("memory_bytes", 1e-6, "peak memory, MB", 1),
    ):
        rows = []
        for kind, (cost, steps) in KINDS.items():
            sizes = [scale * median(content, value, kind=kind, length=length) for length in lengths]
            power = exponent(content, kind, value)
            told = "-" if power is None else f"**{power:.2f}**"
            theory = (cost, steps) if value == "seconds" else ()
            rows.append((kind, *theory, *(f"{size:,.{digits}f}" for size in sizes), told))
        theory_heading = ("cost", "sequential steps") if value == "seconds" else ()
        heading = (title, *theory_heading, *(f"n = {length:,}" for length in lengths), "exponent")
        tables.append(table(heading, rows))
    settings = content["settings"]
    text = (
        f"One layer of width d = {settings['width']} on {settings['batch']} sequences of n tokens, "
        f"{settings['threads']} threads: self-attention with {settings['heads']} heads, a GRU, a gated convolution "
        f"with a kernel of k = {settings['kernel']} (and the linear layer before it), self-attention restricted to r = "
        f"{settings['radius']} tokens on each side. *Exponent* is the slope of a straight line through the logarithms "
        f"from n = {settings['fit_from']} on: 2 is quadratic, 1 linear. Projections, which cost O(n·d²), are a part of "
        "both attentions, so the quadratic part shows only where n is well above d. Memory is by how much the peak of "
        "the process rose; torch's fused attention never holds the n × n weights, so what self-attention needs grows "
        "with n only.\n"
    )
    return text + "\n" + "\n".join(tables)


def _translation(content: Content) -> str:
    parts = [
        "Finished runs, measured on test sets that they were not trained on; a beam of "
        f"{content['settings']['beam']}. BLEU and chrF2 have intervals of 95 % (bootstrap over the sentences). "
        "Seconds are by the clock of machines that were not idle otherwise: they say what a training took, not which "
        "model is faster. One seed each. `gru-every-step` and `gru-first-state` are the GRU without attention: one "
        "vector for the whole source, seen at every step or as the first state alone. They learn more slowly and were "
        "still getting better, so what they lack is in part training; which share of the score is missing at which "
        "length says more than the score.\n"
    ]
    for pairs, rows in latest(content).items():
        parts.append(f"### {pairs}\n")
        cells = [
            (
                row["run"],
                row["system"],
                ", ".join(_differing(row, rows)) or "-",
                f"{row['parameters']:,}",
                f"{row['training_seconds']:,.0f} ({row['steps']:,} updates, {row['threads']} threads)",
                f"**{row['bleu']:.1f}** [{row['bleu_low']:.1f}, {row['bleu_high']:.1f}]",
                f"{row['chrf']:.1f} [{row['chrf_low']:.1f}, {row['chrf_high']:.1f}]",
                f"{row['exact_match']:.1%}",
            )
            for row in rows
        ]
        heading = ("run", "system", "settings that differ", "parameters", "training, s", "BLEU", "chrF2", "exact")
        parts.append(table(heading, cells))
        signatures = dict.fromkeys(row[name] for row in rows for name in ("signature", "chrf_signature"))
        parts.append(f"{rows[0]['sentences']:,} sentences; {', '.join(f'`{name}`' for name in signatures)}.\n")
        buckets = {(bucket["low"], bucket["high"]): bucket["sentences"] for row in rows for bucket in row["buckets"]}
        unit = rows[0]["length_unit"]
        names = [f"{low}+" if high is None else f"{low}-{high}" for low, high in sorted(buckets, key=lambda b: b[0])]
        scores = [
            (row["run"], *(f"{found[low]:.1f}" for low, _ in sorted(buckets, key=lambda b: b[0])))
            for row in rows
            for found in [{bucket["low"]: bucket["bleu"] for bucket in row["buckets"]}]
        ]
        counts = ("sentences", *(count for _, count in sorted(buckets.items(), key=lambda item: item[0][0])))
        parts.append(table((f"BLEU by {unit} of the source", *names), [*scores, counts]))
    rows = list({row["run"]: row for found in latest(content).values() for row in found}.values())
    parts.append("The commands that train them (files without their folders):\n")
    parts.append("```\n" + "\n".join(train_command(row) for row in rows) + "\n```\n")
    return "\n".join(parts)


def _differing(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings, other than the defaults of its system, that not all runs share."""
    return [
        f"{name}={_setting(value)}"
        for name, value in row["changed"].items()
        if name not in _HIDDEN
        and not all(name in other["changed"] and other["changed"][name] == value for other in rows)
    ]


def train_command(row: Mapping[str, Any]) -> str:
    """The command that makes a run again."""
    valid = [] if row["valid"] is None else ["--valid", row["valid"]]
    chosen = [part for name, value in row["changed"].items() for part in ("--set", f"{name}={_setting(value)}")]
    out = ["--out", f"runs/{row['run']}"]
    corpus = [row["corpus"]] if "on" in row else ["--data", row["corpus"]]
    return shlex.join(["wenmai", "train", row["system"], *corpus, *valid, *out, *chosen])


def _setting(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def ratio_cell(ratios: Sequence[float] | None) -> str:
    """The median of some ratios, and each of them."""
    if not ratios:
        return "-"
    return f"**{statistics.median(ratios):.2f}** ({', '.join(f'{ratio:.2f}' for ratio in ratios)})"


SECTIONS: dict[str, tuple[str, Callable[[Content], str]]] = {
    "decoding": ("Decoding", _decoding),
    "training": ("Training a Transformer", _training),
    "layers": ("What a layer costs", _layers),
    "translation": ("Translation", _translation),
}
