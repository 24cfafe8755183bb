"""The Looker source: what a run calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ktx_cli.context.sources.http import HttpClient, Site
from ktx_cli.context.sources.looker import fetching, projection, units
from ktx_cli.context.sources.looker.api import Looker
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.context.sources.port import FetchContext, ProjectContext, Projection
from ktx_cli.core.errors import ConfigError
from ktx_cli.project import secrets
from ktx_cli.project.config.sources import LookerSource as Entry

Open = Callable[[Site, FetchContext], HttpClient]


def open_http(site: Site, context: FetchContext) -> HttpClient:
    """Return the client a fetch uses."""
    return HttpClient(site, stopped=context.stopped, emit=context.emit)


class LookerSource:
    """A Looker instance. `open_client` can be replaced in tests."""

    kind: ClassVar[str] = "looker"
    documents: ClassVar[bool] = False
    skills: ClassVar[tuple[str, ...]] = ("looker_ingest",)

    def __init__(self, open_client: Open = open_http) -> None:
        self._open = open_client

    def fetch(self, entry: Entry, context: FetchContext) -> Snapshot:
        """Read Looker; dashboards and looks that did not change come from the raw store."""
        with self._api(entry, context) as api:
            return fetching.fetch(entry, context, api, api.site.base_url)

    def check(self, entry: Entry, context: FetchContext) -> str:
        """See `Checked`."""
        with self._api(entry, context) as api:
            api.login()
            return f"Looker at {api.site.base_url}"

    @contextlib.contextmanager
    def _api(self, entry: Entry, context: FetchContext) -> Iterator[Looker]:
        where = f"connections.{entry.id}"
        key = "client_secret" if entry.client_secret or not entry.client_secret_ref else "client_secret_ref"
        given = entry.client_secret or entry.client_secret_ref
        if not given:
            raise ConfigError(
                f"`{where}` has no client secret", hint=f"set `{where}.client_secret` to env:LOOKER_CLIENT_SECRET"
            )

        def resolved(value: str, name: str) -> str:
            root, environ = context.layout.root, context.environ
            return secrets.resolve(value, project_dir=root, environ=environ, where=f"{where}.{name}").strip()

        is_hidden = secrets.is_reference(entry.base_url)
        address = resolved(entry.base_url, "base_url") if is_hidden else entry.base_url.strip()
        site = Site("Looker", where, _without_path(address), credential=key)
        with self._open(site, context) as client:
            yield Looker(client, resolved(entry.client_id, "client_id"), resolved(given, key))

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write Looker's texts about tables and columns."""
        return projection.project(snapshot, context)

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each explore, dashboard and look that changed."""
        return units.units(snapshot, changes)


def _without_path(address: str) -> str:
    """Return the address without the path of the API, which people copy along."""
    return address.rstrip("/").removesuffix("/api/4.0").removesuffix("/api").rstrip("/")
