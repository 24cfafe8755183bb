"""Where a file connection leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.connectors.paths import source_path
from ktx_cli.connectors.port import ConnectionSpec
from ktx_cli.core.errors import ConfigError


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


@pytest.mark.parametrize(
    "options",
    [{}, {"path": ""}, {"path": 3}, {"path": ":memory:"}, {"url": "sqlite://"}, {"url": "file::memory:?cache=shared"},
     {"url": "file:x?mode=memory"}],
)  # fmt: skip
def test_no_file_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        source_path(ConnectionSpec("x", "sqlite", {**options, "project_dir": "/project"}))
    assert "`x`" in caught.value.message
    assert "connections.x.path" in (caught.value.hint or "")
