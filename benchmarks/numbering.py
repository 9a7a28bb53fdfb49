"""How fast a text is encoded (words to ids), from an empty cache: plain and compressed by xz."""

import lzma
import shutil

from benchmarks.harness import Bench
from benchmarks.result import Numbers, Result, Rows
from wenmai.core.compressed import compression, reading

__all__ = ["run"]


def run(bench: Bench) -> None:
    """Encodes the corpus several times in both packings."""
    given, plain, packed = bench.source.path, bench.work / "plain.txt", bench.work / "packed.xz"
    with reading(given) as source, open(plain, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    if compression(given) == "xz":
        packed = given
    else:
        with open(plain, "rb") as file, lzma.open(packed, "wb", preset=1) as target:
            shutil.copyfileobj(file, target, 1 << 20)
    results = bench.results("numbering", {})
    for repeat in range(bench.repeats(3)):
        for packing, path in (("plain", plain), ("xz", packed)):
            found = bench.job("encode", cache="unencoded", source=path, text=bench.source.settings, min_count=5)
            bench.clear(bench.work / "unencoded")
            names = ("words", "seconds", "cpu_seconds", "peak_memory_bytes")
            sizes = {"bytes": path.stat().st_size, **{name: found[name] for name in names}}
            results.add({"packing": packing, "repeat": repeat, **sizes})


def facts(rows: Rows, _: Result) -> dict[str, Numbers]:
    times = {"speed": "seconds", "per_core": "cpu_seconds"}
    return {name: Numbers(row["words"] / row[seconds] for row in rows) for name, seconds in times.items()}
