"""One loop's tools at work: the overlay they write to, what they may touch, and what they have done."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.port import QueryResult
from ktx_cli.context.search.model import Hit, Scope
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.model import CalendarSettings, Model, Problem, Source
from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.tools.failures import Failure, Failures, Refused
from ktx_cli.context.tools.finding import Find, find_in, in_memory
from ktx_cli.context.tools.ledger import Ledger
from ktx_cli.context.tools.models import Layers
from ktx_cli.context.tools.records import Action, Records
from ktx_cli.context.tools.skills import Skill
from ktx_cli.context.tools.stage import Stage
from ktx_cli.context.wiki.keys import GLOBAL
from ktx_cli.core.text import listing
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import ToolInvocation
from ktx_cli.project.config.scan import Privacy
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

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
    what people call their source. `semantic` False: wiki pages alone, for `why_not`. `history`: the files are of a
    query history, of which evidence is given and nothing written. `run_sql` None: there is no database to ask.
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
    history: bool = False
    calendar: CalendarSettings = field(default_factory=CalendarSettings)
    privacy: Privacy = "local"
    run_sql: RunSql | None = None
    values: SampleValues | None = None
    find: Find | None = None
    refs_later: bool = True
    skills: Mapping[str, Skill] = field(default_factory=dict)
    stage: Stage = field(default_factory=Stage)
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

    def problems(self, tree: Tree, connection: str) -> tuple[Problem, ...]:
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

    def failures(self, invocations: Iterable[ToolInvocation] = ()) -> tuple[Failure, ...]:
        """Return the tool failures that nothing made good; `invocations`: all calls of the loop."""
        from ktx_cli.context.tools.toolset import writers_of

        return self.pending.unresolved(writers_of(self), invocations)

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
