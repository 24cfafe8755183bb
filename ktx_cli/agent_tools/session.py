"""What the tools of a loop really looked up: sources, what they have, and tables no source reads.

The tools keep it, not the model. A writer refuses a name that nobody has looked up.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from ktx_cli.agent_tools.fence import visible
from ktx_cli.agent_tools.finding import Find, Layers, find_in, in_memory
from ktx_cli.core import ConfigError, Diagnostic, KtxError, listing, one_line
from ktx_cli.documents import RawFile
from ktx_cli.llm import RuntimeTool, ToolInvocation, ToolOutput
from ktx_cli.project import Privacy, Tree, Workspace
from ktx_cli.prompts import Skill
from ktx_cli.protection import Need, Refused, _table_entries, source_id, sources_of
from ktx_cli.search import Hit, Scope, Shown
from ktx_cli.semantic import CalendarSettings, Model, Source, table_parts
from ktx_cli.sources import EvidenceForm
from ktx_cli.warehouses import QueryResult
from ktx_cli.wiki import GLOBAL


class Ledger:
    """Names that were looked up, as `warehouse/orders`, `warehouse/orders.amount`, `warehouse/table:raw.orders`."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = set(entries)

    def add(self, *ids: str) -> None:
        """Note names that were resolved."""
        self._entries.update(ids)

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def missing(self, needs: Iterable[Need]) -> list[Need]:
        """Return the names none of whose entries is there, each once."""
        found = {need.shown: need for need in needs if self._entries.isdisjoint(need.ids)}
        return [found[shown] for shown in sorted(found)]

    def to_json(self) -> list[str]:
        """Return the entries, sorted."""
        return sorted(self._entries)


def member_id(connection: str, source: str, member: str) -> str:
    """Return the entry of a column, measure or segment."""
    return f"{source_id(connection, source)}.{member.casefold()}"


def noted_ids(model: Model, parts: tuple[str, ...], member: str | None = None) -> frozenset[str]:
    """Return the entries to make of a table that was found in the database, or of a column of it."""
    names = {".".join(parts)} | ({f"*.{parts[-1]}"} if len(parts) > 1 else set())
    return _table_entries(model, parts, names, member)


