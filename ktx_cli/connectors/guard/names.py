"""Names the schema of tables that are written without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def qualify(tree: exp.Expr, schema_of: Callable[[str], str | None]) -> None:
    """Give every table without a schema the one that `schema_of` names; names of WITH stay as they are.

    `schema_of` gets the name as the server keeps it: in lower case unless it is quoted.
    """
    from sqlglot import exp

    for table in list(tree.find_all(exp.Table)):
        if table.args.get("db") or not isinstance(table.this, exp.Identifier):
            continue
        name = table.name if table.this.args.get("quoted") else table.name.lower()
        if any(name == part for part, _ in visible_parts(table)):
            continue
        schema = schema_of(name)
        if schema is not None:
            table.set("db", exp.to_identifier(schema, quoted=True))


def visible_parts(table: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the names of WITH that a table's name may mean, each with its part, the nearest first.

    A part sees the parts before it and, where the WITH is recursive, itself and all others; the query sees all.
    """
    from sqlglot import exp

    inside: exp.Expr = table
    above = table.parent
    while above is not None:
        if isinstance(above, exp.With):
            parts = above.expressions
            known = parts if above.args.get("recursive") else parts[: _position(parts, inside)]
            yield from ((_name(part), part) for part in known)
        clause = above.args.get("with_")
        if clause is not None and inside is not clause:
            yield from ((_name(part), part) for part in clause.expressions)
        inside, above = above, above.parent


def _position(parts: list[exp.Expr], part: exp.Expr) -> int:
    return next(place for place, each in enumerate(parts) if each is part)


def _name(part: exp.Expr) -> str:
    identifier = part.args["alias"].this
    return str(identifier.name if identifier.args.get("quoted") else identifier.name.lower())
