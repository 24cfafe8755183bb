"""What a loop decided besides what it wrote: fallbacks, conflicts, evictions, resolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from ktx_cli.context.wiki.keys import GLOBAL

Target = Literal["wiki", "sl"]
ActionKind = Literal["created", "updated", "removed", "confirmed"]
"""`confirmed`: it said already what was to be written, so that it comes of these raw files too."""

REASONS: Final[Mapping[str, str]] = {
    "no_connection_mapping": "it belongs to no connection of this project",
    "looker_template_unresolved": "it holds a Looker template whose value is not known",
    "derived_table_not_supported": "its derived table cannot be written as a source",
    "no_physical_table": "it names no physical table",
    "multiple_table_references": "it names several tables, and which one it is about is not said",
    "unsupported_dialect": "its SQL is of a dialect this connection does not speak",
    "parse_error": "its SQL cannot be read",
    "missing_target_table": "the table it names is not in this connection",
    "cumulative_metric_unsupported": "its cumulative metric cannot be written as a measure",
    "conversion_metric_unsupported": "its conversion metric cannot be written as a measure",
}
"""Why something of a raw file did not become a source -> the words of the report."""


@dataclass(frozen=True, slots=True)
class Action:
    """An artifact a loop wrote or removed. `raw_paths`: the raw files it comes from. `connection`: of a source."""

    target: Target
    kind: ActionKind
    key: str
    connection: str | None = None
    raw_paths: tuple[str, ...] = ()
    detail: str = ""

    @property
    def identity(self) -> str:
        """`wiki:<key>` or `sl:<connection>/<source>`."""
        return f"wiki:{self.key}" if self.target == "wiki" else f"sl:{self.connection}/{self.key}"

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a report."""
        return {**asdict(self), "raw_paths": list(self.raw_paths)}


def page_artifact(scope: str, key: str) -> str:
    """Return the artifact a page is: `wiki:<key>`, and `wiki:user/<id>/<key>` for one of a user's own."""
    return f"wiki:{named_page(scope, key)}"


def named_page(scope: str, key: str) -> str:
    """Return a page's key as an action has it: with the scope in front where it is not everybody's."""
    return key if scope == GLOBAL else f"{scope}/{key}"


@dataclass(frozen=True, slots=True)
class Fallback:
    """Something of a raw file that did not become a source. `detail`: the words of its reason, the tool's own."""

    raw_path: str
    reason: str
    fallback: str
    detail: str
    table_ref: str | None = None
    clarification: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two things that could not both stay. `flagged`: a person should look at it.

    `accepted`, `captured`: what stands, and what a text says in place of it, where both are known in their words.
    """

    kind: str
    artifact: str
    detail: str
    flagged: bool
    contested: str | None = None
    unit: str | None = None
    accepted: str | None = None
    captured: str | None = None


@dataclass(frozen=True, slots=True)
class EvictionDecision:
    """What became of an artifact whose raw file is gone: `removed` or `kept`."""

    raw_path: str
    artifact: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """An artifact that went into another: `merged` or `subsumed`."""

    raw_path: str
    artifact: str
    into: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueryEvidence:
    """What an agent said of a raw file of a query history; `evidence`: a `TableUsage` or `QueryPattern` as JSON."""

    raw_path: str
    evidence: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """What it is about: said again, it replaces what was said before."""
        name = self.evidence.get("slug") or self.evidence.get("table")
        return f"{self.evidence['kind']} {name} of {self.raw_path}"


@dataclass(slots=True)
class Records:
    """The records of one loop, in their order."""

    fallbacks: list[Fallback] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    evictions: list[EvictionDecision] = field(default_factory=list)
    resolutions: list[Resolution] = field(default_factory=list)
    evidence: list[QueryEvidence] = field(default_factory=list)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return all of them as plain values."""
        return {name: [asdict(each) for each in getattr(self, name)] for name in _TYPES}

    @classmethod
    def from_json(cls, stored: Mapping[str, list[dict[str, Any]]]) -> Records:
        """Return what `to_json` gave."""
        return cls(**{name: [made(**each) for each in stored.get(name, ())] for name, made in _TYPES.items()})


_TYPES: Final[Mapping[str, Any]] = {
    "fallbacks": Fallback,
    "conflicts": Conflict,
    "evictions": EvictionDecision,
    "resolutions": Resolution,
    "evidence": QueryEvidence,
}
