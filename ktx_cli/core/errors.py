"""Every error a user can see, in one tree, with the exit code each one ends in.

KtxError
├── UsageError             wrong option, wrong value, command used wrongly
├── ConfigError            `ktx.yaml` (or a file it names) cannot be used as it is
├── NotSupportedError      known, but this version has no code for it
├── NoProjectError         there is no project where one is needed
├── NotReadyError          setup or authentication is missing
├── SecretError            a secret reference that cannot be resolved
├── SourceError            a database or another source cannot be reached or read
├── BusyError              another run holds the run lock, or git holds its lock
├── GitError               the repository cannot be used as it is
│   └── GitMissingError    there is no usable git binary
├── StorageError           a file cannot be read or written (disk full, permission denied)
├── PartialError           done in part; what was left out is named
└── CancelledError         interrupted by the user
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.core.diagnostics import Diagnostic, Hint, Severity

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_READY = 3
EXIT_UNREACHABLE = 4
EXIT_LIMIT = 5
EXIT_BUSY = 6
EXIT_PARTIAL = 7
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141

ERROR_CODES: Mapping[str, tuple[int, str]] = {
    "usage": (EXIT_USAGE, "The command line asks for something that cannot be."),
    "config": (EXIT_USAGE, "`ktx.yaml` or another file of the user's cannot be used as it is."),
    "not_supported": (EXIT_USAGE, "A known driver, source or backend this version has no code for."),
    "secret": (EXIT_USAGE, "A secret reference that names nothing."),
    "no_project": (EXIT_NOT_READY, "No project was found or named."),
    "not_ready": (EXIT_NOT_READY, "Setup or authentication is missing."),
    "no_backend": (EXIT_NOT_READY, "A model is needed and no backend is configured."),
    "auth": (EXIT_NOT_READY, "A model backend did not accept the credentials."),
    "billing": (EXIT_NOT_READY, "A model backend refused for lack of credit."),
    "isolation": (EXIT_NOT_READY, "A model backend could not be run in isolation."),
    "connection": (EXIT_UNREACHABLE, "A database, another source or a model backend cannot be reached."),
    "rate_limit": (EXIT_LIMIT, "A model backend asks to wait."),
    "overloaded": (EXIT_LIMIT, "A model backend is overloaded."),
    "model": (EXIT_FAILED, "A model backend has no such model for this account."),
    "context": (EXIT_FAILED, "A prompt is too long for its model."),
    "max_turns": (EXIT_FAILED, "A model did not answer within its turns."),
    "structured_output": (EXIT_FAILED, "A model gave no answer that fits the schema."),
    "permission": (EXIT_FAILED, "A model backend refused a tool."),
    "execution": (EXIT_FAILED, "A model call, or a tool in one, failed."),
    "refusal": (EXIT_FAILED, "A model declined to answer."),
    "budget": (EXIT_LIMIT, "A budget of the run is used up."),
    "busy": (EXIT_BUSY, "Somebody else holds what this run needs; `details` says who."),
    "partial": (EXIT_PARTIAL, "The run finished, but something was left out; `details` names it."),
    "cancelled": (EXIT_INTERRUPTED, "The user interrupted the run, or did not confirm."),
    "git": (EXIT_FAILED, "The repository is in a state ktx must not touch, or git refused."),
    "git_missing": (EXIT_FAILED, "No git binary, or one that is too old."),
    "storage": (EXIT_FAILED, "A file of the project cannot be read or written; the message names the path."),
    "conflict": (EXIT_FAILED, "Two changes of the same thing that cannot be merged."),
    "wrong_definitions": (EXIT_FAILED, "What a source says cannot be taken over: a definition in it would be wrong."),
    "query": (EXIT_FAILED, "A database refused a statement."),
    "read_only": (EXIT_FAILED, "A statement would have written, or is not known to only read; it was not run."),
    "timeout": (EXIT_FAILED, "A statement took longer than it may."),
    "wiki_problems": (
        EXIT_FAILED,
        "A wiki page has something wrong in it: `ktx wiki lint` found it, or `ktx wiki write` refused it.",
    ),
    "checks_failed": (EXIT_FAILED, "`ktx doctor` found something wrong."),
    "unknown_name": (EXIT_USAGE, "A name nothing in the semantic layer has; `details.candidates` are names it has."),
    "definition": (EXIT_USAGE, "A definition of the semantic layer that cannot be used."),
    "parameter": (EXIT_USAGE, "A parameter of the semantic layer without a value, or with one it cannot have."),
    "status": (EXIT_FAILED, "An answer would be made of a definition with a lower status than is asked for."),
    "ambiguous_name": (EXIT_FAILED, "A name several things have; `details.candidates` are names of one each."),
    "ambiguous_path": (EXIT_FAILED, "Several ways to join; `details.choices` are values for `via`."),
    "unreachable": (EXIT_FAILED, "No join leads from a fact to what is asked of it."),
    "unreachable_filter": (EXIT_FAILED, "No join leads from a fact to what a filter reads."),
    "grain": (EXIT_FAILED, "Rows without a key, or a time cut finer than its values are."),
    "fan_out": (
        EXIT_FAILED,
        "The dimension does not belong to the fact's rows but to other rows with the same parent; `details.choices` "
        "lists values for `via`.",
    ),
    "cardinality": (EXIT_FAILED, "A join declared to one row finds several, so that rows would count twice."),
    "policy": (EXIT_FAILED, "A policy needs an attribute the caller did not give."),
    "hidden": (EXIT_FAILED, "A column, a measure or a source that must not be asked for."),
    "not_verified": (EXIT_FAILED, "Numbers of an answer came out differently when they were recomputed from raw rows."),
    "semantic_problems": (EXIT_FAILED, "`ktx sl validate` found something wrong."),
    "tests_failed": (EXIT_FAILED, "`ktx sl test` has a test that failed."),
    "evals_failed": (EXIT_FAILED, "`ktx eval` has an answer that is not the expected one."),
    "open_decision": (EXIT_FAILED, "An answer depends on an open decision; `semantic.open_decisions` refuses it."),
    "proof_failed": (
        EXIT_FAILED,
        "`ktx proof` does not meet `--require-lift` or `--max-harm`, or no attempt of an arm came to its end.",
    ),
    "lint_problems": (EXIT_FAILED, "`ktx lint` found something that is more than information."),
    "drift": (EXIT_FAILED, "`ktx diff` found that a database is not as it was scanned."),
    "failed": (EXIT_FAILED, "Several things failed for different reasons; the message names them."),
    "internal": (EXIT_FAILED, "A bug in ktx."),
}
"""Every error code: the exit code it ends in, and what it means."""


def exit_code_for(code: str) -> int:
    """Return the process exit code of an error code."""
    return ERROR_CODES[code][0] if code in ERROR_CODES else EXIT_FAILED


class KtxError(Exception):
    """An error with one sentence for the user, a hint, and facts for programs.

    `message` says what and where, without a trailing full stop: `where` (a file and line, a connection) begins it, and
    what is behind that is the `problem`. `hint` is the exact command or edit that helps; a plain text is made a `Hint`.
    `details` holds JSON-able facts; never a secret.
    """

    code: str = "failed"
    _hint: Hint | None

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        code: str | None = None,
    ) -> None:
        self.problem = message
        self.message = f"{where}: {message}" if where else message
        super().__init__(self.message)
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})
        if code is not None:
            self.code = code

    @property
    def hint(self) -> Hint | None:
        """What helps: a command, an edit, or a sentence with either."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = Hint.of(hint)

    @property
    def exit_code(self) -> int:
        """The process exit code this error ends in."""
        return exit_code_for(self.code)

    def to_json(self) -> dict[str, Any]:
        """Return the `error` object of the JSON envelope."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "details": self.details}


def internal_error(problem: BaseException, *, where: str = "", hint: str | None = None) -> KtxError:
    """Return the error to report for a bug of ktx. It has the exception's type alone: its text may hold secrets."""
    return KtxError(f"ktx failed unexpectedly: {type(problem).__name__}", where=where, hint=hint, code="internal")


