"""A project that a server holds open, with caches; cached answers ensure that all pages come from the same answer."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, Recent, StorageError, monotonic
from ktx_cli.jobs.serve.runs import Memories
from ktx_cli.project import (
    CONFIG_NAME,
    DECISIONS_NAME,
    SEMANTIC_NAME,
    SEPARATOR,
    KtxConfig,
    Layout,
    WorkingTree,
    connection_of,
    load_config,
    names_in,
    origin_of,
    stamp_of,
    stamps_below,
    state_version,
)
from ktx_cli.scan import decisions_path
from ktx_cli.warehouses import ConnectorPool, QueryCache, runs_pipelines

if TYPE_CHECKING:
    from ktx_cli.project import Mount, Mounts, Stamp
    from ktx_cli.search import Searcher
    from ktx_cli.semantic import Caller, ConnectionGuard, Graph, Model, Prepared, QueryServices


SECONDS: Final = 300.0
MOST: Final = 32
MOST_BYTES: Final = 64_000_000
"""Maximum total size of all cached answers, as counted by `row_memory`; the least used answers are dropped first."""


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    proof: tuple[object, ...]
    answer: Any
    size: int
    until: float


@dataclass(slots=True)
class KeptAnswers:
    """Answers by request; thread-safe.

    `proof`: the objects that an answer was computed with (settings, model). If they have been replaced, it is not
    returned any more: data hidden in the meantime is hidden on the next page too.
    """

    seconds: float = SECONDS
    most: int = MOST
    most_bytes: int = MOST_BYTES
    clock: Callable[[], float] = monotonic
    _kept: OrderedDict[str, _CachedAnswer] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: str, proof: tuple[object, ...]) -> Any | None:
        """Return the answer for a key, or None if it is not cached (any more)."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            same = len(kept.proof) == len(proof) and all(a is b for a, b in zip(kept.proof, proof, strict=True))
            if not same or kept.until < self.clock():
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return kept.answer

    def put(self, key: str, proof: tuple[object, ...], answer: Any, size: int) -> None:
        """Cache an answer of this many bytes, unless it is too large."""
        with self._lock:
            self._kept.pop(key, None)
            now = self.clock()
            for old in [each for each, kept in self._kept.items() if kept.until < now]:
                del self._kept[old]
            if size > self.most_bytes:
                return
            self._kept[key] = _CachedAnswer(proof, answer, size, now + self.seconds)
            while len(self._kept) > self.most or sum(each.size for each in self._kept.values()) > self.most_bytes:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(slots=True)
class CallsInProgress:
    """Counts the calls that use a project, which is not closed before the last of them ends; thread-safe."""

    _count: int = 0
    _is_over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def use(self) -> Iterator[bool]:
        """Keep the project open for a block; yields False if it is too late for that."""
        with self._lock:
            granted = not self._is_over
            self._count += granted
        try:
            yield granted
        finally:
            with self._lock:
                self._count -= granted

    def end(self, *, force: bool = False) -> bool:
        """Accept no more calls if none is in progress, or by `force`; returns whether the project can be closed."""
        with self._lock:
            self._is_over = self._is_over or force or not self._count
            return self._is_over


_QUESTIONS: Final = 128
"""Maximum number of compiled questions to cache per layer."""

_MOST_PARTS: Final = 16
"""Maximum number of parts of a project to keep open, one for each set of connections that agents may use."""

_COUNTS: Final = 256
"""Maximum number of answers about joins to cache."""

Stamps = Mapping[str, "Stamp | int"]
"""Path -> file stamp, which changes if a file or its permissions change, or if it is added or removed."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The result of a prepared question, and its dependencies other than the layer."""

    prepared: Prepared
    config: KtxConfig
    stamps: Stamps
    value: Any


