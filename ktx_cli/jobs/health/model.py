"""Checks and their results (level, sentence, hint and repair), and how checks run concurrently."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ktx_cli.core import (
    AND,
    THEN,
    Command,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    Record,
    Severity,
    Statement,
    StorageError,
    Variable,
    internal_error,
    monotonic,
    shell_words,
)
from ktx_cli.project import Layout, LoadedConfig, SecretRef, is_variable, secret_path
from ktx_cli.semantic import Manifest, load_manifest

if TYPE_CHECKING:
    from ktx_cli.project import Repository


class Level(StrEnum):
    """The level of a check's result."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"

    @property
    def severity(self) -> Severity | None:
        """The severity of a result; None if nothing is wrong."""
        return {Level.WARN: Severity.WARNING, Level.FAIL: Severity.ERROR}.get(self)


class Concern(StrEnum):
    """The concern of a failed check; it decides the exit code of `ktx doctor`."""

    SETUP = "setup"
    AUTH = "auth"
    OTHER = "other"


Repair = Callable[[], str]
"""Repairs the cause of a result and returns what was done; raises `KtxError`. It changes nothing of the user's."""

TIME_LIMIT = 30.0
"""Seconds after which a check counts as failed, unless it sets its own limit."""


AUTH_CODES: Final = frozenset({"auth", "billing", "no_backend", "isolation"})
"""Errors which mean that a model backend denies access."""
SETUP_CODES: Final = frozenset({"config", "not_ready", "not_supported", "secret"})
"""Errors which mean that something is missing or misconfigured."""


def concern_of(error: KtxError) -> Concern:
    """Return the concern of an error, which decides the exit code of `ktx doctor`."""
    if error.code in AUTH_CODES:
        return Concern.AUTH
    return Concern.SETUP if error.code in SETUP_CODES else Concern.OTHER


@dataclass(frozen=True, slots=True)
class CheckResult(Record):
    """The result of a check: its level, a sentence, and the exact command or edit that fixes it."""

    check: str
    level: Level
    message: str
    hint: str | None = None
    concern: Concern = Concern.OTHER
    repair: Repair | None = field(default=None, compare=False, repr=False)
    """The repair by `ktx doctor --fix`, None if a person has to decide."""
    location: Location = field(default_factory=Location)
    secret: str | None = None
    """The setting whose secret does not resolve."""
    database: str | None = None
    """The shared database that cannot be reached, if that is the reason."""
    cause: KtxError | None = field(default=None, compare=False, repr=False)
    """The error that the message repeats, if any."""
    json_keys = ("check", "level", "message", "hint", "concern")

    @property
    def diagnostic(self) -> Diagnostic | None:
        """The diagnostic, or None if nothing is wrong."""
        severity = self.level.severity
        return None if severity is None else Diagnostic(self.check, severity, self.message, self.location, self.hint)


@dataclass(frozen=True)
class CheckContext:
    """The facts that checks may use; if not `live`, nothing that may take long or wait for a person."""

    layout: Layout
    loaded: LoadedConfig
    environ: Mapping[str, str]
    live: bool = False

    @functools.cached_property
    def manifests(self) -> dict[str, Manifest]:
        """The manifest of every connection, read once for all checks."""
        return {name: load_manifest(self.layout, name) for name in self.loaded.config.connections}

    @functools.cached_property
    def repository(self) -> Repository | None:
        """The repository around the project, looked up once for all checks; raises `KtxError` like `discover`."""
        from ktx_cli.project import Repository

        return Repository.discover(self.project_dir)

    @property
    def project_dir(self) -> Path:
        """The project folder."""
        return self.layout.root


@dataclass(frozen=True, slots=True)
class Check:
    """A named check; `run` returns one or more results within `seconds`.

    `live`: it opens databases or starts programs. `settings`: it needs a readable `ktx.yaml`.
    """

    id: str
    title: str
    run: Callable[[CheckContext], list[CheckResult]]
    live: bool = False
    settings: bool = True
    seconds: float = TIME_LIMIT


def typed(finding: CheckResult, settings: Mapping[str, Any], project_dir: Path) -> CheckResult:
    """Return a result whose hint is a command if it contains one or names a setting; `settings`: those in `ktx.yaml`.

    Other hints are unchanged: an edit, or a statement for a database. So is every hint about a line in a file.
    """
    if not finding.hint or finding.level in (Level.OK, Level.SKIP) or finding.location.line is not None:
        return finding
    hint = Hint(finding.hint)
    if hint.is_typed or any(isinstance(part, Statement) for part in hint.parts):
        return finding
    commands = hint.commands
    if commands == tuple(part for part in hint.parts if part != THEN):
        return replace(finding, hint=Hint.steps(*commands, between=AND))
    command = commands[0] if commands and finding.secret is None else _command_for(finding, settings, project_dir)
    if command is None:
        return finding
    begins_with_it = hint.parts[0] == command and hint.parts[1].startswith("; ")
    rest = "".join(hint.parts[1:]).removeprefix("; ") if begins_with_it else hint
    return replace(finding, message=f"{finding.message} ({rest})", hint=command)


