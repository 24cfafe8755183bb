"""LookML as files of ktx that load clean and answer as a model written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.interchange.lookml.importer import import_lookml
from ktx_cli.semantic.interchange.lookml.views import UNKNOWN_TABLE
from ktx_cli.semantic.interchange.report import Fidelity, Imported, Kind
from ktx_cli.semantic.model import Model, Relationship, Visibility
from tests.semantic.interchange.conftest import Answers, Load, errors

VIEWS = """\
# the views of the shop
view: with_id {
  extension: required
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; hidden: yes }
}
view: orders {
  extends: [with_id]
  sql_table_name: main.orders ;;
  dimension: customer_id { type: number sql: ${TABLE}.customer_id ;; }
  dimension: status { description: "Where it is" sql: ${TABLE}.status ;; drill_fields: [id, status] }
  dimension: state { sql: upper(${status}) ;; }
  dimension: gift { type: yesno sql: ${TABLE}.is_gift ;; }
  dimension: amount { type: number sql: ${TABLE}.amount ;; hidden: yes }
  dimension: size { type: tier tiers: [30, 100] style: integer sql: ${amount} ;; }
  dimension: is_north { type: yesno sql: ${customers.region} = 'north' ;; }
  dimension_group: ordered { type: time timeframes: [raw, date, month, day_of_week] sql: ${TABLE}.ordered_at ;; }
  dimension: month_text { sql: cast(${ordered_month} as varchar) ;; }
  measure: count { type: count drill_fields: [id] }
  measure: revenue { type: sum sql: ${amount} ;; value_format_name: usd label: "Revenue" }
  measure: paid_revenue { type: sum sql: ${amount} ;; filters: [status: "paid", amount: ">20"] }
  measure: gift_count { type: count filters: { field: gift value: "yes" } }
  measure: north_revenue { type: sum sql: ${amount} ;; filters: [customers.region: "north"] }
  measure: paid_share { type: number sql: 1.0 * ${paid_revenue} / nullif(${revenue}, 0) ;; }
  measure: per_customer { type: number sql: ${revenue} / ${customers.count} ;; }
  measure: p90 { type: percentile percentile: 90 sql: ${amount} ;; }
  measure: share { type: percent_of_total sql: ${revenue} ;; }
  measure: last_month { type: period_over_period based_on: revenue period: month kind: previous }
}
view: customers {
  sql_table_name: main.customers ;;
  dimension: id { primary_key: yes type: number }
  dimension: region {}
  dimension: area { case: { when: { sql: ${region} = 'north' ;; label: "North" } else: "Elsewhere" } }
  dimension_group: signed { type: time datatype: date timeframes: [date, month] sql: ${TABLE}.signed_up ;; }
  measure: count { type: count_distinct sql: ${id} ;; }
}
view: spent {
  derived_table: { sql: select customer_id, sum(amount) as total from ${orders.SQL_TABLE_NAME} group by 1 ;; }
  dimension: customer_id { primary_key: yes type: number }
  dimension: total { type: number }
  measure: most { type: max sql: ${total} ;; }
}
view: +customers { dimension: area { label: "Area" } }
"""
MODEL = """\
connection: "shop"
include: "/views/*.view"
explore: orders {
  label: "Orders"
  join: customers { relationship: many_to_one sql_on: ${orders.customer_id} = ${customers.id} ;; }
  join: spent { relationship: one_to_one sql_on: ${customers.id} = ${spent.customer_id} ;; }
}
"""
BY_HAND = {
    "orders.yaml": """\
name: orders
column_overrides: [{name: ordered_at, role: time}]
columns:
  - {name: state, type: string, expr: upper(status)}
  - {name: gift, type: boolean, expr: is_gift}
  - {name: size, type: string,
       expr: "case when amount < 30 then 'Below 30' when amount < 100 then '30 to 99' else '100 or Above' end"}
  - {name: is_north, type: boolean, expr: customers.region = 'north'}
  - {name: ordered, type: time, expr: ordered_at}
  - {name: month_text, type: string, expr: "cast(date_trunc('month', ordered_at) as varchar)"}
joins: [{to: customers, on: customer_id = customers.id, relationship: many_to_one}]
default_time_dimension: {user: ordered}
measures:
  - {name: count, expr: count(*)}
  - {name: revenue, expr: sum(amount)}
  - {name: paid_revenue, expr: sum(amount), filter: status = 'paid' and amount > 20}
  - {name: gift_count, expr: count(*), filter: is_gift}
  - {name: north_revenue, expr: sum(amount), filter: customers.region = 'north'}
  - {name: paid_share, expr: paid_revenue / revenue}
  - {name: per_customer, expr: revenue / customers.count}
  - {name: p90, expr: "percentile(amount, 0.9)"}
  - {name: share, expr: sum(amount), percent_of: total}
  - {name: last_month, expr: sum(amount), offset: 1 month}
