"""The work of a run: sources with their changes, units with their outcomes, and what is stored between runs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from ktx_cli import sources
from ktx_cli.agent_tools import Action, foreign_files
from ktx_cli.core import Command, KtxError, Record, StorageError, isoformat, now, plural
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.llm import Cost, StoredStep, Usage, taken_by
from ktx_cli.project import CONTRADICTIONS_NAME, Conflict, StateDatabase, Tree, Workspace, transaction, translated
from ktx_cli.semantic import Fidelity
from ktx_cli.wiki import GLOBAL, Contradiction, page_path

if TYPE_CHECKING:
    from ktx_cli.llm import CallFacts

Conclusions = Mapping[sources.SourceKey, sources.Conclusion]
"""What each source wrote after its units were merged."""


@dataclass(frozen=True, slots=True)
class Became:
    """What a run did to artifacts, regardless of the source they came from."""

    removed: frozenset[str] = frozenset()
    merged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Artifact -> the artifacts that its text went into."""

    def of(self, artifacts: Iterable[str]) -> set[str]:
        """Return what some artifacts are after the run: unchanged, or the artifacts they were merged into."""
        left: set[str] = set()
        seen: set[str] = set()
        waiting = list(artifacts)
        while waiting:
            artifact = waiting.pop()
            if artifact not in seen:
                seen.add(artifact)
                left |= set() if artifact in self.removed else {artifact}
                waiting += self.merged.get(artifact, ())
        return left

    def without(self, held: Collection[str]) -> Became:
        """Return the results for the case that the held files keep their old content: pages in them still exist."""
        return replace(self, removed=frozenset(each for each in self.removed if page_file(each) not in held))


def page_file(artifact: str) -> str | None:
    """Return the file of a global page, or None for any other artifact."""
    kind, _, name = artifact.partition(":")
    return page_path(GLOBAL, name) if kind == "wiki" and "/" not in name else None


_IMPORTED: Final = {"kept": "imported", "approximated": "approximated", "dropped": "skipped"}
"""The kind of an imported item -> the word for it in results."""
_CHANGES: Final[Mapping[str, str]] = {
    "added": "added",
    "modified": "modified",
    "retried": "retried",
    "unread": "not read by a model",
    "deleted": "deleted",
}
"""Possible outcome of a file -> the word for it."""


