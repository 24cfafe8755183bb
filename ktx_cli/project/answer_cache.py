"""What a model has already answered, by content hash: a run that was killed, or repeated, asks only for the rest.

An answer that no connection has used in its last `KEPT_RUNS` runs goes: its table is gone, or looks different by now.
Runs are counted by connection, in rows of their own kind, so that neither time nor a run that asks no model ages an
answer.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ktx_cli.core import isoformat, now
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import LOOK, Warn, open_for_writing, transaction, translated, unheard

KEPT_RUNS: Final = 10
"""So many runs of a connection in a row may leave an answer unused."""

_USES: Final = "uses"
"""The kind of the rows that say what connections used; their keys are the ids of the connections."""

CachedAnswer = tuple[str, str]
"""Kind and key of a value."""


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a connection used: how many runs it had, and the number of the run in which it last used an answer."""

    runs: int = 0
    last: Mapping[CachedAnswer, int] = field(default_factory=dict)

    def after_a_run(self, used: Collection[CachedAnswer]) -> _Uses:
        """Return the uses after one more run, without those that are too long ago."""
        number = self.runs + 1
        last = {**self.last, **dict.fromkeys(used, number)}
        return _Uses(number, {answer: run for answer, run in last.items() if run > number - KEPT_RUNS})


class EnrichmentStore(Protocol):
    """Keeps JSON values by kind and content hash. `put` returns when the value would survive a killed process."""

    def get(self, kind: str, key: str) -> Any | None:
        """Return the value, None where there is none."""
        ...

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep a JSON value in place of an earlier one."""
        ...


class StateEnrichmentStore:
    """The store in the state database, on a connection somebody else opened."""

    def __init__(self, layout: Layout, database: sqlite3.Connection) -> None:
        self._layout = layout
        self._database = database

    def get(self, kind: str, key: str) -> Any | None:
        """Return the value; None also where what stands there is no JSON: it is asked for anew. `StorageError`."""
        with translated(self._layout.state):
            row = self._database.execute(
                "SELECT value FROM enrichment WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
        try:
            return None if row is None else json.loads(row[0])
        except ValueError:
            return None

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep a value, committed when this returns. Raises `StorageError`."""
        text = json.dumps(value, sort_keys=True)
        with translated(self._layout.state):
            self._database.execute(
                "INSERT OR REPLACE INTO enrichment VALUES (?, ?, ?, ?)", (kind, key, text, isoformat(now()))
            )

    def settle(self, connection: str, used: Collection[CachedAnswer], connections: Collection[str]) -> int:
        """Count a finished run of a connection, drop what nobody uses any more, and return how many answers that were.

        `connections`: all that are configured; the uses of others are forgotten. An answer in nobody's uses (its run
        was killed) counts as used now. Raises `StorageError`.
        """
        with translated(self._layout.state), transaction(self._database):
            uses = {each: self._uses(each) for each in sorted({*connections, connection})}
            self._database.execute("DELETE FROM enrichment WHERE kind = ?", (_USES,))
            answers = set(self._database.execute("SELECT kind, key FROM enrichment WHERE kind <> ?", (LOOK,)))
            unclaimed = answers.difference(*(each.last for each in uses.values()))
            uses[connection] = uses[connection].after_a_run(answers.intersection(used) | unclaimed)
            gone = answers.difference(*(each.last for each in uses.values()))
            self._database.executemany("DELETE FROM enrichment WHERE kind = ? AND key = ?", sorted(gone))
            for each in uses:
                self._put_uses(each, uses[each])
        return len(gone)

    def _uses(self, connection: str) -> _Uses:
        value: Any = self.get(_USES, connection)
        try:
            return _Uses(int(value["runs"]), {(kind, key): int(run) for kind, key, run in value["last"]})
        except (TypeError, ValueError, KeyError):  # none yet, or damaged: the answers count as used now
            return _Uses()

    def _put_uses(self, connection: str, uses: _Uses) -> None:
        if uses.runs:
            last = [[*answer, run] for answer, run in sorted(uses.last.items())]
            self.put(_USES, connection, {"runs": uses.runs, "last": last})


@contextlib.contextmanager
def open_enrichment_store(layout: Layout, warn: Warn = unheard) -> Iterator[StateEnrichmentStore]:
    """Lend the project's store for one run; errors as `open_for_writing`."""
    with open_for_writing(layout, warn) as database:
        yield StateEnrichmentStore(layout, database)
