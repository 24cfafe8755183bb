"""The joins a scan found that nobody declared, and what people decided about each.

A scan's own view is its committed record (`relationships.json`). A person's yes is a join `source: manual` in the
manifest, a person's no the `disable_joins` of an overlay; both stand whatever later scans find.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ktx_cli.connectors.port import Table, TableKind, TableRef
from ktx_cli.context.scan.catalog import ParsedCopies
from ktx_cli.context.scan.committed import Base, Committed
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.manifest import Entry, entries
from ktx_cli.context.scan.names import physical_name, quoted, source_names
from ktx_cli.context.scan.overlays import Overlays, join_key, plain_on
from ktx_cli.context.scan.records import RELATIONSHIPS
from ktx_cli.context.scan.relationships.model import Edge, EdgeStatus
from ktx_cli.context.scan.shards import Places, Shard
from ktx_cli.core.errors import KtxError, ResultWarning

ARROW = "->"
GENERATED_SOURCES = frozenset({"formal", "inferred"})
"""The `source` of joins that a scan wrote; a join with any other, or none, is a person's."""


class Standing(StrEnum):
    """What holds for an edge now: the scan's word, or a person's."""

    ACCEPTED = "accepted"
    """The join stands because the scan is sure."""
    MANUAL = "manual"
    """The join stands because a person said so."""
    REVIEW = "review"
    """A person has to look."""
    REJECTED = "rejected"
    """No join: the scan takes it for none."""
    DISABLED = "disabled"
    """No join, because a person said so."""


@dataclass(frozen=True, slots=True)
class EdgeJoin:
    """A join that an edge makes, as a scan writes it. `shard`: where its source stands; None: it is in no shard."""

    source: str
    shard: str | None
    join: Mapping[str, Any]

    @property
    def on(self) -> str:
        """Its `on`, with single blanks."""
        return plain_on(self.join["on"])


@dataclass(frozen=True, slots=True)
class ReviewedEdge:
    """An edge, its name, and what holds for it. `joins`: forward, then backward unless a table refers to itself."""

    connection: str
    name: str
    edge: Edge
    standing: Standing
    joins: tuple[EdgeJoin, ...]

    @property
    def tables(self) -> frozenset[str]:
        """The names its two tables go by: as sources, and in the database."""
        refs = (self.edge.child, self.edge.parent)
        return frozenset({*(each.source for each in self.joins), *map(physical_name, refs), *map(str, refs)})

    def to_json(self) -> dict[str, Any]:
        """Return the edge as it stands in the answer of a command."""
        edge = self.edge
        return {
            "connection": self.connection,
            "edge": self.name,
            "status": self.standing.value,
            "found": edge.status.value,
            "score": edge.score,
            "relationship": edge.cardinality.value,
            "reason": edge.reason,
            "sources": list(edge.sources),
            "from": {"table": physical_name(edge.child), "columns": list(edge.child_columns)},
            "to": {"table": physical_name(edge.parent), "columns": list(edge.parent_columns)},
            "when": None if edge.condition is None else {"column": edge.condition[0], "value": edge.condition[1]},
        }


@dataclass(frozen=True, slots=True)
class Review:
    """All edges of a connection's record in its order, and the files that say what holds for them."""

    connection: str
    edges: tuple[ReviewedEdge, ...]
    shards: Mapping[str, Shard]
    overlays: Overlays

    @property
    def warnings(self) -> list[ResultWarning]:
        """What of the files could not be read."""
        return self.overlays.warnings


def read_review(base: Base, connection: str, copies: ParsedCopies) -> Review | None:
    """Return what is found and decided; None where no scan has looked at the rows yet.

    Raises `KtxError` for a damaged record, `ConfigError` for a broken shard.
    """
    committed = Committed(base, connection, copies)
    records, notes = committed.read_records
    if RELATIONSHIPS in records.broken:
        note = next(note for note in notes if str(note.details.get("path")).endswith(RELATIONSHIPS))
        raise KtxError(note.message, hint=note.hint)
    if records.knowledge is None:
        return None
    overlays = Overlays.read(base, connection)
    edges = _reviewed(connection, records.knowledge.edges, committed, overlays)
    return Review(connection, edges, committed.shards, overlays)


