"""The last scan of each connection, in the state database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from ktx_cli.core import isoformat, now
from ktx_cli.project import transaction
from ktx_cli.scan.outcome import PreviousScan, ScanOutcome


@dataclass(frozen=True, slots=True)
class LastScan:
    """The facts `ktx status` shows of a connection's last scan."""

    connection: str
    run_id: str
    finished: str
    tables: int
    columns: int


def previous_scans(database: sqlite3.Connection, connections: Iterable[str]) -> dict[str, PreviousScan]:
    """Return connection -> what its last complete scan left; those that were never scanned are not in it."""
    wanted = set(connections)
    rows = database.execute("SELECT connection, digest, files FROM scans").fetchall()
    return {row[0]: PreviousScan(row[1], json.loads(row[2])) for row in rows if row[0] in wanted}


def record_scan(database: sqlite3.Connection, run_id: str, outcome: ScanOutcome, files: dict[str, str] | None) -> None:
    """Record a scan; `files` None: not all of it was committed, so the next run looks at everything again."""
    with transaction(database):
        database.execute(
            "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                outcome.connection,
                run_id,
                isoformat(now()),
                outcome.digest if files is not None else "",
                json.dumps(files or {}),
                outcome.tables,
                outcome.columns,
                json.dumps(outcome.row_estimates),
            ),
        )


def last_scans(database: sqlite3.Connection) -> dict[str, LastScan]:
    """Return connection -> its last scan."""
    rows = database.execute("SELECT connection, run_id, finished, tables, columns FROM scans ORDER BY connection")
    return {row[0]: LastScan(*row) for row in rows}
