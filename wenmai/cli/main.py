"""The ``wenmai`` command. Each verb parses, calls ``wenmai.runs``, and prints."""

import io
import json
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli import classification, data, formats, language, vectors
from wenmai.cli.printing import setting_value, show_comparison, show_rows, show_run
from wenmai.cli.translation import translate
from wenmai.core.errors import SettingError, WenmaiError, is_out_of_memory
from wenmai.training.interrupts import terminations_as_interrupts

__all__ = ["app", "main"]

app = typer.Typer(
    help="Train, evaluate and compare text representations on your own corpus. 一份语料，历代模型，一次公平的比较。\n\n"
    "Example, with text that comes with Python: wenmai train word2vec builtin:pydocs --out runs/first,"
    " then wenmai nearest runs/first function",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(data.app, name="data")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; `wenmai systems SYSTEM` lists them. Repeatable."),
]
Similarity = Annotated[
    list[str] | None,
    typer.Option("--similarity", metavar="FILE", help="Word pairs with human scores, or data:NAME. Repeatable."),
]
Analogy = Annotated[
    list[str] | None, typer.Option("--analogy", metavar="FILE", help="Analogy questions, or data:NAME. Repeatable.")
]
Probe = Annotated[
    list[str] | None,
    typer.Option("--probe", metavar="DATASET", help="A linear probe of vectors: sst2, conll2003 ... Repeatable."),
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
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    0 success, 1 other failure, 2 wrong usage or setting, 3 corpus, 4 vocabulary, 5 file format, 6 run folder,
    7 training, 8 download, 130 interrupted or terminated.
    """
    logging.basicConfig(level=logging.WARNING, format="note: %(message)s", stream=sys.stderr)
    if os.environ.get("RANK", "0") != "0":  # started by torchrun: the first process speaks for all
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters unknown to the terminal's encoding
    try:
        try:
            with terminations_as_interrupts():
                app(args=None if arguments is None else list(arguments), prog_name="wenmai", standalone_mode=True)
        finally:
            sys.stdout.flush()  # so that a failed write has an error message
    except SystemExit as end:
        if (interrupt := _interrupt_behind(end)) is not None:
            print("; ".join(["wenmai: stopped", *getattr(interrupt, "__notes__", [])]), file=sys.stderr)
        return end.code if isinstance(end.code, int) else 1
    except WenmaiError as error:
        print(f"wenmai: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("wenmai: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has ended, as in `wenmai ... | head`
        sys.stderr.close()
        return 1
    except (MemoryError, RuntimeError, OSError) as error:  # known errors have messages of their own
        if is_out_of_memory(error):
            print(
                "wenmai: not enough memory; for word vectors a smaller vector_size or vocabulary (min_count, max_size) "
                "helps, for translators smaller batch_tokens or hidden_size",
                file=sys.stderr,
            )
            return 1
        if not isinstance(error, OSError):
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"wenmai: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _interrupt_behind(end: SystemExit) -> KeyboardInterrupt | None:
    """The interrupt that made typer end a command, if that is why it ended."""
    error: BaseException | None = end
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        import wenmai

        print(wenmai.__version__)
        raise typer.Exit


@app.command()
def systems(
    name: Annotated[str | None, typer.Argument(metavar="SYSTEM", help="List the settings of this system.")] = None,
    as_json: Json = False,
) -> None:
    """List the systems, or the settings of one.

    Example: wenmai systems word2vec
    """
    from wenmai.config.recipe import settings_of
    from wenmai.core.registry import find_system
    from wenmai.core.registry import systems as known

    if name is None:
        rows = [{"name": system.name, "summary": system.summary} for system in known().values()]
        show_rows(rows, as_json, lambda row: (row["name"], row["summary"]))
        return
    system = find_system(name)
    listed = [
        {
            "section": setting.section,
            "name": setting.name,
            "default": system.settings.get(setting.name, setting.default),
            "choices": list(setting.choices),
            "meaning": setting.meaning,
        }
        for setting in settings_of(system.load().sections)
        if (setting.section, setting.name) != ("model", "kind")  # there is only one
    ]
    show_rows(
        listed, as_json, lambda row: (f"{row['section']}.{row['name']}", setting_value(row["default"]), row["meaning"])
    )


@app.command()
def train(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="A system, or the path of a recipe.yaml.")],
    corpus: Annotated[
        list[str] | None,
        typer.Argument(metavar="CORPUS", help="Files, folders, globs, - for stdin, builtin:NAME or data:NAME."),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="PAIRS",
            help="Pairs for translation, as CORPUS does: a .tsv or .jsonl file, or SOURCE,TARGET files.",
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option("--valid", metavar="PAIRS", help="Pairs or text to validate on; by default some are set aside."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder to make [runs/SYSTEM-DATE].")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="Continue this run on new data; the vocabulary of word vectors grows."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option("--features", metavar="RUN", help="classifier: texts are averages of this run's word vectors."),
    ] = None,
    settings: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a system on a corpus.

    Example: wenmai train word2vec corpus.txt --out runs/first --set vector_size=200 --set epochs=3

    Example: wenmai train --from runs/first more.txt --out runs/second

    Example: wenmai train transformer --data train.de,train.en --valid val.de,val.en --out runs/de-en
    """
    from wenmai.cli.progress import Progress
    from wenmai.config.recipe import parse_assignments
    from wenmai.core.registry import systems as known_systems
    from wenmai.data.sources import named_texts
    from wenmai.runs.train import train as start_training
    from wenmai.runs.train import train_recipe
    from wenmai.training.run import Run

    chosen = parse_assignments(settings or [])
    texts = [*(corpus or []), *([pairs] if pairs is not None else [])]
    if valid is not None:
        chosen["data.valid"] = valid
    if features is not None:
        chosen["features.features"] = features
    from_recipe = system.endswith((".yaml", ".yml"))
    if from_recipe and (texts or start):
        raise SettingError("a recipe names its own corpus and start; give it alone, with --set to override settings")
    if start is not None and system not in known_systems():  # `train --from RUN CORPUS`: the system is that of the run
        system, texts = Run(start).recipe.system, [system, *texts]
    if not (from_recipe or texts):
        raise SettingError(f"name the text to train {system} on, for example `wenmai train {system} corpus.txt`")
    with Progress(quiet=quiet) as callback:
        if from_recipe:
            run = train_recipe(system, out=out, callback=callback, **chosen)
        else:
            run = start_training(system, named_texts(texts), out=out, start=start, callback=callback, **chosen)
    show_run(run, as_json)


@app.command()
def resume(run: RunFolder, as_json: Json = False, quiet: Quiet = False) -> None:
    """Resume an interrupted training.

    It continues from the newest good checkpoint; with one thread the result equals that of an uninterrupted training.

    Example: wenmai resume runs/first
    """
    from wenmai.cli.progress import Progress
    from wenmai.runs.train import resume as go_on

    with Progress(quiet=quiet) as callback:
        finished = go_on(run, callback=callback)
    show_run(finished, as_json)


@app.command()
def evaluate(
    run: RunFolder,
    similarity: Similarity = None,
    analogy: Analogy = None,
    restrict_vocab: Restrict = None,
    probe: Probe = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="FILE", help="Pairs to translate, or texts to classify or predict; see the docs."),
    ] = None,
    few_shot: language.FewShot = None,
    seed: language.Seed = None,
    limit: language.Limit = None,
    context: language.Context = None,
    memory: language.MemoryLength = None,
    k: Annotated[int | None, typer.Option("--k", min=1, help="Classifiers: most labels of a text [1].")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", min=0, max=1, help="Classifiers: leave out less probable labels.")
    ] = None,
    curves: Annotated[
        bool | None, typer.Option("--curves", help="Classifiers, with --json: precision-recall curves of labels.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="RUN", help="Translators: test the difference from this run.")
    ] = None,
    beam: EvaluationBeam = None,
    tokenize: Tokenize = None,
    as_json: Json = False,
) -> None:
    """Evaluate a run on test sets.

    Example: wenmai evaluate runs/first --similarity data:ws353-all --analogy data:google-analogies

    Example: wenmai evaluate runs/first --probe sst2 --probe conll2003

    Example: wenmai evaluate runs/de-en --on test.de,test.en --json

    Example: wenmai evaluate runs/gpt --few-shot 8 --on data:sst2
    """
    from wenmai.runs.evaluate import evaluate as measure

    options = _given(
        similarity=similarity,
        analogy=analogy,
        restrict_vocab=restrict_vocab,
        probe=probe,
        on=on,
        few_shot=few_shot,
        seed=seed,
        limit=limit,
        context=context,
        memory=memory,
        k=k,
        threshold=threshold,
        curves=curves,
        against=against,
        beam=beam,
        tokenize=tokenize,
    )
    found = measure(run, progress=_evaluated if sys.stderr.isatty() else None, **options)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    print(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False) if as_json else found)


