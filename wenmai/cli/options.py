"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.completion import complete_run

__all__ = [
    "ClampLength",
    "Context",
    "Device",
    "File",
    "Json",
    "JsonLines",
    "LabelColumn",
    "MemoryLength",
    "NetworkWeight",
    "NgramRun",
    "Quiet",
    "RunFolder",
    "SameLength",
    "SecondColumn",
    "Sets",
    "TagColumn",
    "TextColumn",
    "TextEncoding",
    "Texts",
    "TokenColumn",
    "Tune",
]

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", autocompletion=complete_run)]
Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="Texts; - for standard input, one a line. Without any: standard input."),
]
File = Annotated[
    str | None,
    typer.Option("--file", metavar="FILE", help="Read the texts from a file, one a line; data:NAME, - for stdin."),
]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", metavar="NAME", help="Of labelled files: the column with the text.")
]
TextEncoding = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="Of labelled files: their encoding, such as gb18030.")
]
SecondColumn = Annotated[
    str | None, typer.Option("--second-column", metavar="NAME", help="Of labelled files: that with the second text.")
]
LabelColumn = Annotated[
    str | None, typer.Option("--label-column", metavar="NAME", help="Of labelled files: that with the label.")
]
TokenColumn = Annotated[
    int | None, typer.Option("--token-column", min=1, help="Of tagged files: number of the column with the token.")
]
TagColumn = Annotated[
    int | None, typer.Option("--tag-column", min=-1, help="Of tagged files: number of the column with the tag.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; --NAME VALUE is the same. Repeatable."),
]
Device = Annotated[
    str | None, typer.Option("--device", help="Neural models: cpu, cuda, or auto for a GPU if there is one [cpu].")
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", help="fresh: each line by itself; carried: the lines before are known. By default as trained."
    ),
]
MemoryLength = Annotated[
    int | None, typer.Option("--memory", min=0, help="transformer-xl: tokens remembered, if not as in training.")
]
SameLength = Annotated[
    bool | None,
    typer.Option("--same-length", help="transformer-xl: every token sees equally many, the last of --memory."),
]
ClampLength = Annotated[
    int | None, typer.Option("--clamp-length", min=0, help="transformer-xl: clip distances beyond this one.")
]
NgramRun = Annotated[
    Path | None,
    typer.Option(
        "--ngram",
        metavar="RUN",
        help="pinyin: a run of pinyin-ngram, whose scores are added.",
        autocompletion=complete_run,
    ),
]
Tune = Annotated[
    str | None, typer.Option("--tune", metavar="FILE", help="With --ngram: find the weight on these sentences.")
]
NetworkWeight = Annotated[
    float | None,
    typer.Option("--weight", min=0, help="With --ngram: the weight of the network's scores [1]."),
]
