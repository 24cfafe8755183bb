"""What is written into the manifest without a model, and which joins are only hinted at."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.sources.query_history.model import Coverage
from ktx_cli.sources.query_history.pages import (
    Absence,
    UsageWritten,
    missing_joins,
    table_documents,
    write_narratives,
    write_usage,
)

SHARD = "semantic-layer/shop/_schema/public.yaml"
JOINED = (
    "SELECT c.country, sum(o.total) FROM orders o JOIN customers c ON c.id = o.customer_id "
    "JOIN regions USING (region_id) WHERE o.status = 'paid' GROUP BY 1"
)
Make = Callable[..., Any]
EVERYTHING = frozenset({"orders", "customers", "regions", "old_orders"})
FIRST, LATER = date(2026, 5, 4), date(2026, 6, 1)


def usage(workspace: Workspace, source: str) -> dict[str, Any] | None:
    document: Any = yaml.load(workspace.read(SHARD) or b"", where=SHARD)
    return document["tables"][source].get("usage")  # type: ignore[no-any-return]


def write(
    workspace: Workspace,
    files: Any,
    before: UsageWritten | None = None,
    *,
    today: date = FIRST,
    coverage: Coverage = Coverage.ALL,
    scope: frozenset[str] = EVERYTHING,
) -> UsageWritten:
    model = load_tree(workspace, "shop", "postgres")
    absence = Absence(coverage, scope, today)
    return write_usage(workspace, model, table_documents(files), before.owned if before else {}, absence)


def test_usage_is_written_and_written_again_it_is_the_same(seen: Make, staged: Make, workspace: Workspace) -> None:
    files = staged([seen(JOINED, 90), seen("SELECT total FROM orders WHERE id = 4", 10)]).files
    first = write(workspace, files)
    assert usage(workspace, "orders") == {
        "frequencyTier": "high",
        "commonFilters": ["status = ?", "id = ?"],
        "commonJoins": [
            {"table": "customers", "on": ["customer_id = customers.id"]},
            {"table": "regions", "on": ["region_id = regions.region_id"]},
        ],
    }
    assert usage(workspace, "customers") == {
        "frequencyTier": "high",
        "commonGroupBys": ["country"],
        "commonJoins": [{"table": "orders", "on": ["id = orders.customer_id"]}],
    }
    assert usage(workspace, "old_orders") == {"frequencyTier": "unused", "staleSince": "2026-05-04"}
    assert first.changed == {SHARD}
    text = workspace.read(SHARD)
    second = write(workspace, files, first, today=LATER)
    assert (second.changed, second.owned, workspace.read(SHARD)) == (frozenset(), first.owned, text)
    assert not load_tree(workspace, "shop", "postgres").problems


def test_a_table_that_falls_out_of_use_keeps_its_first_day(seen: Make, staged: Make, workspace: Workspace) -> None:
    used, other = staged([seen(JOINED)]).files, staged([seen("SELECT total FROM archive.orders")]).files
    written = write(workspace, used)
    written = write(workspace, other, written)
    assert usage(workspace, "orders") == {"frequencyTier": "unused", "staleSince": "2026-05-04"}
    written = write(workspace, other, written, today=LATER)
    assert usage(workspace, "orders") == {"frequencyTier": "unused", "staleSince": "2026-05-04"}
    write(workspace, used, written, today=LATER)
    found = usage(workspace, "orders")
    assert found is not None
    assert "staleSince" not in found
    assert usage(workspace, "old_orders") == {"frequencyTier": "unused", "staleSince": "2026-06-01"}


@pytest.mark.table(
    ("coverage", "later", "orders", "old_orders"),
    [
        (Coverage.ALL, "SELECT label FROM regions", "unused", "unused"),
        (Coverage.LISTED, "SELECT label FROM regions", "unused", None),
        (Coverage.PART, "SELECT label FROM regions", "high", None),
        (Coverage.ALL, "SELECT 1", "high", None),
    ],
)
def test_absence_means_what_the_history_can_prove(
    coverage: Coverage, later: str, orders: str, old_orders: str | None, seen: Make, staged: Make, workspace: Workspace
) -> None:
    workspace = workspace.child()
    written = write(workspace, staged([seen(JOINED)]).files, coverage=Coverage.PART)
    write(workspace, staged([seen(later)]).files, written, coverage=coverage)
    found = {name: (usage(workspace, name) or {}).get("frequencyTier") for name in ("orders", "old_orders")}
    assert found == {"orders": orders, "old_orders": old_orders}


def test_a_table_out_of_scope_is_not_called_unused(seen: Make, staged: Make, workspace: Workspace) -> None:
    write(workspace, staged([seen(JOINED)]).files, scope=EVERYTHING - {"old_orders"})
    assert usage(workspace, "old_orders") is None


def test_what_somebody_changed_stays(seen: Make, staged: Make, workspace: Workspace) -> None:
    written = write(workspace, staged([seen(JOINED)]).files)
    text = (workspace.read_text(SHARD) or "").replace("status = ?", "status of a kind")
    workspace.write(SHARD, text)
    again = write(workspace, staged([seen("SELECT total FROM orders WHERE total > 1")]).files, written)
    found = usage(workspace, "orders")
    assert found is not None
    assert found["commonFilters"] == ["status of a kind"]
    assert again.kept == (f"{SHARD}: tables.orders.usage.commonFilters",)
    (warning,) = again.warnings("shop")
    assert warning.details["items"] == list(again.kept)


def test_a_narrative_is_written_beside_and_outlives_the_next_runs(
    seen: Make, staged: Make, workspace: Workspace
) -> None:
    files = staged([seen(JOINED)]).files
    written = write(workspace, files)
    model = load_tree(workspace, "shop", "postgres")
    told = write_narratives(workspace, model, {"orders": "Sales by country.", "nobody": "x"}, written.owned)
    found = usage(workspace, "orders")
    assert found is not None
    assert (found["narrative"], found["frequencyTier"]) == ("Sales by country.", "high")
    again = write(workspace, files, told)
    assert again.changed == frozenset()
    gone = write(workspace, staged([seen("SELECT label FROM regions")]).files, again)
    found = usage(workspace, "orders")
    assert found is not None
    assert (found["narrative"], found["frequencyTier"]) == ("Sales by country.", "unused")
    write_narratives(workspace, model, {"orders": "Nothing now."}, gone.owned)
    found = usage(workspace, "orders")
    assert found is not None
    assert found["narrative"] == "Nothing now."


def test_joins_the_semantic_layer_lacks_are_hints(seen: Make, staged: Make, model: Model) -> None:
    texts = [JOINED, "SELECT 1 FROM old_things t JOIN orders o ON o.id = t.id",
             "SELECT 1 FROM archive.orders a JOIN orders b ON a.id = b.id AND a.total = b.total"]  # fmt: skip
    documents = table_documents(staged([seen(text) for text in texts]).files)
    hints = missing_joins(documents, model)
    assert [str(hint) for hint in hints] == [
        "old_orders.id = orders.id AND old_orders.total = orders.total (high frequency)",
        "orders.region_id = regions.region_id (high frequency)",
    ]
    assert json.loads(json.dumps(hints[1].to_json())) == {
        "left": "orders",
        "right": "regions",
        "on": [["region_id", "region_id"]],
        "frequency": "high",
    }


def test_a_join_either_side_declares_is_no_hint(seen: Make, staged: Make, workspace: Workspace) -> None:
    documents = table_documents(staged([seen(JOINED)]).files)
    text = workspace.read_text(SHARD) or ""
    declared = "{to: regions, on: region_id = regions.region_id, relationship: many_to_one}"
    workspace.write(SHARD, text.replace("    joins:\n", f"    joins:\n      - {declared}\n"))
    assert missing_joins(documents, load_tree(workspace, "shop", "postgres")) == ()
