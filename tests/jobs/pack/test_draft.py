"""Drafts for an analyst's questions about the demo's shop: right, or withheld with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from ktx_cli.agent_tools.searcher import open_searcher
from ktx_cli.cli.app import app
from ktx_cli.jobs.pack.draft import Draft
from ktx_cli.jobs.pack.pack import ContextPack, PackRequest, context_pack
from ktx_cli.project import Layout, load_config
from ktx_cli.semantic import load_layer

Ask = Callable[[str], ContextPack]
NET, PRODUCT, MONTH = "order_revenue.net_revenue", "products.product_name", "order_revenue.order_date"
YEAR = {"start": "2025-01-01", "end": "2026-01-01"}
TOP = [f"{NET} desc"]


@pytest.fixture(scope="module")
def ask(demo_project: Path) -> Iterator[Ask]:
    layout = Layout(demo_project)
    config = load_config(layout.config).config
    searcher = open_searcher(layout, config, {})
    yield lambda question: context_pack(layout, config, PackRequest(question), searcher=searcher, load=load_layer)
    searcher.close()


def drafted(ask: Ask, question: str) -> Draft:
    draft = ask(question).draft
    assert draft is not None
    return draft


def by(*dimensions: Any, measure: str = NET, **more: Any) -> dict[str, Any]:
    return {"measures": [measure], **({"dimensions": list(dimensions)} if dimensions else {}), **more}


def each(grain: str, field: str = MONTH) -> dict[str, str]:
    return {"field": field, "granularity": grain}


@pytest.mark.table(
    ("question", "query"),
    [
        # a synonym names its measure, and the measure of the same name on the source that reaches the dimension
        ("revenue", by()),
        ("What is our total revenue?", by()),
        ("How much revenue did we make in 2025?", by(time_range=YEAR)),
        ("gross revenue by region", by("order_revenue.region_code", measure="order_revenue.gross_revenue")),
        ("average basket by channel", by("order_revenue.channel", measure="order_revenue.average_order_value")),
        ("income by product", by(PRODUCT, measure="order_lines.net_revenue")),
        ("sales before refunds by channel", by("order_revenue.channel", measure="order_revenue.gross_revenue")),
        ("What percentage of orders was shipped late?", by(measure="orders.late_share")),
        ("share of late orders by month", by(each("month", "orders.order_date"), measure="orders.late_share")),
        ("refunded amount by region", by("order_revenue.region_code", measure="order_revenue.refunded_amount")),
        # what is listed or ranked by a number is a dimension
        ("customers by revenue", by("order_revenue.customer_id", order_by=TOP)),
        ("top 5 customers by revenue", by("order_revenue.customer_id", order_by=TOP, limit=5)),
        ("Which three regions had the highest revenue?", by("order_revenue.region_code", order_by=TOP, limit=3)),
        ("lowest 2 regions by revenue", by("order_revenue.region_code", order_by=[NET], limit=2)),
        (
            "top 10 products by revenue in 2025",
            by(
                PRODUCT,
                measure="order_lines.net_revenue",
                time_range={**YEAR, "field": "orders.order_date"},
                order_by=["order_lines.net_revenue desc"],
                limit=10,
            ),
        ),
        (
            "customers with the most orders",
            by("orders.customer_id", measure="orders.order_count", order_by=["orders.order_count desc"]),
        ),
        # periods and their length
        ("monthly revenue in 2025", by(each("month"), time_range=YEAR)),
        ("revenue by channel per month", by("order_revenue.channel", each("month"))),
        ("revenue by quarter, past 12 months", by(each("quarter"), time_range={"last": "12 months"})),
        (
            "How many tickets were closed in 2025?",
            by(measure="support_tickets.ticket_count", time_range={**YEAR, "field": "support_tickets.closed_at"}),
        ),
        ("revenue of orders opened in 2025", by(time_range=YEAR)),
        # rows, and words that are no conditions
        ("employees by team", by("employees.team", measure="count(distinct employees.employee_id)")),
        ("sales by category", by("categories.category_name", measure="order_lines.gross_revenue")),
        ("How many orders were not cancelled?", by(measure="order_revenue.order_count")),
        ("revenue vs refunds", {"measures": [NET, "order_revenue.refunded_amount"]}),
    ],
)
def test_the_draft_is_right(ask: Ask, question: str, query: dict[str, Any]) -> None:
    draft = drafted(ask, question)
    assert draft.query == {"connection": "warehouse", **query}, draft.reasons


@pytest.mark.table(
    ("question", "query", "reason"),
    [
        (
            "revenue last month",
            by(),
            '(last month); add a time_range: {"start": "YYYY-MM-DD", "end": "YYYY-MM-DD"}, with the day after the'
            ' period as the end; {"last": "1 month"} is the month up to today',
        ),
        ("revenue this quarter", by(), "the draft does not include the period of the question (this quarter)"),
        ("revenue in January", by(), "the draft does not include the period of the question (january)"),
        (
            "revenue last 30 days",
            by(time_range={"last": "30 days"}),
            "last 30 days: the period up to and including today",
        ),
        (
            "top 3 products per category by revenue",
            by(
                PRODUCT,
                "categories.category_name",
                measure="order_lines.net_revenue",
                order_by=["order_lines.net_revenue desc"],
            ),
            "the draft does not limit the result (`top 3`)",
        ),
        (
            "income by channel in 2025",
            by("orders.channel", measure="order_lines.net_revenue", time_range={**YEAR, "field": "orders.order_date"}),
            "order_lines has no time of its own, so the draft uses orders.order_date",
        ),
        (
            "customers with more than 3 orders",
            by(measure="orders.distinct_customers"),
            "not in the draft: `more than 3`",
        ),
        ("payments in 2025", None, "payments has no time column for the period in the question"),
        ("Who are our five best customers?", None, "no draft: the question ranks something without its number"),
        ("top 5 products by category", None, "no draft: the question does not say by which number to rank (`top 5`)"),
        ("orders not in Norway", None, "no draft: the question excludes something (`not norway`)"),
        ("Which customers have not ordered?", None, "no draft: the question excludes something (`not ordered`)"),
        ("conversion rate by channel", None, "no draft: the semantic layer has no names for most of the question"),
    ],
)
def test_what_a_draft_cannot_say_is_told(ask: Ask, question: str, query: dict[str, Any] | None, reason: str) -> None:
    draft = drafted(ask, question)
    told = [text for text, _ in draft.reasons]
    assert any(reason in each for each in told), told
    assert all(len(each) <= 300 for each in told), "longer reasons are cut in a pack"
    if query is not None or reason.startswith("no draft"):
        assert draft.query == (query and {"connection": "warehouse", **query})


@pytest.mark.table(
    ("question", "truth"),
    [
        ("revenue in 2025", "SELECT sum(net_revenue) FROM finance.order_revenue WHERE year(order_date) = 2025"),
        (
            "top 5 customers by revenue",
            "SELECT customer_id, sum(net_revenue) FROM finance.order_revenue GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
        ),
        (
            "bottom 3 channels by net sales in the first quarter of 2025",
            "SELECT channel, sum(net_revenue) FROM finance.order_revenue WHERE order_date >= DATE '2025-01-01'"
            " AND order_date < DATE '2025-04-01' GROUP BY 1 ORDER BY 2 LIMIT 3",
        ),
    ],
)
def test_the_drafts_give_the_right_numbers(ask: Ask, demo_project: Path, question: str, truth: str) -> None:
    query = json.dumps(drafted(ask, question).query)
    done = CliRunner().invoke(app, ["--project-dir", str(demo_project), "sl", "query", query, "--json"])
    rows = json.loads(done.stdout)["data"]["rows"]
    with duckdb.connect(str(demo_project / "warehouse.duckdb"), read_only=True) as database:
        wanted = database.execute(truth).fetchall()
    assert [[*row[:-1], float(row[-1])] for row in rows] == [[*row[:-1], float(row[-1])] for row in wanted]


def test_the_same_question_has_the_same_pack(ask: Ask) -> None:
    question = "top 5 customers by revenue last month"
    assert ask(question) == ask(question)
    assert ask(question).text.startswith("## Draft\nsl_query {")
