"""Attention maps as a self-contained interactive page, and as a picture for a paper.

The page holds the weights as bytes (steps of 1/255), which the script ``page/alignment.js`` draws as a map of
tokens against tokens, as links between words, and as an overview of every layer and head. Its colours and type are
those of the report (``page/common.css``).
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError, install_hint
from wenmai.core.folder import obstacle_to_file, writing
from wenmai.core.quantities import plural
from wenmai.core.wording import say
from wenmai.runs.drawing import fonts_of_picture
from wenmai.runs.page import filled, json_in_script, require_page

__all__ = ["Alignment", "alignment_html", "require_alignment", "write_alignment_page", "write_alignment_picture"]

KEY = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(self|cross)")
SIDES = "source", "translation"  # what a page calls them
TOLERANCE = 1e-3  # by which weights may exceed 0 to 1, as in half precision
CELL_INCHES, DOTS_PER_INCH = 0.3, 160
MOST_DOTS = 6000  # of a side of a picture: hundreds of tokens in full resolution would take gigabytes


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The attention of a model to one sentence and its translation.

    ``weights`` are attention weights by name, each (H, T, S): row t says how much query token t attends to each key
    token. The names are ``encoder.layers.0.self`` (source at source), ``decoder.layers.0.self`` (target at target) and
    ``decoder.layers.0.cross`` (target at source), layers counted from 0; a recurrent model has
    ``decoder.layers.0.cross`` with one head. ``source`` and ``translation`` are the texts as people read them; without
    them the tokens are shown.

    Raises:
        ValueError: if there are no weights or no tokens, a name is of another form, a shape does not fit the tokens,
            or a weight is not between 0 and 1.
    """

    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    weights: Mapping[str, NDArray[Any]]
    source: str = ""
    translation: str = ""

    def __post_init__(self) -> None:
        if not (self.weights and self.source_tokens and self.target_tokens):
            raise ValueError("an alignment needs source tokens, target tokens and at least one array of weights")
        for name, weights in self.weights.items():
            queries, keys = _sides(name)
            expected = (len(self._tokens(queries)), len(self._tokens(keys)))
            if weights.ndim != 3 or not weights.shape[0] or weights.shape[1:] != expected:
                sizes = f"(heads, {expected[0]} {queries} tokens, {expected[1]} {keys} tokens)"
                raise ValueError(f"{name} has the shape {weights.shape}; expected {sizes}")
            if not ((weights >= -TOLERANCE) & (weights <= 1 + TOLERANCE)).all():
                raise ValueError(
                    f"{name} has weights that are not between 0 and 1: are they scores before the softmax?"
                )

    def _tokens(self, side: str) -> Sequence[str]:
        return self.source_tokens if side == "source" else self.target_tokens


def require_alignment(path: Path) -> None:
    """Makes sure, before anything is computed, that attention can be written into a file.

    Raises:
        SettingError: for another ending than ``.html`` and ``.png``, or a place where nothing can be written.
    """
    if path.suffix not in (".html", ".png"):
        raise SettingError(f"--attention {path}: expected a name that ends in .html (a page) or .png (a picture)")
    if path.suffix == ".html":
        require_page(path, "attention.html")
    elif obstacle := obstacle_to_file(path):
        raise SettingError(f"--attention {path}: {obstacle}; name a picture in a folder")


def write_alignment_page(
    path: str | Path, alignments: Sequence[Alignment], *, title: str, sides: tuple[str, str] = SIDES
) -> None:
    """Writes the page of :func:`alignment_html`, whole or not at all.

    Raises:
        ValueError: if there is nothing to show.
    """
    page = alignment_html(alignments, title=title, sides=sides)
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))  # a lone surrogate in a token becomes "?"


def alignment_html(alignments: Sequence[Alignment], *, title: str, sides: tuple[str, str] = SIDES) -> str:
    """Returns a self-contained HTML page to explore attention weights.

    Args:
        alignments: one for each sentence that can be chosen.
        title: the heading of the page.
        sides: what the source and the target are called, in English.

    Raises:
        ValueError: if there is nothing to show.
    """
    if not alignments:
        raise ValueError("an alignment page needs at least one alignment")
    places = {"title": title, "byline": _byline(alignments), "source": say(sides[0]), "target": say(sides[1])}
    escaped = {name: escape(text) for name, text in places.items()}
    return filled("alignment", **escaped, data=_data(alignments))


