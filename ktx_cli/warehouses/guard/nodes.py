"""The parts a statement may be made of: an allow-list of the parser's node classes, their arguments, and relations.

A class that is not named here is refused, so what a new release of the parser learns to read stays out. So are files,
stages, other servers and catalogs that hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator
from typing import Final

from ktx_cli.core import Command, Hint, SettingPath
from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect
from ktx_cli.warehouses.guard.functions import read_words, refused

ROOTS: Final = frozenset({"Select", "Union", "Except", "Intersect", "Subquery", "Values"})
"""What a statement may be."""

_SETS: Final = frozenset({"Union", "Except", "Intersect"})
"""What puts two queries together; the parser takes any expression for the first."""

NODES: Final = frozenset(read_words("nodes.txt"))
"""The node classes, functions apart."""

ARGUMENTS: Final = {
    "Select": frozenset(
        {"with_", "kind", "expressions", "distinct", "from_", "laterals", "joins", "where", "group", "having"}
        | {"qualify", "windows", "order", "limit", "offset", "match", "pivots", "prewhere", "cluster", "distribute"}
        | {"sort", "sample", "exclude", "hint", "for_", "options", "operation_modifiers"}
    ),
    "Table": frozenset(
        {"this", "alias", "db", "catalog", "laterals", "joins", "pivots", "hints", "system_time", "version"}
        | {"partition", "ordinality", "when", "only", "sample", "rows_from", "indexed"}
    ),
    "With": frozenset({"expressions", "recursive"}),
}
"""Of these classes, the arguments that may be given; of the others any."""

_KINDS: Final = {"Into": "INTO", "Lock": "a lock clause (FOR UPDATE, FOR SHARE)", "NextValueFor": "NEXT VALUE FOR"}
_ARGUMENT_NAMES: Final = {
    "into": "INTO",
    "locks": "a lock clause (FOR UPDATE, FOR SHARE)",
    "settings": "a SETTINGS clause",
    "format": "a FORMAT clause",
    "search": "a SEARCH clause",
    "pattern": "a PATTERN of files",
    "changes": "a CHANGES clause",
    "connect": "CONNECT BY",
}
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HINTS: Final = frozenset({"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READPAST", "NOEXPAND"})
_SAMPLES: Final = frozenset({"BERNOULLI", "SYSTEM", "RESERVOIR", "ROW", "BLOCK"})
_PATTERN: Final = re.compile(r"(?:(?!--)[\w\s()*+?|{},^$-])*")
_MOST_RECURSION: Final = 32_767
_MODIFIERS: Final = frozenset({"STRAIGHT_JOIN", "SQL_NO_CACHE", "SQL_SMALL_RESULT", "SQL_BIG_RESULT"})
_PARAMETERS: Final = frozenset({"Parameter", "Placeholder", "SessionParameter"})
_NAMED: Final = {"Column": "this", "Dot": "expression", "Join": "using"}
"""Where a name of a column stands."""

_SEQUENCE: Final = frozenset({"nextval", "currval"})


def require_root(tree: exp.Expr) -> None:
    """Raise unless the statement is a query."""
    name = type(tree).__name__
    if name not in ROOTS:
        words = tree.name if name in ("Command", "Column") else _CAPITAL.sub(" ", name)
        raise refused("root", f"`{words.upper()}`", "is not a query")


def require_node(node: exp.Expr, syntax: Dialect) -> None:
    """Raise unless the node is of a known class with known arguments; functions are another module's."""
    name = type(node).__name__
    if name in _PARAMETERS and not (syntax.positional_columns and _is_position(node)):
        hint = "write its value instead"
        raise refused("parameter", f"`{node.sql(syntax.name)}`", "is a parameter or a variable", hint=hint)
    if name not in NODES and name not in _PARAMETERS:
        shown = _KINDS.get(name, f"`{_CAPITAL.sub(' ', name).upper()}`")
        raise refused("construct", shown, "is not a part of a statement that only reads")
    _require_arguments(node, name)
    if name in _SETS and not {type(each).__name__ for each in (node.this, node.expression)} <= ROOTS:
        raise refused("root", f"a side of {name.upper()}", "is not a query")
    if name == "Column" and node.name.lower() in _SEQUENCE and node.args.get("table"):
        raise refused("sequence", f"`{node.sql()}`", "moves or reads a sequence")
    if name in _NAMED:
        _require_names(node, _NAMED[name])
    if name in _LOOKED_INTO:
        _LOOKED_INTO[name](node)


def _require_names(node: exp.Expr, argument: str) -> None:
    """Raise for the name of a column that is written as a text, as SQLite takes it: nothing else would see a name."""
    found = node.args.get(argument)
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, exp.Literal) and each.is_string:
            hint = f'write it as a name: "{each.name}"'
            raise refused("construct", f"`{each.sql()}`", "is a column whose name is written as a text", hint=hint)


