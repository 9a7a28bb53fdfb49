"""The labelled examples of a fine-tuning, read as a whole."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.task_names import TaskName
from wenmai.data.drawing import drawn
from wenmai.data.examples import ExamplesStats, open_examples, open_train_and_valid, require_known, require_one_scheme
from wenmai.data.tags import types_of
from wenmai.data.typed import TaggedSentence, weight_of
from wenmai.tasks.task import Opened, ReadProgress, Source

__all__ = ["FineTuneData", "LabelledExamples", "refuse_without_base"]

_IMBALANCE = 10  # times as many examples of one label as of another are worth a note
_LISTED = 5  # labels in a note


@dataclass(frozen=True, eq=False)
class FineTuneData:
    """Labelled examples in memory.

    Attributes:
        fingerprint: Hash of all examples.
        train: The examples to train on.
        valid: Those to validate on; none: nothing is measured.
        labels: All labels, in a stable order; none where the task has none.
        sources: The files, as JSON values.
        stats: What was left out of the examples to train on.
        valid_stats: What was left out of those to validate on, where they are other data.
        untrained: Labels, or types of tags, that no example to train on has.
        set_aside: Whether those to validate on were set aside by chance.
    """

    fingerprint: str
    train: list[Any]
    valid: list[Any]
    labels: tuple[str, ...]
    sources: list[dict[str, Any]]
    stats: ExamplesStats
    valid_stats: ExamplesStats = field(default_factory=ExamplesStats)
    untrained: tuple[str, ...] = ()
    set_aside: bool = False

    def describe(self) -> dict[str, Any]:
        """What ``corpus.json`` holds, as JSON values."""
        sizes = {"examples": len(self.train), "valid_examples": len(self.valid), "labels": list(self.labels)}
        return {"sources": self.sources, "stats": asdict(self.stats), **sizes}

    def untrained_note(self) -> list[str]:
        """Says which labels no example to train on has, if there are any."""
        if not self.untrained:
            return []
        listed = ", ".join(self.untrained[:_LISTED]) + ", ..." * (len(self.untrained) > _LISTED)
        why = ": those that have them were set aside to validate on" if self.set_aside else ""
        return [f"no example that was trained on has the labels {listed}{why}; give more examples"]

    def numbers_note(self) -> list[str]:
        """Says that tags are numbers, as of ``datasets``, which are no entities."""
        if not isinstance(self.train[0], TaggedSentence) or not all(map(str.isdecimal, self.labels)):
            return []
        return ["all tags are numbers, and so no entities; give their names, such as B-PER, if they stand for some"]

    def imbalance_note(self) -> list[str]:
        """Says that a label is rare beside another one, if it is."""
        counted = Counter(example.label for example in self.train).most_common()
        (most, many), (least, few) = counted[0], counted[-1]
        if many <= _IMBALANCE * few:
            return []
        return [
            f"{many:,} examples have the label {most}, and {few:,} have {least}; class_weight=balanced makes rare "
            "labels count more"
        ]


class LabelledExamples(Source):
    """Labelled examples of a task: files, names of data sets, or examples in memory.

    Args:
        task: Which task.
    """

    def __init__(self, task: TaskName) -> None:
        self._task = task

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens examples; they are read once the settings are known."""
        if isinstance(corpus, Mapping) and "train" in corpus:  # splits, whose iterators are kept
            return Opened({split: open_examples(part, self._task) for split, part in corpus.items()}, {}, (), False)
        source = open_examples(corpus, self._task)
        kept = corpus if source.repeatable else source  # an iterator has been read
        return Opened(kept, {}, source.sources, source.repeatable)

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> FineTuneData:  # noqa: ANN401
        """Reads examples to train on and to validate on.

        Raises:
            CorpusError: if there are none, or one to validate on has a label that none to train on has.
        """
        if base is None:
            refuse_without_base(recipe)
        config, seed = recipe.sections["data"], recipe.sections["train"].seed
        opened, measured = open_train_and_valid(source, self._task, config, seed=seed)
        stats, valid_stats, digest = ExamplesStats(), ExamplesStats(), hashlib.sha256(self._task.encode())
        train = [placed.example for placed in opened.read(stats)]
        # What is set aside by chance may have labels of its own, unlike what somebody gave.
        labels = replace(opened, part="all", limit=None).labels() if opened.part == "rest" else opened.labels()
        if self._task == "tagging" and config.tag_scheme == "auto":
            require_one_scheme(labels, opened)
        kept = {example.label for example in train} if self._task in ("classification", "pair") else set(labels)
        if opened.part == "rest" and len(kept) < 2 <= len(labels):
            raise CorpusError(
                f"all {len(train)} examples that were not set aside to validate on have the label {min(kept)!r}; "
                "expected at least 2 labels: give valid=FILE, or valid_share=0"
            )
        valid: list[Any] = []
        if measured is not None:
            if labels and opened.part != "rest":
                require_known(labels, measured)
            of_all = ExamplesStats()  # what is set aside was counted with the rest
            read = measured.read(of_all if opened.part == "rest" else valid_stats)
            valid = [placed.example for placed in read]
            if config.valid_limit is not None:
                places = drawn([None] * len(valid), config.valid_limit, seed=0)  # so that seeds can be compared
                valid = [valid[place] for place in sorted(places)]
        elif config.valid_limit is not None:
            raise SettingError(f"valid_limit={config.valid_limit} has no effect without examples to evaluate on")
        for example in (*train, None, *valid):
            digest.update(json.dumps(example).encode() + b"\n")
            if (weight := weight_of(example)) != 1:
                digest.update(str(weight).encode())
        trained, others = opened.hashes(), [] if measured is None else measured.hashes()
        files = dict.fromkeys([*trained, *others], True) | dict.fromkeys(trained, False)  # only to validate on?
        sources = [file.as_json() | {"valid": valid} for file, valid in files.items()]
        names = dict.fromkeys(types_of(labels) if self._task == "tagging" else labels)
        if self._task == "tagging":
            kept = set(types_of(tag for example in train for tag in example.tags))
        untrained = tuple(name for name in names if name not in kept)
        aside = opened.part == "rest"
        return FineTuneData(digest.hexdigest(), train, valid, labels, sources, stats, valid_stats, untrained, aside)

    def reopen(self, fingerprint: str) -> None:
        """None: the files are read again."""


def refuse_without_base(recipe: Recipe) -> NoReturn:
    """Says that an encoder to start from is missing.

    Raises:
        SettingError: always.
    """
    task = recipe.system.removeprefix("finetuned-")
    raise SettingError(
        f"{recipe.system} starts from a trained encoder; name its run with --from RUN, or say "
        f"`wenmai finetune RUN DATA --task {task}`"
    )
