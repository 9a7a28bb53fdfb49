"""What is read of the evaluations of a training for its curves by task."""

from wenmai.runs.by_task import metrics_by_task, stage_starts
from wenmai.runs.comparison import LinePoint


def evaluation(position, **metrics):
    return {"kind": "evaluation", "position": position, "epoch": 1, "figures": metrics}


def test_each_loss_and_accuracy_with_a_name_is_a_line_by_update():
    records = [
        evaluation(10, loss=3.0, mlm_loss=5.0, pair_loss=0.7, masked_accuracy=0.1, pair_accuracy=0.5, perplexity=9.0),
        {"kind": "step", "position": 15, "loss": 1.0, "losses": {"mlm": 4.0, "pair": 0.6}},
        evaluation(20, loss=2.0, mlm_loss=4.0, pair_loss=0.6, masked_accuracy=0.2, token_document_accuracy=0.75),
    ]
    assert metrics_by_task(records) == {
        "loss": {
            "mlm": [LinePoint(x=10, y=5.0), LinePoint(x=20, y=4.0)],
            "pair": [LinePoint(x=10, y=0.7), LinePoint(x=20, y=0.6)],
        },
        "accuracy": {
            "masked": [LinePoint(x=10, y=0.1), LinePoint(x=20, y=0.2)],
            "pair": [LinePoint(x=10, y=0.5)],
            "token document": [LinePoint(x=20, y=0.75)],
        },
    }


def test_one_loss_or_accuracy_is_none_by_task():
    assert metrics_by_task([evaluation(10, loss=3.0, accuracy=0.5, masked_accuracy=0.5, f1=0.4)]) == {}
    assert metrics_by_task([evaluation(10), {"kind": "step", "position": 10, "loss": 1.0}]) == {}


def test_stages_begin_where_the_batches_of_the_stages_before_end():
    stages = {"first": [20, 10, 10, 10], "second": [0, 30, 10, 10], "third": [0, 0, 40, 10], "fourth": [0, 0, 0, 50]}
    assert stage_starts(stages, 200) == [20, 60, 120]
    assert stage_starts(stages, 100) == [10, 30, 60]  # two batches an update
    assert stage_starts({"first": [5], "second": [5]}, 10) == []  # together
    assert stage_starts({}, 10) == []
