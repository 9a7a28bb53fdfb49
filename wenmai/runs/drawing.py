"""Drawings of lines, dots and words, as SVG files or as PNG pictures.

A drawing has no background, and its greys and colours are read on white and on black pages.
"""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape

from wenmai.core.errors import SettingError, install_hint, nearest_name

__all__ = ["FAINT", "INK", "PICTURES", "Dot", "Drawing", "Line", "Text", "fonts_of_picture", "require_picture"]

logger = logging.getLogger(__name__)

PICTURES = ("svg", "png")
INK, FAINT = "#747c85", "#747c8540"
_FONT = "Inter, 'Helvetica Neue', 'Segoe UI', Roboto, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif"
_CHINESE = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Noto Sans CJK JP",  # the first of a collection, by which alone older versions of matplotlib know it
)
_PIXELS_PER_INCH, _PICTURE_SCALE = 96, 2.5  # of CSS; a picture of 1600 pixels is sharp on a slide and in a column


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line through points (x, y), y downward; ``dashes`` are lengths drawn and left out."""

    points: Sequence[tuple[float, float]]
    colour: str = FAINT
    width: float = 1
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, kw_only=True)
class Text:
    """Words on a line; ``anchor`` says which end of them stands at x: ``start``, ``middle`` or ``end``."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    size: int = 13
    weight: int = 400
    colour: str = INK


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Shapes on a page of ``width`` by ``height`` pixels; later ones cover earlier ones."""

    width: float
    height: float
    title: str
    shapes: Sequence[Line | Dot | Text]

    def svg(self) -> str:
        """Returns the drawing as SVG; text stays text."""
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}"'
        begun = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{_FONT}" font-size="13">'
        return "\n".join([begun, f"<title>{escape(self.title)}</title>", *map(_svg, self.shapes), "</svg>\n"])

    def png(self) -> bytes:
        """Returns the drawing as a PNG picture, 2.5 dots for a pixel.

        Chinese text needs one of the usual Chinese fonts on the machine.

        Raises:
            SettingError: if matplotlib is not installed.
        """
        require_picture("png")
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import Circle

        points = 72 / _PIXELS_PER_INCH  # of a pixel
        with fonts_of_picture(self.title):
            figure = Figure(figsize=(self.width / _PIXELS_PER_INCH, self.height / _PIXELS_PER_INCH))
            axes = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0))
            axes.set_axis_off()
            for shape in self.shapes:
                if isinstance(shape, Line):
                    style = (0, [length / shape.width for length in shape.dashes]) if shape.dashes else "-"
                    xs, ys = zip(*shape.points, strict=True)
                    line = Line2D(xs, ys, color=shape.colour, linewidth=shape.width * points, linestyle=style)  # type: ignore[arg-type]
                    axes.add_line(line)
                elif isinstance(shape, Dot):
                    axes.add_patch(Circle((shape.x, shape.y), shape.radius, color=shape.colour, linewidth=0, zorder=2))
                else:
                    axes.text(
                        shape.x, shape.y, shape.text,
                        fontsize=shape.size * points, fontweight="bold" if shape.weight > 500 else "normal",
                        color=shape.colour, ha=_ANCHORS[shape.anchor], va="baseline", parse_math=False,
                    )  # fmt: skip
            picture = io.BytesIO()
            figure.savefig(picture, format="png", dpi=_PIXELS_PER_INCH * _PICTURE_SCALE, transparent=True)
        return picture.getvalue()


_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def require_picture(form: str) -> None:
    """Makes sure that drawings can be written in this form.

    Raises:
        SettingError: if there is no such form, or matplotlib is needed for it and is not installed.
    """
    if form not in PICTURES:
        raise SettingError(f"charts are {' or '.join(PICTURES)}, not {form}{nearest_name(form, PICTURES)}")
    if form == "png":
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise SettingError(f"a chart as PNG needs matplotlib; {install_hint('plot')}") from None


@contextmanager
def fonts_of_picture(title: str) -> Iterator[None]:
    """Draws by matplotlib in its own font, then in those of this machine that have Chinese.

    Characters that none of them has are one note, which begins with the title.
    """
    import matplotlib

    fonts = ["DejaVu Sans", *_chinese_fonts()]
    with matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings(record=True) as told:
        warnings.filterwarnings("always", message="Glyph ")
        yield
    if any(str(one.message).startswith("Glyph ") for one in told):  # one warning for each character
        logger.warning(f"{title}: no font here has all characters of this chart; install one such as Noto Sans CJK")


def _chinese_fonts() -> list[str]:
    """Returns the Chinese fonts that matplotlib has; its list may be older than fonts that were installed since."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    def found() -> list[str]:
        installed = set(fontManager.get_font_names())
        return [font for font in _CHINESE if font in installed]

    if not found():
        for path in set(findSystemFonts()) - {font.fname for font in fontManager.ttflist}:
            with suppress(RuntimeError, OSError):  # a file that is no font for matplotlib, which leaves it out too
                fontManager.addfont(path)
    return found()


def _svg(shape: Line | Dot | Text) -> str:
    if isinstance(shape, Line):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        dashes = f' stroke-dasharray="{" ".join(f"{one:g}" for one in shape.dashes)}"' if shape.dashes else ""
        style = f'fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}"{dashes}'
        return f'<polyline points="{places}" {style}/>'
    if isinstance(shape, Dot):
        return f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}" fill="{shape.colour}"/>'
    style = f'font-size="{shape.size}" font-weight="{shape.weight}" fill="{shape.colour}" text-anchor="{shape.anchor}"'
    return f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" {style}>{escape(shape.text)}</text>'
