"""What a long question tells while it is answered, and where it ends when nobody waits for it any more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.connectors.deadlines import is_interruptible
from ktx_cli.connectors.opening import Opener
from ktx_cli.connectors.port import (
    ConnectionTest,
    Connector,
    DatabaseSchema,
    Evident,
    Interruptible,
    QueryResult,
    Scope,
)
from ktx_cli.core.errors import CancelledError
from ktx_cli.project.config import KtxConfig


class Stop:
    """Whether nobody waits any more, and what to end then; for several threads."""

    def __init__(self) -> None:
        self._set = False
        self._ends: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def set(self) -> None:
        """Say that nobody waits any more, and end what is under way."""
        with self._lock:
            self._set = True
            for end in self._ends:
                end()
            self._ends.clear()

    def is_set(self) -> bool:
        """Whether nobody waits any more."""
        return self._set

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Do something that `end` ends: it is called once at most, and only while this lasts."""
        with self._lock:
            if self._set:
                raise _nobody_waits()
            self._ends.append(end)
        try:
            yield
        finally:
            with self._lock:
                if end in self._ends:
                    self._ends.remove(end)


def _nobody_waits() -> CancelledError:
    return CancelledError("the client cancelled the call")


@dataclass(frozen=True, slots=True)
class Watch:
    """Who waits for an answer. `said`: how far it is, from 0 to 1, and doing what."""

    stop: Stop = field(default_factory=Stop)
    said: Callable[[float, str], None] = lambda progress, message: None

    def check(self) -> None:
        """Raise `CancelledError` where nobody waits any more."""
        if self.stop.is_set():
            raise _nobody_waits()

    def opener(self, opener: Opener) -> Opener:
        """Return an opener of connections whose statements begin, and go on, only while somebody waits."""

        def opened(
            config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
        ) -> tuple[Connector, Scope]:
            self.check()
            connector, scope = opener(config, connection, project_dir=project_dir, environ=environ)
            self.said(0.3, f"asking {connection}")
            return _Watched(connector, self.stop), scope

        return opened


class _Watched:
    """A connection whose statements begin only while somebody waits, and are ended where the database can do that."""

    def __init__(self, inner: Connector, stop: Stop) -> None:
        self._inner = inner
        self._stop = stop
        self.dialect = inner.dialect

    def test(self, scope: Scope) -> ConnectionTest:
        """See `Connector`."""
        return self._inner.test(scope)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """See `Connector`."""
        return self._inner.introspect(scope)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        with self._stop.ending(self.interrupt):
            return self._inner.query(sql, parameters, max_rows=max_rows)

    @property
    def interruptible(self) -> bool:
        """Whether a statement can be ended from outside."""
        return is_interruptible(self._inner)

    def interrupt(self) -> None:
        """See `Interruptible`; does nothing where the connection cannot do that."""
        if isinstance(self._inner, Interruptible):
            self._inner.interrupt()

    def evidence(self) -> str | None:
        """See `Evident`; None of a connection that can prove nothing."""
        return self._inner.evidence() if isinstance(self._inner, Evident) else None

    def close(self) -> None:
        """See `Connector`."""
        self._inner.close()

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
