"""What agents said of query histories becomes `usage` and wiki pages; written without them, in every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktx_cli.context.sources.port import ProjectContext
from ktx_cli.context.sources.query_history.evidence import QueryPattern, TableUsage
from ktx_cli.context.sources.query_history.pages import PREFIX, PageChange
from ktx_cli.context.sources.query_history.source import QueryHistorySource
from ktx_cli.context.sources.query_history.usage import UsageWritten
from ktx_cli.context.tools.models import Layers
from ktx_cli.context.tools.records import Records
from ktx_cli.context.wiki.keys import FOLDER, GLOBAL
from ktx_cli.context.wiki.loading import Wiki
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.page import render
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.sources.told import Tellings, Told
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus
from ktx_cli.project.workspace import Workspace


def tell(
    works: Iterable[SourceWork], workspace: Workspace, layers: Layers, outcomes: Sequence[UnitOutcome] = ()
) -> Tellings:
    """Write what the units of query histories said into an overlay, and mark the pages of what nobody asks any more.

    A history that could not be read is left as it is.
    """
    found: dict[tuple[str, str], Told] = {}
    for work in works:
        if work.error is None and isinstance(work.source, QueryHistorySource):
            own = [each for each in outcomes if (each.connection, each.kind) == (work.connection, work.kind)]
            found[work.connection, work.kind] = _tell(work, work.source, workspace, layers, own)
    return found


def _tell(
    work: SourceWork,
    source: QueryHistorySource,
    workspace: Workspace,
    layers: Layers,
    outcomes: Sequence[UnitOutcome],
) -> Told:
    heard = _Heard(outcomes)
    owned = work.manifest.owned if work.projection is None else work.projection.owned
    written = UsageWritten(owned=owned)
    if heard.usages:
        models = {work.connection: layers.model(workspace, work.connection)}
        context = ProjectContext(work.connection, workspace, models, owned)
        written = source.narrate(work.snapshot, context, heard.usages)
    pages = _pages(workspace, everything=bool(heard.patterns))
    changes = (
        source.pages(work.entry, work.snapshot, work.connection, pages, heard.patterns)
        if pages or heard.patterns
        else ()
    )
    for change in changes:
        workspace.write(change.page.path, render(change.page))
    return Told(
        written.owned,
        {change.page.key: change.reason for change in changes},
        {f"wiki:{change.page.key}": heard.raw(change) for change in changes},
        {
            **dict.fromkeys(sorted(written.changed), heard.narrators),
            **{change.page.path: heard.units(change) for change in changes},
        },
        written.warnings(work.connection),
    )


def _pages(workspace: Workspace, *, everything: bool) -> list[Page]:
    """Return the pages everybody sees; without `everything` those of query histories alone, by their names."""
    wiki = Wiki()
    wiki.refresh(workspace, workspace.paths(f"{FOLDER}{GLOBAL}/{'' if everything else PREFIX}"))
    return list(wiki.pages.values())


class _Heard:
    """The evidence of the units that landed, with where it was said."""

    def __init__(self, outcomes: Sequence[UnitOutcome]) -> None:
        self.usages: list[TableUsage] = []
        self.patterns: list[QueryPattern] = []
        self.narrators: tuple[str, ...] = ()
        self._said: dict[str, list[tuple[str, str]]] = {}
        for outcome in outcomes:
            if outcome.status is UnitStatus.DONE:
                self._take(outcome)

    def units(self, change: PageChange) -> tuple[str, ...]:
        """Return the units that asked for a page."""
        return tuple(dict.fromkeys(unit for unit, _ in self._places(change)))

    def raw(self, change: PageChange) -> tuple[str, ...]:
        """Return the raw files a page comes from."""
        return tuple(sorted({path for _, path in self._places(change)}))

    def _places(self, change: PageChange) -> list[tuple[str, str]]:
        return [place for each in change.page.texts("fingerprints") for place in self._said.get(each, ())]

    def _take(self, outcome: UnitOutcome) -> None:
        for record in Records.from_json(_records(outcome.session)).evidence:
            if record.evidence["kind"] == "table_usage":
                self.usages.append(TableUsage.model_validate(record.evidence))
                self.narrators = tuple(dict.fromkeys((*self.narrators, outcome.unit.key)))
                continue
            pattern = QueryPattern.model_validate(record.evidence)
            self.patterns.append(pattern)
            for each in pattern.fingerprints:
                self._said.setdefault(each, []).append((outcome.unit.key, record.raw_path))


def _records(session: Mapping[str, Any]) -> Mapping[str, list[dict[str, Any]]]:
    records: Mapping[str, list[dict[str, Any]]] = session.get("records", {})
    return records


def take_told(run: Run, tellings: Tellings) -> None:
    """Let the works of a run know what was written of them."""
    for work in run.works:
        work.told = tellings.get((work.connection, work.kind), Told())
        run.warnings.extend(work.told.warnings)
