"""Several systems trained on one corpus, then compared."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wenmai.config.recipe import is_setting, named_settings
from wenmai.core.errors import RunError, SettingError
from wenmai.core.registry import find_system
from wenmai.data.sources import named_texts
from wenmai.runs.compare import compare, require_no_run
from wenmai.runs.comparison import Comparison
from wenmai.runs.measuring.measurer import choose_measurer
from wenmai.runs.planning import plan, require_same
from wenmai.training.run import CORPUS, MODEL, RECIPE, Run

__all__ = ["compare_systems"]


def compare_systems(
    systems: str | Sequence[str],
    corpus: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    device: str | None = None,
    quiet: bool = False,
    **options: Any,  # noqa: ANN401  each verb has its own
) -> Comparison:
    """Trains systems one after the other on the same encoded corpus and compares them.

    Each is trained by ``wenmai train`` in a process of its own, so that memory and speed are measured alone. A system
    whose run in ``out`` has finished is not trained again, and one that was interrupted is resumed.

    Args:
        systems: Names that ``wenmai systems`` lists, or one.
        corpus: Paths, or names of the catalogue, or one.
        out: The folder for the runs and the report.
        settings: Each applies to the systems that have it.
        device: Where those with a setting ``device`` are trained, and neural models measured.
        command: See :func:`~wenmai.runs.compare.compare`.
        quiet: Print no progress.
        **options: See :func:`~wenmai.runs.compare.compare`.

    Raises:
        SettingError: for an unknown system or setting, or a test set that is not there.
        RunError: if a training failed, or a run in ``out`` was trained on another corpus or with other settings.
    """
    systems = [systems] if isinstance(systems, str) else systems
    if len(set(systems)) != len(systems) or not systems:
        raise SettingError("name each system once, and at least one: --systems word2vec-sgns,word2vec-cbow-ns")
    sources = [str(source) for source in ([corpus] if isinstance(corpus, str | Path) else corpus)]
    if not sources or "-" in sources:
        raise SettingError("a comparison reads its corpus once for each system; give it files, not stdin")
    folder = Path(out)
    require_no_run(folder)
    given = _settings_of_each(systems, {name: str(value) for name, value in (settings or {}).items()})
    if device is not None:
        for system, chosen in given.items():
            if is_setting(find_system(system).load().sections, "device"):
                chosen.setdefault("device", device)
    measurer = choose_measurer({name: find_system(name).load() for name in systems}, "compare", options)
    options = measurer.listed("compare", options)
    measurer.check(**options)
    for system in systems:  # all mistakes are found before the first training
        recipe, opened = plan(system, named_texts(sources), **given[system])
        require_same(folder / system, recipe)
        _require_same_text(folder / system, opened.source)
    runs = []
    for system in systems:
        run = folder / system
        if not (run / MODEL).is_dir():
            _train(system, sources, run, given[system], quiet=quiet)
        runs.append(run)
    return compare(runs, out=folder, command=command, device=device, quiet=quiet, **options)


def _require_same_text(run: Path, source: Any) -> None:  # noqa: ANN401  what a system is trained on
    """Makes sure that files are those that a run was trained on, if there is one.

    Raises:
        RunError: if they have changed.
    """
    if not (run / CORPUS).exists() or not hasattr(source, "hashes"):
        return
    now = {file.sha256 for file in source.hashes() or ()}
    read = [one for one in Run(run).corpus.get("sources", ()) if isinstance(one, Mapping)]
    before = {one.get("sha256") for one in read if not one.get("valid")}
    if before and None not in before and before != now:
        raise RunError(f"{run}: was trained on files that have changed since; choose another --out for these")


def _settings_of_each(systems: Sequence[str], given: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Selects the settings of each system; one that none has goes to all, so that it is refused."""
    named: dict[str, dict[str, str]] = {}  # by system: what each given setting that it has is called there
    for system in systems:
        sections = find_system(system).load().sections
        found = named_settings(sections, {name: name for name in given})
        named[system] = {typed: name for name, typed in found.items() if is_setting(sections, name)}
    return {
        system: {
            named[system].get(typed, typed): value
            for typed, value in given.items()
            if typed in named[system] or not any(typed in names for names in named.values())
        }
        for system in systems
    }


def _train(system: str, sources: list[str], run: Path, settings: Mapping[str, str], *, quiet: bool) -> None:
    command = [sys.executable, "-m", "wenmai"]
    if (run / RECIPE).exists():
        command += ["resume", str(run)]
    else:
        command += ["train", system, *sources, "--out", str(run)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
    try:
        finished = subprocess.run(
            [*command, "--json", *(["--quiet"] if quiet else [])], stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        raise RunError(f"cannot start `{' '.join(command)}` ({error.strerror})") from None
    if finished.returncode != 0:
        raise RunError(f"training {system} failed (exit code {finished.returncode}); its message is above")
