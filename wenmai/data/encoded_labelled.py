"""Encoded labelled text: read once, then memory-mapped by every training.

``<cache>/labelled/<fingerprint>/`` holds ``tokens.bin`` (int32) and ``texts.bin`` (int64: where each text begins, and
the end), ``labels.bin`` (int32) and ``label_starts.bin`` (int64), all little endian, ``words.txt`` and ``counts.bin``
(int64), the most frequent word first, ``label_names.txt`` and ``label_counts.bin`` likewise, and ``labelled.json``.

Words are those of fastText: with ``segment=whitespace`` what ASCII white space separates, otherwise what
the segmenter says; every text ends with the word ``</s>``. All words and labels are there; training leaves out the
rare ones.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, RunError
from wenmai.core.folder import cache_folder, check_sealed, writing_json
from wenmai.data.cached import made, mapped, opened, reopened, stored_head
from wenmai.data.corpus import Progress
from wenmai.data.features import segmented
from wenmai.data.file_hash import FileHash
from wenmai.data.labelled import Labelled, LabelledStats
from wenmai.text.normalise import normaliser
from wenmai.text.settings import TextConfig
from wenmai.text.vocab import WordTable

__all__ = ["END_OF_TEXT", "EncodedLabelled", "encode_labelled", "words_of"]

END_OF_TEXT = "</s>"
_VERSION = 1
_TEXTS_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class EncodedLabelled:
    """Encoded labelled text on disk.

    Attributes:
        folder: Where it is.
        fingerprint: Of the text and all settings of its encoding.
        tokens: (tokens) int32 words, memory-mapped.
        starts: (examples + 1) int64, memory-mapped: text i is ``tokens[starts[i]:starts[i + 1]]``.
        labels: (labels) int32, memory-mapped.
        label_starts: (examples + 1) int64, memory-mapped: the labels of text i, as for tokens.
        counts: (types) int64, descending; equal counts in order of first appearance.
        label_counts: (label types) int64, likewise.
        stats: What was read and what was left out.
        sources: Name, size in bytes and SHA-256 of each file; empty for text from Python.
    """

    folder: Path
    fingerprint: str
    tokens: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    label_starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    label_counts: npt.NDArray[np.int64]
    stats: LabelledStats
    sources: list[FileHash]

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedLabelled":
        """Opens encoded labelled text; checks the sizes of its files but not every byte (see :meth:`verify`).

        Raises:
            RunError: if the folder is missing, unfinished or damaged.
        """
        folder = Path(folder)
        with stored_head(folder, "labelled.json", _VERSION, "encoded labelled text") as head:
            examples, sizes = int(head["stats"]["examples"]), head["sizes"]
            return cls(
                folder=folder,
                fingerprint=str(head["fingerprint"]),
                tokens=mapped(folder / "tokens.bin", "<i4", sizes["tokens"]),
                starts=mapped(folder / "texts.bin", "<i8", examples + 1),
                labels=mapped(folder / "labels.bin", "<i4", sizes["labels"]),
                label_starts=mapped(folder / "label_starts.bin", "<i8", examples + 1),
                counts=np.array(mapped(folder / "counts.bin", "<i8", sizes["types"])),
                label_counts=np.array(mapped(folder / "label_counts.bin", "<i8", sizes["label_types"])),
                stats=LabelledStats(**head["stats"]),
                sources=[FileHash(**file) for file in head["sources"]],
            )

    @classmethod
    def reopen(cls, fingerprint: str) -> "EncodedLabelled | None":
        """Opens what the cache has, every byte checked; None if it is missing or damaged."""
        return reopened("labelled", fingerprint, cls.open)

    def describe(self) -> dict[str, Any]:
        """Returns what a run records of its text, as JSON values."""
        return {
            "sources": [file.as_json() for file in self.sources],
            "stats": asdict(self.stats),
        }

    @cached_property
    def words(self) -> WordTable:
        """The word of each id, most frequent first."""
        return self._names("words.txt", self.counts.size)

    @cached_property
    def label_names(self) -> WordTable:
        """The label of each id, most frequent first."""
        return self._names("label_names.txt", self.label_counts.size)

    def _names(self, name: str, size: int) -> WordTable:
        path = self.folder / name
        try:
            text = path.read_bytes()
            text.decode("utf-8", "surrogatepass")  # a check
        except (OSError, UnicodeError) as error:
            raise RunError(f"{path}: is damaged: {error}") from None
        names = WordTable.of_lines(text)
        if len(names) != size:
            raise RunError(f"{path}: has {len(names)} lines, expected {size}; delete {self.folder}")
        return names

    def verify(self) -> list[str]:
        """Reads every byte and returns what is damaged, one sentence each; empty if nothing is."""
        return check_sealed(self.folder)

    def __len__(self) -> int:
        return self.stats.examples


def words_of(text: TextConfig) -> Callable[[Sequence[str]], list[list[bytes]]]:
    """Returns the function that cuts texts into words, UTF-8 bytes, as a training with these settings does."""
    if text.segment == "whitespace":
        normalise = normaliser(text)
        return lambda texts: [normalise(one).encode("utf-8", "surrogatepass").split() for one in texts]
    return lambda texts: [
        [token.encode("utf-8", "surrogatepass") for token in tokens] for tokens in segmented(texts, text)
    ]


def encode_labelled(labelled: Labelled, *, progress: Progress | None = None) -> EncodedLabelled:
    """Returns labelled text encoded, reading it only if that was not done before.

    Args:
        labelled: Where it comes from, and how it becomes words.
        progress: Called with bytes read and in all.

    Raises:
        CorpusError: if the text cannot be read, or has no examples.
        RunError: if the result cannot be written.
    """
    folder = cache_folder() / "labelled"
    hashes = labelled.hashes()
    fingerprint = hashlib.sha256(f"{_VERSION} {labelled.fingerprint()}".encode()).hexdigest()
    if found := opened(folder / fingerprint, EncodedLabelled.open):
        return replace(found, sources=hashes)

    def fill(entry: Path) -> str:
        stats = LabelledStats()
        sizes = _write(labelled, entry, stats, progress)
        if hashes != labelled.hashes():
            raise CorpusError(f"{labelled.describe()}: has changed while it was read; start again")
        head = {"version": _VERSION, "fingerprint": fingerprint, "stats": asdict(stats), "sizes": sizes}
        writing_json(entry / "labelled.json", head | {"sources": [file._asdict() for file in hashes]})
        return fingerprint

    return made(folder, fill, EncodedLabelled.open, "encoded labelled text")


class _Ids(dict[bytes, int]):
    """Gives every new word the next id."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number


