"""Checks of sources with `sql`: it parses, is one query, and gives the columns that are declared."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ktx_cli.context.semantic.checking.fragments import silence_parser, template_values
from ktx_cli.context.semantic.checking.reporting import Report
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.expressions.templates import TEMPLATE
from ktx_cli.context.semantic.loading.entry import unknown_name
from ktx_cli.context.semantic.model import Source
from ktx_cli.core.text import one_line

if TYPE_CHECKING:
    from sqlglot import exp


def check_projection(source: Source, dialect: str, parameters: Collection[str], report: Report) -> None:
    """Check the `sql` of a source; its columns only where the statement itself names them all."""
    what, sql = f"`sql` of `{source.name}`", source.sql or ""
    try:
        values = template_values(sql, what, parameters)
        names = projected(TEMPLATE.sub("NULL", sql) if values else sql, dialect, what)
    except SemanticError as error:
        report.raised(error, source, source.place)
        return
    if names is None:
        return
    folded = {name.casefold() for name in names}
    for column in source.columns.values():
        if column.expr is None and column.name.casefold() not in folded:
            what = f"`sql` of `{source.name}` does not give the column `{column.name}`"
            report.error("not_projected", what, source, column.place, unknown_name(column.name, names))


def projected(sql: str, dialect: str, what: str = "it") -> list[str] | None:
    """Return the names of the columns a query gives, None where `*` or an unnamed column leaves them open."""
    from sqlglot import exp

    tree = _query(sql, dialect, what)
    names = [each.alias_or_name for each in tree.selects]
    has_star = any(isinstance(each, exp.Star) or each.is_star for each in tree.selects)
    return None if has_star or not all(names) or not names else names


def _query(sql: str, dialect: str, what: str) -> exp.Query:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        found = [each for each in sqlglot.parse(sql, read=dialect) if each is not None]
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise _refused(f"{what} is no statement of {dialect}: {one_line(sql, 100)}") from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise _refused(f"{what} is not one query: {one_line(sql, 100)}")
    return found[0]


def _refused(what: str) -> SemanticError:
    return SemanticError(what, hint="write one SELECT", code="definition")
