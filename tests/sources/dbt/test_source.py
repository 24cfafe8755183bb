"""What a dbt project becomes without a model, and what stays for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.documents.raw import Changes
from ktx_cli.sources.dbt import DbtConnection
from ktx_cli.sources.dbt.source import DbtSource
from ktx_cli.sources.port import Projection
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, kept, lost, snapshot

SETTINGS = """\
name: acme
vars: {shop_schema: shop, acme: {days: 30}}
models:
  acme:
    staging: {+materialized: ephemeral}
    marts: {+schema: shop}
"""
MODELS = """\
version: 2
models:
  - name: orders
    description: "{{ doc('orders') }}"
    config: {tags: [finance]}
    tags: [core, finance]
    columns:
      - name: ID
        data_tests: [unique, not_null]
      - name: customer_id
        description: Who bought, in the last {{ var('days') }} days or before.
        tests:
          - relationships: {to: "ref('customers')", field: id}
      - name: status
        data_type: varchar
        tests:
          - accepted_values: {arguments: {values: [open, paid, true, 3]}}
          - not_null: {config: {where: "amount > 0"}}
          - dbt_utils.not_constant
      - name: amount
        description: "{{ env_var('TEXT') }}"
        meta: {unit: eur}
      - name: nothing
        description: Not there.
  - name: customers
    description: People.
    columns:
      - name: id
        tests: [unique]
"""
DOCS = (
    "# Notes\n{% docs orders %}\nEvery order,<!-- ask Jane Miller -->\nthe open ones too.\n"
    "<!--\nJane Miller wrote this\n-->\n{% enddocs %}\n"
)
FILES = {"dbt_project.yml": SETTINGS, "models/marts/schema.yml": MODELS, "models/marts/docs.md": DOCS}


def project() -> Project:
    return Project({SHARD: SHOP})


def run(files: dict[str, str], into: Project | None = None) -> tuple[Project, Projection]:
    made = into or project()
    return made, made.run(DbtSource(), files)


def test_what_is_said_of_tables_and_columns() -> None:
    made, projection = run(FILES)
    orders = made.entry("orders")
    assert orders["descriptions"] == {
        "db": "Orders", "user": "What people bought", "dbt": "Every order,\nthe open ones too."
    }  # fmt: skip
    assert orders["tags"] == {"dbt": ["core", "finance"]}
    assert made.column("orders", "id")["constraints"] == {"dbt": {"not_null": True, "unique": True}}
    status = made.column("orders", "status")
    assert status["enum_values"] == {"dbt": ["open", "paid", "true", "3"]} and "constraints" not in status
    said = made.column("orders", "customer_id")["descriptions"]["dbt"]
    assert said == "Who bought, in the last 30 days or before."
    assert made.entry("customers")["descriptions"] == {"dbt": "People."}
    assert made.errors() == []
    assert projection.artifacts == {SHARD: ("models/marts/schema.yml",)}


def test_relationships_are_joins_on_both_sides() -> None:
    made, _ = run(FILES)
    forward = {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one", "source": "manual"}
    back = {"to": "orders", "on": "id = orders.customer_id", "relationship": "one_to_many", "source": "manual"}
    assert made.entry("orders")["joins"] == [forward] and made.entry("customers")["joins"] == [back]


def test_what_is_lost_is_named_with_file_and_line() -> None:
    _, projection = run(FILES)
    path = "models/marts/schema.yml"
    assert lost(projection) == [
        f"{path}:15 `data_type` of column `orders.status`: the database knows the types of its columns",
        f"{path}:18 test `not_null` of column `orders.status`: it does not check all rows because it has `where`",
        f"{path}:19 test `dbt_utils.not_constant` of column `orders.status`: "
        "it contains nothing that questions can use",
        f"{path}:21 description of column `orders.amount`: only dbt can resolve `env_var()`",
        f"{path}:22 `meta` of column `orders.amount`: not supported by ktx",
        f"{path}:23 column `orders.nothing`: the table `shop/orders` has no such column",
    ]
    assert path not in projection.handled and "dbt_project.yml" in projection.handled
    assert f"{path}: 5 statements that rules could not place" in projection.left
    assert "models/marts/docs.md: its explanations, as pages" in projection.left


def test_everything_people_wrote_stays() -> None:
    made, _ = run(FILES)
    text = made.files[SHARD].decode()
    assert text.startswith("# kept by hand\n") and "# full name" in text
    made.run(DbtSource(), {"dbt_project.yml": SETTINGS})
    assert made.files[SHARD].decode() == SHOP and made.owned == {}


def test_the_same_project_gives_the_same_bytes() -> None:
    made, first = run(FILES)
    before = dict(made.files)
    assert made.run(DbtSource(), FILES) == first and dict(made.files) == before


def test_a_description_somebody_corrected_is_theirs() -> None:
    made, _ = run(FILES)
    made.files[SHARD] = made.files[SHARD].replace(b"dbt: People.", b"dbt: Whoever paid.")
    projection = made.run(DbtSource(), {**FILES, "models/marts/schema.yml": MODELS.replace("People.", "Buyers.")})
    assert made.entry("customers")["descriptions"] == {"dbt": "Whoever paid."}
    assert [each.to_json()["items"] for each in projection.warnings if each.code == "kept"] == [
        ["tables.customers.descriptions.dbt"]
    ]


SOURCES = """\
sources:
  - name: web
    schema: "{{ var('shop_schema') }}"
    tags: [raw]
    freshness: {warn_after: {count: 1, period: day}}
    loaded_at_field: ordered_at
    tables:
      - name: orders_raw
        identifier: orders
        description: As the shop has them.
        columns: [{name: id, constraints: [{type: primary_key}]}]
      - name: customers
        freshness: null
        columns: [{name: id}]
        constraints: [{type: unique, columns: [id]}, {type: check, columns: [id, name]}]
