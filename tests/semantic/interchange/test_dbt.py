"""dbt's YAML, in both its forms, as files of ktx that load clean and answer as a model written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.interchange.dbt.importer import NO_ONE_TABLE, import_dbt
from ktx_cli.semantic.interchange.report import Imported, Kind
from ktx_cli.semantic.model import Cumulative, Model, SemiAdditive, Span, Visibility
from tests.semantic.interchange.conftest import Answers, Load, errors

OLDER = """\
semantic_models:
  - name: orders
    description: Orders of the shop.
    model: ref('orders')
    defaults: {agg_time_dimension: ordered_at}
    entities:
      - {name: order, type: primary, expr: id}
      - {name: customer, type: foreign, expr: customer_id}
    dimensions:
      - {name: ordered_at, type: time, type_params: {time_granularity: day}}
      - {name: status, type: categorical, description: Where it is., label: State}
      - {name: size, type: categorical, expr: "case when amount > 60 then 'big' else 'small' end"}
    measures:
      - {name: revenue, agg: sum, expr: amount}
      - {name: order_count, agg: count, expr: "1"}
      - {name: gifts, agg: sum_boolean, expr: is_gift, create_metric: true}
      - {name: p90, agg: percentile, expr: amount, agg_params: {percentile: 0.9}}
      - {name: mid, agg: median, expr: amount}
      - {name: buyers, agg: count_distinct, expr: customer_id}
  - name: order_items
    model: "{{ ref('order_items') }}"
    primary_entity: item
    entities: [{name: order, type: foreign, expr: order_id}]
    dimensions: [{name: sku, type: categorical}]
    measures: [{name: units, agg: sum, expr: quantity}]
  - name: customers
    model: ref('customers')
    defaults: {agg_time_dimension: signed_up}
    entities: [{name: customer, type: primary, expr: id}]
    dimensions:
      - {name: region, type: categorical}
      - {name: signed_up, type: time, type_params: {time_granularity: day}}
    measures: [{name: customer_count, agg: count, expr: id}]
  - name: balances
    model: ref('balances')
    defaults: {agg_time_dimension: day}
    primary_entity: balance
    entities: [{name: customer, type: foreign, expr: customer_id}]
    dimensions: [{name: day, type: time, type_params: {time_granularity: day}}]
    measures:
      - name: balance
        agg: sum
        expr: amount
        non_additive_dimension: {name: day, window_choice: max, window_groupings: [customer]}
metrics:
  - {name: revenue, type: simple, label: Revenue, type_params: {measure: revenue}}
  - {name: paid_revenue, type: simple, type_params: {measure: revenue},
       filter: "{{ Dimension('order__status') }} = 'paid'"}
  - name: north_revenue
    type: simple
    type_params: {measure: {name: revenue, filter: "{{ Dimension('customer__region') }} = 'north'"}}
  - {name: paid_share, type: ratio, type_params: {numerator: paid_revenue, denominator: revenue}}
  - name: per_order
    type: derived
    type_params: {expr: "rev / nullif(n, 0)", metrics: [{name: revenue, alias: rev}, {name: orders_made, alias: n}]}
  - {name: orders_made, type: simple, type_params: {measure: order_count}}
  - name: growth
    type: derived
    type_params: {expr: revenue - before, metrics: [{name: revenue}, {name: revenue, alias: before,
       offset_window: 1 month}]}
  - {name: running, type: cumulative, type_params: {measure: revenue}}
  - {name: month_to_date, type: cumulative, type_params: {measure: revenue, grain_to_date: month}}
  - name: last_days
    type: cumulative
    type_params: {measure: revenue, cumulative_type_params: {window: 40 days, period_agg: last}}
  - {name: north_units, type: simple, type_params: {measure: units},
       filter: "{{ Dimension('order__customer__region') }} = 'north'"}
  - {name: units_per_customer, type: ratio, type_params: {numerator: north_units, denominator: customers_seen}}
  - {name: customers_seen, type: simple, type_params: {measure: customer_count}}
