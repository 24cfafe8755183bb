"""How often explores, dashboards and looks were used in the last 30 days, rounded so that the files stay the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ktx_cli.context.sources.looker.api import Looker

WINDOW: Final = {"history.created_date": "30 days"}
_COUNTS: Final = ("history.query_run_count", "user.count")
_STEPS: Final = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FULL_QUERIES: Final = 10
FULL_USERS: Final = 3


class Lane(StrEnum):
    """How much work something is worth."""

    SKIP = "skip"
    LIGHT = "light"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Usage:
    """Queries and users of 30 days, each rounded down to 1, 3, 10, 30, ..."""

    queries: int = 0
    users: int = 0

    @property
    def lane(self) -> Lane:
        """Return the lane: unused things are skipped, what many use gets all the work."""
        if self.queries >= FULL_QUERIES or self.users >= FULL_USERS:
            return Lane.FULL
        return Lane.LIGHT if self.queries or self.users else Lane.SKIP

    def to_json(self) -> dict[str, int]:
        """Return it as it stands in a raw file."""
        return {"queries_at_least": self.queries, "users_at_least": self.users}

    @classmethod
    def stored(cls, value: Any) -> Usage | None:
        """Return it from a raw file, None where it is not known."""
        if not isinstance(value, Mapping):
            return None
        return cls(int(value.get("queries_at_least", 0)), int(value.get("users_at_least", 0)))


def rounded(count: object) -> int:
    """Return the largest step that is not above a count; 0 for what is no count."""
    if isinstance(count, bool) or not isinstance(count, int | float):
        return 0
    return max((step for step in _STEPS if step <= count), default=0)


def read_usage(looker: Looker) -> dict[str, dict[str, Usage]]:
    """Return kind (`dashboards`, `explores`, `looks`) -> id -> usage; an explore's id is `model::explore`."""
    return {
        "dashboards": _by_id(looker, ["dashboard.id"]),
        "explores": _by_id(looker, ["query.model", "query.view"]),
        "looks": _by_id(looker, ["look.id"]),
    }


def _by_id(looker: Looker, fields: list[str]) -> dict[str, Usage]:
    rows = looker.activity([*fields, *_COUNTS], WINDOW)
    return dict(sorted(_usages(rows, fields)))


def _usages(rows: Iterable[Mapping[str, Any]], fields: list[str]) -> Iterable[tuple[str, Usage]]:
    for row in rows:
        names = [row.get(field) for field in fields]
        usage = Usage(*(rounded(row.get(count)) for count in _COUNTS))
        if all(name not in (None, "") for name in names) and usage != Usage():
            yield "::".join(map(str, names)), usage
