"""The job of the theme ``glove``: a training with GloVe's own programs."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["reference_glove"]

_MEMORY = "4.0"  # gigabytes that counting and shuffling may take
_COUNT_BYTES = 16  # two int32, one float64


def reference_glove(programs: Mapping[str, str], text: str, settings: Mapping[str, Any], work: str) -> dict[str, Any]:
    """Runs vocab_count, cooccur, shuffle and glove in turn; the sums of words and contexts stand in ``vectors.txt``.

    ``seconds`` are those of the program ``glove``, ``counting_seconds`` those of ``cooccur``;
    ``peak_memory_bytes`` the largest of the four.
    """
    import resource

    folder = Path(work)
    vocabulary, counts, shuffled = (folder / name for name in ("vocab.txt", "counts.bin", "shuffled.bin"))

    def call(name: str, source: str | Path | None, target: Path | None, **options: object) -> float:
        command = [programs[name], "-verbose", "0"]
        for option, value in options.items():
            command += [f"-{option.replace('_', '-')}", str(value)]
        begin = time.perf_counter()
        with open(source or "/dev/null", "rb") as given, open(target or "/dev/null", "wb") as taken:
            subprocess.run(command, stdin=given, stdout=taken, stderr=subprocess.DEVNULL, cwd=work, check=True)
        return time.perf_counter() - begin

    call("vocab_count", text, vocabulary, min_count=settings["min_count"])
    counting = call(
        "cooccur", text, counts, vocab_file=vocabulary, symmetric=1, window_size=settings["window"], memory=_MEMORY
    )
    shuffling = call("shuffle", counts, shuffled, memory=_MEMORY)
    training = call(
        "glove",
        None,
        None,
        input_file=shuffled,
        vocab_file=vocabulary,
        save_file=folder / "vectors",
        vector_size=settings["vector_size"],
        threads=settings["threads"],
        iter=settings["epochs"],
        x_max=settings["x_max"],
        binary=0,
        model=2,
    )
    return {
        "seconds": training,
        "counting_seconds": counting,
        "shuffling_seconds": shuffling,
        "non_zeros": counts.stat().st_size // _COUNT_BYTES,
        "vocabulary": len(vocabulary.read_bytes().splitlines()),
        "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
    }
