"""Parameters and optimiser states in safetensors files."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import umask
from wenmai.core.tensors import require_finite, tensor_file, tensor_shapes
from wenmai.nn.blank import blank

__all__ = [
    "load_carried",
    "load_model",
    "load_optimiser",
    "loaded_model",
    "mean_of_models",
    "save_carried",
    "save_model",
    "save_optimiser",
]

_ModuleT = TypeVar("_ModuleT", bound=torch.nn.Module)

MODEL, OPTIMISER, CARRIED = "model.safetensors", "optimiser.safetensors", "carried.safetensors"


def save_model(module: torch.nn.Module, folder: Path) -> None:
    """Writes ``model.safetensors``; a parameter that has two names is written once."""
    twice = dict(module.named_parameters(remove_duplicate=False)).keys() - dict(module.named_parameters()).keys()
    named = {name: tensor for name, tensor in module.state_dict().items() if name not in twice}
    _save(named, folder / MODEL)


def _save(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes a safetensors file.

    Raises:
        OSError: if the disk is full, or cannot be written for another reason.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
        path.chmod(0o666 & ~umask())  # the library gives 0600; models are ordinary files
    except SafetensorError as error:
        if (number := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def load_model(module: torch.nn.Module, folder: Path) -> None:
    """Fills a module from ``model.safetensors``.

    Raises:
        FormatError: if the file is damaged, or not of this module; all differences are listed.
    """
    stored = read_tensors(folder / MODEL)
    _compare(module, {name: tuple(tensor.shape) for name, tensor in stored.items()}, folder)
    module.load_state_dict(stored)


def loaded_model(
    make: Callable[[], _ModuleT],
    config: Any,  # noqa: ANN401  each architecture has its own
    folder: Path,
) -> _ModuleT:
    """Makes a module and fills it from ``model.safetensors``, whose header must match ``config.json``.

    A wrong size in ``config.json`` takes no time or memory.

    Args:
        make: Makes the module.
        config: What ``config.json`` says.
        folder: Where both files are.

    Returns:
        The module, in evaluation mode; the state of the random generators is unchanged.

    Raises:
        FormatError: if a file is damaged, or they do not fit.
    """
    shapes = tensor_shapes(folder / MODEL)
    for name, value in asdict(config).items():
        if name.endswith("layers") and value is not None and value > len(shapes):
            raise FormatError(
                f"{folder / 'config.json'}: is damaged: {name}={value}, and {MODEL} has {len(shapes)} tensors"
            )
    with torch.random.fork_rng(devices=[]):
        try:
            with blank(on_meta=True):  # where nothing takes memory
                claimed = make()
            _compare(claimed, shapes, folder)
            with blank():
                module = make()
        except SettingError as error:
            raise FormatError(f"{folder / 'config.json'}: is damaged: {error}") from None
        except (RuntimeError, TypeError, OverflowError):  # more than a tensor or memory can hold
            raise FormatError(f"{folder / 'config.json'}: is damaged: its sizes are too large") from None
    load_model(module, folder)
    return module.eval()


def _compare(module: torch.nn.Module, stored: Mapping[str, tuple[int, ...]], folder: Path) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    wrong = [f"{name} is missing" for name in expected if name not in stored]
    wrong += [f"{name} is unexpected" for name in stored if name not in expected]
    wrong += [
        f"{name} has the shape {stored[name]}, expected {shape}"
        for name, shape in expected.items()
        if name in stored and stored[name] != shape
    ]
    if wrong:
        raise FormatError(f"{folder / MODEL}: does not fit its config.json: {'; '.join(wrong[:8])}")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads all tensors of a safetensors file.

    Raises:
        FormatError: if it is missing or damaged, or has numbers that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(tensor_file(path))
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: is not a whole safetensors file ({error})") from None
    for name, tensor in found.items():
        require_finite(path, name, (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy())
    return found


def mean_of_models(folders: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the arithmetic mean of the parameters of several model folders (Vaswani et al. 2017, section 6.1).

    It is a running mean, so that the mean of equal parameters is exact.
    """
    mean: dict[str, Tensor] = {}
    for number, folder in enumerate(folders, start=1):
        for name, tensor in read_tensors(folder / MODEL).items():
            if name in mean and tensor.is_floating_point():
                mean[name] += (tensor - mean[name]) / number
            else:
                mean[name] = tensor
    return mean


def save_optimiser(optimiser: torch.optim.Optimizer, folder: Path) -> None:
    """Writes the tensors of an optimiser, named ``PARAMETER.STATE``."""
    state = optimiser.state_dict()["state"]
    tensors = {
        f"{index}.{name}": value
        for index, values in state.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }
    _save(tensors, folder / OPTIMISER)


def load_optimiser(optimiser: torch.optim.Optimizer, folder: Path) -> None:
    """Reads what :func:`save_optimiser` wrote into an optimiser of the same parameters.

    Raises:
        FormatError: if the file is damaged, or of other parameters.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    expected = {str(index): (index, parameter.shape) for index, parameter in enumerate(parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in read_tensors(folder / OPTIMISER).items():
        place, _, key = name.partition(".")
        index, shape = expected.get(place, (-1, None))
        if value.shape not in (shape, ()) or index < 0:
            raise FormatError(f"{folder / OPTIMISER}: does not fit the model: {name} has the shape {(*value.shape,)}")
        state.setdefault(index, {})[key] = value
    described = optimiser.state_dict()
    described["state"] = state
    optimiser.load_state_dict(described)


def save_carried(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Writes the state that a model carries from batch to batch, if it has any."""
    if tensors:
        _save(tensors, folder / CARRIED)


def load_carried(folder: Path) -> dict[str, Tensor]:
    """Reads what :func:`save_carried` wrote, if anything.

    Raises:
        FormatError: if the file is damaged.
    """
    return read_tensors(folder / CARRIED) if (folder / CARRIED).exists() else {}
