"""Stores finished tasks and the steps of unfinished ones in the state database, so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ktx_cli.core import isoformat, now
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus
from ktx_cli.llm import StoredStep
from ktx_cli.project import transaction, translated

RECONCILE: Final = "reconcile"
"""The kind under which the steps of a reconciliation are stored."""


@dataclass(frozen=True, slots=True)
class TaskStore:
    """Outcomes and steps of tasks, by what the tasks were made from.

    Every method raises `StorageError` where the state database fails.
    """

    database: sqlite3.Connection
    state: Path

    def outcome(self, key: str) -> Mapping[str, Any] | None:
        """Return what is kept of a finished task, None where there is nothing."""
        with translated(self.state):
            row = self.database.execute("SELECT outcome FROM unit_outcomes WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep(self, key: str, connection: str, kind: str, unit: str, outcome: Mapping[str, Any]) -> None:
        """Keep a finished unit in place of its steps."""
        with translated(self.state), transaction(self.database):
            self.database.execute(
                "INSERT OR REPLACE INTO unit_outcomes VALUES (?, ?, ?, ?, ?, ?)",
                (key, connection, kind, unit, json.dumps(outcome, sort_keys=True), isoformat(now())),
            )
            self.database.execute("DELETE FROM unit_steps WHERE key = ?", (key,))

    def steps(self, key: str, loop: str) -> list[tuple[StoredStep, Mapping[str, Any]]]:
        """Return the steps of a loop and what its tools had recorded after each; those of another loop are deleted."""
        with translated(self.state):
            self.database.execute("DELETE FROM unit_steps WHERE key = ? AND loop <> ?", (key, loop))
            rows = self.database.execute(
                "SELECT step, session FROM unit_steps WHERE key = ? ORDER BY number", (key,)
            ).fetchall()
        return [(json.loads(step), json.loads(session)) for step, session in rows]

    def append(self, key: str, loop: str, step: StoredStep, session: Mapping[str, Any]) -> None:
        """Keep one more step, with what the tools have recorded so far."""
        with translated(self.state):
            self.database.execute(
                "INSERT INTO unit_steps SELECT ?, ?, 1 + coalesce(max(number), 0), ?, ? FROM unit_steps WHERE key = ?",
                (key, loop, json.dumps(step), json.dumps(session), key),
            )

    def drop_steps(self, key: str) -> None:
        """Forget the steps of a unit that begins again."""
        with translated(self.state):
            self.database.execute("DELETE FROM unit_steps WHERE key = ?", (key,))

    def forget(self, key: str) -> None:
        """Forget what is kept of one unit."""
        with translated(self.state), transaction(self.database):
            for table in ("unit_outcomes", "unit_steps"):
                self.database.execute(f"DELETE FROM {table} WHERE key = ?", (key,))

    def landed(self, connection: str, kind: str, keep: Collection[str] = ()) -> None:
        """Forget what is kept of a source whose work is in a commit, but for the units of the keys to `keep`."""
        prefix = _prefix(connection, kind)
        with translated(self.state), transaction(self.database):
            for table in ("unit_outcomes", "unit_steps"):
                found = self.database.execute(
                    f"SELECT DISTINCT key FROM {table} WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
                ).fetchall()
                gone = [(key,) for (key,) in found if key not in keep]
                self.database.executemany(f"DELETE FROM {table} WHERE key = ?", gone)


def store_key(connection: str, kind: str, parts: Any) -> str:
    """Return what a unit of a source is kept under: the same `parts` (as JSON) are the same work."""
    return _prefix(connection, kind) + hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _prefix(connection: str, kind: str) -> str:
    return f"{connection}/{kind}/"


def forget_units(database: sqlite3.Connection, state: Path, works: Iterable[SourceWork], held: Collection[str]) -> None:
    """Forget what is kept of the units whose work is in a commit now.

    Kept are units that were cut off, and those with a file that was held back: their work is not in the commit.
    """
    store = TaskStore(database, state)
    for work in works:
        if work.error is None:
            waiting = {each.kept_as for each in work.outcomes if _is_waiting(each, held)}
            store.landed(work.connection, work.kind, waiting)
    store.landed("", RECONCILE)


def forget_own_units(
    database: sqlite3.Connection, state: Path, works: Iterable[SourceWork], held: Collection[str]
) -> None:
    """Do the same for the units of this run alone: others of the same source are work that was cut off."""
    store = TaskStore(database, state)
    for outcome in (each for work in works for each in work.outcomes):
        if not _is_waiting(outcome, held):
            store.forget(outcome.kept_as)


def _is_waiting(outcome: UnitOutcome, held: Collection[str]) -> bool:
    return outcome.status is UnitStatus.LEFT or any(path in held for path in outcome.changes)


class SavedState(Protocol):
    """What is stored with each step of a task, and taken back where the task goes on."""

    def state(self) -> dict[str, Any]:
        """Return everything done so far, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        ...


class TaskJournal:
    """The journal of one task's loop; going on restores what its tools had recorded."""

    def __init__(self, store: TaskStore, key: str, state: SavedState) -> None:
        self._store, self._key, self._state = store, key, state

    def load(self, key: str) -> Sequence[StoredStep]:
        """See `LoopJournal`."""
        kept = self._store.steps(self._key, key)
        if kept:
            self._state.restore(kept[-1][1])
        return [step for step, _ in kept]

    async def append(self, key: str, step: StoredStep) -> None:
        """See `LoopJournal`."""
        self._store.append(self._key, key, step, self._state.state())
