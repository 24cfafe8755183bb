"""What workers on other hosts need to process a run's units: the trees, the sources with their files, the documents.

Contents are stored once by their sha256, so a run stores only what changed since the last one.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from ktx_cli import __version__, sources
from ktx_cli.agent_tools import Library
from ktx_cli.core import RUN_ID, KtxError, NotSupportedError, StorageError
from ktx_cli.documents import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine.provenance import earlier_texts
from ktx_cli.engine.work import SourceWork
from ktx_cli.project import (
    CONFIG_NAME,
    OWN_NAMES,
    PRIVATE_NAME,
    KtxConfig,
    Layout,
    SharedFiles,
    SharedTree,
    StateDatabase,
    Tree,
    WorkingTree,
    Workspace,
    is_sha256,
)

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class RunPackage:
    """The stored description of a run's units.

    `files`: the tree of the project's own files on disk. `base`: the tree that the run started from, with `overlay`,
    the changes that it has made since (path -> sha256, None for a deleted file).
    """

    run_id: str
    command: tuple[str, ...]
    version: str
    files: str
    base: str
    overlay: Mapping[str, str | None]
    works: tuple[Mapping[str, Any], ...]
    library: Mapping[str, Mapping[str, Sequence[Any]]]
    stopped: str | None = field(default=None, compare=False)

    def to_json(self) -> str:
        """Return the package as it is stored."""
        found = {name: value for name, value in asdict(self).items() if name != "stopped"}
        return json.dumps({"format": FORMAT, **found})

    @classmethod
    def read(cls, database: StateDatabase, run_id: str) -> RunPackage | None:
        """Return the package of a run, or None if the run has ended.

        Raises `NotSupportedError` for another version's, `StorageError` for one that no run has stored.
        """
        query = "SELECT package, stopped FROM run_packages WHERE run_id = ?"
        row = database.execute(query, (run_id,)).fetchone()
        if row is None:
            return None
        damaged = StorageError(f"the package of the run {run_id!r} is damaged", hint="start the run again")
        try:
            document = json.loads(row[0])
        except ValueError as error:
            raise damaged from error
        if not isinstance(document, dict):
            raise damaged
        version = document.get("version")
        if document.pop("format", None) != FORMAT or version != __version__:
            message = f"the run {run_id} was started by ktx {version}, but this worker is ktx {__version__}"
            raise NotSupportedError(message, hint="run the same version of ktx on all hosts")
        try:
            document |= {name: tuple(document[name]) for name in ("command", "works")}
            package = cls(**document, stopped=row[1])
        except (KeyError, TypeError) as error:
            raise damaged from error
        if package.run_id != run_id or not RUN_ID.fullmatch(run_id) or not is_sha256(package.files):
            raise damaged
        return package

    def tree(self, files: SharedFiles) -> Workspace:
        """Return the overlay that the run's units start from."""
        workspace = Workspace(SharedTree(files, files.tree(self.base)))
        contents = dict(files.get_many(name for name in self.overlay.values() if name is not None))
        workspace.apply({path: None if name is None else contents[name] for path, name in self.overlay.items()})
        return workspace

    def sources(self, files: SharedFiles, config: KtxConfig) -> list[SourceWork]:
        """Return the sources with their units, in order; raises `KtxError` if a connection is not configured here."""
        return [_restored(document, files, config) for document in self.works]

    def documents(self, files: SharedFiles) -> Library:
        """Return the run's documents."""
        return Library({source: _raw_files(found, files) for source, found in self.library.items()})

    def earlier(self, files: SharedFiles) -> Iterator[tuple[str, bytes]]:
        """Yield the paths and previous contents of changed files, which prompts show."""
        paths: dict[str, set[str]] = {}
        for document in self.works:
            for path, (sha256, _) in document["earlier"].items():
                paths.setdefault(str(sha256), set()).add(path)
        for sha256, content in files.get_many(paths):
            for path in sorted(paths[sha256]):
                yield path, content


