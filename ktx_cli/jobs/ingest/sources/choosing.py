"""Which context sources a run works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ktx_cli.context.sources.manifest import manifest_path, parse_manifest
from ktx_cli.context.sources.port import Source
from ktx_cli.context.sources.registry import QUERY_HISTORY, source_for
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.targets import Target
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.connections import Database
from ktx_cli.project.config.query_history import ConnectionContext
from ktx_cli.project.tree import Tree


def choose_sources(config: KtxConfig, targets: Sequence[Target], base: Tree, *, model: bool) -> list[SourceWork]:
    """Return the sources of the targets with their committed manifests, by connection; `model`: agents work too."""
    return [
        _work(connection, entry, source, base, model) for connection, entry, source in sources_to_read(config, targets)
    ]


def sources_to_read(config: KtxConfig, targets: Iterable[Target]) -> Iterator[tuple[str, object, Source]]:
    """Yield connection, settings and source of everything among the targets that is a context source, or has one."""
    for target in targets:
        entry = config.connections[target.connection]
        if not isinstance(entry, Database):
            yield target.connection, entry, source_for(entry.driver)
        elif _has_history(entry):
            yield target.connection, entry, source_for(QUERY_HISTORY)


def _has_history(entry: Database) -> bool:
    context = getattr(entry, "context", None)
    return isinstance(context, ConnectionContext) and context.query_history.enabled


def _work(connection: str, entry: object, source: Source, base: Tree, model: bool) -> SourceWork:
    work = SourceWork(connection, entry, source, asked=model)
    path = manifest_path(connection, source.kind)
    try:
        work.manifest = parse_manifest(base.read(path), path)
    except KtxError as error:
        work.error = error
    return work