def _command_for(finding: CheckResult, settings: Mapping[str, Any], project_dir: Path) -> Hint | None:
    """Return the command that changes the first setting in a hint, or the secret of a result."""
    hint = Hint(finding.hint or "")
    variable = next((part for part in hint.parts if isinstance(part, Variable)), None)
    if variable is not None:
        return Command(variable, program="unset")
    named = (path for path in hint.settings if path.count(".") > path.startswith("connections."))
    key = next(named, finding.secret)
    return None if key is None else command_to_set(key, settings, project_dir)


def command_to_set(key: str, settings: Mapping[str, Any], project_dir: Path) -> Hint:
    """Return the command that sets a setting in `ktx.yaml`, or its secret; the user fills in the value."""
    value: Any = settings
    for name in key.split("."):
        value = value.get(name, {}) if isinstance(value, Mapping) else {}
    reference = SecretRef.parse(value) if isinstance(value, str) else None
    if reference is None:
        return Command("config", "set", key, key.rpartition(".")[2].upper())
    if reference.kind == "env" and is_variable(reference.name):
        return Command(f"{reference.name}=...", program="export")
    if reference.kind == "env":
        return Command("config", "set", key, "env:NAME")
    if reference.kind == "file":
        return _command_to_write(secret_path(reference, project_dir))
    service, _, name = reference.name.rpartition("/")
    return Command("set", service, name, program="keyring")


def _command_to_write(path: Path) -> Hint:
    folder = Hint() if path.parent.is_dir() else Hint("{} && ", Command("-p", path.parent, program="mkdir"))
    return Hint("{}printf %s '...' > {} && {}", folder, shell_words(path), Command("600", path, program="chmod"))


OLDER: Final = "unknown, because the state is of an older version of ktx; the next run updates it"
"""The result of a check that would read such a state."""

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task:
    """A job: the name of its result if it raises or times out, and its time limit in seconds.

    `again`: the command that retries it.
    """

    name: str
    run: Callable[[], list[CheckResult]]
    seconds: float
    again: Command | None = None

    def findings(self) -> list[CheckResult]:
        """Do the work; an error becomes a result."""
        try:
            return self.run()
        except KtxError as error:
            return [failed(self.name, error)]
        except Exception as error:
            log.debug("the check %s failed", self.name, exc_info=error)
            message = f"the check itself failed: {type(error).__name__}: {error}"
            again = self.again and self.again.with_words("--debug")
            return [CheckResult(self.name, Level.FAIL, message, again, cause=internal_error(error))]


def in_background(ask: Callable[[], T]) -> Future[T]:
    """Run the job while other work is done, in a daemon thread, so that a hanging call does not block exit."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is wanted
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def side_by_side(pieces: Iterable[Task]) -> list[list[CheckResult]]:
    """Run all jobs concurrently and return the results of each, in order."""
    started = monotonic()
    running = [(work, in_background(work.findings)) for work in pieces]
    return [_outcome(work, future, started) for work, future in running]


def _outcome(work: Task, future: Future[list[CheckResult]], started: float) -> list[CheckResult]:
    """Wait for the remaining time of a job and return its results."""
    try:
        return future.result(max(0.0, started + work.seconds - monotonic()))
    except TimeoutError:
        return [CheckResult(work.name, Level.FAIL, f"no answer within {work.seconds:g} s", work.again)]


def failed(
    name: str, error: KtxError, concern: Concern | None = None, *, where: str = "", level: Level = Level.FAIL
) -> CheckResult:
    """Return the result for an error in a check; `where` prefixes its message."""
    secret = error.details.get("setting") if "reference" in error.details else None
    message = f"{where}: {error.message}" if where else error.message
    facts: dict[str, Any] = {"secret": secret, "database": unreached(error), "cause": error}
    return CheckResult(name, level, message, error.hint, concern or concern_of(error), **facts)


def unreached(error: Exception) -> str | None:
    """Return the shared database that an error is about because it cannot be reached, or None for another error."""
    if isinstance(error, StorageError) and error.code == "connection" and "database" in error.details:
        return str(error.details["database"])
    return None
