"""Read Hologres with psycopg, like Postgres, but without transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError

from ktx_cli.warehouses import port
from ktx_cli.warehouses.base import leading_keyword, reason
from ktx_cli.warehouses.cloud import require_query
from ktx_cli.warehouses.postgres.connector import SimilarConnector

SYSTEM_SCHEMAS = (
    "hologres",
    "hologres_object_table",
    "hologres_sample",
    "hologres_statistic",
    "hologres_streaming_mv",
    "hg_internal",
    "hg_recyclebin",
)
"""The schemas of the engine, which contain no tables of users."""


class HologresConnector(SimilarConnector):
    """Sessions on a Hologres instance. Statements must qualify every table with its schema.

    Hologres has no read-only transactions, so only the guard and the user's privileges prevent writes.
    """

    default_port = 80

    def test(self, scope: port.Scope) -> port.ConnectionTest:
        """Return the facts of the connection, without the engine's own tables."""
        return super().test(_of_users(scope))

    def introspect(self, scope: port.Scope) -> port.DatabaseSchema:
        """Read the structure of all relations in scope, without the engine's own tables."""
        return super().introspect(_of_users(scope))

    def _check(self, sql: str) -> None:
        super()._check(sql)
        word, behind = leading_keyword(sql)
        if word == "EXPLAIN":
            # EXPLAIN ANALYZE executes the statement, so the word must be followed by a query.
            self._check(sql[behind:])
            return
        try:
            sqlglot.parse(sql, dialect=self.dialect)
        except SqlglotError as error:
            raise self.failure(f"the statement is not valid: {reason(error)}", code="query") from None
        require_query(sql, self.dialect, self.where)

    @contextmanager
    def _transaction(self, session: Any) -> Iterator[Any]:
        """Yield a cursor; each statement is its own transaction."""
        with session.cursor() as cursor:
            yield cursor


def _of_users(scope: port.Scope) -> port.Scope:
    """Return the scope without the engine's own schemas."""
    own = (f"{schema}.*" for schema in SYSTEM_SCHEMAS)
    return replace(scope, exclude=(*scope.exclude, *own))
