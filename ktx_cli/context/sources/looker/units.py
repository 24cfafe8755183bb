"""The work Looker makes: a unit for each explore, dashboard and look that changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ktx_cli.context.sources.looker.documents import FOLDERS_PATH, USAGE_PATH, explore_path, queries_of
from ktx_cli.context.sources.looker.target import Target
from ktx_cli.context.sources.looker.usage import Lane, Usage
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.core.text import one_line

_KINDS: Final[Mapping[str, str]] = {"explores": "explore", "dashboards": "dashboard", "looks": "look"}
PREFER: Final = (
    "Where a source without the prefix `looker__` already defines the same thing, from a repository or from people, "
    "that one counts: add to it, or link it, and make no second one."
)


def units(snapshot: Snapshot, changes: Changes) -> tuple[WorkUnit, ...]:
    """Return the units: explores first, then dashboards and looks, each by path."""
    touched = sorted(changes.touched, key=lambda path: (*_KINDS, "").index(_folder(path)))
    wanted = [path for path in touched if _folder(path)]
    if not wanted:
        return ()
    usage = json.loads(snapshot.files[USAGE_PATH].read()) if USAGE_PATH in snapshot.files else None
    return tuple(_unit(path, json.loads(snapshot.files[path].read()), usage, snapshot) for path in wanted)


def _folder(path: str) -> str:
    folder = path.partition("/")[0]
    return folder if folder in _KINDS else ""


def _unit(path: str, document: Mapping[str, Any], usage: Mapping[str, Any] | None, snapshot: Snapshot) -> WorkUnit:
    folder = _folder(path)
    name = str(document.get("title") or document.get("label") or document.get("name") or path)
    is_explore = folder == "explores"
    targets = [document] if is_explore else queries_of(document)
    why_not = _why_not([Target.stored(each.get("target")) for each in targets])
    return WorkUnit(
        key=path.removesuffix(".json").replace("/", "."),
        label=f"{_KINDS[folder]} {one_line(name, 80)}",
        files=(path,),
        dependencies=_dependencies([] if is_explore else targets, snapshot),
        notes="\n".join(filter(None, (_used(folder, document, usage), PREFER))),
        semantic=not why_not,
        why_not=why_not,
    )


def _dependencies(queries: Iterable[Mapping[str, Any]], snapshot: Snapshot) -> tuple[str, ...]:
    explores = {explore_path(str(query.get("model")), str(query.get("view"))) for query in queries}
    wanted = [*sorted(explores), FOLDERS_PATH, USAGE_PATH]
    return tuple(path for path in wanted if path in snapshot.files)


def _why_not(targets: Iterable[Target]) -> str:
    """Return why nothing may be written into the semantic layer: no table is known of any of its queries."""
    reasons: list[str] = []
    for target in targets:
        if target.why is None:
            return ""
        reasons.append(target.why.value)
    return f"its tables are not known: {', '.join(sorted(set(reasons)))}" if reasons else "it has no query"


def _used(folder: str, document: Mapping[str, Any], usage: Mapping[str, Any] | None) -> str:
    """Return what is known of its use, and what that means for the work."""
    if usage is None:
        return ""
    key = f"{document['model']}::{document['name']}" if folder == "explores" else str(document["id"])
    found = Usage.stored(usage.get(folder, {}).get(key)) or Usage()
    if found.lane is Lane.SKIP and folder != "explores":
        return "Nobody used it in the last 30 days: only write what is nowhere else."
    return f"Used in the last 30 days: at least {found.queries} queries by {found.users} people ({found.lane.value})."
