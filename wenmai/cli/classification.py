"""``wenmai classify`` and ``wenmai autotune``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.lines import answered, named_file, passing_blank, reads_terminal, texts_of
from wenmai.cli.options import Device, File, Json, JsonLines, Quiet, RunFolder, Sets, Texts
from wenmai.core.errors import SettingError

__all__ = ["autotune", "classify"]

Threshold = Annotated[float, typer.Option("--threshold", min=0, max=1, help="Leave out less probable labels.")]


def classify(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    k: Annotated[int, typer.Option("--k", help="Most labels of a text; -1 for all.")] = 1,
    threshold: Threshold = 0.0,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print the probability after each label.")
    ] = False,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Classify texts, one line for each line.

    Output is in order, while the input is still being read; the labels of a text are separated by tabs. A text that is
    empty, or without a probable label, gives an empty line. The two texts of a pair have a tab between them.

    Example: wenmai classify runs/topics "Shares fall again" --probabilities

    Example: wenmai classify runs/topics --file news.txt --k 3

    Example: cat news.txt | wenmai classify runs/topics > topics.txt
    """
    from wenmai.inference.verbs import Classifier
    from wenmai.training.run import Run

    if k < 1 and k != -1:
        raise SettingError(f"--k {k}: expected at least 1 label, or -1 for all")
    classifier: Classifier = Run(run, device).model_for("classify")
    waiting, source = reads_terminal(texts, file), named_file(texts, file)
    ask, read = passing_blank(lambda portion: classifier.predict(portion, k, threshold), str, [])
    for portion, predicted in answered(texts_of(texts, file), ask, source=source, read=read, waiting=waiting):
        written = []
        for text, labels in zip(portion, predicted, strict=True):
            if as_json:
                named = [{"label": label, "probability": probability} for label, probability in labels]
                written.append(json.dumps({"text": text, "labels": named}, ensure_ascii=False))
            elif probabilities:
                written.append("\t".join(f"{label}\t{probability:.6g}" for label, probability in labels))
            else:
                written.append("\t".join(label for label, _ in labels))
        print("\n".join(written), flush=waiting)


def autotune(
    corpus: Annotated[list[str], typer.Argument(metavar="CORPUS", help="Labelled text to train on.")],
    valid: Annotated[str, typer.Option("--valid", metavar="FILE", help="Labelled text to evaluate on.")],
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder to make.")],
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Time for the trials.")] = 300.0,
    metric: Annotated[str, typer.Option("--metric", help="f1, or f1:LABEL.")] = "f1",
    size: Annotated[
        int | None, typer.Option("--size", min=1, metavar="BYTES", help="The most bytes the parameters may take.")
    ] = None,
    settings: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find good settings of a classifier.

    Trains fasttext-supervised with many settings, and a run with the best ones. Settings that are given are not
    searched.

    Example: wenmai autotune train.txt --valid dev.txt --seconds 300 --out runs/tuned
    """
    from wenmai.cli.printing import show_run
    from wenmai.config.recipe import parse_assignments
    from wenmai.data.sources import named_texts
    from wenmai.runs.autotune import autotune as search

    chosen: dict[str, Any] = parse_assignments([f"valid={valid}", *(settings or [])])
    run = search(
        named_texts(corpus),
        out=out,
        seconds=seconds,
        metric=metric,
        size_bytes=size,
        quiet=quiet,
        **chosen,
    )
    show_run(run, as_json)
