"""The pages that runs write: one HTML file each, with its style, script and data inside.

A page is ``NAME.html``, ``NAME.css`` and ``NAME.js``, after the ``common.css`` and ``common.js`` of all pages.
"""

import json
from importlib.resources import files
from string import Template

__all__ = ["filled", "json_in_script"]


def filled(name: str, **places: str) -> str:
    """Returns a page: its HTML with style, script and the other places, which the caller has escaped."""
    folder = files("wenmai.runs.page")

    def joined(kind: str) -> str:
        return "\n".join((folder / f"{part}.{kind}").read_text("utf-8").strip() for part in ("common", name))

    template = Template((folder / f"{name}.html").read_text("utf-8"))
    return template.substitute(style=joined("css"), script=joined("js"), **places)


def json_in_script(value: object) -> str:
    """Returns a value as JSON that can stand in a script element.

    Raises:
        ValueError: if a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
