"""Translates aggregate formulas of Sigma into SQL, where both mean exactly the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_PLAIN: Final[Mapping[str, str]] = {
    "sum": "sum({})",
    "avg": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "count": "count({})",
    "countdistinct": "count(distinct {})",
}
"""Aggregates of one column that ignore NULL in Sigma and in SQL."""

_CONDITIONAL: Final[Mapping[str, str]] = {
    "sumif": "sum({})",
    "avgif": "avg({})",
    "minif": "min({})",
    "maxif": "max({})",
    "countdistinctif": "count(distinct {})",
}
"""Aggregates of one column over the rows with a condition, which is their second argument."""

_COLUMN: Final = r"\[([^\[\]]+)\]"
_TEST: Final = rf"{_COLUMN}\s*(=|!=|<>|>=|<=|>|<)\s*(?:\"([^\"\\]*)\"|(-?\d+(?:\.\d+)?))"
_OF_COLUMN: Final = re.compile(rf"\s*(\w+)\s*\(\s*{_COLUMN}\s*\)\s*")
_OF_ROWS: Final = re.compile(rf"\s*countif\s*\(\s*{_TEST}\s*\)\s*", re.IGNORECASE)
_OF_BOTH: Final = re.compile(rf"\s*(\w+)\s*\(\s*{_COLUMN}\s*,\s*{_TEST}\s*\)\s*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
"""A name that needs no quotes in SQL."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate in SQL. `filter`: the condition of the rows that it reads, empty for all."""

    expr: str
    filter: str = ""

    def __str__(self) -> str:
        return f"`{self.expr}`" + (f" where `{self.filter}`" if self.filter else "")


def columns_of(columns: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the name that people see -> the column of the table, for the columns of an element of a data model.

    Names that occur twice are omitted, and so are columns whose names need quotes.
    """
    listed = list(columns)
    counts = Counter(str(each.get("name", "")).casefold() for each in listed)
    return {
        name: each["column"]
        for each in listed
        if "column" in each
        and counts[name := str(each.get("name", "")).casefold()] == 1
        and _NAME.fullmatch(each["column"])
    }


def aggregate_of(formula: str, columns: Mapping[str, str]) -> Aggregate | None:
    """Return the aggregate that a formula is, or None for any other formula, or one with an unknown column.

    `columns`: as `columns_of` returns them.
    """
    if found := _OF_COLUMN.fullmatch(formula):
        return _aggregate(_PLAIN.get(found[1].lower()), columns.get(found[2].casefold()))
    if found := _OF_ROWS.fullmatch(formula):
        condition = _condition(found.groups(), columns)
        return None if condition is None else Aggregate("count(*)", condition)
    if found := _OF_BOTH.fullmatch(formula):
        condition = _condition(found.groups()[2:], columns)
        return _aggregate(_CONDITIONAL.get(found[1].lower()), columns.get(found[2].casefold()), condition)
    return None


def _aggregate(form: str | None, column: str | None, condition: str | None = "") -> Aggregate | None:
    return None if form is None or column is None or condition is None else Aggregate(form.format(column), condition)


def _condition(parts: tuple[str | None, ...], columns: Mapping[str, str]) -> str | None:
    """Return a comparison of a column with a constant in SQL. `parts`: column, operator, text, number."""
    name, operator, text, number = parts
    column = columns.get((name or "").casefold())
    if column is None:
        return None
    value = number if text is None else "'" + text.replace("'", "''") + "'"
    return f"{column} {'<>' if operator == '!=' else operator} {value}"
