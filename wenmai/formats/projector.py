"""The pair of TSV files that the TensorBoard embedding projector loads."""

from pathlib import Path

from wenmai.core.folder import writing
from wenmai.formats.format import Format
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["FORMATS", "write_projector"]

ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def write_projector(folder: str | Path, vectors: WordVectors) -> None:
    r"""Writes ``vectors.tsv`` and ``metadata.tsv`` into a folder, each whole or not at all.

    The metadata are the words, with their counts and a heading line if counts are known (the projector expects a
    heading exactly when there are several columns). Tabs and newlines in words become ``\t``, ``\n`` and
    ``\r``, and a blank word is put in quotes, so that the lines of both files stay side by side.

    Args:
        folder: where the two files go; it is created if need be.
        vectors: what to write.
    """
    labels = [word.translate(ESCAPES) if word.strip() else repr(word) for word in vectors.index_to_key]
    if vectors.counts is not None:
        columns = zip(labels, vectors.counts.tolist(), strict=True)
        labels = ["word\tcount", *(f"{label}\t{count}" for label, count in columns)]
    with writing(Path(folder) / "vectors.tsv") as file:
        file.writelines("\t".join(map(str, row)).encode() + b"\n" for row in vectors.vectors)
    with writing(Path(folder) / "metadata.tsv") as file:
        file.writelines(label.encode("utf-8", "replace") + b"\n" for label in labels)


FORMATS = (
    Format(
        name="projector",
        summary="a folder with vectors.tsv and metadata.tsv for the TensorBoard projector",
        verb="nearest",
        write=lambda path, run: write_projector(path, run.model),
    ),
)
