"""From `ktx setup` to a manifest on a real Postgres and a real MariaDB, with a role that may only SELECT."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.testing.servers import MariaDBServer, PostgresServer

Run = Callable[..., Any]

POSTGRES = """
CREATE SCHEMA sales;
CREATE TABLE public.customers (id integer PRIMARY KEY, name text NOT NULL, vip boolean, data jsonb);
COMMENT ON TABLE public.customers IS 'People who buy';
CREATE TABLE sales.orders (
  id bigint PRIMARY KEY, customer_id integer REFERENCES public.customers, placed_at timestamptz NOT NULL);
CREATE TABLE sales.lines (order_id bigint REFERENCES sales.orders, line integer, amount numeric(10, 2),
  PRIMARY KEY (order_id, line));
CREATE TABLE sales.gifts (order_id bigint, line integer, FOREIGN KEY (order_id, line) REFERENCES sales.lines);
CREATE TABLE sales.customers (id integer);
CREATE VIEW sales.totals AS SELECT order_id, sum(amount) AS total FROM sales.lines GROUP BY 1
"""

MARIADB = [
    "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, vip TINYINT(1)) COMMENT 'People who buy'",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id INT, placed_at DATETIME NOT NULL,"
    " FOREIGN KEY (customer_id) REFERENCES customers (id))",
    "CREATE VIEW recent AS SELECT id FROM orders",
]


def manifest(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in (project / "semantic-layer" / "warehouse" / "_schema").rglob("*.yaml"):
        found.update(yaml.load(path.read_bytes(), where=str(path))["tables"])
    return found


def build(ktx: Run, monkeypatch: pytest.MonkeyPatch, driver: str, url: str) -> None:
    monkeypatch.setenv("WAREHOUSE_URL", url)
    answer = ktx("setup", "--no-input", "--database", driver, "--database-url", "env:WAREHOUSE_URL", "--json")
    assert answer.code == 0, answer
    first = ktx("ingest", "--json")
    assert first.code == 0, first
    assert first.data["connections"][0]["problems"] == []
    assert ktx("ingest", "--json").data["status"] == "unchanged"
    (finding,) = ktx("doctor", "--only", "connections", "--json").data["findings"]
    assert finding["level"] == "ok", finding


@pytest.mark.postgres
def test_postgres(ktx: Run, work: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cli{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(name, POSTGRES)
    postgres_server.execute(
        f"CREATE ROLE {name} LOGIN PASSWORD 'canary-pw'",
        f"GRANT USAGE ON SCHEMA public, sales TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public, sales TO {name}",
        f"REVOKE CREATE ON SCHEMA public FROM {name}",
        database=name,
    )
    build(ktx, monkeypatch, "postgres", postgres_server.url(name, user=name, password="canary-pw"))
    found = manifest(work)
    assert {source: entry["table"] for source, entry in found.items()} == {
        "customers": "public.customers",
        "sales_customers": "sales.customers",
        "orders": "sales.orders",
        "lines": "sales.lines",
        "gifts": "sales.gifts",
        "totals": "sales.totals",
    }
    assert found["customers"]["descriptions"] == {"db": "People who buy"}
    assert [column["type"] for column in found["customers"]["columns"]] == ["number", "string", "boolean", "string"]
    assert found["gifts"]["joins"] == [
        {
            "to": "lines",
            "on": "order_id = lines.order_id AND line = lines.line",
            "relationship": "many_to_one",
            "source": "formal",
        }
    ]
    for path in work.rglob("*"):
        if path.is_file():
            assert b"canary-pw" not in path.read_bytes(), path


@pytest.mark.mysql
def test_mariadb(ktx: Run, work: Path, mariadb_server: MariaDBServer, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cli{uuid.uuid4().hex[:8]}"
    mariadb_server.create_database(name, *MARIADB)
    mariadb_server.execute(
        f"CREATE USER {name}@'%' IDENTIFIED BY 'canary-pw'", f"GRANT SELECT, SHOW VIEW ON {name}.* TO {name}@'%'"
    )
    build(ktx, monkeypatch, "mysql", mariadb_server.url(name, user=name, password="canary-pw"))
    found = manifest(work)
    assert set(found) == {"customers", "orders", "recent"}
    assert found["customers"]["descriptions"] == {"db": "People who buy"}
    assert [column["type"] for column in found["customers"]["columns"]] == ["number", "string", "boolean"]
    assert found["orders"]["joins"][0]["to"] == "customers"
