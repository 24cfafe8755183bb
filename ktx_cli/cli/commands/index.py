"""`ktx index`: bring the search index up to date."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from ktx_cli.cli.blocks import Fields
from ktx_cli.cli.commands.sl_question import project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.reports import WAIT
from ktx_cli.core import plural

if TYPE_CHECKING:
    from ktx_cli.search import Refreshed


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "index")
    def index(session: Session, wait: WAIT = None) -> Result:
        """Write the search index: after edits by hand, a fresh clone, or a change of the embeddings model."""
        from ktx_cli.jobs.index import index_project

        layout, config = project_of(session)
        done = index_project(
            layout, config, os.environ, wait_seconds=wait or 0.0, emit=session.emitter(), warn=session.warn
        )
        return Result(done.to_json(), [Fields(tuple(_facts(done)))], done.error)


def _facts(done: Refreshed) -> list[tuple[str, str]]:
    changed = f"{done.added:,} added, {done.removed:,} removed" if done.added or done.removed else "nothing changed"
    facts = [("documents", f"{done.documents:,}"), ("changes", "built anew" if done.rebuilt else changed)]
    return facts + ([("vectors", f"{plural(done.vectors, 'text')} embedded")] if done.vectors else [])
