"""`ktx ingest`: scan databases and sources, and commit the result."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from ktx_cli.cli import captures
from ktx_cli.cli.contract import Result, Session, command, envelope
from ktx_cli.cli.reports import BRANCH, IDS, NO_COMMIT, NO_LLM, destination_of, ingest_result
from ktx_cli.cli.settings import WAIT, current_folder
from ktx_cli.core import EXIT_INTERRUPTED, EXIT_OK, RUN_ID, Command, Hint, UsageError, monotonic

if TYPE_CHECKING:
    from ktx_cli.core import Event
    from ktx_cli.jobs.unattended import CommandLog

commands = typer.Typer()


LOG_FILE = Annotated[
    str | None,
    Option(
        "--log-file", metavar="FILE", help="Append events and the exit code to a file, as JSON Lines. Rotated at 5 MB."
    ),
]


NOTIFY = Annotated[
    str | None,
    Option(
        "--notify",
        metavar="COMMAND",
        help="Run this shell command if the exit code is not 0, with the report on its stdin.",
    ),
]


@dataclass(slots=True)
class _Unattended:
    """What is known about a command while it runs: the run it started, and how that ended."""

    session: Session
    command: str | None
    started: float = field(default_factory=monotonic)
    run_id: str | None = None
    status: str | None = None

    def observe(self, event: Event) -> None:
        """Record the run of an event."""
        from ktx_cli.core import RunFinished, RunStarted

        if isinstance(event, RunStarted):
            self.run_id = event.run_id
        elif isinstance(event, RunFinished) and event.run_id == self.run_id:
            self.status = event.status

    def conclude(self, result: Result) -> None:
        """Run the command of `--notify`, unless all went well or a person ended it."""
        error = result.error
        if self.command is None or error is None or error.exit_code in (EXIT_OK, EXIT_INTERRUPTED):
            return
        from ktx_cli.jobs.unattended import CommandFailure, notify

        report: dict[str, Any] = envelope(self.session.name, result, self.session.warnings)
        failure = CommandFailure(error.exit_code, error.code, error.message, report, self.run_id, self.session.project)
        warning = notify(self.command, failure, os.environ)
        if warning is not None:
            self.session.warn(warning)

    def logged(self, log: CommandLog, result: Result) -> None:
        """Write the last line of the log."""
        from ktx_cli.core import CommandFinished

        error = result.error
        ended = CommandFinished(
            command=f"ktx {self.session.name}",
            exit_code=EXIT_OK if error is None else error.exit_code,
            seconds=round(monotonic() - self.started, 3),
            run_id=self.run_id,
            status=self.status,
            error=None if error is None else error.code,
            message=None if error is None else error.message,
        )
        log.emit(ended)
        log.close()
        self.session.warn(*log.warnings)


def watch(session: Session, log_file: str | None, notify: str | None) -> None:
    """Log the events and the end of a command, and report its failure, even if it fails before it has a project.

    Raises as `CommandLog`, which is reported as well.
    """
    if log_file is None and notify is None:
        return
    if notify is not None and not notify.strip():
        raise UsageError("--notify requires a command", hint="--notify 'mail data@example.com'")
    known = _Unattended(session, notify)
    session.listeners.append(known.observe)
    session.concluding.append(known.conclude)
    if log_file is not None:
        from ktx_cli.jobs.unattended import CommandLog

        log = CommandLog(current_folder() / log_file)
        session.listeners.append(log.emit)
        session.concluding.append(lambda result: known.logged(log, result))


def _run_id(value: str | None) -> str | None:
    """Check the id a server gives the run it starts."""
    if value is not None and not RUN_ID.fullmatch(value):
        raise UsageError(f"`{value}` is not a run ID", hint=Hint("omit --run-id: only {} uses it", Command("mcp")))
    return value


@command(commands, "ingest")
def ingest(
    session: Session,
    ids: IDS = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would change without writing anything.")] = False,
    no_llm: NO_LLM = False,
    text: captures.TEXTS = None,
    file: captures.FILES = None,
    no_commit: NO_COMMIT = False,
    branch: BRANCH = None,
    max_usd: captures.MAX_USD = None,
    max_tokens: captures.MAX_TOKENS = None,
    wait: WAIT = None,
    log_file: LOG_FILE = None,
    notify: NOTIFY = None,
    run_id: Annotated[str | None, Option("--run-id", hidden=True, callback=_run_id)] = None,
) -> Result:
    """Scan databases and sources, and commit the result.

    Scans all connections unless IDs are given, and makes a single commit. With --text or --file, ktx captures the
    given text instead, as `ktx memory capture` does.

    Examples:
        ktx ingest
        ktx ingest warehouse dbt --dry-run
        ktx ingest --branch ktx/update --max-usd 5
    """
    watch(session, log_file, notify)
    destination = destination_of(branch, no_commit=no_commit)
    if text or file:
        if destination.words:
            message = f"{destination.words[0]} cannot be used together with --text or --file"
            raise UsageError(message, hint=f"omit {destination.words[0]}: each text gets its own commit")
        if ids or no_llm:
            message = f"{'connection IDs' if ids else '--no-llm'} cannot be used together with --text or --file"
            raise UsageError(message, hint=Command("memory", "capture", "--connection-id", "ID", "--text", "TEXT"))
        options = captures.options_of(session, wait=wait, max_usd=max_usd, max_tokens=max_tokens)
        requests = captures.requests_of(captures.texts_of(text, file))
        return captures.run_captures(session, requests, options, dry_run=dry_run)
    from ktx_cli.jobs.ingest.plan import IngestRequest

    request = IngestRequest(
        project_dir=session.require_own_project(),
        environ=os.environ,
        connections=tuple(ids or ()),
        no_llm=no_llm,
        dry_run=dry_run,
        max_usd=max_usd,
        max_tokens=max_tokens,
        wait_seconds=wait or 0.0,
        emit=session.emitter(),
        run_id=run_id,
        destination=destination,
    )
    return ingest_result(session, request)
