"""Join hints beyond names and values: the port of their sources, views as a source, and answers of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Protocol

from ktx_cli.faces import exp
from ktx_cli.scan.relationships.columns import ColumnFacts, DatabaseFacts, TableFacts
from ktx_cli.scan.relationships.keys import is_unique
from ktx_cli.scan.relationships.record import MODEL_REJECTED, MODEL_SOURCE, Relationship, RelationshipRecord
from ktx_cli.warehouses import Table, TableRef


@dataclass(frozen=True, slots=True)
class JoinHint:
    """The claim of a source that columns of the child refer to the parent's. `source`: a key of `HINT_WEIGHTS`."""

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]
    source: str


class HintSource(Protocol):
    """A source of hints."""

    def hints(self, tables: Sequence[Table]) -> Iterable[JoinHint]:
        """Return the hints of the source about these tables."""


Ends = tuple[tuple[ColumnFacts, ...], tuple[ColumnFacts, ...]]
"""Columns of a table, and the columns of another table that they may refer to."""


@dataclass(frozen=True, slots=True)
class JoinHints:
    """The hints by the columns at both ends, with their sources; those of single columns are kept apart.

    `answers`: what a model answered about single columns, `model` or `model_rejected`.
    """

    single: dict[tuple[ColumnFacts, ColumnFacts], set[str]] = field(default_factory=lambda: defaultdict(set))
    several: dict[Ends, set[str]] = field(default_factory=lambda: defaultdict(set))
    answers: dict[tuple[ColumnFacts, ColumnFacts], str] = field(default_factory=dict)


def hints_of(sources: Iterable[HintSource], facts: DatabaseFacts, keys: Iterable[ColumnFacts]) -> JoinHints:
    """Return the hints of all sources, except for unknown columns and parents that are not unique."""
    found, known = JoinHints(), set(keys)
    tables = {table.table.ref: table for table in facts.tables}
    for hint in (hint for source in sources for hint in source.hints(facts.relations)):
        child, key = _ends(hint, tables)
        if not child or len(child) != len(key) or child == key:
            continue
        if len(child) > 1:
            if _is_unique(key):
                found.several[child, key].add(hint.source)
        elif key[0] in known:
            if hint.source in (MODEL_SOURCE, MODEL_REJECTED):
                found.answers[child[0], key[0]] = hint.source
            if hint.source != MODEL_REJECTED:
                found.single[child[0], key[0]].add(hint.source)
    return found


def _ends(hint: JoinHint, tables: dict[TableRef, TableFacts]) -> Ends:
    """Return the columns of both ends, or none if one of them is unknown."""
    if hint.child not in tables or hint.parent not in tables:
        return (), ()
    return _columns(tables[hint.child], hint.child_columns), _columns(tables[hint.parent], hint.parent_columns)


def _columns(table: TableFacts, names: Sequence[str]) -> tuple[ColumnFacts, ...]:
    by_name = {column.name: column for column in table.columns}
    found = tuple(by_name[name] for name in names if name in by_name)
    return found if len(found) == len(names) else ()


def _is_unique(key: Sequence[ColumnFacts]) -> bool:
    """Return whether no combination of the columns' values repeats in the sample."""
    rows = key[0].table.sampled.profile.rows
    return all(column.name in column.table.sampled.values for column in key) and is_unique(key, rows)


LONGEST_VIEW = 50_000
"""Longer definitions, in characters, are not parsed."""


@dataclass(slots=True)
class ViewJoins:
    """Hints from `a JOIN b ON a.x = b.y` in views, in both directions; the keys decide which one is valid.

    `unread`: views whose definition could not be parsed.
    """

    dialect: str
    unread: list[TableRef] = field(default_factory=list)

    def hints(self, tables: Sequence[Table]) -> Iterator[JoinHint]:
        """Return a hint in both directions for each equality of columns of two tables."""
        views = [table for table in tables if table.view_sql]
        if not views:
            return
        from sqlglot.errors import SqlglotError

        index = _TableIndex.of(tables)
        for view in views:
            text = view.view_sql or ""
            if len(text) > LONGEST_VIEW:
                self.unread.append(view.ref)
                continue
            try:
                yield from _view_hints(text, self.dialect, view.ref.schema or "", index)
            except (SqlglotError, RecursionError):
                self.unread.append(view.ref)


