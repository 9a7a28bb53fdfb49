"""The sections of ``docs/benchmarks.md`` on the language models."""

import shlex
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks import context, gpt
from benchmarks.figures import Content, median, ngram_ratios, round_ratios
from benchmarks.neural import COMPILED_AFTER
from benchmarks.neural_page import ratio_cell, train_command
from benchmarks.tables import megabytes, table

__all__ = ["SECTIONS"]


def _ngram(content: Content) -> str:
    rows = content["rows"]
    builds = [row for row in rows if row["measure"] == "build"]
    made = []
    for side in dict.fromkeys(row["side"] for row in builds):
        own = [row for row in builds if row["side"] == side]
        size = (
            own[0]["size_bytes"]
            if side == "ours"
            else next((row["size_bytes"] for row in rows if row["measure"] == "size"), own[0]["size_bytes"])
        )
        seconds = statistics.median(row["wall_seconds"] for row in own)
        peak = max(row["peak_memory_bytes"] for row in own)
        made.append((side, f"{seconds:.1f}", megabytes(peak), megabytes(size)))
    scored = []
    for side in ("ours", "kenlm"):
        own = [row for row in rows if row["measure"] == "score" and row["side"] == side]
        speed = statistics.median(row["words_per_second"] for row in own)
        load = statistics.median(row["load_seconds"] for row in own)
        scored.append((side, f"{speed / 1e6:.2f}", f"{1000 * load:.1f}", megabytes(own[0]["peak_memory_bytes"])))
    agreement = next(row for row in rows if row["measure"] == "agreement")
    built = ratio_cell(ngram_ratios(content, "build", "wall_seconds"))
    told = ratio_cell(ngram_ratios(content, "score", "words_per_second"))
    settings = content["settings"]
    text = (
        f"Unpruned {settings['order']}-grams with modified Kneser-Ney. Building is the time of the whole "
        "process: ours reads the text, numbers it and writes a model that can be asked, KenLM's `lmplz -S 1G` writes "
        "an ARPA file; KenLM's size is that of the probing binary that is made of it afterwards. "
        f"Speed over KenLM's (each round): building {built}, scoring {told}.\n\n"
        + table(("side", "building, s", "peak MB", "model, MB"), made)
        + "\n\nScoring lines from Python, as the users of each package do: `model.score(lines)` with "
        f"{settings['threads']} threads, `kenlm.Model.score` line by line; loading is that of a model on disk after "
        "imports. On "
        f"{agreement['tokens']:,} tokens, half of them in shuffled lines, log10 differs by "
        f"{agreement['largest_difference']:.1e} at most.\n\n"
    )
    text += table(("side", "M words/s", "loading, ms", "peak MB"), scored)
    told = [row for row in rows if row["measure"] == "perplexity"]
    if told:
        both = ", ".join(f"{row['side']} {row['perplexity']:.3f}" for row in told)
        text += (
            f"\nTrained on `{told[0]['train']}` with the same settings, `<unk>` a word like any other, the perplexity "
            f"by word and end of line on `{told[0]['on']}` is: {both}.\n"
        )
    return text


def _gpt(content: Content) -> str:
    rows = []
    found = round_ratios(content, "case", peer="transformers")
    for case in dict.fromkeys(row["case"] for row in content["rows"]):
        speeds = (f"{median(content, 'tokens_per_second', case=case, side=side):,.0f}" for side in gpt.SIDES)
        rows.append((case, *speeds, ratio_cell(found.get((case,))), f"≥ {gpt.TARGETS[case]:g}"))
    settings = content["settings"]
    text = (
        f"Equal GPT-2 models of {settings['num_layers']} layers of {settings['hidden_size']}, vocabulary "
        f"{settings['vocab_size']:,}, in float32, {settings['threads']} threads. Training: updates with AdamW on "
        f"{gpt.CASES['training']} rows of {settings['max_length']} random tokens, dropout 0.1, the median of "
        f"{settings['steps']}. Generation: {settings['made']} greedy tokens after prompts of {settings['prompt']}, "
        "with caches; nothing ends before. `transformers` is `GPT2LMHeadModel`, timed after a first call, ours after "
        f"{COMPILED_AFTER:,} steps: from then on a step of few rows is one compiled function, as in a long job or a "
        "service ([decision 14](adr/0014-a-compiled-step-for-few-hypotheses.md)).\n"
    )
    return text + "\n" + table(("what", "ours, tokens/s", "transformers", "ratio (each round)", "target"), rows)


