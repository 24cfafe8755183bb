"""Servers as they were scanned have no drift, and one that changed tells what."""

from __future__ import annotations

import uuid

import pytest

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from tests.jobs.check.diff.conftest import Shop

POSTGRES = """
CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40) NOT NULL, country text DEFAULT 'NO');
COMMENT ON TABLE customers IS 'People who buy';
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id integer REFERENCES customers, placed_on timestamptz NOT NULL,
  amount numeric(10, 2), net numeric GENERATED ALWAYS AS (amount * 0.8) STORED, UNIQUE (customer_id, placed_on));
CREATE INDEX by_day ON orders (placed_on);
CREATE VIEW totals AS SELECT customer_id, sum(amount) AS total FROM orders GROUP BY 1
"""
MARIADB = (
    "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, country TEXT) COMMENT 'People who buy'",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id INT, placed_on DATETIME NOT NULL, amount DECIMAL(10, 2),"
    " FOREIGN KEY (customer_id) REFERENCES customers (id))",
    "CREATE VIEW totals AS SELECT customer_id, sum(amount) AS total FROM orders GROUP BY 1",
)
ALTERED = (
    "ALTER TABLE customers DROP COLUMN country",
    "ALTER TABLE orders ADD COLUMN note varchar(10)",
    "DROP VIEW totals",
)
WANTED = ["column_removed customers.country", "column_added orders.note", "table_removed totals"]


def told(shop: Shop) -> list[str]:
    return [f"{each.kind.value} {each.what.rpartition('.')[2] if each.kind.value.startswith('table') else each.what}"
            for each in shop.diff().changes]  # fmt: skip


@pytest.mark.postgres
def test_postgres(bare: Shop, postgres_server: PostgresServer) -> None:
    name = f"drift{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(name, POSTGRES)
    role = f"{name}_reader"
    postgres_server.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'pw'",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
        database=name,
    )
    bare.connect("postgres", postgres_server.url(name, user=role, password="pw"))
    bare.scan("postgres")
    assert told(bare) == []
    postgres_server.execute(
        *ALTERED,
        "ALTER TABLE customers ALTER name TYPE text, ALTER name DROP NOT NULL",
        "COMMENT ON TABLE customers IS NULL",
        "ALTER TABLE orders DROP CONSTRAINT orders_customer_id_fkey",
        "DROP INDEX by_day",
        database=name,
    )
    assert told(bare) == [
        "column_removed public.customers.country",
        "column_type_changed public.customers.name",
        "column_nullable_changed public.customers.name",
        "table_comment_changed customers",
        "column_added public.orders.note",
        "foreign_key_removed public.orders.customer_id",
        "index_removed public.orders.placed_on",
        "table_removed totals",
    ]
    bare.scan("postgres")
    assert told(bare) == []


@pytest.mark.mysql
def test_mariadb(bare: Shop, mariadb_server: MariaDBServer) -> None:
    name = f"drift{uuid.uuid4().hex[:8]}"
    mariadb_server.create_database(name, *MARIADB)
    mariadb_server.execute(
        f"CREATE USER {name}@'%' IDENTIFIED BY 'pw'", f"GRANT SELECT, SHOW VIEW ON {name}.* TO {name}@'%'"
    )
    bare.connect("mysql", mariadb_server.url(name, user=name, password="pw"))
    bare.scan("mysql")
    assert told(bare) == []
    mariadb_server.execute(*ALTERED, database=name)
    assert [each.replace(f"{name}.", "") for each in told(bare)] == WANTED
