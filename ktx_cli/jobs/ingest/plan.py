"""The plan of `ktx ingest` and `ktx scan`: which connections, how deep, with which prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.core import Command, ConfigError, Emit, NotReadyError, UsageError, ignore_events, new_run_id
from ktx_cli.engine import Begun, RunPlan, Target
from ktx_cli.project import (
    CURRENT_BRANCH,
    SOURCES,
    Connection,
    Destination,
    KtxConfig,
    Layout,
    connection_of,
    file_name_warnings,
    load_config,
)
from ktx_cli.runs import Recorder
from ktx_cli.scan import Depth, ScanPrompts, choose_depth, needs_model, not_enriched

INGEST: Final = Command("ingest")


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """A run to plan: its connections (none: all), its options, and the seconds to wait for another run.

    `depth` None: as deep as the configuration allows. `max_usd` (at list prices), `max_tokens`: what models may use.
    `run_id`: set if somebody waits for this very run; its model is then checked before anything is read.
    `destination`: where the changes go. `begun`: the commit that the same command has made. `config`: the text of
    `ktx.yaml`, if not that of the working files. `tables`: names of tables whose rows are read again, changed or not.
    """

    project_dir: Path
    environ: Mapping[str, str]
    connections: Sequence[str] = ()
    command: Command = INGEST
    databases_only: bool = False
    depth: Depth | None = None
    no_llm: bool = False
    dry_run: bool = False
    wait_seconds: float = 0.0
    max_usd: float | None = None
    max_tokens: int | None = None
    emit: Emit = ignore_events
    run_id: str | None = None
    destination: Destination = CURRENT_BRANCH
    begun: Begun | None = None
    config: bytes | None = None
    tables: Sequence[str] = ()


def plan_run(request: IngestRequest) -> RunPlan:
    """Return the plan of a run. Raises `KtxError` for an invalid configuration or request."""
    layout = Layout(request.project_dir)
    loaded = load_config(layout.config, data=request.config)
    config = loaded.config
    targets = choose_targets(layout, config, request.connections, databases_only=request.databases_only)
    depth = choose_depth(config, request.depth, no_llm=request.no_llm)
    asks = needs_model(config, depth, no_llm=request.no_llm)
    prompts = ScanPrompts.load(layout.prompts) if asks else None
    warnings = loaded.notices()
    undescribed = None if request.no_llm or request.depth is not None else not_enriched(config)
    warnings += [] if undescribed is None else [undescribed]
    warnings += file_name_warnings(layout.root)
    plan = RunPlan(
        request.command,
        layout,
        config,
        request.environ,
        Recorder(layout, request.run_id or new_run_id(), request.emit, warnings),
        targets=tuple(targets),
        broken=broken_targets(config, request.connections, databases_only=request.databases_only),
        depth=depth,
        prompts=prompts,
        max_usd=request.max_usd,
        max_tokens=request.max_tokens,
        databases_only=request.databases_only,
        no_llm=request.no_llm,
        dry_run=request.dry_run,
        awaited=request.run_id is not None,
        wait_seconds=request.wait_seconds,
        destination=request.destination,
        begun=request.begun,
        tables=tuple(request.tables),
    )
    plan.require_queue()
    return plan


def choose_targets(layout: Layout, config: KtxConfig, wanted: Sequence[str], *, databases_only: bool) -> list[Target]:
    """Return the connections to work on, by id: the requested ones, or all usable ones.

    Raises `UsageError` for an unknown id or one of the wrong kind, `ConfigError` for a disabled one, `NotReadyError` if
    there are none.
    """
    candidates: Mapping[str, Connection] = config.databases() if databases_only else config.usable()
    for connection in wanted:
        connection_of(config, connection)
        if connection not in candidates:
            message = f"connection `{connection}` is a context source, not a database"
            raise UsageError(message, hint=Command("ingest", connection))
    for entry in () if candidates else config.disabled().values():
        raise NotReadyError(f"no connection in ktx.yaml can be used: {entry.error().message}", hint=entry.error().hint)
    if not candidates:
        from ktx_cli.jobs.setup.request import how_to_connect

        raise NotReadyError("no database is configured in ktx.yaml", hint=how_to_connect(layout.root))
    return [
        Target(connection, config.connections[connection].driver) for connection in sorted(set(wanted) or candidates)
    ]


def broken_targets(config: KtxConfig, wanted: Sequence[str], *, databases_only: bool) -> dict[Target, ConfigError]:
    """Return the requested connections that an error in ktx.yaml disables, with that error.

    Connections with a driver that only the TypeScript ktx supports are meant for that program, so they do not count.
    """
    return {
        Target(connection, entry.driver): entry.error()
        for connection, entry in sorted(config.disabled().items())
        if not wanted and not entry.is_foreign and not (databases_only and entry.driver in SOURCES)
    }
