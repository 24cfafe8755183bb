"""The relations a statement may name: no files, no stages, no other servers, no catalogs that hold secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from typing import Final

from ktx_cli.core import Command, Hint
from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect
from ktx_cli.warehouses.guard.errors import refused

_OUTSIDE: Final = re.compile(r"://|^[/~\\@]|^[A-Za-z]:[\\/]|(^|[/\\])\.\.?([/\\]|$)|[*?\[]|^s3:|^gs:|^dbfs:")
_DATA_FILE: Final = re.compile(
    r"\.(csv|tsv|parquet|json|jsonl|ndjson|txt|xlsx|db|duckdb|sqlite|arrow|ipc|orc|avro|py|yaml|yml)(\.(gz|zst|bz2))?$",
    re.IGNORECASE,
)
_FILE_HINT: Final = Hint("name a table; if this is one, `{}` makes its name known", Command("scan"))


def require_row_function(rows: exp.TableFromRows) -> None:
    """Raise unless what stands in TABLE(...) is a function: a text in it names a table."""
    if not isinstance(rows.this, exp.Func | exp.Dot):
        raise refused("table", f"`{rows.sql()}`", "names a table by a text", hint="name the table itself")


def require_table(table: exp.Table, syntax: Dialect, known: Container[str]) -> None:
    """Raise for a relation that is no table of this database, or one that holds secrets; `known` are its own names."""
    if isinstance(table.this, exp.Func) or table.args.get("rows_from"):
        return  # the lists of functions decide
    if not isinstance(table.this, exp.Identifier):
        raise refused("table", f"`{table.sql()}`", "is not the name of a table")
    parts = [part.name for part in table.parts]
    if syntax.dotted_names:
        parts = [name for part in parts for name in part.split(".")]
    if len(parts) > 3:
        raise refused("table", f"`{'.'.join(parts)}`", "is a table of another server")
    if syntax.files_are_tables and ".".join(parts) not in known and _is_file(parts, syntax):
        raise refused("file", f"`{'.'.join(parts)}`", "is a file, not a table of this connection", hint=_FILE_HINT)
    _require_open(parts, syntax)


def _is_file(parts: list[str], syntax: Dialect) -> bool:
    name = parts[-1]
    if len(parts) > 1 and parts[-2].lower() in syntax.file_formats:
        return True
    return bool(_OUTSIDE.search(name)) or (len(parts) == 1 and bool(_DATA_FILE.search(name)))


def _require_open(parts: list[str], syntax: Dialect) -> None:
    """Raise for a relation of a system schema that is not on the list of open ones."""
    system = syntax.system
    if system is None:
        return
    folded = [part.lower() for part in parts]
    name, places = folded[-1], folded[:-1]
    if places and places[-1] == "information_schema":
        if system.is_closed_information(name):
            raise _closed(parts, syntax)
    elif places and any(place in system.schemas for place in places):
        if name not in system.open:
            raise _closed(parts, syntax)
    elif (
        not (places and system.schemas) and system.prefix and name.startswith(system.prefix) and name not in system.open
    ):
        raise _closed(parts, syntax)
    if name in system.names:
        raise _closed(parts, syntax)


def _closed(parts: list[str], syntax: Dialect) -> Exception:
    return refused(
        "catalog", f"`{'.'.join(parts)}`", "is a closed part of the system's catalog", hint=syntax.catalog_hint
    )


def qualify(tree: exp.Expr, schema_of: Callable[[str], str | None]) -> None:
    """Give every table without a schema the one that `schema_of` names; names of WITH stay as they are.

    `schema_of` gets the name as the server keeps it: in lower case unless it is quoted.
    """
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
