"""What a SQL statement reads: the collections, their columns, and whether a few documents are enough to answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.faces import exp
from ktx_cli.warehouses.base import leading_keyword
from ktx_cli.warehouses.guard.check import silence_parser
from ktx_cli.warehouses.port import TableRef

Mode = Literal["all", "count", "first", "sample", "structure"]
"""How much of a table a statement needs: `all` documents, their `count`, the `first` ones in any order, a `sample`, or
none (`structure`).
"""

Resolve = Callable[[str, str], TableRef | None]

_CATALOGS: Final = frozenset({"information_schema", "pg_catalog"})

_INERT: Final = frozenset({"this", "kind", "from", "from_", "expressions", "limit", "sample", "hint"})
"""The parts of a SELECT that do not change which rows or how many of them it needs."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a statement needs of one table.

    `columns`: the names that it may mean, folded, or None for all. `rows`, `seed`: of `first` and `sample`. `label`:
    the name of the result of a count.
    """

    ref: TableRef
    columns: frozenset[str] | None
    mode: Mode = "all"
    rows: int = 0
    seed: int = 0
    label: str = ""


def readings(sql: str, resolve: Resolve) -> list[Reading]:
    """Return what a statement reads, or nothing unless it is a single query, which DuckDB reports or refuses.

    `resolve` returns the table of a schema (empty for none) and a name, or None.
    """
    word, behind = leading_keyword(sql)
    tree = _query(sql[behind:] if word == "EXPLAIN" else sql)
    if tree is None:
        return []
    named = dict.fromkeys(_tables(tree, resolve))
    columns = _columns(tree)
    if word == "EXPLAIN":
        return [Reading(ref, None, "structure") for ref in named]
    if len(named) == 1:
        (ref,) = named
        partial = _partial(tree, ref, columns)
        if partial is not None:
            return [partial]
    return [Reading(ref, columns) for ref in named]


def names_row_number(sql: str) -> bool:
    """Return whether a statement names DuckDB's row numbers, which a collection does not have."""
    tree = _query(sql)
    return tree is not None and any(each.name.casefold() == "rowid" for each in tree.find_all(exp.Column))


def unresolved_tables(sql: str, resolve: Resolve) -> list[str]:
    """Return the names after FROM in a statement that are neither tables nor queries in it."""
    tree = _query(sql)
    if tree is None:
        return []
    queries = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    found = [
        node.name
        for node in tree.find_all(exp.Table)
        if isinstance(node.this, exp.Identifier)
        and not (not node.db and node.name.casefold() in queries)
        and node.db.casefold() not in _CATALOGS
        and not node.name.casefold().startswith(("duckdb_", "pragma_", "pg_", "sqlite_"))
        and resolve(node.db, node.name) is None
    ]
    return list(dict.fromkeys(found))


def column_paths(sql: str) -> list[list[str]]:
    """Return what a statement uses as columns: each name with all its qualifiers, then without the outer ones.

    Names that the statement itself defines are skipped.
    """
    tree = _query(sql)
    nodes = [] if tree is None else list(tree.find_all(exp.Column, exp.Dot))
    written = [[part.name for part in node.parts] for node in nodes]
    made = {each.alias.casefold() for each in (tree.find_all(exp.Alias, exp.TableAlias) if nodes else ()) if each.alias}
    made |= {
        each.name.casefold() for alias in (tree.find_all(exp.TableAlias) if nodes else ()) for each in alias.columns
    }
    known = [parts for parts in written if all(parts) and parts[-1].casefold() not in made]
    return [[".".join(parts[start:]) for start in range(len(parts))] for parts in known]


def _query(sql: str) -> Any:
    import sqlglot
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="duckdb") if tree is not None]
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        return None
    kinds = exp.Query | exp.Describe | exp.Summarize
    return trees[0] if len(trees) == 1 and isinstance(trees[0], kinds) else None


def _tables(tree: Any, resolve: Resolve) -> Iterator[TableRef]:
    """Yield the tables that a tree names; a name that is also one of its queries counts, too."""
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier):
            found = resolve(node.db, node.name)
            if found is not None:
                yield found


def _columns(tree: Any) -> frozenset[str] | None:
    """Return every name in a tree that may be a column, folded, or None if it may read columns without naming them."""
    if not isinstance(tree, exp.Query) or tree.find(exp.Columns, exp.PositionalColumn, exp.Pivot):
        return None
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return None
    if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        return None
    rows = {each.alias_or_name.casefold() for each in tree.find_all(exp.Table, exp.Subquery) if each.alias_or_name}
    if any(column.name.casefold() in rows for column in tree.find_all(exp.Column)):
        return None  # A table's name as a value is its entire row.
    if any(each.args.get("alias") and each.args["alias"].args.get("columns") for each in tree.find_all(exp.Table)):
        return None
    return frozenset(each.name.casefold() for each in tree.find_all(exp.Identifier))


def _partial(tree: Any, ref: TableRef, columns: frozenset[str] | None) -> Reading | None:
    """Return the reading of a statement that needs no more than a count or some rows, or None for any other.

    SQL does not say which rows a LIMIT without an order returns, so the first ones are a correct answer.
    """
    if not isinstance(tree, exp.Select) or any(value and key not in _INERT for key, value in tree.args.items()):
        return None
    tables = list(tree.find_all(exp.Table))
    other = (exp.Subquery, exp.Window, exp.Unnest, exp.Explode, exp.Lateral, exp.Join, exp.Pivot, exp.SetOperation)
    if len(tables) != 1 or tree.find(*other) or len(list(tree.find_all(exp.Select))) != 1 or _makes_rows(tree):
        return None
    if tables[0].args.get("joins") or tables[0].args.get("pivots"):
        return None
    aggregates = list(tree.find_all(exp.AggFunc))
    limit = _number(tree.args.get("limit"))
    sample = tables[0].args.get("sample") or tree.args.get("sample")
    if len(tree.selects) == 1 and len(aggregates) == 1 and not sample and (limit or not tree.args.get("limit")):
        (selected,) = tree.selects
        inner = selected.unalias()
        if isinstance(inner, exp.Count) and isinstance(inner.this, exp.Star) and not inner.expressions:
            return Reading(ref, frozenset(), "count", label=selected.alias or "count_star()")
    if aggregates or not _calls_only(tree, "substr"):
        return None
    if sample is not None:
        rows, seed = _number(sample.args.get("size")), _number(sample.args.get("seed"))
        is_rows = not sample.args.get("percent") and str(sample.args.get("method") or "").casefold() == "reservoir"
        return Reading(ref, columns, "sample", rows, seed or 0) if rows is not None and is_rows else None
    return None if limit is None else Reading(ref, columns, "first", limit)


def _makes_rows(tree: Any) -> bool:
    return any(each.find(exp.Unnest, exp.Explode) is not None for each in tree.selects)


def _calls_only(tree: Any, *names: str) -> bool:
    return all(each.name.casefold() in names for each in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc))


def _number(node: Any) -> int | None:
    """Return the whole number in a clause such as LIMIT, or None for anything else."""
    if isinstance(node, exp.Limit):
        if any(value for key, value in node.args.items() if key not in ("this", "expression")):
            return None  # for example LIMIT 10%
        node = node.expression
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    return int(node.this) if str(node.this).isdigit() else None
