"""The SQL of models together: dialects, compiled SQL, and what one model passes on to the next."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.dbt.models import SqlModel, read_models
from ktx_cli.sources.dbt.project import PATH, read_project, reduced
from ktx_cli.sources.dbt.source import DbtSource
from tests.sources.dbt.test_project import manifest, node
from tests.sources.projecting import SHARD, SHOP, Project, lost, snapshot

from ktx_cli.semantic import Report, VisibleModel  # isort: skip

STAGING = "select id, amount, status from {{ source('web', 'orders') }} where status <> 'test'\n"
SETTINGS = "models: {+materialized: table}\nvars: {limit: 5}\n"


def read(files: dict[str, str], dialect: str = "duckdb") -> dict[str, SqlModel]:
    made = Project({SHARD: SHOP})
    project = read_project(snapshot({"dbt_project.yml": SETTINGS, **files}), Report())
    found = read_models(project, {}, made.models() if dialect == "duckdb" else {})
    return {relation[-1]: model for relation, model in found.items()}


def compiled(text: str, code: str, *reads: str, **fields: Any) -> dict[str, str]:
    """Return the file of a model `big` with a manifest that has its compiled SQL."""
    one = node(
        "big", raw_code=text, compiled_code=code, depends_on={"nodes": list(reads)},
        original_file_path="models/big.sql", **fields,
    )  # fmt: skip
    return {"models/big.sql": text, PATH: reduced(manifest(one).encode(), PATH).decode()}


VOLATILE = "select 1 as a where {{ run_started_at }} > 1"
RAW = "select * from {{ ref('stg') }} where {{ only_valid() }}\n"
CODE = 'select * from "db"."shop"."stg" as s where s.valid and s.at > (select max(at) from "db"."shop"."big")'


def test_compiled_sql_is_read_where_only_dbt_could_resolve_the_file() -> None:
    found = read(compiled(RAW, CODE, "model.acme.stg"))["big"].facts
    assert found.references == (("ref", "stg"),) and found.unresolved == ()
    assert "keeps rows where `s.valid`" in found.lines


def test_an_ephemeral_model_that_dbt_put_in_is_a_reference() -> None:
    x = "x as (select a from __dbt__cte__stg where a > 1)"
    code = f"with __dbt__cte__stg as (select 1 as a where 2 > 1), {x} select a from x"
    found = read(compiled(RAW, code, "model.acme.stg"))["big"].facts
    assert found.references == (("ref", "stg"),) and found.lines == ("keeps rows where `a > 1` (in `x`)",)


@pytest.mark.table(
    ("text", "files"),
    [
        (RAW, compiled("select 1 from {{ other() }}", CODE)),
        (RAW, compiled(RAW, "no (query")),
        (VOLATILE, compiled(VOLATILE, CODE)),
    ],
)  # fmt: skip
def test_compiled_sql_of_another_text_is_not_read(text: str, files: dict[str, str]) -> None:
    found = read({**files, "models/big.sql": text})["big"].facts
    assert found.unresolved


def test_a_file_without_open_jinja_is_read_itself() -> None:
    text = "select a\nfrom {{ ref('stg') }}\nwhere a > {{ var('limit') }}"
    found = read(compiled(text, CODE, "model.acme.stg"))["big"].facts
    assert found.lines == ("line 3: keeps rows where `a > 5`",)


def test_conditions_on_the_own_table_are_about_runs() -> None:
    made = Project({SHARD: SHOP})
    code = CODE.replace("big", "orders")
    raw = RAW
    one = node("orders", raw_code=raw, compiled_code=code, depends_on={"nodes": ["model.acme.stg"]})
    files = {
        "models/orders.sql": raw, "models/schema.yml": "models: [{name: orders}]\n",
        PATH: reduced(manifest(one).encode(), PATH).decode(),
    }  # fmt: skip
    notes = made.run(DbtSource(), files).notes
    assert "`s.valid`" in notes["models/orders.sql"] and "max" not in notes["models/orders.sql"].lower()


def test_columns_pass_through_models_in_whatever_order() -> None:
    files = {
        "models/a.sql": "select * from {{ ref('b') }}",
        "models/b.sql": "select id, amount * 2 as twice from {{ ref('c') }}",
        "models/c.sql": "select 1 as id, 2 as amount",
    }
    (identity, twice) = read(files)["a"].facts.columns
    assert (identity.name, twice.name, twice.origins) == ("id", "twice", ((("ref", "b"), "twice"),))


def test_references_in_a_circle_end() -> None:
    files = {"models/a.sql": "select * from {{ ref('b') }}", "models/b.sql": "select * from {{ ref('a') }}"}
    assert set(read(files)) == {"a", "b"}


def test_a_snapshot_has_the_name_of_its_block() -> None:
    files = {"snapshots/file.sql": "{% snapshot kept %} select 1 as id where 2 > 1 {% endsnapshot %}"}
    assert read(files)["kept"].facts.rules


def test_models_with_versions_are_their_latest_file() -> None:
    models = {"models": [{"name": "bills", "latest_version": 2, "versions": [{"v": 1}, {"v": 2}]}]}
    queries = {"models/bills_v1.sql": "select 1 as a", "models/bills_v2.sql": "select 2 as b"}
    files = {"models/s.yml": json.dumps(models), **queries}
    found = read(files)
    assert set(found) == {"bills"} and found["bills"].path == "models/bills_v2.sql"


@given(st.text(alphabet="{}%#'\"-/*()se lct frm.ref\n", max_size=60))
def test_any_text_of_a_model_changes_no_other(text: str) -> None:
    files = {"models/stg.sql": STAGING, "models/other.sql": text}
    assert read(files)["stg"].facts == read({"models/stg.sql": STAGING})["stg"].facts


LINEAGE = {
    "models/staging/stg_orders.sql": "{{ config(materialized='ephemeral') }}\n"
    "select *, case when card = 'guest' then null else card end as card from {{ source('web', 'orders_raw') }}\n"
    "where not is_test\n",
    "models/marts/paid.sql": "select id, amount from {{ ref('stg_orders') }} where status = 'paid'\n",
    "models/marts/orders.sql": "{{ config(materialized='table') }}\n-- Since spring 2025 without vouchers.\n"
    "select id, sum(amount) as amount from {{ ref('paid') }} where amount > 0 group by id\n",
    "models/marts/invoices.sql": "select order_id from {{ ref('orders') }} where order_id is not null\n",
    "models/schema.yml": "models: [{name: orders, description: Orders.}, {name: invoices}, {name: paid}]\n",
}


def test_what_stands_in_sql_is_recorded_on_the_table() -> None:
    made = Project({SHARD: SHOP})
    projection = made.run(DbtSource(), LINEAGE)
    assert made.entry("orders")["lineage"] == {
        "dbt": {
            "file": "models/marts/orders.sql",
            "built_from": ["paid"],
            "rules": [
                "keeps rows where `amount > 0`",
                "in `paid`: keeps rows where `status = 'paid'`",
                "in `stg_orders`: `card` is `CASE WHEN card = 'guest' THEN NULL ELSE card END`",
                "in `stg_orders`: keeps rows where `NOT is_test`",
                "comment: Since spring 2025 without vouchers.",
            ],
            "columns": ["amount: SUM(amount)"],
        }
    }
    assert made.entry("invoices")["lineage"]["dbt"]["rules"] == ["keeps rows where `order_id IS NOT NULL`"]
    assert projection.artifacts[SHARD] == (
        "models/marts/invoices.sql", "models/marts/orders.sql", "models/schema.yml",
    )  # fmt: skip
    assert made.errors() == []
    assert not [each for each in made.models()["shop"].problems if "lineage" in each.message]


def test_lineage_is_the_same_in_the_second_run_and_goes_with_the_model() -> None:
    made = Project({SHARD: SHOP})
    made.run(DbtSource(), LINEAGE)
    before = dict(made.files)
    made.run(DbtSource(), LINEAGE)
    assert dict(made.files) == before
    made.run(DbtSource(), {"models/schema.yml": "models: []\n"})
    assert made.files[SHARD].decode() == SHOP


def test_lineage_is_shown_unless_it_names_what_is_hidden() -> None:
    made = Project(
        {SHARD: SHOP.replace("{name: status, type: string", "{name: status, type: string, visibility: hidden")}
    )
    orders_sql = LINEAGE["models/marts/orders.sql"] + "having status = 'x'"
    made.run(DbtSource(), {**LINEAGE, "models/marts/orders.sql": orders_sql})
    model = made.models()["shop"]
    orders = model.sources["orders"]
    assert "dbt: built from paid" in orders.lineage and any("status" in line for line in orders.lineage)
    shown = VisibleModel(model).lineage(orders)
    assert "dbt: keeps rows where `amount > 0`" in shown and not any("status" in line for line in shown)


def test_what_looks_like_a_secret_is_not_recorded() -> None:
    text = "select id from {{ ref('x') }} where password = 'hunter2-Zq81xKp09' and id > 0"
    made = Project({SHARD: SHOP})
    made.run(DbtSource(), {"models/orders.sql": text, "models/s.yml": "models: []\n"})
    assert made.entry("orders")["lineage"]["dbt"]["rules"] == ["keeps rows where `id > 0`"]


def test_comments_with_contact_data_of_persons_are_not_recorded() -> None:
    text = (
        "-- ask jane.miller@shop.com about refunds\n"
        "select id from {{ ref('x') }}\n"
        "/* call Jane at +49 170 5551234 before a change */\n"
        "{# refunds are booked on the day of the order #}\n"
        "where id > 0"
    )
    made = Project({SHARD: SHOP})
    made.run(DbtSource(), {"models/orders.sql": text, "models/s.yml": "models: []\n"})
    assert made.entry("orders")["lineage"]["dbt"]["rules"] == [
        "keeps rows where `id > 0`",
        "comment: refunds are booked on the day of the order",
    ]


def test_a_model_that_cannot_be_read_is_reported() -> None:
    made = Project({SHARD: SHOP})
    projection = made.run(DbtSource(), {"models/orders.sql": "select ((", "models/s.yml": "models: []\n"})
    assert lost(projection) == ["models/orders.sql:1 SQL of `orders`: it cannot be parsed as duckdb"]
    assert "models/orders.sql" not in projection.handled and "lineage" not in made.entry("orders")
