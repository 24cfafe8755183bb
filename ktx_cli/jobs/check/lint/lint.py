"""`ktx lint`: runs the selected rules over the files of a project; no database, no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import Command, Diagnostic, Hint, KtxError, ResultWarning, Severity, plural, severity_counts
from ktx_cli.jobs.check.lint.coverage import Coverage
from ktx_cli.jobs.check.lint.project import LintedProject
from ktx_cli.jobs.check.lint.registry import COVERAGE, WIKI, Selection, all_rules
from ktx_cli.project import KtxConfig, Layout


@dataclass(frozen=True, slots=True)
class LintReport:
    """What `ktx lint` found."""

    coverage: Mapping[str, Coverage]
    """How much of each connection is described."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The worst first."""
    pages: int = 0
    """How many pages were examined."""

    @property
    def total(self) -> Coverage:
        """The coverage of all connections together."""
        return sum(self.coverage.values(), Coverage())

    def counts(self) -> dict[str, int]:
        """Return the number of diagnostics of each severity."""
        return severity_counts(self.diagnostics)

    def by_code(self) -> dict[str, int]:
        """Return the number of diagnostics of each code."""
        return dict(sorted(Counter(diagnostic.code for diagnostic in self.diagnostics).items()))

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "coverage": {
                "connections": {name: coverage.to_json() for name, coverage in self.coverage.items()},
                "total": self.total.to_json(),
            },
            "pages": self.pages,
            "findings": [diagnostic.select(_KEYS) for diagnostic in self.diagnostics],
            "counts": self.counts(),
            "codes": self.by_code(),
        }

    def error(self) -> KtxError | None:
        """Return the error to end with where something is at least a warning."""
        counts = self.counts()
        bad = [
            plural(counts[severity], severity) for severity in (Severity.ERROR, Severity.WARNING) if counts[severity]
        ]
        if not bad:
            return None
        return KtxError(
            f"the context has {' and '.join(bad)}",
            hint=_hint_of_all(min(self.diagnostics, key=lambda diagnostic: -diagnostic.severity.weight)),
            details={"counts": counts, "codes": self.by_code()},
            code="lint_problems",
        )


_KEYS: Final[Mapping[str, str]] = {
    "code": "code",
    "level": "severity",
    **{name: name for name in ("message", "hint", "path", "line", "connection")},
}
"""What the JSON output has of a diagnostic."""


def _hint_of_all(diagnostic: Diagnostic) -> Hint | None:
    """Return the command that lists diagnostics like this; one about the whole project names its own."""
    if all_rules()[diagnostic.code].on_demand:
        return diagnostic.hint
    return Command("lint", "--select", diagnostic.code, "--limit", "0")


def lint_project(
    layout: Layout,
    config: KtxConfig,
    *,
    connection: str | None = None,
    selection: Selection | None = None,
    min_coverage: float | None = None,
) -> tuple[LintReport, list[ResultWarning]]:
    """Return the report of one connection or of all, and warnings of what could not be examined.

    `min_coverage`: percent of tables, columns and measures that must have a description. Writes nothing; reads the
    history of git. Raises `UsageError` for an unknown connection.
    """
    warnings: list[ResultWarning] = []
    project = LintedProject(layout, config, warnings.append, connection, min_coverage)
    rules = (selection or Selection()).rules()
    coverage = project.coverage
    diagnostics = dict.fromkeys(diagnostic for rule in rules for diagnostic in rule.check(project))
    pages = len(project.pages) if any(rule.group == WIKI for rule in rules) else 0
    return LintReport(coverage, tuple(sorted(diagnostics, key=_order)), pages), warnings


def _order(diagnostic: Diagnostic) -> tuple[object, ...]:
    """Return what sorts diagnostics; those of a coverage rule keep their order, the worst first."""
    location = diagnostic.location
    place = (location.path or "", location.line or 1, diagnostic.message)
    return (-diagnostic.severity.weight, diagnostic.code, () if diagnostic.code.startswith(COVERAGE) else place)
