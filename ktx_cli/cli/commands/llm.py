"""`ktx llm`: test the configured models, and run an agent for another program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Fields, Lines, Table
from ktx_cli.cli.contract import Result, Session, command, json_line
from ktx_cli.cli.help import HelpGroup
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import KtxError
from ktx_cli.jobs.clients.targets import Profile

if TYPE_CHECKING:
    from ktx_cli.core import Event
    from ktx_cli.llm import ProbeResult

commands = typer.Typer(cls=HelpGroup, help="Test and run the configured models.", no_args_is_help=False)


ROLE = Annotated[str, Option("--role", help="Role in llm.models, for example triage or curator.")]
MODEL = Annotated[str | None, Option("--model", help="Use this model instead: MODEL or BACKEND:MODEL.")]


@command(commands, "probe", schema="llm-probe")
def probe(session: Session, model: MODEL = None) -> Result:
    """Test each configured model with a short request.

    Checks the backend's account first. Fails if one of the models cannot be used.

    Examples:
        ktx llm probe
        ktx llm probe --model claude-code:haiku
    """
    from ktx_cli.jobs.llm import probe_project

    results = probe_project(
        session.require_project(), os.environ, model=model, warn=session.warn, emit=session.emitter()
    )
    columns = ("backend", "model", "roles", "result")
    rows = tuple((r.ref.backend, r.ref.model, ", ".join(r.roles), _result_text(r)) for r in results)
    failed = next((r.error for r in results if r.error is not None), None)
    return Result({"probes": [r.to_json() for r in results]}, [Table(columns, rows)], failed)


@command(commands, "ask", schema="llm-ask")
def ask(
    session: Session,
    question: Annotated[str, Argument(metavar="QUESTION", help="Question to ask, or `-` to read it from stdin.")],
    role: ROLE = "default",
    model: MODEL = None,
    system: Annotated[str, Option("--system", help="System prompt.")] = "",
    schema: Annotated[
        Path | None, Option("--schema", metavar="FILE", help="JSON Schema that the answer must match.")
    ] = None,
) -> Result:
    """Ask a model one question and print the answer.

    Examples:
        ktx llm ask "Which model are you?"
        ktx llm ask --role triage --schema answer.json "Is 17 a prime number?"
    """
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


@command(commands, "run", schema="llm-run")
def run(
    session: Session,
    request: Annotated[
        Path | None, Argument(metavar="FILE", help="Request as JSON. Defaults to stdin.", show_default=False)
    ] = None,
    privacy: Annotated[bool, Option("--privacy", help="Never return row values to the model.")] = False,
) -> Result:
    """Run an agent for another program.

    Reads a request with its messages, its model and the tools that the agent may call: those of `ktx mcp start
    --read-only`. With `--json`, prints each event of the run as one line of JSON while it happens, and the answer as
    the last line.

    Examples:
        ktx llm run request.json
        ktx llm run request.json --json
    """
    from ktx_cli.cli import streams
    from ktx_cli.jobs.agent_run import run_request
    from ktx_cli.mcp.loop import ServerToolbox

    def show(event: Event) -> None:
        if session.settings.json:
            streams.write_out(json_line(event.to_json()))

    report = run_request(
        session.require_project(),
        os.environ,
        request=None if request is None else current_folder() / request,
        toolbox=ServerToolbox(Profile.ADMIN),
        privacy=privacy,
        show=show,
        warn=session.warn,
        emit=session.emitter(),
    )
    return Result(report.to_json(), [Lines(tuple(report.content.splitlines()))], report.error)


def _result_text(result: ProbeResult) -> str:
    if isinstance(result.error, KtxError):
        return f"{result.error.code}: {result.error.message}"
    report = result.report
    return "" if report is None else f"ok: {report.account}, {report.resolved_model}, {report.seconds:.1f} s"
