"""Runs the units of all sources side by side, as many as the configuration allows, until one error ends them all."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.agent_tools import (
    Find,
    Layers,
    Library,
    Stage,
    StagedWork,
    TaskPrompt,
    ToolSession,
    tools_for,
    unresolved_failures,
)
from ktx_cli.core import Emit, KtxError, WorkUnitFinished, WorkUnitStarted, WorkUnitStep, listing
from ktx_cli.documents import RawFile, WorkUnit
from ktx_cli.engine.base import Run
from ktx_cli.engine.documents.evidence import evidence_tools
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.journal import UnitJournal, UnitStore, store_key
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus, changes_of
from ktx_cli.llm import Abort, LlmRuntime, LoopResult, Step, ToolInvocation
from ktx_cli.project import Tree, Workspace
from ktx_cli.prompts import Skill
from ktx_cli.scan import ColumnValues, load_lists
from ktx_cli.search import is_of
from ktx_cli.semantic import CalendarSettings, Guard, Source, calendar_of
from ktx_cli.warehouses import QueryResult, dialect_of

ENDING: Final = frozenset({"auth", "billing", "isolation", "no_backend", "rate_limit", "budget"})
"""Codes of errors after which no unit can work: nothing new is begun, what is finished lands."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit of a source, and its place in the order in which units are merged."""

    work: SourceWork
    unit: WorkUnit

    def outcome(self, status: UnitStatus, reason: str = "") -> UnitOutcome:
        """Return the outcome of a unit that changes nothing."""
        return UnitOutcome(self.work.connection, self.work.kind, self.unit, status, reason)


class Stop:
    """Why no new unit is begun: an error that ends the run's model work, or the user."""

    def __init__(self) -> None:
        self.error: KtxError | None = None
        self.asked = False
        self.abort = Abort()

    @property
    def is_set(self) -> bool:
        """Whether nothing new is begun."""
        return self.asked or self.error is not None

    def note(self, error: KtxError, *, always: bool = False) -> bool:
        """Take note of a unit's error and say whether it ends everything; `always`: whatever it is."""
        if self.error is None and (always or error.code in ENDING):
            self.error = error
        return error.code in ENDING

    def now(self, error: KtxError | None = None) -> None:
        """End what is under way too; called in the loop of the model calls."""
        self.error = self.error or error
        self.abort.throw()


async def run_units(
    pieces: Sequence[Piece],
    one: Callable[[Piece], Awaitable[UnitOutcome]],
    *,
    at_once: int,
    stop: Stop,
) -> list[UnitOutcome]:
    """Return the outcomes in the order of the pieces; a piece that was not begun is `left`."""
    slots = asyncio.Semaphore(at_once)

    async def run(piece: Piece) -> UnitOutcome:
        async with slots:
            return piece.outcome(UnitStatus.LEFT, "the run ended before it") if stop.is_set else await one(piece)

    return list(await asyncio.gather(*(run(piece) for piece in pieces)))


