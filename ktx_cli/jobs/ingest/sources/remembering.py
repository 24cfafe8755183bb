"""What a run leaves of its sources: manifests in the commit; cursors and fetched files in the state database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ktx_cli.context.sources.manifest import FileState, FileStatus, Manifest, render_manifest
from ktx_cli.core.clock import isoformat, now
from ktx_cli.jobs.ingest.sources.fetching import Fetched
from ktx_cli.jobs.ingest.sources.projecting import digest
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.outcome import actions_of
from ktx_cli.project.state import transaction
from ktx_cli.project.workspace import Workspace

Of = tuple[str, str]
"""Connection and kind of a source."""


def next_manifest(work: SourceWork, workspace: Workspace) -> Manifest:
    """Return the manifest after this run.

    Equal to the committed one where neither a file nor what is owned is another, whatever else a projection read.
    """
    made = _manifest(work)
    return work.manifest if made == work.manifest else replace(made, projected=digest(work, workspace))


def _manifest(work: SourceWork, failed: Collection[str] = ()) -> Manifest:
    """Return the states; `failed`: raw files whose work did not land, so that they count as new.

    A deleted file of which something came stays until somebody decided what becomes of that.
    """
    came, unfinished = _artifacts(work), work.unfinished()
    gone = {path for path in work.changes.deleted if path in work.evicted or not work.manifest.files[path].artifacts}
    kept = {path: state for path, state in work.manifest.files.items() if path not in gone}
    files = {
        path: FileState(
            file.sha256,
            FileStatus.FAILED if path in failed or path in unfinished else _status(work, path),
            tuple(sorted(came.get(path, ()))),
        )
        for path, file in work.snapshot.files.items()
    }
    projected = work.manifest.owned if work.projection is None else work.projection.owned
    owned = projected if work.told.owned is None else work.told.owned
    return Manifest({**kept, **files}, owned, work.manifest.projected)


def _status(work: SourceWork, path: str) -> FileStatus:
    state = work.manifest.files.get(path)
    if state is not None and path not in work.changes.touched:
        return state.status
    if path in work.worthless:
        return FileStatus.SKIPPED
    handled = work.projection is not None and path in work.projection.handled
    return FileStatus.DONE if work.asked or handled else FileStatus.WAITING


def _artifacts(work: SourceWork) -> Mapping[str, set[str]]:
    """Return raw file -> the artifacts that came of it, of this run and of earlier ones.

    Of a file that changed too: its pages stand whether or not a model has read it again. Only what its units removed
    is no more.
    """
    removed = {each.identity for outcome in work.landed() for each in actions_of(outcome) if each.kind == "removed"}
    found = {path: {*state.artifacts} - removed for path, state in work.manifest.files.items()}
    for artifact, paths in work.produced().items():
        for path in paths:
            found.setdefault(path, set()).add(artifact)
    return found


def write_manifests(works: Iterable[SourceWork], workspace: Workspace) -> None:
    """Put the manifests of all sources that were read into the overlay."""
    for work in works:
        if work.error is None:
            made = next_manifest(work, workspace)
            if made != work.manifest:
                workspace.write(work.manifest_path, render_manifest(made))


def manifests_without(works: Iterable[SourceWork], held: frozenset[str]) -> dict[str, bytes]:
    """Return the manifests, as texts by path, for when the held paths keep their old content.

    What is owned there is owned as before, files whose artifacts they are count as new, and the source projects again.
    """
    found: dict[str, bytes] = {}
    for work in works:
        if work.error is not None or not work.touched_paths().intersection(held):
            continue
        failed = {path for each in work.landed() if held.intersection(each.changes) for path in each.unit.files}
        made = _manifest(work, failed)
        owned = {path: items for path, items in made.owned.items() if path not in held}
        owned |= {path: items for path, items in work.manifest.owned.items() if path in held}
        found[work.manifest_path] = render_manifest(Manifest(made.files, owned))
    return found


Fetches = tuple[Mapping[Of, Fetched], Mapping[Of, str]]
"""Per source what its last fetch left, and the digest of what its last projection read."""


def load_fetches(database: sqlite3.Connection) -> Fetches:
    """Return per source what its last fetch left, and the digest of what its last projection read."""
    rows = database.execute("SELECT connection, kind, cursor, files, projected FROM fetches").fetchall()
    fetches = {(row[0], row[1]): Fetched(row[2], json.loads(row[3])) for row in rows}
    return fetches, {(row[0], row[1]): row[4] for row in rows}


def save_fetches(database: sqlite3.Connection, works: Iterable[SourceWork], workspace: Workspace) -> None:
    """Store where the next fetches may go on; called when the run has landed, never before."""
    with transaction(database):
        for work in works:
            if work.error is None:
                files = {path: file.sha256 for path, file in work.snapshot.files.items()}
                values = (work.connection, work.kind, isoformat(now()), work.snapshot.cursor, json.dumps(files))
                database.execute(
                    "INSERT OR REPLACE INTO fetches VALUES (?, ?, ?, ?, ?, ?)", (*values, digest(work, workspace))
                )
