"""The question's conditions on the rows of one fact: held against the row, or against the rows joined to it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.expressions.names import Expression
from ktx_cli.context.semantic.graph import Edge
from ktx_cli.context.semantic.planning.plan import Plan, RowFilter


def row_conditions(rows: Rows, plan: Plan, filters: Sequence[RowFilter] | None = None) -> list[exp.Expr]:
    """Return the conditions every row of the fact must meet; `SemanticError` where one cannot be held against it.

    A condition over rows the fact has several of is met when one of these, or none where there is none, meets it; those
    over the same joins must be met by the same row. Rows already joined for a dimension are filtered themselves.
    `filters`: some of the plan's conditions, None for all.
    """
    found: list[exp.Expr] = []
    apart: list[tuple[set[tuple[Edge, ...]], list[Expression]]] = []
    uses = rows.build.use(rows.fact.name).filters
    for each in plan.filters if filters is None else filters:
        if each.facts is not None and rows.fact.name not in each.facts:
            continue
        prefixes = {prefix for prefix in _prefixes(rows, each) if prefix not in rows.joins}
        if not prefixes:
            found.append(exp.paren(rows.bind(each.expression), copy=False))
            uses[each.expression.text] = "where"
            continue
        uses[each.expression.text] = "semi_join"
        group = (prefixes, [each.expression])
        for other in [other for other in apart if other[0] & prefixes]:
            group = (group[0] | other[0], [*other[1], *group[1]])
            apart.remove(other)
        apart.append(group)
    return found + [_exists(rows, conditions) for _, conditions in apart]


def _prefixes(rows: Rows, each: RowFilter) -> set[tuple[Edge, ...]]:
    try:
        return rows.many_prefixes(each.expression)
    except SemanticError as error:
        if error.code != "unreachable":
            raise
        text = each.expression.text
        raise SemanticError(
            f"the filter `{text}` cannot reach `{rows.fact.name}`: {error.message}",
            hint=f'say which facts it is for: {{"expr": "{text}", "facts": [...]}}, or leave one of the two out',
            code="unreachable_filter",
            details={"fact": rows.fact.name, "filter": text},
        ) from None


def _exists(rows: Rows, conditions: list[Expression]) -> exp.Expr:
    """Return the condition that one of the joined rows of a fact's row meets all conditions."""
    rows.require_key("a filter over its details")
    inner = Rows(rows.build, rows.fact.name, alias=f"{rows.alias}__any", time=rows.time)
    bound = [exp.paren(inner.bind(each), copy=False) for each in conditions]
    if rows.build.dialect == "clickhouse":
        return _in(rows, inner, bound)
    query = inner.select([exp.Literal.number(1)])
    for condition in (inner.same_row(rows), *bound):
        query = query.where(condition, copy=False)
    return exp.Exists(this=query)


def _in(rows: Rows, inner: Rows, bound: Sequence[exp.Expr]) -> exp.Expr:
    """Return the same for a dialect without queries that look outside."""
    query = inner.select([inner.own(name) for name in inner.fact.grain])
    query = query.where(*bound, copy=False)
    key = [rows.own(name) for name in rows.fact.grain]
    left = key[0] if len(key) == 1 else exp.Tuple(expressions=key)
    return exp.In(this=left, query=exp.Subquery(this=query))
