"""Joins that a scan no longer detects, which are kept in the record and listed in the run's report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Record, ResultWarning, plural
from ktx_cli.scan.committed import Committed
from ktx_cli.scan.relationships.record import Relationship, RelationshipId, RelationshipRecord, Status
from ktx_cli.scan.review import (
    GENERATED_SOURCES,
    INFERRED_JOINS,
    AuthoredSources,
    JoinStatus,
    StatusResolver,
    find_join,
    missing_end,
)
from ktx_cli.scan.shards import ManifestIndex, join_key
from ktx_cli.scan.stages import connection_warning
from ktx_cli.semantic import Entry, Shard
from ktx_cli.warehouses import Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.review import ReviewedRelationship
    from ktx_cli.scan.shards import JoinKey

NOT_FOUND: Final = "The scan no longer detects it."
DECLARED: Final = "A foreign key now declares it."

_STALE: Final = frozenset({DECLARED, "a foreign key declares it now"})
"""Reasons that a later scan replaces, including wording from earlier versions of ktx."""

_MISSING: Final = (" no longer exists", " is gone")
"""Endings of the reason for a missing table or column, including wording from earlier versions of ktx."""

MOST_GONE: Final = 200
"""The maximum number of removed joins in a record; the oldest ones without a decision are dropped first."""

DECIDED: Final = frozenset({JoinStatus.MANUAL, JoinStatus.DISABLED})
"""The statuses of relationships that people decided."""

StatusOf = Callable[[Relationship], JoinStatus]
"""Returns the status of a relationship before this scan."""


@dataclass(frozen=True, slots=True)
class GoneJoin(Record):
    """A join that a scan no longer detects. `shard`: the path of the shard that it was in, or None."""

    name: str
    reason: str
    shard: str | None

    json_keys = ("join=name", "reason")


class CommittedJoins:
    """The status of relationships in the committed record, whose files are read only when they are needed."""

    def __init__(self, committed: Committed) -> None:
        self._committed = committed

    @cached_property
    def relationships(self) -> tuple[ReviewedRelationship, ...]:
        """All relationships, removed ones last. For an empty record, no other file is read."""
        known = self._committed.records.known
        if not known.relationships and not known.gone:
            return ()
        tables = {table.ref: table for table in self._committed.snapshot.tables or ()}
        return self.after(known, self._committed.shards, tables)

    @cached_property
    def authored(self) -> AuthoredSources:
        """The user-written files about sources."""
        return AuthoredSources.read(self._committed.base, self._committed.connection)

    def status_of(self, relationship: Relationship) -> JoinStatus:
        """Return the status of a recorded relationship."""
        return self._by_id.get(relationship.id, JoinStatus.REJECTED)

    def after(
        self, known: RelationshipRecord, shards: Mapping[str, Shard], tables: Mapping[TableRef, Table]
    ) -> tuple[ReviewedRelationship, ...]:
        """Return the relationships of a record with their status according to the given shards and tables."""
        if not known.relationships and not known.gone:
            return ()
        return StatusResolver(self._committed.connection, shards, self.authored, tables).resolve_record(known)

    def by_hand(self, ids: Collection[RelationshipId]) -> dict[RelationshipId, list[tuple[str, Mapping[str, Any]]]]:
        """Return relationship -> its joins that people wrote into shards, with their tables' physical names."""
        found: dict[RelationshipId, list[tuple[str, Mapping[str, Any]]]] = {}
        for each in self.relationships if ids else ():
            for join in each.joins if each.relationship.id in ids else ():
                entry = {} if join.shard is None else self._committed.shards[join.shard].tables[join.source]
                written = find_join(entry, join)
                if written is not None and written.get("source") not in GENERATED_SOURCES:
                    found.setdefault(each.relationship.id, []).append((str(entry.get("table")), written))
        return found

    @cached_property
    def _by_id(self) -> dict[RelationshipId, JoinStatus]:
        return {each.relationship.id: each.status for each in self.relationships}


@dataclass(frozen=True, slots=True)
class JoinChanges:
    """User-written joins that a scan removes and restores, and the resulting record.

    `leaving`: physical name of a table -> joins whose table or column is now missing. `returned`: relationships whose
    table and columns exist again.
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
        """Compare the record of this scan with the last one, ignoring joins in overlays."""
        record = with_gone(now, before, tables, joins.status_of)
        by_hand = joins.by_hand(record.waiting - before.waiting)
        record = replace(record, waiting=record.waiting & (before.waiting | by_hand.keys()))
        leaving: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for table, join in (each for listed in by_hand.values() for each in listed):
            leaving[table].append(join)
        return cls(record, leaving, returned_relationships(record, before, tables, joins.status_of))

    def without_leaving(self, old: Mapping[str, Entry]) -> dict[str, Entry]:
        """Return the last scan's entries plus the leaving joins, so that these do not count as user-written."""
        return {
            table: {**entry, "joins": [*entry.get("joins", ()), *self.leaving[table]]}
            if table in self.leaving
            else entry
            for table, entry in old.items()
        }


