"""Which task comes when: the table of ERNIE 2.0, its contrasts, and the draws."""

import math

import numpy as np
import pytest

from wenmai.core.errors import SettingError
from wenmai.training.stages import StagePlan, StagesConfig, continual, sequential, table_of, together

NAMES = ("a", "b", "c", "d")


def test_the_table_of_the_paper():
    assert continual(4, 50).T.tolist() == [[20, 10, 10, 10], [0, 30, 10, 10], [0, 0, 40, 10], [0, 0, 0, 50]]
    assert continual(4, 50_000).sum(0).tolist() == [50_000] * 4


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
@pytest.mark.parametrize("budget", [8, 9, 100])
def test_each_task_has_its_budget(tasks, budget):
    for table in (continual(tasks, budget), sequential(tasks, budget), together(tasks, budget)):
        assert table.sum(0).tolist() == [budget] * tasks
        assert (table >= 0).all()
    assert (np.diag(continual(tasks, budget)) > 0).all()


def test_all_batches_of_a_stage_come_in_that_stage():
    table = continual(3, 20)
    plan = StagePlan.drawn(table, seed=7)
    begin = 0
    for counts in table:
        part = plan.tasks[begin : begin + counts.sum()]
        assert np.bincount(part, minlength=3).tolist() == counts.tolist()
        begin += counts.sum()
    assert begin == len(plan)


def test_tasks_are_drawn_by_what_is_left_of_them():
    """In any stage each place has each task as often as its share, over many seeds."""
    drawn = np.array([StagePlan.drawn(np.array([[3, 1]]), seed=seed).tasks for seed in range(2000)])
    assert drawn.mean(0) == pytest.approx([0.25] * 4, abs=0.04)


def test_ranks_count_the_batches_of_a_task():
    plan = StagePlan.drawn(together(3, 5), seed=1)
    seen = dict.fromkeys(range(3), 0)
    for task, rank in zip(plan.tasks.tolist(), plan.ranks.tolist(), strict=True):
        assert rank == seen[task]
        seen[task] += 1


def test_mixed_draws_by_shares():
    plan = StagesConfig(tasks=("a", "b"), stages="mixed", shares=(3.0, 1.0)).plan(2000, seed=3)
    assert len(plan) == 4000
    assert (plan.tasks == 0).mean() == pytest.approx(0.75, abs=0.03)


def test_a_table_is_read():
    rows = ("20+10+10+10", "0+30+10+10", "0+0+40+10", "0+0+0+50")
    assert table_of(rows, NAMES, 50).tolist() == continual(4, 50).tolist()
    config = StagesConfig(tasks=("a", "b"), stages="table", table=("2+1", "0+3"))
    assert config.plan(99, seed=1).table.tolist() == [[2, 0], [1, 3]]


@pytest.mark.parametrize(
    ("rows", "budget", "message"),
    [
        (("1+2",), None, "1 rows for the 2 tasks a, b"),
        (("1+2", "0+x"), None, "'0\\+x' of the task b is not like"),
        (("1+2", "3"), None, "the task b has 1 stages, others have 2"),
        (("1+2", "0+4"), None, "= 4 batches, not the 3 of the task a"),
        (("1+2", "0+3"), 4, "= 3 batches, not budget=4"),
        (("0+3", "0+3"), None, "stage 1 has no batch"),
        (("-1+2", "0+1"), None, "is not like"),
        (("9" * 12, "9" * 12), None, "is not like"),
    ],
)
def test_bad_tables_are_refused(rows, budget, message):
    with pytest.raises(SettingError, match=message):
        table_of(rows, ("a", "b"), budget)


def test_budgets_that_do_not_add_up_are_refused():
    with pytest.raises(SettingError, match="5 are needed at least"):
        continual(4, 4)
    with pytest.raises(SettingError, match="rehearsal can be 1 at most"):
        continual(4, 5, rehearsal=2)
    with pytest.raises(SettingError, match="rehearsal=5 has no effect with one task; leave it out"):
        continual(1, 9, rehearsal=5)


@pytest.mark.parametrize("stages", ["continual", "sequential", "together", "mixed"])
def test_budgets_beyond_any_memory_are_refused(stages):
    with pytest.raises(SettingError, match="batches are more than 100,000,000; set a smaller budget or fewer epochs"):
        StagesConfig(tasks=("a", "b"), stages=stages, budget=10**20).plan(1, seed=1)


def test_tables_beyond_any_memory_are_refused():
    with pytest.raises(SettingError, match="400,000,000 batches are more than 100,000,000"):
        StagesConfig(tasks=("a", "b"), stages="table", table=("200000000+0", "0+200000000")).plan(1, seed=1)


def test_wrong_shares_are_told_apart():
    with pytest.raises(SettingError, match="shares has 1 numbers; expected one for each of 2 tasks"):
        StagesConfig(tasks=("a", "b"), stages="mixed", shares=(1.0,))
    for wrong in (0.0, math.inf, math.nan):
        with pytest.raises(SettingError, match=f"shares has {wrong:g}; expected numbers above 0"):
            StagesConfig(tasks=("a", "b"), stages="mixed", shares=(1.0, wrong))
