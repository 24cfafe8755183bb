"""What the files of a semantic layer become: every form the TypeScript ktx writes, and what ours adds."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.semantic.load.load import load_model, read_source
from ktx_cli.semantic.model import (
    CalendarSettings,
    Condition,
    Cumulative,
    Model,
    Relationship,
    SemiAdditive,
    Span,
    Visibility,
)
from ktx_cli.warehouses.port import SemanticType

SHARD = """\
tables:
  orders:
    table: public.orders
    descriptions: {db: "from the database", ai: "All orders."}
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: customer_id, type: number}
      - {name: placed_at, type: time, descriptions: {db: "when placed"}}
      - {name: status, type: string, enum_values: {dbt: [paid, open]}}
      - {name: internal_notes, type: string}
      - {name: total, type: number, constraints: {dbt: {not_null: true, unique: false}}}
    joins:
      - {to: customers, on: "customer_id = customers.id", relationship: many_to_one, source: formal}
      - {to: customers, on: "billing_id = customers.id", relationship: many_to_one, source: inferred}
    default_time_dimension: {dbt: placed_at}
    tags: {dbt: [finance, nightly]}
    freshness: {dbt: {raw: "24 hours", loaded_at_field: loaded_at}}
    usage: {narrative: "used for revenue", frequencyTier: high, commonFilters: ["status = 'paid'"]}
  customers:
    table: public.customers
    columns:
      - name: id
        type: number
        pk: true
        tests: {dbt: [unique, {accepted_values: [1]}], dbt_by_package: {p: [not_null]}}
      - {name: name, type: string, descriptions: {db: "of a person"}}
      - {name: signed_up, type: time}
    joins:
      - {to: orders, on: "id = orders.customer_id", relationship: one_to_many, source: formal}
  log_lines:
    table: log_lines
    columns:
      - {name: at, type: time}
      - {name: line, type: string}
"""
ORDERS = """\
# people's own words
name: orders
descriptions: {user: "Orders of the web shop."}
grain: [ID]
exclude_columns: [internal_notes]
column_overrides:
  - {name: STATUS, visibility: internal, descriptions: {user: "where it is"}}
columns:
  - {name: is_paid, type: boolean, expr: "status = 'paid'"}
joins:
  - {to: customers, on: "customer_id = buyer.id", relationship: many_to_one, alias: buyer}
disable_joins: ["billing_id  =  customers.id"]
measures:
  - {name: revenue, expr: "sum(total)", segments: [paid], description: "in euro"}
  - {name: order_count, expr: "count(*)", filter: "status <> 'open'"}
segments:
  - {name: paid, expr: "status = 'paid'", description: "money is here"}
"""
REGIONS = """\
name: big_customers
sql: |
  select id, name, signed_up from customers where id > 10
source_type: sql
inherits_columns_from: PUBLIC.Customers
grain: [id]
columns:
  - {name: id}
  - {name: NAME, type: text, description: "who"}
  - {name: signed_up}
