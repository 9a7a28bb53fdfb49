"""The sections on knowledge masking and on tasks in stages, and the measurements that they are made of."""

from pathlib import Path
from typing import Any

import pytest

import wenmai
from benchmarks import continual, knowledge, knowledge_jobs, pretraining_tasks
from benchmarks.harness import Bench
from benchmarks.page import checked, page_text
from benchmarks.result import Result, Rows, read_results
from benchmarks.variants import average_gain, gains, values
from tests.benchmarks.test_finetuning import options

HEAD: dict[str, Any] = {
    "quick": False, "commands": ["python -m benchmarks"], "peer": {}, "corpus": None, "settings": {},
    "finished": "2026-01-01T00:00:00+00:00",
    "machine": {"processor": "A", "cores": 2, "memory_bytes": 8e9, "platform": "Linux"},
}  # fmt: skip
RUN: dict[str, Any] = {
    "system": "ernie", "corpus": "train.txt", "valid": "probe.txt", "language": "zh", "commit": "abc",
    "training_tokens": 1000, "training_seconds": 60.0,
}  # fmt: skip
TINY: dict[str, Any] = {
    "quiet": True, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 16, "threads": 1, "epochs": 2,
    "kind": "whitespace", "min_count": 1, "batch_tokens": 256, "evaluate_steps": 2,
}  # fmt: skip
TEXT = "the cat saw new york\na bird sings in the tree\nann lee runs home\nit rains on new york\n\n" * 40


def run_of(variant: str, seed: int) -> dict[str, Any]:
    changed = {"tasks": variant.split(" + "), "seed": seed}
    return RUN | {"run": f"{variant}-{seed}", "model_sha256": f"{variant}-{seed}", "changed": changed} | {
        "tasks": changed["tasks"], "variant": variant, "run_seed": seed,
    }  # fmt: skip


def filled(variant: str, seed: int, exact: float, order: str = "in-order") -> dict[str, Any]:
    lengths = {"2": {"entities": 60, "exact": exact}, "9": {"entities": 1, "exact": 0.0}}
    found = {"exact": exact, "low": exact - 0.01, "high": exact + 0.01, "entities": 61, "token_accuracy": 0.5}
    return {"part": "cloze", **run_of(variant, seed), "order": order, "by_length": lengths, **found}


def tuned(variant: str, run_seed: int, name: str, score: float, seed: int = 1) -> dict[str, Any]:
    return {
        "part": "sets", **run_of(variant, run_seed), "way": "tuned", "set": name, "seed": seed, "limit": None,
        "score": score, "examples": 100,
    }  # fmt: skip


def test_levels_of_masking_are_compared_with_the_basic_one() -> None:
    whole = "characters + phrases + entities"
    rows = [filled("characters", seed, 0.1) for seed in (1, 2)] + [filled(whole, seed, 0.1 * seed) for seed in (1, 2)]
    rows += [filled("characters", 1, 0.0, "together"), filled(whole, 1, 0.1, "together")]
    for seed in (1, 2):
        rows += [tuned("characters", seed, "cluener", 0.5), tuned("characters", seed, "ocnli", 0.6)]
        rows += [tuned(whole, seed, "cluener", 0.5 + 0.02 * seed), tuned(whole, seed, "ocnli", 0.58)]
    results = {"knowledge": Result(HEAD | {"rows": rows})}
    found = {one.name: one for one in checked(results)}
    recovered = found[f"Chinese, {whole}, one token after the other: names recovered, over basic masking"]
    assert (recovered.value, recovered.met) == ("1.50 ×", True)
    gained = found[f"Chinese, {whole}: mean score of all sets minus that of basic masking"]
    assert (gained.value, gained.met) == ("+0.0050", True)
    assert len(found) == 2  # nothing is a multiple of no name
    text = page_text(results)
    assert f"| Chinese | {whole} | one token after the other | 61 | **15.0%** ± 63.5% | **1.50** (1.00, 2.00) |" in text
    assert "| Chinese: recovered, by the tokens of the name | 2 |\n| --- | --: |\n| characters | 10.0% |" in text
    assert "| Chinese, fine-tuned, all examples | CLUENER | OCNLI |" in text
    assert f"| {whole} | +0.0300 ± 0.1271 | **-0.0200** ± 0.0000 | +0.0050 |" in text
    assert "wenmai train ernie train.txt --valid probe.txt --out runs/characters-1 --set tasks=characters" in text


def test_shares_of_other_names_are_not_compared() -> None:
    fewer = filled("characters + phrases", 1, 0.2) | {"entities": 50}
    results = {"knowledge": Result(HEAD | {"rows": [filled("characters", 1, 0.1), fewer]})}
    assert checked(results) == []
    text = page_text(results)
    assert text.count("| Chinese: recovered, by the tokens of the name | 2 |") == 2


