"""``docs/benchmarks.md``: every number on it, and every plot, is computed from the results."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from benchmarks import THEMES
from benchmarks.harness import ROOT
from benchmarks.plots import draw
from benchmarks.result import Result, Row, read_results
from benchmarks.section import Checked, Section, table

__all__ = ["PAGE", "checked", "page_text", "section", "write_page"]

PAGE = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

This page is written by `python -m benchmarks page` from the files in `benchmarks/results`; no number on it is typed by
hand. `make bench` measures everything again; `benchmarks/README.md` explains how to measure a part. Speed is measured
in whole processes on an otherwise idle machine; the systems that are compared take turns in one run. Where something
was repeated, the table shows the median, and the result file has every measurement.
"""
QUICK = "**Some of these results are of a quick check with tiny sizes. They mean nothing.**\n"


def write_page(folder: Path, page: Path) -> Path:
    """Writes the page, and its plots into a folder of the same name beside it.

    Args:
        folder: Where the results are.
        page: The Markdown file to write.
    """
    results = read_results(folder)
    for theme, result in results.items():
        found = section(theme)
        if found.plot:
            draw(found.plot(found, result), page.with_suffix("") / f"{theme}.svg")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(page_text(results, plots=f"{page.stem}/"), encoding="utf-8")
    return page


def page_text(results: Mapping[str, Result], *, plots: str = "") -> str:
    """Returns the page; ``plots`` is the folder of the plots, seen from the page."""
    parts = [INTRODUCTION]
    if any(result.content["quick"] for result in results.values()):
        parts.append(QUICK)
    if found := checked(results):
        headings = ("what", "target", "measured", "met")
        cells = ((one.name, one.target, one.value, "yes" if one.met else "**no**") for one in found)
        parts.append(table([dict(zip(headings, row, strict=True)) for row in cells]))
    for theme in THEMES:
        about = section(theme)
        parts.append(f"## {about.title}\n")
        if theme not in results:
            parts.append(f"Not measured yet: `python -m benchmarks {theme}`.\n")
            continue
        if about.plot:
            parts.append(f"![{about.title}]({plots}{theme}.svg)\n")
        parts += [*about.body(results[theme]), _origin(results[theme].content)]
    return "\n".join(parts)


def checked(results: Mapping[str, Result]) -> list[Checked]:
    """Returns all values with a target whose theme was measured."""
    return [found for theme in THEMES if theme in results for found in section(theme).checked(results[theme])]


def section(theme: str) -> Section:
    """Returns the description of a theme's section, which is in the module that measures it."""
    found: Section = import_module(f"benchmarks.{theme}").SECTION
    return found


def _origin(content: Row) -> str:
    """Which command measured this, when, on what text, and where."""
    machine, corpus = content["machine"], content["corpus"]
    versions = [f"{name} {machine[name]}" for name in ("wenmai", "python", "numpy", "numba") if name in machine]
    versions += [f"{name} {version}" for name, version in content["peer"].items()]
    commits = dict.fromkeys(row["commit"] for row in content["rows"])
    text = "; ".join(f"`{command}`" for command in content["commands"])
    if corpus:
        text += f" on {corpus['name']} ({corpus['words']:,} words, {corpus['vocabulary']:,} in the vocabulary"
        text += f", SHA-256 {corpus['sha256'][:12]}…)"
    memory = f", {machine['memory_bytes'] / 1e9:.0f} GB" if machine["memory_bytes"] else ""
    text += f". {machine['processor']}, {machine['cores']} cores{memory}, {machine['platform']}; {', '.join(versions)}"
    return f"*{text}; commit {', '.join(commits)}, {content['finished'][:10]}.*\n"
