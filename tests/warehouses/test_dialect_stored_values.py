"""Values stored as text or numbers: what each engine makes of them, and which ones it finds that do not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlglot import exp

from ktx_cli.core import SourceError
from ktx_cli.warehouses.dialect import DIALECTS, EPOCHS, SHAPES, dialect_named
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import EITHER
from ktx_cli.warehouses.port import Connector, StoredAs
from tests.warehouses.conftest import Engine

GOOD: dict[StoredAs, dict[Any, Any]] = {
    StoredAs.ISO_DATE: {"2024-02-29": date(2024, 2, 29), "1999-12-31": date(1999, 12, 31)},
    StoredAs.ISO_TIMESTAMP: {
        "2024-02-29 18:30:15": datetime(2024, 2, 29, 18, 30, 15),
        "2024-02-29T18:30:15": datetime(2024, 2, 29, 18, 30, 15),
        "2024-12-31 23:59": datetime(2024, 12, 31, 23, 59),
    },
    StoredAs.ISO_TIMESTAMP_TZ: {
        "2024-02-29T18:30:15Z": datetime(2024, 2, 29, 18, 30, 15),
        "2024-03-01 01:30:15+07:00": datetime(2024, 2, 29, 18, 30, 15),
        "2024-12-31T23:30:00-01:30": datetime(2025, 1, 1, 1, 0),
    },
    StoredAs.NUMBER_TEXT: {
        "12.5": Decimal("12.5"),
        "-3": Decimal(-3),
        "0": Decimal(0),
        "0.000001": Decimal("0.000001"),
    },
    StoredAs.BOOLEAN_TEXT: {"Y": True, "n": False, "Yes": True, "NO": False, "t": True, "F": False, "true": True},
    StoredAs.EPOCH_SECONDS: {1_709_231_415: datetime(2024, 2, 29, 18, 30, 15)},
    StoredAs.EPOCH_MILLISECONDS: {1_709_231_415_000: datetime(2024, 2, 29, 18, 30, 15)},
}
BAD: dict[StoredAs, tuple[str, ...]] = {
    StoredAs.ISO_DATE: ("03/04/2024", "2024-02-31", "2024-13-01", "today", "2024-01-31 10:00:00", "n/a"),
    StoredAs.ISO_TIMESTAMP: ("2024-01-31", "2024-01-31 10:00:00 PM", "2024-01-31 25:00:00", "now", "soon"),
    StoredAs.ISO_TIMESTAMP_TZ: ("2024-01-31T10:00:00 Europe/Berlin", "yesterday", "2024-01-31T25:00:00Z"),
    StoredAs.NUMBER_TEXT: ("12,5", "1.2.3", "12 apples", "1e", "-", "$5"),
    StoredAs.BOOLEAN_TEXT: ("maybe", "-1", "yes no"),
}
TEXTS = [form for form in GOOD if form not in EPOCHS]


@pytest.fixture
def filled(engine: Engine, opened: Callable[..., Connector]) -> Callable[[StoredAs, list[Any]], Connector]:
    """Open a database with the values in the column `v` of a table."""

    def fill(stored_as: StoredAs, values: list[Any]) -> Connector:
        kind = "bigint" if stored_as in EPOCHS else "varchar(80)"
        shown = ["NULL" if value is None else repr(value) for value in values]
        rows = ", ".join(f"({number}, {value})" for number, value in enumerate(shown))
        options = engine.make(f"CREATE TABLE t (id int, v {kind})", f"INSERT INTO t VALUES {rows}")
        return opened(engine.driver, **options)

    return fill


def select(engine: Engine, connector: Connector, value: exp.Expr, where: str = "") -> list[Any]:
    table = "public.t" if engine.schema == "public" else "t"
    sql = f"SELECT {value.sql(connector.dialect)} FROM {table} {where} ORDER BY id"
    return [row[0] for row in connector.query(check(sql, connector.dialect, max_rows=100, server=EITHER).sql).rows]


def known(value: Any, stored_as: StoredAs) -> Any:
    """Return a value as Python has it: SQLite's times are texts, and its booleans numbers."""
    if isinstance(value, int) and stored_as is StoredAs.BOOLEAN_TEXT:
        return bool(value)
    if isinstance(value, float | int) and stored_as is StoredAs.NUMBER_TEXT:
        return Decimal(str(value))
    if isinstance(value, str):
        return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    return value


