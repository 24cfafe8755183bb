"""The statement that looks for a question's literals: what it finds on real engines, and its SQL in every dialect."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.filter_values import ValueFindings, comparisons, is_proven, periods, plan_check
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import CalendarSettings, Model
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import EITHER
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model

ENGINES = ("duckdb", "sqlite", "postgres", "mysql")
ORDERS: dict[str, Any] = {"measures": ["orders.orders"]}
LINES_OF_ORDERS: dict[str, Any] = {"measures": ["lines.pieces"], "time_range": {"field": "orders.placed_at"}}


@pytest.fixture(scope="module", params=ENGINES)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Connector]]:
    engine = request.param
    servers = {"postgres": "postgres_server", "mysql": "mariadb_server"}
    server = request.getfixturevalue(servers[engine]) if engine in servers else None
    with opened(engine, tmp_path_factory.mktemp("values"), server) as connector:
        yield engine, connector


def checked(shop: tuple[str, Connector], query: dict[str, Any], now: datetime = NOW) -> tuple[list[str], ValueFindings]:
    """Return the comparisons no row meets, as SQL, and all that the statement found."""
    dialect, connector = shop
    asked = compile_query(shop_model(dialect), query, caller=Caller.of(ATTRIBUTES), now=now)
    wanted, since = comparisons(asked), periods(asked)
    planned = plan_check(asked, wanted, since, [True] * len(wanted))
    found = planned.read(connector.query(planned.sql, max_rows=planned.max_rows).rows)
    return [wanted[number].text("") for number in sorted(found.missing)], found


@pytest.mark.table(
    ("condition", "missing"),
    [
        ("orders.status = 'paid'", []),
        ("orders.status = 'payed'", ["orders.status = 'payed'"]),
        ("'payed' = orders.status", ["orders.status = 'payed'"]),
        ("orders.status <> 'payed'", ["orders.status = 'payed'"]),
        ("orders.status in ('paid', 'payed', null)", ["orders.status = 'payed'"]),
        ("orders.status not in ('paid', 'payed')", ["orders.status = 'payed'"]),
        ("orders.status = 'paid' or orders.status = 'payed'", ["orders.status = 'payed'"]),
        ("orders.status like 'pa%'", []),
        ("orders.status like 'pb%'", ["orders.status LIKE 'pb%'"]),
        ("orders.id = 48", []),
        ("orders.id = -48", ["orders.id = -48"]),
        ("orders.discount = 0.25 and orders.discount <> 0.3", ["orders.discount = 0.3"]),
        ("orders.gift = true", []),
        ("orders.shipped_on = '2023-11-24'", []),
        ("orders.shipped_on = '2020-01-01'", ["orders.shipped_on = '2020-01-01'"]),
        ("customers.regions.name = 'North'", []),
        ("billed.name = 'Nord'", ["billed.name = 'Nord'"]),
        ("lower(orders.status) = 'payed'", []),  # not a plain column
        ("customers.label = 'brass'", []),  # a computed one
        ("orders.amount > 100000", []),  # not a comparison with a value rows should have
        ("orders.billed_to = orders.sent_to", []),
    ],
)
def test_the_literals_no_row_has_are_found(condition: str, missing: list[str], shop: tuple[str, Connector]) -> None:
    dialect, _ = shop
    asked = compile_query(shop_model(dialect), ORDERS | {"filters": [condition]}, caller=Caller.of(ATTRIBUTES), now=NOW)
    if not comparisons(asked):
        assert missing == []
        return
    assert checked(shop, ORDERS | {"filters": [condition]})[0] == missing


def test_candidates_are_the_values_of_the_column(shop: tuple[str, Connector]) -> None:
    _, found = checked(shop, ORDERS | {"filters": ["orders.status = 'Paid '", "orders.id = 60"]})
    if 0 in found.missing:  # MariaDB's `=` takes neither case nor blanks at the end into account
        assert found.candidates[0][0] == "paid"
    else:
        assert shop[0] == "mysql"
    assert set(found.candidates[0]) == {"new", "paid", "sent", "void"}
    assert found.candidates[1] == ["48"]


def test_the_next_value_on_either_side_is_a_candidate(shop: tuple[str, Connector]) -> None:
    _, found = checked(shop, ORDERS | {"filters": ["lines.line = 0", "orders.shipped_on = '2023-11-25'"]})
    assert found.candidates[0] == ["1"]
    assert found.candidates[1] == ["2023-11-24", "2023-11-28"]


@pytest.mark.table(("condition", "missing"), [("tickets.grade = 2", []), ("tickets.grade = 3", ["tickets.grade = 3"])])
def test_rows_behind_a_policy_do_not_count(condition: str, missing: list[str], shop: tuple[str, Connector]) -> None:
    """Tickets have the grades 0 to 3; this caller sees those up to 2."""
    said, found = checked(shop, {"measures": ["tickets.tickets"], "filters": [condition]})
    assert said == missing
    assert "3" not in [value for values in found.candidates.values() for value in values]


@pytest.mark.table(
    ("query", "now", "empty", "newest"),
    [
        (ORDERS, NOW, False, "2024-04-1"),
        (ORDERS, datetime(2030, 1, 1), True, "2024-04-1"),
        (LINES_OF_ORDERS, NOW, False, "2024-0"),
        (LINES_OF_ORDERS, datetime(2030, 1, 1), True, "2024-0"),
    ],
)
def test_the_newest_row_of_a_period_without_rows(
    query: dict[str, Any], now: datetime, empty: bool, newest: str, shop: tuple[str, Connector]
) -> None:
    query = query | {"time_range": {"last": "90 days"} | query.get("time_range", {})}
    _, found = checked(shop, query, now)
    assert bool(found.empty) is empty
    assert found.newest[0].startswith(newest)


@pytest.mark.table(
    ("query", "proven"),
    [
        (ORDERS | {"filters": ["orders.status = 'paid'"]}, True),
        (ORDERS | {"filters": ["orders.status = 'payed'"]}, False),
        (ORDERS | {"filters": ["orders.status in ('paid', 'payed')"]}, False),
        (ORDERS | {"filters": ["orders.status <> 'payed'"]}, False),
        (ORDERS | {"filters": ["not orders.status = 'payed'"]}, False),
        (ORDERS | {"filters": ["orders.status = 'paid' or orders.status = 'payed'"]}, False),
        ({"measures": ["orders.per_order"], "filters": ["orders.status = 'paid'"]}, True),
        ({"measures": ["orders.orders + 1"], "filters": ["orders.status = 'payed'"]}, False),
        ({"measures": ["orders.orders"], "dimensions": ["customers.tier"], "filters": ["orders.status = 'no'"]}, False),
        ({"measures": [], "dimensions": ["customers.tier"], "filters": ["customers.tier = 'gold'"]}, True),
        ({"measures": [], "dimensions": ["customers.tier"], "filters": ["customers.tier = 'glod'"]}, False),
        (
            {
                "measures": ["orders.orders", "tickets.tickets"],
                "filters": [{"expr": "customers.tier = 'glod'", "facts": ["tickets"]}],
            },
            False,
        ),
    ],
)
def test_an_answer_proves_its_conditions_only_where_a_row_met_them(
    query: dict[str, Any], proven: bool, shop: tuple[str, Connector]
) -> None:
    answer = ask(shop_model(shop[0]), query, shop[1], caller=Caller.of(ATTRIBUTES), now=NOW)
    assert answer.asked is not None
    assert all(is_proven(each, answer.asked, answer.rows) for each in comparisons(answer.asked)) is proven


@pytest.mark.table("dialect", DIALECTS)
def test_the_guard_lets_the_statement_through(dialect: str) -> None:
    query = {
        "measures": ["tickets.tickets", "orders.orders"],
        "filters": [
            "customers.tier = 'glod'",
            "customers.balance = 3",
            "customers.name like 'C%'",
            {"expr": "orders.gift = true", "facts": ["orders"]},
        ],
        "time_range": {"last": "90 days"},
    }
    asked = compile_query(shop_model(dialect), query, caller=Caller.of(ATTRIBUTES), now=NOW)
    wanted, since = comparisons(asked), periods(asked)
    assert len(wanted) == 4 and len(since) == 2
    planned = plan_check(asked, wanted, since, [True] * len(wanted))
    found = check(planned.sql, dialect, max_rows=planned.max_rows, server=EITHER)
    assert not found.explains


@pytest.fixture(scope="module")
def spelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Model, Connector]]:
    folder = tmp_path_factory.mktemp("spelled")
    with sqlite3.connect(folder / "data") as database:
        database.execute("CREATE TABLE spelled (id INTEGER PRIMARY KEY, at TEXT)")
        database.execute("INSERT INTO spelled VALUES (1, '2021-01-03 00:00:00'), (2, '2021-01-04T00:30:00+02:00')")
    database.close()
    columns = [{"name": "id", "type": "number"}, {"name": "at", "type": "time"}]
    source = {"name": "spelled", "table": "spelled", "grain": ["id"], "columns": columns}
    (folder / "semantic-layer" / "w").mkdir(parents=True)
    (folder / "semantic-layer" / "w" / "spelled.yaml").write_text(json.dumps(source))
    with connect(ConnectionSpec("w", "sqlite", {"path": str(folder / "data")})) as connector:
        yield load_model(Layout(folder), "w", "sqlite", CalendarSettings()), connector


@pytest.mark.table(
    ("condition", "missing", "candidates"),
    [
        ("spelled.at = '2021-01-03'", [], []),
        ("spelled.at = '2021-01-03 22:30:00'", [], []),
        (
            "spelled.at IN ('2021-01-02T00:00', '2021-01-03')",
            ["spelled.at = '2021-01-02T00:00'"],
            ["2021-01-03 00:00:00"],
        ),
        ("spelled.at <> '2021-01-05'", ["spelled.at = '2021-01-05'"], ["2021-01-04T00:30:00+02:00"]),
    ],
)
def test_times_of_sqlite_are_looked_for_whatever_their_spelling(
    condition: str, missing: list[str], candidates: list[str], spelled: tuple[Model, Connector]
) -> None:
    model, connector = spelled
    asked = compile_query(model, {"measures": ["count(spelled.id)"], "filters": [condition]}, now=NOW)
    wanted = comparisons(asked)
    planned = plan_check(asked, wanted, [], [True] * len(wanted))
    found = planned.read(connector.query(planned.sql, max_rows=planned.max_rows).rows)
    assert [wanted[number].text("") for number in sorted(found.missing)] == missing
    assert [value for number in sorted(found.missing) for value in found.candidates[number]] == candidates
