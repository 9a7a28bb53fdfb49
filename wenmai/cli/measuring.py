"""``wenmai evaluate`` and ``wenmai compare``."""

import json
import shlex
import sys
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.completion import complete_run, complete_systems
from wenmai.cli.options import (
    ClampLength,
    Context,
    Device,
    Json,
    LabelColumn,
    MemoryLength,
    NetworkWeight,
    NgramRun,
    Quiet,
    RunFolder,
    SameLength,
    SecondColumn,
    Sets,
    TagColumn,
    TextColumn,
    TextEncoding,
    TokenColumn,
    Tune,
)
from wenmai.cli.printing import note, show
from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.folder import obstacle_to
from wenmai.core.wording import say

__all__ = ["compare", "evaluate"]

Similarity = Annotated[
    list[str] | None,
    typer.Option(
        "--similarity", metavar="FILE", help="Pairs of words, or of texts, with human scores, or data:NAME. Repeatable."
    ),
]
Analogy = Annotated[
    list[str] | None, typer.Option("--analogy", metavar="FILE", help="Analogy questions, or data:NAME. Repeatable.")
]
Probe = Annotated[
    list[str] | None,
    typer.Option("--probe", metavar="DATASET", help="A linear probe of vectors: sst2, conll2003 ... Repeatable."),
]
WordsOf = Annotated[
    str | None,
    typer.Option(
        "--occurrences",
        metavar="CORPUS",
        help="Encoders, with --similarity: words are compared by their means over the sentences of this text.",
    ),
]
Most = Annotated[
    int | None, typer.Option("--max-occurrences", min=1, help="With --occurrences: sentences of a word [20].")
]
Restrict = Annotated[
    int | None,
    typer.Option("--restrict-vocab", min=0, help="Vectors: analogies among this many words, 0 for all [30000]."),
]
EvaluationBeam = Annotated[
    int | None, typer.Option("--beam", min=1, help="Translators: hypotheses kept at each step; 1 is greedy [5].")
]
Tokenize = Annotated[
    str | None, typer.Option("--tokenize", help="Translators: sacreBLEU's tokeniser, 13a, zh, char, intl or none.")
]
FewShot = Annotated[
    int | None,
    typer.Option("--few-shot", min=0, metavar="K", help="With --on DATASET: choose answers after K solved examples."),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="With --few-shot: the random seed [1].")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        help="Labelled examples or documents, drawn by chance; with --pairs: pairs of each paradigm [all].",
    ),
]
_FORMS = ("text", "csv", "markdown", "latex")
_DEFAULT = Path("runs/comparison")


