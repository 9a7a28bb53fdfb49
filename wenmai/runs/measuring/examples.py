"""Labelled examples to measure fine-tuned models on."""

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from wenmai.core.errors import SettingError, WenmaiError
from wenmai.core.folder import file_sha256
from wenmai.data.datasets import named_dataset
from wenmai.data.example_settings import ExamplesConfig, ExamplesStats, Placed, with_columns
from wenmai.data.examples import Examples, open_either, open_examples, open_train_and_valid
from wenmai.data.typed import ChoiceExample, SpanExample
from wenmai.training.run import Run

__all__ = ["columns_notes", "drawn_note", "read_examples"]

_COLUMNS = ("text_column", "second_column", "label_column", "token_column", "tag_column")

_SHARE = 0.1  # of the examples; fewer may be texts that are in any data, such as headlines


def read_examples(
    run: Run,
    model: Any,  # noqa: ANN401  a FineTuned
    on: Any,  # noqa: ANN401
    columns: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> tuple[list[Placed], list[str]]:
    """Reads the examples of a test set as a run read those that it was trained on.

    Only the texts of answers are measured, so one that is not where it should be is taken from the nearest place.

    Args:
        run: A run of a fine-tuned model.
        model: The model; an imported classifier takes single texts or pairs, as they come.
        on: A file, the name of a data set (of which it is the dev split), or examples.
        columns: Settings of the test set that differ.
        limit: Most examples, which are drawn by chance and are the same for every run; None: all.

    Returns:
        The examples, and what was left out or repaired, one sentence for each reason.

    Raises:
        CorpusError: if there are no examples.
        SettingError: if the run has no examples of its own, or there are more labels than ``limit``.
    """
    config = next((one for one in run.recipe.sections.values() if isinstance(one, ExamplesConfig)), None)
    if config is None:
        raise SettingError(f"{run.path}: a run of {run.recipe.system} was not trained on labelled examples")
    given = {"bad_answers": "repair", **(columns or {})}
    config, stats = with_columns(config, given), ExamplesStats()
    if model.task == "classification" and model.numbers.get("either"):
        opened = open_either(on, config)
    else:
        opened = open_examples(on, model.task, config, split="dev")
    placed = list(replace(opened, limit=limit).read(stats))
    examples = [one.example for one in placed]
    return placed, stats.left_out() + drawn_note(stats.examples, stats.not_drawn) + _known_before(run, opened, examples)


def columns_notes(runs: Sequence[Run]) -> list[list[str]]:
    """Returns a note for each run on the columns that it reads, where runs read different ones."""
    sections = [run.recipe.sections.values() for run in runs]
    configs = [next((one for one in own if isinstance(one, ExamplesConfig)), None) for own in sections]
    chosen = [{name: getattr(one, name, None) for name in _COLUMNS} for one in configs]
    others = [name for name in _COLUMNS if len({str(own[name]) for own in chosen}) > 1]
    said = [" ".join(f"{name}={own[name]}" for name in others if own[name] is not None) for own in chosen]
    return [[f"read with {one}: other runs read other columns"] if one else [] for one in said]


def drawn_note(count: int, not_drawn: int) -> list[str]:
    """Returns a note if only some of a test set are measured."""
    return [f"evaluated on {count:,} examples, drawn by chance (limit)"] if not_drawn else []


def _known_before(run: Run, opened: Examples, examples: Sequence[Any]) -> list[str]:
    """Returns a note if a run was trained on some examples, or its best state was chosen by them."""
    name, chosen = opened.describe(), _chosen_by(run, opened)
    if chosen is None:
        seen = _trained_on(run, opened)
        count = sum(_texts_of(example) in seen for example in examples)
        if count < _SHARE * len(examples) or not count:
            return []
        return [
            f"{name}: {count:,} of {len(examples):,} examples are among those that the model was trained on; name "
            "others to measure what it has learned"
        ]
    if chosen:
        return [f"{name}: the best state of this run was chosen by these examples; others measure it without bias"]
    return [f"{name}: the model was trained on these examples; name others to measure what it has learned"]


def _trained_on(run: Run, opened: Examples) -> Set[tuple[object, ...]]:
    """The texts of the examples that a run was trained on; none if their files are not as they were."""
    with suppress(WenmaiError, OSError, KeyError):
        if all(Path(one["path"]).stat().st_size == one["bytes"] for one in run.corpus["sources"]):
            config, seed = run.recipe.sections["data"], run.recipe.sections["train"].seed
            train, _ = open_train_and_valid(list(run.recipe.corpus), opened.task, config, seed=seed)
            return {_texts_of(example) for example in train}
    return frozenset()


def _texts_of(example: object) -> tuple[object, ...]:
    """Returns the texts of an example, without what is to be predicted."""
    if isinstance(example, SpanExample):
        return example.context, example.question
    if isinstance(example, ChoiceExample):
        return example.turns, example.question, example.options
    texts = (getattr(example, name, None) for name in ("text", "first", "second", "tokens"))
    return tuple(one for one in texts if one is not None)


def _chosen_by(run: Run, opened: Examples) -> bool | None:
    """Whether some examples only said which state of a run is the best; None: it never saw them."""
    splits = _known_splits(run)
    if opened.dataset is not None and any(name == opened.dataset.name for name, _ in splits):
        return splits.get((opened.dataset.name, opened.split))  # several splits may be in one file
    sources = [source for source in run.corpus.get("sources", ()) if "sha256" in source]
    found = [_source_of(path, sources) for path in opened.paths]
    return all(found) if found and None not in found else None


def _source_of(path: Path, sources: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether a file, or its like elsewhere, only said which state is the best; None: the run did not read it."""
    alike = [source for source in sources if source.get("bytes") == path.stat().st_size]
    digest = file_sha256(path) if alike else ""
    same = {str(source.get("path")): bool(source.get("valid")) for source in alike if source["sha256"] == digest}
    return same.get(str(path), all(same.values())) if same else None


def _known_splits(run: Run) -> dict[tuple[str, str], bool]:
    """The splits of data sets that a run was trained on, and whether they only said which state is the best."""
    found: dict[tuple[str, str], bool] = {}
    valid = run.recipe.flat_settings().get("data.valid")
    if (named := named_dataset(valid)) is not None:
        found[named[0].name, named[1] or "dev"] = True
    for dataset, split in filter(None, map(named_dataset, run.recipe.corpus)):
        if valid is None and split in ("", "train"):
            found[dataset.name, "dev"] = True
        found[dataset.name, split or "train"] = False
    return found
