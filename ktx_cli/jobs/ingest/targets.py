"""Which connections a run works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktx_cli.core.errors import NotReadyError, UsageError
from ktx_cli.project.config import KtxConfig, connection_of


@dataclass(frozen=True, slots=True)
class Target:
    """A connection to work on."""

    connection: str
    driver: str


def choose_targets(config: KtxConfig, wanted: Sequence[str], *, databases_only: bool) -> list[Target]:
    """Return the connections to work on, by id: the wanted ones, or all.

    Raises `UsageError` for an unknown id or one of the wrong kind, `NotReadyError` when there are none.
    """
    candidates = config.databases() if databases_only else config.connections
    for connection in wanted:
        connection_of(config, connection)
        if connection not in candidates:
            raise UsageError(
                f"connection `{connection}` is a context source, not a database", hint=f"ktx ingest {connection}"
            )
    if not candidates:
        raise NotReadyError(
            "ktx.yaml names no database to read",
            hint="ktx setup --no-input --database sqlite --database-path data.sqlite",
        )
    return [
        Target(connection, config.connections[connection].driver) for connection in sorted(set(wanted) or candidates)
    ]
