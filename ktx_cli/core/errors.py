"""The errors that users can see, as one class hierarchy, with their exit codes.

KtxError
├── UsageError             unknown option, invalid value, unsupported combination
├── ConfigError            `ktx.yaml`, or a file that it refers to, is invalid
├── NotSupportedError      not supported by this version
├── NoProjectError         the command needs a project, and there is none
├── NotReadyError          setup or authentication is incomplete
├── SecretError            a secret reference that cannot be resolved
├── SourceError            a database or another source cannot be reached or read
├── BusyError              another run holds the run lock, or git holds its lock
├── GitError               a git command failed, or the repository cannot be used
│   └── GitMissingError    git is not installed, or too old
├── StorageError           a file cannot be read or written (disk full, permission denied)
├── PartialError           finished, but some items were skipped
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
    "usage": (EXIT_USAGE, "The command line has an unknown option, an invalid value or an unsupported combination."),
    "config": (EXIT_USAGE, "`ktx.yaml` or another file that you maintain is invalid."),
    "not_supported": (EXIT_USAGE, "This version of ktx does not support the driver, source or backend."),
    "secret": (EXIT_USAGE, "A secret reference cannot be resolved."),
    "no_project": (EXIT_NOT_READY, "No ktx project was found, or none was specified."),
    "not_ready": (EXIT_NOT_READY, "Setup or authentication is incomplete."),
    "no_backend": (EXIT_NOT_READY, "The command needs a model, but no model backend is configured."),
    "auth": (EXIT_NOT_READY, "A model backend rejected the credentials."),
    "billing": (EXIT_NOT_READY, "A model backend rejected the call because the account has no credit."),
    "isolation": (EXIT_NOT_READY, "A model backend could not be run in isolation."),
    "connection": (EXIT_UNREACHABLE, "A database, another source or a model backend cannot be reached."),
    "rate_limit": (
        EXIT_LIMIT,
        "A model backend is rate limiting requests, or an agent exceeds a limit in `serving.agents`.",
    ),
    "overloaded": (EXIT_LIMIT, "A model backend is overloaded."),
    "model": (EXIT_FAILED, "The model does not exist or is not available to this account."),
    "context": (EXIT_FAILED, "A prompt exceeds the context window of its model."),
    "max_turns": (EXIT_FAILED, "A model did not finish within its maximum number of turns."),
    "structured_output": (EXIT_FAILED, "A model did not return an answer that matches the schema."),
    "permission": (EXIT_FAILED, "A model backend denied a tool call, or an access token does not allow it."),
    "execution": (EXIT_FAILED, "A model call failed, or a tool call within it did."),
    "refusal": (EXIT_FAILED, "A model refused to answer."),
    "budget": (EXIT_LIMIT, "The run exhausted one of its budgets."),
    "busy": (EXIT_BUSY, "Another process holds a resource that this run needs; `details` identifies it."),
    "partial": (EXIT_PARTIAL, "The run finished, but some items were skipped; `details` lists them."),
    "cancelled": (EXIT_INTERRUPTED, "The run was interrupted, or you did not confirm it."),
    "git": (EXIT_FAILED, "A git command failed, or the repository is in a state that ktx must not change."),
    "git_missing": (EXIT_FAILED, "git is not installed, or its version is too old."),
    "storage": (EXIT_FAILED, "A project file or the shared state cannot be read or written; the message names it."),
    "conflict": (EXIT_FAILED, "Two changes to the same item cannot be merged."),
    "wrong_definitions": (
        EXIT_FAILED,
        "The content of a source cannot be imported because it would produce an invalid definition.",
    ),
    "query": (EXIT_FAILED, "A database rejected a statement, or a semantic query is malformed (exit code 2)."),
    "read_only": (EXIT_FAILED, "A statement writes data, or ktx cannot prove that it only reads; it was not run."),
    "timeout": (EXIT_FAILED, "A statement exceeded its time limit."),
    "wiki_problems": (
        EXIT_FAILED,
        "A wiki page has a problem: `ktx wiki lint` reported it, or `ktx wiki write` rejected the page.",
    ),
    "checks_failed": (EXIT_FAILED, "`ktx doctor` found a problem."),
    "unknown_name": (
        EXIT_USAGE,
        "The semantic layer has no such name; `details.candidates` lists names, closest first.",
    ),
    "definition": (EXIT_USAGE, "A semantic layer definition is invalid."),
    "time_range": (
        EXIT_USAGE,
        "The time range of a semantic query is invalid or ambiguous: a time that cannot be parsed, an end that is not "
        "after the start, or a column that is not a time.",
    ),
    "parameter": (EXIT_USAGE, "A semantic layer parameter has no value or an invalid one."),
    "status": (EXIT_FAILED, "The answer would use a definition whose status is below the required one."),
    "ambiguous_name": (
        EXIT_FAILED,
        "A name matches several items; `details.candidates` lists names that each match exactly one item.",
    ),
    "ambiguous_path": (EXIT_FAILED, "There are several join paths; `details.choices` lists values for `via`."),
    "unreachable": (EXIT_FAILED, "No join path leads from the fact to a column that the query requests."),
    "unreachable_filter": (EXIT_FAILED, "No join path leads from the fact to the columns that a filter reads."),
    "grain": (EXIT_FAILED, "A source has no key, or a time is truncated to a finer granularity than its values."),
    "fan_out": (
        EXIT_FAILED,
        "The dimension belongs to other rows with the same parent, not to the fact's rows; `details.choices` "
        "lists values for `via`.",
    ),
    "cardinality": (
        EXIT_FAILED,
        "A join declared as joining to one row matches several, so rows would be counted more than once.",
    ),
    "conversion": (
        EXIT_FAILED,
        "A column with `stored_as` has values in another form, so an answer would leave them out.",
    ),
    "policy": (EXIT_FAILED, "A row policy needs a user attribute that the caller did not pass."),
    "hidden": (EXIT_FAILED, "A column, measure or source cannot be queried because of its visibility."),
    "not_verified": (EXIT_FAILED, "Numbers in an answer did not match when they were recomputed from raw rows."),
    "semantic_problems": (EXIT_FAILED, "`ktx sl validate` found a problem."),
    "tests_failed": (EXIT_FAILED, "A test failed in `ktx sl test`."),
    "check_failed": (EXIT_FAILED, "A check failed in `ktx check`."),
    "evals_failed": (EXIT_FAILED, "An answer in `ktx eval` does not match the expected one."),
    "open_decision": (
        EXIT_FAILED,
        "The answer depends on an open decision, which `semantic.open_decisions` does not allow.",
    ),
    "proof_failed": (
        EXIT_FAILED,
        "`ktx proof` did not meet `--require-lift` or `--max-harm`, or no attempt of one arm finished.",
    ),
    "lint_problems": (EXIT_FAILED, "`ktx lint` found a warning or an error."),
    "drift": (EXIT_FAILED, "`ktx diff` found that a database has changed since the last scan."),
    "failed": (EXIT_FAILED, "Several operations failed for different reasons; the message lists them."),
    "audit_broken": (EXIT_FAILED, "A line of the MCP server's audit log was changed or removed."),
    "internal": (EXIT_FAILED, "A bug in ktx."),
}
"""The exit code and the meaning of every error code."""


def exit_code_for(code: str) -> int:
    """Return the process exit code for an error code."""
    return ERROR_CODES[code][0] if code in ERROR_CODES else EXIT_FAILED


class KtxError(Exception):
    """An error with a one-sentence message for people, a hint, and details for programs.

    `message` has no trailing full stop. It begins with `where` (a file and line, or a connection) if that is given; the
    rest is `problem`. `hint` is the command or edit that fixes the error; a plain string becomes a `Hint`. `details`
    contains values that can be serialized as JSON, and never a secret.
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
        self.problem, self.where = message, where
        self.message = f"{where}: {message}" if where else message
        super().__init__(self.message)
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})
        if code is not None:
            self.code = code

    @property
    def hint(self) -> Hint | None:
        """The command or edit that fixes the error, or a sentence that contains one."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = Hint.of(hint)

    @property
    def exit_code(self) -> int:
        """The process exit code for this error."""
        return exit_code_for(self.code)

    def to_json(self) -> dict[str, Any]:
        """Return the `error` object of the JSON envelope."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "details": self.details}


