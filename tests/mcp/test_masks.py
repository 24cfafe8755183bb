"""Columns with masks behind the tools of agents: no tool shows a value to a caller who does not see it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.mcp.tools import TOOLS
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import TableRef
from tests.mcp.conftest import CONFIG, Company
from tests.mcp.wire import ktx

CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string}
  - name: email
    type: string
    enum_values: {dbt: [ada@example.com, bo@example.com]}
    descriptions: {ktx: "2 values: ada@example.com, bo@example.com", ai: "Such as ada@example.com."}
    mask: {unless: {role: [support, admin]}, value: "***"}
measures:
  - {name: customer_count, expr: count(*)}
  - {name: first_mail, expr: min(email)}
"""
MAILS = """\
name: mails
sql: SELECT id, email AS address FROM customers
grain: [id]
columns: [{name: id, type: number}, {name: address, type: string}]
measures: [{name: mails, expr: count(*)}]
"""
COUNTRIES = """\
name: countries
sql: SELECT DISTINCT country FROM customers
grain: [country]
columns: [{name: country, type: string}]
measures: [{name: countries, expr: count(*)}]
"""
SUPPORT = {"attributes": {"role": "support"}}
GUESTS: list[dict[str, Any]] = [{}, {"attributes": {"role": "guest"}}, {"attributes": {"level": 1}}]
ASKED = {"measures": ["customers.customer_count"], "dimensions": ["customers.email"]}
VALUES = ("ada@example.com", "bo@example.com")


@pytest.fixture
def masked(company: Company) -> Company:
    company.source("customers", CUSTOMERS)
    company.source("mails", MAILS)
    company.source("countries", COUNTRIES)
    company.lists(
        ColumnValues(TableRef(None, "customers"), "country", (("NO", 1), ("SE", 1)), True),
        ColumnValues(TableRef(None, "customers"), "email", tuple((each, 1) for each in VALUES), True),
    )
    return company


def test_a_caller_sees_the_mask_unless_an_attribute_says_otherwise(masked: Company) -> None:
    for options in GUESTS:
        assert masked.call("sl_query", ASKED, **options).data["rows"] == [["***", 2]]
    shown = [["ada@example.com", 1], ["bo@example.com", 1]]
    assert masked.call("sl_query", ASKED, **SUPPORT).data["rows"] == shown
    masked.write("ktx.yaml", f"{CONFIG}mcp: {{user_attributes: {{role: admin}}}}\n")
    assert masked.call("sl_query", ASKED).data["rows"] == shown
    assert masked.call("sl_query", ASKED, attributes={"role": "guest"}).data["rows"] == [["***", 2]]


@pytest.mark.table(
    "sql",
    [
        "SELECT email FROM customers",
        "SELECT * FROM customers",
        "SELECT count(*) AS n FROM customers WHERE email LIKE 'a%'",
        "SELECT c.country FROM customers c ORDER BY c.email",
        "SELECT country FROM customers GROUP BY country HAVING min(email) > 'b'",
        "SELECT 1 / (CASE WHEN email = 'x' THEN 0 ELSE 1 END) AS n FROM customers",
        "SELECT count(*) AS n FROM orders o JOIN customers c ON o.status = c.email",
    ],
)
def test_raw_sql_reads_a_masked_column_only_for_callers_who_see_it(sql: str, masked: Company) -> None:
    for options in GUESTS:
        error = masked.call("sql_execution", {"sql": sql}, **options).error
        assert error is not None and error["code"] == "hidden"
    assert masked.call("sql_execution", {"sql": sql}, **SUPPORT).error is None
    assert masked.call("sql_execution", {"sql": "SELECT country FROM customers"}).error is None


def test_a_page_of_an_answer_is_not_given_to_another_caller(masked: Company) -> None:
    asked = {"sql": "SELECT email FROM customers", "offset": 1}
    assert masked.call("sql_execution", {**asked, "offset": 0}, **SUPPORT).data["rows"]
    assert masked.call("sql_execution", asked).error is not None
    query = {**ASKED, "offset": 1}
    assert masked.call("sl_query", ASKED, **SUPPORT).data["row_count"] == 2
    assert masked.call("sl_query", query).data["rows"] == []


