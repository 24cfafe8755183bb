"""Which hosts the sources of a page name, as far as their raw files are on this disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.sources.raw_store import RawStore
from ktx_cli.context.wiki.hosts import hosts_of
from ktx_cli.context.wiki.lint import NamedHosts
from ktx_cli.context.wiki.model import Page
from ktx_cli.jobs.ingest.sources.choosing import choose_sources
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.targets import Target
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.documents import DocumentsSource
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree


def hosts_known(layout: Layout, config: KtxConfig) -> NamedHosts:
    """Return who tells which hosts the sources of a page name; None where they are not known.

    A page that manifests say came of raw files: the hosts those name, if all can be read. Any other page: none where it
    says what its `source` is (whose host is always named), else they are not known.
    """
    made = dict[str, list[RawFile | None]]()
    targets = [Target(connection, entry.driver) for connection, entry in config.usable().items()]
    for work in choose_sources(config, targets, WorkingTree(layout.root), model=False):
        for artifact, file in _artifacts(layout, work):
            made.setdefault(artifact, []).append(file)
    return lambda page: _hosts(page, made)


def _hosts(page: Page, made: Mapping[str, list[RawFile | None]]) -> Collection[str] | None:
    files = made.get(f"wiki:{page.key}")
    if files is None:
        return () if page.fields.get("source") else None
    there = [file for file in files if file is not None]
    return hosts_of(there) if len(there) == len(files) else None


def _artifacts(layout: Layout, work: SourceWork) -> Iterator[tuple[str, RawFile | None]]:
    """Yield every artifact of a source with a raw file it came of, None for one that is not on this disk."""
    store = RawStore(layout.raw_store)
    for path, state in work.manifest.files.items():
        if state.artifacts:
            file = _local(layout.root, work.entry, path) or store.find(path, state.sha256)
            yield from ((artifact, file) for artifact in state.artifacts)


def _local(root: Path, entry: object, path: str) -> RawFile | None:
    """Return a file of a folder of documents, as it is now; None where it is none, or not there."""
    if not isinstance(entry, DocumentsSource) or entry.repo_url is not None:
        return None
    content = read_bytes(root / Path(entry.path).expanduser() / path)
    return None if content is None else RawFile(path, "", len(content), lambda: content)
