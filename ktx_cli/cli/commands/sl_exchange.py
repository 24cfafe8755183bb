"""`ktx sl import` and `ktx sl export`: semantic models of other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.commands.sl_options import Connection, project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import current_folder
from ktx_cli.core.errors import ResultWarning

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.exchanging import Exchange


class ImportFormat(StrEnum):
    """What can be read."""

    DBT = "dbt"
    LOOKML = "lookml"
    OSI = "osi"


class ExportFormat(StrEnum):
    """What can be written."""

    OSI = "osi"


def register(commands: typer.Typer) -> None:
    """Add the commands to the group."""
    _register_import(commands)
    _register_export(commands)


def _register_import(commands: typer.Typer) -> None:
    @command(commands, "import", schema="sl-import")
    def import_(
        session: Session,
        format: Annotated[ImportFormat, typer.Argument(help="The tool whose models to read.")],
        path: Annotated[str, typer.Argument(metavar="PATH", help="A file, or the folder of the project.")],
        connection: Connection = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only tell what would be kept, approximated and dropped.")
        ] = False,
    ) -> Result:
        """Read semantic models of dbt (MetricFlow), LookML or OSI into files of the semantic layer.

        Writes new files and those of an earlier import, never yours, and commits nothing. Every part of the input is
        told: kept, approximated or dropped, with file and line.
        """
        from ktx_cli.jobs.semantic.exchanging import import_model

        layout, config = project_of(session)
        done = import_model(
            *(layout, config, format.value, current_folder() / path), connection=connection, dry_run=dry_run
        )
        steps = [] if dry_run else ["ktx sl validate", "git diff"]
        return Result(done.to_json(), _blocks(done), done.error(), steps)


def _register_export(commands: typer.Typer) -> None:
    @command(commands, "export", schema="sl-export")
    def export(
        session: Session,
        format: Annotated[ExportFormat, typer.Argument(help="The format to write.")],
        connection: Connection = None,
        output: Annotated[
            str | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")
        ] = None,
    ) -> Result:
        """Write a semantic layer as Open Semantic Interchange (OSI) YAML; what it cannot say is told."""
        from ktx_cli.jobs.semantic.exchanging import export_model

        layout, config = project_of(session)
        target = None if output is None else current_folder() / Path(output)
        done = export_model(layout, config, connection=connection, output=target)
        session.warn(*_lost(done))
        if target is not None or session.settings.json:
            return Result(done.to_json(), _blocks(done))
        streams.write_out(done.text or "")
        return Result(done.to_json(), ())


def _lost(done: Exchange) -> list[ResultWarning]:
    counts = done.counts
    if not counts["dropped"] and not counts["approximated"]:
        return []
    message = f"{counts['dropped']:,} parts cannot be said in OSI, {counts['approximated']:,} only nearly"
    return [ResultWarning("fidelity", message, hint="ktx sl export osi --json lists them under report")]


def _blocks(done: Exchange) -> list[Block]:
    changed = [item for item in done.report if item.kind.value != "kept"]
    rows = tuple((item.kind.value, str(item.place), item.what, item.why, item.target or "") for item in changed)
    facts = [(kind, f"{count:,}") for kind, count in done.counts.items()]
    if done.placed is not None:
        facts += [("written", path) for path in done.placed.written]
        facts += [("unchanged", path) for path in done.placed.same]
    else:
        facts += [("file", path) for path in done.files]
    table = [Table(("result", "place", "what", "why", "becomes"), rows)] if rows else []
    return [*table, Fields(tuple(facts))]
