"""Testing, adding and removing connections: what `ktx connection` and setup do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktx_cli.connectors.opening import open_connection
from ktx_cli.connectors.port import ConnectionTest
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.project import edit
from ktx_cli.project.config import KtxConfig, load_config
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.layout import CONFIG_NAME, Layout


def probe_connection(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> ConnectionTest:
    """Open a connection as ingest does and test it; raises the error ingest would end with."""
    connector, scope = open_connection(config, connection, project_dir=project_dir, environ=environ)
    with connector:
        return connector.test(scope)


def require_connection(config: KtxConfig, connection: str) -> None:
    """Raise `UsageError` with the nearest id when there is no such connection."""
    if connection not in config.connections:
        near = did_you_mean(connection, config.connections)
        raise UsageError(
            f"there is no connection `{connection}` in ktx.yaml",
            hint=f"did you mean `{near}`?" if near else f"known: {listing(config.connections) or 'none'}",
        )


def config_with_connection(text: bytes, connection: str, fields: Mapping[str, Any]) -> bytes:
    """Return the text of `ktx.yaml` with one more connection; raises `ConfigError` when the result is not valid."""
    changed = edit.set_value(text, ("connections", connection), dict(fields), where=CONFIG_NAME)
    load_config(Path(CONFIG_NAME), data=changed)
    return changed


def add_connection(
    layout: Layout, connection: str, fields: Mapping[str, Any], *, environ: Mapping[str, str], test: bool
) -> ConnectionTest | None:
    """Write a connection into `ktx.yaml`, after a successful test unless `test` is false.

    Raises `UsageError` when the id is taken, `ConfigError` for wrong fields, `SourceError` when the test fails;
    nothing is written then.
    """
    text = read_bytes(layout.config) or b""
    if connection in load_config(layout.config, data=text).config.connections:
        raise UsageError(
            f"there is a connection `{connection}` already",
            hint=f"ktx config set connections.{connection}.KEY VALUE changes it",
        )
    changed = config_with_connection(text, connection, fields)
    result = None
    if test:
        config = load_config(layout.config, data=changed).config
        result = probe_connection(config, connection, project_dir=layout.root, environ=environ)
    write_atomic(layout.config.resolve(), changed)
    return result


def remove_connection(layout: Layout, connection: str) -> None:
    """Take a connection out of `ktx.yaml`; its context stays."""
    text = read_bytes(layout.config) or b""
    require_connection(load_config(layout.config, data=text).config, connection)
    write_atomic(layout.config.resolve(), edit.delete_value(text, ("connections", connection), where=CONFIG_NAME))
