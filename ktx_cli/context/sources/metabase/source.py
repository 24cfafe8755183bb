"""The Metabase source: what a run calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ktx_cli.context.sources.http import HttpClient, RetryPolicy, Site
from ktx_cli.context.sources.http_errors import CHECKING
from ktx_cli.context.sources.metabase import fetching, projection, units
from ktx_cli.context.sources.metabase.api import Metabase
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.context.sources.port import FetchContext, ProjectContext, Projection
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import plural
from ktx_cli.project import secrets
from ktx_cli.project.config.sources import MetabaseSource as Entry

Open = Callable[[Site, RetryPolicy, FetchContext], HttpClient]


def open_http(site: Site, policy: RetryPolicy, context: FetchContext) -> HttpClient:
    """Return the client a fetch uses."""
    return HttpClient(site, policy=policy, stopped=context.stopped, emit=context.emit)


class MetabaseSource:
    """Metabase. `open_client` can be replaced in tests."""

    kind: ClassVar[str] = "metabase"
    documents: ClassVar[bool] = False
    skills: ClassVar[tuple[str, ...]] = ("metabase_ingest",)

    def __init__(self, open_client: Open = open_http) -> None:
        self._open = open_client

    def fetch(self, entry: Entry, context: FetchContext) -> Snapshot:
        """Read Metabase; cards that did not change come from the raw store."""
        site = _site(entry, context)
        # a card Metabase makes no SQL of is answered with 500 too: no use to ask often
        with (
            self._open(site, RetryPolicy(), context) as patient,
            self._open(site, RetryPolicy(tries=2), context) as brief,
        ):
            return fetching.fetch(entry, context, Metabase(patient, brief), site.base_url.rstrip("/"))

    def check(self, entry: Entry, context: FetchContext) -> str:
        """See `Checked`."""
        site = _site(entry, context)
        with self._open(site, CHECKING, context) as client:
            found = Metabase(client, client).databases()
        return f"Metabase at {site.base_url.rstrip('/')}, with {plural(len(found), 'database')}"

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write Metabase's texts about tables and columns."""
        return projection.project(snapshot, context)

    def units(self, entry: Entry, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return a unit for each collection with cards that changed."""
        return units.units(entry, snapshot, changes)


def _site(entry: Entry, context: FetchContext) -> Site:
    where = f"connections.{entry.id}"

    def resolved(value: str, key: str) -> str:
        return secrets.resolve(
            value, project_dir=context.layout.root, environ=context.environ, where=f"{where}.{key}"
        ).strip()

    key = "api_key" if entry.api_key or not entry.api_key_ref else "api_key_ref"
    given = entry.api_key or entry.api_key_ref
    if not given:
        raise ConfigError(f"`{where}` has no API key", hint=f"set `{where}.api_key` to env:METABASE_API_KEY")
    return Site(
        name="Metabase",
        where=where,
        base_url=resolved(entry.api_url, "api_url") if secrets.is_reference(entry.api_url) else entry.api_url.strip(),
        headers={"x-api-key": resolved(given, key)},
        credential=key,
        address="api_url",
        proxy=entry.network_proxy,
    )
