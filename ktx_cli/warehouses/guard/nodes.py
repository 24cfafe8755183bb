"""The permitted parts of a statement: an allow-list of the parser's node classes, arguments, and relations.

A class that is not listed is refused, so that new syntax in a new release of the parser stays excluded. Files, stages,
other servers and catalogs with secrets are refused too.
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
"""The node classes permitted for a whole statement."""

_SETS: Final = frozenset({"Union", "Except", "Intersect"})
"""Classes that combine two queries; the parser accepts any expression as the first."""

NODES: Final = frozenset(read_words("nodes.txt"))
"""The allowed node classes, except functions."""

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
"""The allowed arguments of some classes; other classes may have any arguments."""

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
"""The contexts in which a column name may appear."""

_SEQUENCE: Final = frozenset({"nextval", "currval"})


def require_root(tree: exp.Expr) -> None:
    """Raise an error unless the statement is a query."""
    name = type(tree).__name__
    if name not in ROOTS:
        words = tree.name if name in ("Command", "Column") else _CAPITAL.sub(" ", name)
        raise refused("root", f"`{words.upper()}`", "is not a query")


def require_node(node: exp.Expr, syntax: Dialect) -> None:
    """Raise an error unless the node has a known class and known arguments; functions are checked elsewhere."""
    name = type(node).__name__
    if name in _PARAMETERS and not (syntax.positional_columns and _is_position(node)):
        hint = "write its value instead"
        raise refused("parameter", f"`{node.sql(syntax.name)}`", "is a parameter or a variable", hint=hint)
    if name not in NODES and name not in _PARAMETERS:
        shown = _KINDS.get(name, f"`{_CAPITAL.sub(' ', name).upper()}`")
        raise refused("construct", shown, "is not allowed in a read-only statement")
    _require_arguments(node, name)
    if name in _SETS and not {type(each).__name__ for each in (node.this, node.expression)} <= ROOTS:
        raise refused("root", f"one side of {name.upper()}", "is not a query")
    if name == "Column" and node.name.lower() in _SEQUENCE and node.args.get("table"):
        raise refused("sequence", f"`{node.sql()}`", "moves or reads a sequence")
    if name in _NAMED:
        _require_names(node, _NAMED[name])
    if name in _LOOKED_INTO:
        _LOOKED_INTO[name](node)
    if isinstance(node, exp.In):
        _require_no_table(node, syntax)


def _require_no_table(node: exp.In, syntax: Dialect) -> None:
    """Raise an error for a table after IN, because no other check would see it."""
    parts = table_after_in(node, syntax)
    if parts is not None:
        name = ".".join(each.name for each in parts)
        why = f"may be a table, which {syntax.title} would read"
        raise refused("table", f"`{name}` after IN", why, hint=f"write IN (SELECT ... FROM {name}), or list the values")


def table_after_in(node: exp.In, syntax: Dialect) -> list[exp.Expr] | None:
    """Return the parts of the name that a database takes for a table in `x IN t`, or None."""
    forms, named, listed = syntax.tables_after_in, node.args.get("field"), node.expressions
    if named is None and len(listed) == 1 and "(t)" in forms:
        named = listed[0].unnest()
    if isinstance(named, exp.Literal):
        return [exp.to_identifier(named.name, quoted=True)] if named.is_string and "'t'" in forms else None
    if isinstance(named, exp.Column | exp.Dot):
        return [each for each in named.parts if isinstance(each, exp.Identifier)] if "t" in forms else None
    return None


def _require_names(node: exp.Expr, argument: str) -> None:
    """Raise an error for a column name written as a string, as SQLite allows, because other checks would miss it."""
    found = node.args.get(argument)
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, exp.Literal) and each.is_string:
            hint = f'write it as a name: "{each.name}"'
            raise refused("construct", f"`{each.sql()}`", "is a column name written as a string", hint=hint)


def _require_arguments(node: exp.Expr, name: str) -> None:
    known = ARGUMENTS.get(name)
    for argument, value in node.args.items() if known is not None else ():
        if value and known is not None and argument not in known:
            shown = _ARGUMENT_NAMES.get(argument, f"`{argument.upper()}`")
            raise refused("construct", shown, "is not allowed in a read-only statement", hint="remove it")


def _require_sample(node: exp.Expr) -> None:
    """Raise an error for a sampling method that is not built in; on Postgres it is a function."""
    method = node.args.get("method")
    if method is not None and method.name.upper() not in _SAMPLES:
        raise refused("construct", f"the sampling method {method.name}", "is not built in", hint="use BERNOULLI")


def _require_pattern(node: exp.Expr) -> None:
    """Raise an error for a row pattern that contains more than names and quantifiers, because the parser keeps its text
    unchanged.
    """
    pattern = node.args.get("pattern")
    if pattern is not None and not _PATTERN.fullmatch(pattern.name):
        raise refused("construct", f"the row pattern `{pattern.name}`", "contains more than names and quantifiers")


def _require_hints(node: exp.Expr) -> None:
    for hint in node.expressions:
        if hint.sql().upper() not in _HINTS:
            raise refused("lock", f"the table hint {hint.sql()}", "may take locks", hint="remove it")


def _is_position(node: exp.Expr) -> bool:
    """Return whether a parameter is a column by position (`$1`), as in Snowflake."""
    return isinstance(node, exp.Parameter) and isinstance(node.this, exp.Literal) and not node.this.is_string


def _require_options(node: exp.Expr) -> None:
    """Raise an error for an OPTION other than MAXRECURSION, and for modifiers other than a join order."""
    for option in node.args.get("options") or ():
        limit = option.args.get("expression")
        if option.name.upper() != "MAXRECURSION" or limit is None or not 1 <= int(limit.name) <= _MOST_RECURSION:
            why = f"is not allowed, except for MAXRECURSION 1 to {_MOST_RECURSION:,}"
            raise refused("construct", f"an OPTION clause with {option.name.upper()}", why, hint="remove it")
    for modifier in node.args.get("operation_modifiers") or ():
        if modifier.name.upper() not in _MODIFIERS:
            why = "is not allowed in a read-only statement"
            raise refused("construct", f"{modifier.name.upper()} after SELECT", why, hint="remove it")


def _require_answer_form(node: exp.Expr) -> None:
    """Raise an error for a FOR clause that does not concern the result format."""
    if str(node.args.get("kind")).upper() not in ("JSON", "XML"):
        raise refused("construct", "a FOR clause", "is only allowed for JSON and XML", hint="remove it")


def _require_values(node: exp.Expr) -> None:
    """Raise an error for DuckDB's PIVOT without listed values, because it first creates a type."""
    is_statement = node.args.get("this") is not None and not node.args.get("unpivot")
    if is_statement and not all(isinstance(expression, exp.In) for expression in node.expressions):
        hint = "list the values: PIVOT t ON status IN ('paid', 'open') USING ..."
        raise refused(
            "construct", "PIVOT without its values", "creates a type for them, which ktx does not allow", hint=hint
        )


