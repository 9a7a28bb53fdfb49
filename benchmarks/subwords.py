"""Jobs of ``fasttext`` and ``loading``: the official package and gensim at work, each in a process of its own."""

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["fasttext_file", "gensim_subwords", "official_subwords", "read_fasttext"]


def official_subwords(lines: str, algorithm: str, settings: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Trains with the official package, whose one call reads the text, allocates and trains.

    ``seconds`` are those of training: of the call, less those of the same call with no epochs. The call takes no seed;
    with threads no two trainings are equal.
    """
    from wenmai.runs.environment import peak_memory_bytes

    fasttext: Any = import_module("fasttext")

    def train(epochs: int) -> tuple[Any, float]:
        begin = time.perf_counter()
        model = fasttext.train_unsupervised(
            lines,
            model=algorithm,
            lr=settings["learning_rate"],
            dim=settings["vector_size"],
            ws=settings["window"],
            epoch=epochs,
            minCount=settings["min_count"],
            minn=settings["min_ngram"],
            maxn=settings["max_ngram"],
            neg=settings["negative"],
            bucket=settings["buckets"],
            thread=settings["threads"],
            t=settings["sample"],
            verbose=0,
        )
        return model, time.perf_counter() - begin

    model, whole = train(settings["epochs"])
    peak = peak_memory_bytes()
    model.save_model(target)
    rest = train(0)[1]  # afterwards: it leaves most rows as it finds the memory, and a second training would meet them
    return {
        "seconds": whole - rest,
        "scan_seconds": rest,
        "whole_seconds": whole,
        "peak_memory_bytes": peak,
        "vocabulary": len(model.get_words()) - 1,  # </s> is none of ours
    }


def gensim_subwords(lines: str, algorithm: str, settings: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Trains with gensim's ``corpus_file`` path; ``seconds`` are those of ``train()`` alone."""
    from wenmai.runs.environment import peak_memory_bytes

    module: Any = import_module("gensim.models.fasttext")
    import_module("gensim.models.fasttext_corpusfile")  # fails without the compiled loops
    model = module.FastText(
        sg=int(algorithm == "skipgram"),
        negative=settings["negative"],
        ns_exponent=settings["noise_exponent"],
        vector_size=settings["vector_size"],
        window=settings["window"],
        sample=settings["sample"],
        min_count=settings["min_count"],
        min_n=settings["min_ngram"],
        max_n=settings["max_ngram"],
        bucket=settings["buckets"],
        workers=settings["threads"],
        seed=settings["seed"],
        alpha=settings["learning_rate"],
        min_alpha=1e-4 * settings["learning_rate"],  # where ours ends
    )
    begin = time.perf_counter()
    model.build_vocab(corpus_file=lines)
    scanned = time.perf_counter()
    _, words_read = model.train(
        corpus_file=lines,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=settings["epochs"],
    )
    end = time.perf_counter()
    peak = peak_memory_bytes()
    module.save_facebook_model(model, target)
    return {
        "seconds": end - scanned,
        "scan_seconds": scanned - begin,
        "whole_seconds": end - begin,
        "peak_memory_bytes": peak,
        "vocabulary": len(model.wv),
        "words_read": words_read,
    }


def fasttext_file(lines: str, buckets: int, target: str) -> dict[str, Any]:
    """Writes a model of word vectors with the official package, which does not train it: only its size matters."""
    fasttext: Any = import_module("fasttext")
    fasttext.train_unsupervised(lines, epoch=0, dim=100, bucket=buckets, verbose=0).save_model(target)
    return {}


def read_fasttext(side: str, model: str) -> dict[str, Any]:
    """Reads a model; imports are not in ``seconds``."""
    from wenmai.runs.environment import peak_memory_bytes

    if side == "ours":
        from wenmai.formats.fasttext import read_fasttext as read
    else:
        read = import_module("fasttext").load_model
    begin = time.perf_counter()
    loaded = read(model)
    seconds = time.perf_counter() - begin
    assert loaded is not None
    return {"seconds": seconds, "peak_memory_bytes": peak_memory_bytes()}
