"""MySQL (MariaDB stands for it): what information_schema says to any role; errors; what the server is sent."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.testing.servers import MariaDBServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.mysql import connector as mysql
from ktx_cli.warehouses.mysql.connector import MySqlConnector
from ktx_cli.warehouses.port import Connector, ForeignKey, Index, Scope, TableRef, UniqueKey, reader_of

pytestmark = pytest.mark.mysql
Open = Callable[..., Connector]
CANARY = "c4n4ry-hunter2"


@pytest.fixture(scope="module")
def shop(mariadb_server: MariaDBServer) -> Iterator[str]:
    """A database with one of everything, and a user `reader` that may only SELECT."""
    url = mariadb_server.create_database(
        "shop",
        "CREATE TABLE parent (id int AUTO_INCREMENT, k varchar(9), b tinyint(1) NOT NULL DEFAULT 1, u int UNSIGNED, "
        "e enum('a','b') COMMENT 'about e', j json, s int GENERATED ALWAYS AS (u + 1) STORED, "
        "v int GENERATED ALWAYS AS (u + 2) VIRTUAL, ts timestamp DEFAULT current_timestamp ON UPDATE "
        "current_timestamp, bt bit(1), y year, d date DEFAULT NULL, PRIMARY KEY (id, k), UNIQUE uq (u), "
        "UNIQUE prefixed (e, k(3)), KEY plain (b, u)) COMMENT 'about parent'",
        "CREATE TABLE child (x int, y varchar(9), FOREIGN KEY pair (x, y) REFERENCES parent (id, k))",
        "CREATE TABLE Mixed (b int, a int, KEY (b, a))",
        "CREATE TABLE mixed (a int, b int, KEY (a, b))",
        "CREATE TABLE counted (a int) ENGINE=MyISAM",
        "INSERT INTO counted VALUES (1), (2), (3)",
        "CREATE TABLE versioned (a int) WITH SYSTEM VERSIONING",
        "CREATE TABLE parted (a int) PARTITION BY HASH (a) PARTITIONS 4",
        "CREATE SEQUENCE numbers",
        "CREATE VIEW seen AS SELECT id FROM parent",
    )
    mariadb_server.create_database(
        "second", "CREATE TABLE child (x int, y varchar(9), FOREIGN KEY (x, y) REFERENCES shop.parent (id, k))"
    )
    mariadb_server.execute(
        "CREATE USER reader@'%' IDENTIFIED BY 'reader'",
        "GRANT SELECT ON shop.* TO reader@'%'",
        "GRANT SELECT ON second.* TO reader@'%'",
    )
    yield url
    mariadb_server.execute("DROP DATABASE second", "DROP DATABASE shop", "DROP USER reader@'%'")


@pytest.fixture(params=["admin", "reader"])
def either(request: pytest.FixtureRequest, shop: str, mariadb_server: MariaDBServer) -> dict[str, Any]:
    return {"url": mariadb_server.url("shop", request.param, request.param)}


def test_every_role_sees_the_whole_structure(either: dict[str, Any], opened: Open) -> None:
    schema = opened("mysql", **either).introspect(Scope())
    assert schema.problems == ()
    assert "MariaDB" in (schema.server_version or "")
    tables = {table.ref.name: table for table in schema.tables}
    assert set(tables) == {"parent", "child", "Mixed", "mixed", "counted", "versioned", "parted", "seen"}
    parent = tables["parent"]
    assert parent.primary_key == ("id", "k")
    assert parent.unique_keys == (UniqueKey(("u",), "uq"),)
    assert parent.indexes == (Index(("b", "u"), "plain"),)
    assert parent.comment == "about parent"
    assert tables["seen"].comment is None
    (key,) = tables["child"].foreign_keys
    assert (key.columns, key.target, key.target_columns) == (("x", "y"), TableRef("shop", "parent"), ("id", "k"))
    assert tables["Mixed"].indexes == (Index(("b", "a"), "b"),)
    assert tables["mixed"].indexes == (Index(("a", "b"), "a"),)
    assert tables["counted"].row_estimate == 3
    assert tables["seen"].row_estimate is None


def test_columns(shop: str, opened: Open) -> None:
    (table,) = opened("mysql", url=shop).introspect(Scope(enabled_tables=("parent",))).tables
    columns = {column.name: column for column in table.columns}
    assert {name: (column.native_type, column.type.value) for name, column in columns.items()} == {
        "id": ("int(11)", "number"),
        "k": ("varchar(9)", "string"),
        "b": ("tinyint(1)", "boolean"),
        "u": ("int(10) unsigned", "number"),
        "e": ("enum('a','b')", "string"),
        "j": ("longtext", "string"),
        "s": ("int(11)", "number"),
        "v": ("int(11)", "number"),
        "ts": ("timestamp", "time"),
        "bt": ("bit(1)", "boolean"),
        "y": ("year(4)", "number"),
        "d": ("date", "time"),
    }
    assert [name for name, column in columns.items() if column.generated] == ["s", "v"]
    assert {name: column.default for name, column in columns.items() if column.default} == {
        "b": "1",
        "ts": "current_timestamp()",
    }
    assert columns["e"].comment == "about e"
    assert [name for name, column in columns.items() if not column.nullable] == ["id", "k", "b"]


def test_a_key_to_another_schema(shop: str, opened: Open) -> None:
    schema = opened("mysql", url=shop).introspect(Scope(schemas=("second",)))
    (table,) = schema.tables
    assert table.foreign_keys == (ForeignKey(("x", "y"), TableRef("shop", "parent"), ("id", "k"), "child_ibfk_1"),)


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (Scope(enabled_tables=("child",)), ["shop.child"]),
        (Scope(enabled_tables=("second.child",)), ["second.child"]),
        (Scope(enabled_tables=("shop.counted", "second.child")), ["second.child", "shop.counted"]),
        (Scope(include=("secon[d].*",)), ["second.child"]),
        (Scope(schemas=("shop", "second"), enabled_tables=("child",)), ["second.child", "shop.child"]),
    ],
)
def test_scope_and_the_connections_own_database(scope: Scope, found: list[str], shop: str, opened: Open) -> None:
    schema = opened("mysql", url=shop).introspect(scope)
    assert [str(table.ref) for table in schema.tables] == found
    assert schema.problems == ()


def test_without_a_database_all_are_seen(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    schema = opened("mysql", url=mariadb_server.url("", "reader", "reader")).introspect(Scope(include=("child",)))
    assert [str(table.ref) for table in schema.tables] == ["second.child", "shop.child"]
    everything = opened("mysql", url=mariadb_server.url("", "reader", "reader")).introspect(Scope())
    assert {table.ref.schema for table in everything.tables} == {"shop", "second"}


def test_privileges_are_told(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    found = opened("mysql", url=mariadb_server.url("shop", "reader", "reader")).test(Scope())
    assert (found.user, found.can_write) == ("reader@%", False)
    assert found.privileges == ("SELECT on 8 of 8 tables",)
    assert opened("mysql", url=shop).test(Scope()).can_write is True


@pytest.mark.parametrize(
    ("grant", "writes"),
    [
        ("INSERT ON shop.child", True),
        ("DELETE ON shop.*", True),
        ("CREATE ON *.*", True),
        ("UPDATE (x) ON shop.child", True),
        ("INSERT ON second.child", False),
        ("SHOW VIEW ON shop.*", False),
    ],
)
def test_any_way_to_write_counts(
    grant: str, writes: bool, shop: str, mariadb_server: MariaDBServer, opened: Open
) -> None:
    mariadb_server.execute(
        "CREATE USER writer@'%' IDENTIFIED BY 'writer'", "GRANT SELECT ON shop.* TO writer@'%'",
        f"GRANT {grant} TO writer@'%'",
    )  # fmt: skip
    try:
        found = opened("mysql", url=mariadb_server.url("shop", "writer", "writer")).test(Scope())
        assert found.can_write is writes
    finally:
        mariadb_server.execute("DROP USER writer@'%'")


def test_tables_that_may_not_be_read_are_named(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    mariadb_server.execute(
        "CREATE USER partly@'%' IDENTIFIED BY 'partly'",
        "GRANT SELECT ON shop.counted TO partly@'%'",
        "GRANT INSERT ON shop.child TO partly@'%'",
    )
    try:
        found = opened("mysql", url=mariadb_server.url("shop", "partly", "partly")).test(Scope())
        assert found.privileges == ("SELECT on 1 of 2 tables", "no SELECT on shop.child")
    finally:
        mariadb_server.execute("DROP USER partly@'%'")


def sent(server: MariaDBServer, offset: int) -> list[str]:
    """The first lines of the statements the server was sent since its log was `offset` long."""
    return re.findall(r" Query\t(.*)", server.statements[offset:])


def test_every_statement_names_ktx(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    offset = len(mariadb_server.statements)
    connector = opened("mysql", url=shop)
    connector.test(Scope())
    connector.introspect(Scope())
    connector.query("SELECT 1")
    connector.query("SELECT %s, '%%'", [1])
    connector.query("SELECT seq FROM seq_1_to_100000 LIMIT 90000", max_rows=1)
    with pytest.raises(SourceError):
        connector.query("SELECT nope")
    connector.close()
    statements = sent(mariadb_server, offset)
    assert len(statements) > 20
    assert [each for each in statements if not each.startswith("/* ktx */ ")] == []


def test_introspection_is_in_bulk(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    connector = opened("mysql", url=shop)
    offset = len(mariadb_server.statements)
    connector.introspect(Scope())
    assert 4 <= len(sent(mariadb_server, offset)) <= 8


def test_the_session_is_read_only_and_bounded(shop: str, opened: Open) -> None:
    connector = opened("mysql", url=shop)
    found = connector.query("SELECT @@session.tx_read_only, @@session.max_statement_time, @@character_set_client")
    assert found.rows == ((1, 30.0, "utf8mb4"),)


def test_limits_of_one_query_do_not_reach_the_next(shop: str, opened: Open) -> None:
    connector = opened("mysql", url=shop, maxConnections=1)
    assert connector.query("SELECT a FROM counted", max_rows=1).truncated
    assert len(connector.query("SELECT a FROM counted").rows) == 3
    assert len(connector.introspect(Scope()).tables) == 8


def test_a_password_beyond_latin_1(mariadb_server: MariaDBServer, shop: str, opened: Open) -> None:
    mariadb_server.execute("CREATE USER odd@'%' IDENTIFIED BY 'pä€ss/@'")
    try:
        for options in (
            {"url": mariadb_server.url("", "odd", quote("pä€ss/@", safe=""))},
            {"host": "127.0.0.1", "port": mariadb_server.port, "user": "odd", "password": "pä€ss/@"},
        ):
            assert opened("mysql", **options).query("SELECT '🛒'").rows == (("🛒",),)
    finally:
        mariadb_server.execute("DROP USER odd@'%'")


def test_queries_from_several_threads(shop: str, opened: Open) -> None:
    connector = opened("mysql", url=shop, maxConnections=2)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda number: connector.query("SELECT %s", [number]).rows, range(30)))
    assert results == [((number,),) for number in range(30)]


def test_a_session_the_server_ended_is_replaced(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    connector = opened("mysql", url=mariadb_server.url("shop", "reader", "reader"), maxConnections=1)
    mariadb_server.execute("KILL USER reader@'%'")
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT 1")
    assert caught.value.code == "query"
    assert connector.query("SELECT 1").rows == ((1,),)


def failures(server: MariaDBServer) -> Iterator[tuple[dict[str, Any], str, str]]:
    base = {"host": server.host, "port": server.port, "database": "shop", "username": "reader", "password": "reader"}
    yield {**base, "password": CANARY}, "Access denied", "connections.shop.password"
    yield {**base, "username": "nobody", "password": CANARY}, "Access denied", "connections.shop.username"
    yield {**base, "database": "mysql"}, "Access denied", "connections.shop.database"
    yield {**base, "username": "admin", "password": "admin", "database": "nowhere"}, "Unknown database", "database"
    yield {**base, "ssl": True}, "SSL", "connections.shop.ssl"
    yield {"url": server.url("shop", "reader", CANARY)}, "Access denied", "password"
    yield {"url": server.url("shop", "reader", "reader") + "?ssl-mode=REQUIRED"}, "SSL", "connections.shop.ssl"


@pytest.mark.parametrize("number", range(7))
def test_a_connection_that_fails(number: int, shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    options, message, hint = list(failures(mariadb_server))[number]
    with pytest.raises(SourceError) as caught:
        opened("mysql", **options)
    error = caught.value
    assert (error.code, error.exit_code) == ("connection", 4)
    assert f"`shop` (127.0.0.1:{mariadb_server.port}/" in error.message
    assert message in error.message
    assert hint in (error.hint or "")
    assert CANARY not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("tls", [{"ssl": False}, {}])
def test_without_tls(tls: dict[str, Any], shop: str, opened: Open) -> None:
    assert opened("mysql", url=shop, **tls).query("SELECT 1").rows == ((1,),)


def test_a_certificate_file_that_is_not_there(shop: str, opened: Open) -> None:
    with pytest.raises(ConfigError, match=r"`ssl\.ca`") as caught:
        opened("mysql", url=shop, ssl={"ca": "/nowhere/ca.pem"})
    assert "ssl.ca" in (caught.value.hint or "")


def test_a_table_another_session_has_locked(
    shop: str, mariadb_server: MariaDBServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymysql

    monkeypatch.setattr(base, "LOCK_SECONDS", 1)
    connector = opened("mysql", url=shop)
    holder = pymysql.connect(
        host=mariadb_server.host, port=mariadb_server.port, user="admin", password="admin", database="shop"
    )
    try:
        holder.cursor().execute("LOCK TABLES counted WRITE")
        assert "counted" in [table.ref.name for table in connector.introspect(Scope()).tables]
        with pytest.raises(SourceError, match="locked by another session") as caught:
            connector.query("SELECT a FROM counted")
    finally:
        holder.close()
    assert caught.value.code == "timeout"
    assert "SHOW FULL PROCESSLIST" in (caught.value.hint or "")


def test_functions_of_the_database_shadow_nothing(mariadb_server: MariaDBServer, opened: Open) -> None:
    """A stored function with a built-in's name needs its schema to be called, and `information_schema` is taken."""
    url = mariadb_server.create_database(
        "planted",
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE FUNCTION version() RETURNS text DETERMINISTIC RETURN 'evil'",
        "CREATE FUNCTION `current_user`() RETURNS text DETERMINISTIC RETURN 'evil'",
        "CREATE TABLE `information_schema.tables` (a int)",
        "CREATE TABLE columns (a int)",
    )
    connector = opened("mysql", url=url)
    assert connector.query("SELECT planted.version()").rows == (("evil",),)
    found = connector.test(Scope())
    assert "evil" not in (found.server_version, found.user)
    assert [table.ref.name for table in connector.introspect(Scope()).tables] == [
        "columns",
        "information_schema.tables",
        "t",
    ]


