"""Settings of labelled examples, and what was found in them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from annotated_types import Ge, Lt
from typing_extensions import Doc

from wenmai.config.recipe import Located, validated
from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.quantities import counted
from wenmai.data.sources import absolute_name
from wenmai.data.span_files import SpanCounts
from wenmai.text.settings import require_encoding

__all__ = ["ExamplesConfig", "ExamplesStats", "Placed", "with_columns"]

Config = TypeVar("Config", bound=Any)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExamplesConfig:
    """Where texts and labels are in files, and what is read of them."""

    valid: Annotated[
        str | None,
        Doc("examples to evaluate on while training; none: the dev split of the data, else a share of it"),
        Located(absolute_name),
    ] = None
    valid_share: Annotated[
        float, Ge(0), Lt(1), Doc("share that is set aside to evaluate on where there is no dev split; 0: none")
    ] = 0.1
    text_column: Annotated[
        str | None,
        Doc("name of the column with the text (of pairs the first), or its number if no line has names; none: found"),
    ] = None
    second_column: Annotated[str | None, Doc("pairs: name or number of the column with the second text")] = None
    label_column: Annotated[str | None, Doc("name or number of the column with the label, or the number")] = None
    token_column: Annotated[int, Ge(1), Doc("tagging: number of the column with the token")] = 1
    tag_column: Annotated[int, Ge(-1), Doc("tagging: number of the column with the tag; -1: the last")] = -1
    tag_scheme: Annotated[
        Literal["auto", "bio", "iob1", "bioes", "none"],
        Doc("tagging: how tags write entities (bioes: also BMES); none: tags are no entities; auto: found"),
    ] = "auto"
    bad_tags: Annotated[
        Literal["repair", "error"],
        Doc("tagging: tags that cannot follow each other: read as conlleval does, and counted; or an error"),
    ] = "repair"
    bad_answers: Annotated[
        Literal["error", "repair"],
        Doc("span: an answer that is not where it should be: error, or taken from the nearest place, and counted"),
    ] = "error"
    unlabelled: Annotated[Literal["error", "skip"], Doc("an example without a label: error, or skip and count it")] = (
        "error"
    )
    encoding: Annotated[str, Doc("character encoding of the files")] = "utf-8"
    limit: Annotated[
        int | None,
        Ge(1),
        Doc("train on at most this many examples, drawn by the seed, labels in proportion; none: all"),
    ] = None
    valid_limit: Annotated[
        int | None,
        Ge(1),
        Doc("evaluate on at most this many examples while training, the same for all seeds; none: all"),
    ] = None

    def __post_init__(self) -> None:
        if self.tag_column == 0:
            raise SettingError("tag_column=0: columns are numbered from 1; -1 is the last")
        require_encoding(self.encoding)

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns that are named, by what they have."""
        return {"text": self.text_column, "second": self.second_column, "label": self.label_column}


def with_columns(config: Config, columns: Mapping[str, Any] | None) -> Config:
    """Returns settings of labelled text, some of them changed, such as ``text_column``.

    Raises:
        SettingError: if there is no such setting.
    """
    known = [one.name for one in fields(config)]
    for name in columns or ():
        if name not in known:
            raise SettingError(f"{name} is no setting of such files{nearest_name(name, known)} ({', '.join(known)})")
    return cast(Config, validated(type(config), {**asdict(config), **(columns or {})})) if columns else config


@dataclass(slots=True, kw_only=True)
class ExamplesStats:
    """What was found in examples, and what was left out or repaired.

    Attributes:
        files: Files read.
        examples: Examples.
        blank: Examples left out because a text is empty.
        without_label: Examples left out because they have no label (``unlabelled=skip``).
        undecided: Pairs left out because their label is ``-``.
        quoted: Cells of tables with tabs that seem to have the quotes of CSV.
        repaired_tags: Tags that cannot stand where they do, read as conlleval reads them.
        overlapping: Entities left out because they overlap others.
        not_drawn: Examples that were not among those drawn.
        spans: Of answers that are parts of texts.
    """

    files: int = 0
    examples: int = 0
    blank: int = 0
    without_label: int = 0
    undecided: int = 0
    quoted: int = 0
    repaired_tags: int = 0
    overlapping: int = 0
    not_drawn: int = 0
    spans: SpanCounts = field(default_factory=SpanCounts)

    def left_out(self) -> list[str]:
        """Returns what was left out or repaired, one sentence for each reason."""
        spans = self.spans
        return counted(
            (
                self.blank + spans.empty,
                "1 example was left out because a text is empty",
                "{count} examples were left out because a text is empty",
            ),
            (
                self.without_label,
                "1 example without a label was left out (unlabelled=skip)",
                "{count} examples without a label were left out (unlabelled=skip)",
            ),
            (
                self.undecided,
                "1 pair without a label that the annotators agreed on was left out",
                "{count} pairs without a label that the annotators agreed on were left out",
            ),
            (
                self.quoted,
                "1 cell has quotes around it and doubled ones within; quotes are read in .csv files alone",
                "{count} cells have quotes around them and doubled ones within; quotes are read in .csv files alone",
            ),
            (
                self.repaired_tags,
                "1 tag that cannot follow the one before was read as conlleval reads it",
                "{count} tags that cannot follow the one before were read as conlleval reads them",
            ),
            (
                self.overlapping,
                "1 entity that overlaps another was left out",
                "{count} entities that overlap others were left out",
            ),
            (
                spans.moved_answers,
                "1 answer that is not where it should be was taken from the nearest place",
                "{count} answers that are not where they should be were taken from the nearest place",
            ),
            (
                spans.absent_answers,
                "1 answer that its text does not have is for measuring only",
                "{count} answers that their text does not have are for measuring only",
            ),
            (
                spans.without_answer,
                "1 question was left out because its text has none of its answers",
                "{count} questions were left out because their text has none of their answers",
            ),
        )


class Placed(NamedTuple):
    """An example, and where it stands, such as ``FILE: line 3``."""

    example: Any
    where: str
