"""The session of a loop: what its tools may read and write, what they have done, and how a tool is called."""

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
from ktx_cli.project import CodeLists, Privacy, Tree, Workspace
from ktx_cli.prompts import Skill
from ktx_cli.protection import Refused
from ktx_cli.search import Hit, Scope
from ktx_cli.semantic import CalendarSettings, Model, Source, VisibleModel
from ktx_cli.sources import EvidenceForm
from ktx_cli.warehouses import QueryResult
from ktx_cli.wiki import GLOBAL, Contradiction, merged

if TYPE_CHECKING:
    from ktx_cli.semantic import CheckData

Target = Literal["wiki", "sl"]
ActionKind = Literal["created", "updated", "removed", "confirmed"]
"""`confirmed`: it said already what was to be written, so that it comes of these raw files too."""

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
"""Why something of a raw file did not become a source -> the words of the report."""


@dataclass(frozen=True, slots=True)
class Action(Record):
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
    contradictions: list[Contradiction] = field(default_factory=list)

    def contradicted(self, found: Contradiction) -> None:
        """Note a contradiction; one about the same topic and sources takes its new statements."""
        self.contradictions = merged([*self.contradictions, found])

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return all of them as plain values."""
        return {name: [asdict(each) for each in getattr(self, name)] for name in _TYPES}

    @classmethod
    def from_json(cls, stored: Mapping[str, list[dict[str, Any]]]) -> Records:
        """Return what `to_json` gave."""
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
    """A failure no later success made good. `target`: what the call was about, such as `wiki:refunds`."""

    target: str
    tool: str
    message: str


@dataclass(slots=True)
class Failures:
    """Failures by what they are about: the last of each, until a call about the same thing succeeds."""

    _pending: dict[str, Failure] = field(default_factory=dict)
    _instead: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Target -> the targets that say the same: a success about one of them makes its failure good."""

    def failed(self, target: str, tool: str, message: str) -> None:
        """Note a failure."""
        self._pending[target] = Failure(target, tool, message)

    def repeats(self, target: str, others: Iterable[str]) -> None:
        """Note that what is refused about a target would only repeat these others, or no others."""
        self._instead[target] = tuple(others)

    def made_good(self, target: str) -> None:
        """Note a success about a target."""
        repeating = [each for each, others in self._instead.items() if target in others]
        for each in (target, *repeating):
            self._pending.pop(each, None)
            self._instead.pop(each, None)

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
        return {
            target: [each.tool, each.message, *self._instead.get(target, ())] for target, each in self._pending.items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, list[str]]) -> Failures:
        """Return what `to_json` gave."""
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
    contradictions: Sequence[Contradiction] = ()
    """What the units recorded."""
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Artifact -> the raw files that it comes from and that are still there."""

    def unit(self, key: str) -> StagedUnit | None:
        """Return the unit of a key."""
        return next((each for each in self.units if each.key == key), None)


def shares_code_lists(privacy: Privacy, setting: CodeLists) -> bool:
    """Whether agents see whole code lists of a scan, though other values of rows stay on this machine."""
    return privacy == "local" and setting == "all"


log = logging.getLogger(__name__)

RunSql = Callable[[str, str, int], QueryResult]
"""Takes connection, statement and most rows; runs it through the one guard. Raises `KtxError`."""

SampleValues = Callable[[str, Source], Mapping[str, tuple[Any, ...]]]
"""Takes connection and source; returns column -> values that were seen in it, the most frequent first."""

_FORMAT: Final = 1


@dataclass(slots=True)
class PageBudget:
    """How many pages a loop may still create and change. The tool that writes them enforces it."""

    creates: int
    updates: int


@dataclass(slots=True)
class ToolSession:
    """What the tools of one loop share: what they may read and write, and what they have done.

    Only the first three groups of fields are given; the last one is filled while the loop runs.
    """

    workspace: Workspace
    """The loop's own overlay, a child of the run's: a rollback goes back to what it was made from."""
    connections: Mapping[str, str]
    """The databases it may read and write the semantic layer of -> their dialects."""
    configured: Collection[str] | None = None
    """The ids of all databases in `ktx.yaml`; None if there are no others."""

    # What it may read.
    raw: Mapping[str, RawFile] = field(default_factory=dict)
    """The raw files that may be read, by path."""
    files: tuple[str, ...] = ()
    """Those of them that are to be worked through, which a write may name as where it comes from."""
    source: str = ""
    """The connection that the raw files are of; empty where each path has its own in front."""
    origin: str = "this project"
    """What people call their source."""
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Raw files that may be read because pages of the task come from them too -> those pages."""
    foreign: Collection[str] = ()
    """The raw files of other sources, each path with its source in front."""
    citable: Mapping[str, Mapping[str, RawFile]] = field(default_factory=dict)
    """The documents that tools find passages of, by source and path: a contradiction may name them too."""
    stage: StagedWork = field(default_factory=StagedWork)
    """What it is shown of the run."""
    whole_run: bool = False
    """Whether it looks over a run or its candidates: a write may then name none of the files as its sources."""
    skills: Mapping[str, Skill] = field(default_factory=dict)
    scope: str = GLOBAL
    """Whose pages are written, and seen before everybody's."""
    calendar: CalendarSettings = field(default_factory=CalendarSettings)
    privacy: Privacy = "local"
    share_code_lists: CodeLists = "declared"
    run_sql: RunSql | None = None
    """Runs a statement; None: there is no database to ask."""
    check_data: CheckData | None = None
    """Checks what a write changes on the database; None: there is no database to ask."""
    values: SampleValues | None = None
    """Values of columns, asked for only where `privacy` lets them go to a model."""
    find: Find | None = None
    """Searches the overlay; None: a search reads all of it."""

    # What it may write.
    semantic: bool = True
    """Whether it may write definitions; else pages alone."""
    why_not: str = ""
    """Why it may write pages alone."""
    evidence: EvidenceForm | None = None
    """What is given of the files; None if pages and definitions are written."""
    refs_later: bool = True
    """Whether a page may refer to one that is not there yet."""
    accepted: Tree | None = None
    """What no write may drop or change; None if everything may be changed."""
    budget: PageBudget | None = None
    extra: tuple[RuntimeTool, ...] = ()
    """Further tools, of documents for example."""

    # What it has done.
    ledger: Ledger = field(default_factory=Ledger)
    actions: list[Action] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    written: dict[str, str] = field(default_factory=dict)
    """The path of each file a tool wrote -> the artifact it is."""
    pending: Failures = field(default_factory=Failures)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    layers: Layers = field(init=False, repr=False)
    _memory: Find = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.layers = Layers(self.connections, self.calendar, self.configured)
        self._memory = in_memory(self.layers)

    def connection(self, name: str | None) -> str:
        """Return the connection asked for, the only one where none was; `Refused` for one out of reach."""
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
        """Return the semantic layer of a connection as the overlay has it now."""
        return self.layers.model(self.workspace, connection)

    def models(self) -> dict[str, Model]:
        """Return those of all connections, by id."""
        return {connection: self.model(connection) for connection in sorted(self.connections)}

    def problems(self, tree: Tree, connection: str) -> tuple[Diagnostic, ...]:
        """Return what is wrong in a connection's files in a tree."""
        return self.layers.problems(tree, connection)

    def shown(self, connection: str) -> VisibleModel:
        """Return what an agent may see of a connection: what is internal too, nothing hidden."""
        return VisibleModel(self.model(connection), internal=True)

    def search(self, query: str, scope: Scope, limit: int) -> list[Hit]:
        """Return what fits a query among pages and the connections of this session, its own writes too."""
        return find_in(self.find or self._memory, self.workspace, self.connections, query, scope, limit)

    def known_path(self, named: str, among: Collection[str]) -> str | None:
        """Return the one of these raw files that a text names, with or without its source in front; None: none."""
        path = PurePosixPath(named).as_posix()
        own = path.removeprefix(f"{self.source}/") if self.source else path
        found = next((each for each in (named, path, own) if each in among), None)
        if found is not None or self.source:
            return found
        alike = [each for each in among if each.partition("/")[2] == path]
        return alike[0] if len(alike) == 1 else None

    def full_path(self, path: str) -> str:
        """Return the path of a raw file with its source in front; those of other sources have it already."""
        is_named = not self.source or path in self.foreign
        return path if is_named else f"{self.source}/{path}"

    def raw_paths(self, named: Iterable[str] | None) -> tuple[str, ...]:
        """Return the raw files a write comes from; `Refused` for others than those to be worked through.

        In a loop over a whole run these are also the deleted files, and none where none are named. Of a task with
        one file it is that file; a task with several has to name them.
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
        """Note a write to a file; of several of one artifact one action is left, with all the raw files."""
        self.written[path] = action.identity
        self._note(action)

    def confirmed(self, action: Action) -> None:
        """Note that an artifact says already what was to be written: it comes of the action's raw files too."""
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
        """Forget what was noted of an artifact."""
        self.written = {path: each for path, each in self.written.items() if each != identity}
        self.actions = [each for each in self.actions if each.identity != identity]

    def state(self) -> dict[str, Any]:
        """Return everything the loop has done, as JSON: `restore` on a new session of the same base goes on from it."""
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
        """Take over what `state` gave; `ValueError` for a state of another format."""
        if state.get("format") != _FORMAT:
            raise ValueError(f"a session of the format {state.get('format')!r} cannot be gone on with")
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


