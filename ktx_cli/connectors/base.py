"""What all connectors share: their errors, the limits of a session, and the draft a table is gathered in."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.connectors.port import (
    Column,
    ConnectionSpec,
    ForeignKey,
    Index,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
)
from ktx_cli.connectors.sizes import row_memory
from ktx_cli.connectors.sizes import row_size as row_size
from ktx_cli.connectors.sizes import value_size as value_size
from ktx_cli.core.errors import SourceError
from ktx_cli.core.text import one_line

STATEMENT_SECONDS = 30.0
"""How long one statement may run before it is stopped."""

STOP_SECONDS = 5.0
"""How long a server may take to stop a statement whose time is up, before its session is closed."""

CONNECT_SECONDS = 10
"""How long reaching a server may take, all its addresses, TLS and the log-in together."""

LOCK_SECONDS = 5
"""How long a statement may wait for a lock that another session holds."""

MAX_RESULT_BYTES = 128 * 1024 * 1024
"""About how many bytes of memory a result may take; the rows behind are left out, and the result says so."""

REASON_LENGTH = 200
"""How long the reason of an object that cannot be read may be."""

SETTLED_SECONDS = 2.0
"""How old the last change of a file must be to be told from one in the same tick of the file system's clock."""

LOCKED = "locked by another session"
"""Why an object cannot be read that somebody else has locked."""


@dataclass(slots=True)
class TableDraft:
    """A table while its parts come in from several catalog queries."""

    ref: TableRef
    kind: TableKind
    columns: list[Column] = field(default_factory=list)
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    unique_keys: list[UniqueKey] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    row_estimate: int | None = None
    view_sql: str | None = None

    def finish(self) -> Table:
        """Return the table."""
        return Table(
            ref=self.ref,
            kind=self.kind,
            columns=tuple(self.columns),
            comment=self.comment,
            primary_key=self.primary_key,
            foreign_keys=tuple(self.foreign_keys),
            unique_keys=tuple(self.unique_keys),
            indexes=tuple(self.indexes),
            row_estimate=self.row_estimate,
            view_sql=self.view_sql,
        )


class BaseConnector:
    """Names the connection in errors and closes it; the dialects do the rest."""

    dialect: str = ""
    placeholder: str = "?"
    """How a parameter is written in `query`; where it is `%s`, a literal `%` beside parameters is written `%%`."""

    def __init__(self, spec: ConnectionSpec, place: str) -> None:
        self.id = spec.id
        self.place = place
        self._query_timeout_ms: int | None = spec.options.get("query_timeout_ms")

    @property
    def statement_seconds(self) -> float:
        """How long one statement may run: `query_timeout_ms`, else `STATEMENT_SECONDS`."""
        own = self._query_timeout_ms
        return STATEMENT_SECONDS if own is None else own / 1000

    @property
    def whole_seconds(self) -> int:
        """The same, for servers that count seconds; 0 would mean no limit to them."""
        return max(1, math.ceil(self.statement_seconds))

    @property
    def where(self) -> str:
        """How messages name this connection: its id and its place (a path, or host:port/database)."""
        return f"connection `{self.id}` ({self.place})"

    def failure(self, message: str, *, hint: str | None = None, code: str = "connection") -> SourceError:
        """Return the error for this connection; `message` becomes one line behind its name."""
        return SourceError(
            f"{self.where}: {one_line(message).rstrip('.')}",
            hint=hint,
            details={"connection": self.id},
            code=code,
        )

    def timeout(self, *, of_the_user: bool = True) -> SourceError:
        """Return the error for a statement that ran too long: one of the user's, or one of our own on the catalog."""
        if of_the_user:
            what, hint = "the statement", "narrow it: add a WHERE clause or a LIMIT"
        else:
            what, hint = "reading the catalog", "try again when the server has less to do"
        return self.failure(f"{what} was stopped after {self.statement_seconds:g} seconds", hint=hint, code="timeout")

    def unstopped(self) -> SourceError:
        """Return the error for a statement that the server did not stop when its time was up."""
        return self.failure(
            f"the server did not stop the statement after {STATEMENT_SECONDS:g} seconds, so its session was closed",
            hint="narrow it: add a WHERE clause or a LIMIT; the server may work on it until it notices",
            code="timeout",
        )

    def ended(self, error: SourceError) -> SourceError:
        """Return the error for a statement whose session the server ended, though it takes new ones.

        It has the code `query`, so it costs what it was sent for and no more; `ended_its_session` knows it.
        """
        found = self.failure(
            f"the server ended the session, and takes new ones: {error.message.removeprefix(f'{self.where}: ')}",
            hint="look into the server's log; `exclude` in ktx.yaml leaves a table out",
            code="query",
        )
        found.details[SESSION_ENDED] = True
        return found

    def locked(self, who: str) -> SourceError:
        """Return the error for a statement that waited too long for a lock; `who` is SQL that names its holder."""
        return self.failure(
            f"what the statement reads is {LOCKED}, for more than {LOCK_SECONDS} seconds",
            hint=f"try again when that session is done; to find it: {who}",
            code="timeout",
        )

    def close(self) -> None:
        """Give the session back; harmless when called twice."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


SESSION_ENDED = "session_ended"
"""The key among an error's details that says so; see `ended_its_session`."""


def ended_its_session(error: SourceError) -> bool:
    """Whether a statement took its session with it: one like it might do so again."""
    return bool(error.details.get(SESSION_ENDED))


def file_evidence(files: Iterable[Path], header_bytes: int = 0) -> str | None:
    """Return a text that differs when a file does; None when one is missing or changed in the last `SETTLED_SECONDS`.

    It rests on identity, size, time of change (which no program can set back) and the first `header_bytes` of each.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        try:
            found = path.stat()
            with path.open("rb") as stream:
                header = stream.read(header_bytes)
        except OSError:
            return None
        if time.time() - max(found.st_mtime, found.st_ctime) < SETTLED_SECONDS:
            return None
        facts = (str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, header)
        digest.update(repr(facts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def has_bytes(path: Path) -> bool:
    """Whether a file is there and not empty."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def capped(rows: Iterable[Sequence[Any]], max_rows: int) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """Return at most `max_rows` rows in `MAX_RESULT_BYTES` of memory, and whether there were more.

    One row more than wanted is taken from `rows`, none when `max_rows` is 0 or the bytes are used up.
    """
    kept: list[tuple[Any, ...]] = []
    left = MAX_RESULT_BYTES
    for row in rows:
        left -= row_memory(row)
        if len(kept) >= max_rows or left < 0:
            return tuple(kept), True
        kept.append(tuple(row))
    return tuple(kept), False


def reason(error: object) -> str:
    """Return why an object cannot be read, on one short line: the first paragraph of a database's error.

    Guesses at other names, positions in a statement of ours, and lines of the user's data are left out.
    """
    paragraph = str(error).strip().partition("\n\n")[0]
    lines = [line.strip(" ^") for line in paragraph.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("Did you mean", "Original Line:", "LINE "))]
    return one_line(": ".join(line.rstrip(":") for line in kept), REASON_LENGTH) or "the database gives no reason"


def milliseconds(action: Callable[[], object]) -> float:
    """Run `action` and return how long it took, in milliseconds."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000
