"""Draws what a terminal shows as an SVG file: the same cells give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final
from xml.sax.saxutils import escape

from pyte.screens import Char

_WIDTH, _HEIGHT, _MARGIN, _BASELINE = 8.4, 18, 14, 13
"""Pixels: of a column and a line, around the text, and from the top of a line to what its letters stand on."""

_LIGHT: Final = {
    "text": "#1f2328",
    "back": "#ffffff",
    "ok": "#1a7f37",
    "warning": "#9a6700",
    "error": "#cf222e",
    "other": "#0969da",
    "dim": "#656d76",
}
_DARK: Final = {
    "text": "#e6edf3",
    "back": "#0d1117",
    "ok": "#3fb950",
    "warning": "#d29922",
    "error": "#f85149",
    "other": "#58a6ff",
    "dim": "#8b949e",
}
_NAMES: Final = {"green": "ok", "brown": "warning", "yellow": "warning", "red": "error", "default": ""}
"""Colour of a terminal -> its class; every other colour is `other`."""

_PART: Final = re.compile(r"\S+(?: \S+)*")
"""Text with no more than one blank in a row: more are not kept by every program that draws SVG."""


def draw(rows: Sequence[Sequence[Char]], columns: int, title: str) -> str:
    """Return a picture of lines of a terminal, which is light or dark as the reader's screen is."""
    width, height = columns * _WIDTH + 2 * _MARGIN, len(rows) * _HEIGHT + 2 * _MARGIN
    lines = [line for number, row in enumerate(rows) for line in _line(row, _MARGIN + number * _HEIGHT + _BASELINE)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_style(_LIGHT)}@media(prefers-color-scheme:dark){{{_style(_DARK)}}}"
            "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
            ".bold{font-weight:bold}</style>",
            '<rect class="back" width="100%" height="100%" rx="8"/>',
            *lines,
            "</svg>",
            "",
        ]
    )


def _style(colours: dict[str, str]) -> str:
    back, text = colours["back"], colours["text"]
    rules = "".join(f".{name}{{fill:{colour}}}" for name, colour in colours.items() if name not in ("back", "text"))
    return f".back{{fill:{back}}}text{{fill:{text}}}{rules}"


def _line(row: Sequence[Char], y: float) -> Iterable[str]:
    """Yield the parts of a line that have a style of their own, each where its column is."""
    column = 0
    for style, group in groupby(row, _classes):
        text = "".join(character.data for character in group)
        given = f' class="{style}"' if style else ""
        for part in _PART.finditer(text):
            x, length = _MARGIN + (column + part.start()) * _WIDTH, len(part[0]) * _WIDTH
            yield f'<text{given} x="{x:g}" y="{y:g}" textLength="{length:g}">{escape(part[0])}</text>'
        column += len(text)


def _classes(character: Char) -> str:
    names = [_NAMES.get(character.fg, "other")] if character.data.strip() or character.fg != "default" else [""]
    names += ["bold"] if character.bold else []
    names += ["dim"] if character.blink else []
    return " ".join(filter(None, names))
