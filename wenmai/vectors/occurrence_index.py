"""An index of the occurrences of words in a text: the vector of each, and its sentence.

It is a sealed folder: ``index.json`` says what was read and how; ``vectors.safetensors`` has ``vectors`` (N, d) float32
of length 1, ``sentences`` (N,) int64, the number of the sentence of each, ``spans`` (N, 2) int32, where the word begins
and ends in it in characters, and ``places`` (S + 1,) int64, where each sentence begins in ``sentences.txt``, in bytes.
Vectors are mapped, not read: a search goes over all of them, block by block, and is exact.
"""

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.core.folder import (
    MANIFEST,
    check_sealed,
    obstacle_to,
    plain_file,
    read_json_object,
    sealed_folder,
    writing_json,
)
from wenmai.core.tensors import require_finite, tensor_shapes, write_tensors
from wenmai.vectors.lengths import Vector, unit, unit_rows
from wenmai.vectors.search import top_scores

__all__ = ["Found", "OccurrenceIndex", "require_no_folder", "write_index"]

VERSION = 1
FACTS, VECTORS, SENTENCES = "index.json", "vectors.safetensors", "sentences.txt"
_ROWS = 8192  # whose vectors are in memory at once
_CHECKED_BYTES = 1 << 28  # whose checksums are compared whenever it is opened, as of models
_LARGEST = 1.001  # number of a vector of length 1, rounded
_LONGEST_BYTES = 1 << 16  # of a sentence


class Found(NamedTuple):
    """An occurrence of a word.

    Attributes:
        word: As it is written.
        sentence: Its sentence.
        start: Where the word begins in the sentence, in characters.
        end: Where it ends.
        similarity: The cosine.
    """

    word: str
    sentence: str
    start: int
    end: int
    similarity: float


def require_no_folder(path: str | Path) -> Path:
    """Makes sure that nothing is at a path yet, and something can be made there.

    Raises:
        RunError: if something is, or nothing can be.
    """
    try:
        if Path(path).exists():
            raise RunError(f"{path}: exists already; choose another --out")
        if obstacle := obstacle_to(Path(path).parent):
            raise RunError(f"{path}: {obstacle}; choose another --out")
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
    return Path(path)


def write_index(
    path: str | Path,
    rows: Iterable[tuple[str, list[tuple[int, int]], Vector]],
    size: int,
    facts: Mapping[str, Any],
) -> None:
    """Writes an index, whole or not at all, in memory that does not grow with the vectors.

    Args:
        path: The folder, which must not exist.
        rows: Sentences without line ends, the spans of words in each, and their vectors (S, d); those of zeros are
            left out.
        size: d.
        facts: What else ``index.json`` says, as JSON values.

    Raises:
        RunError: if something is at the path, or it cannot be written.
    """
    target = require_no_folder(path)
    numbers, spans, places = array("q"), array("i"), array("q", [0])
    try:
        with sealed_folder(target, replace=False) as folder:
            raw = folder / "rows.tmp"
            with open(raw, "wb") as vectors, open(folder / SENTENCES, "wb") as text:
                for sentence, found, states in rows:
                    real = np.flatnonzero(states.any(axis=1))
                    if not len(real):
                        continue
                    vectors.write(unit_rows(states[real].astype(np.float32)).tobytes())
                    numbers.extend([len(places) - 1] * len(real))
                    spans.extend(place for row in real.tolist() for place in found[row])
                    places.append(places[-1] + text.write(sentence.encode() + b"\n"))
            count = len(numbers)
            mapped = np.memmap(raw, np.float32, "r", shape=(count, size)) if count else np.empty((0, size), np.float32)
            write_tensors(
                folder / VECTORS,
                {
                    "vectors": mapped,
                    "sentences": np.array(numbers, np.int64),
                    "spans": np.array(spans, np.int32).reshape(-1, 2),
                    "places": np.array(places, np.int64),
                },
            )
            del mapped
            raw.unlink()
            shapes = {"occurrences": count, "sentences": len(places) - 1, "vector_size": size}
            writing_json(folder / FACTS, {"version": VERSION, **shapes, **facts})
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None


