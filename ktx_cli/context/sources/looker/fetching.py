"""Reads Looker: each explore once, dashboards and looks only where they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ktx_cli.context.sources.gathering import Document, Gathering
from ktx_cli.context.sources.http import HttpAuthError
from ktx_cli.context.sources.looker import documents
from ktx_cli.context.sources.looker.api import Looker
from ktx_cli.context.sources.looker.documents import FOLDERS_PATH, USAGE_PATH, explore_path
from ktx_cli.context.sources.looker.target import Target
from ktx_cli.context.sources.looker.usage import read_usage
from ktx_cli.context.sources.model import Snapshot
from ktx_cli.context.sources.port import FetchContext
from ktx_cli.core.errors import ResultWarning, SourceError
from ktx_cli.core.text import listing, one_line
from ktx_cli.project.config.sources import LookerSource


def fetch(entry: LookerSource, context: FetchContext, api: Looker, site: str) -> Snapshot:
    """Return what Looker has now; `site` is its address."""
    return _Fetch(entry, context, api, site).snapshot()


class _Fetch:
    def __init__(self, entry: LookerSource, context: FetchContext, api: Looker, site: str) -> None:
        self._entry, self._api, self._site = entry, api, site
        self._gathered = Gathering(context, site)
        self._targets: dict[tuple[str, str], Target] = {}
        self._unmapped: set[str] = set()
        self._warnings: list[ResultWarning] = []

    def snapshot(self) -> Snapshot:
        self._api.login()
        self._explores()
        self._folders()
        path_of, document_of = documents.dashboard_path, documents.dashboard_document
        self._contents(self._api.dashboards(), path_of, self._api.dashboard, document_of)
        self._contents(self._api.looks(), documents.look_path, self._api.look, documents.look_document)
        self._usage()
        warnings = [*self._warnings, *_unmapped(self._entry, self._unmapped)]
        return self._gathered.snapshot(f"Looker at {self._site}", warnings)

    def _explores(self) -> None:
        named = [
            (str(model["name"]), str(explore["name"]))
            for model in self._api.models()
            for explore in model["explores"]
            if isinstance(explore, Mapping) and explore.get("name")
        ]
        for done, (model, explore) in enumerate(sorted(set(named)), start=1):
            document = self._explore(model, explore)
            if document is not None:
                self._targets[model, explore] = Target.stored(document.get("target"))
            self._gathered.tell(done, len(named))

    def _explore(self, model: str, explore: str) -> Document | None:
        """Return an explore, None where it cannot be read or its connection is not wanted."""
        path = explore_path(model, explore)
        try:
            answer = self._api.explore(model, explore)
        except (SourceError, HttpAuthError) as error:
            self._gathered.skip(path, error)
            return self._gathered.kept(path)
        self._gathered.read(path, None)
        mappings, used = self._entry.mappings.connection_mappings, str(answer.get("connection_name"))
        if used in mappings and mappings[used] is None:
            return None
        if used not in mappings:
            self._unmapped.add(used)
        document = documents.explore_document(model, {**answer, "name": explore}, mappings)
        self._gathered.put(path, document)
        return document

    def _folders(self) -> None:
        try:
            folders = self._api.folders()
        except (SourceError, HttpAuthError) as error:
            self._gathered.skip(FOLDERS_PATH, error)
            return
        named = {
            str(each["id"]): {"name": str(each.get("name") or ""), "parent_id": each.get("parent_id")}
            for each in folders
            if each.get("id") is not None
        }
        self._gathered.put(FOLDERS_PATH, {"folders": named})

    def _contents(
        self,
        listed: Iterable[Mapping[str, Any]],
        path_of: Callable[[str], str],
        ask: Callable[[str], Mapping[str, Any]],
        document_of: Callable[[Mapping[str, Any]], Document],
    ) -> None:
        """Read dashboards or looks: each that changed, the others as they are kept."""
        wanted = [each for each in listed if each.get("id") not in (None, "") and not each.get("deleted")]
        for done, each in enumerate(wanted, start=1):
            path, moment = path_of(str(each["id"])), each.get("updated_at")
            document = self._gathered.unchanged(path, moment)
            if document is None:
                document = self._content(path, str(each["id"]), moment, ask, document_of)
            if document is not None:
                self._gathered.put(path, documents.with_targets(document, self._targets))
            self._gathered.tell(done, len(wanted))

    def _content(
        self,
        path: str,
        number: str,
        moment: object,
        ask: Callable[[str], Mapping[str, Any]],
        document_of: Callable[[Mapping[str, Any]], Document],
    ) -> Document | None:
        try:
            answer = ask(number)
        except (SourceError, HttpAuthError) as error:
            if getattr(error, "status", None) != 404:
                self._gathered.skip(path, error)
                return self._gathered.kept(path)
            return None
        self._gathered.read(path, moment)
        return document_of({**answer, "id": number})

    def _usage(self) -> None:
        """Write what was used; without the right to read it, what was known of it stays."""
        try:
            usage = read_usage(self._api)
        except (SourceError, HttpAuthError) as error:
            if getattr(error, "status", None) in (0, 401):
                raise
            self._gathered.keep(USAGE_PATH)
            self._warnings.append(_no_usage(error.message))
            return
        document = {kind: {key: each.to_json() for key, each in found.items()} for kind, found in usage.items()}
        self._gathered.put(USAGE_PATH, document)


def _no_usage(reason: str) -> ResultWarning:
    return ResultWarning(
        "no_usage",
        f"how often things of Looker are used is not known: {one_line(reason, 200)}",
        hint="give the role of the API key the permission see_system_activity",
    )


def _unmapped(entry: LookerSource, names: Iterable[str]) -> list[ResultWarning]:
    shown = listing(sorted(one_line(name, 60) for name in names))
    if not shown:
        return []
    where = f"connections.{entry.id}.mappings.connectionMappings"
    return [
        ResultWarning(
            "unmapped_connection",
            f"connections of Looker that are no connection here: {shown}; of their explores only pages are written",
            hint=f"add each to `{where}`, with null where it is not wanted",
        )
    ]
