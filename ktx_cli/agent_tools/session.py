"""The session of a loop: the permissions and actions of its tools, and how a tool is called."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from ktx_cli.agent_tools.fence import LONGEST, RESERVE, shortened, visible
from ktx_cli.agent_tools.layers import Find, Layers, find_in, in_memory
from ktx_cli.agent_tools.ledger import Ledger
from ktx_cli.core import Diagnostic, KtxError, Record, listing
from ktx_cli.documents import RawFile
from ktx_cli.llm import FAILED_CALL, RuntimeTool, ToolInvocation, ToolOutput
from ktx_cli.project import SCHEMA_NAME, SEMANTIC_NAME, CodeLists, Privacy, Tree, Workspace, checked_path
from ktx_cli.prompts import Skill
from ktx_cli.protection import Refused
from ktx_cli.search import Hit, Scope
from ktx_cli.semantic import SUFFIXES, CalendarSettings, Model, Source, VisibleModel
from ktx_cli.sources import EvidenceForm
from ktx_cli.warehouses import QueryResult
from ktx_cli.wiki import GLOBAL, Contradiction, merged, place_of

if TYPE_CHECKING:
    from ktx_cli.semantic import CheckData

Target = Literal["wiki", "sl"]
ActionKind = Literal["created", "updated", "removed", "confirmed"]
"""`confirmed`: the artifact already had the content to be written, so it also comes from these raw files."""

REASONS: Final[Mapping[str, str]] = {
    "no_connection_mapping": "it belongs to no connection of this project",
    "looker_template_unresolved": "it contains a Looker template whose value is unknown",
    "derived_table_not_supported": "its derived table cannot be written as a source",
    "no_physical_table": "it names no physical table",
    "multiple_table_references": "it names several tables, and it is unclear which one it is about",
    "unsupported_dialect": "its SQL is in a dialect that this connection does not support",
    "parse_error": "its SQL cannot be read",
    "missing_target_table": "this connection does not have the table it names",
    "cumulative_metric_unsupported": "its cumulative metric cannot be written as a measure",
    "conversion_metric_unsupported": "its conversion metric cannot be written as a measure",
}
"""Reason why part of a raw file did not become a source -> its wording in the report."""


@dataclass(frozen=True, slots=True)
class Action(Record):
    """An artifact that a loop wrote or removed. `raw_paths`: the raw files it comes from. `connection`: set for a
    source.
    """

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


def page_artifact(scope: str, key: str) -> str:
    """Return the artifact name of a page: `wiki:<key>`, or `wiki:user/<id>/<key>` for a user's own page."""
    return f"wiki:{named_page(scope, key)}"


def named_page(scope: str, key: str) -> str:
    """Return a page's key for an action: prefixed with the scope unless the page is global."""
    return key if scope == GLOBAL else f"{scope}/{key}"


@dataclass(frozen=True, slots=True)
class Fallback:
    """A part of a raw file that did not become a source. `detail`: the reason, in the tool's own words."""

    raw_path: str
    reason: str
    fallback: str
    detail: str
    table_ref: str | None = None
    clarification: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two contradictory statements. `flagged`: a person should review it.

    `accepted` and `captured` are the current statement and the one that contradicts it, if both are known verbatim.
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
    """The decision about an artifact whose raw file was deleted: `removed` or `kept`."""

    raw_path: str
    artifact: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """An artifact that was combined with another: `merged` or `subsumed`."""

    raw_path: str
    artifact: str
    into: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """An agent's statement about a raw file, as JSON in the form that its source requires (`EvidenceForm`)."""

    raw_path: str
    evidence: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """The subject of the evidence: a later statement about it replaces an earlier one."""
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
    contradictions: list[Contradiction] = field(default_factory=list)

    def contradicted(self, found: Contradiction) -> None:
        """Record a contradiction; an existing one about the same topic and sources gets its new statements."""
        self.contradictions = merged([*self.contradictions, found])

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return all records as plain values."""
        return {name: [asdict(each) for each in getattr(self, name)] for name in _TYPES}

    @classmethod
    def from_json(cls, stored: Mapping[str, list[dict[str, Any]]]) -> Records:
        """Return the records that `to_json` stored."""
        return cls(**{name: [made(each) for each in stored.get(name, ())] for name, made in _TYPES.items()})


_TYPES: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "fallbacks": lambda stored: Fallback(**stored),
    "conflicts": lambda stored: Conflict(**stored),
    "evictions": lambda stored: EvictionDecision(**stored),
    "resolutions": lambda stored: Resolution(**stored),
    "evidence": lambda stored: SourceEvidence(**stored),
    "contradictions": Contradiction.from_json,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that no later success resolved. `target`: what the call was about, such as `wiki:refunds`."""

    target: str
    tool: str
    message: str


