"""Jobs of the themes ``classification`` and ``autotune``: labelled sets in fastText's format, both sides trained."""

import json
import random
import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["autotune_classifier", "classify_ours", "classify_reference", "label_texts", "quantise_classifier"]

_LINES = 50_000  # classified for the speed of prediction
_TRIES = 5  # with fewer than ten threads the reference implementation begins with unset memory, and may meet a NaN
_NAMES = {
    "learning_rate": "lr",
    "vector_size": "dim",
    "epochs": "epoch",
    "word_ngrams": "wordNgrams",
    "buckets": "bucket",
    "threads": "thread",
    "seed": "seed",
}


def label_texts(dataset: str, target: str) -> dict[str, Any]:
    """Writes ``train.txt``, ``dev.txt`` and ``test.txt`` of a set of the catalogue: 60, 10 and 30 % of all its texts.

    The texts are shuffled, each only once, and cut into words by spaces, so that both sides see the same words.
    """
    from wenmai.data.datasets import find_dataset

    found = find_dataset(dataset)
    words = _cutter(dataset)
    texts = {words(example.text): example.label for split in ("train", "dev") for example in found.read(split)}
    examples = [(text, label) for text, label in texts.items() if text]
    random.Random(7).shuffle(examples)
    bounds = {"train": (0.0, 0.6), "dev": (0.6, 0.7), "test": (0.7, 1.0)}  # a larger test set is a finer measure
    Path(target).mkdir(parents=True, exist_ok=True)
    sizes = {}
    for part, (begin, end) in bounds.items():
        chosen = examples[int(begin * len(examples)) : int(end * len(examples))]
        lines = [f"__label__{label.replace(' ', '_')} {text}\n" for text, label in chosen]
        (Path(target) / f"{part}.txt").write_text("".join(lines), encoding="utf-8")
        sizes[part] = len(chosen)
    return {**sizes, "labels": len(found.labels)}


def _cutter(dataset: str) -> Callable[[str], str]:
    """English is cut into words and punctuation, headlines into characters, reviews by jieba."""
    if dataset == "thucnews":
        return lambda text: " ".join("".join(text.split()))
    if dataset == "chnsenticorp":
        rjieba: Any = import_module("rjieba")
        return lambda text: " ".join(" ".join(rjieba.cut(text)).split())
    return lambda text: " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


def classify_ours(folder: str, settings: Mapping[str, Any], run: str) -> dict[str, Any]:
    """Trains ours as a user does, tests it, and classifies many texts in one call.

    ``seconds`` are those of training, ``whole_seconds`` also those of reading, encoding and of writing the
    run. Modules are imported and kernels compiled before, as the other side's are.
    """
    from wenmai.core.registry import find_system
    from wenmai.runs.environment import peak_memory_bytes
    from wenmai.runs.evaluate import evaluate
    from wenmai.runs.train import train

    compiled = import_module("wenmai.kernels.classify")
    compiled.warm_up()
    find_system("fasttext-supervised").load()
    import_module("pydantic.type_adapter")
    begin = time.perf_counter()
    finished = train("fasttext-supervised", Path(folder) / "train.txt", out=run, **settings)
    whole = time.perf_counter() - begin
    accuracy = evaluate(finished, on=Path(folder) / "test.txt").result.accuracy
    return {
        "accuracy": accuracy,
        "seconds": finished.summary["seconds"],
        "whole_seconds": whole,
        "peak_memory_bytes": peak_memory_bytes(),
        **_prediction(folder, finished.model_for("classify").predict),
    }


def classify_reference(folder: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same by the reference implementation's own Python package, whose one call reads, allocates and trains.

    ``seconds`` are those of the call, less those of the same call with no epochs.
    """
    from wenmai.runs.environment import peak_memory_bytes

    fasttext: Any = import_module("fasttext")
    chosen = {_NAMES[name]: value for name, value in settings.items()}
    for failed in range(_TRIES):
        try:
            begin = time.perf_counter()
            model = fasttext.train_supervised(f"{folder}/train.txt", verbose=0, **chosen)
            whole = time.perf_counter() - begin
            break
        except RuntimeError:
            if failed == _TRIES - 1:
                raise
    found = {
        "accuracy": model.test(f"{folder}/test.txt")[1],
        "peak_memory_bytes": peak_memory_bytes(),
        **_prediction(folder, model.predict),
    }
    begin = time.perf_counter()
    fasttext.train_supervised(f"{folder}/train.txt", verbose=0, **{**chosen, "epoch": 0})
    rest = time.perf_counter() - begin
    return {**found, "seconds": whole - rest, "whole_seconds": whole, "failed": failed}


def _prediction(folder: str, predict: Callable[[list[str]], Any]) -> dict[str, Any]:
    lines = (Path(folder) / "test.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.split(" ", 1)[1] for line in lines]
    texts = (texts * (_LINES // len(texts) + 1))[:_LINES]
    predict(texts[:100])
    begin = time.perf_counter()
    predict(texts)
    return {"predicted": len(texts), "predict_seconds": time.perf_counter() - begin}


def quantise_classifier(folder: str, run: str, cutoff: int, target: str) -> dict[str, Any]:
    """Writes a run as ``.bin`` and, pruned and trained again, as ``.ftz``; measures the cost."""
    from wenmai.formats.fasttext import read_fasttext
    from wenmai.measures.classification import measure_classification
    from wenmai.runs.formats import export_run

    lines = (Path(folder) / "test.txt").read_text(encoding="utf-8").splitlines()
    gold = [(line.split(" ", 1)[0].removeprefix("__label__"),) for line in lines]
    texts = [line.split(" ", 1)[1] for line in lines]
    found: dict[str, Any] = {}
    for name, settings in (("bin", {}), ("ftz", {"cutoff": cutoff, "retrain": True})):
        begin = time.perf_counter()
        path = export_run(run, "fasttext", Path(target) / f"model.{name}", **settings)
        found[f"{name}_seconds"] = time.perf_counter() - begin
        model = read_fasttext(path)
        labels = list(model.classes.tokens)
        result = measure_classification(gold, model.predict(texts), labels, resamples=1)
        found |= {f"{name}_bytes": path.stat().st_size, f"{name}_accuracy": result.accuracy}
    return found


def autotune_classifier(folder: str, seconds: float, run: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Searches settings on the validation set; measures them and the defaults on the test set."""
    from wenmai.runs.autotune import AUTOTUNE, autotune
    from wenmai.runs.evaluate import evaluate
    from wenmai.runs.train import train

    files = {part: Path(folder) / f"{part}.txt" for part in ("train", "dev", "test")}
    found = autotune(files["train"], valid=files["dev"], out=f"{run}-tuned", seconds=seconds, **settings)
    plain = train("fasttext-supervised", files["train"], out=f"{run}-default", **settings)
    model, train = found.recipe.sections["model"], found.recipe.sections["train"]
    return {
        "tuned": evaluate(found, on=files["test"]).result.accuracy,
        "default": evaluate(plain, on=files["test"]).result.accuracy,
        "trials": len(json.loads((found.path / AUTOTUNE).read_bytes())["trials"]),
        **{name: getattr(model, name) for name in ("vector_size", "word_ngrams", "min_ngram", "max_ngram", "buckets")},
        **{name: getattr(train, name) for name in ("epochs", "learning_rate")},
    }