def test_one_run_is_compared_by_the_seeds_of_its_fine_tuning() -> None:
    ours = Rows([tuned("a", 1, "ocnli", 0.6, seed) for seed in (1, 2)])
    theirs = Rows([tuned("b", 1, "ocnli", 0.5, 2), tuned("b", 1, "ocnli", 0.4, 3)])
    assert values(ours) == {1: 0.6, 2: 0.6}
    assert gains(ours, theirs) == pytest.approx([0.1])
    several = Rows([*theirs, tuned("b", 2, "ocnli", 0.5, 2)])  # of another kind of seed: the means are compared
    assert gains(ours, several) == pytest.approx([0.125])
    assert average_gain(ours, Rows([tuned("b", 1, "cluener", 0.5)])) == []


def stages(variant: str, seed: int, losses: list[float | None]) -> dict[str, Any]:
    by_stage = [{} if loss is None else {"phrases_loss": loss, "reordering_accuracy": 0.75} for loss in losses]
    tasks = ["phrases"] if "alone" in variant else ["phrases", "reordering"]
    return {"part": "stages", **run_of(variant, seed), "tasks": tasks, "by_stage": by_stage}


def test_what_is_forgotten_is_the_loss_of_the_first_task_in_the_end() -> None:
    rows = [stages("continual", 1, [5.0, 4.0]), stages("sequential", 1, [4.5, 6.0]), stages("all at once", 1, [4.25])]
    rows += [stages("masking alone", 1, [4.0]), stages("without reordering", 2, [None, 4.0])]
    rows += [
        stages("without phrases", 1, [None]) | {"tasks": ["reordering", "distance"]}
    ]  # whose first task is another
    rows += [tuned("continual", 1, "ocnli", 0.6), tuned("masking alone", 1, "ocnli", 0.625)]
    rows += [tuned("without reordering", 1, "ocnli", 0.575)]
    results = {"continual": Result(HEAD | {"rows": rows})}
    assert [(one.name, one.value, one.met) for one in checked(results)] == [
        ("Chinese: loss of the first task in the end, continual minus sequential", "-2.000", True),
        ("Chinese: mean score of all sets, continual minus masking alone", "-0.0250", False),
    ]
    text = page_text(results)
    assert "| Chinese: loss of the first task after stage | 1 | 2 | in the end |" in text
    assert "| sequential | 4.500 | 6.000 | 6.000 |\n| all at once | 4.250 | - | 4.250 |" in text
    assert "| without reordering | - | 4.000 | 4.000 |" in text
    assert "| without phrases | -" not in text
    assert "| Chinese, minus masking alone | OCNLI | mean |\n| --- | --: | --: |\n| continual | -0.0250 |" in text
    assert "| Chinese, minus continual | OCNLI | mean |\n| --- | --: | --: |\n| without reordering | -0.0250 |" in text
    assert "| continual-1 | Chinese | continual | 1,000 | 60 | reordering 0.750 |" in text


@pytest.mark.parametrize(
    ("learned", "name"),
    [
        ({"tasks": ["phrases"], "in_minutes": False}, "masking alone"),
        ({"tasks": ["phrases"], "in_minutes": True}, "masking alone, equal time"),
        ({"missing": []}, "continual"),
        ({"missing": ["distance"]}, "without distance"),
        ({"missing": [], "stages": "together"}, "all at once"),
        ({"missing": ["distance"], "stages": "together"}, "all at once, without distance"),
    ],
)
def test_runs_are_called_by_what_is_special_about_them(learned: dict[str, Any], name: str) -> None:
    usual = {"tasks": ["phrases", "reordering"], "stages": "continual", "missing": [], "in_minutes": False}
    assert continual.variant(usual | learned) == name


@pytest.mark.parametrize(
    ("tasks", "stages", "name"),
    [
        (["characters"], "together", "characters"),
        (["characters", "entities"], "sequential", "characters + entities"),
        (["characters", "entities"], "together", "characters + entities, all at once"),
        (["characters", "entities"], "table", "characters + entities, as a table says"),
    ],
)
def test_masking_in_other_stages_is_a_variant_of_its_own(tasks: list[str], stages: str, name: str) -> None:
    assert knowledge.variant({"tasks": tasks, "stages": stages}) == name


class Stub(Bench):
    """A workbench whose runs are known, and which notes what it was asked for."""

    def job(self, name: str, **arguments: Any) -> dict[str, Any]:
        run = Path(arguments.get("run", "")).name
        if name == "run_facts":
            return {**dict.fromkeys((*RUN, "valid", "changed", "parameters")), "run": run, "model_sha256": run}
        if name == "family_of":
            return {"family": "encoder", "language": "zh"}
        if name == "pretraining_facts":
            learned = {"tasks": ["characters"], "stages": "sequential", "run_seed": 1, "missing": []}
            return learned | {"in_minutes": False, "table": {}, "by_stage": [{}]}
        self.asked.append((name, run, arguments.get("order")))
        return {"exact": 0.5}

    def wenmai(self, *arguments: Any, **_: Any) -> tuple[dict[str, Any], float]:
        self.asked.append((arguments[1].name, arguments[2]))
        return {"validation": {"f1": 0.7, "accuracy": 0.7}, "seconds": 1.0}, 2.0