@dataclass(slots=True)
class Failures:
    """Failures by target: the last one for each, until a call about the same target succeeds."""

    _pending: dict[str, Failure] = field(default_factory=dict)
    _instead: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Target -> the targets with the same content: a success for one of them resolves its failure."""

    def failed(self, target: str, tool: str, message: str) -> None:
        """Record a failure."""
        self._pending[target] = Failure(target, tool, message)

    def repeats(self, target: str, others: Iterable[str]) -> None:
        """Record which other targets the refused content of a target would only repeat, if any."""
        self._instead[target] = tuple(others)

    def made_good(self, target: str) -> None:
        """Record a success for a target."""
        repeating = [each for each, others in self._instead.items() if target in others]
        for each in (target, *repeating):
            self._pending.pop(each, None)
            self._instead.pop(each, None)

    def fell_back(self, table: str | None) -> None:
        """Record an accepted fallback, which resolves the failure of the source it names.

        A fallback that names no source resolves the semantic layer's failure if there is exactly one.
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
        """Return the unresolved failures.

        `invocations`: all calls of the loop. Calls to `writers` with invalid arguments never reached the tool, whether
        ktx or Claude Code rejected them; a later call to the same tool that reaches it resolves them.
        """
        return (*self._pending.values(), *_unfit(set(writers), invocations).values())

    def to_json(self) -> dict[str, list[str]]:
        """Return the pending failures as plain values."""
        return {
            target: [each.tool, each.message, *self._instead.get(target, ())] for target, each in self._pending.items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, list[str]]) -> Failures:
        """Return the failures that `to_json` stored."""
        pending = {target: Failure(target, tool, message) for target, (tool, message, *_) in stored.items()}
        return cls(pending, {target: tuple(others) for target, (_, _, *others) in stored.items() if others})


def _unfit(writers: set[str], invocations: Iterable[ToolInvocation]) -> dict[str, Failure]:
    pending: dict[str, Failure] = {}
    for invocation in invocations:
        if invocation.name not in writers:
            continue
        if invocation.is_error and not invocation.text.startswith(FAILED_CALL.format(name=invocation.name)):
            pending[invocation.name] = Failure(f"arguments of {invocation.name}", invocation.name, invocation.text)
        else:
            pending.pop(invocation.name, None)
    return pending


