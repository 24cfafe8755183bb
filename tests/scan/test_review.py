"""What holds for the joins a scan found, and what people's decisions change in the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, KtxError
from ktx_cli.project.layout import Layout
from ktx_cli.scan.relationships.record import (
    Cardinality,
    Relationship,
    RelationshipRecord,
    Status,
    record_text,
    relationship_name,
)
from ktx_cli.scan.review import (
    OTHER_WAY,
    AuthoredSources,
    Decision,
    JoinStatus,
    Opposite,
    RelationshipReview,
    ReviewDraft,
    ReviewedRelationship,
    StatusResolver,
    read_review,
    relationships_named,
)
from ktx_cli.scan.shards import WrittenShards
from ktx_cli.semantic.manifest import MANIFEST_HEADER, parse_shard, render_shard
from ktx_cli.semantic.store.layer import ParsedCopies
from ktx_cli.warehouses.port import Column, ForeignKey, SemanticType, Table, TableKind, TableRef

SHARD = "semantic-layer/shop/_schema/main.yaml"
RECORD = "raw-sources/shop/live-database/relationships.json"
ORDERS, CUSTOMERS = "semantic-layer/shop/orders.yaml", "semantic-layer/shop/customers.yaml"
FORWARD, BACKWARD = "customer_id = customers.id", "id = orders.customer_id"


def inferred(child: str, parent: str, status: Status = Status.ACCEPTED, **facts: Any) -> Relationship:
    """Return the relationship of `orders.customer_id`, `customers.id`; several columns are joined by `+`."""
    from_table, _, columns = child.partition(".")
    to_table, _, keys = parent.partition(".")
    return Relationship(
        TableRef(None, from_table), tuple(columns.split("+")), TableRef(None, to_table), tuple(keys.split("+")),
        status, facts.pop("probability", 0.9), "named after the table", **facts,
    )  # fmt: skip


SURE = inferred("orders.customer_id", "customers.id")
OPEN = inferred("shipments.order_id+line", "order_lines.order_id+line", Status.REVIEW, probability=0.6)
NO = inferred("orders.id", "customers.id", Status.REJECTED, probability=0.3)
SELF = inferred("customers.referred_by", "customers.id", Status.REVIEW)
NOTE = inferred("notes.owner_id", "orders.id", Status.REVIEW, condition=("owner_type", "order"))
RECORDED = (SURE, OPEN, NO, SELF, NOTE)


def join(to: str, on: str, source: str = "inferred", relationship: str = "many_to_one") -> dict[str, str]:
    return {"to": to, "on": on, "relationship": relationship, "source": source}


def shard(**joins: list[dict[str, str]]) -> bytes:
    tables = {}
    for name in ("customers", "notes", "order_lines", "orders", "shipments"):
        tables[name] = {"table": name, "descriptions": {"user": f"all {name}"}, "columns": [{"name": "id"}]}
        if name in joins:
            tables[name]["joins"] = joins[name]
    return render_shard({"tables": tables, "owner": "people"})


INFERRED = shard(orders=[join("customers", FORWARD)], customers=[join("orders", BACKWARD, relationship="one_to_many")])


class Files(dict[str, bytes]):
    """A tree in memory."""

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        return {path: self[path] for path in paths if path in self}

    def blobs(self, prefix: str) -> Mapping[str, str]:
        return {path: "" for path in self if path.startswith(f"{prefix}/")}


def tree(content: bytes = INFERRED, relationships: Iterable[Relationship] = RECORDED, **files: str) -> Files:
    """Return a scanned project; `files`: source -> text of its file."""
    own = {f"semantic-layer/shop/{name}.yaml": text.encode() for name, text in files.items()}
    return Files({SHARD: content, RECORD: record_text(RelationshipRecord({}, tuple(relationships))), **own})


def review_of(files: Files) -> RelationshipReview:
    found = read_review(files, "shop", ParsedCopies(Layout(Path("nowhere")), "shop"))
    assert found is not None
    return found


def named(word: str, review: RelationshipReview) -> ReviewedRelationship:
    (found,) = relationships_named(word, review.relationships)
    return found


def decide(files: Files, word: str, decision: Decision) -> dict[str, bytes | None]:
    """Make a decision in the tree and return what it changed."""
    review = review_of(files)
    draft = ReviewDraft(review)
    touched = draft.decide(named(word, review), decision)
    changes = draft.changes()
    assert touched == changes.keys()
    for path, content in changes.items():
        if content is None:
            del files[path]
        else:
            files[path] = content
    return changes


def accept(files: Files, word: str) -> dict[str, bytes | None]:
    return decide(files, word, Decision.ACCEPT)


def reject(files: Files, word: str) -> dict[str, bytes | None]:
    return decide(files, word, Decision.REJECT)


def joins_of(files: Files, source: str) -> list[dict[str, Any]]:
    joins: list[dict[str, Any]] = yaml.load(files[SHARD], where=SHARD)["tables"][source].get("joins", [])
    return joins


def standing(files: Files, word: str) -> str:
    return named(word, review_of(files)).status.value


NAMES = {
    "orders.customer_id->customers.id": SURE,
    "shipments.(order_id,line)->order_lines.(order_id,line)": OPEN,
    "customers.referred_by->customers.id": SELF,
    "notes.owner_id->orders.id when owner_type=order": NOTE,
    '"Order Lines"."order id"->orders.id': inferred("Order Lines.order id", "orders.id"),
    'notes.owner_id->orders.id when kind="an order"': replace(NOTE, condition=("kind", "an order")),
    "notes.owner_id->orders.id when kind=3": replace(NOTE, condition=("kind", 3)),
    'notes.owner_id->orders.id when kind="3"': replace(NOTE, condition=("kind", "3")),
}


@pytest.mark.table("name", NAMES)
def test_a_relationship_has_a_name(name: str) -> None:
    found = NAMES[name]
    assert relationship_name(found, {ref: ref.name for ref in (found.child, found.parent)}) == name


def test_the_name_is_made_of_source_names() -> None:
    assert (
        relationship_name(SURE, {SURE.child: "shop_orders", SURE.parent: "people"})
        == "shop_orders.customer_id->people.id"
    )


IDENTIFIERS = st.text(st.sampled_from('ab."(),->= '), min_size=1, max_size=4)
COLUMNS = st.lists(IDENTIFIERS, min_size=1, max_size=2).map(tuple)
ANY_EDGE = st.builds(
    Relationship,
    st.builds(TableRef, st.none(), IDENTIFIERS), COLUMNS, st.builds(TableRef, st.none(), IDENTIFIERS), COLUMNS,
    st.just(Status.REVIEW), st.just(0.5), st.just(""),
    condition=st.none() | st.tuples(IDENTIFIERS, IDENTIFIERS | st.integers(0, 3)),
)  # fmt: skip


@given(st.lists(ANY_EDGE, min_size=2, max_size=2, unique=True))
def test_two_relationships_never_share_a_name(relationships: list[Relationship]) -> None:
    names = {ref: ref.name for each in relationships for ref in (each.child, each.parent)}
    assert relationship_name(relationships[0], names) != relationship_name(relationships[1], names)


QUOTED = inferred("Order Lines.order id", "orders.id", Status.REVIEW)
OTHER_NOTE = replace(NOTE, parent=TableRef(None, "customers"), condition=("owner_type", "customer"))


@pytest.mark.table(
    ("word", "found"),
    [
        ("orders.customer_id->customers.id", [SURE]),
        (" orders.customer_id -> customers.id ", [SURE]),
        ("orders.customer_id", [SURE]),
        ("shipments.(order_id, line)", [OPEN]),
        ("notes.owner_id", [OTHER_NOTE, NOTE]),
        ("notes.owner_id->orders.id when owner_type=order", [NOTE]),
        ("notes.owner_id->orders.id", []),
        ('"orders"."customer_id"', [SURE]),
        ("Order Lines.order id", [QUOTED]),
        ('"Order Lines"."order id" -> orders.id', [QUOTED]),
        ("orders.customer", []),
        ("customers.id", []),
        ("", []),
    ],
)
def test_a_word_names_relationships(word: str, found: list[Relationship]) -> None:
    relationships = review_of(tree(relationships=(*RECORDED[:-1], OTHER_NOTE, NOTE, QUOTED))).relationships
    assert [each.relationship for each in relationships_named(word, relationships)] == found


STANDINGS = [
    (SURE, INFERRED, {}, "accepted"),
    (SURE, shard(orders=[join("customers", FORWARD, "manual")]), {}, "manual"),
    (SURE, shard(orders=[{"to": "customers", "on": FORWARD}]), {}, "manual"),
    (SURE, shard(orders=[join("customers", "customer_id  =\n customers.id", "manual")]), {}, "manual"),
    (SURE, shard(orders=[join("customers", FORWARD, "formal")]), {}, "accepted"),
    (SURE, INFERRED, {"orders": "name: orders\ndisable_joins: ['customer_id  = customers.id']\n"}, "disabled"),
    (SURE, INFERRED, {"any": f"name: orders\ndisable_joins:\n  - {FORWARD}\n"}, "disabled"),
    (SURE, INFERRED, {"orders": f"name: orders\ntable: orders\ndisable_joins:\n  - {FORWARD}\n"}, "accepted"),
    (SURE, INFERRED, {"orders": f"name: Orders\ndisable_joins:\n  - {FORWARD}\n"}, "accepted"),
    (SURE, INFERRED, {"orders": "name: orders\ndisable_joins: all\n"}, "accepted"),
    (SURE, shard(), {}, "disabled"),
    (SURE, shard(), {"orders": f"name: orders\njoins:\n  - {{to: customers, on: {FORWARD}}}\n"}, "manual"),
    (OPEN, INFERRED, {}, "review"),
    (NO, INFERRED, {}, "rejected"),
    (NO, shard(orders=[join("customers", "id = customers.id", "manual")]), {}, "manual"),
    (OPEN, Files(), {}, "review"),
]


@pytest.mark.table(("found", "content", "files", "expected"), STANDINGS)
def test_what_holds_for_a_relationship(found: Relationship, content: Any, files: dict[str, str], expected: str) -> None:
    project = tree(content or b"", (found,), **files)
    if not content:
        del project[SHARD]
    (relationship,) = review_of(project).relationships
    assert relationship.status.value == expected


def test_nothing_is_known_where_no_rows_were_looked_at() -> None:
    files = tree()
    del files[RECORD]
    assert read_review(files, "shop", ParsedCopies(Layout(Path("nowhere")), "shop")) is None


def test_a_damaged_record_is_an_error_with_a_way_out() -> None:
    with pytest.raises(KtxError, match=r"relationships\.json is damaged") as raised:
        review_of(Files({**tree(), RECORD: b"{"}))
    assert raised.value.hint is not None


def test_a_broken_source_file_is_a_warning() -> None:
    (warning,) = review_of(tree(customers="name: [")).warnings
    assert (warning.code, warning.details["path"]) == ("broken_source", CUSTOMERS)


def test_a_sure_join_becomes_a_persons_on_both_tables_and_all_else_stays() -> None:
    files = tree()
    before = yaml.load(files[SHARD], where=SHARD)
    assert accept(files, "orders.customer_id").keys() == {SHARD}
    assert joins_of(files, "orders") == [join("customers", FORWARD, "manual")]
    assert joins_of(files, "customers") == [join("orders", BACKWARD, "manual", "one_to_many")]
    after = yaml.load(files[SHARD], where=SHARD)
    for source in before["tables"].values(), after["tables"].values():
        for entry in source:
            entry.pop("joins", None)
    assert after == before
    assert files[SHARD].decode().startswith(MANIFEST_HEADER)
    assert standing(files, "orders.customer_id") == "manual"


@pytest.mark.table(
    ("word", "joins"),
    [
        (
            "shipments.(order_id,line)",
            {
                "shipments": ("order_lines", "order_id = order_lines.order_id AND line = order_lines.line"),
                "order_lines": ("shipments", "order_id = shipments.order_id AND line = shipments.line"),
            },
        ),
        ("customers.referred_by", {"customers": ("customers", "referred_by = customers.id")}),
        (
            "notes.owner_id->orders.id when owner_type=order",
            {
                "notes": ("orders", "owner_id = orders.id AND owner_type = 'order'"),
                "orders": ("notes", "id = notes.owner_id AND notes.owner_type = 'order'"),
            },
        ),
    ],
)
def test_an_open_relationship_becomes_a_persons_join(word: str, joins: dict[str, tuple[str, str]]) -> None:
    files = tree()
    accept(files, word)
    for source, (to, on) in joins.items():
        made = [(each["to"], each["on"]) for each in joins_of(files, source) if each["source"] == "manual"]
        assert made == [(to, on)]
    assert standing(files, word) == "manual"


def test_a_relationship_a_person_corrected_stays() -> None:
    files = tree(shard(orders=[join("customers", FORWARD, relationship="one_to_one")]))
    accept(files, "orders.customer_id")
    assert joins_of(files, "orders") == [join("customers", FORWARD, "manual", "one_to_one")]


def test_a_declared_join_needs_no_acceptance() -> None:
    formal = [join("customers", FORWARD, "formal")]
    files = tree(shard(orders=formal, customers=[join("orders", BACKWARD, "formal", "one_to_many")]))
    assert accept(files, "orders.customer_id") == {}


def test_a_rejected_join_is_disabled_by_new_overlays_and_stays_in_the_manifest() -> None:
    files = tree()
    assert reject(files, "orders.customer_id").keys() == {ORDERS, CUSTOMERS}
    assert files[ORDERS].decode() == f"name: orders\ndisable_joins:\n  - {FORWARD}\n"
    assert files[CUSTOMERS].decode() == f"name: customers\ndisable_joins:\n  - {BACKWARD}\n"
    assert files[SHARD] == INFERRED
    assert standing(files, "orders.customer_id") == "disabled"


OVERLAY = """\
# what we know of orders
name: orders   # mine
measures:
  - {name: count, expr: count(*)}