@dataclass(frozen=True, slots=True)
class _TableIndex:
    """Finds tables and their columns by lower-case name."""

    by_name: Mapping[str, list[Table]]
    columns: Mapping[TableRef, Mapping[str, str]]

    @classmethod
    def of(cls, tables: Iterable[Table]) -> _TableIndex:
        by_name: dict[str, list[Table]] = {}
        for table in tables:
            by_name.setdefault(table.ref.name.lower(), []).append(table)
        columns = {table.ref: {column.name.lower(): column.name for column in table.columns} for table in tables}
        return cls(by_name, columns)

    def find(self, named: Any, home: str) -> TableRef | None:
        """Return the table that a view in the schema `home` refers to, or None if it is ambiguous."""
        found = self.by_name.get(named.name.lower(), [])
        schema = (named.db or home).lower()
        # BigQuery's dataset of another project is a schema whose name contains the project.
        near = [table for table in found if (table.ref.schema or "").lower() == f"{named.catalog}.{schema}".lower()]
        near = near or [table for table in found if (table.ref.schema or "").lower() == schema]
        found = near or ([] if named.db and any(table.ref.schema for table in found) else found)
        return found[0].ref if len(found) == 1 else None


End = tuple[TableRef, str]
"""A table and one of its columns."""


def _view_hints(text: str, dialect: str, home: str, index: _TableIndex) -> Iterator[JoinHint]:
    import sqlglot

    tree = sqlglot.parse_one(text, dialect=dialect)
    local = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    for select in tree.find_all(exp.Select):
        for left, right in _equalities(select, _tables_of(select, index, home, local), index):
            if left[0] != right[0]:
                yield JoinHint(left[0], (left[1],), right[0], (right[1],), "view")
                yield JoinHint(right[0], (right[1],), left[0], (left[1],), "view")


def _tables_of(select: Any, index: _TableIndex, home: str, local: Set[str]) -> dict[str, TableRef]:
    """Return alias -> table for the tables of a SELECT outside its subqueries. `local`: the names in its WITH."""
    found: dict[str, TableRef] = {}
    for table in _from(select, exp.Table):
        ref = None if not table.db and table.name.lower() in local else index.find(table, home)
        if ref is not None:
            found[table.alias_or_name.lower()] = ref
    return found


def _from(select: Any, kind: type) -> Iterator[Any]:
    """Return the nodes of a kind in FROM and JOIN of a SELECT. Postgres writes its joins in parentheses."""
    for source in (select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])):
        if source is not None:
            yield from _outside_subqueries(source, kind)


def _outside_subqueries(node: Any, kind: type) -> Iterator[Any]:
    inner = (exp.Select, exp.SetOperation)
    return (each for each in node.walk(prune=lambda each: isinstance(each, inner)) if isinstance(each, kind))


def _equalities(select: Any, scope: Mapping[str, TableRef], index: _TableIndex) -> Iterator[tuple[End, End]]:
    joins = list(_from(select, exp.Join))
    for condition in filter(None, [*(join.args.get("on") for join in joins), select.args.get("where")]):
        for equality in _outside_subqueries(condition, exp.EQ):
            ends = [_end(side.unnest(), scope, index) for side in (equality.left, equality.right)]
            if ends[0] is not None and ends[1] is not None:
                yield ends[0], ends[1]
    for join in joins:
        for name in join.args.get("using") or []:
            yield from pairwise(_holders(name.name, scope.values(), index))


def _end(column: Any, scope: Mapping[str, TableRef], index: _TableIndex) -> End | None:
    if not isinstance(column, exp.Column):
        return None
    tables = [ref for name, ref in scope.items() if not column.table or name == column.table.lower()]
    holders = _holders(column.name, tables, index)
    return holders[0] if len(holders) == 1 else None


def _holders(name: str, tables: Iterable[TableRef], index: _TableIndex) -> list[End]:
    """Return the tables that have a column of this name."""
    found = [(ref, index.columns[ref].get(name.lower())) for ref in dict.fromkeys(tables)]
    return [(ref, column) for ref, column in found if column is not None]


MODEL_ORIGINS: Final = {MODEL_SOURCE: "proposed by the model", MODEL_REJECTED: "rejected by the model"}
"""Source -> the last part of the reason of such a relationship."""


