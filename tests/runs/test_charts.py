"""The charts of a comparison as files."""

from xml.etree import ElementTree

import pytest

from wenmai.core.errors import RunError
from wenmai.runs.charts import charts
from wenmai.runs.comparison import (
    ComparedCorpus,
    ComparedSystem,
    Comparison,
    CurvePoint,
    LinePoint,
    Measure,
    Panel,
)


@pytest.fixture
def comparison():
    def system(name, value):
        return ComparedSystem(
            name=name,
            loss_kind="negative sampling",
            curve=[CurvePoint(progress=step / 10, loss=value + 1 / (step + 1)) for step in range(11)],
            measures=[
                Measure(name="a <set>", kind="bits", value=value, low=value - 1, high=value + 1, lower_is_better=True)
            ],
            lines={"contexts": [LinePoint(x=10.0**n, y=value - n) for n in range(4)], "none": []},
        )

    panel = Panel(section="Effect of context", title="Bits per character", axis="Characters", unit="", log=True)
    systems = [system("ngram & co", 3.0), system("gpt", 2.0)]
    return Comparison(systems=systems, corpus=ComparedCorpus(name="t"), panels={"contexts": panel, "none": panel})


def test_each_chart_is_a_whole_picture_with_words(comparison):
    found = charts(comparison)
    assert set(found) == {"a-set", "loss-negative-sampling", "contexts"}
    for drawing in found.values():
        root = ElementTree.fromstring(drawing)
        assert {"ngram & co", "gpt"} <= set(root.itertext())
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(text.get("x")) <= 640
            assert int(text.get("font-size")) >= 13
        assert "white" not in drawing  # no background: for light pages and dark ones
        assert "nan" not in drawing
    assert "lower is better" in found["a-set"]


def test_charts_are_files(comparison, tmp_path):
    written = comparison.write_charts(tmp_path / "new" / "charts")
    assert sorted(path.name for path in written) == ["a-set.svg", "contexts.svg", "loss-negative-sampling.svg"]
    assert all(path.read_text("utf-8").startswith("<svg ") for path in written)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file: cannot be written"):
        comparison.write_charts(tmp_path / "file")


def test_the_command_line_writes_them(shell):
    (shell.folder / "text.txt").write_text("the cat sat on the mat with the dog\n" * 30)
    for order in "12":
        shell("train", "ngram", "text.txt", "--out", f"n{order}", "--order", order)
    printed = shell("compare", "n1", "n2", "--on", "text.txt", "--out", "both", "--charts", "charts").err
    assert "chart: charts/" in printed
    assert "text.txt-bits-per-character.svg" in {path.name for path in (shell.folder / "charts").iterdir()}
