"""Open decisions over the protocol: notes of answers, hits and sources; privacy, hidden columns, views."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.scan import FoundPoint
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import TableRef
from tests.cli.conftest import Build, Run, copies, done, ktx, work
from tests.mcp.conftest import Company, Reply
from tests.mcp.test_http import Load, serving
from tests.subscription_project import POINT, git, make

__all__ = ["copies", "ktx", "work"]

QUESTION = "open: Do internal accounts count?"
VALUES = f"{QUESTION} subscriptions.revenue 2025-06: 400 or 300; decide with `ktx decide {POINT}`"
SIZE = f"{QUESTION} subscriptions.revenue differs by 25%; decide with `ktx decide {POINT}`"
MASKED = (
    "open: A convention about hidden data is undecided. subscriptions.revenue differs by 25%; decide with `ktx decide`"
)
REVENUE = {"measures": ["subscriptions.revenue"]}
VIEWS = """
CREATE VIEW paying AS SELECT s.id, s.mrr, s.account_id FROM subscriptions s JOIN accounts a ON a.id = s.account_id;
CREATE VIEW paying_again AS SELECT mrr FROM paying;
CREATE VIEW customers_only AS SELECT s.mrr FROM subscriptions s JOIN accounts a ON a.id = s.account_id
WHERE NOT a.is_internal;
"""


def _scanned(folder: Path) -> None:
    make(folder)
    with duckdb.connect(str(folder / "wh.duckdb")) as database:
        database.execute(VIEWS)
    done("scan", "--depth", "structural")


@pytest.fixture
def served(work: Path, copies: Callable[[Build, Path], Path]) -> Iterator[Company]:
    """A project with one open decision, scanned."""
    company = Company(copies(_scanned, work))
    yield company
    company.close()


def _sql(company: Company, sql: str, **options: Any) -> list[str]:
    reply = company.call("sql_execution", {"connection": "wh", "sql": sql}, **options)
    assert reply.error is None, reply.error
    return [each for each in reply.data["warnings"] if each.startswith(("open:", "decided"))]


def _notes(company: Company, **options: Any) -> list[str]:
    receipt = company.call("sl_query", REVENUE, **options).data["receipt"]
    return [each for each in receipt["notes"] if each.startswith(("open:", "decided"))]


def test_every_answer_names_the_open_decision_with_its_effect(served: Company) -> None:
    assert _notes(served) == [VALUES]
    assert _sql(served, "SELECT sum(mrr) FROM subscriptions") == [VALUES]
    hits = served.call("discover_data", {"query": "revenue"}).data["hits"]
    assert [each["open"] for each in hits if each["id"] == "subscriptions.revenue"] == [[SIZE]]
    for tool, asked in (
        ("sl_read_source", {"connection": "wh", "source": "subscriptions"}),
        ("entity_details", {"connection": "wh", "targets": ["subscriptions"]}),
    ):
        assert SIZE in served.call(tool, asked).text, tool


@pytest.mark.parametrize("is_refused", [False, True])
def test_over_http_a_note_has_no_command_of_whoever_runs_the_server(served: Company, is_refused: bool) -> None:
    """Nor has the error about open decisions; the caller asks that person."""
    with (served.folder / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {open_decisions: refuse}\n" if is_refused else "")
    calls: dict[str, dict[str, Any]] = {
        "sl_query": REVENUE,
        "sl_explain": REVENUE,
        "sql_execution": {"connection": "wh", "sql": "SELECT sum(mrr) FROM subscriptions"},
        "discover_data": {"query": "revenue"},
        "context_read": {"id": "subscriptions"},
        "sl_read_source": {"connection": "wh", "source": "subscriptions"},
        "entity_details": {"connection": "wh", "targets": ["subscriptions"]},
        "context_pack": {"question": "revenue by month"},
    }
    with serving(served.folder, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        texts = {tool: wire.call(tool, arguments)[2] for tool, arguments in calls.items()}
        got = wire.ask("resources/read", {"uri": "ktx://semantic-layer/wh/subscriptions"})
        texts["resource"] = got.body.decode()
    for tool, text in texts.items():
        assert "ktx decide" not in text and "ktx config" not in text, (tool, text)
    asked = ("sl_query", "sql_execution")
    if is_refused:
        assert all("ask whoever runs this server" in texts[tool] for tool in asked)
    else:
        assert all(VALUES.partition("; decide")[0] in texts[tool] for tool in asked)
    shown = ("discover_data", "context_read", "sl_read_source", "entity_details", "resource")
    assert all(SIZE.partition("; decide")[0] in texts[tool] for tool in shown)


def test_with_privacy_a_note_has_the_relative_difference_alone(served: Company) -> None:
    assert _notes(served, privacy=True) == [SIZE]
    (found,) = served.call("sl_query", REVENUE, privacy=True).data["receipt"]["open"]
    assert (found["values"], found["period"], found["spread"]) == (None, None, 0.25)
    assert _sql(served, "SELECT sum(mrr) FROM subscriptions", privacy=True) == [SIZE]


def test_after_the_decision_the_notes_go_and_sql_gets_the_condition(served: Company) -> None:
    done("decide", POINT, "--as", "exclude")
    assert _notes(served) == []
    (note,) = _sql(served, "SELECT sum(mrr) FROM subscriptions")
    assert note.startswith("decided: Internal accounts do not count (by Ada Lee on ")
    assert note.endswith("in SQL, rows of accounts count where `is_internal IS NOT TRUE`")
    (note,) = _sql(served, "SELECT sum(mrr) FROM paying_again")
    assert "in SQL, rows of accounts count where" in note


@pytest.mark.parametrize(
    ("sql", "is_touched"),
    [
        ("SELECT sum(mrr) FROM paying", True),
        ("SELECT sum(mrr) FROM main.paying_again", True),
        ("SELECT sum(mrr) FROM customers_only", False),
        ("SELECT sum(mrr) FROM paying WHERE account_id IN (SELECT id FROM accounts WHERE NOT is_internal)", False),
    ],
)
def test_statements_over_views_are_about_the_tables_behind_them(served: Company, sql: str, is_touched: bool) -> None:
    assert _sql(served, sql) == ([VALUES] if is_touched else [])


def test_the_policy_refuses_over_the_protocol(served: Company) -> None:
    with (served.folder / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {open_decisions: refuse}\n")
    for tool, asked in (("sl_query", REVENUE), ("sql_execution", {"sql": "SELECT sum(mrr) FROM paying"})):
        error = served.call(tool, asked).error
        assert error is not None and error["code"] == "open_decision" and f"ktx decide {POINT}" in error["hint"], tool


HIDING = """\
name: accounts
column_overrides: [{name: is_internal, visibility: hidden}]
"""
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("sl_query", REVENUE),
    ("sl_query", {"measures": ["accounts.account_count"]}),
    ("sql_execution", {"connection": "wh", "sql": "SELECT sum(mrr) AS revenue FROM subscriptions"}),
    ("sql_execution", {"connection": "wh", "sql": "SELECT count(*) AS n FROM accounts"}),
    ("discover_data", {"query": "revenue decision accounts"}),
    ("context_pack", {"question": "revenue decision accounts"}),
    ("sl_read_source", {"connection": "wh", "source": "accounts"}),
    ("sl_read_source", {"connection": "wh", "source": "subscriptions"}),
    ("entity_details", {"connection": "wh", "targets": ["accounts", "subscriptions.revenue"]}),
    ("wiki_search", {"query": "decision hidden data"}),
    ("context_status", {}),
]


@pytest.mark.parametrize("state", ["open", "refused", "decided"])
def test_no_tool_names_a_hidden_column_of_a_decision(served: Company, state: str) -> None:
    (served.folder / "semantic-layer/wh/accounts.yaml").write_text(HIDING)
    if state == "decided":
        git(served.folder, "add", "-A")
        git(served.folder, "commit", "-qm", "hide")
        done("decide", POINT, "--as", "exclude", "--because", "Nobody may see who they are")
        assert not list(served.folder.glob("wiki/**/*is_internal*"))
    elif state == "refused":
        with (served.folder / "ktx.yaml").open("a") as stream:
            stream.write("semantic: {open_decisions: refuse}\n")
    done("index")
    for tool, asked in ASKED:
        reply = served.call(tool, asked)
        assert reply.error is None or state == "refused", reply.error
        shown = reply.data
        if state == "decided" and tool == "sl_query":  # the SQL and the filters of a measure are what people defined
            receipt = shown["receipt"]
            shown = {"warnings": shown["warnings"], **{key: receipt[key] for key in ("notes", "open", "explained_by")}}
            reply = Reply(shown, reply.error, "")
        text = json.dumps([shown, reply.error, reply.text]).casefold()
        assert "is_internal" not in text and "internal accounts" not in text, (tool, asked, text)
    if state == "open":
        assert _notes(served) == [MASKED]
        (found,) = served.call("sl_query", REVENUE).data["receipt"]["open"]
        assert (found["id"], found["values"], found["readings"], found["spread"]) == ("hidden", None, {}, 0.25)
        assert _sql(served, "SELECT sum(mrr) FROM subscriptions") == [MASKED]
    if state == "refused":
        error = served.call("sl_query", REVENUE).error
        assert error is not None and error["code"] == "open_decision" and "ktx decide" in error["hint"]
    if state == "decided":
        assert served.call("sl_query", REVENUE).data["rows"] == [["400.00"]], "the definitions follow it all the same"
        (note,) = _sql(served, "SELECT sum(mrr) FROM subscriptions")
        assert note.startswith("decided: a condition on hidden data")


_POLICY = 'policies: [{name: own, filter: "id > {{ user.least }}"}]\n'
LIMITS = {
    "subscriptions": ("semantic-layer/wh/subscriptions.yaml", _POLICY),
    "accounts": ("semantic-layer/wh/accounts.yaml", f"name: accounts\n{_POLICY}"),
    "masks": ("semantic-layer/wh/accounts.yaml", "name: accounts\ncolumn_overrides: [{name: is_internal, mask: {}}]\n"),
}
BEHIND = f"{QUESTION} the effect is hidden because of row policies or masks; decide with `ktx decide {POINT}`"


@pytest.mark.parametrize("limited", sorted(LIMITS))
def test_no_effect_of_rows_behind_a_policy_is_shown(served: Company, ktx: Run, limited: str) -> None:
    """The effect was computed of all rows; 400 or 300, and 25%, are of nobody's rows who may not see them all."""
    path, text = LIMITS[limited]
    with (served.folder / path).open("a") as stream:
        stream.write(text)
    attributes = {"least": 3}
    effects = ["400 or 300", "subscriptions.revenue differs"] + ["differs by", "25%"] * (limited == "accounts")
    assert _notes(served, attributes=attributes) == [BEHIND]
    assert _notes(served, attributes=attributes, privacy=True) == [BEHIND]
    for tool, asked in ASKED:
        reply = served.call(tool, asked, attributes=attributes)
        said = [*(reply.data.get("warnings") or ()), json.dumps(reply.error)]
        said += [each for hit in reply.data.get("hits", ()) for each in hit["open"]]
        said += reply.data.get("receipt", {}).get("notes", ())
        text = " ".join([*said, *(reply.data[key] for key in ("yaml", "context") if key in reply.data)])
        assert not [each for each in effects if each in text], (tool, asked, text)
    (found,) = served.call("sl_query", REVENUE, attributes=attributes).data["receipt"]["open"]
    assert (found["spread"], found["values"], found["period"]) == (None, None, None)
    answer = ktx("sl", "query", "-m", "subscriptions.revenue", "--user-attribute", "least:=3", "--json")
    assert [each for each in answer.data["receipt"]["notes"] if each.startswith("open:")] == [BEHIND]
    read = ktx("sl", "read", "subscriptions", "--json")
    assert [each for each in effects if each in str(read.data["open"])] == []


