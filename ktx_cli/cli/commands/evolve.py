"""`ktx evolve`: draft repairs of the context from failures, test them on questions, and propose them on a branch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Fields, Lines, filled
from ktx_cli.cli.captures import MAX_TOKENS, MAX_USD
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import WAIT
from ktx_cli.core import UsageError, listing, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.evolve.report import EvolveReport, Score

commands = typer.Typer()


@command(commands, "evolve")
def evolve(
    session: Session,
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAME", help="Cases in evals/ to use, as FILE, FILE/ID or ID. Defaults to all."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="List the failures by group without drafting repairs or calling a model.")
    ] = False,
    runs: Annotated[
        int,
        Option("--runs", metavar="N", min=1, max=100, help="Ask each question N times, before and after the repairs."),
    ] = 4,
    model: Annotated[
        str | None, Option("--model", help="Use this model for all roles: MODEL or BACKEND:MODEL.")
    ] = None,
    effort: Annotated[
        str | None, Option("--effort", metavar="LEVEL", help="Reasoning effort of the model, for example high.")
    ] = None,
    since: Annotated[
        str | None,
        Option("--since", metavar="DATE", help="Only use agents' questions since this day, for example 2026-01-31."),
    ] = None,
    branch: Annotated[
        str | None, Option("--branch", metavar="NAME", help="Name of the branch to create. Defaults to ktx/evolve/RUN.")
    ] = None,
    show_values: Annotated[
        bool,
        Option("--show-values", help="Let the model see row values and expected results, regardless of scan.privacy."),
    ] = False,
    max_usd: MAX_USD = None,
    max_tokens: MAX_TOKENS = None,
    wait: WAIT = None,
) -> Result:
    """Draft and test repairs to the context.

    Groups failed questions from evals/, refused queries, searches without results and broken definitions by the repair
    that would fix them. Tests each repair on held-out questions, and commits the repairs that help without making
    anything worse to a branch.

    Examples:
        ktx evolve --dry-run
        ktx evolve --since 2026-01-31 --max-usd 5
        ktx evolve company/net-revenue --runs 8
    """
    from ktx_cli.jobs.evolve.evolve import EvolveRequest, findings
    from ktx_cli.jobs.evolve.evolve import evolve as evolved
    from ktx_cli.mcp.loop import ServerToolbox

    layout, config = session.load_project()
    request = EvolveRequest(
        layout=layout,
        config=config,
        environ=os.environ,
        toolbox=ServerToolbox(),
        names=tuple(names or ()),
        runs=runs,
        model=model,
        effort=effort,
        since=_day(since),
        branch=branch,
        show_values=show_values,
        dry_run=dry_run,
        max_usd=max_usd,
        max_tokens=max_tokens,
        wait_seconds=wait or 0.0,
        emit=session.emitter(),
    )
    report, warnings = findings(request) if dry_run else evolved(request)
    session.warn(*warnings)
    blocks = _found(report) if dry_run else _tried(report, verbose=session.settings.verbose)
    return Result(report.to_json(), list(blocks), report.error())


def _day(text: str | None) -> str | None:
    """Return a date in ISO 8601 format; raises `UsageError` for any other text."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        hint = "use YYYY-MM-DD, for example --since 2026-01-31"
        raise UsageError(f"`{text}` is not a date", hint=hint) from None


def _found(report: EvolveReport) -> Iterator[Block]:
    from ktx_cli.jobs.evolve.report import FINDING_COLUMNS, finding_rows

    groups = [each.group for each in report.groups]
    yield from filled(FINDING_COLUMNS, finding_rows(groups))
    count = sum(len(each.findings) for each in groups)
    yield Fields(
        (
            ("questions right", _score(report.before)),
            ("failures", f"{count:,} in {plural(len(groups), 'group')}"),
            ("changed", "nothing (dry run)"),
        )
    )


def _tried(report: EvolveReport, *, verbose: bool) -> Iterator[Block]:
    from ktx_cli.jobs.evolve.report import TABLE_COLUMNS, counted_verdicts, table_rows

    yield from filled(TABLE_COLUMNS, table_rows(report.groups))
    if verbose:
        yield from _found_lines(report)
    spent = report.spending
    rows = [
        ("groups", counted_verdicts(report.groups)),
        ("questions right", f"{_score(report.before)} before, {_score(report.after)} after"),
        ("branch", report.proposed or "none (no repair proposed)"),
    ]
    if spent.tokens:
        rows.append(("model usage", f"{spent.tokens:,} tokens, ${spent.usd:.2f} at list prices"))
    rows += [("undecided", each.way_out) for each in report.groups if each.verdict == "undecided" and each.way_out]
    rows += [("next", str(each)) for each in report.next_commands]
    yield Fields(tuple(rows))


def _found_lines(report: EvolveReport) -> Iterator[Block]:
    for each in report.groups:
        lines = [f"{each.group.id}: {listing(each.group.questions, 10) or 'no question from evals/'}"]
        lines += [
            f"  {found.kind.value}: {found.text or found.about} ({found.reason})" for found in each.group.findings
        ]
        lines += [f"  {repair.summary}: {listing(repair.files, 10)}" for repair in each.repairs]
        yield Lines(tuple(lines))


def _score(score: Score | None) -> str:
    return "none" if score is None or not score.questions else f"{score.right} of {score.questions}"
