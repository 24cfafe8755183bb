"""Attacks on what people hid: whole sources, measures and columns that other definitions name."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any

import pytest

from tests.mcp.conftest import Company

REVIEWS = """\
name: reviews
table: reviews
grain: [id]
visibility: hidden
columns:
  - {name: id, type: number}
  - {name: percentile, type: number}
measures:
  - {name: secret_headcount, expr: count(*)}
  - {name: same_name, expr: count(*)}
"""
BONUSES = """\
name: bonuses
table: bonuses
grain: [id, wage]
columns:
  - {name: id, type: number}
  - {name: paid_on, type: time}
  - {name: wage, type: number, visibility: hidden}
  - {name: raised_on, type: time, visibility: hidden}
  - {name: upper_half, type: boolean, expr: reviews.percentile > 50}
default_time_dimension: raised_on
joins:
  - {to: reviews, on: id = reviews.id, relationship: many_to_one, alias: assessed}
  - {to: customers, on: wage = customers.id, relationship: many_to_one}
measures:
  - {name: bonus_count, expr: count(*)}
  - {name: bonus_bare, expr: avg(percentile)}
  - {name: bonus_behind_alias, expr: avg(assessed.percentile)}
  - {name: bonus_filtered, expr: count(*), filter: assessed.percentile > 10}
  - {name: bonus_of_measure, expr: bonus_count / reviews.secret_headcount}
  - {name: bonus_quoted, expr: 'avg("percentile")'}
  - {name: bonus_last, expr: count(*), time: raised_on}
  - {name: bonus_odd, expr: bonus_count / no_such_thing}
segments:
  - {name: bonus_top, expr: assessed.percentile > 90}
tests:
  - {name: bonus test, query: {measures: [bonuses.bonus_of_measure, reviews.secret_headcount]}, invariant: 1 = 1}
"""
RETURNS = """\
name: returns
table: returns
grain: [id]
columns:
  - {name: id, type: number}
measures:
  - {name: return_count, expr: count(*)}
  - {name: fraud_share, expr: count(*), visibility: hidden}
  - {name: clean_returns, expr: return_count - fraud_share}
"""
OF_OTHERS = """\
name: parcels
table: parcels
grain: [id]
columns:
  - {name: id, type: number}
joins:
  - {to: returns, on: id = returns.id, relationship: one_to_one}
measures:
  - {name: parcel_count, expr: count(*)}
  - {name: same_name, expr: count(*)}
  - {name: clean_parcels, expr: parcel_count - returns.fraud_share}
"""
STAFF_VIEW = """\
name: staff_view
sql: SELECT s.id, r.percentile > 90 AS grade FROM staff AS s JOIN reviews AS r ON r.id = s.id
grain: [id]
columns:
  - {name: id, type: number}
  - {name: grade, type: boolean}
measures:
  - {name: graded, expr: count(*)}
"""
LONELY = "name: lonely_ledger\ntable: facts\nvisibility: hidden\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
HIDDEN = ("lonely_ledger", "percentile", "reviews", "secret_headcount", "fraud_share", "wage", "raised_on")
NAMES = ("bonuses", "returns", "parcels", "staff_view")


@pytest.fixture
def hiding(company: Company) -> Company:
    """The company with a hidden source, a hidden measure and hidden columns that others read."""
    with sqlite3.connect(company.folder / "shop.sqlite") as database:
        database.executescript(
            "CREATE TABLE reviews (id INTEGER, percentile INTEGER);"
            "CREATE TABLE bonuses (id INTEGER, paid_on TEXT, wage INTEGER, raised_on TEXT);"
            "CREATE TABLE returns (id INTEGER); CREATE TABLE parcels (id INTEGER);"
        )
    database.close()
    texts = (REVIEWS, BONUSES, RETURNS, OF_OTHERS, STAFF_VIEW)
    for name, text in zip(("reviews", *NAMES), texts, strict=True):
        company.source(name, text)
    company.source("lonely_ledger", LONELY)
    return company


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("sl_list", {}),
    *(("sl_read_source", {"source": name}) for name in NAMES),
    *(("context_read", {"id": name}) for name in NAMES),
    ("entity_details", {"targets": [*NAMES, "bonuses.bonus_bare", "bonuses.upper_half"]}),
    ("discover_data", {"query": "bonus"}),
    ("discover_data", {"query": "bonus last of measure behind alias filtered top", "kinds": ["measure", "segment"]}),
    ("discover_data", {"query": "clean returns and parcels"}),
    ("discover_data", {"query": "staff grade"}),
    ("sl_validate", {}),
    ("context_pack", {"question": "How many bonuses, clean returns, clean parcels and graded staff?", "budget": 32000}),
    ("wiki_search", {"query": "bonus"}),
    ("context_status", {}),
]


def test_no_tool_names_what_is_hidden(hiding: Company) -> None:
    seen = ""
    for tool, asked in ASKED:
        reply = hiding.call(tool, asked)
        assert reply.error is None, (tool, reply.error)
        text = json.dumps(reply.data).casefold()
        assert not [name for name in HIDDEN if name in text], (tool, asked, text)
        seen += text
    for name in ("bonus_bare", "bonus_top", "clean_returns", "clean_parcels", "graded", "paid_on"):
        assert name in seen, f"{name} is shown, but not what it is made of"


@pytest.mark.parametrize("name", NAMES)
def test_files_that_name_what_is_hidden_are_not_shown(hiding: Company, name: str) -> None:
    error = hiding.call("sl_read_source", {"source": name, "form": "files"}).error
    assert error is not None and error["code"] == "hidden"


@pytest.mark.parametrize(
    "asked",
    [
        {"measures": ["reviewz.secret_headcount"]},
        {"measures": ["secret_headcounts"]},
        {"measures": ["returns.fraud_shares"]},
        {"measures": ["bonuses.bonus_count"], "dimensions": ["percentil"]},
        {"measures": ["bonuses.bonus_count"], "dimensions": ["bonuses.wages"]},
        {"measures": ["bonuses.bonus_count"], "dimensions": ["bonuses.nothing_like_it"]},
        {"measures": ["nothing.like_it"]},
        {"measures": ["count(nothing_like_it)"]},
        {"measures": ["bonuses.bonus_count"], "dimensions": ["reviews.nothing_like_it"]},
        {"measures": ["bonuses.bonus_count", "parcels.parcel_count"], "dimensions": ["id"]},
        {"measures": ["bonuses.bonus_count"], "dimensions": [{"field": "bonuses.id", "via": ["nothing_like_it"]}]},
        {"measures": ["bonuses.bonus_odd"]},
        {"measures": ["parcels.parcel_count"], "dimensions": ["review.percentile"]},
        {"measures": ["same_name"]},
    ],
)
def test_no_error_suggests_what_is_hidden(hiding: Company, asked: dict[str, Any]) -> None:
    reply = hiding.call("sl_query", asked)
    assert reply.error is not None
    said = set(re.findall(r"\w+", json.dumps(reply.error))) - set(re.findall(r"\w+", json.dumps(asked)))
    assert said.isdisjoint(HIDDEN), reply.error


GRANTS = """\
name: grants
table: grants
grain: [id]
columns:
  - {name: id, type: number}
  - {name: donor_ref, type: number, visibility: hidden}
  - {name: payee_ref, type: number, visibility: hidden}