@pytest.mark.parametrize("stored_as", GOOD)
def test_values_have_their_type(stored_as: StoredAs, engine: Engine, filled: Any) -> None:
    good = GOOD[stored_as]
    connector = filled(stored_as, [*good, None])
    syntax = dialect_named(connector.dialect)
    value = syntax.typed_value(exp.column("v"), stored_as)
    if syntax.times_are_texts and isinstance(next(iter(good.values())), date):
        kind = "date" if stored_as is StoredAs.ISO_DATE else "timestamp"
        value = syntax.localize(value, kind, "UTC", "UTC")
    found = [known(each, stored_as) for each in select(engine, connector, value)]
    assert found == [*good.values(), None]


@pytest.mark.parametrize("stored_as", TEXTS)
def test_a_blank_is_no_value(stored_as: StoredAs, engine: Engine, filled: Any) -> None:
    connector = filled(stored_as, ["", "  ", None])
    syntax = dialect_named(connector.dialect)
    value = syntax.typed_value(syntax.present_text(exp.column("v")), stored_as)
    assert select(engine, connector, value) == [None] * 3
    misfit = syntax.misfit(exp.column("v"), stored_as)
    assert misfit is not None
    assert select(engine, connector, exp.column("id"), f"WHERE {misfit.sql(connector.dialect)}") == []


@pytest.mark.parametrize("stored_as", BAD)
def test_other_values_fail_or_are_found(stored_as: StoredAs, engine: Engine, filled: Any) -> None:
    bad = BAD[stored_as]
    connector = filled(stored_as, [*GOOD[stored_as], *bad])
    syntax = dialect_named(connector.dialect)
    misfit = syntax.misfit(exp.column("v"), stored_as)
    assert misfit is not None
    found = select(engine, connector, exp.column("id"), f"WHERE {misfit.sql(connector.dialect)}")
    missed = {"2024-02-31"} if connector.dialect == "postgres" else set()  # Only its cast knows the calendar.
    assert found == [number for number, text in enumerate(bad, start=len(GOOD[stored_as])) if text not in missed]
    value = syntax.typed_value(exp.column("v"), stored_as)
    for number, text in enumerate(bad, start=len(GOOD[stored_as])):
        where = f"WHERE id = {number}"
        if syntax.casts_strictly:
            with pytest.raises(SourceError) as caught:
                select(engine, connector, value, where)
            if re.match(SHAPES.get(stored_as, "$"), text) is None:
                assert f" {text}" not in caught.value.message, text
        elif not syntax.times_are_texts or stored_as in (StoredAs.NUMBER_TEXT, StoredAs.BOOLEAN_TEXT):
            assert select(engine, connector, value, where) == [None], text


@pytest.mark.parametrize("stored_as", EPOCHS)
def test_epochs_out_of_range_are_found(stored_as: StoredAs, engine: Engine, filled: Any) -> None:
    low, high = EPOCHS[stored_as]
    connector = filled(stored_as, [low, high - 1, 0, low - 1, high, None])
    misfit = dialect_named(connector.dialect).misfit(exp.column("v"), stored_as)
    assert misfit is not None
    assert select(engine, connector, exp.column("id"), f"WHERE {misfit.sql(connector.dialect)}") == [2, 3, 4]


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_lets_its_conversions_through(name: str) -> None:
    syntax = dialect_named(name)
    for stored_as in StoredAs:
        value = syntax.typed_value(exp.column("v"), stored_as)
        assert value.find(exp.Column) is not None
        misfit = syntax.misfit(exp.column("v"), stored_as)
        query = exp.select(value).from_("t").where(misfit)
        sql = query.sql(name, normalize_functions=False)
        assert check(sql, name, max_rows=100, server=EITHER).sql
