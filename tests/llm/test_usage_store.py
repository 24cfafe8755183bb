"""Usage in the state database: once a unit, and sums."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.types import Cost, Usage
from ktx_cli.llm.usage import DIMENSIONS, UsageFact, UsageRow, UsageStore, usage_by
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_local, read_state


def fact(unit_id: str = "u", **fields: Any) -> UsageFact:
    given: dict[str, Any] = {
        "run_id": "r",
        "attempt": 0,
        "unit_id": unit_id,
        "backend": "anthropic",
        "role": "default",
        "command": "ask",
        "model": "m",
        "usage": Usage(100, 20, 3, 4),
        "cost": Cost(0.25, "list_price"),
        **fields,
    }
    return UsageFact(**given)


@pytest.fixture
def store(tmp_path: Path) -> UsageStore:
    return UsageStore(Layout(tmp_path))


def rows(tmp_path: Path, *dimensions: str, since: str = "") -> list[UsageRow]:
    def ask(database: sqlite3.Connection) -> list[UsageRow]:
        return usage_by(database, dimensions or ("command",), since=since)

    return read_state(Layout(tmp_path), ask) or []


@pytest.mark.requirement("C3")
def test_a_unit_is_stored_once_however_often_it_is_reported(store: UsageStore, tmp_path: Path) -> None:
    for _ in range(3):
        store(fact())
    store(fact(usage=Usage(999)))
    (row,) = rows(tmp_path)
    assert (row.keys, row.units, row.usage) == (("ask",), 1, Usage(100, 20, 3, 4))


@pytest.mark.requirement("C3")
def test_another_attempt_run_or_unit_is_another_unit(store: UsageStore, tmp_path: Path) -> None:
    for one in (fact(), fact(attempt=1), fact(run_id="r2"), fact("u2")):
        store(one)
    (row,) = rows(tmp_path)
    assert (row.units, row.usage.input_tokens, row.cost) == (4, 400, Cost(1.0, "list_price"))


def test_a_complete_report_replaces_an_incomplete_one_and_never_the_other_way(
    store: UsageStore, tmp_path: Path
) -> None:
    store(fact(usage=Usage(), cost=Cost(), complete=False))
    (early,) = rows(tmp_path)
    store(fact())
    store(fact(usage=Usage(1), cost=Cost(), complete=False))
    (late,) = rows(tmp_path)
    assert (early.incomplete, early.cost) == (1, Cost())
    assert (late.units, late.incomplete, late.usage, late.cost) == (
        1,
        0,
        Usage(100, 20, 3, 4),
        Cost(0.25, "list_price"),
    )


def test_units_without_a_price_are_counted_and_named(store: UsageStore, tmp_path: Path) -> None:
    store(fact("a"))
    store(fact("b", cost=Cost()))
    store(fact("c", cost=Cost(), role="triage"))
    default, triage = rows(tmp_path, "role")
    assert (default.cost, default.unpriced) == (Cost(0.25, "partial"), 1)
    assert (triage.cost, triage.unpriced) == (Cost(), 1)
    assert triage.to_json(["role"]) == {
        "role": "triage",
        "calls": 1,
        **Usage(100, 20, 3, 4).to_json(),
        "cost_usd": None,
        "cost_basis": "unknown",
        "unpriced_calls": 1,
        "incomplete_calls": 0,
    }


def test_sums_by_every_dimension(store: UsageStore, tmp_path: Path) -> None:
    store(fact("a"))
    store(fact("b", model=None, backend="claude-cli", command="ingest"))
    for dimension in DIMENSIONS:
        assert sum(row.units for row in rows(tmp_path, dimension)) == 2
    assert [row.keys for row in rows(tmp_path, "backend", "model", "command")] == [
        ("anthropic", "m", "ask"),
        ("claude-cli", "", "ingest"),
    ]
    (day,) = rows(tmp_path, "day")
    assert len(day.keys[0]) == len("2026-01-31")
    assert rows(tmp_path, "day", since=day.keys[0])
    assert rows(tmp_path, "day", since="9999-01-01") == []


@pytest.mark.parametrize("dimensions", [("nope",), ("role", "1; DROP TABLE usage")])
def test_there_is_no_other_dimension(store: UsageStore, tmp_path: Path, dimensions: tuple[str, ...]) -> None:
    store(fact())
    with pytest.raises(ValueError, match="no such dimension"):
        rows(tmp_path, *dimensions)


def test_no_dimension_is_no_question(store: UsageStore, tmp_path: Path) -> None:
    store(fact())
    with pytest.raises(ValueError, match="none given"):
        read_state(Layout(tmp_path), lambda database: usage_by(database, ()))


def test_the_usage_of_a_run_is_found_with_an_index(tmp_path: Path) -> None:
    """A run on workers asks for it every second, and the table has the usage of all runs."""
    statements: list[str] = []
    with open_local(Layout(tmp_path)) as database:
        database.set_trace_callback(statements.append)
        usage_by(database, ("role",), run="r")
        database.set_trace_callback(None)
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")]
    assert any("SEARCH usage USING INDEX usage_of_run (run_id=?)" in step for step in plan), plan


def test_the_usage_of_a_run_is_its_own(store: UsageStore, tmp_path: Path) -> None:
    for one in (fact(), fact(run_id="r2"), fact("u2", run_id="r2")):
        store(one)
    found = read_state(Layout(tmp_path), lambda database: usage_by(database, ("command",), since="2020", run="r2"))
    assert [row.units for row in found or ()] == [2]
