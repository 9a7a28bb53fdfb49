"""``wenmai index`` and ``wenmai distil``, and ``wenmai nearest`` for words in their sentences."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.options import Device, Json, Quiet, RunFolder
from wenmai.cli.printing import show, show_columns
from wenmai.core.errors import SettingError
from wenmai.core.wording import say

__all__ = ["distil_command", "index_command", "nearest_in_sentences"]

_BESIDE = 40  # characters of a sentence that are shown on either side of a word

Text = Annotated[
    list[str], typer.Argument(metavar="CORPUS", help="Text files, folders, globs, - for standard input, data:NAME.")
]
Layer = Annotated[
    str | None,
    typer.Option("--layer", help="last, last4, or numbers such as -1 or 3,4; 0: the input [last; of ELMo mix]."),
]
Segment = Annotated[
    str | None,
    typer.Option("--segment", help="words, whitespace, characters or chinese [words, or what suits the text]."),
]
Case = Annotated[bool, typer.Option("--lowercase/--no-lowercase", help="Bank and bank are one word.")]
MinCount = Annotated[int | None, typer.Option("--min-count", min=1, help="Leave out rarer words.")]
Most = Annotated[
    int | None,
    typer.Option("--max-occurrences", min=0, help="Occurrences of a word that are read, over all the text; 0 for all."),
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Character encoding of the files [utf-8].")]
BadLines = Annotated[
    str | None, typer.Option("--bad-lines", help="A line that cannot be decoded: error, or skip it [error].")
]


def index_command(
    run: RunFolder,
    corpus: Text,
    out: Annotated[Path | None, typer.Option(metavar="INDEX", help="The folder to make [RUN-index].")] = None,
    layer: Layer = None,
    segment: Segment = None,
    lowercase: Case = True,
    min_count: MinCount = None,
    max_occurrences: Most = None,
    encoding: Encoding = None,
    bad_lines: BadLines = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Index words in their sentences, for `wenmai nearest`.

    By default all words are taken, of each at most 1000 occurrences.

    Example: wenmai index runs/bert data:wikitext-2-valid
    """
    from wenmai.data.sources import named_texts
    from wenmai.runs.occurrences import index

    settings = _given(layer, segment, lowercase, min_count, max_occurrences, encoding, bad_lines)
    found = index(run, named_texts(corpus), out=out, device=device, quiet=quiet, **settings)
    if as_json:
        print(json.dumps({"index": str(found.path), **found.facts}, ensure_ascii=False))
    else:
        show(say(f"{found.path}: {len(found):,} occurrences of words in {found.facts['sentences']:,} sentences"))


def distil_command(
    run: RunFolder,
    corpus: Text,
    out: Annotated[
        Path, typer.Option(metavar="VECTORS", help="A file .txt, .vec or .bin of word2vec's format, or a run folder.")
    ],
    layer: Layer = None,
    segment: Segment = None,
    lowercase: Case = True,
    min_count: MinCount = None,
    max_occurrences: Most = None,
    encoding: Encoding = None,
    bad_lines: BadLines = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make word vectors of an encoder and a text.

    By default words that occur at least 5 times are taken, and 100 occurrences of each are read.

    Example: wenmai distil runs/bert data:wikitext-2-valid --out runs/distilled
    """
    from wenmai.data.sources import named_texts
    from wenmai.runs.occurrences import distil

    settings = _given(layer, segment, lowercase, min_count, max_occurrences, encoding, bad_lines)
    found = distil(run, named_texts(corpus), out=out, device=device, quiet=quiet, **settings)
    if as_json:
        print(json.dumps({"path": str(out), "vocabulary": len(found), "vector_size": found.vector_size}))
    else:
        show(say(f"{out}: {len(found):,} words with vectors of {found.vector_size} dimensions"))


def _given(
    layer: str | None,
    segment: str | None,
    lowercase: bool,
    min_count: int | None,
    max_occurrences: int | None,
    encoding: str | None,
    bad_lines: str | None,
) -> dict[str, Any]:
    """Returns the settings that were given; 0 stands for all occurrences."""
    given = {"layer": layer, "segment": segment, "lowercase": lowercase, "min_count": min_count}
    given |= {"encoding": encoding, "bad_lines": bad_lines}
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return found if max_occurrences is None else found | {"max_occurrences": max_occurrences or None}


def nearest_in_sentences(
    run: Path,
    sentences: Sequence[str],
    word: str,
    *,
    index: Path | None,
    occurrence: Sequence[int] | None,
    layer: str | None,
    beside: Path | None,
    topn: int,
    device: str | None,
    as_json: bool,
) -> None:
    """Shows the occurrences nearest to a word in each sentence, and the words nearest to its one static vector."""
    from wenmai.runs.occurrences import default_index, reader_for, vectors_in_context
    from wenmai.training.run import Run
    from wenmai.vectors.lengths import cosine
    from wenmai.vectors.occurrence_index import OccurrenceIndex

    opened, static = Run(run, device), None if beside is None else Run(beside).vectors
    folder = default_index(run) if index is None else index
    if index is None and not folder.exists():
        reader_for(opened, layer)  # whether there can be one
        raise SettingError(f"{folder}: there is no index yet; `wenmai index {run} CORPUS` makes one of a text")
    found = OccurrenceIndex(folder)
    vectors = vectors_in_context(opened, sentences, word, index=found, occurrence=occurrence, layer=layer)
    if static is not None and not static.has_vector(_known(static, word)):
        raise SettingError(f"{beside}: has no vector for {word!r}; name other word vectors, or leave --beside out")
    words = [] if static is None else static.most_similar(_known(static, word), topn=topn)
    several = len(sentences) > 1 or static is not None
    for number, (sentence, vector) in enumerate(zip(sentences, vectors, strict=True)):
        nearest, score = found.nearest(vector, topn), float(cosine(vectors[0], vector))
        if as_json:
            rows = [one._asdict() for one in nearest]
            first = {"similarity_to_first": score} if number else {}
            told = {"word": word, "in": sentence, "nearest": rows, **first}
            print(json.dumps(told, ensure_ascii=False, allow_nan=False))
            continue
        if several:
            print(f"{sentence}")
        show_columns([[f"{one.similarity:.4f}", *_around(one.sentence, one.start, one.end)] for one in nearest])
        if number:
            print(say("{word} here and in the first sentence: {score}", word=word, score=f"{score:.4f}"))
        if several:
            print()
    if as_json and static is not None:
        rows = [{"word": one, "score": score} for one, score in words]
        print(json.dumps({"word": word, "beside": str(beside), "nearest": rows}, ensure_ascii=False, allow_nan=False))
    elif static is not None:
        print(say("{run}: one vector in all sentences", run=str(beside)))
        show_columns([[f"{score:.4f}", one] for one, score in words])


def _known(static: Any, word: str) -> str:  # noqa: ANN401  word vectors
    """Returns a word as the vectors spell it: in lower case if they have it only so."""
    return word if static.has_vector(word) or not static.has_vector(word.lower()) else word.lower()


def _around(sentence: str, start: int, end: int) -> list[str]:
    """Returns a word and its sentence, shortened, with the word in brackets."""
    left, right = sentence[max(0, start - _BESIDE) : start], sentence[end : end + _BESIDE]
    left = f"…{left}" if start > _BESIDE else left
    right = f"{right}…" if len(sentence) > end + _BESIDE else right
    return [sentence[start:end], f"{left}[{sentence[start:end]}]{right}"]
