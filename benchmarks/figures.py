"""The figures that matter, computed from the raw rows of the results."""

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import fasttext, quality

__all__ = [
    "SYSTEM_NAMES",
    "Content",
    "Results",
    "accuracy_means",
    "exponent",
    "extra_memory",
    "latest",
    "median",
    "memory_pairs",
    "ngram_ratios",
    "quality_means",
    "read_results",
    "round_ratios",
    "speed_ratios",
    "subword_means",
    "total_ratios",
    "words_per_core",
]

Content = Mapping[str, Any]  # of a result file
Results = Mapping[str, Content]  # by theme

SYSTEM_NAMES = {
    "sgns": ("skip-gram, negative sampling", "skip-gram，负采样"),
    "sgns-classic": ("skip-gram, negative sampling, negatives not shared", "skip-gram，负采样（各对独立）"),
    "sghs": ("skip-gram, hierarchical softmax", "skip-gram，层次 softmax"),
    "cbow-ns": ("CBOW, negative sampling", "CBOW，负采样"),
    "cbow-hs": ("CBOW, hierarchical softmax", "CBOW，层次 softmax"),
    "fasttext-skipgram": ("skip-gram with subwords", "含子词的 skip-gram"),
    "fasttext-cbow": ("CBOW with subwords", "含子词的 CBOW"),
}


def read_results(folder: Path) -> dict[str, Any]:
    """Reads all files of measurements in a folder; ``fingerprints.json`` has none."""
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    return {theme: content for theme, content in found.items() if "rows" in content}


def median(content: Content, value: str, **chosen: Any) -> float:
    """The median of a value over the rows that have all the chosen properties."""
    rows = content["rows"]
    values = [float(row[value]) for row in rows if all(row[name] == want for name, want in chosen.items())]
    return statistics.median(values)


def speed_ratios(content: Content) -> dict[tuple[str, int], list[float]]:
    """Our words/s over gensim's, for each system and vector size, round by round."""
    speed = {
        (row["system"], row["vector_size"], row["repeat"], row["side"]): row["words_per_second"]
        for row in content["rows"]
    }
    found: dict[tuple[str, int], list[float]] = {}
    for system, size, repeat, side in speed:
        if side == "ours" and (system, size, repeat, "gensim") in speed:
            ratio = speed[system, size, repeat, "ours"] / speed[system, size, repeat, "gensim"]
            found.setdefault((system, size), []).append(ratio)
    return found


def round_ratios(
    content: Content, *keys: str, peer: str, value: str = "tokens_per_second", turn: str = "repeat"
) -> dict[tuple[Any, ...], list[float]]:
    """Our speed over a peer's, for each combination of the keys that both were measured with, round by round."""
    speed = {(row["side"], row[turn], *(row[key] for key in keys)): row[value] for row in content["rows"]}
    found: dict[tuple[Any, ...], list[float]] = {}
    for side, *rest in speed:
        if side == "ours" and (peer, *rest) in speed:
            found.setdefault(tuple(rest[1:]), []).append(speed["ours", *rest] / speed[peer, *rest])
    return found


def exponent(content: Content, kind: str, value: str) -> float | None:
    """The power of the length with which a layer's time or memory grows: a straight line through the logarithms.

    Only lengths from ``fit_from`` on count; None if fewer than two of them have a value.
    """
    points = [
        (math.log(row["length"]), math.log(row[value]))
        for row in content["rows"]
        if row["kind"] == kind and row["length"] >= content["settings"]["fit_from"] and row[value] > 0
    ]
    if len({length for length, _ in points}) < 2:
        return None
    return statistics.linear_regression([length for length, _ in points], [size for _, size in points]).slope


def latest(content: Content) -> dict[str, list[Mapping[str, Any]]]:
    """The last measurement of each run, by test set; the best BLEU first."""
    newest = {(row["pairs"], row["run"]): row for row in content["rows"]}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for (pairs, _), row in newest.items():
        found.setdefault(pairs, []).append(row)
    return {pairs: sorted(rows, key=lambda row: -row["bleu"]) for pairs, rows in found.items()}


def quality_means(content: Content, peer: str = "gensim") -> dict[tuple[str, str], tuple[float, float, int]]:
    """For each system and test set: our mean score, the peer's, and over how many seeds that both have."""
    scores = {(row["system"], row["side"], row["seed"]): row["scores"] for row in content["rows"]}
    found = {}
    for variant, (system, _) in quality.VARIANTS.items():
        seeds = [s for name, side, s in scores if (name, side) == (variant, "ours") and (system, peer, s) in scores]
        for test in quality.SIMILARITY | quality.ANALOGIES if seeds else ():
            ours = [scores[variant, "ours", seed][test] for seed in seeds]
            theirs = [scores[system, peer, seed][test] for seed in seeds]
            if None not in (*ours, *theirs):
                found[variant, test] = (statistics.mean(ours), statistics.mean(theirs), len(seeds))
    return found


