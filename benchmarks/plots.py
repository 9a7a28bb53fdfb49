"""The plots of the page: their description, and one function that draws them all."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import require

if TYPE_CHECKING:
    from benchmarks.result import Result
    from benchmarks.section import Section

__all__ = ["Bars", "Panel", "Plot", "Series", "draw"]

COLOURS = ("#1f77b4", "#9aa0a6", "#d95f02", "#1b9e77", "#c0a060")
FAINT = "#c8c8c8"
INK = "#747c85"  # read on white and on black pages alike: the pictures have no background of their own
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.2,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "savefig.transparent": True,
    "legend.framealpha": 0,
    "axes.axisbelow": True,
    "svg.fonttype": "none",  # text stays text: small files, found by searching
    "svg.hashsalt": "wenmai",  # the same results give the same bytes
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Series:
    """One colour of a panel.

    Attributes:
        name: Its name in the legend.
        points: Values by category (bars and dots, several values each), or y by x (lines).
        style: Of lines, as matplotlib has it.
    """

    name: str
    points: Mapping[Any, Any]
    style: str = "o-"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes; ``log`` names the logarithmic ones, ``marks`` are dotted vertical lines.

    Lines are shown from ``bottom`` up; None: from the lowest point.
    """

    series: Sequence[Series]
    title: str = ""
    x: str = ""
    y: str = ""
    log: str = ""
    ticks: Mapping[float, str] | Sequence[float] = ()
    marks: Mapping[str, float] = field(default_factory=dict)
    bottom: float | None = 0.0


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Panels side by side, all of one kind: ``bars`` and ``dots`` have categories from top to bottom, or ``lines``."""

    kind: str
    panels: Sequence[Panel]
    size: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A plot with the groups of ``by`` from top to bottom, in panels side by side.

    Attributes:
        by: There are bars for each value of these names.
        label: The name of a group, as a template.
        panels: Title: name of a bar: where its value is.
        x: What the bars show, as a template, in multiples of ``unit``.
        size: In inches.
        kind: ``bars`` for medians, ``dots`` for all values.
        mark: Title: where a dotted line stands.
    """

    by: str
    label: str
    panels: Mapping[str, Mapping[str, str]]
    x: str
    size: tuple[float, float]
    unit: float = 1
    kind: str = "bars"
    mark: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, section: "Section", result: "Result") -> Plot:
        """Returns the plot of a result."""
        groups = {facts.fill(self.label): facts for _, facts in section.groups(result, self.by)}
        x, panels = section.about(result.rows, result).fill(self.x), []
        for title, bars in self.panels.items():
            series = []
            for name, path in bars.items():
                found = {label: facts.find(path) for label, facts in groups.items()}
                series.append(Series(name, {label: [one / self.unit for one in own] for label, own in found.items()}))
            marks = {"target": self.mark[title]} if title in self.mark else {}
            panels.append(Panel(series=series, title=title, x=x, marks=marks))
        return Plot(kind=self.kind, panels=panels, size=self.size)


def draw(plot: Plot, path: Path) -> None:
    """Writes a plot as SVG."""
    require("matplotlib")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        categories, panels = plot.kind != "lines", len(plot.panels)
        columns = panels if categories else min(2, panels)  # three lines side by side have type too small to read
        rows = -(-panels // columns)
        figure = Figure(figsize=(plot.size[0] * columns / panels, plot.size[1] * rows))
        places = figure.subplots(rows, columns, squeeze=False, sharey=categories).ravel()
        row = places[:panels]
        for unused in places[panels:]:
            unused.set_axis_off()
        for axes, panel in zip(row, plot.panels, strict=True):
            (_categories if categories else _lines)(axes, panel, plot.kind)
            axes.set(xlabel=panel.x, ylabel=panel.y)
            axes.set_title(panel.title, fontsize=9, loc="left")
            for name, place in panel.marks.items():
                axes.axvline(place, color=FAINT, ls=":")
                top = axes.get_xaxis_transform()
                axes.text(place, 1, name, transform=top, ha="center", va="bottom", color="#888888")
        if categories:
            row[0].invert_yaxis()
        names = [axes.get_legend_handles_labels()[1] for axes in row]
        if any(own != names[0] for own in names):
            for axes in row:
                axes.legend(frameon=False, fontsize=8)
        elif len(names[0]) > 1:
            handles, _ = row[0].get_legend_handles_labels()
            figure.legend(handles, names[0], frameon=False, loc="outside upper right", ncols=len(handles))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _categories(axes: Any, panel: Panel, kind: str) -> None:
    names = list(dict.fromkeys(name for series in panel.series for name in series.points))
    height = 0.8 / len(panel.series)
    for place, series in enumerate(panel.series):
        label, colour = series.name, COLOURS[place]
        for name, values in series.points.items():
            if not values:
                continue
            y = names.index(name) + (place - (len(panel.series) - 1) / 2) * height
            if kind == "dots":
                axes.plot(values, [y] * len(values), "o", color=colour, alpha=0.8, ms=4, label=label)
            else:
                axes.barh(y, statistics.median(values), 0.95 * height, color=colour, label=label)
                axes.text(statistics.median(values), y, f" {statistics.median(values):.2f}", va="center")
            label = None  # once in the legend
    axes.set_yticks(range(len(names)), names)
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")


def _lines(axes: Any, panel: Panel, _: str) -> None:
    from matplotlib.ticker import EngFormatter, NullLocator

    for place, series in enumerate(panel.series):
        colour, y = COLOURS[place % len(COLOURS)], list(series.points.values())
        axes.plot(list(series.points), y, series.style, color=colour, ms=4, label=series.name)
    for axis in panel.log:
        axes.set(**{f"{axis}scale": "log"})
    if "y" not in panel.log and panel.bottom is not None:
        axes.set_ylim(bottom=panel.bottom)
    axes.set_xticks(list(panel.ticks), panel.ticks.values() if isinstance(panel.ticks, Mapping) else None)
    axes.xaxis.set_minor_locator(NullLocator())
    if not isinstance(panel.ticks, Mapping):
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
