"""Documents with entities and the relations between them, as in DocRED (Yao et al. 2019).

An entity is mentioned several times, perhaps by different names; a relation holds between two entities of a document,
and its evidence is the sentences that say so. Files are a JSON list of ``{"title", "sents": [[word, ...], ...],
"vertexSet": [[{"name", "sent_id", "pos": [first, behind], "type"}, ...], ...], "labels": [{"h", "t", "r",
"evidence"}]}``; those of DocRED, Re-DocRED and HacRED are read as they are. ``labels`` may be missing: then nothing is
known of the relations. A file may also be one document, or have one a line.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wenmai.core.errors import CorpusError
from wenmai.data.lines import beginning, read_json, text_lines

__all__ = [
    "Entity",
    "Evidence",
    "Fact",
    "Mention",
    "Relation",
    "RelationDocument",
    "asked_types",
    "cooccurring",
    "docred_documents",
    "facts_of",
    "key_of",
    "not_asked",
    "read_docred",
    "relation_names",
    "tagged_sentences",
]

Fact = tuple[str, str, str]
"""Names of head and tail, and the relation."""

Evidence = Literal["co-occurrence", "attention"]
"""How sentences are found that speak of a relation: both entities are in them, or attention goes to them."""


class Mention(NamedTuple):
    """A mention of an entity: the words from ``start`` to before ``end`` of a sentence.

    Attributes:
        name: How it is called there.
        sentence: The number of the sentence, from 0.
        start: Its first word.
        end: The word behind it.
        type: Of the entity, such as ``PER``.
    """

    name: str
    sentence: int
    start: int
    end: int
    type: str


class Entity(NamedTuple):
    """An entity of a document.

    Attributes:
        mentions: All of them, at least one.
        type: That of the first mention.
        id: Its name in a knowledge base, if the file has one, such as ``D003920``.
    """

    mentions: tuple[Mention, ...]
    type: str
    id: str = ""


class Relation(NamedTuple):
    """A relation between two entities.

    Attributes:
        head: The number of the entity that has it.
        tail: The number of the entity that it has it to.
        relation: Its name, such as ``P17``.
        evidence: Sentences that say so.
    """

    head: int
    tail: int
    relation: str
    evidence: tuple[int, ...] = ()


class RelationDocument(NamedTuple):
    """A document.

    Attributes:
        title: Its title.
        sentences: The words of each.
        entities: Those that are mentioned.
        relations: Between them, each once.
        pairs: Heads and tails whose relation is asked for; None: all different entities.
        id: What its source calls it, such as the PMID of PubTator; empty: nothing.
    """

    title: str
    sentences: tuple[tuple[str, ...], ...]
    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...] = ()
    pairs: tuple[tuple[int, int], ...] | None = None
    id: str = ""

    @property
    def name(self) -> str:
        """Its identifier and its title, as far as it has them."""
        return " ".join(filter(None, (self.id, self.title)))


def read_docred(path: str | Path) -> list[RelationDocument]:
    """Reads a JSON file of documents: a list of them, one a line, or a single one; compressed ones are recognised.

    Raises:
        CorpusError: if it is no JSON, or a document is not as it should be; the message names it.
    """
    opened = Path(path)
    content: Any = _of_lines(opened) if beginning(opened).lstrip().startswith("{") else []
    content = content or read_json(opened, "utf-8", advice="; a file of any size has a document a line")
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise CorpusError(f"{path}: expected a JSON list of documents, not {type(content).__name__}")
    return docred_documents(content, str(path))


def _of_lines(path: Path) -> list[Any]:
    """What the lines of a file are; nothing if the first is no JSON, but perhaps all of the file."""
    found: list[Any] = []
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if not found:
                return []
            raise CorpusError(f"{path}: line {number} is not JSON ({error})") from None
    return found


def key_of(document: RelationDocument) -> str:
    """Returns what identifies a document: a hash of its title and sentences, whatever is annotated in it."""
    return hashlib.sha256(json.dumps([document.title, document.sentences]).encode()).hexdigest()[:16]


def docred_documents(records: Iterable[Any], where: str) -> list[RelationDocument]:
    """Makes documents of records such as DocRED's JSON has; what is a document already is only checked.

    Args:
        records: The records, or documents.
        where: What messages call them.

    Raises:
        CorpusError: if one is not as it should be.
    """
    found = []
    for number, record in enumerate(records, start=1):
        place = f"{where}: document {number}"
        try:
            if isinstance(record, RelationDocument):
                place += f" ({record.title[:60]!r})"
                found.append(_of_characters(_checked(record)))
                continue
            if not isinstance(record, Mapping):
                raise ValueError(f"expected an object, not {_shown(record)}")
            if isinstance(title := record.get("title", ""), str) and title:
                place += f" ({title[:60]!r})"
            found.append(_of_characters(_document(record)))
        except ValueError as error:
            raise CorpusError(f"{place}: {error}") from None
    return found


def _of_characters(document: RelationDocument) -> RelationDocument:
    mentions = [one for entity in document.entities for one in entity.mentions]
    named = [*(one.name for one in mentions), *(one.type for one in mentions)]
    _require_characters([*chain(*document.sentences), *named, *(one.relation for one in document.relations)])
    return document


def _require_characters(texts: Iterable[object]) -> None:
    """Makes sure that there is no half of a surrogate pair, which JSON can say; a model with one could not be read."""
    try:
        "".join(map(str, texts)).encode()
    except UnicodeEncodeError as error:
        found = error.object[error.start]
        raise ValueError(f"has the lone surrogate {found!r}, which is no character") from None


def _document(record: Mapping[str, Any]) -> RelationDocument:
    title = record.get("title", "")
    if not isinstance(title, str):
        raise ValueError(f"title is {_shown(title)}; expected a string")
    sentences = _sentences(_list(record, "sents"))
    entities = tuple(_entity(mentions, number, sentences) for number, mentions in enumerate(_list(record, "vertexSet")))
    given = record.get("labels") or []
    if not isinstance(given, list):
        raise ValueError(f"labels are {_shown(given)}; expected a list")
    relations: dict[tuple[int, int, str], Relation] = {}
    for number, label in enumerate(given):
        one = _relation(label, f"labels[{number}]", len(entities), len(sentences))
        relations[one.head, one.tail, one.relation] = one  # of equal ones the last counts, as in the official script
    pairs = None if record.get("pairs") is None else _asked(_list(record, "pairs"), len(entities))
    return RelationDocument(title, sentences, entities, tuple(relations.values()), pairs, _identifier(record.get("id")))


def _checked(document: RelationDocument) -> RelationDocument:
    """A document that was made in Python; of equal relations, and pairs, there is one."""
    sentences, count = document.sentences, len(document.entities)
    for number, entity in enumerate(document.entities):
        if not entity.mentions:
            raise ValueError(f"entity {number} has no mention; expected at least one")
        for _, sentence, start, end, _ in entity.mentions:
            if not 0 <= sentence < len(sentences):
                raise ValueError(f"entity {number}: sentence {sentence} is none of the {len(sentences)}, from 0")
            words = len(sentences[sentence])
            if not 0 <= start < end <= words:
                raise ValueError(
                    f"entity {number}: words {start} to {end} are not within the {words} of sentence {sentence}; "
                    "expected 0 <= start < end"
                )
    asked = [(one.head, one.tail, f"relation {one.relation!r} between") for one in document.relations]
    for head, tail, what in (*asked, *((*pair, "pair of") for pair in document.pairs or ())):
        if head == tail or not (0 <= head < count and 0 <= tail < count):
            raise ValueError(f"{what} {head} and {tail}; expected two of the {count} entities, from 0")
    for one in document.relations:
        if not all(0 <= sentence < len(sentences) for sentence in one.evidence):
            raise ValueError(f"evidence {_shown(one.evidence)}; expected numbers of the {len(sentences)} sentences")
    relations = {(one.head, one.tail, one.relation): one for one in document.relations}  # as of files
    pairs = None if document.pairs is None else tuple(dict.fromkeys((head, tail) for head, tail in document.pairs))
    return document._replace(relations=tuple(relations.values()), pairs=pairs)


def _sentences(given: list[Any]) -> tuple[tuple[str, ...], ...]:
    for number, sentence in enumerate(given):
        if not isinstance(sentence, list) or not all(isinstance(word, str) for word in sentence):
            raise ValueError(f"sents[{number}] is {_shown(sentence)}; expected a list of words")
    if not any(given):
        raise ValueError("sents has no words; expected a list of sentences")
    return tuple(map(tuple, given))


def _entity(given: Any, number: int, sentences: Sequence[Sequence[str]]) -> Entity:  # noqa: ANN401
    where = f"vertexSet[{number}]"
    if not isinstance(given, list) or not given:
        raise ValueError(f"{where} is {_shown(given)}; expected a list of mentions, at least one")
    mentions = tuple(_mention(one, f"{where}[{place}]", sentences) for place, one in enumerate(given))
    return Entity(mentions, mentions[0].type, _identifier(given[0].get("id")))


def _identifier(given: object) -> str:
    return str(given) if isinstance(given, str | int) else ""


def _asked(given: list[Any], entities: int) -> tuple[tuple[int, int], ...]:
    for number, pair in enumerate(given):
        fits = (
            isinstance(pair, list) and len(pair) == 2 and all(type(one) is int and 0 <= one < entities for one in pair)
        )
        if not fits or pair[0] == pair[1]:
            raise ValueError(f"pairs[{number}] is {_shown(pair)}; expected two of the {entities} entities, from 0")
    return tuple(dict.fromkeys((head, tail) for head, tail in given))


def _mention(given: Any, where: str, sentences: Sequence[Sequence[str]]) -> Mention:  # noqa: ANN401
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {_shown(given)}; expected an object")
    sentence = _number(given, "sent_id", where, len(sentences))
    span = given.get("pos")
    if not isinstance(span, list) or len(span) != 2 or not all(type(one) is int for one in span):
        raise ValueError(f"{where}.pos is {_shown(span)}; expected the first word and the one behind the last")
    start, end = span
    words = sentences[sentence]
    if not 0 <= start < end <= len(words):
        outside = f"is not within the {len(words)} words of sentence {sentence}"
        why = "is empty" if 0 <= start == end <= len(words) else outside
        raise ValueError(f"{where}.pos [{start}, {end}] {why}; expected 0 <= first < behind")
    kind, name = given.get("type", ""), given.get("name", " ".join(words[start:end]))
    if not isinstance(kind, str) or not isinstance(name, str):
        raise ValueError(f"{where}: type and name are strings, not {_shown([kind, name])}")
    return Mention(name, sentence, start, end, kind)


def _relation(given: Any, where: str, entities: int, sentences: int) -> Relation:  # noqa: ANN401
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {_shown(given)}; expected an object")
    head, tail = (_number(given, side, where, entities, "entities") for side in "ht")
    if head == tail:
        raise ValueError(f"{where}: head and tail are both entity {head}; a relation is between two")
    name = given.get("r")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where}.r is {_shown(name)}; expected the name of a relation")
    evidence = given.get("evidence") or []
    if not isinstance(evidence, list) or not all(type(one) is int and 0 <= one < sentences for one in evidence):
        raise ValueError(f"{where}.evidence is {_shown(evidence)}; expected numbers of the {sentences} sentences")
    return Relation(head, tail, name, tuple(sorted(set(evidence))))


def _number(given: Mapping[str, Any], name: str, where: str, count: int, of: str = "sentences") -> int:
    value = given.get(name)
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"{where}.{name} is {_shown(value)}; expected a number of the {count} {of}, from 0")
    return value


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    if not isinstance(value, list):
        raise ValueError(f"{name} is {_shown(value)}; expected a list")
    return value


def _shown(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "missing"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def relation_names(path: str | Path) -> dict[str, str]:
    """Reads what relations mean: a JSON object of names and meanings, such as DocRED's ``rel_info.json``.

    Raises:
        CorpusError: if it is something else.
    """
    content = read_json(Path(path), "utf-8")
    if not isinstance(content, dict) or not all(isinstance(one, str) for one in content.values()):
        raise CorpusError(
            f'{path}: expected a JSON object of relations and what they mean, such as {{"P17": "country"}}'
        )
    try:
        _require_characters(chain(*content.items()))
    except ValueError as error:
        raise CorpusError(f"{path}: {error}") from None
    return content


def facts_of(documents: Iterable[RelationDocument]) -> set[Fact]:
    """Returns every relation with every name of its head and of its tail; what Ign F1 leaves out."""
    found = set()
    for document in documents:
        names = [{mention.name for mention in entity.mentions} for entity in document.entities]
        for one in document.relations:
            found |= {(head, tail, one.relation) for head in names[one.head] for tail in names[one.tail]}
    return found


def asked_types(documents: Iterable[RelationDocument]) -> frozenset[tuple[str, str]] | None:
    """Returns the types of head and tail of all pairs; None if a document names no pairs, which asks for all."""
    found = set()
    for document in documents:
        if document.pairs is None:
            return None
        types = [entity.type for entity in document.entities]
        found |= {(types[head], types[tail]) for head, tail in document.pairs}
    return frozenset(found)


def not_asked(document: RelationDocument) -> int:
    """Returns how many relations of a document are of pairs that it does not ask for."""
    asked = None if document.pairs is None else set(document.pairs)
    return 0 if asked is None else sum((one.head, one.tail) not in asked for one in document.relations)


def tagged_sentences(document: RelationDocument) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Returns the words of each sentence with tags B-TYPE, I-TYPE and O; of mentions that overlap the longest."""
    found = []
    mentions = [one for entity in document.entities for one in entity.mentions]
    mentions.sort(key=lambda one: (one.start - one.end, one.start))
    by_sentence: dict[int, list[Mention]] = {}
    for one in mentions:
        by_sentence.setdefault(one.sentence, []).append(one)
    for number, words in enumerate(document.sentences):
        tags = ["O"] * len(words)
        for one in by_sentence.get(number, ()):
            if all(tag == "O" for tag in tags[one.start : one.end]) and one.type:
                tags[one.start : one.end] = [f"B-{one.type}", *[f"I-{one.type}"] * (one.end - one.start - 1)]
        found.append((words, tuple(tags)))
    return found


def cooccurring(document: RelationDocument, head: int, tail: int) -> list[int]:
    """Returns the sentences in which two entities are both mentioned."""
    one, other = ({mention.sentence for mention in document.entities[side].mentions} for side in (head, tail))
    return sorted(one & other)
