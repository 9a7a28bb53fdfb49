"""How processes share a training: one alone, or several of ``torchrun`` with a copy of the model each."""

import atexit
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from wenmai.core.errors import SettingError, TrainingError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["SINGLE", "Replicated", "Single", "Strategy", "launched_strategy", "several_processes"]

_PATIENCE = timedelta(days=7)  # a process that dies ends the waiting of the others at once, whatever this is


class Strategy(ABC):
    """This process among those that train one model; the caller that starts a training chooses one.

    Args:
        rank: The number of this process, from 0; only 0 writes files.
        size: How many processes there are.
        device_index: Which GPU of its machine this process uses.
    """

    def __init__(self, rank: int, size: int, device_index: int) -> None:
        self.rank = rank
        self.size = size
        self._device_index = device_index

    @property
    def first(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0

    def device(self, wanted: Literal["auto", "cpu", "cuda"]) -> "torch.device":
        """Returns the device that this process trains on.

        Raises:
            SettingError: if a GPU is wanted and there is none.
        """
        import torch

        if wanted == "cuda" and not torch.cuda.is_available():
            raise SettingError("device=cuda: torch finds no GPU here; device=cpu trains on the processor")
        if wanted == "cpu" or not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", self._device_index)

    def place(self, module: "nn.Module", wanted: Literal["auto", "cpu", "cuda"]) -> None:
        """Brings a model to this process's device, before its optimiser is made.

        Raises:
            SettingError: if a GPU is wanted and there is none.
        """
        module.to(self.device(wanted))

    def gradient_norm(self, gradients: Sequence["Tensor"]) -> float:
        """Returns the length of the whole gradient, of which this process holds ``gradients``."""
        import torch

        return float(torch.nn.utils.get_total_norm(gradients))

    def write(self, write: Callable[[], None]) -> None:
        """Calls ``write`` in the first process; all go on when it is done.

        Raises:
            TrainingError: if another process has failed or ended.
        """
        with self.meeting():
            if self.first:
                write()

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Waits until all processes have left such a block.

        Raises:
            TrainingError: if another process failed in it.
        """
        try:
            yield
        except BaseException:
            with suppress(TrainingError):
                self.wait(failed=True)
            raise
        self.wait()

    @abstractmethod
    def wait(self, *, failed: bool = False) -> None:
        """Waits until all processes have come here.

        Args:
            failed: Whether this one cannot go on; the others then stop too.

        Raises:
            TrainingError: if another has failed or ended.
        """

    @abstractmethod
    def all_reduce(self, tensors: Sequence["Tensor"]) -> None:
        """Replaces each tensor, such as a gradient or the sum of a loss, by its sum over the processes.

        Raises:
            TrainingError: if one of the processes has ended.
        """

    @abstractmethod
    def gather(self, tensor: "Tensor") -> list["Tensor"]:
        """Returns this tensor of each process, by rank; they have one shape.

        Raises:
            TrainingError: if one of the processes has ended.
        """


class Single(Strategy):
    """One process alone."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1, device_index=0)

    def wait(self, *, failed: bool = False) -> None:
        """Returns at once."""

    def all_reduce(self, tensors: Sequence["Tensor"]) -> None:
        """Leaves the tensors as they are."""

    def gather(self, tensor: "Tensor") -> list["Tensor"]:
        """Returns the tensor alone."""
        return [tensor]


SINGLE = Single()


class Replicated(Strategy):
    """Several processes of ``torchrun`` with a copy of the model each; gradients are summed once an update.

    Connects the processes; raises TrainingError if one cannot be reached.
    """

    def __init__(self) -> None:
        import torch
        from torch import distributed

        super().__init__(int(os.environ.get("RANK", "0")), _launched(), int(os.environ.get("LOCAL_RANK", "0")))
        if not distributed.is_initialized():
            with _explained():
                distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
            atexit.register(_leave)
        _waiting_group()

    def wait(self, *, failed: bool = False) -> None:
        """Waits until all processes have come here; see :meth:`Strategy.wait`."""
        import torch
        from torch import distributed

        failures = torch.tensor([int(failed)])
        with _explained():
            distributed.all_reduce(failures, group=_waiting_group())
        if int(failures) and not failed:
            raise TrainingError("another process of this training could not go on; its own message says why")

    def all_reduce(self, tensors: Sequence["Tensor"]) -> None:
        """Sums over the processes, in one message for each data type; see :meth:`Strategy.all_reduce`."""
        import torch
        from torch import distributed

        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            with _explained():
                distributed.all_reduce(flat)
            for tensor, part in zip(same, torch.split(flat, [tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def gather(self, tensor: "Tensor") -> list["Tensor"]:
        """Returns this tensor of each process; see :meth:`Strategy.gather`."""
        import torch
        from torch import distributed

        found = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(self.size)]
        with _explained():
            distributed.all_gather(found, tensor.contiguous())
        return found


def several_processes() -> bool:
    """Returns whether ``torchrun`` has started more than one process; asks without connecting them."""
    return _launched() > 1


def launched_strategy() -> Strategy:
    """Returns the strategy for this process, connected to the others if there are any.

    Raises:
        TrainingError: if one of them cannot be reached.
    """
    return Replicated() if several_processes() else SINGLE


def _launched() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


@cache
def _waiting_group() -> Any:  # noqa: ANN401  torch's process group
    """The processes once more, for waiting while one reads the text or writes a checkpoint, however long it takes."""
    from torch import distributed

    return distributed.new_group(backend="gloo", timeout=_PATIENCE)


def _leave() -> None:
    """Ends the connections before the interpreter does: their threads may abort a process that ends beneath them."""
    from torch import distributed

    _waiting_group.cache_clear()
    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def _explained() -> Iterator[None]:
    """Raises a TrainingError instead of what torch says when the connection to another process breaks."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # ValueError: a variable of torchrun is missing
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TrainingError(
            f"another process of this training has ended or cannot be reached ({reason:.200}); its own message says why"
        ) from None
