"""How each eval ended the last time, in the state database: what passed once and fails now has regressed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.project.layout import Layout
from ktx_cli.project.state import Warn, open_for_writing, read_state, transaction, translated, unheard


@dataclass(frozen=True, slots=True)
class Past:
    """How a case ended. `digest`: of what was asked and expected; `passed`: when that was last fulfilled, if ever."""

    digest: str
    status: str
    finished: str
    passed: str | None
    milliseconds: int

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        told = {"status": self.status, "finished": self.finished, "passed": self.passed}
        return told | {"milliseconds": self.milliseconds}


def read_history(layout: Layout) -> dict[str, Past]:
    """Return how the cases ended the last time, by name; nothing is written. Raises `StorageError`."""

    def ask(database: sqlite3.Connection) -> dict[str, Past]:
        rows = database.execute("SELECT name, digest, status, finished, passed, milliseconds FROM evals")
        return {name: Past(*rest) for name, *rest in rows}

    with translated(layout.state):
        return read_state(layout, ask) or {}


def write_history(layout: Layout, ended: Mapping[str, Past], known: Collection[str], warn: Warn = unheard) -> None:
    """Keep how cases ended, and forget those that are in no file any more (`known`); raises `StorageError`."""
    rows = [(name, p.digest, p.status, p.finished, p.passed, p.milliseconds) for name, p in ended.items()]
    with open_for_writing(layout, warn) as database, translated(layout.state), transaction(database):
        gone = [(name,) for (name,) in database.execute("SELECT name FROM evals") if name not in known]
        database.executemany("DELETE FROM evals WHERE name = ?", gone)
        database.executemany("INSERT OR REPLACE INTO evals VALUES (?, ?, ?, ?, ?, ?)", rows)
