"""Calculated fields of a Tableau workbook: what is translated has the numbers that Tableau computes, on DuckDB."""

from __future__ import annotations

from collections import Counter

import pytest

from ktx_cli.semantic.interchange.report import Fidelity, Kind
from ktx_cli.semantic.interchange.tableau.importer import import_tableau
from ktx_cli.semantic.model import Model
from tests.semantic.interchange.conftest import errors
from tests.semantic.interchange.tableau.conftest import Answers, Load, Rows
from tests.semantic.interchange.tableau.shop_workbook import DIMENSIONS, FIELDS, MEASURES, Field, workbook

STATUS = "o.status"
SPECIAL = {
    "Repeat Total": "SELECT o.status, sum(t.total) FROM (SELECT DISTINCT status, customer_id FROM orders) o LEFT JOIN"
    " (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY 1) t USING (customer_id) GROUP BY 1",
    "Average Customer": "SELECT o.status, avg(t.total) FROM (SELECT DISTINCT status, customer_id FROM orders) o"
    " LEFT JOIN (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY 1) t USING (customer_id) GROUP BY 1",
    "Average Region": "SELECT o.status, avg(t.total) FROM (SELECT DISTINCT status, region FROM orders"
    " LEFT JOIN customers c ON c.id = customer_id) o LEFT JOIN (SELECT region, sum(amount) AS total FROM orders"
    " JOIN customers c ON c.id = customer_id GROUP BY 1) t USING (region) GROUP BY 1",
    "Best Quantity": "SELECT status, max(total) FROM orders JOIN (SELECT quantity, sum(amount) AS total FROM orders"
    " GROUP BY 1) USING (quantity) GROUP BY 1",
    "Average Buyer": "SELECT status, avg(total) FROM (SELECT status, customer_id, sum(amount) AS total FROM orders"
    " GROUP BY 1, 2) GROUP BY 1",
    "Items Sold": "SELECT o.status, count(sku) FROM orders o LEFT JOIN items ON o.id = order_id GROUP BY 1",
    "Item Value": "SELECT o.status, sum(price) FROM orders o LEFT JOIN items ON o.id = order_id GROUP BY 1",
}
"""Values of groups that count other rows than those of orders."""


def of(field: Field) -> str:
    return f"calculated field `{field.caption}` of `Shop`"


@pytest.fixture
def report(manifest: Model) -> dict[str, Fidelity]:
    return {each.what: each for each in import_tableau({"shop.twb": workbook()}, manifest).report}


@pytest.fixture
def model(load: Load, manifest: Model) -> Model:
    found = load(import_tableau({"shop.twb": workbook()}, manifest).files)
    assert errors(found) == []
    return found


def test_the_share_that_is_translated(report: dict[str, Fidelity]) -> None:
    kinds = Counter(report[of(each)].kind for each in FIELDS)
    translated = kinds[Kind.KEPT] + kinds[Kind.APPROXIMATED]
    print(
        f"\nTableau: {translated} of {len(FIELDS)} calculated fields are translated, {kinds[Kind.KEPT]} without a note"
    )
    assert len(FIELDS) >= 60 and translated == sum(bool(each.sql) for each in FIELDS)


@pytest.mark.parametrize("field", [each for each in FIELDS if each.why], ids=lambda field: field.caption)
def test_what_is_not_translated_has_its_reason_and_formula(field: Field, report: dict[str, Fidelity]) -> None:
    found = report[of(field)]
    assert (found.kind, found.target) == (Kind.DROPPED, None)
    assert field.why in found.why and "Formula: " in found.why and found.place.line > 1


@pytest.mark.parametrize("field", [each for each in MEASURES if each.sql], ids=lambda field: field.caption)
def test_measures(field: Field, report: dict[str, Fidelity], model: Model, answers: Answers, rows: Rows) -> None:
    target = report[of(field)].target
    assert target is not None and target.split(".")[0] in (
        field.over,
        "orders_by_customer_id",
        "orders_by_quantity",
        "orders_by_region",
    )
    if field.sql not in ("fixed", "include"):
        assert answers(model, measures=[target]) == rows(f"SELECT {field.sql} FROM {field.over}")
    if field.over == "customers":
        return
    by_status = SPECIAL.get(field.caption, f"SELECT status, {field.sql} FROM orders GROUP BY 1")
    expected = rows(by_status)
    assert answers(model, measures=[target], dimensions=["orders.status"]) == expected
    assert len(expected) > 1


@pytest.mark.parametrize("field", [each for each in DIMENSIONS if each.sql], ids=lambda field: field.caption)
def test_dimensions(field: Field, report: dict[str, Fidelity], model: Model, answers: Answers, rows: Rows) -> None:
    target = report[of(field)].target
    expected = rows(
        f"SELECT {field.sql}, count(*) FROM orders o LEFT JOIN customers c ON c.id = o.customer_id GROUP BY 1"
    )
    found = answers(model, measures=["orders.order_rows"], dimensions=[target], include_empty=False)
    assert found == expected and len(found) > 1


def test_groups_bins_sets_and_filters(report: dict[str, Fidelity], model: Model, answers: Answers, rows: Rows) -> None:
    group = "CASE WHEN status IN ('open', 'lost') THEN 'Open or lost' ELSE status END"
    rowset = {"measures": ["orders.order_rows"]}
    assert answers(model, **rowset, dimensions=["orders.status_group"]) == rows(
        f"SELECT {group}, count(*) FROM orders GROUP BY 1"
    )
    assert answers(model, **rowset, dimensions=["orders.quantity_bin"]) == rows(
        "SELECT (quantity - 1) // 3 * 3 + 1, count(*) FROM orders GROUP BY 1"
    )
    assert answers(model, **rowset, segments=["orders.good"]) == rows(
        "SELECT count(*) FROM orders WHERE status IN ('paid', 'open')"
    )
    assert model.sources["customers"].segments["region_filter"].expr == "region IN ('north')"
    assert report["filter of `Shop` on `region`"].kind is Kind.APPROXIMATED
    assert report["set `Top` of `Shop`"].why == "its members depend on the rows or on a formula"


def test_parameters_have_their_values_and_can_be_changed(model: Model, answers: Answers, rows: Rows) -> None:
    assert answers(model, measures=["orders.big_orders"], parameters={"big_from": 90}) == rows(
        "SELECT sum(CASE WHEN amount >= 90 THEN 1 ELSE 0 END) FROM orders"
    )


def test_without_a_manifest_the_sources_are_complete(load: Load, answers: Answers, rows: Rows) -> None:
    found = import_tableau({"shop.twb": workbook()}, None)
    model = load(found.files, manifest=False)
    assert errors(model) == []
    assert answers(model, measures=["orders.sales"], dimensions=["customers.region"]) == rows(
        "SELECT region, sum(amount) FROM orders LEFT JOIN customers c ON c.id = customer_id GROUP BY 1"
    )
    joins = {each.what: each.why for each in found.report if each.what.startswith("join of")}
    assert set(joins.values()) == {
        f"Tableau does not say which side is unique; ktx assumes one row of `{one}` and checks it in each query"
        for one in ("customers", "items")
    }