"""


def test_tables_of_sources() -> None:
    made, projection = run({"dbt_project.yml": SETTINGS, "models/sources.yml": SOURCES})
    orders, customers = made.entry("orders"), made.entry("customers")
    assert orders["descriptions"]["dbt"] == "As the shop has them." and orders["tags"] == {"dbt": ["raw"]}
    fresh = {"raw": {"warn_after": {"count": 1, "period": "day"}}, "loaded_at_field": "ordered_at"}
    assert orders["freshness"] == {"dbt": fresh} and "freshness" not in customers
    assert made.column("orders", "id")["constraints"] == {"dbt": {"not_null": True, "unique": True}}
    assert made.column("customers", "id")["constraints"] == {"dbt": {"unique": True}}
    assert len(lost(projection)) == 2 and made.errors() == []


def relation(to: str, **test: Any) -> str:
    column = {"name": "customer_id", "tests": [{"relationships": {"to": to, "field": "id", **test}}]}
    customers = {"name": "customers", "columns": [{"name": "id"}, {"name": "region"}]}
    return json.dumps({"models": [{"name": "orders", "columns": [column]}, customers, {"name": "visits"}]})


@pytest.mark.table(
    ("text", "why"),
    [
        (relation("ref('nobody')"), "`nobody` is not a table of the scan"),
        (relation("ref('visits')"), "its table is in another connection, `crm`"),
        (relation("ref('customers')", field="none"), "`customers` has no column `none`"),
        (relation("ref('customers')", field="region"), "no key or test declares `region` unique in `customers`"),
        (relation("customers"), "it does not contain `ref('model')` or `source('schema', 'table')` and a field"),
        (relation("ref('customers')", config={"enabled": False}), "it is disabled"),
    ],
)
def test_relationships_that_are_no_joins(text: str, why: str) -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER.replace("customers", "people")})
    _, projection = run({"models/schema.yml": text}, made)
    assert [each.why for each in projection.report if "relationships" in each.what] == [why]
    assert "joins" not in made.entry("orders")


@pytest.mark.parametrize(
    ("model", "columns", "hidden"),
    [
        ("metricflow_time_spine", "[{name: date_day, type: time}]", True),
        ("days", "[{name: date_day, type: time}]", True),
        ("days", "[{name: date_day, type: time}, {name: fiscal_year, type: number}]", False),
        ("orders_by_day", "[{name: date_day, type: time}]", False),
    ],
)
def test_a_table_of_days_for_metricflow_is_internal(model: str, columns: str, hidden: bool) -> None:
    made = Project({SHARD: f"{SHOP}  {model}:\n    table: shop.{model}\n    columns: {columns}\n"})
    spine = {"time_spine": {"standard_granularity_column": "date_day"}} if model == "days" else {}
    files = {"models/schema.yml": json.dumps({"models": [{"name": model, **spine}]})}
    for _ in range(2):
        _, projection = run({**FILES, **files}, made)
        assert (made.entry(model).get("visibility") == "internal") is hidden
        assert all(each.code == "no_table" for each in projection.warnings)
    written = made.files[SHARD].decode()
    if hidden:
        made.files[SHARD] = written.replace("visibility: internal", "visibility: public").encode()
        run({**FILES, **files}, made)
        assert made.entry(model)["visibility"] == "public", "a person decided it"


INFERRED = """\
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: inferred}
"""


@pytest.mark.table(
    "files",
    [
        {SHARD: SHOP.replace("  invoices:\n", INFERRED + "  invoices:\n")},
        {SHARD: SHOP, "semantic-layer/shop/orders.yaml": "name: orders\njoins:\n  - {to: customers, "
         'on: "customer_id = buyer.id", relationship: many_to_one, alias: buyer}\n'},
        {SHARD: SHOP, "semantic-layer/shop/c.yaml": "name: customers\njoins:\n  - {to: orders, "
         'on: "id = orders.customer_id", relationship: one_to_many}\n'},
    ],
)  # fmt: skip
def test_a_join_that_is_there_is_not_made_again(files: dict[str, str]) -> None:
    made = Project(files)
    before = made.entry("orders").get("joins")
    _, projection = run({"models/schema.yml": relation("ref('customers')")}, made)
    assert made.entry("orders").get("joins") == before and "joins" not in made.entry("customers")
    assert projection.declared == {SHARD: ('tables.orders.joins."customers on customer_id = customers.id"',)}
    assert projection.warnings == () or all(each.code == "no_table" for each in projection.warnings)


def test_a_join_of_ours_goes_when_the_test_goes() -> None:
    made, _ = run({"models/schema.yml": relation("ref('customers')")})
    assert made.entry("orders")["joins"]
    again = made.run(DbtSource(), {"models/schema.yml": relation("ref('customers')")})
    assert made.entry("orders")["joins"] and again.warnings
    made.run(DbtSource(), {"models/schema.yml": "models: []\n"})
    assert made.files[SHARD].decode() == SHOP


def test_a_join_of_ours_makes_way_for_one_somebody_named() -> None:
    files = {"models/schema.yml": relation("ref('customers')")}
    made, _ = run(files)
    join = '{to: customers, on: "customer_id = buyer.id", relationship: many_to_one, alias: buyer}'
    named = f"name: orders\njoins:\n  - {join}\n"
    made.files["semantic-layer/shop/orders.yaml"] = named.encode()
    made.run(DbtSource(), files)
    assert made.files[SHARD].decode() == SHOP and made.owned == {}


@pytest.mark.table(
    ("model", "why"),
    [
        ({"name": "customers", "description": "x"}, "several scanned tables match it"),
        ({"name": "nobody", "description": "x"}, "no scanned database has its table"),
        ({"name": "x", "config": {"materialized": "ephemeral"}}, "it is ephemeral, so it has no table"),
        ({"name": "orders", "config": {"enabled": False}}, "it is disabled"),
        ({"description": "x"}, "it has no `name`"),
    ],
)
def test_models_without_one_table(model: dict[str, Any], why: str) -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    _, projection = run({"models/schema.yml": json.dumps({"models": [model]})}, made)
    assert [each.why for each in projection.report] == [why] and not projection.artifacts
    warned = [each for each in projection.warnings if each.code == "no_table"]
    assert len(warned) == ("scanned" in why)
    assert all(each.message.startswith("models/schema.yml:1: model `") for each in warned)


def test_a_schema_of_the_settings_chooses_among_several() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    _, projection = run(FILES, made)
    assert made.entry("customers")["descriptions"] == {"dbt": "People."}
    assert made.data(OTHER_SHARD) == Project({OTHER_SHARD: OTHER}).data(OTHER_SHARD)
    assert not projection.warnings


def test_the_latest_version_of_a_model() -> None:
    text = json.dumps(
        {"models": [{"name": "bills", "description": "Bills.", "latest_version": 2, "versions": [
            {"v": 1}, {"v": 2, "config": {"alias": "invoices"}}]}]}
    )  # fmt: skip
    made, _ = run({"models/schema.yml": text})
    assert made.entry("invoices")["descriptions"] == {"dbt": "Bills."}


EXPOSURES = """\
exposures:
  - name: board
    label: Monday board
    type: dashboard
    depends_on: [ref('orders')]
