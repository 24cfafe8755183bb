"""`ktx ingest`: read every source and commit what changed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.ingesting import IDS, NO_LLM, WAIT, ingest_result
from ktx_cli.core.clock import RUN_ID
from ktx_cli.core.errors import UsageError


def _run_id(value: str | None) -> str | None:
    """Check the id a server gives the run it starts."""
    if value is not None and not RUN_ID.fullmatch(value):
        raise UsageError(f"`{value}` is no id of a run", hint="leave --run-id out: it is for ktx mcp")
    return value


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "ingest")
    def ingest(
        session: Session,
        ids: IDS = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
        no_llm: NO_LLM = False,
        max_usd: Annotated[
            float | None,
            typer.Option("--max-usd", metavar="USD", min=0, help="End model work at this cost, at list prices."),
        ] = None,
        max_tokens: Annotated[
            int | None,
            typer.Option("--max-tokens", metavar="N", min=1, help="End model work at so many tokens."),
        ] = None,
        wait: WAIT = None,
        run_id: Annotated[str | None, typer.Option("--run-id", hidden=True, callback=_run_id)] = None,
    ) -> Result:
        """Read the connections and commit what changed, once. Without IDs: all of them."""
        from ktx_cli.jobs.ingest.run import IngestRequest

        request = IngestRequest(
            project_dir=session.require_project(),
            environ=os.environ,
            connections=tuple(ids or ()),
            no_llm=no_llm,
            dry_run=dry_run,
            max_usd=max_usd,
            max_tokens=max_tokens,
            wait_seconds=wait or 0.0,
            emit=session.emitter(),
            run_id=run_id,
        )
        return ingest_result(session, request)
