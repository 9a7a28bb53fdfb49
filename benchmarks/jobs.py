"""Measurements in a process of their own: ``python -m benchmarks.jobs NAME ARGUMENTS`` prints one JSON object."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import (
    encoder_jobs,
    finetuning_jobs,
    glove_jobs,
    knowledge_jobs,
    labelled,
    language_jobs,
    neural,
    ngrams,
    pairs,
    relation_jobs,
    subwords,
)

__all__ = ["JOBS"]

LINE_WORDS = 1_000


def head(source: str, target: str, size: int) -> dict[str, Any]:
    """Writes the first ``size`` bytes of a text, up to a space."""
    from wenmai.core.compressed import reading

    with reading(source) as file:
        text = file.read(size)
    Path(target).write_bytes(text[: text.rfind(b" ")] + b"\n" if len(text) == size else text)
    return {}


def encode(source: str, text: Mapping[str, Any], min_count: int) -> dict[str, Any]:
    """Encodes a text; the clock runs from opening it until the encoded corpus is in its place."""
    from wenmai.data.corpus import Corpus
    from wenmai.data.encoded_corpus import encode_corpus
    from wenmai.models.word2vec import Word2VecConfig, keep_probabilities
    from wenmai.runs.environment import peak_memory_bytes
    from wenmai.text.settings import TextConfig

    begin, begin_cpu = time.perf_counter(), time.process_time()
    corpus = encode_corpus(Corpus.of_paths([source]), TextConfig(**text))
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
    peak = peak_memory_bytes()
    counts = corpus.counts[corpus.counts >= min_count]
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_memory_bytes": peak,
        "words": len(corpus),
        "types": len(corpus.counts),
        "vocabulary": len(counts),
        "kept_share": float((keep_probabilities(counts, Word2VecConfig()) * counts).sum() / counts.sum()),
    }


def break_lines(source: str, text: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Writes the words of an encoded text in lines of at most 1,000."""
    from wenmai.data.corpus import Corpus
    from wenmai.data.encoded_corpus import encode_corpus
    from wenmai.text.settings import TextConfig

    corpus = encode_corpus(Corpus.of_paths([source]), TextConfig(**text))
    words = corpus.words
    with open(target, "w", encoding="utf-8") as file:
        for start, end in zip(corpus.starts[:-1].tolist(), corpus.starts[1:].tolist(), strict=True):
            for first in range(start, end, LINE_WORDS):
                line = corpus.tokens[first : min(end, first + LINE_WORDS)].tolist()
                file.write(" ".join([words[token] for token in line]) + "\n")
    return {}


def zipf(vocabulary: int, words: int, target: str) -> dict[str, Any]:
    """Writes a text of independent draws with probabilities proportional to 1/rank, and every word once."""
    import numpy as np

    generator = np.random.default_rng([vocabulary, words])
    shares = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = max(0, words - vocabulary)
    tokens = np.empty(drawn + vocabulary, np.int32)
    for start in range(0, drawn, 1 << 20):
        points = generator.random(min(1 << 20, drawn - start)) * shares[-1]
        tokens[start : start + len(points)] = np.searchsorted(shares, points, side="right")
    tokens[drawn:] = np.arange(vocabulary)
    generator.shuffle(tokens)
    spelling = [f"w{rank}" for rank in range(1, vocabulary + 1)]
    with open(target, "w", encoding="ascii") as file:
        for start in range(0, len(tokens), LINE_WORDS):
            file.write(" ".join([spelling[token] for token in tokens[start : start + LINE_WORDS].tolist()]) + "\n")
    return {}