class UsageError(KtxError):
    """The command line asks for something that cannot be."""

    code = "usage"


class ConfigError(KtxError):
    """`ktx.yaml` or another file of the user's cannot be used as it is."""

    code = "config"


class NotSupportedError(KtxError):
    """A known driver, source or backend this version has no code for."""

    code = "not_supported"


class NoProjectError(KtxError):
    """No project was found or named."""

    code = "no_project"


class NotReadyError(KtxError):
    """Setup or authentication is missing."""

    code = "not_ready"


class SecretError(KtxError):
    """A secret reference that names nothing."""

    code = "secret"


class SourceError(KtxError):
    """A database or another source cannot be reached or does not answer as it should."""

    code = "connection"


class BusyError(KtxError):
    """Somebody else holds what this run needs; `details` says who."""

    code = "busy"


class GitError(KtxError):
    """The repository is in a state ktx must not touch, or git refused."""

    code = "git"


class GitMissingError(GitError):
    """No git binary, or one that is too old."""

    code = "git_missing"


class StorageError(KtxError):
    """A file of the project cannot be read or written; the message names the path."""

    code = "storage"


class PartialError(KtxError):
    """The run finished, but something was left out; `details` names it. Exit 7, whatever the code says of the cause."""

    code = "partial"

    @property
    def exit_code(self) -> int:
        """The process exit code this error ends in."""
        return EXIT_PARTIAL


class CancelledError(KtxError):
    """The user interrupted the run."""

    code = "cancelled"


class RunStopped(Exception):
    """Ends a whole run, whatever part of it was under way; `error` says why."""

    def __init__(self, error: KtxError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class ResultWarning(Diagnostic):
    """Something the user should know that does not fail the command; `details` are more facts for programs.

    `problem`: what is wrong, where the message also says what was done about it.
    """

    details: dict[str, Any]
    problem: str

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, problem: str | None = None, **details: Any
    ) -> None:
        Diagnostic.__init__(self, code, Severity.WARNING, message, hint=hint)
        object.__setattr__(self, "details", details)
        object.__setattr__(self, "problem", problem or message)

    @classmethod
    def of(cls, diagnostic: Diagnostic, code: str, message: str | None = None, **details: Any) -> ResultWarning:
        """Return a diagnostic as a warning of a command, under the code that `warnings[]` has for its kind."""
        return cls(code, message or diagnostic.message, hint=diagnostic.hint, **details)

    def suggest(self, hint: str | None) -> None:
        """Replace the hint, as the command that prints the warning does."""
        object.__setattr__(self, "hint", Hint.of(hint))

    def to_json(self) -> dict[str, Any]:
        """Return the warning as it stands in `warnings[]` of the envelope."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.details}

    def __repr__(self) -> str:
        return f"ResultWarning({self.code!r}, {self.message!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultWarning) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]
