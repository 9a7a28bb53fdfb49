"""What a training reports: records, written as JSON lines and shown on the command line."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from wenmai.core.folder import writing

__all__ = [
    "EpochRecord",
    "EvaluationRecord",
    "Record",
    "RecordFile",
    "StepRecord",
    "UpdateRecord",
    "read_records",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRecord:
    """A step: some blocks were trained.

    Attributes:
        progress: Fraction of the training that is done, 0 to 1.
        position: Blocks done.
        epoch: From 1.
        loss: Mean over the predictions since the last record, in nats; None if there were none.
        learning_rate: Now.
        words_per_second: Since this process began training.
        seconds: Spent training, over all processes.
        seconds_left: Until the end, at the speed so far.
    """

    kind: ClassVar[str] = "step"
    progress: float
    position: int
    epoch: int
    loss: float | None
    learning_rate: float
    words_per_second: float
    seconds: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRecord:
    """An epoch ended; ``loss`` is the mean over all its predictions, ``words`` those seen since the start."""

    kind: ClassVar[str] = "epoch"
    position: int
    epoch: int
    loss: float | None
    seconds: float
    words: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateRecord:
    """Some updates of a torch model were made; written as a step, too.

    Attributes:
        progress: Fraction of the training that is done, 0 to 1.
        position: Updates done.
        epoch: From 1.
        loss: Mean over the targets since the last record, in nats, label smoothing included; of several parts the
            weighted sum of their means.
        losses: The mean of each part by name, if there are several; None for a part without a target.
        learning_rate: Of the last update.
        gradient_norm: Mean norm of the gradient since the last record, before clipping.
        tokens_per_second: Targets a second since this process began training, over all processes.
        flops_share: Model FLOPs utilisation, 0 to 1, where the device's peak is known.
        seconds: Spent training.
        seconds_left: Until the end, at the speed so far.
    """

    kind: ClassVar[str] = "step"
    progress: float
    position: int
    epoch: int
    loss: float | None
    losses: Mapping[str, float | None] = field(default_factory=dict)
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    flops_share: float | None
    seconds: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRecord:
    """An evaluation on the validation data; ``figures`` has its metrics, such as loss and perplexity."""

    kind: ClassVar[str] = "evaluation"
    position: int
    epoch: int
    seconds: float
    learning_rate: float
    figures: Mapping[str, float]


Record = StepRecord | EpochRecord | UpdateRecord | EvaluationRecord


class RecordFile:
    """Appends records to ``metrics.jsonl``.

    Args:
        path: The file; records from ``position`` on are dropped first, as a resumed training makes them again.
        position: Blocks that are done.
    """

    def __init__(self, path: Path, *, position: int = 0) -> None:
        kept = [record for record in read_records(path) if record["position"] <= position] if position else []
        with writing(path) as file:
            file.write("".join(json.dumps(record) + "\n" for record in kept).encode())
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  closed by close()

    def __call__(self, record: Record) -> None:
        """Writes one record."""
        values = {name: value for name, value in asdict(record).items() if name != "losses" or value}
        self._file.write(json.dumps({"kind": record.kind, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_records(path: Path) -> list[dict[str, Any]]:
    """Reads a record file up to the first line that is no record, such as one cut short by a crash."""
    if not path.exists():
        return []
    records = []
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(record, dict) or not isinstance(record.get("position"), int):
            break
        records.append(record)
    return records
