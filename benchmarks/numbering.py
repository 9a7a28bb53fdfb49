"""How fast a text is encoded (words to ids), from an empty cache: plain and compressed by xz."""

import lzma
import shutil

from benchmarks.harness import Bench
from benchmarks.result import Numbers, Result, Rows
from benchmarks.section import Claim, Part, Section
from wenmai.core.compressed import compression, reading

__all__ = ["SECTION", "TARGET_WORDS_PER_SECOND", "run"]

TARGET_WORDS_PER_SECOND = 3e6  # and core


def run(bench: Bench) -> None:
    """Numbers the corpus several times in both packings."""
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
            found = bench.job("number", cache="unnumbered", source=path, text=bench.source.settings, min_count=5)
            bench.clear(bench.work / "unnumbered")
            names = ("words", "seconds", "cpu_seconds", "peak_memory_bytes")
            sizes = {"bytes": path.stat().st_size, **{name: found[name] for name in names}}
            results.add({"packing": packing, "repeat": repeat, **sizes})


def _facts(rows: Rows, _: Result) -> dict[str, Numbers]:
    times = {"speed": "seconds", "per_core": "cpu_seconds"}
    return {name: Numbers(row["words"] / row[seconds] for row in rows) for name, seconds in times.items()}


SECTION = Section(
    "Encoding a corpus",
    (
        Part(
            f"""
            From an empty cache: hashing the file, reading it, turning words into ids, ordering by frequency, writing.
            *Per core* is per second of processor time, and should be at least {TARGET_WORDS_PER_SECOND / 1e6:g} M.
            """,
            {
                "file": "{packing}",
                "its MB": "{bytes:MB}",
                "M words/s": "{speed:M}",
                "M words/s per core": "{per_core:M}",
                "peak MB": "{peak_memory_bytes.most:MB}",
            },
            by="packing",
        ),
    ),
    Claim(
        "encoding the corpus, words/s per core (plain or xz, the slower)",
        "{per_core:M} M",
        f"≥ {TARGET_WORDS_PER_SECOND / 1e6:g} M",
        by="packing",
        worst=True,
    ),
    facts=_facts,
)