@dataclass(frozen=True, slots=True)
class SourceWork(Record):
    """A run's work on one source of a connection."""

    connection: str
    entry: Any
    """The settings of the connection."""
    source: sources.Source
    delivered: sources.Delivery = field(default_factory=sources.Delivery)
    """The source's last delivery, as committed."""
    snapshot: Snapshot = field(default_factory=lambda: Snapshot({}))
    changes: Changes = field(default_factory=Changes)
    declared: bytes | None = None
    """The file with what it declares about tables; None for a source that never does."""
    projection: sources.Projection | None = None
    """The projection; None if nothing changed since the last one."""
    units: tuple[WorkUnit, ...] = ()
    outcomes: tuple[UnitOutcome, ...] = ()
    asked: bool = False
    """Whether a model works in this run."""
    skipped_files: Mapping[str, str] = field(default_factory=dict)
    """The files that are not worth processing -> why."""
    evicted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Deleted file -> the artifacts that were decided on."""
    reconciled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Artifact that reconciliation wrote -> the raw files of this source that it named for the artifact."""
    became: Became = field(default_factory=Became)
    """What this run did to artifacts."""
    beside: Mapping[str, RawFile] = field(default_factory=dict)
    """Files of other sources that this source's pages also come from, each path prefixed with its source."""
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File that units may read besides their own -> the pages that come from both."""
    planned: bool = False
    """Whether nothing is written because this is a dry run."""
    conclusion: sources.Conclusion = field(default_factory=sources.Conclusion)
    """What the source wrote after its units were merged."""
    seconds: float = 0.0
    error: KtxError | None = None
    """Why nothing from the source changes in this run."""

    @property
    def kind(self) -> str:
        """The kind of the source."""
        return self.source.kind

    @property
    def key(self) -> sources.SourceKey:
        """The source's identity among the sources of a run."""
        return self.connection, self.kind

    @property
    def name(self) -> str:
        """Its display name: `docs (files)`."""
        return f"{self.connection} ({self.kind})"

    @property
    def delivery_path(self) -> str:
        """The path of the record of the source's files."""
        return sources.delivery_path(self.connection, self.kind)

    @property
    def fidelity(self) -> tuple[Fidelity, ...]:
        """The outcome for every part of the input that needs no model."""
        return () if self.projection is None else self.projection.report

    def produced(self) -> Mapping[str, tuple[str, ...]]:
        """Return artifact (`wiki:refunds`, `sl:shop/orders`) -> the raw files it came from, by this run's agents."""
        found: dict[str, set[str]] = {artifact: set(paths) for artifact, paths in self.conclusion.artifacts.items()}
        made = [*(outcome.produced() for outcome in self.landed()), self.reconciled]
        for artifact, paths in (each for one in made for each in one.items()):
            for name in self.became.of((artifact,)):
                found.setdefault(name, set()).update(paths)
        return {artifact: tuple(sorted(paths)) for artifact, paths in sorted(found.items())}

    def landed(self) -> list[UnitOutcome]:
        """Return the units whose work is in the overlay."""
        return [outcome for outcome in self.outcomes if outcome.status is UnitStatus.DONE]

    def unfinished(self) -> frozenset[str]:
        """Return the raw files whose units were not merged, or whose evidence was discarded."""
        lost = () if self.conclusion.error is None else (each for each in self.landed() if evidence_of(each))
        missing = (each for each in self.outcomes if each.status is not UnitStatus.DONE)
        return frozenset(path for each in (*missing, *lost) for path in each.unit.files)

    def touched_paths(self) -> frozenset[str]:
        """Return the project files that this run writes for the source."""
        projected = () if self.projection is None else self.projection.artifacts
        by_units = (path for outcome in self.landed() for path in outcome.paths)
        return frozenset((*projected, *self.conclusion.units, *by_units))

    @property
    def left_for_a_model(self) -> tuple[str, ...]:
        """What a model would add; empty if a model works in this run."""
        if self.projection is None or self.asked:
            return ()
        return sources.documents_left(len(self._unread())) if self.source.documents else self.projection.left

    def _unread(self) -> set[str]:
        """Return the files whose current content no model has read."""
        read = (sources.FileStatus.DONE, sources.FileStatus.SKIPPED)
        done = {path for path, state in self.delivered.files.items() if state.status in read}
        return set(self.snapshot.files) - (done - set(self.changes.touched))

    @property
    def left_out(self) -> list[str]:
        """What was skipped although the source was read: units, and files that the next run may read."""
        unread = [f"{each.what}: {each.reason}" for each in self.snapshot.skipped if each.retry]
        error = self.conclusion.error
        unread += [] if error is None else [f"the evidence of its units: {error.message}"]
        return unread + [
            f"unit `{each.unit.key}` {each.status.value}: {each.reason}"
            for each in self.outcomes
            if each.status is not UnitStatus.DONE
        ]

    @property
    def status(self) -> str:
        """`failed`, `unchanged`, `planned` (a dry run), `left` (no unit was processed), `partial` or `done`."""
        if self.error is not None:
            return "failed"
        if not (self.changes.touched or self.changes.deleted or self.conclusion.units) and self.projection is None:
            return "unchanged"
        if self.planned:
            return "planned"
        if self.units and not self.landed():
            return "left"
        return "partial" if self.left_out else "done"

    @property
    def result(self) -> str:
        """One line for a person."""
        if self.error is not None:
            return f"failed: {self.error.message}"
        counts = self.changes.to_json()
        changed = ", ".join(f"{counts[name]} {word}" for name, word in _CHANGES.items() if counts[name])
        kinds = Counter(item.kind.value for item in self.fidelity)
        parts = [plural(len(self.snapshot.files), "file"), changed or "nothing changed"]
        parts += (
            [", ".join(f"{kinds[kind]} {word}" for kind, word in _IMPORTED.items() if kinds[kind])] if kinds else []
        )
        parts += [self.conclusion.summary] if self.conclusion.summary else []
        units = Counter(outcome.status.value for outcome in self.outcomes)
        parts += (
            [f"units: {', '.join(f'{count} {status}' for status, count in sorted(units.items()))}"] if units else []
        )
        earlier = sum(outcome.replayed for outcome in self.outcomes)
        parts += [f"{plural(earlier, 'unit')} from an earlier run"] if earlier else []
        return "; ".join(parts)

    json_keys = (
        "connection", "kind", "status", "result", "origin=snapshot.origin", "files=_files", "fetched=snapshot.fetched",
        "complete=snapshot.complete", "changes", "skipped=snapshot.skipped", "units=outcomes",
        "artifacts=_artifacts", "pages=conclusion.pages", "produced", "planned_units=_planned", "fidelity",
        "left_for_a_model", "seconds=_seconds", "error",
    )  # fmt: skip

    def _files(self) -> int:
        return len(self.snapshot.files)

    def _artifacts(self) -> Mapping[str, tuple[str, ...]]:
        return {} if self.projection is None else self.projection.artifacts

    def _planned(self) -> int:
        return len(self.agent_units)

    @property
    def agent_units(self) -> tuple[WorkUnit, ...]:
        """The units that agents would process: those that no digest completes."""
        form = self.source.digest
        return tuple(unit for unit in self.units if form is None or not form.applies(unit))

    def _seconds(self) -> float:
        return round(self.seconds, 3)


