"""What a case is, and short ways to write sources and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

Definition = dict[str, Any]
"""A source as its YAML has it; `table` names a table of the world, `sql` has `{TABLE}` for one."""


@dataclass(frozen=True)
class Table:
    """A table: columns as `name TYPE` (names with blanks in double quotes), rows in their order."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as mappings."""
        return [dict(zip((name for name, _ in self.columns), row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class World:
    """Tables and the sources over them; `views`: what the `sql` of a source gives, for the oracle."""

    name: str
    tables: Mapping[str, Table]
    sources: Sequence[Definition]
    views: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def having(self, *changed: Definition, name: str) -> World:
        """Return the world with some sources in place of those of their names, or further ones."""
        names = {each["name"] for each in changed}
        return World(name, self.tables, [*(s for s in self.sources if s["name"] not in names), *changed], self.views)

    def behind(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows behind every source."""
        return {
            each["name"]: [dict(row) for row in self.views[each["name"]]]
            if "sql" in each
            else self.tables[each["table"]].records()
            for each in self.sources
        }


@dataclass(frozen=True)
class Case:
    """A query with what must come of it.

    `rows`: worked out by hand, `why` in one line; None: what the oracle says. `error`: the codes, one of which is
    right. `may_refuse`: codes that are no wrong number but a refusal, with `why`. `refused_on`: engines that have not
    the function, with the reason. `columns`: those of the answer, where `rows` was worked out row by row, without
    the general oracle. `settled`: a refusal that the general oracle, which knows no axes, does not know.
    """

    id: str
    world: World
    query: Mapping[str, Any]
    rows: Sequence[Sequence[Any]] | None = None
    why: str = ""
    error: str = ""
    totals: Sequence[Any] | None = None
    truncated: bool | None = None
    may_refuse: str = ""
    refused_on: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    calendar: Mapping[str, Any] = field(default_factory=dict)
    now: datetime | None = None
    columns: tuple[str, ...] = ()
    settled: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether the order of rows is asked for."""
        return bool(self.query.get("order_by"))


class Spelled(datetime):
    """A moment that SQLite has as a text of another spelling; `text` is it."""

    text: str


class SpelledDay(date):
    """A date that SQLite has as a text of another spelling."""

    text: str


def spelled(moment: datetime, text: str) -> Spelled:
    """Return a moment that is `text` in SQLite; an offset in the text says the same moment of UTC."""
    made = Spelled.fromisoformat(moment.isoformat())
    made.text = text
    return made


def on_day(day: date, text: str) -> SpelledDay:
    """Return a date that is `text` in SQLite."""
    made = SpelledDay.fromisoformat(day.isoformat())
    made.text = text
    return made


def table(columns: str, *rows: Sequence[Any]) -> Table:
    """Return a table of `name TYPE, name TYPE` and rows."""
    pairs = [each.strip().rsplit(" ", 1) for each in columns.split(", ")]
    return Table(tuple((_unquoted(name), kind) for name, kind in pairs), tuple(tuple(row) for row in rows))


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def source(name: str, columns: str, grain: str | Sequence[str], **parts: Any) -> Definition:
    """Return a source of `name type, name type`; `more` are further columns as they are, `m` measures `name = expr`."""
    listed: list[Definition] = []
    for each in columns.split(", "):
        column, kind = each.rsplit(" ", 1)
        listed.append({"name": column, "type": kind})
    listed += parts.pop("more", [])
    measures = [measure(each) if isinstance(each, str) else each for each in parts.pop("m", ())]
    made: Definition = {"name": name} | ({} if "sql" in parts else {"table": parts.pop("table", name)})
    made |= {"grain": [grain] if isinstance(grain, str) else list(grain), "columns": listed}
    return made | ({"measures": measures} if measures else {}) | parts


def measure(text: str, **rest: Any) -> Definition:
    """Return a measure of `name = expr` or `name = expr WHERE filter`."""
    name, expr = text.split(" = ", 1)
    expr, _, condition = expr.partition(" WHERE ")
    return {"name": name, "expr": expr} | ({"filter": condition} if condition else {}) | rest


def many(to: str, on: str, alias: str | None = None, relationship: str = "many_to_one") -> Definition:
    """Return a join."""
    return {"to": to, "on": on, "relationship": relationship} | ({"alias": alias} if alias else {})


def grouped(field_name: str, grain: str, name: str | None = None) -> Definition:
    """Return a dimension cut to a grain."""
    return {"field": field_name, "granularity": grain} | ({"name": name} if name else {})