"""


@pytest.fixture
def model(load: Any) -> Model:
    loaded: Model = load(
        {"_schema/public.yaml": SHARD, "orders.yaml": ORDERS, "more/big.yml": REGIONS, "README.md": "no source"}
    )
    return loaded


def test_sources_and_their_grain(model: Model) -> None:
    assert list(model.sources) == ["big_customers", "customers", "log_lines", "orders"]
    found = {name: (each.grain, each.keyed, each.generated) for name, each in model.sources.items()}
    assert found == {
        "orders": (("id",), True, True),
        "customers": (("id",), True, True),
        "log_lines": (("at", "line"), False, True),
        "big_customers": (("id",), True, False),
    }
    assert model.sources["orders"].table == ("public", "orders")
    assert [(each.code, each.location.object) for each in model.problems] == [("no_grain", "log_lines")]


def test_an_overlay_changes_its_source(model: Model) -> None:
    orders = model.sources["orders"]
    assert list(orders.columns) == ["id", "customer_id", "placed_at", "status", "total", "is_paid"]
    status = orders.columns["status"]
    assert (status.visibility, status.description, status.values) == (
        Visibility.INTERNAL,
        "where it is",
        ("paid", "open"),
    )
    assert str(status.place) == "semantic-layer/shop/orders.yaml:7"
    assert orders.columns["is_paid"].expr == "status = 'paid'"
    assert orders.columns["total"].nullable is False
    assert orders.description == "Orders of the web shop."
    assert [(join.on, join.alias, join.provenance) for join in orders.joins] == [
        ("customer_id = customers.id", None, "formal"),
        ("customer_id = buyer.id", "buyer", None),
    ]
    assert orders.measures["revenue"].segments == ("paid",)
    assert orders.segments["paid"].description == "money is here"
    assert orders.time_column == "placed_at"
    assert orders.columns["placed_at"].role == "time"
    assert {"finance", "24 hours", "used for revenue", "status = 'paid'"} <= set(orders.search)
    assert "high" not in orders.search
    assert orders.usage_tier == "high"


def test_a_source_of_its_own_inherits_what_it_leaves_blank(model: Model) -> None:
    columns = model.sources["big_customers"].columns
    assert {name: (each.type, each.description, each.role) for name, each in columns.items()} == {
        "id": (SemanticType.NUMBER, None, "default"),
        "NAME": (SemanticType.STRING, "who", "default"),
        "signed_up": (SemanticType.TIME, None, "time"),
    }


def test_a_unique_test_is_known_of_a_column(model: Model) -> None:
    column = model.sources["customers"].columns["id"]
    assert (column.unique, column.nullable) == (True, False)
    assert model.sources["orders"].columns["total"].unique is False


EXTRA = """\
name: stock
table: {catalog: dwh, db: main, name: stock levels}
grain: [day, sku]
default_time_dimension: day
visibility: internal
columns:
  - {name: day, type: time, role: time, natural_granularity: day}
  - {name: seen_at, type: time, timezone: Europe/Vienna, natural_granularity: millisecond}
  - {name: sku, type: string, visibility: hidden}
  - {name: amount, type: number, unit: pieces}
measures:
  - name: level
    expr: sum(amount)
    unit: pieces
    format: "0"
    visibility: internal
    time: seen_at
    semi_additive: {over: day, take: first, per: [sku]}
  - {name: ever, expr: sum(amount), cumulative: {}}
  - {name: month, expr: sum(amount), cumulative: {over: day, window: "28 Days"}}
  - {name: ytd, expr: sum(amount), cumulative: {to_date: fiscal_year}}
  - {name: before, expr: sum(amount), offset: "1 year"}
  - {name: share, expr: sum(amount), percent_of: total}
  - {name: share_of_sku, expr: sum(amount), percent_of: [sku]}
  - {name: mean, expr: avg(level), per: [sku]}
policies:
  - {name: own, filter: "sku = {{ user.sku }}", description: "one's own"}
parameters:
  - {name: since, type: time, default: "2024-01-01"}
  - {name: kind, type: string, default: a, values: [a, b]}
tests:
  - {name: rows, query: {measures: [level]}, expect: [[1, a]], tolerance: 0.5}
  - {name: one, query: {measures: [level]}, expect_value: 3}
  - {name: never, query: {measures: [level]}, invariant: "level >= 0"}
"""


def test_what_ktx_adds(load: Any) -> None:
    model = load({"stock.yaml": EXTRA})
    assert model.problems == ()
    stock = model.sources["stock"]
    assert stock.table == ("dwh", "main", "stock levels")
    assert (stock.visibility, stock.time_column) == (Visibility.INTERNAL, "day")
    assert stock.columns["day"].is_date
    assert (stock.columns["seen_at"].timezone, stock.columns["seen_at"].natural_granularity) == (
        "Europe/Vienna",
        "second",
    )
    measures = stock.measures
    assert measures["level"].semi_additive == SemiAdditive("day", "first", ("sku",))
    assert (measures["level"].time, measures["level"].unit, measures["level"].format) == ("seen_at", "pieces", "0")
    assert measures["ever"].cumulative == Cumulative()
    assert measures["month"].cumulative == Cumulative("day", Span(28, "day"))
    assert measures["ytd"].cumulative == Cumulative(to_date="fiscal_year")
    assert measures["before"].offset == Span(1, "year")
    assert measures["share"].percent_of == ()
    assert measures["share_of_sku"].percent_of == ("sku",)
    assert measures["mean"].per == ("sku",)
    assert measures["ever"].percent_of is None
    assert [(each.name, each.filter) for each in stock.policies] == [("own", "sku = {{ user.sku }}")]
    assert stock.parameters["kind"].values == ("a", "b")
    rows, one, never = stock.tests
    assert (rows.expect, rows.tolerance) == (((1, "a"),), 0.5)
    assert (one.expect_value, never.invariant) == (3, "level >= 0")


def test_descriptions_by_who_wrote_them(load: Any) -> None:
    texts = {"x": "other", "ktx": "auto", "db": "of the database", "dbt": "of dbt", "ai": "of a model", "user": "own"}
    for who in ("user", "ai", "dbt", "db", "ktx", "x"):
        model = load(
            {"a.yaml": f"name: a\ntable: a\ngrain: [b]\ndescriptions: {texts}\ncolumns: [{{name: b, type: time}}]"}
        )
        assert model.sources["a"].description == texts.pop(who)


def test_an_overlay_has_the_last_word_of_each_writer(load: Any) -> None:
    shard = """\
