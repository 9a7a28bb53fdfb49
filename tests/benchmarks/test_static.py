"""The themes of fastText, GloVe and the classifier: what is computed from their rows, and the sets that they use."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchmarks import classification, fasttext, page, plots
from benchmarks.__main__ import RESULTS
from benchmarks.harness import Bench, Options
from benchmarks.jobs import JOBS
from benchmarks.page import checked
from benchmarks.result import Result, read_results
from benchmarks.section import sections

HEAD: dict[str, Any] = {
    "quick": False,
    "commands": ["python -m benchmarks"],
    "finished": "2026-01-01T00:00:00+00:00",
    "machine": {"processor": "A processor", "cores": 2, "memory_bytes": 8e9, "platform": "Linux"},
    "peer": {},
    "corpus": None,
}
TESTS = ("WS-353", "SimLex-999", "MTurk-771", "Google analogies")


def scores(value: float) -> dict[str, float]:
    return dict.fromkeys(TESTS, value)


def subword_content(speeds: dict[str, list[float]], quality: dict[str, float]) -> dict[str, Any]:
    shared = {"seconds": 2.0, "wall_seconds": 3.0, "peak_memory_bytes": 1e9, "commit": "abc"}
    rows = [
        {"system": "fasttext-skipgram", "side": side, "seed": seed, "words_per_second": speed, **shared}
        | {"scores": scores(quality[side] + seed / 100)}
        for side, found in speeds.items()
        for seed, speed in enumerate(found, start=1)
    ]
    return HEAD | {"rows": rows, "settings": fasttext.SETTINGS}


def glove_content(counting: float, training: float) -> dict[str, Any]:
    shared = {"seed": 1, "seconds": 10.0, "peak_memory_bytes": 1e9, "commit": "abc"}
    counts = {"counting_seconds": 5.0, "non_zeros": 1000}
    rows: list[dict[str, Any]] = [
        {"system": "glove", "scores": scores(0.5), "counted_per_second": counting, "non_zeros_per_second": training}
        | shared
        | counts,
        {"system": "ppmi-svd", "scores": scores(0.6), "counted_per_second": 2 * counting} | shared | counts,
        {"system": "word2vec-sgns", "scores": scores(0.7)} | shared,
    ]
    settings = {"vector_size": 100, "min_count": 5, "threads": 2, "systems": {"glove": {"epochs": 15}}}
    return HEAD | {"rows": rows, "settings": settings}


def classifier_content(*, training: float, predicting: float, accuracy: float, ftz: float = 40.0) -> dict[str, Any]:
    """Two sets and both configurations, of which ``bigrams`` is twice as fast against the baseline."""
    rows = []
    for name, size in (("trec", 1.0), ("sst2", 3.0)):
        for configuration, times in (("defaults", 1.0), ("bigrams", 2.0)):
            for seed in (1, 2):
                key = {"set": name, "configuration": configuration, "seed": seed, "commit": "abc"}
                sizes = {"texts": 4000, "tested": 500, "predicted": 50_000}
                ours = {"seconds": size, "whole_seconds": size, "predict_seconds": size, "accuracy": accuracy}
                if configuration == "bigrams" and seed == 1:
                    ours |= {"bin_bytes": 1000, "ftz_bytes": ftz, "bin_accuracy": 0.9, "ftz_accuracy": 0.895}
                    ours |= {"ftz_seconds": 1.0}
                baseline = {"seconds": training * times * size, "predict_seconds": predicting * times * size}
                baseline |= {"whole_seconds": 2 * size, "accuracy": 0.9}
                rows += [{**key, **sizes, "side": "ours", **ours}, {**key, **sizes, "side": "reference", **baseline}]
    settings = {"threads": 2, "configurations": classification.CONFIGURATIONS, "cutoff": classification.CUTOFF}
    return HEAD | {"rows": rows, "settings": settings}


def autotune_content(gains: list[float]) -> dict[str, Any]:
    found = {"trials": 9, "epochs": 25, "learning_rate": 0.5, "vector_size": 50, "word_ngrams": 2, "buckets": 1000}
    found |= {"min_ngram": 0, "max_ngram": 0, "seed": 1, "texts": 4000, "tested": 500, "commit": "abc"}
    rows = [
        {"set": name, "default": 0.8, "tuned": 0.8 + gain, **found}
        for name, gain in zip(classification.SETS, gains, strict=False)
    ]
    return HEAD | {"rows": rows, "settings": {"threads": 2, "seconds": 60.0}}


ALL = {
    "fasttext": subword_content(
        {"ours": [6e6, 8e6], "official": [1e6, 2e6], "gensim": [2e6, 2e6]},
        {"ours": 0.5, "official": 0.505, "gensim": 0.49},
    ),
    "glove": glove_content(4e6, 3e6),
    "classification": classifier_content(training=2.5, predicting=2.0, accuracy=0.896),
    "autotune": autotune_content([0.1, 0.1, 0.1, 0.1, -0.1]),
}


def met(content: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(one.value, one.met) for one in checked({theme: Result(found) for theme, found in content.items()})]


def text(content: dict[str, Any]) -> str:
    return page.page_text({theme: Result(found) for theme, found in content.items()})


def draw(content: dict[str, Any], folder: Path) -> None:
    for theme, found in content.items():
        section = sections()[theme]
        if plot := getattr(section.module, "plot", None):
            plots.draw(plot(section, Result(found)), folder / f"{theme}.svg")


def test_vectors_with_subwords_are_judged_beside_the_official_package():
    content = ALL["fasttext"]
    assert Result(content).rows.ratios("official", "words_per_second", "seed") == [6.0, 4.0]
    assert "| skip-gram with subwords | 0.5150 / 0.5050 (+0.0100) |" in text({"fasttext": content})
    assert met({"fasttext": content}) == [("5.00 ×", True), *[("-0.0050", True)] * 3]
    worse = subword_content({"ours": [3e6], "official": [1e6]}, {"ours": 0.5, "official": 0.52})
    assert met({"fasttext": worse}) == [("3.00 ×", False), *[("-0.0200", False)] * 3]


def test_glove_is_judged_by_its_own_counting_and_not_by_that_of_ppmi():
    assert met({"glove": ALL["glove"]}) == [("4.00 M", True), ("3.00 M", False)]


def test_classifiers_are_judged_by_the_time_of_all_sets_and_by_the_worst_accuracy():
    content = ALL["classification"]
    assert "| TREC | bigrams | 4,000 / 500 |" in text({"classification": content})
    assert "| 0.8960 / 0.9000 (-0.0040) |" in text({"classification": content})
    found = met({"classification": content})
    assert found == [("2.50 ×", True), ("2.00 ×", False), ("-0.40 points", True), ("4 %", True), ("0.5 points", True)]
    worse = classifier_content(training=1.0, predicting=4.0, accuracy=0.89, ftz=60.0)
    assert [reached for _, reached in met({"classification": worse})] == [False, True, False, False, True]


def test_a_set_that_only_one_side_has_yet_is_not_judged():
    content = ALL["classification"]
    rows = [row for row in content["rows"] if (row["set"], row["side"]) != ("sst2", "reference")]
    assert met({"classification": content | {"rows": rows}})[0] == ("2.50 ×", True)
    assert "| SST-2 | defaults | 4,000 / 500 | 3.00 / - (**-**) |" in text({"classification": content | {"rows": rows}})
    alone = [row for row in rows if row["side"] == "ours"]
    assert met({"classification": content | {"rows": alone}}) == [("4 %", True), ("0.5 points", True)]


@pytest.mark.parametrize(("gains", "enough"), [([0.1] * 4 + [0.0], True), ([0.1] * 3 + [0.0] * 2, False)])
def test_searching_has_to_help_on_four_sets(gains: list[float], enough: bool):
    assert met({"autotune": autotune_content(gains)}) == [(f"{3 + enough} of 5", enough)]


def test_the_page_and_the_plots_show_what_there_is(tmp_path: Path):
    shown = text(ALL)
    assert "| skip-gram with subwords | official | 1.500 | **5.00** (6.00, 4.00) | ≥ 4 |" in shown
    assert "| GloVe | 4.00 | 1,000 | 3.00 | 10.0 | 1,000 | 0.5000 |" in shown
    assert "| defaults | **2.50** (2.50, 2.50) | **2.00** (2.00, 2.00) |" in shown
    assert "| bigrams | **5.00** (5.00, 5.00) |" in shown
    assert "| TREC | 0.00 | 0.00 | **4.0%** | 90.00% | 89.50% | -0.50 | 1.0 |" in shown
    assert "| TREC | 80.00% | **70.00%** | -10.00 | 9 |" in shown
    draw(ALL, tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {"fasttext", "glove", "classification"}
    assert "PPMI-SVD" in (tmp_path / "glove.svg").read_text()


def test_half_a_theme_can_be_shown(tmp_path: Path):
    halves = {name: content | {"rows": content["rows"][:1]} for name, content in ALL.items()}
    assert "Not measured yet: `python -m benchmarks fasttext`" not in text(halves)
    draw(halves, tmp_path)


def options(folder: Path, *, quick: bool = False, seeds: tuple[int, ...] | None = None) -> Options:
    names: dict[str, Any] = {
        "systems": (),
        "sides": (),
        "runs": (),
        "pairs": "",
        "on": None,
        "command": "",
        "corpus": "",
    }
    return Options(quick=quick, seeds=seeds, results=folder, repeats=None, **names)


def test_seeds_are_those_asked_for_or_those_of_the_theme(tmp_path: Path):
    def seeds(usual: tuple[int, ...], **asked: Any) -> tuple[int, ...]:
        return Bench(options(tmp_path, **asked), tmp_path).seeds(*usual)

    assert seeds((1, 2, 3)) == (1, 2, 3)
    assert seeds((1,), seeds=(4, 5)) == (4, 5)
    assert seeds((1, 2), quick=True) == (1,)


def test_a_stopped_comparison_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Stub(Bench):
        done: ClassVar[list[tuple[str, Any]]] = []

        def job(self, name: str, *, cache: str = "cache", **arguments: Any) -> dict[str, Any]:
            if len(self.done) == stop_after:
                raise KeyboardInterrupt
            if name == "label_texts":
                return {"train": 8, "dev": 1, "test": 1}
            self.done.append((name, arguments.get("settings")))
            return {"seconds": 1.0, "whole_seconds": 1.0, "predict_seconds": 1.0, "predicted": 1, "accuracy": 1.0}

    monkeypatch.setattr(classification, "require", lambda package: None)
    monkeypatch.setattr(classification, "SETS", {"trec": "TREC"})
    stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        classification.run(Stub(options(tmp_path, seeds=(1, 2)), tmp_path))
    stop_after = -1
    classification.run(Stub(options(tmp_path, seeds=(1, 2)), tmp_path))
    sides = [name.removeprefix("classify_") for name, _ in Stub.done if name.startswith("classify_")]
    assert sides == ["ours", "reference"] * 2 + ["reference", "ours"] * 2  # who begins changes with the seed
    assert [name for name, _ in Stub.done].count("quantise_classifier") == 1
    rows = read_results(tmp_path)["classification"].rows
    assert len(rows) == len({(row["configuration"], row["side"], row["seed"]) for row in rows}) == 8


@pytest.mark.parametrize("theme", sorted(read_results(RESULTS)))
def test_every_result_has_a_section(theme: str):
    result = read_results(RESULTS)[theme]
    assert "{" not in "".join(sections()[theme].body(result))
    assert not [found for found in sections()[theme].checked(result) if "{" in "".join(map(str, found))]
    assert callable(sections()[theme].module.run)


@pytest.mark.parametrize("dataset", ["thucnews", "trec"])
def test_a_labelled_set_is_cut_into_three_parts_that_share_no_text(
    dataset: str, tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    sizes = JOBS["label_texts"](dataset=dataset, target=str(tmp_path))
    parts = {
        name: (tmp_path / f"{name}.txt").read_text(encoding="utf-8").splitlines() for name in ("train", "dev", "test")
    }
    assert {name: len(lines) for name, lines in parts.items()} == {name: sizes[name] for name in parts}
    texts = {name: {line.split(" ", 1)[1] for line in lines} for name, lines in parts.items()}
    assert sum(map(len, texts.values())) == sum(map(len, parts.values()))
    assert not texts["train"] & (texts["dev"] | texts["test"])
    labels = {line.split(" ", 1)[0] for lines in parts.values() for line in lines}
    assert len(labels) == sizes["labels"]
    assert all(label.startswith("__label__") for label in labels)


def test_our_classifier_is_trained_measured_and_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.labelled._LINES", 100)
    texts = "".join(f"__label__{'ab'[n % 2]} {['good', 'bad'][n % 2]} word{n % 150} this{n}\n" for n in range(400))
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_text(texts, encoding="utf-8")
    settings = {"vector_size": 4, "epochs": 5, "word_ngrams": 2, "buckets": 10_000, "threads": 1, "seed": 1}
    run = str(tmp_path / "run")
    found = JOBS["classify_ours"](folder=str(tmp_path), settings=settings, run=run)
    assert found["accuracy"] > 0.9
    assert found["predicted"] == 100
    assert 0 < found["seconds"] < found["whole_seconds"]
    small = JOBS["quantise_classifier"](folder=str(tmp_path), run=run, cutoff=400, target=str(tmp_path))
    assert small["ftz_bytes"] < small["bin_bytes"] / 5
    assert small["bin_accuracy"] == found["accuracy"]
