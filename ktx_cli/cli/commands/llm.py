"""`ktx llm` and `ktx usage`: the runtime port by hand, and what model calls took."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktx_cli.cli.blocks import Fields, Lines, Table
from ktx_cli.cli.commands.runs import USAGE_COLUMNS, usage_cells
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import HelpGroup
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import KtxError

if TYPE_CHECKING:
    from ktx_cli.llm import ProbeResult


ROLE = Annotated[str, typer.Option("--role", help="Role of llm.models: default, triage, curator, ...")]
MODEL = Annotated[str | None, typer.Option("--model", help="Instead of the role's: MODEL or BACKEND:MODEL.")]


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    group = typer.Typer(cls=HelpGroup, help="Try the configured model backend by hand.", no_args_is_help=False)
    app.add_typer(group, name="llm")

    @command(group, "probe", schema="llm-probe")
    def probe(session: Session, model: MODEL = None) -> Result:
        """Say for every backend and model of a role whether it can be used: its account, then one short turn."""
        from ktx_cli.jobs.llm import probe_project

        results = probe_project(
            session.require_project(), os.environ, model=model, warn=session.warn, emit=session.emitter()
        )
        columns = ("backend", "model", "roles", "result")
        rows = tuple((r.ref.backend, r.ref.model, ", ".join(r.roles), _result_text(r)) for r in results)
        failed = next((r.error for r in results if r.error is not None), None)
        return Result({"probes": [r.to_json() for r in results]}, [Table(columns, rows)], failed)

    @command(group, "ask", schema="llm-ask")
    def ask(
        session: Session,
        question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask; `-` reads it from stdin.")],
        role: ROLE = "default",
        model: MODEL = None,
        system: Annotated[str, typer.Option("--system", help="A system prompt.")] = "",
        schema: Annotated[
            Path | None, typer.Option("--schema", help="File with a JSON Schema the answer has to fit.")
        ] = None,
    ) -> Result:
        """Ask one question through the runtime port and print the answer."""
        from ktx_cli.jobs.llm import ask_project

        answer = ask_project(
            session.require_project(),
            os.environ,
            question=question,
            role=role,
            model=model,
            system=system,
            schema=None if schema is None else current_folder() / schema,
            warn=session.warn,
            emit=session.emitter(),
        )
        facts: dict[str, Any] = answer.facts.to_json()
        cost = facts["cost"]["usd"]
        session_facts = [
            ("model", f"{facts['backend']}:{facts['resolved_model'] or facts['model']}"),
            ("tokens", f"{facts['usage']['total_tokens']:,}"),
            ("cost", "unknown" if cost is None else f"${cost:.6f} ({facts['cost']['basis']})"),
        ]
        blocks: list[Lines | Fields] = [Lines(tuple(answer.shown.splitlines()))]
        if session.settings.verbose:
            blocks.append(Fields(tuple(session_facts)))
        return Result({"answer": answer.value, "facts": facts}, blocks)


def _result_text(result: ProbeResult) -> str:
    if isinstance(result.error, KtxError):
        return f"{result.error.code}: {result.error.message}"
    report = result.report
    return "" if report is None else f"ok: {report.account}, {report.resolved_model}, {report.seconds:.1f} s"


def register_usage(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "usage")
    def usage(
        session: Session,
        by: Annotated[
            list[str] | None,
            typer.Option("--by", help="Sum by day, role, model, backend, command or run; repeatable (day, model)."),
        ] = None,
        since: Annotated[str | None, typer.Option("--since", help="From this day on, as 2026-01-31 (UTC).")] = None,
        run: Annotated[
            str | None, typer.Option("--run", metavar="RUN", help="Of this run: its id, the id's beginning, `latest`.")
        ] = None,
    ) -> Result:
        """Show tokens and cost of model calls. Costs are list prices, also of calls in a local session."""
        from ktx_cli.jobs.llm import usage_report

        report = usage_report(session.require_project(), by=by or ["day", "model"], since=since, run=run)
        session.warn(*report.warnings)
        table = Table((*report.dimensions, *USAGE_COLUMNS), tuple(map(usage_cells, report.rows)))
        return Result(report.to_json(), [table])