"""
NEWER = """\
models:
  - name: orders
    description: Orders of the shop.
    semantic_model: {enabled: true}
    agg_time_dimension: ordered_at
    columns:
      - {name: id, entity: {type: primary, name: order}, data_type: integer, data_tests: [unique, not_null]}
      - {name: customer_id, data_type: integer, entity: {type: foreign, name: customer}}
      - {name: ordered_at, granularity: day, dimension: {type: time}}
      - {name: status, dimension: categorical, data_tests: [{accepted_values: {values: [paid, open]}}]}
      - {name: amount, data_type: "decimal(10,2)", description: In euro.}
    derived_semantics:
      dimensions: [{name: size, type: categorical, expr: "case when amount > 60 then 'big' else 'small' end"}]
    metrics:
      - {name: revenue, type: simple, agg: sum, expr: amount, label: Revenue}
      - {name: orders_made, type: simple, agg: count, expr: "1"}
      - {name: gifts, type: simple, agg: sum_boolean, expr: is_gift}
      - {name: mid, type: simple, agg: median, expr: amount}
      - {name: buyers, type: simple, agg: count_distinct, expr: customer_id}
      - {name: p90, type: simple, agg: percentile, expr: amount, percentile: 90}
      - {name: paid_revenue, type: simple, agg: sum, expr: amount, filter: "{{ Dimension('order__status') }} = 'paid'"}
      - {name: north_revenue, type: simple, agg: sum, expr: amount,
           filter: "{{ Dimension('customer__region') }} = 'north'"}
      - {name: running, type: cumulative, input_metric: revenue}
      - {name: month_to_date, type: cumulative, input_metric: revenue, grain_to_date: month}
      - {name: last_days, type: cumulative, input_metric: revenue, window: 40 days, period_agg: last}
      - name: growth
        type: derived
        expr: revenue - before
        input_metrics: [{name: revenue}, {name: revenue, alias: before, offset_window: 1 month}]
      - {name: paid_share, type: ratio, numerator: paid_revenue, denominator: revenue}
      - {name: per_order, type: derived, expr: "revenue / nullif(n, 0)", input_metrics: [{name: revenue},
           {name: orders_made, alias: n}]}
  - name: customers
    semantic_model: true
    agg_time_dimension: signed_up
    columns:
      - {name: id, entity: {type: primary, name: customer}}
      - {name: region, dimension: {type: categorical}}
      - {name: signed_up, granularity: day, dimension: {type: time}}
    metrics: [{name: customers_seen, type: simple, agg: count, expr: id}]
  - name: order_items
    semantic_model: {enabled: true}
    primary_entity: item
    columns: [{name: order_id, entity: {type: foreign, name: order}}]
    metrics:
      - name: north_units
        type: simple
        agg: sum
        expr: quantity
        filter: "{{ Dimension('order__customer__region') }} = 'north'"
  - name: balances
    semantic_model: {enabled: true}
    primary_entity: balance
    agg_time_dimension: day
    columns:
      - {name: customer_id, entity: {type: foreign, name: customer}}
      - {name: day, granularity: day, dimension: {type: time}}
    metrics:
      - name: balance
        type: simple
        agg: sum
        expr: amount
        non_additive_dimension: {name: day, window_agg: max, group_by: [customer]}
metrics:
  - {name: units_per_customer, type: ratio, numerator: {name: north_units}, denominator: customers_seen}
"""
BY_HAND = {
    "orders.yaml": """\
name: orders
default_time_dimension: {user: ordered_at}
column_overrides: [{name: ordered_at, natural_granularity: day}]
columns: [{name: size, type: string, expr: "case when amount > 60 then 'big' else 'small' end"}]
joins: [{to: customers, on: customer_id = customers.id, relationship: many_to_one}]
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: orders_made, expr: count(*)}
  - {name: gifts, expr: sum(case when is_gift then 1 else 0 end)}
  - {name: p90, expr: "percentile(amount, 0.9)"}
  - {name: mid, expr: median(amount)}
  - {name: buyers, expr: count(distinct customer_id)}
  - {name: paid_revenue, expr: sum(amount), filter: status = 'paid'}
  - {name: north_revenue, expr: sum(amount), filter: customers.region = 'north'}
  - {name: paid_share, expr: paid_revenue / revenue}
  - {name: per_order, expr: revenue / orders_made}
  - {name: month_before, expr: sum(amount), offset: 1 month}
  - {name: growth, expr: revenue - month_before}
  - {name: running, expr: sum(amount), cumulative: {}}
  - {name: month_to_date, expr: sum(amount), cumulative: {to_date: month}}
  - {name: last_days, expr: sum(amount), cumulative: {window: 40 days}}
""",
    "order_items.yaml": """\
name: order_items
joins: [{to: orders, on: order_id = orders.id, relationship: many_to_one}]
measures:
  - {name: north_units, expr: sum(quantity), filter: orders.customers.region = 'north'}
  - {name: units_per_customer, expr: north_units / customers.customers_seen}
""",
    "customers.yaml": "name: customers\nmeasures: [{name: customers_seen, expr: count(id)}]\n",
    "balances.yaml": """\
