"""The comment that names ktx, on statements of every form a driver takes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses.cloud import ClientError, read_of_each
from ktx_cli.warehouses.port import TableRef
from ktx_cli.warehouses.server import TAG, PartReader, tagged, tagged_mysql_connection, tagged_postgres_cursor


def test_tagged() -> None:
    assert tagged("SELECT 1") == f"{TAG} SELECT 1" == "/* ktx */ SELECT 1"


@pytest.mark.postgres
def test_postgres_cursors_tag_text_bytes_and_composed_sql(postgres_server: PostgresServer) -> None:
    import psycopg
    from psycopg.sql import SQL, Identifier

    offset = len(postgres_server.log)
    with psycopg.connect(
        postgres_server.url(), autocommit=True, cursor_factory=tagged_postgres_cursor(), application_name="forms"
    ) as connection:
        connection.execute("SELECT 'text'")
        connection.execute(b"SELECT 'bytes'")
        connection.execute(SQL("SELECT 'composed' AS {}").format(Identifier("x")))
        with connection.cursor() as cursor:
            cursor.executemany("SELECT %s::text", [("many",)])
            assert list(cursor.stream("SELECT 'stream'")) == [("stream",)]
    lines = [line for line in postgres_server.log[offset:].splitlines() if line.startswith("forms|LOG:")]
    assert len(lines) == 5
    assert all(": /* ktx */ SELECT " in line for line in lines)


@pytest.mark.mysql
def test_mysql_connections_tag_what_the_driver_sends_itself(mariadb_server: MariaDBServer) -> None:
    offset = len(mariadb_server.statements)
    connection: Any = tagged_mysql_connection()(
        host="127.0.0.1", port=mariadb_server.port, user="admin", password="admin"
    )
    connection.begin()
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s", ["grün 🛒"])
        assert cursor.fetchall() == (("grün 🛒",),)
    connection.commit()
    connection.rollback()
    connection.autocommit(True)
    connection.ping()
    connection.close()
    lines = [line for line in mariadb_server.statements[offset:].splitlines() if " Query\t" in line]
    assert len(lines) >= 6
    assert all(" Query\t/* ktx */ " in line for line in lines)


def test_why_nothing_is_known_of_changes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def refused(sql: str, parameters: object = ()) -> list[tuple[object, ...]]:
        raise ClientError("no rights on system.parts", ValueError())

    ref = TableRef("s", "a")
    with caplog.at_level(logging.DEBUG, "ktx_cli"):
        assert PartReader(refused, ClientError).changes(lambda read: {ref: str(read("SELECT 1"))}) == {}
        assert read_of_each(refused, str, [ref]) == []
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
        "no evidence of changes of tables",
        "no evidence of changes of 1 table",
    ]
    assert all("no rights on system.parts" in each.getMessage() for each in caplog.records)