def _require_arguments(node: exp.Expr, name: str) -> None:
    known = ARGUMENTS.get(name)
    for argument, value in node.args.items() if known is not None else ():
        if value and known is not None and argument not in known:
            shown = _ARGUMENT_NAMES.get(argument, f"`{argument.upper()}`")
            raise refused("construct", shown, "is not a part of a statement that only reads", hint="leave it out")


def _require_sample(node: exp.Expr) -> None:
    """Raise for a way of sampling that is not built in: on Postgres it is a function."""
    method = node.args.get("method")
    if method is not None and method.name.upper() not in _SAMPLES:
        raise refused("construct", f"the sampling method {method.name}", "is not built in", hint="use BERNOULLI")


def _require_pattern(node: exp.Expr) -> None:
    """Raise for a row pattern of more than names and quantifiers: the parser keeps its text as it is."""
    pattern = node.args.get("pattern")
    if pattern is not None and not _PATTERN.fullmatch(pattern.name):
        raise refused("construct", f"the row pattern `{pattern.name}`", "has more than names and quantifiers")


def _require_hints(node: exp.Expr) -> None:
    for hint in node.expressions:
        if hint.sql().upper() not in _HINTS:
            raise refused("lock", f"the table hint {hint.sql()}", "may lock", hint="leave it out")


def _is_position(node: exp.Expr) -> bool:
    """Whether a parameter is a column by its position, `$1`, as Snowflake has them."""
    return isinstance(node, exp.Parameter) and isinstance(node.this, exp.Literal) and not node.this.is_string


def _require_options(node: exp.Expr) -> None:
    """Raise for an OPTION other than a bound of recursion, and for a modifier that does more than order a join."""
    for option in node.args.get("options") or ():
        limit = option.args.get("expression")
        if option.name.upper() != "MAXRECURSION" or limit is None or not 1 <= int(limit.name) <= _MOST_RECURSION:
            why = f"is not let through, apart from MAXRECURSION 1 to {_MOST_RECURSION:,}"
            raise refused("construct", f"an OPTION clause with {option.name.upper()}", why, hint="leave it out")
    for modifier in node.args.get("operation_modifiers") or ():
        if modifier.name.upper() not in _MODIFIERS:
            why = "is not a part of a statement that only reads"
            raise refused("construct", f"{modifier.name.upper()} behind SELECT", why, hint="leave it out")


def _require_answer_form(node: exp.Expr) -> None:
    """Raise for a FOR clause that is not about the form of the answer."""
    if str(node.args.get("kind")).upper() not in ("JSON", "XML"):
        raise refused("construct", "a FOR clause", "is let through for JSON and XML alone", hint="leave it out")


def _require_values(node: exp.Expr) -> None:
    """Raise for DuckDB's PIVOT whose columns are whatever values there are: it makes a type first."""
    is_statement = node.args.get("this") is not None and not node.args.get("unpivot")
    if is_statement and not all(isinstance(expression, exp.In) for expression in node.expressions):
        hint = "name the values: PIVOT t ON status IN ('paid', 'open') USING ..."
        raise refused("construct", "PIVOT without its values", "makes a type of them, which ktx does not", hint=hint)


_LOOKED_INTO: Final[dict[str, Callable[[exp.Expr], None]]] = {
    "WithTableHint": _require_hints,
    "TableSample": _require_sample,
    "MatchRecognize": _require_pattern,
    "Select": _require_options,
    "ForClause": _require_answer_form,
    "Pivot": _require_values,
}


def require_type(node: exp.DataType, syntax: Dialect, allowed: Collection[str], connection: str) -> None:
    """Raise for a type that the parser does not know and that is not built in either, nor in `allowed`."""
    if node.this != exp.DType.USERDEFINED or syntax.own_types_are_harmless:
        return
    name = _type_name(node)
    if name.removeprefix(syntax.type_schema) not in syntax.built_in_types() and name not in allowed:
        raise refused(
            "type",
            f"the type `{name}`",
            "is not built in: a value cast to it runs functions of the database",
            hint=Hint(
                "cast to a built-in type, or add `{}` to {}",
                name,
                SettingPath(f"connections.{connection}.allowed_functions"),
            ),
            type=name,
        )


def _type_name(node: exp.DataType) -> str:
    """Return a type's name with its schema, in lower case but for what is quoted."""
    kind = node.args.get("kind")
    if not isinstance(kind, exp.Expr):
        return str(kind).lower()
    parts = list(kind.find_all(exp.Identifier))
    return ".".join(part.name if part.args.get("quoted") else part.name.lower() for part in parts)


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
    hint = syntax.catalog_hint
    return refused("catalog", f"`{'.'.join(parts)}`", "is a closed part of the system's catalog", hint=hint)


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
