"""`ktx sl accept`: what waits for a person, and definitions that a person accepts or certifies."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Table, render_plain
from ktx_cli.cli.commands.completion import definition_names
from ktx_cli.cli.commands.sl_query import Connection
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import WAIT
from ktx_cli.core import Command, UsageError, one_line, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.accept import Acceptance, AcceptPlan, AcceptReport, WaitingDefinition

commands = typer.Typer()


@command(commands, "accept", schema="sl-accept")
def accept(
    session: Session,
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME]...",
            help="SOURCE.NAME, 'SOURCE -> JOIN', or SOURCE for everything that its files define.",
            autocompletion=definition_names,
        ),
    ] = None,
    connection: Connection = None,
    certify: Annotated[bool, Option("--certify", help="Certify them: they are the right definitions to use.")] = False,
    owner: Annotated[
        str | None, Option("--owner", metavar="EMAIL", help="Record the person who answers for them.")
    ] = None,
    review_by: Annotated[
        str | None,
        Option("--review-by", metavar="DATE", help="With --certify: the day of the next review, such as 2027-06-30."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be accepted, and write nothing.")] = False,
    wait: WAIT = None,
) -> Result:
    """Accept definitions as they are now, in a commit of yours; without NAME, list those that nobody has accepted.

    Before it asks for confirmation, ktx shows each definition with its changes since it was last accepted, its tests,
    and what it uses that is not accepted. Definitions with failing tests or uncommitted changes are refused.
    """
    from ktx_cli.jobs.semantic.accept import AcceptReport, AcceptRequest, plan_acceptance, waiting_definitions
    from ktx_cli.jobs.semantic.accept import accept as accept_planned

    if review_by is not None and not certify:
        raise UsageError("--review-by belongs to --certify", hint="add --certify, or leave --review-by out")
    until = None if review_by is None else _day(review_by)
    layout, config = session.load_project()
    if not names:
        if certify or owner is not None:
            raise UsageError("name what to accept", hint=Command("sl", "accept"))
        return _waiting(waiting_definitions(layout, config, connection))
    request = AcceptRequest(layout, config, names, connection, certify, owner, until, wait or 0.0, session.emitter())
    plan = plan_acceptance(request)
    if dry_run or not plan.accepted:
        return _result(AcceptReport(plan), [*_plan_blocks(plan), Fields((("commit", "none"),))])
    verb = "Certify" if certify else "Accept"
    settings = session.settings
    if settings.interactive and not settings.yes and not settings.json:
        streams.write_err("\n".join(render_plain(_item_blocks(each)) for each in plan.items) + "\n")
    session.confirm(f"{verb} {plural(len(plan.accepted), 'definition')} as {one_line(plan.signature, 120)}?")
    report = accept_planned(request, plan)
    session.warn(*report.warnings)
    return _result(report, _report_blocks(report))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"`{one_line(text, 40)}` is not a date"
        raise UsageError(message, hint="use YYYY-MM-DD, for example --review-by 2027-06-30") from None


def _waiting(found: list[WaitingDefinition]) -> Result:
    data = {"waiting": [each.to_json() for each in found], "report": None}
    if not found:
        return Result(data, [Fields((("waiting", "none"),))])
    several = len({each.connection for each in found}) > 1
    rows = []
    for each in found:
        cells = (each.state.name, each.state.definition.kind.value, each.state.why)
        rows.append((each.connection, *cells) if several else cells)
    columns = ("definition", "kind", "why it is proposed")
    table = Table(("connection", *columns) if several else columns, tuple(rows))
    return Result(data, [table], next_steps=[Command("sl", "accept", found[0].state.name)])


def _result(report: AcceptReport, blocks: list[Block]) -> Result:
    return Result({"waiting": [], "report": report.to_json()}, blocks)


def _plan_blocks(plan: AcceptPlan) -> list[Block]:
    blocks: list[Block] = []
    for each in plan.items:
        blocks += _item_blocks(each)
    return blocks


def _item_blocks(each: Acceptance) -> list[Block]:
    facts: list[tuple[str, str]] = [(each.definition.kind.value, each.name)]
    if not each.is_changed:
        return [Fields((*facts, ("unchanged", f"{each.state.status.value}: {each.state.why}")))]
    facts += [("status", f"{each.state.status.value} -> {each.level.value}"), ("why", each.state.why)]
    facts += [("file", each.path)] if each.path else []
    if each.since is not None:
        facts.append(("last accepted", f"{each.since.commit[:10]} ({each.since.author} on {each.since.day})"))
    facts += [(f"uses {one.status.value}", f"{one.definition.kind.value} {one.name}: {one.why}") for one in each.weaker]
    facts += [("test", f"{test.name}: passed on {test.day}") for test in each.tests]
    facts += [] if each.tests else [("test", "none has run")]
    return [Fields(tuple((name, one_line(value, 400)) for name, value in facts)), Lines(each.diff)]


def _report_blocks(report: AcceptReport) -> list[Block]:
    rows = tuple((each.name, each.definition.kind.value, each.status.value, each.why) for each in report.after)
    files = f" ({plural(len(report.files), 'file')})"
    committed = f"{report.commit[:10]}{files}" if report.commit else "none"
    tables: list[Block] = [Table(("definition", "kind", "status", "why"), rows)] if rows else []
    return [*tables, Fields((("commit", committed),))]
