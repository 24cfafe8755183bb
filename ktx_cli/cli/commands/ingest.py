"""`ktx ingest`: read every source and commit what changed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.reports import (
    FILES,
    IDS,
    MAX_TOKENS,
    MAX_USD,
    NO_LLM,
    TEXTS,
    WAIT,
    capture_result,
    ingest_result,
    options_of,
    requests_of,
    texts_of,
)
from ktx_cli.cli.unattended import LOG_FILE, NOTIFY, watch
from ktx_cli.core import RUN_ID, Command, Hint, UsageError


def _run_id(value: str | None) -> str | None:
    """Check the id a server gives the run it starts."""
    if value is not None and not RUN_ID.fullmatch(value):
        raise UsageError(f"`{value}` is no id of a run", hint=Hint("leave --run-id out: it is for {}", Command("mcp")))
    return value


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "ingest")
    def ingest(
        session: Session,
        ids: IDS = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
        no_llm: NO_LLM = False,
        text: TEXTS = None,
        file: FILES = None,
        max_usd: MAX_USD = None,
        max_tokens: MAX_TOKENS = None,
        wait: WAIT = None,
        log_file: LOG_FILE = None,
        notify: NOTIFY = None,
        run_id: Annotated[str | None, typer.Option("--run-id", hidden=True, callback=_run_id)] = None,
    ) -> Result:
        """Read the connections and commit what changed, once. Without IDs: all of them. With texts: capture these."""
        watch(session, log_file, notify)
        if text or file:
            if ids or no_llm:
                raise UsageError(
                    f"{'IDs' if ids else '--no-llm'} and a text to remember exclude each other",
                    hint=Command("memory", "capture", "--connection-id", "ID", "--text", "TEXT"),
                )
            options = options_of(session, wait=wait, max_usd=max_usd, max_tokens=max_tokens)
            return capture_result(session, requests_of(texts_of(text, file)), options, dry_run=dry_run)
        from ktx_cli.jobs.ingest.plan import IngestRequest

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
