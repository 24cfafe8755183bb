"""Run the `tests:` of sources: each is a query with an expected result.

`expect` lists rows in order, `expect_value` is the single value in a single row, and `invariant` is a condition that
every row must meet. `tolerance` is the allowed difference between numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from ktx_cli.core import KtxError, Record, json_value
from ktx_cli.faces import exp
from ktx_cli.semantic.caller import NOBODY, Caller
from ktx_cli.semantic.model import MetricTest, Model, unknown
from ktx_cli.semantic.query import DEFAULT_LIMIT, MOST_ROWS, Query, parse_query
from ktx_cli.warehouses import Connector

_NOISE: Final = Decimal("1e-9")
"""The allowed relative error for floating-point numbers, because the order of additions changes the last digits."""

_SHOWN: Final = 5
"""The maximum number of rows to report that violate an invariant."""

_OF_THE_TEST: Final = frozenset({"timeout", "read_only"})
"""Codes of other errors that fail a test. Other errors are about the connection."""


@dataclass(frozen=True, slots=True)
class TestResult(Record):
    """The result of one test. `expected` and `got` are plain data. `error` explains why the query has no result."""

    __test__ = False

    source: str
    test: MetricTest
    passed: bool
    expected: Any
    got: Any = None
    error: KtxError | None = None

    json_keys = (
        "source", "test=test.name", "passed", "expected", "got", "error", "path=test.place.path",
        "line=test.place.line",
    )  # fmt: skip


Guard = Callable[[Iterable[str]], None]
"""Takes the names of the sources that a query reads, and raises `KtxError` if one of them must not be read."""


def run_test(
    model: Model, source: str, test: MetricTest, connector: Connector, *, guard: Guard | None, caller: Caller = NOBODY
) -> TestResult:
    """Run a test of a source on an open connection. Raises errors of the connection itself.

    `guard` checks the sources that the test reads before the query runs; None allows all sources.
    """
    expected = expectation(test)
    try:
        if guard is not None:
            _require_allowed(model, test, guard, caller)
        got = _rows(model, test, connector, caller)
    except KtxError as error:
        if error.exit_code not in (1, 2) and error.code not in _OF_THE_TEST:
            raise
        return TestResult(source, test, False, expected, error=error)
    if test.invariant is not None:
        return TestResult(source, test, not got, expected, got[:_SHOWN])
    if test.expect is not None:
        return TestResult(source, test, same_rows(expected, got, test.tolerance), expected, got)
    single = len(got) == 1 and len(got[0]) == 1
    value = got[0][0] if single else got
    return TestResult(source, test, single and same_value(expected, value, test.tolerance), expected, value)


def expectation(test: MetricTest) -> Any:
    """Return a test's expected result as plain data."""
    if test.invariant is not None:
        return test.invariant
    return test.expect_value if test.expect is None else [list(row) for row in test.expect]


def same_rows(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]], tolerance: float) -> bool:
    """Return whether the rows equal the expected rows in order."""
    if len(expected) != len(got):
        return False
    return all(
        len(one) == len(two) and all(same_value(a, b, tolerance) for a, b in zip(one, two, strict=True))
        for one, two in zip(expected, got, strict=True)
    )


def same_value(expected: Any, got: Any, tolerance: float) -> bool:
    """Return whether a JSON value equals the expected one. Numbers may differ by `tolerance`."""
    if expected is None or got is None:
        return expected is got
    if isinstance(expected, bool):
        return bool(expected == got)
    if isinstance(expected, str):
        return isinstance(got, str) and expected.replace(" ", "T", 1) == got.replace(" ", "T", 1)
    one, two = _number(expected), _number(got)
    if one is None or two is None:
        return bool(expected == got)
    noise = _NOISE * max(abs(one), abs(two)) if isinstance(got, float) else Decimal(0)
    return abs(one - two) <= max(noise, Decimal(repr(tolerance)))


def _number(value: Any) -> Decimal | None:
    try:
        found = Decimal(repr(value) if isinstance(value, float) else str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _require_allowed(model: Model, test: MetricTest, guard: Guard, caller: Caller) -> None:
    from ktx_cli.semantic.answer import compile_query

    guard(compile_query(model, parse_query(test.query), caller=caller).compiled.build.sources)


def _rows(model: Model, test: MetricTest, connector: Connector, caller: Caller) -> list[list[Any]]:
    """Return the rows of a test's query, or, for an invariant, the rows that violate it."""
    from ktx_cli.semantic.answer import ask

    query = parse_query(test.query)
    if test.invariant is None:
        rows: Sequence[Sequence[Any]] = ask(model, query, connector, caller=caller).rows
    else:
        rows = _breaking(model, query, test.invariant, connector, caller)
    return [[json_value(value) for value in row] for row in rows]


def _breaking(
    model: Model, query: Query, invariant: str, connector: Connector, caller: Caller
) -> Sequence[Sequence[Any]]:
    """Return the rows that violate the invariant."""
    from ktx_cli.semantic.answer import compile_query

    every = replace(query, limit=MOST_ROWS) if query.limit == DEFAULT_LIMIT else query
    asked = compile_query(model, every, caller=caller)
    answer = asked.compiled.tree
    queries = answer.args.get("with_")
    answer.set("with_", None)
    condition = _condition(invariant, asked.compiled.columns, model.dialect)
    broken = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(0))], default=exp.Literal.number(1))
    found = exp.select("*").from_(exp.Subquery(this=answer, alias=exp.TableAlias(this=exp.to_identifier("answer"))))
    found = found.where(exp.EQ(this=broken, expression=exp.Literal.number(1)), copy=False).limit(_SHOWN)
    found.set("with_", queries)
    return connector.query(found.sql(model.dialect), max_rows=_SHOWN).rows


def _condition(text: str, columns: Sequence[str], dialect: str) -> Any:
    """Return an invariant's expression over the columns of the result."""
    from ktx_cli.semantic.expressions.fragments import parse
    from ktx_cli.semantic.plan.measures import exact_divisions

    by_name: Mapping[str, str] = {name.casefold(): name for name in columns}

    def named(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = by_name.get(node.name.casefold())
        if name is None or node.table:
            raise unknown("column", node.sql(), columns, " in the result")
        return exp.column(exp.to_identifier(name, quoted=True))

    rewrite: Callable[[exp.Expr], exp.Expr] = named
    return exact_divisions(parse(text, dialect, what=f"the invariant `{text}`").transform(rewrite))
