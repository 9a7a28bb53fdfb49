"""Relations of files: documents with entities as they are, and plain text, whose entities a tagger finds.

The page is plain HTML (``page/relations.html``) and needs neither a script nor a network: the text with its entities,
the relations with the sentences that speak of them, and which token sees which by the structure of the document.
"""

import logging
import re
import struct
import sys
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wenmai.core.compressed import reading
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.folder import writing, writing_json
from wenmai.core.wording import say
from wenmai.data.lines import plain_name
from wenmai.data.mentions import Found, cut_words, entities_of
from wenmai.data.relation_files import holds_documents, open_documents, read_documents
from wenmai.data.relations import RelationDocument
from wenmai.runs.page import filled, require_page
from wenmai.text.ranges import EAST_ASIAN
from wenmai.training.run import Run

if TYPE_CHECKING:
    from wenmai.inference.relations import Extracted, RelationModel

__all__ = [
    "as_docred",
    "document_of_text",
    "documents_of_files",
    "tagger_of",
    "unwrapped",
    "why_nothing",
    "write_predictions",
    "write_relation_page",
]

_log = logging.getLogger(__name__)

_MOST_TEXT = 16 << 20  # bytes of a document of plain text
_OF = ("'s", "’s")  # is no part of a name
_DRAWN = 400  # most tokens of the matrix
_FEWEST, _MOST = 2, 0.8  # of text whose lines were cut at a width: lines that go on, and their share that is full
_EAST_ASIAN = re.compile(f"[{EAST_ASIAN}]")
_NARROWEST, _WIDEST = 40, 120  # characters of its longest line
_SMALL = 0.4  # of the full lines, those that are followed by a small letter


# --- documents ------------------------------------------------------------------------------------------------------


def tagger_of(run: str | Path | Run, model: "RelationModel", device: str | None = None) -> Any:  # noqa: ANN401
    """Returns the model of a run that tags entities of the types that a model of relations knows.

    Args:
        run: A finished run of ``finetuned-tagging``.
        model: The model of relations.
        device: Where it computes.

    Raises:
        RunError: if the run is not finished, or does not tag.
        SettingError: if none of its labels is a type of the model's.
    """
    opened = run if isinstance(run, Run) else Run(run, device)
    tagger = opened.model_for("tag")
    labels = {re.sub(r"^[BIESMLU]-", "", label) for label in tagger.labels} - {"O"}
    if labels & set(model.types) and (never := sorted(set(model.types) - labels)):
        _log.warning("%s", f"{opened.path} never tags {', '.join(never)}: relations of such entities are not found")
    if not labels & set(model.types):
        raise SettingError(
            f"{opened.path} tags {', '.join(sorted(labels))}, but the relations are between entities of the types "
            f"{', '.join(model.types)}; train the tagger, or the model of relations, with the types of the other"
        )
    return tagger


def documents_of_files(files: Sequence[str | Path], tagger: Any = None) -> Iterator[RelationDocument]:  # noqa: ANN401
    """Yields the documents of files: those of DocRED or PubTator, or one of plain text.

    Args:
        files: Files, names of the catalogue, or ``-`` for plain text from standard input.
        tagger: What finds the entities of plain text; see :func:`tagger_of`.

    Raises:
        CorpusError: if a file cannot be read, or is plain text without words.
        SettingError: if a file is plain text and there is no tagger.
    """
    for file in files:
        name = str(file)
        opened = None if name == "-" else open_documents(name)
        if opened is not None and (".json" in plain_name(opened.paths[0]) or holds_documents(opened.paths[0])):
            if tagger is not None:
                _log.warning("%s", f"{name}: has its entities already, the tagger is not asked")
            yield from read_documents(opened)
            continue
        if tagger is None:
            raise SettingError(
                f"{name}: is plain text, whose entities must be found first; add --tagger RUN, a run of "
                "finetuned-tagging"
            )
        yield document_of_text(_text(name, None if opened is None else opened.paths[0]), tagger, title=_title(name))


def _title(name: str) -> str:
    return say("standard input") if name == "-" else Path(name).name


