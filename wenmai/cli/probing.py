"""``wenmai probe``."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.completion import complete_run
from wenmai.cli.options import (
    Device,
    Json,
    LabelColumn,
    Quiet,
    SecondColumn,
    TagColumn,
    TextColumn,
    TextEncoding,
    TokenColumn,
)
from wenmai.cli.printing import note, show
from wenmai.core.wording import say

__all__ = ["probe"]


def probe(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs of word vectors or of encoders.", autocompletion=complete_run),
    ],
    on: Annotated[
        list[str],
        typer.Option("--on", metavar="SET", help="data:NAME, a file, a folder, or TRAIN,TEST. Repeatable."),
    ],
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="NAME", help="Of files: classification, pair or tagging."),
    ] = None,
    text_column: TextColumn = None,
    second_column: SecondColumn = None,
    label_column: LabelColumn = None,
    token_column: TokenColumn = None,
    tag_column: TagColumn = None,
    encoding: TextEncoding = None,
    pooling: Annotated[
        str, typer.Option("--pooling", metavar="NAME", help="From tokens to a text: mean, or text, such as [CLS].")
    ] = "mean",
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="Training examples of a set; 0 for all.")
    ] = 5000,
    no_control: Annotated[bool, typer.Option("--no-control", help="Leave out the control tasks.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The random seed.")] = 1,
    layers: Annotated[bool, typer.Option("--layers", help="Print each layer, not only the best one.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write a page with charts by layer into this folder."),
    ] = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Probe what each layer of each model knows.

    The same logistic regression is trained on the states of each layer. Beside it stands its control task with random
    labels: a probe that learns these too says little about the states.

    Example: wenmai probe runs/word2vec runs/bert --on data:sst2 --on data:conll2003-pos

    Example: wenmai probe runs/bert --on data:trec --layers --out runs/probes

    Example: wenmai probe runs/bert --on train.tsv,test.tsv --task classification --json
    """
    from wenmai.runs.probing.probe import probe as run_probes

    chosen: Any = pooling
    columns = {
        "text_column": text_column,
        "second_column": second_column,
        "label_column": label_column,
        "token_column": token_column,
        "tag_column": tag_column,
        "encoding": encoding,
    }
    found = run_probes(
        runs,
        on,
        task=task,
        columns={name: value for name, value in columns.items() if value is not None},
        pooling=chosen,
        limit=limit or None,
        control=not no_control,
        seed=seed,
        out=out,
        command=shlex.join(["wenmai", *sys.argv[1:]]),
        device=device,
        quiet=quiet,
    )
    for one in found.notes:
        note(one)
    if as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False))
        return
    show(found.shown(layers=layers))
    if found.report is not None:
        print(say(f"report: {found.report}"), file=sys.stderr)
