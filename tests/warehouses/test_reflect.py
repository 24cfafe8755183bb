"""Addresses of servers, options that are flags, and secrets that stay secret."""

from __future__ import annotations

import socket
import traceback
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, KtxError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses.mysql.connector import MySqlConnector
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.postgres.connector import PostgresConnector, tls_parameters
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.server import option_flag, server_address

CANARY = "c4n4ry-hunter2"


def address(**options: Any) -> Any:
    return server_address(ConnectionSpec("x", "postgres", options), 5432)


@pytest.mark.table(
    ("options", "shown", "user", "password"),
    [
        ({"url": "postgres://ann:p%40ss@db.example:6000/shop"}, "db.example:6000/shop", "ann", "p@ss"),
        ({"url": "postgresql://db/shop"}, "db:5432/shop", "", ""),
        ({"url": "mysql://ann@db"}, "db:5432", "ann", ""),
        ({"host": "db", "port": "6000", "database": "shop", "username": "ann"}, "db:6000/shop", "ann", ""),
        ({"host": "db", "user": "ann", "password": "x y"}, "db:5432", "ann", "x y"),
        ({"url": "postgres://a:b@db/x", "database": "y", "password": "c"}, "db:5432/y", "a", "c"),
        ({"url": "postgres://db/shop?user=ann&password=x"}, "db:5432/shop", "ann", "x"),
        ({"url": "postgresql:///shop?host=/run/postgresql"}, "/run/postgresql:5432/shop", "", ""),
        ({"url": "postgres://a:b@[::1]:6000/shop"}, "::1:6000/shop", "a", "b"),
        ({"url": "postgres://a:b@db/my%20shop"}, "db:5432/my shop", "a", "b"),
    ],
)
def test_server_address(options: dict[str, Any], shown: str, user: str, password: str) -> None:
    found = address(**options)
    assert (str(found), found.user, found.password) == (shown, user, password)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"url": "nonsense"},
        {"url": f"postgres://ann:12#{CANARY}@db/shop"},
        {"url": f"postgres://ann:12/{CANARY}@db/shop"},
        {"url": f"postgres://ann:12?{CANARY}@db/shop"},
        {"url": f"postgres://ann:{CANARY}#@db/shop"},
        {"url": f"postgres://ann:{CANARY}@[::1/shop"},
        {"url": f"postgres://ann:{CANARY}@db:port/shop"},
        {"host": "db", "port": CANARY},
        {"database": "shop", "password": CANARY},
    ],
)
@pytest.mark.parametrize("driver", ["postgres", "mysql"])
def test_an_address_that_cannot_be_used_is_not_shown(driver: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(ConnectionSpec("x", driver, options))
    assert caught.value.hint
    assert "12" not in caught.value.message
    assert_secret(caught.value)


def test_an_address_hides_its_password() -> None:
    assert CANARY not in repr(address(host="db", password=CANARY))
    assert CANARY not in repr(address(url=f"postgres://db/shop?password={CANARY}"))


@pytest.mark.table(
    ("value", "flag"),
    [(None, None), (True, True), (False, False), ("true", True), ("False", False), ("1", True), ("no", False)],
)
def test_option_flag(value: Any, flag: bool | None) -> None:
    assert option_flag({"ssl": value}, "ssl") is flag


@pytest.mark.table(
    ("options", "parameters", "tls"),
    [
        ({}, {}, {}),
        ({"sslmode": "require"}, {}, {"sslmode": "require"}),
        ({}, {"sslmode": "verify-ca"}, {"sslmode": "verify-ca"}),
        ({"sslmode": "no-verify"}, {}, {"sslmode": "require"}),
        ({"ssl": True}, {}, {"sslmode": "verify-full", "sslrootcert": "system"}),
        ({"ssl": True, "rejectUnauthorized": False}, {}, {"sslmode": "require"}),
        ({"ssl": True}, {"sslrootcert": "/ca.pem"}, {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ({"ssl": {"rejectUnauthorized": False}}, {}, {"sslmode": "require"}),
        ({"ssl": {"ca": "/ca.pem"}}, {}, {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ({"ssl": False}, {}, {"sslmode": "disable"}),
        ({}, {"ssl": "true"}, {"sslmode": "verify-full", "sslrootcert": "system"}),
        ({"ssl": False, "sslmode": "require"}, {}, {"sslmode": "require"}),
    ],
)
def test_postgres_tls(options: dict[str, Any], parameters: dict[str, str], tls: dict[str, str]) -> None:
    assert tls_parameters(options, parameters) == tls


@pytest.mark.table("value", [0, -1, "ten", True])
def test_max_connections_must_be_a_number(value: Any) -> None:
    with pytest.raises(ConfigError, match="maxConnections"):
        connect(ConnectionSpec("x", "postgres", {"host": "127.0.0.1", "maxConnections": value}))


@pytest.mark.table(
    ("options", "named"),
    [
        ({"url": "x"}, "the username and the password in connections.c.url"),
        ({"url": "x", "password": "p"}, "connections.c.password and the username in connections.c.url"),
        ({"host": "h"}, "connections.c.username and connections.c.password"),
        ({"host": "h", "user": "u", "password": "p"}, "connections.c.user and connections.c.password"),
        ({"username": "u", "user": "x", "password": "p"}, "connections.c.username and connections.c.password"),
    ],
)
def test_hints_name_the_settings_that_were_given(options: dict[str, Any], named: str) -> None:
    connector: Any = object.__new__(PostgresConnector)
    connector.id, connector.options = "c", options
    assert connector._settings("username", "password") == named


def assert_secret(error: KtxError) -> None:
    """The canary is in no form of the error, its whole chain included."""
    assert CANARY not in "".join(traceback.format_exception(error))
    assert CANARY not in str(error.to_json())


@pytest.mark.table("driver", ["postgres", "mysql"])
def test_nobody_listens(driver: str) -> None:
    port = free_port()
    options = {"host": "127.0.0.1", "port": port, "database": "shop", "username": "ann", "password": CANARY}
    with pytest.raises(SourceError) as caught:
        connect(ConnectionSpec("x", driver, options))
    assert (caught.value.code, caught.value.exit_code) == ("connection", 4)
    assert f"`x` (127.0.0.1:{port}/shop)" in caught.value.message
    assert "check connections.x.host" in (caught.value.hint or "")
    assert_secret(caught.value)


@pytest.mark.table("driver", ["postgres", "mysql"])
def test_a_host_that_does_not_exist(driver: str) -> None:
    url = f"{driver}://ann:{CANARY}@nowhere.invalid/shop"
    with pytest.raises(SourceError) as caught:
        connect(ConnectionSpec("x", driver, {"url": url}))
    assert caught.value.code == "connection"
    assert "nowhere.invalid" in caught.value.message
    assert "host" in (caught.value.hint or "")
    assert_secret(caught.value)


@pytest.mark.table("driver", ["postgres", "mysql"])
def test_something_else_listens(driver: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.settimeout(10)

        import threading

        def answer() -> None:
            with listener.accept()[0] as talk:
                talk.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        options = {"host": "127.0.0.1", "port": port, "password": CANARY, "username": "ann", "sslmode": "disable"}
        with pytest.raises(SourceError) as caught:
            connect(ConnectionSpec("x", driver, options))
        thread.join()
    assert caught.value.code == "connection"
    assert_secret(caught.value)


@pytest.mark.table("connector", [PostgresConnector, MySqlConnector])
def test_reading_words_are_words(connector: type[Any]) -> None:
    assert "SELECT" in connector.reading
    assert not {"INSERT", "SET", "COPY", "CALL", "DO", "BEGIN"} & connector.reading
