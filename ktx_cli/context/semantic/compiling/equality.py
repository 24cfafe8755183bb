"""Equality under which nothing equals nothing, as each dialect says it."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

_HAS_DISTINCT_FROM: Final = frozenset(
    {"duckdb", "postgres", "snowflake", "bigquery", "databricks", "trino", "sqlite", "mysql"}
)
"""Dialects with IS NOT DISTINCT FROM, or an operator sqlglot writes for it (`IS` in SQLite, `<=>` in MySQL)."""


def null_safe(one: exp.Expr, two: exp.Expr, dialect: str) -> exp.Expr:
    """Return the condition that two values are equal, or both missing."""
    if dialect in _HAS_DISTINCT_FROM:
        return exp.NullSafeEQ(this=one, expression=two)
    both = exp.and_(exp.Is(this=one.copy(), expression=exp.null()), exp.Is(this=two.copy(), expression=exp.null()))
    return exp.paren(exp.or_(exp.EQ(this=one, expression=two), both, copy=False), copy=False)
