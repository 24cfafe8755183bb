"""OSI both ways: documents of others, and ktx's own model out and in again."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.semantic.interchange.osi.exporter import export_osi
from ktx_cli.semantic.interchange.osi.importer import import_osi
from ktx_cli.semantic.interchange.report import Fidelity, Kind
from ktx_cli.semantic.model import Model, Relationship, Visibility
from tests.semantic.interchange.conftest import Answers, Load, errors

OTHERS = """\
version: "0.1.1"
semantic_model:
  - name: shop
    description: All of the shop.
    ai_context: {instructions: Be kind.}
    datasets:
      - name: orders
        source: shop.main.orders
        primary_key: [id]
        unique_keys: [[id], [customer_id, ordered_at]]
        description: Orders.
        ai_context: {synonyms: [purchases]}
        fields:
          - {name: id, expression: id}
          - {name: customer_id, expression: customer_id}
          - name: ordered_at
            expression: {dialects: [{dialect: ANSI_SQL, expression: ordered_at}]}
            dimension: {is_time: true}
            label: When
          - {name: amount, expression: amount, datatype: Decimal}
          - name: size
            expression: {dialects: [{dialect: ANSI_SQL,
               expression: "CASE WHEN amount > 60 THEN 'big' ELSE 'small' END"}]}
            ai_context: {synonyms: [bulk]}
          - {name: odd, expression: {dialects: [{dialect: MDX, expression: "[x]"}]}}
        metrics:
          - {name: order_count, expression: {dialects: [{dialect: ANSI_SQL, expression: COUNT(id)}]}}
      - name: customers
        source: shop.main.customers
        primary_key: [id]
        fields: [{name: id, expression: id}, {name: region, expression: region, datatype: String}]
        custom_extensions: [{vendor_name: DBT, data: "{}"}]
    relationships:
      - {name: placed_by, from: orders, to: customers, from_columns: [customer_id], to_columns: [id]}
      - {name: lost, from: orders, to: nobody, from_columns: [a], to_columns: [b]}
    metrics:
      - name: revenue
        expression: {dialects: [{dialect: ANSI_SQL, expression: SUM(orders.amount)}, {dialect: SNOWFLAKE,
           expression: x}]}
        description: What came in.
        ai_context: {synonyms: [turnover], examples: [How much?]}
      - {name: early, expression: [{dialect: ANSI_SQL, aggregation_type: MAX, input_expr: orders.amount}]}
      - {name: per_customer, expression: {dialects: [{dialect: ANSI_SQL,
           expression: SUM(orders.amount) / COUNT(DISTINCT customers.id)}]}}
      - {name: twice, expression: {dialects: [{dialect: ANSI_SQL, expression: SUM(nobody.amount)}]}}
"""
BY_HAND = {
    "orders.yaml": """\
name: orders
columns: [{name: size, type: string, expr: "case when amount > 60 then 'big' else 'small' end"}]
joins: [{to: customers, on: customer_id = customers.id, relationship: many_to_one}]
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: early, expr: max(amount)}
  - {name: order_count, expr: count(id)}
  - {name: per_customer, expr: sum(amount) / count(distinct customers.id)}
