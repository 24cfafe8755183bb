"""Which connections a run works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktx_cli.core import Command, ConfigError, NotReadyError, UsageError
from ktx_cli.engine import Target
from ktx_cli.project import SOURCES, Connection, KtxConfig, Layout, connection_of


def choose_targets(layout: Layout, config: KtxConfig, wanted: Sequence[str], *, databases_only: bool) -> list[Target]:
    """Return the connections to work on, by id: the wanted ones, or all that can be used.

    Raises `UsageError` for an unknown id or one of the wrong kind, `ConfigError` for a disabled one, `NotReadyError`
    when there are none.
    """
    candidates: Mapping[str, Connection] = config.databases() if databases_only else config.usable()
    for connection in wanted:
        connection_of(config, connection)
        if connection not in candidates:
            raise UsageError(
                f"connection `{connection}` is a context source, not a database", hint=Command("ingest", connection)
            )
    for entry in () if candidates else config.disabled().values():
        raise NotReadyError(f"no connection of ktx.yaml can be used: {entry.error().message}", hint=entry.error().hint)
    if not candidates:
        from ktx_cli.jobs.setup.request import how_to_connect

        raise NotReadyError("ktx.yaml names no database to read", hint=how_to_connect(layout.root))
    return [
        Target(connection, config.connections[connection].driver) for connection in sorted(set(wanted) or candidates)
    ]


def broken_targets(config: KtxConfig, wanted: Sequence[str], *, databases_only: bool) -> dict[Target, ConfigError]:
    """Return the connections a run was to work on and that an error in ktx.yaml disables, with that error.

    Those of a driver that only the TypeScript ktx has are meant for that program: nothing is missing without them.
    """
    return {
        Target(connection, entry.driver): entry.error()
        for connection, entry in sorted(config.disabled().items())
        if not wanted and not entry.is_foreign and not (databases_only and entry.driver in SOURCES)
    }
