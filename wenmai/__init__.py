"""wenmai (文脉): one corpus, every generation of text representation, one honest comparison.

>>> import wenmai
>>> run = wenmai.train("word2vec", "builtin:pydocs", epochs=3)      # doctest: +SKIP
>>> run.vectors.most_similar("function", topn=3)                    # doctest: +SKIP
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wenmai.core.errors import WenmaiError
    from wenmai.runs.compare import compare
    from wenmai.runs.evaluate import evaluate
    from wenmai.runs.finetune import finetune
    from wenmai.runs.occurrences import distil, index
    from wenmai.runs.preview import preview
    from wenmai.runs.probing.probe import probe
    from wenmai.runs.train import resume, train
    from wenmai.training.run import Run, load
    from wenmai.vectors.word_vectors import WordVectors

__version__ = "0.1.0"

__all__ = [
    "Run",
    "WenmaiError",
    "WordVectors",
    "compare",
    "distil",
    "evaluate",
    "finetune",
    "index",
    "load",
    "preview",
    "probe",
    "resume",
    "train",
]

_HOME = {
    "Run": "wenmai.training.run",
    "WenmaiError": "wenmai.core.errors",
    "WordVectors": "wenmai.vectors.word_vectors",
    "compare": "wenmai.runs.compare",
    "distil": "wenmai.runs.occurrences",
    "evaluate": "wenmai.runs.evaluate",
    "finetune": "wenmai.runs.finetune",
    "index": "wenmai.runs.occurrences",
    "load": "wenmai.training.run",
    "preview": "wenmai.runs.preview",
    "probe": "wenmai.runs.probing.probe",
    "resume": "wenmai.runs.train",
    "train": "wenmai.runs.train",
}

# The threads of PyTorch wait for each other by spinning, up to a millisecond; where other programs have the processor,
# each such wait burns the time that the awaited thread lacks. GNU's OpenMP reads this once, when torch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # about 20 microseconds; then they sleep


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  PEP 562: names are imported when first used
    if name not in _HOME:
        raise AttributeError(f"module 'wenmai' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
