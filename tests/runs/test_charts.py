"""The charts of a comparison as files."""

import math
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from wenmai.core.errors import RunError, SettingError
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
from wenmai.runs.drawing import Drawing, Line, Text, fonts_of_picture


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
    for drawing in (chart.svg() for chart in found.values()):
        root = ElementTree.fromstring(drawing)
        assert {"ngram & co", "gpt"} <= set(root.itertext())
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(text.get("x")) <= 640
            assert int(text.get("font-size")) >= 13
        assert "white" not in drawing  # no background: for light pages and dark ones
        assert "nan" not in drawing
    assert "lower is better" in found["a-set"].svg()


def test_tasks_have_a_chart_for_the_losses_and_one_for_the_accuracies_of_a_system(comparison):
    def points(*values):
        return [LinePoint(x=10.0 * place, y=value) for place, value in enumerate(values, 1)]

    lines = {"phrases": points(6.0, 5.0), "token document": points(0.7, 0.5), "once": points(1.0)}
    comparison.systems[1] = replace(
        comparison.systems[1], by_task={"loss": lines, "accuracy": {"phrases": points(0.1, None)}}
    )
    found = charts(comparison)
    assert [name for name in found if "task" in name] == ["loss-by-task-gpt"]
    words = set(ElementTree.fromstring(found["loss-by-task-gpt"].svg()).itertext())
    assert {"Loss by task, gpt", "Updates", "phrases", "token document"} <= words
    assert "once" not in words


def test_titles_that_differ_in_signs_alone_have_a_chart_each(comparison):
    for system in comparison.systems:
        system.measures.append(replace(system.measures[0], name="a [set]", value=0.5, low=None, high=None))
    found = charts(comparison)
    assert {"a-set", "a-set-2"} <= set(found)
    assert "a [set]" in found["a-set-2"].svg()


def test_long_titles_are_cut_in_the_names_of_files(comparison, tmp_path):
    """Two files of pairs make one title, and a name takes 255 bytes."""
    for system in comparison.systems:
        system.measures[:] = [replace(system.measures[0], name=f"{'测试集' * 30}.{end}") for end in ("zh", "en")]
    written = comparison.write_charts(tmp_path)
    assert len({path.name for path in written if path.name.startswith("测试集")}) == 2
    assert all(path.exists() for path in written)


def test_a_long_curve_keeps_its_last_point(comparison):
    """Of 1,000 losses about 300 are drawn; the last is what the training came to."""
    curve = [CurvePoint(progress=step / 1000, loss=5.0 - step / 500) for step in range(1, 1001)]
    comparison.systems[0] = replace(comparison.systems[0], curve=curve)
    drawing = charts(comparison)["loss-negative-sampling"]
    line = next(one for one in drawing.shapes if isinstance(one, Line) and len(one.points) > 20)
    assert len(line.points) <= 300
    ends = [one.points[-1] for one in drawing.shapes if isinstance(one, Line) and one.width == 2]
    assert line.points[-1][0] == max(x for x, _ in ends)


def test_wide_names_have_room(comparison):
    comparison.systems[0] = replace(comparison.systems[0], name="以字为单位的语言模型")
    drawing = charts(comparison)["loss-negative-sampling"]
    name = next(one for one in drawing.shapes if isinstance(one, Text) and one.text.startswith("以字"))
    assert name.x + 13 * len(name.text) <= 640


def test_long_names_leave_room_for_what_is_drawn(comparison):
    """Runs whose folders have one name are called by their paths."""
    named = [
        replace(system, name=f"/home/somebody/{'experiments' * 8}/{place}/run")
        for place, system in zip("ab", comparison.systems, strict=True)
    ]
    found = charts(replace(comparison, systems=named))
    for drawing in found.values():
        shown = [one.text for one in drawing.shapes if isinstance(one, Text) and "…" in one.text]
        assert [name[-6:] for name in shown] == ["/a/run", "/b/run"]
        assert all(name.startswith("/home/somebody") for name in shown)
    curves = [one for one in found["loss-negative-sampling"].shapes if isinstance(one, Line) and one.width == 2]
    assert all(line.points[-1][0] - line.points[0][0] > 200 for line in curves)


