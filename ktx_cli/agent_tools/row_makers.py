"""Statements that make rows out of values: how many rows there are then tells a value, so a count is no count.

What remains is inherent: a condition makes every count an answer about the rows it keeps. See docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ktx_cli.core import one_line
from ktx_cli.semantic import silence_parser
from ktx_cli.warehouses import Dialect, dialect_named

SETS: Final = frozenset(
    (
        *("unnest", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"),
        *("arrayjoin", "flatten", "generate_series", "generate_subscripts", "regexp_matches", "regexp_split_to_table"),
        *("string_to_table", "split_to_table", "json_array_elements", "json_array_elements_text", "json_each"),
        *("json_each_text", "json_object_keys", "json_populate_recordset", "json_to_recordset", "json_tree"),
        *("jsonb_array_elements", "jsonb_array_elements_text", "jsonb_each", "jsonb_each_text", "jsonb_object_keys"),
        *("jsonb_path_query", "jsonb_path_query_tz", "jsonb_populate_recordset", "jsonb_to_recordset", "ts_parse"),
        *("ts_token_type", "ts_debug", "ts_stat", "aclexplode", "unpivot", "variant_explode", "json_tuple"),
    )
)
"""Functions that give several rows wherever they stand; in FROM every function may."""


def rows_of_values(sql: str, dialect: str) -> str | None:
    """Return what in a statement makes as many rows as a value says, None where nothing does.

    A text nobody can read makes none: it is not run.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect or None) if tree is not None]
        found = next((node for tree in trees for node in _makers(tree, dialect_named(dialect))), None)
        return None if found is None else one_line(found.sql(dialect or None), 80)
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        return None


def _makers(tree: Any, syntax: Dialect) -> Iterator[Any]:
    from sqlglot import exp

    for node in tree.walk():
        if isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
            counts = (node.args.get(key) for key in ("expression", "offset", "count"))
            if not all(_is_constant(each) for each in counts if isinstance(each, exp.Expression)):
                yield node
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            continue  # a query, whose own parts come by themselves
        elif isinstance(node, exp.TableSample | exp.Lateral | exp.Unnest):
            if not _is_constant(node):
                yield node
        elif isinstance(node, exp.Table):
            if _is_made(node.this) or _is_path_of_another(node, syntax):
                yield node
        elif isinstance(node, exp.CTE):
            if _recurs(node) and not _is_bounded(node):
                yield node
        elif isinstance(node, exp.Connect) or (isinstance(node, exp.Join) and "ARRAY" in _words(node)):
            yield node
        elif isinstance(node, exp.TableFromRows | exp.JSONTable | exp.OpenJSON | exp.XMLTable):
            if not _is_constant(node):
                yield node
        elif isinstance(node, exp.Dot | exp.Column):
            if syntax.attributes_call and _names_a_set(node):
                yield node
        elif isinstance(node, exp.Func) and _gives_rows(node, syntax) and not _is_constant(node):
            yield node


def _words(join: Any) -> str:
    return " ".join(str(join.args.get(key) or "").upper() for key in ("kind", "side", "method"))


def _is_made(what: Any) -> bool:
    """Whether what stands for a table is a function whose arguments are not all written in the statement."""
    from sqlglot import exp

    return isinstance(what, exp.Func) and not _is_constant(what)


def _is_path_of_another(table: Any, syntax: Dialect) -> bool:
    """Whether a table is a list in a row of another one, as BigQuery writes `FROM t, t.list`."""
    from sqlglot import exp

    parts = [part.name.casefold() for part in table.parts]
    if not syntax.reads_lists_by_path or len(parts) < 2 or table.parent_select is None:
        return False
    others = (each for each in table.parent_select.find_all(exp.Table, exp.Subquery, exp.CTE) if each is not table)
    return parts[0] in {each.alias_or_name.casefold() for each in others}


def _names_a_set(node: Any) -> bool:
    """Whether Postgres may take `(value).unnest` or `row.unnest` for a call."""
    from sqlglot import exp

    name = node.expression if isinstance(node, exp.Dot) else node.this if node.args.get("table") else None
    return isinstance(name, exp.Identifier) and name.name.casefold() in SETS


def _gives_rows(function: Any, syntax: Dialect) -> bool:
    from sqlglot import exp

    if isinstance(function, exp.Explode | exp.Unnest | exp.Inline):
        return True
    if isinstance(function, exp.GenerateSeries):
        return not syntax.series_in_one_value
    if isinstance(function, exp.ExplodingGenerateSeries):
        return True
    names = (function.name,) if isinstance(function, exp.Anonymous) else function.sql_names()
    several = SETS - {"generate_series"} if syntax.series_in_one_value else SETS
    return any(name.casefold() in several for name in names)


def _is_constant(node: Any) -> bool:
    """Whether everything in a node but its alias is written in the statement."""
    from sqlglot import exp

    alias = node.args.get("alias")
    own = {id(each) for each in alias.walk()} if isinstance(alias, exp.Expression) else set()
    read = exp.Column | exp.Query | exp.Parameter | exp.Placeholder | exp.Dot
    return not any(isinstance(each, read) for each in node.walk() if id(each) not in own)


def _recurs(cte: Any) -> bool:
    from sqlglot import exp

    name = cte.alias.casefold()
    return any(each.name.casefold() == name and not each.args.get("db") for each in cte.this.find_all(exp.Table))


def _is_bounded(cte: Any) -> bool:
    """Whether a recursive query reads nothing but itself: no table, and no column but its own."""
    from sqlglot import exp

    name, body = cte.alias.casefold(), cte.this
    if any(each.name.casefold() != name for each in body.find_all(exp.Table)) or body.find(exp.Subquery):
        return False
    alias = cte.args.get("alias")
    own = {each.name.casefold() for each in (alias.args.get("columns") or ())}
    first = body.this if isinstance(body, exp.SetOperation) else body
    own |= {each.alias_or_name.casefold() for each in getattr(first, "selects", ())}
    aliases = {each.alias_or_name.casefold() for each in body.find_all(exp.Table)}
    columns = list(body.find_all(exp.Column))
    return all(c.name.casefold() in own and (not c.table or c.table.casefold() in aliases) for c in columns)