def gensim(lines: str, system: str, settings: Mapping[str, Any], linear: bool, target: str | None) -> dict[str, Any]:
    """Trains with gensim's ``corpus_file`` path; ``seconds`` are those of ``train()`` alone.

    Each of gensim's W threads compares the words that it has read itself with the words of the whole text, so that
    within an epoch the learning rate falls only by a W-th of what it should. ``linear`` corrects this: one call an
    epoch, with an end so far down that a W-th of the way there is where the next epoch begins.
    """
    from wenmai.runs.environment import peak_memory_bytes

    word2vec: Any = import_module("gensim.models.word2vec")
    if word2vec.FAST_VERSION < 0 or word2vec.CORPUSFILE_VERSION < 0:
        raise SystemExit("this gensim lacks its compiled loops; measuring it would mean nothing")
    rate = settings["learning_rate"]
    model = word2vec.Word2Vec(
        sg=int(system.startswith("sg")),
        hs=int(system.endswith("hs")),
        negative=settings["negative"],
        vector_size=settings["vector_size"],
        window=settings["window"],
        sample=settings["sample"],
        min_count=settings["min_count"],
        workers=settings["threads"],
        seed=settings["seed"],
        alpha=rate,
        min_alpha=1e-4 * rate,  # where ours ends
    )
    begin = time.perf_counter()
    model.build_vocab(corpus_file=lines)
    scanned = time.perf_counter()
    epochs, words_read = settings["epochs"], 0
    for epoch in range(epochs) if linear else (0,):
        if linear:
            model.alpha = rate * (1 - epoch / epochs)
            model.min_alpha = model.alpha - settings["threads"] * rate / epochs
        _, read = model.train(
            corpus_file=lines,
            total_examples=model.corpus_count,
            total_words=model.corpus_total_words,
            epochs=1 if linear else epochs,
        )
        words_read += read
    end = time.perf_counter()
    peak = peak_memory_bytes()
    if target is not None:
        model.wv.save_word2vec_format(target, binary=True)
    return {
        "seconds": end - scanned,
        "scan_seconds": scanned - begin,
        "peak_memory_bytes": peak,
        "vocabulary": len(model.wv),
        "words_read": words_read,
    }


def vectors(size: int, vector_size: int, target: str) -> dict[str, Any]:
    """Writes random vectors in word2vec's binary format."""
    import numpy as np

    from wenmai.formats.word2vec import write_word2vec
    from wenmai.vectors.word_vectors import WordVectors

    rows = np.random.default_rng(1).standard_normal((size, vector_size), np.float32)
    write_word2vec(target, WordVectors([f"w{i}" for i in range(size)], rows), binary=True)
    return {}


def search(size: int, vector_size: int, repeats: int, side: str) -> dict[str, Any]:
    """Times ``most_similar`` of ours or gensim's among random vectors; the first query warms up."""
    import numpy as np

    rows = np.random.default_rng(1).standard_normal((size, vector_size), np.float32)
    words = [f"w{i}" for i in range(size)]
    begin = time.perf_counter()
    found: Any
    if side == "ours":
        from wenmai.vectors.word_vectors import WordVectors

        found = WordVectors(words, rows)
    else:
        found = import_module("gensim.models").KeyedVectors(vector_size)
        found.add_vectors(words, rows)
    load_seconds = time.perf_counter() - begin
    seconds = []
    for word in words[: repeats + 1]:
        begin = time.perf_counter()
        found.most_similar(word, topn=10)
        seconds.append(time.perf_counter() - begin)
    return {
        "load_seconds": load_seconds,
        "first_seconds": seconds[0],
        "median_seconds": statistics.median(seconds[1:]),
        "seconds": seconds[1:],
    }


def compile_kernel(deterministic: bool) -> dict[str, Any]:
    """Times everything that is compiled before a training with both objectives begins, or its reading from a cache."""
    import numba

    from wenmai.config.recipe import Recipe
    from wenmai.core.registry import find_system
    from wenmai.data.corpus import Corpus
    from wenmai.data.encoded_corpus import encode_corpus

    task = find_system("word2vec").load()
    settings = {"min_count": 1, "hierarchical": True, "deterministic": deterministic, "threads": 2}
    recipe = Recipe.build("word2vec", task.sections, settings)
    corpus = encode_corpus(Corpus.of([["a", "few", "words", "and", "a", "few", "more"]] * 10), recipe.sections["text"])
    begin = time.perf_counter()
    job = task.begin(recipe, corpus)
    job.worker()  # the tables of noise and Huffman paths have kernels of their own
    return {"seconds": time.perf_counter() - begin, "numba": numba.__version__}


_MODULES = (
    *(encoder_jobs, finetuning_jobs, glove_jobs, knowledge_jobs, labelled, language_jobs),
    *(neural, ngrams, pairs, relation_jobs, subwords),
)

JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "break_lines": break_lines,
    "compile_kernel": compile_kernel,
    "gensim": gensim,
    "head": head,
    "encode": encode,
    "search": search,
    "vectors": vectors,
    "zipf": zipf,
    **{name: getattr(module, name) for module in _MODULES for name in module.__all__},
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](**json.loads(sys.argv[2]))))