def _context(content: Content) -> str:
    rows = []
    found = round_ratios(content, "context", peer="vanilla")
    for length in dict.fromkeys(row["context"] for row in content["rows"]):
        speeds = (
            f"{median(content, 'tokens_per_second', context=length, side=side):,.1f}" for side in ("ours", "vanilla")
        )
        rows.append((length, *speeds, ratio_cell(found.get((length,))), f"≥ {context.TARGET:g}"))
    settings = content["settings"]
    text = (
        f"Random models of {settings['num_layers']} layers of {settings['hidden_size']}, vocabulary "
        f"{settings['vocab_size']:,}, {settings['threads']} threads; one text, of which every token is predicted from "
        f"so many tokens before it. Transformer-XL reads {settings['segment']} tokens at a time with its memory; a "
        "Transformer with absolute positions has to read the whole context again for each token (four tokens at "
        "once).\n"
    )
    return (
        text
        + "\n"
        + table(("context", "Transformer-XL, tokens/s", "reading again", "ratio (each round)", "target"), rows)
    )


def _language(content: Content) -> str:
    parts = []
    for on in dict.fromkeys(row["on"] for row in content["rows"]):
        rows = sorted((row for row in content["rows"] if row["on"] == on), key=lambda row: row["bits_per_character"])
        parts.append(f"`{on}`:\n\n" + table(_HEADING, [_run(row) for row in rows]))
    commands = [f"wenmai score runs/{row['run']} {shlex.quote(row['on'])}" for row in content["rows"][:1]]
    made = "\n".join(dict.fromkeys(train_command(row) for row in content["rows"]))
    text = (
        "Perplexities by token compare models with one vocabulary; bits per character compare all, *spelled* with 8 "
        "bits more for each byte of an unknown word. Seconds are of the training, on the machine of the results. Runs "
        "of the same few minutes show how fast a system begins to learn, not where it ends. `gpt` reads segments in "
        "random order, the others the text in order, in rows side by side: where a text is read less than once, they "
        "differ in that too. In the rows named `-5min` the rates of `gpt` and `transformer-xl` fall to zero by the end "
        "of the minutes; those of `nnlm` and `rnnlm` stay, since in so short a training both ended worse where they "
        "fell: that was tried on these texts.\n"
    )
    return f"{text}\n" + "\n\n".join(parts) + f"\n\n```\n{made}\n{commands[0]}\n```\n"


_HEADING = (
    "run", "system", "parameters", "perplexity by token", "by word", "bits per character", "spelled", "unknown tokens",
    "training, s", "training tokens", "size, MB",
)  # fmt: skip


def _run(row: dict[str, Any]) -> tuple[object, ...]:
    memory = "" if row.get("memory") is None else f", memory {row['memory']}"
    return (
        f"{row['run']}{memory}",
        row["system"],
        "-" if row["parameters"] is None else f"{row['parameters']:,}",
        f"{row['perplexity']:.2f}",
        f"{row['word_perplexity']:.2f}",
        f"{row['bits_per_character']:.4f}",
        f"{row['spelled_bits_per_character']:.4f}",
        f"{row['oov']:,}",
        f"{row['training_seconds']:,.0f}",
        "-" if row["training_tokens"] is None else f"{row['training_tokens']:,}",
        megabytes(row["size_bytes"]),
    )


SECTIONS: dict[str, tuple[str, Callable[[Content], str]]] = {
    "ngram": ("N-grams", _ngram),
    "gpt": ("GPT", _gpt),
    "context": ("Reading with a long context", _context),
    "language": ("Language models", _language),
}
