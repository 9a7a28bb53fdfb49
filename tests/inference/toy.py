"""A small language model, with large weights so that all of it matters."""

from typing import Any

import torch

from wenmai.core.registry import find_system
from wenmai.inference.language_model import LanguageModel, build
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

__all__ = ["toy_language_model"]


def toy_language_model(system: str, **sizes: Any) -> LanguageModel:
    """Makes a model of random weights that reads the words a to e."""
    tokenizer = Tokenizer.train(["a b c d e"] * 2, TokenizerConfig(kind="whitespace"))
    model = find_system(system).load_model()
    torch.manual_seed(1)
    module = build(model, model.config_class(**sizes), tokenizer)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return LanguageModel(module.eval(), tokenizer)