name: balances
joins: [{to: customers, on: customer_id = customers.id, relationship: many_to_one}]
measures: [{name: balance, expr: sum(amount), semi_additive: {over: day, take: last, per: [customer_id]}}]
""",
}
MONTH = {"field": "orders.ordered_at", "granularity": "month"}
QUESTIONS: list[dict[str, Any]] = [
    {
        "measures": [
            "revenue",
            "paid_revenue",
            "north_revenue",
            "paid_share",
            "per_order",
            "gifts",
            "p90",
            "mid",
            "buyers",
        ]
    },
    {"measures": ["units_per_customer"]},
    {"measures": ["revenue", "growth", "running", "month_to_date", "last_days"], "dimensions": [MONTH]},
    {"measures": ["revenue", "paid_share"], "dimensions": ["orders.size", "customers.region"]},
    {"measures": ["balance"], "dimensions": [{"field": "balances.day", "granularity": "month"}]},
    {"measures": ["balance"], "dimensions": ["customers.region"]},
]


def one(text: str, model: Model | None = None) -> Imported:
    return import_dbt({"models/shop.yml": text}, model)


@pytest.mark.parametrize("text", [OLDER, NEWER], ids=["older", "newer"])
@pytest.mark.parametrize("over_manifest", [False, True], ids=["standalone", "overlay"])
def test_answers_as_a_model_written_by_hand(
    text: str, over_manifest: bool, load: Load, manifest: Model, answers: Answers
) -> None:
    found = one(text, manifest if over_manifest else None)
    assert [each for each in found.report if each.kind is Kind.DROPPED] == []
    model = load(found.files, manifest=over_manifest)
    by_hand = load(BY_HAND, manifest=True)
    assert errors(model) == [] == errors(by_hand)
    for question in QUESTIONS:
        rows = answers(model, **question)
        assert rows == answers(by_hand, **question)
        assert rows and any(value is not None for value in rows[0])


def test_an_overlay_changes_and_a_source_of_its_own_stands_alone(load: Load, manifest: Model) -> None:
    over = load(one(OLDER, manifest).files, manifest=True).sources["orders"]
    alone = load(one(OLDER).files).sources["orders"]
    assert over.generated and over.table == ("main", "orders")
    assert not alone.generated and alone.table == ("orders",)
    assert over.measures.keys() == alone.measures.keys()
    assert alone.columns["amount"].visibility is Visibility.INTERNAL and over.columns["amount"].visibility is None
    assert alone.columns["size"].visibility is Visibility.PUBLIC


def test_what_measures_become(load: Load) -> None:
    model = load(one(OLDER).files)
    orders = model.sources["orders"]
    assert model.sources["balances"].measures["balance"].semi_additive == SemiAdditive("day", "last", ("customer_id",))
    assert orders.measures["last_days"].cumulative == Cumulative(window=Span(40, "day"))
    assert orders.measures["order_count"].visibility is Visibility.INTERNAL
    assert (orders.measures["revenue"].label, orders.measures["revenue"].description) == ("Revenue", "Revenue")
    assert (orders.columns["status"].label, orders.columns["status"].description) == ("State", "Where it is.")
    assert orders.measures["growth__before"].offset == Span(1, "month")
    assert orders.time_column == "ordered_at" and orders.columns["ordered_at"].natural_granularity == "day"


def test_tests_and_types_of_the_newer_form(load: Load) -> None:
    orders = load(one(NEWER).files).sources["orders"]
    assert orders.columns["id"].unique and not orders.columns["id"].nullable
    assert orders.columns["status"].values == ("paid", "open")
    assert orders.columns["amount"].type.value == "number" and orders.columns["amount"].description == "In euro."


SHOP = """\
semantic_models:
  - name: orders
    model: ref('orders')
    defaults: {agg_time_dimension: ordered_at}
    entities: [{name: order, type: primary, expr: id}]
    dimensions:
      - {name: ordered_at, type: time, type_params: {time_granularity: day}}
      - {name: status, type: categorical}
    measures: [{name: revenue, agg: sum, expr: amount}]
