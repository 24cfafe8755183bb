"""The manifest shards: the generated entry of every table, merged with people's changes to it.

Format: `tables: {NAME: {table, descriptions, columns: [{name, type, pk, nullable, descriptions}], joins: [...]}}`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.scan.descriptions.facts import GENERATED_KEYS, mappings_in
from ktx_cli.scan.relationships.record import Cardinality, Relationship, RelationshipRecord, Status
from ktx_cli.semantic import (
    PROPOSED_MEASURES,
    PROPOSED_SEGMENTS,
    Condition,
    Entry,
    Join,
    ManifestLayout,
    Shard,
    is_table_file,
    meaning,
    mirrored,
    on_text,
    physical_name,
    plain_on,
    quoted,
    read_plain_join,
    render_shard,
    source_names,
    with_sides,
)
from ktx_cli.warehouses import Column, ForeignKey, Table, TableRef, allowed_values, is_date, ref_order

Joins = dict[TableRef, list[dict[str, str]]]
JoinKey = tuple[str, str]
"""A join's identity within its source: `to`, and `on` with single blanks."""
SourceJoin = tuple[str, JoinKey]
"""A join's identity within a manifest: its source, and its identity within that source."""


def join_key(join: Mapping[str, Any]) -> JoinKey:
    """Return a join's identity within its source."""
    return str(join.get("to")), plain_on(join.get("on"))


ONE_TO_MANY: Final = "one_to_many"
_SCANNED: Final = ("formal", "inferred")
"""The sources of the joins that scans write."""

DECLARED: Final = "declared"
"""The source of a relationship that a foreign key declares."""


def entries(
    tables: Iterable[Table],
    names: Mapping[TableRef, str],
    record: RelationshipRecord | None = None,
    manual: Sequence[Relationship] = (),
) -> dict[TableRef, Entry]:
    """Return the generated entry of every table. Joins are written to both tables of a reference.

    `manual`: relationships that a person accepted and whose joins are not in the files.
    """
    by_ref = {table.ref: table for table in tables}
    known = record or RelationshipRecord()
    joins: Joins = defaultdict(list)
    ordered = sorted(by_ref.values(), key=lambda table: ref_order(table.ref))
    for relationship in declared_relationships(ordered):
        _add_joins(joins, relationship, names, "formal")
    by_hand = {each.id for each in manual}
    found = {each.id: each for each in (*known.accepted(), *manual)}
    for relationship in found.values():
        if relationship.child in by_ref and relationship.parent in by_ref:
            _add_joins(joins, relationship, names, "manual" if relationship.id in by_hand else "inferred")
    return {ref: _entry(table, known.key_of(table), joins.get(ref, [])) for ref, table in by_ref.items()}


def joins_of(relationship: Relationship, names: Mapping[TableRef, str]) -> list[tuple[TableRef, dict[str, str]]]:
    """Return the joins that a scan writes for a relationship if it is accepted, with the table of each."""
    joins: Joins = defaultdict(list)
    _add_joins(joins, relationship, names, "inferred")
    return [(ref, join) for ref, own in joins.items() for join in own]


def declared_relationships(tables: Iterable[Table]) -> list[Relationship]:
    """Return a relationship for every foreign key between two known tables."""
    known = {table.ref: table for table in tables}
    return [
        Relationship(
            ref, key.columns, key.target, key.target_columns, Status.ACCEPTED, 1.0, "Declared by a foreign key.",
            cardinality=Cardinality.ONE_TO_ONE if is_unique(table, key.columns) else Cardinality.MANY_TO_ONE,
            sources=(DECLARED,),
        )
        for ref, table in known.items()
        for key in table.foreign_keys
        if is_joinable(key, known)
    ]  # fmt: skip


def _entry(table: Table, primary_key: tuple[str, ...], joins: list[dict[str, str]]) -> Entry:
    entry: Entry = {"table": physical_name(table.ref)}
    if table.comment:
        entry["descriptions"] = {"db": table.comment}
    key = set(primary_key)
    entry["columns"] = [_column(column, is_key=column.name in key) for column in table.columns]
    if joins:
        entry["joins"] = joins
    return entry


