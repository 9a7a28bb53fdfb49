"""Jobs of the theme ``classification``: labelled sets in fastText's format, and both sides trained on them."""

import csv
import random
import re
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["autotune_classifier", "classify_ours", "classify_reference", "label_texts"]

_LINES = 50_000  # classified for the speed of prediction
_TRIES = 5  # with fewer than ten threads the reference implementation begins with unset memory, and may meet a NaN


def label_texts(folder: str, dataset: str, target: str) -> dict[str, Any]:
    """Writes ``train.txt``, ``dev.txt`` and ``test.txt`` of a set, shuffled; the same words for both sides."""
    examples = list(dict.fromkeys(_examples(Path(folder), dataset)))
    random.Random(7).shuffle(examples)
    bounds = {"train": (0.0, 0.8), "dev": (0.8, 0.9), "test": (0.9, 1.0)}
    Path(target).mkdir(parents=True, exist_ok=True)
    sizes = {}
    for part, (begin, end) in bounds.items():
        chosen = examples[int(begin * len(examples)) : int(end * len(examples))]
        text = "".join(f"__label__{label} {words}\n" for words, label in chosen)
        (Path(target) / f"{part}.txt").write_text(text, encoding="utf-8")
        sizes[part] = len(chosen)
    return sizes


def _examples(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yields words and label: English cut into words and punctuation, headlines into characters, reviews by jieba."""
    from wenmai.core.compressed import reading

    def lines(path: str, encoding: str = "utf-8") -> Iterator[str]:
        with reading(folder / path) as file:
            yield from file.read().decode(encoding).splitlines()

    if name == "ag_news":
        for row in csv.DictReader(lines("ag_news/train_8000.csv.gz")):
            yield _english(row["content"]), row["label"]
    elif name == "thucnews":
        for line in lines("thucnews/dev.txt.gz"):
            text, label = line.rsplit("\t", 1)
            yield " ".join("".join(text.split())), label
    elif name == "chnsenticorp":
        rjieba: Any = import_module("rjieba")
        for path in ("chnsenticorp/train.csv.xz", "chnsenticorp/dev.csv.xz"):
            for row in csv.DictReader(lines(path)):
                yield " ".join(" ".join(rjieba.cut(row["review"])).split()), row["label"]
    elif name == "sst2":
        for path in ("sst2/train.tsv.gz", "sst2/dev.tsv.gz"):
            for line in lines(path):
                text, label = line.rsplit("\t", 1)
                yield _english(text), label
    else:
        for line in lines("trec/TREC.train.gz", "latin-1"):
            label, text = line.split(" ", 1)
            yield _english(text), label.partition(":")[0]


def _english(text: str) -> str:
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


def classify_ours(folder: str, settings: Mapping[str, Any], run: str) -> dict[str, Any]:
    """Trains ours as a user does, tests, and classifies; ``seconds`` has reading and numbering, as the other side."""
    from wenmai.runs.classification import classifier_of, evaluate_classification
    from wenmai.runs.train import train

    compiled = import_module("wenmai.kernels.classify")
    compiled.warm_up()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    finished = train("fasttext-supervised", Path(folder) / "train.txt", out=run, **settings)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
    accuracy = evaluate_classification(finished, Path(folder) / "test.txt").result.accuracy
    classifier, texts = classifier_of(finished), _texts(folder)
    classifier.predict(texts[:100])
    begin, begin_cpu = time.perf_counter(), time.process_time()
    classifier.predict(texts)
    return {
        "accuracy": accuracy,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "train_seconds": finished.summary["seconds"],
        "predict_seconds": time.perf_counter() - begin,
        "predict_cpu_seconds": time.process_time() - begin_cpu,
    }


def classify_reference(folder: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same by the reference implementation's own Python package."""
    fasttext: Any = import_module("fasttext")
    names = {
        "learning_rate": "lr",
        "vector_size": "dim",
        "epochs": "epoch",
        "word_ngrams": "wordNgrams",
        "buckets": "bucket",
        "threads": "thread",
        "seed": "seed",
    }
    chosen = {names[name]: value for name, value in settings.items()}
    for failed in range(_TRIES):
        try:
            begin, begin_cpu = time.perf_counter(), time.process_time()
            model = fasttext.train_supervised(f"{folder}/train.txt", verbose=0, **chosen)
            seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
            break
        except RuntimeError:
            if failed == _TRIES - 1:
                raise
    accuracy = model.test(f"{folder}/test.txt")[1]
    texts = _texts(folder)
    model.predict(texts[:100])
    begin, begin_cpu = time.perf_counter(), time.process_time()
    model.predict(texts)
    return {
        "accuracy": accuracy,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "predict_seconds": time.perf_counter() - begin,
        "predict_cpu_seconds": time.process_time() - begin_cpu,
        "failed": failed,
    }


def _texts(folder: str) -> list[str]:
    lines = (Path(folder) / "test.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.split(" ", 1)[1] for line in lines]
    return (texts * (_LINES // len(texts) + 1))[:_LINES]


def autotune_classifier(folder: str, seconds: float, run: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Searches settings on the validation set; measures them and the defaults on the test set."""
    from wenmai.runs.classification import autotune, evaluate_classification
    from wenmai.runs.train import train

    files = {part: Path(folder) / f"{part}.txt" for part in ("train", "dev", "test")}
    found = autotune(files["train"], valid=files["dev"], out=f"{run}-tuned", seconds=seconds, **settings)
    plain = train("fasttext-supervised", files["train"], out=f"{run}-default", **settings)
    model, sweep = found.recipe.sections["model"], found.recipe.sections["train"]
    return {
        "tuned": evaluate_classification(found, files["test"]).result.accuracy,
        "default": evaluate_classification(plain, files["test"]).result.accuracy,
        **{name: getattr(model, name) for name in ("vector_size", "word_ngrams", "min_ngram", "max_ngram", "buckets")},
        **{name: getattr(sweep, name) for name in ("epochs", "learning_rate")},
    }