def test_a_source_whose_sql_reads_a_masked_column_is_refused(masked: Company) -> None:
    for options in GUESTS:
        error = masked.call("sl_query", {"dimensions": ["mails.address"]}, **options).error
        assert error is not None and error["code"] == "hidden"
    rows = masked.call("sl_query", {"dimensions": ["mails.address"]}, **SUPPORT).data["rows"]
    assert [row[0] for row in rows] == list(VALUES)
    assert masked.call("sl_query", {"dimensions": ["countries.country"]}).data["row_count"] == 2


@pytest.mark.parametrize("extra", ["policies: [{name: all, filter: id > 0}]\n", "visibility: internal\n"])
def test_policies_of_a_source_do_not_let_its_sql_read_a_masked_column(extra: str, masked: Company) -> None:
    masked.source("mails", MAILS + extra)
    error = masked.call("sl_query", {"measures": ["mails.mails"]}).error
    assert error is not None and error["code"] == "hidden"
    assert masked.call("sl_query", {"measures": ["mails.mails"]}, **SUPPORT).data["rows"] == [[2]]


CALLS: dict[str, list[dict[str, Any]]] = {
    "entity_details": [{"targets": ["customers"]}, {"targets": ["customers.email", "customers.first_mail"]}],
    "dictionary_search": [{"values": list(VALUES)}, {"values": ["example.com"]}],
    "discover_data": [{"query": "ada@example.com"}, {"query": "email of customers"}],
    "context_read": [{"id": "customers.email"}, {"id": "customers"}],
    "sl_read_source": [{"source": "customers"}, {"source": "mails"}],
    "sl_list": [{}],
    "sl_validate": [{"data": True}],
    "context_pack": [{"question": "How many customers by email?"}],
    "sl_explain": [{**ASKED, "filters": ["customers.email = 'ada@exampel.com'"]}],
    "sl_query": [
        {**ASKED, "filters": ["customers.email = 'ada@exampel.com'"]},
        {"measures": ["customers.first_mail", "max(customers.email)"], "dimensions": ["customers.id"]},
        {"measures": ["customers.customer_count"], "filters": ["customers.email LIKE '%ple.com'"], "verify": True},
    ],
}


def test_no_tool_shows_a_value(masked: Company) -> None:
    assert CALLS.keys() <= {each.name for each in TOOLS}
    for tool, calls in CALLS.items():
        for arguments in calls:
            for options in GUESTS:
                reply = masked.call(tool, arguments, **options)
                assert reply.error is None, reply.error
                assert not any(value in reply.text for value in _unasked(arguments)), reply.text


def _unasked(arguments: dict[str, Any]) -> list[str]:
    """Return the values that a call does not name itself."""
    return [value for value in VALUES if value not in json.dumps(arguments)]


def test_a_caller_learns_that_a_column_is_masked(masked: Company) -> None:
    definition = masked.call("sl_read_source", {"source": "customers"}).text
    assert "masked" in definition and "support" not in definition
    error = masked.call("sl_read_source", {"source": "customers", "form": "files"}).error
    assert error is not None and error["code"] == "hidden"


def test_what_was_indexed_before_a_column_was_masked_is_not_shown(masked: Company) -> None:
    head = CUSTOMERS.index("    enum_values")
    masked.source("customers", CUSTOMERS[:head] + CUSTOMERS[CUSTOMERS.index("measures:") :])
    asked = [("discover_data", {"query": "ada@example.com"}), ("dictionary_search", {"values": ["example.com"]})]
    asked += [("entity_details", {"targets": ["customers.email"]})]
    assert all(VALUES[1] in masked.call(tool, each).text for tool, each in asked[1:])
    assert ktx("index", folder=masked.folder).returncode == 0
    masked.source("customers", CUSTOMERS)
    for tool, each in asked:
        assert not any(value in masked.call(tool, each).text for value in _unasked(each)), tool
