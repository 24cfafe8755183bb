"""Opens a connection of `ktx.yaml`: the one way, for ingest, scan, `connection test`, setup and doctor alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktx_cli.connectors.port import ConnectionSpec, Connector, Scope
from ktx_cli.connectors.registry import connect, scope_from_options
from ktx_cli.project.config import KtxConfig, connection_of, require_supported, resolve_options


def open_connection(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector and what of it is wanted.

    Raises `UsageError` for an unknown id, `NotSupportedError`, `SecretError`, `ConfigError` (a missing driver
    package) or `SourceError`.
    """
    entry = connection_of(config, connection)
    require_supported(connection, entry)
    options = resolve_options(entry, project_dir=project_dir, environ=environ)
    options["project_dir"] = str(project_dir)
    return connect(ConnectionSpec(connection, entry.driver, options)), scope_from_options(options)
