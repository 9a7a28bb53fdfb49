"""``wenmai systems``, ``train``, ``resume`` and ``verify``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.completion import complete_system
from wenmai.cli.options import Json, Quiet, RunFolder, Sets
from wenmai.cli.printing import show, show_rows, show_run
from wenmai.cli.settings import setting_value
from wenmai.core.errors import SettingError

__all__ = ["resume", "systems", "train", "verify"]


def systems(
    name: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM", help="List the settings of this system.", autocompletion=complete_system),
    ] = None,
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
        for setting in settings_of(system.load_sections())
        if (setting.section, setting.name) != ("model", "kind")  # there is only one
    ]
    show_rows(
        listed, as_json, lambda row: (f"{row['section']}.{row['name']}", setting_value(row["default"]), row["meaning"])
    )


def train(
    system: Annotated[
        str,
        typer.Argument(
            metavar="SYSTEM", help="A system, or the path of a recipe.yaml.", autocompletion=complete_system
        ),
    ],
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

    Each setting of the system is an option: `wenmai train SYSTEM --help` lists them.

    Example: wenmai train word2vec corpus.txt --out runs/first --epochs 3

    Example: wenmai train --from runs/first more.txt --out runs/second

    Example: wenmai train transformer --data train.de,train.en --valid val.de,val.en --out runs/de-en
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.core.registry import find_system
    from wenmai.core.registry import systems as known_systems
    from wenmai.data.sources import named_texts
    from wenmai.runs.train import train as start_training
    from wenmai.runs.train import train_recipe
    from wenmai.training.run import Run

    chosen: dict[str, Any] = parse_assignments(settings or [])
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
        find_system(system)  # a text may stand in its place
        raise SettingError(f"name the text to train {system} on, for example `wenmai train {system} corpus.txt`")
    if from_recipe:
        run = train_recipe(system, out=out, quiet=quiet, **chosen)
    else:
        run = start_training(system, named_texts(texts), out=out, start=start, quiet=quiet, **chosen)
    show_run(run, as_json)


def resume(run: RunFolder, as_json: Json = False, quiet: Quiet = False) -> None:
    """Resume an interrupted training.

    It continues from the newest good checkpoint; with one thread the result equals that of an uninterrupted training.

    Example: wenmai resume runs/first
    """
    from wenmai.runs.train import resume as go_on

    show_run(go_on(run, quiet=quiet), as_json)


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
        show("\n".join(checked))
    if problems:
        raise RunError("; ".join(problems))
