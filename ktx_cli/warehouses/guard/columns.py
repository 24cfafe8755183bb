"""Check qualified columns on Postgres and Redshift, which read `x.f` as `f(x)` if `x` has no column `f`.

A name that is not a column of its table, query or function is refused. If the columns are unknown (a base table, or `*`
of one), the value is a row, which only few functions accept: their names are refused.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ktx_cli.core import did_you_mean, listing
from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect
from ktx_cli.warehouses.guard.functions import FunctionList, names_of, refused
from ktx_cli.warehouses.guard.nodes import visible_parts

_VALUES_AS_TABLES: Final = frozenset(
    {"current_catalog", "current_date", "current_role", "current_schema", "current_time", "current_timestamp"}
    | {"current_user", "localtime", "localtimestamp", "session_user", "system_user", "user"}
)
"""Words in FROM that the parser reads as tables, but Postgres as functions that return one value."""

_ROW_PREFIXES: Final = ("pg_", "lo_", "binary_upgrade_")
_ROW_FUNCTIONS: Final = frozenset(
    {"any_out", "anycompatible_out", "anycompatiblenonarray_out", "anyelement_out", "anynonarray_out", "hash_record"}
    | {"record_out", "record_send", "hash_record_extended"}
    | {"brin_summarize_new_values", "currval", "gin_clean_pending_list", "nextval", "querytree", "row_security_active"}
    | {"amvalidate", "plpgsql_validator", "set_config", "setseed", "ts_stat", "txid_status"}
)
"""Unlisted functions that accept a row, or do more than compute and would accept one through a user-defined cast.
`bernoulli`, `system` and the input and output functions of types accept no row, and are common column names.
"""


_LOWER: Final = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
_LONGEST_NAME: Final = 63
"""The number of significant bytes in a Postgres name; in Redshift, it is 127."""

_ANY: Final = ""
"""Replaces a function name in FROM that the server spells differently: `ltrim` for TRIM(LEADING ...)."""

_BEHIND_FROM: Final = frozenset({"from_", "joins", "laterals", "with_"})
"""The parts of a SELECT in which not all of its FROM items are visible."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item in FROM. `columns`: the known columns. `complete`: whether there are no others."""

    columns: frozenset[str]
    complete: bool = False
    is_function: bool = False


def is_row_function(name: str) -> bool:
    """Return whether `row.name` may call a function that is not on the list of harmless functions."""
    return name in _ROW_FUNCTIONS or name.startswith(_ROW_PREFIXES)


def require_columns(tree: exp.Expr, functions: FunctionList) -> None:
    """Raise an error for a qualified column, or an attribute of a value, that would call a function."""
    if not functions.syntax.attributes_call:
        return
    scopes = _Scopes(functions.syntax)
    for node in tree.find_all(exp.Column, exp.Dot):
        if isinstance(node, exp.Dot):
            _require_attribute(node, functions)
        elif isinstance(node.this, exp.Identifier) and node.args.get("table"):
            _require_column(node, scopes)


def _require_attribute(node: exp.Expr, functions: FunctionList) -> None:
    """Raise an error for `(value).name` if it may call a function `name` that is not allowed."""
    if not isinstance(node.expression, exp.Identifier) or isinstance(node.parent, exp.DataType):
        return
    name = node.expression.name.lower()
    if name not in functions.names | functions.allowed or name == "current_setting":
        raise refused(
            "attribute",
            f"`.{name}` after an expression",
            f"calls the function `{name}` if it exists",
            hint=f"qualify the column with its table (t.{name}), or add `{name}` to allowed_functions",
        )


def _require_column(column: exp.Expr, scopes: _Scopes) -> None:
    name, table = scopes.folded(column.this), scopes.folded(column.args["table"])
    has_schema = bool(column.args.get("db"))  # So it refers to a table, never to a function in FROM.
    found = [] if has_schema else scopes.items(column, table)
    for item in found:
        if name in item.columns and not (item.is_function and is_row_function(name)):
            continue
        if item.complete:
            raise _no_column(column, item)
        if is_row_function(name):
            raise _call(column)
    if not found and (is_row_function(name) or (not has_schema and scopes.has_functions(column))):
        raise _call(column)


def _no_column(column: exp.Expr, item: _Item) -> Exception:
    """Return the error for a column that does not exist in its table and is therefore a call."""
    known, table = sorted(item.columns), column.args["table"].name
    near = did_you_mean(column.name, known)
    if near:
        hint = f"did you mean `{table}.{near}`?"
    elif item.is_function:
        hint = f"write `{column.name}` without a table, or name the columns in FROM: ... AS {table}(a, b)"
    else:
        hint = f"the columns of `{table}` are {listing(known)}"
    why = f"is not a column of `{table}`, so the database would call the function `{column.name}`"
    return refused("attribute", f"`{column.sql()}`", why, hint=hint, function=column.name.lower())