class OccurrenceIndex:
    """An index in a folder.

    Args:
        path: The folder that :func:`write_index` wrote.

    Attributes:
        path: The folder.
        facts: What ``index.json`` says.
        vector_size: d.

    Raises:
        FormatError: if it is no index, or damaged. The checksums of one above 256 MiB are not compared; its parts are
            checked as they are read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / FACTS).is_file() or (self.path / FACTS).is_symlink():
            raise FormatError(
                f"{self.path}: is no index of occurrences; `wenmai index RUN CORPUS --out INDEX` makes one"
            )
        files = [self.path / name for name in (FACTS, VECTORS, SENTENCES, MANIFEST)]
        if sum(one.stat().st_size for one in files if one.is_file()) <= _CHECKED_BYTES and (
            problems := check_sealed(self.path)
        ):
            raise FormatError(f"{problems[0]}; copy the index or make it again")
        self.facts = read_json_object(self.path / FACTS)
        if self.facts.get("version") != VERSION:
            raise FormatError(f"{self.path}: is an index of version {self.facts.get('version')!r}, expected {VERSION}")
        shapes = tensor_shapes(self.path / VECTORS)
        vectors, places = shapes.get("vectors", ()), shapes.get("places", ())
        if len(vectors) != 2 or len(places) != 1 or not vectors[1] or not places[0]:
            raise self._damaged("its vectors are missing")
        self._count, self.vector_size = vectors
        self._sentences = places[0] - 1
        if shapes.get("sentences") != (self._count,) or shapes.get("spans") != (self._count, 2):
            raise self._damaged("there is not a sentence for each vector")

    def __len__(self) -> int:
        return self._count

    def nearest(self, vector: Vector, topn: int = 10) -> list[Found]:
        """Returns the occurrences with the largest cosine to a vector (d,), best first; equal sentences are named once.

        Raises:
            SettingError: if the vector has another size, or ``topn`` is below 1.
            FormatError: if what is read is damaged.
        """
        query = unit(np.asarray(vector))
        if query.shape != (self.vector_size,) or topn < 1:
            raise SettingError(
                f"expected a vector of {self.vector_size} numbers and topn from 1, got {query.shape}, {topn}"
            )
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(self.path / VECTORS), framework="np") as file:
                types = {name: file.get_slice(name).get_dtype() for name in ("vectors", "sentences", "spans", "places")}
                if types != {"vectors": "F32", "sentences": "I64", "spans": "I32", "places": "I64"}:
                    raise self._damaged("its numbers have other types")
                stored = file.get_slice("vectors")

                def cosines(start: int, stop: int) -> Vector:
                    scores = np.empty((1, stop - start), np.float32)
                    for low in range(start, stop, _ROWS):
                        high = min(low + _ROWS, stop)
                        block = stored[low:high]
                        require_finite(self.path / VECTORS, "vectors", block)
                        if np.abs(block).max() > _LARGEST:
                            raise self._damaged("a vector is longer than 1")
                        scores[0, low - start : high - start] = np.clip(block @ query, -1, 1)
                    return scores

                looked_at, found = 0, dict[tuple[str, int], Found]()
                while len(found) < topn and looked_at < self._count:
                    looked_at = min(max(topn, 4 * looked_at), self._count)
                    rows, scores = top_scores(cosines, 1, self._count, looked_at)
                    for row, score in zip(rows[0].tolist(), scores[0].tolist(), strict=True):
                        one = self._found(row, score, file)
                        found.setdefault((one.sentence, one.start), one)
                return list(found.values())[:topn]
        except (OSError, SafetensorError) as error:
            raise FormatError(f"{self.path / VECTORS}: cannot be read ({error})") from None

    def _found(self, row: int, score: float, file: Any) -> Found:  # noqa: ANN401  of safetensors
        number = int(file.get_slice("sentences")[row : row + 1][0])
        low, high = file.get_slice("spans")[row : row + 1][0].tolist()
        if not 0 <= number < self._sentences:
            raise self._damaged(f"occurrence {row} is in sentence {number} of {self._sentences}")
        begin, end = file.get_slice("places")[number : number + 2].tolist()
        if not 0 <= begin < end <= begin + _LONGEST_BYTES:
            raise self._damaged(f"sentence {number} is from byte {begin} to {end}")
        with open(plain_file(self.path / SENTENCES), "rb") as text:
            text.seek(begin)
            data = text.read(end - begin)
        sentence = data.decode(errors="replace").removesuffix("\n")
        if len(data) < end - begin or not 0 <= low < high <= len(sentence):
            raise self._damaged(f"occurrence {row} is not within its sentence")
        return Found(sentence[low:high], sentence, low, high, score)

    def _damaged(self, how: str) -> FormatError:
        return FormatError(f"{self.path}: is damaged: {how}; copy the index or make it again")