disable_joins:  # wrong ones
  - id = old.id # since 2019
"""


def test_an_overlay_keeps_its_comments_and_everything_else() -> None:
    files = tree(orders=OVERLAY)
    reject(files, "orders.customer_id")
    assert files[ORDERS].decode() == OVERLAY + f"  - {FORWARD}\n"
    accept(files, "orders.customer_id")
    assert files[ORDERS].decode() == OVERLAY


def test_an_overlay_is_found_by_the_name_in_it() -> None:
    files = tree(anything="name: orders\n")
    reject(files, "orders.customer_id")
    assert ORDERS not in files
    assert FORWARD in files["semantic-layer/shop/anything.yaml"].decode()


def test_an_unsafe_source_name_gets_a_safe_file_name() -> None:
    found = inferred("orders.customer_id", "Key Customers.id")
    files = tree(relationships=(found,))
    changes = reject(files, "orders.customer_id")
    (path,) = changes.keys() - {ORDERS}
    assert path.startswith("semantic-layer/shop/key_customers-") and path.endswith(".yaml")
    assert yaml.load(files[path], where=path)["name"] == "Key Customers"


@pytest.mark.table(
    ("files", "path"),
    [
        ({"orders": "name: orders\nsql: select 1\n"}, ORDERS),
        ({"orders": "name: orders\n", "more": "name: orders\n"}, "semantic-layer/shop/more.yaml"),
        ({"orders": "name: another\n"}, ORDERS),
        ({"orders": "name: ["}, ORDERS),
        ({"orders": "name: orders\ndisable_joins: none\n"}, ORDERS),
    ],
)
def test_a_file_that_leaves_no_place_for_a_rejection_is_named(files: dict[str, str], path: str) -> None:
    project = tree(**files)
    with pytest.raises(ConfigError) as raised:
        reject(project, "orders.customer_id")
    assert path in raised.value.message
    assert raised.value.hint


def test_a_table_outside_of_the_manifest_cannot_be_joined() -> None:
    found = inferred("orders.customer_id", "gone.id", Status.REVIEW)
    with pytest.raises(ConfigError, match="`gone` has no entry") as raised:
        accept(tree(relationships=(found,)), "orders.customer_id")
    assert raised.value.hint == "ktx scan shop"


def test_accepting_what_was_rejected_leaves_no_trace_of_the_rejection() -> None:
    files = tree()
    reject(files, "orders.customer_id")
    accept(files, "orders.customer_id")
    assert files.keys() == tree().keys()
    assert standing(files, "orders.customer_id") == "manual"


def test_rejecting_what_was_accepted_gives_the_join_back_to_the_scan() -> None:
    files = tree()
    accept(files, "orders.customer_id")
    reject(files, "orders.customer_id")
    assert files[SHARD] == INFERRED
    accept(files, "shipments.(order_id,line)")
    reject(files, "shipments.(order_id,line)")
    assert files[SHARD] == INFERRED
    assert standing(files, "shipments.(order_id,line)") == "disabled"


def test_a_join_that_an_overlay_makes_goes_with_its_rejection() -> None:
    own = f"name: orders\njoins:\n  - {{to: customers, on: {FORWARD}}} # mine\n  - {{to: other, on: a = other.a}}\n"
    files = tree(shard(), orders=own)
    assert accept(files, "orders.customer_id").keys() == {SHARD}, "the other direction alone is written"
    assert joins_of(files, "orders") == []
    reject(files, "orders.customer_id")
    said = yaml.load(files[ORDERS], where=ORDERS)
    assert said == {"name": "orders", "joins": [{"to": "other", "on": "a = other.a"}], "disable_joins": [FORWARD]}


def test_a_join_taken_out_by_hand_can_be_accepted_again() -> None:
    files = tree(shard())
    accept(files, "orders.customer_id")
    assert standing(files, "orders.customer_id") == "manual"


@given(st.lists(st.tuples(st.sampled_from(RECORDED), st.sampled_from(Decision)), min_size=1, max_size=6))
def test_the_last_word_on_each_relationship_holds_and_saying_it_again_changes_nothing(
    words: list[tuple[Relationship, Decision]],
) -> None:
    files = tree(orders=OVERLAY)
    names = {each.relationship: each.name for each in review_of(files).relationships}
    said = {}
    for found, decision in words:
        key = next(name for relationship, name in names.items() if relationship == found)
        decide(files, key, decision)
        said[key] = decision
        assert decide(files, key, decision) == {}
    for each in review_of(files).relationships:
        before = next(e.status for e in review_of(tree(orders=OVERLAY)).relationships if e.name == each.name)
        wanted = {Decision.ACCEPT: "manual", Decision.REJECT: "disabled"}
        assert each.status.value == (wanted[said[each.name]] if each.name in said else before.value)
    assert files[ORDERS].decode().startswith(OVERLAY.partition("disable_joins")[0])


def test_tables_of_two_schemas_stand_in_two_shards() -> None:
    child, parent = TableRef("sales", "orders"), TableRef("crm", "customers")
    shards = {
        "semantic-layer/shop/_schema/sales.yaml": {"orders": {"table": "sales.orders", "columns": []}},
        "semantic-layer/shop/_schema/crm.yaml": {"people": {"table": "crm.customers", "columns": []}},
    }
    files = Files({path: render_shard({"tables": tables}) for path, tables in shards.items()})
    found = Relationship(child, ("customer_id",), parent, ("id",), Status.REVIEW, 0.6, "")
    files[RECORD] = record_text(RelationshipRecord({}, (found,)))
    assert accept(files, "orders.customer_id->people.id").keys() == shards.keys()
    sales, crm = (yaml.load(files[path], where=path)["tables"] for path in shards)
    assert sales["orders"]["joins"] == [join("people", "customer_id = people.id", "manual")]
    assert crm["people"]["joins"] == [join("orders", "id = orders.customer_id", "manual", "one_to_many")]
    (relationship,) = review_of(files).relationships
    assert relationship.tables == {"orders", "people", "sales.orders", "crm.customers"}


def test_one_draft_takes_many_decisions() -> None:
    files = tree()
    review = review_of(files)
    draft = ReviewDraft(review)
    for word in ("orders.customer_id", "notes.owner_id", "shipments.(order_id,line)"):
        draft.decide(named(word, review), Decision.ACCEPT)
    draft.decide(named("customers.referred_by", review), Decision.REJECT)
    draft.decide(named("orders.id", review), Decision.REJECT)
    changes = draft.changes()
    assert changes.keys() == {SHARD, ORDERS, CUSTOMERS}
    content = changes[SHARD]
    assert content is not None and content.count(b"source: manual") == 6
    assert yaml.load(changes[CUSTOMERS] or b"", where=CUSTOMERS)["disable_joins"] == [
        "referred_by = customers.id", "id = orders.id",
    ]  # fmt: skip
    assert draft.shards()[SHARD].document == yaml.load(content, where=SHARD)
    assert files[SHARD] == INFERRED, "nothing is written"


def test_comments_that_go_with_a_shard_written_anew_are_known() -> None:
    files = tree(INFERRED + b"# a thought\n")
    review = review_of(files)
    draft = ReviewDraft(review)
    draft.decide(named("orders.customer_id", review), Decision.ACCEPT)
    assert draft.removed_texts(files).comments == (SHARD,)
    assert draft.removed_texts(tree()).comments == ()


MIRROR = replace(SURE, child=SURE.parent, child_columns=SURE.parent_columns, parent=SURE.child,
                 parent_columns=SURE.child_columns, status=Status.REJECTED, probability=0.8, reason="it leads back",
                 cardinality=Cardinality.ONE_TO_ONE)  # fmt: skip
THERE, BACK = "orders.customer_id->customers.id", "customers.id->orders.customer_id"
WAITS = replace(MIRROR, status=Status.REVIEW)
ASKED = replace(SURE, status=Status.REVIEW)
ONE, OTHER = (replace(each, cardinality=Cardinality.ONE_TO_ONE) for each in (SURE, WAITS))
ONES = shard(
    orders=[join("customers", FORWARD, relationship="one_to_one")],
    customers=[join("orders", BACKWARD, relationship="one_to_one")],
)


@pytest.mark.table(
    ("relationships", "content", "expected"),
    [
        ((SURE, MIRROR), INFERRED, ("accepted", "rejected")),
        ((MIRROR, SURE), INFERRED, ("accepted", "rejected")),
        ((SURE, WAITS), INFERRED, ("accepted", "rejected")),
        ((ONE, OTHER), ONES, ("accepted", "rejected")),
        ((ASKED, WAITS), shard(), ("review", "review")),
        ((ASKED, MIRROR), shard(), ("review", "rejected")),
    ],
)
def test_a_join_is_of_one_relationship_and_not_of_its_opposite(
    relationships: tuple[Relationship, ...], content: bytes, expected: tuple[str, str]
) -> None:
    files = tree(content, relationships)
    assert (standing(files, THERE), standing(files, BACK)) == expected


def test_an_opposite_keeps_its_reason_or_says_that_the_join_stands() -> None:
    assert named(BACK, review_of(tree(INFERRED, (SURE, MIRROR)))).relationship.reason == "it leads back"
    assert named(BACK, review_of(tree(INFERRED, (SURE, WAITS)))).relationship.reason == OTHER_WAY


@pytest.mark.table("decision", list(Decision))
def test_a_decision_on_the_opposite_of_a_join_changes_nothing(decision: Decision) -> None:
    files = tree(INFERRED, (SURE, MIRROR))
    assert decide(files, BACK, decision) == {}
    assert standing(files, THERE) == "accepted"


@pytest.mark.table("decision", list(Decision))
def test_the_opposite_of_a_declared_join_is_never_that_join(decision: Decision) -> None:
    key = ForeignKey(SURE.child_columns, SURE.parent, SURE.parent_columns, None)
    number = Column("id", "INTEGER", SemanticType.NUMBER)
    orders = Table(SURE.child, TableKind.TABLE, (replace(number, name="customer_id"),), foreign_keys=(key,))
    tables = {SURE.child: orders, SURE.parent: Table(SURE.parent, TableKind.TABLE, (number,))}
    shards = {SHARD: parse_shard(INFERRED.replace(b"inferred", b"formal"), SHARD)}
    (found,) = StatusResolver("shop", shards, AuthoredSources("shop", {}, {}), tables).resolve([WAITS])
    assert (found.status.value, found.opposite) == ("rejected", Opposite(THERE, JoinStatus.DECLARED))
    draft = ReviewDraft(RelationshipReview("shop", (found,), WrittenShards.of(shards), AuthoredSources("shop", {}, {})))
    assert (draft.decide(found, decision), draft.changes()) == (frozenset(), {})


def test_a_no_to_one_of_two_directions_leaves_the_other_open() -> None:
    files = tree(shard(), (ASKED, WAITS))
    reject(files, BACK)
    assert (standing(files, THERE), standing(files, BACK)) == ("review", "disabled")
    accept(files, THERE)
    assert (standing(files, THERE), standing(files, BACK)) == ("manual", "rejected")


def test_the_other_direction_can_be_taken_after_a_no() -> None:
    files = tree(INFERRED, (SURE, replace(MIRROR, cardinality=Cardinality.MANY_TO_ONE)))
    reject(files, THERE)
    assert (standing(files, THERE), standing(files, BACK)) == ("disabled", "rejected")
    accept(files, BACK)
    assert (standing(files, THERE), standing(files, BACK)) == ("rejected", "manual")
    assert joins_of(files, "orders") == [join("customers", FORWARD, "manual", "one_to_many")]


def test_a_reason_says_where_a_person_decided_otherwise() -> None:
    files = tree(INFERRED, (SURE, OPEN))
    reject(files, THERE)
    accept(files, "shipments.(order_id,line)")
    said = {each.name: each.relationship.reason for each in review_of(files).relationships}
    assert said[THERE] == "rejected by a person; evidence of the scan: named after the table"
    assert said["shipments.(order_id,line)->order_lines.(order_id,line)"].startswith(
        "accepted by a person; evidence of the scan: "
    )


CHILD, PARENT = "semantic-layer/shop/_schema/main/orders.yaml", "semantic-layer/shop/_schema/main/customers.yaml"


def table_files(*, source: str | None = "inferred") -> Files:
    """Return a scanned project with a file for each table: the join is in that of the orders alone."""
    entries = yaml.load(INFERRED, where=SHARD)["tables"]
    joins = [] if source is None else [join("customers", FORWARD, source)]
    files = tree()
    del files[SHARD]
    for path, name, made in ((CHILD, "orders", joins), (PARENT, "customers", [])):
        entry = {key: value for key, value in entries[name].items() if key != "joins"}
        files[path] = render_shard({"tables": {name: {**entry, **({"joins": made} if made else {})}}})
    return files


@pytest.mark.table(("source", "expected"), [("inferred", "accepted"), ("manual", "manual"), (None, "disabled")])
def test_the_one_place_of_a_join_tells_its_status(source: str | None, expected: str) -> None:
    assert standing(table_files(source=source), THERE) == expected


@pytest.mark.table("source", ["inferred", None])
def test_an_accepted_join_is_written_once_in_a_file_for_one_table(source: str | None) -> None:
    files = table_files(source=source)
    changes = accept(files, THERE)
    assert list(changes) == [CHILD]
    entry = yaml.load(files[CHILD], where=CHILD)["tables"]["orders"]
    assert entry["joins"] == [join("customers", FORWARD, "manual")]
    assert entry["descriptions"] == {"user": "all orders"}
    assert standing(files, THERE) == "manual"


def test_a_rejected_join_is_disabled_on_both_tables_and_may_come_back() -> None:
    files = table_files(source="manual")
    assert set(reject(files, THERE)) == {CHILD, ORDERS, CUSTOMERS}
    assert standing(files, THERE) == "disabled"
    assert set(accept(files, THERE)) == {CHILD, ORDERS, CUSTOMERS}
    assert standing(files, THERE) == "manual"
    assert files[PARENT] == table_files()[PARENT]


def test_a_join_that_stands_on_the_other_table_is_accepted_there() -> None:
    files = table_files(source=None)
    document = yaml.load(files[PARENT], where=PARENT)
    document["tables"]["customers"]["joins"] = [join("orders", BACKWARD, relationship="one_to_many")]
    files[PARENT] = render_shard(document)
    assert standing(files, THERE) == "accepted"
    assert list(accept(files, THERE)) == [PARENT]
    assert standing(files, THERE) == "manual"
