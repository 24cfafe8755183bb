"""How much of a semantic layer is described.

A description counts whoever wrote it, except those that `ktx scan` derives by rules: they repeat what the structure
says. Hidden parts do not count, nor does a table that nobody may query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import Command, Hint, Location, Record, plural
from ktx_cli.project import SEMANTIC_NAME
from ktx_cli.scan import TEXT_KEYS
from ktx_cli.semantic import Column, Entry, Measure, Model, Source, Visibility, quoted
from ktx_cli.sources import TIER

_TIERS: Final = ("high", "mid", "low")
"""How often a table is queried, most often first; unknown comes behind them, `unused` last."""

_UNUSED: Final = "unused"
_BY_RULES: Final = TEXT_KEYS["rules"]


@dataclass(frozen=True, slots=True)
class Share(Record):
    """How many of how many parts have a description."""

    described: int = 0
    total: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.described + other.described, self.total + other.total)

    @property
    def percent(self) -> float | None:
        """Percent to one decimal, rounded down, so that 100 means all; None where there is nothing."""
        return self.described * 1000 // self.total / 10 if self.total else None

    @property
    def text(self) -> str:
        """`61.9% (13 of 21)`."""
        return "none" if self.percent is None else f"{self.percent:.1f}% ({self.described:,} of {self.total:,})"

    json_keys = ("described", "total", "percent")


@dataclass(frozen=True, slots=True)
class Coverage(Record):
    """How much of a connection (or of all) has a description."""

    tables: Share = Share()
    columns: Share = Share()
    measures: Share = Share()
    json_keys = ("tables", "columns", "measures", "all")

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.tables + other.tables, self.columns + other.columns, self.measures + other.measures)

    @property
    def all(self) -> Share:
        """Tables, columns and measures together."""
        return self.tables + self.columns + self.measures


@dataclass(frozen=True, slots=True)
class DescribedLayer:
    """A semantic layer with what tells its descriptions apart."""

    model: Model
    entries: Mapping[str, Entry]
    """The entries of the manifest by source."""
    rows: Mapping[str, int]
    """Physical name -> number of rows at the last scan on this machine."""
    by_model: bool = False
    """Whether a model is configured to write descriptions."""
    _columns: dict[str, dict[object, Any]] = field(default_factory=dict)

    def sources(self) -> list[Source]:
        """Return the sources that count: often queried ones first, then those with many joins, then many rows."""
        return sorted((source for source in self.model.sources.values() if _counts(source)), key=self._rank)

    def is_described(self, source: Source, part: Source | Column | Measure) -> bool:
        """Whether a source, or a column or measure of it, has a description that rules did not make."""
        return bool(part.description) and part.description != self._made_by_rules(source, part)

    def coverage(self) -> Coverage:
        """Return how many tables, columns and measures have a description."""
        sources = self.sources()
        return Coverage(
            Share(sum(self.is_described(source, source) for source in sources), len(sources)),
            self._share(sources, columns_of),
            self._share(sources, measures_of),
        )

    def _share(self, sources: list[Source], parts_of: Callable[[Source], list[Any]]) -> Share:
        parts = [(source, part) for source in sources for part in parts_of(source)]
        return Share(sum(self.is_described(*pair) for pair in parts), len(parts))

    def location(self, source: Source, part: Source | Column | Measure) -> Location:
        """Return where a part of a source is defined."""
        place = part.place or source.place
        path, line = (None, None) if place is None else (place.path, place.line)
        return Location(path, line, connection=self.model.connection)

    def facts(self, source: Source) -> str:
        """Return what ranks a source among the others, in parentheses behind a blank; empty where nothing is known."""
        tier, rows = self._tier(source), self._rows(source)
        facts = [f"queried: {tier}" if tier else "", plural(len(source.joins), "join") if source.joins else ""]
        facts += [plural(rows, "row") if rows is not None else ""]
        text = ", ".join(filter(None, facts))
        return f" ({text})" if text else ""

    def way_to_describe(self, source: Source) -> str:
        """Return the hint for a source, or columns of it, without a description."""
        if not (source.generated and self.by_model):
            return "add `description:` there"
        return Hint("add `description:` there, or let the model: {}", Command("ingest", self.model.connection))

    def own_file(self, source: Source) -> str:
        """Return the file where people write about a source: its own, or the overlay of one of the manifest."""
        if not source.generated and source.place is not None:
            return source.place.path
        return f"{SEMANTIC_NAME}/{self.model.connection}/{source.name}.yaml"

    def _made_by_rules(self, source: Source, part: Source | Column | Measure) -> str | None:
        entry: Any = self.entries.get(source.name) if source.generated else None
        if entry is not None and isinstance(part, Column):
            entry = self._columns_of(source.name).get(part.name)
        texts = None if entry is None or isinstance(part, Measure) else entry.get("descriptions")
        text = texts.get(_BY_RULES) if isinstance(texts, dict) else None
        return text.strip() if isinstance(text, str) else None

    def _columns_of(self, name: str) -> dict[object, Any]:
        """Return the columns of an entry by name; a table may have tens of thousands."""
        if name not in self._columns:
            columns = self.entries[name].get("columns") or ()
            self._columns[name] = {column.get("name"): column for column in reversed(columns)}
        return self._columns[name]

    def _tier(self, source: Source) -> str | None:
        """Return how often queries read the source's table, by the query history; None: unknown."""
        usage = self.entries.get(source.name, {}).get("usage")
        tier = usage.get(TIER) if isinstance(usage, dict) else None
        return tier if isinstance(tier, str) else None

    def _rows(self, source: Source) -> int | None:
        return None if source.table is None else self.rows.get(".".join(map(quoted, source.table)))

    def _rank(self, source: Source) -> tuple[object, ...]:
        tier = self._tier(source)
        place = _TIERS.index(tier) if tier in _TIERS else len(_TIERS) + (tier == _UNUSED)
        return (place, -len(source.joins), -(self._rows(source) or 0), source.name)


def columns_of(source: Source) -> list[Column]:
    """Return the columns that count."""
    return [column for column in source.columns.values() if _counts(column)]


def measures_of(source: Source) -> list[Measure]:
    """Return the measures that count."""
    return [measure for measure in source.measures.values() if _counts(measure)]


def _counts(part: Source | Column | Measure) -> bool:
    return part.visibility is not Visibility.HIDDEN
