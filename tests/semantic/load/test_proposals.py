"""Proposed measures and segments of the manifest: below what people and their tools define."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.semantic.answer import compile_query, receipt
from ktx_cli.semantic.model import Status
from ktx_cli.semantic.store.reader import check_model
from tests.semantic.load.conftest import Load

COLUMNS = [
    {"name": "id", "type": "number", "pk": True},
    {"name": "amount", "type": "number"},
    {"name": "is_test", "type": "boolean"},
]
PROPOSED = [
    {"name": "order_count", "expr": "count(*)", "status": "proposed", "reason": "`id` identifies a row."},
    {"name": "total_amount", "expr": "sum(amount)", "status": "proposed", "descriptions": {"ktx": "Sum of amount."}},
]
SEGMENTS = [{"name": "without_test", "expr": "not is_test", "status": "proposed"}]


def shard(**fields: Any) -> str:
    entry = {"table": "orders", "proposed_measures": PROPOSED, "proposed_segments": SEGMENTS, "columns": COLUMNS}
    return yaml.dump({"tables": {"orders": {**entry, **fields}}})


def measures(load: Load, overlay: dict[str, Any] | None = None, **fields: Any) -> dict[str, str]:
    files = {"_schema/main.yaml": shard(**fields)}
    if overlay is not None:
        files["orders.yaml"] = yaml.dump({"name": "orders", **overlay})
    model = load(files)
    assert [each for each in model.problems if each.severity == "error"] == []
    return {name: each.expr for name, each in model.sources["orders"].measures.items()}


BOTH = {"order_count": "count(*)", "total_amount": "sum(amount)"}


@pytest.mark.table(
    ("overlay", "kept"),
    [
        (None, BOTH),
        ({"measures": [{"name": "largest", "expr": "max(amount)"}]}, {"largest": "max(amount)", **BOTH}),
        ({"measures": [{"name": "orders", "expr": "COUNT( * )"}]},
         {"orders": "COUNT( * )", "total_amount": "sum(amount)"}),
        ({"measures": [{"name": "Total_Amount", "expr": "sum(amount) / 100"}]},
         {"Total_Amount": "sum(amount) / 100", "order_count": "count(*)"}),
        ({"measures": [{"name": "paid", "expr": "sum(amount)", "filter": "amount > 0"}]},
         {"paid": "sum(amount)", **BOTH}),
        ({"disable_measures": ["total_amount"]}, {"order_count": "count(*)"}),
        ({"exclude_columns": ["amount"]}, {"order_count": "count(*)"}),
        ({"column_overrides": [{"name": "amount", "visibility": "hidden"}]}, {"order_count": "count(*)"}),
        ({"columns": [{"name": "order_count", "expr": "1", "type": "number"}]}, {"total_amount": "sum(amount)"}),
    ],
)  # fmt: skip
def test_definitions_of_people_come_first(overlay: dict[str, Any] | None, kept: dict[str, str], load: Load) -> None:
    assert measures(load, overlay) == kept


def test_measures_of_the_manifest_come_first_too(load: Load) -> None:
    assert measures(load, measures=[{"name": "revenue", "expr": "sum(amount)"}]) == {
        "revenue": "sum(amount)", "order_count": "count(*)"
    }  # fmt: skip


def test_what_is_proposed_says_so(load: Load) -> None:
    source = load({"_schema/main.yaml": shard()}).sources["orders"]
    count = source.measures["order_count"]
    assert (count.status, count.is_proposed, count.reason) == (Status.PROPOSED, True, "`id` identifies a row.")
    assert source.measures["total_amount"].description == "Sum of amount."
    assert source.segments["without_test"].is_proposed


@pytest.mark.table(
    ("overlay", "names"),
    [
        ({"segments": [{"name": "real", "expr": "NOT  is_test"}]}, {"real"}),
        ({"segments": [{"name": "large", "expr": "amount > 100"}]}, {"large", "without_test"}),
        ({"disable_measures": ["without_test"]}, set()),
        ({"exclude_columns": ["is_test"]}, set()),
    ],
)
def test_proposed_segments_follow_the_same_rules(overlay: dict[str, Any], names: set[str], load: Load) -> None:
    model = load({"_schema/main.yaml": shard(), "orders.yaml": yaml.dump({"name": "orders", **overlay})})
    assert set(model.sources["orders"].segments) == names


def test_a_source_of_peoples_own_may_not_have_proposals(load: Load) -> None:
    text = yaml.dump({"name": "mine", "table": "t", "grain": ["id"], "columns": COLUMNS, "proposed_measures": PROPOSED})
    model = load({"mine.yaml": text})
    assert [each.code for each in model.problems] == ["unknown_key"]
    assert not model.sources["mine"].measures


def test_a_status_is_one_of_three(load: Load) -> None:
    overlay = {"name": "orders", "measures": [{"name": "revenue", "expr": "sum(amount)", "status": "perfect"}]}
    model = load({"_schema/main.yaml": shard(), "orders.yaml": yaml.dump(overlay)})
    assert "revenue" not in model.sources["orders"].measures
    assert any("perfect" in each.message for each in model.problems)


def test_a_bare_name_means_a_proposal_only_where_no_other_measure_has_it(load: Load) -> None:
    model = load({
        "_schema/main.yaml": shard(),
        "visits.yaml": yaml.dump({
            "name": "visits", "table": "visits", "grain": ["id"], "columns": [{"name": "id", "type": "number"}],
            "measures": [{"name": "order_count", "expr": "count(id)"}],
        }),
    })  # fmt: skip
    assert '"visits"' in compile_query(model, {"measures": ["order_count"]}).sql
    assert '"orders"' in compile_query(model, {"measures": ["total_amount"]}).sql


def test_the_receipt_says_what_nobody_reviewed(load: Load) -> None:
    model = load({"_schema/main.yaml": shard()})

    def notes(query: dict[str, Any]) -> list[str]:
        asked = compile_query(model, query)
        found: list[str] = receipt(asked.compiled.build, asked.sql, (), {})["notes"]
        return found

    assert notes({"measures": ["orders.order_count"]}) == [
        "orders.order_count was proposed by ktx and has not been reviewed: `id` identifies a row."
    ]
    assert notes({"measures": ["sum(orders.amount)"]}) == []
    assert notes({"measures": ["sum(orders.amount)"], "segments": ["orders.without_test"]}) == [
        "the segment orders.without_test was proposed by ktx and has not been reviewed: not is_test"
    ]


def test_proposals_with_another_filter_are_no_duplicates(load: Load) -> None:
    overlay = {"name": "orders", "measures": [{"name": "paid", "expr": "sum(amount)", "filter": "amount > 0"}]}
    model = load({"_schema/main.yaml": shard(), "orders.yaml": yaml.dump(overlay)})
    assert [each.code for each in check_model(model)] == []
