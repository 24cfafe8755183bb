"""The Looker source: opens the API, and cuts what changed into units."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, SettingPath, one_line
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.project import is_reference
from ktx_cli.project import resolve as resolve_secret
from ktx_cli.sources.http import HttpClient, Site
from ktx_cli.sources.looker import LookerConnection
from ktx_cli.sources.looker import fetch as fetching
from ktx_cli.sources.looker import proposal as projection
from ktx_cli.sources.looker.fetch import FOLDERS_PATH, USAGE_PATH, Lane, Looker, Target, Usage, explore_path, queries_of
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source

Open = Callable[[Site, FetchContext], HttpClient]


def open_http(site: Site, context: FetchContext) -> HttpClient:
    """Return the client a fetch uses."""
    return HttpClient(site, stopped=context.stopped, emit=context.emit)


class LookerSource(Source):
    """A Looker instance. `open_client` can be replaced in tests."""

    kind: ClassVar[str] = "looker"
    skills: ClassVar[tuple[str, ...]] = ("looker_ingest",)

    def __init__(self, open_client: Open = open_http) -> None:
        self._open = open_client

    def fetch(self, entry: LookerConnection, context: FetchContext) -> Snapshot:
        """Read Looker; dashboards and looks that did not change come from the raw store."""
        with self._api(entry, context) as api:
            return fetching.fetch(entry, context, api, api.site.base_url)

    def check(self, entry: LookerConnection, context: FetchContext) -> str:
        """See `Source`."""
        with self._api(entry, context) as api:
            api.login()
            return f"Looker at {api.site.base_url}"

    @contextlib.contextmanager
    def _api(self, entry: LookerConnection, context: FetchContext) -> Iterator[Looker]:
        where = f"connections.{entry.id}"
        key = "client_secret" if entry.client_secret or not entry.client_secret_ref else "client_secret_ref"
        given = entry.client_secret or entry.client_secret_ref
        if not given:
            hint = Hint("set `{}` to env:LOOKER_CLIENT_SECRET", SettingPath(f"{where}.client_secret"))
            raise ConfigError(f"`{where}` has no client secret", hint=hint)

        def resolved(value: str, name: str) -> str:
            root, environ = context.layout.root, context.environ
            return resolve_secret(value, project_dir=root, environ=environ, where=f"{where}.{name}").strip()

        is_hidden = is_reference(entry.base_url)
        address = resolved(entry.base_url, "base_url") if is_hidden else entry.base_url.strip()
        site = Site("Looker", where, _without_path(address), credential=key)
        with self._open(site, context) as client:
            yield Looker(client, resolved(entry.client_id, "client_id"), resolved(given, key))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write Looker's texts about tables and columns."""
        return projection.project(snapshot, context)

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each explore, dashboard and look that changed."""
        return units(snapshot, changes)


def _without_path(address: str) -> str:
    """Return the address without the path of the API, which people copy along."""
    return address.rstrip("/").removesuffix("/api/4.0").removesuffix("/api").rstrip("/")


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