def write_alignment_picture(
    path: str | Path, alignment: Alignment, *, name: str | None = None, head: int | None = None
) -> None:
    """Draws one map of attention weights as a PNG picture.

    Chinese tokens need one of the usual Chinese fonts on the machine; a note says if there is none.

    Args:
        path: the picture to write, whole or not at all.
        alignment: what to draw.
        name: which of its weights; ``None`` takes the last layer that attends to the source, else the last of all.
        head: which head, from 0; ``None`` takes the mean of the heads.

    Raises:
        ValueError: if there are no such weights or no such head.
        SettingError: if matplotlib is not installed.
    """
    name = _most_telling(alignment) if name is None else name
    if name not in alignment.weights:
        raise ValueError(f"no weights {name!r}; there are {', '.join(alignment.weights)}")
    weights = alignment.weights[name]
    if head is not None and not 0 <= head < len(weights):
        raise ValueError(f"no head {head} in {name}, which has {len(weights)}; the first is 0")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError(f"a picture of an alignment needs matplotlib; {install_hint('plot')}") from None

    queries, keys = (alignment._tokens(side) for side in _sides(name))
    with fonts_of_picture(str(path)), matplotlib.rc_context({"font.size": 9}):
        size = (max(3.0, CELL_INCHES * len(keys) + 2), max(2.4, CELL_INCHES * len(queries) + 1.4))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        shown = axes.imshow(weights.mean(axis=0) if head is None else weights[head], cmap="Blues", vmin=0)
        # not parsed: a token may hold dollar signs
        axes.set_xticks(range(len(keys)), keys, rotation=50, ha="left", rotation_mode="anchor", parse_math=False)
        axes.set_yticks(range(len(queries)), queries, parse_math=False)
        axes.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)
        whole = f"head {head}" if head is not None else say("mean of heads") if len(weights) > 1 else say("one head")
        axes.set_xlabel(f"{name}, {whole}")
        figure.colorbar(shown, ax=axes, shrink=0.8, label=say("weight")).outline.set_visible(False)
        with writing(path) as file:
            figure.savefig(file, format="png", dpi=min(DOTS_PER_INCH, MOST_DOTS / max(size)))


def _sides(name: str) -> tuple[str, str]:
    """Returns on which side the queries and the keys of some weights are: ``source`` or ``target``."""
    found = KEY.fullmatch(name)
    if found is None or found[1] + found[3] == "encodercross":
        raise ValueError(
            f"no place for weights {name!r}; expected 'encoder.layers.N.self', 'decoder.layers.N.self' or "
            "'decoder.layers.N.cross'"
        )
    if found[3] == "cross":
        return "target", "source"
    return ("source", "source") if found[1] == "encoder" else ("target", "target")


def _most_telling(alignment: Alignment) -> str:
    names = [name for name in alignment.weights if name.endswith(".cross")] or list(alignment.weights)
    return max(names, key=_layer)


def _layer(name: str) -> int:
    return int(name.split(".")[2])


def _byline(alignments: Sequence[Alignment]) -> str:
    names = {name for alignment in alignments for name in alignment.weights}
    heads = max(len(weights) for alignment in alignments for weights in alignment.weights.values())
    counts = ((len(alignments), "sentence"), (len(set(map(_layer, names))), "layer"), (heads, "head"))
    return say(", ").join(plural(count, what) for count, what in counts)


def _data(alignments: Sequence[Alignment]) -> str:
    """Returns the alignments as JSON that can stand in a script element, the weights as base64 of bytes."""
    stored = [
        {
            "source": list(alignment.source_tokens),
            "target": list(alignment.target_tokens),
            "sourceText": alignment.source or " ".join(alignment.source_tokens),
            "targetText": alignment.translation or " ".join(alignment.target_tokens),
            "maps": [
                {
                    "kind": name.split(".")[0] + name.split(".")[3],
                    "queries": _sides(name)[0],
                    "keys": _sides(name)[1],
                    "layer": _layer(name),
                    "heads": len(alignment.weights[name]),
                    "weights": _bytes(alignment.weights[name]),
                }
                for name in sorted(alignment.weights, key=_layer)
            ],
        }
        for alignment in alignments
    ]
    return json_in_script(stored)


def _bytes(weights: NDArray[Any]) -> str:
    rounded = np.rint(np.clip(weights.astype(np.float64), 0, 1) * 255).astype(np.uint8)
    return base64.b64encode(rounded.tobytes()).decode("ascii")
