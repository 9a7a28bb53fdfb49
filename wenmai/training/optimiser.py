"""The optimiser of a training: each parameter learns at its own share of the learning rate, which epochs may change."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from wenmai.training.settings import LoopConfig
from wenmai.training.tensors import load_optimiser, save_optimiser

__all__ = ["Optimiser"]


def _eager(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """Returns an optimiser of torch whose methods do not import the compiler to keep it out of themselves.

    That takes a second or two, with which every training would begin. Its steps belong under ``torch.no_grad``.
    """
    wrapped = ("step", "zero_grad", "add_param_group", "state_dict", "load_state_dict")
    return type(kind.__name__, (kind,), {name: inspect.unwrap(getattr(kind, name)) for name in wrapped})


class Optimiser:
    """Updates the parameters of a module.

    A parameter whose share is 0 needs no gradient meanwhile, so that backpropagation ends above it, and has no state:
    when its share is no longer 0, it begins as if it were new. As a context manager it unfreezes them in the end.

    Args:
        config: Which optimiser.
        module: On its device; its parameters that need no gradient stay as they are.
        peak_rate: The highest rate.
        share: From the name of a parameter and the epoch, from 0, to its share of the rate, 0 or more.
        epoch: The first epoch.

    Attributes:
        parameters: Those that are trained in this epoch, in the order of the module.
        needed: For each of them, how many processes have a gradient for it; where none has, it stays as it is.

    Raises:
        ValueError: if none is trained.
    """

    parameters: list[nn.Parameter]
    needed: Tensor

    def __init__(
        self,
        config: LoopConfig,
        module: nn.Module,
        *,
        peak_rate: float,
        share: Callable[[str, int], float],
        epoch: int,
    ) -> None:
        self._named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        self._weight_decay, self._momentum, self._share = config.weight_decay, config.momentum, share
        self._shares = self._shares_of(epoch)
        groups = self._groups()
        betas = (0.9, config.beta2)
        kinds: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
            "sgd": (torch.optim.SGD, {"momentum": config.momentum}),
            "adam": (torch.optim.Adam, {"betas": betas, "eps": 1e-9}),
            "adamw": (torch.optim.AdamW, {"betas": betas, "eps": 1e-8}),
        }
        kind, options = kinds[config.optimiser]
        self._torch: torch.optim.Optimizer = _eager(kind)(groups, lr=peak_rate, fused=True, **options)

    def begin(self, epoch: int) -> None:
        """Gives every parameter its share in an epoch.

        Raises:
            ValueError: if none is trained.
        """
        shares = self._shares_of(epoch)
        if shares == self._shares:
            return
        self._shares = shares
        self._torch.param_groups.clear()
        for group in self._groups():
            self._torch.add_param_group(group)
        for name, parameter in self._named.items():
            if not shares[name]:
                self._torch.state.pop(parameter, None)

    def gradients(self) -> list[Tensor]:
        """The gradients; zeros where this process's batches have none, so that all processes sum the same tensors."""
        found = [parameter.grad is not None for parameter in self.parameters]
        self.needed = torch.tensor(found, dtype=torch.float32, device=self.parameters[0].device)
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return [parameter.grad for parameter in self.parameters if parameter.grad is not None]

    def step(self, rate: float) -> None:
        """Makes an update at a learning rate; the gradients are gone then."""
        for group in self._torch.param_groups:
            group["lr"] = rate * group["share"]
        for parameter, needed in zip(self.parameters, self.needed.tolist(), strict=True):
            if not needed:
                parameter.grad = None
        if self._momentum:
            self._begin_momentum()
        with torch.no_grad():
            self._torch.step()
        self._torch.zero_grad(set_to_none=True)

    def _begin_momentum(self) -> None:
        """Gives parameters with a first gradient a momentum of zero: torch wants it of a whole group or of none."""
        for parameter in self.parameters:
            if parameter.grad is not None and self._torch.state[parameter].get("momentum_buffer") is None:
                self._torch.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    def save(self, folder: Path) -> None:
        """Writes its state."""
        save_optimiser(self._torch, folder)

    def load(self, folder: Path) -> None:
        """Reads what :meth:`save` wrote in this epoch.

        Raises:
            FormatError: if the file is damaged, or of other parameters.
        """
        load_optimiser(self._torch, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for parameter in self._named.values():
            parameter.requires_grad_(True)

    def _shares_of(self, epoch: int) -> dict[str, float]:
        return {name: self._share(name, epoch) for name in self._named}

    def _groups(self) -> list[dict[str, object]]:
        """Parameters of equal share and equal decay; matrices first, which is the order of the state in files."""
        for name, parameter in self._named.items():
            parameter.requires_grad_(self._shares[name] > 0)
        trained = {name: parameter for name, parameter in self._named.items() if parameter.requires_grad}
        if not trained:
            raise ValueError("no parameter has a share of the learning rate")
        self.parameters = [*trained.values()]
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, parameter in sorted(trained.items(), key=lambda one: one[1].dim() <= 1):  # stable
            decay = self._weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((self._shares[name], decay), []).append(parameter)
        return [
            {"params": members, "share": share, "weight_decay": decay} for (share, decay), members in groups.items()
        ]