@dataclass(frozen=True, slots=True)
class FixedHints:
    """A source with a fixed list of hints."""

    fixed: tuple[JoinHint, ...]

    def hints(self, tables: Sequence[Table]) -> tuple[JoinHint, ...]:
        """Return all of them."""
        return self.fixed


def recorded_hints(record: RelationshipRecord) -> tuple[JoinHint, ...]:
    """Return the model's answers in earlier scans, so that a scan without a model infers the same joins."""
    return tuple(
        JoinHint(r.child, r.child_columns, r.parent, r.parent_columns, source)
        for r in (*record.relationships, *record.gone)
        for source in MODEL_ORIGINS
        if source in r.sources
    )


def with_origin(record: RelationshipRecord) -> RelationshipRecord:
    """Return the record with reasons that mark the relationships about which a model decided."""
    return replace(record, relationships=tuple(map(_with_origin, record.relationships)))


def _with_origin(relationship: Relationship) -> Relationship:
    origin = next((text for source, text in MODEL_ORIGINS.items() if source in relationship.sources), None)
    if origin is None or origin in relationship.reason.casefold():
        return relationship
    evidence = relationship.reason.removesuffix(".")
    reason = f"{evidence}; {origin}." if evidence else f"{origin.capitalize()}."
    return replace(relationship, reason=reason)


@dataclass(frozen=True, slots=True)
class HintText:
    """A hint in words: what it says, and the condition that it did not, or that it said so too.

    `reason`: what it adds to the reason of a relationship; empty for answers of the model, which `with_origin` adds.
    """

    states: str
    without: str
    also: str = ""
    reason: str = ""


HINT_TEXTS: Final[Mapping[str, HintText]] = {
    "dbt": HintText(
        "A dbt `relationships` test declares this join.",
        "no dbt `relationships` test declared this join",
        "a dbt `relationships` test also declared this join",
        "declared by a dbt test",
    ),
    "datahub": HintText(
        "DataHub declares this foreign key.",
        "DataHub did not declare this foreign key",
        "DataHub also declared this foreign key",
        "declared in DataHub",
    ),
    "lookml": HintText("LookML declares this join.", "LookML did not declare this join", reason="joined in LookML"),
    "metabase": HintText(
        "Metabase declares this join.", "Metabase did not declare this join", reason="declared in Metabase"
    ),
    "odcs": HintText(
        "A data contract declares this relationship.",
        "no data contract declared this relationship",
        "a data contract also declared this relationship",
        "declared in a data contract",
    ),
    "openmetadata": HintText(
        "OpenMetadata declares this foreign key.",
        "OpenMetadata did not declare this foreign key",
        "OpenMetadata also declared this foreign key",
        "declared in OpenMetadata",
    ),
    "powerbi": HintText(
        "A Power BI model declares this relationship.",
        "no Power BI model declared this relationship",
        "a Power BI model also declared this relationship",
        "related in Power BI",
    ),
    "sigma": HintText(
        "A data model of Sigma declares this relationship.",
        "no data model of Sigma declared this relationship",
        "a data model of Sigma also declared this relationship",
        "related in Sigma",
    ),
    "tableau": HintText("Tableau declares this join.", "Tableau did not declare this join", reason="joined in Tableau"),
    "view": HintText(
        "The definition of a view contains this join.",
        "no definition of a view contained this join",
        "the definition of a view also contained this join",
        "joined in a view",
    ),
    "lineage": HintText(
        "Tables that are built from these are declared to join like this.",
        "no tables that are built from these were declared to join like this",
        reason="declared for tables built from these",
    ),
    "namesakes": HintText(
        "Other columns of this name refer to this key, which contains the values of all of them.",
        "no other column of this name referred to this key",
        "other columns of this name also referred to this key",
        "supported by other columns of this name",
    ),
    "history": HintText(
        "Past queries contain this join.",
        "no past query contained this join",
        "past queries also contained this join",
        "joined in queries",
    ),
    "model": HintText(
        "The model proposes this join.", "the model did not propose this join", "the model also proposed this join"
    ),
    "model_rejected": HintText(
        "The model says that this is not a reference.", "the model did not say that this is not a reference"
    ),
    "embedding": HintText(
        "An embedding model finds the names similar in meaning.",
        "an embedding model did not find the names similar in meaning",
    ),
}
"""Source of a hint -> its words."""
