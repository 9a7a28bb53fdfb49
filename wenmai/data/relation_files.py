"""Documents with relations, from files of DocRED and PubTator, the catalogue, or Python, split into parts."""

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.catalogue import locate
from wenmai.data.drawing import drawn
from wenmai.data.file_hash import FileHash, file_hashes
from wenmai.data.lines import beginning, plain_name
from wenmai.data.pubtator import TreeNumbers, read_pubtator, read_tree_numbers
from wenmai.data.relation_settings import RelationsConfig
from wenmai.data.relations import Fact, RelationDocument, docred_documents, facts_of, read_docred, relation_names

__all__ = [
    "NO_RELATION",
    "OpenedDocuments",
    "RelationData",
    "begins_documents",
    "has_identifiers",
    "holds_documents",
    "open_documents",
    "read_documents",
    "read_relation_data",
    "require_measurable",
]

NO_RELATION = "Na"
"""The class of a pair without a relation, the first of all."""

_PYTHON = "documents from Python"
_DOCUMENTS = "documents of DocRED or PubTator, or data:NAME"
_SHOWN = 10  # relations in a message
_PUBTATOR = re.compile(r"[^|\t\n]+\|[ta]\|")


@dataclass(frozen=True)
class OpenedDocuments:
    """Documents that are not read yet.

    Attributes:
        sources: What they are called: absolute paths, and names of the catalogue as they are; none if in memory.
        paths: Their files.
        items: Those in memory.
    """

    sources: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()
    items: tuple[Any, ...] = ()

    def describe(self) -> str:
        """Returns a name of the documents for messages."""
        return ", ".join(self.sources) or _PYTHON

    def hashes(self) -> list[FileHash]:
        """Returns what identifies the content of each file; nothing for documents from Python.

        Raises:
            CorpusError: if a file cannot be read.
        """
        return file_hashes(self.paths)


