"""What `ktx ingest` and `ktx scan` share: their options and the drawing of their report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.completing import connection_ids
from ktx_cli.cli.contract import Result, Session

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.report import IngestReport
    from ktx_cli.jobs.ingest.run import IngestRequest

IDS = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Connections of ktx.yaml; none: all.", autocompletion=connection_ids),
]
NO_LLM = Annotated[
    bool, typer.Option("--no-llm", help="Do the part that needs no model, whatever backend is configured.")
]
WAIT = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="[SECONDS]",
        min=0,
        help="Wait for another run instead of exit 6; without a number as long as it takes.",
    ),
]


def ingest_result(session: Session, request: IngestRequest) -> Result:
    """Run the job and return its report as the command's answer."""
    from ktx_cli.jobs.ingest.run import ingest

    report, warnings = ingest(request)
    session.warn(*warnings)
    return Result(report.to_json(), _blocks(report, verbose=session.settings.verbose), report.error())


def _blocks(report: IngestReport, *, verbose: bool) -> list[Block]:
    blocks: list[Block] = [
        Table(
            ("connection", "status", "result"),
            tuple((c.connection, c.status, c.summary) for c in report.connections),
        )
    ]
    names = [
        (c.connection, what, name)
        for c in report.connections
        for what, listed in (
            ("removed", c.changes.removed),
            ("kept unread", c.changes.kept),
            *((("added", c.changes.added), ("changed", c.changes.changed)) if verbose else ()),
        )
        for name in listed
    ]
    names += [
        (c.connection, problem["what"] or "problem", f"{problem['object'] or ''} {problem['message']}".strip())
        for c in report.connections
        for problem in c.problems
    ]
    if names:
        blocks.append(Table(("connection", "what", "object"), tuple(names)))
    facts = [("run", report.run_id), ("status", report.status)]
    if report.commit:
        facts.append(("commit", f"{report.commit[:10]} ({len(report.committed)} files)"))
    elif not report.dry_run:
        facts.append(("commit", "none: nothing changed" if report.status == "unchanged" else "none"))
    facts += [("left alone", f"{path} ({reason})") for path, reason in report.held]
    facts += [("not committed", path) for path in report.ignored]
    blocks.append(Fields(tuple(facts)))
    return blocks
