"""The tool that records contradictions: what it takes, what it refuses, and what it settles in a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.prompts import load_prompts, unit_prompt
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.agent_tools.toolset import tools_for, unresolved_failures
from ktx_cli.documents import WorkUnit
from ktx_cli.wiki import Contradiction, Statement
from tests.agent_tools.conftest import raw_file

RAW = {"a.md": raw_file("a.md", "Revenue is net."), "b/c.md": raw_file("b/c.md", "Revenue is gross.")}


def statement(source: str, text: str = "Revenue is net.", **more: Any) -> dict[str, Any]:
    return {"text": text, "source": source, "effect": "orders.revenue", **more}


def arguments(*sources: str, **more: Any) -> dict[str, Any]:
    said = [statement(source, f"Revenue, says {source}.") for source in sources]
    return {"topic": "revenue", "statements": said, **more}


@pytest.fixture
def unit(shop: Callable[..., Any]) -> Any:
    return shop(raw=RAW, source="docs")


def test_both_statements_are_recorded_with_source_date_and_effect(unit: Any) -> None:
    said = [
        statement("a.md", date="March 2025"),
        statement("sl:shop/orders.revenue", "sum(amount)", effect="the page revenue"),
    ]
    text = unit.ok("record_contradiction", topic=" revenue ", statements=said, evidence="SELECT 1")
    assert "A person decides" in text
    assert unit.session.records.contradictions == [
        Contradiction(
            "revenue",
            (
                Statement("Revenue is net.", "docs/a.md", "orders.revenue", "March 2025"),
                Statement("sum(amount)", "sl:shop/orders.revenue", "the page revenue"),
            ),
            "SELECT 1",
        )
    ]


@pytest.mark.table(
    ("named", "recorded"),
    [
        ("a.md", "docs/a.md"),
        ("./b/c.md", "docs/b/c.md"),
        ("docs/b/c.md", "docs/b/c.md"),
        ("wiki:revenue", "wiki:revenue"),
        ("sl:shop/orders", "sl:shop/orders"),
        ("sl:shop/orders.amount", "sl:shop/orders.amount"),
        ("data", "data"),
        ("notes/d.md", "notes/d.md"),
        ("notes:d.md", "notes/d.md"),
    ],
)
def test_a_source_is_recorded_in_one_form(named: str, recorded: str, shop: Callable[..., Any]) -> None:
    made = shop(raw=RAW, source="docs", citable={"notes": {"d.md": RAW["a.md"]}})
    made.ok("record_contradiction", **arguments(named, "data"))
    assert made.session.records.contradictions[0].statements[0].source == recorded


@pytest.mark.table(
    ("named", "refusal"),
    [
        ("c.md", "is not a source of this task; did you mean `a.md`?"),
        ("nothing", "raw files: a.md, b/c.md"),
        ("wiki:returns", "there is no page `returns`; search with wiki_search"),
        ("sl:shop/orders.revenu", "did you mean `revenue`?"),
        ("sl:shop/order", "did you mean `orders`?"),
        ("sl:hr/staff", "the connection `hr` is not available here; available: shop"),
        ("text", "is not a source of this task"),
    ],
)
def test_a_source_that_is_not_there_is_refused(named: str, refusal: str, shop: Callable[..., Any]) -> None:
    made = shop(raw=RAW, source="docs")
    assert refusal in made.refused("record_contradiction", **arguments("a.md", named))
    assert made.session.records.contradictions == []
    assert unresolved_failures(made.session, made.calls) == ()


def test_hidden_columns_and_missing_databases_are_no_sources(shop: Callable[..., Any]) -> None:
    hidden = "name: customers\ncolumn_overrides:\n  - {name: email, visibility: hidden}\n"
    made = shop(files={"semantic-layer/shop/customers.yaml": hidden})
    assert "has no `email`" in made.refused("record_contradiction", **arguments("data", "sl:shop/customers.email"))
    made.session.connections = {}
    assert "no database" in made.refused("record_contradiction", **arguments("data", "wiki:revenue"))


def test_one_statement_is_none_and_secrets_are_refused(unit: Any) -> None:
    assert "2" in unit.refused("record_contradiction", **arguments("a.md"))
    secret = statement("data", "password = hunter2hunter2")
    found = unit.refused("record_contradiction", topic="x", statements=[statement("a.md"), secret])
    assert "secret" in found or "password" in found
    person = statement("data", "Ask jana.vogt@acme.com whether it holds.")
    found = unit.refused("record_contradiction", topic="x", statements=[statement("a.md"), person])
    assert "the text contains a person's e-mail address" in found


def test_the_date_that_a_document_states_is_recorded_where_the_agent_names_none(shop: Callable[..., Any]) -> None:
    html = "<html><head><title>A</title></head><body><p>As of March 2025</p><p>Revenue is net.</p></body></html>"
    made = shop(raw={"a.html": raw_file("a.html", html), **RAW}, source="docs")
    said = [statement("a.html"), statement("docs/a.html", "Or gross.", date="2024"), statement("b/c.md")]
    made.ok("record_contradiction", topic="revenue", statements=said)
    (found,) = made.session.records.contradictions
    assert [each.date for each in found.statements] == ["As of March 2025", "2024", None]


def test_the_same_contradiction_is_recorded_once(unit: Any) -> None:
    unit.ok("record_contradiction", **arguments("a.md", "wiki:revenue"))
    unit.ok("record_contradiction", **arguments("wiki:revenue", "docs/a.md", topic="Revenue"))
    unit.ok("record_contradiction", **arguments("a.md", "b/c.md", topic="what is revenue"))
    unit.ok("record_contradiction", **arguments("a.md", "b/c.md", topic="revenue by month"))
    assert [each.sources for each in unit.session.records.contradictions] == [
        ("docs/a.md", "wiki:revenue", "docs/b/c.md")
    ]


DECIDED = """\
contradictions:
  - topic: revenue
    statements:
      - {source: docs/a.md, text: Revenue is net., effect: x}
      - {source: docs/b/c.md, text: Revenue is gross., effect: x}
    decision: Revenue is net.
    reason: the auditors say so
    decided_by: Ada
    decided_on: 2026-01-31
  - topic: week
    statements:
      - {source: docs/a.md, text: Monday., effect: x}
      - {source: docs/b/c.md, text: Sunday., effect: x}
