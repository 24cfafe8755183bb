"""Finds the files a connection names: `path`, `url` and those of TLS, relative to the project, `~` expanded."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath, SourceError, did_you_mean, listing, one_line
from ktx_cli.warehouses.port import ConnectionSpec


def source_path(spec: ConnectionSpec) -> Path:
    """Return the absolute path of a connection's `path`, or of its `url` (`sqlite:///x`, `duckdb:///x`, `file:x`).

    Three slashes before a path mean relative, four absolute, as in SQLAlchemy. Raises `ConfigError` when neither is
    given, or when it names a database in memory.
    """
    given = spec.options.get("path") or spec.options.get("url")
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(
            f"connection `{spec.id}` names no file",
            hint=Command("config", "set", f"connections.{spec.id}.path", "PATH"),
        )
    text = _path_of(given.strip())
    if text in ("", ":memory:"):
        raise ConfigError(
            f"connection `{spec.id}` names a database in memory, which is always empty",
            hint=Command("config", "set", f"connections.{spec.id}.path", "PATH"),
        )
    return _in_project(spec, text)


def option_file(spec: ConnectionSpec, key: str, value: str) -> str:
    """Return the absolute path of a file that a setting names; `key` is the setting's (`ssl.ca`).

    Raises `ConfigError` when there is no such file, or none this user can read.
    """
    path = _in_project(spec, value)
    place = SettingPath(f"connections.{spec.id}")
    hint = Hint("correct {} of {}; a relative path begins at the folder of ktx.yaml", key, place)
    details = {"path": str(path), "connection": spec.id}
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"connection `{spec.id}`: `{key}`: {path} is not a file", hint=hint, details=details)
        with path.open("rb"):
            pass
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what = f"there is no file {path}" if missing else f"cannot read {path}: {error.strerror or error}"
        raise ConfigError(f"connection `{spec.id}`: `{key}`: {what}", hint=hint, details=details) from error
    return str(path)


def require_file(spec: ConnectionSpec, path: Path, kind: str) -> None:
    """Raise `SourceError` unless `path` is a file this user can read; `kind` is what it should be."""
    where = f"connection `{spec.id}`"
    hint = Command("config", "set", f"connections.{spec.id}.path", "PATH")
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its other end
            what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            raise SourceError(f"{where}: {path} is {what}, not a {kind}", hint=hint, details={"path": str(path)})
        # Not opened: to close it again would give up every lock that this process has on it.
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError(f"{where}: there is no file {path}", hint=hint, details={"path": str(path)}) from None
    except OSError as error:
        raise unreadable(spec, path, error) from error


def unreadable(spec: ConnectionSpec, path: Path, error: OSError) -> SourceError:
    """Return the error for a path the system does not let us read."""
    return SourceError(
        f"connection `{spec.id}`: cannot read {path}: {error.strerror or error}",
        hint=Hint("give this user access, for example: {}", Command("u+r", path, program="chmod")),
        details={"path": str(path)},
    )


def _in_project(spec: ConnectionSpec, text: str) -> Path:
    base = spec.options.get("project_dir") or ""
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"connection `{spec.id}`: there is no home folder for {text}", hint="write the whole path"
        ) from error
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
"""Any value will do."""

FLAG = ("true", "false", "1", "0", "yes", "no", "on", "off")
"""The values of a parameter that is on or off."""

ADDRESS = {"host": ANY, "port": ANY, "user": ANY, "password": ANY}
"""Parameters that every server's URL may have."""


def folded(value: str) -> str:
    """Return a value of a fixed list as the list spells it."""
    return value.strip().lower().replace("_", "-")


def require_known(spec: ConnectionSpec, given: Mapping[str, str], known: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `ConfigError` for a parameter ktx does not know, or a value it cannot have; no value is shown."""
    for name, value in given.items():
        if name not in known:
            near = did_you_mean(name, known)
            correct = f"write `{near}`" if near else "take it out"
            raise _error(spec, f"has the parameter `{one_line(name, 60)}`, which ktx does not know", correct)
        require_choice(spec, "url", name, value, known[name])


def require_choice(spec: ConnectionSpec, key: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `ConfigError` unless a value is one of the choices; `key` is the setting that gives it."""
    if choices and value and folded(value) not in choices:
        allowed = listing((f"`{each}`" for each in choices), len(choices))
        raise _error(spec, f"gives `{name}` a value it cannot have", f"write one of {allowed}", key)


def _error(spec: ConnectionSpec, what: str, correct: str, key: str = "url") -> ConfigError:
    return ConfigError(
        f"connection `{spec.id}`: its `{key}` {what}",
        hint=Hint("{} in {}", correct, SettingPath(f"connections.{spec.id}.{key}")),
        details={"connection": spec.id},
    )