def store_package(
    database: StateDatabase,
    layout: Layout,
    run_id: str,
    command: Sequence[str],
    base: Workspace,
    works: Sequence[SourceWork],
    library: Library,
) -> RunPackage:
    """Store what workers need for the units of some sources, in place of the packages of earlier runs.

    A file that no longer exists is missing for its unit alone.
    """
    files = SharedFiles(database)
    overlay = base.overlaid()
    files.put(content for content in overlay.values() if content is not None)
    needed: dict[str, RawFile] = {}
    described = tuple(_described(layout, work, needed) for work in works if work.units and work.error is None)
    for found in library.sources.values():
        needed |= {file.sha256: file for file in found.values()}
    files.put(_contents(needed.values()))
    package = RunPackage(
        run_id,
        tuple(command),
        __version__,
        files=files.put_tree(own_files(WorkingTree(layout.root))),
        base=files.put_tree(own_files(base.origin)),
        overlay={path: None if content is None else _sha256(content) for path, content in overlay.items()},
        works=described,
        library={source: _named(found) for source, found in library.sources.items()},
    )
    database.execute("DELETE FROM run_packages WHERE run_id <> ?", (run_id,))
    database.execute("INSERT OR REPLACE INTO run_packages VALUES (?, ?, NULL)", (run_id, package.to_json()))
    return package


def own_files(tree: Tree) -> dict[str, bytes]:
    """Return ktx's own files in a tree: the settings and the context, without private files."""
    found: dict[str, bytes] = {}
    for name in sorted(OWN_NAMES - {PRIVATE_NAME}):
        paths = [name] if "." in name else tree.paths(f"{name}/")
        for path in paths:
            content = tree.read(path)
            if content is not None:
                found[path] = content
    return found


def package_config(package: RunPackage, files: SharedFiles) -> bytes:
    """Return the text of the run's `ktx.yaml`."""
    return files.get(files.tree(package.files)[CONFIG_NAME])


def _described(layout: Layout, work: SourceWork, needed: dict[str, RawFile]) -> dict[str, Any]:
    own = {path: file for unit in work.units for path in unit.readable if (file := work.snapshot.files.get(path))}
    before = {
        path: file
        for unit in work.units
        for path, file in earlier_texts(sources.RawStore(layout.raw_store), work, unit).items()
    }
    for found in (own, work.beside, before):
        needed |= {file.sha256: file for file in found.values()}
    states = {path: work.delivered.files[path] for path in own if path in work.delivered.files}
    return {
        "connection": work.connection,
        "kind": work.kind,
        "files": _named(own),
        "beside": _named(work.beside),
        "shared": {path: list(pages) for path, pages in work.shared.items()},
        "delivered": {path: [each.sha256, each.status.value, list(each.artifacts)] for path, each in states.items()},
        "modified": sorted(path for path in own if path in work.changes.modified),
        "earlier": _named(before),
        "units": [asdict(unit) for unit in work.units],
    }


def _restored(document: Mapping[str, Any], files: SharedFiles, config: KtxConfig) -> SourceWork:
    connection, kind = document["connection"], document["kind"]
    entry = config.connections.get(connection)
    found = () if entry is None else sources.sources_of(entry)
    source = next((each for each in found if each.kind == kind), None)
    if source is None:
        raise KtxError(f"connection `{connection}` has no source of the kind `{kind}` here", code="not_supported")
    states = {
        path: sources.FileState(sha256, sources.FileStatus(status), tuple(artifacts))
        for path, (sha256, status, artifacts) in document["delivered"].items()
    }
    return SourceWork(
        connection,
        entry,
        source,
        sources.Delivery(states),
        Snapshot(_raw_files(document["files"], files)),
        Changes(modified=tuple(document["modified"])),
        units=tuple(_unit(each) for each in document["units"]),
        asked=True,
        beside=_raw_files(document["beside"], files),
        shared={path: tuple(pages) for path, pages in document["shared"].items()},
    )


def _unit(document: Mapping[str, Any]) -> WorkUnit:
    lists = {name: tuple(document[name]) for name in ("files", "dependencies", "peers")}
    return replace(WorkUnit("", "", ()), **{**document, **lists})


def _named(files: Mapping[str, RawFile]) -> dict[str, list[Any]]:
    return {path: [file.sha256, file.size] for path, file in files.items()}


def _raw_files(named: Mapping[str, Sequence[Any]], files: SharedFiles) -> dict[str, RawFile]:
    return {
        path: RawFile(path, sha256, size, functools.partial(files.get, sha256))
        for path, (sha256, size) in sorted(named.items())
    }


def _contents(files: Iterable[RawFile]) -> Iterator[bytes]:
    """Yield the contents that are as they were read; a unit that reads another one fails alone."""
    for file in files:
        try:
            content = file.read()
        except StorageError:
            continue
        if _sha256(content) == file.sha256:
            yield content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