REPORTED: Final = ("contradictions", "fallbacks", "conflicts", "evictions", "resolutions")
"""The records of a unit that its part of the report contains."""


class UnitStatus(StrEnum):
    """`left`: not started, or interrupted; the unit stays new. `quarantined`: it ended well, but conflicts
    with other units.
    """

    DONE = "done"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after the unit's work; None if there is no such file."""

    base: bytes | None
    content: bytes | None


class DamagedOutcomeError(StorageError):
    """The stored outcome of a unit is not one that ktx has stored; shared states can be written by others."""

    def __init__(self, unit: WorkUnit, why: str) -> None:
        super().__init__(f"the stored outcome of `{unit.key}` is damaged: {why}", hint=Command("ingest"))


@dataclass(frozen=True, slots=True)
class UnitOutcome(Record):
    """The outcome of a unit of agent work."""

    connection: str
    kind: str
    unit: WorkUnit
    status: UnitStatus
    reason: str = ""
    """Why the unit is not merged; empty if it is merged."""
    changes: Mapping[str, FileChange] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)
    """The records of the unit's tools (actions, records), as JSON."""
    steps: int = 0
    tool_calls: int = 0
    budget_used: bool = False
    """Whether the unit's step budget stopped it."""
    replayed: bool = False
    """Whether an earlier run did the work."""
    kept_as: str = ""
    """The key under which the outcome is stored."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else is stored with the outcome, as JSON."""
    facts: CallFacts | None = None
    """The usage of the unit's model calls in this run."""
    error: KtxError | None = None
    """What ended its loop."""

    @property
    def contents(self) -> dict[str, bytes | None]:
        """The files that the unit changed, after the change; None for a deleted file."""
        return {path: change.content for path, change in self.changes.items()}

    @property
    def contradictions(self) -> list[Contradiction]:
        """The contradictions it recorded."""
        return contradictions_in(self.session)

    @property
    def paths(self) -> frozenset[str]:
        """The project files with the unit's work."""
        return frozenset((*self.changes, *([CONTRADICTIONS_NAME] if self.contradictions else ())))

    @property
    def source(self) -> sources.SourceKey:
        """The source of the unit."""
        return self.connection, self.kind

    @property
    def actions(self) -> list[Mapping[str, Any]]:
        """What the unit wrote, as recorded by its tools."""
        return list(self.session.get("actions", ()))

    @property
    def did_something(self) -> bool:
        """Whether the unit wrote, confirmed or recorded anything."""
        return bool(self.actions) or any(self.session.get("records", {}).values())

    def produced(self) -> dict[str, tuple[str, ...]]:
        """Return artifact -> the raw files it comes from, as named by the action on it."""
        written = (each for each in actions_of(self) if each.kind != "removed")
        merged = {artifact: tuple(paths) for artifact, paths in self.session.get("merged", {}).items()}
        made = {each.identity: each.raw_paths for each in written}
        return {each: tuple(sorted({*merged.get(each, ()), *made.get(each, ())})) for each in sorted({*merged, *made})}

    def failed(self, status: UnitStatus, reason: str) -> UnitOutcome:
        """Return the outcome of a unit that is not merged."""
        return replace(self, status=status, reason=reason, changes={})

    def kept(self) -> dict[str, Any]:
        """Return what is stored for the outcome between runs, besides its details."""
        return {
            "changes": {path: [_packed(change.base), _packed(change.content)] for path, change in self.changes.items()},
            "session": self.session,
            "steps": self.steps,
            "tool_calls": self.tool_calls,
            "budget_used": self.budget_used,
        }

    @classmethod
    def of_kept(cls, connection: str, kind: str, unit: WorkUnit, kept: Mapping[str, Any], key: str) -> Self:
        """Return the outcome that an earlier run or a worker stored under a key; raises `DamagedOutcomeError`."""
        try:
            outcome = cls(
                connection,
                kind,
                unit,
                UnitStatus.DONE,
                changes={path: FileChange(*map(_unpacked, both)) for path, both in kept["changes"].items()},
                **{name: kept[name] for name in ("session", "steps", "tool_calls", "budget_used")},
                replayed=True,
                kept_as=key,
                details={name: value for name, value in kept.items() if name not in _KEPT},
            )
            outcome.produced(), evidence_of(outcome), outcome.contradictions  # what its records are used for
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DamagedOutcomeError(unit, "it is incomplete") from error
        if foreign := foreign_files(outcome.changes):
            raise DamagedOutcomeError(unit, f"it changes {foreign[0]!r}, which a unit cannot write")
        return outcome

    json_keys = (
        "unit=unit.key", "label=unit.label", "status", "reason", "files=unit.files", "steps", "tool_calls",
        "budget_used", "replayed", "actions", "records=_records",
    )  # fmt: skip

    def _records(self) -> dict[str, Any]:
        return {name: found for name in REPORTED if (found := self.session.get("records", {}).get(name))}


