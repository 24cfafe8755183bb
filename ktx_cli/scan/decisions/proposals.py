"""Propose the decision points of a database: run all detectors on all counted tables, and ask each question once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ktx_cli.core import monotonic
from ktx_cli.scan.decisions import amounts, entities, populations, statuses
from ktx_cli.scan.decisions.record import FoundPoint, FoundPoints, ordered
from ktx_cli.scan.decisions.tables import Database, RowCounter, is_view
from ktx_cli.scan.measures.proposals import ProfiledTable, copies, profiled_tables
from ktx_cli.scan.measures.record import Proposals
from ktx_cli.scan.profile.profiler import TableProfile
from ktx_cli.scan.relationships.names import stem, tokens
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.semantic import DecisionKind
from ktx_cli.warehouses import Connector, Table, TableRef, dialect_named, ref_order

SECONDS = 60.0
"""The time limit for the statements that detection sends."""

_ONCE = frozenset({DecisionKind.FISCAL_START})
"""Kinds of points that a database has only once."""


def propose_decisions(
    tables: Iterable[Table],
    known: RelationshipRecord,
    profiles: Iterable[TableProfile],
    measures: Proposals,
    connector: Connector,
    *,
    shows_values: bool = True,
    seconds: float = SECONDS,
) -> tuple[FoundPoints, RowCounter]:
    """Return the decision points of a database, and the counter of statements sent to detect them.

    `measures`: the proposed measures. `shows_values`: whether values of rows that name a known outcome may be recorded.
    """
    dialect = dialect_named(connector.dialect)
    by_ref = profiled_tables(tables, known, profiles)
    counter = RowCounter(connector, dialect, monotonic() + seconds)
    database = Database(by_ref, frozenset(copies(by_ref.values())), dialect, counter, shows_values)
    found = list(_points(database, measures))
    return ordered(_each_once(database, found)), counter


def _points(database: Database, measures: Proposals) -> Iterator[FoundPoint]:
    """Yield the points of all tables. Points that need statements come last, using one statement per table."""
    internal: list[FoundPoint] = []
    counted = sorted(database.counted, key=lambda each: (-len(database.children.get(each.table.ref, ())), each.name))
    for table in counted:
        internal += (marked := list(populations.internal_rows(database, table)))
        yield from marked
        yield from populations.deleted_rows(database, table)
        yield from entities.merged_flags(database, table)
        yield from entities.groups(database, table)
        yield from statuses.statuses(database, table)
        yield from amounts.units(database, table)
        yield from amounts.currencies(database, table)
        yield from amounts.placeholders(database, table)
        rates = {each.columns[0]: each for each in measures.get(table.table.ref, ()) if each.format == "percent"}
        yield from amounts.missing_values(database, table, rates)
    own = populations.company_domain(database, internal) if database.shows_values else None
    for table in database.tables.values():
        if table.table.ref not in database.copies:
            yield from amounts.fiscal_starts(database, table)
    for table in counted:
        asking = [
            amounts.amounts(database, table),
            amounts.dates(database, table),
            entities.related_rows(database, table),
            populations.test_rows(database, table, internal),
            entities.repeated_rows(database, table),
        ]
        if own is not None:
            asking.append(populations.staff_rows(database, table, *own))
        yield from database.counter.points_of(table, asking)


def _each_once(database: Database, points: list[FoundPoint]) -> Iterator[FoundPoint]:
    """Yield each question once, for the table that its rows belong to rather than for views or copies of that table."""
    groups: dict[tuple[object, ...], list[FoundPoint]] = defaultdict(list)
    for point in points:
        groups[_question_key(database, point)].append(point)
    kept = [min(group, key=lambda each: _rank(database, each.table)) for group in groups.values()]
    named = {(each.kind, _column_words(each)): each.table for each in kept if not is_view(_table(database, each))}
    once: set[DecisionKind] = set()
    for point in kept:
        table = _table(database, point)
        if point.kind in _ONCE:
            if point.kind in once:
                continue
            once.add(point.kind)
        elif is_view(table) and (point.kind, _column_words(point)) in named:
            continue
        if _is_of_parent(database, table, point, kept):
            continue
        yield point


def _table(database: Database, point: FoundPoint) -> ProfiledTable:
    return database.tables[point.table]


def _question_key(database: Database, point: FoundPoint) -> tuple[object, ...]:
    words = tuple(map(stem, _table(database, point).words))
    if point.kind in _ONCE:
        return (point.kind,)
    return point.kind, words, _column_words(point)


def _column_words(point: FoundPoint) -> tuple[tuple[str, ...], ...]:
    return tuple(tokens(column) for column in point.columns)


def _rank(database: Database, ref: TableRef) -> tuple[bool, int, bool, tuple[object, ...]]:
    """Return the sort key that prefers the table to ask about: not a view, often referenced, made for analysis."""
    table = database.tables[ref]
    return is_view(table), -len(database.children.get(ref, ())), not table.is_mart, tuple(ref_order(ref))


def _is_of_parent(database: Database, table: ProfiledTable, point: FoundPoint, points: Iterable[FoundPoint]) -> bool:
    """Return whether a table only copies its parent's flag for internal rows: `orders.is_internal`."""
    if point.kind is not DecisionKind.INTERNAL or not set(_column_words(point)[0]) & _OF_PEOPLE:
        return False
    known = {(each.table, _column_words(each)): each for each in points if each.kind is point.kind}
    for reference in table.references:
        above = known.get((reference.parent, _column_words(point)))
        if above is None or reference.parent == reference.child:
            continue
        differing = database.counter.differing_rows(table, reference, point.columns[0], above.columns[0])
        if differing is None or differing <= _DIFFERENT * table.rows:
            return True
    return False


_DIFFERENT = 0.02
"""The maximum share of rows with a value that differs from the parent's value that it copies."""

_OF_PEOPLE = frozenset({"internal", "intern", "staff", "employee"})
"""Words for flags that state who owns the rows rather than what they are."""
