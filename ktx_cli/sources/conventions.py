"""Proposals for `ktx.yaml` from what documents and variables of dbt state: the time zone, the start of the fiscal year.

Nothing is set: a warning shows the statement with its place, and the command that would set it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import Command, Hint, ResultWarning, listing
from ktx_cli.documents import FISCAL_YEAR_START, TIMEZONE, Convention, is_zone, month_number
from ktx_cli.semantic import Model
from ktx_cli.sources.catalog import safe_text

_MOST: Final = 3
"""Places that are named for a value."""

_WHAT: Final = {TIMEZONE: "a time zone", FISCAL_YEAR_START: "a fiscal year start"}
_ZONE_NAMES: Final = re.compile(r"(?:\w+:)?(?:(?:reporting|business|company|default|local|report)_)?time_?zone")
_FISCAL_NAMES: Final = re.compile(
    r"(?:\w+:)?(?:fiscal_year_start(?:_month)?|fiscal_(?:start_)?month|fiscal_year_first_month"
    r"|first_month_of_(?:the_)?fiscal_year|fiscal_start)"
)


@dataclass(frozen=True, slots=True)
class StatedConvention:
    """A convention, and the file that states it."""

    path: str
    convention: Convention


def stated_variables(variables: Mapping[str, Any], path: str) -> Iterator[StatedConvention]:
    """Yield what variables of a dbt project state; `path`: of the file they are in. Those of packages count, too."""
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


def convention_warnings(
    connection: str, stated: Iterable[StatedConvention], models: Mapping[str, Model]
) -> tuple[ResultWarning, ...]:
    """Return a proposal for each setting that a source states and the project has left as it is.

    `models`: the semantic layers, which have the calendar of the project; without any there is nothing to propose.
    """
    calendar = next((model.calendar for model in models.values()), None)
    if calendar is None:
        return ()
    is_open = {TIMEZONE: calendar.timezone is None, FISCAL_YEAR_START: calendar.fiscal_year_start == 1}
    by_value: dict[str, dict[str, list[StatedConvention]]] = {}
    for each in stated:
        found = each.convention
        by_value.setdefault(found.setting, {}).setdefault(found.value, []).append(each)
    defaults = {FISCAL_YEAR_START: {str(calendar.fiscal_year_start)}}
    return tuple(
        _proposal(connection, setting, values)
        for setting, values in sorted(by_value.items())
        if is_open[setting] and values.keys() - defaults.get(setting, set())
    )


def _proposal(connection: str, setting: str, values: Mapping[str, list[StatedConvention]]) -> ResultWarning:
    places = {value: listing(map(_place, found), _MOST) for value, found in values.items()}
    statements = " and ".join(f"{value} in {place}" for value, place in places.items())
    commands = [Command("config", "set", setting, value) for value in values]
    differs = ", and the statements contradict each other" if len(values) > 1 else ""
    hint = Hint("to use it: {}", commands[0])
    if len(commands) > 1:
        hint = Hint(f"choose one: {' or '.join('{}' for _ in commands)}", *commands)
    return ResultWarning(
        "convention_stated",
        f"{connection} states {_WHAT[setting]} that ktx.yaml does not set (`{setting}`){differs}: {statements}",
        hint=hint,
        connection=connection,
        setting=setting,
        values=list(values),
    )


def _place(stated: StatedConvention) -> str:
    return f'{safe_text(stated.path, 120)} ("{safe_text(stated.convention.words, 160)}")'
