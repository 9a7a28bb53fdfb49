"""Several processes that train one model together, started by ``torchrun``."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import TrainingError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Ranks"]

_PATIENCE = timedelta(days=7)  # a process that dies ends the waiting of the others at once, whatever this is


class Ranks:
    """This process among those of ``torchrun``; alone without it.

    Attributes:
        rank: From 0; only 0 writes files.
        size: How many there are.
    """

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = _launched()
        if self.size > 1:
            import torch
            from torch import distributed

            if not distributed.is_initialized():
                with _explained():
                    distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
            _waiting_group()

    @staticmethod
    def several() -> bool:
        """Whether ``torchrun`` has started more than one process; asks without connecting them."""
        return _launched() > 1

    @property
    def first(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0

    @property
    def local(self) -> int:
        """The number of this process on its machine: the device it uses."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    def wait(self, *, failed: bool = False) -> None:
        """Returns when all processes have come here.

        Args:
            failed: Whether this one cannot go on; the others are told.

        Raises:
            TrainingError: if another has failed or ended.
        """
        if self.size == 1:
            return
        import torch
        from torch import distributed

        failures = torch.tensor([int(failed)])
        with _explained():
            distributed.all_reduce(failures, group=_waiting_group())
        if int(failures) and not failed:
            raise TrainingError("another process of this training could not go on; its own message says why")

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Ends when all processes have ended such a block.

        Raises:
            TrainingError: if it ended well here, but not in another process.
        """
        try:
            yield
        except BaseException:
            with suppress(TrainingError):
                self.wait(failed=True)
            raise
        self.wait()

    def add_up(self, tensors: Sequence["Tensor"]) -> None:
        """Replaces each tensor by its sum over the processes, in one message for each type of number.

        Raises:
            TrainingError: if one of the processes has ended.
        """
        if self.size == 1 or not tensors:
            return
        import torch
        from torch import distributed

        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            with _explained():
                distributed.all_reduce(flat)
            for tensor, part in zip(same, torch.split(flat, [tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(part.view_as(tensor))


def _launched() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


@cache
def _waiting_group() -> Any:  # noqa: ANN401  torch's process group
    """The processes once more, for waiting while one reads the text or writes a checkpoint, however long it takes."""
    from torch import distributed

    return distributed.new_group(backend="gloo", timeout=_PATIENCE)


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
