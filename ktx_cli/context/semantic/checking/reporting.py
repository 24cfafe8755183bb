"""Collects what is wrong in a model, each with the source it is in and its place."""

from __future__ import annotations

from ktx_cli.context.semantic.model import Place, Problem, Source
from ktx_cli.core.errors import KtxError

ERROR, WARNING, INFO = "error", "warning", "info"


class Report:
    """The problems of a model, in the order they were found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(
        self, severity: str, code: str, message: str, source: Source, place: Place | None, hint: str | None = None
    ) -> None:
        """Note a problem at `place`, else at the source's own."""
        where = place or source.place or Place("")
        self.problems.append(Problem(severity, code, message, where, hint, source.name))

    def error(self, code: str, message: str, source: Source, place: Place | None, hint: str | None = None) -> None:
        """Note an error."""
        self.add(ERROR, code, message, source, place, hint)

    def warn(self, code: str, message: str, source: Source, place: Place | None, hint: str | None = None) -> None:
        """Note a warning."""
        self.add(WARNING, code, message, source, place, hint)

    def raised(self, error: KtxError, source: Source, place: Place | None, what: str = "") -> None:
        """Note an error that was raised; `what` it is about, where its message does not say."""
        self.error(error.code, f"{what}: {error.message}" if what else error.message, source, place, error.hint)

    def sorted(self) -> list[Problem]:
        """Return the problems by file and line."""
        return sorted(self.problems, key=lambda each: (each.place.path, each.place.line, each.code, each.message))
