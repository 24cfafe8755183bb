"""The source of hints that needs nothing but the database: the joins in its view definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.connectors.port import Table, TableRef
from ktx_cli.context.scan.relationships.hints import Hint

LONGEST_VIEW = 50_000
"""Longer definitions, in characters, are not parsed."""


@dataclass(slots=True)
class ViewJoins:
    """Says of `a JOIN b ON a.x = b.y` in a view that one refers to the other; which one, the keys decide.

    `unread`: views whose definition could not be parsed, of which nothing is said.
    """

    dialect: str
    unread: list[TableRef] = field(default_factory=list)

    def hints(self, tables: Sequence[Table]) -> Iterator[Hint]:
        """Return a hint in both directions for each equality of columns of two tables."""
        views = [table for table in tables if table.view_sql]
        if not views:
            return
        from sqlglot.errors import SqlglotError

        known = _Known.of(tables)
        for view in views:
            text = view.view_sql or ""
            if len(text) > LONGEST_VIEW:
                self.unread.append(view.ref)
                continue
            try:
                yield from _hints_of(text, self.dialect, view.ref, known)
            except (SqlglotError, RecursionError):
                self.unread.append(view.ref)


@dataclass(frozen=True, slots=True)
class _Known:
    """The tables by lower-case name, and their columns by lower-case name."""

    by_name: Mapping[str, list[Table]]
    columns: Mapping[TableRef, Mapping[str, str]]

    @classmethod
    def of(cls, tables: Iterable[Table]) -> _Known:
        by_name: dict[str, list[Table]] = {}
        for table in tables:
            by_name.setdefault(table.ref.name.lower(), []).append(table)
        columns = {table.ref: {column.name.lower(): column.name for column in table.columns} for table in tables}
        return cls(by_name, columns)

    def find(self, name: str, schema: str) -> TableRef | None:
        found = self.by_name.get(name.lower(), [])
        if schema:
            found = [table for table in found if (table.ref.schema or "").lower() == schema.lower()] or found
        return found[0].ref if len(found) == 1 else None


def _hints_of(text: str, dialect: str, view: TableRef, known: _Known) -> Iterator[Hint]:
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(text, dialect=dialect)
    for select in tree.find_all(exp.Select):
        scope = _tables_of(select, known)
        for left, right in _equalities(select, scope, known):
            if left[0] != right[0]:
                why = f"joined in the view {view}"
                yield Hint(left[0], (left[1],), right[0], (right[1],), "view", why)
                yield Hint(right[0], (right[1],), left[0], (left[1],), "view", why)


def _tables_of(select: Any, known: _Known) -> dict[str, TableRef]:
    """Return alias -> table of those a SELECT names itself."""
    from sqlglot import exp

    sources = [select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])]
    found: dict[str, TableRef] = {}
    for source in filter(None, sources):
        for table in source.find_all(exp.Table):
            ref = known.find(table.name, table.db)
            if ref is not None:
                found[table.alias_or_name.lower()] = ref
    return found


def _equalities(
    select: Any, scope: Mapping[str, TableRef], known: _Known
) -> Iterator[tuple[tuple[TableRef, str], tuple[TableRef, str]]]:
    from sqlglot import exp

    places = [join.args.get("on") for join in select.args.get("joins") or []] + [select.args.get("where")]
    for place in filter(None, places):
        for equality in place.find_all(exp.EQ):
            left, right = equality.left.unnest(), equality.right.unnest()
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                ends = _end(left, scope, known), _end(right, scope, known)
                if ends[0] is not None and ends[1] is not None:
                    yield ends[0], ends[1]
    for join in select.args.get("joins") or []:
        for name in join.args.get("using") or []:
            holders = [ref for ref in dict.fromkeys(scope.values()) if name.name.lower() in known.columns[ref]]
            if len(holders) == 2:
                columns = [(ref, known.columns[ref][name.name.lower()]) for ref in holders]
                yield columns[0], columns[1]


def _end(column: Any, scope: Mapping[str, TableRef], known: _Known) -> tuple[TableRef, str] | None:
    name = column.name.lower()
    if column.table:
        ref = scope.get(column.table.lower())
        holders = [] if ref is None else [ref]
    else:
        holders = list(dict.fromkeys(scope.values()))
    holders = [ref for ref in holders if name in known.columns[ref]]
    return (holders[0], known.columns[holders[0]][name]) if len(holders) == 1 else None
