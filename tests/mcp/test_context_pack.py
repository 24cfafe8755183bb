"""The first call of an agent: what it brings, and what it never shows."""

from __future__ import annotations

import json
import re

import pytest

from tests.mcp.conftest import Company


def context(company: Company, question: str, **more: object) -> str:
    arguments = {"question": question, **{key: more.pop(key) for key in ("budget", "user") if key in more}}
    reply = company.call("context_pack", arguments, **more)
    assert reply.error is None, reply.error
    return reply.data["context"]


def draft(text: str) -> dict[str, object]:
    found = re.search(r"^sl_query (\{.*\}) \[\d+\]$", text, re.MULTILINE)
    assert found is not None, text
    return json.loads(found[1])


def test_it_has_a_draft_that_the_layer_answers(company: Company) -> None:
    asked = draft(context(company, "What is our revenue by country in 2024?"))
    assert asked == {
        "connection": "shop",
        "measures": ["orders.revenue"],
        "dimensions": ["customers.country"],
        "time_range": {"start": "2024-01-01", "end": "2025-01-01"},
    }
    assert company.call("sl_query", asked).error is None


def test_it_names_tables_columns_joins_measures_and_the_page(company: Company) -> None:
    text = context(company, "revenue after refunds by country")
    assert "orders: One row per order." in text
    assert "one row per id; columns: id number, customer_id number" in text
    assert "revenue = sum(amount) where status = 'paid'" in text
    assert "customer_id = customers.id, one row" in text
    assert "page refunds: What a refund is" in text
    assert "semantic-layer/shop/orders.yaml" in text


def test_pages_of_others_stay_theirs(company: Company) -> None:
    assert "Bo thinks" not in context(company, "what Bo thinks of refunds")
    assert "Bo thinks" in context(company, "what Bo thinks of refunds", user="bo")


@pytest.mark.table(
    "question",
    [
        "email of customers",
        "How many customers by email?",
        "customers with email ada@example.com",
        "reachable customers",
    ],
)
def test_hidden_columns_are_in_no_pack(company: Company, question: str) -> None:
    text = context(company, question, budget=32_000)
    shown = text.replace("- by email: no column of customers, or of what it joins, has such a name", "")
    assert "email" not in shown and "ada@" not in shown


def test_values_bind_and_are_withheld_with_privacy(scanned: Company) -> None:
    open_pack = context(scanned, "revenue in Norway")
    assert draft(open_pack)["filters"] == ["customers.country = 'NO'"]
    private = context(scanned, "revenue in Norway", privacy=True, budget=32_000)
    assert "'NO'" not in private and "filters" not in draft(private)


def test_a_budget_bounds_it(company: Company) -> None:
    company.page("global/long", "summary: Revenue", "Revenue by country. " * 500)
    for number in range(40):
        company.page(f"global/rule-{number}", f"summary: Revenue rule {number} {'by country ' * 12}", "Revenue.")
    assert len(context(company, "revenue by country", budget=500)) <= 500 * 3.6
    error = company.call("context_pack", {"question": "revenue", "budget": 50}).error
    assert error is not None and error["code"] == "usage"


def test_a_question_about_nothing_here_says_so(company: Company) -> None:
    text = context(company, "zebra quokka")
    assert "sl_query" not in text


def test_the_same_question_gets_the_same_bytes(company: Company) -> None:
    assert context(company, "revenue by country") == context(company, "revenue by country")
