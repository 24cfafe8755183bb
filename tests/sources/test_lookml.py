"""A LookML project: which files belong together, which database they are about, and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.documents.raw import Changes
from ktx_cli.sources.lookml import LookMlConnection
from ktx_cli.sources.lookml.source import LookMlSource, project_files
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, lost, snapshot

ORDERS = """\
view: orders {
  sql_table_name: shop.orders ;;
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; }
  dimension: customer_id { type: number sql: ${TABLE}.customer_id ;; }
  measure: revenue { type: sum sql: ${TABLE}.amount ;; description: "Money." }
}
"""
CUSTOMERS = """\
view: customers {
  sql_table_name: shop.customers ;;
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; }
  measure: people { type: count }
}
"""
MODEL = """\
connection: "dwh"
include: "/views/*.view.lkml"
explore: orders {
  join: customers { relationship: many_to_one sql_on: ${orders.customer_id} = ${customers.id} ;; }
}
"""
VISITS = "view: visits { sql_table_name: crm.visits ;; measure: visits { type: count } }\n"
DASHBOARD = "- dashboard: board\n  title: Board\n"
FILES = {"shop.model.lkml": MODEL, "views/customers.view.lkml": CUSTOMERS, "views/orders.view.lkml": ORDERS}


def entry(expected: str | None = None) -> Any:
    mappings = {"expectedLookerConnectionName": expected} if expected else {}
    return LookMlConnection.model_validate({"driver": "lookml", "repoUrl": "x", "mappings": mappings})


def test_views_and_explores_are_measures_and_joins() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(LookMlSource(), FILES, entry())
    orders = made.data("semantic-layer/shop/orders.yaml")
    assert [each["name"] for each in orders["measures"]] == ["revenue"]
    assert orders["joins"] == [{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}]
    assert (
        made.errors() == []
        and projection.warnings == ()
        and lost(projection)
        == ["shop.model.lkml:1 `connection` of shop.model.lkml: ktx settings determine the connection, not LookML"]
    )
    assert projection.handled == set(FILES) and projection.left == ()
    before = dict(made.files)
    assert made.run(LookMlSource(), FILES, entry()).owned == projection.owned and dict(made.files) == before
    made.run(LookMlSource(), {"shop.model.lkml": 'connection: "dwh"\n'}, entry())
    assert set(made.files) == {SHARD, OTHER_SHARD}


def test_each_looker_connection_is_a_database() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    files = {**FILES, "web.model.lkml": 'connection: "crm"\ninclude: "visits"\n', "visits.lkml": VISITS}
    projection = made.run(LookMlSource(), files, entry())
    assert sorted(projection.artifacts) == [
        "semantic-layer/crm/visits.yaml", "semantic-layer/shop/customers.yaml", "semantic-layer/shop/orders.yaml"
    ]  # fmt: skip


@pytest.mark.table(
    ("view", "what"),
    [
        (VISITS.replace("crm.visits", "crm.nothing"), "has no scanned table"),
        (VISITS + ORDERS, "has tables in several connections: crm, shop"),
    ],
)
def test_a_connection_that_is_no_one_database_is_named_and_not_guessed(view: str, what: str) -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(LookMlSource(), {"a.model.lkml": 'connection: "x"\ninclude: "b"\n', "b.lkml": view}, entry())
    assert [each.message for each in projection.warnings] == [f"a.model.lkml:1: the Looker connection `x` {what}"]
    assert not projection.artifacts and len(lost(projection)) == 2


def test_a_view_of_a_table_nobody_scanned_is_named() -> None:
    made = Project({SHARD: SHOP})
    files = {**FILES, "views/ghosts.view.lkml": VISITS}
    projection = made.run(LookMlSource(), files, entry())
    assert [each.message for each in projection.warnings] == [
        "views/ghosts.view.lkml:1: view `visits`: the table is not in the scanned database"
    ]
    assert "semantic-layer/shop/visits.yaml" not in made.files


def test_a_model_of_another_looker_connection_may_write_pages_alone() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    files = {**FILES, "web.model.lkml": 'connection: "crm"\ninclude: "visits"\n', "visits.lkml": VISITS}
    projection = made.run(LookMlSource(), files, entry("dwh"))
    assert all("/shop/" in path for path in projection.artifacts)
    units = LookMlSource().units(entry("dwh"), snapshot(files), Changes(added=tuple(files)), projection)
    assert [(unit.key, unit.files, unit.semantic, unit.why_not) for unit in units] == [
        ("lookml-web.model.lkml", ("visits.lkml", "web.model.lkml"), False,
         "its Looker connection is `crm` instead of the expected `dwh`")
    ]  # fmt: skip


LIQUID = "view: odd { sql_table_name: shop.invoices ;; dimension: x { sql: {% if a %} 1 {% endif %} ;; } }\n"


def units(files: dict[str, str], *touched: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    projection = Project({SHARD: SHOP}).run(LookMlSource(), files, entry())
    found = LookMlSource().units(entry(), snapshot(files), Changes(modified=tuple(touched)), projection)
    return [(unit.key, unit.files, unit.dependencies) for unit in found]


def test_units_are_what_changed_and_could_not_be_placed() -> None:
    files = {**FILES, "views/odd.view.lkml": LIQUID, "alone.view.lkml": LIQUID.replace("odd", "alone"),
             "board.dashboard.lookml": DASHBOARD}  # fmt: skip
    rest = ("shop.model.lkml", "views/customers.view.lkml", "views/orders.view.lkml")
    assert units(files, *files) == [
        ("lookml-shop.model.lkml", ("views/odd.view.lkml",), rest),
        ("lookml-orphans", ("alone.view.lkml",), ()),
        ("lookml-board.dashboard.lookml", ("board.dashboard.lookml",), ()),
    ]
    assert units(files, "views/orders.view.lkml") == []
    assert [each[0] for each in units(files, "board.dashboard.lookml")] == ["lookml-board.dashboard.lookml"]


def test_a_broken_file_of_people_keeps_what_was_written_before() -> None:
    made = Project({SHARD: SHOP})
    first = made.run(LookMlSource(), FILES, entry())
    made.files["semantic-layer/shop/mine.yaml"] = b"name: orders\nmeasures: [\n"
    before = dict(made.files)
    projection = made.run(LookMlSource(), FILES, entry())
    assert dict(made.files) == before and projection.owned == first.owned
    assert [each.code for each in projection.warnings] == ["not_written"]


VIEWS = {f"views/{name}.view.lkml": "" for name in ("a", "b")}


@pytest.mark.table(
    ("pattern", "found"),
    [
        ("/views/*.view.lkml", ["views/a.view.lkml", "views/b.view.lkml"]),
        ("views/a.view", ["views/a.view.lkml"]),
        ("**/*.view", ["views/a.view.lkml", "views/b.view.lkml"]),
        ("../views/b.view.lkml", ["views/b.view.lkml"]),
        ("*.view", ["views/a.view.lkml", "views/b.view.lkml"]),
        ("/*.view", []),
        ("//other/views/a.view", []),
        ("../../etc/passwd", []),
        ("views/[a].view", []),
    ],
)
def test_includes(pattern: str, found: list[str]) -> None:
    texts = {**VIEWS, "models/m.model.lkml": f'include: "{pattern}"\n'}
    if pattern == "/*.view":
        assert project_files(texts).models[0].files == ("models/m.model.lkml",)
    assert [each for each in project_files(texts).models[0].files if each in VIEWS] == found


def test_a_view_of_several_models_is_the_first_ones() -> None:
    texts = {
        "b.model.lkml": 'include: "v"\ninclude: "w"',
        "a.model.lkml": 'include: "v"',
        "v.lkml": 'include: "b.model"',
        "w.lkml": "",
        "x.lkml": "view: {",
        "d.dashboard.lookml": DASHBOARD,
    }
    files = project_files(texts)
    assert files.owned == {"a.model.lkml": ("a.model.lkml", "v.lkml", "w.lkml"), "b.model.lkml": ("b.model.lkml",)}
    assert files.orphans == ("x.lkml",) and files.dashboards == ("d.dashboard.lookml",)