@dataclass(frozen=True, slots=True)
class Loops:
    """What the loops of a run share. `session` opens the tools of a unit on an overlay of its own.

    `version`: of the prompts, the skills and the model: another one makes every stored unit worthless. `stage`: whose
    tools they have; in the stage `memory` the task holds the text itself, and nothing in it may be worth a tool call.
    """

    runtime: LlmRuntime
    store: UnitStore
    session: Callable[[Piece], ToolSession]
    prompt: Callable[[Piece, ToolSession], TaskPrompt]
    gates: Gates
    base: Tree
    stop: Stop
    version: str
    steps: int
    emit: Emit
    abort_on_failure: bool = False
    stage: Stage = "unit"

    async def run(self, piece: Piece) -> UnitOutcome:
        """Return how a unit ended: replayed from an earlier run, gone on with, or begun."""
        key = unit_key(piece, self.version)
        kept = self.store.outcome(key)
        if kept is not None:
            found = UnitOutcome.of_kept(piece.work.connection, piece.work.kind, piece.unit, kept)
            self.emit(WorkUnitFinished(found.connection, piece.unit.key, found.status.value, "", replayed=True))
            return replace(found, kept_as=key)
        self.emit(WorkUnitStarted(piece.work.connection, piece.unit.key, piece.unit.label, len(piece.unit.files)))
        outcome = replace(await self._worked(piece, key), kept_as=key)
        if outcome.status is UnitStatus.DONE:
            self.store.keep(key, outcome.connection, outcome.kind, piece.unit.key, outcome.kept())
        elif outcome.status is UnitStatus.FAILED:
            self.store.drop_steps(key)
            if self.abort_on_failure:
                self.stop.note(KtxError(f"the work unit `{piece.unit.key}` failed: {outcome.reason}"), always=True)
        self.emit(WorkUnitFinished(outcome.connection, piece.unit.key, outcome.status.value, outcome.reason))
        return outcome

    async def _worked(self, piece: Piece, key: str) -> UnitOutcome:
        session = self.session(piece)
        count = _Count(piece, self.emit)
        try:
            task = self.prompt(piece, session)
            result = await self.runtime.run_agent_loop(
                task.prompt,
                system=task.system,
                tools=tools_for(session, self.stage),
                step_budget=self.steps,
                role="candidateExtraction",
                on_step_finish=count.step,
                abort=self.stop.abort,
                journal=UnitJournal(self.store, key, state=session.state, restore=session.restore),
                label=f"{piece.work.connection}:{piece.unit.key}",
            )
        except KtxError as error:
            return self._broken(piece, error)
        if result.error is not None:
            return self._broken(piece, result.error)
        return self._judged(piece, session, result)

    def _broken(self, piece: Piece, error: KtxError) -> UnitOutcome:
        """Return the outcome of a loop that did not come to its end: left where the whole run cannot go on."""
        ends = self.stop.note(error) or error.code == "cancelled"
        return piece.outcome(UnitStatus.LEFT if ends else UnitStatus.FAILED, error.message)

    def _judged(self, piece: Piece, session: ToolSession, result: LoopResult) -> UnitOutcome:
        outcome = replace(
            piece.outcome(UnitStatus.DONE),
            changes=changes_of(session.workspace, self.base),
            session={key: value for key, value in session.state().items() if key in ("actions", "records")},
            steps=result.facts.steps,
            tool_calls=result.facts.tool_calls,
            budget_used=result.stop_reason == "budget",
        )
        if not outcome.tool_calls and self.stage == "unit":
            return outcome.failed(UnitStatus.FAILED, "the model ended without having called a tool")
        failures = unresolved_failures(session, result.invocations)
        if failures:
            said = listing(f"{each.target}: {each.message}" for each in failures)
            return outcome.failed(UnitStatus.FAILED, f"tool failures nothing made good: {said}")
        has_read = outcome.did_something or self.stage != "unit"
        ignored = [] if has_read else unread(piece.unit.files, result.invocations)
        if ignored:
            return outcome.failed(UnitStatus.FAILED, f"the model ended without having read {listing(ignored)}")
        wrong = self.gates.definitions(session.workspace, outcome.changes)
        if wrong:
            return outcome.failed(UnitStatus.FAILED, f"definitions it wrote are wrong: {listing(map(str, wrong))}")
        return outcome


@dataclass(slots=True)
class _Count:
    """Tells the steps of a unit, with how many tools were called so far."""

    piece: Piece
    emit: Emit
    calls: int = 0

    def step(self, step: Step) -> None:
        self.calls += len(step.tool_names)
        work, unit = self.piece.work, self.piece.unit
        self.emit(WorkUnitStep(work.connection, unit.key, step.index, step.budget, self.calls))


def unit_key(piece: Piece, version: str) -> str:
    """Return what a unit is made from: the same key is the same work."""
    work, unit = piece.work, piece.unit
    parts = [
        version,
        unit.key,
        unit.notes,
        unit.semantic,
        _shas(unit.files, work.snapshot.files),
        _shas(unit.dependencies, work.snapshot.files),
    ]
    return store_key(work.connection, work.kind, parts)


def _shas(paths: Sequence[str], files: Mapping[str, RawFile]) -> list[list[str]]:
    return [[path, files[path].sha256] for path in paths if path in files]


_READERS: Final = frozenset(("read_raw_file", "read_raw_span"))
_OF_EVIDENCE: Final = "context_evidence_read"
"""It names passages, not files: whoever calls it has looked at the documents."""


def unread(files: Sequence[str], invocations: Iterable[ToolInvocation]) -> list[str]:
    """Return the files of a unit that no call asked for; one that was refused was asked for."""
    asked: set[str] = set()
    for each in invocations:
        if each.name == _OF_EVIDENCE:
            return []
        if each.name in _READERS and not isinstance(each.arguments, str):
            asked.add(PurePosixPath(str(each.arguments.get("path"))).as_posix())
    return [path for path in files if path not in asked]


def agents_needed(works: Sequence[SourceWork], database: sqlite3.Connection) -> bool:
    """Say whether there is a unit, a deleted file of which something came, or a candidate that waits."""
    if any(work.units for work in works if work.error is None) or any(evicted(work) for work in works):
        return True
    waiting = set(database.execute("SELECT DISTINCT connection, kind FROM waiting_candidates"))
    return any((work.connection, work.kind) in waiting for work in works if work.error is None)


