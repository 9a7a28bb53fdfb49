"""Settings of documents with relations."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Lt
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.data.sources import absolute_name

__all__ = ["RelationsConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationsConfig:
    """Which documents are read, and what is known of their relations."""

    valid: Annotated[
        str | None,
        Doc("documents to evaluate on while training; none: a share of the documents"),
        Located(absolute_name),
    ] = None
    valid_share: Annotated[
        float, Ge(0), Lt(1), Doc("share of the documents that is set aside to evaluate on, if there is no valid")
    ] = 0.1
    limit: Annotated[int | None, Ge(1), Doc("train on at most this many documents, drawn by the seed; none: all")] = (
        None
    )
    hypernyms: Annotated[
        str | None,
        Doc(
            "PubTator: a file of MeSH tree numbers; pairs with a more general term than that of a related pair are "
            "left out"
        ),
        Located(absolute_name),
    ] = None
    meanings: Annotated[
        str | None,
        Doc("what relations mean, a JSON file such as DocRED's rel_info.json; none: their names alone"),
        Located(absolute_name),
    ] = None
