"""The names of the tasks that an encoder is fine-tuned for."""

from typing import Literal, get_args

__all__ = ["TASK_NAMES", "TaskName"]

TaskName = Literal["classification", "pair", "regression", "tagging", "span", "choice"]
"""One text, two texts, a number of one text or two, a tag for each token, an answer in a text, one of several texts."""

TASK_NAMES: tuple[TaskName, ...] = get_args(TaskName)
