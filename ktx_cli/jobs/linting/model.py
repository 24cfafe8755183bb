"""A finding of `ktx lint`, how many things have a description, and both together as the answer of the command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import plural, shell_words


class Level(StrEnum):
    """How bad a finding is; an `info` never fails the command."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at. `code`: a rule of the registry. `path` as git sees it, `line` from 1; None: in no file.

    `fix`: the command or the edit that helps.
    """

    code: str
    level: Level
    message: str
    fix: str
    path: str | None = None
    line: int = 1
    connection: str | None = None

    @property
    def place(self) -> str:
        """`path:line`, empty for what is in no file."""
        return "" if self.path is None else f"{self.path}:{self.line}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it stands in the envelope."""
        return {
            "code": self.code,
            "level": self.level.value,
            "message": self.message,
            "hint": self.fix,
            "path": self.path,
            "line": None if self.path is None else self.line,
            "connection": self.connection,
        }


@dataclass(frozen=True, slots=True)
class Share:
    """How many of all have a description."""

    described: int = 0
    total: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.described + other.described, self.total + other.total)

    @property
    def percent(self) -> float | None:
        """Percent to one decimal, rounded down, so that 100 means all; None where there is nothing."""
        return self.described * 1000 // self.total / 10 if self.total else None

    @property
    def shown(self) -> str:
        """`61.9% (13 of 21)`."""
        return "none" if self.percent is None else f"{self.percent:.1f}% ({self.described:,} of {self.total:,})"

    def to_json(self) -> dict[str, Any]:
        """Return the counts and the percentage."""
        return {"described": self.described, "total": self.total, "percent": self.percent}


KINDS: Final = ("tables", "columns", "measures")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a connection (or of all) has a description."""

    tables: Share = Share()
    columns: Share = Share()
    measures: Share = Share()

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))

    @property
    def all(self) -> Share:
        """Tables, columns and measures together."""
        return self.tables + self.columns + self.measures

    def to_json(self) -> dict[str, Any]:
        """Return the shares by kind."""
        return {kind: getattr(self, kind).to_json() for kind in (*KINDS, "all")}


@dataclass(slots=True)
class Linted:
    """Everything `ktx lint` found."""

    coverage: dict[str, Coverage] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    pages: int = 0

    @property
    def total(self) -> Coverage:
        """The coverage of all connections together."""
        return sum(self.coverage.values(), Coverage())

    def counts(self) -> dict[str, int]:
        """Return how many findings there are of each level."""
        found = Counter(each.level for each in self.findings)
        return {level.value: found[level] for level in Level}

    def by_code(self) -> Mapping[str, int]:
        """Return how many findings there are of each code."""
        return dict(sorted(Counter(each.code for each in self.findings).items()))

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        return {
            "coverage": {
                "connections": {name: each.to_json() for name, each in self.coverage.items()},
                "total": self.total.to_json(),
            },
            "pages": self.pages,
            "findings": [each.to_json() for each in self.findings],
            "counts": self.counts(),
            "codes": self.by_code(),
        }

    def error(self) -> KtxError | None:
        """Return the error to end with where something is at least a warning."""
        counts = self.counts()
        bad = [plural(counts[level], level.value) for level in (Level.ERROR, Level.WARNING) if counts[level]]
        if not bad:
            return None
        codes = self.by_code()
        return KtxError(
            f"the context has {' and '.join(bad)}",
            hint=_command_for(_worst(self.findings)),
            details={"counts": counts, "codes": codes},
            code="lint_problems",
        )


def _worst(findings: Iterable[Finding]) -> Finding:
    return min(findings, key=lambda each: list(Level).index(each.level))


def _command_for(finding: Finding) -> str:
    """Return the command that lists findings like this; one that sums others up names its own."""
    if finding.fix.startswith("ktx lint "):
        return finding.fix
    return shell_words("ktx", "lint", "--select", finding.code, "--limit", "0")
