"""A small company in a DuckDB file, and models of it loaded from the files an import gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model
from ktx_cli.semantic.store.reader import check_model
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect

COMPANY = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR, region VARCHAR, signed_up DATE, vip BOOLEAN);
INSERT INTO customers VALUES
  (1, 'Ann', 'north', DATE '2023-12-01', true), (2, 'Bob', 'south', DATE '2024-01-15', false),
  (3, 'Cid', 'north', DATE '2024-02-20', false);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, ordered_at TIMESTAMP, status VARCHAR,
  amount DECIMAL(10,2), is_gift BOOLEAN);
INSERT INTO orders VALUES
  (1, 1, '2024-01-05 10:00', 'paid', 100, false), (2, 1, '2024-01-20 11:00', 'paid', 50, true),
  (3, 2, '2024-02-02 09:30', 'open', 70, false), (4, 2, '2024-02-10 12:00', 'paid', 30, true),
  (5, 3, '2024-03-01 08:00', 'paid', 20, false), (6, NULL, '2024-03-15 08:00', 'open', 5, false);
CREATE TABLE order_items (order_id INTEGER, line INTEGER, sku VARCHAR, quantity INTEGER, price DECIMAL(10,2),
  PRIMARY KEY (order_id, line));
INSERT INTO order_items VALUES
  (1, 1, 'a', 2, 30), (1, 2, 'b', 1, 40), (2, 1, 'a', 1, 50), (3, 1, 'c', 7, 10), (4, 1, 'a', 1, 30),
  (5, 1, 'b', 2, 10);
CREATE TABLE balances (customer_id INTEGER, day DATE, amount INTEGER, PRIMARY KEY (customer_id, day));
INSERT INTO balances VALUES
  (1, DATE '2024-01-31', 10), (1, DATE '2024-02-29', 20), (2, DATE '2024-01-31', 5), (2, DATE '2024-02-29', 1);
"""
MANIFEST = """\
tables:
  customers:
    table: main.customers
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: name, type: string}
      - {name: region, type: string}
      - {name: signed_up, type: time, natural_granularity: day}
      - {name: vip, type: boolean}
  orders:
    table: main.orders
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: customer_id, type: number}
      - {name: ordered_at, type: time}
      - {name: status, type: string}
      - {name: amount, type: number}
      - {name: is_gift, type: boolean}
  order_items:
    table: main.order_items
    columns:
      - {name: order_id, type: number, pk: true}
      - {name: line, type: number, pk: true}
      - {name: sku, type: string}
      - {name: quantity, type: number}
      - {name: price, type: number}
  balances:
    table: main.balances
    columns:
      - {name: customer_id, type: number, pk: true}
      - {name: day, type: time, pk: true, natural_granularity: day}
      - {name: amount, type: number}
"""

Load = Callable[..., Model]
Answers = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("company") / "company.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(COMPANY)
    return path


@pytest.fixture
def connector(company: Path) -> Iterator[Connector]:
    opened = connect(ConnectionSpec("shop", "duckdb", {"path": str(company)}))
    yield opened
    opened.close()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that loads files as the connection `shop`, with the manifest where asked for."""
    made = 0

    def load_files(files: Mapping[str, str], *, manifest: bool = False) -> Model:
        nonlocal made
        made += 1
        root = tmp_path / str(made)
        texts = {**files, **({"_schema/main.yaml": MANIFEST} if manifest else {})}
        for name, text in texts.items():
            path = root / "semantic-layer" / "shop" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return load_model(Layout(root), "shop", "duckdb")

    return load_files


@pytest.fixture
def manifest(load: Load) -> Model:
    return load({}, manifest=True)


@pytest.fixture
def answers(connector: Connector) -> Answers:
    """Return a function that asks a question and gives its rows, numbers as floats."""

    def rows(model: Model, **query: Any) -> list[tuple[Any, ...]]:
        found = ask(model, query, connector).rows
        return [tuple(_plain(value) for value in row) for row in found]

    return rows


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    return str(value) if hasattr(value, "isoformat") else float(value)


def errors(model: Model) -> list[str]:
    """Return what loading and checking find wrong in a model."""
    problems = [*model.problems, *check_model(model)]
    return [f"{each.location}: {each.message}" for each in problems if each.severity == "error"]