"""
METRICS = [
    ("dropped", "{name: m, type: conversion, type_params: {}}", "conversion measures"),
    ("dropped", "{name: m, type: odd}", "unknown type"),
    ("dropped", "{name: m, type: simple, type_params: {measure: none}}", "`none` was not imported"),
    ("dropped", "{name: m, type: simple, type_params: {measure: revenue}, filter: \"{{ mystery('x') }} = 1\"}",
     "mystery"),
    ("dropped", "{name: m, type: simple, type_params: {measure: revenue}, filter: \"{% if a %} b {% endif %}\"}",
     "Jinja"),
    ("dropped", "{name: m, type: simple, type_params: {measure: revenue}, filter: \"{{ Metric('revenue') }} > 1\"}",
     "metric"),
    ("dropped", "{name: m, type: simple, type_params: {measure: revenue}, filter: \"{{ Dimension('user__x') }} = 1\"}",
     "`user__x`"),
    ("dropped",
     "{name: m, type: derived, type_params: {expr: revenue - a, metrics: "
     "[{name: revenue, alias: a, offset_to_grain: month}, {name: revenue}]}}",
     "offset_to_grain"),
    ("dropped", "{name: m, type: derived, type_params: {expr: revenue + other, metrics: [{name: revenue}]}}",
     "`other`"),
    ("dropped", "{name: m, type: ratio, type_params: {numerator: m, denominator: revenue}}", "`m` was not imported"),
    ("dropped", "{name: m, type: cumulative, type_params: {measure: revenue, window: 3 moons}}", "3 moons"),
    ("dropped", "{name: m, type: simple, type_params: {measure: revenue}, config: {enabled: false}}", "disabled"),
    ("approximated", "{name: m, type: cumulative, type_params: {measure: revenue}}", "first value"),
    ("approximated", "{name: m, type: simple, type_params: {measure: {name: revenue, fill_nulls_with: 0}}}",
     "fill: true"),
    ("approximated", "{name: m, type: simple, type_params: {measure: {name: revenue, join_to_timespine: true}}}",
     "fill: true"),
    ("kept",
     "{name: m, type: cumulative, type_params: {measure: revenue, "
     "cumulative_type_params: {window: 1 week, period_agg: last}}}", ""),
    ("kept",
     "{name: m, type: simple, type_params: {measure: revenue}, filter: "
     "\"{{ TimeDimension('metric_time', 'month') }} > '2024-01-01'\"}", ""),
    ("kept",
     "{name: m, type: simple, type_params: {measure: revenue}, filter: "
     "\"{{ Entity('order') }} = 1 and {{ var('on', 'true') }}\"}", ""),
]  # fmt: skip


@pytest.mark.table(("kind", "metric", "why"), METRICS)
def test_fidelity_of_a_metric(kind: str, metric: str, why: str) -> None:
    found = one(
        f"{SHOP}metrics:\n  - {{name: revenue, type: simple, type_params: {{measure: revenue}}}}\n  - {metric}\n"
    )
    items = [each for each in found.report if each.what == "metric `m`"]
    assert [(each.kind.value, why in each.why) for each in items] == [(kind, True)]
    assert items[0].place.line == 12
    written = "name: m\n" in found.files["orders.yaml"]
    assert written is (kind != "dropped") and (items[0].target == ("orders.m" if written else None))


MEASURES = [
    ("{name: m, agg: mode, expr: amount}", "unknown aggregate `mode`"),
    ("{name: m, agg: percentile, expr: amount}", "`percentile` is not a number"),
    ("{name: m, agg: sum, expr: 'sum(amount) over ()'}", "window"),
    ("{name: m, agg: sum, expr: '(select 1)'}", "query"),
    ("{name: m, agg: sum, expr: 'a b c'}", "is not a valid duckdb expression"),
    ("{name: m, agg: sum, expr: other.amount}", "`other.amount`"),
    ("{name: m, agg: sum, expr: amount, agg_time_dimension: never}", "`never`"),
    ("{name: m, agg: sum, expr: amount, non_additive_dimension: {name: never}}", "non_additive_dimension"),
]


@pytest.mark.table(("measure", "why"), MEASURES)
def test_a_measure_that_cannot_be_right_is_dropped(measure: str, why: str) -> None:
    found = one(SHOP.replace("{name: revenue, agg: sum, expr: amount}", measure))
    items = [each for each in found.report if each.what == "measure `m` of `orders`"]
    assert [(each.kind, why in each.why) for each in items] == [(Kind.DROPPED, True)], items
    assert "measures" not in found.files["orders.yaml"]


def test_nothing_is_shown_that_the_manifest_hides(load: Load) -> None:
    hidden = {"orders.yaml": "name: orders\ncolumn_overrides: [{name: status, visibility: hidden}]\n"}
    text = SHOP.replace("{name: status, type: categorical}", "{name: state, type: categorical, expr: status}")
    found = one(text, load(hidden, manifest=True))
    assert "visibility" not in found.files["orders.yaml"]


def test_an_unknown_column_of_the_table_is_dropped_with_what_needs_it(manifest: Model, load: Load) -> None:
    found = one(SHOP.replace("expr: amount", "expr: total").replace("name: status", "name: stage"), manifest)
    dropped = {each.what: each.why for each in found.report if each.kind is Kind.DROPPED}
    assert dropped == {
        "dimension `stage` of `orders`": "`orders` has no column `stage`, or ktx cannot refer to it by name",
        "measure `revenue` of `orders`": "`orders` has no column `total`",
    }
    assert errors(load(found.files, manifest=True)) == []


def test_the_names_of_others_are_free(load: Load) -> None:
    taken = load({"mine.yaml": "name: orders\ntable: other.things\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"})
    found = one(SHOP, taken)
    assert list(found.files) == ["orders_2.yaml"]
    assert any(each.kind is Kind.APPROXIMATED and each.target == "orders_2" for each in found.report)
    assert list(one(SHOP, load(one(SHOP).files)).files) == ["orders.yaml"]


def test_every_key_is_in_the_report() -> None:
    text = f"{SHOP}    config: {{meta: {{a: 1}}}}\n    mystery: 1\nsaved_queries: [{{a: 1}}]\nexposures: [{{a: 1}}]\n"
    dropped = {each.what for each in one(text).report if each.kind is Kind.DROPPED}
    assert dropped == {
        "`config` of semantic model `orders`",
        "`mystery` of semantic model `orders`",
        "`saved_queries` of models/shop.yml",
        "`exposures` of models/shop.yml",
    }


def test_a_broken_file_does_not_hide_the_others() -> None:
    found = import_dbt({"a.yml": "a: [", "b.yml": SHOP, "notes.md": "# no model", "c.yml": "- 1"}, None)
    assert list(found.files) == ["orders.yaml"]
    assert [(each.place.path, each.kind) for each in found.report if each.what.startswith("file ")] == [
        ("a.yml", Kind.DROPPED),
        ("c.yml", Kind.DROPPED),
    ]


def test_two_keys_to_one_source_have_names_of_their_own(load: Load, answers: Answers) -> None:
    text = """\