def _column(column: Column, *, is_key: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": column.name, "type": column.type.value}
    if is_date(column):
        fields["natural_granularity"] = "day"
    if is_key:
        fields["pk"] = True
    if not column.nullable:
        fields["nullable"] = False
    if column.comment:
        fields["descriptions"] = {"db": column.comment}
    if values := allowed_values(column):
        fields["enum_values"] = {"db": list(values)}
    return fields


def _add_joins(joins: Joins, relationship: Relationship, names: Mapping[TableRef, str], source: str) -> None:
    """Add the joins of a relationship to both of its tables, unless they are already there."""
    forward, backward = _sides(relationship, names)
    cardinality = relationship.cardinality.value
    _add(joins[relationship.child], {**forward, "relationship": cardinality, "source": source})
    if relationship.parent != relationship.child:
        turned = "one_to_one" if cardinality == "one_to_one" else "one_to_many"
        _add(joins[relationship.parent], {**backward, "relationship": turned, "source": source})


def _sides(relationship: Relationship, names: Mapping[TableRef, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return `to` and `on` for a relationship's joins, at the child and at the parent."""
    child, parent = names[relationship.child], names[relationship.parent]
    pairs = tuple(zip(relationship.child_columns, relationship.parent_columns, strict=True))
    turned = tuple((theirs, own) for own, theirs in pairs)
    condition = () if relationship.condition is None else (Condition(True, *relationship.condition),)
    forward = {"to": parent, "on": on_text(pairs, parent, condition)}
    return forward, {"to": child, "on": on_text(turned, child, (replace(each, own=False) for each in condition))}


def _add(joins: list[dict[str, str]], join: dict[str, str]) -> None:
    if all((each["to"], each["on"]) != (join["to"], join["on"]) for each in joins):
        joins.append(join)


def join_sides(relationships: Iterable[Relationship], names: Mapping[TableRef, str]) -> dict[SourceJoin, bool]:
    """Return the joins for relationships, and whether each is at the parent. Files for one table have each join at the
    child.

    Of two relationships that are each other's opposites, the first one counts.
    """
    at_parent: dict[SourceJoin, bool] = {}
    for each in relationships:
        if each.parent != each.child and each.child in names and each.parent in names:
            forward, backward = _sides(each, names)
            at_parent.setdefault((names[each.child], join_key(forward)), False)
            at_parent.setdefault((names[each.parent], join_key(backward)), True)
    return at_parent


@dataclass(frozen=True, slots=True)
class WrittenShards:
    """The shards of a connection as stored, and with every join on both of its tables.

    A file for one table has each join once. Code that compares, merges or looks up joins uses `shards`.
    """

    written: Mapping[str, Shard]
    shards: Mapping[str, Shard]
    mirrored: frozenset[SourceJoin] = frozenset()
    """The joins that are only in `shards`."""

    @classmethod
    def of(cls, written: Mapping[str, Shard]) -> WrittenShards:
        """Add each join in a table's file to the other table. Without such files, nothing is added."""
        if not any(map(is_table_file, written)):
            return cls(written, written)
        paths = {name: path for path, shard in written.items() for name in shard.tables}
        entries = {name: entry for shard in written.values() for name, entry in shard.tables.items()}
        joins = list(_plain_joins(entries))
        known = {(name, meaning(join)) for name, _, join in joins}
        added: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for name, item, join in joins:
            back = mirrored(join, name)
            if join.to not in entries or join.to == name or (join.to, meaning(back)) in known:
                continue
            if is_table_file(paths[name]) or is_table_file(paths[join.to]):
                added[join.to].append(with_sides(item, back))
        shards = {path: _with_joins(shard, added) for path, shard in written.items()}
        return cls(written, shards, frozenset((name, join_key(join)) for name in added for join in added[name]))

    def once(
        self, placed: Mapping[str, dict[str, Entry]], at_parent: Mapping[SourceJoin, bool]
    ) -> dict[str, dict[str, Entry]]:
        """Return entries by path and name with each join on one of its tables: the child, or a person's choice.

        If the two differ, both are kept. `at_parent`: see `join_sides`.
        """
        joins = list(_plain_joins({name: entry for tables in placed.values() for name, entry in tables.items()}))
        items = {(name, meaning(join)): (item, join) for name, item, join in joins}
        left_out: set[SourceJoin] = set()
        kept = self._of_people()
        for name, item, join in sorted(joins, key=lambda each: each[2].relationship.value != ONE_TO_MANY):
            key = name, join_key(item)
            is_second = key in self.mirrored or join.relationship.value == ONE_TO_MANY
            if key in kept or not at_parent.get(key, is_second):
                continue
            other, there = items.get((join.to, meaning(mirrored(join, name))), (None, None))
            if other is None or there is None:
                if key in self.mirrored or item.get("source") in _SCANNED:
                    left_out.add(key)  # A person removed the other one.
            elif (join.to, join_key(other)) not in left_out and with_sides(other, mirrored(there, join.to)) == item:
                left_out.add(key)
        return _without_joins(placed, left_out)

    def twice(
        self, placed: Mapping[str, dict[str, Entry]], at_parent: Mapping[SourceJoin, bool]
    ) -> dict[str, dict[str, Entry]]:
        """Return entries with scan-written joins on both of their tables, and other joins where they are."""
        added = {
            (name, join_key(join))
            for tables in placed.values()
            for name, entry in tables.items()
            for join in mappings_in(entry, "joins")
            if (name, join_key(join)) in self.mirrored and join.get("source") not in _SCANNED
        }
        return _without_joins(placed, added - at_parent.keys())

    def _of_people(self) -> frozenset[SourceJoin]:
        """Return the joins that people added to files for one table."""
        return frozenset(
            (name, join_key(join))
            for path, shard in self.written.items()
            if is_table_file(path)
            for name, entry in shard.tables.items()
            for join in mappings_in(entry, "joins")
            if join.get("source") not in _SCANNED
        )


def _plain_joins(entries: Mapping[str, Entry]) -> Iterator[tuple[str, dict[str, Any], Join]]:
    """Yield (source, join as written, join) for readable joins without an alias."""
    for name, entry in entries.items():
        items = mappings_in(entry, "joins")
        columns = [str(column.get("name")) for column in mappings_in(entry, "columns")] if items else []
        for item in items:
            join = read_plain_join(item, name, columns)
            if join is not None:
                yield name, item, join


def _with_joins(shard: Shard, added: Mapping[str, list[dict[str, Any]]]) -> Shard:
    if not any(name in added for name in shard.tables):
        return shard
    tables = {
        name: {**entry, "joins": [*mappings_in(entry, "joins"), *added[str(name)]]} if str(name) in added else entry
        for name, entry in shard.document["tables"].items()
    }
    return Shard({**shard.document, "tables": tables}, shard.sha256)


def _without_joins(
    placed: Mapping[str, dict[str, Entry]], left_out: Collection[SourceJoin]
) -> dict[str, dict[str, Entry]]:
    def without(name: str, entry: Entry) -> Entry:
        joins = [join for join in mappings_in(entry, "joins") if (name, join_key(join)) not in left_out]
        if len(joins) == len(mappings_in(entry, "joins")):
            return entry
        rest = {key: value for key, value in entry.items() if key != "joins"}
        return {**rest, "joins": joins} if joins else rest

    return {path: {name: without(name, entry) for name, entry in tables.items()} for path, tables in placed.items()}


def is_joinable(key: ForeignKey, tables: Mapping[TableRef, Table]) -> bool:
    """Return whether both ends of a foreign key are in scope, with all their columns."""
    target = tables.get(key.target)
    if target is None or not key.columns or len(key.columns) != len(key.target_columns):
        return False
    return set(key.target_columns) <= {column.name for column in target.columns}


def is_unique(table: Table, columns: tuple[str, ...]) -> bool:
    """Return whether a declared key makes these columns unique."""
    wanted = set(columns)
    keys = [set(table.primary_key), *(set(key.columns) for key in table.unique_keys)]
    return any(key and key <= wanted for key in keys)


@dataclass(slots=True)
class ShardPlan:
    """The changes to a connection's shards. `files`: path -> new text, None for a removed shard.

    `shards`: all shards after the change. `shard_of`: table -> its shard. `moves`: the old and the new shard of entries
    that move. `gone_from`: physical name of a removed table -> the shard it was in. `lost`: the same for removed tables
    with texts by people.
    """

    files: dict[str, bytes | None] = field(default_factory=dict)
    shards: dict[str, Shard] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    shard_of: dict[TableRef, str] = field(default_factory=dict)
    moves: set[tuple[str, str]] = field(default_factory=set)
    gone_from: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManifestIndex:
    """The location of every entry in a connection's shards.

    `primary`: physical name -> shard path and source name of the entry that scans update. `custom`: shard path and
    source name of every other entry, which belongs to people: a second source over a table, or one without a table.
    """

    primary: dict[str, tuple[str, str]]
    custom: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, shards: Mapping[str, Shard], refs: Iterable[TableRef]) -> ManifestIndex:
        """Index the shards. If several entries use one table, the one with the table's own name is primary."""
        natural = {physical_name(ref): name for ref, name in source_names(refs, {}).items()}
        entries = [
            (str(entry.get("table")), path, name)
            for path in sorted(shards)
            for name, entry in shards[path].tables.items()
            if isinstance(entry.get("table"), str)
        ]
        entries.sort(key=lambda found: natural.get(found[0]) != found[2])
        primary: dict[str, tuple[str, str]] = {}
        for physical, path, name in entries:
            primary.setdefault(physical, (path, name))
        kept = set(primary.values())
        custom = [(path, name) for path in sorted(shards) for name in shards[path].tables if (path, name) not in kept]
        return cls(primary, tuple(custom))

    @property
    def names(self) -> dict[str, str]:
        """Physical name -> source name."""
        return {physical: name for physical, (_, name) in self.primary.items()}


def plan_shards(
    connection: str,
    layout: ManifestLayout,
    current: WrittenShards,
    index: ManifestIndex,
    generated: Mapping[TableRef, Entry],
    names: Mapping[TableRef, str],
    old: Mapping[str, Entry] | None,
    at_parent: Mapping[SourceJoin, bool],
) -> ShardPlan:
    """Return the new shards of a connection.

    `current`: the shards in the base tree; `index`: the index of these. `old`: physical name -> entry that the last
    scan generated, None if unknown. A table stays in its shard, if that belongs to the layout; a new one goes to the
    shard of the layout. Entries of removed tables are removed; entries that no scan generated are not changed, but move
    with the layout. `at_parent`: see `join_sides`.
    """
    present = {physical_name(ref) for ref in generated}
    gone = {
        physical: place
        for physical, place in index.primary.items()
        if physical not in present and (old is None or physical in old)
    }
    gone_names = {name for _, name in gone.values()}
    renamed = _renamed(generated, names, index.names.values())
    placed: dict[str, dict[str, Entry]] = {}
    plan = ShardPlan(removed=tuple(sorted(gone)))
    for ref in sorted(generated, key=ref_order):
        physical, wanted = physical_name(ref), layout.path_of(connection, ref)
        path, name = index.primary.get(physical, (wanted, ""))
        entry = generated[ref]
        if name:
            before = None if old is None else old.get(physical)
            now = with_renamed_joins(current.shards[path].tables[name], renamed)
            entry = keep_entry(before, now, entry, joinable=lambda to: to not in gone_names)
        if not layout.has(path):
            plan.moves.add((path, wanted))
            path = wanted
        placed.setdefault(path, {})[names[ref]] = entry
        plan.shard_of[ref] = path
    untouched = [place for physical, place in index.primary.items() if physical not in present and physical not in gone]
    for path, name in (*untouched, *index.custom):
        where = path if layout.has(path) else layout.moved(path, name)
        if where != path:
            plan.moves.add((path, where))
        placed.setdefault(where, {})[name] = current.shards[path].tables[name]
    plan.lost = {
        physical: path
        for physical, (path, name) in gone.items()
        if has_text(None if old is None else old[physical], current.shards[path].tables[name])
    }
    plan.gone_from = {physical: path for physical, (path, _) in gone.items()}
    arranged = current.once if layout is ManifestLayout.PER_TABLE else current.twice
    _compare(plan, current.written, arranged(placed, at_parent))
    return plan


def _renamed(
    generated: Mapping[TableRef, Entry], names: Mapping[TableRef, str], before: Iterable[str]
) -> dict[str, str]:
    """Return a table's generated source name -> its current name, if no other source has or had the generated one."""
    natural = source_names(generated, {})
    in_use = {*names.values(), *before}
    return {natural[ref]: names[ref] for ref in generated if natural[ref] not in in_use}


def _compare(plan: ShardPlan, current: Mapping[str, Shard], placed: Mapping[str, dict[str, Entry]]) -> None:
    """Set the files that change."""
    for path in sorted({*current, *placed}):
        entries = placed.get(path)
        shard = current.get(path)
        rest = {key: value for key, value in (shard.document if shard else {}).items() if key != "tables"}
        if not entries and not rest:
            plan.files[path] = None
            continue
        document = {**rest, "tables": entries or {}}
        if shard is not None and _same(shard.document, document):
            plan.shards[path] = shard
            continue
        text = render_shard(document)
        plan.files[path] = text
        plan.shards[path] = Shard(document, hashlib.sha256(text).hexdigest())


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two documents are equal, including their table order."""
    return before == after and [*(before.get("tables") or {})] == [*after["tables"]]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
KEPT_JOIN_SOURCES = frozenset({"manual", "inferred"})


def keep_entry(old: Entry | None, current: Entry, new: Entry, *, joinable: Callable[[str], bool]) -> Entry:
    """Return the entry to write for a source: `new`, with the changes that people made from `old` to `current`.

    If `old` is None, it is unknown, because another program wrote the file. Generated values are then taken from `new`
    and all others from `current`, and a text under a key of scans is kept until `new` has one. `joinable` returns
    whether a join to a source may stay.
    """
    if old is None:
        old = _generated_part(current, new)
    merged = _keep_mapping(*({key: each[key] for key in each if key not in _LISTS} for each in (old, current, new)))
    for key in (PROPOSED_MEASURES, PROPOSED_SEGMENTS):
        if kept := _keep_named(*(_by_name(each, key) for each in (old, current, new))):
            merged[key] = kept
    columns = _keep_columns(_by_name(old), _by_name(current), _by_name(new))
    joins = _keep_joins(_by_join(old), _by_join(current), _by_join(new), joinable)
    return _in_order({**merged, "columns": columns, **({"joins": joins} if joins else {})})


_LISTS: Final = frozenset({"columns", "joins", PROPOSED_MEASURES, PROPOSED_SEGMENTS})
"""The entry keys with lists that are merged item by item."""


def has_text(old: Entry | None, current: Entry) -> bool:
    """Return whether an entry has descriptions that no scan generated. `old`: as in `keep_entry`."""
    generated = _generated_part(current) if old is None else old
    return _descriptions(current) != _descriptions(generated)


def _descriptions(entry: Entry) -> list[Any]:
    columns = [(name, column.get("descriptions")) for name, column in _by_name(entry).items()]
    return [entry.get("description"), entry.get("descriptions"), [c for c in columns if c[1]]]


def with_renamed_joins(entry: Entry, renamed: Mapping[str, str]) -> Entry:
    """Return the entry with the new names of renamed sources in its joins."""
    if not any(join.get("to") in renamed for join in mappings_in(entry, "joins")):
        return entry
    return {**entry, "joins": [_redirected(join, renamed) for join in entry["joins"]]}


def _redirected(join: Any, renamed: Mapping[str, str]) -> Any:
    if not isinstance(join, dict) or join.get("to") not in renamed or "alias" in join:
        return join
    name = renamed[join["to"]]
    on = str(join.get("on")).replace(f"{quoted(join['to'])}.", f"{quoted(name)}.")
    return {**join, "to": name, "on": on}


def _keep(old: Any, current: Any, new: Any) -> Any:
    if isinstance(current, dict) and isinstance(new, dict):
        return _keep_mapping(old if isinstance(old, dict) else {}, current, new)
    if isinstance(current, dict) and isinstance(old, dict) and new is MISSING:
        return _keep_mapping(old, current, {}) or MISSING
    return new if current == old else current


def _keep_mapping(old: dict[str, Any], current: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    keys = list(new) + [key for key in current if key not in new]
    kept = {key: _keep(old.get(key, MISSING), current.get(key, MISSING), new.get(key, MISSING)) for key in keys}
    return {key: value for key, value in kept.items() if value is not MISSING}


def _keep_columns(old: dict[str, Any], current: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the database's columns in order, followed by those that people added."""
    kept = []
    for name, column in new.items():
        present = current.get(name, column)
        before = {key: value for key, value in old.get(name, {}).items() if key in present or key not in _OF_TYPES}
        kept.append(_keep_mapping(before, present, column))
    return kept + [column for name, column in current.items() if name not in new and name not in old]


def _keep_named(old: dict[str, Any], current: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return proposed definitions: new ones and those that people changed, but not those that people removed."""
    kept = []
    for name, item in new.items():
        if name in current or name not in old:
            kept.append(_keep_mapping(old.get(name, {}), current.get(name, item), item))
    return kept + [item for name, item in current.items() if name not in new and item != old.get(name)]


def _keep_joins(
    old: dict[tuple[str, str], Any],
    current: dict[tuple[str, str], Any],
    new: dict[tuple[str, str], Any],
    joinable: Callable[[str], bool],
) -> list[dict[str, Any]]:
    kept = []
    for key, join in new.items():
        if key in old and key not in current:
            continue  # A person removed it.
        kept.append(_keep_mapping(old.get(key, {}), current.get(key, join), join))
    for key, join in current.items():
        persons = key not in old or join != old[key]
        if key not in new and persons and joinable(key[0]):
            kept.append(join)
    return kept


def _generated_part(entry: Entry, new: Entry | None = None) -> Entry:
    """Return the part of an unrecorded entry that a scan may have generated, but only texts that `new` replaces."""
    part: Entry = {"table": entry.get("table"), **_generated_texts(entry, new)}
    columns = None if new is None else _by_name(new)
    part["columns"] = [
        _generated_column(column, None if columns is None else columns.get(name, {}))
        for name, column in _by_name(entry).items()
    ]
    part["joins"] = [join for join in _by_join(entry).values() if join.get("source") not in KEPT_JOIN_SOURCES]
    return part


_OF_TYPES: Final = ("natural_granularity", "enum_values")
"""The column keys that are implied by the type. An entry without one comes from an older scan, not from a person."""


def _generated_column(column: dict[str, Any], new: dict[str, Any] | None) -> dict[str, Any]:
    part: dict[str, Any] = {key: column[key] for key in ("name", "type", "pk", "nullable") if key in column}
    if "db" in (values := _mapping(column.get("enum_values"))):
        part["enum_values"] = {"db": values["db"]}
    return {**part, **_generated_texts(column, new)}


def _generated_texts(fields: dict[str, Any], new: dict[str, Any] | None) -> dict[str, Any]:
    """Return the `descriptions` under the scans' keys. `new`: only those of the database and those that `new` has."""
    replaced = GENERATED_KEYS if new is None else {"db", *_mapping(new.get("descriptions"))}
    texts = {
        key: text
        for key, text in _mapping(fields.get("descriptions")).items()
        if key in GENERATED_KEYS and key in replaced
    }
    return {"descriptions": texts} if texts else {}


def _by_name(entry: Entry, key: str = "columns") -> dict[str, Any]:
    return {str(item["name"]): item for item in mappings_in(entry, key) if "name" in item}


def _by_join(entry: Entry) -> dict[tuple[str, str], Any]:
    joins = mappings_in(entry, "joins")
    return {(str(join.get("to")), " ".join(str(join.get("on")).split())): join for join in joins}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _in_order(entry: Entry) -> Entry:
    """Return the entry with known keys first, and `columns` and `joins` last."""
    first = [key for key in ("table", "descriptions") if key in entry]
    last = [key for key in ("columns", "joins") if key in entry]
    middle = [key for key in entry if key not in first and key not in last]
    return {key: entry[key] for key in (*first, *middle, *last)}
