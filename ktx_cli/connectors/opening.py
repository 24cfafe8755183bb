"""Opens a connection of `ktx.yaml`: the one way, for ingest, scan, `connection test`, setup and doctor alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ktx_cli.connectors.port import ConnectionSpec, Connector, Scope
from ktx_cli.connectors.registry import connect, scope_from_options
from ktx_cli.core.errors import NotSupportedError
from ktx_cli.core.text import shell_words
from ktx_cli.project.config import Database, KtxConfig, connection_of, resolve_options


class Opener(Protocol):
    """How a connection is opened: `open_connection`, or a pool of open ones."""

    def __call__(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        """Return the open connector and what of it is wanted; raises as `open_connection`."""
        ...


def open_connection(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector and what of it is wanted.

    Raises `UsageError` for an unknown id, `NotSupportedError`, `SecretError`, `ConfigError` (a missing driver
    package) or `SourceError`.
    """
    entry = connection_of(config, connection)
    if not isinstance(entry, Database):
        raise NotSupportedError(
            f"connection `{connection}` is a context source ({entry.driver}), not a database",
            hint=shell_words("ktx", "ingest", connection, "--dry-run"),
        )
    return open_database(connection, entry, project_dir=project_dir, environ=environ)


def open_database(
    connection: str, entry: Database, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector of a database by its settings, and what of it is wanted; raises as `open_connection`.

    For who has the settings of one connection and not those of the project.
    """
    options = resolve_options(entry, project_dir=project_dir, environ=environ)
    options["project_dir"] = str(project_dir)
    return connect(ConnectionSpec(connection, entry.driver, options)), scope_from_options(options)