def _text(name: str, path: Path | None) -> str:
    if path is None:
        content = sys.stdin.buffer.read(_MOST_TEXT + 1)
    else:
        with reading(path, error=CorpusError) as raw:
            content = raw.read(_MOST_TEXT + 1)
    if len(content) > _MOST_TEXT:
        raise CorpusError(f"{name}: is larger than {_MOST_TEXT >> 20} MiB; one document a file is expected")
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CorpusError(f"{name}: line {line}: is not UTF-8; convert the text first") from None


def document_of_text(text: str, tagger: Any, *, title: str = "") -> RelationDocument:  # noqa: ANN401
    """Makes a document of plain text.

    Args:
        text: Any text; each line has sentences of its own, unless lines were cut at a width, see :func:`unwrapped`.
        tagger: A fine-tuned tagger.
        title: Of the document.

    Raises:
        CorpusError: if there is no word.
    """
    text = unwrapped(text)
    places = [(words[0].start, words[-1].end) for words in cut_words(text)]
    if not places:
        raise CorpusError(f"{title or 'the text'}: has no words")
    found = [
        Found(low + one.start, low + one.end - 2 * one.text.endswith(_OF), one.type)
        for (low, _), tagged in zip(places, tagger.tag([text[low:high] for low, high in places]), strict=True)
        for one in tagged.entities
    ]
    sentences = cut_words(text, borders=[edge for one in found for edge in one[:2]])
    return entities_of(title, sentences, found)


def unwrapped(text: str) -> str:
    """Returns a text whose lines were cut at a width with spaces for these line ends, and any other text as it is.

    They were if the word that begins the next line would not have had room in most lines, and many go on with a small
    letter. Blank lines still divide; every character keeps its place. Lines of Chinese stay as they are.
    """
    lines = text.splitlines(keepends=True)
    widths = [len(line.rstrip()) for line in lines]
    longest = max(widths, default=0)
    inner = [
        number
        for number, (line, after) in enumerate(pairwise(lines))
        if line.strip() and after.strip() and not _EAST_ASIAN.search(line.rstrip()[-1] + after.lstrip()[0])
    ]
    full = [number for number in inner if widths[number] + 1 + len(lines[number + 1].split()[0]) > longest]
    going_on = sum(lines[number + 1].lstrip()[0].islower() for number in full)
    narrow = _NARROWEST <= longest <= _WIDEST
    if not narrow or len(inner) < _FEWEST or len(full) < _MOST * len(inner) or going_on < _SMALL * len(full):
        return text
    for number in inner:
        line = lines[number].rstrip("\r\n")
        lines[number] = line.ljust(len(lines[number]))
    return "".join(lines)


def why_nothing(model: "RelationModel", found: "Extracted") -> str:
    """Returns why a document has no relation, in words; nothing if it has one."""
    if found.relations:
        return ""
    if len(found.document.entities) < 2:
        return say("There are fewer than two entities, and so no relations.")
    if not found.pairs and model.facts.asked is not None:
        asked = sorted(f"{head} - {tail}" for head, tail in model.facts.asked)
        return say("No two entities are of types that have relations ({types}).", types=", ".join(asked))
    return say("No relation was found.")


def as_docred(found: "Extracted") -> dict[str, Any]:
    """Returns a document with its relations as DocRED's JSON has them, with their meanings and probabilities.

    Identifiers of entities, and the pairs that are asked for, are there too where the document has them.
    """
    document = found.document
    return {
        "title": document.title,
        "sents": [list(words) for words in document.sentences],
        "vertexSet": [
            [
                {"name": one.name, "sent_id": one.sentence, "pos": [one.start, one.end], "type": one.type}
                | ({"id": entity.id} if entity.id else {})
                for one in entity.mentions
            ]
            for entity in document.entities
        ],
        **({"pairs": [list(pair) for pair in document.pairs or ()]} if _names_pairs(document) else {}),
        "labels": [
            {
                "h": one.head,
                "t": one.tail,
                "r": one.relation,
                "evidence": list(one.evidence),
                "evidence_by": one.evidence_by,
                "meaning": one.meaning,
                "probability": one.probability,
            }
            for one in found.relations
        ],
    }


def _names_pairs(document: RelationDocument) -> bool:
    """Whether a document asks for some of its pairs alone."""
    count = len(document.entities)
    return document.pairs is not None and len(document.pairs) < count * (count - 1)