_LOOKED_INTO: Final[dict[str, Callable[[exp.Expr], None]]] = {
    "WithTableHint": _require_hints,
    "TableSample": _require_sample,
    "MatchRecognize": _require_pattern,
    "Select": _require_options,
    "ForClause": _require_answer_form,
    "Pivot": _require_values,
}


def require_type(node: exp.DataType, syntax: Dialect, allowed: Collection[str], connection: str) -> None:
    """Raise an error for a type that is neither known to the parser, nor built in, nor in `allowed`."""
    if node.this != exp.DType.USERDEFINED or syntax.own_types_are_harmless:
        return
    name = _type_name(node)
    if name.removeprefix(syntax.type_schema) not in syntax.built_in_types() and name not in allowed:
        raise refused(
            "type",
            f"the type `{name}`",
            "is not built in: a cast to it runs functions of the database",
            hint=Hint(
                "cast to a built-in type, or add `{}` to {}",
                name,
                SettingPath(f"connections.{connection}.allowed_functions"),
            ),
            type=name,
        )


def _type_name(node: exp.DataType) -> str:
    """Return a type's name with its schema, in lower case unless it is quoted."""
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
_FILE_HINT: Final = Hint("use a table name; if this is one, `{}` makes it known", Command("scan"))


def require_row_function(rows: exp.TableFromRows) -> None:
    """Raise an error unless the content of TABLE(...) is a function, because a string in it names a table."""
    if not isinstance(rows.this, exp.Func | exp.Dot):
        raise refused("table", f"`{rows.sql()}`", "names a table in a string", hint="use the table's name directly")


def require_table(table: exp.Table, syntax: Dialect, known: Container[str]) -> None:
    """Raise an error for a relation that is not a table of this database or contains secrets. `known`: known table
    names.
    """
    if isinstance(table.this, exp.Func) or table.args.get("rows_from"):
        return  # The lists of functions decide.
    if not isinstance(table.this, exp.Identifier):
        raise refused("table", f"`{table.sql()}`", "is not the name of a table")
    parts = [part.name for part in table.parts]
    if syntax.dotted_names:
        parts = [name for part in parts for name in part.split(".")]
    if len(parts) > 3:
        raise refused("table", f"`{'.'.join(parts)}`", "is a table on another server")
    if syntax.files_are_tables and ".".join(parts) not in known and _is_file(parts, syntax):
        raise refused("file", f"`{'.'.join(parts)}`", "is a file, not a table of this connection", hint=_FILE_HINT)
    _require_open(parts, syntax)


def _is_file(parts: list[str], syntax: Dialect) -> bool:
    name = parts[-1]
    if len(parts) > 1 and parts[-2].lower() in syntax.file_formats:
        return True
    return bool(_OUTSIDE.search(name)) or (len(parts) == 1 and bool(_DATA_FILE.search(name)))


def _require_open(parts: list[str], syntax: Dialect) -> None:
    """Raise an error for a system schema relation that is not on the list of open ones."""
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
    return refused("catalog", f"`{'.'.join(parts)}`", "is a closed part of the system catalog", hint=hint)


def qualify(tree: exp.Expr, schema_of: Callable[[str], str | None]) -> None:
    """Give every unqualified table the schema that `schema_of` returns; names from WITH are unchanged.

    `schema_of` gets the name as the server stores it: in lower case unless it is quoted.
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
    """Yield the names in WITH that a table's name may refer to, each with its part, starting with the nearest.

    A part sees the parts before it and, if the WITH is recursive, itself and all others; the query sees all.
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
