"""Reads a `ktx.yaml` and reports all of its errors and warnings at once, with their lines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ktx_cli.core import Command, ConfigError, Hint, NoProjectError, ResultWarning, Severity, listing, plural, yaml
from ktx_cli.project.config.base import InvalidConfigError, Issue, Keys, key_text, named, placed
from ktx_cli.project.config.checks import errors_of, key_warnings, literal_secrets, rule_warnings
from ktx_cli.project.config.connections import DisabledConnection, is_foreign
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.files import read_bytes, remove_leftovers_of, write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.telemetry import know

WITHOUT_EFFECT: Final = ("unknown_key", "no_effect", "not_yet")
"""Codes of warnings about content that ktx ignores. Only commands about the file report them."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A usable `ktx.yaml`: the settings, the warnings about the file, and its data as written."""

    path: Path
    config: KtxConfig
    issues: tuple[Issue, ...]
    raw: dict[str, Any]

    def require_valid(self) -> None:
        """Raise `ConfigError` for errors in the file that so far only disabled connections."""
        if any(issue.severity == "error" for issue in self.issues):
            raise _config_error(self.path, self.issues)

    def require_complete(self) -> None:
        """Raise `ConfigError` if the configured model backend cannot run because a setting is missing."""
        missing = [each for each in self.issues if each.code == "incomplete" and each.keys[0] == "llm"]
        if missing:
            raise _config_error(self.path, [replace(each, severity=Severity.ERROR) for each in missing])

    def notices(self) -> list[ResultWarning]:
        """Return the file's warnings for a command about something else, without those about ineffective settings.

        Disabled connections are combined into one warning.
        """
        reported = [issue for entry in self.config.disabled().values() for issue in entry.issues]
        quiet = {(issue.keys, issue.code) for issue in reported}
        rest = [i for i in self.issues if i.code not in WITHOUT_EFFECT and (i.keys, i.code) not in quiet]
        return [*_disabled(self.config), *(issue.to_warning() for issue in rest)]

    def warnings(self) -> list[ResultWarning]:
        """Return all warnings about the file; those about settings without effect yet are combined into one."""
        waiting = [issue for issue in self.issues if issue.code == "not_yet"]
        warnings = [issue.to_warning() for issue in self.issues if issue not in waiting]
        if len(waiting) == 1:
            warnings.append(waiting[0].to_warning())
        elif waiting:
            paths = [issue.setting for issue in waiting]
            settings = plural(len(waiting), "setting")
            message = f"{settings} in ktx.yaml have no effect in this version yet: {listing(paths)}"
            warnings.append(ResultWarning("config_not_yet", message, hint=Command("config", "validate"), paths=paths))
        return warnings


def load_config(path: Path, data: bytes | None = None) -> LoadedConfig:
    """Load and check a `ktx.yaml`; `data` is its content if that differs from the file on disk.

    An empty file is an empty configuration. An error in one connection's entry only disables that connection.
    Raises `NoProjectError` if there is no file, and `ConfigError` with all errors in `details["issues"]` if anything
    else in it is invalid.
    """
    text = read_bytes(path) if data is None else data
    if text is None:
        raise NoProjectError(f"{path} does not exist", hint=Command("setup"))
    value = yaml.load(text, where=str(path))
    if value is not None and not isinstance(value, dict):
        message = f"{path}:1: the file must be a mapping of settings"
        hint = "start with a block, for example `connections:`"
        raise ConfigError(message, hint=hint, details={"path": str(path), "line": 1, "column": 1})
    raw: dict[str, Any] = _with_text_keys(value or {})
    merged = list(merge_keys(raw))
    if merged:  # anything else that seems missing may be in what they refer to
        raise _config_error(path, placed(merged, text))
    issues = [*key_warnings(raw), *id_collisions(raw, text)]
    try:
        config = KtxConfig.model_validate(raw)
    except ValidationError as error:
        found = placed([_graded(issue, raw) for issue in errors_of(error, raw)], text)
        if not all(map(_is_of_one_connection, found)):
            raise _config_error(path, placed([*issues, *found], text)) from None
        config = KtxConfig.model_validate(_without(raw, found))
        issues += found
    if any(issue.severity == "error" and not _is_of_one_connection(issue) for issue in issues):
        raise _config_error(path, placed(issues, text))
    know("ktx.connection", config.connections)
    return LoadedConfig(path, config, placed([*issues, *rule_warnings(config), *literal_secrets(config)], text), raw)


def _graded(issue: Issue, raw: Mapping[str, Any]) -> Issue:
    """Return the error, or a warning if only the TypeScript ktx can use a connection."""
    entry = raw["connections"][issue.keys[1]] if _is_of_one_connection(issue) else None
    return replace(issue, severity=Severity.WARNING, code="foreign_driver") if is_foreign(entry) else issue


def _is_of_one_connection(issue: Issue) -> bool:
    """Return whether an error is inside one entry of `connections`. Ids name files, so an invalid id affects all."""
    return len(issue.keys) > 1 and issue.keys[0] == "connections" and issue.code != "id"


def _without(raw: Mapping[str, Any], issues: Sequence[Issue]) -> dict[str, Any]:
    """Return the data with the affected connections disabled."""
    entries = dict(raw["connections"])
    for connection in {issue.keys[1] for issue in issues}:
        own = [issue for issue in issues if issue.keys[1] == connection]
        entries[connection] = DisabledConnection.of(entries[connection], own)
    return {**raw, "connections": entries}