def write_predictions(path: str | Path, found: Sequence["Extracted"]) -> list[str]:
    """Writes what was found in documents as the official script of DocRED reads it.

    It is a list of ``{"title", "h_idx", "t_idx", "r", "evidence"}``; the script knows a document by its title.

    Returns:
        A note if titles are missing or the same.
    """
    predicted = [
        {"title": one.document.title, "h_idx": fact.head, "t_idx": fact.tail, "r": fact.relation}
        | {"evidence": list(fact.evidence)}
        for one in found
        for fact in one.relations
    ]
    writing_json(Path(path), predicted)
    counted = Counter(one.document.title for one in found)
    unclear = sum(count for title, count in counted.items() if not title or count > 1)
    if not unclear:
        return []
    return [
        f"{unclear} of {len(found)} documents have no title or that of another one; the official script knows them by "
        "their titles"
    ]


# --- the page -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Drawn:
    """A document on the page: its number, what was found, why nothing, dependencies of tokens, of which sentences."""

    number: int
    found: "Extracted"
    nothing: str
    matrix: npt.NDArray[np.int8]
    sentences: str


def write_relation_page(path: str | Path, model: "RelationModel", found: Iterable["Extracted"], *, run: str) -> None:
    """Writes a page of documents, whole or not at all.

    Args:
        path: The page.
        model: The model.
        found: What it found.
        run: Its run.

    Raises:
        SettingError: see :func:`wenmai.runs.page.require_page`.
    """
    require_page(path, "relations.html")
    drawn = [
        _Drawn(number, one, why_nothing(model, one), *_dependencies(model, one.document))
        for number, one in enumerate(found, start=1)
    ]
    count = sum(len(one.found.relations) for one in drawn)
    facts = [("run", run), ("documents", f"{len(drawn):,}"), ("relations", f"{count:,}")]
    page = filled(
        "relations",
        title=escape(say("Relations of documents")),
        byline="".join(f"<span>{escape(say(f'{name} {{value}}', value=value))}</span>" for name, value in facts),
        documents="\n".join(map(_section, drawn)),
    )
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))  # a lone surrogate becomes "?"


def _dependencies(model: "RelationModel", document: RelationDocument) -> tuple[npt.NDArray[np.int8], str]:
    """Returns the dependencies of the first tokens that are read, special ones left out, and of which sentences."""
    import torch

    from wenmai.nn.structure_bias import dependencies

    rows = model.rows(document)
    if not rows.tokens or model.config.structure == "none":
        return np.zeros((0, 0), np.int8), ""
    keep = np.flatnonzero(rows.sentences[0] >= 0)[:_DRAWN]
    sentences, entities = (torch.from_numpy(part[0][keep])[None] for part in (rows.sentences, rows.entities))
    first, last = int(sentences.min()), int(sentences.max())
    return dependencies(sentences, entities)[0].numpy(), str(first) if first == last else f"{first}-{last}"


def _section(drawn: _Drawn) -> str:
    document, relations = drawn.found.document, drawn.found.relations
    title = escape(document.title) or escape(say("document {number}", number=drawn.number))
    sentences = "".join(
        f'<p class="sentence" id="d{drawn.number}s{number}"><span class="number">{number}</span>'
        f"{_marked(document, number)}</p>"
        for number in range(len(document.sentences))
    )
    table = _table(drawn) if relations else f'<p class="caption">{escape(drawn.nothing)}</p>'
    return f"<section><h2>{title}</h2>{sentences}{table}{_matrix(drawn)}</section>"


def _marked(document: RelationDocument, sentence: int) -> str:
    """Returns a sentence whose mentions have the colours and numbers of their entities."""
    words = document.sentences[sentence]
    mentions: dict[tuple[int, int], list[int]] = {}
    for number, entity in enumerate(document.entities):
        for one in entity.mentions:
            if one.sentence == sentence:
                mentions.setdefault((one.start, one.end), []).append(number)
    drawn: list[tuple[int, int, list[int]]] = []
    for (start, end), numbers in sorted(mentions.items(), key=lambda one: (one[0][0], -one[0][1])):
        if drawn and start < drawn[-1][1]:
            drawn[-1][2].extend(one for one in numbers if one not in drawn[-1][2])  # within another one, or overlapping
        else:
            drawn.append((start, end, [*numbers]))
    parts, place = [], 0
    for start, end, numbers in drawn:
        parts.append(_joined(words, place, start))
        named = f"<sub>{', '.join(map(str, numbers))}</sub>"
        inside = f'<mark class="e{numbers[0] % 10}">{_joined(words, start, end).strip()}{named}</mark>'
        parts.append((" " if _apart(words, start) else "") + inside)
        place = end
    return "".join([*parts, _joined(words, place, len(words))]).strip()