joins:
  - {to: customers, on: donor_ref = customers.id, relationship: many_to_one}
  - {to: customers, on: payee_ref = customers.id, relationship: many_to_one}
  - {to: staff, on: id = staff.id, relationship: many_to_one, alias: clerk}
measures:
  - {name: grant_count, expr: count(*)}
"""
VISITS = """name: visits
table: visits
grain: [visit]
columns:
  - {name: visit, type: number}
  - {name: deal_no, type: number, visibility: hidden}
  - {name: customer_id, type: number}
joins:
  - {to: customers, on: customer_id = customers.id, relationship: many_to_one}
measures:
  - {name: visit_count, expr: count(*)}
"""
DEALS = """name: deals
table: deals
grain: [deal_no]
columns:
  - {name: deal_no, type: number}
  - {name: stage, type: string}
  - {name: customer_id, type: number}
joins:
  - {to: customers, on: customer_id = customers.id, relationship: many_to_one}
"""


@pytest.mark.parametrize(
    ("asked", "code", "hidden"),
    [
        (
            {"measures": ["grants.grant_count"], "dimensions": ["customers.country"]},
            "ambiguous_path",
            {"donor_ref", "payee_ref"},
        ),
        ({"measures": ["visits.visit_count"], "dimensions": ["deals.stage"]}, "fan_out", {"deal_no"}),
    ],
)
def test_no_error_names_the_hidden_columns_of_joins(
    hiding: Company, asked: dict[str, Any], code: str, hidden: set[str]
) -> None:
    """Neither the first time nor later: the server keeps the paths that it found, and errors about them."""
    for name, text in (("grants", GRANTS), ("visits", VISITS), ("deals", DEALS)):
        hiding.source(name, text)
    for tool in ("sl_query", "sl_query", "sl_explain"):
        error = hiding.call(tool, asked).error
        assert error is not None and error["code"] == code
        assert hidden.isdisjoint(re.findall(r"\w+", json.dumps(error))), error


def test_no_hint_offers_a_path_through_a_hidden_source(hiding: Company) -> None:
    ledger = VISITS.replace("visits", "ledger").replace("to: customers, on: customer_id", "to: deals, on: customer_id")
    hiding.source("ledger", ledger.replace("customers.id", "deals.deal_no") + "visibility: hidden\n")
    hiding.source(
        "visits",
        VISITS.replace("to: customers, on: customer_id = customers.id", "to: ledger, on: visit = ledger.visit"),
    )
    hiding.source("deals", DEALS.partition("joins:")[0])
    asked = {"measures": ["visits.visit_count"], "dimensions": ["deals.stage"], "via": {"deals": "nothing"}}
    for tool in ("sl_query", "sl_explain"):
        error = hiding.call(tool, asked).error
        assert error is not None and error["hint"] == "remove `via` for `deals`"
        assert "ledger" not in json.dumps(error)


def test_a_column_that_is_computed_of_a_hidden_source_cannot_be_asked_for(hiding: Company) -> None:
    asked = {"measures": ["bonuses.bonus_count"], "dimensions": ["bonuses.upper_half"]}
    error = hiding.call("sl_query", asked).error
    assert error is not None and error["code"] == "hidden"