semantic_models:
  - name: orders
    model: ref('orders')
    entities:
      - {name: order, type: primary, expr: id}
      - {name: customer, type: foreign, expr: customer_id}
      - {name: payer, type: foreign, expr: customer_id}
    measures: [{name: revenue, agg: sum, expr: amount}]
  - name: customers
    model: ref('customers')
    entities: [{name: customer, type: primary, expr: id}, {name: payer, type: unique, expr: id}]
    dimensions: [{name: region, type: categorical}]
metrics:
  - {name: north, type: simple, type_params: {measure: revenue}, filter: "{{ Dimension('payer__region') }} = 'north'"}
"""
    model = load(one(text).files)
    assert errors(model) == []
    assert {join.alias for join in model.sources["orders"].joins} == {"customer", "payer"}
    assert answers(model, measures=["north"]) == [(170.0,)]


def test_only_known_tables_and_nothing_of_models(manifest: Model) -> None:
    files = {
        "m.yml": OLDER,
        "p.yml": "models: [{name: orders, description: Not of interest.}]\nseeds: [{name: x}]\n",
        "b.yml": "models: [\n",
    }
    tables = {("ref", "orders"): "main.orders", ("ref", "balances"): "main.nothing"}
    made = import_dbt(files, manifest, tables=tables, properties=False)
    assert list(made.files) == ["orders.yaml"] and "Not of interest" not in made.files["orders.yaml"]
    assert {each.place.path for each in made.report} == {"m.yml"}
    dropped = [each.what for each in made.report if each.why == NO_ONE_TABLE]
    assert dropped == [f"semantic model `{name}`" for name in ("order_items", "customers", "balances")]


def test_questions_and_synonyms_of_a_metric_stand_below_meta(load: Load) -> None:
    metric = (
        "metrics:\n  - name: revenue\n    type: simple\n    type_params: {measure: revenue}\n"
        "    config: {meta: {questions: [How much?], synonyms: [sales]}}\n    meta: {owner: ada, synonyms: [x]}\n"
    )
    found = one(SHOP + metric)
    measure = load(found.files).sources["orders"].measures["revenue"]
    assert (measure.questions, measure.synonyms) == (("How much?",), ("sales",))
    dropped = [each.what for each in found.report if each.kind is Kind.DROPPED]
    assert dropped == ["`meta` of metric `revenue`"]
