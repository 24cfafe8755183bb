"""Brings the index up to date with the project; only what changed is written again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.context.search.index.file import changing
from ktx_cli.context.search.index.parts import Contents
from ktx_cli.context.search.index.vectors import embed_missing, nobody
from ktx_cli.context.search.index.writing import add, remove
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Emit, StepProgress, ignore_events
from ktx_cli.llm.embeddings.port import Embedder
from ktx_cli.project.tree import Tree

STEP = "index"


@dataclass(slots=True)
class Refreshed:
    """What was done: documents in all, added, removed; units read again; texts that got a vector.

    `rebuilt`: there was no index to begin with. `error`: why vectors are missing; words are up to date all the same.
    """

    documents: int = 0
    added: int = 0
    removed: int = 0
    units: int = 0
    vectors: int = 0
    rebuilt: bool = False
    error: KtxError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in an envelope."""
        names = ("documents", "added", "removed", "units", "vectors", "rebuilt")
        return {name: getattr(self, name) for name in names}


def refresh(
    path: Path,
    contents: Contents,
    tree: Tree,
    *,
    embedder: Callable[[], Embedder | None] = nobody,
    emit: Emit = ignore_events,
) -> Refreshed:
    """Bring the index at `path` up to date; the caller holds the lease.

    Where size and time of a unit's files are as they were it is left alone; where its hash is, only the times are
    written. Vectors of another model are dropped, and all where there is no embedder; one that cannot be had, or fails,
    is the `error` of what is returned. Raises `StorageError`; nothing is changed then.
    """
    signatures = contents.signatures()
    with changing(path) as (database, is_new):
        done = Refreshed(rebuilt=is_new)
        database.execute("BEGIN")
        known = _known(database)
        changed = [unit for unit, signature in signatures.items() if known.get(unit, ("",))[0] != signature]
        for number, unit in enumerate(changed):
            _bring_up(database, contents, tree, unit, known.get(unit), signatures[unit], done)
            if number % 100 == 0:
                emit(StepProgress(STEP, number, len(changed)))
        for unit in known.keys() - signatures.keys():
            done.removed += _replace(database, unit, {})[1]
            database.execute("DELETE FROM units WHERE key = ?", (unit,))
        if done.removed:
            _forget_words(database)
        database.execute("COMMIT")
        try:
            done.vectors = embed_missing(database, embedder(), emit)
        except KtxError as error:
            done.error = error
        done.documents = database.execute("SELECT count(*) FROM docs").fetchone()[0]
    return done


def _known(database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    rows = database.execute("SELECT key, signature, digest FROM units")
    return {key: (signature, digest) for key, signature, digest in rows}


def _bring_up(
    database: sqlite3.Connection,
    contents: Contents,
    tree: Tree,
    unit: str,
    known: tuple[str, str] | None,
    signature: str,
    done: Refreshed,
) -> None:
    digest = contents.digest(unit, tree)
    if known is None or known[1] != digest:
        documents = contents.documents(unit, tree)
        added, removed = _replace(database, unit, documents)
        done.added, done.removed, done.units = done.added + added, done.removed + removed, done.units + 1
    database.execute("INSERT OR REPLACE INTO units VALUES (?, ?, ?)", (unit, signature, digest))


def _replace(database: sqlite3.Connection, unit: str, documents: Mapping[bytes, Any]) -> tuple[int, int]:
    """Put documents in the place of those a unit had; returns how many were added and removed."""
    stored = dict(database.execute("SELECT digest, id FROM docs WHERE unit = ?", (unit,)).fetchall())
    gone = [number for digest, number in stored.items() if digest not in documents]
    new = [document for digest, document in documents.items() if digest not in stored]
    remove(database, gone)
    add(database, unit, new)
    return len(new), len(gone)


def _forget_words(database: sqlite3.Connection) -> None:
    """Take words out that no document has any more: they may be of values that are withheld from now on."""
    database.execute("INSERT INTO texts (texts) VALUES ('optimize')")
    database.execute("DELETE FROM spellings WHERE stem NOT IN (SELECT term FROM terms)")
