"""``wenmai nearest``, ``analogy``, ``similarity`` and ``embed``."""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wenmai.cli.lines import reads_terminal, texts_of
from wenmai.cli.options import Device, File, Json, JsonLines, RunFolder, Texts
from wenmai.cli.printing import note, show_columns
from wenmai.core.errors import SettingError
from wenmai.core.wording import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["analogy", "embed", "nearest", "similarity"]

_TEXTS_AT_ONCE = 1024


def nearest(
    run: RunFolder,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Several words are added. Without any, or -: standard input, as --file."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Questions, one a line: a word, or several that are added."),
    ] = None,
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many.")] = 10,
    as_json: JsonLines = False,
) -> None:
    """Show the words nearest to a word.

    Example: wenmai nearest runs/first king --topn 5
    """
    from wenmai.training.run import Run

    vectors = Run(run).vectors
    given = list(words or [])
    questions = [given] if given and given != ["-"] and file is None else _questions(given, file)
    for question in questions:
        found = vectors.most_similar(positive=question, topn=topn)
        _show({"words": question}, "nearest", found, as_json, title=file is not None or given in ([], ["-"]))


def _questions(words: list[str], file: str | None) -> Any:  # noqa: ANN401  an iterator of lists of words
    return (line.split() for line in texts_of(words, file) if line.strip())


def analogy(
    run: RunFolder,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many answers.")] = 5,
    multiply: Annotated[bool, typer.Option("--multiply", help="3CosMul instead of 3CosAdd.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Answer: A is to B as C is to what?

    Example: wenmai analogy runs/first man king woman
    """
    from wenmai.training.run import Run

    found = Run(run).vectors.analogy(a, b, c, topn=topn, method="mul" if multiply else "add")
    _show({"words": [a, b, c]}, "answers", found, as_json)


def _show(head: dict[str, Any], name: str, found: Any, as_json: bool, *, title: bool = False) -> None:  # noqa: ANN401
    """Prints words with their scores, best first."""
    if as_json:
        rows = [{"word": word, "score": score} for word, score in found]
        print(json.dumps(head | {name: rows}, ensure_ascii=False, allow_nan=False))
        return
    if title:
        print(" ".join(head["words"]))
    show_columns([[f"{score:.4f}", word] for word, score in found])


def similarity(
    run: RunFolder,
    a: Annotated[str, typer.Argument(metavar="A", help="A word.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    as_json: Json = False,
) -> None:
    """Show how similar two words are: the cosine of their vectors.

    Example: wenmai similarity runs/first king queen
    """
    from wenmai.training.run import Run

    score = float(Run(run).vectors.similarity(a, b))
    print(json.dumps({"words": [a, b], "score": score}, ensure_ascii=False) if as_json else f"{score:.4f}")


def embed(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    words: Annotated[
        bool, typer.Option("--words", help="Each text is one word, taken as it is; an unknown word is an error.")
    ] = False,
    weighting: Annotated[
        str, typer.Option("--weighting", help="mean; or sif: frequent words count less. For word vectors.")
    ] = "mean",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a NumPy array, FILE.npy, a row for each text.")
    ] = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Print the vectors of words and texts.

    That of a text is the average of its words' vectors, or what the model has learnt for texts. For each text a line:
    the text, a tab, and the numbers.

    Example: wenmai embed runs/first king "a whole sentence"

    Example: wenmai embed runs/first --file sentences.txt --out sentences.npy
    """
    import numpy as np

    from wenmai.core.folder import writing
    from wenmai.training.run import Run

    if out is not None and out.suffix != ".npy":
        raise SettingError(f"--out {out}: expected a name that ends in .npy; redirect the output for a text file")
    if out is not None and as_json:
        raise SettingError("--json prints the vectors, --out writes them; give one of them")
    opened = Run(run, device)
    opened.model_for("embed")
    if words:
        opened.require("nearest")
    chosen: Any = weighting
    rest, every = texts_of(texts, file), []
    at_once = 1 if reads_terminal(texts, file) else _TEXTS_AT_ONCE
    while portion := list(islice(rest, at_once)):
        found = opened.vectors.get_vectors(portion) if words else opened.embed(portion, weighting=chosen)
        empty = int((~found.any(axis=1)).sum())
        if empty:
            note(f"texts without a word that has a vector: {empty:,}; theirs are zero")
        if out is not None:
            every.append(found)
        else:
            _print_vectors(portion, found, as_json)
    if out is not None:
        array = np.concatenate(every) if every else opened.embed([])
        with writing(out) as stream:
            np.save(stream, array, allow_pickle=False)
        print(say(f"{out}: {array.shape[0]:,} vectors of {array.shape[1]} dimensions"), file=sys.stderr)


def _print_vectors(texts: list[str], vectors: "NDArray[np.float32]", as_json: bool) -> None:
    for text, vector in zip(texts, vectors, strict=True):
        if as_json:
            numbers = [float(str(number)) for number in vector]
            print(json.dumps({"text": text, "vector": numbers}, ensure_ascii=False, allow_nan=False))
        else:
            print(f"{text}\t{' '.join(map(str, vector))}")
