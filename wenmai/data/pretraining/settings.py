"""The settings of the pre-training tasks, one dataclass for all: a setting that one task has begins with its name."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.sources import absolute_name
from wenmai.data.token_marks import ENTITY, PHRASE
from wenmai.text.settings import check_choices

__all__ = ["Language", "PhraseSource", "TasksConfig"]

Language = Literal["english", "chinese"]
PhraseSource = Literal["auto", "words", "mined"]

_OF_ONE_TASK = ("dialogue", "prepared", "reordering", "relevance")  # whose settings begin with their names


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksConfig:
    """What the tasks read besides the text, and how they make their examples."""

    language: Annotated[
        Language, Doc("of the text: which tasks there are by default, and which words tell how sentences are related")
    ] = "english"

    # what is masked together: phrases and entities
    phrases_from: Annotated[
        PhraseSource,
        Doc(
            "words: phrases are the words of the segmenter; mined: also words that stand together far more often than "
            "chance; auto: words of Chinese, mined ones of English"
        ),
    ] = "auto"
    phrases_passes: Annotated[int, Ge(1), Doc("mined phrases: passes, each of which joins pairs of the one before")] = 2
    phrases_threshold: Annotated[float, Gt(0), Doc("mined phrases: score above which the last pass joins a pair")] = (
        100.0
    )
    phrases_min_count: Annotated[int, Ge(1), Doc("mined phrases: both parts of one occur at least this often")] = 5
    entities_list: Annotated[
        str | None,
        Doc("file of the names of entities, one a line, as they are written in the text"),
        Located(absolute_name),
    ] = None
    entities_run: Annotated[
        str | None, Doc("run of finetuned-tagging, which finds entities in the text"), Located(absolute_name)
    ] = None
    entities_inline: Annotated[bool, Doc("entities stand between [[ and ]] in the text, which are then left out")] = (
        False
    )

    # dialogues
    dialogue_threads: Annotated[
        str | None, Doc("file of dialogues: JSON lines, or one JSON list, of turns"), Located(absolute_name)
    ] = None
    dialogue_fake: Annotated[
        float, Gt(0), Le(1), Doc("fraction of the dialogues in which a turn is of another one")
    ] = 0.5

    # examples as ids
    prepared_files: Annotated[
        str | None,
        Doc(
            "file of examples as ids, token_ids;sent_ids;pos_ids;seg_labels;label, as the released ERNIE 1.0 reads "
            "them; or of a list of such files, each with a tab and the probability that units are masked"
        ),
        Located(absolute_name),
    ] = None

    # sentences
    reordering_parts: Annotated[
        int, Ge(2), Le(5), Doc("most parts that a paragraph is cut into: 3 make 9 classes, 4 make 33")
    ] = 3
    relevance_file: Annotated[
        str | None,
        Doc("table of queries, titles and labels; none: the first sentences of documents and what follows them"),
        Located(absolute_name),
    ] = None

    def __post_init__(self) -> None:
        check_choices(self, {"language": get_args(Language), "phrases_from": get_args(PhraseSource)})

    def require_use(self, tasks: Iterable[str]) -> None:
        """Makes sure that what is set is of a task that there is; for phrases, see :meth:`require_marks`.

        Raises:
            SettingError: if not.
        """
        known = set(tasks)
        for field in fields(self):
            of, value = field.name.partition("_")[0], getattr(self, field.name)
            if of in _OF_ONE_TASK and of not in known and value != field.default:
                raise SettingError(
                    f"{field.name}={value} has no effect without the task {of}; leave it out, or add {of} to tasks"
                )

    def require_files(self) -> None:
        """Makes sure that the files and runs that are named are there.

        Raises:
            CorpusError: if one is not.
        """
        for name in ("entities_list", "entities_run", "dialogue_threads", "prepared_files", "relevance_file"):
            value = getattr(self, name)
            if value is not None and not Path(value).exists():
                raise CorpusError(f"{name}={value}: no such file or run")

    @property
    def mines_phrases(self) -> bool:
        """Whether words that stand together often are phrases."""
        return self.phrases_from == "mined" or (self.phrases_from == "auto" and self.language == "english")

    def require_marks(self, bits: int) -> None:
        """Makes sure that it is known what entities are if, and only if, the marks that are needed have them.

        Args:
            bits: The marks, see :mod:`wenmai.data.token_marks`.

        Raises:
            SettingError: if not, or if what is set of phrases has no effect on these marks.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if not field.name.startswith("phrases_") or value == field.default:
                continue
            if not bits & PHRASE:
                raise SettingError(
                    f"{field.name}={value} has no effect, as no task masks phrases; leave it out, or add the task "
                    "phrases"
                )
            if field.name != "phrases_from" and not self.mines_phrases:
                raise SettingError(
                    f"{field.name}={value} has no effect on phrases that are words of the segmenter; add "
                    "phrases_from=mined, or leave it out"
                )
        given: dict[str, object] = {"entities_list": self.entities_list, "entities_run": self.entities_run}
        given |= {"entities_inline": self.entities_inline or None}
        named = [f"{name}={value}" for name, value in given.items() if value is not None]
        if bits & ENTITY and not named:
            raise SettingError(
                "nothing says what the entities are: name a file of names, one a line (entities_list=FILE), or a run "
                "of finetuned-tagging (entities_run=RUN), or mark them in the text (entities_inline=true)"
            )
        if named and not bits & ENTITY:
            raise SettingError(
                f"{named[0]} has no effect, as no task masks entities; leave it out, or add the task entities"
            )
