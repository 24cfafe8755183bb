"""Open connections kept between questions, for a process that answers many: lent to one caller at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Recent, SourceError, monotonic
from ktx_cli.project import KtxConfig, connection_of
from ktx_cli.warehouses.port import (
    ConnectionTest,
    Connector,
    DatabaseSchema,
    Evident,
    Interruptible,
    QueryResult,
    Scope,
)
from ktx_cli.warehouses.registry import open_connection

IDLE_SECONDS: Final = 5.0
"""How long a connection nobody uses stays open: a DuckDB file cannot be written to while it is."""

MOST_IDLE: Final = 4
"""Connections of one database that are kept at most."""

MOST_USES: Final = 500
"""How often a connection is lent: DuckDB keeps memory that it gives back only when it is closed."""

_KEPT_AFTER: Final = frozenset({"query", "read_only"})
"""Codes of errors after which a session is as good as before."""


@dataclass(slots=True)
class _Kept:
    """An open connection. `proof`: which file it was opened on; `since`: when it was given back; `uses`: until then."""

    connector: Connector
    scope: Scope
    proof: object
    since: float = 0.0
    uses: int = 0


@dataclass(slots=True)
class ConnectorPool:
    """Opens connections as `open_connection` does, and keeps those given back; may be used by many threads.

    A connection is used again only for the same settings, and where its file is the one it was opened on.
    """

    idle_seconds: float = IDLE_SECONDS
    _idle: dict[str, list[_Kept]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sweeper: threading.Timer | None = None

    def open(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        """Return a connection, which goes back into the pool when it is closed; raises as `open_connection`."""
        entry = connection_of(config, connection)
        path = getattr(entry, "path", None)
        proof = _proof(project_dir, path)
        key = json.dumps([str(project_dir), connection, entry.model_dump(mode="json", by_alias=True)], default=str)
        kept = self._taken(key, proof)
        if kept is None:
            connector, scope = open_connection(config, connection, project_dir=project_dir, environ=environ)
            kept = _Kept(connector, scope, proof)
        may_be_kept = proof is not None or not isinstance(path, str)
        return _Lent(kept, self, key if may_be_kept else None), kept.scope

    def close(self) -> None:
        """Close every connection nobody uses."""
        with self._lock:
            gone = [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None
        for each in gone:
            each.connector.close()

    def _taken(self, key: str, proof: object) -> _Kept | None:
        while True:
            with self._lock:
                kept = self._idle.get(key)
                found = kept.pop() if kept else None
            if found is None or found.proof == proof:
                return found
            found.connector.close()

    def give_back(self, key: str, kept: _Kept) -> None:
        """Keep a connection for the next caller, or close it where there are enough, or it was used often enough."""
        kept.since, kept.uses = monotonic(), kept.uses + 1
        with self._lock:
            waiting = self._idle.setdefault(key, [])
            enough = len(waiting) >= MOST_IDLE or kept.uses >= MOST_USES
            if not enough:
                waiting.append(kept)
                self._sweep_later()
        if enough:
            kept.connector.close()

    def _sweep_later(self) -> None:
        """Look again when the first of the idle ones may have grown old; the caller holds the lock."""
        if self._sweeper is None:
            self._sweeper = threading.Timer(self.idle_seconds, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        until = monotonic() - self.idle_seconds
        with self._lock:
            old = [each for kept in self._idle.values() for each in kept if each.since <= until]
            young = {key: [each for each in kept if each.since > until] for key, kept in self._idle.items()}
            self._idle = {key: kept for key, kept in young.items() if kept}
            self._sweeper = None
            if self._idle:
                self._sweep_later()
        for each in old:
            each.connector.close()


def _proof(project_dir: Path, path: object) -> object:
    """Return what tells a database's file from another in its place; None where there is no such file."""
    if not isinstance(path, str):
        return None
    place = project_dir / Path(path).expanduser()
    if not place.is_file():
        return None
    found = place.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _Lent:
    """A connection of the pool in the hands of one caller."""

    def __init__(self, kept: _Kept, pool: ConnectorPool, key: str | None) -> None:
        self._kept: _Kept | None = kept
        self._inner = kept.connector
        self._pool = pool
        self._key = key
        self.dialect = kept.connector.dialect

    def test(self, scope: Scope) -> ConnectionTest:
        """See `Connector`."""
        return self._inner.test(scope)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """See `Connector`."""
        return self._inner.introspect(scope)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`; after an error of the session itself the connection is not used again."""
        try:
            return self._inner.query(sql, parameters, max_rows=max_rows)
        except SourceError as error:
            if error.code not in _KEPT_AFTER:
                self._key = None
            raise
        except BaseException:
            self._key = None
            raise

    def evidence(self) -> str | None:
        """See `Evident`; None of a connection that can prove nothing."""
        return self._inner.evidence() if isinstance(self._inner, Evident) else None

    @property
    def interruptible(self) -> bool:
        """Whether a statement can be ended from outside."""
        return is_interruptible(self._inner)

    def interrupt(self) -> None:
        """See `Interruptible`; does nothing for a connection that cannot do that."""
        if isinstance(self._inner, Interruptible):
            self._inner.interrupt()

    def close(self) -> None:
        """Give the connection back; harmless when called twice."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        if self._key is None:
            kept.connector.close()
        else:
            self._pool.give_back(self._key, kept)

    def __enter__(self) -> _Lent:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_AGAIN: Final = 0.05
"""Seconds until a statement is interrupted again that had not begun when it was interrupted first."""


def is_interruptible(connector: Connector) -> bool:
    """Say whether another thread can end a statement of this connection; one around another says it of that one."""
    return bool(getattr(connector, "interruptible", isinstance(connector, Interruptible)))


class Deadline:
    """The moment at which a statement is ended; `passed`: it has come while the statement ran."""

    def __init__(self) -> None:
        self.passed = False


@contextmanager
def ended_at(connector: Connector, moment: float) -> Iterator[Deadline]:
    """Interrupt what runs inside when the clock (`monotonic`) shows `moment`; it then fails as one that took too long.

    A connection that cannot be interrupted is left alone.
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


Counts = Recent[QueryResult]
"""Answers by the proof of the data they came from and their statement; for small ones, such as counts."""


class Remembering:
    """A connection that asks nothing twice of the same data; one without a proof of it is asked every time."""

    def __init__(self, inner: Connector, kept: Counts) -> None:
        self._inner = inner
        self._kept = kept
        self.dialect = inner.dialect

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        proof = self._inner.evidence() if isinstance(self._inner, Evident) else None
        if proof is None:
            return self._inner.query(sql, parameters, max_rows=max_rows)
        key = (proof, self.dialect, sql, repr(tuple(parameters)), max_rows)
        return self._kept.get(key, lambda: self._inner.query(sql, parameters, max_rows=max_rows))

    def test(self, scope: Scope) -> ConnectionTest:
        """See `Connector`."""
        return self._inner.test(scope)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """See `Connector`."""
        return self._inner.introspect(scope)

    def close(self) -> None:
        """See `Connector`."""
        self._inner.close()

    def __enter__(self) -> Remembering:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