@dataclass(slots=True)
class ServedProject:
    """A project that a server holds open, with its caches; thread-safe. Close it at the end.

    Files are checked for every question, which sees the latest edits to `ktx.yaml` and to the semantic layer.
    `is_own_process`: this process does nothing but serve, so permanent objects are excluded from garbage collection.
    """

    layout: Layout
    environ: Mapping[str, str]
    is_own_process: bool = False
    pool: ConnectorPool = field(default_factory=ConnectorPool)
    query_cache: QueryCache = field(default_factory=lambda: Recent(_COUNTS))
    answers: KeptAnswers = field(default_factory=KeptAnswers)
    calls: CallsInProgress = field(default_factory=CallsInProgress)
    memories: Memories = field(init=False)
    _config: tuple[Stamps, KtxConfig] | None = None
    _models: dict[str, tuple[Stamps | None, KtxConfig, Model]] = field(default_factory=dict)
    _questions: dict[str, tuple[Model, Recent[Prepared], Graph]] = field(default_factory=dict)
    _guards: dict[str, tuple[Model, ConnectionGuard]] = field(default_factory=dict)
    _made: OrderedDict[tuple[int, str], _Made] = field(default_factory=OrderedDict)
    _searcher: tuple[KtxConfig, Searcher] | None = None
    _mounts: tuple[KtxConfig, Stamps, Mounts] | None = None
    _mounted: dict[str, ServedProject] = field(default_factory=dict)
    _parts: OrderedDict[frozenset[str], ServedProject] = field(default_factory=OrderedDict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.memories = Memories(self.layout, self.environ)

    def config(self) -> KtxConfig:
        """Return the current settings in `ktx.yaml`; raises the errors of `load_config`."""
        with self._lock:
            stamps = _stamps([self.layout.config])
            if self._config is None or self._config[0] != stamps:
                self._config = (stamps, load_config(self.layout.config).config)
            return self._config[1]

    def load_layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        """Return the semantic layer of a connection, or its store, reloaded if one of its files has changed.

        See `ktx_cli.semantic.guarded.LoadLayer`.
        """
        from ktx_cli.semantic import load_layer

        with self._lock:
            stamps = _layer_stamps(layout.root, connection, config.connections)
            kept = self._models.get(connection)
            if kept is None or stamps is None or kept[0] != stamps or kept[1] is not config:
                kept = self._models[connection] = (stamps, config, load_layer(layout, config, connection))
                if self.is_own_process:
                    _freeze()
            return kept[2]

    @property
    def services(self) -> QueryServices:
        """The services that answer questions about this project: the cached layer, guards and connections."""
        from ktx_cli.semantic import QueryServices

        return QueryServices(self.load_layer, self.pool.open, self.guard, self.prepare, self.query_cache, self.remember)

    def prepare(self, model: Model, query: Mapping[str, Any], *, caller: Caller, now: datetime) -> Prepared:
        """Return a prepared question, compiled once a day while the layer is unchanged; see `Prepare`."""
        from ktx_cli.semantic import prepare

        key = (model.connection, json.dumps([query, caller.to_json()], sort_keys=True, default=repr), now.date())
        kept, graph = self._of_layer(model)
        return kept.get(key, lambda: prepare(model, query, caller=caller, now=now, graph=graph))

    def remember(self, connection: str, prepared: Prepared, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of a prepared question, recomputed if a decision, a status or a setting changed.

        A changed definition makes another layer, and with it another prepared question; so does another day.
        """
        decided = self.layout.root / DECISIONS_NAME, self.layout.root / decisions_path(connection)
        stamps, config = {**_stamps(decided), **state_version(self.layout)}, self.config()
        key = (id(prepared), name)
        with self._lock:
            kept = self._made.get(key)
        if kept is None or kept.prepared is not prepared or kept.config is not config or kept.stamps != stamps:
            kept = _Made(prepared, config, stamps, make())
            with self._lock:
                self._made[key] = kept
                self._made.move_to_end(key)
                while len(self._made) > 2 * _QUESTIONS:
                    self._made.popitem(last=False)
        return kept.value

    def _of_layer(self, model: Model) -> tuple[Recent[Prepared], Graph]:
        """Return the compiled questions for a layer and its joins; those for other layers are dropped."""
        from ktx_cli.semantic import graph_of

        with self._lock:
            kept = self._questions.get(model.connection)
            if kept is None or kept[0] is not model:
                kept = self._questions[model.connection] = (model, Recent(_QUESTIONS), graph_of(model))
                self._made.clear()
            return kept[1], kept[2]

    def guard(self, layout: Layout, config: KtxConfig, connection: str, model: Model) -> ConnectionGuard:
        """Return the guard for statements compiled from a layer; it stays the same while the layer is unchanged."""
        from ktx_cli.semantic import guard_of

        with self._lock:
            kept = self._guards.get(connection)
            if kept is None or kept[0] is not model:
                kept = self._guards[connection] = (model, guard_of(layout, config, connection, model).with_cache)
            return kept[1]

    def searcher(self, config: KtxConfig) -> Searcher:
        """Return the project's searcher with these settings."""
        from ktx_cli.agent_tools import open_searcher

        with self._lock:
            if self._searcher is None or self._searcher[0] is not config:
                if self._searcher is not None:
                    self._searcher[1].close()
                self._searcher = (config, open_searcher(self.layout, config, self.environ))
            return self._searcher[1]

    def mounts(self) -> Mounts | None:
        """Return the project's current mounts, or None if it has none."""
        config = self.config()
        if not config.mounts:
            return None
        from ktx_cli.project import load_mounts, mount_folder

        folders = [mount_folder(self.layout.root, path) for path in config.mounts.values()]
        with self._lock:
            stamps = _stamps(path for folder in folders for path in (folder, folder / CONFIG_NAME))
            if self._mounts is None or self._mounts[0] is not config or self._mounts[1] != stamps:
                self._mounts = (config, stamps, load_mounts(self.layout, config))
            return self._mounts[2]

    def runs_pipelines(self) -> bool:
        """Return whether a connection of the project or of a mount runs aggregation pipelines."""
        try:
            mounts = self.mounts()
            configs = [self.config()] if mounts is None else [config for _, _, config in mounts.projects()]
        except KtxError:  # a call of a tool reports it
            return False
        return any(runs_pipelines(entry.driver) for config in configs for entry in config.databases().values())

    def mounted(self, mount: Mount) -> ServedProject:
        """Return a mounted project, which stays open with its own caches and connections for as long as this project.

        Its own mounts are not followed.
        """
        folder = str(mount.layout.root.resolve())
        with self._lock:
            if folder not in self._mounted:
                layout = replace(mount.layout, connections=None)
                self._mounted[folder] = ServedProject(layout, self.environ, self.is_own_process)
            return self._mounted[folder]

    def folders(self) -> frozenset[Path]:
        """Return the folders of the project, of the one that it is a copy of, and of mounts that were used."""
        own = self.layout.root
        return frozenset((own, origin_of(own), *(each.layout.root for each in self._mounted.values())))

    def others(self) -> frozenset[str]:
        """Return the connections of the project that do not exist for the caller."""
        return frozenset()

    def within(self, connections: frozenset[str] | None) -> ServedProject:
        """Return this project as if it had only these connections; those of mounts are `NAME/ID`. None: all.

        Each such part has caches of its own, so that nothing that one caller read is returned to another.
        """
        if connections is None:
            return self
        with self._lock:
            if connections not in self._parts:
                self._parts[connections] = PartOfProject.of(self, connections)
            self._parts.move_to_end(connections)
            while len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
            return self._parts[connections]

    def close(self) -> None:
        """Close everything; a question in progress finishes first, and waiting captures continue without the server."""
        self.calls.end(force=True)
        for each in (*self._mounted.values(), *self._parts.values()):
            each.close()
        self.memories.close()
        self.pool.close()
        with self._lock:
            if self._searcher is not None:
                self._searcher[1].close()
                self._searcher = None


@dataclass(slots=True)
class PartOfProject(ServedProject):
    """A project as if it had only some of its connections. `whole`: the project, which reads its files."""

    whole: ServedProject = field(kw_only=True)
    of_mounts: Mapping[str, frozenset[str]] = field(default_factory=dict, kw_only=True)
    """Mount -> the connections of its project."""
    _part: tuple[KtxConfig, KtxConfig] | None = None

    def __post_init__(self) -> None:
        self.memories, self.calls = self.whole.memories, self.whole.calls

    @classmethod
    def of(cls, whole: ServedProject, connections: frozenset[str]) -> PartOfProject:
        """Return the part of a project with these connections."""
        own = frozenset(each for each in connections if SEPARATOR not in each)
        of_mounts: dict[str, frozenset[str]] = {}
        for each in connections - own:
            mount, _, connection = each.partition(SEPARATOR)
            of_mounts[mount] = of_mounts.get(mount, frozenset()) | {connection}
        layout = replace(whole.layout, connections=own)
        return cls(layout, whole.environ, False, whole.pool, whole.query_cache, whole=whole, of_mounts=of_mounts)

    def config(self) -> KtxConfig:
        """Return the current settings, with only the connections and mounts of this part."""
        whole = self.whole.config()
        with self._lock:
            if self._part is None or self._part[0] is not whole:
                self._part = (whole, whole.within(self.layout.connections or (), self.of_mounts.keys()))
            return self._part[1]

    def folders(self) -> frozenset[Path]:
        """Return the folders of the whole project."""
        return self.whole.folders()

    def others(self) -> frozenset[str]:
        """Return the connections of the project that are not in this part."""
        return frozenset(self.whole.config().connections) - frozenset(self.config().connections)

    def load_layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        """Return the semantic layer of a connection of this part, with what files of other connections hide in it."""
        if not self.layout.has(connection):
            connection_of(self.config(), connection)  # refuses it
        return self.whole.load_layer(self.whole.layout, self.whole.config(), connection)

    def mounts(self) -> Mounts | None:
        """Return the mounts of this part, each with only its connections, or None if it has none."""
        config, mounts = self.config(), self.whole.mounts()
        if mounts is None or not config.mounts:
            return None
        usable = {
            name: replace(
                each,
                layout=replace(each.layout, connections=self.of_mounts[name]),
                loaded=replace(each.loaded, config=each.config.within(self.of_mounts[name], ())),
            )
            for name, each in mounts.usable.items()
            if name in config.mounts
        }
        broken = {name: each for name, each in mounts.broken.items() if name in config.mounts}
        return replace(mounts, root=self.layout, config=config, usable=usable, broken=broken)

    def mounted(self, mount: Mount) -> ServedProject:
        """Return the part of a mounted project."""
        return self.whole.mounted(mount).within(self.of_mounts[mount.name])

    def close(self) -> None:
        """Close the searcher; everything else belongs to the whole project."""
        with self._lock:
            if self._searcher is not None:
                self._searcher[1].close()
                self._searcher = None


def _freeze() -> None:
    """Exclude all current objects from garbage collection, which would take longer than most answers."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _stamps(paths: Iterable[Path]) -> Stamps:
    """Return file stamps; a link has the stamp of its target, a broken link its own."""
    found = ((str(path), stamp_of(path)) for path in paths)
    return {path: stamp for path, stamp in found if stamp is not None}


def _layer_stamps(root: Path, connection: str, configured: Collection[str]) -> Stamps | None:
    """Return the stamps of a connection's files: its own folder, and the files of no connection.

    Includes folders, whose permissions matter; None if one cannot be listed.
    """
    try:
        known = {*configured, connection}
        others = [each for each in names_in(WorkingTree(root), SEMANTIC_NAME) if each not in known]
        tops = [f"{SEMANTIC_NAME}/{name}" for name in (connection, *others)]
        below = stamps_below(root, tops)
    except StorageError:
        return None
    found = ((path, stamp_of(root / path)) for path in (SEMANTIC_NAME, *tops))
    return {**below, **{path: stamp for path, stamp in found if stamp is not None}}
