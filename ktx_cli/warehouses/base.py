"""The base of all connectors: errors, session limits, table drafts, and a connection's files."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath, SourceError, did_you_mean, listing, one_line
from ktx_cli.warehouses import port
from ktx_cli.warehouses.worker.process import EngineError
from ktx_cli.warehouses.worker.wire import row_memory

STATEMENT_SECONDS = 30.0
"""The maximum duration of one statement."""

STOP_SECONDS = 5.0
"""The time that a server has to stop a statement after its limit before ktx closes the session."""

CONNECT_SECONDS = 10
"""The time limit for connecting to a server, including all its addresses, TLS and the login."""

LOCK_SECONDS = 5
"""The maximum time that a statement waits for another session's lock."""

MAX_RESULT_BYTES = 128 * 1024 * 1024
"""The approximate memory limit of a result; further rows are dropped, which the result reports."""

REASON_LENGTH = 200
"""The maximum length of the reason why an object cannot be read."""

SETTLED_SECONDS = 2.0
"""The minimum age of a file's last change that excludes another change in the same tick of the file system clock."""

LOCKED = "locked by another session"
"""The reason why an object locked by another session cannot be read."""


class LockedError(SourceError):
    """Raised if an object is locked by another session for longer than ktx waits."""


@dataclass(slots=True)
class TableDraft:
    """A table under construction, while its parts come from several catalog queries."""

    ref: port.TableRef
    kind: port.TableKind
    columns: list[port.Column] = field(default_factory=list)
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    foreign_keys: list[port.ForeignKey] = field(default_factory=list)
    unique_keys: list[port.UniqueKey] = field(default_factory=list)
    indexes: list[port.Index] = field(default_factory=list)
    row_estimate: int | None = None
    view_sql: str | None = None

    def add_column(
        self,
        name: str,
        native_type: str,
        type: port.SemanticType,
        nullable: object = True,
        comment: str | None = None,
        default: str | None = None,
        generated: object = False,
    ) -> None:
        """Add a column; a generated column has no default."""
        own = None if generated else default
        self.columns.append(port.Column(name, native_type, type, bool(nullable), comment or None, own, bool(generated)))

    def allow(self, name: str, values: Sequence[str]) -> None:
        """Set the values that a text column allows."""
        for place, column in enumerate(self.columns):
            if column.name == name:
                self.columns[place] = replace(column, values=tuple(values))

    def finish(self) -> port.Table:
        """Return the table."""
        given = ((item.name, getattr(self, item.name)) for item in fields(self))
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
        return port.Table(**values)


def fill(
    drafts: Mapping[port.TableRef, TableDraft],
    rows: Iterable[tuple[Any, ...]],
    width: int,
    add: Callable[[TableDraft, list[tuple[Any, ...]]], object],
) -> None:
    """Pass each draft its rows, grouped by their first `width` values (schema, table and maybe a name).

    A server may sort names that differ only in case as equal, so the rows of two tables may be mixed.
    """
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(row[:width], []).append(row[2:])
    for key, group in groups.items():
        if (draft := drafts.get(port.TableRef(key[0], key[1]))) is not None:
            add(draft, group)