@app.command()
def compare(
    what: Annotated[list[str], typer.Argument(metavar="RUN|CORPUS", help="Finished runs; with --systems, the corpus.")],
    systems: Annotated[
        str | None, typer.Option("--systems", metavar="A,B,...", help="Train these on the corpus and compare them.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the report (and the runs) go.")] = Path(
        "runs/comparison"
    ),
    settings: Sets = None,
    similarity: Similarity = None,
    analogy: Analogy = None,
    probe: Probe = None,
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
    beam: EvaluationBeam = None,
    tokenize: Tokenize = None,
    as_json: Json = False,
) -> None:
    """Compare runs, or train systems and compare them.

    The result is one table and one HTML report that needs no network.

    Example: wenmai compare --systems word2vec-sgns,word2vec-cbow-ns corpus.txt --similarity data:ws353-all

    Example: wenmai compare --systems ngram,rnnlm,gpt corpus.txt --on test.txt

    Example: wenmai compare runs/transformer runs/seq2seq --on test.de,test.en
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.compare import compare as compare_runs
    from wenmai.runs.compare_systems import compare_systems

    options = _given(
        similarity=similarity,
        analogy=analogy,
        probe=probe,
        restrict_vocab=restrict_vocab,
        words=_names(words),
        on=on,
        beam=beam,
        tokenize=tokenize,
    )
    command = shlex.join(["wenmai", *sys.argv[1:]])
    chosen = parse_assignments(settings or [])
    if systems is not None:
        found = compare_systems(_names(systems), what, out=out, settings=chosen, command=command, **options)
    else:
        if chosen:
            raise SettingError("--set goes with --systems; finished runs cannot be changed")
        found = compare_runs(what, out=out, command=command, **options)
    report = out / "report.html"
    if as_json:
        print(json.dumps(found.to_json() | {"report": str(report)}, ensure_ascii=False, allow_nan=False))
        return
    show_comparison(found)
    print(f"\nreport: {report}")


def _given(**options: Any) -> dict[str, Any]:  # noqa: ANN401
    """Returns the given options; 0 stands for all words."""
    given = {name: value for name, value in options.items() if value is not None and value != []}
    return given | ({"restrict_vocab": given["restrict_vocab"] or None} if "restrict_vocab" in given else {})


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]


def _evaluated(done: int, total: int) -> None:
    print(f"\r{done:,} of {total:,} examples", end="\n" if done == total else "", file=sys.stderr, flush=True)


@app.command()
def verify(run: RunFolder, as_json: Json = False) -> None:
    """Check the files of a run against its checksums.

    Example: wenmai verify runs/first
    """
    from wenmai.core.errors import RunError
    from wenmai.training.run import verify as check

    checked, problems = check(run)
    if as_json:
        print(json.dumps({"checked": checked, "problems": problems}, ensure_ascii=False))
    else:
        for line in checked:
            print(line)
    if problems:
        raise RunError("; ".join(problems))


app.command()(vectors.nearest)
app.command()(vectors.analogy)
app.command()(language.score)
app.command("next")(language.next_token)
app.command()(language.generate)
app.command()(translate)
app.command()(classification.classify)
app.command()(classification.autotune)
app.command("formats")(formats.formats_command)
app.command("export")(formats.export_command)
app.command("import")(formats.import_command)