def _reviewed(
    connection: str, edges: Sequence[Edge], committed: Committed, overlays: Overlays
) -> tuple[ReviewedEdge, ...]:
    known = [table.ref for table in committed.before.tables or ()]
    refs = list(dict.fromkeys((*known, *(ref for edge in edges for ref in (edge.child, edge.parent)))))
    places = Places.find(committed.shards, refs)
    names = source_names(refs, places.used, [name for _, name in places.own])
    found = []
    for edge in edges:
        joins = tuple(
            EdgeJoin(names[ref], places.primary.get(physical_name(ref), (None, ""))[0], join)
            for ref, join in _joins(edge, names)
        )
        standing = _standing(edge, joins[0], committed.shards, overlays)
        found.append(ReviewedEdge(connection, edge_name(edge, names), edge, standing, joins))
    return tuple(found)


def _joins(edge: Edge, names: Mapping[TableRef, str]) -> list[tuple[TableRef, Mapping[str, Any]]]:
    """Return the joins a scan writes for an edge it accepts, by table."""
    tables = [Table(ref, TableKind.TABLE, ()) for ref in dict.fromkeys((edge.child, edge.parent))]
    made = entries(tables, names, Knowledge(edges=(replace(edge, status=EdgeStatus.ACCEPTED),)))
    return [(ref, join) for ref, entry in made.items() for join in entry.get("joins", ())]


def _standing(edge: Edge, forward: EdgeJoin, shards: Mapping[str, Shard], overlays: Overlays) -> Standing:
    authored = overlays.of(forward.source)
    if any(forward.on in overlay.disabled for overlay in authored):
        return Standing.DISABLED
    if any(join_key(forward.join) in overlay.joins for overlay in authored):
        return Standing.MANUAL
    entry = {} if forward.shard is None else shards[forward.shard].tables[forward.source]
    join = find_join(entry, forward)
    if join is not None:
        return Standing.ACCEPTED if join.get("source") in GENERATED_SOURCES else Standing.MANUAL
    # a sure join that is not there was taken out by hand, and scans leave it out
    return Standing.DISABLED if edge.status is EdgeStatus.ACCEPTED else Standing(edge.status.value)


def find_join(entry: Entry, wanted: EdgeJoin) -> Mapping[str, Any] | None:
    """Return the join of an entry of the manifest that is the wanted one, whoever wrote it."""
    key = join_key(wanted.join)
    return next((join for join in entry.get("joins") or () if join_key(join) == key), None)


def edge_name(edge: Edge, names: Mapping[TableRef, str]) -> str:
    """Return what a person calls an edge: `orders.customer_id->customers.id`.

    Several columns stand in brackets; a name that is no plain word in double quotes; a reference that depends on a
    column ends in ` when owner_type=customer`.
    """
    child, parent = _end(names[edge.child], edge.child_columns), _end(names[edge.parent], edge.parent_columns)
    return f"{child}{ARROW}{parent}{_when(edge.condition)}"


def _end(source: str, columns: Sequence[str]) -> str:
    named = ",".join(map(quoted, columns))
    return f"{quoted(source)}.{named}" if len(columns) == 1 else f"{quoted(source)}.({named})"


def _when(condition: tuple[str, Any] | None) -> str:
    if condition is None:
        return ""
    column, value = condition
    return f" when {quoted(column)}={quoted(value) if isinstance(value, str) else value}"


def edges_named(word: str, edges: Iterable[ReviewedEdge]) -> list[ReviewedEdge]:
    """Return the edges a word names: by the whole name, blanks aside, else by the part before the arrow alone."""
    known = list(edges)
    squeezed = _squeezed(word)
    return (
        [each for each in known if each.name == word]
        or [each for each in known if _squeezed(each.name) == squeezed]
        or [each for each in known if _squeezed(each.name).partition(ARROW)[0] == squeezed]
    )


def _squeezed(name: str) -> str:
    return "".join(name.split())
