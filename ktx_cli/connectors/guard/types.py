"""The types a value may be cast to: built-in ones, for a type of a database's own may run its functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from ktx_cli.connectors.guard.errors import refused
from ktx_cli.connectors.guard.lists import read_words

if TYPE_CHECKING:
    from sqlglot import exp

_HARMLESS: Final = frozenset({"sqlite", "duckdb"})
"""Dialects whose own types hold no code: an affinity, an enumeration, another name of a built-in type."""

_BUILT_IN: Final = {
    "postgres": frozenset(read_words("types_postgres.txt")),
    "redshift": frozenset(read_words("types_postgres.txt")),
    "tsql": frozenset({"sysname", "hierarchyid", "sql_variant", "geometry", "geography", "timestamp", "rowversion"}),
}


def require_type(node: exp.DataType, dialect: str, allowed: Collection[str], connection: str) -> None:
    """Raise for a type that the parser does not know and that is not built in either, nor in `allowed`."""
    from sqlglot import exp

    if node.this != exp.DType.USERDEFINED or dialect in _HARMLESS:
        return
    name = _name(node)
    plain = name.removeprefix("pg_catalog.") if dialect in ("postgres", "redshift") else name.removeprefix("sys.")
    if plain not in _BUILT_IN.get(dialect, ()) and name not in allowed:
        raise refused(
            "type",
            f"the type `{name}`",
            "is not built in: a value cast to it runs functions of the database",
            hint=f"cast to a built-in type, or add `{name}` to connections.{connection}.allowed_functions",
            type=name,
        )


def _name(node: exp.DataType) -> str:
    """Return a type's name with its schema, in lower case but for what is quoted."""
    from sqlglot import exp

    kind = node.args.get("kind")
    if not isinstance(kind, exp.Expr):
        return str(kind).lower()
    parts = list(kind.find_all(exp.Identifier))
    return ".".join(part.name if part.args.get("quoted") else part.name.lower() for part in parts)
