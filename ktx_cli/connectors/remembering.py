"""Answers of statements kept for as long as the database proves that its data is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktx_cli.connectors.port import ConnectionTest, Connector, DatabaseSchema, Evident, QueryResult, Scope
from ktx_cli.core.recent import Recent

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
