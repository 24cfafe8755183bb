"""The functions a statement may call: lists of names, one file a dialect, and what the parser knows by class.

A list names what only computes or reads the catalog. Everything else is refused, with the setting that allows it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from ktx_cli.connectors.guard.errors import refused_function
from ktx_cli.connectors.guard.lists import read_words

if TYPE_CHECKING:
    from sqlglot import exp

GUARDED_DIALECTS: Final = (
    *("sqlite", "duckdb", "postgres", "mysql", "tsql", "snowflake", "bigquery", "clickhouse"),
    *("redshift", "databricks", "trino"),
)
"""The dialects with a list of functions."""

_ALSO: Final = {"redshift": ("postgres",)}
_FREE_PLACES: Final = {
    "postgres": frozenset({"pg_catalog"}),
    "redshift": frozenset({"pg_catalog"}),
    "duckdb": frozenset({"system.main", "pg_catalog"}),
    "bigquery": frozenset({"hll_count", "kll_quantiles", "net", "safe"}),
}
_CALLED: Final = re.compile(r"(\w+)\(")
_NAMELESS: Final = frozenset({"CombinedAggFunc", "CombinedParameterizedAgg", "ParameterizedAgg", "AnonymousAggFunc"})


class FunctionList:
    """Says which functions of a dialect may be called, with those a connection allows besides."""

    def __init__(self, dialect: str, allowed: Collection[str], connection: str) -> None:
        self.dialect = dialect
        self.connection = connection
        self.allowed = frozenset(name.lower() for name in allowed)

    def require(self, function: exp.Func) -> None:
        """Raise unless the function may be called, at the place it is named at."""
        if self.allows(function):
            return
        place = place_of(function)
        if place and place not in _FREE_PLACES.get(self.dialect, ()):
            raise self.refuse(f"{place}.{self.name_of(function)}", "is not built in: its name has a schema")
        if not self._is_listed(function):
            name = f"{place}.{self.name_of(function)}" if place else self.name_of(function)
            raise self.refuse(name, "is not on the list of functions that only compute")

    def name_of(self, function: exp.Func) -> str:
        """Return the name a function is called by in the dialect."""
        return names_of(function, self.dialect)[0]

    def allows(self, function: exp.Func) -> bool:
        """Whether the connection's own setting allows the function."""
        if not self.allowed:
            return False
        place = place_of(function)
        return any((f"{place}.{name}" if place else name) in self.allowed for name in names_of(function, self.dialect))

    def refuse(self, name: str, why: str) -> Exception:
        """Return the error for a function, with the setting that allows it."""
        return refused_function(name, self.connection, self.allowed, why)

    def _is_listed(self, function: exp.Func) -> bool:
        kind = type(function).__name__
        if kind == "Anonymous":
            return not _is_case_sensitive(function, self.dialect) and function.name.lower() in listed(self.dialect)
        if kind in _NAMELESS:
            return self.dialect == "clickhouse"  # its grammar of aggregates, whose names the parser checked
        return kind in known_classes()


def names_of(function: exp.Func, dialect: str) -> tuple[str, ...]:
    """Return the names a function is called by, in lower case, the one of the dialect first."""
    if type(function).__name__ == "Anonymous" or type(function).__name__ in _NAMELESS:
        return (function.name.lower(),)
    written = _CALLED.match(function.sql(dialect))
    known = tuple(name.lower() for name in type(function).sql_names())
    return ((written[1].lower(), *known) if written else known) or (type(function).__name__.lower(),)


def place_of(function: exp.Func) -> str:
    """Return the schema a function is named with (`public`, `db.schema`), in lower case; empty for none."""
    from sqlglot import exp

    parent = function.parent
    if isinstance(parent, exp.Table) and parent.this is function:
        return ".".join(part.name.lower() for part in (parent.args.get("catalog"), parent.args.get("db")) if part)
    if isinstance(parent, exp.Dot) and parent.expression is function:
        return ".".join(_path(parent.this)).lower()
    return ""


def _path(node: exp.Expr) -> Iterator[str]:
    """Yield the names of `a.b` in `a.b.f(x)`; none where the left is a value, as in `'x'.upper()`."""
    from sqlglot import exp

    if isinstance(node, exp.Dot):
        yield from _path(node.this)
        yield from _path(node.expression)
    elif isinstance(node, exp.Identifier):
        yield node.name
    elif isinstance(node, exp.Column):
        yield from (part.name for part in node.parts)


def _is_case_sensitive(function: exp.Func, dialect: str) -> bool:
    """Whether a quoted name is another function than the listed one: servers keep its case."""
    from sqlglot import exp

    name = function.this
    quoted = isinstance(name, exp.Identifier) and bool(name.args.get("quoted"))
    return quoted and name.name != name.name.lower() and dialect in ("postgres", "redshift", "trino")


@functools.cache
def listed(dialect: str) -> frozenset[str]:
    """Return the names on a dialect's list, in lower case."""
    return frozenset(word.lower() for name in (dialect, *_ALSO.get(dialect, ())) for word in _read(name))


@functools.cache
def known_classes() -> frozenset[str]:
    """Return the parser's function classes that only compute."""
    return frozenset(_read("known"))


def _read(name: str) -> list[str]:
    return read_words(f"functions/{name}.txt")
