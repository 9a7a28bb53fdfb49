"""Models compiled by ``torch.compile``: at their first batch, and again for new shapes."""

import logging
from typing import cast

import torch
from torch import nn

from wenmai.core.clock import CLOCK

__all__ = ["compiled"]


def compiled(module: nn.Module) -> nn.Module:
    """Returns a model that is compiled when it is first called; the clock stands still meanwhile."""
    from torch._dynamo.callback import callback_handler  # takes a second, which models that answer must not take

    if _begin not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)
        # The graph of a recurrent model has parts; advice on that is not for those who train it.
        logging.getLogger("torch._dynamo.variables.tensor").setLevel(logging.ERROR)
    return cast(nn.Module, torch.compile(module))


def _begin(*_: object) -> None:  # versions of torch differ in what they pass
    CLOCK.stop()
    CLOCK.announce("compiling the model (once)")


def _end(*_: object) -> None:
    CLOCK.go_on()
