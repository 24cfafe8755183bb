"""Human-readable command output: tables, fields and lines, in plain or pretty form."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import NumberFormat, one_line, plain_number, row_formats

if TYPE_CHECKING:
    from ktx_cli.llm import Usage, UsageRow


class Styled(str):
    """Text that a color terminal shows in a style, one of `STYLES`; elsewhere it is plain text."""

    __slots__ = ("style",)
    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        """Return the text with its style."""
        self = super().__new__(cls, text)
        self.style = style
        return self


STYLES: Final = {"bold": "1", "dim": "2", "ok": "32", "warning": "33", "error": "31"}
"""Style -> its terminal code."""

Line = str | tuple[str, ...]
"""A line of text, or the parts of one, each of which may be `Styled`."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of text. A terminal wraps them at words, except with `whole`, so that commands can be copied.

    `hanging`: what is wrapped goes on further to the right, so that each line of a list is seen to begin.
    """

    lines: tuple[Line, ...]
    whole: bool = False
    hanging: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Names with values, aligned."""

    rows: tuple[tuple[str, str], ...]
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header; in plain text, one tab-separated line per row, with the header first.

    `right`: the columns that a terminal aligns right; None aligns those with only numbers. `expanded`: a terminal shows
    each row as a record, one value per line, as it does if the columns do not fit side by side. `optional`: the columns
    that a terminal leaves out if they do not fit.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str | None = None
    right: frozenset[int] | None = None
    expanded: bool = False
    optional: frozenset[str] = frozenset()

    @property
    def numeric(self) -> frozenset[int]:
        """The right-aligned columns."""
        if self.right is not None:
            return self.right
        columns = range(len(self.columns))
        return frozenset(place for place in columns if self.rows and all(_is_number(row[place]) for row in self.rows))


Block = Lines | Fields | Table


