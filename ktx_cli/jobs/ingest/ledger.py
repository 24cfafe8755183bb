"""What a run leaves in the state database: runs, and per connection what the next run compares with."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktx_cli.core.clock import isoformat, now
from ktx_cli.project.leases import current_holder
from ktx_cli.project.state import transaction

if TYPE_CHECKING:  # who only reads what runs left needs no scan
    from ktx_cli.context.scan.outcome import PreviousScan, ScanOutcome


@dataclass(frozen=True, slots=True)
class LastScan:
    """The facts `ktx status` shows of a connection's last scan."""

    connection: str
    run_id: str
    finished: str
    tables: int
    columns: int


@dataclass(frozen=True, slots=True)
class LastFetch:
    """The facts `ktx status` shows of a source's last fetch; `kind` as in `raw-sources/`."""

    connection: str
    kind: str
    finished: str
    files: int

    def to_json(self) -> dict[str, str | int]:
        """Return what stands beside the connection's id."""
        return {"kind": self.kind, "finished": self.finished, "files": self.files}


def start_run(database: sqlite3.Connection, run_id: str, command: str) -> None:
    """Record that a run has begun; one of the same id, which was interrupted, is begun again."""
    database.execute(
        "INSERT OR REPLACE INTO runs (run_id, command, status, started) VALUES (?, ?, 'running', ?)",
        (run_id, command, isoformat(now())),
    )


def finish_run(database: sqlite3.Connection, run_id: str, status: str, commit: str | None) -> None:
    """Record how a run ended."""
    database.execute(
        "UPDATE runs SET status = ?, finished = ?, commit_id = ? WHERE run_id = ?",
        (status, isoformat(now()), commit, run_id),
    )


def previous_scans(database: sqlite3.Connection, connections: Iterable[str]) -> dict[str, PreviousScan]:
    """Return connection -> what its last complete scan left; those that were never scanned are not in it."""
    from ktx_cli.context.scan.outcome import PreviousScan

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


def last_fetches(database: sqlite3.Connection) -> dict[str, LastFetch]:
    """Return connection -> the last fetch of its context source, or of its query history, that a run landed with."""
    rows = database.execute(
        "SELECT connection, kind, finished, (SELECT count(*) FROM json_each(files)) FROM fetches ORDER BY connection"
    )
    return {row[0]: LastFetch(*row) for row in rows}


def last_runs(database: sqlite3.Connection, limit: int = 3) -> list[dict[str, str | None]]:
    """Return the newest runs first; one that did not end and holds no lease was `killed`."""
    holder = current_holder(database)
    running = holder.run_id if holder is not None and holder.is_alive(time.time()) else None
    rows = database.execute(
        "SELECT run_id, command, status, started, finished, commit_id FROM runs ORDER BY run_id DESC LIMIT ?", (limit,)
    )
    names = ("run_id", "command", "status", "started", "finished", "commit")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    killed = {"status": "killed"}
    return [each | killed if each["status"] == "running" and each["run_id"] != running else each for each in found]
