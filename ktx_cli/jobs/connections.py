"""Test, add and remove connections, for `ktx connection` and setup."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.core import Command, ConfigError, Hint, KtxError, ResultWarning, Severity, UsageError, monotonic, yaml
from ktx_cli.project import (
    CONFIG_NAME,
    WITHOUT_EFFECT,
    Database,
    InvalidConfigError,
    Issue,
    KtxConfig,
    Layout,
    WorkingTree,
    change_config,
    check_connection,
    connection_of,
    edit,
    example_connection,
    get_value,
    has_state,
    known_connection,
    load_config,
    open_for_writing,
    parse_cli_settings,
    read_bytes,
)
from ktx_cli.sources import FetchContext, RawStore, source_for
from ktx_cli.warehouses import ConnectionTest, open_connection


def probe_connection(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> ConnectionTest:
    """Open and test a database as ingest does. Raises the error that ingest would report."""
    connector, scope = open_connection(config, connection, project_dir=project_dir, environ=environ)
    with connector:
        return connector.test(scope)


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """A readable context source. `origin` describes it in one line."""

    origin: str
    latency_ms: float


def check_source(config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]) -> SourceCheck:
    """Check access to a context source without reading it. Raises the error that ingest would report."""
    layout = Layout(project_dir)
    context = FetchContext(connection, layout, environ, RawStore(layout.raw_store))
    entry = connection_of(config, connection)
    started = monotonic()
    origin = source_for(entry.driver).check(entry, context)
    return SourceCheck(origin, (monotonic() - started) * 1000)


def check_connection_of(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> ConnectionTest | SourceCheck:
    """Test a database or a context source. Raises the error that ingest would report."""
    is_database = isinstance(connection_of(config, connection), Database)
    check = probe_connection if is_database else check_source
    return check(config, connection, project_dir=project_dir, environ=environ)


def config_with_connection(text: bytes, connection: str, fields: Mapping[str, Any]) -> bytes:
    """Return the text of `ktx.yaml` with a new connection.

    Raises `ConfigError` for an invalid id or invalid fields, and `UsageError` if the id differs from another one only
    in case.
    """
    check_connection(connection, fields)
    known = load_config(Path(CONFIG_NAME), data=text).config.connections
    other = next((name for name in known if name != connection and name.lower() == connection.lower()), None)
    if other is not None:
        message = f"the id `{connection}` differs only in case from the existing connection `{other}`"
        raise UsageError(message, hint=f"choose another id, for example `{connection}-2`")
    changed = edit.set_value(text, ("connections", connection), dict(fields), where=CONFIG_NAME)
    load_config(Path(CONFIG_NAME), data=changed)
    return changed


def add_connection(
    layout: Layout,
    connection: str,
    fields: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    test: bool,
    keep: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> tuple[ConnectionTest | SourceCheck | None, list[ResultWarning]]:
    """Add a connection to `ktx.yaml`, after a successful test unless `test` is false.

    `keep` stores the secrets in the fields elsewhere and returns the fields with references to them.
    Raises `UsageError` for an existing id, `ConfigError` for an invalid id or invalid fields, and `SourceError` if the
    test fails. Nothing is written in these cases.
    """
    text = read_bytes(layout.config) or b""
    planned = _with_new_connection(text, connection, fields)
    result = None
    if test:
        config = load_config(layout.config, data=planned).config
        result = check_connection_of(config, connection, project_dir=layout.root, environ=environ)
    saved = keep(fields)
    _, loaded = change_config(layout, lambda now: _with_new_connection(now, connection, saved))
    return result, loaded.notices()


def _with_new_connection(text: bytes, connection: str, fields: Mapping[str, Any]) -> bytes:
    if connection in load_config(Path(CONFIG_NAME), data=text).config.connections:
        change = Command("config", "set", f"connections.{connection}.KEY", "VALUE")
        raise UsageError(f"the connection `{connection}` already exists", hint=Hint("change it with {}", change))
    return config_with_connection(text, connection, fields)


def remove_connection(layout: Layout, connection: str) -> list[str]:
    """Remove a connection from `ktx.yaml`, and delete its stored row values. Its context stays.

    Returns the remaining files: its folders, other files that its sources wrote to, and the secrets in `.ktx/secrets`
    that only it used.
    """
    from ktx_cli.scan import forget_values
    from ktx_cli.sources import leftovers

    text_before = layout.config.read_text("utf-8", "replace")

    def without(text: bytes) -> bytes:
        known_connection(load_config(layout.config, data=text).config, connection)
        return edit.delete_value(text, ("connections", connection), where=CONFIG_NAME)

    change_config(layout, without)
    if has_state(layout):
        with open_for_writing(layout) as database:
            forget_values(database, connection)
    folders = [path for path in layout.context_paths(connection) if (layout.root / path).exists()]
    try:
        written = leftovers(WorkingTree(layout.root), connection)
    except KtxError:  # `ktx lint` reports unreadable files
        written = {}
    elsewhere = [path for path in written if not path.startswith(tuple(f"{each}/" for each in folders))]
    return [*folders, *elsewhere, *_secrets_of(layout, text_before)]


def _secrets_of(layout: Layout, before: str) -> list[str]:
    """Return the stored secrets that `ktx.yaml` named before and no longer names."""
    after = layout.config.read_text("utf-8", "replace")
    stored = sorted(layout.secrets.iterdir()) if layout.secrets.is_dir() else []
    names = [path.relative_to(layout.root).as_posix() for path in stored]
    return [name for name in names if _mentions(before, name) and not _mentions(after, name)]


def _mentions(text: str, path: str) -> bool:
    return re.search(rf"{re.escape(path)}(?![\w.-])", text) is not None


def set_setting(layout: Layout, key: str, value: str) -> tuple[bool, list[ResultWarning]]:
    """Set a dotted key to a typed value, or settings of a block to those of a YAML mapping.

    Returns whether the file changed, and warnings.

    Raises `UsageError` for an unknown key, and `ConfigError` if the file would become invalid, without changing it.
    """

    def changed(text: bytes) -> bytes:
        config = load_config(layout.config, data=text).config
        keys = tuple(key.split("."))
        connection = config.connections.get(keys[1]) if keys[0] == "connections" and len(keys) > 1 else None
        if keys[0] == "connections" and connection is None:
            raise UsageError(f"ktx.yaml has no connection for `{key}`", hint=example_connection(*keys[1:2]))
        parsed = parse_cli_settings(key, value, driver=connection.driver if connection else None)
        edits = [edit.Edit("set", tuple(path.split(".")), each) for path, each in parsed.items()]
        return edit.apply(text, edits, where=CONFIG_NAME)

    return _changed_settings(layout, changed, key)


def unset_setting(layout: Layout, key: str) -> tuple[bool, list[ResultWarning]]:
    """Remove a dotted key from the file, so that its default applies. Returns as `set_setting`.

    Also removes keys that are not settings, and the blocks that become empty if that changes nothing else. Raises
    `UsageError` for such a key that is not in the file, and for a connection; `ConfigError` if the file would become
    invalid, without changing it.
    """
    names = key.split(".")

    def changed(text: bytes) -> bytes:
        if names[0] == "connections" and len(names) < 3:
            raise _whole_connection(load_config(layout.config, data=text).config, *names[1:])
        path: list[str | int] = []
        value: Any = yaml.load(text, where=CONFIG_NAME)
        for name in names:
            is_item = isinstance(value, list) and name.isdecimal() and int(name) < len(value)
            if not is_item and not (isinstance(value, dict) and name in value):
                get_value(load_config(layout.config, data=text), key)  # raises for a key that is not a setting
                return text
            path.append(int(name) if is_item else name)
            value = value[path[-1]]
        return _without(text, path)

    try:
        return _changed_settings(layout, changed, key)
    except InvalidConfigError as error:
        raise _needed(error, layout, key) from error


def _whole_connection(config: KtxConfig, connection: str | None = None) -> UsageError:
    """Return the error for a key that is not a setting, but a connection, or all of them if it is None."""
    if connection is None:
        message = "`connections` is the section with all connections, not a setting"
        return UsageError(message, hint=Hint("to remove a connection: {}", Command("connection", "remove", "ID")))
    known_connection(config, connection)
    message = f"`connections.{connection}` is a whole connection, not a setting"
    return UsageError(message, hint=_remove_block(f"connections.{connection}"))


def _remove_block(block: str) -> Hint:
    """Return the hint to remove a whole block of settings, which may be a connection."""
    names = block.split(".")
    if names[0] == "connections" and len(names) == 2:
        return Hint("to remove the connection: {}", Command("connection", "remove", names[1]))
    return Hint("to remove the whole block: {}", Command("config", "unset", block))


def _without(text: bytes, path: Sequence[str | int]) -> bytes:
    """Return a `ktx.yaml` without a key, and without the blocks that this empties.

    A block stays if it has a comment, if it is a connection, or if its absence means something else than its defaults.
    """
    text = edit.delete_value(text, tuple(path), where=CONFIG_NAME)
    fewest = 2 if path[0] == "connections" else 0
    for length in range(len(path) - 1, fewest, -1):
        block: Any = yaml.load(text, where=CONFIG_NAME)
        for name in path[:length]:
            block = block[name]
        shorter = edit.delete_value(text, tuple(path[:length]), where=CONFIG_NAME) if block == {} else text
        if shorter.count(b"#") != text.count(b"#") or _effective(shorter) != _effective(text):
            break
        text = shorter
    return text


def _effective(text: bytes) -> Any:
    """Return all settings with their defaults, without empty mappings, or None if the file is invalid."""

    def full(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: inner for key, each in value.items() if (inner := full(each)) != {}}
        return [full(each) for each in value] if isinstance(value, list) else value

    try:
        config = load_config(Path(CONFIG_NAME), data=text).config
    except ConfigError:  # saving the file reports it
        return None
    connections = {connection: entry.model_dump() for connection, entry in config.connections.items()}
    return full({**config.model_dump(exclude={"connections"}), "connections": connections})


def _needed(error: InvalidConfigError, layout: Layout, key: str) -> InvalidConfigError:
    """Return the error for a setting that something in the file requires; one that the file had before is unchanged."""
    try:
        before: Sequence[Issue] = load_config(layout.config).issues
    except InvalidConfigError as old:
        before = old.issues
    known = {(issue.keys, issue.message) for issue in before}
    errors = [each for each in error.issues if each.severity is Severity.ERROR]
    caused = next((each for each in errors if (each.keys, each.message) not in known), None)
    if caused is None:
        return error
    block = caused.setting.rpartition(".")[0] if caused.missing else caused.setting
    why: str = caused.message
    if caused.missing or key == f"{block}.driver":
        why = f"`{block}` requires it"
    elif key == caused.setting:
        why = f"with its default, {caused.message}"
    error.message = f"cannot remove `{key}`: {why}"
    error.hint = _remove_block(block) if key.startswith(f"{block}.") else error.hint
    return error


def _changed_settings(layout: Layout, changed: Callable[[bytes], bytes], key: str) -> tuple[bool, list[ResultWarning]]:
    """Save a change of a setting. Returns whether the file changed, and the warnings about it."""
    saved, loaded = change_config(layout, changed)
    without_effect = [
        issue
        for issue in loaded.issues
        if issue.code in WITHOUT_EFFECT and issue.setting is not None and f"{issue.setting}.".startswith(f"{key}.")
    ]
    return saved, [*loaded.notices(), *(issue.to_warning() for issue in without_effect)]