@dataclass(frozen=True, eq=False, kw_only=True)
class RelationData:
    """Documents to train on and to validate on.

    Attributes:
        fingerprint: Hash of all documents.
        train: The documents to train on.
        valid: Those to validate on; none: nothing is measured.
        labels: The relations, after "no relation".
        types: The types of entities.
        meanings: What relations mean, by name.
        seen: The facts of the documents to train on; see :func:`wenmai.data.relations.facts_of`.
        sources: The files, as JSON values.
        stats: How many documents, entities and so on there are.
        unknown: How often those to validate on have relations that none to train on has.
    """

    fingerprint: str
    train: list[RelationDocument]
    valid: list[RelationDocument]
    labels: tuple[str, ...]
    types: tuple[str, ...]
    meanings: Mapping[str, str]
    seen: frozenset[Fact]
    sources: list[dict[str, Any]]
    stats: dict[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """What ``corpus.json`` holds, as JSON values."""
        sizes = {"documents": len(self.train), "valid_documents": len(self.valid), "labels": list(self.labels)}
        return {"sources": self.sources, "stats": self.stats, **sizes}


def open_documents(spec: object, expected: str = _DOCUMENTS) -> OpenedDocuments:
    """Opens documents; nothing is read yet.

    Args:
        spec: A file or files, ``data:NAME``, or a list of documents (:class:`~wenmai.data.relations.RelationDocument`,
            or mappings such as DocRED's JSON has).
        expected: What a file should be, for the message.

    Raises:
        CorpusError: if a file is not there, or the documents are no list.
    """
    if isinstance(spec, OpenedDocuments):
        return spec
    if isinstance(spec, str | Path):
        spec = [spec]
    if isinstance(spec, Mapping) or not isinstance(spec, Iterable):
        raise CorpusError(f"{_PYTHON} are a list of documents, not {type(spec).__name__}")
    items = tuple(spec)
    if not items or not all(isinstance(item, str | Path) for item in items):
        return OpenedDocuments(items=items)
    located = [locate(str(item), expected) for item in items]
    return OpenedDocuments(tuple(name for name, _ in located), tuple(path for _, path in located))


def read_documents(opened: OpenedDocuments, config: RelationsConfig | None = None) -> list[RelationDocument]:
    """Reads documents: JSON as in DocRED, otherwise PubTator, to which alone ``hypernyms`` applies.

    Raises:
        CorpusError: if something is not as it should be, or there is no document.
    """
    config = config or RelationsConfig()
    pubtator = [not _is_json(path) for path in opened.paths]
    trees = None
    if config.hypernyms is not None and any(pubtator):
        trees = read_tree_numbers(locate(config.hypernyms, "a file of MeSH tree numbers, or data:NAME")[1])
    both = [*zip(opened.paths, pubtator, strict=True)]
    found = [one for path, of_pubtator in both if not of_pubtator for one in read_docred(path)]
    found += read_pubtator(*(path for path, of_pubtator in both if of_pubtator), trees=trees)
    if trees is not None:
        _require_places(found, trees, str(config.hypernyms))
    if not opened.paths:
        found = docred_documents(opened.items, _PYTHON)
    if not found:
        raise CorpusError(f"{opened.describe()}: no documents")
    return found


def _require_places(documents: Sequence[RelationDocument], trees: TreeNumbers, name: str) -> None:
    known = [entity.id for document in documents for entity in document.entities if entity.id]
    if known and not trees.keys() & set(known):
        raise CorpusError(
            f"{name}: has none of the identifiers of the documents, such as {known[0]!r}, but such as "
            f"{next(iter(trees))!r}; write both alike"
        )


def has_identifiers(opened: OpenedDocuments) -> bool:
    """Whether some of the files are of PubTator, whose entities have identifiers."""
    return not all(map(_is_json, opened.paths))


def _is_json(path: Path) -> bool:
    return ".json" in plain_name(path) or beginning(path).lstrip()[:1] in ("[", "{")


def holds_documents(path: Path) -> bool:
    """Whether a file begins as documents of DocRED or PubTator do.

    Raises:
        CorpusError: if it cannot be read.
    """
    return begins_documents(beginning(path))


def begins_documents(text: str) -> bool:
    """Whether a text begins as documents of DocRED or PubTator do."""
    head = text.lstrip()
    docred = head.startswith(("[", "{")) and ('"vertexSet"' in head or '"sents"' in head)
    return docred or _PUBTATOR.match(head) is not None


def read_relation_data(opened: OpenedDocuments, config: RelationsConfig, *, seed: int) -> RelationData:
    """Reads what is trained on, at most ``limit`` documents, and what it is evaluated on meanwhile.

    The latter is ``valid``, else the share ``valid_share`` of the documents, by the CRC-32 of their titles and texts.

    Raises:
        CorpusError: if the documents have no pair of entities or no relation, or those to validate on have none that is
            known.
        SettingError: if a setting has no effect on them.
    """
    if config.hypernyms is not None and not has_identifiers(opened):
        raise SettingError(
            f"hypernyms={config.hypernyms} has no effect on documents of DocRED, whose entities have no MeSH "
            "identifiers; leave it out"
        )
    documents = read_documents(opened, config)
    named = opened
    if config.valid is not None:
        named = open_documents(config.valid)
        train, valid = documents, read_documents(named, config)
    else:
        aside = [_is_aside(document, config.valid_share) for document in documents]
        train = [one for one, away in zip(documents, aside, strict=True) if not away]
        valid = [one for one, away in zip(documents, aside, strict=True) if away]
        if config.valid_share and not valid:
            raise CorpusError(
                f"{opened.describe()}: too few documents to set some aside (valid_share={config.valid_share:g}); give "
                "valid=FILE"
            )
        if not train:
            raise CorpusError(f"{opened.describe()}: all documents were set aside to validate on; give more")
    if config.limit is not None:
        kept = drawn([None] * len(train), config.limit, seed)
        train = [document for number, document in enumerate(train) if number in kept]
    if not any(len(document.entities) > 1 for document in train):
        raise CorpusError(f"{opened.describe()}: no document has two entities, so there is no pair to learn from")
    if all(document.pairs == () for document in train):
        raise CorpusError(f"{opened.describe()}: no document has a pair of entities whose relation is asked for")
    relations = sorted({one.relation for document in train for one in document.relations})
    if not relations:
        raise CorpusError(f"{opened.describe()}: no document has a relation; expected labels to learn from")
    if NO_RELATION in relations:
        raise CorpusError(f"{opened.describe()}: a relation is called {NO_RELATION!r}, which means that there is none")
    if valid and not any(document.relations for document in valid):
        raise CorpusError(
            f"{named.describe()}: no document to validate on has a relation; give others (valid=FILE), or train "
            "without any (valid_share=0)"
        )
    found = Counter(one.relation for document in valid for one in document.relations)
    unknown = {name: count for name, count in found.items() if name not in relations}
    if config.valid is not None and valid and len(unknown) == len(found):
        seen = ", ".join(relations[:_SHOWN]) + ", ..." * (len(relations) > _SHOWN)
        raise CorpusError(
            f"{named.describe()}: the documents to validate on have no relation that those to train on have ({seen}); "
            "give others, or add documents with theirs"
        )
    types = sorted({mention.type for document in train for one in document.entities for mention in one.mentions})
    digest = hashlib.sha256()
    for document in (*train, None, *valid):
        digest.update(json.dumps(document).encode() + b"\n")
    digest.update(json.dumps(config.meanings).encode())
    meanings = {}
    if config.meanings is not None:
        meanings = relation_names(locate(config.meanings, "a JSON file of what relations mean, or data:NAME")[1])
    trained = opened.hashes()
    files = dict.fromkeys([*trained, *named.hashes()], True) | dict.fromkeys(trained, False)  # only to validate on?
    return RelationData(
        fingerprint=digest.hexdigest(),
        train=train,
        valid=valid,
        labels=(NO_RELATION, *relations),
        types=tuple(types),
        meanings=meanings,
        seen=frozenset(facts_of(train)),
        sources=[file.as_json() | {"valid": valid} for file, valid in files.items()],
        stats={
            "documents": len(train),
            "sentences": sum(len(one.sentences) for one in train),
            "words": sum(len(sentence) for one in train for sentence in one.sentences),
            "entities": sum(len(one.entities) for one in train),
            "mentions": sum(len(entity.mentions) for one in train for entity in one.entities),
            "relations": sum(len(one.relations) for one in train),
        },
        unknown=unknown,
    )


def _is_aside(document: RelationDocument, share: float) -> bool:
    known = json.dumps([document.title, document.sentences]).encode()
    return zlib.crc32(known) % 1000 < 1000 * share


def require_measurable(documents: Sequence[RelationDocument], where: str) -> None:
    """Makes sure that documents to measure on have pairs of entities and relations.

    Raises:
        CorpusError: if there is no pair, or no relation.
    """
    if not any(len(document.entities) > 1 for document in documents):
        raise CorpusError(f"{where}: none of {len(documents):,} documents has two entities; there is no pair to relate")
    if not any(document.relations for document in documents):
        raise CorpusError(f"{where}: no document has a relation; expected labels to measure with")
