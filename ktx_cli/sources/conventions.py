"""Conventions that documents and dbt variables state for settings in `ktx.yaml`: time zone, fiscal year and week start.

Nothing is set automatically. A run proposes what it reads, and stores it in a committed record next to the source, so
that `ktx status` and `ktx doctor` show what is undecided or differs from the settings.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, Hint, ResultWarning, listing
from ktx_cli.documents import (
    FISCAL_YEAR_START,
    TIMEZONE,
    WEEK_START,
    Convention,
    is_convention,
    is_zone,
    month_number,
    week_day,
)
from ktx_cli.project import Layout

if TYPE_CHECKING:
    from ktx_cli.documents import Snapshot
    from ktx_cli.project import KtxConfig, Tree, Workspace
    from ktx_cli.semantic import Model

CONVENTIONS: Final = "conventions.json"
"""The name of the record of a source's statements."""

_FORMAT: Final = 1
_MOST: Final = 3
"""The maximum number of locations listed per value."""
_MOST_KEPT: Final = 50
"""The maximum number of recorded statements per source."""
_LONGEST_WORDS: Final = 160

_WHAT: Final = {
    TIMEZONE: "a time zone",
    FISCAL_YEAR_START: "a fiscal year start",
    WEEK_START: "a first day of the week",
}
_ZONE_NAMES: Final = re.compile(r"(?:\w+:)?(?:(?:reporting|business|company|default|local|report)_)?time_?zone")
_FISCAL_NAMES: Final = re.compile(
    r"(?:\w+:)?(?:fiscal_year_start(?:_month)?|fiscal_(?:start_)?month|fiscal_year_first_month"
    r"|first_month_of_(?:the_)?fiscal_year|fiscal_start)"
)
_WEEK_NAMES: Final = re.compile(r"(?:\w+:)?(?:week_start(?:_day)?|(?:first_day|start)_of_(?:the_)?week)")


@dataclass(frozen=True, slots=True)
class StatedConvention:
    """A convention and the file that states it."""

    path: str
    convention: Convention


def stated_variables(variables: Mapping[str, Any], path: str) -> Iterator[StatedConvention]:
    """Yield the conventions that a dbt project's variables state, including those of packages. `path`: their file."""
    for name, value in variables.items():
        if isinstance(value, Mapping):
            yield from stated_variables(value, path)
            continue
        plain, text = str(name).lower(), str(value).strip()
        words = f"{name}: {text}"
        if _ZONE_NAMES.fullmatch(plain) and is_zone(text):
            yield StatedConvention(path, Convention(TIMEZONE, text, words))
        elif _FISCAL_NAMES.fullmatch(plain) and (month := month_number(text)) is not None:
            yield StatedConvention(path, Convention(FISCAL_YEAR_START, str(month), words))
        elif _WEEK_NAMES.fullmatch(plain) and (day := week_day(text)) is not None:
            yield StatedConvention(path, Convention(WEEK_START, day, words))


def record_conventions(
    workspace: Workspace, connection: str, kind: str, snapshot: Snapshot, stated: Iterable[StatedConvention]
) -> None:
    """Write a source's statements to the source's record in an overlay. A source without statements has no record.

    For texts that may not be shown, the record has the reason. For files that are missing from an incomplete snapshot,
    it keeps the previous statements.
    """
    path = Layout.raw_path(connection, kind, CONVENTIONS)
    found = {_screened(each) for each in stated}
    content = workspace.read(path)
    if content is not None and not snapshot.complete:
        with contextlib.suppress(ConfigError):  # A damaged record is ktx's own, and is rewritten.
            found |= {each for each in _parsed(content, path) if each.path not in snapshot.files}
    kept = sorted(found, key=_order)[:_MOST_KEPT]
    if kept:
        written = _rendered(kept)
        if written != content:
            workspace.write(path, written)
    elif content is not None:
        workspace.delete(path)


def recorded_conventions(tree: Tree, connections: Iterable[str]) -> dict[str, list[StatedConvention]]:
    """Return connection -> the recorded statements of its sources, except connections without statements.

    Raises `ConfigError` for an invalid record.
    """
    found: dict[str, list[StatedConvention]] = {}
    for connection in connections:
        folder = Layout.raw_path(connection, "")
        for path in sorted(tree.paths(f"{folder}/")):
            if path.count("/") == folder.count("/") + 2 and path.endswith(f"/{CONVENTIONS}"):
                found.setdefault(connection, []).extend(_parsed(tree.read(path) or b"", path))
    return found


def _screened(stated: StatedConvention) -> StatedConvention:
    from ktx_cli.sources.catalog import safe_text

    return replace(
        stated, convention=replace(stated.convention, words=safe_text(stated.convention.words, _LONGEST_WORDS))
    )


def _order(stated: StatedConvention) -> tuple[str, str, str, str]:
    found = stated.convention
    return found.setting, found.value, stated.path, found.words


def _rendered(stated: Iterable[StatedConvention]) -> bytes:
    entries = [
        {"setting": each.convention.setting, "value": each.convention.value, "path": each.path,
         "words": each.convention.words}
        for each in stated
    ]  # fmt: skip
    document = {"format": _FORMAT, "conventions": entries}
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "surrogatepass")


