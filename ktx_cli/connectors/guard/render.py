"""Writes a checked statement anew: from its tree, without comments, with a limit around everything."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp


def limited(tree: exp.Query, max_rows: int) -> exp.Query:
    """Return the query with at most `max_rows + 1` rows: one more shows that rows were left out.

    A smaller limit of its own stays. One that is no plain number (ALL, a percentage, WITH TIES, an expression) stays
    too, within a query around it.
    """
    from sqlglot import exp

    most = max_rows + 1
    if isinstance(tree, exp.Values) or tree.args.get("for_"):
        return tree  # an answer that FOR JSON writes as one text would be cut in its middle
    if isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree if _clauses(tree) else limited(tree.this, max_rows)
    limit = tree.args.get("limit")
    if limit is None:
        return tree.limit(most, copy=False)
    count = _count(limit)
    if count is None:
        return exp.select("*").from_(tree.subquery("ktx_result")).limit(most) if _is_open(limit) else tree
    return tree if count <= most else tree.limit(most, copy=False)


def rendered(tree: exp.Expr, dialect: str) -> str:
    """Return the text of the tree in its dialect, names of functions as they were written."""
    if dialect == "mysql":
        return str(_mysql_generator()(dialect="mysql", comments=False, normalize_functions=False).generate(tree))
    return tree.sql(dialect=dialect, comments=False, normalize_functions=False)


@functools.cache
def _mysql_generator() -> Any:
    """Return the generator that writes REGEXP as an operator: MariaDB has no such function, but may be given one."""
    from sqlglot import exp
    from sqlglot.dialects.mysql import MySQL

    def regexp(self: Any, node: exp.RegexpLike) -> str:
        return str(self.function_fallback_sql(node) if node.args.get("flag") else self.binary(node, "REGEXP"))

    transforms = {**MySQL.Generator.TRANSFORMS, exp.RegexpLike: regexp}
    return type("MySqlGenerator", (MySQL.Generator,), {"TRANSFORMS": transforms})


def without_hints(tree: exp.Expr) -> exp.Expr:
    """Take optimizer hints out: they are comments to a reader and settings to a server."""
    from sqlglot import exp

    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    return tree


def as_query(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return a query around DuckDB's PIVOT and UNPIVOT, which are statements too; any other tree as it is."""
    from sqlglot import exp

    if dialect != "duckdb" or not isinstance(tree, exp.Pivot) or not isinstance(tree.this, exp.Table | exp.Subquery):
        return tree
    return exp.select("*").from_(exp.Subquery(this=tree))


def _clauses(subquery: exp.Subquery) -> bool:
    return any(subquery.args.get(name) for name in ("order", "limit", "offset", "with_", "pivots", "sample", "joins"))


def _is_open(limit: exp.Expr) -> bool:
    """Whether a query around it keeps what the limit means: not where rows that tie, or fetch options, follow."""
    options = limit.args.get("limit_options")
    return options is None and not limit.args.get("expressions")


def _count(limit: exp.Expr) -> int | None:
    from sqlglot import exp

    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return None
    if limit.args.get("expressions"):
        return None
    value = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.args.get("expression")
    if value is None:
        return 1
    if isinstance(value, exp.Paren):
        value = value.this
    return int(value.this) if isinstance(value, exp.Literal) and str(value.this).isdecimal() else None
