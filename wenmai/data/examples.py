"""Labelled examples of the six fine-tuning tasks, from files as people have them, the registry of data sets, or Python.

====================  ==========================================================================================
task                  examples
====================  ==========================================================================================
``classification``    :class:`~wenmai.data.typed.TextExample`
``pair``              :class:`~wenmai.data.typed.PairExample`
``regression``        :class:`~wenmai.data.typed.ScoredExample`, of one text or two
``tagging``           :class:`~wenmai.data.typed.TaggedSentence`; entities as IOB2, whatever the file has
``span``              :class:`~wenmai.data.typed.SpanExample`
``choice``            :class:`~wenmai.data.typed.ChoiceExample`
====================  ==========================================================================================

Files are read by :mod:`wenmai.data.example_files`. Examples are streamed; only a file that is one JSON value is in
memory as a whole.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wenmai.core.errors import CorpusError, SettingError, is_table, nearest_name
from wenmai.core.task_names import TASK_NAMES, TaskName
from wenmai.data.catalogue import locate
from wenmai.data.datasets import named_dataset
from wenmai.data.example_settings import ExamplesConfig, ExamplesStats, Placed
from wenmai.data.example_stream import FROM_PYTHON, Examples, parts_of_rows
from wenmai.data.lines import plain_name
from wenmai.data.sources import in_catalogue, refuse_columns
from wenmai.data.tags import stray_tags
from wenmai.data.typed import (
    Answer,
    ChoiceExample,
    PairExample,
    ScoredExample,
    SpanExample,
    TaggedSentence,
    TextExample,
)

__all__ = [
    "TASK_NAMES",
    "Answer",
    "ChoiceExample",
    "Examples",
    "ExamplesConfig",
    "ExamplesStats",
    "PairExample",
    "Placed",
    "ScoredExample",
    "SpanExample",
    "TaggedSentence",
    "TaskName",
    "TextExample",
    "has_split",
    "open_either",
    "open_examples",
    "open_train_and_valid",
    "require_known",
    "require_one_scheme",
]

_SPLITS = {"train": ("train",), "dev": ("dev", "valid", "validation", "val", "dev_matched"), "test": ("test",)}


def open_examples(
    spec: Any,  # noqa: ANN401  whatever names or holds examples
    task: TaskName,
    config: ExamplesConfig | None = None,
    *,
    split: str = "train",
    labelled: bool = True,
) -> Examples:
    """Opens examples of a task; nothing is read yet.

    Args:
        spec: ``data:NAME`` or ``data:NAME/SPLIT`` of the registry; a file, or files; a folder with a file of the
            split's name, such as ``train.tsv``; or from Python typed examples, rows such as (text, label), mappings, or
            without labels a list of texts; an iterator is kept in memory. Also a mapping of splits to such, as of
            the datasets library.
        task: The task.
        config: Where texts and labels are in files.
        split: Of a data set or a folder, if the name does not say.
        labelled: Whether they have labels; without, all lines are kept.

    Raises:
        CorpusError: if nothing is there.
        SettingError: if the data set is not for this task, or there is no such split.
    """
    if task not in TASK_NAMES:
        raise SettingError(f"task {task!r}{nearest_name(task, TASK_NAMES)}: expected one of {', '.join(TASK_NAMES)}")
    config = config or ExamplesConfig()
    common: dict[str, Any] = {"task": task, "config": config, "labelled": labelled}
    if isinstance(spec, Examples):
        return replace(spec, **common)
    if is_table(spec):
        spec = _rows_of(spec)
    if isinstance(spec, Mapping) and (part := _part_of(spec, split)) is not None:
        return open_examples(part, task, config, split=split, labelled=labelled)
    named = named_dataset(spec)
    if named is not None:
        dataset, split = named[0], named[1] or split
        if task not in dataset.tasks:
            raise SettingError(f"data:{dataset.name} is for {' and '.join(dataset.tasks)}, not for {task}")
        name = f"data:{dataset.name}" + (f"/{split}" if split != "train" else "")
        return Examples(**common, sources=(name,), split=split, dataset=dataset, paths=(dataset.path(split),))
    refuse_columns(spec, parts_of_rows(task, labelled=labelled), FROM_PYTHON)
    if isinstance(spec, str | Path):
        spec = [spec]
    elif not labelled and isinstance(spec, list | tuple):
        return Examples(**common, sources=(), split=split, items=spec)
    if isinstance(spec, list | tuple) and spec and all(isinstance(item, str | Path) for item in spec):
        located = [_located(str(item), split) for item in spec]
        return Examples(
            **common, sources=tuple(name for name, _ in located), split=split, paths=tuple(path for _, path in located)
        )
    if isinstance(spec, Mapping) or not isinstance(spec, Iterable):
        raise CorpusError(
            f"{FROM_PYTHON} are a list of examples or rows, or a mapping of splits to them, not {type(spec).__name__}"
        )
    return Examples(**common, sources=(), split=split, items=list(spec) if isinstance(spec, Iterator) else spec)


def _rows_of(table: Any) -> list[Any]:  # noqa: ANN401  of pandas
    """Returns the rows of a table, in which NaN stands for nothing: mappings, or tuples where no column has a name."""
    rows = [
        {str(name): None if isinstance(cell, float) and cell != cell else cell for name, cell in row.items()}
        for row in table.to_dict("records")
    ]
    named = any(isinstance(name, str) for name in table.columns)
    return rows if named else [tuple(row.values()) for row in rows]


def _part_of(spec: Mapping[Any, Any], split: str) -> object:
    """Returns what a mapping of splits has for one, or None."""
    return next((spec[name] for name in _SPLITS.get(split, (split,)) if name in spec), None)


def open_train_and_valid(
    spec: Any,  # noqa: ANN401  as for open_examples
    task: TaskName,
    config: ExamplesConfig | None = None,
    *,
    seed: int = 1,
) -> tuple[Examples, Examples | None]:
    """Opens what is trained on (at most ``limit`` examples, drawn by ``seed``), and what it is evaluated on meanwhile.

    The latter is ``valid``; else the dev split of a data set, a folder or a mapping; else the share ``valid_share`` of
    the examples; with ``valid_share=0`` nothing.

    Raises:
        CorpusError, SettingError: as :func:`open_examples`.
    """
    config = config or ExamplesConfig()
    train = replace(open_examples(spec, task, config), limit=config.limit, seed=seed)
    if config.valid is not None:
        return train, open_examples(config.valid, task, config, split="dev")
    if isinstance(spec, Mapping) and _part_of(spec, "dev") is not None:
        return train, open_examples(spec, task, config, split="dev")
    if train.dataset is not None and train.split == "train":
        return train, open_examples(f"data:{train.dataset.name}/dev", task, config)
    if len(train.sources) == 1 and os.path.isdir(folder := train.sources[0]) and has_split(folder, "dev"):
        return train, open_examples(folder, task, config, split="dev")
    return train.set_aside() if config.valid_share else (train, None)


def open_either(
    spec: Any,  # noqa: ANN401  as for open_examples
    config: ExamplesConfig,
) -> Examples:
    """Opens labelled texts, single ones or pairs as they come, for a model that takes either; of a set the dev split.

    Raises:
        CorpusError, SettingError: as :func:`open_examples`.
    """
    named = named_dataset(spec)
    if named is not None and "classification" not in named[0].tasks and "pair" in named[0].tasks:
        return open_examples(spec, "pair", config, split="dev")
    opened = open_examples(spec, "classification", config, split="dev")
    return open_examples(opened, "pair", config) if named is None and opened.are_pairs() else opened


def has_split(folder: str | Path, split: str) -> bool:
    """Whether a folder has a file of a split, such as ``dev.tsv``, or several."""
    return bool(_files_of(Path(folder), split))


def require_known(labels: Sequence[str], examples: Examples) -> None:
    """Checks that examples have no label, and no tag, that is not among these.

    Raises:
        CorpusError: if one has; it names label, file and line.
    """
    known = set(labels)
    for example, where in examples.read(ExamplesStats()):
        for label in example.tags if examples.task == "tagging" else (example.label,):
            if label not in known:
                hint, seen = nearest_name(label, list(labels)), ", ".join(labels)[:200]
                why = (
                    f"the label {label[:60]!r} is none of what is trained on{hint} ({seen}); add examples of it there, "
                    "or leave it out here"
                )
                raise CorpusError(f"{where}: {why}")


def require_one_scheme(tags: Sequence[str], examples: Examples) -> None:
    """Checks that no tag is of no entity though others are, for which all of them would count as those of no entities.

    Args:
        tags: All tags, as they are learned.
        examples: What has them.

    Raises:
        CorpusError: if one is; it names tag, file and line.
    """
    if not (stray := stray_tags(tags)):
        return
    for example, where in replace(examples, part="all", limit=None).read(ExamplesStats()):
        if tag := next((tag for tag in example.tags if tag in stray), ""):
            known = next(tag for tag in tags if tag[:2] in ("B-", "I-"))
            why = (
                f"the tag {tag[:60]!r} is of no entity, unlike {known}: correct it, or remove the line if it has names "
                "of columns; tag_scheme=none takes all tags as they are"
            )
            raise CorpusError(f"{where}: {why}")


def _located(name: str, split: str) -> tuple[str, Path]:
    """Returns what a recipe calls a file, and where it is; of a folder the file of the split.

    A folder to train on keeps its name, as it has what is evaluated on, too.
    """
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if not in_catalogue(name) and os.path.isdir(path):
        files = _files_of(path, split)
        if len(files) != 1:
            inside = ", ".join(sorted(one.name for one in path.iterdir()))[:200] or "nothing"
            wanted = " or ".join(_SPLITS.get(split, (split,))[:2])
            raise CorpusError(f"{path}: a folder with {inside}; expected one file called {wanted}, such as {split}.tsv")
        return str(path if split == "train" else files[0]), files[0]
    return locate(name, "a file with examples, or data:NAME")


def _files_of(folder: Path, split: str) -> list[Path]:
    names = _SPLITS.get(split, (split,))
    return sorted(one for one in folder.iterdir() if one.is_file() and plain_name(one).partition(".")[0] in names)
