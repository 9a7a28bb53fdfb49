"""The figures that matter, computed from the raw rows of the results."""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import compilation, decoding, memory, numbering, quality, search, startup, training, word2vec

__all__ = [
    "SYSTEM_NAMES",
    "Claim",
    "Content",
    "Results",
    "claims",
    "exponent",
    "extra_memory",
    "latest",
    "median",
    "quality_means",
    "read_results",
    "round_ratios",
    "speed_ratios",
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
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A figure beside its target.

    Attributes:
        name: What it is, in English and in Chinese.
        target: What it should be.
        value: What was measured.
        met: Whether that is good enough.
    """

    name: tuple[str, str]
    target: str
    value: str
    met: bool


def read_results(folder: Path) -> dict[str, Any]:
    """Reads all result files of a folder."""
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}


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


def round_ratios(content: Content, *keys: str, peer: str) -> dict[tuple[Any, ...], list[float]]:
    """Our tokens/s over a peer's, for each combination of the keys that both were measured with, round by round."""
    speed = {
        (row["side"], row["repeat"], *(row[key] for key in keys)): row["tokens_per_second"] for row in content["rows"]
    }
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


def words_per_core(content: Content, packing: str) -> float:
    """Words numbered per second of processor time, the median of all rounds."""
    rows = [row for row in content["rows"] if row["packing"] == packing]
    return statistics.median(float(row["words"] / row["cpu_seconds"]) for row in rows)


def extra_memory(row: Mapping[str, Any]) -> int:
    """Bytes that training needed at its peak beyond the two matrices, numbering in the same process included."""
    return int(max(row["numbering_peak_bytes"], row["training_peak_bytes"]) - row["matrices_bytes"])


def claims(results: Results) -> list[Claim]:
    """All targets whose theme was measured."""
    return [claim for theme, find in CLAIMS.items() if theme in results for claim in find(results[theme])]


def _speed(content: Content) -> Iterator[Claim]:
    for (system, size), ratios in speed_ratios(content).items():
        target, ratio = word2vec.TARGETS[system, size], statistics.median(ratios)
        english, chinese = SYSTEM_NAMES[system]
        name = (f"{english}, d = {size}: words/s over gensim's", f"{chinese}，d = {size}：速度与 gensim 之比")
        yield Claim(name=name, target=f"≥ {target:g} ×", value=f"{ratio:.2f} ×", met=ratio >= target)


def _quality(content: Content) -> Iterator[Claim]:
    means = quality_means(content)
    for test in quality.SIMILARITY | quality.ANALOGIES:
        differences = [
            ours - peer
            for (system, name), (ours, peer, _) in means.items()
            if name == test and system != "sgns-classic"  # not a default: the classic update is there for study
        ]
        if differences:
            yield Claim(
                name=(
                    f"{test}: score minus gensim's, the least of the four systems",
                    f"{test}：得分减 gensim 得分，各系统中最小者",
                ),
                target=f"≥ -{quality.LARGEST_SHORTFALL}",
                value=f"{min(differences):+.4f}",
                met=min(differences) >= -quality.LARGEST_SHORTFALL,
            )


def _memory(content: Content) -> Iterator[Claim]:
    most = max(map(extra_memory, content["rows"]))
    name = ("peak memory beyond the two matrices", "两个矩阵之外的内存峰值")
    yield _at_most(name, memory.ALLOWED_BYTES / 1e6, most / 1e6, "MB")


def _numbering(content: Content) -> Iterator[Claim]:
    slowest = min(words_per_core(content, packing) for packing in {row["packing"] for row in content["rows"]})
    target = numbering.TARGET_WORDS_PER_SECOND
    yield Claim(
        name=(
            "numbering the corpus, words/s per core (plain or xz, the slower)",
            "语料编号，每核每秒词数（纯文本与 xz 中较慢者）",
        ),
        target=f"≥ {target / 1e6:g} M",
        value=f"{slowest / 1e6:.2f} M",
        met=slowest >= target,
    )


def _compilation(content: Content) -> Iterator[Claim]:
    for deterministic, name in (
        (False, ("compiling the kernel, the first time", "首次编译内核")),
        (True, ("compiling the deterministic kernel, the first time", "首次编译确定性内核")),
    ):
        seconds = median(content, "seconds", deterministic=deterministic, cache="empty")
        yield _at_most(name, compilation.TARGET_SECONDS, seconds, "s")


def _startup(content: Content) -> Iterator[Claim]:
    for what, target in startup.TARGETS.items():
        yield _at_most((f"`{what}`", f"`{what}`"), target * 1e3, median(content, "median", what=what) * 1e3, "ms")


def _search(content: Content) -> Iterator[Claim]:
    size = f"{content['settings']['size']:,} × {content['settings']['vector_size']}"
    seconds = median(content, "median_seconds", side="ours")
    name = (f"`most_similar` among {size}", f"在 {size} 中 `most_similar`")
    yield _at_most(name, search.TARGET_SECONDS * 1e3, seconds * 1e3, "ms")


def _decoding(content: Content) -> Iterator[Claim]:
    for peer, title in (("generate", "MarianMTModel.generate"), ("ctranslate2", "CTranslate2")):
        for (case, batch), ratios in round_ratios(content, "case", "batch", peer=peer).items():
            target, ratio = decoding.TARGETS[case, batch][peer], statistics.median(ratios)
            name = (
                f"greedy decoding, {case}, batch {batch}: tokens/s over {title}'s",
                f"贪心解码，{_chinese(case)}，批 {batch}：速度与 {title} 之比",
            )
            yield Claim(name=name, target=f"≥ {target:g} ×", value=f"{ratio:.2f} ×", met=ratio >= target)


def _training(content: Content) -> Iterator[Claim]:
    names = {"default": ("as users have it", "默认设置")}
    for (mode,), ratios in round_ratios(content, "mode", peer="trainer").items():
        ratio, (english, chinese) = statistics.median(ratios), names.get(mode, (mode, mode))
        name = (
            f"training a Transformer, {english}: tokens/s over Trainer's",
            f"训练 Transformer，{chinese}：速度与 Trainer 之比",
        )
        target = f"≥ {training.TARGET:g} ×"
        yield Claim(name=name, target=target, value=f"{ratio:.2f} ×", met=ratio >= training.TARGET)


def _chinese(case: str) -> str:
    """``6+6 layers of 512`` in Chinese."""
    layers, size = case.split(" layers of ")
    return f"{layers} 层 {size} 维"


def _at_most(name: tuple[str, str], target: float, value: float, unit: str) -> Claim:
    return Claim(name=name, target=f"≤ {target:g} {unit}", value=f"{value:.3g} {unit}", met=value <= target)


CLAIMS: dict[str, Callable[[Content], Iterator[Claim]]] = {
    "word2vec": _speed,
    "quality": _quality,
    "memory": _memory,
    "numbering": _numbering,
    "compile": _compilation,
    "startup": _startup,
    "search": _search,
    "decoding": _decoding,
    "training": _training,
}