def _call(column: exp.Expr) -> Exception:
    return refused(
        "attribute",
        f"`{column.sql()}`",
        f"may call the function `{column.name}`",
        hint=f"if it is a column, write it without its table: {column.name}",
        function=column.name.lower(),
    )


class _Scopes:
    """Resolves the item that a name before a dot may refer to."""

    def __init__(self, syntax: Dialect) -> None:
        self.syntax = syntax
        self._known: dict[int, list[tuple[frozenset[str], _Item]]] = {}
        self._has_functions: bool | None = None

    def folded(self, identifier: exp.Expr) -> str:
        """Return a name as the server compares it, changing only ASCII letters."""
        quoted = bool(identifier.args.get("quoted")) and self.syntax.keeps_quoted_case
        return str(identifier.name if quoted else identifier.name.translate(_LOWER))

    def items(self, column: exp.Expr, name: str) -> list[_Item]:
        """Return the items that `name` may refer to in a column's position.

        In SELECT, WHERE and the later clauses, all items in FROM are visible, so the nearest SELECT with an item of
        that name decides. In FROM itself, and in WITH, it may be an item of an outer SELECT. Items before that one
        count too if the server may treat their names as equal, because it truncates long names and may fold others.
        """
        result: list[_Item] = []
        inside: exp.Expr = column
        above = column.parent
        alike = comparable_name(name)
        while above is not None:
            if isinstance(above, exp.Select) or _is_join(above):
                own = self._of(above)
                is_sure = any(name in names for names, _ in own)
                for names, item in own:
                    if alike in map(comparable_name, names) or (_ANY in names and not is_sure):
                        result.append(item)
                if is_sure and isinstance(above, exp.Select) and inside.arg_key not in _BEHIND_FROM:
                    break
            inside, above = above, above.parent
        return result

    def has_functions(self, column: exp.Expr) -> bool:
        """Whether any SELECT in the statement has a function in FROM."""
        if self._has_functions is None:
            selects = column.root().find_all(exp.Select, exp.Subquery)
            items = (item for select in selects if not _is_named(select) for _, item in self._of(select))
            self._has_functions = any(item.is_function for item in items)
        return self._has_functions

    def _of(self, select: exp.Expr) -> list[tuple[frozenset[str], _Item]]:
        """Return the items in FROM, or in a join in parentheses, each with its possible names."""
        if id(select) not in self._known:
            self._known[id(select)] = [(self._names(node), self._item(node)) for node in _from_items(select)]
        return self._known[id(select)]

    def _names(self, node: exp.Expr) -> frozenset[str]:
        alias = node.args.get("alias")
        if alias is not None and alias.this:
            return frozenset({self.folded(alias.this)})
        inner = _inner(node)
        if self._is_path(inner):
            return frozenset(self.folded(name) for name in _column_names(node))
        if _is_table(inner):
            return frozenset({self.folded(inner.this)})
        called = None if inner.args.get("rows_from") else _called(inner)
        if called is None:
            return frozenset() if isinstance(inner, exp.Subquery | exp.Values) else frozenset({_ANY})
        certain = isinstance(called, exp.Anonymous | exp.Unnest | exp.GenerateSeries)
        return frozenset(names_of(called, self.syntax.name)) | (frozenset() if certain else {_ANY})

    def _item(self, node: exp.Expr) -> _Item:
        """Return the known columns of one FROM item."""
        inner = _inner(node)
        renamed = [self.folded(name) for name in _column_names(node)]
        if isinstance(inner, exp.Values):
            first = inner.expressions[0]
            width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
            return _renamed([f"column{number}" for number in range(1, width + 1)], renamed)
        if isinstance(inner, exp.Subquery):
            return _renamed([None] if _is_join(inner) else self._outputs(inner.this), renamed)
        if _is_table(inner) and not _is_value(inner):
            part = _part(inner)
            names = renamed or [self.folded(name) for name in _column_names(part)]
            return _renamed([None] if part is None else self._outputs(part.this), names)
        return _Item(frozenset()) if self._is_path(inner) else self._of_function(node, renamed)

    def _is_path(self, node: exp.Expr) -> bool:
        """Return whether a FROM item is a path (`FROM orders AS o, o.lines AS l`), which the parser reads as UNNEST."""
        if not self.syntax.unnests_paths or not isinstance(node, exp.Unnest) or _is_named(node):
            return False
        return all(isinstance(expression, exp.Column) for expression in node.expressions)

    def _of_function(self, node: exp.Expr, renamed: list[str]) -> _Item:
        """Return the columns of a function in FROM, or of several functions in ROWS FROM."""
        inner = _inner(node)
        several = inner.args.get("rows_from") or [inner]
        columns = set(renamed)
        for each in several:
            called = _called(each)
            names = names_of(called, self.syntax.name) if called is not None else ()
            own = {column for name in names for column in self.syntax.function_columns().get(name, ())}
            own |= {self.folded(column) for column in (*_column_names(each), *_table_columns(called))}
            columns |= own
            if not renamed and (
                not own or "unnest" in names
            ):  # Only unnest has its own columns, or one without a name.
                columns |= self._names(node) if len(several) == 1 else set(names)
        for each in (node, inner, *several):
            columns |= {self.folded(offset) for offset in _offsets(each)}
        return _Item(frozenset(columns | {"ordinality"}), complete=True, is_function=True)

    def _outputs(self, query: exp.Expr) -> list[str | None]:
        """Return a query's column names in order, with None for unknown ones."""
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return [None]
        return [self._output(item) for item in query.expressions]

    def _output(self, item: exp.Expr) -> str | None:
        if isinstance(item, exp.Alias):
            return self.folded(item.args["alias"])
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier):
            return self.folded(item.this)
        return None