tables:
  a:
    table: a
    descriptions: {user: old, db: of the database}
    columns: [{name: b, type: time, pk: true, descriptions: {user: old}}]
"""
    overlay = "name: a\ndescriptions: {user: new}\ncolumn_overrides: [{name: b, descriptions: {user: newer}}]"
    source = load({"_schema/x.yaml": shard, "a.yaml": overlay}).sources["a"]
    assert (source.description, source.columns["b"].description) == ("new", "newer")


@pytest.mark.table(
    ("manifest", "overlay", "shown"),
    [
        ("{dbt: One row an order. Refunds count.}", "{dbt: Revenue by order.}",
         "One row an order. Refunds count. Revenue by order."),
        ("{dbt: One row an order}", "{dbt: Revenue by order.}", "One row an order. Revenue by order."),
        ("{dbt: Revenue by order.}", "{dbt: What each order brought in. Revenue by  ORDER}",
         "What each order brought in. Revenue by  ORDER"),
        ("{dbt: What each order brought in. Revenue by order.}", "{dbt: Revenue by order}",
         "What each order brought in. Revenue by order."),
        ("{dbt: Long., user: Mine.}", "{dbt: Short.}", "Mine."),
        ("{dbt: Long.}", "{user: Mine.}", "Mine."),
        ("{dbt: Of dbt.}", "{lookml: Of LookML.}", "Of dbt."),
        ("{ai: Old.}", "{ai: New.}", "New."),
    ],
)  # fmt: skip
def test_what_one_tool_says_twice_is_shown_whole(load: Any, manifest: str, overlay: str, shown: str) -> None:
    shard = f"tables: {{a: {{table: a, descriptions: {manifest}, columns: [{{name: b, type: time, pk: true, "
    shard += f"descriptions: {manifest}}}]}}}}\n"
    changed = f"name: a\ndescriptions: {overlay}\ncolumn_overrides: [{{name: b, descriptions: {overlay}}}]\n"
    source = load({"_schema/x.yaml": shard, "a.yaml": changed}).sources["a"]
    assert (source.description, source.columns["b"].description) == (shown, shown)


@pytest.mark.table(
    ("said", "measure", "imported"),
    [
        ("descriptions: {dbt: Orders.}", "", True),
        ("default_time_dimension: {dbt: b}", "", True),
        ("default_time_dimension: b", "", False),
        ("descriptions: {dbt: Orders., user: Ours.}", "", False),
        ("descriptions: {dbt: Orders.}", ", descriptions: {user: Ours.}", False),
        ("descriptions: {user: Ours.}", ", descriptions: {dbt: Rows.}", True),
        ("tags: [x]", "", False),
    ],
)
def test_measures_that_a_tool_defines(load: Any, said: str, measure: str, imported: bool) -> None:
    shard = "tables: {a: {table: a, columns: [{name: b, type: time, pk: true}]}}\n"
    overlay = f"name: a\n{said}\nmeasures: [{{name: n, expr: count(*){measure}}}]\n"
    assert load({"_schema/x.yaml": shard, "a.yaml": overlay}).sources["a"].measures["n"].imported is imported


@pytest.mark.parametrize(
    ("native", "dialect", "wanted"),
    [("INTEGER", "duckdb", "number"), ("tinyint(1)", "mysql", "boolean"), ("timestamptz", "postgres", "time"),
     ("jsonb", "postgres", "string"), ("boolean", "duckdb", "boolean"), ("string", "duckdb", "string")],
)  # fmt: skip
def test_native_types_in_shards(load: Any, native: str, dialect: str, wanted: str) -> None:
    shard = f"tables: {{a: {{table: a, columns: [{{name: b, type: {native}, pk: true}}]}}}}"
    model = load({"_schema/x.yaml": shard}, dialect)
    assert model.sources["a"].columns["b"].type == wanted
    assert model.problems == ()


@pytest.mark.parametrize("text", [ORDERS.replace("\n", "\r\n"), "\ufeff" + ORDERS, "---\n" + ORDERS])
def test_text_layouts(load: Any, model: Model, text: str) -> None:
    again = load({"orders.yaml": text.encode()})
    orders, wanted = again.sources["orders"], model.sources["orders"]
    assert [(each.name, each.expr) for each in orders.measures.values()] == [
        (each.name, each.expr) for each in wanted.measures.values()
    ]
    assert (list(orders.columns), orders.grain, again.problems) == (list(wanted.columns), wanted.grain, model.problems)


def test_names_of_either_case_meet(load: Any) -> None:
    shard = """\
