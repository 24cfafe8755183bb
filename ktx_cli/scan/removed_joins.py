"""Joins that stood and stand no more: what a scan finds no longer stays in the record, and a run names it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Record, ResultWarning, plural
from ktx_cli.scan.committed import Committed
from ktx_cli.scan.relationships.record import Relationship, RelationshipId, RelationshipRecord, Status
from ktx_cli.scan.review import GENERATED_SOURCES, Overlays, Scene, Standing, find_join, join_key, missing_end
from ktx_cli.scan.shards import ManifestIndex
from ktx_cli.scan.stages import connection_warning
from ktx_cli.semantic import Entry, Shard
from ktx_cli.warehouses import Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.review import JoinKey, ReviewedEdge

NOT_FOUND: Final = "no scan finds it any more"
DECLARED: Final = "a foreign key declares it now"

MOST_GONE: Final = 200
"""How many of them a record keeps; of those nobody decided on the oldest go first."""

_JOINED: Final = frozenset({Standing.ACCEPTED, Standing.MANUAL})
_DECIDED: Final = frozenset({Standing.MANUAL, Standing.DISABLED})

Standings = Callable[[Relationship], Standing]
"""Says what held for an edge before this scan."""


@dataclass(frozen=True, slots=True)
class GoneJoin(Record):
    """A join that stood before a scan and stands no more. `shard`: the file it stood in; None: in none."""

    name: str
    reason: str
    shard: str | None

    json_keys = ("join=name", "reason")


class CommittedJoins:
    """What holds for the edges of the committed record; the files that say so are read when somebody asks."""

    def __init__(self, committed: Committed) -> None:
        self._committed = committed

    @cached_property
    def edges(self) -> tuple[ReviewedEdge, ...]:
        """All of them, those that were gone last; none where the record has none, which reads no file."""
        known = self._committed.records.known
        if not known.edges and not known.gone:
            return ()
        tables = {table.ref: table for table in self._committed.snapshot.tables or ()}
        return self.after(known, self._committed.shards, tables)

    def of(self, edge: Relationship) -> Standing:
        """Return what held for an edge of the record."""
        return self._by_id.get(edge.id, Standing.REJECTED)

    def after(
        self, known: RelationshipRecord, shards: Mapping[str, Shard], tables: Mapping[TableRef, Table]
    ) -> tuple[ReviewedEdge, ...]:
        """Return what holds for the edges that are known, with other shards and tables."""
        if not known.edges and not known.gone:
            return ()
        return Scene(self._committed.connection, shards, self._overlays, tables).reviewed(known)

    def by_hand(self, edges: Collection[RelationshipId]) -> dict[RelationshipId, list[tuple[str, Mapping[str, Any]]]]:
        """Return the joins in the shards that people accepted, by edge, each with the physical name of its table."""
        found: dict[RelationshipId, list[tuple[str, Mapping[str, Any]]]] = {}
        for each in self.edges if edges else ():
            for join in each.joins if each.edge.id in edges else ():
                entry = {} if join.shard is None else self._committed.shards[join.shard].tables[join.source]
                written = find_join(entry, join)
                if written is not None and written.get("source") not in GENERATED_SOURCES:
                    found.setdefault(each.edge.id, []).append((str(entry.get("table")), written))
        return found

    @cached_property
    def _by_id(self) -> dict[RelationshipId, Standing]:
        return {each.edge.id: each.standing for each in self.edges}

    @cached_property
    def _overlays(self) -> Overlays:
        return Overlays.read(self._committed.base, self._committed.connection)


@dataclass(frozen=True, slots=True)
class JoinChanges:
    """The joins of people that go and come with a scan, and the record that says so.

    `leaving`: physical name of a table -> joins that miss a table or column now. `returned`: edges whose joins are
    people's again.
    """

    record: RelationshipRecord
    leaving: Mapping[str, Sequence[Mapping[str, Any]]]
    returned: tuple[Relationship, ...]

    @classmethod
    def of(
        cls,
        now: RelationshipRecord,
        before: RelationshipRecord,
        tables: Mapping[TableRef, Table],
        joins: CommittedJoins,
    ) -> JoinChanges:
        """Compare what is known now with the record; a join that an overlay makes stays where it is."""
        record = with_gone(now, before, tables, joins.of)
        by_hand = joins.by_hand(record.waiting - before.waiting)
        record = replace(record, waiting=record.waiting & (before.waiting | by_hand.keys()))
        leaving: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for table, join in (each for listed in by_hand.values() for each in listed):
            leaving[table].append(join)
        return cls(record, leaving, returned_edges(record, before, tables, joins.of))

    def without_leaving(self, old: Mapping[str, Entry]) -> dict[str, Entry]:
        """Return what the last scan generated, with the leaving joins as if it had, so that nobody keeps them."""
        return {
            table: {**entry, "joins": [*entry.get("joins", ()), *self.leaving[table]]}
            if table in self.leaving
            else entry
            for table, entry in old.items()
        }


def with_gone(
    now: RelationshipRecord, before: RelationshipRecord, tables: Mapping[TableRef, Table], standing_of: Standings
) -> RelationshipRecord:
    """Return what is known now, with the joins of the record that are not in it any more."""
    found = {edge.id for edge in now.recorded()}
    waiting = {edge.id for edge in (*before.gone, *before.edges) if _waits(edge, before, tables, standing_of)}
    unlikely = {edge.id: edge.reason for edge in now.edges}
    gone = []
    for edge in (*before.gone, *before.edges):
        if edge.id in found:
            continue
        declared = _is_declared(edge, tables)
        kept = standing_of(edge) is Standing.DISABLED if declared else edge in before.gone or _counts(edge, standing_of)
        if kept:
            reason = DECLARED if declared else _reason(edge, tables, unlikely.get(edge.id))
            gone.append(replace(edge, status=Status.REJECTED, reason=reason))
    kept_ids = {edge.id for edge in gone}
    return replace(now, gone=_bounded(gone, standing_of, waiting), waiting=frozenset(waiting & kept_ids))


def _waits(
    edge: Relationship, before: RelationshipRecord, tables: Mapping[TableRef, Table], standing_of: Standings
) -> bool:
    """Whether a person accepted an edge that misses a table or column now."""
    if missing_end(edge, tables) is None:
        return False
    return standing_of(edge) is (Standing.REVIEW if edge.id in before.waiting else Standing.MANUAL)


def returned_edges(
    known: RelationshipRecord, before: RelationshipRecord, tables: Mapping[TableRef, Table], standing_of: Standings
) -> tuple[Relationship, ...]:
    """Return the edges that waited for a table or column and are whole again, as the scan knows them now."""
    if not before.waiting:
        return ()
    found = {edge.id: edge for edge in (*known.gone, *known.edges)}
    return tuple(
        found[each]
        for each in sorted(before.waiting - known.waiting, key=repr)
        if each in found and missing_end(found[each], tables) is None and standing_of(found[each]) is Standing.REVIEW
    )


def _counts(edge: Relationship, standing_of: Standings) -> bool:
    return edge.status is Status.ACCEPTED or standing_of(edge) in _DECIDED


def _is_declared(edge: Relationship, tables: Mapping[TableRef, Table]) -> bool:
    table = tables.get(edge.child)
    if table is None or edge.condition is not None:
        return False
    pairs = set(zip(edge.child_columns, edge.parent_columns, strict=True))
    return any(
        key.target == edge.parent and set(zip(key.columns, key.target_columns, strict=False)) == pairs
        for key in table.foreign_keys
    )


def _reason(edge: Relationship, tables: Mapping[TableRef, Table], unlikely: str | None) -> str:
    """Return why an edge is gone; a reason that an earlier scan gave stays while it is true."""
    missing = missing_end(edge, tables)
    if missing is not None or unlikely is not None:
        return missing or unlikely or NOT_FOUND
    stale = edge.status is Status.ACCEPTED or edge.reason == DECLARED or edge.reason.endswith(" is gone")
    return NOT_FOUND if stale or edge.status is Status.REVIEW else edge.reason


def _bounded(
    gone: Sequence[Relationship], standing_of: Standings, waiting: Collection[RelationshipId]
) -> tuple[Relationship, ...]:
    if len(gone) <= MOST_GONE:
        return tuple(gone)
    decided = {edge.id for edge in gone if standing_of(edge) in _DECIDED or edge.id in waiting}
    undecided = [edge.id for edge in gone if edge.id not in decided]
    dropped = set(undecided[: len(gone) - MOST_GONE])
    return tuple(edge for edge in gone if edge.id not in dropped)


def gone_joins(
    before: Sequence[ReviewedEdge],
    after: Sequence[ReviewedEdge],
    tables: Mapping[TableRef, Table],
    shards: Mapping[str, Shard],
    removed: Collection[str],
) -> tuple[GoneJoin, ...]:
    """Return the joins that stood and stand no more: found ones by their edge, then those people wrote by hand.

    `shards`: path -> shard before; `removed`: physical names of tables that are gone.
    """
    now = {each.edge.id: each for each in after}
    found = []
    for each in before:
        later = now.get(each.edge.id)
        lost = each.standing in _JOINED and (later is None or later.standing not in _JOINED)
        if lost and not _is_declared(each.edge, tables):
            found.append(GoneJoin(each.name, NOT_FOUND if later is None else _reason_now(later), each.joins[0].shard))
    of_edges = {(join.source, join_key(join.join)) for each in before for join in each.joins}
    return (*found, *_by_hand(of_edges, shards, removed))


def _reason_now(now: ReviewedEdge) -> str:
    return now.edge.reason if now.gone else f"{now.standing.value} now: {now.edge.reason}"


def _by_hand(
    of_edges: Collection[tuple[str, JoinKey]], shards: Mapping[str, Shard], removed: Collection[str]
) -> Iterator[GoneJoin]:
    """Yield the joins of people that go with a table, but those of edges."""
    physical = {name: table for table, name in ManifestIndex.of(shards, ()).names.items()} if removed else {}
    gone = {name for name, table in physical.items() if table in removed}
    for path, shard in shards.items() if gone else ():
        for source, entry in shard.tables.items():
            for join in entry.get("joins") or ():
                key, ends = join_key(join), {source, str(join.get("to"))}
                if ends & gone and (source, key) not in of_edges and join.get("source") not in GENERATED_SOURCES:
                    reason = f"table {physical[min(ends & gone)]} is gone"
                    yield GoneJoin(f"{source} to {key[0]} on {key[1]}", reason, path)


def gone_warnings(connection: str, gone: Sequence[GoneJoin], held: Collection[str]) -> list[ResultWarning]:
    """Return a warning of the joins that are gone, which its details name, but those of files that were held back."""
    named = [f"{each.name} ({each.reason})" for each in gone if each.shard not in held]
    if not named:
        return []
    message = f"{plural(len(named), 'join')} of the last scan gone"
    hint = Command("scan", "relationships", connection, "--status", "all")
    return [connection_warning("joins_gone", connection, message, hint, joins=named)]