"""
}
ONE_KEY = "a ktx source has a single grain and no further composite keys"
QUESTIONS: list[dict[str, Any]] = [
    {"measures": ["revenue", "early", "order_count", "per_customer"]},
    {"measures": ["revenue"], "dimensions": ["orders.size", "customers.region"]},
    {"measures": ["order_count"], "dimensions": [{"field": "orders.ordered_at", "granularity": "month"}]},
]


@pytest.mark.parametrize("over_manifest", [False, True], ids=["standalone", "overlay"])
def test_a_document_of_others_answers_as_a_model_written_by_hand(
    over_manifest: bool, load: Load, manifest: Model, answers: Answers
) -> None:
    text = OTHERS if over_manifest else OTHERS.replace("shop.main.", "main.")
    found = import_osi({"shop.yaml": text}, manifest if over_manifest else None)
    model, by_hand = load(found.files, manifest=over_manifest), load(BY_HAND, manifest=True)
    assert errors(model) == []
    assert model.sources["orders"].generated is over_manifest
    for question in QUESTIONS:
        assert answers(model, **question) == answers(by_hand, **question)


def test_what_becomes_of_a_document_of_others() -> None:
    found = import_osi({"shop.yaml": OTHERS}, None)
    dropped = {each.what: each.why for each in found.report if each.kind is Kind.DROPPED}
    assert dropped == {
        "description of semantic model `shop`": "ktx stores descriptions of sources, not of models",
        "`ai_context` of semantic model `shop`": "ktx stores descriptions of sources, not of models",
        "unique key customer_id, ordered_at of `orders`": ONE_KEY,
        "field `orders.odd`": "no expression in ANSI SQL or in the dialect of the connection",
        "`custom_extensions` of dataset `customers`": "they belong to another tool",
        "relationship `lost`": "a dataset was not imported, or the two sides have different numbers of columns",
        "metric `twice`": "the expression uses no imported dataset",
    }
    orders = yaml.load(found.files["orders.yaml"], where="orders.yaml")
    assert orders["descriptions"] == {"osi": "Orders.", "synonyms": "purchases"}
    revenue = next(each for each in orders["measures"] if each["name"] == "revenue")
    assert revenue["descriptions"] == {"osi": "What came in."}
    assert (revenue["synonyms"], revenue["questions"]) == (["turnover"], ["How much?"])
    columns = {each["name"]: each for each in orders["columns"]}
    assert [each["label"] for each in columns.values() if "label" in each] == ["When"]
    assert [each["synonyms"] for each in columns.values() if "synonyms" in each] == [["bulk"]]


def test_a_sum_that_the_database_does_not_have_is_left_out(manifest: Model) -> None:
    metrics = (
        "SUM(orders.ordered_at)",
        "SUM(DISTINCT orders.ordered_at) / 2",
        "AVG(orders.ordered_at)",
        "SUM(orders.id)",
    )
    listed = [{"name": f"m{place}", "expression": text} for place, text in enumerate(metrics)]
    model = {"name": "shop", "datasets": [{"name": "orders", "source": "main.orders"}], "metrics": listed}
    found = import_osi({"a.yaml": yaml.dump({"version": "0.1.1", "semantic_model": [model]})}, manifest)
    why = "the database cannot apply `sum` to `ordered_at` of type time"
    assert {each.what: each.why for each in found.report if each.kind is Kind.DROPPED} == {
        "metric `m0`": why,
        "metric `m1`": why,
    }


def test_the_dialect_of_the_connection_is_taken_where_it_is_there(load: Load) -> None:
    both = OTHERS.replace("expression: x}", "expression: SUM(orders.amount) * 2}")
    measures = yaml.load(import_osi({"a.yaml": both}, None, dialect="snowflake").files["orders.yaml"], where="")[
        "measures"
    ]
    assert {each["name"]: each["expr"] for each in measures}["revenue"] == "SUM(amount) * 2"


OURS = {
    "orders.yaml": """\
name: orders
default_time_dimension: {dbt: ordered_at}
descriptions: {user: Orders.}
column_overrides: [{name: is_gift, visibility: hidden}, {name: ordered_at, timezone: UTC, descriptions: {user: when}}]
columns: [{name: size, type: string, expr: "case when amount > 60 then 'big' else 'small' end"}]
joins:
  - {to: customers, on: customer_id = customers.id, relationship: many_to_one}
  - {to: customers, on: customer_id = buyer.id, relationship: many_to_one, alias: buyer}
  - {to: order_items, on: id = order_items.order_id, relationship: one_to_many}
  - {to: balances, on: "customer_id = balances.customer_id and status = 'paid'", relationship: one_to_many}
measures:
  - {name: revenue, expr: sum(amount), format: usd, description: All of it}
  - {name: order_count, expr: count(*)}
  - {name: paid, expr: sum(amount), segments: [paid]}
  - {name: paid_count, expr: count(*), filter: status = 'paid'}
  - {name: north, expr: revenue, filter: customers.region = 'north'}
  - {name: share, expr: paid / revenue}
  - {name: per_customer, expr: revenue / customers.customer_count}
  - {name: last_year, expr: revenue, offset: 1 year}
  - {name: growth, expr: revenue - last_year}
  - {name: secret, expr: sum(amount), visibility: internal}
  - {name: gifts, expr: sum(case when is_gift then 1 else 0 end)}
  - {name: of_buyers, expr: sum(amount), filter: buyer.region = 'north'}
segments: [{name: paid, expr: status = 'paid'}]
parameters: [{name: rate, type: number, default: 1}]
tests: [{name: t, query: {measures: [revenue]}, expect_value: 275}]
""",
    "customers.yaml": """\
name: customers
measures: [{name: customer_count, expr: count(distinct id)}, {name: revenue, expr: sum(id)}]
policies: [{name: own, filter: "region <> 'west'"}]
""",
    "spent.yaml": """\