tables:
  CUSTOMERS: {table: CRM.CUSTOMERS, columns: [{name: ID, type: number, pk: true}, {name: KIND, type: string}]}
  ORDERS:
    table: CRM.ORDERS
    columns: [{name: ID, type: number, pk: true}, {name: CUSTOMER_ID, type: number}]
    joins: [{to: customers, on: "customer_id = customers.id and customers.kind = 'b2b'", relationship: many_to_one}]
"""
    model = load({"_schema/crm.yaml": shard, "o.yaml": "name: orders\nmeasures: [{name: n, expr: count(id)}]"})
    (join,) = model.sources["ORDERS"].joins
    assert (join.to, join.pairs, join.conditions) == (
        "CUSTOMERS",
        (("CUSTOMER_ID", "ID"),),
        (Condition(False, "KIND", "b2b"),),
    )
    assert list(model.sources["ORDERS"].measures) == ["n"]


def test_a_join_of_an_overlay_takes_the_place_of_the_same_one(load: Any) -> None:
    overlay = 'name: orders\njoins: [{to: customers, on: "customer_id  = customers.id", relationship: one_to_one}]'
    model = load({"_schema/x.yaml": SHARD, "o.yaml": overlay})
    joins = model.sources["orders"].joins
    assert (joins[0].to, joins[0].relationship) == ("customers", Relationship.ONE_TO_ONE)
    assert len(joins) == 2


def test_the_same_files_give_the_same_model(write: Any, model: Model) -> None:
    again = load_model(write({}), "shop", "duckdb")
    assert again == model
    assert pickle.loads(pickle.dumps(again)) == model
    assert [str(each.location) for each in again.problems] == [str(each.location) for each in model.problems]


def test_no_files(tmp_path: Any) -> None:
    calendar = CalendarSettings("sunday", 4, "UTC")
    assert load_model(Layout(tmp_path), "shop", "duckdb", calendar) == Model("shop", "duckdb", {}, (), calendar)


def test_read_source(write: Any) -> None:
    layout = write(
        {"_schema/public.yaml": "\ufeff" + SHARD, "orders.yaml": "\ufeff" + ORDERS, "b.yaml": "name: bad\nx: ["}
    )
    shard, own = read_source(WorkingTree(layout.root), "shop", "orders")
    assert own == ("semantic-layer/shop/orders.yaml", ORDERS)
    assert shard[0] == "semantic-layer/shop/_schema/public.yaml"
    assert shard[1].startswith("  orders:\n    table: public.orders\n")
    assert shard[1].endswith("commonFilters: [\"status = 'paid'\"]}\n")
    assert read_source(WorkingTree(layout.root), "shop", "bad") == [("semantic-layer/shop/b.yaml", "name: bad\nx: [")]
    assert read_source(WorkingTree(layout.root), "shop", "nothing") == []
