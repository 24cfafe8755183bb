"""Which conditions of a query history become proposed segments."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Column, Source
from ktx_cli.sources.query_history.model import Coverage
from ktx_cli.sources.query_history.pages import Absence, UsageWritten, write_usage
from ktx_cli.sources.query_history.segments import MOST, proposed_segments
from ktx_cli.warehouses import SemanticType

SHARD = "semantic-layer/shop/_schema/public.yaml"
TYPES = {
    "id": SemanticType.NUMBER, "status": SemanticType.STRING, "is_test": SemanticType.BOOLEAN,
    "active": SemanticType.BOOLEAN, "day": SemanticType.TIME, "paid": SemanticType.BOOLEAN,
}  # fmt: skip
SOURCE = Source("orders", {name: Column(name, type) for name, type in TYPES.items()}, ("id",), ("orders",))


@pytest.mark.table(
    ("text", "name"),
    [
        ("status = 'open'", "open"),
        ("status <> 'cancelled'", "not_cancelled"),
        ("NOT status = 'cancelled'", "not_cancelled"),
        ("status IN ('sent', 'delivered')", "sent_or_delivered"),
        ("NOT status IN ('sent', 'delivered')", "not_sent_or_delivered"),
        ("status = 'Partly shipped'", "partly_shipped"),
        ("is_test", "test"),
        ("NOT is_test", "not_test"),
        ("is_test = FALSE", "not_test"),
        ("is_test <> TRUE", "not_test"),
        ("is_test IS TRUE", "test"),
        ("NOT active", "not_active"),
        ("active", None),  # the name of the column itself
        ("status = 'paid'", None),  # of another one
        ("status = ?", None),
        ("status IN ('a', ?)", None),
        ("status IN ('a', 'b', 'c', 'd')", None),
        ("status LIKE 'a%'", None),
        ("status = '7'", None),
        ("lower(status) = 'open'", None),
        ("id = 4", None),
        ("day > '2025-01-01'", None),
        ("status = 'open' AND is_test", None),
        ("colour = 'red'", None),
        ("status = (SELECT 1)", None),
        ("status =", None),
    ],
)
def test_conditions_that_are_segments(text: str, name: str | None) -> None:
    found = proposed_segments(SOURCE, [text], "postgres")
    assert [each["name"] for each in found] == ([] if name is None else [name])
    assert all((each["expr"], each["status"]) == (text, "proposed") for each in found)


def test_they_are_few_and_each_has_a_name_of_its_own() -> None:
    texts = ["is_test", "is_test = TRUE", *(f"status = 'state {letter}'" for letter in "abcdefgh")]
    names = [each["name"] for each in proposed_segments(SOURCE, texts, "postgres")]
    assert len(names) == MOST and len(set(names)) == MOST


def table(*filters: str) -> dict[str, Any]:
    return {"table": "orders", "source": "orders", "frequency": "high", "filters": [(text, "high") for text in filters]}


def test_the_manifest_has_them_until_nobody_filters_so(workspace: Workspace) -> None:
    def write(tables: list[dict[str, Any]], before: UsageWritten, coverage: Coverage = Coverage.ALL) -> UsageWritten:
        model = load_tree(workspace, "shop", "postgres")
        absence = Absence(coverage, frozenset({"orders"}), date(2026, 5, 4))
        return write_usage(workspace, model, tables, before.owned, absence)

    def segments() -> list[str]:
        return [*load_tree(workspace, "shop", "postgres").sources["orders"].segments]

    written = write([table("status <> 'cancelled'", "status = ?")], UsageWritten())
    assert segments() == ["not_cancelled"]
    again = write([table("status <> 'cancelled'", "status = ?")], written)
    assert (again.changed, again.owned) == (frozenset(), written.owned)

    written = write([], again, Coverage.PART)
    assert segments() == ["not_cancelled"]

    def entry() -> dict[str, Any]:
        document: Any = yaml.load(workspace.read(SHARD) or b"", where=SHARD)
        return dict(document["tables"]["orders"])

    assert entry()["proposed_segments"][0]["reason"].startswith("Queries in the history")
    write([table("status = ?")], written)
    assert segments() == [] and "proposed_segments" not in entry()
