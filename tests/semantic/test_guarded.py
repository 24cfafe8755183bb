"""The one way to a database: nothing is sent that the guard did not let through."""

from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError, UsageError
from ktx_cli.jobs.semantic.question import Question, ask_layer
from ktx_cli.jobs.semantic.validate import validate_layers
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.guarded import ConnectionGuard, json_rows
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses.guard.functions import StatementRefusedError
from ktx_cli.warehouses.port import Scope


def opened(shop: Any) -> Any:
    return ConnectionGuard.of(shop.layout, shop.config, "shop").open(shop.config, layout=shop.layout, environ={})


def test_what_reads_is_sent_as_it_was_checked(shop: Any) -> None:
    with opened(shop) as connector:
        assert connector.dialect == "sqlite"
        found = connector.query("select id, country from customers order by id", max_rows=1)
        assert (found.columns, found.rows, found.truncated) == (("id", "country"), ((1, "NO"),), True)
        assert connector.checked("select 1", max_rows=5).sql == "SELECT 1 LIMIT 6"
        assert connector.test(Scope()).tables == 2
        assert len(connector.introspect(Scope()).tables) == 2


@pytest.mark.parametrize("sql", ["DELETE FROM orders", "SELECT 1; SELECT 2", "SELECT load_extension('x')"])
def test_what_does_not_only_read_is_not_sent(shop: Any, sql: str) -> None:
    class Untouched:
        dialect = "sqlite"

        def query(self, *_: object, **__: object) -> None:
            raise AssertionError("it was sent")

    with opened(shop) as connector:
        connector.inner.close()
        connector.inner = Untouched()
        with pytest.raises(StatementRefusedError):
            connector.query(sql)
        connector.inner = type("Closed", (), {"close": lambda _: None})()


def test_a_wrong_name_gets_the_nearest_known_one(shop: Any) -> None:
    shop.write(
        "_schema/main.yaml", "tables:\n  orders:\n    table: orders\n    columns: [{name: amount, type: number}]\n"
    )
    with opened(shop) as connector, pytest.raises(SourceError) as caught:
        connector.query("SELECT amuont FROM orders")
    assert caught.value.hint == "did you mean `amount`?"


def test_raw_statements_and_compiled_ones(shop: Any) -> None:
    shop.configure("    query_policy: semantic-layer-only\n")
    guard = ConnectionGuard.of(shop.layout, shop.config, "shop")
    with pytest.raises(UsageError, match="does not allow raw SQL"):
        guard.check("SELECT 1", max_rows=1)
    assert guard.for_compiled.check("SELECT 1", max_rows=1).sql == "SELECT 1 LIMIT 2"


@pytest.mark.parametrize(
    ("driver", "table", "sent"),
    [
        ("postgres", "orders", '"public".orders'),
        ("postgres", "pg_class", "pg_class"),
        ("redshift", "orders", '"public".orders'),
        ("redshift", "svv_tables", "svv_tables"),
        ("sqlite", "orders", "orders"),
    ],
)
def test_the_dialect_says_where_tables_without_a_schema_are(driver: str, table: str, sent: str, tmp_path: Path) -> None:
    data = f"connections: {{wh: {{driver: {driver}, url: 'env:WH'}}}}".encode()
    config = load_config(tmp_path / "ktx.yaml", data=data).config
    guard = ConnectionGuard.of(Layout(tmp_path), config, "wh")
    assert guard.check(f"SELECT * FROM {table}", max_rows=1).sql == f"SELECT * FROM {sent} LIMIT 2"


def test_rows_as_json_are_cut_by_their_size() -> None:
    rows = [(Decimal("1.50"), b"\x00", None), ("x" * 100, 1, True)]
    assert json_rows(rows) == ((("1.50", "00", None), ("x" * 100, 1, True)), False)
    assert json_rows(rows, max_bytes=50) == ((("1.50", "00", None),), True)


def test_large_answers_are_cut_and_say_so(shop: Any) -> None:
    question = Question({"measures": ["orders.revenue"], "dimensions": ["customers.country"]})
    told = ask_layer(shop.layout, shop.config, question, environ={}, max_bytes=12)
    assert (told.rows, told.cut, told.to_json()["truncated"]) == ((("NO", 15.0),), "bytes", True)


SERVER_TABLES = (
    "CREATE TABLE {0}customers (id integer, country varchar(9))",
    "CREATE TABLE {0}orders (id integer, customer_id integer, ordered_at timestamp, amount numeric(9, 2))",
    "INSERT INTO {0}customers VALUES (1, 'NO'), (2, 'SE')",
    "INSERT INTO {0}orders VALUES (1, 1, '2024-01-05 23:30:00', 10), (2, 2, '2024-02-05 10:00:00', 20), "
    "(3, 9, '2024-02-06 10:00:00', 2.5)",
)
ASKED: dict[str, Any] = {
    "measures": ["orders.revenue", "avg(orders.amount)"],
    "dimensions": ["customers.country", {"field": "orders.ordered_at", "granularity": "month"}],
    "time_range": {"start": "2024-01-01", "end": "2024-04-01"},
    "timezone": "Europe/Oslo",
    "order_by": ["orders.revenue desc"],
    "totals": True,
    "fill": True,
}
"""A question with the functions of time, which the guard has to let through."""


