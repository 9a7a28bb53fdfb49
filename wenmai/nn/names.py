"""The names of layers that settings choose from; they are read without torch."""

from typing import Literal

__all__ = ["ActivationName", "CharacterActivation", "HeadName", "Kind", "LoraTarget", "ScorerName", "Selection"]

ActivationName = Literal["relu", "gelu", "gelu_tanh", "silu"]  # of feed-forward networks
CharacterActivation = Literal["relu", "tanh"]  # of convolutions over characters
HeadName = Literal[  # of encoders
    "mlm", "pair", "replaced", "classification", "token-classification", "question-answering", "multiple-choice"
]
Kind = Literal["rnn", "lstm", "gru"]  # of recurrent layers
LoraTarget = Literal["query", "key", "value", "output", "attention", "ffn", "all"]  # projections of Transformers
ScorerName = Literal["dot", "scaled_dot", "bilinear", "additive", "concat", "cosine"]
Selection = Literal["soft", "hard", "sampled", "local-m", "local-p"]  # of the source tokens that attention takes
