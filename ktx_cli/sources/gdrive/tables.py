"""Spreadsheets as Markdown: a section for each sheet, a table for each block of cells in it, all of limited size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ktx_cli.sources.gdrive.api import GoogleApi

MAX_TABS: Final = 20
MAX_ROWS: Final = 300
MAX_COLUMNS: Final = 30
MAX_CELL: Final = 1_000
"""The maximum length of a cell in characters."""

Cells = Sequence[str]


def spreadsheet(api: GoogleApi, id: str) -> tuple[str, str]:
    """Return the visible sheets of a spreadsheet as Markdown, and why a part is missing, or an empty string.

    Definitions fit the limits; a longer sheet is data, and its first rows show what it contains.
    """
    tabs = [tab for tab in api.tabs(id) if tab.get("sheetType", "GRID") == "GRID" and not tab.get("hidden")]
    read = tabs[:MAX_TABS]
    found = api.values(id, [_range(tab) for tab in read]) if read else []
    pieces, cuts = [], []
    for tab, rows in zip(read, found, strict=True):
        title = " ".join(str(tab.get("title") or "").split())
        text = _sheet([_cells(row) for row in rows[:MAX_ROWS]])
        if len(rows) > MAX_ROWS:
            cuts.append(title)
            text += f"\n\nThis sheet continues; only its first {MAX_ROWS} rows are shown."
        if text.strip():
            pieces.append(f"## {title}\n\n{text}")
    cut = f"only the first {MAX_ROWS} rows of a sheet are read" if cuts else ""
    if len(tabs) > MAX_TABS:
        cut = f"only the first {MAX_TABS} sheets are read"
    return "\n\n".join(pieces), cut


def _range(tab: Mapping[str, Any]) -> str:
    """Return the range to read in A1 notation; it must not be larger than the sheet."""
    grid = tab.get("gridProperties") or {}
    columns = min(int(grid.get("columnCount") or MAX_COLUMNS), MAX_COLUMNS)
    rows = min(int(grid.get("rowCount") or MAX_ROWS + 1), MAX_ROWS + 1)
    title = str(tab.get("title") or "").replace("'", "''")
    return f"'{title}'!A1:{_column(columns)}{rows}"


def _column(number: int) -> str:
    """Return the letters of a column, from 1: `A` to `Z`, then `AA`."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _cells(row: Sequence[Any]) -> list[str]:
    cells = [" ".join(str("" if cell is None else cell).split())[:MAX_CELL] for cell in row[:MAX_COLUMNS]]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _sheet(rows: Sequence[Cells]) -> str:
    """Return the rows of a sheet: blocks between empty rows, each a table, or lines if it has one column."""
    blocks = (list(block) for filled, block in itertools.groupby(rows, key=bool) if filled)
    return "\n\n".join(_block(block) for block in blocks)


def _block(rows: Sequence[Cells]) -> str:
    first = min(next((number for number, cell in enumerate(row) if cell), 0) for row in rows)
    width = max(len(row) for row in rows) - first
    if width == 1:
        return "\n\n".join(row[first] for row in rows)
    return "\n".join(_table([[*row[first:], *[""] * (width - len(row) + first)] for row in rows], width))


def _table(rows: Sequence[Cells], width: int) -> Iterator[str]:
    header, *others = rows
    yield _line(header)
    yield "|" + " --- |" * width
    yield from map(_line, others)


def _line(cells: Cells) -> str:
    return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |"
