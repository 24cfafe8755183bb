"""Encrypted sessions with servers of their own: certificates are checked unless told not to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import MariaDBServer, PostgresServer, ServerMissingError, TestServer
from ktx_cli.warehouses.port import Connector

trustme = pytest.importorskip("trustme")
pytestmark = pytest.mark.slow
Open = Callable[..., Connector]


def issue(server: TestServer) -> Path:
    """Put an authority, a certificate and its key into the server's folder."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(server.folder / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(server.folder / "cert.pem")
    certificate.private_key_pem.write_to_path(server.folder / "key.pem")
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (server.folder / name).chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(server.folder / name, server.account, server.account)
    return server.folder


class EncryptedPostgres(PostgresServer):
    def _command(self) -> list[str]:
        folder = issue(self)
        settings = ["ssl=on", f"ssl_cert_file={folder}/cert.pem", f"ssl_key_file={folder}/key.pem"]
        return [*super()._command(), *(part for setting in settings for part in ("-c", setting))]


class EncryptedMariaDB(MariaDBServer):
    def _command(self) -> list[str]:
        folder = issue(self)
        return [*super()._command(), f"--ssl-cert={folder}/cert.pem", f"--ssl-key={folder}/key.pem"]


ENCRYPTED = {
    "postgres": "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    "mysql": "SELECT IF(variable_value = '', 'false', 'true') FROM information_schema.session_status "
    "WHERE variable_name = 'Ssl_cipher'",
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(EncryptedPostgres, marks=pytest.mark.postgres),
        pytest.param(EncryptedMariaDB, marks=pytest.mark.mysql),
    ],
)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param()
    try:
        made.start()
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("ssl", "encrypted"),
    [
        ({}, "true"),
        ({"ssl": False}, "false"),
        ({"ssl": True, "rejectUnauthorized": False}, "true"),
        ({"ssl": {"rejectUnauthorized": False}}, "true"),
        ({"ssl": {"ca": "CA"}}, "true"),
        ({"ssl": True}, None),
    ],
)
def test_encryption(ssl: dict[str, Any], encrypted: str | None, server: Any, opened: Open) -> None:
    driver = "postgres" if isinstance(server, PostgresServer) else "mysql"
    if ssl.get("ssl") == {"ca": "CA"}:
        ssl = {"ssl": {"ca": str(server.folder / "ca.pem")}}
    options = {"url": server.url("postgres" if driver == "postgres" else "information_schema"), **ssl}
    if encrypted is None:
        with pytest.raises(SourceError, match=r"(?i)certificate.verify failed") as caught:
            opened(driver, **options)
        assert caught.value.code == "connection"
        assert "rejectUnauthorized" in (caught.value.hint or "")
        return
    assert opened(driver, **options).query(ENCRYPTED[driver]).rows == ((encrypted,),)