def _renamed(outputs: list[str | None], renamed: list[str]) -> _Item:
    """Return a query's columns with the first ones renamed."""
    if None in outputs and renamed:
        return _Item(frozenset(renamed))
    kept = [*renamed, *outputs[len(renamed) :]]
    return _Item(frozenset(each for each in kept if each is not None), complete=None not in outputs)


def _from_items(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the items that are visible by name in FROM, which excludes items inside a named join."""
    if isinstance(select, exp.Subquery):
        yield from _joined(select.this)
        yield from _joins(select)
        return
    clause = select.args.get("from_")
    if clause is not None:
        yield from _joined(clause.this)
    yield from _joins(select)


def _joined(node: exp.Expr) -> Iterator[exp.Expr]:
    if _is_join(node) and not _is_named(node):
        yield from _from_items(node)
    else:
        yield node
        yield from _joins(node)


def _joins(node: exp.Expr) -> Iterator[exp.Expr]:
    for join in node.args.get("joins") or ():
        yield from _joined(join.this)
    for lateral in node.args.get("laterals") or ():
        yield from _joined(lateral)


def _is_join(node: exp.Expr) -> bool:
    """Return whether an item is `(a JOIN b ...)` or a table, in any number of parentheses."""
    if not isinstance(node, exp.Subquery):
        return False
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return _is_named(inner) or bool(inner.args.get("joins") or inner.args.get("laterals")) or _is_join(inner)
    return not isinstance(inner, exp.Query)


def comparable_name(name: str) -> str:
    """Return a form of a name that is equal if a server may treat names as equal: Postgres uses only 63 bytes."""
    return name.encode("utf-8", "surrogatepass")[:_LONGEST_NAME].decode("utf-8", "ignore").casefold()


def _is_named(node: exp.Expr) -> bool:
    alias = node.args.get("alias")
    return alias is not None and bool(alias.this)


def _inner(node: exp.Expr) -> exp.Expr:
    """Return an item without the LATERAL around it."""
    return node.this if isinstance(node, exp.Lateral) else node


def _is_table(node: exp.Expr) -> bool:
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("rows_from")


def _is_value(table: exp.Expr) -> bool:
    """Return whether an item that the parser reads as a table is a word that Postgres reads as a function."""
    quoted = bool(table.this.args.get("quoted"))
    return not quoted and not table.args.get("db") and table.name.lower() in _VALUES_AS_TABLES


def _part(table: exp.Expr) -> exp.Expr | None:
    """Return the part of WITH that a table name refers to."""
    if table.args.get("db"):
        return None
    name = table.name if table.this.args.get("quoted") else table.name.lower()
    return next((part for known, part in visible_parts(table) if known == name), None)


def _called(node: exp.Expr) -> exp.Func | None:
    """Return the function in a FROM item."""
    inner = _inner(node)
    if isinstance(inner, exp.Func):
        return inner
    found = inner.this if isinstance(inner, exp.Table) else inner
    found = found.expression if isinstance(found, exp.Dot) else found
    return found if isinstance(found, exp.Func) else None


def _column_names(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the names that an alias gives to columns, including those with a type."""
    alias = node.args.get("alias") if node is not None else None
    columns = alias.args.get("columns") or () if alias is not None else ()
    return [column.this if isinstance(column, exp.ColumnDef) else column for column in columns]


def _table_columns(called: exp.Func | None) -> Iterator[exp.Expr]:
    """Yield the column names of XMLTABLE and JSON_TABLE, which are inside their arguments."""
    if isinstance(called, exp.XMLTable):
        yield from (each.this for each in called.args.get("columns") or () if isinstance(each, exp.ColumnDef))
    elif isinstance(called, exp.JSONTable):
        yield from (node.this for node in called.find_all(exp.JSONColumnDef) if isinstance(node.this, exp.Identifier))


def _offsets(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the name that WITH ORDINALITY gives its column."""
    offset = node.args.get("offset")
    if isinstance(offset, exp.Identifier):
        yield offset
