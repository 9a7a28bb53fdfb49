"""``wenmai extract``: relations between the entities of documents."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from wenmai.cli.completion import complete_run
from wenmai.cli.options import Device, JsonLines, RunFolder
from wenmai.cli.printing import note
from wenmai.core.errors import SettingError
from wenmai.core.quantities import plural
from wenmai.core.wording import say

if TYPE_CHECKING:
    from wenmai.inference.verbs import Tagger

__all__ = ["extract"]


def extract(
    run: RunFolder,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Documents: plain text, one a file, or - for standard input; or JSON of DocRED, PubTator, data:NAME.",
        ),
    ],
    tagger: Annotated[
        Path | None,
        typer.Option(
            "--tagger",
            metavar="RUN",
            help="For plain text: a run of finetuned-tagging, which finds the entities [the one beside RUN].",
            autocompletion=complete_run,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="The lowest probability of a relation; by default the best on validation."),
    ] = None,
    evidence: Annotated[
        str,
        typer.Option(
            "--evidence", metavar="NAME", help="Sentences that speak of a relation: co-occurrence, attention."
        ),
    ] = "co-occurrence",
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page that draws the documents.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            "--predictions", metavar="FILE", help="Write what was found as the official script of DocRED reads it."
        ),
    ] = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Find the relations between the entities of documents.

    Example: wenmai extract runs/ssan article.txt --tagger runs/names

    Example: wenmai extract runs/ssan data:redocred --html relations.html

    Example: wenmai extract runs/ssan test.json --predictions result.json
    """
    from wenmai.data.relations import Evidence
    from wenmai.runs.extraction import (
        as_docred,
        documents_of_files,
        require_predictions,
        tagger_beside,
        tagger_of,
        why_nothing,
        write_predictions,
    )
    from wenmai.runs.page import require_page
    from wenmai.runs.relation_page import write_relation_page
    from wenmai.training.run import Run

    if evidence not in get_args(Evidence):
        raise SettingError(f"--evidence {evidence}: expected co-occurrence or attention")
    require_page(html, "relations.html")
    if predictions is not None:
        require_predictions(predictions)
    if predictions is not None and html is not None and predictions.resolve() == html.resolve():
        raise SettingError(f"--predictions {predictions}: is the file of --html; name another")
    opened = Run(run, device)
    model = opened.model_for("extract")
    named = None if tagger is None else tagger_of(tagger, model, device)

    @cache
    def find_tagger() -> "Tagger":
        return tagger_beside(opened, model, device) if named is None else named

    extracted: Iterable[Any] = (
        found
        for document in documents_of_files(files, find_tagger)
        for found in model.extract([document], threshold=threshold, evidence=evidence)
    )
    if html is not None or predictions is not None:  # before anything is printed, which a closed pipe would end
        extracted = [*extracted]
        if html is not None:
            write_relation_page(html, model, extracted, run=str(run))
        if predictions is not None:
            for one in write_predictions(predictions, extracted):
                note(one)
    for found in extracted:
        document = found.document
        if as_json:
            print(json.dumps(as_docred(found), ensure_ascii=False))
            continue
        title, entities = document.name or say("document"), len(document.entities)
        relations = plural(len(found.relations), "relation")
        print(say("{title}: {entities} entities, {relations}", title=title, entities=entities, relations=relations))
        if not found.relations:
            print(why_nothing(model, found))
        for one in found.relations:
            head, tail = (document.entities[number].mentions[0].name for number in (one.head, one.tail))
            where = ", ".join(str(sentence + 1) for sentence in one.evidence)
            told = f"\t{say(one.evidence_by)} {where}" if where else ""
            print(f"{one.probability:.3f}\t{head}\t{one.meaning}\t{tail}{told}")
    if named is not None and not find_tagger.cache_info().currsize:
        note("the documents have their entities already, the tagger is not asked")
