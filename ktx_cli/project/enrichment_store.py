"""What a model has already answered, by content hash: a run that was killed, or repeated, asks only for the rest."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any, Protocol

from ktx_cli.core.clock import isoformat, now
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import Warn, open_for_writing, translated, unheard


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


@contextlib.contextmanager
def open_enrichment_store(layout: Layout, warn: Warn = unheard) -> Iterator[StateEnrichmentStore]:
    """Lend the project's store for one run; errors as `open_for_writing`."""
    with open_for_writing(layout, warn) as database:
        yield StateEnrichmentStore(layout, database)