def _joined(words: Sequence[str], start: int, end: int) -> str:
    return "".join((" " if _apart(words, at) else "") + escape(words[at]) for at in range(start, end))


_NO_SPACE_BEFORE = re.compile(r"[,.;:!?%)\]}'’”]|n't|['’]\w{1,2}")


def _apart(words: Sequence[str], at: int) -> bool:
    """Whether a space stands before a word."""
    if not at or _NO_SPACE_BEFORE.fullmatch(words[at]) or words[at - 1][-1:] in "([{“‘":
        return False
    return not (_EAST_ASIAN.match(words[at]) or _EAST_ASIAN.search(words[at - 1][-1:]))


def _table(drawn: _Drawn) -> str:
    document = drawn.found.document

    def entity(number: int) -> str:
        name = max((mention.name for mention in document.entities[number].mentions), key=len)
        kind = f'<span class="kind">{escape(document.entities[number].type)}</span>'
        return f'<mark class="e{number % 10}">{escape(name)}<sub>{number}</sub></mark>{kind}'

    rows = "".join(
        f'<tr><td class="share" style="--share:{100 * one.probability:.0f}%">{one.probability:.3f}</td>'
        f"<td>{entity(one.head)}</td><td>{_relation(one.relation, one.meaning)}</td><td>{entity(one.tail)}</td>"
        f'<td class="evidence">{_evidence(drawn.number, one.evidence)}'
        f"{f' <span>{escape(say(one.evidence_by))}</span>' if one.evidence else ''}</td></tr>"
        for one in drawn.found.relations
    )
    names = ("probability", "head entity", "relation", "tail entity", "evidence")
    head = "".join(f'<th scope="col">{escape(say(name))}</th>' for name in names)
    table = f'<table class="relations"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _relation(name: str, meaning: str) -> str:
    return escape(meaning) if meaning == name else f'{escape(meaning)} <span class="kind">{escape(name)}</span>'


def _evidence(number: int, sentences: Sequence[int]) -> str:
    return ", ".join(f'<a href="#d{number}s{one}">{one}</a>' for one in sentences)


def _matrix(drawn: _Drawn) -> str:
    size = len(drawn.matrix)
    if not size or (drawn.matrix == 5).all():
        return ""
    picture = b64encode(_png(drawn.matrix)).decode()
    legend = "".join(f'<span class="dependency d{number}">{escape(say(name))}</span>' for number, name in _MEANINGS)
    caption = say(
        "Which token (a row) sees which by the structure: {count} tokens of the sentences {sentences}.",
        count=size,
        sentences=drawn.sentences,
    )
    alt = escape(say("structure matrix"))
    return (
        f'<figure class="structure"><img src="data:image/png;base64,{picture}" alt="{alt}" width="{size}">'
        f'<figcaption>{escape(caption)}<span class="legend">{legend}</span></figcaption></figure>'
    )


_MEANINGS = (
    (0, "same sentence, same entity"),
    (1, "same sentence, another entity"),
    (2, "same sentence, no entity"),
    (3, "another sentence, same entity"),
    (4, "another sentence, another entity"),
)
_COLOURS = bytes.fromhex("1b66a8 e8842c c9c4b4 149a84 b98ac6") + bytes(3)  # as .d0 to .d4 of relations.css; 5: none
_OPACITIES = bytes([255] * 5 + [0])


def _png(numbers: npt.NDArray[np.int8]) -> bytes:
    """Returns a picture with a pixel of ``_COLOURS`` for each number."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = numbers.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each begins with its filter, 0: none
    rows[:, 1:] = numbers
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", _COLOURS),
        (b"tRNS", _OPACITIES),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, content) for kind, content in parts)
