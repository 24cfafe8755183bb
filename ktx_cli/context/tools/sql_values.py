"""Which values of an answer may go to a model: counts always, other values where the project says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from ktx_cli.connectors.errors_told import driver_error_name, tells_of_the_statement
from ktx_cli.connectors.guard.errors import StatementRefusedError
from ktx_cli.connectors.port import QueryResult
from ktx_cli.context.scan.profiling.model import ValueKind
from ktx_cli.context.scan.profiling.plain import json_value
from ktx_cli.context.scan.profiling.privacy import refusal
from ktx_cli.context.semantic.checking.fragments import silence_parser
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import one_line
from ktx_cli.project.config.scan import Privacy

LONGEST_VALUE: Final = 120
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"|`([^`]*)`|“([^”]*)”")


def shown_values(result: QueryResult, sql: str, dialect: str, privacy: Privacy) -> tuple[list[list[str]], list[str]]:
    """Return the rows as texts, and a line for each column whose values are withheld.

    Where `scan.privacy` is not `off`, only counts are told. Where it is, all but personal data.
    """
    columns = list(zip(*result.rows, strict=True)) if result.rows else [() for _ in result.columns]
    counts = count_columns(sql, dialect, len(result.columns))
    reasons = [
        "" if place in counts else _reason(name, values, privacy)
        for place, (name, values) in enumerate(zip(result.columns, columns, strict=True))
    ]
    rows = [
        [_shown(value) if not why else _masked(value) for value, why in zip(row, reasons, strict=True)]
        for row in result.rows
    ]
    told = [f"- {name}: withheld, {why}" for name, why in zip(result.columns, reasons, strict=True) if why]
    return rows, told


def count_columns(sql: str, dialect: str, width: int) -> frozenset[int]:
    """Return the places of an answer's columns that hold nothing but counts, and figures computed from counts."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        tree = sqlglot.parse_one(sql, read=dialect or None)
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError):
        return frozenset()
    if not isinstance(tree, exp.Select) or len(tree.selects) != width or any(map(_may_be_none, tree.selects)):
        return frozenset()
    return frozenset(place for place, each in enumerate(tree.selects) if _counts(each.unalias()))


def _may_be_none(selected: Any) -> bool:
    """Whether a selected expression may stand for no column, so that those behind it have other places."""
    from sqlglot import exp

    stars = (each for each in selected.find_all(exp.Star) if not isinstance(each.parent, exp.Count))
    return any(stars) or selected.find(exp.Columns) is not None


def _counts(node: Any) -> bool:
    """Whether an expression holds nothing but counts and numbers that stand in the statement."""
    from sqlglot import exp

    if isinstance(node, exp.Count | exp.CountIf | exp.Literal) and not getattr(node, "is_string", False):
        return True
    if isinstance(node, exp.Filter | exp.Paren | exp.Cast | exp.Neg):
        return _counts(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Nullif | exp.Coalesce | exp.Round):
        return all(_counts(each) for each in node.args.values() if isinstance(each, exp.Expression)) and all(
            _counts(each) for each in node.expressions
        )
    return False


def error_text(message: str, sql: str, names: Iterable[str], privacy: Privacy) -> str:
    """Return what a model reads of an error about a statement: what it quotes is left out, but names and its words.

    Not for what a database says of rows, of which nobody can tell where a value begins: `refused_text`.
    """
    flat = "\n".join(one_line(line, 1_000) for line in message.split("\n"))
    known = sql.casefold()
    plain = {name.casefold() for name in names}
    for found in _QUOTED.finditer(flat):
        text = next(group for group in found.groups() if group is not None)
        if text.casefold() not in known and text.casefold() not in plain:
            return f"{flat[: found.start()]}… (the rest may hold {_kept(privacy)})"
    return flat


def refused_text(error: KtxError, sql: str, names: Iterable[str], privacy: Privacy) -> str:
    """Return what a model reads of a refused statement.

    Of what a driver says only what is about the statement alone, whatever values may be told: to cast a value to a
    number is a way to read any column in the words of the error, one with personal data too.
    """
    driver = error.__cause__
    said = "\nhint: ".join(filter(None, (one_line(error.message, 1_000), error.hint)))
    if isinstance(error, StatementRefusedError) or tells_of_the_statement(error, sql):
        return said
    if driver is None:
        return error_text(said, sql, names, privacy)
    return f"the database refused it with {driver_error_name(driver)} (what it says may hold {_kept(privacy)})"


def _kept(privacy: Privacy) -> str:
    """Return what an error may not tell."""
    if privacy == "off":
        return "values of rows, personal ones too, which are never told"
    return f"values of rows: scan.privacy is {privacy}"


def _reason(name: str, values: Sequence[Any], privacy: Privacy) -> str:
    if privacy != "off":
        return f"scan.privacy is {privacy}: values of rows stay on this machine; ask for counts"
    present = [value for value in values if value is not None]
    found = refusal("", name, _kind(present), _hashable(present))
    return "" if found is None or not found.personal else f"it looks like personal data: {found}"


def _hashable(values: Iterable[Any]) -> list[Any]:
    return [value if isinstance(value, str | int | float | bool | Decimal) else str(value) for value in values]


def _kind(values: Sequence[Any]) -> ValueKind:
    kinds = {_kind_of(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else ValueKind.MIXED if kinds else ValueKind.EMPTY


def _kind_of(value: Any) -> ValueKind:
    if isinstance(value, bool):
        return ValueKind.BOOLEAN
    if isinstance(value, int):
        return ValueKind.INTEGER
    if isinstance(value, float | Decimal):
        return ValueKind.NUMBER
    return ValueKind.TIME if isinstance(value, date | datetime) else ValueKind.TEXT


def _shown(value: Any) -> str:
    plain = json_value(value)
    return "NULL" if plain is None else one_line(str(plain), LONGEST_VALUE).replace("|", "\\|")


def _masked(value: Any) -> str:
    return "NULL" if value is None else f"({_kind_of(value).value})"
