"""`ktx doctor`: every check for real."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ktx_cli.cli.blocks import Table
from ktx_cli.cli.contract import Result, Session, command


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "doctor")
    def doctor(
        session: Session,
        only: Annotated[list[str] | None, typer.Option("--only", help="Run this check only; repeatable.")] = None,
        skip: Annotated[list[str] | None, typer.Option("--skip", help="Leave this check out; repeatable.")] = None,
        strict: Annotated[bool, typer.Option("--strict", help="A warning counts as a failure.")] = False,
    ) -> Result:
        """Run every check for real: machine, project, secrets, connections.

        Exit 0 when all is well, 3 when only setup or authentication is missing, else 1.
        """
        from ktx_cli.jobs.readiness.doctor import diagnose, verdict

        findings = diagnose(session.require_project(), os.environ, only=only or (), skip=skip or ())
        place = session.place
        rows = tuple((f.level.value, f.check, f.message, place.command(f.hint or "")) for f in findings)
        data = {"findings": [f.to_json() for f in findings]}
        return Result(data, [Table(("level", "check", "finding", "fix"), rows)], verdict(findings, strict=strict))
