"""What context sources declare about tables (keys, joins, lineage), and what people decided about similar joins.

A source such as dbt writes its declarations to `declarations.json` next to its delivery. A scan resolves the names in
them to tables of the database; names that fit no table, or several, are ignored.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Hint, KtxError
from ktx_cli.scan.relationships.columns import Similar
from ktx_cli.scan.relationships.hints import JoinHint
from ktx_cli.scan.relationships.ranker import CLEAR_NAME, shifted, with_hints
from ktx_cli.warehouses import Table, TableKind, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, TableFacts

FORMAT: Final = 1
"""Increased when the declarations of the same input change; files in another format are written again."""

Columns = tuple[str, ...]


class Layer(StrEnum):
    """The layer of a dbt project that a table belongs to."""

    RAW = "raw"
    """Sources and seeds."""
    SNAPSHOTS = "snapshots"
    STAGING = "staging"
    INTERMEDIATE = "intermediate"
    MARTS = "marts"
    """All other models."""


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table as a source knows it; an empty part of its name is unknown.

    `schema_end`: the end of its schema if the source adds a prefix. `keys`: sets of columns without repeated values.
    `filled`: columns without NULL. `built_from`: the IDs of the tables that it is computed from. `virtual`: the
    database has no table for it. `restricted`: columns that the source classifies as personal or restricted, whose
    values scans neither list nor show. `databases`: the connections or dialects of the databases that it may be in, any
    if empty.
    """

    name: str
    schema: str = ""
    schema_end: str = ""
    layer: Layer | None = None
    keys: tuple[Columns, ...] = ()
    filled: Columns = ()
    built_from: tuple[str, ...] = ()
    virtual: bool = False
    restricted: Columns = ()
    databases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredJoin:
    """Columns of a table that refer to columns of another one. `child`, `parent`: IDs of tables."""

    child: str
    child_columns: Columns
    parent: str
    parent_columns: Columns


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of one source. `tool`: a key of `HINT_WEIGHTS`. `tables`: ID -> table.

    `made_from`: a digest of the files and settings that they come from.
    """

    tool: str
    tables: Mapping[str, DeclaredTable] = field(default_factory=dict)
    joins: tuple[DeclaredJoin, ...] = ()
    made_from: str = ""


def declarations_text(declarations: Declarations) -> bytes:
    """Return the file, with a line for every table and join; equal declarations give equal files."""
    encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode
    tables = [f"{encode(id)}: {encode(_table_json(table))}" for id, table in sorted(declarations.tables.items())]
    joins = [
        encode([each.child, each.child_columns, each.parent, each.parent_columns])
        for each in sorted(set(declarations.joins), key=repr)
    ]
    parts = [f'"format": {FORMAT}', f'"tool": {encode(declarations.tool)}']
    parts += [f'"made_from": {encode(declarations.made_from)}']
    parts += [f'"tables": {{{_lines(tables)}}}', f'"joins": [{_lines(joins)}]']
    return ("{\n " + ",\n ".join(parts) + "\n}\n").encode("utf-8", "surrogatepass")


def _lines(texts: Sequence[str]) -> str:
    return "\n  " + ",\n  ".join(texts) + "\n " if texts else ""


def _table_json(table: DeclaredTable) -> dict[str, Any]:
    values = {name: getattr(table, name) for name in DeclaredTable.__slots__}
    return {name: value for name, value in values.items() if value}


def read_declarations(content: bytes, where: str) -> Declarations:
    """Return the declarations in a file. Raises `KtxError` for a damaged one."""
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise ValueError("another format")
        tables = {str(id): _table(values) for id, values in document["tables"].items()}
        joins = tuple(DeclaredJoin(str(a), _texts(b), str(c), _texts(d)) for a, b, c, d in document["joins"])
        return Declarations(str(document["tool"]), tables, joins, str(document["made_from"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = Hint("restore it from git, or delete it; the next `{}` rewrites it", Command("ingest"))
        raise KtxError(f"{where} is damaged ({type(error).__name__})", hint=hint) from error


def _table(values: Mapping[str, Any]) -> DeclaredTable:
    layer = values.get("layer")
    return DeclaredTable(
        str(values["name"]),
        str(values.get("schema", "")),
        str(values.get("schema_end", "")),
        None if layer is None else Layer(layer),
        tuple(map(_texts, values.get("keys", ()))),
        _texts(values.get("filled", ())),
        _texts(values.get("built_from", ())),
        bool(values.get("virtual", False)),
        _texts(values.get("restricted", ())),
        _texts(values.get("databases", ())),
    )


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    if not all(isinstance(each, str) for each in values):
        raise TypeError("not a list of texts")
    return tuple(values)


@dataclass(frozen=True, slots=True)
class DecidedJoin:
    """A person's decision about a join of one column.

    `is_written`: whether the project's files state it, unlike a join that a person only removed from them.
    """

    child: TableRef
    child_column: str
    parent: TableRef
    parent_column: str
    accepted: bool
    is_written: bool = True


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """Facts about the tables of a database besides names and rows.

    `keys`: table -> sets of columns declared to be unique. `filled`: table -> columns declared to have no NULL.
    `layers`: table -> its layers; raw data that only marts read also belongs to the marts, because no model below the
    marts replaces it. `sources_of`: table -> the tables that it is computed from directly, or through views;
    `ancestors_of`: also those that these are computed from. `restricted`: table -> columns whose values are not listed.
    """

    hints: tuple[JoinHint, ...] = ()
    keys: Mapping[TableRef, tuple[Columns, ...]] = field(default_factory=dict)
    filled: Mapping[TableRef, frozenset[str]] = field(default_factory=dict)
    layers: Mapping[TableRef, frozenset[Layer]] = field(default_factory=dict)
    sources_of: Mapping[TableRef, frozenset[TableRef]] = field(default_factory=dict)
    ancestors_of: Mapping[TableRef, frozenset[TableRef]] = field(default_factory=dict)
    decided: tuple[DecidedJoin, ...] = ()
    restricted: Mapping[TableRef, frozenset[str]] = field(default_factory=dict)

    def digest_parts(self) -> Iterator[str]:
        """Yield texts that differ if something else is known."""
        yield from map(repr, self.hints)
        yield from map(repr, self.decided)
        for name in ("keys", "filled", "layers", "sources_of", "restricted"):
            values = getattr(self, name)
            for ref in sorted(values, key=str):
                value = values[ref]
                yield repr((name, ref, sorted(value, key=str) if isinstance(value, frozenset) else value))

    def mark_keys(self, tables: Iterable[TableFacts]) -> None:
        """Set the declared keys of tables, without those that have unknown columns."""
        for table in tables:
            names = {column.name.casefold(): column.name for column in table.columns}
            keys = [tuple(names.get(each.casefold(), "") for each in key) for key in self.keys.get(table.table.ref, ())]
            filled = self.filled.get(table.table.ref, frozenset())
            table.known_keys = tuple(key for key in dict.fromkeys(keys) if all(key))
            table.known_filled = frozenset(names[each.casefold()] for each in filled if each.casefold() in names)

    def without_overruled(
        self, candidates: Sequence[Candidate], plausible: float
    ) -> tuple[list[Candidate], dict[Candidate, Apart | Chosen]]:
        """Return the candidates that may win, and the others with the reason why they lose.

        A column that a person or a source has decided about has no other candidates, and a candidate that a person
        rejected loses to any other plausible one. Otherwise, layers count; see `without_other_layers`.
        """
        accepted: dict[ColumnFacts, Chosen] = {}
        rejected: set[Candidate] = set()
        others: set[ColumnFacts] = set()
        stated = {
            (each.child, each.child_column, each.parent, each.parent_column): each.accepted
            for each in self.decided
            if each.is_written
        }
        for each in candidates:
            child, key = each.child.table.table.ref, each.key.table.table.ref
            decision = stated.get((child, each.child.name, key, each.key.name))
            if decision:
                accepted[each.child] = Chosen(each, by_person=True)
            elif decision is not None:
                rejected.add(each)
                continue
            elif each.sources & DECLARING and each.probability >= plausible:
                accepted.setdefault(each.child, Chosen(each))
            others |= {each.child} if each.probability >= plausible else set()
        overruled: dict[Candidate, Apart | Chosen] = {}
        for each in candidates:
            chosen = accepted.get(each.child)
            if each in rejected and each.child in others:
                overruled[each] = Chosen(None, by_person=True)
            elif (
                chosen is not None
                and chosen.candidate is not each
                and (chosen.by_person or not each.sources & DECLARING)
            ):
                overruled[each] = chosen
        left, apart = self.without_other_layers([each for each in candidates if each not in overruled], plausible)
        return left, {**overruled, **apart}

    def without_other_layers(
        self, candidates: Sequence[Candidate], plausible: float
    ) -> tuple[list[Candidate], dict[Candidate, Apart]]:
        """Return the candidates within a layer, and the others with the reason why they lose.

        A table is joined within its layer if a candidate there has at least the probability `plausible`, else to the
        tables that it is computed from. Only a mart or a snapshot keeps other candidates, which then need review.
        """
        here: set[ColumnFacts] = set()
        reached: set[ColumnFacts] = set()
        apart: dict[Candidate, Apart] = {}
        for each in candidates:
            found = self.apart(each.child, each.key, each.sources)
            across = self._across(each.child, each.key)
            if found is not None:
                apart[each] = found
            elif each.probability >= plausible:
                reached.add(each.child)
                here |= {each.child} if across is None or each.sources & DECLARING else set()
        overruled: dict[Candidate, Apart] = {}
        for each in candidates:
            across = apart.get(each)
            if across is None and each.child in here and not each.sources & DECLARING:
                across = self._across(each.child, each.key)
            elif across is not None and across.is_reviewed and each.child not in reached:
                across = None if each.probability >= plausible else across
            if across is not None:
                overruled[each] = across
        return [each for each in candidates if each not in overruled], overruled

    def apart(self, child: ColumnFacts, key: ColumnFacts, sources: Iterable[str] = ()) -> Apart | None:
        """Return why lineage speaks against a join, or None if it does not.

        A join that a source declares (`sources`: those of the candidate) is never apart, nor one to a table that the
        child's table is computed from, unless the column is the key in both.
        """
        across = self._across(child, key)
        if across is None or set(sources) & DECLARING:
            return None
        is_read = key.table.table.ref in self.sources_of.get(child.table.table.ref, ())
        return None if is_read and not child.without_repeats else across

    def _across(self, child: ColumnFacts, key: ColumnFacts) -> Apart | None:
        """Return in what way two tables are in different layers, or None if they are not."""
        mine, theirs = child.table.table.ref, key.table.table.ref
        layers = self.layers.get(mine), self.layers.get(theirs)
        if mine == theirs or layers[0] is None or layers[1] is None or layers[0] & layers[1]:
            return None
        if theirs in self.ancestors_of.get(mine, ()):
            return Apart(mine, theirs, derived=True)
        if mine in self.ancestors_of.get(theirs, ()):
            return Apart(theirs, mine, derived=True)
        is_reviewed = not layers[0].isdisjoint((Layer.MARTS, Layer.SNAPSHOTS))
        return Apart(mine, theirs, derived=False, is_reviewed=is_reviewed, layer=min(layers[1]))

    def mark_declared(self, candidates: Iterable[Candidate]) -> None:
        """Add the sources that declare the joins of candidates."""
        declared: dict[tuple[TableRef, Columns, TableRef, Columns], set[str]] = defaultdict(set)
        for hint in self.hints:
            declared[hint.child, hint.child_columns, hint.parent, hint.parent_columns].add(hint.source)
        for each in candidates:
            child, key = each.child.table.table.ref, each.key.table.table.ref
            each.sources |= declared.get((child, (each.child.name,), key, (each.key.name,)), set())

    def count(self, candidates: Sequence[Candidate]) -> None:
        """Change the probabilities of candidates by what lineage and people's decisions say about similar joins."""
        if self.sources_of:
            self._count_lineage(candidates)
        if self.decided:
            self._count_decisions(candidates)

    def _count_lineage(self, candidates: Sequence[Candidate]) -> None:
        """Raise the probability of a join if it is declared for tables that are built from the two of its own layer.

        The columns are the same if they have the same name or the same values.
        """
        columns = {(each.child.table.table.ref, each.child.name): each.child for each in candidates}
        columns |= {(each.key.table.table.ref, each.key.name): each.key for each in candidates}
        below_child: dict[TableRef, dict[JoinHint, None]] = defaultdict(dict)
        below_parent: dict[TableRef, set[JoinHint]] = defaultdict(set)
        for hint in self.hints:
            if len(hint.child_columns) == 1 and hint.source in DECLARING:
                for ref in self.ancestors_of.get(hint.child, ()):
                    below_child[ref][hint] = None
                for ref in self.ancestors_of.get(hint.parent, ()):
                    below_parent[ref].add(hint)
        for each in candidates:
            mine, theirs = each.child.table.table.ref, each.key.table.table.ref
            if each.sources & DECLARING or self.layers.get(mine) != self.layers.get(theirs):
                continue
            for hint in below_child.get(mine, ()):
                if hint not in below_parent.get(theirs, ()):
                    continue
                child = columns.get((hint.child, hint.child_columns[0]))
                key = columns.get((hint.parent, hint.parent_columns[0]))
                if child is not None and key is not None and _is_same(each.child, child) and _is_same(each.key, key):
                    each.sources.add(LINEAGE)
                    each.probability = with_hints(each.probability, (LINEAGE,))
                    break

    def _count_decisions(self, candidates: Sequence[Candidate]) -> None:
        """Change the probability of candidates that resemble joins that people accepted or rejected.

        A decision counts fully for columns of the same name and the same key, and half for columns with the same last
        word. Only candidates without a clear name are affected, because a name says more than a decision about another
        table. A decision about the candidate itself does not count, because it stands anyway.
        """
        index = _DecisionIndex(self.decided, candidates)
        for candidate in candidates:
            if candidate.name_match.best >= CLEAR_NAME:
                continue
            similar = index.similar_to(candidate)
            if similar.total:
                candidate.similar = similar
                candidate.sources.add(DECISIONS)
                candidate.probability = shifted(candidate.probability, similar.shift)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The candidate that a person or a source has chosen for a column; None if a person rejected this one."""

    candidate: Candidate | None
    by_person: bool = False


def _is_same(one: ColumnFacts, other: ColumnFacts) -> bool:
    """Return whether a column is the same one in a table that is built from its table."""
    same_values = bool(one.counts) and one.counts.keys() == other.counts.keys()
    return one.family is other.family and (one.joined == other.joined or same_values)


LINEAGE: Final = "lineage"
"""The source of relationships that are declared for tables built from their tables."""

DECISIONS: Final = "decisions"
"""The source of relationships that resemble joins that people decided about."""

DECLARING: Final = frozenset(
    {"datahub", "dbt", "lookml", "metabase", "odcs", "openmetadata", "powerbi", "sigma", "tableau"}
)
"""The sources of hints that people wrote as definitions."""

MOST_SHIFT: Final = 3.0
"""The maximum by which decisions about similar joins change the log-odds."""

SHIFT_PER_DECISION: Final = 1.25
"""The change of the log-odds for one decision; that for several grows with the square root of their number."""

LAST_WORD_WEIGHT: Final = 0.5
"""The weight of a decision about a column that shares only its last word: `created_by`, `changed_by`."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Why two tables are not joined although names and values fit: `table` is computed from `other` (`derived`), or
    `other` is in another `layer` of the project.

    `is_reviewed`: whether a person may want the join, because `table` is a mart or a snapshot.
    """

    table: TableRef
    other: TableRef
    derived: bool
    is_reviewed: bool = False
    layer: Layer | None = None


class _DecisionIndex:
    """Finds decisions by the name and the last word of the child's column, and the key."""

    def __init__(self, decided: Iterable[DecidedJoin], candidates: Iterable[Candidate]) -> None:
        columns = {}
        for candidate in candidates:
            for column in (candidate.child, candidate.key):
                columns[column.table.table.ref, column.name] = column
        self._by_name: dict[tuple[str, ColumnFacts], list[tuple[ColumnFacts, bool]]] = defaultdict(list)
        self._by_last: dict[tuple[str, ColumnFacts], list[tuple[ColumnFacts, bool]]] = defaultdict(list)
        for each in decided:
            child = columns.get((each.child, each.child_column))
            key = columns.get((each.parent, each.parent_column))
            if child is None or key is None:
                continue
            self._by_name[child.joined, key].append((child, each.accepted))
            if len(child.base) > 1:  # `id` says nothing, and `by` does.
                self._by_last[child.base[-1], key].append((child, each.accepted))

    def similar_to(self, candidate: Candidate) -> Similar:
        """Return the decisions about joins that resemble a candidate."""
        child, key = candidate.child, candidate.key
        alike = dict(self._by_name.get((child.joined, key), ()))
        last = child.base[-1] if len(child.base) > 1 else ""
        near = dict(self._by_last.get((last, key), ()))
        accepted = rejected = 0
        balance = 0.0
        for other, was_accepted in {**near, **alike}.items():
            if other is child:
                continue
            accepted, rejected = accepted + was_accepted, rejected + (not was_accepted)
            balance += (1 if was_accepted else -1) * (1.0 if other in alike else LAST_WORD_WEIGHT)
        size = min(MOST_SHIFT, SHIFT_PER_DECISION * sqrt(abs(balance)))
        return Similar(accepted, rejected, size if balance > 0 else -size)


