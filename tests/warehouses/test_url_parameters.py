"""What stands behind the question mark of a server's URL."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses.mysql.connector import MySqlConnector
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect

CANARY = "c4n4ry-hunter2"


def opening(driver: str, query: str, **options: Any) -> None:
    url = f"{driver}://ann:{CANARY}@127.0.0.1:{free_port()}/shop?{query}"
    connect(ConnectionSpec("x", driver, {"url": url, **options}))


@pytest.mark.table(
    ("driver", "query", "message", "hint"),
    [
        ("postgres", "sslmode=bogus", "`sslmode`", "use one of `disable`, `allow`, `prefer`, `require`, `verify-ca`"),
        ("postgres", "channel_binding=yes", "`channel_binding`", "`disable`, `prefer`, `require`"),
        ("postgres", "ssl=maybe", "`ssl`", "`true`, `false`"),
        ("postgres", "foo=bar", "`foo`", "remove it in connections.x.url"),
        ("postgres", "foo", "`foo`", "remove it in connections.x.url"),
        ("postgres", "sslmod=require", "`sslmod`", "write `sslmode` in connections.x.url"),
        ("postgres", "dbname=other", "`dbname`", "connections.x.url"),
        ("mysql", "ssl-mode=bogus", "`ssl-mode`", "`required`, `verify-ca`"),
        ("mysql", "ssl=%7B%22rejectUnauthorized%22%3Atrue%7D", "`ssl`", "`true`, `false`"),
        ("mysql", "ssl_mode=REQUIRED", "`ssl_mode`", "write `sslmode`"),
        ("mysql", f"foo={CANARY}", "`foo`", "remove it"),
    ],
)
def test_what_is_not_known_is_configuration(driver: str, query: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opening(driver, query)
    assert caught.value.exit_code == 2
    assert message in caught.value.message
    assert "`x`" in caught.value.message
    assert hint in (caught.value.hint or "")
    assert CANARY not in "".join(traceback.format_exception(caught.value)) + str(caught.value.to_json())


def test_the_setting_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"its `sslmode` has an invalid value$") as caught:
        opening("postgres", "", sslmode="bogus")
    assert (caught.value.hint or "").endswith("in connections.x.sslmode")


@pytest.mark.table(
    ("driver", "query"),
    [
        ("postgres", "sslmode=PREFER&application_name=x&pgbouncer=true&options=-c%20geqo%3Doff&sslcert="),
        ("postgres", "sslmode=no-verify"),
        ("postgres", "ssl=False&connect_timeout=3&target_session_attrs=read-only&ssl_min_protocol_version=TLSv1.2"),
        ("mysql", "ssl-mode=preferred&charset=utf8mb4"),
        ("mysql", "sslmode=VERIFY_CA&connectionLimit=3"),
    ],
)
def test_what_is_known_goes_on_to_the_server(driver: str, query: str) -> None:
    with pytest.raises(SourceError) as caught:
        opening(driver, query)
    assert "refused" in caught.value.message


@pytest.mark.table(
    ("mode", "encrypted"),
    [("REQUIRED", True), ("require", True), ("VERIFY_IDENTITY", True), ("verify-full", True), ("DISABLED", False)],
)
def test_the_modes_of_mysql(mode: str, encrypted: bool) -> None:
    from ktx_cli.warehouses.server import server_address

    spec = ConnectionSpec("x", "mysql", {"url": f"mysql://h/d?ssl-mode={mode}"})
    connector: Any = object.__new__(MySqlConnector)
    connector.spec, connector.options, connector.address = spec, spec.options, server_address(spec, 3306)
    tls = connector._tls()
    assert ("ssl" in tls, "ssl_disabled" in tls) == (encrypted, not encrypted)
    assert not encrypted or tls["ssl"].check_hostname is (not mode.lower().startswith("require"))
