"""Findings as workflow commands of GitHub Actions, which shows them beside the lines they name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ktx_cli.cli.contract import Result, Session, envelope
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    CommandFinished,
    Diagnostic,
    Event,
    KtxError,
    RunFinished,
    RunStarted,
    Severity,
    UsageError,
    monotonic,
)

if TYPE_CHECKING:
    from ktx_cli.jobs.unattended import CommandLog


LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
"""What GitHub calls a severity. It shows only the first ten annotations of each from one step."""


def annotation(diagnostic: Diagnostic, prefix: str = "", *, title: str | None = None) -> str:
    """Return the line to print for a diagnostic, without its end; its code is the title unless one is given.

    `prefix`: the way from the top of the repository to the project.
    """
    file, line = diagnostic.location.path, diagnostic.location.line
    properties = {
        "file": f"{prefix}{file}" if file else None,
        "line": line if file else None,
        "title": diagnostic.code if title is None else title,
    }
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value not in (None, ""))
    command = f"::{LEVELS[diagnostic.severity]}"
    return f"{command} {given}::{_data(diagnostic.message)}" if given else f"{command}::{_data(diagnostic.message)}"


def repository_prefix(project: Path) -> str:
    """Return the way from the top of the repository to the project, with `/` at its end; empty where there is none."""
    from ktx_cli.project import discover_layout

    try:
        found = discover_layout(project)
    except KtxError:  # the annotations name the files from the project then
        return ""
    return "" if found is None else found[1].prefix


def _data(text: str) -> str:
    """Return a message that stays one command: GitHub decodes exactly these three. What does not show is blanked."""
    encoded = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(character if character.isprintable() else " " for character in encoded)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


LOG_FILE = Annotated[
    str | None,
    typer.Option("--log-file", metavar="FILE", help="Append events and exit code as JSON Lines; rotated at 5 MB."),
]
NOTIFY = Annotated[
    str | None,
    typer.Option(
        "--notify", metavar="COMMAND", help="Run this by sh when the exit code is not 0: the report is on its stdin."
    ),
]


@dataclass(slots=True)
class _Unattended:
    """What is known of a command while it runs: the run it made, and how that ended."""

    session: Session
    command: str | None
    started: float = field(default_factory=monotonic)
    run_id: str | None = None
    status: str | None = None

    def observe(self, event: Event) -> None:
        """Take from an event which run this is."""
        if isinstance(event, RunStarted):
            self.run_id = event.run_id
        elif isinstance(event, RunFinished) and event.run_id == self.run_id:
            self.status = event.status

    def conclude(self, result: Result) -> None:
        """Run the command of `--notify`, unless all went well or a person ended it."""
        error = result.error
        if self.command is None or error is None or error.exit_code in (EXIT_OK, EXIT_INTERRUPTED):
            return
        from ktx_cli.jobs.unattended import Failure, notify

        report: dict[str, Any] = envelope(self.session.name, result, self.session.warnings)
        failure = Failure(error.exit_code, error.code, error.message, report, self.run_id, self.session.project)
        warning = notify(self.command, failure, os.environ)
        if warning is not None:
            self.session.warn(warning)

    def logged(self, log: CommandLog, result: Result) -> None:
        """Write the last line of the log."""
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
    """Have a command's events and end logged, and its failure told: also one before it has a project.

    Raises as `CommandLog`; that is told too.
    """
    if log_file is None and notify is None:
        return
    if notify is not None and not notify.strip():
        raise UsageError("the command of --notify is empty", hint="--notify 'mail data@example.com'")
    known = _Unattended(session, notify)
    session.listeners.append(known.observe)
    session.concluding.append(known.conclude)
    if log_file is not None:
        from ktx_cli.jobs.unattended import CommandLog

        log = CommandLog(current_folder() / log_file)
        session.listeners.append(log.emit)
        session.concluding.append(lambda result: known.logged(log, result))
