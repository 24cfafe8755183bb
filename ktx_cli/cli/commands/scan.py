"""`ktx scan`: the database part of an ingest alone, and the commands about what it found."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from ktx_cli.cli.commands import scan_diagram
from ktx_cli.cli.contract import Result, Session
from ktx_cli.cli.groups import own_command, own_group
from ktx_cli.cli.ingesting import IDS, NO_LLM, WAIT, ingest_result
from ktx_cli.core.errors import NotSupportedError


class Depth(StrEnum):
    """How deep a scan looks."""

    STRUCTURAL = "structural"
    PROFILE = "profile"
    ENRICHED = "enriched"


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    commands = own_group(app, "scan")
    _register_scan(commands)
    scan_diagram.register(commands)


def _register_scan(commands: typer.Typer) -> None:
    @own_command(commands, schema="scan", ids=True)
    def scan(
        session: Session,
        ids: IDS = None,
        depth: Annotated[Depth, typer.Option("--depth", help="How deep to look.")] = Depth.STRUCTURAL,
        no_llm: NO_LLM = False,
        wait: WAIT = None,
    ) -> Result:
        """Read the structure of databases and commit what changed. Without IDs: all of them."""
        from ktx_cli.jobs.ingest.run import IngestRequest

        project = session.require_project()
        if depth is not Depth.STRUCTURAL:
            raise NotSupportedError(f"--depth {depth.value} is not supported yet", hint="--depth structural")
        request = IngestRequest(
            project_dir=project,
            environ=os.environ,
            connections=tuple(ids or ()),
            command="ktx scan",
            databases_only=True,
            no_llm=no_llm,
            wait_seconds=wait or 0.0,
            emit=session.emitter(),
        )
        return ingest_result(session, request)