def with_gone(
    now: RelationshipRecord, before: RelationshipRecord, tables: Mapping[TableRef, Table], status_of: StatusOf
) -> RelationshipRecord:
    """Return the record of this scan, with the last record's joins that are missing from it as `gone`."""
    found = {each.id for each in now.recorded()}
    known = (*before.gone, *before.relationships)
    waiting = {each.id for each in known if _waits(each, before, tables, status_of)}
    unlikely = {each.id: each.reason for each in now.relationships}
    gone = []
    for each in known:
        if each.id in found:
            continue
        declared = _is_declared(each, tables)
        matters = each in before.gone or each.status is Status.ACCEPTED or status_of(each) in DECIDED
        if status_of(each) is JoinStatus.DISABLED if declared else matters:
            reason = DECLARED if declared else _reason(each, tables, unlikely.get(each.id))
            gone.append(replace(each, status=Status.REJECTED, reason=reason))
    kept_ids = {each.id for each in gone}
    return replace(now, gone=_bounded(gone, status_of, waiting), waiting=frozenset(waiting & kept_ids))


def _waits(
    relationship: Relationship, before: RelationshipRecord, tables: Mapping[TableRef, Table], status_of: StatusOf
) -> bool:
    """Return whether the user accepted a relationship whose table or column is now missing."""
    if missing_end(relationship, tables) is None:
        return False
    return status_of(relationship) is (JoinStatus.REVIEW if relationship.id in before.waiting else JoinStatus.MANUAL)


def returned_relationships(
    known: RelationshipRecord, before: RelationshipRecord, tables: Mapping[TableRef, Table], status_of: StatusOf
) -> tuple[Relationship, ...]:
    """Return the relationships whose missing table or column exists again, as this scan describes them."""
    if not before.waiting:
        return ()
    found = {each.id: each for each in (*known.gone, *known.relationships)}
    return tuple(
        found[id]
        for id in sorted(before.waiting - known.waiting, key=repr)
        if id in found and missing_end(found[id], tables) is None and status_of(found[id]) is JoinStatus.REVIEW
    )


def _is_declared(relationship: Relationship, tables: Mapping[TableRef, Table]) -> bool:
    table = tables.get(relationship.child)
    if table is None or relationship.condition is not None:
        return False
    pairs = set(zip(relationship.child_columns, relationship.parent_columns, strict=True))
    return any(
        key.target == relationship.parent and set(zip(key.columns, key.target_columns, strict=False)) == pairs
        for key in table.foreign_keys
    )


def _reason(found: Relationship, tables: Mapping[TableRef, Table], unlikely: str | None) -> str:
    """Return why a relationship was removed. The reason of an earlier scan is kept while it is true."""
    missing = missing_end(found, tables)
    if missing is not None or unlikely is not None:
        return missing or unlikely or NOT_FOUND
    stale = found.status is Status.ACCEPTED or found.reason in _STALE or found.reason.endswith(_MISSING)
    return NOT_FOUND if stale or found.status is Status.REVIEW else found.reason


def _bounded(
    gone: Sequence[Relationship], status_of: StatusOf, waiting: Collection[RelationshipId]
) -> tuple[Relationship, ...]:
    if len(gone) <= MOST_GONE:
        return tuple(gone)
    decided = {each.id for each in gone if status_of(each) in DECIDED or each.id in waiting}
    undecided = [each.id for each in gone if each.id not in decided]
    dropped = set(undecided[: len(gone) - MOST_GONE])
    return tuple(each for each in gone if each.id not in dropped)


def gone_joins(
    before: Sequence[ReviewedRelationship],
    after: Sequence[ReviewedRelationship],
    tables: Mapping[TableRef, Table],
    shards: Mapping[str, Shard],
    removed: Collection[str],
) -> tuple[GoneJoin, ...]:
    """Return the joins that a scan no longer detects: those of relationships, then those that people wrote by hand.

    `shards`: path -> shard before. `removed`: physical names of removed tables.
    """
    now = {each.relationship.id: each for each in after}
    found = []
    for each in before:
        later = now.get(each.relationship.id)
        lost = each.status in INFERRED_JOINS and (later is None or later.status not in INFERRED_JOINS)
        if lost and not _is_declared(each.relationship, tables):
            found.append(GoneJoin(each.name, NOT_FOUND if later is None else _reason_now(later), each.joins[0].shard))
    recorded = {(join.source, join_key(join.join)) for each in before for join in each.joins}
    return (*found, *_by_hand(recorded, shards, removed))


def _reason_now(now: ReviewedRelationship) -> str:
    return now.relationship.reason if now.gone else f"now {now.status.value}: {now.relationship.reason}"


def _by_hand(
    recorded: Collection[tuple[str, JoinKey]], shards: Mapping[str, Shard], removed: Collection[str]
) -> Iterator[GoneJoin]:
    """Yield the user-written joins that are removed with a table and belong to no recorded relationship."""
    physical = {name: table for table, name in ManifestIndex.of(shards, ()).names.items()} if removed else {}
    gone = {name for name, table in physical.items() if table in removed}
    for path, shard in shards.items() if gone else ():
        for source, entry in shard.tables.items():
            for join in entry.get("joins") or ():
                key, ends = join_key(join), {source, str(join.get("to"))}
                if ends & gone and (source, key) not in recorded and join.get("source") not in GENERATED_SOURCES:
                    reason = f"table {physical[min(ends & gone)]} no longer exists"
                    yield GoneJoin(f"{source} to {key[0]} on {key[1]}", reason, path)


def gone_warnings(connection: str, gone: Sequence[GoneJoin], held: Collection[str]) -> list[ResultWarning]:
    """Return a warning about the removed joins, except for those in held files."""
    named = [f"{each.name} ({each.reason})" for each in gone if each.shard not in held]
    if not named:
        return []
    message = f"{plural(len(named), 'join')} removed since the last scan"
    hint = Command("scan", "relationships", connection, "--status", "all")
    return [connection_warning("joins_gone", connection, message, hint, joins=named)]
