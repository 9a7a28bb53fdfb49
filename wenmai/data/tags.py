"""Schemes of tags for entities: what they are written in, what they mean, and what is impossible in them.

Here entities are tagged as IOB2: B-TYPE begins an entity, I-TYPE continues it, O is outside. Tags of other schemes are
read as conlleval reads them (Tjong Kim Sang and Buchholz 2000), so that a tag that continues nothing begins an entity.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

__all__ = [
    "OUTSIDE",
    "Scheme",
    "SchemeFinder",
    "bio_tags",
    "bioes_labels",
    "bioes_tags",
    "impossible_tags",
    "stray_tags",
    "types_of",
    "with_outside",
]

Scheme = Literal["iob1", "iob2", "bmes", "bioes", "none"]
_MARKS = {"iob1": "BI", "iob2": "BI", "bmes": "BMESI", "bioes": "BIOESMLU"}
_BEGIN, _END = "BSU", "ESLU"  # marks that begin an entity whatever stands before, and after which none continues
_ENTITY = re.compile(r"O|[BIMESLU]-.+")
OUTSIDE = re.compile(r"O|X|PAD|\[\w+\]|<\w+>")  # the others are those of padding and of pieces that have no tag


def bio_tags(tags: Sequence[str], scheme: Literal["iob1", "iob2", "bmes", "bioes"]) -> tuple[str, ...]:
    """Writes tags of another scheme as IOB2: B-TYPE begins an entity, I-TYPE continues it, O is outside.

    Args:
        tags: ``iob1``: I-TYPE, and B-TYPE only between neighbours of one type; ``bmes``: B, M, E and S for entities
            of one token (also with I for M); ``bioes``: the same, also with L for E and U for S. A tag that continues
            nothing begins an entity.
        scheme: Which it is.

    Raises:
        ValueError: for a tag that the scheme does not have.
    """
    found = []
    open_type = ""  # of the entity that may continue
    for tag in tags:
        if tag == "O":
            found.append("O")
            open_type = ""
            continue
        mark, kind = _parts(tag, scheme)
        begins = mark in _BEGIN or open_type != kind
        found.append(f"{'B' if begins else 'I'}-{kind}")
        open_type = "" if mark in _END else kind
    return tuple(found)


def bioes_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Writes tags of IOB2 as BIOES: the last of several is E-TYPE, one alone S-TYPE."""
    marks = {("B", True): "S", ("I", True): "E"}
    ends = (not after.startswith("I-") for _, after in pairwise([*tags, "O"]))
    return tuple(marks.get((tag[0], end), tag[0]) + tag[1:] for tag, end in zip(tags, ends, strict=True))


def bioes_labels(labels: Iterable[str]) -> list[str]:
    """Returns the tags of BIOES that some of IOB2 become, in the order of their types; what is no entity is first."""
    given = [*labels]
    types = dict.fromkeys(label.partition("-")[2] for label in given if label[1:2] == "-")
    outside = dict.fromkeys(["O", *(label for label in given if label[1:2] != "-")])
    return [*outside, *(f"{mark}-{kind}" for kind in types for mark in "BIES")]


def types_of(tags: Iterable[str]) -> Iterator[str]:
    """Yields the types of entities, and tags that are of none; not what is outside."""
    return (tag.partition("-")[2] if tag[1:2] == "-" else tag for tag in tags if tag != "O")


def impossible_tags(tags: Sequence[str], scheme: Literal["iob1", "iob2", "bmes", "bioes"]) -> Iterator[tuple[int, str]]:
    """Yields index and fault of each tag that cannot stand where it does.

    That is a tag that continues or ends an entity which did not begin before it, and, in schemes that mark ends, an
    entity that does not end. In IOB1 nothing is impossible.

    Raises:
        ValueError: for a tag that the scheme does not have.
    """
    open_type, before = "", ""
    with_ends = scheme in ("bmes", "bioes")
    for place, tag in enumerate([*tags, "O"]):
        mark, kind = ("O", "") if tag == "O" else _parts(tag, scheme)
        continues = mark not in "O" + _BEGIN
        if continues and scheme != "iob1" and open_type != kind:
            yield place, f"{tag} after {before or 'the beginning'}: no entity of this type is open"
        elif with_ends and open_type and not (continues and open_type == kind):
            yield place - 1, f"{before} before {tag if place < len(tags) else 'the end'}: the entity does not end"
        open_type = "" if mark in _END + "O" else kind
        before = tag


def _parts(tag: str, scheme: str) -> tuple[str, str]:
    mark, dash, kind = tag.partition("-")
    if not (dash and kind) or mark not in tuple(_MARKS[scheme]):
        raise ValueError(f"the tag {tag!r} is none of {scheme}")
    return mark, kind


class SchemeFinder:
    """Finds the scheme of tags by all of them.

    If one is neither O nor a mark, a dash and a type, they are no entities (``none``), such as parts of speech. With
    ends (E, S, L, U) or M they are ``bioes``. Tags of B and I are ``iob1`` if more entities begin with I than
    with B where that scheme has I (CoNLL-2003 has two of these); else ``iob2``.
    """

    def __init__(self) -> None:
        self._tags: set[str] = set()
        self._entities = True
        self._begin_with_i = 0  # entities
        self._begin_with_b = 0  # where IOB1 would have I

    def add(self, tags: Iterable[str]) -> None:
        """Takes in the tags of a sentence."""
        before = ""
        for tag in tags:
            if tag not in self._tags:
                self._tags.add(tag)
                self._entities = self._entities and _ENTITY.fullmatch(tag) is not None
            mark, _, kind = tag.partition("-")
            if mark == "I" and before != kind:
                self._begin_with_i += 1
            elif mark == "B" and before != kind:
                self._begin_with_b += 1
            before = kind

    @property
    def tags(self) -> set[str]:
        """All tags, as they are written."""
        return self._tags

    @property
    def scheme(self) -> Scheme:
        """The scheme."""
        if not self._entities:
            return "none"
        if any(tag[0] in "MESLU" for tag in self._tags):
            return "bioes"
        return "iob1" if self._begin_with_i > self._begin_with_b else "iob2"


def stray_tags(tags: Iterable[str]) -> list[str]:
    """Returns the tags that are of no scheme though others are, as B-TYPE and I-TYPE are; none of parts of speech."""
    given = [*tags]
    if not any(tag[:2] in ("B-", "I-") and _ENTITY.fullmatch(tag) for tag in given):
        return []
    return [tag for tag in given if not (_ENTITY.fullmatch(tag) or OUTSIDE.fullmatch(tag))]


def with_outside(types: Iterable[str]) -> tuple[str, ...]:
    """Returns all tags of types of entities in IOB2: O, then B-TYPE and I-TYPE of each."""
    return ("O", *(f"{mark}-{kind}" for kind in types for mark in "BI"))
