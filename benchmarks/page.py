"""``docs/benchmarks.md``: ``page.template``, filled with numbers and plots that are computed from the results."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.plots import draw
from benchmarks.result import Result, Row, read_results
from benchmarks.section import Checked, introduction, sections, table

__all__ = ["PAGE", "checked", "page_text", "write_page"]

PAGE = ROOT / "docs" / "benchmarks.md"

TARGETS = "<!-- all targets -->\n"  # where the table of all targets comes
FEW = 4  # commands, at most, that stand within a line
QUICK = "**Some of these results are of a quick check with tiny sizes. They mean nothing.**\n"


def write_page(folder: Path, page: Path) -> Path:
    """Writes the page, and its plots into a folder of the same name beside it.

    Args:
        folder: Where the results are.
        page: The Markdown file to write.
    """
    results = read_results(folder)
    for theme, result in results.items():
        section = sections()[theme]
        if plot := getattr(section.module, "plot", None):
            draw(plot(section, result), page.with_suffix("") / f"{theme}.svg")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(page_text(results, plots=f"{page.stem}/"), encoding="utf-8")
    return page


def page_text(results: Mapping[str, Result], *, plots: str = "") -> str:
    """Returns the page; ``plots`` is the folder of the plots, seen from the page."""
    found = checked(results)
    processors = {name: place for place, name in enumerate(_distinct(found), 1)}
    targets = [
        {
            "what": one.name,
            "target": one.target,
            "measured": one.value,
            "met": "yes" if one.met else "**no**",
            "whole call": one.whole or "-",
            "times": one.repeats,
            "on": ", ".join(str(processors[name]) for name in one.processors),
            "commit": ", ".join(one.commits),
        }
        for one in found
    ]
    places = [f"{place}: {name}" for name, place in processors.items()]
    summary = f"{table(targets)}\nProcessors: {'; '.join(places)}.\n" if targets else ""
    parts = [introduction().replace(TARGETS, summary)]
    if any(result.content["quick"] for result in results.values()):
        parts.append(QUICK)
    for theme, section in sections().items():
        parts.append(f"## {section.title}\n")
        if theme in results:
            parts += [*section.body(results[theme], plots=plots), _origin(results[theme].content)]
        else:
            parts.append(f"Not measured yet: `python -m benchmarks {theme}`.\n")
    return "\n".join(parts)


def checked(results: Mapping[str, Result]) -> list[Checked]:
    """Returns all values with a target whose theme was measured."""
    return [
        found for theme, section in sections().items() if theme in results for found in section.checked(results[theme])
    ]


def _distinct(found: list[Checked]) -> list[str]:
    """The processors of some values, each once."""
    return list(dict.fromkeys(name for one in found for name in one.processors))


def _origin(content: Row) -> str:
    """Which command measured this, when, on what text, and where."""
    machine, corpus = content["machine"], content["corpus"]
    versions = [f"{name} {machine[name]}" for name in ("wenmai", "python", "numpy", "numba") if name in machine]
    versions += [f"{name} {version}" for name, version in content["peer"].items()]
    commits = dict.fromkeys(row["commit"] for row in content["rows"])
    processors = dict.fromkeys(row.get("processor", machine["processor"]) for row in content["rows"])
    measured = content["commands"]
    folded = len(measured) > FEW
    text = f"{len(measured)} commands" if folded else "; ".join(f"`{command}`" for command in measured)
    if corpus:
        text += f" on {corpus['name']} ({corpus['words']:,} words, {corpus['vocabulary']:,} in the vocabulary"
        text += f", SHA-256 {corpus['sha256'][:12]}…)"
    memory = f", {machine['memory_bytes'] / 1e9:.0f} GB" if machine["memory_bytes"] else ""
    text += f". {', '.join(processors)}, {machine['cores']} cores{memory}, {machine['platform']}; {', '.join(versions)}"
    origin = f"*{text}; commit {', '.join(commits)}, {content['finished'][:10]}.*\n"
    if not folded:
        return origin
    listed = "\n".join(measured)
    return f"{origin}\n<details>\n<summary>The commands</summary>\n\n```\n{listed}\n```\n\n</details>\n"
