"""Indexes of the occurrences of words as inputs."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.faults.damage import Damage
from benchmarks.faults.subjects import Subject, sample_of
from wenmai.core.folder import MANIFEST, seal_files
from wenmai.runs.occurrences import index_settings
from wenmai.vectors.occurrence_index import OccurrenceIndex, write_index

__all__ = ["subjects"]

_SIZE = 4
_FACTS = {"model": "0" * 64, "run": "runs/bert", "settings": {"layer": "2", "segment": "words", "lowercase": True}}


def subjects() -> Iterator[Subject]:
    """Yields an index whose checksums see the damage, and one whose checksums match it."""
    make = partial(_damage)
    yield Subject(name="index of occurrences", make=make, check=_searched, share=1)
    yield Subject(name="sealed index of occurrences", make=make, check=_searched, seal=_seal, share=1)


def _damage() -> Damage:
    draw = np.random.default_rng(1)
    rows = [
        ("the bank", [(0, 3), (4, 8)], draw.normal(size=(2, _SIZE)).astype(np.float32)),
        ("河岸 上", [(0, 2)], draw.normal(size=(1, _SIZE)).astype(np.float32)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder) / "index", rows, _SIZE, _FACTS)
        sample = sample_of(Path(folder) / "index")
    return Damage([sample], kept=(MANIFEST,), weights=(".safetensors",))


def _seal(folder: Path) -> None:
    """Makes all checksums match."""
    seal_files(folder, [path.name for path in sorted(folder.iterdir()) if path.is_file() and path.name != MANIFEST])


def _searched(folder: Path) -> str | None:
    """Opens the index, and asks for all that is in it."""
    index = OccurrenceIndex(folder)
    index_settings(index)
    for one in index.nearest(np.ones(index.vector_size, np.float32), 10):
        if one.sentence[one.start : one.end] != one.word or not one.word:
            return f"{one.word!r} is not at {one.start} of its sentence"
        if not -1 <= one.similarity <= 1:
            return f"a cosine of {one.similarity}"
    return None
