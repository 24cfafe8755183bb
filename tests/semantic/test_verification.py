"""Answers recomputed from raw rows: what is right is confirmed, what is not is named; on the shop in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.semantic import verification
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.verification import Mismatch, Verified, verify, verify_sample
from ktx_cli.warehouses import pool
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.port import Connector, QueryResult
from tests.semantic.golden.engines import opened
from tests.semantic.golden.questions import QUESTIONS
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model

SKIPPED = {"two_levels": {"mean_of_customers": "it aggregates a measure"}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("duckdb", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


@pytest.fixture(scope="module")
def in_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    with opened("sqlite", tmp_path_factory.mktemp("shop")) as connector:
        yield connector


def verified(shop: Connector, query: Any, rows: list[tuple[Any, ...]] | None = None) -> Verified:
    asked = compile_query(shop_model(), query, caller=Caller.of(ATTRIBUTES), now=NOW)
    if rows is None:
        rows = ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW, probed=False).rows
    return verify(asked.compiled.build, rows, shop)


@pytest.mark.table("name", [name for name, query in QUESTIONS.items() if query.get("measures")])
def test_right_answers_are_confirmed(name: str, shop: Connector) -> None:
    answer = ask(shop_model(), QUESTIONS[name], shop, caller=Caller.of(ATTRIBUTES), now=NOW, probed=False)
    assert answer.asked is not None
    found = verify(answer.asked.compiled.build, answer.rows, shop)
    assert (found.mismatches, found.skipped, found.stopped) == ((), SKIPPED.get(name, {}), None)
    assert found.rows == (0 if name in SKIPPED else found.of)


@pytest.mark.table(
    ("name", "skipped"),
    [
        ("distinct_pairs", set()),
        ("cut_months", set()),
        ("days_compared", set()),
        ("weeks_compared", set()),
        ("percentiles", {"typical", "p90"}),
    ],
)
def test_what_sqlite_cannot_aggregate_is_left_out(name: str, skipped: set[str], in_sqlite: Connector) -> None:
    asked = compile_query(shop_model("sqlite"), QUESTIONS[name], caller=Caller.of(ATTRIBUTES), now=NOW)
    rows = [tuple(row) for row in in_sqlite.query(asked.sql, max_rows=100).rows]
    found = verify(asked.compiled.build, rows, in_sqlite)
    assert (found.mismatches, set(found.skipped) & {"typical", "p90", "buyer_days"}) == ((), skipped)
    assert found.rows > 0


BY_STATUS = {"measures": ["orders.revenue", "orders.orders"], "dimensions": ["orders.status"]}


def test_a_wrong_number_is_named_with_its_row(shop: Connector) -> None:
    rows = ask(shop_model(), BY_STATUS, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows
    wrong = [(rows[0][0], rows[0][1], rows[0][2] + 1), *rows[1:]]
    found = verified(shop, BY_STATUS, wrong)
    assert found.mismatches == (Mismatch((rows[0][0],), "orders", rows[0][2] + 1, rows[0][2]),)
    assert (found.rows, found.of) == (len(rows), len(rows))


@pytest.mark.table(("answered", "is_wrong"), [("same", False), (1e-12, False), (1e-6, True), (None, True)])
def test_numbers_may_differ_by_rounding_alone(answered: Any, is_wrong: bool, shop: Connector) -> None:
    query = {"measures": ["orders.per_order"]}
    (row,) = ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows
    value = row[0] if answered == "same" else None if answered is None else row[0] * (1 + answered)
    assert bool(verified(shop, query, [(value,)]).mismatches) is is_wrong


def test_it_stands_in_the_receipt_as_plain_data(shop: Connector) -> None:
    rows = [("new", None, 3)]
    found = verified(shop, BY_STATUS, rows).to_json()
    assert (found["rows"], found["of"], found["skipped"]) == (1, 1, {})
    assert [(each["row"], each["column"]) for each in found["mismatches"]] == [
        (["new"], "revenue"),
        (["new"], "orders"),
    ]


MONTHS = {
    "measures": ["orders.revenue_so_far", "orders.orders"],
    "dimensions": [{"field": "orders.placed_at", "granularity": "month"}],
}


class Slow:
    """A connection whose statements take time on a clock of its own; `interruptible`: as it says of itself."""

    def __init__(self, inner: Connector, seconds: float, *, interruptible: bool, failure: SourceError | None = None):
        self.inner, self.seconds, self.interruptible, self.failure = inner, seconds, interruptible, failure
        self.dialect = inner.dialect
        self.now, self.statements, self.interrupted = 0.0, 0, False

    def query(self, sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
        self.statements += 1
        self.now += self.seconds
        if self.failure is not None:
            raise self.failure
        return self.inner.query(sql, parameters, max_rows=max_rows)

    def interrupt(self) -> None:
        self.interrupted = True


def sampled(
    shop: Connector,
    query: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    seconds: float = 0.001,
    statement: float = 0.0,
    interruptible: bool = True,
    failure: SourceError | None = None,
) -> tuple[Verified | None, Slow]:
    """Verify a sample of a right answer by a clock that goes on by `seconds` with each statement."""
    answer = ask(shop_model(), query, shop, caller=Caller.of(ATTRIBUTES), now=NOW, probed=False)
    assert answer.asked is not None
    slow = Slow(shop, seconds, interruptible=interruptible, failure=failure)
    monkeypatch.setattr(verification, "monotonic", lambda: slow.now)
    monkeypatch.setattr(pool, "monotonic", lambda: slow.now)
    build = answer.asked.compiled.build
    return verify_sample(build, answer.rows, slow, statement_seconds=statement), slow  # type: ignore[arg-type]


@pytest.mark.table(
    ("query", "numbers"),
    [
        (BY_STATUS, None),
        (MONTHS, 6),  # `revenue_so_far`, not `orders`
        (QUESTIONS["running"], 18),
        (QUESTIONS["month_before"], 6),
        (QUESTIONS["compared"], 1),  # `revenue_previous`: the change is computed from what stands beside it
        (QUESTIONS["two_levels"] | {"comparison": "1 month"}, 0),
    ],
)
def test_a_sample_is_of_numbers_of_other_times_than_their_period(
    query: Any, numbers: int | None, shop: Connector
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        found, _ = sampled(shop, query, monkeypatch)
    if numbers is None:
        assert found is None
        return
    assert found is not None
    assert (found.sampled, found.mismatches, found.stopped) == (True, (), None)
    assert (found.numbers, bool(found.skipped)) == (numbers, not numbers)


@pytest.mark.table(
    ("count", "most", "chosen"),
    [
        (0, 5, []),
        (1, 5, [0]),
        (2, 5, [0, 1]),
        (3, 9, [0, 2, 1]),
        (9, 5, [0, 8, 4, 2, 6]),
        (100, 3, [0, 99, 49]),
        (7, 1, [0]),
        (6, 6, [0, 5, 2, 1, 3, 4]),
    ],
)
def test_a_sample_has_the_first_and_last_rows_and_some_between(count: int, most: int, chosen: list[int]) -> None:
    assert list(verification._spread(count, most)) == chosen


@pytest.mark.table(
    ("seconds", "statement", "interruptible", "rows", "statements", "said"),
    [
        (0.001, 0.0, True, 6, 6, None),
        (0.02, 0.0, True, 2, 2, "the time limit of 50 ms was reached"),
        (0.06, 0.0, True, 1, 1, "the time limit of 50 ms was reached"),
        (0.02, 0.3, True, 3, 3, "the time limit of 60 ms was reached"),
        (0.5, 10.0, True, 4, 4, "the time limit of 2 seconds was reached"),
        # A statement that nobody can end is not begun where it may take longer than there is time.
        (0.001, 0.04, False, 6, 6, None),
        (0.001, 0.06, False, 0, 0, "the time limit of 50 ms was reached"),
    ],
)
def test_a_sample_ends_with_its_time(
    seconds: float, statement: float, interruptible: bool, rows: int, statements: int, said: str | None, shop: Connector
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        found, slow = sampled(
            shop, MONTHS, monkeypatch, seconds=seconds, statement=statement, interruptible=interruptible
        )
    assert found is not None
    assert (found.rows, slow.statements, found.stopped) == (rows, statements, said)


@pytest.mark.table(
    ("code", "said"), [("query", "shop: no such function"), ("timeout", "the time limit of 50 ms was reached")]
)
def test_a_statement_of_a_sample_that_fails_costs_no_answer(code: str, said: str, shop: Connector) -> None:
    failure = SourceError("shop: no such function", code=code)
    with pytest.MonkeyPatch.context() as monkeypatch:
        found, _ = sampled(shop, MONTHS, monkeypatch, failure=failure)
        assert found is not None
        assert (found.rows, found.mismatches, found.stopped) == (0, (), said)
    if code == "query":
        asked = compile_query(shop_model(), MONTHS, caller=Caller.of(ATTRIBUTES), now=NOW)
        failing = Slow(shop, 0.0, interruptible=False, failure=failure)
        with pytest.raises(SourceError):
            verify(asked.compiled.build, [(date(2024, 1, 1), 1, 1)], failing)  # type: ignore[arg-type]


@pytest.mark.table(
    ("again", "wrong", "stopped"),
    [
        ("the same", 1, None),
        ("another number", 0, "rows changed during the check"),
        ("without the row", 0, "rows changed during the check"),
    ],
)
def test_a_number_of_rows_that_changed_meanwhile_is_not_wrong(
    again: str, wrong: int, stopped: str | None, shop: Connector
) -> None:
    asked = compile_query(shop_model(), MONTHS, caller=Caller.of(ATTRIBUTES), now=NOW)
    rows = ask(shop_model(), MONTHS, shop, caller=Caller.of(ATTRIBUTES), now=NOW).rows
    answered = [*rows[:-1], (rows[-1][0], rows[-1][1] + 1, rows[-1][2])]
    now = {"the same": answered, "another number": rows, "without the row": rows[:-1]}[again]
    found = verify(asked.compiled.build, answered, shop, ask_again=lambda: now)
    assert (len(found.mismatches), found.stopped) == (wrong, stopped)


def test_a_value_that_depends_on_the_order_of_rows_is_left_out(shop: Connector) -> None:
    query = {"measures": ["any_value(orders.amount)", "orders.orders"], "dimensions": ["orders.status"]}
    found = verified(shop, query)
    assert found.skipped == {"any_value_orders_amount": "its value can depend on the order of the rows"}
    assert (found.numbers, found.mismatches) == (found.of, ())


def test_what_recomputes_a_row_is_sent_as_it_was_compiled(shop: Connector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard reads it once then, which takes most of the time of a row."""
    sent: list[str] = []

    def query(sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
        sent.append(sql)
        return asked(sql, parameters, max_rows=max_rows)

    question = {"measures": ["orders.revenue"], "dimensions": ["orders.status"]}
    rows = ask(shop_model(), question, shop, caller=Caller.of(ATTRIBUTES), now=NOW, probed=False).rows
    asked = shop.query
    monkeypatch.setattr(shop, "query", query)
    assert verified(shop, question, rows).rows == len(sent) > 1
    assert [sql for sql in sent if check(sql, "duckdb", max_rows=1).sql != sql] == []
