"""What the tools of a loop record: artifacts written, decisions made, failures nothing made good, staged units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from ktx_cli.llm import ToolInvocation
from ktx_cli.wiki import GLOBAL

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
class SourceEvidence:
    """What an agent says of a raw file, as JSON of the shape its source asks for (`EvidenceForm`)."""

    raw_path: str
    evidence: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """What it is about: said again, it replaces what was said before."""
        name = next((self.evidence[key] for key in ("slug", "table", "name") if self.evidence.get(key)), "")
        return " ".join(filter(None, (self.evidence.get("kind", "evidence"), name, "of", self.raw_path)))


@dataclass(slots=True)
class Records:
    """The records of one loop, in their order."""

    fallbacks: list[Fallback] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    evictions: list[EvictionDecision] = field(default_factory=list)
    resolutions: list[Resolution] = field(default_factory=list)
    evidence: list[SourceEvidence] = field(default_factory=list)

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
    "evidence": SourceEvidence,
}


_FAILED: Final = "Tool `{name}` failed: "
"""What the text of a call begins with that reached its tool, and failed there."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure no later success made good. `target`: what the call was about, such as `wiki:refunds`."""

    target: str
    tool: str
    message: str


@dataclass(slots=True)
class Failures:
    """Failures by what they are about: the last of each, until a call about the same thing succeeds."""

    _pending: dict[str, Failure] = field(default_factory=dict)

    def failed(self, target: str, tool: str, message: str) -> None:
        """Note a failure."""
        self._pending[target] = Failure(target, tool, message)

    def made_good(self, target: str) -> None:
        """Note a success about a target."""
        self._pending.pop(target, None)

    def fell_back(self, table: str | None) -> None:
        """Note an accepted fallback: it makes the failure good of the source it names.

        One that names nothing makes the only failure of the semantic layer good, where there is just one.
        """
        sources = [target for target in self._pending if target.startswith("sl:")]
        if table is None:
            named = sources if len(sources) == 1 else []
        else:
            wanted = table.replace('"', "").rpartition(".")[2].casefold()
            named = [target for target in sources if target.rpartition("/")[2].casefold() == wanted]
        for target in named:
            self.made_good(target)

    def unresolved(self, writers: Iterable[str], invocations: Iterable[ToolInvocation]) -> tuple[Failure, ...]:
        """Return what nothing made good.

        `invocations`: all calls of the loop, for those of `writers` whose arguments did not fit never reached the tool,
        whoever said so (ktx, or Claude Code): they are made good by a later call of the same tool that did.
        """
        return (*self._pending.values(), *_unfit(set(writers), invocations).values())

    def to_json(self) -> dict[str, list[str]]:
        """Return the pending failures as plain values."""
        return {target: [each.tool, each.message] for target, each in self._pending.items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, list[str]]) -> Failures:
        """Return what `to_json` gave."""
        return cls({target: Failure(target, tool, message) for target, (tool, message) in stored.items()})


def _unfit(writers: set[str], invocations: Iterable[ToolInvocation]) -> dict[str, Failure]:
    pending: dict[str, Failure] = {}
    for invocation in invocations:
        if invocation.name not in writers:
            continue
        if invocation.is_error and not invocation.text.startswith(_FAILED.format(name=invocation.name)):
            target = f"arguments of {invocation.name}"
            pending[invocation.name] = Failure(target, invocation.name, invocation.text)
        else:
            pending.pop(invocation.name, None)
    return pending


@dataclass(frozen=True, slots=True)
class StagedUnit:
    """A unit of work as it ended. `status`: `done` or `failed`."""

    key: str
    label: str
    status: str
    files: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StagedWork:
    """The units of a run in their order, and deleted raw file -> the artifacts that came of it (`wiki:refunds`).

    `pins`: artifact names people have fixed: contested key -> the artifact that keeps it.
    """

    units: Sequence[StagedUnit] = ()
    evictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)

    def unit(self, key: str) -> StagedUnit | None:
        """Return the unit of a key."""
        return next((each for each in self.units if each.key == key), None)