""",
    "customers.yaml": """\
name: customers
columns:
  - {name: area, type: string, expr: "case when region = 'north' then 'North' else 'Elsewhere' end"}
  - {name: signed, type: time, expr: signed_up}
joins: [{to: spent, on: id = spent.customer_id, relationship: one_to_one}]
measures: [{name: count, expr: count(distinct id)}]
""",
    "spent.yaml": """\
name: spent
sql: select customer_id, sum(amount) as total from main.orders group by 1
grain: [customer_id]
columns: [{name: customer_id, type: number}, {name: total, type: number}]
measures: [{name: most, expr: max(total)}]
""",
}
MONTH = {"field": "orders.ordered", "granularity": "month"}
QUESTIONS: list[dict[str, Any]] = [
    {"measures": ["orders.count", "revenue", "paid_revenue", "gift_count", "north_revenue", "paid_share", "p90"]},
    {"measures": ["per_customer", "spent.most"]},
    {"measures": ["revenue", "share"], "dimensions": ["orders.size"]},
    {"measures": ["revenue", "last_month"], "dimensions": [MONTH]},
    {"measures": ["revenue"], "dimensions": ["orders.is_north", "orders.gift"]},
    {"measures": ["orders.count"], "dimensions": ["orders.state", "customers.area"]},
    {"measures": ["orders.count"], "dimensions": ["orders.month_text"]},
    {"measures": ["customers.count"], "dimensions": [{"field": "customers.signed", "granularity": "month"}]},
]


def shop(views: str = VIEWS, explores: str = MODEL, model: Model | None = None) -> Imported:
    return import_lookml({"views/shop.view.lkml": views, "shop.model.lkml": explores}, model)


def about(found: Imported, what: str) -> list[Fidelity]:
    return [each for each in found.report if each.what == what]


@pytest.mark.parametrize("over_manifest", [False, True], ids=["standalone", "overlay"])
def test_answers_as_a_model_written_by_hand(over_manifest: bool, load: Load, manifest: Model, answers: Answers) -> None:
    found = shop(model=manifest if over_manifest else None)
    model, by_hand = load(found.files, manifest=over_manifest), load(BY_HAND, manifest=True)
    assert errors(model) == [] == errors(by_hand)
    for question in QUESTIONS:
        rows = answers(model, **question)
        assert rows == answers(by_hand, **question)
        assert rows and any(value is not None for value in rows[0])


def test_what_is_dropped_has_its_reason_and_line() -> None:
    dropped = {each.what: (each.why, each.place.line) for each in shop().report if each.kind is Kind.DROPPED}
    assert dropped == {
        "`connection` of shop.model.lkml": ("ktx settings determine the connection, not LookML", 1),
        "`drill_fields` of dimension `orders.status`": ("it only affects the display in Looker", 10),
        "`timeframes` of dimension group `orders.ordered`": ("not supported by ktx: day_of_week", 16),
        "`drill_fields` of measure `orders.count`": ("it only affects the display in Looker", 18),
    }


def test_extends_refinements_and_visibility(load: Load) -> None:
    model = load(shop().files)
    orders, customers = model.sources["orders"], model.sources["customers"]
    assert "with_id" not in model.sources
    assert orders.grain == ("id",) and orders.columns["id"].visibility is Visibility.INTERNAL
    assert (customers.columns["area"].label, customers.columns["area"].description) == ("Area", "Area")
    assert (orders.label, orders.measures["revenue"].label) == ("Orders", "Revenue")
    assert customers.columns["signed"].natural_granularity == "day" and orders.columns["ordered"].is_date is False
    assert orders.measures["revenue"].format == "usd" and orders.measures["revenue"].description == "Revenue"
    assert orders.time_column == "ordered"


FIELDS = [
    ("dropped", "dimension: x { sql: {% if a %} b {% endif %} ;; }", "dimension `v.x`", "Liquid"),
    ("dropped", "dimension: x { type: location }", "dimension `v.x`", "location"),
    ("dropped", "dimension_group: x { type: duration }", "dimension group `v.x`", "duration"),
    ("dropped", "dimension_group: x { type: time datatype: epoch }", "dimension group `v.x`", "epoch"),
    ("dropped", "dimension: x { sql: ${nobody} ;; }", "dimension `v.x`", "not an imported field"),
    ("dropped", "dimension: x { sql: ${other.y} ;; }", "dimension `v.x`", "not a field of a joined view"),
    ("dropped", "dimension: x { sql: ${x} ;; }", "dimension `v.x`", "not an imported field"),
    ("dropped", "dimension: x { sql: sum(a) ;; }", "dimension `v.x`", "aggregate"),
    ("dropped", "measure: x { type: list list_field: a }", "measure `v.x`", "list of values"),
    ("dropped", "measure: x { type: running_total sql: ${n} ;; }", "measure `v.x`", "rows of a result"),
    ("dropped", "measure: x { type: sum sql: ${a} ;; filters: [at_date: \"7 days\"] }", "measure `v.x`", "7 days"),
    ("dropped", "measure: x { type: number sql: ${lost} + 1 ;; } measure: lost { type: sum }", "measure `v.x`",
     "`${lost}`"),
    ("dropped", "measure: x { type: percentile percentile: 900 sql: ${a} ;; }", "measure `v.x`", "percentile"),
    ("dropped", "measure: x { type: period_over_period based_on: n period: year kind: difference }",
     "measure `v.x`", "difference"),
    ("dropped", "parameter: x { type: string }", "`parameter` of view `v`", "Liquid"),
    ("dropped", "set: x { fields: [a] }", "`set` of view `v`", "display in Looker"),
    ("dropped", "mystery: x", "`mystery` of view `v`", "not supported by ktx"),
    ("approximated", "dimension: x { type: tier tiers: [1, 2] sql: ${a} ;; }", "dimension `v.x`", "labels"),
    ("approximated", "dimension: x { required_access_grants: [g] }", "`required_access_grants` of dimension `x`",
     "access grants"),
    ("approximated", "measure: x { type: sum_distinct sql: ${a} ;; }", "measure `v.x`", "counts once"),
    ("approximated", "dimension: x { sql: lower(${TABLE}.x) ;; }", "the name of dimension `v.x`",
     "column with this name"),
    ("kept", "dimension: x { sql: coalesce(${a}, 0) ;; }", "dimension `v.x`", ""),
    ("kept", "measure: x { type: average sql: ${a} ;; filters: [b: \"yes\"] }", "measure `v.x`", ""),
    ("kept", "measure: x { type: period_over_period based_on: n period: year }", "measure `v.x`", ""),
]  # fmt: skip


@pytest.mark.table(("kind", "field", "what", "why"), FIELDS)
def test_fidelity_of_a_field(kind: str, field: str, what: str, why: str) -> None:
    view = (
        "view: v { dimension: a { type: number } dimension: b { type: yesno } dimension_group: at { type: time }\n"
        f"measure: n {{ type: count }}\n{field} }}"
    )
    found = import_lookml({"v.lkml": view}, None)
    assert [(each.kind.value, why in each.why, each.place.line) for each in about(found, what)] == [(kind, True, 3)]


EXPLORES = [
    ("dropped", "join: b { sql_on: ${a.id} > ${b.id} ;; }", "join `b` of explore `a`", "equalities"),
    ("dropped", "join: b { sql_on: ${a.id} = ${b.id} ;; relationship: many_to_many }", "join `b` of explore `a`",
     "many_to_many"),
    ("dropped", "join: b { sql_on: ${a.id} = ${b.id} ;; type: cross }", "join `b` of explore `a`", "cross"),
    ("dropped", "join: c { sql_on: ${a.id} = ${c.id} ;; }", "join `c` of explore `a`", "view was not imported"),
    ("dropped", "join: b { sql_on: 1 = 1 ;; }", "join `b` of explore `a`", "one other view"),
    ("dropped", "always_filter: { filters: [a.id: \"1\"] }", "`always_filter` of explore `a`", "set their own filters"),
    ("dropped", "aggregate_table: x { }", "`aggregate_table` of explore `a`", "aggregate tables"),
    ("approximated", "join: b { sql_on: ${a.id} = ${b.id} ;; type: inner }", "join `b` of explore `a`",
     "without a match"),
    ("approximated", "sql_always_where: ${a.id} > 1 ;;", "`sql_always_where` of explore `a`", "segment"),
    ("approximated", "access_filter: { field: a.id user_attribute: u }", "`access_filter` of explore `a`",
     "single value"),
    ("approximated", "access_filter: { field: z.id user_attribute: u }", "`access_filter` of explore `a`", "hides"),
    ("kept", "join: b { foreign_key: id }", "join `b` of explore `a`", ""),
    ("kept", "join: b { sql_on: ${b.id} = ${a.id} AND ${b.kind} = 'x' ;; }", "join `b` of explore `a`", ""),
]  # fmt: skip


@pytest.mark.table(("kind", "part", "what", "why"), EXPLORES)
def test_fidelity_of_an_explore(kind: str, part: str, what: str, why: str) -> None:
    views = (
        "view: a { dimension: id { primary_key: yes type: number } }\n"
        "view: b { dimension: id { primary_key: yes type: number } dimension: kind {} }\n"
    )
    found = import_lookml({"v.lkml": f"{views}explore: a {{\n{part} }}"}, None)
    kinds = [(each.kind.value, why in each.why) for each in about(found, what)]
    assert (kind, True) in kinds and len({each for each, _ in kinds}) == 1, about(found, what)


def test_rows_a_user_may_not_see_stay_unseen(load: Load) -> None:
    views = "view: a { dimension: id { primary_key: yes type: number } dimension: region {} }\n"
    own = import_lookml({"v.lkml": views + "explore: a { access_filter: { field: a.region user_attribute: r } }"}, None)
    (policy,) = load(own.files).sources["a"].policies
    assert policy.filter == "region = {{ user.r }}"
    far = import_lookml({"v.lkml": views + "explore: a { access_filter: { field: b.region user_attribute: r } }"}, None)
    assert load(far.files).sources["a"].visibility is Visibility.HIDDEN


def test_two_roles_of_one_view(load: Load, answers: Answers) -> None:
    explores = """\
