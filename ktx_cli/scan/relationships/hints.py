"""Where joins may be known from besides names and values: a port, for views, dbt tests, query history, the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from ktx_cli.faces import exp
from ktx_cli.scan.relationships.columns import ColumnFacts, DatabaseFacts, TableFacts
from ktx_cli.scan.relationships.keys import is_unique
from ktx_cli.scan.relationships.record import Relationship, RelationshipRecord
from ktx_cli.warehouses import Table, TableRef

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Hint:
    """Somebody says that these columns refer to those. `source` is a key of `HINT_WEIGHTS` of the ranker."""

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]
    source: str


class HintSource(Protocol):
    """A source of hints."""

    def hints(self, tables: Sequence[Table]) -> Iterable[Hint]:
        """Return what the source says about these tables."""


Ends = tuple[tuple[ColumnFacts, ...], tuple[ColumnFacts, ...]]
"""Columns of a table, and those of another they may refer to."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints for one column and its key, and for several columns and a key of several; each with its sources."""

    single: dict[tuple[ColumnFacts, ColumnFacts], set[str]] = field(default_factory=lambda: defaultdict(set))
    several: dict[Ends, set[str]] = field(default_factory=lambda: defaultdict(set))


def hints_of(sources: Iterable[HintSource], facts: DatabaseFacts, keys: Iterable[ColumnFacts]) -> Hints:
    """Return what sources say; hints whose ends are not known, or whose parent's columns repeat, are left out."""
    found, known = Hints(), set(keys)
    tables = {table.table.ref: table for table in facts.tables}
    for hint in (hint for source in sources for hint in source.hints(facts.relations)):
        child, key = _ends(hint, tables)
        if not child or len(child) != len(key) or child == key:
            continue
        if len(child) > 1:
            if _identify(key):
                found.several[child, key].add(hint.source)
        elif key[0] in known:
            found.single[child[0], key[0]].add(hint.source)
    return found


def _ends(hint: Hint, tables: dict[TableRef, TableFacts]) -> Ends:
    """Return the columns of both ends; none where one of them is not known."""
    if hint.child not in tables or hint.parent not in tables:
        return (), ()
    return _columns(tables[hint.child], hint.child_columns), _columns(tables[hint.parent], hint.parent_columns)


def _columns(table: TableFacts, names: Sequence[str]) -> tuple[ColumnFacts, ...]:
    by_name = {column.name: column for column in table.columns}
    found = tuple(by_name[name] for name in names if name in by_name)
    return found if len(found) == len(names) else ()


def _identify(key: Sequence[ColumnFacts]) -> bool:
    """Whether no combination of the columns' values stands twice in the sample."""
    rows = key[0].table.sampled.profile.rows
    return all(column.name in column.table.sampled.values for column in key) and is_unique(key, rows)


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
                yield from _hints_of(text, self.dialect, view.ref.schema or "", known)
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

    def find(self, name: str, schema: str, home: str) -> TableRef | None:
        """Return the table a view of the schema `home` means; None where that is not clear."""
        found = self.by_name.get(name.lower(), [])
        near = [table for table in found if (table.ref.schema or "").lower() == (schema or home).lower()]
        found = near or ([] if schema and any(table.ref.schema for table in found) else found)
        return found[0].ref if len(found) == 1 else None


End = tuple[TableRef, str]
"""A table and one of its columns."""


def _hints_of(text: str, dialect: str, home: str, known: _Known) -> Iterator[Hint]:
    import sqlglot

    tree = sqlglot.parse_one(text, dialect=dialect)
    local = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    for select in tree.find_all(exp.Select):
        for left, right in _equalities(select, _tables_of(select, known, home, local), known):
            if left[0] != right[0]:
                yield Hint(left[0], (left[1],), right[0], (right[1],), "view")
                yield Hint(right[0], (right[1],), left[0], (left[1],), "view")


def _tables_of(select: Any, known: _Known, home: str, local: Set[str]) -> dict[str, TableRef]:
    """Return alias -> table of those a SELECT names itself, not in a subquery; `local`: names of its WITH."""
    found: dict[str, TableRef] = {}
    for table in _from(select, exp.Table):
        ref = None if not table.db and table.name.lower() in local else known.find(table.name, table.db, home)
        if ref is not None:
            found[table.alias_or_name.lower()] = ref
    return found


def _from(select: Any, kind: type) -> Iterator[Any]:
    """Return the nodes of a kind in what a SELECT reads from: Postgres writes its joins in brackets."""
    for source in (select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])):
        if source is not None:
            yield from _outside_subqueries(source, kind)


def _outside_subqueries(node: Any, kind: type) -> Iterator[Any]:
    inner = (exp.Select, exp.SetOperation)
    return (each for each in node.walk(prune=lambda each: isinstance(each, inner)) if isinstance(each, kind))


def _equalities(select: Any, scope: Mapping[str, TableRef], known: _Known) -> Iterator[tuple[End, End]]:
    joins = list(_from(select, exp.Join))
    for place in filter(None, [*(join.args.get("on") for join in joins), select.args.get("where")]):
        for equality in _outside_subqueries(place, exp.EQ):
            ends = [_end(side.unnest(), scope, known) for side in (equality.left, equality.right)]
            if ends[0] is not None and ends[1] is not None:
                yield ends[0], ends[1]
    for join in joins:
        for name in join.args.get("using") or []:
            yield from pairwise(_holders(name.name, scope.values(), known))


def _end(column: Any, scope: Mapping[str, TableRef], known: _Known) -> End | None:
    if not isinstance(column, exp.Column):
        return None
    tables = [ref for name, ref in scope.items() if not column.table or name == column.table.lower()]
    holders = _holders(column.name, tables, known)
    return holders[0] if len(holders) == 1 else None


def _holders(name: str, tables: Iterable[TableRef], known: _Known) -> list[End]:
    """Return the tables that have a column of a name, each once."""
    found = [(ref, known.columns[ref].get(name.lower())) for ref in dict.fromkeys(tables)]
    return [(ref, column) for ref, column in found if column is not None]


SOURCE: Final = "model"
"""The source of these hints, also among the `sources` of a relationship."""

ORIGIN: Final = "proposed by the model"
"""What the reason of such a relationship ends in."""


@dataclass(frozen=True, slots=True)
class GivenHints:
    """A source that says what it was given."""

    given: tuple[Hint, ...]

    def hints(self, tables: Sequence[Table]) -> tuple[Hint, ...]:
        """Return all of them."""
        return self.given


def recorded_hints(record: RelationshipRecord) -> tuple[Hint, ...]:
    """Return what the model proposed to earlier scans, so that a scan that does not ask it finds the same."""
    return tuple(
        Hint(relationship.child, relationship.child_columns, relationship.parent, relationship.parent_columns, SOURCE)
        for relationship in (*record.edges, *record.gone)
        if SOURCE in relationship.sources
    )


def with_origin(record: RelationshipRecord) -> RelationshipRecord:
    """Return the same with reasons that say of which relationships it was the model that proposed them."""
    return replace(record, edges=tuple(map(_with_origin, record.edges)))


def _with_origin(relationship: Relationship) -> Relationship:
    if SOURCE not in relationship.sources or ORIGIN in relationship.reason:
        return relationship
    return replace(relationship, reason=f"{relationship.reason}; {ORIGIN}" if relationship.reason else ORIGIN)
