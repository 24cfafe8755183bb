from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.scan.shards import entries, has_text, keep_entry
from ktx_cli.warehouses import Column, SemanticType, Table, TableKind, TableRef


def entry(**fields: Any) -> dict[str, Any]:
    return {"table": "shop.orders", "columns": [{"name": "id", "type": "number"}], **fields}


def keep(old: Any, current: Any, new: Any, joinable: bool = True) -> dict[str, Any]:
    return keep_entry(old, current, new, joinable=lambda name: joinable)


FORMAL = {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one", "source": "formal"}
MANUAL = {"to": "stores", "on": "store_id = stores.id", "relationship": "many_to_one", "source": "manual"}


@pytest.mark.table(
    ("old", "current", "new", "kept"),
    [
        ({"db": "a"}, {"db": "a"}, {"db": "b"}, {"db": "b"}),
        ({"db": "a"}, {"db": "mine"}, {"db": "b"}, {"db": "mine"}),
        ({"db": "a"}, {"db": "a", "user": "u", "ai": "x", "dbt": "d"}, None, {"user": "u", "ai": "x", "dbt": "d"}),
        (None, {"user": "u"}, {"db": "b"}, {"db": "b", "user": "u"}),
        ({"db": "a"}, {}, {"db": "a"}, {}),
    ],
)
def test_descriptions(old: Any, current: Any, new: Any, kept: Any) -> None:
    made = keep(*(entry(**({"descriptions": d} if d is not None else {})) for d in (old, current, new)))
    assert made.get("descriptions", {}) == kept


def test_without_a_record_the_database_owns_its_keys_and_the_rest_is_kept() -> None:
    current = entry(
        descriptions={"db": "stale", "user": "mine"},
        usage={"frequencyTier": "high"},
        joins=[FORMAL, MANUAL],
        columns=[
            {"name": "id", "type": "string", "enum_values": {"dbt": ["a"]}},
            {"name": "gone", "type": "string", "descriptions": {"ai": "x"}},
        ],
    )
    made = keep(None, current, entry(descriptions={"db": "fresh"}))
    assert made["descriptions"] == {"db": "fresh", "user": "mine"}
    assert made["usage"] == {"frequencyTier": "high"}
    assert made["columns"] == [{"name": "id", "type": "number", "enum_values": {"dbt": ["a"]}}]
    assert made["joins"] == [MANUAL]


def test_columns_follow_the_database_and_keep_what_people_said() -> None:
    old = entry(columns=[{"name": "a", "type": "number"}, {"name": "b", "type": "number"}])
    current = entry(
        columns=[{"name": "a", "type": "string", "descriptions": {"user": "code"}}, {"name": "b", "type": "number"}]
    )
    new = entry(columns=[{"name": "c", "type": "time"}, {"name": "a", "type": "number", "nullable": False}])
    assert keep(old, current, new)["columns"] == [
        {"name": "c", "type": "time"},
        {"name": "a", "type": "string", "nullable": False, "descriptions": {"user": "code"}},
    ]


@pytest.mark.table(
    ("old", "current", "new", "kept"),
    [
        ([FORMAL], [FORMAL, MANUAL], [FORMAL], [FORMAL, MANUAL]),
        ([FORMAL], [FORMAL], [], []),
        ([FORMAL], [], [FORMAL], []),
        ([], [MANUAL], [FORMAL], [FORMAL, MANUAL]),
        ([FORMAL], [{**FORMAL, "relationship": "one_to_one"}], [FORMAL], [{**FORMAL, "relationship": "one_to_one"}]),
    ],
)
def test_joins(old: Any, current: Any, new: Any, kept: Any) -> None:
    assert keep(entry(joins=old), entry(joins=current), entry(joins=new)).get("joins", []) == kept


def test_a_manual_join_to_a_source_that_is_gone_goes() -> None:
    assert "joins" not in keep(entry(), entry(joins=[MANUAL]), entry(), joinable=False)


@pytest.mark.table(
    ("current", "new", "kept"),
    [
        ({"ai": "theirs"}, {"ai": "ours"}, {"ai": "ours"}),
        ({"ai": "theirs"}, None, {"ai": "theirs"}),
        ({"ai": "theirs", "ktx": "rule"}, {"ai": "ours"}, {"ai": "ours", "ktx": "rule"}),
        ({"ai": "theirs", "user": "mine", "db": "stale"}, {"ai": "ours"}, {"ai": "ours", "user": "mine"}),
    ],
)
def test_without_a_record_texts_of_scans_stay_until_there_are_new_ones(current: Any, new: Any, kept: Any) -> None:
    def described(texts: Any) -> dict[str, Any]:
        texts = {} if texts is None else {"descriptions": texts}
        return entry(columns=[{"name": "id", "type": "number", **texts}], **texts)

    made = keep(None, described(current), described(new))
    assert made["descriptions"] == kept
    assert made["columns"][0]["descriptions"] == kept


@pytest.mark.table(
    ("old", "texts", "expected"),
    [
        (None, {"ai": "a", "ktx": "b", "db": "c"}, False),
        (None, {"ai": "a", "user": "b"}, True),
        ({"ai": "a"}, {"ai": "a"}, False),
        ({"ai": "a"}, {"ai": "b"}, True),
        ({}, {}, False),
    ],
)
def test_what_people_wrote_is_told_from_what_scans_did(old: Any, texts: Any, expected: bool) -> None:
    before = None if old is None else entry(descriptions=old)
    assert has_text(before, entry(descriptions=texts)) is expected


COUNT = {"name": "order_count", "expr": "count(*)", "status": "proposed"}
TOTAL = {"name": "total", "expr": "sum(amount)", "status": "proposed"}


@pytest.mark.table(
    ("old", "current", "new", "kept"),
    [
        ([], [], [COUNT], [COUNT]),
        ([COUNT], [COUNT], [COUNT, TOTAL], [COUNT, TOTAL]),
        ([COUNT, TOTAL], [COUNT, TOTAL], [COUNT], [COUNT]),
        ([COUNT, TOTAL], [TOTAL], [COUNT, TOTAL], [TOTAL]),
        ([COUNT], [{**COUNT, "status": "accepted"}], [COUNT], [{**COUNT, "status": "accepted"}]),
        ([COUNT], [{**COUNT, "status": "accepted"}], [], [{**COUNT, "status": "accepted"}]),
        ([COUNT], [COUNT], [{**COUNT, "reason": "x"}], [{**COUNT, "reason": "x"}]),
    ],
)
def test_proposed_measures_are_merged_by_name(old: Any, current: Any, new: Any, kept: Any) -> None:
    made = keep(*(entry(**({"proposed_measures": each} if each else {})) for each in (old, current, new)))
    assert made.get("proposed_measures", []) == kept


def test_values_of_types_and_constraints_stand_beside_those_of_other_tools() -> None:
    ref = TableRef(None, "orders")
    columns = (
        Column("status", "text", SemanticType.STRING, values=("open", "paid")),
        Column("kind", "ENUM('web', 'shop')", SemanticType.STRING),
        Column("note", "text", SemanticType.STRING),
    )
    new = entries([Table(ref, TableKind.TABLE, columns)], {ref: "orders"})[ref]
    assert [column.get("enum_values") for column in new["columns"]] == [
        {"db": ["open", "paid"]}, {"db": ["web", "shop"]}, None,
    ]  # fmt: skip
    current = {**new, "columns": [{**new["columns"][0], "enum_values": {"db": ["open"], "dbt": ["open", "lost"]}}]}
    for old in (None, {**new, "columns": [{**new["columns"][0], "enum_values": {"db": ["open"]}}]}):
        kept = keep_entry(old, current, new, joinable=lambda name: True)
        assert kept["columns"][0]["enum_values"] == {"db": ["open", "paid"], "dbt": ["open", "lost"]}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.table(
    ("current", "kept"),
    [({}, {"natural_granularity": "day"}), ({"natural_granularity": "second"}, {"natural_granularity": "second"})],
)
def test_what_a_type_implies_reaches_entries_of_older_scans(
    current: dict[str, str], kept: dict[str, str], recorded: bool
) -> None:
    name = {"name": "sold_on", "type": "time"}
    new = entry(columns=[{**name, "natural_granularity": "day"}])
    made = keep(new if recorded else None, entry(columns=[{**name, **current}]), new)
    assert made["columns"] == [{**name, **kept}]