def test_starrocks_and_doris_have_no_transactions_to_read_in(
    shop: str, mariadb_server: MariaDBServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "_ANALYTIC", re.compile("."))
    settings = MySqlConnector._session_settings
    asked: list[str] = []

    def known(self: MySqlConnector, version: str) -> list[str]:
        asked.extend(settings(self, version))
        return ["SET SESSION max_statement_time = 30"]

    monkeypatch.setattr(MySqlConnector, "_session_settings", known)
    offset = len(mariadb_server.statements)
    starrocks = opened("mysql", url=shop)
    assert isinstance(starrocks, MySqlConnector)
    assert asked[:1] == [f"SET SESSION query_timeout = {int(starrocks.statement_seconds)}"]
    assert [starrocks.query("SELECT 1 AS a", max_rows=5).rows for _ in range(2)] == [((1,),)] * 2
    assert not [text for text in sent(mariadb_server, offset) if "TRANSACTION" in text or "ROLLBACK" in text]
    for refused in (
        "EXPLAIN ANALYZE DELETE FROM orders",
        "WITH a AS (SELECT 1) DELETE FROM orders",
        "DELETE FROM orders",
    ):
        with pytest.raises(SourceError) as caught:
            starrocks.query(refused)
        assert caught.value.code == "read_only"


