"""The page of relations: documents with their entities, and what was found in them.

It is plain HTML (``page/relations.html``) and needs neither a script nor a network: the text with its entities, the
relations with the sentences that speak of them, and which token sees which by the structure of the document.
"""

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wenmai.core.folder import writing
from wenmai.core.wording import say
from wenmai.data.relations import RelationDocument
from wenmai.runs.extraction import why_nothing
from wenmai.runs.page import filled, require_page, scrolling
from wenmai.text.ranges import EAST_ASIAN

if TYPE_CHECKING:
    from wenmai.inference.relations import Extracted, RelationModel

__all__ = ["write_relation_page"]

_DRAWN = 400  # most tokens of the matrix
_EAST_ASIAN = re.compile(f"[{EAST_ASIAN}]")

_Mentions = dict[tuple[int, int], list[int]]  # first word and the one behind it: entities


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
    first, last = int(sentences.min()) + 1, int(sentences.max()) + 1
    return dependencies(sentences, entities)[0].numpy(), str(first) if first == last else f"{first}-{last}"


def _section(drawn: _Drawn) -> str:
    document, relations = drawn.found.document, drawn.found.relations
    mentions = _mentions(document)
    title = escape(document.name) or escape(say("document {number}", number=drawn.number))
    sentences = "".join(
        f'<p class="sentence" id="d{drawn.number}s{number}"><span class="number">{number}</span>'
        f"{_marked(words, mentions.get(number - 1, {}))}</p>"
        for number, words in enumerate(document.sentences, start=1)
    )
    table = _table(drawn) if relations else f'<p class="caption">{escape(drawn.nothing)}</p>'
    return f"<section><h2>{title}</h2>{sentences}{table}{_matrix(drawn)}</section>"


def _mentions(document: RelationDocument) -> dict[int, _Mentions]:
    """Returns the entities of the mentions of each sentence."""
    found: dict[int, _Mentions] = {}
    for number, entity in enumerate(document.entities):
        for one in entity.mentions:
            found.setdefault(one.sentence, {}).setdefault((one.start, one.end), []).append(number)
    return found


def _marked(words: Sequence[str], mentions: _Mentions) -> str:
    """Returns a sentence whose mentions have the colours and numbers of their entities."""
    drawn: list[tuple[int, int, list[int]]] = []
    for (start, end), numbers in sorted(mentions.items(), key=lambda one: (one[0][0], -one[0][1])):
        if drawn and start < drawn[-1][1]:  # within another one, or overlapping
            first, last, others = drawn.pop()
            drawn.append((first, max(last, end), list(dict.fromkeys([*others, *numbers]))))
        else:
            drawn.append((start, end, [*numbers]))
    parts, place = [], 0
    for start, end, numbers in drawn:
        parts.append(_joined(words, place, start))
        named = f"<sub>{', '.join(str(one + 1) for one in numbers)}</sub>"
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
        return f'<mark class="e{number % 10}">{escape(name)}<sub>{number + 1}</sub></mark>{kind}'

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
    return scrolling(say("relations"), table)


def _relation(name: str, meaning: str) -> str:
    return escape(meaning) if meaning == name else f'{escape(meaning)} <span class="kind">{escape(name)}</span>'


def _evidence(number: int, sentences: Sequence[int]) -> str:
    return ", ".join(f'<a href="#d{number}s{one + 1}">{one + 1}</a>' for one in sentences)


def _matrix(drawn: _Drawn) -> str:
    size = len(drawn.matrix)
    if not size or (drawn.matrix == 5).all():
        return ""
    picture = b64encode(_png(drawn.matrix)).decode()
    legend = "".join(f'<span class="dependency d{number}">{escape(say(name))}</span>' for number, name in _MEANINGS)
    caption = say(
        "Which token (a row) sees which by the structure: {count} tokens; sentences: {sentences}.",
        count=size,
        sentences=drawn.sentences,
    )
    alt, width = escape(say("structure matrix")), min(480, 24 * size)
    return (
        f'<figure class="structure"><img src="data:image/png;base64,{picture}" alt="{alt}" width="{width}">'
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
