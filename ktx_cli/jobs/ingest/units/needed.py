"""Whether agents have anything to do in a run: asked before what they work with is loaded."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ktx_cli.jobs.ingest.sources.work import SourceWork


def agents_needed(works: Sequence[SourceWork], database: sqlite3.Connection) -> bool:
    """Say whether there is a unit, a deleted file of which something came, or a candidate that waits."""
    if any(work.units for work in works if work.error is None) or any(evicted(work) for work in works):
        return True
    waiting = set(database.execute("SELECT DISTINCT connection, kind FROM waiting_candidates"))
    return any((work.connection, work.kind) in waiting for work in works if work.error is None)


def evicted(work: SourceWork) -> dict[str, tuple[str, ...]]:
    """Return the deleted raw files of a source -> the artifacts that came of them."""
    found = {path: work.manifest.files[path].artifacts for path in work.changes.deleted if path in work.manifest.files}
    return {path: artifacts for path, artifacts in found.items() if artifacts}
