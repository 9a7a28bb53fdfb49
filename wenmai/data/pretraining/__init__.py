"""Pre-training tasks by name: what an encoder learns from raw text (ERNIE 1.0 and 2.0).

Another task is a file with a subclass of :class:`PretrainingTask`, and its entry in :data:`TASKS`; other packages
announce theirs as entry points of the group ``wenmai.pretraining_tasks``.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.registry import announced, announcements
from wenmai.data.pretraining.capitalisation import Capitalisation
from wenmai.data.pretraining.dialogue import Dialogue
from wenmai.data.pretraining.discourse import Discourse
from wenmai.data.pretraining.distance import Distance
from wenmai.data.pretraining.knowledge import Characters, Entities, Knowledge, Phrases
from wenmai.data.pretraining.prepared import Prepared
from wenmai.data.pretraining.relevance import Relevance
from wenmai.data.pretraining.reordering import Reordering
from wenmai.data.pretraining.task import Context, Drawn, Planned, PretrainingTask, Row
from wenmai.data.pretraining.token_document import TokenDocument
from wenmai.data.pretraining.windows import WindowTask

__all__ = [
    "TASKS",
    "Context",
    "Drawn",
    "Planned",
    "PretrainingTask",
    "Row",
    "WindowTask",
    "find_task",
    "marks_of",
    "task_of",
]

_GROUP = "wenmai.pretraining_tasks"  # the entry points of other packages

_OWN: tuple[type[PretrainingTask], ...] = (
    Characters, Phrases, Entities, Dialogue, Prepared,
    Knowledge, Capitalisation, TokenDocument, Reordering, Distance, Discourse, Relevance,
)  # fmt: skip

TASKS: dict[str, type[PretrainingTask]] = {task.name: task for task in _OWN}
"""The tasks by their names, in the order in which the papers have them."""


def marks_of(names: Iterable[str]) -> int:
    """Returns the bits of :mod:`wenmai.data.token_marks` that a text must have been encoded with for some tasks.

    Raises:
        SettingError: if no task has a name.
    """
    return reduce(or_, (find_task(name).marks for name in names), 0)


def task_of(name: str, context: Context) -> PretrainingTask:
    """Makes a task by its name.

    Raises:
        CorpusError: if a file that it reads besides the text cannot be read.
        SettingError: if no task has this name, or its settings do not fit.
    """
    return find_task(name)(context)


def find_task(name: str) -> type[PretrainingTask]:
    """Returns the task of this name, the built-in ones first.

    Raises:
        SettingError: if there is none; the message names the nearest.
    """
    if name in TASKS:
        return TASKS[name]
    for point in announcements(_GROUP):
        if point.name == name:
            found: type[PretrainingTask] = announced(point, PretrainingTask)
            return found
    raise SettingError(f"no pre-training task is called {name!r}{nearest_name(name, TASKS)} ({', '.join(TASKS)})")
