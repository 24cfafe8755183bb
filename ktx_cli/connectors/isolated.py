"""What connectors share whose statements run in a worker: its session, and the errors of one that went over a limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ktx_cli.connectors import base
from ktx_cli.connectors.port import ConnectionSpec
from ktx_cli.connectors.worker import process
from ktx_cli.connectors.worker.process import EngineError, WorkerEndedError
from ktx_cli.connectors.worker.session import Session
from ktx_cli.core.errors import SourceError

ENGINES = {"duckdb": "DuckDB", "sqlite": "SQLite"}
"""How messages call an engine."""


class IsolatedConnector(base.BaseConnector):
    """A connector whose engine runs in a worker; a worker that was lost is replaced with the next statement."""

    def __init__(self, spec: ConnectionSpec, place: str) -> None:
        super().__init__(spec, place)
        self._connection: Session | None = None

    def close(self) -> None:
        """Close the database; harmless when called twice."""
        session, self._connection = self._connection, None
        if session is not None:
            session.close()

    def interrupt(self) -> None:
        """See `Interruptible`."""
        session = self._connection
        if session is not None:
            session.interrupt()

    def _opened_session(self) -> Session:
        """Return the session, open; raises `SourceError`."""
        session = self._connection
        if session is None:
            raise self.failure("the connection is closed")
        if not session.is_open:
            try:
                session.open()
            except EngineError as error:
                raise self._not_opened(error) from error
        return session

    @contextmanager
    def _translating(self, sql: str | None = None) -> Iterator[None]:
        """Translate what fails in the session; `sql` is the user's statement, None for one of ktx's own."""
        try:
            yield
        except EngineError as error:
            of_the_user = sql is not None
            raise self._over_a_limit(error, of_the_user=of_the_user) or self._translated(error, sql) from error

    def _over_a_limit(self, error: EngineError, *, of_the_user: bool) -> SourceError | None:
        """Return the error for a statement that took too long or too much memory, or that ended its worker."""
        if error.interrupted:
            return self.timeout(of_the_user=of_the_user)
        what = "the statement" if of_the_user else "reading the catalog"
        hint = "narrow it: add a WHERE clause or a LIMIT, or build shorter texts and lists"
        if error.is_out_of_memory:
            limit = f"{process.MEMORY_BYTES / 1024**3:g} GiB"
            found = self.failure(f"{what} was stopped: it needs more memory than {limit}", hint=hint, code="query")
        elif isinstance(error, WorkerEndedError):
            text = f"{what} ended the {ENGINES[error.engine]} process ({error.kind})"
            found = self.failure(text, hint=f"it may need too much memory; {hint}", code="query")
            found.details[base.SESSION_ENDED] = True
        else:
            return None
        if not of_the_user:
            found.code = "connection"
        return found

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        """Return the error for what the engine said of a statement."""
        return self.failure(str(error), code="query" if sql is not None else "connection")

    def _not_opened(self, error: EngineError) -> SourceError:
        """Return the error for a database that cannot be opened."""
        return self._over_a_limit(error, of_the_user=False) or self._translated(error, None)
