"""The curves of a training for TensorBoard: the same metrics as in ``metrics.jsonl``, as an event file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from wenmai.core.errors import SettingError, install_hint
from wenmai.training.records import EvaluationRecord, Record, UpdateRecord

__all__ = ["reporting_curves", "require_tensorboard"]

_OF_UPDATES = ("loss", "learning_rate", "gradient_norm", "tokens_per_second", "flops_share")


def require_tensorboard() -> None:
    """Makes sure that curves can be written.

    Raises:
        SettingError: if the package is not installed.
    """
    try:
        import_module("tensorboard")
    except ImportError as error:
        raise SettingError(
            f"tensorboard=true needs TensorBoard, which cannot be imported ({error}); {install_hint('tensorboard')}"
        ) from None


@contextmanager
def reporting_curves(
    folder: Path, report: Callable[[Record], None], *, position: int
) -> Iterator[Callable[[Record], None]]:
    """Writes what is reported inside the block into an event file as well.

    The scalars are ``train/loss`` and so on by update, of a loss in parts ``train/NAME_loss`` too, and
    ``validation/NAME`` for each metric of an evaluation.

    Args:
        folder: Where event files are; a resumed training adds one, by which TensorBoard knows that later updates in
            the older ones no longer hold.
        report: Receives the records too.
        position: Updates that are done.

    Yields:
        The function to call instead of ``report``.

    Raises:
        SettingError: if the package is not installed.
    """
    require_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder), purge_step=position + 1 if position else None)

    def both(record: Record) -> None:
        report(record)
        for name, value in _scalars(record).items():
            writer.add_scalar(name, value, record.position)
        if isinstance(record, EvaluationRecord):
            writer.flush()

    try:
        yield both
    finally:
        writer.close()


def _scalars(record: Record) -> dict[str, float]:
    if isinstance(record, EvaluationRecord):
        return {f"validation/{name}": value for name, value in record.figures.items()}
    if isinstance(record, UpdateRecord):
        values = asdict(record)
        values |= {f"{name}_loss": value for name, value in record.losses.items()}
        shown = (*_OF_UPDATES, *(f"{name}_loss" for name in record.losses))
        return {f"train/{name}": values[name] for name in shown if values[name] is not None}
    return {}
