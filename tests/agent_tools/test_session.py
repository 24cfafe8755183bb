"""A session: what it remembers, how it goes on, which failures count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.agent_tools.session import Failures, PageBudget
from ktx_cli.agent_tools.toolset import BY_STAGE, WRITERS, tools_for, unresolved_failures
from ktx_cli.documents.raw import RawFile
from ktx_cli.llm.tools import RuntimeTool, ToolOutput
from ktx_cli.sources.port import EvidenceForm
from ktx_cli.sources.query_history.pages import EVIDENCE

MEASURE = "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n  - {name: paid, expr: count(status)}\n"
FALLBACK = {"raw_path": "docs/a.md", "reason": "no_physical_table", "fallback": "wiki_only"}


def work(made: Any) -> None:
    made.ok("entity_details", targets=["orders"])
    made.ok("sl_write_source", source="orders", yaml=MEASURE)
    made.ok("wiki_write", key="refunds", summary="s", content="c")
    made.ok("wiki_remove", key="revenue")
    made.ok("emit_unmapped_fallback", **FALLBACK, table_ref="ghost", clarification="It is gone.")
    made.refused("wiki_write", key="fees", summary="s", content="`orders.ghost`")


def test_a_session_goes_on_where_it_was(shop: Callable[..., Any]) -> None:
    made = shop(budget=PageBudget(5, 5))
    work(made)
    stored = json.loads(json.dumps(made.session.state()))
    again = shop()
    again.session.restore(stored)
    assert again.session.state() == made.session.state()
    assert again.session.workspace.changes() == made.session.workspace.changes()
    assert unresolved_failures(again.session) == unresolved_failures(made.session)
    assert again.session.actions == made.session.actions
    assert again.session.budget == PageBudget(4, 5)
    again.ok("sl_rollback", source="orders")
    assert "semantic-layer/shop/orders.yaml" not in again.session.workspace.changes()


def test_restoring_forgets_what_was_done_since(shop: Callable[..., Any]) -> None:
    made = shop()
    before = made.session.state()
    work(made)
    made.session.restore(before)
    assert made.session.workspace.changes() == {}
    assert made.session.state() == before


def test_bytes_that_are_no_text_survive(shop: Callable[..., Any]) -> None:
    made = shop()
    made.session.workspace.write("wiki/global/x.md", b"\xff\x00")
    again = shop()
    again.session.restore(json.loads(json.dumps(made.session.state())))
    assert again.session.workspace.read("wiki/global/x.md") == b"\xff\x00"


def test_a_state_of_another_format_is_not_taken(shop: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="cannot be resumed"):
        shop().session.restore({"format": 0})


def test_several_writes_of_an_artifact_are_one_action(shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("wiki_write", key="refunds", summary="s", content="c")
    made.ok("wiki_write", key="refunds", summary="t")
    assert [(each.key, each.kind, each.detail) for each in made.session.actions] == [("refunds", "created", "t")]
    made.ok("wiki_remove", key="revenue")
    made.ok("wiki_write", key="revenue", summary="s", content="c")
    assert [(each.key, each.kind) for each in made.session.actions] == [("refunds", "created"), ("revenue", "updated")]


def test_a_failure_counts_until_the_same_target_succeeds(shop: Callable[..., Any]) -> None:
    made = shop()
    made.refused("wiki_write", key="Finance/Refunds", summary="s", content="c")
    made.refused("wiki_remove", key="ghost")
    made.refused("sl_edit_source", source="orders", edits=[{"old_text": "zzz", "new_text": ""}])
    assert [each.target for each in unresolved_failures(made.session)] == [
        "wiki:finance-refunds",
        "wiki:ghost",
        "sl:shop/orders",
    ]
    made.ok("wiki_write", key="finance-refunds", summary="s", content="c")
    made.ok("wiki_write", key="ghost", summary="s", content="c")
    made.ok("entity_details", targets=["orders"])
    made.ok("sl_write_source", source="orders", connection="shop", yaml=MEASURE)
    assert unresolved_failures(made.session, made.calls) == ()


def test_refusals_of_readers_count_for_nothing(shop: Callable[..., Any]) -> None:
    made = shop()
    made.refused("read_raw_file", path="ghost")
    made.refused("wiki_read", key="ghost")
    made.refused("entity_details", targets=["ghost"])
    made.refused("emit_unmapped_fallback", **{**FALLBACK, "raw_path": "ghost"})
    made.refused("Bash", command="rm -rf /")
    made.refused("wiki_search")
    assert unresolved_failures(made.session, made.calls) == ()


def test_arguments_that_do_not_fit_are_made_good_by_ones_that_do(shop: Callable[..., Any]) -> None:
    made = shop()
    made.refused("wiki_write", key="refunds", summary=3)
    made.refused("sl_write_source", source="orders")
    assert [each.target for each in unresolved_failures(made.session, made.calls)] == [
        "arguments of wiki_write",
        "arguments of sl_write_source",
    ]
    made.ok("wiki_write", key="refunds", summary="s", content="c")
    assert [each.target for each in unresolved_failures(made.session, made.calls)] == ["arguments of sl_write_source"]


def test_what_nobody_foresaw_counts_for_readers_too(shop: Callable[..., Any]) -> None:
    made = shop()

    def broken(connection: str, source: Any) -> Any:
        raise ZeroDivisionError

    made.session.privacy, made.session.values = "off", broken
    assert "ZeroDivisionError" in made.refused("entity_details", targets=["orders"])
    assert [each.tool for each in unresolved_failures(made.session)] == ["entity_details"]
    made.session.values = None
    made.ok("entity_details", targets=["orders"])
    assert unresolved_failures(made.session) == ()


@pytest.mark.table(
    ("failed", "table", "left"),
    [
        (["sl:shop/orders"], "orders", []),
        (["sl:shop/orders"], 'main."orders"', []),
        (["sl:shop/orders"], None, []),
        (["sl:shop/orders", "sl:shop/b"], None, ["sl:shop/orders", "sl:shop/b"]),
        (["sl:shop/orders", "sl:shop/b"], "b", ["sl:shop/orders"]),
        (["sl:shop/orders"], "other", ["sl:shop/orders"]),
        (["wiki:orders"], "orders", ["wiki:orders"]),
        (["wiki:orders"], None, ["wiki:orders"]),
    ],
)
def test_a_fallback_makes_a_failure_good(failed: list[str], table: str | None, left: list[str]) -> None:
    failures = Failures()
    for target in failed:
        failures.failed(target, "sl_write_source", "no")
    failures.fell_back(table)
    assert [each.target for each in failures.unresolved((), ())] == left


def test_a_refused_fallback_makes_nothing_good(shop: Callable[..., Any]) -> None:
    made = shop()
    made.refused("sl_write_source", source="orders", yaml="name: orders\nmeasures: [{name: a, expr: sum(ghost)}]")
    assert "exists: shop: orders" in made.refused("emit_unmapped_fallback", **FALLBACK, table_ref="main.orders")
    made.refused("emit_unmapped_fallback", **{**FALLBACK, "raw_path": "other.md"})
    assert made.session.records.fallbacks == []
    assert [each.target for each in unresolved_failures(made.session)] == ["sl:shop/orders"]


def test_a_fallback_is_noted_once_in_the_words_of_its_reason(shop: Callable[..., Any]) -> None:
    made = shop()
    for _ in range(2):
        made.ok("emit_unmapped_fallback", **FALLBACK, table_ref="ghost")
    (fallback,) = made.session.records.fallbacks
    assert fallback.detail == "it names no physical table"


def test_a_task_that_may_write_pages_alone_has_no_other_writers(shop: Callable[..., Any]) -> None:
    made = shop(semantic=False)
    names = {tool.name for tool in tools_for(made.session, "unit")}
    assert names.isdisjoint({"sl_write_source", "sl_edit_source", "sl_rollback"})
    assert {"wiki_write", "sl_read_source", "sl_validate"} <= names


def test_without_databases_the_wiki_is_left(shop: Callable[..., Any]) -> None:
    names = {tool.name for tool in tools_for(shop(connections={}).session, "memory")}
    assert names == {
        "discover_data", "load_skill", "wiki_list_tags", "wiki_read", "wiki_remove", "wiki_search", "wiki_write",
    }  # fmt: skip


def test_each_stage_has_its_tools(shop: Callable[..., Any]) -> None:
    session = shop().session
    whole_run = {"stage_list", "stage_diff", "eviction_list"}
    assert whole_run <= {tool.name for tool in tools_for(session, "reconcile")}
    assert whole_run.isdisjoint(tool.name for tool in tools_for(session, "unit"))
    common = [tool.name for tool in tools_for(session, "unit") if tool.common]
    assert [tool.name for tool in tools_for(session, "unit")] == [*sorted(common), "read_raw_file"]
    assert [tool.name for tool in tools_for(session, "reconcile")][: len(common)] == sorted(common)
    writers = {"wiki_write", "wiki_remove", "sl_write_source", "sl_edit_source", "sl_rollback"}
    assert writers == WRITERS
    for tools in BY_STAGE.values():
        assert all(not tool.reads for tool in tools if tool.target is not None)


def test_a_session_may_bring_further_tools(shop: Callable[..., Any]) -> None:
    from ktx_cli.agent_tools.session import Input

    tool = RuntimeTool("context_evidence_read", "Read a chunk.", Input, lambda value: ToolOutput("a chunk"))
    made = shop(extra=(tool,))
    assert made.ok("context_evidence_read") == "a chunk"
    clash = RuntimeTool("wiki_read", "Read.", Input, lambda value: ToolOutput(""))
    with pytest.raises(ValueError, match="two tools are named"):
        tools_for(shop(extra=(clash,)).session, "unit")


def test_skills_are_loaded_by_those_they_are_for(shop: Callable[..., Any]) -> None:
    assert shop().ok("load_skill", name="wiki_capture").startswith("# What deserves a page")
    assert "there is no skill `dbt_ingest` for this task" in shop(stage="memory").refused(
        "load_skill", name="dbt_ingest"
    )
    assert "there is no skill `x`" in shop().refused("load_skill", name="x")


TABLE = b'{"format": 1, "table": "orders", "source": "orders"}'
PATTERNS = b'{"format": 1, "patterns": [{"id": "f1", "sql": "SELECT 1", "tables": ["orders"], "executions": "5-9"}]}'
USAGE = {"kind": "table_usage", "table": "orders", "narrative": "Revenue by day."}
PATTERN = {"kind": "pattern", "slug": "by-day", "title": "By day?", "narrative": "n", "fingerprints": ["f1"]}


def history(shop: Callable[..., Any]) -> Any:
    contents = {"tables/orders.json": TABLE, "patterns/1.json": PATTERNS}
    raw = {path: RawFile(path, "0" * 64, len(data), lambda data=data: data) for path, data in contents.items()}
    return shop(raw=raw, evidence=EVIDENCE, semantic=False)


@pytest.mark.table(
    ("path", "evidence", "told"),
    [
        ("tables/orders.json", {**USAGE, "table": "customers"}, "is about the table orders"),
        ("patterns/1.json", USAGE, "give `pattern` evidence"),
        ("tables/orders.json", PATTERN, "give `table_usage` evidence"),
        ("patterns/1.json", {**PATTERN, "fingerprints": ["f2"]}, "contains no statement f2"),
        ("patterns/1.json", {**PATTERN, "sl_refs": ["orders.ghost"]}, "`ghost`"),
        ("other.json", USAGE, "is not a file of this task"),
        ("tables/orders.json", {**USAGE, "narrative": "password: hunter2hunter"}, "the text contains"),
        ("tables/orders.json", {"kind": "other"}, "Invalid arguments"),
    ],
)
def test_evidence_is_checked_against_its_file(
    path: str, evidence: dict[str, Any], told: str, shop: Callable[..., Any]
) -> None:
    made = history(shop)
    assert told in made.refused("emit_historic_sql_evidence", raw_path=path, evidence=evidence)
    assert made.session.records.evidence == []
    assert len(unresolved_failures(made.session, made.calls)) == 1


class Term(BaseModel):
    name: str
    meaning: str


def test_a_source_has_evidence_of_its_own(shop: Callable[..., Any]) -> None:
    def problems(term: Term, path: str, content: bytes) -> list[str]:
        return [] if term.name.encode() in content else [f"{path} does not have the term {term.name}"]

    form = EvidenceForm("emit_term", "Give a term.", Term, "A term of the file.", problems)
    raw = {"a.txt": RawFile("a.txt", "0" * 64, 4, lambda: b"gross, net")}
    made = shop(raw=raw, evidence=form, semantic=False)
    tools = {tool.name for tool in tools_for(made.session, "unit")}
    assert "emit_term" in tools and not tools & {*WRITERS, "emit_historic_sql_evidence"}
    assert "does not have the term tax" in made.refused(
        "emit_term", raw_path="a.txt", evidence={"name": "tax", "meaning": "x"}
    )
    for term, meaning in (("net", "x"), ("gross", "With tax."), ("net", "Without tax.")):
        made.ok("emit_term", raw_path="a.txt", evidence={"name": term, "meaning": meaning})
    assert [each.evidence["meaning"] for each in made.session.records.evidence] == ["With tax.", "Without tax."]
    assert "the text contains" in made.refused(
        "emit_term", raw_path="a.txt", evidence={"name": "net", "meaning": "password: hunter2hunter"}
    )


def test_evidence_said_again_replaces_what_was_said(shop: Callable[..., Any]) -> None:
    made = history(shop)
    made.ok("emit_historic_sql_evidence", raw_path="tables/orders.json", evidence=USAGE)
    made.ok("emit_historic_sql_evidence", raw_path="tables/orders.json", evidence={**USAGE, "narrative": "Better."})
    made.ok(
        "emit_historic_sql_evidence", raw_path="patterns/1.json", evidence={**PATTERN, "sl_refs": ["orders.revenue"]}
    )
    assert [each.subject for each in made.session.records.evidence] == [
        "table_usage orders of tables/orders.json",
        "pattern by-day of patterns/1.json",
    ]
    again = history(shop)
    again.session.restore(json.loads(json.dumps(made.session.state())))
    assert again.session.state() == made.session.state()


def test_agents_of_a_query_history_give_evidence_and_write_nothing(shop: Callable[..., Any]) -> None:
    names = {tool.name for tool in tools_for(history(shop).session, "unit")}
    assert "emit_historic_sql_evidence" in names
    assert names.isdisjoint({"wiki_write", "wiki_remove", "sl_write_source", "emit_unmapped_fallback"})
    assert "emit_historic_sql_evidence" not in {tool.name for tool in tools_for(shop().session, "unit")}


def test_an_accepted_fallback_makes_the_failure_of_its_source_good(shop: Callable[..., Any]) -> None:
    made = shop()
    made.refused("sl_write_source", source="ghost", yaml="name: ghost\n")
    made.ok("emit_unmapped_fallback", **FALLBACK, table_ref="raw.ghost")
    assert unresolved_failures(made.session, made.calls) == ()