groups: [{name: finance, owner: {name: Ann}}]
"""


def test_exposures_are_left_to_a_model() -> None:
    _, projection = run({"models/exposures.yml": EXPOSURES})
    assert projection.left[0] == (
        "models/exposures.yml:2: dashboard `Monday board`, with the models it uses and its purpose, as a page"
    )
    assert [line.split(" ")[0] for line in lost(projection)] == ["models/exposures.yml:2", "models/exposures.yml:6"]


SEMANTIC = """\
semantic_models:
  - name: orders
    model: ref('orders')
    defaults: {agg_time_dimension: ordered_at}
    entities: [{name: order, type: primary, expr: id}, {name: customer, type: foreign, expr: customer_id}]
    dimensions:
      - {name: ordered_at, type: time, type_params: {time_granularity: day}}
      - {name: size, type: categorical, expr: "case when amount > 9 then 'big' else 'small' end"}
    measures: [{name: revenue, agg: sum, expr: amount}]
  - name: people
    model: ref('customers')
    entities: [{name: customer, type: primary, expr: id}]
  - name: ghosts
    model: ref('ghosts')
    entities: [{name: ghost, type: primary, expr: id}]
metrics:
  - {name: revenue, type: simple, label: Revenue, type_params: {measure: revenue}}
  - {name: paid, type: simple, type_params: {measure: revenue}, filter: "{{ Dimension('order__size') }} = 'big'"}
