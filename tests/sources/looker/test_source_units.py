"""The units and the projection of Looker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.project.layout import WorkingTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.fetch import render
from ktx_cli.sources.looker import fetch as documents
from ktx_cli.sources.looker import source
from ktx_cli.sources.looker.fetch import Target
from ktx_cli.sources.looker.source import units
from ktx_cli.sources.port import ProjectContext
from tests.sources.looker.scripted import dashboard, dimension, explore, look, query

SHARD = "semantic-layer/warehouse/_schema/public.yaml"
TEXT = """\
tables:
  orders:
    table: public.orders
    columns: [{name: status, type: string}, {name: id, type: number}]
  customers:
    table: public.customers
    columns: [{name: country, type: string}]
"""


@pytest.fixture
def snapshot(tmp_path: Path) -> Any:
    raw = RawStore(tmp_path / "raw")

    def make(*things: dict[str, Any], usage: Any = None) -> Snapshot:
        found: dict[str, Any] = {"folders.json": {"folders": {}}}
        targets: dict[tuple[str, str], Target] = {}
        for each in things:
            if "view_name" in each:
                document = documents.explore_document("shop", each, {"dwh": "warehouse"})
                targets["shop", each["name"]] = Target.stored(document["target"])
                found[documents.explore_path("shop", each["name"])] = document
        for each in things:
            if "dashboard_elements" in each:
                document = documents.dashboard_document(each)
                found[documents.dashboard_path(each["id"])] = documents.with_targets(document, targets)
            elif "query" in each:
                document = documents.look_document(each)
                found[documents.look_path(each["id"])] = documents.with_targets(document, targets)
        if usage is not None:
            found["usage.json"] = usage
        return Snapshot({path: raw.put(path, render(found[path])) for path in sorted(found)})

    return make


def test_a_unit_for_each_thing_that_changed_with_its_explores(snapshot: Any) -> None:
    used = {"dashboards": {"1": {"queries_at_least": 10, "users_at_least": 1}}, "looks": {}, "explores": {}}
    made = snapshot(explore("orders"), explore("other"), dashboard("1"), look("2"), look("3"), usage=used)
    changes = Changes(added=("dashboards/1.json", "looks/2.json"), modified=("explores/shop/other.json", "usage.json"))
    first, second, third = units(made, changes)
    assert (first.key, first.files, first.dependencies) == (
        "explores.shop.other", ("explores/shop/other.json",), ("folders.json", "usage.json"),
    )  # fmt: skip
    assert (second.key, second.label) == ("dashboards.1", "dashboard Dashboard 1")
    assert second.dependencies == ("explores/shop/orders.json", "folders.json", "usage.json")
    assert "at least 10 queries by 1 people (full)" in second.notes
    assert "Not used in the last 30 days" in third.notes
    assert all(unit.semantic and "looker__" in unit.notes for unit in (first, second, third))


@pytest.mark.parametrize(
    ("thing", "path", "reason"),
    [
        (explore("e", connection="odd"), "explores/shop/e.json", "no_connection_mapping"),
        (explore("e", "(select 1)"), "explores/shop/e.json", "derived_table_not_supported"),
        (look("1", query=query("nothing")), "looks/1.json", "no_physical_table"),
        (
            dashboard("1", dashboard_elements=[{"id": "1", "body_text": "hello"}]),
            "dashboards/1.json",
            "it has no query",
        ),
    ],
)
def test_without_a_table_a_unit_is_for_pages_alone(snapshot: Any, thing: Any, path: str, reason: str) -> None:
    (unit,) = units(snapshot(thing), Changes(added=(path,)))
    assert not unit.semantic
    assert reason in unit.why_not


def test_nothing_that_changed_is_no_work(snapshot: Any) -> None:
    assert units(snapshot(explore("orders")), Changes(modified=("folders.json",), deleted=("looks/1.json",))) == ()


def test_a_query_of_a_tile_is_found_where_looker_keeps_it() -> None:
    tiles = [
        {"id": "1", "query": query()},
        {"id": "2", "look": {"query": query()}},
        {"id": "3", "result_maker": {"query": query()}},
        {"id": "4", "query": None, "merge_result_id": "x"},
        {"id": "5", "query": query(), "deleted": True},
    ]
    document = documents.dashboard_document(dashboard("1", dashboard_elements=tiles))
    assert [bool(tile["query"]) for tile in document["tiles"]] == [True, True, True, False]
    assert [tile["merged"] for tile in document["tiles"]] == [False, False, False, True]


def test_descriptions_of_fields_that_are_columns_are_written(snapshot: Any, tmp_path: Path) -> None:
    fields = {
        "dimensions": [
            dimension("orders.status", description="where it is"),
            dimension("orders.id", "upper(${TABLE}.id)", description="not the column"),
            dimension("orders.gone", description="no such column"),
            dimension("customers.country", description="ISO code"),
        ],
        "measures": [],
    }
    joins = [{"name": "customers", "sql_table_name": "public.customers", "relationship": "many_to_one"}]
    joined = explore("orders", fields=fields, joins=joins, description="of orders and customers")
    workspace = Workspace(WorkingTree(tmp_path))
    workspace.write(SHARD, TEXT)
    made = source.project(snapshot(joined, dashboard("1")), ProjectContext("bi", workspace, {}))
    tables = yaml.load(workspace.read(SHARD) or b"", where=SHARD)["tables"]
    assert tables["orders"] == {
        "table": "public.orders",
        "columns": [
            {"name": "status", "type": "string", "descriptions": {"looker": "where it is"}},
            {"name": "id", "type": "number"},
        ],
    }
    assert tables["customers"]["columns"][0]["descriptions"] == {"looker": "ISO code"}
    assert [item.what for item in made.report if item.kind.value == "dropped"] == [
        "description of `public.orders.gone`"
    ]
    assert made.handled == {"folders.json"}
    assert made.left == ("Looker: 1 explore as measures and joins", "Looker: 1 dashboard as measures and pages")


def test_an_explore_of_one_table_describes_it(snapshot: Any, tmp_path: Path) -> None:
    workspace = Workspace(WorkingTree(tmp_path))
    workspace.write(SHARD, TEXT)
    source.project(snapshot(explore("orders", description="All orders")), ProjectContext("bi", workspace, {}))
    tables = yaml.load(workspace.read(SHARD) or b"", where=SHARD)["tables"]
    assert tables["orders"]["descriptions"] == {"looker": "All orders"}