@dataclass(frozen=True, slots=True)
class StagedUnit:
    """A finished work unit. `status`: `done` or `failed`."""

    key: str
    label: str
    status: str
    files: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StagedWork:
    """The units of a run in order, and deleted raw file -> the artifacts that came from it (`wiki:refunds`).

    `pins`: artifact names that people have fixed: contested key -> the artifact that keeps it.
    """

    units: Sequence[StagedUnit] = ()
    evictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    contradictions: Sequence[Contradiction] = ()
    """The contradictions that the units recorded."""
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Artifact -> the raw files that it comes from and that still exist."""

    def unit(self, key: str) -> StagedUnit | None:
        """Return the unit with a key."""
        return next((each for each in self.units if each.key == key), None)


def shares_code_lists(privacy: Privacy, setting: CodeLists) -> bool:
    """Whether agents see complete code lists from a scan, although other row values stay on this machine."""
    return privacy == "local" and setting == "all"


log = logging.getLogger(__name__)

RunSql = Callable[[str, str, int], QueryResult]
"""Takes connection, statement and row limit; runs the statement through the single guard. Raises `KtxError`."""

RunPipeline = Callable[[str, str, Sequence[Mapping[str, Any]], int], QueryResult]
"""Takes connection, collection, checked pipeline and row limit; runs the pipeline. Raises `KtxError`."""

SampleValues = Callable[[str, Source], Mapping[str, tuple[Any, ...]]]
"""Takes connection and source; returns column -> values seen in it, most frequent first."""

_FORMAT: Final = 1


@dataclass(slots=True)
class PageBudget:
    """The number of pages that a loop may still create and change. The tool that writes them enforces it."""

    creates: int
    updates: int


@dataclass(slots=True)
class ToolSession:
    """The state that the tools of one loop share: their permissions and their actions.

    Only the first three groups of fields are passed in; the last one is filled while the loop runs.
    """

    workspace: Workspace
    """The loop's own overlay, a child of the run's: a rollback restores the state that it was created from."""
    connections: Mapping[str, str]
    """The databases whose semantic layer the loop may read and write -> their dialects."""
    configured: Collection[str] | None = None
    """The ids of all databases in `ktx.yaml`; None if `connections` has all of them."""

    # What it may read.
    raw: Mapping[str, RawFile] = field(default_factory=dict)
    """The raw files that may be read, by path."""
    files: tuple[str, ...] = ()
    """The raw files to work through, which a write may name as its origin."""
    source: str = ""
    """The connection that the raw files belong to; empty if each path begins with its own connection."""
    origin: str = "this project"
    """The human-readable name of the raw files' source."""
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Raw files that may be read because the task's pages also come from them -> those pages."""
    foreign: Collection[str] = ()
    """The raw files of other sources; each path begins with its source."""
    citable: Mapping[str, Mapping[str, RawFile]] = field(default_factory=dict)
    """The documents in which tools find passages, by source and path; contradictions may name them too."""
    stage: StagedWork = field(default_factory=StagedWork)
    """The part of the run that the loop can see."""
    whole_run: bool = False
    """Whether the loop reviews a whole run or its candidates; a write then need not name raw files."""
    skills: Mapping[str, Skill] = field(default_factory=dict)
    scope: str = GLOBAL
    """The scope whose pages are written, and take precedence over global pages."""
    calendar: CalendarSettings = field(default_factory=CalendarSettings)
    privacy: Privacy = "local"
    share_code_lists: CodeLists = "declared"
    run_sql: RunSql | None = None
    """Runs a statement; None if there is no database to query."""
    run_pipeline: RunPipeline | None = None
    """Runs an aggregation pipeline; None if there is no database to query."""
    pipelines: Collection[str] = ()
    """The databases that run aggregation pipelines."""
    check_data: CheckData | None = None
    """Checks a write's changes against the database; None if there is no database to query."""
    values: SampleValues | None = None
    """Column values, requested only if `privacy` allows models to see them."""
    find: Find | None = None
    """Searches the overlay; if None, a search reads all of it."""

    # What it may write.
    semantic: bool = True
    """Whether the loop may write definitions; otherwise only pages."""
    why_not: str = ""
    """Why the loop may only write pages."""
    evidence: EvidenceForm | None = None
    """The form of evidence to record; None if the loop writes pages and definitions."""
    refs_later: bool = True
    """Whether a page may refer to a page that does not exist yet."""
    accepted: Tree | None = None
    """The context that no write may drop or change; None if everything may be changed."""
    budget: PageBudget | None = None
    extra: tuple[RuntimeTool, ...] = ()
    """Further tools, for example for documents."""

    # What it has done.
    ledger: Ledger = field(default_factory=Ledger)
    actions: list[Action] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    written: dict[str, str] = field(default_factory=dict)
    """The path of each file that a tool wrote -> its artifact."""
    pending: Failures = field(default_factory=Failures)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    layers: Layers = field(init=False, repr=False)
    _memory: Find = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.layers = Layers(self.connections, self.calendar, self.configured)
        self._memory = in_memory(self.layers)

    def connection(self, name: str | None) -> str:
        """Return the requested connection, or the only one if none was requested; raises `Refused` if it is not
        available.
        """
        known = sorted(self.connections)
        if name is None and len(known) == 1:
            return known[0]
        if name in self.connections:
            return str(name)
        if not known:
            raise Refused("no connection with a semantic layer is available here")
        if name is None:
            raise Refused(f"several connections are available: name one as `connection`: {listing(known, 20)}")
        raise Refused(f"the connection `{name}` is not available here; available: {listing(known, 20)}")

    def model(self, connection: str) -> Model:
        """Return a connection's current semantic layer in the overlay."""
        return self.layers.model(self.workspace, connection)

    def models(self) -> dict[str, Model]:
        """Return the semantic layers of all connections, by id."""
        return {connection: self.model(connection) for connection in sorted(self.connections)}

    def problems(self, tree: Tree, connection: str) -> tuple[Diagnostic, ...]:
        """Return the problems in a connection's files in a tree."""
        return self.layers.problems(tree, connection)

    def shown(self, connection: str) -> VisibleModel:
        """Return what an agent may see of a connection, including internal but not hidden parts."""
        return VisibleModel(self.model(connection), internal=True)

    def search(self, query: str, scope: Scope, limit: int) -> list[Hit]:
        """Return the hits for a query in pages and this session's connections, including its own writes."""
        return find_in(self.find or self._memory, self.workspace, self.connections, query, scope, limit)

    def known_path(self, named: str, among: Collection[str]) -> str | None:
        """Return the raw file that a text names, with or without its source as prefix, or None if there is none."""
        path = PurePosixPath(named).as_posix()
        own = path.removeprefix(f"{self.source}/") if self.source else path
        found = next((each for each in (named, path, own) if each in among), None)
        if found is not None or self.source:
            return found
        alike = [each for each in among if each.partition("/")[2] == path]
        return alike[0] if len(alike) == 1 else None

    def full_path(self, path: str) -> str:
        """Return a raw file's path prefixed with its source; files of other sources already have the prefix."""
        is_named = not self.source or path in self.foreign
        return path if is_named else f"{self.source}/{path}"

    def raw_paths(self, named: Iterable[str] | None) -> tuple[str, ...]:
        """Return the raw files that a write comes from; raises `Refused` for files that are not among those to work
        through.

        A loop over a whole run may also name deleted files, or none. In a task with one file, that file is the default;
        a task with several files must name them.
        """
        if named is None:
            if len(self.files) > 1 and not self.whole_run:
                raise Refused(
                    "this task has several files: list those that this comes from in raw_paths; "
                    f"files: {listing(self.files, 20)}"
                )
            return () if self.whole_run else self.files
        allowed = dict.fromkeys((*self.files, *(self.stage.evictions if self.whole_run else ())))
        found = {each: self.known_path(each, allowed) for each in named}
        others = [each for each, path in found.items() if path is None]
        if others:
            raise Refused(
                f"raw_paths can only list files of this task, not {listing(others)}; "
                f"files: {listing(allowed, 20) or 'none'}"
            )
        return tuple(dict.fromkeys(path for path in found.values() if path is not None))

    def acted(self, action: Action, path: str) -> None:
        """Record a write to a file; several writes to one artifact become a single action with all raw files."""
        self.written[path] = action.identity
        self._note(action)

    def confirmed(self, action: Action) -> None:
        """Record that an artifact already has the content to be written, so it also comes from the action's raw
        files.
        """
        if action.raw_paths:
            self._note(action)

    def _note(self, action: Action) -> None:
        before = [each for each in self.actions if each.identity == action.identity]
        self.actions = [each for each in self.actions if each.identity != action.identity]
        paths = tuple(dict.fromkeys((*(path for each in before for path in each.raw_paths), *action.raw_paths)))
        created = bool(before) and before[0].kind == "created"
        if created and action.kind == "removed":
            return
        kind = "created" if created else "updated" if before and action.kind == "created" else action.kind
        if before and action.kind == "confirmed":
            kind = before[0].kind
        self.actions.append(
            Action(action.target, kind, action.key, action.connection, paths, action.detail or _detail(before))
        )

    def undone(self, identity: str) -> None:
        """Forget the recorded writes to an artifact."""
        self.written = {path: each for path, each in self.written.items() if each != identity}
        self.actions = [each for each in self.actions if each.identity != identity]

    def state(self) -> dict[str, Any]:
        """Return everything the loop has done, as JSON, so that `restore` on a new session with the same base can
        resume.
        """
        return {
            "format": _FORMAT,
            "files": {path: _stored(content) for path, content in self.workspace.changes().items()},
            "written": dict(self.written),
            "ledger": self.ledger.to_json(),
            "actions": [action.to_json() for action in self.actions],
            "records": self.records.to_json(),
            "failures": self.pending.to_json(),
            "budget": None if self.budget is None else [self.budget.creates, self.budget.updates],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned; raises `ValueError` for another format, or with foreign files."""
        if state.get("format") != _FORMAT:
            raise ValueError(f"a session in the format {state.get('format')!r} cannot be resumed")
        if foreign := foreign_files(state["files"]):
            raise ValueError(f"tools do not write {foreign[0]!r}")
        for path in self.workspace.changes():
            self.workspace.drop(path)
        for path, stored in state["files"].items():
            content = _content(stored)
            self.workspace.delete(path) if content is None else self.workspace.write(path, content)
        self.written = dict(state["written"])
        self.ledger = Ledger(state["ledger"])
        self.actions = [Action(**{**each, "raw_paths": tuple(each["raw_paths"])}) for each in state["actions"]]
        self.records = Records.from_json(state["records"])
        self.pending = Failures.from_json(state["failures"])
        self.budget = None if state["budget"] is None else PageBudget(*state["budget"])


def foreign_files(paths: Iterable[str]) -> list[str]:
    """Return the paths that no tool writes: whatever is not a wiki page or an editable file of a semantic layer."""
    return [path for path in paths if not _is_written(path)]


def _is_written(path: str) -> bool:
    try:
        if checked_path(path) != path:
            return False
    except KtxError:
        return False
    parts = path.split("/")
    is_layer = parts[0] == SEMANTIC_NAME and len(parts) > 2 and parts[2] != SCHEMA_NAME and path.endswith(SUFFIXES)
    return is_layer or place_of(path) is not None


def _detail(before: list[Action]) -> str:
    return before[-1].detail if before else ""


def _stored(content: bytes | None) -> Any:
    """Return a file's content for JSON: text, or base64 if it is not text, or None for a deleted file."""
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _content(stored: Any) -> bytes | None:
    if isinstance(stored, Mapping):
        return base64.b64decode(stored["base64"])
    return None if stored is None else str(stored).encode("utf-8")


class Input(BaseModel):
    """The arguments of a tool: a key it does not have is an error, which the model reads."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of every session."""

    name: str
    description: str
    input_model: type[Input]
    run: Callable[[ToolSession, Any], ToolOutput | str]
    """Returns the result of a call, and raises `Refused` for one that changes nothing."""
    target: Callable[[ToolSession, Any], str] | None = None
    """The target of a writing tool's call; None for a tool whose failures are harmless."""
    longest: int = LONGEST
    """Characters of a result."""
    reads: bool = True
    """Whether the tool changes nothing."""
    alone: bool = True
    """Whether the tool's calls wait for each other; those of a tool that waits for a database do not."""

    def on(self, session: ToolSession) -> RuntimeTool:
        """Return the tool as a session's loop calls it."""

        def handler(value: Any) -> ToolOutput:
            return _called(self, session, value)

        return RuntimeTool(self.name, self.description, self.input_model, handler, read_only=self.reads)


def tool(**options: Any) -> Callable[[Callable[[ToolSession, Any], ToolOutput | str]], Tool]:
    """Make a tool of a function: the model sees its name, its docstring and the type of its `value`.

    `options`: the fields of `Tool` that differ from their defaults.
    """

    def made(run: Callable[[ToolSession, Any], ToolOutput | str]) -> Tool:
        function: Any = run
        arguments = function.__globals__[function.__annotations__["value"]]
        return Tool(function.__name__, " ".join(function.__doc__.split()), arguments, run, **options)

    return made


def _called(tool: Tool, session: ToolSession, value: Any) -> ToolOutput:
    """Run a call and remember whether it failed; an unexpected failure counts for every tool."""
    target = f"calls of {tool.name}" if tool.target is None else tool.target(session, value)
    try:
        output = _locked(tool, session, value)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        text = _refusal(error)
        if tool.target is not None:
            session.pending.failed(target, tool.name, text)
        raise Refused(text) from error
    except Exception as error:
        session.pending.failed(target, tool.name, type(error).__name__)
        raise
    session.pending.made_good(target)
    result = output if isinstance(output, ToolOutput) else ToolOutput(output, {"success": True})
    if len(result.markdown) > tool.longest:
        log.warning("the result of %s had %s characters", tool.name, len(result.markdown))
        return ToolOutput(f"{result.markdown[: tool.longest - 100]}\n\n(cut: request less at once)", result.structured)
    return result


def _refusal(error: KtxError) -> str:
    """Return the text of a refusal for the model; names in it may come from anyone."""
    return shortened(visible(error.message + (f" ({error.hint})" if error.hint else "")), LONGEST - RESERVE)


def _locked(tool: Tool, session: ToolSession, value: Any) -> ToolOutput | str:
    if not tool.alone:
        return tool.run(session, value)
    with session.lock:
        return tool.run(session, value)