def subword_means(content: Content, peer: str) -> dict[tuple[str, str], tuple[float, float, int]]:
    """For each system with subwords and test set: our mean score, the peer's, and over how many seeds of both."""
    scores = {(row["system"], row["side"], row["seed"]): row["scores"] for row in content["rows"]}
    found = {}
    for system in fasttext.SYSTEMS:
        seeds = [s for name, side, s in scores if (name, side) == (system, "ours") and (system, peer, s) in scores]
        for test in quality.SIMILARITY | quality.ANALOGIES if seeds else ():
            sides = [[scores[system, side, seed][test] for seed in seeds] for side in ("ours", peer)]
            if None not in (*sides[0], *sides[1]):
                found[system, test] = (statistics.mean(sides[0]), statistics.mean(sides[1]), len(seeds))
    return found


def accuracy_means(content: Content) -> dict[tuple[str, str], tuple[float, float, int]]:
    """For each set and configuration: our mean accuracy, the reference's, and over how many seeds of both."""
    found = {}
    for key, seeds in _both_sides(content).items():
        ours, theirs = ([row["accuracy"] for row in rows] for rows in zip(*seeds.values(), strict=True))
        found[key] = (statistics.mean(ours), statistics.mean(theirs), len(seeds))
    return found


def total_ratios(content: Content, seconds: str) -> dict[str, list[float]]:
    """The reference's seconds over ours, summed over the sets that both sides have, by configuration; seed by seed."""
    totals: dict[tuple[str, int], list[float]] = {}
    for (_, configuration), seeds in _both_sides(content).items():
        for seed, rows in seeds.items():
            sums = totals.setdefault((configuration, seed), [0.0, 0.0])
            for side, row in enumerate(rows):
                sums[side] += row[seconds]
    found: dict[str, list[float]] = {}
    for (configuration, _), (ours, theirs) in totals.items():
        found.setdefault(configuration, []).append(theirs / ours)
    return found


def _both_sides(content: Content) -> dict[tuple[str, str], dict[int, tuple[Any, Any]]]:
    """Rows of the theme ``classification``: (set, configuration) to seed to ours and the reference's."""
    rows = {(row["set"], row["configuration"], row["seed"], row["side"]): row for row in content["rows"]}
    found: dict[tuple[str, str], dict[int, tuple[Any, Any]]] = {}
    for *key, seed, side in rows:
        if side == "ours" and (*key, seed, "reference") in rows:
            pair = rows[(*key, seed, "ours")], rows[(*key, seed, "reference")]
            found.setdefault((key[0], key[1]), {})[seed] = pair
    return found


def words_per_core(content: Content, packing: str) -> float:
    """Words numbered per second of processor time, the median of all rounds."""
    rows = [row for row in content["rows"] if row["packing"] == packing]
    return statistics.median(float(row["words"] / row["cpu_seconds"]) for row in rows)


def extra_memory(row: Mapping[str, Any]) -> int:
    """Bytes that training needed at its peak beyond the two matrices, numbering in the same process included."""
    return int(max(row["numbering_peak_bytes"], row["training_peak_bytes"]) - row["matrices_bytes"])


def ngram_ratios(content: Content, measure: str, value: str) -> list[float]:
    """Ours over KenLM's, round by round; of seconds theirs over ours."""
    rounds: dict[int, dict[str, float]] = {}
    for row in content["rows"]:
        if row["measure"] == measure and "side" in row:
            rounds.setdefault(row["repeat"], {})[row["side"]] = row[value]
    both = [found for found in rounds.values() if len(found) == 2]
    if value.endswith("seconds"):
        return [found["kenlm"] / found["ours"] for found in both]
    return [found["ours"] / found["kenlm"] for found in both]


def memory_pairs(content: Content) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Transformer-XLs with a memory and without one, alike in everything else, the tokens they were trained on too."""
    alike: dict[Any, dict[bool, Mapping[str, Any]]] = {}
    apart = ("memory_length", "minutes", "steps")  # how long they were trained, the tokens say
    for row in content["rows"]:
        if row["system"] == "transformer-xl":
            rest = sorted((name, str(value)) for name, value in row["changed"].items() if name not in apart)
            key = (row["on"], row["corpus"], row["training_tokens"], *rest)
            alike.setdefault(key, {})[row["changed"].get("memory_length") == 0] = row
    return [(both[False], both[True]) for both in alike.values() if len(both) == 2]