def resolved(
    declared: Iterable[Declarations],
    tables: Sequence[Table],
    decided: Sequence[DecidedJoin],
    names: Collection[str] = (),
) -> KnownSchema:
    """Return what the declarations of all sources and the decisions of people say about the tables of a database.

    `names`: the connection and the dialect of the database, which has no table that is declared for others only.
    """
    find = _finder(tables)
    declared = [_as_seen_from(each, names) for each in declared] if names else declared
    hints: list[JoinHint] = []
    keys: dict[TableRef, dict[Columns, None]] = defaultdict(dict)
    filled: dict[TableRef, set[str]] = defaultdict(set)
    restricted: dict[TableRef, set[str]] = defaultdict(set)
    layers: dict[TableRef, Layer] = {}
    sources_of: dict[TableRef, set[TableRef]] = defaultdict(set)
    views = {table.ref for table in tables if table.kind is TableKind.VIEW}
    columns = {table.ref: {column.name.casefold(): column.name for column in table.columns} for table in tables}
    for each in declared:
        refs = _refs(each, find)
        for id, ref in refs.items():
            table = each.tables[id]
            keys[ref].update(dict.fromkeys(table.keys))
            filled[ref].update(table.filled)
            restricted[ref].update(table.restricted)
            if table.layer is not None:
                layers[ref] = table.layer
            sources_of[ref].update(_sources(id, each.tables, refs, views))
        for join in each.joins:
            hint = _hint(join, refs, columns, each.tool)
            hints += [] if hint is None else [hint]
    direct = {ref: frozenset(found - {ref}) for ref, found in sources_of.items() if found - {ref}}
    layers = {ref: layer for ref, layer in layers.items() if layer in _GIVEN or ref in direct}
    return KnownSchema(
        tuple(sorted(set(hints), key=repr)),
        {ref: tuple(sorted(found)) for ref, found in keys.items() if found},
        {ref: frozenset(found) for ref, found in filled.items() if found},
        _with_open_sources(layers, direct),
        direct,
        {ref: _ancestors(ref, direct) for ref in direct},
        tuple(decided),
        {ref: frozenset(found) for ref, found in restricted.items() if found},
    )


