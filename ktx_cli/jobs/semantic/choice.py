"""Which semantic layer a question is for."""

from __future__ import annotations

from ktx_cli.core import Command, UsageError, listing
from ktx_cli.project import KtxConfig, Layout, connection_of
from ktx_cli.semantic import layer_ids


def the_layer(layout: Layout, config: KtxConfig, connection: str | None) -> str:
    """Return the connection to ask: the one named, else the only usable one with a semantic layer.

    Raises `UsageError` where it is not in `ktx.yaml` or has no layer, and where there is none, or several to choose;
    `ConfigError` where it is disabled.
    """
    if connection is not None:
        _require_layer(layout, config, connection)
        return connection
    known = [each for each in layer_ids(layout) if each in config.connections]
    found = [each for each in known if each not in config.disabled()]
    for disabled in () if found else known:
        connection_of(config, disabled)
    if len(found) == 1:
        return found[0]
    if not found:
        raise _no_layer(layout, config)
    raise UsageError(
        f"there are {len(found)} semantic layers: {listing(found)}",
        hint=f"choose one: {listing(f'-c {each}' for each in found)}",
        details={"candidates": found},
    )


def some_layers(layout: Layout, config: KtxConfig, connection: str | None) -> list[str]:
    """Return the connections whose files to read: the one named, else all; `UsageError` for one without files."""
    known = layer_ids(layout)
    if connection is None:
        return known
    if connection not in known:
        _require_layer(layout, config, connection)
    return [connection]


def _require_layer(layout: Layout, config: KtxConfig, connection: str) -> None:
    connection_of(config, connection)
    if connection not in layer_ids(layout):
        raise UsageError(
            f"connection `{connection}` has no semantic layer yet", hint=_how_to_get_one(layout, config, connection)
        )


def _how_to_get_one(layout: Layout, config: KtxConfig, connection: str) -> str:
    """Return the command that reads a database; of a context source, which databases have a layer."""
    found = layer_ids(layout)
    if connection in config.databases() or not found:
        return Command("ingest", connection)
    return f"it is a context source; these have one: {listing(found)}"


def _no_layer(layout: Layout, config: KtxConfig) -> UsageError:
    from ktx_cli.jobs.setup.request import how_to_connect

    hint = Command("ingest") if config.databases() else how_to_connect(layout.root)
    return UsageError("there is no semantic layer yet", hint=hint)
