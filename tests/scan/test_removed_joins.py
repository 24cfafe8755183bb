"""Joins that stood and stand no more: what the record keeps of them, and what a run names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.scan.relationships.hints import recorded_hints
from ktx_cli.scan.relationships.record import (
    LEAST_PROBABILITY,
    Relationship,
    RelationshipRecord,
    Status,
    read_record,
    record_text,
    restricted,
    steadied,
)
from ktx_cli.scan.removed_joins import (
    DECLARED,
    MOST_GONE,
    NOT_FOUND,
    gone_joins,
    gone_warnings,
    returned_relationships,
    with_gone,
)
from ktx_cli.scan.review import AuthoredSources, JoinStatus, ReviewedRelationship, StatusResolver
from ktx_cli.semantic.manifest import Shard
from ktx_cli.warehouses.port import Column, ForeignKey, SemanticType, Table, TableKind, TableRef

ORDERS, CUSTOMERS = TableRef(None, "orders"), TableRef(None, "customers")
WHERE = "semantic-layer/shop/_schema/main.yaml"


def table(ref: TableRef, *columns: str, keys: tuple[ForeignKey, ...] = ()) -> Table:
    made = tuple(Column(name, "INTEGER", SemanticType.NUMBER) for name in columns)
    return Table(ref, TableKind.TABLE, made, foreign_keys=keys)


TABLES = {ORDERS: table(ORDERS, "id", "customer_id"), CUSTOMERS: table(CUSTOMERS, "id")}
FOUND = Relationship(ORDERS, ("customer_id",), CUSTOMERS, ("id",), Status.ACCEPTED, 0.9, "every value is found")
OPEN = replace(FOUND, status=Status.REVIEW)
KEY = ForeignKey(("customer_id",), CUSTOMERS, ("id",), None)


def after(
    relationship: Relationship, stood: JoinStatus, *, tables: Any = TABLES, now: tuple[Relationship, ...] = ()
) -> tuple[Relationship, ...]:
    """Return what is gone when the record had this relationship and a scan finds `now`."""
    return with_gone(
        RelationshipRecord(relationships=now),
        RelationshipRecord(relationships=(relationship,)),
        tables,
        lambda _: stood,
    ).gone


@pytest.mark.table(
    ("tables", "reason"),
    [
        (TABLES, NOT_FOUND),
        ({ORDERS: TABLES[ORDERS]}, "table customers no longer exists"),
        ({CUSTOMERS: TABLES[CUSTOMERS]}, "table orders no longer exists"),
        ({**TABLES, ORDERS: table(ORDERS, "id")}, "column orders.customer_id no longer exists"),
        ({**TABLES, CUSTOMERS: table(CUSTOMERS, "key")}, "column customers.id no longer exists"),
    ],
)
def test_a_join_that_is_gone_says_why(tables: dict[TableRef, Table], reason: str) -> None:
    (gone,) = after(FOUND, JoinStatus.ACCEPTED, tables=tables)
    assert gone == replace(FOUND, status=Status.REJECTED, reason=reason)


@pytest.mark.table(
    ("relationship", "stood", "kept"),
    [
        (FOUND, JoinStatus.ACCEPTED, True),
        (OPEN, JoinStatus.MANUAL, True),
        (OPEN, JoinStatus.DISABLED, True),
        (OPEN, JoinStatus.REVIEW, False),
        (replace(FOUND, status=Status.REJECTED), JoinStatus.REJECTED, False),
    ],
)
def test_joins_and_decisions_are_kept_and_guesses_are_not(
    relationship: Relationship, stood: JoinStatus, kept: bool
) -> None:
    assert bool(after(relationship, stood)) is kept


def test_what_is_found_again_is_not_gone() -> None:
    assert after(FOUND, JoinStatus.ACCEPTED, now=(OPEN,)) == ()


def test_a_join_that_scores_too_low_for_a_line_keeps_its_line_and_the_new_reason() -> None:
    low = replace(FOUND, status=Status.REJECTED, probability=LEAST_PROBABILITY / 2, reason="3 % of rows are found")
    (gone,) = after(FOUND, JoinStatus.ACCEPTED, now=(low,))
    assert gone.reason == "3 % of rows are found"


def test_a_join_that_a_key_declares_now_is_not_gone_but_a_persons_no_stays() -> None:
    tables = {**TABLES, ORDERS: table(ORDERS, "id", "customer_id", keys=(KEY,))}
    assert after(FOUND, JoinStatus.ACCEPTED, tables=tables) == ()
    (gone,) = after(FOUND, JoinStatus.DISABLED, tables=tables)
    assert gone.reason == DECLARED


def test_a_reason_stays_while_it_is_true() -> None:
    def again(reason: str, tables: Any) -> str:
        record = RelationshipRecord(gone=(replace(FOUND, status=Status.REJECTED, reason=reason),))
        return with_gone(RelationshipRecord(), record, tables, lambda _: JoinStatus.REJECTED).gone[0].reason

    assert again("3 % of rows are found", TABLES) == "3 % of rows are found"
    assert again("table customers no longer exists", {ORDERS: TABLES[ORDERS]}) == "table customers no longer exists"
    assert again("table customers no longer exists", TABLES) == NOT_FOUND
    assert again("table customers is gone", TABLES) == NOT_FOUND, "as older versions of ktx wrote it"
    assert again("a foreign key declares it now", TABLES) == NOT_FOUND


def test_a_record_keeps_a_bounded_number_and_every_decision() -> None:
    many = tuple(replace(FOUND, child_columns=(f"c{n}",), status=Status.REJECTED) for n in range(MOST_GONE + 5))
    decided = many[:2]
    stood = {each: JoinStatus.DISABLED if each in decided else JoinStatus.REJECTED for each in many}
    gone = with_gone(
        RelationshipRecord(), RelationshipRecord(gone=many), {}, lambda relationship: stood[relationship]
    ).gone
    assert [each.child_columns for each in gone] == [each.child_columns for each in (*decided, *many[7:])]


def test_the_record_keeps_what_is_gone_through_scans_that_say_nothing_of_it() -> None:
    gone = replace(FOUND, status=Status.REJECTED, reason=NOT_FOUND, sources=("model",))
    known = RelationshipRecord(gone=(gone,))
    assert read_record(record_text(known), "there") == known
    assert b'"gone"' not in record_text(RelationshipRecord(relationships=(FOUND,)))
    assert steadied(RelationshipRecord(), known, ()).gone == (gone,)
    assert restricted(known, {}).gone == (gone,)
    assert [hint.child for hint in recorded_hints(known)] == [ORDERS], "the model is not asked twice"


def shards(*joins: dict[str, str]) -> dict[str, Shard]:
    entries = {"orders": {"table": "orders", "joins": list(joins)}, "customers": {"table": "customers"}}
    return {WHERE: Shard({"tables": entries})}


def joined(source: str, on: str = "customer_id = customers.id") -> dict[str, str]:
    return {"to": "customers", "on": on, "relationship": "many_to_one", "source": source}


def reviewed(
    known: RelationshipRecord, files: dict[str, Shard], tables: Any = TABLES
) -> tuple[ReviewedRelationship, ...]:
    return StatusResolver("shop", files, AuthoredSources("shop", {}, {}), tables).resolve_record(known)


GONE = RelationshipRecord(gone=(replace(FOUND, status=Status.REJECTED, reason=NOT_FOUND),))
BARE = {**TABLES, ORDERS: table(ORDERS, "id")}


@pytest.mark.table(
    ("files", "tables", "standing"),
    [
        (shards(), TABLES, JoinStatus.REJECTED),
        (shards(joined("manual")), TABLES, JoinStatus.MANUAL),
        (shards(joined("manual")), BARE, JoinStatus.REVIEW),
        (shards(joined("manual")), {}, JoinStatus.MANUAL),
    ],
)
def test_what_holds_for_a_join_that_is_gone(files: dict[str, Shard], tables: Any, standing: JoinStatus) -> None:
    (relationship,) = reviewed(GONE, files, tables)
    assert (relationship.status, relationship.gone, relationship.missing is not None) == (
        standing,
        True,
        standing is JoinStatus.REVIEW,
    )


@pytest.mark.table(
    ("source", "now", "left", "reason"),
    [
        ("inferred", RelationshipRecord(relationships=(OPEN,)), shards(), "now review: every value is found"),
        ("inferred", GONE, shards(), NOT_FOUND),
        ("inferred", RelationshipRecord(), shards(), NOT_FOUND),
        ("inferred", RelationshipRecord(relationships=(FOUND,)), shards(joined("inferred")), None),
        ("manual", GONE, shards(joined("manual")), None),
        ("manual", RelationshipRecord(relationships=(OPEN,)), shards(joined("manual")), None),
    ],
)
def test_a_run_names_the_joins_that_stand_no_more(
    source: str, now: RelationshipRecord, left: dict[str, Shard], reason: str | None
) -> None:
    before = shards(joined(source))
    stood = reviewed(RelationshipRecord(relationships=(FOUND,)), before)
    found = gone_joins(stood, reviewed(now, left), TABLES, before, ())
    assert [(each.name, each.reason, each.shard) for each in found] == (
        [] if reason is None else [("orders.customer_id->customers.id", reason, WHERE)]
    )


def test_a_join_written_by_hand_is_named_when_its_table_goes() -> None:
    before = shards(
        joined("manual", "region = customers.region"), joined("formal"), joined("inferred", "a = customers.a")
    )
    (gone,) = gone_joins((), (), TABLES, before, ("customers",))
    assert (gone.name, gone.reason) == (
        "orders to customers on region = customers.region", "table customers no longer exists",
    )  # fmt: skip
    assert gone_joins((), (), TABLES, before, ()) == ()


def test_nothing_is_said_of_a_file_that_was_held_back() -> None:
    before = shards(joined("inferred"))
    gone = gone_joins(reviewed(RelationshipRecord(relationships=(FOUND,)), before), (), TABLES, before, ())
    assert gone_warnings("shop", gone, {WHERE}) == []
    (warning,) = gone_warnings("shop", gone, ())
    assert warning.message == "connection `shop`: 1 join removed since the last scan"
    assert warning.hint == "ktx scan relationships shop --status all"


OWNER = replace(FOUND, condition=("kind", "customer"))


def test_a_reference_goes_with_the_column_it_depends_on() -> None:
    whole = {**TABLES, ORDERS: table(ORDERS, "id", "customer_id", "kind")}
    assert restricted(RelationshipRecord(relationships=(OWNER,)), whole).relationships == (OWNER,)
    assert restricted(RelationshipRecord(relationships=(OWNER,)), TABLES).relationships == ()
    (gone,) = after(OWNER, JoinStatus.MANUAL)
    assert gone.reason == "column orders.kind no longer exists"


@pytest.mark.table("missing", [{ORDERS: TABLES[ORDERS]}, BARE])
def test_a_persons_yes_waits_for_what_is_missing(missing: Any) -> None:
    known = with_gone(
        RelationshipRecord(), RelationshipRecord(relationships=(FOUND,)), missing, lambda _: JoinStatus.MANUAL
    )
    assert known.waiting == {FOUND.id}
    assert read_record(record_text(known), "there") == known
    assert steadied(RelationshipRecord(), known, ()).waiting == restricted(known, {}).waiting == known.waiting
    (relationship,) = reviewed(known, shards(), missing)
    assert (relationship.status, relationship.missing is not None) == (JoinStatus.REVIEW, True)

    again = with_gone(RelationshipRecord(), known, missing, lambda _: JoinStatus.REVIEW)
    assert (again, returned_relationships(again, known, missing, lambda _: JoinStatus.REVIEW)) == (known, ())
    back = with_gone(RelationshipRecord(relationships=(OPEN,)), known, TABLES, lambda _: JoinStatus.REVIEW)
    assert back.waiting == frozenset()
    assert returned_relationships(back, known, TABLES, lambda _: JoinStatus.REVIEW) == (OPEN,)


def test_a_no_meanwhile_ends_the_waiting() -> None:
    known = with_gone(
        RelationshipRecord(), RelationshipRecord(relationships=(FOUND,)), BARE, lambda _: JoinStatus.MANUAL
    )
    later = with_gone(RelationshipRecord(), known, BARE, lambda _: JoinStatus.DISABLED)
    assert (later.waiting, len(later.gone)) == (frozenset(), 1)
    assert returned_relationships(later, known, TABLES, lambda _: JoinStatus.DISABLED) == ()


def test_what_the_scan_accepted_does_not_wait() -> None:
    known = with_gone(
        RelationshipRecord(), RelationshipRecord(relationships=(FOUND,)), BARE, lambda _: JoinStatus.ACCEPTED
    )
    assert (known.waiting, len(known.gone)) == (frozenset(), 1)


@pytest.mark.table(
    ("before", "now", "kept"),
    [
        ("found but 0 (1,000 rows)", "found but 0 (1,005 rows)", True),
        ("found but 0 (1,000 rows)", "found but 0 (1,500 rows)", False),
        ("found but 0 (1,000 rows)", "found but -1 (1,000 rows)", False),
        ("found but 0 (1 row)", "found but 0 (2 rows)", False),
    ],
)
def test_a_line_stays_where_hardly_a_row_changed(before: str, now: str, kept: bool) -> None:
    old, new = (RelationshipRecord(relationships=(replace(FOUND, reason=reason),)) for reason in (before, now))
    assert (steadied(new, old, ()).relationships == old.relationships) is kept
