"""What a long question tells while it is answered, and where it ends when nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.connectors.opening import Opener
from ktx_cli.connectors.port import ConnectionTest, Connector, DatabaseSchema, Evident, QueryResult, Scope
from ktx_cli.project.config import KtxConfig


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Watch:
    """Who waits for an answer. `check` raises `CancelledError` where nobody does; `said`: how far it is, 0 to 1."""

    check: Callable[[], None] = _nothing
    said: Callable[[float, str], None] = lambda progress, message: None

    def opener(self, opener: Opener) -> Opener:
        """Return an opener whose connections ask before each statement whether somebody still waits."""

        def opened(
            config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
        ) -> tuple[Connector, Scope]:
            self.check()
            connector, scope = opener(config, connection, project_dir=project_dir, environ=environ)
            self.said(0.3, f"asking {connection}")
            return _Watched(connector, self.check), scope

        return opened


class _Watched:
    """A connection whose statements begin only while somebody waits."""

    def __init__(self, inner: Connector, check: Callable[[], None]) -> None:
        self._inner = inner
        self._check = check
        self.dialect = inner.dialect

    def test(self, scope: Scope) -> ConnectionTest:
        """See `Connector`."""
        return self._inner.test(scope)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """See `Connector`."""
        return self._inner.introspect(scope)

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        self._check()
        return self._inner.query(sql, parameters, max_rows=max_rows)

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