def _with_open_sources(
    layers: Mapping[TableRef, Layer], direct: Mapping[TableRef, frozenset[TableRef]]
) -> dict[TableRef, frozenset[Layer]]:
    """Return the layers of each table. Raw data that only marts read also belongs to the marts."""
    readers: dict[TableRef, set[Layer | None]] = defaultdict(set)
    for ref, sources in direct.items():
        for each in sources:
            readers[each].add(layers.get(ref))
    return {
        ref: frozenset({layer, Layer.MARTS} if layer is Layer.RAW and readers[ref] == {Layer.MARTS} else {layer})
        for ref, layer in layers.items()
    }


def _as_seen_from(declared: Declarations, names: Collection[str]) -> Declarations:
    """Return declarations in which tables of other databases are virtual."""
    tables = {
        id: replace(table, virtual=True) if table.databases and not set(names) & set(table.databases) else table
        for id, table in declared.tables.items()
    }
    return replace(declared, tables=tables)


Find = Callable[[DeclaredTable, "Collection[TableRef]"], "TableRef | None"]
"""Returns the table that a declared one is, ignoring some tables, or None if none or several may be."""


def _refs(declared: Declarations, find: Find) -> dict[str, TableRef]:
    """Return ID -> table. A model named like a source is not the source's table, whose schema is known."""
    tables = {id: table for id, table in declared.tables.items() if not table.virtual}
    known = {id: ref for id, table in tables.items() if table.schema and (ref := find(table, ())) is not None}
    taken = set(known.values())
    others = {id: ref for id, table in tables.items() if id not in known and (ref := find(table, taken)) is not None}
    return {**known, **others}


