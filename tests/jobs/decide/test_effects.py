"""Effects of decision points: which measures are computed, for which period, and what stops them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ktx_cli.jobs.decide.effects import EffectBudget, _last_complete, compute_effects, computed_effects
from ktx_cli.jobs.decide.points import load_effects, save_effects
from ktx_cli.project import KtxConfig, Layout, WorkingTree, open_for_writing
from ktx_cli.scan import read_decisions, read_record
from ktx_cli.semantic import DecisionKind, DecisionPoint, Effect, Model, guard_of, load_layer
from ktx_cli.warehouses import SemanticType, open_connection
from tests.subscription_project import POINT

NOW = datetime(2026, 1, 15, tzinfo=UTC)


@pytest.fixture
def model(layout: Layout, config: Callable[[], KtxConfig]) -> Model:
    return load_layer(layout, config(), "wh")


@pytest.fixture
def point(layout: Layout, model: Model) -> DecisionPoint:
    (found,) = read_decisions(WorkingTree(layout.root), model).points
    return found


@pytest.fixture
def compute(layout: Layout, config: Callable[[], KtxConfig], model: Model) -> Callable[..., Any]:
    def run(*points: DecisionPoint, model: Model = model, budget: EffectBudget | None = None) -> Any:
        guard = guard_of(layout, config(), "wh", model)
        with guard.open(config(), layout=layout, environ={}) as connector:
            return compute_effects(model, points, connector, now=NOW, budget=budget or EffectBudget())

    return run


def test_each_reading_is_computed_for_the_last_complete_month(
    compute: Callable[..., Any], point: DecisionPoint
) -> None:
    found = compute(point)
    assert found.warnings == ()
    assert found.effects[0] == Effect(
        POINT, "subscriptions.revenue", {"count": Decimal("400.00"), "exclude": Decimal("300.00")}, "2025-06"
    )
    assert found.effects[0].spread == 0.25
    assert [each.measure for each in found.effects] == ["subscriptions.revenue", "accounts.account_count"]


def test_all_rows_are_taken_where_the_month_shows_no_difference(
    compute: Callable[..., Any], point: DecisionPoint
) -> None:
    since = replace(point.alternatives[1], filter="created_at > DATE '2025-01-01' AND NOT is_internal")
    accounts = replace(point, alternatives=(point.alternatives[0], since), measures=("accounts.account_count",))
    (effect,) = compute(accounts).effects
    assert (effect.period, dict(effect.values)) == (None, {"count": Decimal(4), "exclude": Decimal(3)})


def test_readings_that_agree_have_the_effect_0(compute: Callable[..., Any], point: DecisionPoint) -> None:
    same = replace(point, alternatives=(point.alternatives[0], replace(point.alternatives[1], filter="id > 0")))
    assert {each.spread for each in compute(same).effects} == {0.0}


def test_the_effect_of_a_date_on_a_measure_without_a_time_is_not_known(
    compute: Callable[..., Any], model: Model, point: DecisionPoint
) -> None:
    dates = (replace(point.alternatives[0], time="created_at"), replace(point.alternatives[0], id="b", time="other"))
    timeless = replace(model.sources["accounts"].columns["created_at"], type=SemanticType.STRING)
    columns = model.sources["accounts"].columns | {"created_at": timeless, "other": replace(timeless, name="other")}
    sources = model.sources | {"accounts": replace(model.sources["accounts"], columns=columns)}
    found = compute(
        replace(point, kind=DecisionKind.DATE, columns=("created_at", "other"), alternatives=dates),
        model=replace(model, sources=sources),
    )
    assert (found.effects, found.warnings) == ((), ())


def test_a_condition_that_cannot_be_read_is_a_warning_that_names_the_point(
    compute: Callable[..., Any], point: DecisionPoint
) -> None:
    wrong = replace(point, alternatives=(point.alternatives[0], replace(point.alternatives[1], filter="nothing = 1")))
    found = compute(wrong, point)
    assert [each.point for each in found.effects] == [POINT, POINT]
    (warning,) = found.warnings
    assert POINT in warning.message and "nothing" in warning.message


@pytest.mark.parametrize("condition", ["is_internal); DROP TABLE accounts; --", "(SELECT true)", "id IN (TABLE pg)"])
def test_a_condition_runs_no_statement_of_its_own(
    compute: Callable[..., Any], point: DecisionPoint, condition: str
) -> None:
    evil = replace(point, alternatives=(point.alternatives[0], replace(point.alternatives[1], filter=condition)))
    found = compute(evil)
    assert found.effects == ()
    assert len(found.warnings) == 1
    assert compute(point).effects


def test_no_more_statements_are_sent_than_the_budget_allows(compute: Callable[..., Any], point: DecisionPoint) -> None:
    found = compute(point, point, budget=EffectBudget(statements=2))
    assert len(found.effects) == 1
    (warning,) = found.warnings
    assert warning.message == "the effects of 2 decision points were not computed, because the scan reached its limit"
    assert compute(point, budget=EffectBudget(seconds=-1.0)).effects == ()


@pytest.mark.parametrize(
    ("latest", "today", "month"),
    [
        (date(2025, 7, 2), date(2026, 1, 1), date(2025, 6, 1)),
        (date(2025, 6, 30), date(2026, 1, 1), date(2025, 6, 1)),
        (date(2025, 12, 31), date(2026, 1, 1), date(2025, 12, 1)),
        (date(2031, 5, 5), date(2026, 1, 15), date(2025, 12, 1)),
        (None, date(2026, 1, 15), None),
    ],
)
def test_the_last_complete_month(latest: date | None, today: date, month: date | None) -> None:
    assert _last_complete(latest, today) == month


def test_effects_are_kept_in_the_state_database_and_spreads_in_the_record(
    layout: Layout, config: Callable[[], KtxConfig], model: Model
) -> None:
    tree = WorkingTree(layout.root)
    assert load_effects(layout, "wh") == ()
    record, computed = computed_effects(layout, config(), tree, model, environ={}, opener=open_connection)
    with open_for_writing(layout) as database:
        save_effects(layout, database, "wh", computed.effects)
    assert load_effects(layout, "wh") == computed.effects
    assert record is not None and b"400" not in record
    (layout.root / "raw-sources/wh/live-database/decisions.json").write_bytes(record)
    (found,) = read_record(tree, "wh")
    assert dict(found.spreads) == {"accounts.account_count": 0.25, "subscriptions.revenue": 0.25}
    again, _ = computed_effects(layout, config(), tree, model, environ={}, opener=open_connection)
    assert again == record


def test_that_effects_were_computed_is_kept_where_there_are_none(layout: Layout) -> None:
    with open_for_writing(layout) as database:
        save_effects(layout, database, "wh", ())
        assert database.execute("SELECT DISTINCT connection FROM decision_effects").fetchall() == [("wh",)]
    assert load_effects(layout, "wh") == ()


def test_a_database_that_cannot_be_opened_is_a_warning(
    layout: Layout, config: Callable[[], KtxConfig], model: Model
) -> None:
    (layout.root / "wh.duckdb").unlink()
    record, computed = computed_effects(
        layout, config(), WorkingTree(layout.root), model, environ={}, opener=open_connection
    )
    assert record is None
    assert computed.effects == () and len(computed.warnings) == 1


def test_an_older_state_database_has_no_effects(layout: Layout) -> None:
    layout.private.mkdir(exist_ok=True)
    sqlite3.connect(layout.state).close()
    assert load_effects(layout, "wh") == ()
