"""Twenty questions about the demo, each answered in at most three calls of the tools that a client lists.

The questions were written before the tools. The agent is scripted: it asks for the context of a question, and then asks
with the draft where that is right, else with the call written here. Each name in that call stands in what it was shown
before, so that an agent could have known it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core import yaml
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.tool import Call, Options, compact_json, fit_answer
from ktx_cli.mcp.tools import PROFILES, TOOLS
from ktx_cli.project import Layout

QUESTIONS: list[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("demo_questions.yaml").read_text("utf-8"), where="demo_questions"
)
MOST_CALLS = 3
LEAST_DRAFTS = 15
"""How many of the eighteen questions about numbers the draft alone answers."""

WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "Which sales channel brings in the most gross revenue?": (
        "sl_query",
        {
            "measures": ["order_revenue.gross_revenue"],
            "dimensions": ["order_revenue.channel"],
            "order_by": ["order_revenue.gross_revenue desc"],
            "limit": 1,
        },
    ),
    "How many orders did we get each month in 2025?": (
        "sl_query",
        {
            "measures": ["order_revenue.order_count"],
            "dimensions": [{"field": "order_revenue.order_date", "granularity": "month"}],
            "time_range": {"start": "2025-01-01", "end": "2026-01-01"},
        },
    ),
    "Net revenue of business customers compared with home customers?": (
        "sl_query",
        {"measures": ["order_revenue.net_revenue"], "dimensions": ["customers.segment"]},
    ),
    "Gross revenue by product category?": (
        "sl_query",
        {"measures": ["order_lines.gross_revenue"], "dimensions": ["categories.category_name"]},
    ),
    "How many orders were shipped late?": (
        "sl_query",
        {"measures": ["orders.order_count"], "filters": ["orders.is_late"]},
    ),
    "Which payment methods are used how often?": (
        "sl_query",
        {"measures": ["payments.payment_count"], "dimensions": ["payments.method"]},
    ),
    "What are the ten best-selling products by quantity?": (
        "sl_query",
        {
            "measures": ["order_lines.total_order_line_quantity"],
            "dimensions": ["products.product_name"],
            "order_by": ["order_lines.total_order_line_quantity desc"],
            "limit": 10,
        },
    ),
}
STATED = {
    "What does the word net revenue mean here: are refunds taken off?": ("not cancelled", "minus refunds"),
    "When does our fiscal year begin?": ("1 February",),
}

Tool = Callable[[str, dict[str, Any]], Any]


@pytest.fixture(scope="module")
def call(demo_project: Path) -> Iterator[Tool]:
    """Call a tool of a server on the demo, and return its answer as a client gets it."""
    project = ServedProject(Layout(demo_project), {})
    tools = {tool.name: tool for tool in TOOLS}

    def run(name: str, arguments: dict[str, Any]) -> Any:
        assert name in PROFILES[Profile.DEFAULT]
        value = tools[name].input_model.model_validate(arguments)
        output = tools[name].run(Call(project, Options(read_only=True)), value)
        return json.loads(compact_json(fit_answer(output, getattr(value, "offset", 0))))

    yield run
    project.close()


def plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    if isinstance(value, str):
        try:
            return round(float(Decimal(value)), 4)
        except ArithmeticError:
            return value[:10] if re.match(r"\d{4}-\d\d-\d\d", value) else value
    return round(float(value), 4)


def rows(found: list[Any]) -> list[Any]:
    return sorted(([plain(each) for each in row] for row in found), key=repr)


def draft_in(context: str) -> dict[str, Any] | None:
    found = re.search(r"^sl_query (\{.*\}) \[\d+\]$", context, re.MULTILINE)
    return None if found is None else json.loads(found[1])


@pytest.fixture(scope="module")
def asked(call: Tool, demo_project: Path) -> dict[str, tuple[bool, int, str]]:
    """Return question -> whether its draft alone is right, the calls it took, and what was wrong in the end."""
    found = {}
    with duckdb.connect(str(demo_project / "warehouse.duckdb"), read_only=True) as database:
        for each in QUESTIONS:
            if "sql" not in each:
                continue
            question, truth = each["question"], rows(database.execute(each["sql"]).fetchall())
            context = call("context_pack", {"question": question})["context"]
            draft, calls, answer = draft_in(context), 1, None
            if draft is not None:
                calls, answer = 2, rows(call("sl_query", draft)["rows"])
            is_right = answer == truth
            if not is_right:
                name, arguments = WRITTEN[question]
                named = re.findall(r"\b[a-z_]+\.([a-z_]+)", json.dumps(arguments))
                assert all(re.search(rf"\b{word}\b", context) for word in named), question
                calls, answer = calls + 1, rows(call(name, arguments)["rows"])
            found[question] = (is_right, calls, "" if answer == truth else f"{answer} and not {truth}")
    return found


def test_every_number_takes_at_most_three_calls(asked: dict[str, tuple[bool, int, str]]) -> None:
    assert {question: wrong for question, (_, _, wrong) in asked.items() if wrong} == {}
    assert {question: calls for question, (_, calls, _) in asked.items() if calls > MOST_CALLS} == {}
    assert len(asked) == 18


def test_the_draft_alone_answers_most(asked: dict[str, tuple[bool, int, str]]) -> None:
    right = [question for question, (is_right, _, _) in asked.items() if is_right]
    assert len(right) >= LEAST_DRAFTS, sorted(set(asked) - set(right))


@pytest.mark.table(("question", "stated"), list(STATED.items()))
def test_what_is_stated_is_in_the_first_answer(call: Tool, question: str, stated: tuple[str, ...]) -> None:
    assert {"question": question, "page": True} in QUESTIONS
    context = call("context_pack", {"question": question})["context"]
    assert all(words in context for words in stated)
