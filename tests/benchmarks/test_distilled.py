"""The theme of distilled vectors: a line for each layer of an encoder, and one for each static system."""

from typing import Any

from benchmarks.page import page_text
from benchmarks.result import Result
from tests.benchmarks.test_minimal_pairs import HEAD

SETTINGS = {"vector_size": 100, "min_count": 5, "restrict_vocab": 30_000}


def row(run: str, similarity: float | None, **more: Any) -> dict[str, Any]:
    scores = {"WS-353": similarity, "SimLex-999": 0.3, "MTurk-771": 0.5, "Google analogies": 0.25}
    measured = {"scores": scores, "covered": dict.fromkeys(scores, 0.9), "vector_size": 100, "wall_seconds": 9.0}
    return {"run": run, "layer": None, "seed": None, "commit": "abc"} | measured | more


def test_a_line_has_means_over_seeds_or_the_score_of_a_layer() -> None:
    trained = {"system": "bert", "corpus": "a,b", "valid": None, "changed": {"minutes": 60.0}, "model_sha256": "1"}
    rows = [
        *(row("word2vec-sgns", 0.5 + seed / 100, seed=seed) for seed in (1, 2, 3)),
        *(row("bert", value, layer=layer, vector_size=256, **trained) for layer, value in (("0", 0.4), ("last", None))),
    ]
    text = page_text({"distilled": Result(HEAD | {"theme": "distilled", "settings": SETTINGS, "rows": rows})})
    assert "| word2vec-sgns | 100 | **0.5200** ± 0.0248 | **0.3000** ± 0.0000 |" in text
    assert "| bert, layer 0 | 256 | 0.4000 | 0.3000 | 0.5000 | 0.2500 | 90% | 9 |" in text
    assert "| bert, layer last | 256 | - | 0.3000 |" in text
    assert text.count("wenmai train bert a b --out runs/bert --set minutes=60") == 1