"""


def test_semantic_models_are_measures_of_the_connection_that_has_their_tables() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    files = {"dbt_project.yml": SETTINGS, "models/marts/schema.yml": MODELS, "models/metrics.yml": SEMANTIC}
    _, projection = run(files, made)
    orders = made.data("semantic-layer/shop/orders.yaml")
    assert [each["name"] for each in orders["measures"]] == ["revenue", "paid"]
    assert orders["joins"] == [
        {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}
    ] and [each["name"] for each in orders["columns"]] == ["size"]
    assert "joins" not in orders or made.errors() == []
    assert {"measure `revenue` of `orders`", "metric `paid`"} <= kept(projection.report)
    assert any("models/metrics.yml:13: semantic model `ghosts`" in each.message for each in projection.warnings)
    again = made.run(DbtSource(), files)
    assert again.warnings == projection.warnings and made.data("semantic-layer/shop/orders.yaml") == orders
    assert not [path for path in made.files if path.startswith("semantic-layer/crm/") and "_schema" not in path]


def test_measures_go_into_the_file_people_have_about_the_source() -> None:
    mine = "name: orders   # ours\nmeasures:\n  - {name: paid, expr: sum(amount), filter: \"status = 'paid'\"}\n"
    made = Project({SHARD: SHOP, "semantic-layer/shop/my_orders.yaml": mine})
    _, projection = run({"models/metrics.yml": SEMANTIC}, made)
    text = made.files["semantic-layer/shop/my_orders.yaml"].decode()
    assert "# ours" in text and text.count("paid") == 2 and "revenue" in text
    assert [each.to_json()["items"] for each in projection.warnings if each.code == "kept"] == [["measures.paid"]]
    made.run(DbtSource(), {"dbt_project.yml": SETTINGS})
    assert made.files["semantic-layer/shop/my_orders.yaml"].decode() == mine


def test_a_broken_file_of_people_is_left_and_named() -> None:
    made = Project({SHARD: SHOP, "semantic-layer/shop/orders.yaml": "name: orders\nmeasures: [\n"})
    _, projection = run({"models/metrics.yml": SEMANTIC, **FILES}, made)
    assert [each.to_json()["path"] for each in projection.warnings if each.code == "not_written"] == [
        "semantic-layer/shop/orders.yaml"
    ]
    assert made.entry("customers")["descriptions"] == {"dbt": "People."}


def test_broken_yaml_of_dbt_is_named() -> None:
    _, projection = run({"models/a.yml": "models: [\n", "models/b.yml": "- x\n", "models/c.yml": "models: text\n"})
    assert [each.split(" ")[0] for each in lost(projection)] == ["models/a.yml:2", "models/b.yml:1", "models/c.yml:1"]


def changes(*touched: str) -> Changes:
    return Changes(modified=tuple(sorted(touched)))


def units(files: dict[str, str], *touched: str) -> list[tuple[str, tuple[str, ...]]]:
    _, projection = run(files)
    found = DbtSource().units(None, snapshot(files), changes(*touched), projection)
    return [(unit.key, unit.files) for unit in found]


def test_a_small_project_is_one_unit() -> None:
    assert units(FILES, *FILES) == [("dbt-all", ("models/marts/docs.md", "models/marts/schema.yml"))]
    assert units(FILES, "dbt_project.yml") == []
    assert units(FILES) == []


def test_a_file_wholly_projected_needs_no_agent() -> None:
    plain = json.dumps({"models": [{"name": "orders", "description": "Orders."}]})
    assert units({"models/schema.yml": plain}, "models/schema.yml") == []


def test_in_a_large_project_a_changed_peer_starts_no_other_unit() -> None:
    model = json.dumps({"models": [{"name": "orders", "meta": {"owner": "ann"}}]})
    files = {f"models/m{index:02}.yml": model for index in range(40)} | {"seeds/s.yml": model, "README.md": "x"}
    files |= {"dbt_project.yml": SETTINGS}
    _, projection = run(files)
    assert "models/m07.yml" not in projection.handled
    (unit,) = DbtSource().units(None, snapshot(files), changes("models/m07.yml"), projection)
    assert (unit.key, unit.files, unit.dependencies) == (
        "dbt-models/m07.yml",
        ("models/m07.yml",),
        ("dbt_project.yml",),
    )
    assert len(unit.peers) == 41 and "models/m07.yml" not in unit.peers
    assert "another entry has the same name" in unit.notes
    assert [each[0] for each in units(files, "seeds/s.yml", "README.md")] == ["dbt-README.md", "dbt-seeds/s.yml"]


@pytest.mark.table(
    ("entry", "described"),
    [
        ({"target": "shop", "project_name": "acme"}, "Every order of 30 days."),
        ({"target": "shop"}, None),
        ({"target": "crm", "project_name": "acme"}, None),
        ({}, None),
    ],
)
def test_a_project_without_its_settings_takes_them_from_the_connection(
    entry: dict[str, str], described: str | None
) -> None:
    text = """\