def internal_error(problem: BaseException, *, where: str = "", hint: str | None = None) -> KtxError:
    """Return the error for a bug in ktx. It only names the type of the exception, whose message may contain secrets."""
    return KtxError(f"ktx failed unexpectedly: {type(problem).__name__}", where=where, hint=hint, code="internal")


class UsageError(KtxError):
    """The command line has an unknown option, an invalid value or an unsupported combination."""

    code = "usage"


class ConfigError(KtxError):
    """`ktx.yaml` or another file that the user maintains is invalid."""

    code = "config"


class NotSupportedError(KtxError):
    """This version of ktx does not support the driver, source or backend."""

    code = "not_supported"


class NoProjectError(KtxError):
    """No ktx project was found, or none was specified."""

    code = "no_project"


class NotReadyError(KtxError):
    """Setup or authentication is incomplete."""

    code = "not_ready"


class SecretError(KtxError):
    """A secret reference cannot be resolved."""

    code = "secret"


class SourceError(KtxError):
    """A database or another source cannot be reached, or its response is invalid."""

    code = "connection"


class BusyError(KtxError):
    """Another process holds a resource that this run needs; `details` identifies it."""

    code = "busy"


class GitError(KtxError):
    """A git command failed, or the repository is in a state that ktx must not change."""

    code = "git"