def served(shop: Any, driver: str, url: str, schema: str) -> list[list[Any]]:
    """Ask a server, and check its data; return the rows of the answer."""
    shop.configure(f"  server:\n    driver: {driver}\n    url: {url}\n")
    for name in ("orders", "customers"):
        text = (shop.folder / "semantic-layer" / "shop" / f"{name}.yaml").read_text()
        shop.write(f"{name}.yaml", text.replace(f"table: {name}", f"table: {schema}{name}"), "server")
    told = ask_layer(shop.layout, shop.config, Question(ASKED, "server", verified=True), environ={})
    assert told.totals is not None
    assert float(told.totals["revenue"]) == 32.5
    assert told.mismatches == 0
    found = validate_layers(shop.layout, shop.config, environ={}, connection="server")
    assert [each.code for _, each in found.problems] == ["dangling"]
    assert found.unread == {}
    return [[str(row[0]), row[1], float(row[2] or 0)] for row in told.rows]


ROWS = [["SE", "2024-02-01", 20.0], ["NO", "2024-01-01", 10.0], ["None", "2024-02-01", 2.5]]


@pytest.mark.postgres
@pytest.mark.parametrize("schema", ["", "sales."])
def test_compiled_statements_on_postgres(shop: Any, postgres_server: PostgresServer, schema: str) -> None:
    made = ["CREATE SCHEMA sales"] if schema else []
    tables = [each.format(schema) for each in SERVER_TABLES]
    url = postgres_server.create_database(f"sl{uuid.uuid4().hex[:8]}", *made, *tables)
    assert [row for row in served(shop, "postgres", url, schema) if row[2]] == ROWS


@pytest.mark.mysql
def test_compiled_statements_on_mariadb(shop: Any, mariadb_server: MariaDBServer) -> None:
    url = mariadb_server.create_database(f"sl{uuid.uuid4().hex[:8]}", *(each.format("") for each in SERVER_TABLES))
    assert [row for row in served(shop, "mysql", url, "") if row[2]] == ROWS


def test_compiled_statements_on_duckdb(shop: Any) -> None:
    import duckdb

    with duckdb.connect(str(shop.folder / "shop.duckdb")) as database:
        for statement in SERVER_TABLES:
            database.execute(statement.format(""))
    assert [row for row in served(shop, "duckdb", "shop.duckdb", "") if row[2]] == ROWS


VAULT = (
    "CREATE TABLE vault (id integer, region varchar(9), note varchar(99))",
    "INSERT INTO vault VALUES (1, 'EU', '1'), (2, 'US', 'CANARY')",
    "CREATE INDEX notes ON vault (note)",
)


def asked_of_a_vault(shop: Any, driver: str, url: str, condition: str) -> Any:
    """Return the rows of a question whose condition fails on a row that a policy leaves out."""
    shop.configure(f"  server:\n    driver: {driver}\n    url: {url}\n")
    columns = "".join(f"  - {{name: {name}, type: string}}\n" for name in ("id", "region", "note"))
    policy = "policies: [{name: own, filter: \"lower(trim(substring(region, 1, 9))) = 'eu'\"}]\n"
    shop.write("vault.yaml", f"name: vault\ntable: vault\ngrain: [id]\ncolumns:\n{columns}{policy}", "server")
    question = Question({"dimensions": ["vault.note"], "filters": [condition]}, "server")
    return ask_layer(shop.layout, shop.config, question, environ={}).rows


@pytest.mark.postgres
def test_no_condition_sees_rows_before_a_policy_on_postgres(shop: Any, postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"sl{uuid.uuid4().hex[:8]}", *VAULT)
    assert asked_of_a_vault(shop, "postgres", url, "cast(vault.note as integer) = 1") == (("1",),)


@pytest.mark.mysql
def test_no_condition_sees_rows_before_a_policy_on_mariadb(shop: Any, mariadb_server: MariaDBServer) -> None:
    url = mariadb_server.create_database(f"sl{uuid.uuid4().hex[:8]}", *VAULT)
    condition = "exp(case when vault.note = 'CANARY' then 999 else 0 end) = 1"
    assert asked_of_a_vault(shop, "mysql", url, condition) == (("1",),)


def test_no_condition_sees_rows_before_a_policy_on_sqlite(shop: Any) -> None:
    shop.run(";".join(VAULT))
    assert asked_of_a_vault(shop, "sqlite", str(shop.folder / "shop.sqlite"), "json(vault.note) = '1'") == (("1",),)


def test_no_condition_sees_rows_before_a_policy_on_duckdb(shop: Any) -> None:
    import duckdb

    with duckdb.connect(str(shop.folder / "vault.duckdb")) as database:
        for statement in VAULT:
            database.execute(statement)
    condition = "cast(vault.note as integer) = 1"
    assert asked_of_a_vault(shop, "duckdb", "vault.duckdb", condition) == (("1",),)