def evicted(work: SourceWork) -> dict[str, tuple[str, ...]]:
    """Return the deleted raw files of a source -> the artifacts that came of them."""
    found = {path: work.manifest.files[path].artifacts for path in work.changes.deleted if path in work.manifest.files}
    return {path: artifacts for path, artifacts in found.items() if artifacts}


MOST: Final = 5
"""Values an agent sees of a column, the most frequent ones."""


class Samples:
    """The value lists of the last scans; those of a connection are read when they are first asked for."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._lists: dict[str, dict[str, list[ColumnValues]]] = {}

    def __call__(self, connection: str, source: Source) -> Mapping[str, tuple[Any, ...]]:
        """Return column -> values; a column without a list is not among them."""
        if source.table is None:
            return {}
        return {
            column.name: tuple(value for value, _ in listed.values[:MOST])
            for listed in self._of(connection).get(source.table[-1].casefold(), ())
            if is_of(source, listed.ref)
            and (column := source.column(listed.column)) is not None
            and column.expr is None
            and listed.values
        }

    def _of(self, connection: str) -> Mapping[str, list[ColumnValues]]:
        if connection not in self._lists:
            found: dict[str, list[ColumnValues]] = {}
            for each in load_lists(self._database, connection):
                found.setdefault(each.ref.name.casefold(), []).append(each)
            self._lists[connection] = found
        return self._lists[connection]


@dataclass(frozen=True, slots=True)
class Opener:
    """Makes tool sessions. `base`: the overlay every unit begins with."""

    run: Run
    base: Workspace
    skills: Mapping[str, Skill]
    library: Library
    layers: Layers
    samples: Samples
    find: Find

    def unit(self, piece: Piece) -> ToolSession:
        """Return the tools of a unit, on an overlay of its own."""
        unit, files = piece.unit, piece.work.snapshot.files
        session = self._session(
            self.base.child(),
            raw={path: files[path] for path in unit.readable if path in files},
            files=unit.files,
            origin=piece.work.name,
            semantic=unit.semantic,
            why_not=unit.why_not,
            evidence=piece.work.source.evidence,
        )
        if piece.work.source.documents:
            session.extra = evidence_tools(session, self.library)
        return session

    def capture(
        self, piece: Piece, *, scope: str, connections: Mapping[str, str], accepted: Tree | None
    ) -> ToolSession:
        """Return the tools of a capture, on an overlay of its own; see `ToolSession` for `scope` and `accepted`."""
        unit = piece.unit
        return self._session(
            self.base.child(),
            raw=piece.work.snapshot.files,
            files=unit.files,
            origin=piece.work.snapshot.origin,
            semantic=unit.semantic,
            why_not=unit.why_not,
            scope=scope,
            connections=connections,
            accepted=accepted,
            refs_later=False,
        )

    def curate(self, work: SourceWork, workspace: Workspace, stage: StagedWork, files: tuple[str, ...]) -> ToolSession:
        """Return the tools of a pass over candidates; its writes may name `files`."""
        return self._session(workspace, raw=work.snapshot.files, files=files, origin=work.name, stage=stage)

    def reconcile(self, workspace: Workspace, stage: StagedWork) -> ToolSession:
        """Return the tools of the loop that looks over the whole run."""
        works = self.run.works
        raw = {f"{work.connection}/{path}": file for work in works for path, file in work.snapshot.files.items()}
        return self._session(workspace, raw=raw, files=tuple(raw), stage=stage)

    def _session(
        self, workspace: Workspace, connections: Mapping[str, str] | None = None, **fields: object
    ) -> ToolSession:
        config = self.run.config
        return ToolSession(
            workspace,
            connections=dialects(self.run) if connections is None else connections,
            configured=config.connections.keys(),
            calendar=self._calendar(),
            privacy=config.scan.privacy,
            run_sql=self._run_sql,
            values=self.samples,
            find=self.find,
            skills=self.skills,
            **fields,  # type: ignore[arg-type]
        )

    def _calendar(self) -> CalendarSettings:
        return calendar_of(self.run.config)

    def _run_sql(self, connection: str, sql: str, limit: int) -> QueryResult:
        run = self.run
        model = self.layers.model(self.base, connection)
        tables = [each.table for each in model.sources.values() if each.table is not None]
        guard = Guard.of(run.layout, run.config, connection, tables)
        guard.check(sql, max_rows=limit)
        with guard.open(run.config, layout=run.layout, environ=run.request.environ) as connector:
            return connector.query(sql, max_rows=limit)


def dialects(run: Run) -> dict[str, str]:
    """Return the databases of the project that have SQL of their own -> its name."""
    found = {each: dialect_of(entry.driver) for each, entry in run.config.databases().items()}
    return {each: dialect for each, dialect in found.items() if dialect is not None}
