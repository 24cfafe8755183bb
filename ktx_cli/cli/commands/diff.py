"""`ktx diff`: how databases are not as they were scanned, and what that breaks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.commands.sl_question import project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.reports import IDS
from ktx_cli.core import Command, Hint, one_line, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.check.diff import Change, Drift


_CELL = 60
_MOST_USES = 5
"""How many of the parts that refer to a change are printed without `--verbose`."""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "diff")
    def diff(
        session: Session,
        ids: IDS = None,
        breaking: Annotated[
            bool, typer.Option("--breaking", help="Exit 1 only for what breaks references, or the type of a column.")
        ] = False,
    ) -> Result:
        """Compare databases with their last scan: tables, columns, types, keys, and what in the context refers to them.

        Exits 1 when something changed. Reads the structure of the databases once and writes nothing.
        """
        from ktx_cli.jobs.check.diff import find_drift

        layout, config = project_of(session)
        found, warnings = find_drift(layout, config, ids or (), environ=os.environ)
        session.warn(*warnings)
        return Result(found.to_json(), _blocks(found, verbose=session.settings.verbose), found.error(breaking=breaking))


def _blocks(found: Drift, *, verbose: bool) -> list[Block]:
    results = tuple((each.connection, each.status, each.result) for each in found.connections)
    blocks: list[Block] = [Table(("connection", "status", "result"), results)]
    changes = tuple(
        (each.connection, change.kind.value, change.what, _values(change), "yes" if change.breaking else "no")
        for each in found.connections
        for change in each.changes
    )
    if changes:
        blocks.append(Table(("connection", "change", "of", "before -> after", "breaking"), changes))
    uses = tuple(row for each in found.connections for change in each.changes for row in _uses(change, verbose))
    if uses:
        blocks.append(Table(("change", "is used by", "place"), uses))
    counts = found.counts()
    summary = f"{counts['changes']}, {counts['breaking']} breaking" if counts["changes"] else "none"
    looked = any(each.error is None for each in found.connections)
    return [*blocks, Fields((("changes", summary),))] if looked else blocks


def _values(change: Change) -> str:
    before, after = (one_line(each or "-", _CELL) for each in (change.before, change.after))
    return f"{before} -> {after}"


def _uses(change: Change, verbose: bool) -> list[tuple[str, str, str]]:
    shown = change.uses if verbose else change.uses[:_MOST_USES]
    what = f"{change.kind.value} {change.what}"
    rows = [(what, str(use), "" if use.part.place is None else str(use.part.place)) for use in shown]
    more = len(change.uses) - len(shown)
    return [*rows, *([(what, Hint("{}: {}", plural(more, "other"), Command("diff", "--verbose")), "")] if more else [])]
