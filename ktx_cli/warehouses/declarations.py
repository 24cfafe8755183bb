"""The values that a column's declaration allows, from native enum types and CHECK constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.warehouses.port import Column

MOST: Final = 200
"""The maximum number of values in a list of codes; a constraint with more values is a rule instead."""

_WRAPPED: Final = re.compile(r"^(?:nullable|lowcardinality)\((.*)\)$", re.IGNORECASE | re.DOTALL)
_ENUM: Final = re.compile(r"enum(?:8|16)?\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_ENUM_VALUE: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'")
_ESCAPED: Final = re.compile(r"''|\\(.)")


def enum_values(native_type: str) -> tuple[str, ...]:
    """Return the values in the spelling of a native enum type (MySQL, DuckDB, ClickHouse), if it is one."""
    spelled = _WRAPPED.sub(r"\1", native_type.strip())
    found = _ENUM.fullmatch(spelled)
    return tuple(_ESCAPED.sub(_meant, value) for value in _ENUM_VALUE.findall(found[1])) if found else ()


def _meant(escape: re.Match[str]) -> str:
    return escape[1] or "'"


def allowed_values(column: Column) -> tuple[str, ...]:
    """Return the texts that a column type or a constraint allows, or nothing if they are not restricted."""
    return column.values or enum_values(column.native_type)


def is_date(column: Column) -> bool:
    """Return whether a column type contains dates without a time of day, which time zones do not shift."""
    spelled = column.native_type.strip()
    while (inner := _WRAPPED.sub(r"\1", spelled)) != spelled:
        spelled = inner
    return spelled.casefold() in _DATES


_DATES: Final = frozenset({"date", "date32"})


def checked_values(condition: str, dialect: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the column in a CHECK constraint and the texts that it allows, or None for other conditions.

    It is `column IN ('a', 'b')`, the same as comparisons joined by OR, or as Postgres writes it; it may also allow
    NULL.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(condition, read=dialect)
    except SqlglotError:
        return None
    return _of_condition(tree)


def values_of_checks(create: str, dialect: str) -> Mapping[str, tuple[str, ...]]:
    """Return column -> the texts that a CHECK constraint in a CREATE TABLE statement allows."""
    if "check" not in create.casefold():
        return {}
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(create, read=dialect)
    except SqlglotError:
        return {}
    checks = (_of_condition(each.this) for each in tree.find_all(exp.CheckColumnConstraint))
    return dict(found for found in checks if found is not None)


def _of_condition(tree: Any) -> tuple[str, tuple[str, ...]] | None:
    values: dict[str, None] = {}
    columns: set[str] = set()
    for part in _alternatives(tree):
        found = _texts(part)
        if found is None:
            return None
        columns.add(found[0])
        values |= dict.fromkeys(found[1])
    return (columns.pop(), tuple(values)) if len(columns) == 1 and 0 < len(values) <= MOST else None


def _alternatives(tree: Any) -> Iterator[Any]:
    from sqlglot import exp

    tree = tree.unnest()
    if isinstance(tree, exp.Or):
        yield from _alternatives(tree.left)
        yield from _alternatives(tree.right)
    else:
        yield tree


def _texts(part: Any) -> tuple[str, tuple[str, ...]] | None:
    """Return the column in one alternative and its texts; there are none for `column IS NULL`."""
    from sqlglot import exp

    column = _bare(part.this)
    listed: list[Any] = []
    if isinstance(part, exp.Is) and isinstance(part.expression, exp.Null):
        listed = []
    elif isinstance(part, exp.In) and not part.args.get("query"):
        listed = part.expressions
    elif isinstance(part, exp.EQ):
        other = part.expression
        array = other.find(exp.Array) if isinstance(other, exp.Any) else None
        listed = [other] if array is None else array.expressions
    else:
        return None
    values = [_bare(each) for each in listed]
    if not isinstance(column, exp.Column) or not all(
        isinstance(each, exp.Literal) and each.is_string for each in values
    ):
        return None
    return column.name, tuple(each.name for each in values)


def _bare(tree: Any) -> Any:
    """Return an expression without parentheses and casts."""
    from sqlglot import exp

    while isinstance(tree, exp.Paren | exp.Cast):
        tree = tree.this
    return tree
