"""`ktx doctor`: every check for real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Lines, Table
from ktx_cli.cli.contract import Result, Session, command

if TYPE_CHECKING:
    from ktx_cli.jobs.health.doctor import Diagnosis


Ids = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "doctor")
    def doctor(
        session: Session,
        only: Annotated[Ids, typer.Option("--only", metavar="ID", help="Run this check only; repeatable.")] = None,
        skip: Annotated[Ids, typer.Option("--skip", metavar="ID", help="Leave this check out; repeatable.")] = None,
        strict: Annotated[bool, typer.Option("--strict", help="A warning counts as a failure.")] = False,
        fix: Annotated[
            bool, typer.Option("--fix", help="Mend what needs no decision: stale locks, the index, permissions.")
        ] = False,
        junit: Annotated[
            Path | None, typer.Option("--junit", metavar="FILE", help="Write the findings as JUnit XML too.")
        ] = None,
        github: Annotated[
            bool, typer.Option("--github", help="Print what is not well as annotations for GitHub Actions.")
        ] = False,
        list_: Annotated[bool, typer.Option("--list", help="List the checks, and run none.")] = False,
    ) -> Result:
        """Run every check for real: machine, project, secrets, models, connections.

        Exit 0 when all is well, 3 when only setup or authentication is missing, 2 when ktx.yaml cannot be read, else 1.
        """
        if list_:
            return _listed()
        from ktx_cli.cli.junit import require_report
        from ktx_cli.jobs.health.doctor import verdict

        if junit is not None:
            require_report(junit)
        found = _examined(session, only or (), skip or (), fix)
        error = verdict(found, strict=strict)
        if junit is not None:
            _write_junit(junit, found, session, strict)
        blocks = _shown(session, found, github)
        return Result(found.to_json(), blocks, error)


def _listed() -> Result:
    from ktx_cli.jobs.health.doctor import CHECKS

    checks = [{"id": check.id, "title": check.title, "live": check.live} for check in CHECKS]
    rows = tuple((check.id, check.title) for check in CHECKS)
    return Result({"checks": checks}, [Table(("check", "what it looks at"), rows)])


def _examined(session: Session, only: list[str] | tuple[()], skip: list[str] | tuple[()], fix: bool) -> Diagnosis:
    from ktx_cli.core import NoProjectError
    from ktx_cli.jobs.health.doctor import chosen, examine, without_project

    chosen(only, skip)
    try:
        project = session.require_project()
    except NoProjectError as error:
        return without_project(error)
    return examine(project, os.environ, only=only, skip=skip, fix=fix)


def _write_junit(path: Path, found: Diagnosis, session: Session, strict: bool) -> None:
    from ktx_cli.cli.findings import cases_of
    from ktx_cli.cli.junit import junit_xml
    from ktx_cli.project import write_atomic

    write_atomic(path.absolute(), junit_xml("ktx doctor", cases_of(found, session.place, strict=strict)))


def _shown(session: Session, found: Diagnosis, github: bool) -> list[Block]:
    """Return what is printed; where JSON has stdout to itself, annotations go to stderr."""
    from ktx_cli.cli.findings import annotations_of, lines_of

    annotations = annotations_of(found, session.place) if github else []
    if annotations and session.settings.json:
        streams.write_err("".join(f"{line}\n" for line in annotations))
    return [Lines((*lines_of(found, session, quiet=github), *annotations), whole=True)]
