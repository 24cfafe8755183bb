"""One served project: its settings, semantic layers, open connections and search, as its files are now."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.connectors.pooling import ConnectorPool
from ktx_cli.connectors.remembering import Counts
from ktx_cli.core.recent import Recent
from ktx_cli.jobs.serving.answers import KeptAnswers
from ktx_cli.jobs.serving.memories import Memories
from ktx_cli.project.config import KtxConfig, load_config
from ktx_cli.project.layout import SEMANTIC_NAME, Layout

if TYPE_CHECKING:  # a client waits for the server's first word: what answers questions is loaded with the first one
    from ktx_cli.context.search.index.searching import Searcher
    from ktx_cli.context.semantic.asking import Prepared
    from ktx_cli.context.semantic.graph import Graph
    from ktx_cli.context.semantic.model import Model
    from ktx_cli.jobs.semantic.guarded import Guard
    from ktx_cli.jobs.semantic.means import Means

_QUESTIONS: Final = 128
"""Compiled questions of a layer that are kept."""

_COUNTS: Final = 256
"""Answers about joins that are kept."""

Stamp = tuple[tuple[str, tuple[int, ...]], ...]
"""Path with inode, size, times of change and mode of each file: another one where a file was changed, added or removed,
or where who may read it has changed."""


@dataclass(slots=True)
class ServedProject:
    """What a server keeps of a project; may be used by many threads. Close it in the end.

    Files are looked at with every question: an edit of `ktx.yaml` or of the semantic layer is seen by the next one.
    """

    layout: Layout
    environ: Mapping[str, str]
    pool: ConnectorPool = field(default_factory=ConnectorPool)
    counted: Counts = field(default_factory=lambda: Recent(_COUNTS))
    answers: KeptAnswers = field(default_factory=KeptAnswers)
    memories: Memories = field(init=False)
    _config: tuple[Stamp, KtxConfig] | None = None
    _models: dict[str, tuple[Stamp, KtxConfig, Model]] = field(default_factory=dict)
    _questions: dict[str, tuple[Model, Recent[Prepared], Graph]] = field(default_factory=dict)
    _guards: dict[str, tuple[Model, Guard]] = field(default_factory=dict)
    _searcher: tuple[KtxConfig, Searcher] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.memories = Memories(self.layout, self.environ)

    def config(self) -> KtxConfig:
        """Return the settings as `ktx.yaml` has them now; raises as `load_config`."""
        with self._lock:
            stamp = _stamp([self.layout.config])
            if self._config is None or self._config[0] != stamp:
                self._config = (stamp, load_config(self.layout.config).config)
            return self._config[1]

    def load_layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        """Return the semantic layer of a connection, read again where a file of it has changed.

        See `ktx_cli.jobs.semantic.layers.LoadLayer`.
        """
        from ktx_cli.jobs.semantic.layers import load_layer

        with self._lock:
            stamp = _stamp(_files(layout.root / SEMANTIC_NAME, connection, config.connections))
            kept = self._models.get(connection)
            if kept is None or kept[0] != stamp or kept[1] is not config:
                kept = self._models[connection] = (stamp, config, load_layer(layout, config, connection))
            return kept[2]

    @property
    def means(self) -> Means:
        """How the questions of this project get at what they need."""
        from ktx_cli.jobs.semantic.means import Means

        return Means(self.load_layer, self.pool.open, self.guard, self.prepare, self.counted)

    def prepare(
        self, model: Model, query: Mapping[str, Any], *, attributes: Mapping[str, Any], now: datetime
    ) -> Prepared:
        """Return a question ready to be asked, compiled once a day as long as the layer is the same; see `Prepare`."""
        from ktx_cli.context.semantic.asking import prepare

        key = (model.connection, json.dumps([query, attributes], sort_keys=True, default=repr), now.date())
        kept, graph = self._of_layer(model)
        return kept.get(key, lambda: prepare(model, query, attributes=attributes, now=now, graph=graph))

    def _of_layer(self, model: Model) -> tuple[Recent[Prepared], Graph]:
        """Return the compiled questions of a layer and its joins; of another layer none is kept."""
        from ktx_cli.context.semantic.graph import Graph

        with self._lock:
            kept = self._questions.get(model.connection)
            if kept is None or kept[0] is not model:
                kept = self._questions[model.connection] = (model, Recent(_QUESTIONS), Graph(model))
            return kept[1], kept[2]

    def guard(self, layout: Layout, config: KtxConfig, connection: str, model: Model) -> Guard:
        """Return the guard for what is compiled from a layer, the same as long as the layer is the same."""
        from ktx_cli.jobs.semantic.guarded import guard_of

        with self._lock:
            kept = self._guards.get(connection)
            if kept is None or kept[0] is not model:
                kept = self._guards[connection] = (model, guard_of(layout, config, connection, model).remembering)
            return kept[1]

    def searcher(self, config: KtxConfig) -> Searcher:
        """Return what searches the project with these settings."""
        from ktx_cli.jobs.search import open_searcher

        with self._lock:
            if self._searcher is None or self._searcher[0] is not config:
                if self._searcher is not None:
                    self._searcher[1].close()
                self._searcher = (config, open_searcher(self.layout, config, self.environ))
            return self._searcher[1]

    def close(self) -> None:
        """Close what is open; a question under way ends first, captures that wait go on without the server."""
        self.memories.close()
        self.pool.close()
        with self._lock:
            if self._searcher is not None:
                self._searcher[1].close()
                self._searcher = None


def _stamp(paths: list[Path]) -> Stamp:
    """Return the stamp of files; of a link that of what it leads to, of one that leads nowhere its own."""
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            try:
                status = path.lstat()
            except OSError:
                continue
        facts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)
        found.append((str(path), facts))
    return tuple(sorted(found))


def _files(folder: Path, connection: str, configured: Collection[str]) -> list[Path]:
    """Return what in the folder of all layers counts for a connection: its own folder, and what is of no connection.

    A folder is among them too, for who may list it counts.
    """
    try:
        others = [path for path in folder.iterdir() if path.name not in {*configured, connection}]
    except OSError:
        others = []
    tops = [folder / connection, *others]
    below = [Path(at) / name for top in tops for at, folders, names in os.walk(top) for name in (*folders, *names)]
    return [folder, *tops, *below]
