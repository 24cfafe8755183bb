"""The throwaway servers themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.testing import servers
from ktx_cli.testing.servers import MariaDBServer, PostgresServer, ServerMissingError, TestServer


@pytest.mark.parametrize(
    "kind",
    [pytest.param(PostgresServer, marks=pytest.mark.postgres), pytest.param(MariaDBServer, marks=pytest.mark.mysql)],
)
def test_a_missing_server_says_so_and_leaves_nothing(
    kind: type[TestServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(servers, "find_binary", lambda name, folders: None)
    server = kind()
    with pytest.raises(ServerMissingError, match="apt-get install"):
        server.start()
    assert not server.folder.exists()
    server.stop()


def test_find_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("14", "15"):
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        (folder / "thing").touch()
    pattern = f"{tmp_path.relative_to('/')}/*/bin"
    assert servers.find_binary("thing", pattern) == tmp_path / "15" / "bin" / "thing"
    monkeypatch.setenv("PATH", "")
    assert servers.find_binary("other", pattern) is None


def test_urls() -> None:
    server = PostgresServer()
    server.port = 1234
    assert server.url("x") == "postgresql://postgres:postgres@127.0.0.1:1234/x"
    assert server.url("x", "u", "") == "postgresql://u:@127.0.0.1:1234/x"
    assert 1024 < servers.free_port() < 65536