def _disabled(config: KtxConfig) -> list[ResultWarning]:
    """Return the one warning about disabled connections, if any."""
    found = config.disabled()
    if not found:
        return []
    first = next(iter(found.values())).issues[0]
    if len(found) == 1:
        message = f"connection `{next(iter(found))}` is disabled: {first.message}"
    else:
        message = f"{len(found)} connections are disabled: {listing(f'`{connection}`' for connection in found)}"
    hint = first.hint if len(found) == 1 else Hint("run {} for details", Command("config", "validate"))
    return [ResultWarning("config_disabled", message, hint=hint, connections=list(found))]


def check_connection(connection: str, fields: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if a `ktx.yaml` could not contain this connection. It is in no file yet, so has no line."""
    raw = _with_text_keys({"connections": {connection: dict(fields)}})
    issues = [*merge_keys(raw), *half_characters(fields, ("connections", connection))]
    try:
        KtxConfig.model_validate(raw)
    except ValidationError as error:
        issues += errors_of(error, raw)
    if issues:
        raise InvalidConfigError(issues[0].message + _and_more(issues), issues)


def _and_more(errors: Sequence[Issue]) -> str:
    return f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key_text(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


def _config_error(path: Path, issues: Sequence[Issue]) -> InvalidConfigError:
    """Return the error for an invalid file; `issues` begins with the errors."""
    errors = [issue for issue in issues if issue.severity == "error"]
    first = errors[0]
    place = f"{path}:{first.line}:{first.column}" if first.line else str(path)
    message = f"{place}: {first.message}{_and_more(errors)}"
    return InvalidConfigError(message, issues, path=str(path), line=first.line, column=first.column)


MERGE_KEY: Final = "<<"


def merge_keys(value: Any, at: Keys = ()) -> Iterator[Issue]:
    """Reject every `<<`: YAML 1.2 has no merge keys, so `<<` would be an unknown setting.

    `value` may have any shape, with text as keys.
    """
    if isinstance(value, dict):
        if MERGE_KEY in value:
            yield _merge_key(value[MERGE_KEY], (*at, MERGE_KEY))
        for key, item in value.items():
            yield from merge_keys(item, (*at, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from merge_keys(item, (*at, str(position)))


def _merge_key(merged: Any, keys: Keys) -> Issue:
    settings = list(merged) if isinstance(merged, dict) else []
    instead = f"`{listing((f'{key}: ...' for key in settings), 8)}`" if settings else "the settings themselves"
    hint = f"write {instead} instead; an alias (`*name`) can replace a whole value, but not a part of one"
    return Issue(keys, f"{named(keys)} is a merge key, which ktx.yaml does not support", hint, code="merge_key")


def half_characters(value: Any, at: Keys) -> Iterator[Issue]:
    """Reject text that no file can contain: command-line arguments that are not UTF-8 have lone surrogates."""
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        yield Issue(at, f"{named(at)} is not valid UTF-8", "type it again in a UTF-8 terminal")
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from half_characters(item, (*at, key))
    for position, item in enumerate(value if isinstance(value, list) else ()):
        yield from half_characters(item, (*at, str(position)))


def id_collisions(raw: Mapping[str, Any], text: bytes) -> Iterator[Issue]:
    """Reject connection ids that differ only in case, and mount names that are already taken.

    On many systems, `semantic-layer/<id>` would be the same folder for both.
    """
    connections = raw.get("connections")
    first: dict[str, str] = {}
    for connection in connections if isinstance(connections, dict) else ():
        other = first.setdefault(connection.lower(), connection)
        if other != connection:
            yield _collision(connection, other, text)
    mounts = raw.get("mounts")
    for mount in mounts if isinstance(mounts, dict) else ():
        other = first.setdefault(mount.lower(), mount)
        if other != mount or (isinstance(connections, dict) and mount in connections):
            says = f"{named(['mounts', mount])} has the same name as another mount or a connection"
            yield Issue(("mounts", mount), says, f"rename the mount, for example `{mount}-domain`", code="id")


def _collision(connection: str, other: str, text: bytes) -> Issue:
    here, there = (_line(("connections", name), text) for name in (connection, other))
    return Issue(
        ("connections", connection),
        f"the connection ids {named([other])} (line {there}) and {named([connection])} (line {here}) differ "
        "only in case, so on many systems they would share their files",
        f"rename one of them, for example `{connection}` to `{connection}-2`",
        code="id",
    )


def _line(keys: Keys, text: bytes) -> int | None:
    (issue,) = placed([Issue(keys, "")], text)
    return issue.line


def change_config(layout: Layout, change: Callable[[bytes], bytes]) -> tuple[bool, LoadedConfig]:
    """Apply `change` to the text of `ktx.yaml` and save it; return whether the file changed, and its new content.

    The change must work on any text: another command may have written since the caller read the file. Raises what
    `change` raises, and `ConfigError` if the result is invalid; the file is then unchanged.
    """
    with config_lock(layout.root):
        path = layout.config.resolve()
        before = read_bytes(path) or b""
        after = change(before)
        loaded = load_config(layout.config, data=after)
        if after != before:
            require_no_more_disabled(layout.config, before, loaded)
            write_atomic(path, after)
    return after != before, loaded


def require_no_more_disabled(path: Path, before: bytes, after: LoadedConfig) -> None:
    """Raise `ConfigError` if a change would disable a connection that was usable before."""
    try:
        known = load_config(path, data=before).config.disabled()
    except ConfigError:  # the change may be the fix
        return
    for connection, entry in after.config.disabled().items():
        if connection not in known and not entry.is_foreign:
            after.require_valid()


@contextlib.contextmanager
def config_lock(folder: Path) -> Iterator[None]:
    """Hold the lock on changes to `ktx.yaml`: an advisory lock on its folder, which leaves no file behind."""
    try:
        import fcntl
    except ImportError:  # a system without advisory locks
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        remove_leftovers_of(folder / "ktx.yaml")
        yield
    finally:
        os.close(descriptor)