class BaseConnector:
    """The base class that names the connection in errors and closes it; everything else is up to subclasses."""

    dialect: str = ""
    placeholder: str = "?"
    """The placeholder for a parameter in `query`. If it is `%s`, write a literal `%` next to parameters as `%%`."""

    def __init__(self, spec: port.ConnectionSpec, place: str) -> None:
        self.id = spec.id
        self.place = place
        self._settings_digest = spec.settings_digest
        self._query_timeout_ms: int | None = spec.options.get("query_timeout_ms")

    def reader(self) -> str:
        """See `Identified`: the digest of the settings."""
        return self._settings_digest

    @property
    def statement_seconds(self) -> float:
        """The maximum duration of one statement: `query_timeout_ms`, else `STATEMENT_SECONDS`."""
        own = self._query_timeout_ms
        return STATEMENT_SECONDS if own is None else own / 1000

    @property
    def whole_seconds(self) -> int:
        """The statement limit for servers that use whole seconds, where 0 would mean no limit."""
        return max(1, math.ceil(self.statement_seconds))

    @property
    def where(self) -> str:
        """The name of this connection in messages: its id and its location (a path, or host:port/database)."""
        return f"connection `{self.id}` ({self.place})"

    def failure(self, message: str, *, hint: str | None = None, code: str = "connection") -> SourceError:
        """Return an error for this connection. `message` becomes one line after its name."""
        details = {"connection": self.id}
        return SourceError(one_line(message).rstrip("."), where=self.where, hint=hint, details=details, code=code)

    def timeout(self, *, of_the_user: bool = True) -> SourceError:
        """Return the error for a statement that exceeded its time limit: a user's statement, or one of ktx's own
        catalog queries.
        """
        if of_the_user:
            what, hint = "the statement", "narrow the statement with a WHERE clause or a LIMIT"
        else:
            what, hint = "reading the catalog", "retry when the server is less busy"
        return self.failure(f"{what} was stopped after {self.statement_seconds:g} seconds", hint=hint, code="timeout")

    def unstopped(self) -> SourceError:
        """Return the error for a statement that the server did not stop at its time limit."""
        return self.failure(
            f"the server did not stop the statement after {self.statement_seconds:g} seconds, "
            "so ktx closed its session",
            hint="narrow the statement with a WHERE clause or a LIMIT; the server may continue to run it for a while",
            code="timeout",
        )

    def ended(self, error: SourceError) -> SourceError:
        """Return the error for a statement whose session the server ended, although it accepts new ones.

        It has the code `query`, so that only this statement fails; `lost_its_session` detects it.
        """
        found = self.failure(
            f"the server ended the session, but accepts new ones: {error.problem}",
            hint="check the server log; `exclude` in ktx.yaml skips a table",
            code="query",
        )
        found.details[SESSION_ENDED] = True
        return found

    def locked(self, who: str) -> SourceError:
        """Return the error for a statement that waited too long for a lock. `who`: SQL that shows the lock's holder."""
        message = f"the object that the statement reads has been {LOCKED} for more than {LOCK_SECONDS} seconds"
        hint = f"retry when that session is done; to find it: {who}"
        return LockedError(message, where=self.where, hint=hint, details={"connection": self.id}, code="timeout")

    def close(self) -> None:
        """Close the connection; calling it twice is harmless."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


SESSION_ENDED = "session_ended"
"""The key in an error's details for a lost session; see `lost_its_session`."""


def lost_its_session(error: SourceError) -> bool:
    """Return whether a statement ended its session, which means that a similar statement might do so again."""
    return bool(error.details.get(SESSION_ENDED))


def file_evidence(files: Iterable[Path], header_bytes: int = 0) -> str | None:
    """Return a string that changes with a file, or None if the file is missing or changed in the last
    `SETTLED_SECONDS`.

    It is built from identity, size, change time (which no program can set back) and the first `header_bytes` of each
    file.
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
    """Return whether a file exists and is not empty."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def capped(rows: Iterable[Sequence[Any]], max_rows: int) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """Return up to `max_rows` rows in `MAX_RESULT_BYTES` of memory, and whether there were more.

    One extra row is taken from `rows`, none if `max_rows` is 0 or the bytes are used up.
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
    """Return a short line on why an object cannot be read: the first paragraph of a database's error.

    Suggestions of other names, positions in ktx's own statements, and lines of the user's data are removed.
    """
    paragraph = str(error).strip().partition("\n\n")[0]
    lines = [line.strip(" ^") for line in paragraph.splitlines()]
    left_out = ("Did you mean", "Candidate bindings:", "Original Line:", "LINE ")
    kept = [line for line in lines if line and not line.startswith(left_out)]
    return one_line(": ".join(line.rstrip(":") for line in kept), REASON_LENGTH) or "the database gave no reason"