@pytest.mark.parametrize(
    ("comment", "shown"),
    [
        ("StarRocks version 3.3.2", "StarRocks version 3.3.2"),
        ("Doris version doris-2.1.7-rc03", "Doris version doris-2.1.7-rc03"),
        ("MySQL Community Server - GPL", "MySQL 8.0.33 (MySQL Community Server - GPL)"),
    ],
)
def test_the_product_is_named(comment: str, shown: str) -> None:
    assert mysql._server_version("8.0.33", comment) == shown


def test_the_reader_is_told_by_the_default_role(shop: str, mariadb_server: MariaDBServer, opened: Open) -> None:
    settings = {"url": mariadb_server.url("shop", "reader", "reader")}
    found = []
    try:
        for change in ("CREATE ROLE auditor", "GRANT auditor TO reader@'%'", "SET DEFAULT ROLE auditor FOR reader@'%'"):
            mariadb_server.execute(change)
            found.append(reader_of(opened("mysql", **settings)))
    finally:
        mariadb_server.execute("DROP ROLE auditor")
    assert found[0] == found[1] != found[2]


def test_the_reader_of_a_server_without_roles_is_known(
    shop: str, mariadb_server: MariaDBServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MySqlConnector, "session_facts", (MySqlConnector.session_facts[0], "SELECT no_such_role()"))
    users = [reader_of(opened("mysql", url=mariadb_server.url("shop", name, name))) for name in ("admin", "reader")]
    assert users[0] != users[1]
