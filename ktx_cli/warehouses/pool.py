"""Pools of open sessions and connections, which are kept between uses and lent to one caller at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from ktx_cli.core import Recent, SourceError, monotonic
from ktx_cli.project import KtxConfig, connection_of, origin_of
from ktx_cli.warehouses.port import Connector, ForwardingConnector, QueryResult, Scope, TableRef, is_interruptible
from ktx_cli.warehouses.registry import open_connection

IDLE_SECONDS: Final = 5.0
"""How long an unused connection stays open; in the meantime, a DuckDB file cannot be written to."""

MOST_IDLE: Final = 4
"""The maximum number of idle connections per database."""

MOST_USES: Final = 500
"""The maximum number of uses of a connection: DuckDB releases some memory only when it is closed."""

_KEPT_AFTER: Final = frozenset({"query", "read_only"})
"""Error codes that leave a session intact."""


ItemT = TypeVar("ItemT")


class PoolBusyError(Exception):
    """Raised if the maximum number of sessions is lent and none is returned in time."""


@dataclass(slots=True)
class Pooled(Generic[ItemT]):
    """An item of a pool. `proof`: its state when opened. `since`: the time of its last return. `uses`: how often it was
    lent.
    """

    item: ItemT
    key: Hashable
    proof: object = None
    since: float = 0.0
    uses: int = 0


@dataclass(slots=True)
class Pool(Generic[ItemT]):
    """Open items (sessions, connectors) that are lent to one caller at a time; safe for many threads.

    `end`: closes one. `most_open`: the maximum number, including lent ones. `most_idle`: how many are kept per key.
    `most_uses`: how often one is lent. `idle_seconds`: how long an unused one stays open. None: no limit.
    """

    end: Callable[[ItemT], None]
    most_open: int | None = None
    most_idle: int | None = None
    most_uses: int | None = None
    idle_seconds: float | None = None
    _idle: dict[Hashable, list[Pooled[ItemT]]] = field(default_factory=dict)
    _open: int = 0
    _closed: bool = False
    _sweeper: threading.Timer | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(
        self, make: Callable[[], ItemT], *, key: Hashable = None, proof: object = None, wait: float = 0.0
    ) -> Pooled[ItemT]:
        """Return an item that was opened for this key and proof, or else the result of `make`.

        Raises `PoolBusyError` if the maximum number stays lent for `wait` seconds, and the errors of `make`.
        """
        until = monotonic() + wait
        stale: list[Pooled[ItemT]] = []
        with self._changed:
            while (pooled := self._idle_one(key, proof, stale)) is None:
                if self.most_open is None or self._open < self.most_open:
                    self._open += 1
                    break
                if not self._changed.wait(until - monotonic()):
                    raise PoolBusyError
        self._end(stale)
        if pooled is not None:
            return pooled
        try:
            return Pooled(make(), key, proof)
        except BaseException:
            self._forget(1)
            raise

    def give_back(self, lent: Pooled[ItemT], *, keep: bool = True) -> None:
        """Keep a returned item for the next caller, or close it if it is not needed or exceeds the limit."""
        lent.since, lent.uses = monotonic(), lent.uses + 1
        with self._changed:
            idle = self._idle.get(lent.key, [])
            too_many = self.most_idle is not None and len(idle) >= self.most_idle
            worn_out = self.most_uses is not None and lent.uses >= self.most_uses
            keep = keep and not (self._closed or too_many or worn_out)
            if keep:
                self._idle[lent.key] = [*idle, lent]
                self._sweep_later()
                self._changed.notify()
        if not keep:
            self._end([lent])

    def close(self) -> None:
        """Close all idle items; lent ones are closed when they are returned."""
        with self._changed:
            self._closed = True
            idle = [pooled for kept in self._idle.values() for pooled in kept]
            self._idle.clear()
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None
        self._end(idle)

    def _idle_one(self, key: Hashable, proof: object, stale: list[Pooled[ItemT]]) -> Pooled[ItemT] | None:
        """Take the last used matching item; items with another proof are `stale`. The caller holds the lock."""
        idle = self._idle.get(key, [])
        while idle:
            pooled = idle.pop()
            if pooled.proof == proof:
                return pooled
            stale.append(pooled)
        return None

    def _end(self, gone: Iterable[Pooled[ItemT]]) -> None:
        for pooled in gone:
            try:
                self.end(pooled.item)
            finally:
                self._forget(1)

    def _forget(self, count: int) -> None:
        with self._changed:
            self._open -= count
            self._changed.notify(count)

    def _sweep_later(self) -> None:
        """Schedule the next check for expired idle items; the caller holds the lock."""
        if self._sweeper is None and self.idle_seconds is not None:
            self._sweeper = threading.Timer(self.idle_seconds, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        until = monotonic() - (self.idle_seconds or 0.0)
        with self._changed:
            old = [pooled for kept in self._idle.values() for pooled in kept if pooled.since <= until]
            young = {key: [pooled for pooled in kept if pooled.since > until] for key, kept in self._idle.items()}
            self._idle = {key: kept for key, kept in young.items() if kept}
            self._sweeper = None
            if self._idle:
                self._sweep_later()
        self._end(old)


Opened = tuple[Connector, Scope]


class ConnectorPool:
    """Opens connections like `open_connection`, and keeps returned connections; safe for many threads.

    A connection is reused only for the same settings, and if its file is the one on which it was opened.
    """

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._pool: Pool[Opened] = Pool(
            lambda opened: opened[0].close(), most_idle=MOST_IDLE, most_uses=MOST_USES, idle_seconds=idle_seconds
        )

    def open(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        """Return a connection that returns to the pool when closed. Raises the errors of `open_connection`."""
        entry = connection_of(config, connection)
        path = getattr(entry, "path", None)
        proof = _proof(project_dir, path)
        key = json.dumps([str(project_dir), connection, entry.model_dump(mode="json", by_alias=True)], default=str)
        lent = self._pool.take(
            lambda: open_connection(config, connection, project_dir=project_dir, environ=environ), key=key, proof=proof
        )
        return _Lent(lent, self._pool, may_be_kept=proof is not None or not isinstance(path, str)), lent.item[1]

    def close(self) -> None:
        """Close every idle connection."""
        self._pool.close()


def _proof(project_dir: Path, path: object) -> object:
    """Return the identity of a database file, or None if there is no file."""
    if not isinstance(path, str):
        return None
    place = origin_of(project_dir) / Path(path).expanduser()
    if not place.is_file():
        return None
    found = place.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _Lent(ForwardingConnector):
    """A pool connection that is lent to one caller."""

    def __init__(self, lent: Pooled[Opened], pool: Pool[Opened], *, may_be_kept: bool) -> None:
        super().__init__(lent.item[0])
        self._lent: Pooled[Opened] | None = lent
        self._pool = pool
        self._keep = may_be_kept

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`; after a session error, the connection is not reused."""
        try:
            return super().query(sql, parameters, max_rows=max_rows)
        except BaseException as error:
            self._keep = self._keep and isinstance(error, SourceError) and error.code in _KEPT_AFTER
            raise

    def aggregate(self, ref: TableRef, pipeline: Sequence[Mapping[str, Any]], *, max_rows: int = 1000) -> QueryResult:
        """See `Aggregating`; after a session error, the connection is not reused."""
        try:
            return super().aggregate(ref, pipeline, max_rows=max_rows)
        except BaseException as error:
            self._keep = self._keep and isinstance(error, SourceError) and error.code in _KEPT_AFTER
            raise

    def close(self) -> None:
        """Return the connection to the pool; calling it twice is harmless."""
        lent, self._lent = self._lent, None
        if lent is not None:
            self._pool.give_back(lent, keep=self._keep)


