"""One picture of the catalog: what others drop, alter or make while it is read is not in it, and no lock is kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses import port
from ktx_cli.warehouses.port import Connector, DatabaseSchema, Scope, TableRef
from ktx_cli.warehouses.postgres import catalog
from ktx_cli.warehouses.postgres.catalog import PostgresCatalog

pytestmark = pytest.mark.postgres
Open = Callable[..., Connector]
NUMBERS = itertools.count()
SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int REFERENCES customers)",
    "CREATE TABLE notes (id int DEFAULT 7, word text)",
    "CREATE VIEW named AS SELECT name FROM customers",
)


@pytest.fixture
def shop(postgres_server: PostgresServer) -> str:
    name = f"picture{next(NUMBERS)}"
    postgres_server.create_database(name, *SHOP)
    return name


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Do something between the list of the relations and all else."""
    select = port.select

    def selected(*args: Any, **options: Any) -> Any:
        action()
        return select(*args, **options)

    monkeypatch.setattr(catalog, "select", selected)


CHANGES = {
    "a dropped table": "DROP TABLE notes",
    "dropped with its key": "DROP TABLE orders; DROP TABLE customers CASCADE",
    "an altered table": "ALTER TABLE notes DROP COLUMN word; ALTER TABLE notes ADD COLUMN more int; "
    "ALTER TABLE notes RENAME TO remarks; CREATE INDEX late ON remarks (more)",
    "a new key": "ALTER TABLE notes ADD PRIMARY KEY (id)",
    "made anew": "DROP TABLE notes; CREATE TABLE notes (id text, other text, third text)",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_meanwhile_is_not_in_the_picture(
    shop: str, change: str, postgres_server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = opened("postgres", url=postgres_server.url(shop))
    before = connector.introspect(Scope())
    meanwhile(monkeypatch, lambda: postgres_server.execute(change, database=shop))
    during = connector.introspect(Scope())
    assert without_text(during) == without_text(before)
    monkeypatch.undo()
    assert without_text(connector.introspect(Scope())) != without_text(before)


def without_text(schema: DatabaseSchema) -> list[tuple[Any, ...]]:
    """Return the tables without what functions look up at their own moment: defaults."""
    return [
        (
            table.ref,
            [(column.name, column.native_type, column.nullable) for column in table.columns],
            table.primary_key,
            table.foreign_keys,
            table.indexes,
        )
        for table in schema.tables
    ]


def test_a_view_that_is_dropped_meanwhile_costs_its_text_alone(
    shop: str, postgres_server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = opened("postgres", url=postgres_server.url(shop))
    meanwhile(monkeypatch, lambda: postgres_server.execute("DROP VIEW named", database=shop))
    schema = connector.introspect(Scope())
    named = next(table for table in schema.tables if table.ref == TableRef("public", "named"))
    assert [column.name for column in named.columns] == ["name"]
    assert len(schema.tables) == 4


def test_no_table_stays_locked_while_the_catalog_is_read_on(
    shop: str, postgres_server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out, seen = PostgresCatalog._take_out_locked, []

    def looked(self: PostgresCatalog, drafts: Any) -> Any:
        query = (
            "SELECT count(*) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation JOIN pg_stat_activity AS a"
            " USING (pid) WHERE a.application_name = 'ktx' AND c.relname IN ('customers', 'orders', 'notes', 'named')"
        )
        with opened("postgres", url=postgres_server.url(shop)) as other:
            seen.append(other.query(query.replace("FROM pg", "FROM pg_catalog.pg")).rows)
        return take_out(self, drafts)

    monkeypatch.setattr(PostgresCatalog, "_take_out_locked", looked)
    schema = opened("postgres", url=postgres_server.url(shop)).introspect(Scope())
    assert any(table.view_sql for table in schema.tables)
    assert seen == [((0,),)]


def test_a_statement_that_fails_leaves_the_picture_whole(
    shop: str, postgres_server: PostgresServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_CONSTRAINTS", "SELECT 1 / 0 FROM pg_catalog.pg_class WHERE oid = ANY(%s)")
    schema = opened("postgres", url=postgres_server.url(shop)).introspect(Scope())
    assert [problem.what for problem in schema.problems] == ["constraints"]
    assert len(schema.tables) == 4
    assert any(table.view_sql for table in schema.tables)