_KEPT: Final = frozenset(("changes", "session", "steps", "tool_calls", "budget_used"))


def evidence_of(outcome: UnitOutcome) -> list[sources.UnitEvidence]:
    """Return the evidence that a unit recorded, in order."""
    records = outcome.session.get("records", {}).get("evidence", ())
    return [sources.UnitEvidence(outcome.unit.key, each["raw_path"], each["evidence"]) for each in records]


def actions_of(outcome: UnitOutcome) -> tuple[Action, ...]:
    """Return what a unit wrote, as recorded by its tools."""
    return tuple(Action(**{**each, "raw_paths": tuple(each["raw_paths"])}) for each in outcome.actions)


def contradictions_in(session: Mapping[str, Any]) -> list[Contradiction]:
    """Return the contradictions that the tools of a session recorded."""
    return [Contradiction.from_json(each) for each in session.get("records", {}).get("contradictions", ())]


def wrote(outcome: UnitOutcome) -> tuple[Action, ...]:
    """Return the actions that changed something."""
    return tuple(each for each in actions_of(outcome) if each.kind != "confirmed")


def changes_of(workspace: Workspace) -> dict[str, FileChange]:
    """Return an overlay's changes to the tree that it was made on."""
    base = workspace.base()
    return {path: FileChange(base.read(path), content) for path, content in workspace.changes().items()}


def merge_outcome(workspace: Workspace, outcome: UnitOutcome) -> tuple[Conflict, ...]:
    """Merge a unit's changes into an overlay: all of them, or none if there are conflicts."""
    from ktx_cli.project import merge_lines

    child = Workspace(_TreeBefore(outcome.changes, workspace.child()))
    child.apply(outcome.contents)
    return workspace.absorb(child, text_merge=merge_lines)


class _TreeBefore:
    """The relevant part of a unit's starting tree: its changed files as they were, the rest as it is now."""

    def __init__(self, changes: Mapping[str, FileChange], now: Tree) -> None:
        self._changes, self._now = changes, now

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        return self._changes[path].base if path in self._changes else self._now.read(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with `prefix`, sorted."""
        found = {path for path in self._now.paths(prefix) if path not in self._changes}
        found |= {p for p, change in self._changes.items() if change.base is not None and p.startswith(prefix)}
        return sorted(found)


def _packed(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The outcome of the loop that reviews the whole run."""

    changes: Mapping[str, FileChange] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)
    """What its tools recorded (actions, records), as JSON."""
    steps: int = 0
    problem: str = ""
    """Why none of it was merged; empty if it was."""
    budget_used: bool = False
    """Whether its step budget stopped it."""

    @property
    def contradictions(self) -> list[Contradiction]:
        """The contradictions it recorded."""
        return [] if self.problem else contradictions_in(self.session)

    def to_json(self) -> dict[str, Any]:
        """Return this part of a report."""
        records = self.session.get("records", {})
        return {
            "steps": self.steps,
            "budget_used": self.budget_used,
            "problem": self.problem or None,
            "actions": list(self.session.get("actions", ())),
            **{name: list(found) for name, found in sorted(records.items())},
        }