def _detail(before: list[Action]) -> str:
    return before[-1].detail if before else ""


def _stored(content: bytes | None) -> Any:
    """Return a file's content for JSON: text, or base64 where it is none, or None for a deleted file."""
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
    """What a call of a writer is about; None for a tool whose failures harm nothing."""
    longest: int = LONGEST
    """Characters of a result."""
    reads: bool = True
    """Whether it changes nothing."""
    alone: bool = True
    """Whether its calls wait for each other; a tool that waits for a database does not."""

    def on(self, session: ToolSession) -> RuntimeTool:
        """Return the tool as the loop of a session calls it."""

        def handler(value: Any) -> ToolOutput:
            return _called(self, session, value)

        return RuntimeTool(self.name, self.description, self.input_model, handler, read_only=self.reads)


def tool(**options: Any) -> Callable[[Callable[[ToolSession, Any], ToolOutput | str]], Tool]:
    """Make a tool of a function: the model sees its name, its docstring and the type of its `value`.

    `options`: the fields of `Tool` that are not so by themselves.
    """

    def made(run: Callable[[ToolSession, Any], ToolOutput | str]) -> Tool:
        function: Any = run
        arguments = function.__globals__[function.__annotations__["value"]]
        return Tool(function.__name__, " ".join(function.__doc__.split()), arguments, run, **options)

    return made


def _called(tool: Tool, session: ToolSession, value: Any) -> ToolOutput:
    """Run a call and remember whether it failed; a failure nobody foresaw counts for every tool."""
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
    """Return what a model reads of a refusal; names in it may be anybody's."""
    return shortened(visible(error.message + (f" ({error.hint})" if error.hint else "")), LONGEST - RESERVE)


def _locked(tool: Tool, session: ToolSession, value: Any) -> ToolOutput | str:
    if not tool.alone:
        return tool.run(session, value)
    with session.lock:
        return tool.run(session, value)
