"""`ktx scan`: scan databases, review the inferred joins, and draw diagrams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Styled, Table
from ktx_cli.cli.commands.completion import connection_ids, join_names, near_subcommand
from ktx_cli.cli.contract import Result, Session, command, own_command
from ktx_cli.cli.help import own_group
from ktx_cli.cli.reports import BRANCH, IDS, NO_COMMIT, NO_LLM, destination_of, ingest_result
from ktx_cli.cli.settings import WAIT, current_folder
from ktx_cli.core import CancelledError, Command, Hint, UsageError, did_you_mean, listing, one_line, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.plan import IngestRequest
    from ktx_cli.jobs.review import DecisionReport, Explanation, RelationshipList, TypedDecision
    from ktx_cli.project import Layout
    from ktx_cli.scan import JoinStatus, ReviewedRelationship, RunnerUp, Step

commands = own_group()


Depth = StrEnum("Depth", ("STRUCTURAL", "PROFILE", "ENRICHED"))
"""The depth of a scan."""


DEPTHS = (
    "structural: tables, columns and declared keys. profile: also sampled rows, and inferred keys and joins. "
    "enriched: also descriptions and joins from the model, as scan.enrichment.mode allows. "
    "Defaults to the deepest scan that the configuration allows."
)


@own_command(commands, schema="scan", ids=True)
def scan(
    session: Session,
    ids: IDS = None,
    depth: Annotated[Depth | None, Option("--depth", help=DEPTHS, show_default=False)] = None,
    no_llm: NO_LLM = False,
    no_commit: NO_COMMIT = False,
    branch: BRANCH = None,
    tables: Annotated[
        list[str] | None,
        Option(
            "--table",
            metavar="NAME",
            help="Profile this table again, although it has not changed, and before all others: `mart.orders` or "
            "`orders`. Can be repeated.",
        ),
    ] = None,
    wait: WAIT = None,
) -> Result:
    """Scan databases and commit the result.

    Reads tables, columns and keys, profiles the rows, and infers joins. Scans all databases unless IDs are given.

    Examples:
        ktx scan
        ktx scan warehouse --depth structural
        ktx scan warehouse --table mart.orders
    """
    from ktx_cli.jobs.ingest.plan import IngestRequest
    from ktx_cli.scan import Depth as ScanDepth

    request = IngestRequest(
        project_dir=session.require_own_project(),
        environ=os.environ,
        connections=tuple(ids or ()),
        command=Command("scan"),
        databases_only=True,
        depth=None if depth is None else ScanDepth(depth.value),
        no_llm=no_llm,
        wait_seconds=wait or 0.0,
        emit=session.emitter(),
        destination=destination_of(branch, no_commit=no_commit),
        tables=tuple(tables or ()),
    )
    try:
        return ingest_result(session, request)
    except UsageError as error:
        _suggest_subcommand(error, request)
        raise


def _suggest_subcommand(error: UsageError, request: IngestRequest) -> None:
    """Make the hint suggest a subcommand if an unknown connection resembles one more than a connection."""
    from ktx_cli.project import Layout, load_config

    known = load_config(Layout(request.project_dir).config).config.connections
    for id in request.connections:
        near = None if id in known or did_you_mean(id, known) else near_subcommand(commands, id)
        if near is not None:
            error.hint = Hint("did you mean `{}`?", Command("scan", near))
            return


Format = StrEnum("Format", ("MERMAID", "SVG", "DOT"))
"""The format of the diagram."""


@command(commands, "diagram", schema="scan-diagram")
def diagram(
    session: Session,
    id: Annotated[
        str | None,
        Argument(
            metavar="ID", help="ID of a database. Optional if only one was scanned.", autocompletion=connection_ids
        ),
    ] = None,
    format: Annotated[
        Format, Option("--format", help="Output format. svg requires Graphviz; dot is its input.")
    ] = Format.MERMAID,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write to a file instead of stdout.")
    ] = None,
    keys_only: Annotated[bool, Option("--keys-only", help="Only draw keys and join columns.")] = False,
    tables: Annotated[
        list[str] | None,
        Option(
            "--tables", metavar="PATTERN", help="Only draw tables that match, for example 'mart.*'. Can be repeated."
        ),
    ] = None,
) -> Result:
    """Draw a diagram of tables and joins from the last scan.

    Examples:
        ktx scan diagram
        ktx scan diagram --tables "shop.order*" --keys-only
        ktx scan diagram warehouse --format dot --output shop.dot
    """
    from ktx_cli.jobs.review import draw, save
    from ktx_cli.project import Layout

    drawing, warnings = draw(
        Layout(session.require_own_project()), id, format=format.value, patterns=tables or (), keys_only=keys_only
    )
    session.warn(*warnings)
    if output is None:
        return Result(drawing.to_json(), [Lines(tuple(drawing.text.splitlines()), whole=True)])
    path = current_folder() / output
    save(drawing, path)
    facts = f"{plural(drawing.tables, 'table')}, {plural(drawing.joins, 'join')}"
    return Result(drawing.to_json(path), [Fields((("written", str(path)), ("drawn", facts)))])


Status = StrEnum("Status", ("ACCEPTED", "REVIEW", "REJECTED", "MANUAL", "DISABLED", "DECLARED", "ALL"))
"""Which relationships to list."""


NAMED = " this join: its name in quotes, or the part before the arrow. Can be repeated."


@command(commands, "relationships", schema="scan-relationships")
def relationships(
    session: Session,
    ids: IDS = None,
    status: Annotated[
        list[Status] | None,
        Option(
            "--status",
            help="Only list joins with this status. Defaults to accepted, manual and review; with --review, to review. "
            "Can be repeated.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None, Option("--table", metavar="NAME", help="Only list joins from or to this table.")
    ] = None,
    review: Annotated[bool, Option("--review", help="Review each join on the terminal.")] = False,
    accept: Annotated[
        list[str] | None, Option("--accept", metavar="EDGE", help=f"Accept{NAMED}", autocompletion=join_names)
    ] = None,
    reject: Annotated[
        list[str] | None, Option("--reject", metavar="EDGE", help=f"Reject{NAMED}", autocompletion=join_names)
    ] = None,
    explain: Annotated[
        list[str] | None,
        Option("--explain", metavar="EDGE", help=f"Explain the decision on{NAMED}", autocompletion=join_names),
    ] = None,
    accept_all_above: Annotated[
        float | None,
        Option(
            "--accept-all-above",
            metavar="SCORE",
            min=0,
            help="Accept all joins to review with at least this score, from 0 to 1.",
        ),
    ] = None,
    wait: WAIT = None,
) -> Result:
    """List inferred joins, explain them, and accept or reject them.

    All decisions are written in a single commit. An explanation changes nothing and reads no database.

    Examples:
        ktx scan relationships
        ktx scan relationships --explain support_tickets.order_id
        ktx scan relationships --accept "support_tickets.order_id->orders.order_id"
    """
    from ktx_cli.jobs.review import SHOWN, TypedDecision
    from ktx_cli.project import Layout
    from ktx_cli.scan import Decision, JoinStatus

    named = [TypedDecision(name, Decision.ACCEPT) for name in accept or ()]
    named += [TypedDecision(name, Decision.REJECT) for name in reject or ()]
    if accept_all_above is not None and not 0 <= accept_all_above <= 1:
        message = f"--accept-all-above requires a score from 0 to 1, not {accept_all_above:g}"
        raise UsageError(message, hint=Command("scan", "relationships", "--accept-all-above", "0.8"))
    deciding = bool(named) or accept_all_above is not None
    if explain:
        _check_explain(others=bool(deciding or review or status) or table is not None or wait is not None)
        return _explained(session, Layout(session.require_own_project()), ids or (), explain)
    _check(session, review=review, deciding=deciding, status=status)
    layout = Layout(session.require_own_project())
    open_only = frozenset({JoinStatus.REVIEW})
    if named or accept_all_above is not None:
        if accept_all_above is not None:
            found = _listed(session, layout, ids, open_only, table)
            named += _all_above(session, found.relationships, accept_all_above)
        return _decided(session, layout, ids, named, wait)
    statuses = _join_statuses(status) if status else open_only if review else SHOWN
    found = _listed(session, layout, ids, statuses, table)
    if review:
        return _reviewed(session, layout, ids, found, wait)
    return _listing(found, ids or ())


def _check_explain(*, others: bool) -> None:
    if others:
        message = "--explain cannot be used together with other options of this command"
        raise UsageError(message, hint=Command("scan", "relationships", "--explain", "EDGE"))


def _explained(session: Session, layout: Layout, ids: Sequence[str], names: Sequence[str]) -> Result:
    from ktx_cli.jobs.review import explain_relationships

    report = explain_relationships(layout, names, ids)
    session.warn(*report.warnings)
    data = _data([each.reviewed for each in report.explanations], None)
    data["explanations"] = [each.to_json() for each in report.explanations]
    blocks = [block for each in report.explanations for block in (Lines(("",)), *_explanation_blocks(each))]
    return Result(data, blocks[1:], next_steps=list(report.next_steps))


def _explanation_blocks(explanation: Explanation) -> list[Block]:
    """Return an explanation: who decided, the evidence, the score by steps, the rivals, and what would change it."""
    found, explained = explanation.reviewed, explanation.explained
    blocks: list[Block] = [Lines((Styled(found.name, "bold"),), whole=True)]
    blocks.append(Lines(tuple(f"  {each}" for each in explanation.decision)))
    if explained.statements:
        marked = tuple((_mark(each.bearing), f" {each.text}") for each in explained.statements)
        blocks.append(Lines(("", "Evidence (+ for the join, - against it)", *marked), hanging=True))
    if explained.steps:
        blocks.append(Lines(("", "Score by step", *map(_step_line, explained.steps)), hanging=True))
    if explained.runners_up or explained.steps:
        none = "  None with a matching name" if explained.has_unlikely_rivals else "  None"
        rivals = tuple(map(_rival_line, explained.runners_up)) or (none,)
        blocks.append(Lines(("", "Other candidate keys for this column", *rivals), hanging=True))
    if explained.changes:
        lines = (f"  {each.text}" for each in explained.changes)
        blocks.append(Lines(("", "What would change the decision", *lines), hanging=True))
    if explanation.note is not None:
        blocks.append(Lines(("", explanation.note)))
    return blocks


_STEPS: Final = {
    "names": "from the names alone",
    "values": "with the values of the column",
    "columns": "with the other columns of the database",
    "hints": "with hints",
}
"""What a step of an explanation adds to the score."""


def _step_line(step: Step) -> str:
    because = f" ({'' if step.evidence == 'hints' else 'mainly '}{step.because})" if step.because else ""
    return f"  {step.probability:.3f} {_STEPS[step.evidence]}{because}"


def _mark(bearing: str) -> Styled:
    mark, style = {"for": ("+", "ok"), "against": ("-", "warning")}.get(bearing, ("·", "dim"))
    return Styled(f"  {mark}", style)


def _rival_line(rival: RunnerUp) -> str:
    facts = [each.rstrip(".") for each in (rival.name, rival.values, rival.why) if each]
    return f"  {rival.key} ({rival.probability:.3f}): {'; '.join(facts)}."


def _check(session: Session, *, review: bool, deciding: bool, status: Sequence[Status] | None) -> None:
    """Raise `UsageError` for options that cannot be combined, or if a review cannot prompt."""
    if review and deciding:
        message = "--review cannot be used together with --accept, --reject or --accept-all-above"
        raise UsageError(message, hint=Command("scan", "relationships", "--review"))
    if status and deciding:
        raise UsageError("--status only applies to lists and --review", hint="omit --status")
    if review and not session.settings.interactive:
        message = "--review requires a terminal, and cannot be used with --no-input or --json"
        accept = Command("scan", "relationships", "--accept", "EDGE")
        raise UsageError(message, hint=Hint("{}, --reject EDGE, or --accept-all-above 0.8 --yes", accept))


def _join_statuses(status: Sequence[Status]) -> frozenset[JoinStatus]:
    from ktx_cli.scan import JoinStatus

    return frozenset(JoinStatus) if Status.ALL in status else frozenset(JoinStatus(each.value) for each in status)


def _listed(
    session: Session, layout: Layout, ids: Sequence[str] | None, statuses: frozenset[JoinStatus], table: str | None
) -> RelationshipList:
    from ktx_cli.jobs.review import list_relationships

    found = list_relationships(layout, ids or (), statuses=statuses, table=table)
    session.warn(*found.warnings)
    return found


def _listing(found: RelationshipList, ids: Sequence[str]) -> Result:
    """Return the list; if it is empty, add the number of joins declared by foreign keys, and how to list them."""
    from ktx_cli.scan import JoinStatus

    data = {**_data(found.relationships, None), "declared": found.declared}
    if found.relationships:
        review = any(each.status is JoinStatus.REVIEW for each in found.relationships)
        steps = [Command("scan", "relationships", *ids, "--review")] if review else []
        return Result(data, [_table(found.relationships)], next_steps=steps)
    summary = f"none inferred; {plural(found.declared, 'declared foreign key')}" if found.declared else "none"
    steps = [Command("scan", "relationships", *ids, "--status", "declared")] if found.declared else []
    return Result(data, [Fields((("relationships", summary),))], next_steps=steps)


def _all_above(session: Session, relationships: Sequence[ReviewedRelationship], score: float) -> list[TypedDecision]:
    from ktx_cli.jobs.review import TypedDecision
    from ktx_cli.scan import Decision

    chosen = [each for each in relationships if each.relationship.probability >= score and each.missing is None]
    if chosen:
        names = ""
        if session.settings.json:
            names = f" ({listing(each.name for each in chosen)})"
        elif not session.settings.yes:
            streams.write_err("".join(f"  {one_line(e.name)} ({e.relationship.probability:g})\n" for e in chosen))
        session.confirm(f"Accept {plural(len(chosen), 'relationship')}{names}?")
    return [TypedDecision(each.name, Decision.ACCEPT, each.connection) for each in chosen]


def _reviewed(
    session: Session, layout: Layout, ids: Sequence[str] | None, found: RelationshipList, wait: float | None
) -> Result:
    """Ask about relationships; answers given before an interrupt or the end of the input are kept."""
    from ktx_cli.cli.prompts import ask

    choices: list[TypedDecision] = []
    stop: CancelledError | None = None
    try:
        ask(found.relationships, choices)
    except (KeyboardInterrupt, EOFError):
        streams.write_err("\n")
        kept = f"{plural(len(choices), 'decision')} kept" if choices else "nothing was changed"
        again = Command("scan", "relationships", *(ids or ()), "--review")
        stop = CancelledError(f"the review was interrupted: {kept}", hint=again)
    if stop is not None and not choices:
        raise stop
    done = _decided(session, layout, ids, choices, wait)
    return Result(done.data, done.blocks, done.error or stop, done.next_steps)


def _decided(
    session: Session, layout: Layout, ids: Sequence[str] | None, choices: Sequence[TypedDecision], wait: float | None
) -> Result:
    from ktx_cli.jobs.review import DecideRequest, decide

    if not choices:
        return Result(_data((), None), [Fields((("decided", "nothing"), ("commit", "none")))])
    request = DecideRequest(layout.root, tuple(choices), tuple(ids or ()), wait or 0.0, session.emitter())
    report, warnings = decide(request)
    session.warn(*warnings)
    return Result(_data((), report), _report_blocks(report), report.error())


def _data(relationships: Sequence[ReviewedRelationship], report: DecisionReport | None) -> dict[str, Any]:
    return {
        "relationships": [each.to_json() for each in relationships],
        "decided": None if report is None else report.to_json(),
    }


def _table(relationships: Sequence[ReviewedRelationship]) -> Table:
    """Return a table with one row per relationship; it shows the connection only if there are several."""
    several = len({each.connection for each in relationships}) > 1
    columns = ("join", "status", "score", "relationship", "reason")
    rows = (
        (e.name, e.status.value, f"{r.probability:g}", r.cardinality.value, r.reason, e.connection)
        for e, r in ((each, each.relationship) for each in relationships)
    )
    if several:
        return Table(("connection", *columns), tuple((row[-1], *row[:-1]) for row in rows))
    return Table(columns, tuple(row[:-1] for row in rows))


def _report_blocks(report: DecisionReport) -> list[Block]:
    rows = tuple((each.reviewed.name, each.decision.value, each.result) for each in report.decided)
    committed = f"{report.commit[:10]} ({plural(len(report.committed), 'file')})" if report.commit else "none"
    facts = [("run", report.run_id), ("status", report.status), ("commit", committed)]
    facts += [("skipped", f"{path} ({reason})") for path, reason in report.held]
    facts += [("not committed", path) for path in report.ignored]
    return [Table(("join", "decision", "result"), rows), Fields(tuple(facts))]
