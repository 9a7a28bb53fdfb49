"""Objects of JSON as tagged sentences: tokens with their tags, and texts with the places of their entities."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from wenmai.data.example_settings import ExamplesStats
from wenmai.data.mentions import cut_words
from wenmai.data.readers import tagged_spans
from wenmai.data.records import listed

__all__ = ["tagged_of"]

_TOKENS, _TAGS = ("tokens", "words", "characters"), ("tags", "ner_tags", "labels", "bio_tags", "ner", "label")
_ENTITIES = ("entities", "spans")
_START, _END, _TYPE = ("start", "start_offset", "begin"), ("end", "end_offset"), ("label", "type", "entity_group")

Tagged = tuple[tuple[str, ...], tuple[str, ...]]  # tokens, tags


def tagged_of(record: Mapping[str, Any], stats: ExamplesStats, *, labelled: bool) -> Tagged:
    """Returns the tokens and tags of an object; ``stats`` count what was left out.

    It is ``{"tokens": [...], "tags": [...]}``; or a text with ``{TYPE: {SURFACE: [[first, last], ...]}}`` as CLUENER
    has it, which is read by characters; or a text with a list of ``[start, end, TYPE]`` or of such objects, as spaCy,
    Prodigy and doccano have them, with ``end`` behind the last character, which is read by words.

    Raises:
        ValueError: if tokens and tags are not equally many, or are no texts, or an entity is not where it should be.
        TypeError, AttributeError: if there is neither.
    """
    tokens = next((record[name] for name in _TOKENS if name in record), None)
    given = next((record[name] for name in (*_TAGS, *_ENTITIES) if name in record), None) if labelled else {}
    text = record.get("text")
    if tokens is None and isinstance(text, str):
        if given is None:
            raise ValueError(f"has no label; it has {listed(record)}")
        if isinstance(given, dict):
            found = tagged_spans(text, given)
            count = sum(len(places) for surfaces in given.values() for places in surfaces.values())
            return _overlaps_counted((found.tokens, found.tags), count, stats)
        if all(not isinstance(one, str | int) for one in given):
            return _overlaps_counted(_tagged_words(text, given), len(given), stats)
        tokens = list(text)
    tags = given if labelled else ["O"] * len(tokens or ())
    if not isinstance(tokens, list) or not isinstance(tags, list):
        raise TypeError
    if len(tokens) != len(tags):
        raise ValueError(f"has {len(tokens)} tokens and {len(tags)} tags; expected as many")
    written = tuple(str(tag) if isinstance(tag, int) and not isinstance(tag, bool) else tag for tag in tags)
    if not all(isinstance(one, str) and one.strip() and "\0" not in one for one in (*tokens, *written)):
        raise ValueError("has a token or a tag that is no text, or empty")
    return tuple(tokens), tuple(tag.strip() for tag in written)


def _overlaps_counted(tagged: Tagged, entities: int, stats: ExamplesStats) -> Tagged:
    stats.overlapping += entities - sum(tag.startswith("B-") for tag in tagged[1])
    return tagged


def _tagged_words(text: str, entities: Sequence[object]) -> Tagged:
    """Cuts a text into words, also where an entity begins or ends; of entities that overlap the first, longest counts.

    Raises:
        ValueError: if an entity is not within the text, or has no words.
    """
    spans = sorted((_span_of(one, len(text)) for one in entities), key=lambda span: (span[0], -span[1]))
    sentences = cut_words(text, borders=[edge for start, end, _ in spans for edge in (start, end)])
    words = [word for sentence in sentences for word in sentence]
    starts, ends = [word.start for word in words], [word.end for word in words]
    tags, behind = ["O"] * len(words), 0
    for start, end, kind in spans:
        first, last = bisect_left(starts, start), bisect_right(ends, end)
        if first >= last:
            raise ValueError(f"has an entity without words, {text[start:end][:60]!r} ({start} to {end})")
        if start >= behind:
            tags[first:last] = [f"B-{kind}"] + [f"I-{kind}"] * (last - first - 1)
            behind = end
    return tuple(word.text for word in words), tuple(tags)


def _span_of(entity: object, length: int) -> tuple[int, int, str]:
    """Returns where an entity begins, where it ends, and its type."""
    if isinstance(entity, Mapping):
        entity = [next((entity[name] for name in names if name in entity), None) for names in (_START, _END, _TYPE)]
    wrong = ValueError(
        f"has the entity {str(entity)[:60]}; expected [start, end, TYPE], characters of the text, of which there are "
        f"{length}"
    )
    if not isinstance(entity, list | tuple) or len(entity) != 3:
        raise wrong
    start, end, kind = entity
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
        raise wrong
    if not isinstance(kind, str) or not re.fullmatch(r"\S+", kind):
        raise wrong
    return start, end, kind
