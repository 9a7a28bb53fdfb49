"""The table of figures in README.md and README.zh.md, between ``<!-- figures -->`` and ``<!-- /figures -->``."""

import re
from pathlib import Path

from benchmarks.claims import claims
from benchmarks.figures import Results, read_results
from benchmarks.harness import ROOT

__all__ = ["replaced", "update"]

READMES = ("README.md", "README.zh.md")
PLACE = re.compile(r"(<!-- figures -->\n).*?(<!-- /?figures -->)", re.DOTALL)
HEADINGS = (("What", "Target", "Measured"), ("项目", "目标", "实测"))
SOURCES = (
    "Measured on {machine}, against {peers}; [the benchmark page](docs/benchmarks.md) has the commands, the "
    "plots and everything else.",
    "测量环境：{machine}，对照 {peers}；命令、图表和其余数据见[基准测试页](docs/benchmarks.md)。",
)


def update(folder: Path) -> list[str]:
    """Writes the figures of the results in ``folder`` into both READMEs; returns what was done, a line each."""
    results = read_results(folder)
    if not claims(results):
        return [f"no results in {folder.name}/: the READMEs stay as they are"]
    done = []
    for language, name in enumerate(READMES):
        path = ROOT / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if PLACE.search(text):
            path.write_text(replaced(text, results, language), encoding="utf-8")
            done.append(f"{name}: figures written")
        else:
            done.append(f"{name}: no <!-- figures --> … <!-- /figures --> in it, nothing written")
    return done


def replaced(text: str, results: Results, language: int) -> str:
    """Returns a text with the table between its markers; language 0 is English, 1 Chinese."""
    return PLACE.sub(lambda place: place[1] + _table(results, language) + place[2], text)


def _table(results: Results, language: int) -> str:
    lines = [f"| {' | '.join(HEADINGS[language])} |", "|---|---|---|"]
    for claim in claims(results):
        lines.append(f"| {claim.name[language]} | {claim.target} | {claim.value}{'' if claim.met else ' ✗'} |")
    machines = {f"{content['machine']['processor']} ({content['machine']['cores']})" for content in results.values()}
    peers = {f"{name} {version}" for content in results.values() for name, version in content["peer"].items()}
    source = SOURCES[language].format(machine=", ".join(sorted(machines)), peers=", ".join(sorted(peers)) or "-")
    return "\n".join([*lines, "", source, ""])
