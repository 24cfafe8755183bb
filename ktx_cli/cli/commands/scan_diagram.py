"""`ktx scan diagram`: the tables and joins of a database as a drawing."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ktx_cli.cli.blocks import Fields, Lines
from ktx_cli.cli.completing import connection_ids
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import current_folder
from ktx_cli.core.text import plural


class Format(StrEnum):
    """How the diagram is written."""

    MERMAID = "mermaid"
    SVG = "svg"
    DOT = "dot"


def register(commands: typer.Typer) -> None:
    """Add the command to the group."""

    @command(commands, "diagram", schema="scan-diagram")
    def diagram(
        session: Session,
        id: Annotated[
            str | None,
            typer.Argument(
                metavar="[ID]", help="Connection; none: the only one scanned.", autocompletion=connection_ids
            ),
        ] = None,
        format: Annotated[
            Format, typer.Option("--format", help="mermaid, svg (drawn by Graphviz) or dot (its input).")
        ] = Format.MERMAID,
        output: Annotated[
            Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of to stdout.")
        ] = None,
        keys_only: Annotated[bool, typer.Option("--keys-only", help="Only keys and columns of joins.")] = False,
        tables: Annotated[
            list[str] | None,
            typer.Option("--tables", metavar="PATTERN", help="Only these, as mart.* or order*; repeatable."),
        ] = None,
    ) -> Result:
        """Draw the tables of a database and their joins, from the last scan."""
        from ktx_cli.jobs.diagrams import draw, save
        from ktx_cli.project.layout import Layout

        drawing, warnings = draw(
            Layout(session.require_project()),
            id,
            format=format.value,
            patterns=tables or (),
            keys_only=keys_only,
        )
        session.warn(*warnings)
        if output is None:
            return Result(drawing.to_json(), [Lines(tuple(drawing.text.splitlines()))])
        path = current_folder() / output
        save(drawing, path)
        facts = f"{plural(drawing.tables, 'table')}, {plural(drawing.joins, 'join')}"
        return Result(drawing.to_json(path), [Fields((("written", str(path)), ("drawn", facts)))])
