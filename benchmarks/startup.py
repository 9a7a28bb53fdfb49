"""How long an import, the help, the neighbours of a word and a training of a few updates take."""

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.harness import ROOT, Bench
from benchmarks.result import Rows

__all__ = ["run"]

WORDS, VECTOR_SIZE = 66_000, 100


def run(bench: Bench) -> None:
    """Times whole processes, the start of the interpreter included, after one that fills the caches of the disk."""
    run = bench.work / "run"
    bench.job("vectors", size=WORDS, vector_size=VECTOR_SIZE, target=bench.work / "vectors.bin")
    bench.wenmai("import", "word2vec", bench.work / "vectors.bin", "--out", run)
    text = bench.work / "text.txt"
    text.write_text("the cat sat on the mat\n" * 200)
    tiny = ["--hidden-size=16", "--num-layers=1", "--num-heads=2", "--epochs=1", "--vocab-size=60", "--threads=1"]
    commands = {
        "python alone": ["-c", "pass"],
        "import wenmai": ["-c", "import wenmai"],
        "wenmai --help": ["-m", "wenmai", "--help"],
        "wenmai nearest": ["-m", "wenmai", "nearest", str(run), "w7"],
        "wenmai train bert": ["-m", "wenmai", "train", "bert", str(text), "--out", str(bench.work / "{}"), *tiny],
    }
    results = bench.results("startup", {"words": WORDS, "vector_size": VECTOR_SIZE}, corpus=False)
    for name, command in commands.items():
        repeats = [[part.format(number) for part in command] for number in range(1 + bench.repeats(10))]
        _, *seconds = [_seconds(one, bench.environment()) for one in repeats]
        results.add({"what": name, "best": min(seconds), "median": statistics.median(seconds), "seconds": seconds})


def _seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def facts(rows: Rows, _: object) -> dict[str, object]:
    """Returns the median time of each command."""
    return {"times": {what: own.median for what, own in rows.by("what").items()}}
