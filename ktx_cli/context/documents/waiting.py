"""Candidates the budget of a run had no room for: the next run takes them up again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from ktx_cli.context.documents.candidates import (
    EVIDENCE_GONE,
    OVER_BUDGET,
    OVER_PASSES,
    Candidate,
    Evidence,
    evidence_of,
)
from ktx_cli.context.documents.library import Library

TABLES: Final = """
CREATE TABLE IF NOT EXISTS waiting_candidates (
    connection TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, candidate TEXT NOT NULL,
    PRIMARY KEY (connection, kind, key)
) STRICT;
"""

WAITING: Final = frozenset((OVER_BUDGET, OVER_PASSES))
"""Reasons that have nothing to do with the candidate itself."""


@dataclass(frozen=True, slots=True)
class Carried:
    """`candidates` go on, their evidence bound to the passages of now; of those `gone` nothing is left to cite."""

    candidates: tuple[Candidate, ...] = ()
    gone: tuple[Candidate, ...] = ()


def waiting(database: sqlite3.Connection, connection: str, kind: str) -> list[Candidate]:
    """Return what earlier runs left of a source, by key."""
    rows = database.execute(
        "SELECT candidate FROM waiting_candidates WHERE connection = ? AND kind = ? ORDER BY key", (connection, kind)
    )
    return [Candidate.from_json(json.loads(text)) for (text,) in rows.fetchall()]


def keep_waiting(database: sqlite3.Connection, connection: str, kind: str, candidates: Iterable[Candidate]) -> None:
    """Keep those of a curated run that wait, in place of what was kept; called when the run has landed.

    The caller has a transaction.
    """
    database.execute("DELETE FROM waiting_candidates WHERE connection = ? AND kind = ?", (connection, kind))
    database.executemany(
        "INSERT OR REPLACE INTO waiting_candidates VALUES (?, ?, ?, ?)",
        [
            (connection, kind, each.key, json.dumps(each.to_json(), sort_keys=True))
            for each in candidates
            if each.status == "rejected" and each.reason in WAITING
        ],
    )


def carry(earlier: Iterable[Candidate], present: Collection[str], library: Library) -> Carried:
    """Return what of earlier runs goes on; `present`: keys of this run's own, which say it anew.

    Passages are found again by their citation keys. A candidate none of whose passages is there any more does not go
    on: nothing says it now.
    """
    candidates: list[Candidate] = []
    gone: list[Candidate] = []
    for each in earlier:
        if each.key in present:
            continue
        bound = tuple(found for old in each.evidence if (found := _bound(old, library)) is not None)
        if bound:
            candidates.append(replace(each.judged("pending"), evidence=bound))
        else:
            gone.append(each.judged("rejected", EVIDENCE_GONE))
    return Carried(tuple(candidates), tuple(gone))


def _bound(old: Evidence, library: Library) -> Evidence | None:
    place, passage = library.place_of(old.key), library.passage(old.key)
    return None if place is None or passage is None else evidence_of(passage, place, library)
