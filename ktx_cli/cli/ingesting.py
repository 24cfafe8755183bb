"""What `ktx ingest` and `ktx scan` share: their options and the drawing of their report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli.blocks import Block, Fields, Table
from ktx_cli.cli.completing import connection_ids
from ktx_cli.cli.contract import Result, Session
from ktx_cli.core.text import plural, shell_words

if TYPE_CHECKING:
    from ktx_cli.context.semantic.interchange.result import Fidelity
    from ktx_cli.jobs.ingest.report import ConnectionReport, IngestReport
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

MOST_JOINS = 10
"""How many of the joins of a connection a run names without `--verbose`, the surest first."""

MOST_NAMES = 20
"""How many tables or files of one kind a dry run names without `--verbose`."""


def ingest_result(session: Session, request: IngestRequest) -> Result:
    """Run the job and return its report as the command's answer."""
    from ktx_cli.jobs.ingest.report import PLANNED
    from ktx_cli.jobs.ingest.run import ingest

    report, warnings = ingest(request)
    session.warn(*warnings)
    blocks = _plan_blocks if report.dry_run else _blocks
    again = shell_words(*request.command.split(), *request.connections)
    review = [c.connection for c in report.connections if c.to_review and not report.dry_run]
    steps = [again] if report.status == PLANNED else []
    if review:
        steps.append(shell_words("ktx", "scan", "relationships", *(review if len(review) > 1 else ()), "--review"))
    return Result(report.to_json(), blocks(report, verbose=session.settings.verbose), report.error(), next_steps=steps)


def _plan_blocks(report: IngestReport, *, verbose: bool) -> list[Block]:
    """Draw a dry run: what was read, what a run would change, and that nothing was written."""
    rows = [
        (connection.connection, would, name)
        for connection in report.connections
        for would, names in _planned(connection)
        for name in (names if verbose else _capped(names))
    ]
    blocks = [_result_table(report)]
    if rows:
        blocks.append(Table(("connection", "would", "what"), tuple(rows)))
    problems = _problem_rows(report)
    if problems:
        blocks.append(Table(("connection", "what", "object"), tuple(problems)))
    files = [connection.files for connection in report.connections]
    written, removed = (sum(len(getattr(each, name)) for each in files) for name in ("written", "removed"))
    would = f"write {plural(written, 'file')}, remove {removed}" if written or removed else "change nothing"
    return [*blocks, Fields((("a run would", would), ("written now", "nothing, this was a dry run")))]


def _planned(connection: ConnectionReport) -> list[tuple[str, tuple[str, ...]]]:
    changes, files = connection.changes, connection.files
    return [
        ("add table", changes.added),
        ("change table", changes.changed),
        ("remove table", changes.removed),
        ("keep unread table", changes.kept),
        ("write file", files.written),
        ("remove file", files.removed),
    ]


def _capped(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) <= MOST_NAMES:
        return names
    return (*names[:MOST_NAMES], f"... and {len(names) - MOST_NAMES:,} more; --verbose names them all")


def _result_table(report: IngestReport) -> Block:
    rows = [(c.connection, c.status, c.result) for c in report.connections]
    rows += [(work.name, work.status, work.result) for work in report.sources]
    return Table(("connection", "status", "result"), tuple(rows))


def _source_rows(report: IngestReport, *, verbose: bool) -> list[tuple[str, str, str]]:
    """Return what to say of sources: what was not read, not landed, dropped, and what a model would add."""
    rows: list[tuple[str, str, str]] = []
    for work in report.sources:
        said = [("not read", f"{each.what}: {each.reason}") for each in work.snapshot.skipped if not each.retry]
        said += [("left out", each) for each in work.left_out]
        said += [("dropped", _dropped(each)) for each in work.fidelity if each.kind.value == "dropped"]
        said += [("a model would add", each) for each in work.left_for_a_model]
        shown = said if verbose else said[:MOST_NAMES]
        rows += [(work.name, what, text) for what, text in shown]
        if len(said) > len(shown):
            rows.append((work.name, "...", f"and {len(said) - len(shown):,} more; --verbose names them all"))
    return rows


def _dropped(item: Fidelity) -> str:
    return f"{item.place.path}:{item.place.line}: {item.what}: {item.why}"


def _join_tables(report: IngestReport, *, verbose: bool) -> list[Block]:
    """Draw the joins that were found, of connections where something changed, and those that are gone."""
    found = [row for c in report.connections if c.status != "unchanged" for row in _join_rows(c, verbose=verbose)]
    gone = [(c.connection, each.name, each.reason) for c in report.connections for each in c.gone]
    tables: list[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]] = [
        (("join found", "score", "reason"), found),
        (("join gone", "reason"), gone),
    ]
    several = len(report.connections) > 1
    return [
        Table(("connection", *columns), tuple(rows)) if several else Table(columns, tuple(row[1:] for row in rows))
        for columns, rows in tables
        if rows
    ]


def _join_rows(connection: ConnectionReport, *, verbose: bool) -> list[tuple[str, ...]]:
    name = connection.connection
    shown = connection.joins if verbose else connection.joins[:MOST_JOINS]
    rows: list[tuple[str, ...]] = [(name, each.name, f"{each.edge.score:g}", each.edge.reason) for each in shown]
    more = len(connection.joins) - len(shown)
    if more:
        rows.append((name, f"... and {more:,} more", "", shell_words("ktx", "scan", "relationships", name)))
    return rows


def _problem_rows(report: IngestReport) -> list[tuple[str, str, str]]:
    return [
        (c.connection, problem["what"] or "problem", f"{problem['object'] or ''} {problem['message']}".strip())
        for c in report.connections
        for problem in c.problems
    ]


def _blocks(report: IngestReport, *, verbose: bool) -> list[Block]:
    blocks = [_result_table(report), *_join_tables(report, verbose=verbose)]
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
    names += [*_problem_rows(report), *_source_rows(report, verbose=verbose)]
    if names:
        blocks.append(Table(("connection", "what", "object"), tuple(names)))
    facts = [("run", report.run_id), ("status", report.status)]
    if report.commit:
        facts.append(("commit", f"{report.commit[:10]} ({len(report.committed)} files)"))
    else:
        facts.append(("commit", "none: nothing changed" if report.status == "unchanged" else "none"))
    facts += [("left alone", f"{path} ({reason})") for path, reason in report.held]
    facts += [("not committed", path) for path in report.ignored]
    blocks.append(Fields(tuple(facts)))
    return blocks
