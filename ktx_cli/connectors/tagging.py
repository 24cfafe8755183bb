"""The drivers' classes as ktx uses them: a comment that names ktx on every statement, no password in clear text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktx_cli.connectors import reaching

if TYPE_CHECKING:
    import psycopg
    import pymysql

TAG = "/* ktx */"
"""What a database's log shows of ktx."""


def tagged(sql: str) -> str:
    """Return the statement behind the comment."""
    return f"{TAG} {sql}"


def tagged_postgres_cursor() -> type[psycopg.Cursor[Any]]:
    """Return a psycopg cursor class whose statements carry the comment.

    psycopg itself sends SQL without a cursor only for transactions and two-phase commits: with autocommit on, and
    begin and rollback executed as statements, there are none.
    """
    from psycopg import Cursor
    from psycopg.sql import SQL, Composable

    def mark(query: Any) -> Any:
        if isinstance(query, bytes):
            return TAG.encode() + b" " + query
        return SQL(TAG + " ") + query if isinstance(query, Composable) else tagged(str(query))

    class TaggedCursor(Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().execute(mark(query), params, **options)

        def executemany(self, query: Any, params_seq: Any, **options: Any) -> Any:
            return super().executemany(mark(query), params_seq, **options)

        def stream(self, query: Any, params: Any = None, **options: Any) -> Any:
            return super().stream(mark(query), params, **options)

    return TaggedCursor


def tagged_mysql_connection() -> type[pymysql.connections.Connection[Any]]:
    """Return a PyMySQL connection class whose statements carry the comment.

    Every packet PyMySQL sends goes through `_execute_command`: `SET NAMES` while connecting and `ROLLBACK` too.
    Whatever a server asks for a password goes through `_process_auth`; two of the ways send it as it is.
    """
    from pymysql.connections import Connection
    from pymysql.constants import COMMAND, CR
    from pymysql.err import OperationalError

    # Generic only in its type stubs.
    base: Any = Connection

    class TaggedConnection(base):  # type: ignore[misc]
        def _execute_command(self, command: int, sql: str | bytes) -> None:
            if command == COMMAND.COM_QUERY:
                # Not every encoding of a connection can be taken for granted, but the comment is ASCII in all.
                text = sql if isinstance(sql, bytes) else sql.encode(self.encoding, "surrogateescape")
                sql = TAG.encode() + b" " + text
            super()._execute_command(command, sql)

        def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
            if plugin_name in (b"mysql_clear_password", b"dialog") and not self._is_private():
                raise OperationalError(CR.CR_AUTH_PLUGIN_ERR, reaching.CLEAR_TEXT)
            return super()._process_auth(plugin_name, *rest)

        def _is_private(self) -> bool:
            return bool(self._secure) or reaching.is_local(str(self._sock.getpeername()[0]))

    return TaggedConnection
