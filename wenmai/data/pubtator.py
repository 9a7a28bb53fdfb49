"""PubTator files, such as the chemicals and diseases of BioCreative V (Li et al. 2016, CDR).

A document is ``PMID|t|TITLE``, ``PMID|a|ABSTRACT``, a line ``PMID<TAB>START<TAB>END<TAB>TEXT<TAB>TYPE<TAB>ID`` for each
mention, and ``PMID<TAB>RELATION<TAB>ID<TAB>ID`` for each relation, behind which BioRED says whether it is new; a blank
line ends it. Characters are counted over the title, one space, and the abstract.

Mentions of one id are one entity; one with several ids (``D1|D2``, ``672,675``, ``672;675``) is a mention of each, but
a variant such as ``p|SUB|V|617|F`` is one id. Mentions without an id
(``-1`` or ``-``) are entities of their own. If all relations are of a Chemical to a Disease, and there are no other
types, it is asked which Chemical with an id has a relation to which Disease with one. Otherwise the documents name no
pairs: all are asked for, or those of the types that the training of a model asked for.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wenmai.core.errors import CorpusError
from wenmai.data.lines import text_lines
from wenmai.data.mentions import Word, cut_words
from wenmai.data.relations import Entity, Mention, Relation, RelationDocument

__all__ = ["TreeNumbers", "read_pubtator", "read_tree_numbers"]

TreeNumbers = Mapping[str, tuple[str, ...]]
"""The places of a term of MeSH among all terms, such as ``C14.280``, by its id."""

_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)
_TREE_NUMBERS = re.compile(r"[A-Z]\d+(?:\.\d+)*(?:[,;\s]+[A-Z]\d+(?:\.\d+)*)*")
_NUMBER = re.compile(r"[0-9]{1,9}")
_DIGIT = re.compile(r"[0-9]")
_UNKNOWN = ("-1", "-", "")
_NOVELTY = ("Novel", "No")
_HEAD, _TAIL = "Chemical", "Disease"
_INSIDE = "-/+.=*'"  # what separates words besides spaces, as in the usual preparation of these files


class _Parts:
    """The lines of a document."""

    def __init__(self, name: str, line: int) -> None:
        self.name, self.line = name, line
        self.texts: dict[str, str] = {}
        self.mentions: list[
            tuple[int, int, int, str, str, tuple[str, ...]]
        ] = []  # line, first, behind, text, type, ids
        self.relations: list[tuple[int, str, str, str]] = []  # line, relation, ids


def read_pubtator(*paths: str | Path, trees: TreeNumbers | None = None) -> list[RelationDocument]:
    """Reads documents; compressed files are recognised.

    Args:
        *paths: The files.
        trees: Of MeSH: a pair without a relation is not asked for if its tail is more general than the tail of a
            relation of the same head. This looks at the right answers, in test sets too.

    Raises:
        CorpusError: if a line is not as it should be; the message names it.
    """
    found = []
    for path in paths:
        for parts in _documents(Path(path)):
            try:
                found.append(_document(parts))
            except _BadLine as error:
                raise CorpusError(f"{path}: line {error.line}: {error}") from None
    usual = any(document.relations for document in found) and all(map(_is_usual, found))
    if usual:
        return [document._replace(pairs=tuple(_pairs(document, trees))) for document in found]
    if trees is not None and any(document.relations for document in found):
        raise CorpusError(
            f"{paths[0]}: has more than relations of a {_HEAD} to a {_TAIL}; hypernyms is for these alone, leave it out"
        )
    return found


class _BadLine(ValueError):
    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def _documents(path: Path) -> Iterator[_Parts]:
    parts: _Parts | None = None
    for number, line in text_lines(path):
        if not line.strip():
            if parts is not None:
                yield parts
            parts = None
            continue
        try:
            parts = _read_line(line, number, parts)
        except ValueError as error:
            raise CorpusError(f"{path}: line {number}: {error}") from None
    if parts is not None:
        yield parts


def _read_line(line: str, number: int, parts: _Parts | None) -> _Parts:
    text = _TEXT.fullmatch(line)
    name = text[1] if text else line.partition("\t")[0]
    if parts is None:
        if text is None:
            raise ValueError(f"{line[:60]!r}: expected PMID|t|TITLE at the beginning of a document")
        parts = _Parts(name, number)
    if name != parts.name:
        raise ValueError(f"is of document {name[:40]!r} within {parts.name!r}; expected a blank line between them")
    if text is not None:
        if text[2] in parts.texts:
            raise ValueError(f"a second {'title' if text[2] == 't' else 'abstract'} of document {name!r}")
        parts.texts[text[2]] = text[3]
        return parts
    columns = line.split("\t")
    if len(columns) == 5 and columns[4] in _NOVELTY:
        columns = columns[:4]
    if len(columns) == 4 and not columns[1].isdigit():
        parts.relations.append((number, columns[1], columns[2], columns[3]))
        return parts
    if len(columns) < 5 or not all(map(_NUMBER.fullmatch, columns[1:3])):
        raise ValueError(
            f"{line[:60]!r}: expected PMID, first character, character behind, text, type and id, or PMID, relation "
            "and two ids, with tabs between"
        )
    ids = _ids(columns[5]) if len(columns) > 5 else ("",)
    parts.mentions.append((number, int(columns[1]), int(columns[2]), columns[3], columns[4], ids))
    return parts


def _ids(column: str) -> tuple[str, ...]:
    """The identifiers of a mention; those of several have digits, unlike the parts of a variant."""
    separator = next((one for one in "|,;" if one in column), None)
    ids = tuple(column.split(separator)) if separator else (column,)
    return ids if all(one in _UNKNOWN or _DIGIT.search(one) for one in ids) else (column,)


def _document(parts: _Parts) -> RelationDocument:
    if "t" not in parts.texts:
        raise _BadLine(parts.line, f"document {parts.name!r} has no title, PMID|t|TITLE")
    text = " ".join(parts.texts[kind] for kind in "ta" if kind in parts.texts)
    borders = sorted({edge for _, low, high, *_ in parts.mentions for edge in (low, high)})
    sentences = cut_words(text, inside=_INSIDE, borders=borders, apart=(len(parts.texts["t"]),))
    flat = [(number, place, word) for number, words in enumerate(sentences) for place, word in enumerate(words)]
    starts = [word.start for _, _, word in flat]
    mentions: list[tuple[Mention, tuple[str, ...]]] = []
    for line, low, high, name, kind, ids in parts.mentions:
        if not 0 <= low < high <= len(text):
            raise _BadLine(
                line, f"characters {low} to {high} are not within the {len(text)} of document {parts.name!r}"
            )
        if text[low:high] != name:
            raise _BadLine(line, f"characters {low} to {high} are {text[low:high][:60]!r}, not {name[:60]!r}")
        mentions.append((_located(line, text, low, high, kind, flat, starts), ids))
    entities, of_id = _entities(mentions)
    relations: dict[tuple[int, int, str], Relation] = {}
    for line, name, *pair in parts.relations:
        if lacking := [one for one in pair if one not in of_id]:
            raise _BadLine(
                line, f"the relation {name} is to {lacking[0]!r}, which document {parts.name!r} never mentions"
            )
        head, tail = (of_id[one] for one in pair)
        if head != tail:
            relations.setdefault((head, tail, name), Relation(head, tail, name))
    return RelationDocument(
        parts.texts["t"],
        tuple(tuple(word.text for word in words) for words in sentences),
        tuple(entities),
        tuple(relations.values()),
        id=parts.name,
    )


def _located(
    line: int,
    text: str,
    low: int,
    high: int,
    kind: str,
    flat: Sequence[tuple[int, int, Word]],
    starts: Sequence[int],
) -> Mention:
    """The words of a mention; one that goes on in the next sentence ends with the first."""
    first = max(0, bisect_right(starts, low) - 1)
    if first < len(flat) and flat[first][2].end <= low:
        first += 1
    if first >= len(flat) or flat[first][2].start >= high:
        raise _BadLine(line, f"characters {low} to {high} have no words")
    sentence, start, _ = flat[first]
    behind = first
    while behind < len(flat) and flat[behind][0] == sentence and flat[behind][2].start < high:
        behind += 1
    end = start + behind - first
    return Mention(text[low:high], sentence, start, end, kind)


def _entities(mentions: Sequence[tuple[Mention, tuple[str, ...]]]) -> tuple[list[Entity], dict[str, int]]:
    """Puts mentions of the same id together, in the order in which they begin; also the entity of each id."""
    ordered = sorted(mentions, key=lambda one: (one[0].sentence, one[0].start, one[0].end))
    own: dict[str, list[Mention]] = {}
    for number, (mention, ids) in enumerate(ordered):
        known = dict.fromkeys(one for one in ids if one not in _UNKNOWN)
        for one in known or (f"\0{number}",):
            own.setdefault(one, []).append(mention)
    entities = [Entity(tuple(some), some[0].type, "" if key[0] == "\0" else key) for key, some in own.items()]
    return entities, {entity.id: number for number, entity in enumerate(entities) if entity.id}


def _is_usual(document: RelationDocument) -> bool:
    """Whether a document is about what chemicals do to diseases, and nothing else."""
    types = [entity.type for entity in document.entities]
    return {entity.type for entity in document.entities if entity.id} <= {_HEAD, _TAIL} and all(
        (types[one.head], types[one.tail]) == (_HEAD, _TAIL) for one in document.relations
    )


def _pairs(document: RelationDocument, trees: TreeNumbers | None) -> Iterator[tuple[int, int]]:
    known = [number for number, entity in enumerate(document.entities) if entity.id]
    heads = [number for number in known if document.entities[number].type == _HEAD]
    tails = [number for number in known if document.entities[number].type == _TAIL]
    related = {(one.head, one.tail) for one in document.relations}
    for head in heads:
        specific = [document.entities[tail].id for other, tail in related if other == head]
        for tail in tails:
            if (head, tail) not in related and trees is not None:
                own = document.entities[tail].id
                if any(_is_above(own, other, trees) for other in specific):
                    continue
            yield head, tail


def _is_above(general: str, specific: str, trees: TreeNumbers) -> bool:
    """Whether a term is more general than another one."""
    below = trees.get(specific, ())
    return any(place.startswith(f"{above}.") for above in trees.get(general, ()) for place in below)


def read_tree_numbers(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Reads the tree numbers of MeSH: lines ``ID<TAB>NUMBER``, several numbers in several lines or with commas.

    Raises:
        CorpusError: if a line is something else, or there is none.
    """
    found: dict[str, list[str]] = {}
    for number, line in text_lines(Path(path)):
        if not line.strip():
            continue
        name, tab, numbers = line.strip().partition("\t")
        if not tab or not _TREE_NUMBERS.fullmatch(numbers.strip()):
            raise CorpusError(
                f"{path}: line {number}: {line.strip()[:60]!r} is no MeSH id and its tree numbers, such as "
                "D003920<TAB>C18.452.394.750"
            )
        found.setdefault(name.strip(), []).extend(re.split(r"[,;\s]+", numbers.strip()))
    if not found:
        raise CorpusError(f"{path}: has no tree numbers; expected lines such as D003920<TAB>C18.452.394.750")
    return {name: tuple(numbers) for name, numbers in found.items()}
