"""Evaluate a run."""

from pathlib import Path
from typing import Any

from wenmai.runs.measuring.measurer import choose_measurer, watched
from wenmai.runs.overlap import seen_in_training
from wenmai.training.callback import Callback
from wenmai.training.progress import following
from wenmai.training.run import Run

__all__ = ["evaluate"]

_COLUMNS = ("text_column", "second_column", "label_column", "token_column", "tag_column", "encoding")


def evaluate(
    run: str | Path | Run,
    *,
    device: str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **options: Any,  # noqa: ANN401  each verb has its own
) -> Any:  # noqa: ANN401  an Evaluation
    """Evaluates a finished run, as ``wenmai evaluate`` does; the options have the same names.

    Word vectors take ``similarity``, ``analogy`` and ``probe``, lists of test sets (files, or names of the catalogue
    such as ``"data:ws353-all"``), and ``restrict_vocab``. Classifiers, language models and translators take ``on``, a
    test set named as for training, and say by ``text_column`` and the like, or by a mapping ``columns`` of these, which
    columns it has. :mod:`wenmai.runs.measuring` has a module for each, whose ``evaluate`` lists
    further options.

    Args:
        run: A run or its folder.
        device: Where a neural model computes; see :class:`~wenmai.training.run.Run`.
        callback: Follows the evaluation; by default its progress is printed on standard error.
        quiet: Print no progress; a callback decides for itself.
        **options: What to evaluate on, and how.

    Returns:
        An :class:`~wenmai.runs.measuring.measurer.Evaluation`: ``str()`` is what the command prints.

    Raises:
        RunError: if the run is not finished, or nothing it can do is measured.
        SettingError: if an option is not for such a run, or there is no test set of a name.
        WenmaiError: if a test set cannot be read.
    """
    opened = Run.of(run, device)
    columns = {name: value for name in _COLUMNS if (value := options.pop(name, None)) is not None}
    if columns:
        options["columns"] = {**(options.get("columns") or {}), **columns}
    measurer = choose_measurer({opened.recipe.system: opened.task}, "evaluate", options)
    options = measurer.listed("evaluate", options)
    with following(callback, quiet=quiet) as follower:
        for note in seen_in_training(opened, [options["on"]] if isinstance(options.get("on"), str | Path) else []):
            follower.note(note)
        return watched(measurer.evaluate, follower.evaluating)(opened, **options)