_AGAIN: Final = 0.05
"""Seconds until a second interrupt, for a statement that had not started at the first one."""


class Deadline:
    """The time at which a statement is interrupted. `passed`: whether it was reached while the statement ran."""

    def __init__(self) -> None:
        self.passed = False


@contextmanager
def ended_at(connector: Connector, moment: float) -> Iterator[Deadline]:
    """Interrupt the statement in the block when the clock (`monotonic`) reaches `moment`; it then fails as a timeout.

    A connection that cannot be interrupted is not affected.
    """
    deadline, done = Deadline(), threading.Event()

    def watch() -> None:
        seconds = max(0.0, moment - monotonic())
        while not done.wait(seconds):
            deadline.passed = True
            connector.interrupt()  # type: ignore[attr-defined]
            seconds = _AGAIN

    if not is_interruptible(connector):
        yield deadline
        return
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield deadline
    finally:
        done.set()
        watcher.join()


QueryCache = Recent[QueryResult]
"""Cached results by statement and proof of the data, for small results such as counts."""


class CachingConnector(ForwardingConnector):
    """A connection that caches results for the same data; nothing is cached without a proof of the data."""

    def __init__(self, inner: Connector, kept: QueryCache) -> None:
        super().__init__(inner)
        self._kept = kept

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        proof = self.evidence()
        if proof is None:
            return super().query(sql, parameters, max_rows=max_rows)
        key = (proof, self.dialect, sql, repr(tuple(parameters)), max_rows)
        return self._kept.get(key, lambda: self.inner.query(sql, parameters, max_rows=max_rows))
