"""The benchmark page and the table of the READMEs are computed from results."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page, readme
from benchmarks.harness import Results
from benchmarks.page import checked
from benchmarks.result import Numbers, Result, Rows, read_results
from benchmarks.section import Section

HEAD: dict[str, Any] = {
    "quick": False,
    "commands": ["python -m benchmarks"],
    "finished": "2026-01-01T00:00:00+00:00",
    "machine": {"processor": "A processor", "cores": 2, "memory_bytes": 8e9, "platform": "Linux", "caches_bytes": {}},
    "peer": {"gensim": "4.4.0"},
    "corpus": {"name": "en8", "sha256": "0" * 64, "words": 1000, "vocabulary": 100, "numbering_seconds": 1.0},
    "settings": {"window": 5, "sample": 1e-3, "min_count": 5, "epochs": 3, "threads": 2, "restrict_vocab": 30_000},
}


def speed_rows(ours: list[float], gensim: list[float]) -> list[dict[str, Any]]:
    shared = {"system": "sgns", "vector_size": 100, "commit": "abc", "seconds": 1.0, "wall_seconds": 2.0}
    shared |= {"peak_memory_bytes": 2e8, "scan_seconds": 1.0, "words_read": 3000}
    return [
        {**shared, "side": side, "repeat": repeat, "words_per_second": speed}
        for side, speeds in (("ours", ours), ("gensim", gensim))
        for repeat, speed in enumerate(speeds)
    ]


def quality_rows(ours: float, gensim: float) -> list[dict[str, Any]]:
    tests = ("WS-353", "SimLex-999", "MTurk-771", "Google analogies")
    return [
        {
            "system": "sgns",
            "side": side,
            "seed": seed,
            "commit": "abc",
            "scores": dict.fromkeys(tests, score + seed / 100),
        }
        for side, score in (("ours", ours), ("gensim", gensim))
        for seed in (1, 2, 3)
    ]


def test_ratios_pair_the_measurements_of_a_round_and_are_judged_by_their_median() -> None:
    rows = speed_rows(ours=[2e6, 3e6, 6e6], gensim=[1e6, 0.5e6, 0.5e6])  # 2, 6 and 12 times
    results = {"word2vec": Result(HEAD | {"rows": rows})}
    (found,) = checked(results)
    assert (found.target, found.value, found.met) == ("≥ 5 ×", "6.00 ×", True)
    text = page.page_text(results)
    assert "| 3.00 | 0.50 | **6.00** (2.00, 6.00, 12.00) | ≥ 5 |" in text
    assert "| 6.00 × | yes | 1.00 × | 3 | 1 | abc |" in text  # as fast in whole, three times, on processor 1
    assert "Processors: 1: A processor." in text
    assert "Not measured yet: `python -m benchmarks scaling`." in text


def test_many_commands_are_folded_a_line_each() -> None:
    commands = [f"python -m benchmarks word2vec --seeds {seed}" for seed in range(1, 6)]
    rows = speed_rows([2e6], [1e6])
    few, many = (
        page.page_text({"word2vec": Result(HEAD | {"commands": some, "rows": rows})})
        for some in (commands[:4], commands)
    )
    assert f"*`{commands[0]}`; `{commands[1]}`; " in few
    assert "<details>" not in few
    assert "*5 commands on en8" in many
    assert "<summary>The commands</summary>\n\n```\n" + "\n".join(commands) + "\n```\n\n</details>" in many


@pytest.mark.parametrize(("ours", "met"), [(0.595, True), (0.585, False)])
def test_quality_may_be_a_hundredth_below(ours: float, met: bool) -> None:
    results = {"quality": Result(HEAD | {"rows": quality_rows(ours, 0.6)})}
    found = checked(results)
    assert [one.met for one in found] == [met] * 4
    assert found[0].value == f"{ours - 0.6:+.4f}"
    text = page.page_text(results)
    assert f"{ours + 0.02:.4f} / 0.6200" in text
    assert "17% higher on average" in text  # 1 - (2 + 1/2) / 6 = 0.583 of the first rate, not a half


def test_the_table_takes_the_place_of_what_stood_between_the_markers() -> None:
    results = {"word2vec": Result(HEAD | {"rows": speed_rows([2e6], [1e6])})}
    before = "# Title\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n"
    english, chinese = (readme.replaced(before, results, chinese=chinese) for chinese in (False, True))
    assert "| 2.00 × ✗ | ≥ 5 × |" in english
    assert "A processor, 2 cores" in english
    assert "实测" in chinese
    for text in (english, chinese):
        assert "old" not in text
        assert text.startswith("# Title\n<!-- measured -->\n")
        assert text.endswith("<!-- /measured -->\nafter\n")
        assert readme.replaced(text, results, chinese=False) == english


def test_a_result_file_grows_row_by_row_and_refuses_rows_of_another_corpus(tmp_path: Path) -> None:
    path = tmp_path / "quality.json"
    head = HEAD | {"commands": ["first"]}
    Results(path, head).add({"seed": 1})
    Results(path, head | {"commands": ["second"]}, keep=True).add({"seed": 2})
    found = read_results(tmp_path)["quality"].content
    assert [row["seed"] for row in found["rows"]] == [1, 2]
    assert found["commands"] == ["first", "second"]
    with pytest.raises(SystemExit, match="another corpus"):
        Results(path, head | {"corpus": {"name": "other"}}, keep=True)
    Results(path, head).add({"seed": 3})
    assert [row["seed"] for row in json.loads(path.read_bytes())["rows"]] == [3]


@pytest.mark.parametrize(
    ("form", "text"),
    [("", "2500000"), (",", "2,500,000"), ("M", "2.50"), (".1fM", "2.5"), ("MB", "2"), ("each", "**2500000.00** (1")],
)
def test_measurements_are_written_as_their_median_in_a_unit(form: str, text: str) -> None:
    assert format(Numbers([1e6, 2.5e6, 4e6]), form).startswith(text)
    assert format(Numbers(), form) == "-"


def test_a_section_is_filled_for_the_rows_that_its_directives_choose() -> None:
    rows: list[dict[str, Any]] = [
        {"kind": "a", "size": 1, "repeat": 0, "commit": "abc"},
        {"kind": "a", "size": 3, "repeat": 1, "commit": "def"},
        {"kind": "b", "size": 9, "extra": 1, "repeat": 0, "commit": "def", "processor": "Another processor"},
    ]
    result = Result({"rows": rows, "settings": {"threads": 2}, "machine": {"processor": "A processor"}})
    blocks = (
        ("", ["With {threads}", "threads, {size} is the median."]),
        ("has other", ["Nobody has this: {other}."]),
        ("where kind=a by kind", ["| kind | size |", "| {kind} | {size:.1f} |"]),
        ("has extra each row", ["| size |", "| {size} |"]),
        (
            "targets",
            [
                "| {kind}: size | {size:.0f} MB | ≤ 4 MB | by kind | b: 大小 | {extra} |",
                "| worst | {size} | ≤ 9 | worst by kind |",
            ],
        ),
    )
    section = Section("Sizes", "search", blocks)
    text = "".join(section.body(result))
    assert text.startswith("With 2 threads, 3 is the median.\n| kind | size |\n| --- | --: |\n| a | 2.0 |\n| size |")
    assert "Nobody" not in text
    of_a, of_b, worst = section.checked(result)
    assert (of_a.name, of_a.value, of_a.met, of_a.chinese, of_a.whole) == ("a: size", "2 MB", True, "", "")
    assert (of_b.name, of_b.value, of_b.met, of_b.chinese, of_b.whole) == ("b: size", "9 MB", False, "大小", "1")
    assert (worst.name, worst.value, worst.met) == ("worst", "9", True)
    assert (of_a.repeats, of_a.processors, of_a.commits) == (2, ("A processor",), ("abc", "def"))
    assert (of_b.repeats, of_b.processors, of_b.commits) == (1, ("Another processor",), ("def",))
    assert Rows(rows).by("kind size").keys() == {("a", 1), ("a", 3), ("b", 9)}
