"""The themes of the neural systems: what is computed from their rows, and the parts that need no baseline."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import attention_dropout, decoding, neural, page, plots
from benchmarks.harness import DEFAULT_PAIRS, public_name, show_command
from benchmarks.jobs import JOBS
from benchmarks.layers import exponent
from benchmarks.result import Result, Rows
from benchmarks.section import Checked, sections
from benchmarks.translation import latest, train_command

HEAD: dict[str, Any] = {
    "quick": False,
    "commands": ["python -m benchmarks"],
    "finished": "2026-01-01T00:00:00+00:00",
    "machine": {"processor": "A processor", "cores": 2, "memory_bytes": 8e9, "platform": "Linux"},
    "peer": {"torch": "2.13.0"},
    "corpus": None,
}
CASE = "3+3 layers of 256"


def claims(contents: dict[str, Any]) -> list[Checked]:
    results = {theme: Result(content) for theme, content in contents.items()}
    for result in results.values():
        result.rows = Rows({"commit": "abc", **row} for row in result.rows)
    return page.checked(results)


def body(theme: str, content: dict[str, Any]) -> str:
    return "\n".join(sections()[theme].body(Result(content)))


def decoding_content(speeds: dict[str, list[float]]) -> dict[str, Any]:
    rows = [
        {"case": CASE, "batch": 1, "side": side, "repeat": repeat, "tokens_per_second": speed, "commit": "abc"}
        for side, found in speeds.items()
        for repeat, speed in enumerate(found)
    ]
    return HEAD | {"rows": rows, "settings": decoding.SETTINGS}


def training_content() -> dict[str, Any]:
    shared = {"repeat": 0, "seconds": 30.0, "peak_memory_bytes": 1e9, "parameters": 123, "target_padding": 0.03}
    speeds = {("float32", "ours"): 300.0, ("float32", "trainer"): 100.0, ("default", "ours"): 240.0}
    speeds["default", "trainer"] = 200.0
    rows = [
        {"mode": mode, "side": side, "tokens_per_second": speed, "commit": "abc", **shared}
        for (mode, side), speed in speeds.items()
    ]
    names = ("steps", "warm_up", "threads", "batch_tokens", "num_layers", "hidden_size")
    return HEAD | {"rows": rows, "settings": {"pairs": "data:some", **dict.fromkeys(names, 30)}}


def layers_content() -> dict[str, Any]:
    powers = {"self-attention": 2, "recurrent": 1, "convolutional": 1, "restricted self-attention": 1}
    rows = [
        {"kind": kind, "length": n, "seconds": 1e-9 * n**power + (n < 512), "memory_bytes": n - 64, "commit": "abc"}
        for kind, power in powers.items()
        for n in (64, 512, 1024, 2048)
    ]
    names = ("width", "batch", "heads", "kernel", "radius", "threads")
    return HEAD | {"rows": rows, "settings": dict.fromkeys(names, 4) | {"fit_from": 512}}


def dropped_content() -> dict[str, Any]:
    rows = [
        {"side": side, "length": 128, "biased": biased, "repeat": 0, "tokens_per_second": speed, "commit": "abc"}
        for biased in (False, True)
        for side, speed in (("ours", 400.0), ("torch", 100.0))
    ]
    return HEAD | {"rows": rows, "settings": attention_dropout.SETTINGS}


def translation_content() -> dict[str, Any]:
    def row(run: str, bleu: float, **more: Any) -> dict[str, Any]:
        ends = {"bleu_low": bleu - 1, "bleu_high": bleu + 1, "chrf": 50.0, "chrf_low": 49.0, "chrf_high": 51.0}
        buckets = [{"low": 1, "high": 5, "sentences": 3, "bleu": bleu}, {"low": 31, "high": None, "sentences": 2}]
        buckets[1]["bleu"] = bleu / 2
        sizes = {"parameters": 1000, "training_seconds": 60.0, "steps": 10, "threads": 1, "sentences": 5}
        changed = {"dropout": 0.3, "threads": 1, **more}
        facts = {"run": run, "system": "seq2seq", "corpus": "train.de,train.en", "valid": None, "changed": changed}
        told = {"signature": "a|b", "chrf_signature": "c", "length_unit": "words", "exact_match": 0.1, "commit": "abc"}
        attention = more.get("context") != "first_state"
        return facts | ends | sizes | told | {"bleu": bleu, "buckets": buckets, "pairs": "t", "attention": attention}

    rows = [row("one", 10.0), row("two", 20.0, context="first_state", reverse_source=True), row("one", 30.0)]
    return HEAD | {"rows": rows, "settings": {"beam": 5}}


ALL = {
    "decoding": decoding_content({"ours": [300.0], "generate": [100.0], "ctranslate2": [250.0]}),
    "training": training_content(),
    "layers": layers_content(),
    "attention_dropout": dropped_content(),
    "translation": translation_content(),
}


def test_a_round_is_compared_with_the_same_round_of_the_baseline():
    content = decoding_content({"ours": [100.0, 300.0, 900.0], "generate": [100.0, 100.0, 100.0], "ctranslate2": [400]})
    assert Result(content).rows.ratios("generate", "tokens_per_second", "repeat") == [1.0, 3.0, 9.0]
    first, second = claims({"decoding": content})
    assert (first.target, first.value, first.met) == ("≥ 2 ×", "3.00 ×", True)
    assert (second.target, second.value, second.met) == ("≥ 1 ×", "0.25 ×", False)


def test_training_is_judged_by_the_baseline_of_the_same_mode():
    found = claims({"training": training_content()})
    assert [(claim.value, claim.met) for claim in found] == [("3.00 ×", True), ("1.20 ×", False)]


def test_exponents_are_those_of_the_long_sequences():
    rows = Result(layers_content()).rows.by("kind")
    assert exponent(rows["self-attention"], "seconds", 512) == pytest.approx(2)
    assert exponent(rows["recurrent"], "seconds", 512) == pytest.approx(1)
    assert exponent(rows["recurrent"], "seconds", 2048) is None


def test_of_a_run_that_was_measured_again_the_last_row_counts():
    rows = latest(Result(translation_content()).rows)["t"]
    assert [(row["run"], row["bleu"]) for row in rows] == [("one", 30.0), ("two", 20.0)]


def test_the_page_has_all_sections_and_the_command_of_every_run():
    text = page.page_text({theme: Result(content) for theme, content in ALL.items()})
    assert f"| {CASE} | 1 | 300 | 100 | 250 | **3.00** (3.00) | ≥ 2 | **1.20** (1.20) | ≥ 1 |" in text
    assert "| defaults of each side | 240 | 200 | **1.20** (1.20) |" in text
    assert "| **2.00** |" in text
    assert "| 128 | of each score | 400 | 100 | **4.00** (4.00) |" in text
    assert "context=first_state, reverse_source=true" in text
    assert "dropout=0.3" not in text.partition("The commands that train them")[0]  # all runs share it
    assert "wenmai train seq2seq --data train.de,train.en --out runs/two --set dropout=0.3 --set threads=1" in text


def test_the_plots_are_drawn(tmp_path: Path):
    for theme in ("layers", "translation"):
        section = sections()[theme]
        plots.draw(section.module.plot(section, Result(ALL[theme])), tmp_path / f"{theme}.svg")
    assert "no attention" in (tmp_path / "translation.svg").read_text()
    assert "n^2.00" in (tmp_path / "layers.svg").read_text()


def test_folders_of_the_machine_are_not_published():
    assert public_name("/home/x/a.de,/home/x/a.en") == "a.de,a.en"
    assert public_name("data:some-de,data:some-en") == "data:some-de,data:some-en"
    assert show_command(["translation", "--runs", "/x/a", "--pairs", "/x/a.de,/x/a.en"]).endswith("a --pairs a.de,a.en")


def test_a_split_keeps_what_is_tested_out_of_what_is_trained_on(tmp_path: Path):
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"text {n}\ttexto {n % 900}\n" for n in range(1000)), encoding="utf-8")
    sizes = JOBS["split_pairs"](pairs=str(source), target=str(tmp_path / "part"))
    parts = {
        name: [tuple(line.split("\t")) for line in (tmp_path / f"part-{name}.tsv").read_text().splitlines()]
        for name in ("train", "valid", "test")
    }
    assert {name: len(found) for name, found in parts.items()} == sizes
    assert 5 < sizes["test"] < 40
    asked = {text for name in ("valid", "test") for pair in parts[name] for text in pair}
    assert not any(asked & set(pair) for pair in parts["train"])


@pytest.mark.parametrize("kind", ["self-attention", "recurrent", "convolutional", "restricted self-attention"])
def test_every_layer_can_be_measured(kind):
    sizes = {"width": 8, "batch": 1, "heads": 2, "kernel": 3, "radius": 2}
    found = neural.layer(kind, length=16, **sizes, threads=1, seconds=0.0)
    assert found["seconds"] > 0
    assert found["memory_bytes"] >= 0


@pytest.mark.parametrize("biased", [False, True])
def test_both_sides_of_attention_can_be_measured(biased):
    sizes = {"tokens": 32, "heads": 2, "head_size": 4, "dropout": 0.1}
    for side in attention_dropout.SIDES:
        found = neural.dropped_attention(side, length=8, biased=biased, **sizes, threads=1, seconds=0.0)
        assert math.isclose(found["tokens_per_second"] * found["seconds"], 32)


def test_our_side_decodes_as_many_tokens_as_asked_for():
    found = neural.decode_ours(decoding.TINY, batch=2, source_length=4, steps=5, threads=1, seconds=0.0)
    assert math.isclose(found["tokens_per_second"] * found["seconds"], 10)


def test_our_side_trains_the_batches_that_are_written_for_the_baseline(tmp_path: Path):
    import numpy as np

    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a b {n}\tx y {n}\n" for n in range(60)), encoding="utf-8")
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "ffn_size": 8}
    settings = sizes | {"vocab_size": 40, "batch_tokens": 64, "steps": 3, "threads": 1}
    planned = neural.plan_training(str(pairs), settings, steps=3, target=str(tmp_path / "batches.npz"))
    found = neural.train_ours(str(pairs), settings, warm_up=1, folder=str(tmp_path / "checkpoints"))
    arrays = np.load(tmp_path / "batches.npz")
    tokens = [int((arrays[f"wanted-{place}"] != -100).sum()) for place in range(planned["batches"])]
    assert found["tokens"] == sum(tokens[1:3])
    assert sum(tokens) == planned["target_tokens"]
    assert found["parameters"] == planned["parameters"]


def test_a_command_repeats_the_settings_of_a_run():
    row = {
        "system": "transformer",
        "corpus": "a,b",
        "valid": "v",
        "run": "r",
        "changed": {"clip": None, "swap": True, "minutes": 5.0},
    }
    expected = (
        "wenmai train transformer --data a,b --valid v --out runs/r --set clip=none --set swap=true --set minutes=5"
    )
    assert train_command(row) == expected
    bert = train_command(row | {"system": "bert", "changed": {}})
    assert bert == "wenmai train bert a b --valid v --out runs/r"  # two texts; pairs are one argument


@pytest.mark.parity
def test_the_baselines_have_models_of_the_same_size(tmp_path: Path):
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    options: dict[str, Any] = {"batch": 2, "source_length": 4, "steps": 5, "threads": 1, "seconds": 0.0}
    ours, baseline = neural.decode_ours(decoding.TINY, **options), neural.decode_generate(decoding.TINY, **options)
    engine = neural.decode_ctranslate2(decoding.TINY, **options, folder=str(tmp_path / "engine"))
    assert ours["parameters"] == baseline["parameters"] == engine["parameters"]
    assert json.dumps([ours, baseline, engine])


def test_ngrams_are_compared_round_by_round_and_held_to_their_targets():
    rows = [
        {
            "measure": "build",
            "side": side,
            "repeat": repeat,
            "wall_seconds": seconds,
            "size_bytes": 1e6,
            "commit": "abc",
            "peak_memory_bytes": 1e6,
        }
        for repeat, both in enumerate(((10.0, 20.0), (12.0, 18.0)))
        for side, seconds in zip(("ours", "kenlm"), both, strict=True)
    ]
    rows.append({"measure": "agreement", "tokens": 9, "largest_difference": 2e-5, "commit": "abc"})
    rows += [
        {
            "measure": "score",
            "side": side,
            "threads": threads,
            "repeat": 0,
            "words_per_second": speed,
            "load_seconds": 0.01,
            "peak_memory_bytes": 1,
            "commit": "abc",
        }
        for side, threads, speed in (("ours", 2, 3e6), ("ours", 1, 1.5e6), ("kenlm", 1, 2e6))
    ]
    content = HEAD | {"rows": rows, "settings": {"order": 5, "threads": 2}}
    assert [claim.met for claim in claims({"ngram": content})] == [True, True, False, False, True]
    for bytes_of_binary, met in ((2e6, True), (1e6, True), (0.9e6, False)):
        binary = {"measure": "size", "side": "kenlm", "size_bytes": bytes_of_binary, "commit": "abc"}
        claim = claims({"ngram": content | {"rows": [*rows, binary]}})[-1]
        assert (claim.target, claim.value, claim.met) == (f"≤ {bytes_of_binary / 1e6:g} MB", "1 MB", met)
    assert "building **1.75** (2.00, 1.50), scoring **1.50** (1.50)" in body("ngram", content)


def test_the_claims_of_gpt_and_of_long_contexts_are_medians():
    rows = [
        {"case": "training", "side": side, "repeat": 0, "tokens_per_second": speed}
        for side, speed in (("ours", 1400.0), ("transformers", 1000.0))
    ]
    sizes = {"num_layers": 4, "hidden_size": 256, "vocab_size": 8192, "threads": 2, "max_length": 256}
    settings = sizes | {"steps": 6, "made": 128, "prompt": 16, "segment": 128}
    content = HEAD | {"rows": rows, "settings": settings}
    (claim,) = claims({"gpt": content})
    assert (claim.value, claim.met) == ("1.40 ×", True)
    assert "| training | 1,400 | 1,000 | **1.40** (1.40) | ≥ 1.3 |" in body("gpt", content)
    rows = [
        {"context": 512, "side": side, "repeat": 0, "tokens_per_second": speed}
        for side, speed in (("ours", 900.0), ("vanilla", 10.0))
    ]
    (claim,) = claims({"context": HEAD | {"rows": rows, "settings": settings}})
    assert (claim.value, claim.met) == ("90 ×", True)
    assert "| 512 | 900.0 | 10.0 |" in body("context", {"rows": rows, "settings": settings})


def test_what_took_too_long_has_not_reached_its_target():
    row = {"pairs": DEFAULT_PAIRS, "system": "transformer", "attention": True}
    slow = row | {"run": "slow", "bleu": 45.0, "training_seconds": 4000.0}
    (claim,) = claims({"translation": HEAD | {"rows": [slow]}})
    assert (claim.value, claim.met) == ("45.0 in 66.7 min", False)
    fast = row | {"run": "fast", "bleu": 40.0, "training_seconds": 3000.0}
    (claim,) = claims({"translation": HEAD | {"rows": [slow, fast]}})
    assert (claim.value, claim.met) == ("40.0 in 50.0 min", True)
    row = {"system": "rnnlm", "on": "data:ptb-valid", "parameters": 2_650_000}
    long, short = ((100.0, 4000.0), (119.0, 9.0))
    lstms = [row | {"perplexity": found, "training_seconds": seconds} for found, seconds in (long, short)]
    (claim,) = claims({"language": HEAD | {"rows": lstms}})
    assert (claim.value, claim.met) == ("119.0 in 0.1 min", False)


def test_a_memory_is_judged_against_the_same_model_without_one():
    row = {"system": "transformer-xl", "on": "data:v", "corpus": "data:t", "training_tokens": 1000}
    rows = [
        row | {"changed": {"memory_length": 64, "dropout": 0.0}, "perplexity": 90.0},
        row | {"changed": {"dropout": 0.0, "memory_length": 0, "steps": 9}, "perplexity": 100.0},
        row | {"changed": {"memory_length": 0}, "perplexity": 10.0},  # another dropout
        row | {"changed": {"memory_length": 64}, "perplexity": 9.0, "training_tokens": 2000},
    ]
    (claim,) = claims({"language": HEAD | {"rows": rows}})
    assert (claim.value, claim.met) == ("0.900 ×", True)
