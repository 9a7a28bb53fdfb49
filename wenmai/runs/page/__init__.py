"""The pages that runs write: one HTML file each, with its style, script and data inside.

A page is ``NAME.html``, ``NAME.css`` and ``NAME.js`` in ``frame.html``, after the ``common.css`` and ``common.js`` of
all pages. A page that needs no script has none, and may run none.
"""

import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from wenmai.core.errors import SettingError
from wenmai.core.folder import obstacle_to
from wenmai.core.wording import language, phrase

__all__ = ["filled", "json_in_script", "page_texts", "require_page", "script_texts", "scrolling", "small", "swatch"]

_COLOURS = 6  # --s0 to --s5 in common.css; later lines use them again with a dash pattern
_BEGIN = b"<!doctype html>"
_DASHES = ("", "6 3", "2 2.5", "8 3 2 3")

# the text between tags, unless it is only a place such as $title, and what is read aloud of elements
_TEXT = re.compile(r"""(>\s*|aria-label=")(?!\$\w+\s*<)([^<>"$]*[A-Za-z][^<>"]*?|\$\w+ [^<>"]*?)(\s*<|")""")


def filled(name: str, **places: str) -> str:
    """Returns a page: its HTML with style, script and the other places, which the caller has escaped."""
    folder = files("wenmai.runs.page")
    places = {"lang": "zh-CN" if language() == "zh" else "en", **places}

    def joined(kind: str) -> str:
        found = [folder / f"{part}.{kind}" for part in ("common", name)]
        return "\n".join(file.read_text("utf-8").strip() for file in found if file.is_file())

    body, script = _spoken((folder / f"{name}.html").read_text("utf-8")).strip(), joined("js")
    template = Template((folder / "frame.html").read_text("utf-8").replace("$body", body))
    spoken = {text: phrase(text) for text in script_texts(script)}
    words = json_in_script({text: other for text, other in spoken.items() if other != text})
    places["script"] = script.replace("{}; // WORDS", f"{words};")
    places["scripts"] = "'unsafe-inline'" if (folder / f"{name}.js").is_file() else "'none'"
    return template.substitute(style=joined("css"), **places)


def require_page(path: str | Path | None, usual: str) -> None:
    """Makes sure, before anything is computed, that a page can be written; another page may be replaced.

    Args:
        path: The page; None: none is written.
        usual: A name for it, for the message.

    Raises:
        SettingError: if there is a folder in its place, a file in that of its folder, or a file that is no page, such
            as one that is to be read; or if nothing may be written there.
    """
    if path is None:
        return
    if obstacle := obstacle_to(Path(path).parent):
        raise SettingError(f"{path}: {obstacle}; name a page in a folder")
    if not Path(path).exists():
        return
    if Path(path).is_dir():
        raise SettingError(f"{path} is a folder; name the page to write, such as {Path(path) / usual}")
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            is_page = file.read(len(_BEGIN)).lower() in (b"", _BEGIN)
        if not is_page:
            raise SettingError(f"{path} exists and is no page, which would be lost; name another file, such as {usual}")


def small(text: str) -> str:
    """Returns a line of small print; the text is escaped."""
    return f"<small>{escape(text)}</small>" if text else ""


def scrolling(label: str, table: str) -> str:
    """Returns a table that scrolls where it is too wide; the label, for screen readers, is escaped."""
    return f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">{table}</div>'


def page_texts(page: str) -> list[str]:
    """Returns the texts of the HTML of a page, as the catalogue has them: places are holes."""
    return [_text_of(found) for found in _TEXT.finditer(page)]


def script_texts(script: str) -> list[str]:
    """Returns the texts of a script: what follows ``say``, with a number for each ``${...}``."""
    found = []
    for literal in re.findall(r"\bsay`([^`]*)`", script):
        parts = re.split(r"\$\{[^}]*\}", literal)
        found.append("".join(f"{part}{{{place}}}" for place, part in enumerate(parts[:-1])) + parts[-1])
    return found


def _spoken(page: str) -> str:
    return _TEXT.sub(lambda found: found[1] + re.sub(r"\{(\w+)\}", r"$\1", phrase(_text_of(found))) + found[3], page)


def _text_of(found: re.Match[str]) -> str:
    return re.sub(r"\$(\w+)", r"{\1}", " ".join(found[2].split()))


def swatch(index: int) -> str:
    """Returns a piece of the line that is the ``index``-th of a drawing, for tables and keys."""
    stroke = f'stroke="var(--s{index % _COLOURS})" stroke-dasharray="{_DASHES[index // _COLOURS % len(_DASHES)]}"'
    line = f'<line x1="0" x2="20" y1="4" y2="4" {stroke}/>'
    return f'<svg class="swatch" viewBox="0 0 20 8" aria-hidden="true">{line}</svg>'


def json_in_script(value: object) -> str:
    """Returns a value as JSON that can stand in a script element.

    Raises:
        ValueError: if a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
