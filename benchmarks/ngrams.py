"""Measurements of the theme ``ngram`` in processes of their own."""

import math
import random
import re
import subprocess
import time
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = [
    "kenlm_perplexity",
    "lmplz",
    "ngram_agreement",
    "ngram_binary",
    "ngram_lines",
    "ngram_scoring",
    "ngram_text",
]


def ngram_text(source: str, target: str, unknown: str | None = None) -> dict[str, Any]:
    """Writes a text, decompressed if it is compressed; without a line feed at its end, lmplz would not end the line.

    ``unknown`` stands for the word ``<unk>``, which lmplz does not take for one.
    """
    from wenmai.core.compressed import reading

    last = b""
    with reading(source) as file, open(target, "wb") as copy:
        while piece := file.read(1 << 20):
            copy.write(piece)
            last = piece[-1:]
        if last != b"\n":
            copy.write(b"\n")
    if unknown is not None:
        text = Path(target).read_bytes()
        Path(target).write_bytes(re.sub(rb"(?<!\S)<unk>(?!\S)", unknown.encode(), text))
    return {}


def kenlm_perplexity(arpa: str, lines: str) -> dict[str, Any]:
    """Returns KenLM's perplexity by word and end of line; blank lines are left out."""
    model = import_module("kenlm").Model(arpa)
    texts = [line for line in Path(lines).read_text(encoding="utf-8").splitlines() if line.strip()]
    log10 = sum(map(model.score, texts))
    return {"perplexity": 10 ** (-log10 / sum(len(text.split()) + 1 for text in texts))}


def lmplz(program: str, order: int, text: str, target: str, work: str) -> dict[str, Any]:
    """Builds a model with KenLM's own program; the clock runs until the ARPA file is written."""
    import resource

    command = [program, "-o", str(order), "-S", "1G", "-T", work]
    begin = time.perf_counter()
    with open(text, "rb") as source, open(target, "wb") as file:
        subprocess.run(command, stdin=source, stdout=file, stderr=subprocess.DEVNULL, check=True)
    seconds = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_memory_bytes": 1024 * used.ru_maxrss,
        "size_bytes": Path(target).stat().st_size,
    }


def ngram_binary(program: str, arpa: str, target: str) -> dict[str, Any]:
    """Makes KenLM's binary file with its hash tables of an ARPA file."""
    begin = time.perf_counter()
    subprocess.run([program, "probing", arpa, target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return {"seconds": time.perf_counter() - begin, "size_bytes": Path(target).stat().st_size}


def ngram_lines(source: str, target: str, lines: int, words: int) -> dict[str, Any]:
    """Writes lines of words as they stand in a text, and as many with their words shuffled."""
    text = Path(source).read_text(encoding="utf-8").split()
    draw = random.Random(1)
    with open(target, "w", encoding="utf-8") as file:
        for _ in range(lines // 2):
            start = draw.randrange(max(1, len(text) - words))
            line = text[start : start + words]
            file.write(" ".join(line) + "\n")
            draw.shuffle(line)
            file.write(" ".join([*line[1:], "neverseenword"]) + "\n")
    return {}


def ngram_agreement(run: str, baseline: str, lines: str) -> dict[str, Any]:
    """Compares the log10 of every word with KenLM's."""
    import numpy as np

    import wenmai

    theirs = import_module("kenlm").Model(baseline)
    differences = [
        abs(value / math.log(10) - log10)
        for score in wenmai.load(run).score(Path(lines).read_text(encoding="utf-8").splitlines())
        for value, (log10, _, _) in zip(score.token_log_probs, theirs.full_scores(score.text), strict=True)
    ]
    found = np.array(differences)
    return {
        "tokens": found.size,
        "largest_difference": float(found.max()),
        "share_above_1e-5": float((found > 1e-5).mean()),
    }


def ngram_scoring(side: str, model: str, lines: str, copies: int, threads: int) -> dict[str, Any]:
    """Scores lines one after the other, as each package's users do; loading is timed apart."""
    import numba

    import wenmai
    from wenmai.runs.environment import peak_memory_bytes

    text = Path(lines).read_text(encoding="utf-8").splitlines()
    words = copies * sum(len(line.split()) + 1 for line in text)
    theirs = import_module("kenlm") if side == "kenlm" else None
    if theirs is None:
        numba.set_num_threads(threads)
        wenmai.load(model)  # imports what it needs, once in a process
    begin = time.perf_counter()
    loaded: Any = theirs.Model(model) if theirs else wenmai.load(model)
    load_seconds = time.perf_counter() - begin
    for _ in loaded.score(text) if theirs is None else map(loaded.score, text):
        pass  # warms up
    begin = time.perf_counter()
    for _ in range(copies):
        for _ in loaded.score(text) if theirs is None else map(loaded.score, text):
            pass
    seconds = time.perf_counter() - begin
    return {
        "words_per_second": words / seconds,
        "seconds": seconds,
        "load_seconds": load_seconds,
        "peak_memory_bytes": peak_memory_bytes(),
    }
