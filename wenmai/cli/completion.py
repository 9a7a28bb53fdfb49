"""What a shell completes besides verbs and options: systems, run folders, formats, names of the catalogue.

Each function takes what was typed so far and returns values with a line of help.
"""

from pathlib import Path

__all__ = ["complete_catalogue", "complete_format", "complete_run", "complete_system", "complete_systems"]

Completions = list[tuple[str, str]]


def complete_system(incomplete: str) -> Completions:
    """Systems."""
    from wenmai.core.registry import systems

    return [(name, one.summary) for name, one in systems().items() if name.startswith(incomplete)]


def complete_systems(incomplete: str) -> Completions:
    """The last of several systems, as ``--systems A,B`` takes them."""
    before, comma, last = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", summary) for name, summary in complete_system(last)]


def complete_run(incomplete: str) -> Completions:
    """Run folders, and folders that may have some, below the folder that was typed."""
    place, _, begun = incomplete.rpartition("/")
    start = Path(place or ("/" if incomplete.startswith("/") else "."))
    prefix = incomplete[: len(incomplete) - len(begun)]
    try:
        folders = sorted(one for one in start.iterdir() if one.name.startswith(begun or "") and one.is_dir())
    except OSError:
        return []
    found: Completions = []
    for folder in folders:
        if (folder / "recipe.yaml").is_file():
            found.append((f"{prefix}{folder.name}", "a run"))
        elif not folder.name.startswith("."):
            found += [(f"{prefix}{folder.name}/{run.parent.name}", "a run") for run in folder.glob("*/recipe.yaml")]
    return sorted(found)


def complete_format(incomplete: str) -> Completions:
    """Formats."""
    from wenmai.formats.format import formats

    return [(name, one.summary) for name, one in formats().items() if name.startswith(incomplete)]


def complete_catalogue(incomplete: str) -> Completions:
    """Entries of the catalogue."""
    from wenmai.data.catalogue import entries

    return [(one.name, one.title) for one in entries() if one.name.startswith(incomplete)]
