"""``wenmai nearest``, ``analogy``, ``similarity`` and ``embed``."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wenmai.cli.contextual import nearest_in_sentences
from wenmai.cli.lines import answered, located, named_file, portions, reads_terminal, texts_of
from wenmai.cli.options import Device, File, Json, JsonLines, RunFolder, Texts
from wenmai.cli.printing import note, show_columns
from wenmai.core.errors import RunError, SettingError, VocabError
from wenmai.core.folder import obstacle_to_file
from wenmai.core.wording import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["analogy", "embed", "nearest", "similarity"]


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
    sentences: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="SENTENCE", help="Encoders: a word in this sentence; see --word. Repeatable."),
    ] = None,
    word: Annotated[str | None, typer.Option("--word", metavar="WORD", help="With --in: the word.")] = None,
    occurrence: Annotated[
        list[int] | None,
        typer.Option(
            "--occurrence",
            min=1,
            help="With --in: which, where the word occurs several times; one for all sentences, or one for each.",
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option("--index", metavar="INDEX", help="With --in: what `wenmai index` made [RUN-index]."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option("--layer", help="With --in: the layer that the index must be of.")
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            "--beside",
            metavar="RUN2",
            help="With --in: show the neighbours of the one vector that these word vectors have too.",
        ),
    ] = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Show the words nearest to a word, also in sentences.

    Example: wenmai nearest runs/first king --topn 5

    Example: wenmai nearest runs/bert --in "He sat on the bank of the river" --word bank
    """
    from wenmai.training.run import Run

    given = list(words or [])
    if sentences:
        if file is not None or len(given) + (word is not None) != 1:
            raise SettingError("--in takes one word, as --word, and no --file")
        nearest_in_sentences(
            run,
            sentences,
            given[0] if word is None else word,
            index=index,
            occurrence=occurrence,
            layer=layer,
            beside=beside,
            topn=topn,
            device=device,
            as_json=as_json,
        )
        return
    further = {"--occurrence": occurrence, "--index": index, "--layer": layer, "--beside": beside}
    if named := ", ".join(name for name, value in further.items() if value):
        raise SettingError(f"{named}: for a word in a sentence; add --in SENTENCE")
    given += [] if word is None else [word]
    opened = Run(run, device)
    if "nearest" not in opened.task.verbs:
        from wenmai.runs.occurrences import has_words_in_context

        if has_words_in_context(opened):
            raise SettingError(
                f"{run}: its words have vectors in sentences only; add --in SENTENCE, or make static vectors by "
                f"`wenmai distil`"
            )
    vectors = opened.vectors
    if given and given != ["-"] and file is None:
        _show({"words": given}, "nearest", vectors.most_similar(positive=given, topn=topn), as_json)
        return
    source = named_file(given, file)
    for number, line in enumerate(texts_of(given, file), start=1):
        if question := line.split():
            try:
                found = vectors.most_similar(positive=question, topn=topn)
            except VocabError as error:
                raise located(error, source, number, VocabError) from None
            _show({"words": question}, "nearest", found, as_json, title=True)


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
    a: Annotated[str, typer.Argument(metavar="A", help="A word; for encoders a text.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Show how similar two words or texts are, by the cosine.

    Example: wenmai similarity runs/first king queen

    Example: wenmai similarity runs/bert "a cat sat there" "a dog ran"
    """
    from wenmai.training.run import Run
    from wenmai.vectors.lengths import cosine

    opened = Run(run, device)
    if "embed" not in opened.task.verbs or "similarity" in opened.task.verbs:
        opened.require("similarity")
        score = float(opened.vectors.similarity(a, b))
    else:
        found = opened.embed([a, b])
        if empty := int((~found.any(axis=1)).sum()):
            note(_empty(empty))
        score = cosine(*found)
    print(json.dumps({"words": [a, b], "score": score}, ensure_ascii=False) if as_json else f"{score:.4f}")


def embed(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    words: Annotated[
        bool,
        typer.Option(
            "--words",
            help="Word vectors: each text is one word, taken as it is; an unknown word is an error. Encoders: the "
            "vectors of the words of each text, which depend on all of it.",
        ),
    ] = False,
    pieces: Annotated[bool, typer.Option("--pieces", help="Encoders: those of the tokenizer's pieces.")] = False,
    weighting: Annotated[
        str, typer.Option("--weighting", help="mean; or sif: frequent words count less. For word vectors.")
    ] = "mean",
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer",
            help="Encoders: last, last4, or numbers such as -1 or 3,4, whose mean is taken; 0: the input. ELMo: mix, "
            "all layers by the weights of the model [last; of ELMo mix].",
        ),
    ] = None,
    concat: Annotated[bool, typer.Option("--concat", help="Encoders: put several layers side by side.")] = False,
    pooling: Annotated[
        str | None,
        typer.Option(
            "--pooling",
            help="Encoders: mean or max of the tokens, cls for the first, or pooler; of language models last [mean, or "
            "what an imported model says].",
        ),
    ] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale vectors to length 1.")] = False,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="Encoders: the name of the model's prompt that stands before texts.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write an array, FILE.npy or FILE.safetensors, a row a vector."),
    ] = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Print the vectors of words and texts.

    That of a text is the average of its words' vectors, or what the model has learnt for texts. For each text a line:
    the text, a tab, and the numbers. Of words in context a line each, and an empty line after each text.

    Example: wenmai embed runs/first king "a whole sentence"

    Example: wenmai embed runs/first --file sentences.txt --out sentences.npy

    Example: wenmai embed runs/bert --words --layer last4 "the river bank" "a bank account"
    """
    from wenmai.training.run import Run
    from wenmai.vectors.lengths import unit_rows

    if out is not None and out.suffix not in (".npy", ".safetensors"):
        raise SettingError(
            f"--out {out}: expected a name that ends in .npy or .safetensors; redirect the output for a text file"
        )
    if out is not None and (obstacle := obstacle_to_file(out)):
        raise SettingError(f"--out {out}: {obstacle}; name another file")
    if out is not None and as_json:
        raise SettingError("--json prints the vectors, --out writes them; give one of them")
    if words and pieces:
        raise SettingError("--words and --pieces are two kinds of vectors; give one of them")
    opened = Run(run, device)
    options: dict[str, Any] = {"layer": layer, "pooling": pooling, "concat": concat or None, "prompt": prompt}
    options = {name: value for name, value in options.items() if value is not None}
    contextual = hasattr(opened.model_for("embed"), "embed_words")
    if pieces or (options and not contextual):
        opened.require_encoder([f"--{name}" for name in (["pieces"] if pieces else options)])
    waiting, lines = reads_terminal(texts, file), texts_of(texts, file)
    if contextual and (words or pieces):
        if weighting != "mean" or pooling is not None or prompt is not None:
            raise SettingError(
                "--weighting, --pooling and --prompt are for texts; leave them out of --words and --pieces"
            )
        options |= {"unit": "pieces" if pieces else "words", "normalise": normalise}
        _embed_in_context(opened.model, portions(lines, waiting=waiting), options, out, as_json)
        _note_mix(opened.model, layer)
        return
    if words and "nearest" not in opened.task.verbs:
        raise RunError(
            f"{run}: is a run of {opened.recipe.system}, which has vectors of texts alone; --words takes word vectors "
            "and encoders, such as the one that it was fine-tuned from"
        )
    chosen: Any = weighting

    def ask(portion: list[str]) -> "NDArray[np.float32]":
        if not words:
            return opened.embed(portion, weighting=chosen, normalise=normalise or None, **options)
        found = opened.vectors.get_vectors(portion)
        return unit_rows(found) if normalise else found

    every = []
    for portion, found in answered(lines, ask, source=named_file(texts, file), waiting=waiting, mistake=VocabError):
        if empty := int((~found.any(axis=1)).sum()):
            note(_empty(empty))
        if out is not None:
            every.append(found)
        else:
            _print_vectors(portion, found, as_json)
    if out is not None:
        _write(out, every or [opened.embed([])])
    if contextual:
        _note_mix(opened.model, layer)


def _note_mix(model: Any, layer: str | None) -> None:  # noqa: ANN401  an encoder
    """Shows by which weights layers were mixed, if they were."""
    if layer in (None, "mix") and hasattr(model, "mix"):
        from wenmai.inference.mixing import shown_mix

        note("weights of the layers from 0 on: {shares}; γ = {scale}".format(**shown_mix(model.mix)))


def _empty(count: int) -> str:
    return f"texts without a word that has a vector: {count:,}; theirs are zero"


def _embed_in_context(
    model: Any,  # noqa: ANN401  an encoder
    many: Iterable[list[str]],
    options: dict[str, Any],
    out: Path | None,
    as_json: bool,
) -> None:
    """Prints or writes the vectors of words or pieces of texts."""
    every, counts = [], []
    for portion in many:
        for text, found in zip(portion, model.embed_words(portion, **options), strict=True):
            if out is not None:
                every.append(found.vectors)
                counts.append(len(found.words))
            elif as_json:
                rows = [
                    {"word": word, "start": low, "end": high, "vector": _numbers(vector)}
                    for word, (low, high), vector in zip(*found, strict=True)
                ]
                print(json.dumps({"text": text, "words": rows}, ensure_ascii=False, allow_nan=False))
            else:
                _print_vectors(found.words, found.vectors, as_json)
                print()
    if out is not None:
        _write(out, every or [model.embed([])], counts)


def _write(out: Path, parts: "list[NDArray[np.float32]]", counts: list[int] | None = None) -> None:
    """Writes vectors, and how many of them each text has."""
    import numpy as np

    from wenmai.core.folder import writing
    from wenmai.core.tensors import write_tensors

    array = np.concatenate(parts)
    if out.suffix == ".npy":
        with writing(out) as stream:
            np.save(stream, array, allow_pickle=False)
    else:
        further = {} if counts is None else {"counts": np.array(counts, np.int64)}
        write_tensors(out, {"vectors": array, **further})
    print(say(f"{out}: {array.shape[0]:,} vectors of {array.shape[1]} dimensions"), file=sys.stderr)


def _print_vectors(texts: list[str], vectors: "NDArray[np.float32]", as_json: bool) -> None:
    for text, vector in zip(texts, vectors, strict=True):
        if as_json:
            print(json.dumps({"text": text, "vector": _numbers(vector)}, ensure_ascii=False, allow_nan=False))
        else:
            print(f"{text}\t{' '.join(map(str, vector))}")


def _numbers(vector: "NDArray[np.float32]") -> list[float]:
    """Returns the numbers as they are printed."""
    return [float(str(number)) for number in vector]
