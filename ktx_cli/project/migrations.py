"""The tables of the state database: numbered migrations in SQLite's dialect, which are translated for Postgres."""

from __future__ import annotations

import functools
import re
from typing import Final

AGENT_USAGE: Final = """
    CREATE TABLE agent_usage (
        caller TEXT NOT NULL, at REAL NOT NULL, queries INTEGER NOT NULL, row_count INTEGER NOT NULL,
        bytes INTEGER NOT NULL, PRIMARY KEY (caller, at)
    ) STRICT;
    """
"""What agents took, by the time; without a shared state, it is in a file of its own."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE leases (
        name TEXT PRIMARY KEY, run_id TEXT NOT NULL, command TEXT NOT NULL, pid INTEGER NOT NULL,
        process_start TEXT NOT NULL, host TEXT NOT NULL, hostname TEXT NOT NULL,
        since REAL NOT NULL, heartbeat REAL NOT NULL
    ) STRICT;
    CREATE TABLE runs (
        run_id TEXT PRIMARY KEY, command TEXT NOT NULL, status TEXT NOT NULL, started TEXT NOT NULL,
        finished TEXT, commit_id TEXT
    ) STRICT;
    CREATE TABLE scans (
        connection TEXT PRIMARY KEY, run_id TEXT NOT NULL, finished TEXT NOT NULL, digest TEXT NOT NULL,
        files TEXT NOT NULL, tables INTEGER NOT NULL, columns INTEGER NOT NULL, row_estimates TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE usage (
        key TEXT PRIMARY KEY, run_id TEXT NOT NULL, attempt INTEGER NOT NULL, unit_id TEXT NOT NULL,
        reported TEXT NOT NULL, source TEXT NOT NULL, executor_type TEXT NOT NULL, command TEXT NOT NULL,
        backend TEXT NOT NULL, role TEXT NOT NULL, model TEXT, input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL,
        cost_usd REAL, cost_basis TEXT NOT NULL, complete INTEGER NOT NULL, raw TEXT NOT NULL
    ) STRICT;
    CREATE TABLE probes (
        backend TEXT NOT NULL, model TEXT NOT NULL, finished TEXT NOT NULL, error TEXT,
        PRIMARY KEY (backend, model)
    ) STRICT;
    """,
    """
    CREATE TABLE enrichment (
        kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, stored TEXT NOT NULL,
        PRIMARY KEY (kind, key)
    ) STRICT;
    """,
    """
    CREATE TABLE value_scans (
        connection TEXT PRIMARY KEY, privacy TEXT NOT NULL, finished TEXT NOT NULL, withheld TEXT NOT NULL
    ) STRICT;
    CREATE TABLE profiles (
        connection TEXT NOT NULL, schema_name TEXT, table_name TEXT NOT NULL, profile TEXT NOT NULL
    ) STRICT;
    CREATE INDEX profiles_of_connection ON profiles (connection);
    CREATE TABLE dictionary_columns (
        id INTEGER PRIMARY KEY, connection TEXT NOT NULL, schema_name TEXT, table_name TEXT NOT NULL,
        column_name TEXT NOT NULL, complete INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX dictionary_of_connection ON dictionary_columns (connection);
    CREATE TABLE dictionary_values (
        column_id INTEGER NOT NULL, value TEXT NOT NULL, shown TEXT NOT NULL, folded TEXT NOT NULL, count INTEGER
    ) STRICT;
    CREATE INDEX values_of_column ON dictionary_values (column_id);
    """,
    """
    CREATE TABLE fetches (
        connection TEXT NOT NULL, kind TEXT NOT NULL, finished TEXT NOT NULL, cursor TEXT, files TEXT NOT NULL,
        projected TEXT NOT NULL, PRIMARY KEY (connection, kind)
    ) STRICT;
    CREATE TABLE unit_outcomes (
        key TEXT PRIMARY KEY, connection TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL, outcome TEXT NOT NULL,
        stored TEXT NOT NULL
    ) STRICT;
    CREATE TABLE unit_steps (
        key TEXT NOT NULL, loop TEXT NOT NULL, number INTEGER NOT NULL, step TEXT NOT NULL, session TEXT NOT NULL,
        PRIMARY KEY (key, number)
    ) STRICT;
    """,
    """
    CREATE TABLE waiting_candidates (
        connection TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, candidate TEXT NOT NULL,
        PRIMARY KEY (connection, kind, key)
    ) STRICT;
    """,
    """
    CREATE TABLE evals (
        name TEXT PRIMARY KEY, digest TEXT NOT NULL, status TEXT NOT NULL, finished TEXT NOT NULL, passed TEXT,
        milliseconds INTEGER NOT NULL
    ) STRICT;
    """,
    "ALTER TABLE probes ADD COLUMN credentials TEXT;",
    """
    CREATE TABLE passage_questions (
        connection TEXT NOT NULL, path TEXT NOT NULL, sha256 TEXT NOT NULL, stamp TEXT NOT NULL, passages TEXT NOT NULL,
        PRIMARY KEY (connection, path)
    ) STRICT;
    """,
    """
    CREATE TABLE accepted_files (
        connection TEXT NOT NULL, path TEXT NOT NULL, sha256 TEXT NOT NULL, stamp TEXT NOT NULL,
        PRIMARY KEY (connection, path)
    ) STRICT;
    CREATE TABLE statuses (
        connection TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, source TEXT NOT NULL, name TEXT NOT NULL,
        fingerprint TEXT NOT NULL, status TEXT NOT NULL, why TEXT NOT NULL, review_by TEXT, commit_id TEXT,
        drift TEXT,
        PRIMARY KEY (connection, path, kind, source, name)
    ) STRICT;
    CREATE TABLE metric_tests (
        connection TEXT NOT NULL, source TEXT NOT NULL, name TEXT NOT NULL, measures TEXT NOT NULL,
        passed INTEGER NOT NULL, finished TEXT NOT NULL, PRIMARY KEY (connection, source, name)
    ) STRICT;
    """,
    """
    CREATE TABLE decision_effects (
        connection TEXT NOT NULL, point TEXT NOT NULL, measure TEXT NOT NULL, period TEXT, readings TEXT NOT NULL,
        PRIMARY KEY (connection, point, measure)
    ) STRICT;
    """,
    """
    CREATE TABLE relationship_evidence (
        connection TEXT NOT NULL, schema_name TEXT, table_name TEXT NOT NULL, columns TEXT NOT NULL,
        evidence TEXT NOT NULL
    ) STRICT;
    CREATE INDEX evidence_of_connection ON relationship_evidence (connection, table_name);
    """,
    """
    CREATE TABLE run_reports (run_id TEXT PRIMARY KEY, report TEXT NOT NULL) STRICT;
    """,
    """
    CREATE TABLE scanned_tables (
        connection TEXT NOT NULL, schema_name TEXT NOT NULL, table_name TEXT NOT NULL, evidence TEXT,
        row_estimate INTEGER, sample_rows INTEGER NOT NULL, read_at TEXT NOT NULL,
        PRIMARY KEY (connection, schema_name, table_name)
    ) STRICT;
    CREATE TABLE scan_answers (
        connection TEXT NOT NULL, statement TEXT NOT NULL, tables TEXT NOT NULL, counts INTEGER NOT NULL,
        answer BLOB NOT NULL, PRIMARY KEY (connection, statement)
    ) STRICT;
    """,
    """
    CREATE TABLE shared_files (sha256 TEXT PRIMARY KEY, content BLOB NOT NULL, used TEXT NOT NULL) STRICT;
    CREATE TABLE run_packages (run_id TEXT PRIMARY KEY, package TEXT NOT NULL, stopped TEXT) STRICT;
    CREATE TABLE unit_results (
        run_id TEXT NOT NULL, key TEXT NOT NULL, worker TEXT NOT NULL, result TEXT, PRIMARY KEY (run_id, key)
    ) STRICT;
    CREATE TABLE rate_pauses (name TEXT PRIMARY KEY, paused_until REAL NOT NULL) STRICT;
    """,
    """
    CREATE TABLE published (
        name TEXT PRIMARY KEY, tree TEXT NOT NULL, statuses TEXT NOT NULL, commit_id TEXT NOT NULL,
        published TEXT NOT NULL, host TEXT NOT NULL
    ) STRICT;
    CREATE TABLE audit_lines (seq INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT;
    """,
    "ALTER TABLE value_scans RENAME COLUMN withheld TO hidden;",
    "CREATE INDEX usage_of_run ON usage (run_id);",
    AGENT_USAGE,
    """
    ALTER TABLE scan_answers ADD COLUMN rules TEXT NOT NULL DEFAULT '';
    ALTER TABLE scan_answers ADD COLUMN unused INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE scanned_tables ADD COLUMN sample_setting INTEGER NOT NULL DEFAULT 0;
    """,
    "CREATE TABLE queue_workers (worker INTEGER NOT NULL PRIMARY KEY, heartbeat_seconds REAL NOT NULL) STRICT;",
    "ALTER TABLE fetches ADD COLUMN delivery TEXT NOT NULL DEFAULT '';",
)
"""Migrations, applied in order; `PRAGMA user_version` counts those applied."""

