"""Training for the official functions, by the systems ``fasttext`` and ``fasttext-supervised``."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.core.registry import find_system
from wenmai.fasttext.arguments import (
    in_arguments,
    loss_name,
    model_name,
    settings_of_supervised,
    settings_of_unsupervised,
    without_effect,
)
from wenmai.fasttext.errors import FastTextError, value_errors
from wenmai.fasttext.model import FastTextModel
from wenmai.models.fasttext import END_OF_LINE, FastText, FastTextClassifierConfig
from wenmai.runs.autotune import autotune
from wenmai.runs.explaining import passing_folder
from wenmai.runs.train import Callback, train
from wenmai.training.records import Record, StepRecord
from wenmai.training.run import Run

__all__ = ["classifier", "train_again", "word_vectors"]

_BLOCK_BYTES = 1 << 24
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


class _Progress(Callback):
    """Shows a training on standard error, as the official module does.

    Args:
        verbose: 0: nothing; 1: the sizes, and the end; 2: a line that follows the training.
    """

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self._last = ""

    def begin(self, run: Run, facts: dict[str, Any]) -> None:
        self._say(f"Number of words:  {facts['vocabulary']}")
        if "labels" in facts:
            self._say(f"Number of labels: {facts['labels']}")

    def record(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            loss = "-" if record.loss is None else f"{record.loss:.6f}"
            self._last = (
                f"\rProgress: {record.progress:6.1%} words/sec: {record.words_per_second:9.0f} "
                f"lr: {record.learning_rate:.6f} loss: {loss} ETA: {record.seconds_left:5.0f}s"
            )
            if self.verbose > 1:
                print(self._last, end="", file=sys.stderr, flush=True)

    def note(self, message: str) -> None:
        self._say(message)

    def end(self) -> None:
        """The training is over."""
        if self._last:
            self._say(self._last)

    def _say(self, message: str) -> None:
        if self.verbose > 0:
            print(message, file=sys.stderr, flush=True)


def classifier(args: Mapping[str, Any], given: set[str]) -> FastTextModel:
    """Trains a classifier, or searches its settings if there is a validation file."""
    path, progress = _input(args), _Progress(args["verbose"])
    for sentence in without_effect(args, given):
        progress.note(sentence)
    with _training_on(path), passing_folder() as folder:
        out = folder / "run"
        if valid := args["autotuneValidationFile"]:
            frozen = settings_of_supervised({**{name: args[name] for name in given}, "loss": args["loss"]})
            run = autotune(str(path), valid=str(valid), out=out, callback=progress, **_tuning(args, progress), **frozen)
        else:
            run = train("fasttext-supervised", str(path), out=out, callback=progress, **settings_of_supervised(args))
        progress.end()
        return _finished(run, args)


def word_vectors(args: Mapping[str, Any], given: set[str]) -> FastTextModel:
    """Trains word vectors; lines end with the word ``</s>``, and labels are left out."""
    path, progress = _input(args), _Progress(args["verbose"])
    args = {**args, "autotuneValidationFile": ""}
    for sentence in without_effect(args, given):
        progress.note(sentence)
    with _training_on(path), passing_folder() as folder:
        text = folder / "text"
        _prepare(path, text, str(args["label"]).encode())
        settings = settings_of_unsupervised(args)
        run = train("fasttext", str(text), out=folder / "run", callback=progress, **settings)
        progress.end()
        return _finished(run, args)


def train_again(path: str | Path, args: Mapping[str, Any]) -> Callable[[FastText], None]:
    """Returns what trains a pruned classifier in place on a file with labels."""

    def again(model: FastText) -> None:
        config = model.config
        assert isinstance(config, FastTextClassifierConfig)
        task = find_system("fasttext-supervised").load()
        settings = settings_of_supervised({**args, "loss": config.loss, "label": model.label_prefix or "__label__"})
        settings |= {f"model.{name}": getattr(config, name) for name in ("vector_size", "word_ngrams", "negative")}
        settings |= {f"model.{name}": getattr(config, name) for name in ("min_ngram", "max_ngram", "buckets")}
        recipe = Recipe.build("fasttext-supervised", task.sections, settings)
        opened = task.source.open(str(_input({"input": path})))
        task.retrain(recipe, task.source.read(recipe, opened.source, lambda done, total: None, None), model)

    return again


def _input(args: Mapping[str, Any]) -> Path:
    """The text to train on.

    Raises:
        FastTextError: if there is none.
        TypeError: if none was named.
    """
    if "input" not in args:
        raise TypeError("missing argument 'input'")
    if not (path := Path(args["input"])).is_file():
        raise FastTextError(f"{path} cannot be opened for training!")
    return path


@contextmanager
def _training_on(path: Path) -> Iterator[None]:
    """Turns errors into those of the module.

    They name its arguments, and bytes that are no UTF-8 as in the user's file, not in a copy.
    """
    try:
        with value_errors():
            yield
    except FastTextError as problem:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    raise FastTextError(
                        f"{path}: line {number}: 0x{line[error.start]:02x} is not UTF-8; convert the file first, "
                        "for instance by iconv -f latin-1 -t utf-8"
                    ) from None
        raise FastTextError(in_arguments(str(problem))) from problem.__cause__


def _tuning(args: Mapping[str, Any], progress: _Progress) -> dict[str, Any]:
    """The arguments of :func:`wenmai.runs.autotune.autotune`."""
    metric, label = str(args["autotuneMetric"]), str(args["label"])
    if metric != "f1" and not metric.startswith("f1:"):
        raise FastTextError(f"autotuneMetric={metric!r} is not supported; expected f1 or f1:LABEL")
    if args["autotunePredictions"] != 1:
        raise FastTextError(f"autotunePredictions={args['autotunePredictions']} is not supported; expected 1")
    found: dict[str, Any] = {"metric": metric.replace(f"f1:{label}", "f1:", 1), "seconds": args["autotuneDuration"]}
    if size := str(args["autotuneModelSize"]).strip().lower():
        if (match := re.fullmatch(r"(\d+)([kmg]?)", size)) is None:
            raise FastTextError(f"Unable to parse model size {args['autotuneModelSize']}")
        found["size_bytes"] = int(match[1]) * _UNITS[match[2]]
        progress.note("autotuneModelSize bounds the parameters; the model is not quantised")
    return found


def _prepare(path: Path, text: Path, prefix: bytes) -> None:
    """Copies a text: ``</s>`` at the end of lines, white space for zero characters, no labels."""
    label = re.compile(rb"(?<![^ \n\r\t\v\f])" + re.escape(prefix) + rb"[^ \n\r\t\v\f]*") if prefix else None
    with path.open("rb") as source, text.open("wb") as target:
        while lines := source.readlines(_BLOCK_BYTES):
            block = b"".join(lines).replace(b"\0", b" ")
            if label is not None and prefix in block:
                block = label.sub(b"", block)
            target.write(block.replace(b"\n", b" " + END_OF_LINE.encode() + b"\n"))


def _finished(run: Run, args: Mapping[str, Any]) -> FastTextModel:
    """The trained model, which knows its arguments as one from a file does."""
    model: FastText = run.task.load_base(run.model_folder)
    config, sections = model.config, run.recipe.sections
    supervised = isinstance(config, FastTextClassifierConfig)
    loss = config.loss if isinstance(config, FastTextClassifierConfig) else "hs" if config.hierarchical else "ns"
    model.arguments = {
        "version": 12,
        "vector_size": config.vector_size,
        "window": args["ws"],
        "epochs": sections["train"].epochs,
        "min_count": args["minCount"],
        "negative": config.negative,
        "word_ngrams": config.word_ngrams if supervised else args["wordNgrams"],
        "loss": loss_name[loss].value,
        "model": model_name[model.kind].value,
        "buckets": config.buckets,
        "min_ngram": config.min_ngram,
        "max_ngram": config.max_ngram,
        "rate_updates": args["lrUpdateRate"],
        "sample": args["t"],
        "output_flag": 0,
    }
    settled = {name: args[name] for name in ("minCountLabel", "thread", "verbose", "pretrainedVectors", "label")}
    return FastTextModel(model=model, args={**settled, "lr": sections["train"].learning_rate})
