"""Files for the TensorBoard projector."""

import numpy as np

from wenmai.formats.projector import write_projector
from wenmai.vectors.word_vectors import WordVectors


def test_writes_vectors_and_words_side_by_side(tmp_path):
    words = ["the", "a\tb\n", " ", "文脉"]
    rows = np.array([[0.1, 1], [2, -3e-9], [5, 6], [7, 8]], np.float32)
    write_projector(tmp_path / "out", WordVectors(words, rows))
    assert (tmp_path / "out" / "metadata.tsv").read_text("utf-8") == "the\na\\tb\\n\n' '\n文脉\n"
    lines = (tmp_path / "out" / "vectors.tsv").read_text().splitlines()
    assert [[np.float32(x) for x in line.split("\t")] for line in lines] == rows.tolist()


def test_counts_come_with_a_heading(tmp_path):
    write_projector(tmp_path, WordVectors(["a", "b"], [[1.0], [2.0]], counts=[30, 4]))
    assert (tmp_path / "metadata.tsv").read_text() == "word\tcount\na\t30\nb\t4\n"
    assert (tmp_path / "vectors.tsv").read_text() == "1.0\n2.0\n"