STATE = FoundPoint(
    TableRef("main", "subscriptions"),
    DecisionKind.STATUS,
    ("state",),
    "Which subscriptions count: those that are voided, too?",
    (
        Alternative("all", "Subscriptions of every state count"),
        Alternative("without_ended", "Subscriptions that are voided do not count", filter="state <> 'voided'"),
    ),
)
STATE_ID = "subscriptions.status.state"


def _with_states(folder: Path) -> None:
    make(folder, STATE)
    with duckdb.connect(str(folder / "wh.duckdb")) as database:
        database.execute("ALTER TABLE subscriptions ADD COLUMN state TEXT DEFAULT 'active'")
        database.execute("UPDATE subscriptions SET state = 'voided' WHERE id = 2")
    done("scan", "--depth", "structural")


@pytest.mark.parametrize("state", ["open", "refused", "decided"])
def test_with_privacy_no_note_names_a_status(work: Path, copies: Callable[[Build, Path], Path], state: str) -> None:
    company = Company(copies(_with_states, work))
    try:
        if state == "refused":
            with (company.folder / "ktx.yaml").open("a") as stream:
                stream.write("semantic: {open_decisions: refuse}\n")
        elif state == "decided":
            done("decide", STATE_ID, "--as", "without_ended")
            overlay = company.folder / "semantic-layer/wh/subscriptions.yaml"
            overlay.write_text("name: subscriptions\nmeasures: [{name: revenue, expr: sum(mrr)}]\n")
        names: dict[bool, set[str]] = {True: set(), False: set()}
        for private in (True, False):
            for tool, asked in ASKED:
                reply = company.call(tool, asked, privacy=private)
                texts = [*(reply.data.get("warnings") or ()), json.dumps(reply.error)]
                texts += [each for hit in reply.data.get("hits", ()) for each in hit["open"]]
                receipt = reply.data.get("receipt") or {}
                texts += [*receipt.get("notes", ()), json.dumps(receipt.get("open"))]
                texts += [each for each in reply.data.get("context", "").splitlines() if "page " not in each]
                if tool in ("sl_read_source", "entity_details") and state == "open":
                    texts.append(reply.text)
                names[private] |= {tool for text in texts if "voided" in text}
        assert not names[True]
        assert "sl_query" in names[False] and "sql_execution" in names[False]
        if state == "open":
            assert _notes(company, privacy=True) == [
                "open: The status of subscriptions is undecided. subscriptions.revenue differs by 25%; "
                f"decide with `ktx decide {STATE_ID}`"
            ]
            assert {"discover_data", "context_pack", "sl_read_source"} <= names[False]
    finally:
        company.close()


def test_behind_a_policy_no_note_names_a_status(work: Path, copies: Callable[[Build, Path], Path]) -> None:
    company = Company(copies(_with_states, work))
    try:
        with (company.folder / LIMITS["subscriptions"][0]).open("a") as stream:
            stream.write(LIMITS["subscriptions"][1])
        (note,) = _notes(company, attributes={"least": 3})
        assert note == (
            "open: The status of subscriptions is undecided. the effect is hidden because of row policies or masks; "
            f"decide with `ktx decide {STATE_ID}`"
        )
    finally:
        company.close()
