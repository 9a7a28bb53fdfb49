"""What marks the text of a pre-training: the marks that its tasks need, and the tagger that finds entities."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wenmai.core.folder import MANIFEST, file_sha256
from wenmai.data.corpus import Corpus, Progress
from wenmai.data.encoded_text import LinesConfig
from wenmai.data.marking import MakeMarker, marker_of
from wenmai.data.pretraining import marks_of
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.token_marks import Marker
from wenmai.training.run import Run

__all__ = ["marking"]

_PORTION = 256  # lines that are tagged together


def marking(config: TasksConfig, tasks: Iterable[str], *, device: str | None = None) -> MakeMarker:
    """Returns what makes the marks of a text, to be called when the text is read.

    Args:
        config: Where phrases and entities are from.
        tasks: The names of the tasks.
        device: Where a tagger works; None: as its run says by default.

    Raises:
        RunError: when it is called, if the run that finds entities is missing or is no tagger.
        SettingError: if no task has one of the names; when it is called, as :func:`wenmai.data.marking.marker_of` does.
    """
    bits = marks_of(tasks)

    def make(corpus: Corpus, lines: LinesConfig, progress: Progress | None) -> Marker | None:
        config.require_marks(bits)
        if config.entities_run is None:
            return marker_of(config, bits, corpus, lines, progress=progress)
        run = Run(Path(config.entities_run), device)
        finder = _Tagger(run.model_for("tag"))
        found_by = file_sha256(run.model_folder / MANIFEST)
        return marker_of(config, bits, corpus, lines, finder=finder, found_by=found_by, progress=progress)

    return make


class _Tagger:
    """Finds the entities of texts.

    Args:
        model: A fine-tuned tagger.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401  what has the verb `tag`
        self._model = model

    def __call__(self, texts: list[str]) -> list[list[tuple[int, int]]]:
        """Returns where entities begin and end in each text."""
        found: list[list[tuple[int, int]]] = [[] for _ in texts]
        some = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(some), _PORTION):
            places = some[start : start + _PORTION]
            for place, one in zip(places, self._model.tag([texts[place] for place in places]), strict=True):
                found[place] = [(entity.start, entity.end) for entity in one.entities]
        return found
