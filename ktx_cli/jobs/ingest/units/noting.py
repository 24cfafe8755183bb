"""What people should look at in the pages agents wrote: sentences to agents, and links nobody's source has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.tools.records import page_artifact
from ktx_cli.context.wiki.hosts import hosts_of
from ktx_cli.context.wiki.keys import place_of
from ktx_cli.context.wiki.links import hosts_in
from ktx_cli.context.wiki.lint import lint_page
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.page import parse
from ktx_cli.core.errors import ResultWarning
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus
from ktx_cli.jobs.wiki import warnings_of
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace


def page_warnings(
    works: Sequence[SourceWork], outcomes: Iterable[UnitOutcome], before: Tree, after: Workspace
) -> list[ResultWarning]:
    """Return what the lint finds in the pages an overlay changes and did not find in them `before`.

    A link is expected where a raw file has it that a unit named for the page, now or in an earlier run.
    """
    files = _files(works, outcomes)
    return warnings_of(finding for path in sorted(after.changes()) for finding in _found(path, before, after, files))


def _found(path: str, before: Tree, after: Tree, files: Mapping[str, list[RawFile]]) -> list[Finding]:
    page = _page(path, after)
    if page is None:
        return []
    old = _page(path, before)
    hosts = hosts_of(files.get(page_artifact(page.scope, page.key), ())) | (
        frozenset() if old is None else hosts_in(old.text)
    )
    known = set() if old is None else {(each.code, each.message) for each in lint_page(old, hosts)}
    return [each for each in lint_page(page, hosts) if (each.code, each.message) not in known]


def _page(path: str, tree: Tree) -> Page | None:
    place, content = place_of(path), tree.read(path)
    found = None if place is None or content is None else parse(*place, content)
    return found if isinstance(found, Page) else None


def _files(works: Sequence[SourceWork], outcomes: Iterable[UnitOutcome]) -> Mapping[str, list[RawFile]]:
    """Return artifact -> the raw files it comes of, as far as they are there."""
    by_source = {(work.connection, work.kind): work for work in works}
    named: list[tuple[str, SourceWork, Iterable[str]]] = [
        (artifact, work, (path,))
        for work in works
        for path, state in work.manifest.files.items()
        for artifact in state.artifacts
    ]
    for each in outcomes:
        work = by_source.get((each.connection, each.kind))
        if work is not None and each.status is UnitStatus.DONE:
            named += [(artifact, work, paths) for artifact, paths in each.produced().items()]
    found: dict[str, list[RawFile]] = {}
    for artifact, work, paths in named:
        files = work.snapshot.files
        found.setdefault(artifact, []).extend(files[path] for path in paths if path in files)
    return found