class GitMissingError(GitError):
    """git is not installed, or its version is too old."""

    code = "git_missing"


class StorageError(KtxError):
    """A project file or the shared state cannot be read or written; the message names it."""

    code = "storage"


class PartialError(KtxError):
    """The run finished, but some items were skipped; `details` lists them. Exit code 7."""

    code = "partial"

    @property
    def exit_code(self) -> int:
        """The process exit code for this error."""
        return EXIT_PARTIAL


class CancelledError(KtxError):
    """The user interrupted the run, or did not confirm it."""

    code = "cancelled"


class RunStopped(Exception):
    """Ends an entire run from any part of it; `error` is the reason."""

    def __init__(self, error: KtxError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class ResultWarning(Diagnostic):
    """A warning that does not fail the command, or a note (`Severity.INFO`); `details` has further values for programs.

    `problem` is the cause alone, for a message that also states what ktx did about it; `cause` is the error, if any.
    """

    details: dict[str, Any]
    problem: str
    cause: KtxError | None

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        problem: str | None = None,
        severity: Severity = Severity.WARNING,
        cause: KtxError | None = None,
        **details: Any,
    ) -> None:
        Diagnostic.__init__(self, code, severity, message, hint=hint)
        object.__setattr__(self, "details", details)
        object.__setattr__(self, "problem", problem or message)
        object.__setattr__(self, "cause", cause)

    @classmethod
    def of(cls, diagnostic: Diagnostic, code: str, message: str | None = None, **details: Any) -> ResultWarning:
        """Return a diagnostic as a warning with the code that `warnings[]` uses for that kind of diagnostic."""
        return cls(code, message or diagnostic.message, hint=diagnostic.hint, **details)

    @classmethod
    def because(cls, code: str, what: str, error: KtxError, **details: Any) -> ResultWarning:
        """Return a warning that `what` is missing or incomplete because of an error."""
        return cls(code, f"{what}: {error.message}", hint=error.hint, cause=error, **details)

    def suggest(self, hint: str | None) -> None:
        """Replace the hint, on behalf of the command that prints the warning."""
        object.__setattr__(self, "hint", Hint.of(hint))

    def to_json(self) -> dict[str, Any]:
        """Return the warning as an entry of `warnings[]` in the JSON envelope."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.details}

    def __repr__(self) -> str:
        return f"ResultWarning({self.code!r}, {self.message!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultWarning) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]
