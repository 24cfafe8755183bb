"""The origin of artifacts across all sources of a run: merged, removed, and written by reconciliation."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ktx_cli import sources
from ktx_cli.agent_tools import page_artifact
from ktx_cli.core import ConfigError, StorageError
from ktx_cli.documents import RawFile, WorkUnit
from ktx_cli.engine.work import Became, Reconciliation, SourceWork, UnitOutcome, UnitStatus, page_file
from ktx_cli.project import RAW_NAME, Workspace
from ktx_cli.wiki import place_of

_DELIVERY: Final = "/manifest.yaml"
_MOST_SHARED: Final = 12
"""Maximum number of additional files that a unit may read because its pages come from them."""

_MOST_KEPT: Final = 200_000
"""Maximum size in bytes of a file whose text is kept for the next run."""


def what_became(
    outcomes: Iterable[UnitOutcome], after: Workspace, reconciliation: Reconciliation | None = None
) -> Became:
    """Return the actions of merged units, passes and reconciliation on artifacts; `after`: the result."""
    reconciliation = reconciliation or Reconciliation()
    landed = [outcome.session for outcome in outcomes if outcome.status is UnitStatus.DONE]
    sessions = [*landed, *([] if reconciliation.problem else [reconciliation.session])]
    removed: set[str] = set()
    for action in (each for session in sessions for each in session.get("actions", ())):
        identity = _identity(action)
        removed = removed | {identity} if action["kind"] == "removed" else removed - {identity}
    deleted = (place_of(path) for path, content in after.changes().items() if content is None)
    removed |= {page_artifact(*place) for place in deleted if place is not None}
    merged: dict[str, set[str]] = {}
    for record in (each for session in sessions for each in session.get("records", {}).get("resolutions", ())):
        if record["kind"] == "merged":
            merged.setdefault(record["artifact"], set()).add(record["into"])
            removed |= {record["into"]} if _is_missing(record["into"], after) else set()
    gone = frozenset(each for each in removed if not each.startswith("wiki:") or _is_missing(each, after))
    return Became(gone, {artifact: frozenset(into) for artifact, into in merged.items()})


def _identity(action: Mapping[str, Any]) -> str:
    return f"wiki:{action['key']}" if action["target"] == "wiki" else f"sl:{action['connection']}/{action['key']}"


def _is_missing(artifact: str, tree: Workspace) -> bool:
    path = page_file(artifact)
    return path is not None and not tree.exists(path)


def reconciled_by(reconciliation: Reconciliation, work: SourceWork) -> dict[str, tuple[str, ...]]:
    """Return artifacts that reconciliation wrote -> the raw files of a source that it named for them."""
    found: dict[str, set[str]] = {}
    prefix = f"{work.connection}/"
    actions = [] if reconciliation.problem else reconciliation.session.get("actions", ())
    for action in actions:
        if action["kind"] != "removed":
            own = {path.removeprefix(prefix) for path in action["raw_paths"] if path.startswith(prefix)}
            found.setdefault(_identity(action), set()).update(own.intersection(work.snapshot.files))
    return {artifact: tuple(sorted(paths)) for artifact, paths in found.items() if paths}


def origins(works: Sequence[SourceWork], outcomes: Iterable[UnitOutcome]) -> dict[str, tuple[str, ...]]:
    """Return artifact -> its raw files that still exist, each prefixed with its source."""
    found: dict[str, set[str]] = {}
    there = {work.key: work.snapshot.files for work in works}
    for work in works:
        for path, state in work.delivered.files.items():
            for artifact in state.artifacts if path in work.snapshot.files else ():
                found.setdefault(artifact, set()).add(f"{work.connection}/{path}")
    for outcome in outcomes:
        for artifact, paths in outcome.produced().items() if outcome.status is UnitStatus.DONE else ():
            own = (path for path in paths if path in there.get(outcome.source, {}))
            found.setdefault(artifact, set()).update(f"{outcome.connection}/{path}" for path in own)
    return {artifact: tuple(sorted(paths)) for artifact, paths in sorted(found.items())}


def with_shared_files(works: Sequence[SourceWork]) -> list[SourceWork]:
    """Return the sources with units that may also read the other files that their pages come from."""
    made: dict[str, dict[str, tuple[SourceWork, str]]] = {}
    for work in works if any(each.units for each in works) else ():
        for path, state in work.delivered.files.items():
            for artifact in state.artifacts if path in work.snapshot.files else ():
                if artifact.startswith("wiki:"):
                    made.setdefault(artifact, {})[f"{work.connection}/{path}"] = (work, path)
    return [_with_shared(work, made) if work.units and work.error is None else work for work in works]


def _with_shared(work: SourceWork, made: Mapping[str, Mapping[str, tuple[SourceWork, str]]]) -> SourceWork:
    beside: dict[str, RawFile] = {}
    shared: dict[str, tuple[str, ...]] = {}
    units: list[WorkUnit] = []
    for unit in work.units:
        pages: dict[str, list[str]] = {}
        for artifact in _pages_of(work, unit):
            for name, (other, path) in made.get(artifact, {}).items():
                own = path if other.key == work.key else name
                if own not in unit.readable:
                    pages.setdefault(own, []).append(artifact)
                    beside |= {} if other.key == work.key else {name: other.snapshot.files[path]}
        new = sorted(pages, key=lambda path: (-len(pages[path]), path))[:_MOST_SHARED]
        shared |= {path: tuple(sorted({*shared.get(path, ()), *pages[path]})) for path in new}
        units.append(replace(unit, dependencies=(*unit.dependencies, *new)))
    return replace(work, units=tuple(units), beside=beside, shared=shared)


def _pages_of(work: SourceWork, unit: WorkUnit) -> list[str]:
    """Return the pages that an earlier run made from the files of a unit, sorted."""
    states = (work.delivered.files.get(path) for path in unit.files)
    found = {each for state in states if state is not None for each in state.artifacts}
    return sorted(each for each in found if each.startswith("wiki:"))


def earlier_texts(store: sources.RawStore, work: SourceWork, unit: WorkUnit) -> dict[str, RawFile]:
    """Return the changed files of a unit as the last run read them, if their content was kept."""
    found: dict[str, RawFile] = {}
    for path in unit.files:
        state = work.delivered.files.get(path)
        is_changed = state is not None and path in work.changes.modified and state.status is sources.FileStatus.DONE
        old = store.find(path, state.sha256) if state is not None and is_changed else None
        found |= {} if old is None else {path: old}
    return found


def keep_texts(store: sources.RawStore, works: Iterable[SourceWork], root: Path) -> None:
    """Keep the files that agents read in place, so that the next run can show what changed.

    The previous text is dropped. Other sources store their files when they are fetched.
    """
    for work in works:
        if work.error is not None or not work.asked or not any(work.source.folders(work.entry, root)):
            continue
        files = work.snapshot.files
        for path in work.changes.touched:
            if path in files and files[path].size <= _MOST_KEPT:
                with contextlib.suppress(StorageError):  # removed meanwhile: the next run shows no difference
                    store.put(path, files[path].read())
        there = {file.sha256 for file in files.values()}
        for path in (*work.changes.modified, *work.changes.deleted):
            state = work.delivered.files.get(path)
            if state is not None and state.sha256 not in there:
                store.discard(state.sha256)


def rewrite_deliveries(workspace: Workspace, became: Became, written: Collection[str]) -> None:
    """Rewrite the delivery files of sources that this run did not read if they name artifacts that no longer exist.

    `written`: the delivery files that the run writes anyway. An unreadable file stays, and is an error when its source
    is read.
    """
    changed = {*became.removed, *became.merged}
    if not changed:
        return
    for path in workspace.paths(f"{RAW_NAME}/"):
        if not path.endswith(_DELIVERY) or path in written:
            continue
        content = workspace.read(path) or b""
        if any(artifact.encode() in content for artifact in changed):
            rewritten = _rewritten(content, path, became)
            if rewritten is not None and rewritten != content:
                workspace.write(path, rewritten)


def _rewritten(content: bytes, path: str, became: Became) -> bytes | None:
    try:
        delivery = sources.parse_delivery(content, path)
    except ConfigError:
        return None
    files = {
        name: replace(state, artifacts=tuple(sorted(became.of(state.artifacts))))
        for name, state in delivery.files.items()
    }
    return None if files == delivery.files else sources.render_delivery(replace(delivery, files=files))