name: spent
sql: select customer_id, sum(amount) as total from main.orders group by 1
grain: [customer_id]
columns: [{name: customer_id, type: number}, {name: total, type: number}]
joins: [{to: customers, on: customer_id = customers.id, relationship: one_to_one}]
""",
    "vault.yaml": """\
name: vault
table: main.vault
visibility: hidden
grain: [id]
columns: [{name: id, type: number}]
""",
}
SAME: list[dict[str, Any]] = [
    {"measures": ["orders.revenue", "order_count", "paid", "paid_count", "north", "share", "per_customer", "gifts"]},
    {"measures": ["orders.revenue", "paid_count"], "dimensions": ["orders.size", "customers.region"]},
    {"measures": ["order_count"], "dimensions": [{"field": "orders.ordered_at", "granularity": "month"}]},
    {"measures": ["customers.revenue"], "dimensions": ["customers.region"]},
    {"measures": ["orders.revenue"], "dimensions": ["buyer.region"]},
]


def test_out_and_in_again_keeps_what_osi_can_say(load: Load, answers: Answers) -> None:
    model = load(OURS, manifest=True)
    assert errors(model) == []
    text, _ = export_osi(model)
    found = import_osi({"shop.yaml": text}, None)
    assert {each.kind for each in found.report} == {Kind.KEPT}
    again = load(found.files)
    assert errors(again) == []
    for question in SAME:
        assert answers(again, **question) == answers(model, **question)
    orders = again.sources["orders"]
    assert orders.columns["is_gift"].visibility is Visibility.HIDDEN and orders.columns["ordered_at"].timezone == "UTC"
    assert orders.description == "Orders." and orders.time_column == "ordered_at" and orders.grain == ("id",)
    assert {(join.to, join.alias) for join in orders.joins} == {("customers", None), ("customers", "buyer")}
    assert again.sources["spent"].joins[0].relationship is Relationship.ONE_TO_ONE
    assert export_osi(again)[0] == text


def test_what_osi_cannot_say_is_reported(load: Load) -> None:
    _, report = export_osi(load(OURS, manifest=True))
    dropped = {each.what: each.why for each in report if each.kind is Kind.DROPPED}
    assert dropped == {
        "source `vault`": "it is hidden, and OSI does not support visibility",
        "join `orders -> balances`": "it has a constant condition",
        "measure `orders.last_year`": "OSI does not support `offset`",
        "measure `orders.growth`": "OSI does not support `offset`",
        "measure `orders.secret`": "it is internal; measures that use it include its expression",
        "measure `orders.of_buyers`": "`buyer.region` uses a join alias, which OSI does not support",
        "segment `orders.paid`": "OSI does not support segments",
        "parameter `orders.rate`": "OSI does not support parameters",
        "test `orders.t`": "OSI does not support tests",
        "policy `customers.own`": "OSI does not support row policies: readers of the document see all rows of the "
        "dataset",
    }
    assert _about(report, "measure `customers.revenue`")[0].kind is Kind.KEPT
    assert "another measure" in _about(report, "measure `orders.revenue`")[0].why
    assert all(each.place.path.startswith("semantic-layer/shop/") for each in report)


def test_a_mask_is_reported_because_readers_see_the_values(load: Load) -> None:
    text = "name: s\ntable: s\ngrain: [id]\ncolumns: [{name: id, type: number}, {name: c, type: string, mask: {}}]\n"
    document, report = export_osi(load({"s.yaml": text}))
    (found,) = _about(report, "mask of column `s.c`")
    assert (found.kind, found.why) == (
        Kind.DROPPED, "OSI does not support masks: readers of the document see the values of the column",
    )  # fmt: skip
    assert "name: c" in document


def _about(report: tuple[Fidelity, ...], what: str) -> list[Fidelity]:
    return [each for each in report if each.what == what]


def test_the_document_has_the_shape_of_version_0_1_1(load: Load) -> None:
    document = yaml.load(export_osi(load(OURS, manifest=True))[0], where="shop.yaml")
    assert document.keys() == {"version", "semantic_model"} and document["version"] == "0.1.1"
    (model,) = document["semantic_model"]
    for metric in model["metrics"]:
        assert metric.keys() <= {"name", "expression", "description", "custom_extensions"}
        assert metric["expression"]["dialects"][0]["dialect"] == "ANSI_SQL"
    for dataset in model["datasets"]:
        for field in dataset["fields"]:
            assert field.keys() <= {"name", "expression", "dimension", "description", "custom_extensions"}
    metrics = {each["name"]: each["expression"]["dialects"][0]["expression"] for each in model["metrics"]}
    assert metrics["paid_count"] == "COUNT(CASE WHEN orders.status = 'paid' THEN orders.id END)"


def test_labels_and_synonyms_come_back_from_osi(load: Load) -> None:
    text = (
        "name: orders\ntable: main.orders\ngrain: [id]\n"
        "columns:\n"
        "  - {name: id, type: number, label: Number, synonyms: [no, ordinal], descriptions: {user: The key.}}\n"
        "descriptions: {user: Orders., label: Web orders, synonyms: 'purchases, sales', questions: 'Who buys? What?'}\n"
        "measures:\n  - {name: n, expr: count(*), label: Volume, questions: [How many?], synonyms: [amount of orders],"
        " description: All.}\n"
    )
    before = load({"orders.yaml": text}).sources["orders"]
    document, _ = export_osi(load({"orders.yaml": text}))
    found = import_osi({"shop.yaml": document}, None)
    after = load(found.files).sources["orders"]

    def texts(each: Any) -> tuple[Any, ...]:
        return each.label, each.synonyms, each.description

    assert texts(after) == texts(before) == ("Web orders", ("purchases", "sales"), "Orders.")
    assert after.questions == before.questions == ("Who buys?", "What?")
    assert texts(after.columns["id"]) == texts(before.columns["id"]) == ("Number", ("no", "ordinal"), "The key.")
    assert texts(after.measures["n"]) == texts(before.measures["n"]) == ("Volume", ("amount of orders",), "All.")
    assert after.measures["n"].questions == ("How many?",)


def test_more_synonyms_than_ktx_keeps_are_reported() -> None:
    context = {"synonyms": [f"name {number}" for number in range(9)], "examples": ["x" * 201], "instructions": "Add."}
    dataset = {"name": "orders", "source": "main.orders", "primary_key": ["id"], "ai_context": context}
    dataset["fields"] = [{"name": "id", "expression": "id", "datatype": "Integer"}]
    model = {"name": "shop", "datasets": [dataset]}
    found = import_osi({"a.yaml": yaml.dump({"version": "0.1.1", "semantic_model": [model]})}, None)
    reported = {each.what: (each.kind, each.why) for each in found.report}
    why = "ktx keeps at most 8 texts of 200 characters"
    assert reported["`synonyms` in `ai_context` of dataset `orders`"] == (Kind.APPROXIMATED, why)
    assert reported["`examples` in `ai_context` of dataset `orders`"] == (Kind.APPROXIMATED, why)
    texts = yaml.load(found.files["orders.yaml"], where="orders.yaml")["descriptions"]
    assert texts == {"osi": "Add.", "synonyms": ", ".join(f"name {number}" for number in range(8))}


def test_questions_and_synonyms_are_the_context_of_osi(load: Load) -> None:
    text = (
        "name: orders\ntable: main.orders\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
        "descriptions: {user: Orders., synonyms: purchases}\n"
        "measures: [{name: n, expr: count(*), questions: [How many?], synonyms: [volume]}]\n"
    )
    document, _ = export_osi(load({"orders.yaml": text}))
    (model,) = yaml.load(document, where="shop.yaml")["semantic_model"]
    assert model["datasets"][0]["ai_context"] == {"synonyms": ["purchases"]}
    assert model["metrics"][0]["ai_context"] == {"synonyms": ["volume"], "examples": ["How many?"]}


def test_a_proposed_measure_is_exported_once_somebody_accepts_it(load: Load) -> None:
    text = (
        "name: orders\ntable: main.orders\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
        "measures: [{name: n, expr: count(*)}, {name: guess, expr: sum(id), status: proposed, reason: It is a number.},"
        " {name: share, expr: n / guess}]\n"
    )

    def exported(written: str) -> tuple[set[str], dict[str, str]]:
        document, report = export_osi(load({"orders.yaml": written}))
        (model,) = yaml.load(document, where="shop.yaml")["semantic_model"]
        dropped = {each.what: each.why for each in report if each.kind is Kind.DROPPED}
        return {each["name"] for each in model["metrics"]}, dropped

    assert exported(text) == (
        {"n", "share"},
        {"measure `orders.guess`": "its status is proposed; only accepted measures are exported"},
    )
    assert exported(text.replace("proposed", "accepted")) == ({"n", "guess", "share"}, {})
