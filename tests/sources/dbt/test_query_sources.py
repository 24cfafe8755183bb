"""Models without a table as sources with their SQL, where it compiles and nothing protected is read."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.sources.dbt.source import DbtSource
from ktx_cli.sources.port import Projection
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, kept, lost

EPHEMERAL = "{{ config(materialized='ephemeral') }}\n"
SCHEMA = """\
sources: [{name: web, schema: shop, tables: [{name: orders}]}]
models:
  - {name: customers}
  - name: stg_orders
    description: Orders that count.
    columns: [{name: id, description: The key., tests: [unique]}, {name: status}]
"""
STAGING = (
    "select id, customer_id as buyer, status, amount * 2 as twice, amount > {{ var('limit') }} as is_big, ordered_at\n"
    "from {{ source('web', 'orders') }} where status <> 'cancelled'\n"
)
PATH = "semantic-layer/shop/stg_orders.yaml"


def run(made: Project, **models: str) -> Projection:
    files = {f"models/{name}.sql": EPHEMERAL + text for name, text in models.items()}
    settings = "name: acme\nvars: {limit: 5}\n"
    return made.run(DbtSource(), {"dbt_project.yml": settings, "models/s.yml": SCHEMA, **files})


def project(**files: str) -> Project:
    return Project({SHARD: SHOP, **files})


def test_an_ephemeral_model_is_a_source() -> None:
    made = project()
    projection = run(made, stg_orders=STAGING)
    found = made.data(PATH)
    assert " ".join(found["sql"].split()) == (
        "SELECT id, customer_id AS buyer, status, amount * 2 AS twice, amount > 5 AS is_big, ordered_at "
        "FROM shop.orders WHERE status <> 'cancelled'"
    )
    assert (found["grain"], found["descriptions"]) == (["id"], {"dbt": "Orders that count."})
    assert {each["name"]: each["type"] for each in found["columns"]} == {
        "id": "number", "buyer": "number", "status": "string", "twice": "number", "is_big": "boolean",
        "ordered_at": "time",
    }  # fmt: skip
    assert found["columns"][0]["descriptions"] == {"dbt": "The key."}
    assert {"model `stg_orders`", "SQL of `stg_orders`"} <= kept(projection.report)
    assert made.errors() == [] and made.models()["shop"].sources["stg_orders"].sql == found["sql"]
    assert projection.artifacts[PATH] == ("models/stg_orders.sql",)


def test_models_that_it_reads_are_put_in() -> None:
    made = project()
    run(
        made,
        stg_orders=STAGING,
        big="select * from {{ ref('stg_orders') }} where is_big",
        totals="with b as (select * from {{ ref('big') }}) select c.name, count(*) as orders from b"
        " join {{ ref('customers') }} as c on c.id = b.buyer group by 1",
    )
    sql = " ".join(made.data("semantic-layer/shop/totals.yaml")["sql"].split())
    assert sql.startswith("WITH __dbt__cte__stg_orders AS ( SELECT") and "__dbt__cte__big AS ( SELECT * FROM" in sql
    assert made.data("semantic-layer/shop/totals.yaml")["grain"] == ["name"]
    assert made.errors() == []


FILTERED = "select * from {{ source('web', 'orders') }} where amount > 2"


@pytest.mark.table(
    ("sql", "grain"),
    [
        (FILTERED, ["id"]),
        ("select distinct id as order_id, amount from {{ source('web', 'orders') }} limit 5", ["order_id"]),
        (f"with a as ({FILTERED}), b as (select id, amount from a) select * from b where amount < 9", ["id"]),
        ("select amount, status from {{ source('web', 'orders') }}", None),
        ("select o.id, c.name from {{ source('web', 'orders') }} o join {{ ref('customers') }} c on true", None),
        ("select id, unnest([1, 2]) as n from {{ source('web', 'orders') }}", None),
        ("select id from {{ source('web', 'orders') }} union all select id from {{ source('web', 'orders') }}", None),
        ("select max(id) as id from {{ source('web', 'orders') }}", None),
    ],
)
def test_a_plain_selection_keeps_the_grain_of_what_it_reads(sql: str, grain: list[str] | None) -> None:
    made = project()
    run(made, picked=sql, again="select * from {{ ref('picked') }}")
    for name in ("picked", "again"):
        assert made.data(f"semantic-layer/shop/{name}.yaml").get("grain") == grain
    assert made.errors() == []


def test_the_second_run_changes_nothing_and_a_removed_model_takes_its_source_along() -> None:
    made = project()
    run(made, stg_orders=STAGING)
    before = dict(made.files)
    run(made, stg_orders=STAGING)
    assert dict(made.files) == before
    run(made)
    assert PATH not in made.files


@pytest.mark.table(
    ("sql", "why"),
    [
        ("select nothing from {{ ref('customers') }}", "its columns cannot be resolved: Column 'nothing' could not be"),
        ("select {{ x() }} as a from {{ ref('customers') }}", "only dbt can resolve `{{ x() }}`"),
        ("select id from {{ ref('model') }}", "none of the tables that it reads has been scanned"),
        ("select c.id from {{ ref('customers') }} c, {{ ref('model') }} m", "`model` depends on itself"),
        ("select c.id from {{ ref('customers') }} c, {{ ref('nobody') }} n", "`nobody` has no scanned table"),
        ("select c.id from {{ ref('customers') }} c, other.place p", "it reads `place` without `ref` or `source`"),
        ("select c.id from {{ ref('customers') }} c join {{ ref('visits') }} v on true", "is in another connection"),
        ("select id, read_csv('/etc/passwd') as x from {{ ref('customers') }}", "the function `read_csv` does more"),
        ("select id from {{ ref('customers') }}; drop table x", "it is not a single query"),
        ("select (( from {{ ref('customers') }}", "it cannot be parsed as duckdb"),
    ],
)
def test_what_does_not_compile_is_no_source(sql: str, why: str) -> None:
    made = project(**{OTHER_SHARD: OTHER.replace("customers", "people")})
    schema = SCHEMA + "  - {name: visits}\n"
    files = {"models/s.yml": schema, "models/model.sql": EPHEMERAL + sql}
    projection = made.run(DbtSource(), files)
    reasons = [each.why for each in projection.report if each.what == "SQL of `model`"]
    assert len(reasons) == 1 and why in reasons[0]
    assert "models/model.sql:1 model `model`: it is ephemeral, so it has no table" in lost(projection)
    assert not [path for path in made.files if "/model" in path] and made.errors() == []


HIDDEN = "name: orders\ncolumn_overrides: [{name: amount, visibility: hidden}]\n"
POLICY = "name: orders\npolicies: [{name: own, filter: \"status = '{{ user.status }}'\"}]\n"
WHOLE = "name: orders\nvisibility: hidden\n"
BROKEN = "name: orders\npolicies: [\n"


@pytest.mark.table("overlay", [HIDDEN, POLICY, WHOLE, BROKEN])
def test_what_is_protected_is_not_read_past_its_protection(overlay: str) -> None:
    made = project(**{"semantic-layer/shop/orders.yaml": overlay})
    projection = run(made, stg_orders=STAGING, other="select id from {{ ref('stg_orders') }}")
    assert not [path for path in made.files if path.endswith(("stg_orders.yaml", "other.yaml"))]
    whys = [each.why for each in projection.report if each.what.startswith("SQL of")]
    assert len(whys) == 2 and all(whys)


def test_a_source_goes_when_what_it_reads_is_protected() -> None:
    made = project()
    run(made, stg_orders=STAGING)
    made.files["semantic-layer/shop/orders.yaml"] = HIDDEN.encode()
    run(made, stg_orders=STAGING)
    assert PATH not in made.files


@pytest.mark.table(
    ("name", "files"),
    [
        ("ORDERS", {}),
        ("mine", {"semantic-layer/shop/m.yaml": "name: Mine\nsql: SELECT 1 id\ncolumns: [{name: id, type: number}]"}),
    ],
)  # fmt: skip
def test_no_source_is_shadowed(name: str, files: dict[str, Any]) -> None:
    made = project(**files)
    before = dict(made.files)
    projection = run(made, **{name: "select id from {{ ref('customers') }}"})
    assert "is already a source of `shop`" in next(each.why for each in projection.report if "SQL of" in each.what)
    assert dict(made.files) == before


def test_a_disabled_view_is_a_source_and_a_disabled_table_is_none() -> None:
    made = project()
    view = "{{ config(enabled=false, materialized='view') }} select id from {{ ref('customers') }}"
    made.run(
        DbtSource(), {"models/s.yml": SCHEMA, "models/v.sql": view, "models/t.sql": view.replace("'view'", "'table'")}
    )
    assert made.data("semantic-layer/shop/v.yaml")["name"] == "v" and "semantic-layer/shop/t.yaml" not in made.files


def test_what_somebody_changed_stays() -> None:
    made = project()
    run(made, stg_orders=STAGING)
    made.files[PATH] = made.files[PATH].replace(b"dbt: The key.", b"dbt: The number of the order.")
    projection = run(made, stg_orders=STAGING)
    assert b"The number of the order." in made.files[PATH]
    assert [each.code for each in projection.warnings if each.code == "kept"] == ["kept"]
