"""Greedy decoding of equal random models: ours, Hugging Face's ``generate`` and CTranslate2, all in float32."""

from typing import Any

from benchmarks.harness import Bench, require
from benchmarks.neural import COMPILED_AFTER
from benchmarks.result import Rows
from benchmarks.section import Claim, Part, Section

__all__ = ["CASES", "SECTION", "SIDES", "TARGETS", "run"]

SIDES = {"ours": "decode_ours", "generate": "decode_generate", "ctranslate2": "decode_ctranslate2"}
SMALL = {"vocab_size": 8000, "hidden_size": 256, "num_layers": 3, "num_heads": 4, "ffn_size": 1024}
BASE = {"vocab_size": 8000, "hidden_size": 512, "num_layers": 6, "num_heads": 8, "ffn_size": 2048}
TINY = {"vocab_size": 100, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 32}
CASES = {"3+3 layers of 256": SMALL, "6+6 layers of 512": BASE}
TARGETS = {  # (case, sentences at once): at least this many times the tokens/s of generate, and of CTranslate2
    ("3+3 layers of 256", 1): {"generate": 2.0, "ctranslate2": 1.0},
    ("3+3 layers of 256", 32): {"generate": 1.3, "ctranslate2": 1.0},
    ("6+6 layers of 512", 32): {"generate": 1.1, "ctranslate2": 1.0},
}
SETTINGS: dict[str, Any] = {"source_length": 25, "steps": 32, "threads": 2, "seconds": 2.0}
QUICK: dict[str, Any] = {"source_length": 5, "steps": 4, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Measures the sides in turns; who begins changes with every round."""
    require("transformers")
    require("ctranslate2")
    settings = QUICK if bench.quick else SETTINGS
    results = bench.results("decoding", settings, corpus=False, peers=("torch", "transformers", "ctranslate2"))
    folder = bench.work / "engine"
    for repeat in range(bench.repeats(3)):
        first = repeat % len(SIDES)
        order = [*SIDES][first:] + [*SIDES][:first]
        for case, batch in TARGETS:
            sizes = TINY if bench.quick else CASES[case]
            for side in order:
                bench.clear(folder)
                more: dict[str, Any] = {"folder": folder} if side == "ctranslate2" else {}
                found = bench.job(SIDES[side], sizes=sizes, batch=batch, **settings, **more)
                results.add({"case": case, "batch": batch, "side": side, "repeat": repeat, **found})


def _goals(rows: Rows, _: object) -> dict[str, float]:
    goals = TARGETS[rows[0]["case"], rows[0]["batch"]]
    return {f"goal_{peer}": goal for peer, goal in goals.items()} | {"vocabulary": CASES[rows[0]["case"]]["vocab_size"]}


SECTION = Section(
    "Decoding",
    (
        Part(
            f"""
            Equal random models in float32, {{threads}} threads; sources of {{source_length}} tokens, {{steps}} tokens
            generated for each (EOS is banned until then), a vocabulary of {{vocabulary:,}}. The encoder's time is
            included. CTranslate2 decodes our own model, exported; `generate` is Hugging Face's with `MarianMTModel`,
            one beam and its cache. Each measurement is a process that decodes for {{seconds:g}} s, the peers after a
            first batch, ours after {COMPILED_AFTER:,} steps: from then on a step of few rows is one compiled function,
            as in a long job or a service ([decision 14](adr/0014-a-compiled-step-for-few-hypotheses.md)); in a short
            job the lead is smaller. The median batch counts.
            """,
            {
                "model": "{case}",
                "batch": "{batch}",
                "ours, tokens/s": "{ours.tokens_per_second:,.0f}",
                "generate": "{generate.tokens_per_second:,.0f}",
                "CTranslate2": "{ctranslate2.tokens_per_second:,.0f}",
                "over generate (each round)": "{over_generate:each}",
                "target over generate": "≥ {goal_generate:g}",
                "over CTranslate2": "{over_ctranslate2:each}",
                "target over CTranslate2": "≥ {goal_ctranslate2:g}",
            },
            by="case batch",
        ),
    ),
    Claim(
        "greedy decoding, {case}, batch {batch}: tokens/s over MarianMTModel.generate's",
        "{over_generate:.2f} ×",
        "≥ {goal_generate:g} ×",
        by="case batch",
    ),
    Claim(
        "greedy decoding, {case}, batch {batch}: tokens/s over CTranslate2's",
        "{over_ctranslate2:.2f} ×",
        "≥ {goal_ctranslate2:g} ×",
        by="case batch",
        chinese="贪心解码，3+3 层、256 维，批大小 32：速度与 CTranslate2 之比",
        only=("3+3 layers of 256", 32),
    ),
    facts=_goals,
)
