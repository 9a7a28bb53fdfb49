"""The published sizes of GPT-1, GPT-2 and GPT-3, as settings; importing them takes no time.

Sources: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training"; Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners"; Brown et al. 2020, "Language Models are Few-Shot Learners",
table 2.1: those sizes that the paper states without contradiction, or the nearest to them, and appendix B. The learning
rates of GPT-2 were not published. GPT-1's BPE marks the end of a word with ``</w>``, after spaCy's tokenizer; ours
marks its beginning, after white space.
"""

from typing import Any

__all__ = ["PRESETS"]

_FORM: dict[str, dict[str, Any]] = {
    "gpt-1": {
        "kind": "bpe",
        "lowercase": True,
        "vocab_size": 40_478,
        "norm": "post",
        "max_length": 512,
        "attention_dropout": 0.1,
        "beta2": 0.999,
        "weight_decay": 0.01,
        "warmup": 2000,
    },
    "gpt-2": {"max_length": 1024, "attention_dropout": 0.1},
    "gpt-3": {"max_length": 2048, "window": 256, "dropout": 0.0, "rate_floor": 0.1},
}
_SIZES = (  # layers, hidden size, heads, learning rate
    ("gpt-1", 12, 768, 12, 2.5e-4),
    ("gpt-2", 12, 768, 12, 6e-4),
    ("gpt-2-medium", 24, 1024, 16, 6e-4),
    ("gpt-2-large", 36, 1280, 20, 6e-4),
    ("gpt-2-xl", 48, 1600, 25, 6e-4),
    ("gpt-3-125m", 12, 768, 12, 6e-4),
    ("gpt-3-350m", 24, 1024, 16, 3e-4),
    ("gpt-3-760m", 24, 1536, 16, 2.5e-4),
    ("gpt-3-1.3b", 24, 2048, 16, 2e-4),
    ("gpt-3-2.7b", 32, 2560, 32, 1.6e-4),
    ("gpt-3-6.7b", 32, 4096, 32, 1.2e-4),
    ("gpt-3-13b", 40, 5120, 40, 1e-4),
    ("gpt-3-175b", 96, 12288, 96, 6e-5),
)

PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "vocab_size": 50_257,
        "optimiser": "adamw",
        "beta2": 0.95,
        "weight_decay": 0.1,
        "num_layers": layers,
        "hidden_size": width,
        "num_heads": heads,
        "learning_rate": rate,
        **_FORM[name[:5]],
    }
    for name, layers, width, heads, rate in _SIZES
}