explore: orders {
  join: buyers { from: customers sql_on: ${orders.customer_id} = ${buyers.id} ;; relationship: many_to_one }
  join: payers { from: customers sql_on: ${orders.customer_id} = ${payers.id} AND ${payers.region} = 'north' ;; }
}
"""
    model = load(
        shop(VIEWS.replace("customers.region", "buyers.region").replace("${customers.count}", "1"), explores).files
    )
    assert errors(model) == []
    joins = {join.alias: join for join in model.sources["orders"].joins}
    assert joins.keys() == {"buyers", "payers"} and joins["buyers"].relationship is Relationship.MANY_TO_ONE
    assert answers(model, measures=["north_revenue"]) == [(170.0,)]
    assert answers(model, measures=["orders.count"], dimensions=["payers.region"], include_empty=False) == [
        ("north", 3.0),
        (None, 3.0),
    ]


def test_a_join_may_have_the_name_of_another_view(load: Load, answers: Answers) -> None:
    explores = """\
explore: orders {
  join: spent { from: customers sql_on: ${orders.customer_id} = ${spent.id} ;; relationship: many_to_one }
}
"""
    model = load(shop(VIEWS, explores).files)
    assert errors(model) == []
    assert [join.alias for join in model.sources["orders"].joins] == ["orders_spent"]
    rows = answers(model, measures=["orders.count"], dimensions=["orders_spent.region"])
    assert rows == [("north", 3.0), ("south", 2.0), (None, 1.0)]


BROKEN = [
    ("view: a {", 1, "missing closing brace of `view`"),
    ("view: a { }\n}", 2, "unmatched closing brace"),
    ("view a { }", 1, "expected a colon after `view`"),
    ("view: a {\n dimension: b {\n sql: x }", 3, "missing ;; after `sql`"),
    ('label: "abc', 1, "unterminated string"),
    ("x: [a, b", 1, "missing closing bracket"),
    ("x:", 1, "no value"),
    ("a: { " * 60, 1, "nested more than"),
]


@pytest.mark.table(("text", "line", "why"), BROKEN)
def test_a_broken_file_is_named_with_its_line(text: str, line: int, why: str) -> None:
    found = import_lookml({"a.lkml": text, "b.lkml": "view: ok { dimension: id { type: number } }"}, None)
    (item,) = about(found, "file a.lkml")
    assert (item.kind, item.place.line, why in item.why) == (Kind.DROPPED, line, True), item
    assert list(found.files) == ["ok.yaml"]


def test_a_dashboard_and_other_files() -> None:
    found = import_lookml({"a.dashboard.lookml": "- dashboard: x", "notes.md": "view"}, None)
    assert [(each.what, each.kind) for each in found.report] == [("file a.dashboard.lookml", Kind.DROPPED)]
    assert found.files == {}


def test_only_views_of_known_tables(manifest: Model) -> None:
    text = "view: orders { measure: n { type: count } }\nview: ghosts { measure: n { type: count } }\n"
    made = import_lookml({"a.view.lkml": text}, manifest, known_only=True)
    assert list(made.files) == ["orders.yaml"]
    assert [each.why for each in made.report if each.what == "view `ghosts`"] == [UNKNOWN_TABLE]
