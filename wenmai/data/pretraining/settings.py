"""The settings of the pre-training tasks, one dataclass for all; names begin with what they belong to."""

from dataclasses import dataclass

__all__ = ["TasksConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksConfig:
    """What the tasks read besides the text, and how they make their examples."""
