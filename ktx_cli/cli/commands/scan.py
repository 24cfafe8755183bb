"""`ktx scan`: the database part of an ingest alone, and the commands about what it found."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from ktx_cli.cli.commands import scan_diagram, scan_relationships
from ktx_cli.cli.contract import Result, Session
from ktx_cli.cli.groups import own_command, own_group
from ktx_cli.cli.ingesting import IDS, NO_LLM, WAIT, ingest_result


class Depth(StrEnum):
    """How deep a scan looks."""

    STRUCTURAL = "structural"
    PROFILE = "profile"
    ENRICHED = "enriched"


DEPTHS = (
    "structural: tables, columns and declared keys; profile: also samples of rows, keys and joins nobody declared; "
    "enriched: also descriptions, and joins the model proposes, as scan.enrichment.mode says. "
    "Without it: as deep as the configuration allows."
)


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    commands = own_group(app, "scan")
    _register_scan(commands)
    scan_diagram.register(commands)
    scan_relationships.register(commands)


def _register_scan(commands: typer.Typer) -> None:
    @own_command(commands, schema="scan", ids=True)
    def scan(
        session: Session,
        ids: IDS = None,
        depth: Annotated[Depth | None, typer.Option("--depth", help=DEPTHS, show_default=False)] = None,
        no_llm: NO_LLM = False,
        wait: WAIT = None,
    ) -> Result:
        """Read the structure of databases, and what their rows tell, and commit what changed. Without IDs: all."""
        from ktx_cli.jobs.ingest.depth import Depth as ScanDepth
        from ktx_cli.jobs.ingest.run import IngestRequest

        request = IngestRequest(
            project_dir=session.require_project(),
            environ=os.environ,
            connections=tuple(ids or ()),
            command="ktx scan",
            databases_only=True,
            depth=None if depth is None else ScanDepth(depth.value),
            no_llm=no_llm,
            wait_seconds=wait or 0.0,
            emit=session.emitter(),
        )
        return ingest_result(session, request)
