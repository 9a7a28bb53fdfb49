"""Which task is trained at which batch: stages of continual multi-task training, and their contrasts.

Sun et al. 2020 (ERNIE 2.0, https://arxiv.org/abs/1907.12412), section 3 and table 5: tasks arrive one after the other;
each stage goes on from the parameters of the one before, and trains all tasks that have come so far. Every task has the
same budget of batches, of which most are spent in the stage with which it comes, so that no task is forgotten and the
budgets are those of training all tasks at once:

| task | stage 1 | 2 | 3 | 4 |
|---|---|---|---|---|
| first | 20k | 10k | 10k | 10k |
| second | | 30k | 10k | 10k |
| third | | | 40k | 10k |
| fourth | | | | 50k |

At each batch a task is drawn with the probability of its share of what is left of the stage. To draw so is to shuffle
all batches of the stage, which is what is done here: the task of any batch is known beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from annotated_types import Ge
from pydantic import BeforeValidator
from typing_extensions import Doc

from wenmai.config.lists import listed
from wenmai.core.errors import SettingError
from wenmai.core.seeding import mixed_seed
from wenmai.text.settings import check_choices

__all__ = ["StagePlan", "StagesConfig", "continual", "sequential", "table_of", "together"]

_MOST_BATCHES = 100_000_000
_ORDER = 0x73746167  # sets these draws apart from others with the same seed

Ints = npt.NDArray[np.int64]
Schedule = Literal["continual", "sequential", "together", "mixed", "table"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StagesConfig:
    """Which tasks are learned, and when.

    Raises:
        SettingError: if a setting would have no effect, or is missing.
    """

    tasks: Annotated[
        tuple[str, ...],
        BeforeValidator(listed),
        Doc(
            "what is learned from the text, in the order in which it comes; by default what the system learns of the "
            "language"
        ),
    ] = ()
    stages: Annotated[
        Schedule,
        Doc(
            "continual: tasks come one by one and are rehearsed later (ERNIE 2.0); sequential: without rehearsal; "
            "together: all from the beginning; mixed: as often as shares says; table: as table says"
        ),
    ] = "continual"
    budget: Annotated[
        int | None,
        Ge(1),
        Doc("batches of each task; none: all together as many as epochs passes over the text have"),
    ] = None
    rehearsal: Annotated[
        int | None,
        Ge(1),
        Doc("continual: batches of a task in each stage after its own; none: budget over the number of tasks plus one"),
    ] = None
    table: Annotated[
        tuple[str, ...],
        BeforeValidator(listed),
        Doc("stages=table: the batches of each task by stage, such as 20+10+10,0+30+10,0+0+40"),
    ] = ()
    shares: Annotated[
        tuple[float, ...],
        BeforeValidator(listed),
        Doc("stages=mixed: how often each task is drawn, such as 2,1,1; none: all equally often"),
    ] = ()

    def __post_init__(self) -> None:
        check_choices(self, {"stages": get_args(Schedule)})
        if len(set(self.tasks)) < len(self.tasks):
            raise SettingError(f"tasks={','.join(self.tasks)} names a task twice; name each once")
        for name, of in (("rehearsal", "continual"), ("table", "table"), ("shares", "mixed")):
            if getattr(self, name) and self.stages != of:
                raise SettingError(f"{name} has no effect with stages={self.stages}; add stages={of}, or leave it out")
        if self.stages == "table" and not self.table:
            raise SettingError("stages=table needs the table, such as table=20+10,0+30")
        if self.shares and len(self.shares) != len(self.tasks):
            raise SettingError(
                f"shares has {len(self.shares)} numbers; expected one for each of {len(self.tasks)} tasks"
            )
        if wrong := [one for one in self.shares if not 0 < one < 1e9]:
            raise SettingError(f"shares has {wrong[0]:g}; expected numbers above 0")

    @property
    def staged(self) -> bool:
        """Whether tasks come at different times."""
        return self.stages in ("continual", "sequential", "table") and len(self.tasks) > 1

    def plan(self, budget: int, *, seed: int) -> "StagePlan":
        """Decides the task of each batch.

        Args:
            budget: Batches of each task where the settings name none.
            seed: Decides what is drawn.

        Raises:
            SettingError: if the budgets do not add up.
        """
        count, wanted = len(self.tasks), budget if self.budget is None else self.budget
        if self.stages == "table":
            table = table_of(self.table, self.tasks, self.budget)
            _require_few(int(table.sum()))
            return StagePlan.drawn(table, seed=seed)
        _require_few(count * wanted)
        if self.stages == "mixed":
            return StagePlan.mixed(self.shares or (1.0,) * count, count * wanted, seed=seed)
        if self.stages == "continual":
            return StagePlan.drawn(continual(count, wanted, self.rehearsal), seed=seed)
        return StagePlan.drawn((sequential if self.stages == "sequential" else together)(count, wanted), seed=seed)


def _require_few(batches: int) -> None:
    """Makes sure that the order of so many batches can be held in memory."""
    if batches > _MOST_BATCHES:
        raise SettingError(f"{batches:,} batches are more than {_MOST_BATCHES:,}; set a smaller budget or fewer epochs")


def continual(tasks: int, budget: int, rehearsal: int | None = None) -> Ints:
    """Returns the batches of each stage and task when tasks come one by one and are rehearsed later.

    Args:
        tasks: n.
        budget: Updates of each task, N.
        rehearsal: Updates of a task in each stage after its own; none: N / (n + 1), so that the stage with which the
            first task comes has two of these, and each later one a further one, as in the paper.

    Returns:
        (n, n): stages, tasks.

    Raises:
        SettingError: if the budget is not enough, or one task is to be rehearsed.
    """
    if tasks == 1:
        if rehearsal is not None:
            raise SettingError(f"rehearsal={rehearsal} has no effect with one task; leave it out")
        return together(1, budget)
    each = budget // (tasks + 1) if rehearsal is None else rehearsal
    if each < 1:
        raise SettingError(
            f"{budget} batches of each of {tasks} tasks are too few to rehearse them: {tasks + 1} are needed at least; "
            "raise budget, or epochs where it is not set, or set stages=sequential or stages=together"
        )
    if (tasks - 1) * each >= budget:
        raise SettingError(
            f"rehearsal={each} in each of {tasks - 1} later stages leaves nothing of budget={budget} for the stage "
            f"with which the first task comes; rehearsal can be {(budget - 1) // (tasks - 1)} at most"
        )
    stages, places = np.indices((tasks, tasks))
    own = budget - (tasks - 1 - places) * each
    return np.where(stages > places, each, np.where(stages == places, own, 0)).astype(np.int64)


def sequential(tasks: int, budget: int) -> Ints:
    """Returns the same when no task comes again: (n, n)."""
    return np.eye(tasks, dtype=np.int64) * budget


def together(tasks: int, budget: int) -> Ints:
    """Returns the same for one stage with all tasks: (1, n)."""
    return np.full((1, tasks), budget, np.int64)


def table_of(rows: Sequence[str], names: Sequence[str], budget: int | None) -> Ints:
    """Reads a table that a user gives.

    Args:
        rows: For each task its batches at each stage, such as ``20+10+10``.
        names: Of the tasks.
        budget: What each row must come to; none: all the same.

    Returns:
        (stages, tasks).

    Raises:
        SettingError: if it is no such table, or its budgets do not add up.
    """
    if len(rows) != len(names):
        raise SettingError(f"table has {len(rows)} rows for the {len(names)} tasks {', '.join(names)}; give one each")
    table = []
    for name, row in zip(names, rows, strict=True):
        parts = [part.strip() for part in row.split("+")]
        if not all(part.isascii() and part.isdecimal() and len(part) < 12 for part in parts):
            raise SettingError(f"table: {row!r} of the task {name} is not like 20+10+10, the batches at each stage")
        table.append([int(part) for part in parts])
    most = max(map(len, table))
    for name, counts in zip(names, table, strict=True):
        if len(counts) != most:
            raise SettingError(f"table: the task {name} has {len(counts)} stages, others have {most}; write 0 for none")
    wanted = sum(table[0]) if budget is None else budget
    for name, row, counts in zip(names, rows, table, strict=True):
        if sum(counts) != wanted:
            other = f"budget={budget}" if budget is not None else f"the {wanted} of the task {names[0]}"
            raise SettingError(f"table: the stages of the task {name} are {row} = {sum(counts)} batches, not {other}")
    found = np.array(table, np.int64).T
    empty = np.flatnonzero(found.sum(1) == 0)
    if len(empty):
        raise SettingError(f"table: stage {empty[0] + 1} has no batch; leave it out")
    return found


@dataclass(frozen=True, eq=False)
class StagePlan:
    """The task of each update.

    Attributes:
        table: (stages, tasks) batches.
        tasks: (batches,) int64, the task of each.
    """

    table: Ints
    tasks: Ints

    @classmethod
    def drawn(cls, table: Ints, *, seed: int) -> Self:
        """Draws tasks by what is left of each in its stage."""
        orders = []
        for stage, counts in enumerate(table):
            random = np.random.default_rng(mixed_seed(seed, _ORDER, stage))
            orders.append(random.permutation(np.repeat(np.arange(len(counts)), counts)))
        return cls(table, np.concatenate(orders))

    @classmethod
    def mixed(cls, shares: Sequence[float], batches: int, *, seed: int) -> Self:
        """Draws the task of each update by itself, with a probability of its own (ERNIE 1.0 as it was released)."""
        chances = np.array(shares, np.float64)
        random = np.random.default_rng(mixed_seed(seed, _ORDER))
        tasks = random.choice(len(shares), size=batches, p=chances / chances.sum())
        return cls(np.bincount(tasks, minlength=len(shares))[None].astype(np.int64), tasks.astype(np.int64))

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def ranks(self) -> Ints:
        """(batches,): how many batches of the same task came before each."""
        ranks = np.empty(len(self.tasks), np.int64)
        for task in range(self.table.shape[1]):
            places = np.flatnonzero(self.tasks == task)
            ranks[places] = np.arange(len(places))
        return ranks
