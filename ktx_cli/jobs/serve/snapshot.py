"""The published snapshot: the context of one commit in the shared database, for servers without a clone of git."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    ConfigError,
    Emit,
    GitError,
    Hint,
    KtxError,
    Notice,
    NotReadyError,
    Record,
    ignore_events,
    isoformat,
    listing,
    now,
)
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.project import (
    KtxConfig,
    Layout,
    ProjectCopy,
    Repository,
    SharedFiles,
    StateDatabase,
    copy_project,
    load_config,
    open_copy,
    open_for_writing,
    open_local,
    prepare_private_folder,
    read_bytes,
    read_state,
    remove_old_copies,
    report_outages,
    shared_state_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

NAME: Final = "served"
CHECK_SECONDS: Final = 5.0
"""How often a server looks for a newer snapshot."""

_PUBLISH: Final = Command("mcp", "publish")
_IN_A_CLONE: Final = Hint("in a clone of the project: {}", _PUBLISH)

_STATUSES: Final = ("accepted_files", "statuses")
"""The tables of this working tree that belong to a commit."""


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    """A published snapshot. `tree`: its files; `statuses`: who accepted its definitions, as a stored file."""

    tree: str
    statuses: str
    commit: str
    published: str
    host: str

    json_keys = ("commit", "published", "host", "tree")

    def key(self, settings: bytes) -> str:
        """Return the name of the folder with a copy of it, for the settings of a server."""
        return f"{self.tree[:12]}{self.statuses[:12]}{SharedFiles.name_of(settings)[:8]}"


def published_snapshot(layout: Layout) -> Snapshot | None:
    """Return the snapshot that servers should serve, or None if none was published; raises `StorageError`."""
    return read_state(layout, _published)


def _published(database: StateDatabase) -> Snapshot | None:
    query = "SELECT tree, statuses, commit_id, published, host FROM published WHERE name = ?"
    row = database.execute(query, (NAME,)).fetchone()
    return None if row is None else Snapshot(*row)


@dataclass(frozen=True, slots=True)
class Publication:
    """What `publish` did. `files`: their number; `replaced`: the commit that was published before, if any."""

    snapshot: Snapshot
    files: int
    replaced: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**self.snapshot.to_json(), "files": self.files, "replaced": self.replaced}


def publish(layout: Layout, *, force: bool = False, emit: Emit = ignore_events) -> Publication:
    """Publish the context of the checked-out commit.

    Uncommitted edits are not part of it. The published commit must be in the history of the new one, so that a slow or
    repeated job does not move the servers back; `force` publishes any commit. Raises `ConfigError` without a shared
    state or for a `ktx.yaml` that cannot be used, `NotReadyError` without a commit, `GitError`, `StorageError`.
    """
    with report_outages(lambda message: emit(Notice(message))):
        return _publish(layout, force=force, emit=emit)


def _publish(layout: Layout, *, force: bool, emit: Emit) -> Publication:
    from ktx_cli.engine import ProjectBase, own_files
    from ktx_cli.jobs.semantic.statuses import keep_statuses

    require_shared(layout)
    repository = Repository.discover(layout.root)
    commit = None if repository is None else repository.head().commit
    if repository is None:
        hint = Hint("run {} in a clone of the project, or create its repository with {}", _PUBLISH, Command("ingest"))
        raise NotReadyError(f"there is no commit to publish: {layout.root} is not in a git repository", hint=hint)
    if commit is None:
        raise NotReadyError("there is no commit to publish", hint=Command("ingest"))
    found = own_files(ProjectBase(layout, repository, commit))
    config = load_config(layout.config, data=found.get("ktx.yaml")).config
    if config.mounts:
        emit(Notice(f"mounted projects are not part of the snapshot: {listing(config.mounts)}"))
    keep_statuses(layout, config)
    with open_local(layout) as local:
        statuses = {table: [list(row) for row in local.execute(f"SELECT * FROM {table}")] for table in _STATUSES}
    text = json.dumps(statuses).encode()
    with open_for_writing(layout) as database:
        files = SharedFiles(database)
        files.put((text,))
        tree = files.put_tree(found)
        with transaction(database):
            replaced = _published(database)
            if replaced is not None and not force:
                _check_order(repository, replaced, commit)
            row = (NAME, tree, SharedFiles.name_of(text), commit, isoformat(now()), socket.gethostname())
            database.execute("INSERT OR REPLACE INTO published VALUES (?, ?, ?, ?, ?, ?)", row)
        files.drop_unused()
    return Publication(Snapshot(*row[1:]), len(found), None if replaced is None else replaced.commit)


def _check_order(repository: Repository, published: Snapshot, commit: str) -> None:
    """Raise `GitError` unless a commit follows the published one, or is the same."""
    follows = repository.is_ancestor(published.commit, commit)
    if follows:
        return
    new, old = commit[:12], f"{published.commit[:12]}, published from {published.host} at {published.published},"
    force = Command("mcp", "publish", "--force")
    if follows is None and not repository.is_shallow:
        message = f"this clone does not have commit {old} and cannot tell whether {new} follows it"
        hint = Hint(
            "push that commit from {}, then fetch it with {}; to publish {} anyway, run {}",
            published.host,
            Command("fetch", program="git"),
            new,
            force,
        )
    elif follows is None:
        message = f"this clone does not show whether commit {new} follows {old} because its history is incomplete"
        fetch = Command("fetch", "--unshallow", program="git")
        hint = Hint(
            "fetch the history, for a shallow clone with {}; to publish the commit anyway, run {}", fetch, force
        )
    elif repository.is_ancestor(commit, published.commit):
        message = f"commit {new} is older than {old} so servers would go back to it"
        hint = Hint("check out a newer commit; to publish this one anyway, run {}", force)
    else:
        message = f"commit {new} does not follow {old} but has a different history"
        hint = Hint("merge the published commit; to publish this one anyway, run {}", force)
    details = {"commit": commit, "published": published.commit}
    raise GitError(message, hint=hint, details=details)


def require_shared(layout: Layout) -> None:
    """Raise `ConfigError` for a project without a shared state."""
    if shared_state_of(layout) is None:
        message = "snapshots are stored in the shared state, but storage.state is not `postgres`"
        raise ConfigError(message, hint="set storage.state: postgres and storage.postgres")


def _require_no_mounts(config: KtxConfig) -> None:
    """Raise `ConfigError` for a project with mounts: their files are in no snapshot of it."""
    if config.mounts:
        message = f"a replica serves one project, but ktx.yaml mounts others: {listing(config.mounts)}"
        hint = (
            "remove `mounts` from the ktx.yaml of the replica and run replicas of each mounted project, or serve the "
            "root without --replica"
        )
        raise ConfigError(message, hint=hint)


@dataclass(frozen=True, slots=True)
class _OpenSnapshot:
    """A snapshot that is served. `key`: identifies it and the settings; `copy`: its files, kept until `close`."""

    key: str
    project: ServedProject
    copy: ProjectCopy

    def close(self) -> None:
        self.project.close()
        self.copy.close()


@dataclass(slots=True)
class SnapshotFollower:
    """Keeps the published snapshot open, and opens a newer one beside it. `layout`: the project of the server.

    The previous snapshot stays open until the last call that uses it ends.
    """

    layout: Layout
    environ: Mapping[str, str]
    on_change: Callable[[ServedProject], None] = lambda project: None
    snapshot: Snapshot | None = None
    """What is served."""
    problem: KtxError | None = None
    """Why the newest snapshot is not the one that is served."""
    _served: _OpenSnapshot | None = None
    _retired: list[_OpenSnapshot] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> ServedProject:
        """Return the project of the published snapshot; raises `NotReadyError` if there is none."""
        require_shared(self.layout)
        self.refresh()
        if self.problem is not None:
            raise self.problem
        if self._served is None:
            raise NotReadyError("no snapshot of this project has been published", hint=_IN_A_CLONE)
        return self._served.project

    def refresh(self) -> None:
        """Serve the newest snapshot. If it cannot be opened, the previous one stays, and `problem` says why."""
        with self._lock:
            try:
                newest = published_snapshot(self.layout)
                if newest is not None:
                    self._serve(newest)
                self.problem = None
            except KtxError as error:
                self.problem = error
            self._retire()

    def _serve(self, newest: Snapshot) -> None:
        """Serve a snapshot with the current settings. The files of another commit may be the same."""
        settings = read_bytes(self.layout.config)
        key = newest.key(settings or b"")
        if self._served is None or key != self._served.key:
            _require_no_mounts(load_config(self.layout.config, data=settings).config)
            opened = self._open(newest, key, settings or b"")
            if self._served is not None:
                self._retired.append(self._served)
            self._served = opened
            self.on_change(opened.project)
            remove_old_copies(opened.copy.layout.root.parent)
        if newest != self.snapshot:
            facts = newest.commit, newest.published, newest.host, self.layout.root
            log.info("serving commit %s, published at %s from %s, for %s", *facts)
            self.snapshot = newest

    def close(self) -> None:
        """Close all snapshots."""
        with self._lock:
            for snapshot in self._retired:
                snapshot.close()
            self._retired.clear()
            if self._served is not None:
                self._served.close()
                self._served = None

    def _retire(self) -> None:
        for each in [each for each in self._retired if each.project.calls.end()]:
            self._retired.remove(each)
            each.close()
            remove_old_copies(each.copy.layout.root.parent)

    def _open(self, snapshot: Snapshot, key: str, settings: bytes) -> _OpenSnapshot:
        copy = self._copy(snapshot, key, settings)
        try:
            project = ServedProject(copy.layout, self.environ, is_own_process=True)
            project.config()
        except BaseException:
            copy.close()
            raise
        return _OpenSnapshot(key, project, copy)

    def _copy(self, snapshot: Snapshot, key: str, settings: bytes) -> ProjectCopy:
        prepare_private_folder(self.layout)
        layout = Layout(self.layout.snapshots / key)
        copy = open_copy(layout)
        if copy is None:
            with open_for_writing(self.layout) as database:
                files = SharedFiles(database, self.layout.shared_files, again=_IN_A_CLONE)
                files.drop_unused_copies()
                names, statuses = files.tree(snapshot.tree), json.loads(files.get(snapshot.statuses))

                def finish(draft: Layout) -> None:
                    draft.config.write_bytes(settings)  # those of its key, even if the file has changed meanwhile
                    self._finish(draft, statuses)

                copy = copy_project(self.layout, layout, names, files, finish)
        return copy

    def _finish(self, draft: Layout, statuses: Mapping[str, list[list[Any]]]) -> None:
        """Let a copy say who accepted its definitions, and make it searchable."""
        from ktx_cli.jobs.index import build_index
        from ktx_cli.semantic import store_layers

        with open_local(draft) as local:
            for table, rows in statuses.items():
                if table in _STATUSES and rows:
                    places = ", ".join("?" * len(rows[0]))
                    local.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", rows)
        config = load_config(draft.config).config
        store_layers(draft, config)
        build_index(draft, config, self.environ)
