"""A small GPT-2 beside that of Hugging Face, both in float32: training, and greedy generation with caches."""

from typing import Any

from benchmarks.harness import Bench, require
from benchmarks.neural import COMPILED_AFTER
from benchmarks.section import Claim, Part, Section

__all__ = ["CASES", "SECTION", "SIDES", "TARGETS", "run"]

SIZES = {"vocab_size": 8192, "hidden_size": 256, "num_layers": 4, "num_heads": 4, "max_length": 256}
TINY = {"vocab_size": 100, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 24}
CASES = {"training": 8, "generation, batch 1": 1, "generation, batch 16": 16}  # and rows at once
SIDES = ("ours", "transformers")
TARGETS = {"training": 1.3, "generation, batch 1": 3.0, "generation, batch 16": 1.5}
SETTINGS: dict[str, Any] = {"steps": 6, "warm_up": 2, "prompt": 16, "made": 128, "threads": 2, "seconds": 4.0}
QUICK: dict[str, Any] = {"steps": 1, "warm_up": 0, "prompt": 4, "made": 8, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Measures both sides in turns; who begins changes with every round."""
    require("transformers")
    settings, sizes = (QUICK, TINY) if bench.quick else (SETTINGS, SIZES)
    results = bench.results("gpt", {**settings, **sizes}, corpus=False, peers=("torch", "transformers"))
    for repeat in range(bench.repeats(3)):
        for case, batch in CASES.items():
            for side in SIDES if repeat % 2 == 0 else reversed(SIDES):
                common = {"side": side, "sizes": sizes, "batch": batch, "threads": settings["threads"]}
                if case == "training":
                    found = bench.job("train_gpt", steps=settings["steps"], warm_up=settings["warm_up"], **common)
                else:
                    chosen = {"prompt": settings["prompt"], "steps": settings["made"], "seconds": settings["seconds"]}
                    found = bench.job("generate_gpt", **common, **chosen)
                results.add({"case": case, "side": side, "repeat": repeat, **found})


SECTION = Section(
    "GPT",
    (
        Part(
            f"""
            Equal GPT-2 models of {{num_layers}} layers of {{hidden_size}}, vocabulary {{vocab_size:,}}, in float32,
            {{threads}} threads. Training: updates with AdamW on {CASES["training"]} rows of {{max_length}} random
            tokens, dropout 0.1, the median of {{steps}}. Generation: {{made}} greedy tokens after prompts of
            {{prompt}}, with caches; no sequence ends early. `transformers` is `GPT2LMHeadModel`, timed after a first
            call, ours after {COMPILED_AFTER:,} steps: from then on a step of few rows is one compiled function, as in a
            long job or a service ([decision 14](adr/0014-a-compiled-step-for-few-hypotheses.md)).
            """,
            {
                "what": "{case}",
                "ours, tokens/s": "{ours.tokens_per_second:,.0f}",
                "transformers": "{transformers.tokens_per_second:,.0f}",
                "ratio (each round)": "{over_transformers:each}",
                "target": "≥ {goal:g}",
            },
            by="case",
        ),
    ),
    Claim(
        "GPT, {case}: tokens/s over transformers'",
        "{over_transformers:.2f} ×",
        "≥ {goal:g} ×",
        by="case",
        chinese="GPT 生成，批大小 1：速度与 transformers 之比",
        only="generation, batch 1",
    ),
    facts=lambda rows, _: {"goal": TARGETS[rows[0]["case"]]},
)
