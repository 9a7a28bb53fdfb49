"""What relations are found in and written to: documents of DocRED and PubTator, tree numbers, meanings, predictions."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.faults.damage import Damage, Sample, bombs
from benchmarks.faults.subjects import Subject, Trained, not_a_number
from wenmai.core.errors import CorpusError
from wenmai.data.pubtator import read_pubtator, read_tree_numbers
from wenmai.data.relation_files import open_documents, read_documents
from wenmai.data.relations import RelationDocument, docred_documents, relation_names
from wenmai.runs.extraction import require_predictions

__all__ = ["subjects"]

_MOST_WORDS = 2_000  # of a document that the model reads too

_VERTICES = [
    [
        {"name": "Anna \u00c4", "sent_id": 0, "pos": [0, 2], "type": "PER"},
        {"name": "Anna", "sent_id": 1, "pos": [0, 1], "type": "PER"},
    ],
    [{"name": "Bonn", "sent_id": 1, "pos": [2, 3], "type": "LOC", "global_pos": [7], "index": "1_0"}],
    [{"name": "a", "sent_id": 0, "pos": [3, 4], "type": "X"}],
]
_DOCUMENT = {
    "title": "A",
    "sents": [["Anna", "\u00c4", "has", "a", "\U0001f600", "."], ["Anna", "likes", "Bonn", "."]],
    "vertexSet": _VERTICES,
    "labels": [{"h": 0, "t": 1, "r": "likes", "evidence": [1]}, {"h": 2, "t": 1, "r": "before", "evidence": []}],
}
_DOCRED = json.dumps([_DOCUMENT, {**_DOCUMENT, "labels": []}], ensure_ascii=False)
_PUBTATOR = (
    "7|t|Aspirin in caf\u00e9s.\n7|a|It may hurt liver and renal tissue.\n7\t0\t7\tAspirin\tChemical\tD1\n"
    "7\t30\t50\tliver and renal tiss\tDisease\tD2|D3\tliver tissue|renal tissue\n7\t18\t20\tIt\tChemical\t-1\n"
    "7\tCID\tD1\tD2\n\n8|t|Nothing.\n8|a|\n"
)
_PREDICTIONS = json.dumps([{"title": "A", "h_idx": 0, "t_idx": 1, "r": "likes", "evidence": [1]}])
_TREES = "D1\tC14.280\nD2\tC06.552,C23.5\nD3\tC06.552.308\n"


def subjects(trained: Trained) -> list[Subject]:
    """Returns a subject for each reader; what is read is also given to a model."""
    read = partial(_extracted, trained)
    more_general = {"D2": ("C1",), "D3": ("C1.2",)}

    def named(path: Path) -> str | None:
        return read(read_documents(open_documents(path)))

    return [
        _subject("documents of DocRED", "docred.json", _DOCRED, named, 4),
        _subject("documents of DocRED by their content", "docred", _DOCRED, named, 1),
        _subject(
            "documents of PubTator", "cdr.txt", _PUBTATOR, lambda path: read(read_pubtator(path, trees=more_general)), 4
        ),
        _subject("tree numbers of MeSH", "mesh.txt", _TREES, _trees, 1),
        _subject("what relations mean", "rel_info.json", '{"P17": "country", "P1": "\u00c4"}', _meanings, 1),
        _subject("predictions to write again", "result.json", _PREDICTIONS, _predictions, 1),
    ]


def _subject(name: str, file: str, content: str, check: Callable[[Path], str | None], share: float) -> Subject:
    def made() -> Damage:
        samples: list[Sample] = [{file: content.encode()}]
        return Damage(samples, partial(bombs, samples))

    return Subject(name=name, make=made, check=lambda folder: check(folder / file), share=share)


def _trees(path: Path) -> str | None:
    return None if all(map(all, read_tree_numbers(path).values())) else "an empty number"


def _meanings(path: Path) -> str | None:
    found = relation_names(path)
    return None if all(isinstance(one, str) for one in found.values()) else "a meaning that is no text"


def _predictions(path: Path) -> None:
    require_predictions(path)  # any file that it takes may be written over


def _extracted(trained: Trained, found: list[RelationDocument]) -> str | None:
    """Whether all places are within their documents, and a model can read them."""
    try:
        docred_documents(found, "what was read")
    except CorpusError as error:
        return f"a document that cannot be: {error}"
    short = [one for one in found if sum(map(len, one.sentences)) <= _MOST_WORDS]
    said = trained("ssan").model.extract(short[:20], threshold=0.0)
    return "a probability is no number" if not_a_number([one.relations for one in said]) else None
