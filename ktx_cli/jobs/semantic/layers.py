"""Which connections have a semantic layer, and reading one with the project's calendar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.scan.shards import SUFFIXES
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.loading import load_model
from ktx_cli.context.semantic.loading.strays import read_strays
from ktx_cli.context.semantic.model import CalendarSettings, Model, Problem
from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.core.text import is_utf8, listing, shell_words
from ktx_cli.project.config import KtxConfig, connection_of
from ktx_cli.project.layout import SEMANTIC_NAME, Layout
from ktx_cli.project.tree import WorkingTree

LoadLayer = Callable[[Layout, KtxConfig, str], Model]
"""Takes layout, settings and connection; returns its semantic layer: `load_layer`, or one that remembers."""

_NO_DATABASE: Final = ""
"""sqlglot's name for SQL of no dialect: for files of a connection that is not configured any more."""


def layer_ids(layout: Layout) -> list[str]:
    """Return the ids of the connections that have files of a semantic layer, sorted."""
    folder = layout.root / SEMANTIC_NAME
    if not folder.is_dir():
        return []
    names = (each.name for each in folder.iterdir() if each.is_dir() and is_utf8(each.name))
    return sorted(name for name in names if _has_files(layout, name))


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


def load_layer(layout: Layout, config: KtxConfig, connection: str) -> Model:
    """Return the semantic layer of a connection, as its files have it now."""
    entry = config.connections.get(connection)
    dialect = None if entry is None else dialect_of(entry.driver)
    configured = None if entry is None else config.connections.keys()
    return load_model(layout, connection, dialect or _NO_DATABASE, calendar_of(config), configured=configured)


def load_layers(layout: Layout, config: KtxConfig, connections: Iterable[str]) -> list[Model]:
    """Return the semantic layers of several connections."""
    return [load_layer(layout, config, connection) for connection in connections]


def stray_problems(layout: Layout, config: KtxConfig) -> list[Problem]:
    """Return the problems of files outside the folders of all connections that close its databases to raw SQL."""
    if not config.databases():
        return []
    return [each.problem for each in read_strays(WorkingTree(layout.root), config.connections.keys())]


@contextlib.contextmanager
def broken_files_told(model: Model) -> Iterator[None]:
    """Let the hint of an unknown name say that files have errors, where some have: the name may be in one of them."""
    try:
        yield
    except SemanticError as error:
        if error.code == "unknown_name" and any(each.severity == "error" for each in model.problems):
            check = shell_words("ktx", "sl", "validate", "-c", model.connection, "--no-data")
            error.hint = f"{error.hint}; or correct the files with errors: {check}"
        raise


def calendar_of(config: KtxConfig) -> CalendarSettings:
    """Return how the project cuts time; `ConfigError` for a time zone that is none."""
    from ktx_cli.context.semantic.time import require_zone

    zone = config.semantic.timezone
    try:
        if zone is not None:
            require_zone(zone)
    except SemanticError as error:
        raise ConfigError(
            f"ktx.yaml: `semantic.timezone`: {error.message}",
            hint=f"{error.hint}, then: ktx config set semantic.timezone Europe/Berlin",
        ) from error
    return CalendarSettings(config.semantic.week_start, config.semantic.fiscal_year_start, zone)


def _has_files(layout: Layout, connection: str) -> bool:
    folder = layout.root / Layout.context_paths(connection)[0]
    return any(path.suffix in SUFFIXES for path in folder.rglob("*"))


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
        return shell_words("ktx", "ingest", connection)
    return f"it is a context source; these have one: {listing(found)}"


def _no_layer(layout: Layout, config: KtxConfig) -> UsageError:
    from ktx_cli.jobs.setup.suggesting import how_to_connect

    hint = "ktx ingest" if config.databases() else how_to_connect(layout.root)
    return UsageError("there is no semantic layer yet", hint=hint)
