"""`ktx status`, `ktx doctor` and `ktx usage`: the state of the project, live checks, and the usage of models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import USAGE_COLUMNS, Block, Fields, Lines, Styled, Table, usage_cells
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.core import Command, UsageError, age, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.health.doctor import Diagnosis
    from ktx_cli.jobs.health.facts import ConnectionStatus
    from ktx_cli.jobs.health.model import CheckResult
    from ktx_cli.jobs.health.status import StatusReport

commands = typer.Typer()


PROBE = Annotated[
    bool, Option("--probe", help="First send a short request to the model of each role and record the result.")
]
FAST = Annotated[
    bool,
    Option(
        "--fast",
        help="Skip the check of local sessions, such as Claude Code or Codex. A project that needs one counts as "
        "unverified, which exits 3.",
    ),
]
_READY = {"ready": "yes", "unverified": "unverified", "not_ready": "no"}


@command(commands, "status")
def status(session: Session, probe: PROBE = False, fast: FAST = False) -> Result:
    """Show the state of this project and whether it is ready to use.

    Exits 3 if the project is not ready. Changes nothing, does not connect to databases and, unless --probe is given,
    does not call models. A role that uses a local session of Claude Code or Codex is ready if you are logged in and
    the last probe succeeded.

    Examples:
        ktx status
        ktx status --probe
        ktx status --json
    """
    from ktx_cli.jobs.health.status import probe_now, project_status

    if probe and fast:
        raise UsageError("--probe and --fast cannot be used together", hint=Command("status", "--probe"))
    project = session.require_project()
    probes = probe_now(project, os.environ, warn=session.warn, emit=session.emitter()) if probe else []
    facts = project_status(project, os.environ, fast=fast, around=True, probes=probes)
    session.warn(*facts.warnings)
    blocks: list[Fields | Table] = [Fields(tuple(_rows(facts)))]
    blocks += [table for table in (_databases(facts), _sources(facts), _runs(facts)) if table.rows]
    steps = [] if facts.next_command is None else [facts.next_command]
    return Result(facts.to_json(), blocks, facts.error(), next_steps=steps)


def _rows(facts: StatusReport) -> list[tuple[str, str]]:
    """Return the facts that are one line each: readiness and checks first."""
    ready = _READY[facts.readiness]
    if facts.ready and facts.has_broken_definitions:
        ready += ", but the semantic layer has errors"
    rows = [("project", str(facts.project_dir)), ("ready", ready)]
    rows += [(f.check, _checked(f)) for f in facts.findings if f.check != "config"]
    around = facts.surroundings
    if around is not None:
        counts = around.to_json(facts.connections)["context"]
        named = ", ".join(plural(number, name.replace("_", " ").removesuffix("s")) for name, number in counts.items())
        rows += [
            ("layer", "in the snapshot" if facts.is_replica else named),
            ("index", facts.index_text),
            ("git", around.git.text),
            ("agents", around.clients.agents_text),
            ("mcp server", around.clients.server_text),
        ]
    return rows


_STYLES = {"warn": "warning", "fail": "error"}


def _checked(found: CheckResult) -> str:
    text = f"{found.level.value}: {found.message}"
    return Styled(text, _STYLES[found.level]) if found.level in _STYLES else text


def _databases(facts: StatusReport) -> Table:
    columns = ("connection", "driver", "sources", "columns", "inferred joins", "to review", "last scan")
    return Table(columns, tuple(_database(each) for each in facts.connections if each.is_database))


def _database(each: ConnectionStatus) -> tuple[str, ...]:
    counts = each.counts
    found = ("not checked", "") if each.joins is None else (str(each.joins), str(each.to_review))
    last = "unknown" if each.is_unread else age(each.age_seconds)
    return (each.id, each.driver, str(counts.sources), str(counts.columns), *found, last)


def _sources(facts: StatusReport) -> Table:
    shown = [each for each in facts.connections if not each.is_database or each.last_fetch]
    rows = [(each.id, each.driver, *_last_fetch(each)) for each in shown]
    return Table(("source", "driver", "kind", "files", "last fetch"), tuple(rows))


def _last_fetch(each: ConnectionStatus) -> tuple[str, str, str]:
    last = each.last_fetch
    if last is None:
        return "", "", "unknown" if each.is_unread else "never"
    return last.kind, f"{last.files:,}", age(each.fetch_age_seconds)


def _runs(facts: StatusReport) -> Table:
    rows = [tuple(str(run[name] or "") for name in ("run_id", "command", "status", "finished")) for run in facts.runs]
    return Table(("last runs", "command", "status", "finished"), tuple(rows))


Ids = list[str] | None


@command(commands, "doctor")
def doctor(
    session: Session,
    only: Annotated[Ids, Option("--only", metavar="ID", help="Only run this check. Can be repeated.")] = None,
    skip: Annotated[Ids, Option("--skip", metavar="ID", help="Skip this check. Can be repeated.")] = None,
    strict: Annotated[bool, Option("--strict", help="Treat warnings as failures.")] = False,
    fix: Annotated[
        bool, Option("--fix", help="Apply fixes that need no decision: stale locks, the search index, permissions.")
    ] = False,
    junit: Annotated[Path | None, Option("--junit", metavar="FILE", help="Also write a JUnit XML report.")] = None,
    github: Annotated[bool, Option("--github", help="Print problems as annotations for GitHub Actions.")] = False,
    list_: Annotated[bool, Option("--list", help="List the checks without running them.")] = False,
) -> Result:
    """Diagnose problems with live checks.

    Checks the machine, the project, its secrets, models and connections. Exits 0 if all checks pass, 3 if only setup
    or authentication is missing, 2 if ktx.yaml cannot be read, and 1 otherwise.

    Examples:
        ktx doctor
        ktx doctor --list
        ktx doctor --fix --strict
    """
    if list_:
        return _listed()
    from ktx_cli.cli.findings import cases_of, junit_xml, require_report
    from ktx_cli.jobs.health.doctor import verdict

    if junit is not None:
        require_report(junit)
    found = _examined(session, only or (), skip or (), fix)
    error = verdict(found, strict=strict)
    if junit is not None:
        from ktx_cli.project import write_atomic

        write_atomic(junit.absolute(), junit_xml("ktx doctor", cases_of(found, session.place, strict=strict)))
    blocks = _shown(session, found, github)
    return Result(found.to_json(), blocks, error, is_report=True)


def _listed() -> Result:
    from ktx_cli.jobs.health.doctor import CHECKS

    checks = [{"id": check.id, "title": check.title, "live": check.live} for check in CHECKS]
    rows = tuple((check.id, check.title) for check in CHECKS)
    return Result({"checks": checks}, [Table(("check", "description"), rows)])


def _examined(session: Session, only: list[str] | tuple[()], skip: list[str] | tuple[()], fix: bool) -> Diagnosis:
    from ktx_cli.core import NoProjectError
    from ktx_cli.jobs.health.doctor import chosen, examine, without_project

    chosen(only, skip)
    try:
        project = session.require_project()
    except NoProjectError as error:
        return without_project(error)
    return examine(project, os.environ, only=only, skip=skip, fix=fix)


def _shown(session: Session, found: Diagnosis, github: bool) -> list[Block]:
    """Return the text for stdout; if stdout carries JSON, annotations go to stderr."""
    from ktx_cli.cli.findings import annotations_of, lines_of

    annotations = annotations_of(found, session.place) if github else []
    if annotations and session.settings.json:
        streams.write_err("".join(f"{line}\n" for line in annotations))
    return [Lines((*lines_of(found, session, quiet=github), *annotations), whole=True)]


@command(commands, "usage")
def usage(
    session: Session,
    by: Annotated[
        list[str] | None,
        Option(
            "--by",
            help="Group by day, role, model, backend, command or run. Defaults to day and model. Can be repeated.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Option("--since", metavar="DATE", help="Only include calls since this day (UTC), for example 2026-01-31."),
    ] = None,
    run: Annotated[
        str | None,
        Option("--run", metavar="RUN", help="Only include this run: its ID, a unique prefix of it, or `latest`."),
    ] = None,
) -> Result:
    """Show tokens and cost of model calls.

    Costs are at list prices, also for calls in a local session.

    Examples:
        ktx usage
        ktx usage --by role --by model --since 2026-01-31
        ktx usage --run latest
    """
    from ktx_cli.jobs.llm import usage_report

    report = usage_report(session.require_own_project(), by=by or ["day", "model"], since=since, run=run)
    session.warn(*report.warnings)
    table = Table((*report.dimensions, *USAGE_COLUMNS), tuple(map(usage_cells, report.rows)))
    return Result(report.to_json(), [table])
