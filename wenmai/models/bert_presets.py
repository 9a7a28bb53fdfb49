"""The published sizes of BERT, as settings; importing them takes no time.

Sources: Devlin et al. 2019, section 3 and appendix A.2; Turc, Chang, Lee, Toutanova 2019, "Well-Read Students Learn
Better", https://arxiv.org/abs/1908.08962, for the small ones. All are trained with batches of 256 sequences, first of
128 tokens, for the last tenth of 512.
"""

from typing import Any

__all__ = ["PRESETS"]

_PAPER: dict[str, Any] = {
    "kind": "wordpiece",
    "vocab_size": 30_522,
    "max_length": 512,
    "attention_dropout": 0.1,
    "pooler": "tanh",
    "heads": ("mlm", "pair"),
    "pairs": "next",
    "short_length": 128,
    "epochs": 40,
    "batch_tokens": 32_768,
    "optimiser": "adamw",
    "learning_rate": 1e-4,
    "beta2": 0.999,
    "weight_decay": 0.01,
    "schedule": "linear",
    "warmup": 10_000,
    "clip": 1.0,
}
_SIZES = (  # layers, hidden size, heads
    ("bert-tiny", 2, 128, 2),
    ("bert-mini", 4, 256, 4),
    ("bert-small", 4, 512, 8),
    ("bert-medium", 8, 512, 8),
    ("bert-base", 12, 768, 12),
    ("bert-large", 24, 1024, 16),
)

PRESETS: dict[str, dict[str, Any]] = {
    name: {**_PAPER, "num_layers": layers, "hidden_size": width, "num_heads": heads}
    for name, layers, width, heads in _SIZES
}
PRESETS["bert-base-chinese"] = {**PRESETS["bert-base"], "kind": "characters", "vocab_size": 21_128}