def evaluate(
    run: RunFolder,
    similarity: Similarity = None,
    analogy: Analogy = None,
    restrict_vocab: Restrict = None,
    probe: Probe = None,
    occurrences: WordsOf = None,
    max_occurrences: Most = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="FILE",
            help="Pairs to translate, texts to classify or predict, tags, questions, choices, numbers, or pinyin; "
            "see the docs.",
        ),
    ] = None,
    text_column: TextColumn = None,
    second_column: SecondColumn = None,
    label_column: LabelColumn = None,
    token_column: TokenColumn = None,
    tag_column: TagColumn = None,
    encoding: TextEncoding = None,
    pairs: Annotated[
        str | None,
        typer.Option("--pairs", metavar="FILE", help="Language models: minimal pairs, such as blimp; see the docs."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAME", help="With --pairs: by phenomenon or by paradigm [phenomenon]."),
    ] = None,
    spelling: Annotated[
        str | None,
        typer.Option(
            "--spelling",
            metavar="NAME",
            help="With --pairs: written, wikitext, penn ... [the one with the fewest unknown words].",
        ),
    ] = None,
    few_shot: FewShot = None,
    seed: Seed = None,
    limit: Limit = None,
    context: Context = None,
    memory: MemoryLength = None,
    same_length: SameLength = None,
    clamp_length: ClampLength = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Classifiers: most labels of a text [1]; pinyin: candidates [5].")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", min=0, max=1, help="Classifiers and models of relations: leave out what is less probable."
        ),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            "--evidence",
            metavar="NAME",
            help="Models of relations: sentences that speak of one, by co-occurrence or attention [co-occurrence].",
        ),
    ] = None,
    curves: Annotated[
        bool | None, typer.Option("--curves", help="Classifiers, with --json: precision-recall curves of labels.")
    ] = None,
    mistakes: Annotated[
        Path | None,
        typer.Option("--mistakes", metavar="PAGE", help="With --on: write the hundred worst mistakes as an HTML page."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="RUN",
            help="Translators: test the difference from this run.",
            autocompletion=complete_run,
        ),
    ] = None,
    beam: EvaluationBeam = None,
    tokenize: Tokenize = None,
    ngram: NgramRun = None,
    weight: NetworkWeight = None,
    tune: Tune = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate a run on test sets.

    Example: wenmai evaluate runs/first --similarity data:ws353-all --analogy data:google-analogies

    Example: wenmai evaluate runs/first --probe sst2 --probe conll2003

    Example: wenmai evaluate runs/de-en --on test.de,test.en --json

    Example: wenmai evaluate runs/encoder --on data:kyubyong --ngram runs/pinyin

    Example: wenmai evaluate runs/gpt --few-shot 8 --on data:sst2

    Example: wenmai evaluate runs/gpt --pairs blimp
    """
    from wenmai.runs.evaluate import evaluate as measure

    if curves and not as_json:
        raise SettingError("--curves: curves of precision and recall are printed as JSON; add --json")
    if on and len(on) > 1:
        several = " ".join(f"--on {shlex.quote(one)}" for one in on)
        raise SettingError(f"evaluate takes one --on; `wenmai compare {shlex.quote(str(run))} {several}` takes several")
    options = _given(
        text_column=text_column,
        second_column=second_column,
        label_column=label_column,
        token_column=token_column,
        tag_column=tag_column,
        encoding=encoding,
        similarity=similarity,
        analogy=analogy,
        restrict_vocab=restrict_vocab,
        probe=probe,
        occurrences=occurrences,
        max_occurrences=max_occurrences,
        on=on[0] if on else None,
        pairs=pairs,
        by=by,
        spelling=spelling,
        few_shot=few_shot,
        seed=seed,
        limit=limit,
        context=context,
        memory=memory,
        same_length=same_length,
        clamp_length=clamp_length,
        k=k,
        threshold=threshold,
        evidence=evidence,
        curves=curves,
        mistakes=mistakes,
        against=against,
        beam=beam,
        tokenize=tokenize,
        ngram=ngram,
        weight=weight,
        tune=tune,
    )
    found = measure(run, device=device, quiet=quiet, **options)
    for one in found.notes:
        note(one)
    if as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False))
    else:
        show(found)
        if mistakes is not None:
            print(say(f"mistakes: {mistakes}"), file=sys.stderr)


def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|CORPUS", help="Finished runs; with --systems, the corpus.", autocompletion=complete_run
        ),
    ],
    systems: Annotated[
        str | None,
        typer.Option(
            "--systems",
            metavar="A,B,...",
            help="Train these on the corpus and compare them.",
            autocompletion=complete_systems,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the report (and the runs) go [runs/comparison, or with a number]."),
    ] = None,
    settings: Sets = None,
    similarity: Similarity = None,
    analogy: Analogy = None,
    probe: Probe = None,
    occurrences: WordsOf = None,
    max_occurrences: Most = None,
    restrict_vocab: Restrict = None,
    words: Annotated[
        str | None, typer.Option("--words", metavar="A,B,...", help="Show the neighbours of these words.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="FILE",
            help="Labelled texts, texts or pairs for the models. Repeatable.",
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--pairs", metavar="FILE", help="Language models: minimal pairs, such as blimp. Repeatable."),
    ] = None,
    memory: MemoryLength = None,
    same_length: SameLength = None,
    clamp_length: ClampLength = None,
    beam: EvaluationBeam = None,
    tokenize: Tokenize = None,
    ngram: NgramRun = None,
    tune: Tune = None,
    device: Device = None,
    form: Annotated[
        str, typer.Option("--table", metavar="FORM", help="How the table is printed: text, csv, markdown or latex.")
    ] = "text",
    drawn: Annotated[
        Path | None,
        typer.Option("--charts", metavar="FOLDER", help="Write each chart as a file into this folder."),
    ] = None,
    picture: Annotated[
        str | None, typer.Option("--chart-format", metavar="FORM", help="Of the files of --charts: svg or png [svg].")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare runs, or train systems and compare them.

    The result is one table and one HTML report that needs no network.

    Example: wenmai compare --systems word2vec-sgns,word2vec-cbow-ns corpus.txt --similarity data:ws353-all

    Example: wenmai compare --systems ngram,rnnlm,gpt corpus.txt --on test.txt --pairs blimp

    Example: wenmai compare runs/transformer runs/seq2seq --on test.de,test.en

    Example: wenmai compare runs/pinyin runs/ngram --on data:kyubyong --ngram runs/ngram --tune dev.tsv

    Example: wenmai compare runs/first runs/second --similarity data:ws353-all --table latex > table.tex
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.compare import compare as compare_runs
    from wenmai.runs.compare_systems import compare_systems
    from wenmai.runs.drawing import require_picture

    options = _given(
        similarity=similarity,
        analogy=analogy,
        probe=probe,
        occurrences=occurrences,
        max_occurrences=max_occurrences,
        restrict_vocab=restrict_vocab,
        words=_names(words),
        on=on,
        pairs=pairs,
        memory=memory,
        same_length=same_length,
        clamp_length=clamp_length,
        beam=beam,
        tokenize=tokenize,
        ngram=ngram,
        tune=tune,
    )
    if form not in _FORMS:
        raise SettingError(f"--table {form}: expected {', '.join(_FORMS)}{nearest_name(form, _FORMS)}")
    if as_json and form != "text":
        raise SettingError("--json prints JSON and --table a table; give one of them")
    if drawn is None and picture is not None:
        raise SettingError("--chart-format is the form of the files of --charts; name their folder too")
    require_picture(picture or "svg")
    if drawn is not None and (obstacle := obstacle_to(drawn)):
        raise SettingError(f"--charts {drawn}: {obstacle}; name a folder")
    command = shlex.join(["wenmai", *sys.argv[1:]])
    chosen = parse_assignments(settings or [])
    named = _names(systems)
    folder = out if out is not None else _free_folder(named)
    if systems is not None:
        found = compare_systems(
            named, what, out=folder, settings=chosen, command=command, device=device, quiet=quiet, **options
        )
    else:
        if chosen:
            raise SettingError("settings go with --systems; finished runs cannot be changed")
        found = compare_runs(what, out=folder, command=command, device=device, quiet=quiet, **options)
    if not any(system.measures for system in found.systems):
        note(
            "no test set was given, so quality is not compared; add --on FILE for classifiers, --similarity, "
            "--analogy or --probe for word vectors"
        )
    for place, sentences in found.notes.items():
        for sentence in sentences:
            note(f"{place}: {say(sentence)}")
    if drawn is not None:
        for path in found.write_charts(drawn, picture or "svg"):
            print(say(f"chart: {path}"), file=sys.stderr)
    report = folder / "report.html"
    if as_json:
        print(json.dumps(found.to_json() | {"report": str(report)}, ensure_ascii=False, allow_nan=False))
        return
    if form == "text":
        show(f"{found}\n\nreport: {report}")
    else:
        print({"csv": found.to_csv, "markdown": found.to_markdown, "latex": found.to_latex}[form](), end="")


def _free_folder(systems: list[str]) -> Path:
    """Returns where a comparison goes by default: into a folder of its own, or on with that of these systems."""
    places = chain([_DEFAULT], (_DEFAULT.with_name(f"{_DEFAULT.name}-{number}") for number in count(2)))
    return next(place for place in places if not place.exists() or any((place / one).is_dir() for one in systems))


def _given(**options: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns the given options; 0 stands for all words."""
    given = {name: value for name, value in options.items() if value is not None and value != []}
    return given | ({"restrict_vocab": given["restrict_vocab"] or None} if "restrict_vocab" in given else {})


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]
