"""Tests of metrics: when they pass, when they fail, and what they tell then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.metric_tests import TestResult, run_test, same_value
from ktx_cli.semantic.model import MetricTest, Model
from ktx_cli.warehouses.port import ConnectionSpec, Connector, QueryResult
from ktx_cli.warehouses.registry import connect

ORDERS = """\
name: orders
table: orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: status, type: string}
  - {name: amount, type: number}
  - {name: paid, type: number}
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: received, expr: sum(paid)}
  - {name: order_count, expr: count(*)}
"""
BY_STATUS = {"measures": ["orders.revenue"], "dimensions": ["orders.status"]}
BOTH = {"measures": ["orders.revenue", "orders.received"], "dimensions": ["orders.status"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("project")
    (folder / "semantic-layer" / "shop").mkdir(parents=True)
    (folder / "semantic-layer" / "shop" / "orders.yaml").write_text(ORDERS)
    return load_model(Layout(folder), "shop", "sqlite")


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    path = tmp_path_factory.mktemp("data") / "shop.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, amount REAL, paid INTEGER);"
            "INSERT INTO orders VALUES (1, 'open', 0.1, 1), (2, 'open', 0.2, 2), (3, 'done', 10, 3), (4, NULL, NULL, 1)"
        )
    database.close()
    with connect(ConnectionSpec("shop", "sqlite", {"path": str(path)})) as opened:
        yield opened


def result(model: Model, connector: Connector, query: Any, **expected: Any) -> TestResult:
    return run_test(model, "orders", MetricTest("t", query, **expected), connector, guard=None)


@pytest.mark.parametrize(
    ("query", "expected", "passed"),
    [
        ({"measures": ["orders.order_count"]}, {"expect_value": 4}, True),
        ({"measures": ["orders.order_count"]}, {"expect_value": 5}, False),
        ({"measures": ["orders.order_count"]}, {"expect_value": "4"}, False),
        ({"measures": ["orders.order_count"]}, {"expect_value": 5, "tolerance": 1.0}, True),
        ({"measures": ["orders.order_count"]}, {"expect_value": None}, False),
        ({"measures": ["orders.revenue"], "filters": ["status is null"]}, {"expect_value": None}, True),
        ({"measures": ["orders.revenue"], "filters": ["status = 'open'"]}, {"expect_value": 0.3}, True),
        (BY_STATUS, {"expect_value": 10.3}, False),
        (BY_STATUS, {"expect": (("done", 10), ("open", 0.3), (None, None))}, True),
        (BY_STATUS, {"expect": (("open", 0.3), ("done", 10), (None, None))}, False),
        (BY_STATUS, {"expect": (("done", 10), ("open", 0.3))}, False),
        (BY_STATUS, {"expect": (("done", 10, 1), ("open", 0.3, 1), (None, None, 1))}, False),
        (BOTH, {"invariant": "received >= 1"}, True),
        (BOTH, {"invariant": "received < 3"}, False),
        (BOTH, {"invariant": "revenue is null or revenue / received <= 4"}, True),
        (BOTH, {"invariant": "revenue > 0"}, False),
    ],
)
def test_what_passes(model: Model, connector: Connector, query: Any, expected: dict[str, Any], passed: bool) -> None:
    assert result(model, connector, query, **expected).passed is passed


def test_an_invariant_tells_the_rows_that_break_it(model: Model, connector: Connector) -> None:
    found = result(model, connector, BOTH, invariant="revenue > 0")
    assert (found.expected, found.got) == ("revenue > 0", [[None, None, 1]])


def test_an_invariant_divides_exactly(model: Model, connector: Connector) -> None:
    query = {"measures": ["orders.received"], "dimensions": ["orders.status"]}
    found = result(model, connector, query, invariant="received / 2 = 1.5")
    assert found.got == [[None, 1]]


@pytest.mark.parametrize(
    ("query", "expected", "says"),
    [
        ({"measures": ["orders.nothing"]}, {"expect_value": 1}, "no measure"),
        ({"measure": ["orders.revenue"]}, {"expect_value": 1}, "unknown key `measure`"),
        (BOTH, {"invariant": "recieved > 0"}, "no column `recieved` in the result"),
        (BOTH, {"invariant": "orders.received > 0"}, "in the result"),
        (BOTH, {"invariant": "(select 1) = 1"}, "a subquery"),
        (BOTH, {"invariant": "no_such_function(received) > 0"}, "no such function"),
    ],
)
def test_a_test_that_cannot_be_asked_fails(
    model: Model, connector: Connector, query: Any, expected: dict[str, Any], says: str
) -> None:
    found = result(model, connector, query, **expected)
    assert not found.passed
    assert found.error is not None
    assert says in found.error.message


def test_a_connection_that_does_not_work_is_no_failed_test(model: Model) -> None:
    class Gone:
        dialect = "sqlite"

        def query(self, sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
            raise SourceError("the server went away")

    with pytest.raises(SourceError):
        result(model, Gone(), BY_STATUS, expect_value=1)  # type: ignore[arg-type]


@pytest.mark.table(
    ("expected", "got", "tolerance", "same"),
    [
        (38, "38.00", 0.0, True),
        (0.3, 0.1 + 0.2, 0.0, True),
        (0.3, "0.30000001", 0.0, False),
        (0.3, "0.30000001", 0.001, True),
        (1_000_000_001, 1_000_000_000, 0.0, False),
        (True, 1, 0.0, True),
        (False, 1, 0.0, False),
        ("2024-01-01 00:00:00", "2024-01-01T00:00:00", 0.0, True),
        ("a b", "a b", 0.0, True),
        (None, 0, 0.0, False),
        (0, None, 5.0, False),
        (1, "NaN", 1.0, False),
    ],
)
def test_values(expected: Any, got: Any, tolerance: float, same: bool) -> None:
    assert same_value(expected, got, tolerance) is same


def test_the_json(model: Model, connector: Connector) -> None:
    found = result(model, connector, {"measures": ["orders.order_count"]}, expect_value=5)
    assert found.to_json() == {
        "source": "orders",
        "test": "t",
        "passed": False,
        "expected": 5,
        "got": 4,
        "error": None,
        "path": None,
        "line": None,
    }