def refusal_of(missing: Iterable[Need]) -> str:
    """Return what a model reads of names that were never looked up: all of them, with the calls that look them up."""
    needs = list(missing)
    if not needs:
        return ""
    by_tool: dict[str, list[str]] = {}
    for need in needs:
        by_tool.setdefault(need.tool, []).append(f"`{one_line(need.shown, 200)}`")
    lines = [f"- {', '.join(names)}: call {tool}" for tool, names in by_tool.items()]
    return "Never looked up in this session, so nothing was saved:\n" + "\n".join(lines)


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
        name = self.evidence.get("slug") or self.evidence.get("table") or ""
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
    """What the tools of one loop share.

    `workspace`: the loop's own overlay, a child of the run's: a rollback goes back to what it was made from.
    `connections`: ids of the databases it may read and write the semantic layer of -> their dialects.
    `configured`: those of all in `ktx.yaml`, None where there are no others. `raw`: the raw files that may be read, by
    path; `files`: those of them that are to be worked through, which a write may name as where it comes from. `origin`:
    what people call their source. `semantic` False: wiki pages alone, for `why_not`. `evidence`: what is
    given of the files, None where pages and definitions are written. `run_sql` None: there is no database to ask.
    `values`: asked only where `privacy` lets values go to a model. `find` None: a search reads the whole overlay.
    `refs_later`: a page may refer to one that is not there yet. `extra`: further tools, of documents for example.
    `written`: path of each file a tool wrote -> the artifact it is. `scope`: whose pages are written, and seen before
    everybody's. `accepted`: what no write may drop or change, None where everything may be changed.
    """

    workspace: Workspace
    connections: Mapping[str, str]
    configured: Collection[str] | None = None
    raw: Mapping[str, RawFile] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    origin: str = "this project"
    semantic: bool = True
    why_not: str = ""
    evidence: EvidenceForm | None = None
    calendar: CalendarSettings = field(default_factory=CalendarSettings)
    privacy: Privacy = "local"
    run_sql: RunSql | None = None
    values: SampleValues | None = None
    find: Find | None = None
    refs_later: bool = True
    skills: Mapping[str, Skill] = field(default_factory=dict)
    stage: StagedWork = field(default_factory=StagedWork)
    budget: PageBudget | None = None
    scope: str = GLOBAL
    accepted: Tree | None = None
    extra: tuple[RuntimeTool, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    actions: list[Action] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    written: dict[str, str] = field(default_factory=dict)
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

    def shown(self, connection: str) -> Shown:
        """Return what an agent may see of a connection: what is internal too, nothing hidden."""
        return Shown(self.model(connection), internal=True)

    def search(self, query: str, scope: Scope, limit: int) -> list[Hit]:
        """Return what fits a query among pages and the connections of this session, its own writes too."""
        return find_in(self.find or self._memory, self.workspace, self.connections, query, scope, limit)

    def raw_paths(self, named: Iterable[str] | None) -> tuple[str, ...]:
        """Return the raw files a write comes from; `Refused` for others than those to be worked through.

        Where none are named they are all of them, in a loop over a whole run none.
        """
        if named is None:
            return () if self.stage.units or self.stage.evictions else self.files
        paths = tuple(dict.fromkeys(named))
        others = [path for path in paths if path not in self.files]
        if others:
            raise Refused(
                f"raw_paths may name the files of this task alone, not {listing(others)}; "
                f"they are: {listing(self.files, 20) or 'none'}"
            )
        return paths

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
    """Return a file's content for JSON: text, or base64 where it is none; None for a deleted file."""
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


def note_hits(session: ToolSession, found: Iterable[Hit]) -> None:
    """Note what a search showed of the semantic layer."""
    for each in found:
        if each.kind == "source":
            session.ledger.add(source_id(each.connection, each.id))
        elif each.kind in ("measure", "segment", "column"):
            source, _, member = each.id.rpartition(".")
            session.ledger.add(source_id(each.connection, source), member_id(each.connection, source, member))


def hit_line(hit: Hit) -> str:
    """Return one line about a hit."""
    place = f" of {hit.connection}" if hit.connection else ""
    snippet = f" [{one_line(hit.snippet, 200)}]" if hit.snippet and hit.snippet not in hit.summary else ""
    return f"- {hit.kind} {hit.id}{place}: {one_line(hit.summary, 200)}{snippet}"


def named(shown: Shown, name: str) -> list[Source]:
    """Return the source of a name, else those that read the table of that name."""
    exact = shown.model.sources.get(name)
    alike = [each for each in shown.sources() if each.name.casefold() == name.casefold()]
    if exact is not None and shown.has(exact):
        return [exact]
    if alike:
        return alike
    try:
        parts = table_parts(name)
    except ConfigError:
        return []
    return [each for each in sources_of(shown.model, parts) if shown.has(each)]


LONGEST: Final = 24_000
"""Characters of a result: about 6,000 tokens."""

LONGEST_RAW: Final = 48_000
"""Characters of a result that is part of a raw file."""

RESERVE: Final = 600
"""Characters kept free for headings, the fence, and the sentence on what was cut."""


class Parts:
    """The parts of a result, as many as there is room for; a part is never broken."""

    def __init__(self, limit: int = LONGEST - RESERVE) -> None:
        self._left = limit
        self._parts: list[str] = []
        self.shown = 0
        self.left_out = 0

    def add(self, part: str) -> bool:
        """Take a part; False where there is no room for it, nor for any that comes later."""
        if self.left_out or len(part) + 1 > self._left:
            self.left_out += 1
            return False
        self._parts.append(part)
        self._left -= len(part) + 1
        self.shown += 1
        return True

    @property
    def room(self) -> int:
        """How many characters there is room for."""
        return self._left

    def text(self) -> str:
        """Return the parts, a line end between two."""
        return "\n".join(self._parts)

    def more(self, noun: str, how: str) -> str:
        """Return the sentence on what was left out, empty where nothing was."""
        if not self.left_out:
            return ""
        return f"(cut: {self.shown} of {self.shown + self.left_out} {noun} shown; {how})"


def cut_lines(text: str, limit: int) -> tuple[str, int]:
    """Return as many whole lines of a text as fit, at least a part of the first, and how many lines that are."""
    if len(text) <= limit:
        return text, text.count("\n") + 1
    place = text.rfind("\n", 0, limit + 1)
    kept = text[:place] if place > 0 else text[:limit]
    return kept, kept.count("\n") + 1


def shortened(text: str, limit: int) -> str:
    """Return a text on at most `limit` characters, with a mark where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def joined(*parts: str) -> str:
    """Return paragraphs, without the empty ones."""
    return "\n\n".join(part for part in parts if part)


log = logging.getLogger(__name__)


class Input(BaseModel):
    """The arguments of a tool: a key it does not have is an error, which the model reads."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of every session. `run` returns its result, and raises `Refused` for a call that changes nothing.

    `target`: what a call of a writer is about; None for a tool whose failures harm nothing. `longest`: characters of
    its result. `alone`: its calls wait for each other; a tool that waits for a database does not.
    """

    name: str
    description: str
    input_model: type[Input]
    run: Callable[[ToolSession, Any], ToolOutput | str]
    target: Callable[[ToolSession, Any], str] | None = None
    longest: int = LONGEST
    reads: bool = True
    alone: bool = True

    def on(self, session: ToolSession) -> RuntimeTool:
        """Return the tool as the loop of a session calls it."""

        def handler(value: Any) -> ToolOutput:
            return _called(self, session, value)

        return RuntimeTool(self.name, self.description, self.input_model, handler, read_only=self.reads)


def _called(tool: Tool, session: ToolSession, value: Any) -> ToolOutput:
    """Run a call and remember whether it failed; a failure nobody foresaw counts for every tool."""
    target = f"calls of {tool.name}" if tool.target is None else tool.target(session, value)
    try:
        output = _locked(tool, session, value)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        told = _told(error)
        if tool.target is not None:
            session.pending.failed(target, tool.name, told)
        raise Refused(told) from error
    except Exception as error:
        session.pending.failed(target, tool.name, type(error).__name__)
        raise
    session.pending.made_good(target)
    given = output if isinstance(output, ToolOutput) else ToolOutput(output, {"success": True})
    if len(given.markdown) > tool.longest:
        log.warning("the result of %s had %s characters", tool.name, len(given.markdown))
        return ToolOutput(f"{given.markdown[: tool.longest - 100]}\n\n(cut: ask for less at once)", given.structured)
    return given


def _told(error: KtxError) -> str:
    """Return what a model reads of a refusal; names in it may be anybody's."""
    return shortened(visible(error.message + (f" ({error.hint})" if error.hint else "")), LONGEST - RESERVE)


def _locked(tool: Tool, session: ToolSession, value: Any) -> ToolOutput | str:
    if not tool.alone:
        return tool.run(session, value)
    with session.lock:
        return tool.run(session, value)
