"""`ktx.yaml`: one model for the run time, the JSON Schema, the reference and `ktx config`."""

from __future__ import annotations

from ktx_cli.project.config.checks import literal_secrets
from ktx_cli.project.config.connections import (
    RESERVED_IDS,
    Connection,
    Database,
    DisabledConnection,
    Source,
    example_connection,
)
from ktx_cli.project.config.issues import Issue
from ktx_cli.project.config.llm import ROLES, SUPPORTED_BACKENDS
from ktx_cli.project.config.loader import LoadedConfig, load_config
from ktx_cli.project.config.options import resolve_options, secret_file_warnings
from ktx_cli.project.config.root import KtxConfig, connection_of, known_connection

__all__ = [
    "RESERVED_IDS",
    "ROLES",
    "SUPPORTED_BACKENDS",
    "Connection",
    "Database",
    "DisabledConnection",
    "Issue",
    "KtxConfig",
    "LoadedConfig",
    "Source",
    "connection_of",
    "example_connection",
    "known_connection",
    "literal_secrets",
    "load_config",
    "resolve_options",
    "secret_file_warnings",
]
