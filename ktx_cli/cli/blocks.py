"""What a command prints for people: tables, fields and lines, drawn plain or pretty."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ktx_cli.core import NumberFormat, one_line, plain_number, row_formats

if TYPE_CHECKING:
    from ktx_cli.llm import Usage, UsageRow


@dataclass(frozen=True, slots=True)
class Lines:
    """Text as it is, a line an item. `whole`: a terminal's edge breaks none of them, so that commands can be copied."""

    lines: tuple[str, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Names with values, aligned."""

    rows: tuple[tuple[str, str], ...]
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header; in plain text one tab-separated line a row, the header first.

    `right`: the columns a terminal aligns right; None: those whose cells are all numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str | None = None
    right: frozenset[int] | None = None

    @property
    def numeric(self) -> frozenset[int]:
        """The columns that are aligned right."""
        if self.right is not None:
            return self.right
        columns = range(len(self.columns))
        return frozenset(place for place in columns if self.rows and all(_is_number(row[place]) for row in self.rows))


Block = Lines | Fields | Table


def filled(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[Table]:
    """Return a table of rows; none where there are no rows."""
    cells = tuple(map(tuple, rows))
    return [Table(tuple(columns), cells)] if cells else []


TOKEN_COLUMNS = ("fresh", "cache writes", "cache reads", "output")
"""The kinds of tokens that prices tell apart."""

USAGE_COLUMNS = ("calls", *TOKEN_COLUMNS, "cost")


def usage_cells(row: UsageRow) -> tuple[str, ...]:
    """Return a sum of usage as a row of a table: what it is summed by, then `USAGE_COLUMNS`."""
    cost = cost_cell(row.cost.usd, partial=row.unpriced > 0)
    return (*row.keys, str(row.units), *token_cells(row.usage), cost)


def token_cells(usage: Usage) -> tuple[str, ...]:
    """Return tokens as the cells of `TOKEN_COLUMNS`."""
    counts = (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens, usage.output_tokens)
    return tuple(f"{count:,}" for count in counts)


def cost_cell(usd: float | None, *, partial: bool = False) -> str:
    """Return US dollars at list prices; `partial`: some calls have no price."""
    return "unknown" if usd is None else f"${usd:.4f}{' +?' if partial else ''}"


def render_plain(blocks: Sequence[Block]) -> str:
    """Return stable text: no colour, no width, tables with tabs; every record is one line."""
    out: list[str] = []
    for block in blocks:
        if isinstance(block, Lines):
            out.extend(block.lines)
        elif isinstance(block, Fields):
            out.extend(f"{name}: {one_line(value, 2000)}" for name, value in block.rows)
        else:
            out.append("\t".join(block.columns))
            out.extend("\t".join(one_line(cell, 2000) for cell in row) for row in block.rows)
    return "".join(line + "\n" for line in out)


def render_pretty(blocks: Sequence[Block], *, colour: bool) -> str:
    """Return text for a terminal: tables with lines, at the terminal's width, nothing it would obey but colour."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        force_terminal=True,
        no_color=not colour,
        color_system="auto" if colour else None,
        highlight=False,
        width=terminal_width(),
    )
    for block in blocks:
        _draw(console, block)
    return buffer.getvalue()


def terminal_width() -> int:
    """Return the columns of the terminal stdout is, 100 where it is none."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?%?", cell) is not None


def _draw(console: object, block: Block) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    assert isinstance(console, Console)
    if isinstance(block, Lines):
        for line in block.lines:
            console.print(Text("".join(c if c.isprintable() else " " for c in line)), soft_wrap=block.whole)
        return
    title = Text(block.title, style="bold") if block.title else None
    if isinstance(block, Fields):
        table = RichTable(box=None, show_header=False, pad_edge=False, title=title, title_justify="left")
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        rows: Sequence[Sequence[str]] = block.rows
    else:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        numeric = block.numeric
        for place, name in enumerate(block.columns):
            table.add_column(Text(name), overflow="fold", justify="right" if place in numeric else "left")
        rows = block.rows
    for row in rows:
        table.add_row(*(Text(one_line(cell, 2000)) for cell in row))
    console.print(table)


NULL = "NULL"
"""How a table shows that there is no value."""


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"


def as_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], formats: Sequence[NumberFormat | None] = ()
) -> Table:
    """Return rows for a terminal; NULL is a word, so it cannot be told from the text `NULL`: other formats can.

    `formats`: how the numbers of each column are printed, None for one that has others; empty: each as it is.
    """
    styles = formats or row_formats(columns, rows)
    cells = tuple(
        tuple(NULL if value is None else _cell(value, style) for value, style in zip(row, styles, strict=True))
        for row in rows
    )
    return Table(tuple(columns), cells, right=frozenset(place for place, style in enumerate(styles) if style))


def as_lines(
    form: RowFormat, columns: Sequence[str], rows: Sequence[Sequence[Any]], formats: Sequence[NumberFormat | None] = ()
) -> str:
    """Return the text of rows in one of the formats for programs, each line ended.

    `formats`: as in `as_table`, for CSV and tab-separated values; JSON Lines have every digit.
    """
    if form is not RowFormat.JSONL:
        styles = formats or [None] * len(columns)
        rows = [
            [
                value if style is None or value is None else style.machine_text(value)
                for value, style in zip(row, styles, strict=True)
            ]
            for row in rows
        ]
    if form is RowFormat.JSONL:
        names = unique_names(columns)
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
    elif form is RowFormat.TSV:
        lines = ["\t".join(map(_tsv, row)) for row in (columns, *rows)]
    else:
        lines = [",".join(map(_csv, row)) for row in (columns, *rows)]
    return "".join(f"{line}\n" for line in lines)


def as_text(value: Any) -> str:
    """Return a value as text: numbers without float noise, booleans and nested values as JSON writes them."""
    if isinstance(value, str):
        return value
    return plain_number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any, style: NumberFormat | None) -> str:
    return as_text(value) if style is None else style.text(value)


def unique_names(columns: Sequence[str]) -> list[str]:
    """Return the names with `_2`, `_3` ... behind those that were there already, so that each names one value."""
    ordered: dict[str, None] = {}
    for column in columns:
        name, number = column, 2
        while name in ordered:
            name, number = f"{column}_{number}", number + 1
        ordered[name] = None
    return list(ordered)


def _csv(value: Any) -> str:
    """Return a field of RFC 4180; NULL is nothing, an empty text is `""`."""
    if value is None:
        return ""
    text = as_text(value)
    quoted = text == "" or any(mark in text for mark in ',"\r\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _tsv(value: Any) -> str:
    r"""Return a field with backslash, tab and line ends escaped; NULL is `\N`, as Postgres' COPY writes it."""
    if value is None:
        return r"\N"
    text = as_text(value).replace("\\", r"\\")
    return text.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