def test_what_is_there_is_not_measured_again(tmp_path: Path) -> None:
    text, names = tmp_path / "probe.txt", tmp_path / "names.txt"
    text.write_text("a\n")
    names.write_text("a\n")
    for only, wanted in (
        (("cloze",), [("fill_names", "one", order) for order in knowledge.ORDERS]),
        (("cloze", "cluener"), [("one", "data:cluener")]),
        (("ocnli",), [("one", "data:ocnli")]),
    ):
        chosen = options(tmp_path, runs=(tmp_path / "one",), only=only, on=str(text), names=names)
        bench = Stub(chosen, tmp_path)
        bench.asked = []
        knowledge.run(bench)
        assert bench.asked == wanted
    with pytest.raises(SystemExit, match="--on TEXT --names FILE"):
        knowledge.run(Stub(options(tmp_path, runs=(tmp_path / "one",), only=("cloze",)), tmp_path))
    for only, wanted in ((("stages",), []), (("cluener",), [("one", "data:cluener")]), ((), None)):
        bench = Stub(options(tmp_path, runs=(tmp_path / "one",), only=only), tmp_path)
        bench.asked = []
        continual.run(bench)
        assert wanted is None or bench.asked == wanted
    assert ("one", "data:c3") not in bench.asked
    rows = read_results(tmp_path)["continual"].rows
    assert [row["variant"] for row in rows.where(part="stages")] == ["masking alone"]
    assert len({row["set"] for row in rows.where(part="sets")}) == len(rows.where(part="sets")) == 6


def test_articles_are_divided_and_their_names_are_those_that_are_frequent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge_jobs, "_tagged", lambda language: ["Ada Lee", "Bob", "7"])
    titles = ["New York (city)", "The", *(f"Article {number}" for number in range(80))]
    body = "Ada Lee saw New York.\nThe cat and the dog and the bird saw 7.\n"
    text = tmp_path / "articles.txt"
    text.write_text("".join(f'<doc id="1" title="{one}">\n{one}\n\n{body}\n</doc>\n' for one in titles))
    found = knowledge_jobs.split_articles(str(text), str(tmp_path / "made"), "en")
    assert found["names"] == 2
    assert found["articles"] + found["probe"] == len(titles)
    assert 0 < found["probe"] < 20
    assert (tmp_path / "made" / "names.txt").read_text() == "Ada Lee\nNew York\n"
    assert (tmp_path / "made" / "probe.txt").read_text() == "\n".join([body] * found["probe"])


def test_a_finished_run_says_what_it_learned_in_which_stage(tmp_path: Path) -> None:
    text, names = tmp_path / "text.txt", tmp_path / "names.txt"
    text.write_text(TEXT)
    names.write_text("new york\nann lee\n")
    tasks = ["characters", "token-document"]
    run = wenmai.train("ernie-2", text, out=tmp_path / "run", tasks=tasks, budget=6, **TINY)
    learned = knowledge_jobs.pretraining_facts(str(run.path), "en")
    assert learned["missing"] == ["capitalisation", "reordering", "discourse"]
    assert learned["table"] == {"characters": [4, 2], "token-document": [0, 6]}
    first, last = learned["by_stage"]
    assert last == {name: run.summary["validation"][name] for name in last}
    assert first["characters_loss"] != last["characters_loss"]
    alone = wenmai.train("ernie-2", text, out=tmp_path / "alone", tasks=tasks[1:], budget=6, **TINY)
    missing = knowledge_jobs.pretraining_facts(str(alone.path), "en")["missing"]
    assert missing == ["knowledge masking", "capitalisation", "reordering", "discourse"]
    found = knowledge_jobs.fill_names(str(run.path), str(text), str(names), "in-order")
    assert (found["names"], found["entities"], found["texts"]) == (2, 20, 3)  # each ten times
    plain = wenmai.train("bert", text, out=tmp_path / "bert", **{**TINY, "evaluate_steps": None})
    with pytest.raises(SystemExit, match="bert learns no tasks"):
        knowledge_jobs.pretraining_facts(str(plain.path), "en")


def test_examples_are_made_and_trained_on(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    settings = {name: value for name, value in TINY.items() if name not in ("quiet", "evaluate_steps")}
    settings |= {"tasks": "token-document", "budget": 3, "epochs": 1}
    found = knowledge_jobs.make_examples(str(text), settings, 1, str(tmp_path / "training"))
    assert 0 < found["examples"] < found["planned"]
    assert found["made_per_second"] > 0
    rows = [
        {"language": "english", "task": task, "repeat": repeat, "commit": "abc"}
        | {"made_per_second": speed, "examples_per_second": 100.0}
        for task, speeds in (("phrases", (500.0, 700.0)), ("discourse", (250.0, 310.0)))
        for repeat, speed in enumerate(speeds)
    ]
    results = {"pretraining_tasks": Result(HEAD | {"rows": rows, "settings": pretraining_tasks.SETTINGS})}
    (slowest,) = checked(results)
    assert (slowest.value, slowest.met) == ("2.8 ×", False)
    assert "| english | phrases | 600 | 100 | **6.00** (5.00, 7.00) | ≥ 3 |" in page_text(results)
