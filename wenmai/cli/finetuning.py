"""``wenmai finetune``, and the verbs of fine-tuned models: ``rate``, ``tag``, ``answer`` and ``choose``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.lines import portions, reads_terminal, texts_of
from wenmai.cli.options import Device, File, Json, JsonLines, Quiet, RunFolder, Sets, Texts

__all__ = ["finetune", "rate"]

_TEXTS_AT_ONCE = 1024


def finetune(
    run: RunFolder,
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="Labelled examples: a file, or data:NAME.")],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="classification, pair, regression, tagging, span or choice; by default that of the data set.",
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option("--valid", metavar="DATA", help="Examples to validate on; by default some are set aside."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder to make [runs/SYSTEM-DATE].")] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="Train from N seeds: the runs RUN/seed-1 and so on.")
    ] = 1,
    settings: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune the encoder of a run for a task.

    Each setting of the task is an option: `wenmai help train finetuned-classification` lists them.

    Example: wenmai finetune runs/bert reviews.tsv --task classification --out runs/reviews

    Example: wenmai finetune runs/bert data:conll2003 --out runs/names --seeds 3

    Example: wenmai finetune runs/bert data:rte --mode lora --epochs 5 --out runs/rte
    """
    from wenmai.cli.printing import show, show_run
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.finetune import SeedRuns
    from wenmai.runs.finetune import finetune as tune

    chosen: dict[str, Any] = parse_assignments(settings or [])
    if valid is not None:
        chosen["data.valid"] = valid
    spec: Any = data[0] if len(data) == 1 else data
    found = tune(run, spec, task=task, out=out, seeds=seeds, quiet=quiet, **chosen)
    if not isinstance(found, SeedRuns):
        show_run(found, as_json)
    elif as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False))
    else:
        show(found)


def rate(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Give texts, or pairs of texts, a number each.

    The two texts of a pair have a tab between them.

    Example: wenmai rate runs/alike --file pairs.tsv
    """
    from wenmai.training.run import Run

    model = Run(run, device).model_for("rate")
    lines, waiting = texts_of(texts, file), reads_terminal(texts, file)
    for portion in portions(lines, 1 if waiting else _TEXTS_AT_ONCE):
        for text, value in zip(portion, model.rate(portion), strict=True):
            print(json.dumps({"text": text, "value": value}, ensure_ascii=False) if as_json else f"{value:.6g}")