def milliseconds(action: Callable[[], object]) -> float:
    """Run `action` and return its duration in milliseconds."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


_SPACE = " \t\n\r\f\v"
_WORD = re.compile(r"[A-Za-z]+")


def leading_keyword(sql: str) -> tuple[str, int]:
    """Return the first word of a statement in capitals, and the offset of its end.

    White space, comments and opening parentheses before it are skipped. Comments that servers interpret differently
    (nested ones, MySQL's executable `/*!`, `--` without a blank, a bare carriage return) and anything else that is not
    a word give an empty word. A caller that only allows known words then refuses the statement.
    """
    position = 0
    while position < len(sql):
        if sql[position] in _SPACE or sql[position] == "(":
            position += 1
        elif sql.startswith(("--", "/*"), position):
            behind = _comment_end(sql, position)
            if behind is None:
                break
            position = behind
        else:
            word = _WORD.match(sql, position)
            return (word.group().upper(), word.end()) if word else ("", position)
    return "", position


def require_reading(sql: str, allowed: Collection[str], where: str) -> None:
    """Raise `SourceError` (code `read_only`) unless the statement begins with one of the allowed words."""
    word, _ = leading_keyword(sql)
    if word not in allowed:
        raise read_only_error(where, f"`{word}` statements are" if word else "this kind of statement is")


def read_only_error(where: str, what: str) -> SourceError:
    """Return the error for a statement that does more than read. `what` is a subject and its verb."""
    hint = "write a single SELECT statement; to change data, use the database's own client"
    return SourceError(f"{what} not run: ktx only reads", where=where, hint=hint, code="read_only")


def _comment_end(sql: str, position: int) -> int | None:
    if sql.startswith("--", position):
        end = sql.find("\n", position)
        text = sql[position : len(sql) if end < 0 else end]
        plain = text[2:3] in ("", *_SPACE) and "\r" not in text.removesuffix("\r")
        return position + len(text) if plain else None
    end = sql.find("*/", position + 2)
    text = sql[position + 2 : end]
    if end < 0 or "/*" in text or text.startswith(("!", "M!")):
        return None
    return end + 2


def driver_error_name(driver: BaseException) -> str:
    """Return the class name of an error raised by a driver."""
    return driver.kind if isinstance(driver, EngineError) else type(driver).__name__


def source_path(spec: port.ConnectionSpec) -> Path:
    """Return the absolute path of a connection's `path`, or of its `url` (`sqlite:///x`, `duckdb:///x`, `file:x`).

    Three slashes before a path mean relative, four absolute, as in SQLAlchemy. Raises `ConfigError` if neither is set,
    or for a database in memory.
    """
    given = spec.options.get("path") or spec.options.get("url")
    if not isinstance(given, str) or not given.strip():
        message = f"connection `{spec.id}` has no `path`"
        raise ConfigError(message, hint=Command("config", "set", f"connections.{spec.id}.path", "PATH"))
    text = _path_of(given.strip())
    if text in ("", ":memory:"):
        message = f"connection `{spec.id}` uses an in-memory database, which is always empty"
        raise ConfigError(message, hint=Command("config", "set", f"connections.{spec.id}.path", "PATH"))
    return _in_project(spec, text)


def option_file(spec: port.ConnectionSpec, key: str, value: str) -> str:
    """Return the absolute path of the file named in a setting. `key` is the name of the setting (`ssl.ca`).

    Raises `ConfigError` if the file does not exist or this user cannot read it.
    """
    path = _in_project(spec, value)
    place = SettingPath(f"connections.{spec.id}")
    hint = Hint("correct {} of {}; a relative path starts at the folder of ktx.yaml", key, place)
    details = {"path": str(path), "connection": spec.id}
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"connection `{spec.id}`: `{key}`: {path} is not a file", hint=hint, details=details)
        with path.open("rb"):
            pass
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = f"file {path} does not exist" if missing else f"cannot read {path}: {error.strerror or error}"
        raise ConfigError(f"connection `{spec.id}`: `{key}`: {what}", hint=hint, details=details) from error
    return str(path)


def require_file(spec: port.ConnectionSpec, path: Path, kind: str) -> None:
    """Raise `SourceError` unless `path` is a file that this user can read. `kind` is the expected kind of file."""
    where = f"connection `{spec.id}`"
    hint = Command("config", "set", f"connections.{spec.id}.path", "PATH")
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # Opening a pipe would wait for its other end.
            what = "a folder" if stat.S_ISDIR(mode) else "a special file"
            raise SourceError(f"{where}: {path} is {what}, not a {kind}", hint=hint, details={"path": str(path)})
        # Not opened: closing it again would release every lock that this process holds on it.
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (FileNotFoundError, NotADirectoryError):
        copy = Hint("{}; if git ignores the file, copy it into this clone", hint)
        raise SourceError(f"{where}: file {path} does not exist", hint=copy, details={"path": str(path)}) from None
    except OSError as error:
        raise unreadable(spec, path, error) from error


def unreadable(spec: port.ConnectionSpec, path: Path, error: OSError) -> SourceError:
    """Return the error for a path that the operating system does not allow ktx to read."""
    message = f"connection `{spec.id}`: cannot read {path}: {error.strerror or error}"
    hint = Hint("give this user access, for example with {}", Command("u+r", path, program="chmod"))
    return SourceError(message, hint=hint, details={"path": str(path)})


def _in_project(spec: port.ConnectionSpec, text: str) -> Path:
    base = spec.options.get("project_dir") or ""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        message = f"connection `{spec.id}`: cannot expand {text} because there is no home folder"
        raise ConfigError(message, hint="use an absolute path") from error
    return Path(os.path.normpath(Path(base) / path)).absolute()


def _path_of(given: str) -> str:
    scheme, colon, rest = given.partition(":")
    if not colon or scheme.lower() not in ("file", "sqlite", "duckdb"):
        return given
    if scheme.lower() == "file":
        parts = urlsplit(given)
        return unquote(parts.path) if "mode=memory" not in parts.query else ":memory:"
    # sqlite:///relative, sqlite:////absolute, sqlite:relative
    return rest.removeprefix("//").removeprefix("/").partition("?")[0]


ANY: tuple[str, ...] = ()
"""Any value is allowed."""

FLAG = ("true", "false", "1", "0", "yes", "no", "on", "off")
"""The values of a boolean parameter."""

ADDRESS = {"host": ANY, "port": ANY, "user": ANY, "password": ANY}
"""Parameters allowed in the URL of any server."""


def folded(value: str) -> str:
    """Return a value from a fixed list in the list's spelling."""
    return value.strip().lower().replace("_", "-")


def require_known(spec: port.ConnectionSpec, given: Mapping[str, str], known: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `ConfigError` for an unknown parameter or an invalid value. The value is not shown."""
    for name, value in given.items():
        if name not in known:
            near = did_you_mean(name, known)
            correct = f"write `{near}`" if near else "remove it"
            raise _error(spec, f"has the unknown parameter `{one_line(name, 60)}`", correct)
        require_choice(spec, "url", name, value, known[name])


def require_choice(spec: port.ConnectionSpec, key: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `ConfigError` unless a value is one of the choices. `key` is the setting that contains it."""
    if choices and value and folded(value) not in choices:
        allowed = listing((f"`{each}`" for each in choices), len(choices))
        parameter = "" if name == key else f" for `{name}`"
        raise _error(spec, f"has an invalid value{parameter}", f"use one of {allowed}", key)


def _error(spec: port.ConnectionSpec, what: str, correct: str, key: str = "url") -> ConfigError:
    hint = Hint("{} in {}", correct, SettingPath(f"connections.{spec.id}.{key}"))
    return ConfigError(f"connection `{spec.id}`: its `{key}` {what}", hint=hint, details={"connection": spec.id})
