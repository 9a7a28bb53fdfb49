"""ERNIE 1.0 and 2.0: which tasks an encoder learns by default, and from which runs it goes on.

Sun et al. 2019, "ERNIE: Enhanced Representation through Knowledge Integration", https://arxiv.org/abs/1904.09223; Sun
et al. 2020, "ERNIE 2.0: A Continual Pre-Training Framework for Language Understanding",
https://arxiv.org/abs/1907.12412. The training is :class:`~wenmai.tasks.continual.ContinualJob`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from wenmai.config.recipe import Recipe
from wenmai.core.errors import RunError, SettingError
from wenmai.core.registry import find_system
from wenmai.data.running_text import LanguageData
from wenmai.inference.masked_model import MaskedModel
from wenmai.tasks.continual import ContinualJob
from wenmai.tasks.implied import implied_tasks
from wenmai.tasks.masked import MaskedTask, refuse_untrained
from wenmai.tasks.neural import take_over
from wenmai.tasks.settings import CONTINUAL
from wenmai.tasks.sources.marked_text import MarkedText
from wenmai.tasks.task import Notes, Task
from wenmai.training.strategy import SINGLE, Strategy

__all__ = ["Ernie2Task", "ErnieTask"]

_OF_TASKS = "task_types.weight"


class ErnieTask(MaskedTask):
    """ERNIE 1.0: what is masked grows from characters to phrases and entities."""

    source = MarkedText("cls", "sep", "mask")
    sections: Mapping[str, type] = CONTINUAL
    alternates: ClassVar[bool] = True  # dialogues with masking
    added: ClassVar[Mapping[str, Any]] = {"model.pooler": "none", "model.task_types": 0}

    def implied(self, given: Mapping[str, Any], base: Recipe | None) -> Mapping[str, Any]:
        """The tasks that there are data for, when they come, and what those of the continued run read."""
        same = base is not None and type(find_system(base.system).load()) is type(self)
        before = {} if base is None else base.flat_settings()
        cased = bool(before) and not before.get("tokenizer.lowercase") and before.get("tokenizer.file") is None
        usual = partial(self._tasks, cased=cased)
        return implied_tasks(given, base, usual, same=same, alternates=self.alternates)

    def _tasks(self, given: Mapping[str, Any], *, entities: bool, cased: bool) -> list[str]:
        return ["characters", "phrases", *(["entities"] if entities else [])]

    def check(self, recipe: Recipe) -> None:
        """Makes sure that the tasks train each head of a new network, and that nothing ends the stages early."""
        config, stages, train = (recipe.sections[name] for name in ("model", "stages", "train"))
        if recipe.start is None and "mlm" in config.heads:  # else there is more to say
            refuse_untrained(config, ("mlm",))
        recipe.sections["tasks"].require_files()
        for name, plain in (("average", 1), ("patience", None)):
            if getattr(train, name) != plain:
                raise SettingError(f"{name} chooses among evaluations, but the last parameters are taken; leave it out")
        for name in ("minutes", "steps"):
            if stages.staged and getattr(train, name) is not None:
                raise SettingError(
                    f"{name} would end the training in some stage; set budget, the batches of each task, instead"
                )

    def starts_from(self, other: Task) -> bool:
        """Any encoder that fills in masked tokens can go on to learn other tasks."""
        return isinstance(other, MaskedTask)

    def initialise(self, model: MaskedModel, data: LanguageData, base: MaskedModel) -> None:
        """Copies the parameters of ``base``; a pooler and vectors of tasks that it lacks are new."""
        old, new = base.module.state_dict(), model.module.state_dict()
        known = {name.partition(".")[0] for name in old}
        fresh = ["task_types.", *(f"{part}." for part in ("pooler",) if part not in known)]
        take_over(model.module, base.module, data.grown, fresh=tuple(fresh))
        if (have := old.get(_OF_TASKS)) is not None and (want := new.get(_OF_TASKS)) is not None:
            rows = min(len(have), len(want))  # there may be more tasks than before, or fewer
            want[:rows].copy_(have[:rows])

    def job(self, recipe: Recipe, data: LanguageData, model: MaskedModel) -> ContinualJob:  # type: ignore[override]
        """Returns a training."""
        return ContinualJob(recipe, data, model)

    def restore(
        self,
        recipe: Recipe,
        data: LanguageData,
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> ContinualJob:
        """Resumes a training, if the tasks read what they read when it began."""
        job: ContinualJob = super().restore(recipe, data, checkpoint, noted, strategy)  # type: ignore[assignment]
        if job.notes().get("tasks") != noted.get("tasks"):
            files = ", ".join(str(source["path"]) for task in job.tasks for source in task.sources)
            raise RunError(f"what the tasks read has changed since the training began: {files}; train again")
        return job


class Ernie2Task(ErnieTask):
    """ERNIE 2.0: tasks about words, structure and meaning, learned continually."""

    alternates = False

    def _tasks(self, given: Mapping[str, Any], *, entities: bool, cased: bool) -> list[str]:
        first = "knowledge" if entities else "phrases"
        if given.get("language") == "chinese":
            return [first, "reordering", "distance", "discourse", "relevance"]
        of_words = ["token-document"] if cased else ["capitalisation", "token-document"]
        return [first, *of_words, "reordering", "discourse"]
