"""The tables of the READMEs and of the pages about pinyin between ``<!-- measured -->`` and ``<!-- /measured -->``."""

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.page import checked
from benchmarks.pinyin_page import ladder
from benchmarks.result import Result, read_results

__all__ = ["replaced", "update"]

READMES = ("README.md", "README.zh.md")
PINYIN = ("docs/pinyin.md", "docs/pinyin.zh.md")
PLACE = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", re.DOTALL)
HEADINGS = ("| What | Measured | Target |", "| 项目 | 实测 | 目标 |")
SOURCES = (
    "Measured on {machines}, against {baselines}. ✗: target not met.",
    "测量环境：{machines}；对照：{baselines}。✗：未达目标。",
)


def update(folder: Path) -> list[str]:
    """Writes the tables of the results in ``folder`` into the pages; returns what was done, a line each."""
    results = read_results(folder)
    if not results:
        return [f"no results in {folder.name}/: the pages stay as they are"]
    tables = {name: _values(results, chinese=".zh." in name) for name in READMES}
    if "pinyin" in results:
        tables |= {name: ladder(results["pinyin"], chinese=".zh." in name) for name in PINYIN}
    done = []
    for name, table in tables.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        (ROOT / name).write_text(_placed(text, table), encoding="utf-8")
        done.append(f"{name}: table written" if PLACE.search(text) else f"{name}: no place for the table in it")
    return done


def replaced(text: str, results: Mapping[str, Result], *, chinese: bool) -> str:
    """Returns a text with the table between its markers: the values that have a Chinese name."""
    return _placed(text, _values(results, chinese=chinese))


def _placed(text: str, table: str) -> str:
    return PLACE.sub(lambda place: place[1] + table + place[2], text)


def _values(results: Mapping[str, Result], *, chinese: bool) -> str:
    lines = [HEADINGS[chinese], "|---|--:|--:|"]
    for found in checked(results):
        if found.chinese:
            name = found.chinese if chinese else found.name
            value, target = (_chinese(one) if chinese else one for one in (found.value, found.target))
            lines.append(f"| {name} | {value}{'' if found.met else ' ✗'} | {target} |")
    contents = [result.content for result in results.values()]
    cores = "核" if chinese else "cores"
    machines = {f"{content['machine']['processor']}, {content['machine']['cores']} {cores}" for content in contents}
    found = {f"{name} {version}" for content in contents for name, version in content["peer"].items()}
    source = SOURCES[chinese].format(machines="; ".join(sorted(machines)), baselines=", ".join(sorted(found)) or "-")
    return "\n".join([*lines, "", source, ""])


def _chinese(value: str) -> str:
    """Writes the units of a value in Chinese."""
    value = re.sub(r"^(≥ |≤ )?(\S+) of (\d+)", r"\3 项中 \1\2 项", value)
    value = re.sub(r"^(.+) in (\S+) min$", r"\2 分钟内 \1", value)
    return value.replace(" points", " 个百分点")