RECONCILE: Final = "reconcile"
"""The kind under which the steps of a reconciliation are stored."""


AT_ONCE: Final = 500
"""How many outcomes one statement reads at most."""


@dataclass(frozen=True, slots=True)
class TaskStore:
    """Stored outcomes and steps of tasks, by the input of the tasks.

    Every method raises `StorageError` if the state database fails.
    """

    database: StateDatabase
    state: Path

    def outcome(self, key: str) -> Mapping[str, Any] | None:
        """Return the stored outcome of a finished task, or None if there is none."""
        return self.outcomes((key,)).get(key)

    def outcomes(self, keys: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return key -> the stored outcome, for the tasks that are finished."""
        found: dict[str, Mapping[str, Any]] = {}
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            query = f"SELECT key, outcome FROM unit_outcomes WHERE key IN ({', '.join('?' * len(some))})"
            with translated(self.state):
                rows = self.database.execute(query, some).fetchall()
            found |= {key: _document(text) for key, text in rows}
        return found

    def keep(self, key: str, connection: str, kind: str, unit: str, outcome: Mapping[str, Any]) -> None:
        """Store a finished unit in place of its steps."""
        with translated(self.state), transaction(self.database):
            self.check()
            self.database.execute(
                "INSERT OR REPLACE INTO unit_outcomes VALUES (?, ?, ?, ?, ?, ?)",
                (key, connection, kind, unit, json.dumps(outcome, sort_keys=True), isoformat(now())),
            )
            self.database.execute("DELETE FROM unit_steps WHERE key = ?", (key,))

    def steps(self, key: str, loop: str) -> list[tuple[StoredStep, Mapping[str, Any]]]:
        """Return the steps of a loop and the tool records after each; the steps of another loop are deleted."""
        with translated(self.state):
            self.database.execute("DELETE FROM unit_steps WHERE key = ? AND loop <> ?", (key, loop))
            rows = self.database.execute(
                "SELECT step, session FROM unit_steps WHERE key = ? ORDER BY number", (key,)
            ).fetchall()
        return [(json.loads(step), json.loads(session)) for step, session in rows]

    def taken(self, key: str) -> tuple[Usage, Cost]:
        """Return the usage of the stored steps of an unfinished task."""
        with translated(self.state):
            rows = self.database.execute("SELECT step FROM unit_steps WHERE key = ?", (key,)).fetchall()
        return taken_by(json.loads(step) for (step,) in rows)

    def append(self, key: str, loop: str, number: int, step: StoredStep, session: Mapping[str, Any]) -> None:
        """Store the step with this number, with the tool records so far."""
        with translated(self.state):
            self.database.execute(
                "INSERT OR REPLACE INTO unit_steps VALUES (?, ?, ?, ?, ?)",
                (key, loop, number, json.dumps(step), json.dumps(session)),
            )

    def drop_steps(self, key: str) -> None:
        """Delete the steps of a unit that starts again."""
        with translated(self.state), transaction(self.database):
            self.check()
            self.database.execute("DELETE FROM unit_steps WHERE key = ?", (key,))

    def check(self) -> None:
        """Raise `BusyError` if this process may no longer store anything; called in a transaction."""

    def forget(self, key: str) -> None:
        """Delete what is stored for one unit."""
        with translated(self.state), transaction(self.database):
            self.drop(key)

    def drop(self, key: str) -> None:
        """Delete what is stored for one unit; call it in a transaction."""
        for table in ("unit_outcomes", "unit_steps"):
            self.database.execute(f"DELETE FROM {table} WHERE key = ?", (key,))

    def landed(self, connection: str, kind: str, keep: Collection[str] = ()) -> None:
        """Delete what is stored for a source whose work is committed, except the units with the keys to `keep`."""
        prefix = _key_prefix(connection, kind)
        with translated(self.state), transaction(self.database):
            for table in ("unit_outcomes", "unit_steps"):
                found = self.database.execute(
                    f"SELECT DISTINCT key FROM {table} WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
                ).fetchall()
                gone = [(key,) for (key,) in found if key not in keep]
                self.database.executemany(f"DELETE FROM {table} WHERE key = ?", gone)


def _document(text: str) -> Mapping[str, Any]:
    """Return a stored outcome; an empty one if it is damaged, as `UnitOutcome.of_kept` finds."""
    try:
        found: Mapping[str, Any] = json.loads(text)
    except ValueError:
        return {}
    return found


def store_key(connection: str, kind: str, parts: Any) -> str:
    """Return the key under which a unit of a source is stored; the same `parts` (as JSON) are the same work."""
    return _key_prefix(connection, kind) + hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _key_prefix(connection: str, kind: str) -> str:
    return f"{connection}/{kind}/"


def forget_units(database: StateDatabase, state: Path, works: Iterable[SourceWork], held: Collection[str]) -> None:
    """Delete what is stored for the units whose work is now committed.

    Kept are interrupted units, and those with a held file: their work is not in the commit.
    """
    store = TaskStore(database, state)
    for work in works:
        if work.error is None:
            waiting = {each.kept_as for each in work.outcomes if _is_waiting(each, held)}
            store.landed(work.connection, work.kind, waiting)
    store.landed("", RECONCILE)


def remember_questions(
    database: StateDatabase,
    works: Iterable[SourceWork],
    documents: Mapping[sources.SourceKey, Sequence[sources.DocumentQuestions]],
) -> None:
    """Store the questions of committed sources, and drop those of documents that no longer exist."""
    with transaction(database):
        for work in works:
            if work.source.documents and work.error is None:
                sources.save_questions(database, work.connection, documents.get(work.key, ()))
                sources.forget_questions(database, work.connection, work.snapshot.files.keys())


def forget_own_units(database: StateDatabase, state: Path, works: Iterable[SourceWork], held: Collection[str]) -> None:
    """Delete what is stored for the units of this run alone; other units of the same source are interrupted work."""
    store = TaskStore(database, state)
    for outcome in (each for work in works for each in work.outcomes):
        if not _is_waiting(outcome, held):
            store.forget(outcome.kept_as)


def _is_waiting(outcome: UnitOutcome, held: Collection[str]) -> bool:
    return outcome.status is UnitStatus.LEFT or any(path in held for path in outcome.paths)


class SavedState(Protocol):
    """What is stored with each step of a task, and restored if the task resumes."""

    def state(self) -> dict[str, Any]:
        """Return everything done so far, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        ...


class TaskJournal:
    """The journal of one task's loop; resuming restores the records of its tools."""

    def __init__(self, store: TaskStore, key: str, state: SavedState) -> None:
        self._store, self._key, self._state = store, key, state
        self._stored = 0

    def load(self, key: str) -> Sequence[StoredStep]:
        """See `LoopJournal`."""
        kept = self._store.steps(self._key, key)
        self._stored = len(kept)
        try:
            if kept:
                self._state.restore(kept[-1][1])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"the stored steps of a unit are damaged, and were deleted: {error}"
            raise StorageError(message, hint=Command("ingest")) from error
        return [step for step, _ in kept]

    async def append(self, key: str, step: StoredStep) -> None:
        """See `LoopJournal`."""
        self._stored += 1
        self._store.append(self._key, key, self._stored, step, self._state.state())


def evicted(work: SourceWork) -> dict[str, tuple[str, ...]]:
    """Return the deleted raw files of a source -> the artifacts that came from each."""
    known = work.delivered.files
    artifacts = {path: known[path].artifacts for path in work.changes.deleted if path in known}
    return {path: names for path, names in artifacts.items() if names}


def without_questions(work: SourceWork, database: StateDatabase | None) -> list[str]:
    """Return the documents of a source whose passages need questions written by a model, sorted.

    None if no document changed and no earlier call failed, also in a clone, whose state has no questions. `database`
    None: there is no state.
    """
    if not work.source.documents or work.error is not None:
        return []
    asked = {} if database is None else sources.asked_contents(database, work.connection)
    if not work.changes.touched and "" not in asked.values():
        return []
    return sorted(path for path, file in work.snapshot.files.items() if asked.get(path) != file.sha256)


def agents_needed(works: Sequence[SourceWork], database: StateDatabase) -> bool:
    """Whether there is a unit, a deleted file with artifacts, a waiting candidate, or a document that needs questions.

    `without_questions` lists the documents that need questions.
    """
    if any(work.units for work in works if work.error is None) or any(evicted(work) for work in works):
        return True
    if any(without_questions(work, database) for work in works):
        return True
    waiting: set[Any] = set(database.execute("SELECT DISTINCT connection, kind FROM waiting_candidates"))
    return any(work.key in waiting for work in works if work.error is None)
