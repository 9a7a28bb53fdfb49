"""Checkpoints: sealed folders ``step-N``; a training resumes from the newest good one."""

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wenmai.core.errors import RunError
from wenmai.core.folder import check_sealed, plain_file, sealed_folder, writing_json

__all__ = ["Checkpoints", "NoCheckpoints", "read_state", "require_good"]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_StateT = TypeVar("_StateT", bound="DataclassInstance")

STATE = "state.json"


class Checkpoints:
    """The ``checkpoints`` folder of a run.

    Args:
        folder: Where they are; need not exist yet.
        keep: How many of the newest stay; two, so that damage to one does not lose the run.
    """

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, state: Mapping[str, Any], write: Callable[[Path], None]) -> Path:
        """Writes ``step-N``: ``state.json`` and whatever ``write(folder)`` puts beside it; drops the oldest.

        Checkpoints of later steps go too: they are damaged, or the training would have resumed from them.
        """
        path = self.folder / f"step-{step}"
        with sealed_folder(path) as temporary:
            write(temporary)
            writing_json(temporary / STATE, dict(state))
        steps = self._steps()
        place = steps.index(path) + 1
        for other in steps[: max(0, place - self.keep)] + steps[place:]:
            shutil.rmtree(other, ignore_errors=True)
        return path

    def newest_good(self) -> tuple[Path | None, dict[str, Any], list[str]]:
        """Returns the newest good checkpoint, its state, and what is wrong with newer ones."""
        passed_over: list[str] = []
        for path in reversed(self._steps()):
            try:
                if not (problems := check_sealed(path)):
                    return path, _state(path), passed_over
            except RunError as error:  # also if a training has removed it
                problems = [str(error)]
            passed_over += problems
        return None, {}, passed_over

    def states(self) -> list[tuple[Path, dict[str, Any]]]:
        """Returns all checkpoints whose states can be read, oldest first, and these states."""
        found = []
        for path in self._steps():
            with suppress(RunError):
                found.append((path, _state(path)))
        return found

    def drop(self, *, keep: Collection[int]) -> None:
        """Removes all but those of the steps in ``keep``."""
        for path in self._steps():
            if int(path.name.removeprefix("step-")) not in keep:
                shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> None:
        """Removes all of them, and what a killed process may have left half-written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _steps(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        found = []
        for path in self.folder.iterdir():
            number = path.name.removeprefix("step-")
            if path.is_dir() and not path.is_symlink() and number.isdecimal() and path.name != number:
                found.append((int(number), path))
        return [path for _, path in sorted(found)]


def read_state(kind: type[_StateT], checkpoint: Path, state: Mapping[str, Any]) -> _StateT:
    """Makes the state of a training of what a checkpoint holds.

    Args:
        kind: A dataclass with the types of all values.
        checkpoint: The folder.
        state: What its ``state.json`` says.

    Raises:
        RunError: if a value is unknown, missing or of another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        if unknown := sorted(state.keys() - {field.name for field in fields(kind)}):
            raise ValueError(f"{unknown[0]!r} is unknown")
        return TypeAdapter(kind).validate_python(state)
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError as error:
        problem = str(error)
    raise RunError(f"{checkpoint / STATE}: is damaged, or of a later version ({problem}); remove {checkpoint.name}")


def _state(checkpoint: Path) -> dict[str, Any]:
    """Raises RunError if there is no JSON object."""
    try:
        found = json.loads(plain_file(checkpoint / STATE).read_bytes())
        if not isinstance(found, dict):
            raise ValueError("expected a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{checkpoint / STATE}: is missing or damaged ({error})") from None
    return found


def require_good(path: Path) -> None:
    """Raises RunError with everything that is wrong with a sealed folder."""
    problems = check_sealed(path)
    if problems:
        raise RunError(f"{path} is damaged: " + "; ".join(problems))


class NoCheckpoints(Checkpoints):
    """The checkpoints of a training that is never resumed: nothing is written."""

    def __init__(self) -> None:
        super().__init__(Path())

    def save(self, step: int, state: Mapping[str, Any], write: Callable[[Path], None]) -> Path:
        """Saves nothing."""
        return self.folder
