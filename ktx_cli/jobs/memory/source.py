"""A capture as a context source in memory: one raw file, one unit of work, a manifest among the raw sources.

No connection can have the id `_memory`: ids begin with a letter or a digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from ktx_cli.context.sources.manifest import FileState, FileStatus, Manifest, manifest_path, parse_manifest
from ktx_cli.context.sources.model import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.context.sources.port import FetchContext, ProjectContext, Projection
from ktx_cli.context.wiki.keys import GLOBAL, page_path
from ktx_cli.core.text import file_stem
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.memory.records import MemoryRecord
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.tree import Tree

CONNECTION: Final = "_memory"
KIND: Final = "memory"
MANIFEST: Final = manifest_path(CONNECTION, KIND)

_OF_A_USER: Final = "what one user wants remembered is no definition for everybody"


class MemorySource:
    """A source that is nowhere but in the request."""

    kind: ClassVar[str] = KIND
    documents: ClassVar[bool] = False
    skills: ClassVar[tuple[str, ...]] = ("memory_capture",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Return nothing: what there is came with the request."""
        return Snapshot({})

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Return nothing: a text says nothing without a model."""
        return Projection()

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return nothing: see `work_of`."""
        return ()


def work_of(record: MemoryRecord, base: Tree) -> SourceWork:
    """Return the one work of a capture; raises `ConfigError` where the committed manifest cannot be read."""
    path = raw_path(record)
    content = record.content.encode("utf-8", "surrogatepass")
    raw = RawFile(path, record.sha256, len(content), lambda: content)
    unit = WorkUnit(
        "capture",
        record.label,
        (path,),
        notes=json.dumps([record.source_type, record.connection, record.user, record.replace or record.propose]),
        semantic=record.user is None,
        why_not=_OF_A_USER,
    )
    work = SourceWork(CONNECTION, None, MemorySource(), parse_manifest(base.read(MANIFEST), MANIFEST), asked=True)
    work.snapshot = Snapshot({path: raw}, complete=False, origin=f"captured {record.label}", fetched=1)
    work.changes = Changes(added=(path,))
    work.units = (unit,)
    return work


def raw_path(record: MemoryRecord) -> str:
    """Return the name of a capture's text in the manifest."""
    return f"{record.sha256}.md"


def path_of(artifact: str) -> str:
    """Return where an artifact is, or would be: the file of a page, the one ktx gives a source."""
    kind, _, name = artifact.partition(":")
    connection, _, source = name.partition("/")
    if kind == "sl":
        return f"{SEMANTIC_NAME}/{connection}/{file_stem(source)}.yaml"
    scope, _, key = name.rpartition("/")
    return page_path(scope or GLOBAL, key)


def state_of(manifest: Manifest, record: MemoryRecord) -> FileState | None:
    """Return what the manifest says of a capture's text: `failed` where only a part of it landed."""
    return manifest.files.get(raw_path(record))


def with_state(manifest: Manifest, record: MemoryRecord, artifacts: Iterable[str], *, whole: bool) -> Manifest:
    """Return the manifest with a capture that landed; not `whole`: it may be captured again."""
    known = state_of(manifest, record)
    came = {*artifacts, *(() if known is None else known.artifacts)}
    status = FileStatus.DONE if whole else FileStatus.FAILED
    return Manifest({**manifest.files, raw_path(record): FileState(record.sha256, status, tuple(sorted(came)))})


def without_state(manifest: Manifest, record: MemoryRecord) -> Manifest:
    """Return the manifest without a capture, so that the same text may be captured again."""
    return Manifest({path: state for path, state in manifest.files.items() if path != raw_path(record)})
