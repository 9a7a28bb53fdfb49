"""Relations of files: documents with entities as they are, and plain text, whose entities a tagger finds."""

import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.compressed import reading
from wenmai.core.errors import CorpusError, SettingError, WenmaiError
from wenmai.core.folder import obstacle_to_file, writing_json
from wenmai.core.wording import say
from wenmai.data.lines import plain_name
from wenmai.data.mentions import Found, cut_words, entities_of
from wenmai.data.relation_files import begins_documents, holds_documents, open_documents, read_documents
from wenmai.data.relations import RelationDocument
from wenmai.text.ranges import EAST_ASIAN
from wenmai.training.run import RECIPE, Run

if TYPE_CHECKING:
    from wenmai.inference.relations import Extracted, RelationModel
    from wenmai.inference.verbs import Tagger

__all__ = [
    "as_docred",
    "document_of_text",
    "documents_of_files",
    "require_predictions",
    "tagger_beside",
    "tagger_of",
    "unwrapped",
    "why_nothing",
    "write_predictions",
]

_log = logging.getLogger(__name__)

_HEAD = 1 << 16  # bytes of a file of predictions, in which the first one stands
_MOST_TEXT = 16 << 20  # bytes of a document of plain text
_OF = ("'s", "’s")  # is no part of a name
_FEWEST, _MOST = 2, 0.8  # of text whose lines were cut at a width: lines that go on, and their share that is full
_EAST_ASIAN = re.compile(f"[{EAST_ASIAN}]")
_NARROWEST, _WIDEST = 40, 120  # characters of its longest line
_SMALL = 0.4  # of the full lines, those that are followed by a small letter


def tagger_of(run: str | Path | Run, model: "RelationModel", device: str | None = None) -> "Tagger":
    """Returns the model of a run that tags entities of the types that a model of relations knows.

    Args:
        run: A finished run of ``finetuned-tagging``.
        model: The model of relations.
        device: Where it computes.

    Raises:
        RunError: if the run is not finished, or does not tag.
        SettingError: if none of its labels is a type of the model's.
    """
    tagger, never = _tagger_of(run, model, device)
    if never:
        path = run.path if isinstance(run, Run) else run
        _log.warning("%s", f"{path} never tags {', '.join(never)}: relations of such entities are not found")
    return tagger


def _tagger_of(run: str | Path | Run, model: "RelationModel", device: str | None) -> tuple["Tagger", list[str]]:
    """The tagger of a run, and the types of a model of relations that it never tags."""
    opened = run if isinstance(run, Run) else Run(run, device)
    tagger: Tagger = opened.model_for("tag")
    labels = {re.sub(r"^[BIESMLU]-", "", label) for label in tagger.labels} - {"O"}
    if not labels & set(model.types):
        raise SettingError(
            f"{opened.path} tags {', '.join(sorted(labels))}, but the relations are between entities of the types "
            f"{', '.join(model.types)}; train the tagger, or the model of relations, with the types of the other"
        )
    return tagger, sorted(set(model.types) - labels)


def tagger_beside(run: Run, model: "RelationModel", device: str | None = None) -> "Tagger":
    """Returns the model of the one run beside a run of relations that tags entities of its types, all if some do.

    Raises:
        SettingError: if there is none, or several.
    """
    found: list[tuple[str, Tagger, list[str]]] = []
    for path in sorted(one.parent for one in Path(os.path.abspath(run.path)).parent.glob(f"*/{RECIPE}")):
        with suppress(WenmaiError):  # runs of other kinds, of other types, unfinished or damaged ones
            beside = Run(path, device)
            if beside.recipe.system == "finetuned-tagging" and beside.finished:
                found.append((path.name, *_tagger_of(beside, model, device)))
    here = run.path if run.path.name not in ("", "..") else Path(os.path.abspath(run.path))
    fitting = [one for one in found if not one[2]] or found
    if len(fitting) == 1:
        ((name, _, _),) = fitting
        shown = here.with_name(name)
        _log.warning("%s", f"{shown} finds the entities of plain text; --tagger RUN names another")
        return tagger_of(shown, model, device)
    if fitting:
        told = ", ".join(
            f"{here.with_name(name)} (never tags {', '.join(never)})" if never else str(here.with_name(name))
            for name, _, never in fitting
        )
        raise SettingError(f"several runs find entities: {told}; choose one by --tagger")
    raise SettingError(
        f"the entities of plain text must be found first, and no run beside {run.path} does; add --tagger RUN, a run "
        "of finetuned-tagging"
    )


def documents_of_files(files: Sequence[str | Path], find_tagger: Callable[[], "Tagger"]) -> Iterator[RelationDocument]:
    """Yields the documents of files: those of DocRED or PubTator, or one of plain text.

    Args:
        files: Files, names of the catalogue, or ``-`` for plain text from standard input.
        find_tagger: Returns what finds the entities of plain text, such as :func:`tagger_beside`; it is called for
            each such file.

    Raises:
        CorpusError: if a file cannot be read, or is plain text without words.
        SettingError: if a file is plain text and there is no tagger.
    """
    for file in files:
        name = str(file)
        opened = (
            None if name == "-" else open_documents(name, "plain text, documents of DocRED or PubTator, or data:NAME")
        )
        if opened is not None and (".json" in plain_name(opened.paths[0]) or holds_documents(opened.paths[0])):
            yield from read_documents(opened)
            continue
        text = _text(name, None if opened is None else opened.paths[0])
        if begins_documents(text):
            raise CorpusError(f"{_title(name)}: holds documents of DocRED or PubTator; name a file that holds them")
        yield document_of_text(text, find_tagger(), title=_title(name))


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
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CorpusError(f"{name}: line {line}: is not UTF-8; convert the text first") from None
    if "\0" in text:
        number = text.partition("\0")[0].count("\n") + 1
        raise CorpusError(f"{name}, line {number}: has a NUL, which no text has; check that this is UTF-8")
    return text.removeprefix("\ufeff")


def document_of_text(text: str, tagger: "Tagger", *, title: str = "") -> RelationDocument:
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
    threshold, highest = f"{found.threshold:.3f}", f"{found.highest:.3f}"
    return say(
        "No relation reaches the threshold {threshold}; the most probable one has {highest}.",
        threshold=threshold,
        highest=highest,
    )


def as_docred(found: "Extracted") -> dict[str, Any]:
    """Returns a document with its relations as DocRED's JSON has them, with their meanings and probabilities.

    Identifiers of the document and of entities, and the pairs that are asked for, are there too where it has them.
    """
    document = found.document
    return {
        **({"id": document.id} if document.id else {}),
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


def require_predictions(path: Path) -> None:
    """Makes sure, before anything is computed, that predictions can be written; others may be replaced.

    Raises:
        SettingError: if there is a folder in their place, or a file without predictions, such as documents to read; or
            if nothing may be written there.
    """
    if obstacle := obstacle_to_file(path):
        raise SettingError(f"--predictions {path}: {obstacle}; name another file")
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if b'"h_idx"' not in head and head.strip() not in (b"", b"[]"):
            raise SettingError(
                f"{path} exists and has no predictions, but other things, which would be lost; name another file, such "
                "as predictions.json"
            )


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
