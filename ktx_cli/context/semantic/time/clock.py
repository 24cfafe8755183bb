"""By which clock and calendar times are read: the dialect, the zones and how the project cuts weeks and years."""

from __future__ import annotations

import functools
import zoneinfo
from dataclasses import dataclass
from typing import Final, Literal

from ktx_cli.context.semantic.errors import unknown
from ktx_cli.context.semantic.model import CalendarSettings

Kind = Literal["date", "timestamp", "instant"]
"""What a value is: a calendar date, a timestamp without a zone, or one with it (a moment the whole world shares)."""

DIALECTS: Final = (
    *("duckdb", "sqlite", "postgres", "mysql", "snowflake", "bigquery", "tsql", "clickhouse"),
    *("redshift", "databricks", "trino"),
)
"""The sqlglot dialects this package writes; `mysql` runs on MariaDB too."""

UTC: Final = "UTC"
_DEFAULT: Final = CalendarSettings()
_OF_ONE_MACHINE: Final = frozenset({"localtime", "posixrules", "Factory"})


@dataclass(frozen=True, slots=True)
class Clock:
    """How values of one column are read: `zone` is the question's time zone, `own_zone` the column's.

    Names are of the IANA list. Without `zone` the calendar's counts, then UTC; without `own_zone` timestamps without a
    zone mean UTC. Raises `SemanticError` (code `unknown_name`) for a zone that is not on the list.
    """

    dialect: str
    calendar: CalendarSettings = _DEFAULT
    zone: str | None = None
    own_zone: str | None = None

    def __post_init__(self) -> None:
        require_zone(self.target)
        require_zone(self.source)

    @property
    def target(self) -> str:
        """The zone results are in."""
        return self.zone or self.calendar.timezone or UTC

    @property
    def source(self) -> str:
        """The zone in which a timestamp without one is meant."""
        return self.own_zone or UTC


def require_zone(name: str) -> None:
    """Raise `SemanticError` unless there is a time zone of that name."""
    if name not in _known():
        raise unknown("time zone", name, _known())


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _OF_ONE_MACHINE | {UTC})
