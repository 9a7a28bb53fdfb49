"""How a fine-tuned model reads texts; settings that are read and listed without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

__all__ = ["RelationReadingConfig", "TextVector", "TuneReadingConfig"]

TextVector = Literal["auto", "token", "mean", "pooler"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TuneReadingConfig:
    """How texts become rows of the encoder, and states the vector of a text."""

    max_length: Annotated[
        int | None, Ge(8), Doc("most tokens that are read at once, special ones included; none: as many as it can")
    ] = None
    keep: Annotated[
        Literal["head", "both"],
        Doc("of a text that is too long, its beginning, or a quarter of its beginning and the rest of its end"),
    ] = "head"
    stride: Annotated[
        int | None,
        Ge(1),
        Doc("tagging, span: tokens from a window of a long text to the next; none: a third of max_length"),
    ] = None
    pooling: Annotated[
        TextVector,
        Doc("vector of a text: token (the state of [CLS], or of the last token), mean, or what the pooler makes of it"),
    ] = "auto"
    both_orders: Annotated[
        bool, Doc("two texts are read in both orders, and their vectors are added (GPT, similarity)")
    ] = False
    answer_length: Annotated[int, Ge(1), Doc("span: most tokens of an answer")] = 30
    n_best: Annotated[int, Ge(1), Doc("span: so many of the best begins and ends are combined")] = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationReadingConfig:
    """How documents become windows of the encoder."""

    max_length: Annotated[
        int | None, Ge(8), Doc("most tokens that are read at once, special ones included; none: as many as it can")
    ] = None
    stride: Annotated[
        int | None, Ge(1), Doc("tokens from a window of a long document to the next; none: a half of a window")
    ] = None
