"""How much memory training takes beyond the two matrices."""

from benchmarks.harness import SETTINGS, Bench, settings_of
from benchmarks.result import Numbers, Result, Rows

__all__ = ["run"]

CASES = (  # vocabulary, vector size, words of the text
    (10_000, 100, 5_000_000),
    (100_000, 100, 5_000_000),
    (1_000_000, 100, 5_000_000),
    (100_000, 600, 5_000_000),
    (1_000_000, 300, 5_000_000),
    (10_000, 100, 100_000_000),  # memory must not grow with the text
)
QUICK_CASES = ((10_000, 100, 300_000), (10_000, 100, 1_000_000))


def run(bench: Bench) -> None:
    """Trains for one epoch on synthetic text: once with encoding it in the same process, once with that done before."""
    results = bench.results("memory", SETTINGS | {"epochs": 1, "min_count": 1}, corpus=False)
    for vocabulary, size, words in QUICK_CASES if bench.quick else CASES:
        settings = settings_of("sgns", {"epochs": 1, "seed": 1, "min_count": 1, "vector_size": size})
        text = bench.zipf(vocabulary, words)
        case = {"vocabulary": vocabulary, "vector_size": size, "words": words, "matrices_bytes": 8 * vocabulary * size}
        first = bench.train(text, "sgns", settings, cache="unencoded")
        bench.clear(bench.work / "unencoded")
        again = bench.train(text, "sgns", settings)
        text.path.unlink()
        peaks = {"numbering_peak_bytes": first["peak_memory_bytes"], "training_peak_bytes": again["peak_memory_bytes"]}
        results.add({**case, **peaks})


def facts(rows: Rows, _: Result) -> dict[str, Numbers]:
    peaks = [max(row["numbering_peak_bytes"], row["training_peak_bytes"]) - row["matrices_bytes"] for row in rows]
    return {"beyond": Numbers(peaks)}
