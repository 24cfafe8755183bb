"""Where a file connection leads, and the files that TLS settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.testing.servers import free_port
from ktx_cli.warehouses.base import option_file, source_path
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"path": "data/x.db"}, "/project/data/x.db"),
        ({"path": "../x.db"}, "/x.db"),
        ({"path": "/abs/x.db"}, "/abs/x.db"),
        ({"path": "~/x.db"}, "/home/ann/x.db"),
        ({"url": "sqlite:///data/x.db"}, "/project/data/x.db"),
        ({"url": "sqlite:////abs/x.db"}, "/abs/x.db"),
        ({"url": "sqlite:x.db"}, "/project/x.db"),
        ({"url": "sqlite:///~/x.db"}, "/home/ann/x.db"),
        ({"url": "duckdb:///data/x.duckdb?access_mode=read_only"}, "/project/data/x.duckdb"),
        ({"url": "file:/abs/a%20b.db?mode=ro"}, "/abs/a b.db"),
        ({"url": "file:///abs/x.db"}, "/abs/x.db"),
        ({"url": "file:data/x.db"}, "/project/data/x.db"),
        ({"path": "first.db", "url": "sqlite:///second.db"}, "/project/first.db"),
        ({"path": "a:b.db"}, "/project/a:b.db"),
    ],
)
def test_source_path(options: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    spec = ConnectionSpec("x", "sqlite", {**options, "project_dir": "/project"})
    assert source_path(spec) == Path(path)


@pytest.mark.table(
    "options",
    [{}, {"path": ""}, {"path": 3}, {"path": ":memory:"}, {"url": "sqlite://"}, {"url": "file::memory:?cache=shared"},
     {"url": "file:x?mode=memory"}],
)  # fmt: skip
def test_no_file_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        source_path(ConnectionSpec("x", "sqlite", {**options, "project_dir": "/project"}))
    assert "`x`" in caught.value.message
    assert "connections.x.path" in (caught.value.hint or "")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with `tls/ca.pem`; the working directory and the home folder are others."""
    folders = {name: tmp_path / name for name in ("project", "elsewhere", "home")}
    for folder in folders.values():
        folder.mkdir()
    (folders["project"] / "tls").mkdir()
    (folders["project"] / "tls" / "ca.pem").write_text("not a certificate")
    (folders["home"] / "ca.pem").write_text("not a certificate")
    monkeypatch.chdir(folders["elsewhere"])
    monkeypatch.setenv("HOME", str(folders["home"]))
    return folders["project"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("tls/ca.pem", "project/tls/ca.pem"),
        ("./tls/../tls/ca.pem", "project/tls/ca.pem"),
        ("~/ca.pem", "home/ca.pem"),
        ("../home/ca.pem", "home/ca.pem"),
    ],
)
def test_a_file_of_a_setting_is_in_the_project(value: str, path: str, project: Path) -> None:
    spec = ConnectionSpec("x", "mysql", {"project_dir": str(project)})
    assert option_file(spec, "ssl.ca", value) == str(project.parent / path)


@pytest.mark.parametrize(
    ("value", "message"), [("ca.pem", "does not exist"), ("tls", "is not a file"), ("tls/ca.pem/x", "does not exist")]
)
def test_a_file_of_a_setting_that_is_none(value: str, message: str, project: Path) -> None:
    spec = ConnectionSpec("x", "mysql", {"project_dir": str(project)})
    with pytest.raises(ConfigError, match=message) as caught:
        option_file(spec, "ssl.ca", value)
    assert f"{project / value}" in caught.value.message
    assert "`ssl.ca`" in caught.value.message
    assert "connections.x" in (caught.value.hint or "")


@pytest.mark.parametrize("key", ["ca", "cert", "key"])
def test_mysql_takes_its_files_from_the_project(key: str, project: Path) -> None:
    options = {"host": "127.0.0.1", "port": free_port(), "username": "ann", "project_dir": str(project)}
    with pytest.raises(ConfigError, match=f"`ssl.{key}`: file {project / 'none.pem'} does not exist"):
        connect(ConnectionSpec("x", "mysql", {**options, "ssl": {key: "none.pem"}}))
    with pytest.raises(ConfigError, match="cannot be used"):
        connect(ConnectionSpec("x", "mysql", {**options, "ssl": {"cert": "tls/ca.pem", key: "tls/ca.pem"}}))


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile"])
def test_postgres_takes_its_files_from_the_project(name: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    given: dict[str, Any] = {}

    def connecting(conninfo: str, **arguments: Any) -> None:
        given.update(arguments)
        raise psycopg.OperationalError("not today")

    monkeypatch.setattr(psycopg, "connect", connecting)

    def open_with(value: str) -> None:
        url = f"postgresql://ann@127.0.0.1/shop?{name}={value}"
        connect(ConnectionSpec("x", "postgres", {"url": url, "project_dir": str(project)}))

    with pytest.raises(ConfigError, match=f"`{name}`: file {project / 'none.pem'} does not exist"):
        open_with("none.pem")
    with pytest.raises(SourceError, match="not today"):
        open_with("tls/ca.pem")
    assert given[name] == str(project / "tls" / "ca.pem")


def test_the_systems_authorities_are_no_file(project: Path) -> None:
    url = f"postgresql://ann@127.0.0.1:{free_port()}/shop?sslmode=verify-full&sslrootcert=system"
    with pytest.raises(SourceError, match="refused"):
        connect(ConnectionSpec("x", "postgres", {"url": url, "project_dir": str(project)}))