LOCAL_TABLES: Final = frozenset({"probes", "accepted_files", "statuses"})
"""The tables that are only used in the file: they describe this host or the checkout of this working tree."""

UNCOPIED_TABLES: Final = LOCAL_TABLES.union(
    (
        "leases", "shared_files", "run_packages", "unit_results", "queue_workers", "rate_pauses", "published",
        "agent_usage", "audit_lines",
    )
)  # fmt: skip
"""The tables that a copy of a shared state does not have: what hosts exchange, and what is done with the original.

The audit log of a state that is a file is in files of its own: a copy begins a new chain, and that of the original
continues where it can be verified.
"""


@functools.cache
def state_tables() -> dict[str, tuple[list[str], list[str]]]:
    """Return table -> its columns and its primary key (empty if it has none)."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for statement in ";".join(MIGRATIONS).split(";"):
        created = re.match(r"\s*CREATE TABLE (\w+) \((.*)\)", statement, re.DOTALL)
        if created is not None:
            several = re.search(r"PRIMARY KEY \(([^)]*)\)", created[2])
            parts = [part.strip() for part in re.sub(r"PRIMARY KEY \([^)]*\)", "", created[2]).split(",")]
            one = [part.split()[0] for part in parts if part.endswith("PRIMARY KEY")]
            key = [each.strip() for each in several[1].split(",")] if several is not None else one
            found[created[1]] = ([part.split()[0] for part in parts if part], key)
        added = re.match(r"\s*ALTER TABLE (\w+) ADD COLUMN (\w+)", statement)
        if added is not None:
            found[added[1]][0].append(added[2])
        renamed = re.match(r"\s*ALTER TABLE (\w+) RENAME COLUMN (\w+) TO (\w+)", statement)
        if renamed is not None:
            columns = found[renamed[1]][0]
            columns[columns.index(renamed[2])] = renamed[3]
    return found
