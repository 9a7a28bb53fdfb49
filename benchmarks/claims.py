"""What was aimed at, beside what was measured."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks import (
    autotune,
    classification,
    compilation,
    context,
    decoding,
    fasttext,
    glove,
    gpt,
    language,
    memory,
    ngram,
    numbering,
    quality,
    search,
    startup,
    training,
    translation,
    word2vec,
)
from benchmarks.figures import (
    SYSTEM_NAMES,
    Content,
    Results,
    accuracy_means,
    extra_memory,
    latest,
    median,
    memory_pairs,
    ngram_ratios,
    quality_means,
    round_ratios,
    speed_ratios,
    subword_means,
    total_ratios,
    words_per_core,
)
from benchmarks.harness import DEFAULT_PAIRS

__all__ = ["Claim", "claims"]


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


def _translation(content: Content) -> Iterator[Claim]:
    rows = latest(content).get(DEFAULT_PAIRS, [])
    for (system, attention), (english, chinese) in {
        ("transformer", True): ("Transformer", "Transformer"),
        ("seq2seq", True): ("GRU with attention", "带注意力的 GRU"),
    }.items():
        target = translation.TARGETS[system]
        own = [row for row in rows if (row["system"], row["attention"]) == (system, attention)]
        if own:
            best = max(own, key=lambda row: (row["training_seconds"] <= translation.SECONDS, row["bleu"]))
            yield Claim(
                name=(
                    f"Multi30k, German to English, {english}: BLEU on test_2016",
                    f"Multi30k 德译英，{chinese}：test_2016 上的 BLEU",
                ),
                target=f"≥ {target} in {translation.SECONDS / 60:g} min",
                value=f"{best['bleu']:.1f} in {best['training_seconds'] / 60:.1f} min",
                met=best["bleu"] >= target and best["training_seconds"] <= translation.SECONDS,
            )


def _ngram(content: Content) -> Iterator[Claim]:
    names = {"build": ("building the 5-gram model", "建立 5 元模型"), "score": ("scoring a file", "给文件打分")}
    for measure, value in (("build", "wall_seconds"), ("score", "words_per_second")):
        ratios = ngram_ratios(content, measure, value)
        if ratios:
            ratio, target, (english, chinese) = statistics.median(ratios), ngram.TARGETS[measure], names[measure]
            name = (f"n-grams, {english}: speed over KenLM's", f"n 元模型，{chinese}：速度与 KenLM 之比")
            yield Claim(name=name, target=f"≥ {target:g} ×", value=f"{ratio:.2f} ×", met=ratio >= target)
    rows = content["rows"]
    found = max(row["largest_difference"] for row in rows if row["measure"] == "agreement")
    yield _at_most(
        ("n-grams: largest difference of log10 from KenLM's", "n 元模型：log10 与 KenLM 的最大差"),
        ngram.TARGETS["difference"], found, "",
    )  # fmt: skip
    loads = [row["load_seconds"] for row in rows if row["measure"] == "score" and row["side"] == "ours"]
    yield _at_most(
        ("n-grams: loading the model of en8", "n 元模型：载入 en8 的模型"),
        1000 * ngram.TARGETS["load_seconds"], 1000 * statistics.median(loads), "ms",
    )  # fmt: skip
    binary = next((row["size_bytes"] for row in rows if row["measure"] == "size"), None)
    if binary is not None:  # an ARPA file, which there is without build_binary, cannot be asked as it is
        size = next(row["size_bytes"] for row in rows if row["measure"] == "build" and row["side"] == "ours")
        most = ngram.TARGETS["size"] * binary
        yield Claim(
            name=(
                "n-grams: model file, beside KenLM's probing binary",
                "n 元模型：模型文件，与 KenLM 的二进制文件相比",
            ),
            target=f"≤ {most / 1e6:.0f} MB",
            value=f"{size / 1e6:.0f} MB",
            met=size <= most,
        )


def _gpt(content: Content) -> Iterator[Claim]:
    chinese = {"training": "训练", "generation, batch 1": "生成，批 1", "generation, batch 16": "生成，批 16"}
    for (case,), ratios in round_ratios(content, "case", peer="transformers").items():
        target, ratio = gpt.TARGETS[case], statistics.median(ratios)
        name = (f"GPT, {case}: tokens/s over transformers'", f"GPT {chinese[case]}：速度与 transformers 之比")
        yield Claim(name=name, target=f"≥ {target:g} ×", value=f"{ratio:.2f} ×", met=ratio >= target)


def _context(content: Content) -> Iterator[Claim]:
    for (length,), ratios in round_ratios(content, "context", peer="vanilla").items():
        ratio = statistics.median(ratios)
        name = (
            f"Transformer-XL reading with a context of {length}: tokens/s over a Transformer that reads it again",
            f"Transformer-XL 以 {length} 词的上下文求值：与逐词重读之比",
        )
        yield Claim(name=name, target=f"≥ {context.TARGET:g} ×", value=f"{ratio:.0f} ×", met=ratio >= context.TARGET)


def _language(content: Content) -> Iterator[Claim]:
    lstms = [row for row in content["rows"] if row["system"] == "rnnlm" and row["on"] == language.LSTM_ON]
    if lstms:
        best = min(lstms, key=lambda row: (row["training_seconds"] > language.LSTM_SECONDS, row["perplexity"]))
        seconds, perplexity = best["training_seconds"], best["perplexity"]
        yield Claim(
            name=(
                f"LSTM of {best['parameters'] / 1e6:.1f} M parameters, `{language.LSTM_ON}`: perplexity",
                f"{best['parameters'] / 1e6:.1f} M 参数的 LSTM，`{language.LSTM_ON}`：困惑度",
            ),
            target=f"≤ {language.LSTM_PERPLEXITY} in {language.LSTM_SECONDS / 60:g} min",
            value=f"{perplexity:.1f} in {seconds / 60:.1f} min",
            met=perplexity <= language.LSTM_PERPLEXITY and seconds <= language.LSTM_SECONDS,
        )
    for with_memory, without in memory_pairs(content):
        ratio = with_memory["perplexity"] / without["perplexity"]
        yield Claim(
            name=(
                f"Transformer-XL, `{with_memory['on']}`: perplexity over that without memory, equal training",
                f"Transformer-XL，`{with_memory['on']}`：同等训练下与无记忆时的困惑度之比",
            ),
            target="< 1 ×",
            value=f"{ratio:.3f} ×",
            met=ratio < 1,
        )


def _fasttext(content: Content) -> Iterator[Claim]:
    means = subword_means(content, "official")
    ratios = round_ratios(content, "system", peer="official", value="words_per_second", turn="seed")
    for system, target in fasttext.TARGETS.items():
        english, chinese = SYSTEM_NAMES[system]
        if (system,) in ratios:
            ratio = statistics.median(ratios[system,])
            name = (f"{english}: words/s over official fastText's", f"{chinese}：速度与官方 fastText 之比")
            yield Claim(name=name, target=f"≥ {target:g} ×", value=f"{ratio:.2f} ×", met=ratio >= target)
        for test in quality.SIMILARITY:
            if (system, test) in means:
                ours, theirs, _ = means[system, test]
                yield Claim(
                    name=(f"{english}, {test}: score minus official fastText's", f"{chinese}，{test}：得分减官方得分"),
                    target=f"≥ -{fasttext.LARGEST_SHORTFALL}",
                    value=f"{ours - theirs:+.4f}",
                    met=ours - theirs >= -fasttext.LARGEST_SHORTFALL,
                )


def _glove(content: Content) -> Iterator[Claim]:
    if not any(row["system"] == "glove" for row in content["rows"]):
        return
    for name, value, target in (
        (("GloVe, counting: words/s", "GloVe，计数：每秒词数"), "counted_per_second", glove.COUNTING_TARGET),
        (("GloVe, training: counts/s", "GloVe，训练：每秒非零项"), "non_zeros_per_second", glove.TRAINING_TARGET),
    ):
        speed = median(content, value, system="glove")
        yield Claim(name=name, target=f"≥ {target / 1e6:g} M", value=f"{speed / 1e6:.2f} M", met=speed >= target)
    for row in content["rows"]:
        if row["system"] != glove.REFERENCE:
            continue
        ours = [other for other in content["rows"] if other["system"] == "glove"]
        for test, theirs in row["scores"].items():
            difference = statistics.mean(other["scores"][test] for other in ours) - theirs
            yield Claim(
                name=(f"GloVe, {test}: score minus that of its own programs", f"GloVe，{test}：得分减其原程序得分"),
                target=f"≥ -{glove.LARGEST_SHORTFALL}",
                value=f"{difference:+.4f}",
                met=difference >= -glove.LARGEST_SHORTFALL,
            )


def _classification(content: Content) -> Iterator[Claim]:
    for name, seconds, target in (
        (("training a classifier", "训练分类器"), "seconds", classification.TRAINING_TARGET),
        (("classifying many texts", "批量分类"), "predict_seconds", classification.PREDICTION_TARGET),
    ):
        if ratios := total_ratios(content, seconds):
            ratio = min(map(statistics.median, ratios.values()))
            english = f"{name[0]}: speed over official fastText's (the lesser of two configurations)"
            chinese = f"{name[1]}：速度与官方 fastText 之比（两种配置中较小者）"
            yield Claim(name=(english, chinese), target=f"≥ {target:g} ×", value=f"{ratio:.2f} ×", met=ratio >= target)
    if means := accuracy_means(content):
        differences: dict[str, list[float]] = {}
        for (name, _), (ours, theirs, _) in means.items():
            differences.setdefault(name, []).append(ours - theirs)
        least = min(map(statistics.mean, differences.values()))
        yield Claim(
            name=(
                "accuracy minus official fastText's, the least of the five sets",
                "准确率减官方 fastText 准确率，五个数据集中最小者",
            ),
            target=f"≥ -{100 * classification.LARGEST_SHORTFALL:g} points",
            value=f"{100 * least:+.2f} points",
            met=least >= -classification.LARGEST_SHORTFALL,
        )
    if small := [row for row in content["rows"] if "ftz_bytes" in row]:
        share = max(row["ftz_bytes"] / row["bin_bytes"] for row in small)
        lost = max(row["bin_accuracy"] - row["ftz_accuracy"] for row in small)
        share_name = (
            "quantised classifier: `.ftz` over `.bin`, the largest",
            "量化分类器：`.ftz` 与 `.bin` 大小之比，最大者",
        )
        yield _at_most(share_name, 100 * classification.QUANTISED_SHARE, 100 * share, "%")
        lost_name = ("quantised classifier: accuracy lost, the most", "量化分类器：准确率损失，最大者")
        yield _at_most(lost_name, 100 * classification.ACCURACY_LOST_BY_QUANTISING, 100 * lost, "points")


def _autotune(content: Content) -> Iterator[Claim]:
    sets = list(dict.fromkeys(row["set"] for row in content["rows"]))
    better = sum(median(content, "tuned", set=name) > median(content, "default", set=name) for name in sets)
    yield Claim(
        name=(
            "`wenmai autotune`: sets with better accuracy than the defaults",
            "`wenmai autotune`：优于默认设置的数据集数",
        ),
        target=f"≥ {autotune.LEAST_BETTER} of {len(classification.SETS)}",
        value=f"{better} of {len(sets)}",
        met=better >= autotune.LEAST_BETTER,
    )


def _chinese(case: str) -> str:
    """``6+6 layers of 512`` in Chinese."""
    layers, size = case.split(" layers of ")
    return f"{layers} 层 {size} 维"


def _at_most(name: tuple[str, str], target: float, value: float, unit: str) -> Claim:
    return Claim(
        name=name, target=f"≤ {target:g} {unit}".rstrip(), value=f"{value:.3g} {unit}".rstrip(), met=value <= target
    )


CLAIMS: dict[str, Callable[[Content], Iterator[Claim]]] = {
    "word2vec": _speed,
    "quality": _quality,
    "memory": _memory,
    "numbering": _numbering,
    "compile": _compilation,
    "startup": _startup,
    "search": _search,
    "fasttext": _fasttext,
    "glove": _glove,
    "classification": _classification,
    "autotune": _autotune,
    "decoding": _decoding,
    "training": _training,
    "translation": _translation,
    "ngram": _ngram,
    "gpt": _gpt,
    "context": _context,
    "language": _language,
}
