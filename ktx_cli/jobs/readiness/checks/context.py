"""The check that every database has context, where people and agents read it: in the working tree."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.context.scan.catalog import shard_files
from ktx_cli.context.scan.shards import SUFFIXES
from ktx_cli.context.scan.snapshot import MANIFEST, manifest_hashes
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, shell_words
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import DATABASE_SOURCE, SEMANTIC_NAME, Layout
from ktx_cli.project.repository import Held, HeldReason, Repository, held_hint

CHECK = "context"


def check_context(context: CheckContext) -> list[Finding]:
    """Every database that can be read has a manifest."""
    connections = list(context.loaded.config.databases())
    repository = _repository(context)
    empty = [connection for connection in connections if _is_empty(context.layout, connection)]
    findings = []
    for connection in connections:
        for problem in context.manifests[connection].problems:
            findings.append(Finding(CHECK, Level.FAIL, problem.message, problem.hint))
        if connection in empty:
            level = Level.FAIL if empty == connections else Level.WARN
            findings.append(_without_tables(connection, level))
        else:
            findings += _missing(context, connection, repository)
    return findings or [Finding(CHECK, Level.OK, "every database has context")]


def _repository(context: CheckContext) -> Repository | None:
    try:
        return context.repository
    except KtxError:  # named by the check of the repository
        return None


def _is_empty(layout: Layout, connection: str) -> bool:
    """Say whether the last scan found no table; a snapshot that cannot be read says nothing."""
    where = layout.raw_path(connection, DATABASE_SOURCE, MANIFEST)
    try:
        text = read_bytes(layout.root / where)
        return text is not None and not shard_files(layout, connection) and not manifest_hashes(text, where)
    except KtxError:
        return False


def _without_tables(connection: str, level: Level) -> Finding:
    message = f"connection `{connection}` has no tables, so there is no context"
    hint = f"create a table in it, or correct connections.{connection} in ktx.yaml; then: ktx ingest {connection}"
    return Finding(CHECK, level, message, hint, Concern.SETUP)


def _missing(context: CheckContext, connection: str, repository: Repository | None) -> Iterator[Finding]:
    """Yield what of the connection's shards is not in the working tree."""
    has_shards = bool(shard_files(context.layout, connection))
    absent = [] if repository is None else _absent(repository, context.layout, connection)
    sparse = [held for held in absent if held.reason is HeldReason.SKIP_WORKTREE]
    lost = [held for held in absent if held.reason not in (HeldReason.SKIP_WORKTREE, HeldReason.UNREADABLE)]
    if lost:
        what = listing(held.path for held in lost)
        message = f"context of connection `{connection}` is deleted in your working tree: {what}"
        hint = held_hint(((held.path, held.reason) for held in lost), context.project_dir)
        yield Finding(CHECK, Level.FAIL, message, hint, Concern.SETUP)
    elif sparse and repository is not None and not has_shards:
        message = f"the context of connection `{connection}` is outside of your sparse checkout"
        where = f"{repository.layout.prefix}{SEMANTIC_NAME}"
        hint = shell_words("git", "-C", repository.layout.top_level, "sparse-checkout", "add", where)
        yield Finding(CHECK, Level.FAIL, message, hint, Concern.SETUP)
    elif not has_shards:
        message = f"connection `{connection}` has no context yet"
        yield Finding(CHECK, Level.FAIL, message, f"ktx ingest {connection}", Concern.SETUP)


def _absent(repository: Repository, layout: Layout, connection: str) -> list[Held]:
    try:
        shards = repository.committed(layout.schema_path(connection))
        return repository.absent(path for path in shards if path.endswith(SUFFIXES))
    except KtxError:  # named by the check of the repository
        return []