sources:
  - name: raw
    schema: "{{ target.name }}"
    tables: [{name: orders, description: "Every order of {{ var('days') }} days."}]
"""
    settings = "vars: {acme: {days: 30}}\n"
    made = project()
    given = DbtConnection.model_validate({"driver": "dbt", "source_dir": "x", **entry})
    made.run(DbtSource(), {"dbt_project.yml": settings, "models/sources.yml": text}, given)
    assert made.entry("orders").get("descriptions", {}).get("dbt") == described


MARGIN = """\
-- Support answers within 48 h since spring 2025.
select o.id, o.amount - o.cost as margin
from {{ ref('stg_orders') }} as o
where o.status <> 'cancelled'
"""
STAGING = "select *, case when card = 'guest' then null else card end as card_id from {{ source('web', 'orders') }}\n"


def sql_files(count: int = 0) -> dict[str, str]:
    models = {"models": [{"name": "margin"}, {"name": "plain"}], "exposures": [{"name": "board"}]}
    others = {f"models/other/m{index}.yml": json.dumps({"models": [{"name": f"m{index}"}]}) for index in range(count)}
    return {
        "dbt_project.yml": SETTINGS, "models/marts/schema.yml": json.dumps(models), "models/marts/margin.sql": MARGIN,
        "models/marts/plain.sql": "select id from {{ ref('margin') }}\n", "models/staging/stg_orders.sql": STAGING,
        **others,
    }  # fmt: skip


def units_of(files: dict[str, str], *touched: str) -> dict[str, Any]:
    _, projection = run(files)
    found = DbtSource().units(None, snapshot(files), changes(*touched), projection)
    return {unit.key: unit for unit in found}


def test_rules_that_stand_only_in_sql_are_in_the_notes() -> None:
    unit = units_of(sql_files(), *sql_files())["dbt-all"]
    assert unit.files == ("models/marts/margin.sql", "models/marts/schema.yml", "models/staging/stg_orders.sql")
    assert "models/marts/plain.sql" in unit.dependencies, "it decides nothing"
    for line in (
        "- line 1: comment: Support answers within 48 h since spring 2025.",
        "- line 4: keeps rows where `o.status <> 'cancelled'`",
        "- line 1: `card_id` is `CASE WHEN card = 'guest' THEN NULL ELSE card END`",
    ):
        assert line in unit.notes.split("\n")


def test_changed_sql_alone_makes_a_unit() -> None:
    assert units_of(sql_files(), "models/marts/margin.sql")["dbt-all"].files == ("models/marts/margin.sql",)
    assert units_of(sql_files(), "models/marts/plain.sql") == {}


def test_in_a_large_project_sql_goes_with_the_yaml_that_describes_its_model() -> None:
    found = units_of(sql_files(40), "models/marts/margin.sql", "models/staging/stg_orders.sql")
    assert sorted(found) == ["dbt-models/marts/schema.yml", "dbt-models/staging/"]
    marts = found["dbt-models/marts/schema.yml"]
    assert marts.files == ("models/marts/margin.sql",)
    assert marts.dependencies == ("dbt_project.yml", "models/marts/schema.yml", "models/marts/plain.sql")
    assert "cancelled" in marts.notes and "guest" not in marts.notes
    assert found["dbt-models/staging/"].files == ("models/staging/stg_orders.sql",)
    both = units_of(sql_files(40), "models/marts/margin.sql", "models/marts/schema.yml")
    assert both["dbt-models/marts/schema.yml"].files == ("models/marts/margin.sql", "models/marts/schema.yml")


def test_a_file_describing_many_models_is_several_units() -> None:
    names = [f"m{index:02}" for index in range(70)]
    files = {f"models/{name}.sql": f"select 1 as id from {{{{ ref('x') }}}} where a = '{name}'" for name in names}
    files |= {"models/schema.yml": json.dumps({"models": [{"name": name} for name in names]})}
    found = units_of(files, *files)
    assert {key: len(unit.files) for key, unit in found.items()} == {
        "dbt-models/schema.yml": 25, "dbt-models/schema.yml#2": 25, "dbt-models/schema.yml#3": 20,
    }  # fmt: skip
    assert all(len(unit.notes) < 40_500 for unit in found.values())


def test_notes_have_an_end() -> None:
    sql = "select 1 as id from {{ ref('x') }} where " + " and ".join(
        f"column_{index} = '{'v' * 200}'" for index in range(60)
    )
    files = {f"models/m{index}.sql": sql for index in range(20)}
    (unit,) = units_of(files, *files).values()
    assert len(unit.notes) < 41_500 and "Not summarized here, so read them in full: models/m" in unit.notes
    assert "and 35 more: read the file" in unit.notes


def test_config_in_the_sql_counts_before_the_yaml() -> None:
    models = {"models": [{"name": "facts", "description": "Facts.", "config": {"alias": "customers"}}]}
    sql = "{{ config(alias='orders', schema='shop') }} select 1"
    made, _ = run({"models/schema.yml": json.dumps(models), "models/facts.sql": sql})
    assert made.entry("orders")["descriptions"]["dbt"] == "Facts." and "dbt" not in made.entry("customers")


def test_a_model_without_yaml_and_without_a_table_is_no_warning() -> None:
    _, projection = run({"models/nobody.sql": "select 1 as a", "models/schema.yml": "models: []\n"})
    assert lost(projection) == ["models/nobody.sql:1 model `nobody`: no scanned database has its table"]
    assert projection.warnings == ()


COUNTED = SHOP.replace(
    "  orders:\n",
    "  orders:\n    proposed_measures:\n      - {name: order_count, expr: count(*), status: proposed}\n",
    1,
)
OUTCOMES = "[open, paid, 'cancelled', failed, past_due]"


def rates(made: Project) -> dict[str, str]:
    return {each["name"]: each["expr"] for each in made.entry("orders").get("proposed_measures", ())}


def test_outcomes_that_dbt_declares_become_rates_where_rows_are_counted() -> None:
    assert COUNTED != SHOP
    files = {**FILES, "models/marts/schema.yml": MODELS.replace("[open, paid, true, 3]", OUTCOMES)}
    plain, _ = run(files)
    assert "proposed_measures" not in plain.entry("orders")
    made, _ = run(files, Project({SHARD: COUNTED}))
    expr = "avg(case when status = '{}' then 1.0 else 0.0 end)"
    assert rates(made) == {
        "order_count": "count(*)",
        "cancelled_order_rate": expr.format("cancelled"),
        "failed_order_rate": expr.format("failed"),
    }
    rate = made.entry("orders")["proposed_measures"][1]
    assert (rate["status"], rate["format"]) == ("proposed", "percent")
    assert rate["reason"] == "`status` is a status whose values are declared by dbt; `cancelled` is an outcome."
    before = dict(made.files)
    made.run(DbtSource(), files)
    assert dict(made.files) == before
    made.run(DbtSource(), FILES)
    assert rates(made) == {"order_count": "count(*)"}


def test_a_rate_that_the_scan_proposes_stays_the_scan_s() -> None:
    files = {**FILES, "models/marts/schema.yml": MODELS.replace("[open, paid, true, 3]", OUTCOMES)}
    shard = COUNTED.replace(
        "expr: count(*), status: proposed}\n",
        "expr: count(*), status: proposed}\n      - {name: failed_order_rate, expr: avg(1.0), status: proposed}\n",
    )
    made, _ = run(files, Project({SHARD: shard}))
    assert rates(made)["failed_order_rate"] == "avg(1.0)" and "cancelled_order_rate" in rates(made)
    made.run(DbtSource(), FILES)
    assert list(rates(made)) == ["order_count", "failed_order_rate"]