"""


def test_what_a_person_decided_is_shown_and_not_recorded_again(shop: Callable[..., Any]) -> None:
    made = shop(raw=RAW, source="docs", files={"contradictions.yaml": DECIDED})
    text = made.ok("record_contradiction", **arguments("a.md", "b/c.md"))
    assert "decided this already: Revenue is net because the auditors say so (by Ada on 2026-01-31)" in text
    assert made.session.records.contradictions == []
    made.ok("record_contradiction", **arguments("a.md", "data"))
    made.ok("record_contradiction", **arguments("a.md", "b/c.md", topic="week"))
    assert [each.topic for each in made.session.records.contradictions] == ["revenue", "week"]
    unit = WorkUnit("docs", "docs", ("a.md",))
    shared = unit_prompt(made.session, unit, load_prompts()["work_unit"]).shared
    assert "Contradictions that a person has decided:" in shared
    assert "Decided: Revenue is net because the auditors say so" in shared
    assert "Contradictions that wait for a decision:" in shared and "Sunday." in shared


@pytest.mark.table("broken", ["contradictions: {a: 1}\n", "{"])
def test_a_broken_file_keeps_no_agent_from_its_work(broken: str, shop: Callable[..., Any]) -> None:
    made = shop(raw=RAW, source="docs", files={"contradictions.yaml": broken})
    made.ok("record_contradiction", **arguments("a.md", "b/c.md"))
    unit = WorkUnit("docs", "docs", ("a.md",))
    assert "Contradictions" not in unit_prompt(made.session, unit, load_prompts()["work_unit"]).shared


def test_a_session_that_goes_on_has_what_was_recorded(unit: Any, shop: Callable[..., Any]) -> None:
    unit.ok("record_contradiction", **arguments("a.md", "wiki:revenue"))
    other = shop(raw=RAW, source="docs")
    other.session.restore(unit.session.state())
    assert other.session.records.contradictions == unit.session.records.contradictions


def test_a_capture_names_what_is_accepted(shop: Callable[..., Any]) -> None:
    made = shop(stage="memory")
    made.session.accepted = made.session.workspace.base()
    made.refused("wiki_write", key="revenue", content="Revenue is net.")
    made.refused("sl_write_source", source="orders", delete=True)
    assert len(unresolved_failures(made.session)) == 2
    assert "accepted content" in made.refused("record_contradiction", **arguments("text", "data"))
    made.ok("record_contradiction", **arguments("wiki:revenue", "text"))
    made.ok("record_contradiction", **arguments("sl:shop/orders.revenue", "text"))
    assert unresolved_failures(made.session) == ()
    assert "no accepted page" in made.refused("record_contradiction", **arguments("wiki:new", "text"))


def test_every_agent_has_the_tool_but_a_capture_that_may_change_what_it_contradicts(shop: Callable[..., Any]) -> None:
    def has(session: ToolSession, stage: Any) -> bool:
        return "record_contradiction" in {each.name for each in tools_for(session, stage)}

    session = shop().session
    assert all(has(session, stage) for stage in ("unit", "curate", "reconcile"))
    assert not has(session, "memory")
    session.accepted = session.workspace.base()
    assert has(session, "memory")
