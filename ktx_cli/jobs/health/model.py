"""What a check is and what it answers."""

from __future__ import annotations

import functools
import logging
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Diagnostic, Hint, KtxError, Location, Record, Severity, monotonic, shell_words
from ktx_cli.project import Layout, LoadedConfig, SecretRef, is_variable, secret_path
from ktx_cli.semantic import Manifest, load_manifest

if TYPE_CHECKING:
    from ktx_cli.project import Repository


class Level(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"

    @property
    def severity(self) -> Severity | None:
        """How bad what the check found is; None where nothing is wrong."""
        return {Level.WARN: Severity.WARNING, Level.FAIL: Severity.ERROR}.get(self)


class Concern(StrEnum):
    """What a failed check is about; it decides the exit code of `ktx doctor`."""

    SETUP = "setup"
    AUTH = "auth"
    OTHER = "other"


Repair = Callable[[], str]
"""Mends what a finding is about and says what it did; raises `KtxError`. It touches nothing of the user's."""

TIME_LIMIT = 30.0
"""Seconds a check may take before it counts as failed, unless it says otherwise."""


AUTH_CODES: Final = frozenset({"auth", "billing", "no_backend", "isolation"})
"""Errors that say that a model backend does not let us in."""
SETUP_CODES: Final = frozenset({"config", "not_ready", "not_supported", "secret"})
"""Errors that say that something is not set up, or not as it has to be."""


def concern_of(error: KtxError) -> Concern:
    """Return what an error is about: it decides the exit code of `ktx doctor`."""
    if error.code in AUTH_CODES:
        return Concern.AUTH
    return Concern.SETUP if error.code in SETUP_CODES else Concern.OTHER


@dataclass(frozen=True, slots=True)
class CheckResult(Record):
    """How a check came out: its level, a sentence, and the exact command or edit that helps."""

    check: str
    level: Level
    message: str
    hint: str | None = None
    concern: Concern = Concern.OTHER
    repair: Repair | None = field(default=None, compare=False, repr=False)
    """What `ktx doctor --fix` does about it, None where a person has to decide."""
    location: Location = field(default_factory=Location)
    json_keys = ("check", "level", "message", "hint", "concern")

    @property
    def diagnostic(self) -> Diagnostic | None:
        """What is wrong; None where nothing is."""
        severity = self.level.severity
        return None if severity is None else Diagnostic(self.check, severity, self.message, self.location, self.hint)


@dataclass(frozen=True)
class CheckContext:
    """What checks may look at; not `live`: nothing is asked that may take long or wait for a person."""

    layout: Layout
    loaded: LoadedConfig
    environ: Mapping[str, str]
    live: bool = False

    @functools.cached_property
    def manifests(self) -> dict[str, Manifest]:
        """The manifest of every connection, read once however many checks ask."""
        return {name: load_manifest(self.layout, name) for name in self.loaded.config.connections}

    @functools.cached_property
    def repository(self) -> Repository | None:
        """The repository around the project, asked for once however many checks need it; `KtxError` as `discover`."""
        from ktx_cli.project import Repository

        return Repository.discover(self.project_dir)

    @property
    def project_dir(self) -> Path:
        """The project's folder."""
        return self.layout.root


@dataclass(frozen=True, slots=True)
class Check:
    """A named check; `run` answers with one finding or several, within `seconds`.

    `live`: it opens databases or starts programs. `settings`: it needs a `ktx.yaml` that can be read.
    """

    id: str
    title: str
    run: Callable[[CheckContext], list[CheckResult]]
    live: bool = False
    settings: bool = True
    seconds: float = TIME_LIMIT


PROGRAMS: Final = frozenset(
    {
        *("chmod", "claude", "df", "export", "gcloud", "git", "hf", "keyring", "ktx", "mkdir", "mv", "pip", "printf"),
        *("rm", "unset", "uv"),
    }
)
"""What a command of a fix begins with; else it is a program by its whole path."""

_PARTS: Final = re.compile(r"[:;,] +(?:or:? +|then:? +(?:run:? +)?|for example:? +)?")
_QUOTED: Final = re.compile(r"`([^`]+)`")
_NEXT: Final = re.compile(r"; then:? (?:run:? )?")
_SETTING: Final = re.compile(r"\b(?:connections\.[\w-]+|llm|ingest|scan)\.[\w.-]*\w")
_SECRET: Final = re.compile(r"secret reference `[^`]*` of ([\w.-]*\w)")
_STATEMENT: Final = re.compile(r"(?:^|: )(?:ALTER|CREATE|GRANT|REVOKE) ")
_VARIABLE: Final = re.compile(r"correct ([A-Z][A-Z0-9_]+), or remove it")


def typed(finding: CheckResult, settings: Mapping[str, Any], project_dir: Path) -> CheckResult:
    """Return a finding whose hint is a command, where its hint holds one or names a setting; `settings`: of `ktx.yaml`.

    A hint that is neither stays: an edit, or a statement for a database. So does every hint about a line of a file: it
    may quote a name out of it, or out of a database, and a table can be called as a command is.
    """
    hint = finding.hint
    if hint is None or finding.level in (Level.OK, Level.SKIP) or finding.location.line is not None:
        return finding
    if is_command(hint) or _STATEMENT.search(hint):
        return finding
    for_secret = _SECRET.search(finding.message)  # its hint may have a path out of ktx.yaml
    found = None if for_secret else chained(hint) or command_in(hint)
    command = found or _command_for(finding.message, hint, settings, project_dir)
    if command is None:
        return finding
    told = finding.message if chained(hint) else f"{finding.message} ({hint})"
    return replace(finding, message=told, hint=command)


def is_command(text: str) -> bool:
    """Whether a shell could run a text: it begins with a program, and no word of it ends as one of a sentence does."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    if not words or not (words[0] in PROGRAMS or PurePath(words[0]).is_absolute()):
        return False
    return not any(word.endswith((",", ";", ":")) for word in words)


def chained(hint: str) -> str | None:
    """Return commands that are to be typed one after the other as one line; None where not all of them are."""
    parts = _NEXT.split(hint)
    return " && ".join(parts) if len(parts) > 1 and all(map(is_command, parts)) else None


def command_in(hint: str) -> str | None:
    """Return the first command that stands in a sentence, None where there is none."""
    quoted = (part for part in _QUOTED.findall(hint) if " " in part)
    return next((part for part in (*_PARTS.split(hint), *quoted) if is_command(part)), None)


def command_to_set(key: str, settings: Mapping[str, Any], project_dir: Path) -> str:
    """Return what gives a setting of `ktx.yaml` another value, or the secret it refers to; a person fills it in."""
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


def _command_to_write(path: Path) -> str:
    folder = Hint() if path.parent.is_dir() else Hint("{} && ", Command("-p", path.parent, program="mkdir"))
    return Hint("{}printf %s '...' > {} && {}", folder, shell_words(path), Command("600", path, program="chmod"))


def _command_for(message: str, hint: str, settings: Mapping[str, Any], project_dir: Path) -> str | None:
    """Return what changes the first setting a hint names, or the secret a message is about."""
    variable = _VARIABLE.fullmatch(hint)
    if variable is not None:
        return Command(variable[1], program="unset")
    named, about = _SETTING.search(hint), _SECRET.search(message)
    key = named[0] if named else about[1] if about else None
    return None if key is None else command_to_set(key, settings, project_dir)


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work: what its findings are called where it makes none itself, and the seconds it may take.

    `again`: the command that tries it once more.
    """

    name: str
    run: Callable[[], list[CheckResult]]
    seconds: float
    again: Command | None = None


def side_by_side(pieces: Iterable[Work]) -> list[list[CheckResult]]:
    """Run all pieces at the same time and return the findings of each, in their order."""
    workers = [_Worker(piece) for piece in pieces]
    started = monotonic()
    for worker in workers:
        worker.start()
    return [worker.outcome(started) for worker in workers]


def failed(name: str, error: KtxError) -> CheckResult:
    """Return the finding for an error that a check ended with."""
    return CheckResult(name, Level.FAIL, error.message, error.hint, concern_of(error))


class _Worker(threading.Thread):
    """Runs one piece; a daemon, so that one that hangs cannot keep the process alive."""

    def __init__(self, work: Work) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._findings: list[CheckResult] = []

    def run(self) -> None:
        try:
            self._findings = self._work.run()
        except KtxError as error:
            self._findings = [failed(self._work.name, error)]
        except Exception as error:
            log.debug("the check %s failed", self._work.name, exc_info=error)
            again = self._work.again and self._work.again.with_words("--debug")
            message = f"the check itself failed: {type(error).__name__}: {error}"
            self._findings = [CheckResult(self._work.name, Level.FAIL, message, again)]

    def outcome(self, started: float) -> list[CheckResult]:
        """Wait for what is left of the piece's time and return what it found."""
        self.join(max(0.0, started + self._work.seconds - monotonic()))
        if not self.is_alive():
            return self._findings
        message = f"no answer within {self._work.seconds:g} s"
        return [CheckResult(self._work.name, Level.FAIL, message, self._work.again)]