def _finder(tables: Sequence[Table]) -> Find:
    by_name: dict[str, list[TableRef]] = defaultdict(list)
    for table in tables:
        by_name[table.ref.name.casefold()].append(table.ref)

    def find(wanted: DeclaredTable, taken: Collection[TableRef]) -> TableRef | None:
        found = by_name.get(wanted.name.casefold(), [])
        if len(found) > 1:
            found = [each for each in found if each not in taken]
        schema, end = wanted.schema.casefold(), wanted.schema_end.casefold()
        if schema:
            found = [each for each in found if (each.schema or schema).casefold() == schema]
        if len(found) > 1 and end:
            near = [each for each in found if (each.schema or "").casefold().endswith(("_" + end, end))]
            found = [each for each in near if (each.schema or "").casefold() == end] or near
        return found[0] if len(found) == 1 else None

    return find


_GIVEN: Final = (Layer.RAW, Layer.SNAPSHOTS)
"""The layers of tables that no model computes. A model that reads nothing, such as a calendar, belongs to no layer."""


def _sources(
    id: str, tables: Mapping[str, DeclaredTable], refs: Mapping[str, TableRef], views: Collection[TableRef]
) -> Iterator[TableRef]:
    """Yield the tables that a table is computed from directly, or through views and models without a table."""
    seen, waiting = {id}, list(tables[id].built_from)
    while waiting:
        other = waiting.pop()
        if other in seen or other not in tables:
            continue
        seen.add(other)
        ref = refs.get(other)
        if ref is not None:
            yield ref
        if tables[other].virtual or ref in views:
            waiting += tables[other].built_from


def _ancestors(ref: TableRef, direct: Mapping[TableRef, frozenset[TableRef]]) -> frozenset[TableRef]:
    found: set[TableRef] = set()
    waiting = list(direct.get(ref, ()))
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += direct.get(each, ())
    return frozenset(found - {ref})


def _hint(
    join: DeclaredJoin, refs: Mapping[str, TableRef], columns: Mapping[TableRef, Mapping[str, str]], tool: str
) -> JoinHint | None:
    child, parent = refs.get(join.child), refs.get(join.parent)
    if child is None or parent is None:
        return None
    own = tuple(columns[child].get(each.casefold(), "") for each in join.child_columns)
    theirs = tuple(columns[parent].get(each.casefold(), "") for each in join.parent_columns)
    return JoinHint(child, own, parent, theirs, tool) if own and all((*own, *theirs)) else None