def _parsed(content: bytes, where: str) -> list[StatedConvention]:
    try:
        document = json.loads(content)
        if document["format"] != _FORMAT:
            raise ValueError(document["format"])
        entries = [
            (str(each["path"]), Convention(each["setting"], each["value"], str(each["words"])))
            for each in document["conventions"]
        ]
        if not all(is_convention(found.setting, found.value) for _, found in entries):
            raise ValueError(where)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        hint = (
            f"restore it from an earlier commit, or delete {where} and let the next run that reads the source "
            "write it again"
        )
        raise ConfigError(f"{where} is not a record that this version of ktx can read", hint=hint) from None
    return [StatedConvention(path, found) for path, found in entries]


_ByValue = Mapping[str, list[tuple[str, StatedConvention]]]
"""Value -> the connections and statements with that value."""


@dataclass(frozen=True, slots=True)
class OpenConvention:
    """A setting for which sources state a value that differs from `ktx.yaml`. `is_set`: whether `ktx.yaml` sets it."""

    setting: str
    is_set: bool
    message: str
    hint: Hint | Command


def open_conventions(config: KtxConfig, recorded: Mapping[str, Iterable[StatedConvention]]) -> list[OpenConvention]:
    """Return the settings for which the sources' records differ from the project's values, in order."""
    by_setting: dict[str, dict[str, list[tuple[str, StatedConvention]]]] = {}
    for connection, stated in sorted(recorded.items()):
        for each in stated:
            values = by_setting.setdefault(each.convention.setting, {})
            values.setdefault(each.convention.value, []).append((connection, each))
    found = (_open(config, setting, values) for setting, values in sorted(by_setting.items()))
    return [each for each in found if each is not None]


def _open(config: KtxConfig, setting: str, values: _ByValue) -> OpenConvention | None:
    name = setting.removeprefix("semantic.")
    current = getattr(config.semantic, name)
    others = values.keys() - {str(current)}
    if not others:
        return None
    if name in config.semantic.model_fields_set and current is not None:
        differing = {value: places for value, places in values.items() if value in others}
        message = f"`ktx.yaml` sets `{setting}` to {current}, but {_statements(differing)}"
        return OpenConvention(setting, True, message, Hint("correct the source, or {}", _way_out(setting, differing)))
    differs = ", and the statements contradict each other" if len(values) > 1 else ""
    message = (
        f"sources state {_WHAT[setting]} that `ktx.yaml` does not set (`{setting}`){differs}: {_statements(values)}"
    )
    hint = _way_out(setting, values) if len(values) > 1 else Command("config", "set", setting, *values)
    return OpenConvention(setting, False, message, hint)


def _statements(values: _ByValue) -> str:
    return " and ".join(
        f"{value} is stated in {listing((f'{connection}: {_place(each)}' for connection, each in found), _MOST)}"
        for value, found in values.items()
    )


def _way_out(setting: str, values: Iterable[str]) -> Hint:
    commands = [Command("config", "set", setting, value) for value in values]
    if len(commands) == 1:
        return Hint("to use it, run {}", commands[0])
    return Hint(f"run one of: {' or '.join('{}' for _ in commands)}", *commands)


def convention_warnings(
    connection: str, stated: Iterable[StatedConvention], models: Mapping[str, Model]
) -> tuple[ResultWarning, ...]:
    """Return a proposal for each setting that a source states and that the project does not set.

    `models`: the semantic layers, which contain the project's calendar. Without any, there is nothing to propose.
    """
    calendar = next((model.calendar for model in models.values()), None)
    if calendar is None:
        return ()
    defaults = {FISCAL_YEAR_START: "1", WEEK_START: "monday"}
    current = {FISCAL_YEAR_START: str(calendar.fiscal_year_start), WEEK_START: calendar.week_start}
    is_open = {TIMEZONE: calendar.timezone is None} | {name: current[name] == value for name, value in defaults.items()}
    by_value: dict[str, dict[str, list[StatedConvention]]] = {}
    for each in stated:
        found = each.convention
        by_value.setdefault(found.setting, {}).setdefault(found.value, []).append(each)
    return tuple(
        _proposal(connection, setting, values)
        for setting, values in sorted(by_value.items())
        if is_open[setting] and values.keys() - {current.get(setting)}
    )


def _proposal(connection: str, setting: str, values: Mapping[str, list[StatedConvention]]) -> ResultWarning:
    places = {value: listing(map(_place, found), _MOST) for value, found in values.items()}
    statements = " and ".join(f"{value} in {place}" for value, place in places.items())
    differs = ", and the statements contradict each other" if len(values) > 1 else ""
    return ResultWarning(
        "convention_stated",
        f"{connection} states {_WHAT[setting]} that `ktx.yaml` does not set (`{setting}`){differs}: {statements}",
        hint=_way_out(setting, values),
        connection=connection,
        setting=setting,
        values=list(values),
    )


def _place(stated: StatedConvention) -> str:
    from ktx_cli.sources.catalog import safe_text

    return f'{safe_text(stated.path, 120)} ("{safe_text(stated.convention.words, _LONGEST_WORDS)}")'
