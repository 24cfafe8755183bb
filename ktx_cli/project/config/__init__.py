"""`ktx.yaml`: one model for the run time, the JSON Schema, the reference and `ktx config`."""

from __future__ import annotations

from ktx_cli.project.config.checks import literal_secrets
from ktx_cli.project.config.connections import RESERVED_IDS, Connection, Database, Source, example_connection
from ktx_cli.project.config.drivers import SUPPORTED_DRIVERS, is_supported, require_supported
from ktx_cli.project.config.issues import Issue
from ktx_cli.project.config.llm import ROLES, SUPPORTED_BACKENDS
from ktx_cli.project.config.loader import LoadedConfig, load_config
from ktx_cli.project.config.options import resolve_options, secret_file_warnings
from ktx_cli.project.config.root import KtxConfig, connection_of, supported_databases

__all__ = [
    "RESERVED_IDS",
    "ROLES",
    "SUPPORTED_BACKENDS",
    "SUPPORTED_DRIVERS",
    "Connection",
    "Database",
    "Issue",
    "KtxConfig",
    "LoadedConfig",
    "Source",
    "connection_of",
    "example_connection",
    "is_supported",
    "literal_secrets",
    "load_config",
    "require_supported",
    "resolve_options",
    "secret_file_warnings",
    "supported_databases",
]
