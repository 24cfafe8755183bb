"""Rows as text for people and programs: a table, CSV, tab-separated values, JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from ktx_cli.cli.blocks import Table
from ktx_cli.core.numbers import NumberFormat, plain_number, row_formats

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
    form: RowFormat,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    formats: Sequence[NumberFormat | None] = (),
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
