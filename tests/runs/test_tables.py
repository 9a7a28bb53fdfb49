"""The table of a comparison as CSV, Markdown and LaTeX."""

import csv
import io
from dataclasses import replace

import pytest

from wenmai.runs.comparison import ComparedCorpus, ComparedSystem, Comparison, Kind, Measure


@pytest.fixture
def comparison():
    def system(name, similarity, bits):
        measures = [
            Measure(name="ws353_all", kind="similarity", value=similarity, low=similarity - 0.1, high=similarity + 0.1),
            Measure(name="test", kind="bits", value=bits, lower_is_better=True),
            Measure(name="test", kind="perplexity", value=10 * bits, lower_is_better=True),
        ]
        return ComparedSystem(name=name, measures=measures, words_per_second=1000, size_bytes=2_000_000)

    systems = [system("a|b", 0.5, 1.25), system("50%", 0.4, 1.0), ComparedSystem(name="none")]
    kinds = {"bits": Kind(title="Bits", name="bits per character"), "perplexity": Kind(title="Perplexity")}
    return Comparison(systems=systems, corpus=ComparedCorpus(name="text"), kinds=kinds)


def test_csv_has_each_number_in_a_field_of_its_own(comparison):
    rows = list(csv.DictReader(io.StringIO(comparison.to_csv())))
    assert [row["system"] for row in rows] == ["a|b", "50%", "none"]
    assert [row["ws353_all low"] for row in rows] == ["0.4", "0.30000000000000004", ""]
    assert rows[1]["test (bits per character)"] == "1.0"
    assert "seconds" not in rows[0]  # no system has any


def test_markdown_marks_the_best(comparison):
    heads, sides, first, second, none = comparison.to_markdown().splitlines()
    assert heads == ("| system | ws353\\_all | test (bits per character) | test (perplexity) | words/s | size MB |")
    assert sides == "| :-- | --: | --: | --: | --: | --: |"
    assert first == "| a\\|b | **0.500** [0.400, 0.600] | 1.250 | 12.500 | 1,000 | 2 |"
    assert second == "| 50% | 0.400 [0.300, 0.500] | **1.000** | **10.000** | 1,000 | 2 |"
    assert none == "| none | - | - | - | - | - |"


def test_what_no_system_has_a_value_for_has_its_column(comparison):
    for system in comparison.systems:
        system.measures.append(Measure(name="few.tsv", kind="similarity", value=None, covered=3, total=5))
    heads, _, *rows = comparison.to_markdown().splitlines()
    assert heads.split(" | ")[4] == "few.tsv"
    assert all(row.split(" | ")[4] == "-" for row in rows)


def test_what_rounds_to_zero_has_no_sign(comparison):
    comparison.systems[0].measures[0] = Measure(name="ws353_all", kind="similarity", value=-0.0001, low=-0.1, high=-0.0)
    assert "| -0.000 [" not in comparison.to_markdown()
    assert " 0.000 [-0.100, 0.000] " in comparison.to_markdown()


def test_latex_is_a_tabular_of_booktabs(comparison):
    lines = comparison.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrr}"
    assert lines[2].startswith(r"system & ws353\_all & ")
    assert lines[4].startswith(r"a|b & \textbf{0.500} {\small [0.400, 0.600]} & ")
    assert lines[5].startswith(r"50\% & ")
    assert [lines[place] for place in (1, 3, -2, -1)] == [r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"]


def test_no_name_is_an_option_of_the_row_before_it_in_latex(comparison):
    names = ("a", "[small]", "*")
    comparison.systems[:] = [replace(one, name=name) for one, name in zip(comparison.systems, names, strict=True)]
    lines = comparison.to_latex().splitlines()
    assert lines[5].startswith("{[}small] & ")
    assert lines[6].startswith("{*} & ")


def test_the_command_line_prints_them(shell):
    (shell.folder / "text.txt").write_text("the cat sat on the mat with the dog\n" * 30)
    shell("train", "ngram", "text.txt", "--out", "ngram", "--order", "2")
    asked = ["compare", "ngram", "--on", "text.txt", "--out", "both", "--quiet"]
    assert shell(*asked, "--table", "csv").out.startswith("system,text.txt (bits per character),")
    assert shell(*asked, "--table", "markdown").out.startswith("| system | ")
    assert shell(*asked, "--table", "latex").out.startswith(r"\begin{tabular}")
    assert "expected text, csv, markdown, latex; did you mean 'latex'?" in shell(*asked, "--table", "Latex", code=2).err
    assert "give one of them" in shell(*asked, "--table", "csv", "--json", code=2).err