def _write(labelled: Labelled, entry: Path, stats: LabelledStats, progress: Progress | None) -> dict[str, int]:
    """Writes all files but the head; returns how many numbers each has."""
    words, names = _Ids(), _Ids()
    cut = words_of(labelled.text)
    end = words[END_OF_TEXT.encode()]
    number, number_label = words.__getitem__, names.__getitem__
    lengths: list[npt.NDArray[np.int64]] = []
    label_lengths: list[npt.NDArray[np.int64]] = []
    with open(entry / "tokens.bin", "wb") as tokens_file, open(entry / "labels.bin", "wb") as labels_file:
        reading = labelled.read(stats, progress)
        while examples := list(islice(reading, _TEXTS_AT_ONCE)):
            ids: list[int] = []
            label_ids: list[int] = []
            sizes = []
            for text in cut([example.text for example in examples]):
                ids.extend(map(number, text))
                ids.append(end)
                sizes.append(len(text) + 1)
            for example in examples:
                label_ids.extend(number_label(label.encode("utf-8", "surrogatepass")) for label in example.labels)
            np.array(ids, "<i4").tofile(tokens_file)
            np.array(label_ids, "<i4").tofile(labels_file)
            lengths.append(np.array(sizes, np.int64))
            label_lengths.append(np.array([len(example.labels) for example in examples], np.int64))
    found = {}
    for file, starts_file, each in (("tokens", "texts", lengths), ("labels", "label_starts", label_lengths)):
        starts = np.zeros(stats.examples + 1, "<i8")
        np.cumsum(np.concatenate(each), out=starts[1:])
        starts.tofile(entry / f"{starts_file}.bin")
        found[file] = int(starts[-1])
    _by_frequency(entry / "tokens.bin", words, entry / "words.txt", entry / "counts.bin")
    _by_frequency(entry / "labels.bin", names, entry / "label_names.txt", entry / "label_counts.bin")
    return found | {"types": len(words), "label_types": len(names)}


def _by_frequency(path: Path, words: Iterable[bytes], names: Path, counts_path: Path) -> None:
    """Renumbers a file of ids by frequency (stable), and writes words and counts in that order."""
    listed = list(words)
    numbers = np.memmap(path, "<i4", "r+")
    counts = np.bincount(numbers, minlength=len(listed)).astype("<i8")
    order = np.argsort(-counts, kind="stable")
    table = np.empty(order.size, "<i4")
    table[order] = np.arange(order.size, dtype="<i4")
    for start in range(0, numbers.size, 1 << 22):
        numbers[start : start + (1 << 22)] = table[numbers[start : start + (1 << 22)]]
    numbers.flush()
    counts[order].tofile(counts_path)
    names.write_bytes(b"".join(listed[place] + b"\n" for place in order.tolist()))
