"""The ``wenmai`` command. Each verb parses, calls ``wenmai.runs``, and prints."""

import io
import json
import logging
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.core.errors import SettingError, WenmaiError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Train, measure and compare text representations on your own corpus. 一份语料，历代模型，一次公平的比较。\n\n"
    "Example, with text that comes with Python: wenmai train word2vec builtin:pydocs --out runs/first,"
    " then wenmai nearest runs/first function",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
data_app = typer.Typer(
    help="The catalogue of public corpora and test sets.\n\nExample: wenmai data get text8",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")

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
Restrict = Annotated[
    int, typer.Option("--restrict-vocab", min=0, help="Analogies among this many frequent words; 0 for all.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    0 success, 1 other failure, 2 wrong usage or setting, 3 corpus, 4 vocabulary, 5 file format, 6 run folder,
    7 training, 8 download, 130 interrupted.
    """
    logging.basicConfig(level=logging.WARNING, format="note: %(message)s", stream=sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # words that a terminal or locale cannot write are no crash
    try:
        try:
            app(args=None if arguments is None else list(arguments), prog_name="wenmai", standalone_mode=True)
        finally:
            sys.stdout.flush()  # so that a result that cannot be written is an error with a message
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except WenmaiError as error:
        print(f"wenmai: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("wenmai: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `wenmai ... | head`
        sys.stderr.close()
        return 1
    except MemoryError:
        print(
            "wenmai: not enough memory; a smaller vector_size or vocabulary (min_count, max_size) helps",
            file=sys.stderr,
        )
        return 1
    except OSError as error:  # what is known to go wrong has a message of its own
        where = f"{error.filename}: " if error.filename else ""
        print(f"wenmai: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    return 0


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
    """List what can be trained, or the settings of one system.

    Example: wenmai systems word2vec
    """
    from wenmai.config.recipe import settings_of
    from wenmai.core.registry import find_system
    from wenmai.core.registry import systems as known

    if name is None:
        rows = [{"name": system.name, "summary": system.summary} for system in known().values()]
        _show(rows, as_json, lambda row: (row["name"], row["summary"]))
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
        if setting.name != "kind"
    ]
    _show(listed, as_json, lambda row: (f"{row['section']}.{row['name']}", _value(row["default"]), row["meaning"]))


@app.command()
def train(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="A system, or the path of a recipe.yaml.")],
    corpus: Annotated[
        list[str] | None,
        typer.Argument(metavar="CORPUS", help="Files, folders, globs, - for stdin, builtin:NAME or data:NAME."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder to make [runs/SYSTEM-DATE].")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="Continue this run on new text; its vocabulary grows.")
    ] = None,
    settings: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a system on a corpus.

    Example: wenmai train word2vec corpus.txt --out runs/first --set vector_size=200 --set epochs=3

    Example: wenmai train --from runs/first more.txt --out runs/second
    """
    from wenmai.cli.progress import Progress
    from wenmai.config.recipe import parse_assignments
    from wenmai.core.registry import systems as known_systems
    from wenmai.runs.run import Run
    from wenmai.runs.train import named_texts, train_recipe
    from wenmai.runs.train import train as start_training

    chosen = parse_assignments(settings or [])
    texts = corpus or []
    from_recipe = system.endswith((".yaml", ".yml"))
    if from_recipe and (texts or start):
        raise SettingError("a recipe names its own corpus and start; give it alone, with --set to overrule settings")
    if start is not None and system not in known_systems():  # `train --from RUN CORPUS`: the run says which system
        system, texts = Run(start).recipe.system, [system, *texts]
    if not (from_recipe or texts):
        raise SettingError(f"name the text to train {system} on, for example `wenmai train {system} corpus.txt`")
    with Progress(quiet=quiet) as watcher:
        if from_recipe:
            run = train_recipe(system, out=out, watcher=watcher, **chosen)
        else:
            run = start_training(system, named_texts(texts), out=out, start=start, watcher=watcher, **chosen)
    _finished(run, as_json)


@app.command()
def resume(run: RunFolder, as_json: Json = False, quiet: Quiet = False) -> None:
    """Go on with a training that was interrupted.

    It starts from the newest good checkpoint, and with one thread ends with the very vectors of a training that was
    never interrupted.

    Example: wenmai resume runs/first
    """
    from wenmai.cli.progress import Progress
    from wenmai.runs.train import resume as go_on

    with Progress(quiet=quiet) as watcher:
        finished = go_on(run, watcher=watcher)
    _finished(finished, as_json)


@app.command()
def evaluate(
    run: RunFolder,
    similarity: Similarity = None,
    analogy: Analogy = None,
    restrict_vocab: Restrict = 30_000,
    as_json: Json = False,
) -> None:
    """Measure the vectors of a run on similarity and analogy sets.

    Example: wenmai evaluate runs/first --similarity data:ws353-all --analogy data:google-analogies
    """
    from wenmai.runs.evaluate import evaluate as measure

    if not (similarity or analogy):
        raise SettingError("name at least one test set: --similarity FILE or --analogy FILE (`wenmai data list`)")
    found = measure(run, similarity=similarity or [], analogy=analogy or [], restrict_vocab=restrict_vocab or None)
    if as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False))
        return
    for result in (*found.similarity, *found.analogy):
        print(result)


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
    restrict_vocab: Restrict = 30_000,
    words: Annotated[
        str | None, typer.Option("--words", metavar="A,B,...", help="Show the neighbours of these words.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs, or train systems and compare them.

    The result is one table and one HTML report that needs no network.

    Example: wenmai compare --systems word2vec-sgns,word2vec-cbow-ns corpus.txt --similarity data:ws353-all
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.compare import compare as compare_runs
    from wenmai.runs.compare import compare_systems

    shared: dict[str, Any] = {
        "out": out,
        "similarity": similarity or [],
        "analogy": analogy or [],
        "restrict_vocab": restrict_vocab or None,
        "words": [word for word in (words or "").split(",") if word],
        "command": shlex.join(["wenmai", *sys.argv[1:]]),
    }
    chosen = parse_assignments(settings or [])
    if systems is not None:
        names = [name.strip() for name in systems.split(",") if name.strip()]
        found = compare_systems(names, what, settings=chosen, **shared)
    else:
        if chosen:
            raise SettingError("--set goes with --systems; finished runs cannot be changed")
        found = compare_runs(what, **shared)
    report = out / "report.html"
    if as_json:
        print(json.dumps(found.to_json() | {"report": str(report)}, ensure_ascii=False, allow_nan=False))
        return
    _table(found)
    print(f"\nreport: {report}")


@app.command()
def nearest(
    run: RunFolder,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Several words are taken together.")],
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many.")] = 10,
    as_json: Json = False,
) -> None:
    """Show the words nearest to a word.

    Example: wenmai nearest runs/first king --topn 5
    """
    from wenmai.runs.run import load

    found = load(run).most_similar(positive=words, topn=topn)
    _show(found, as_json, lambda pair: (f"{pair[1]:.4f}", pair[0]))


@app.command()
def analogy(
    run: RunFolder,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many answers.")] = 5,
    multiply: Annotated[bool, typer.Option("--multiply", help="3CosMul instead of 3CosAdd.")] = False,
    as_json: Json = False,
) -> None:
    """Answer: A is to B as C is to what?

    Example: wenmai analogy runs/first man king woman
    """
    from wenmai.runs.run import load

    found = load(run).analogy(a, b, c, topn=topn, method="mul" if multiply else "add")
    _show(found, as_json, lambda pair: (f"{pair[1]:.4f}", pair[0]))


@app.command("export")
def export_command(
    run: RunFolder,
    name: Annotated[str, typer.Argument(metavar="FORMAT", help="word2vec, word2vec-binary or projector.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file, or for projector the folder, to write.")],
    as_json: Json = False,
) -> None:
    """Write the vectors of a run for other programs.

    Example: wenmai export runs/first word2vec-binary vectors.bin
    """
    from wenmai.runs.exchange import export_run

    written = export_run(run, name, path)
    print(json.dumps({"path": str(written), "format": name}) if as_json else written)


@app.command("import")
def import_command(
    name: Annotated[str, typer.Argument(metavar="FORMAT", help="word2vec (text or binary; GloVe text too).")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to read.")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run folder to make.")],
    as_json: Json = False,
) -> None:
    """Make a run of vectors from elsewhere.

    Example: wenmai import word2vec GoogleNews-vectors-negative300.bin --out runs/google
    """
    from wenmai.runs.exchange import import_run

    run = import_run(name, path, out)
    print(json.dumps(run.summary, ensure_ascii=False) if as_json else run.path)


@app.command()
def verify(run: RunFolder, as_json: Json = False) -> None:
    """Check the files of a run against its checksums.

    Example: wenmai verify runs/first
    """
    from wenmai.core.errors import RunError
    from wenmai.runs.run import verify as check

    checked, problems = check(run)
    if as_json:
        print(json.dumps({"checked": checked, "problems": problems}, ensure_ascii=False))
    else:
        for line in checked:
            print(line)
    if problems:
        raise RunError("; ".join(problems))


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List what the catalogue knows.

    Example: wenmai data list
    """
    from wenmai.data.catalogue import cached, entries

    rows = [{**_plain(entry), "here": _plain(cached(entry.name))} for entry in entries()]
    _show(rows, as_json, lambda row: (row["name"], row["kind"], "here" if row["here"] else "", row["title"]))


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An entry of the catalogue.")], as_json: Json = False
) -> None:
    """Fetch a corpus or test set and print its path.

    Its checksum is verified. Downloads resume. WENMAI_DATA_MIRROR names a folder or address to take files from instead.

    Example: wenmai data get text8
    """
    from wenmai.data.catalogue import get

    path = get(name, progress=_download_progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(json.dumps({"name": name, "path": str(path)}) if as_json else path)


@data_app.command("check")
def data_check(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="By default all that are here.")] = None,
    as_json: Json = False,
) -> None:
    """Check the files that are here.

    Each is compared with its registered checksum.

    Example: wenmai data check text8
    """
    from wenmai.core.errors import DownloadError
    from wenmai.data.catalogue import cached, check, entries

    chosen = names or [entry.name for entry in entries() if cached(entry.name)]
    results = [check(name) for name in chosen]
    _show([_plain(result) for result in results], as_json, lambda row: (row["name"], row["status"], row["message"]))
    bad = [result.name for result in results if result.status not in ("good", "unregistered")]
    if bad:
        raise DownloadError(f"not good: {', '.join(bad)}")


# --- printing ---------------------------------------------------------------------------------------------------


def _finished(run: Any, as_json: bool) -> None:  # noqa: ANN401  a Run, not imported for speed
    summary = run.summary
    if as_json:
        print(json.dumps(summary, ensure_ascii=False, allow_nan=False))
        return
    if "imported" in summary:
        print(f"{run.path}: imported from {summary['imported']}")
        return
    loss = "-" if summary["loss"] is None else f"{summary['loss']:.4f}"
    print(f"{run.path}: loss {loss}, {summary['words_per_second'] / 1e6:.2f} M words/s, {summary['seconds']:.1f} s")


def _table(comparison: Any) -> None:  # noqa: ANN401  a Comparison
    names = list(dict.fromkeys(measure.name for system in comparison.systems for measure in system.measures))
    header = ["system", *names, "M words/s", "seconds", "peak MB", "size MB"]
    rows = []
    for system in comparison.systems:
        found = {measure.name: measure for measure in system.measures}
        cells = [system.name]
        cells += [_interval(found[name]) if name in found else "-" for name in names]
        speed = system.words_per_second
        cells += ["-" if speed is None else f"{speed / 1e6:.2f}"]
        cells += ["-" if system.seconds is None else f"{system.seconds:.1f}"]
        for size in (system.peak_memory_bytes, system.size_bytes):
            cells.append("-" if size is None else f"{size / 1e6:.0f}")
        rows.append(cells)
    _columns([header, *rows])


def _interval(measure: Any) -> str:  # noqa: ANN401  a Measure
    if measure.value is None:
        return "-"
    return (
        f"{measure.value:.3f} [{measure.low:.3f}, {measure.high:.3f}]"
        if measure.low is not None
        else f"{measure.value:.3f}"
    )


def _show(rows: Iterable[Any], as_json: bool, cells: Any) -> None:  # noqa: ANN401
    rows = list(rows)
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, allow_nan=False))
    else:
        _columns([[str(cell) for cell in cells(row)] for row in rows])


def _columns(rows: list[list[str]]) -> None:
    from rich.cells import cell_len

    if not rows:
        return
    widths = [max(cell_len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(padded).rstrip())


def _value(value: Any) -> str:  # noqa: ANN401  a setting's default
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:  # noqa: ANN401  a dataclass of the catalogue, or a path
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(item) for name, item in asdict(value).items()}
    return str(value) if isinstance(value, Path) else value


def _download_progress(done: int, total: int | None) -> None:
    share = f"{done / total:6.1%} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
    print(f"\rdownloading  {share}", end="", file=sys.stderr, flush=True)
