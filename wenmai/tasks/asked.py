"""What a model is asked in its training, in words: the examples of ``wenmai preview``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from wenmai.tasks.masked_rows import MaskedRows
    from wenmai.text.tokenizer import Tokenizer

__all__ = ["Asked", "AskedToken", "Fate", "asked_of_row", "asked_tokens"]

Fate = Literal["masked", "replaced", "kept", "asked"]


class AskedToken(NamedTuple):
    """A token that the model reads.

    Attributes:
        shown: What it reads.
        answer: What it has to say there; empty where nothing is asked for.
        fate: Of a token that it has to guess: ``masked``, ``replaced`` by a random one, or ``kept``; ``asked`` where
            something else is asked for.
        segment: Which text it is of, or whose turn.
    """

    shown: str
    answer: str = ""
    fate: Fate | None = None
    segment: int = 0


class Asked(NamedTuple):
    """An example as the model reads it.

    Attributes:
        task: What is asked.
        tokens: What it reads.
        label: The class of the whole that it has to say; empty if none is asked for.
    """

    task: str
    tokens: tuple[AskedToken, ...]
    label: str = ""


def asked_tokens(shown: Sequence[str], answers: Sequence[str], segment: int = 0) -> tuple[AskedToken, ...]:
    """Returns tokens of one segment, each with its answer, if it has one."""
    return tuple(
        AskedToken(one, answer, "asked" if answer else None, segment)
        for one, answer in zip(shown, answers, strict=True)
    )


def asked_of_row(
    made: "MaskedRows", tokenizer: "Tokenizer", *, task: str, classes: Sequence[str] = (), label: str = ""
) -> Asked:
    """Puts a batch of one row in words.

    Args:
        made: The batch.
        tokenizer: Of its tokens.
        task: What is asked.
        classes: The class of each token that is asked for one; none: only masked tokens are asked for.
        label: The class of the row.
    """
    ids = made.tokens[0].tolist()
    segments = [0] * len(ids) if made.segments is None else made.segments[0].tolist()
    places = made.places[0]
    answers: dict[int, list[str]] = {}
    fates: dict[int, Fate] = {}
    if classes:
        for place, name in zip(places[made.asked].tolist(), classes, strict=True):
            answers[place], fates[place] = [name], "asked"
    for place, target in zip(places[made.masked].tolist(), made.targets.tolist(), strict=True):
        answers.setdefault(place, []).insert(0, tokenizer.token(target))
        fates[place] = "masked" if ids[place] == tokenizer.mask_id else "kept" if ids[place] == target else "replaced"
    tokens = (
        AskedToken(tokenizer.token(number), ", ".join(answers.get(place, ())), fates.get(place), segment)
        for place, (number, segment) in enumerate(zip(ids, segments, strict=True))
    )
    return Asked(task, tuple(tokens), label)