def test_long_names_that_differ_in_the_middle_show_it(comparison):
    long = "experiments" * 8
    named = [
        replace(system, name=f"/home/somebody/{long}/{place}/{long}/run")
        for place, system in zip("ab", comparison.systems, strict=True)
    ]
    for drawing in charts(replace(comparison, systems=named)).values():
        shown = [one.text for one in drawing.shapes if isinstance(one, Text) and "…" in one.text]
        assert [name[:13] for name in shown] == ["…periments/a/", "…periments/b/"]
        assert all(len(name) <= 42 for name in shown)


def test_what_has_no_place_is_not_drawn(comparison):
    """A probability of 0 makes bits and losses infinite."""
    first, second = comparison.systems
    measures = [replace(first.measures[0], value=math.inf, high=math.inf)]
    curve = [CurvePoint(progress=0.5, loss=math.inf), *first.curve]
    drawn = charts(replace(comparison, systems=[replace(first, measures=measures, curve=curve), second]))
    assert "a-set" not in drawn  # there is one value left
    assert "loss-negative-sampling" in drawn
    assert "nan" not in "".join(one.svg() for one in drawn.values())


def test_charts_are_files(comparison, tmp_path):
    written = comparison.write_charts(tmp_path / "new" / "charts")
    assert sorted(path.name for path in written) == ["a-set.svg", "contexts.svg", "loss-negative-sampling.svg"]
    assert all(path.read_text("utf-8").startswith("<svg ") for path in written)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file: cannot be written"):
        comparison.write_charts(tmp_path / "file")


def test_pictures_are_the_same_drawings(comparison, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    written = comparison.write_charts(tmp_path, "png")
    assert sorted(path.name for path in written) == ["a-set.png", "contexts.png", "loss-negative-sampling.png"]
    pixels = image.imread(tmp_path / "loss-negative-sampling.png")  # (height, width, RGBA), 0 to 1
    assert pixels.shape == (900, 1600, 4)
    assert pixels[..., 3].min() == 0  # no background
    inked = {tuple(colour) for colour in (pixels[pixels[..., 3] == 1] * 255).round().astype(int)[:, :3]}
    assert {(0x2F, 0x81, 0xC9), (0xD9, 0x7A, 0x1F)} <= inked  # both lines


def test_characters_that_no_font_has_are_one_note(caplog):
    pytest.importorskip("matplotlib")
    private = Drawing(width=64, height=32, title="x", shapes=[Text(x=4, y=20, text="a\ue0ff\ue0fe")])
    assert private.png().startswith(b"\x89PNG")
    assert caplog.messages == ["x: no font here has all characters of this chart; install one such as Noto Sans CJK"]


def test_fonts_that_were_installed_since_the_list_of_fonts_was_made_are_used(monkeypatch):
    fonts = pytest.importorskip("matplotlib.font_manager")
    name = "DejaVu Serif"  # in the place of a Chinese one, as it comes with matplotlib
    new = [one.fname for one in fonts.fontManager.ttflist if one.name == name]
    monkeypatch.setattr("wenmai.runs.drawing._CHINESE", (name,))
    monkeypatch.setattr(fonts.fontManager, "ttflist", [one for one in fonts.fontManager.ttflist if one.name != name])
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: new)
    with fonts_of_picture("x"):
        assert sys.modules["matplotlib"].rcParams["font.family"] == ["DejaVu Sans", name]


def test_other_forms_are_refused(comparison, tmp_path, monkeypatch):
    with pytest.raises(SettingError, match=r"charts are svg or png, not pgn; did you mean 'png'\?"):
        comparison.write_charts(tmp_path / "charts", "pgn")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingError, match=r"needs matplotlib; .*\[plot\]"):
        comparison.write_charts(tmp_path / "charts", "png")
    assert not (tmp_path / "charts").exists()


def test_the_command_line_writes_them(shell):
    (shell.folder / "text.txt").write_text("the cat sat on the mat with the dog\n" * 30)
    for order in "12":
        shell("train", "ngram", "text.txt", "--out", f"n{order}", "--order", order)
    printed = shell("compare", "n1", "n2", "--on", "text.txt", "--out", "both", "--charts", "charts").err
    assert "chart: charts/" in printed
    assert "text.txt-bits-per-character.svg" in {path.name for path in (shell.folder / "charts").iterdir()}
    assert "name their folder too" in shell("compare", "n1", "n2", "--chart-format", "png", code=2).err
    assert "not pdf" in shell("compare", "n1", "n2", "--charts", "pdf", "--chart-format", "pdf", code=2).err
