"""The settings of the pre-training tasks, one dataclass for all: a setting that one task has begins with its name."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from typing_extensions import Doc

from wenmai.text.settings import check_choices

__all__ = ["Language", "TasksConfig"]

Language = Literal["english", "chinese"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksConfig:
    """What the tasks read besides the text, and how they make their examples."""

    language: Annotated[
        Language, Doc("of the text: which tasks there are by default, and which words tell how sentences are related")
    ] = "english"

    def __post_init__(self) -> None:
        check_choices(self, {"language": get_args(Language)})