def filled(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[Table]:
    """Return a table of rows, or no table if there are no rows."""
    texts = tuple(map(tuple, rows))
    return [Table(tuple(columns), texts)] if texts else []


TOKEN_COLUMNS = ("fresh", "cache writes", "cache reads", "output")
"""The kinds of tokens, each with its own price."""

USAGE_COLUMNS = ("calls", *TOKEN_COLUMNS, "cost")


def usage_cells(row: UsageRow) -> tuple[str, ...]:
    """Return a usage total as a table row: its dimensions, then `USAGE_COLUMNS`."""
    cost = cost_cell(row.cost.usd, partial=row.unpriced > 0)
    return (*row.keys, str(row.units), *token_cells(row.usage), cost)


def token_cells(usage: Usage) -> tuple[str, ...]:
    """Return token counts as the cells for `TOKEN_COLUMNS`."""
    counts = (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens, usage.output_tokens)
    return tuple(f"{count:,}" for count in counts)


def cost_cell(usd: float | None, *, partial: bool = False) -> str:
    """Return US dollars at list prices; `partial` marks that some calls have no price."""
    return "unknown" if usd is None else f"${usd:.4f}{' +?' if partial else ''}"


def render_plain(blocks: Sequence[Block]) -> str:
    """Return stable text: no color, no width, tab-separated tables, and one line per record."""
    out: list[str] = []
    for block in blocks:
        if isinstance(block, Lines):
            out.extend("".join(line) for line in block.lines)
        elif isinstance(block, Fields):
            out.extend(f"{name}: {one_line(value, 2000)}" for name, value in block.rows)
        else:
            out.append("\t".join(block.columns))
            out.extend("\t".join(one_line(cell, 2000) for cell in row) for row in block.rows)
    return "".join(line + "\n" for line in out)


def render_pretty(blocks: Sequence[Block], *, colour: bool) -> str:
    """Return text fitted to the terminal: right-aligned numbers, unbroken words, no control characters except
    colors.
    """
    drawing = _Drawing(terminal_width(), colour)
    lines: list[str] = []
    for place, block in enumerate(blocks):
        if place and any(isinstance(each, Table) for each in blocks[place - 1 : place + 1]):
            lines.append("")
        lines += drawing.lines(block)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def terminal_width() -> int:
    """Return the number of columns of the terminal on stdout, or 100 if stdout is not a terminal."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?%?", cell) is not None


_GAP: Final = "  "
"""Separates two columns."""
_TALLEST: Final = 4
"""Maximum number of lines per row before rows are shown as records."""
_LOW: Final = 2
"""Number of lines per row that is always readable."""
_HANGING: Final = " " * 4
_NARROWEST: Final = 20
"""Minimum number of columns for a value, however long the neighboring names are."""
_AMOUNT: Final = r"\S*\d (?:ms|s|min|h|MB|GB|%)(?!\w)\S*"
_WORD: Final = re.compile(rf"`[^`]{{0,40}}`\S*|{_AMOUNT}|\S+")
"""Text that is never broken: a word, short text in backquotes, or a number with its unit."""
_COMMAND: Final = re.compile(rf"`[^`]*`\S*|{_AMOUNT}|\S+")


def wrapped(text: str, width: int, *, indent: str = "", commands: bool = False) -> list[str]:
    """Return text in lines of at most `width` columns, broken between words; all lines but the first begin with
    `indent`.

    A word that is wider than a line is broken at the edge. `commands`: text in backquotes is a command to be copied,
    and is never broken.
    """
    lines: list[str] = []
    line, room = "", width
    for word in _unbroken(text, width - len(indent), commands=commands):
        while cells(word) > width - len(indent) and not (commands and word.startswith("`")):
            if line.strip():
                lines.append(line)
                line, room = indent, width - len(indent)
            cut = _cut(word, room - cells(line))
            lines.append(line + word[:cut])
            line, word = indent, word[cut:]
        beside = f"{line} {word}" if line.strip() else line + word
        if cells(beside) > width and line.strip():
            lines.append(line)
            beside = indent + word
        line = beside
    return [*lines, line] if line.strip() or not lines else lines


def _unbroken(text: str, width: int, *, commands: bool) -> Iterator[str]:
    """Yield the parts of a text between which lines may end; several words that do not fit into a line are separate."""
    for part in (_COMMAND if commands else _WORD).findall(text):
        if cells(part) <= width or (commands and part.startswith("`")):
            yield part
        else:
            yield from part.split()


def _cut(word: str, width: int) -> int:
    """Return how many characters of a word fit into a number of columns, at least one."""
    for place in range(1, len(word)):
        if cells(word[: place + 1]) > width:
            return place
    return len(word)


def cells(text: str) -> int:
    """Return the width of text in a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Renders blocks for a terminal."""

    width: int
    colour: bool

    def lines(self, block: Block) -> Iterator[str]:
        if isinstance(block, Lines):
            for line in block.lines:
                yield from self._line((line,) if isinstance(line, str) else line, block)
            return
        if block.title:
            yield self._styled(block.title, "bold")
        if isinstance(block, Fields):
            yield from self._fields([(name, value) for name, value in block.rows])
        else:
            yield from self._table(block)

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colour and text else text

    def _shown(self, text: str, given: str) -> str:
        """Return text with the style of its source."""
        return self._styled(text, given.style) if isinstance(given, Styled) else text

    def _line(self, parts: Sequence[str], block: Lines) -> Iterator[str]:
        printable = ["".join(c if c.isprintable() else " " for c in part) for part in parts]
        text = "".join(printable)
        if block.whole or cells(text) <= self.width:
            yield "".join(self._shown(part, given) for part, given in zip(printable, parts, strict=True))
            return
        margin = text[: len(text) - len(text.lstrip())]
        indent = _HANGING if block.hanging else ""
        first, *more = wrapped(text[len(margin) :], max(self.width - len(margin), _NARROWEST), indent=indent)
        head = margin + first
        for part, given in zip(printable, parts, strict=True):
            if isinstance(given, Styled) and part.strip() in head:
                head = head.replace(part.strip(), self._shown(part.strip(), given), 1)
        yield head
        yield from (f"{margin}{line}" for line in more)

    def _fields(self, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
        names = max((cells(name) for name, _ in rows), default=0)
        room = max(self.width - names - len(_GAP), _NARROWEST)
        for name, value in rows:
            first, *more = wrapped(one_line(value, 2000), room) or [""]
            yield self._styled(name, "dim") + " " * (names - cells(name)) + _GAP + self._shown(first, value)
            yield from (" " * (names + len(_GAP)) + self._shown(line, value) for line in more)

    def _table(self, table: Table) -> Iterator[str]:
        table = self._without_optional(table)
        rows = [[one_line(cell, 2000) for cell in row] for row in table.rows]
        columns = list(zip(table.columns, *rows, strict=True))
        beside = len(columns)
        widths = None if table.expanded else self._widths(columns, _LOW)
        if widths is None and not table.expanded and table.right is None:
            beside, widths = self._fitting(columns)
        if widths is None and not table.expanded:
            beside, widths = len(columns), self._widths(columns, _TALLEST)
        if widths is None:
            yield from self._records(table)
            return
        numeric = table.numeric
        heads = [wrapped(name, width) for name, width in zip(table.columns, widths, strict=False)]
        yield from self._row(heads, widths, numeric, ["bold"] * len(widths))
        yield self._styled(_GAP.join("─" * width for width in widths), "dim")
        for row, given in zip(rows, table.rows, strict=True):
            parts = [wrapped(cell, width) for cell, width in zip(row, widths, strict=False)]
            styles = [cell.style if isinstance(cell, Styled) else "" for cell in given]
            yield from self._row(parts, widths, numeric, styles)
            yield from self._below(table.columns[beside:], row[beside:])

    def _without_optional(self, table: Table) -> Table:
        """Return the table without its optional columns if they do not fit."""
        shown = [[one_line(cell, 2000) for cell in column] for column in zip(table.columns, *table.rows, strict=True)]
        if not table.optional or self._natural(shown):
            return table
        kept = [place for place, name in enumerate(table.columns) if name not in table.optional]
        rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
        return Table(tuple(table.columns[place] for place in kept), rows, table.title, expanded=table.expanded)

    def _fitting(self, columns: Sequence[Sequence[str]]) -> tuple[int, list[int] | None]:
        """Return how many of the first columns fit side by side, and their widths; the remaining columns go below each
        row.
        """
        for beside in range(len(columns) - 1, 1, -1):
            widths = self._natural(columns[:beside])
            if widths is not None:
                return beside, widths
        return len(columns), None

    def _below(self, names: Sequence[str], values: Sequence[str]) -> Iterator[str]:
        """Yield the values of a row that do not fit next to the others: several values get names, a single one does
        not.
        """
        named = [
            value if len(names) == 1 else f"{name}: {value.rstrip('.')}"
            for name, value in zip(names, values, strict=True)
            if value
        ]
        for line in wrapped("; ".join(named), self.width - len(_GAP)) if named else ():
            yield _GAP + self._styled(line, "dim")

    def _row(
        self, parts: Sequence[list[str]], widths: Sequence[int], numeric: frozenset[int], styles: Sequence[str]
    ) -> Iterator[str]:
        for number in range(max(map(len, parts), default=0)):
            shown = []
            for place, (lines, width) in enumerate(zip(parts, widths, strict=True)):
                text = lines[number] if number < len(lines) else ""
                blanks = " " * (width - cells(text))
                text = self._styled(text, styles[place]) if styles[place] else text
                shown.append(blanks + text if place in numeric else text + blanks)
            yield _GAP.join(shown)

    def _natural(self, columns: Sequence[Sequence[str]]) -> list[int] | None:
        """Return the natural widths of columns, or None if they do not fit."""
        widths = [max(map(cells, column)) for column in columns]
        return widths if sum(widths) + len(_GAP) * (len(widths) - 1) <= self.width else None

    def _widths(self, columns: Sequence[Sequence[str]], tallest: int) -> list[int] | None:
        """Return the width of each column: natural, or else wrapped at words; None if a row would be too tall."""
        if fitting := self._natural(columns):
            return fitting
        natural = [max(map(cells, column)) for column in columns]
        room = self.width - len(_GAP) * (len(columns) - 1)
        least = [max((cells(word) for text in column for word in _WORD.findall(text)), default=0) for column in columns]
        if sum(least) > room:
            return None
        widths = list(least)
        wanting = [place for place in range(len(columns)) if natural[place] > least[place]]
        spare = room - sum(least)
        while wanting and spare >= len(wanting):
            share = spare // len(wanting)
            for place in wanting:
                more = min(share, natural[place] - widths[place])
                widths[place] += more
                spare -= more
            wanting = [place for place in wanting if natural[place] > widths[place]]
        heights = (len(wrapped(text, width)) for column, width in zip(columns, widths, strict=True) for text in column)
        return widths if max(heights, default=0) <= tallest else None

    def _records(self, table: Table) -> Iterator[str]:
        for number, row in enumerate(table.rows, 1):
            head = f"── row {number} "
            yield self._styled(head + "─" * max(min(self.width, 40) - len(head), 0), "dim")
            yield from self._fields(list(zip(table.columns, row, strict=True)))
        if not table.rows:
            yield from self._line((_GAP.join(table.columns),), Lines(()))


NULL = "NULL"
"""How a table shows a missing value."""


class RowFormat(StrEnum):
    """The format of rows."""

    TABLE = "table"
    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"


def as_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    formats: Sequence[NumberFormat | None] = (),
    *,
    expanded: bool = False,
) -> Table:
    """Return rows for a terminal; NULL looks like the text `NULL`, which other formats distinguish.

    `formats`: how the numbers of each column are printed, None for a column without numbers; empty: each unchanged.
    `expanded`: one value per line.
    """
    styles = formats or row_formats(columns, rows)
    texts = tuple(
        tuple(NULL if value is None else _cell(value, style) for value, style in zip(row, styles, strict=True))
        for row in rows
    )
    right = frozenset(place for place, style in enumerate(styles) if style)
    return Table(tuple(columns), texts, right=right, expanded=expanded)


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
    """Return a value as text: numbers without float noise, booleans and nested values as JSON."""
    if isinstance(value, str):
        return value
    return plain_number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any, style: NumberFormat | None) -> str:
    return as_text(value) if style is None else style.text(value)


def unique_names(columns: Sequence[str]) -> list[str]:
    """Return the names with `_2`, `_3` ... appended to duplicates, so that each is unique."""
    ordered: dict[str, None] = {}
    for column in columns:
        name, number = column, 2
        while name in ordered:
            name, number = f"{column}_{number}", number + 1
        ordered[name] = None
    return list(ordered)


def _csv(value: Any) -> str:
    """Return a field of RFC 4180; NULL is empty, an empty text is `""`."""
    if value is None:
        return ""
    text = as_text(value)
    quoted = text == "" or any(mark in text for mark in ',"\r\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _tsv(value: Any) -> str:
    r"""Return a field with backslash, tab and line breaks escaped; NULL is `\N`, as in Postgres' COPY."""
    if value is None:
        return r"\N"
    text = as_text(value).replace("\\", r"\\")
    return text.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
