"""A connection to an index that several threads read."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from typing import Any


class Connection(sqlite3.Connection):
    """Closes itself when the last that reads it lets go of it: none can pull it from under another."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._lock = threading.Lock()

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a question; one is asked after the other."""
        with self._lock:
            return self.execute(sql, values).fetchall()

    def __del__(self) -> None:
        self.close()


def connect(place: str, *, uri: bool = False) -> Connection:
    """Open a database for all threads; raises SQLite's error where it cannot be."""
    return sqlite3.connect(place, uri=uri, isolation_level=None, check_same_thread=False, factory=Connection)
