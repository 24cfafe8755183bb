"""The tools that ask: the semantic layer and SQL, their pages, what privacy withholds, progress and cancellation."""

from __future__ import annotations

import sqlite3
from typing import Any

import anyio
import pytest

from ktx_cli.core.errors import CancelledError, KtxError
from ktx_cli.jobs.semantic.question import Question
from ktx_cli.jobs.serve.ask import Stop, Watch, ask_served, run_served
from ktx_cli.semantic.caller import NOBODY
from tests.mcp.conftest import CONFIG, Company

REVENUE = {"measures": ["orders.revenue"], "dimensions": ["customers.country"], "order_by": ["customers.country"]}
ALL_FACTS = {"measures": ["facts.rows_counted"], "dimensions": ["facts.words"], "limit": 5000}


def test_a_question_is_answered_with_what_it_is_made_of(company: Company) -> None:
    data = company.call("sl_query", REVENUE).data
    assert data["columns"] == ["country", "revenue"]
    assert data["rows"] == [["NO", 10.0], ["SE", 20.0]] and data["row_count"] == 2
    assert data["receipt"]["facts"][0]["fact"] == "orders" and "sql" not in data["receipt"]
    assert data["sql"] is None and data["steps"] is None
    asked = company.call("sl_query", {**REVENUE, "include": ["rows", "sql", "receipt"]}).data
    assert asked["sql"].startswith("SELECT") or asked["sql"].startswith("WITH")
    assert {**asked, "sql": None, "receipt": None} == {**data, "receipt": None}
    assert asked["receipt"].keys() == data["receipt"].keys()


def test_parts_of_an_answer_are_left_out_on_request(company: Company) -> None:
    data = company.call("sl_query", {**REVENUE, "include": ["rows"]}).data
    assert data["rows"] and data["sql"] is None and data["receipt"] is None
    data = company.call("sl_query", {**REVENUE, "include": ["sql"]}).data
    assert data["sql"] and data["rows"] == [] and data["row_count"] == 2


def test_the_whole_language_can_be_typed(company: Company) -> None:
    asked = {
        "measures": ["orders.revenue", {"expr": "sum(orders.amount)", "name": "gross"}],
        "dimensions": [{"field": "orders.ordered_at", "granularity": "month", "name": "month"}],
        "filters": ["customers.country <> 'DK'", {"expr": "orders.amount > 1"}],
        "segments": [],
        "having": ["gross > 1"],
        "order_by": [{"field": "gross", "direction": "desc"}],
        "time_range": {"start": "2024-01-01", "end": "2025-01-01", "field": "orders.ordered_at"},
        "totals": True,
        "limit": 10,
        "skip": 0,
        "timezone": "UTC",
        "verify": True,
    }
    data = company.call("sl_query", asked).data
    assert data["columns"] == ["month", "revenue", "gross"]
    assert data["rows"] == [["2024-02-01", 20.0, 25.0], ["2024-01-01", 10.0, 10.0]]
    assert data["totals"] == {"revenue": 30.0, "gross": 35.0}
    assert data["receipt"]["verified"]["mismatches"] == []


COMPARED = {
    "measures": ["orders.revenue"],
    "dimensions": [{"field": "orders.ordered_at", "granularity": "month"}],
    "time_range": {"start": "2024-02-01", "end": "2024-03-01"},
    "comparison": "1 month",
}


def test_a_comparison_is_verified_unless_it_is_not_wanted(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.semantic.verification.LEAST_SECONDS", 60.0)
    verified = company.call("sl_query", COMPARED).data["receipt"]["verified"]
    assert (verified["sampled"], verified["rows"], verified["mismatches"]) == (True, 1, [])
    assert company.call("sl_query", {**COMPARED, "verify": False}).data["receipt"]["verified"] is None
    assert company.call("sl_query", REVENUE).data["receipt"]["verified"] is None


@pytest.mark.parametrize("privacy", [False, True])
def test_an_answer_that_does_not_verify_is_refused(
    company: Company, monkeypatch: pytest.MonkeyPatch, privacy: bool
) -> None:
    wrong = property(lambda asked: asked.compiled.tree.sql(asked.dialect).replace("SUM(", "2 * SUM("))
    monkeypatch.setattr("ktx_cli.semantic.answer.CompiledQuery.sent", wrong)
    monkeypatch.setattr("ktx_cli.semantic.verification.LEAST_SECONDS", 60.0)
    watch = Watch(Stop())
    with pytest.raises(KtxError) as caught:
        ask_served(company.served(), Question(COMPARED), offset=0, privacy=privacy, watch=watch)
    assert (caught.value.code, "20.0" in f"{caught.value.message} {caught.value.details}") == (
        "not_verified",
        not privacy,
    )
    told, rows = ask_served(company.served(), Question(COMPARED, verified=False), offset=0, privacy=False, watch=watch)
    assert rows.rows[0][1] == 40.0 and told.receipt["verified"] is None


def test_a_limit_of_the_question_is_told_and_is_no_page(company: Company) -> None:
    data = company.call("sl_query", {**REVENUE, "limit": 1}).data
    assert data["truncated"] and data["cut"] == "rows" and data["next_offset"] is None
    assert company.call("sl_query", {**REVENUE, "limit": 1, "skip": 1}).data["rows"] == [["SE", 20.0]]


def test_grain_cuts_the_time_that_is_asked_for(company: Company) -> None:
    asked = {"measures": ["orders.order_count"], "dimensions": ["orders.ordered_at"], "grain": "month"}
    assert company.call("sl_query", asked).data["rows"] == [["2024-01-01", 1], ["2024-02-01", 2]]


@pytest.mark.table(
    ("asked", "code", "said"),
    [
        ({}, "query", "has no measures or dimensions"),
        ({"measures": ["orders.revenu"]}, "unknown_name", "revenu"),
        ({"measures": ["orders.revenue"], "dimensions": ["customers.email"]}, "hidden", "email"),
        ({"measures": ["orders.revenue"], "dimensions": ["facts.words"]}, "unreachable", "facts"),
        ({"measures": ["orders.revenue"], "connection": "shpo"}, "usage", "shpo"),
        ({"measures": ["orders.revenue"], "limit": -1}, "usage", "limit"),
        ({"measures": "orders.revenue"}, "usage", "measures"),
        ({"query": {"measures": ["orders.revenue"]}}, "usage", "query"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(company: Company, asked: dict[str, Any], code: str, said: str) -> None:
    for name in ("sl_query", "sl_explain"):
        error = company.call(name, asked).error
        assert error is not None and error["code"] == code, error
        assert said in error["message"] and error["hint"]


@pytest.mark.table(
    ("asked", "place"),
    [
        ({"time_range": {"Start": "2024-01-01"}}, "time_range.Start: Extra inputs"),
        ({"time_range": {"int": "2024-01-01"}}, "time_range.int: Extra inputs"),
        ({"via": {"Orders": 3}}, "via.Orders: Input should"),
        ({"via": {"my-source": None}}, "via.my-source: Input should"),
        ({"measures": ["a", 3]}, "measures.1: Input should"),
        ({"measures": [{"Expr": "a"}]}, "measures.0.expr: Field required"),
        ({"Limit": 3}, "Limit: Extra inputs"),
        ({"limit": "x"}, "limit: Input should"),
    ],
)
def test_a_wrong_argument_is_named_as_it_was_given(company: Company, asked: dict[str, Any], place: str) -> None:
    """Without the types of a choice, which look like names of people's sources."""
    error = company.call("sl_query", {"measures": ["orders.revenue"], **asked}).error
    assert error is not None and any(each.startswith(place) for each in error["details"]["issues"]), error


def test_policies_ask_who_asks(company: Company) -> None:
    asked = {"measures": ["staff.people"]}
    error = company.call("sl_query", asked).error
    assert error is not None and error["code"] == "policy"
    assert "--user-attribute region=VALUE" in error["hint"] and "mcp.user_attributes.region" in error["hint"]
    assert company.call("sl_query", asked, attributes={"region": "EU"}).data["rows"] == [[1]]


def test_rows_come_in_pages_of_the_same_answer(company: Company) -> None:
    rows, pages = company.whole("sl_query", "rows", {**ALL_FACTS, "include": ["rows"]})
    assert pages > 3 and len(rows) == len({row[0] for row in rows}) == 1500


def test_the_next_page_is_of_the_answer_before_though_rows_changed(company: Company) -> None:
    first = company.call("sl_query", ALL_FACTS).data
    company.run("DELETE FROM facts")
    second = company.call("sl_query", {**ALL_FACTS, "offset": first["next_offset"]}).data
    assert second["row_count"] == 1500 and second["rows"] and second["warnings"] == []
    fresh = company.call("sl_query", ALL_FACTS).data
    assert fresh["row_count"] == 0


def test_an_answer_that_is_not_kept_any_more_is_asked_for_again_and_says_so(company: Company) -> None:
    first = company.call("sl_query", ALL_FACTS).data
    company.source("more", "name: more\ntable: facts\ngrain: [id]\ncolumns:\n  - {name: id, type: number}\n")
    second = company.call("sl_query", {**ALL_FACTS, "offset": first["next_offset"]}).data
    assert "was run again" in second["warnings"][0] and second["rows"]


def test_what_was_hidden_meanwhile_is_not_on_the_next_page(company: Company) -> None:
    asked = {"sql": "SELECT words FROM facts"}
    first = company.call("sql_execution", asked).data
    hidden = company.folder / "semantic-layer" / "shop" / "facts.yaml"
    hidden.write_text(hidden.read_text().replace("type: string}", "type: string, visibility: hidden}"))
    error = company.call("sql_execution", {**asked, "offset": first["next_offset"]}).error
    assert error is not None and error["code"] == "hidden"


def test_a_row_that_fits_no_answer_is_an_error_that_says_so(company: Company) -> None:
    asked = {"sql": "SELECT replace(hex(zeroblob(20000)), '0', 'x') AS long"}
    error = company.call("sql_execution", asked).error
    assert error is not None and error["code"] == "context" and "fewer columns" in error["hint"]


def test_with_privacy_no_value_of_a_row_leaves(company: Company) -> None:
    asked = {**REVENUE, "totals": True, "include": ["rows", "sql", "receipt"]}
    data = company.call("sl_query", asked, privacy=True).data
    assert data["rows"] == [] and data["totals"] is None
    assert data["row_count"] == 2 and data["columns"] == ["country", "revenue"] and data["sql"] and data["receipt"]
    assert "hidden" in data["warnings"][0]


def test_a_value_no_row_has_is_told_with_the_nearest(company: Company) -> None:
    asked = {**REVENUE, "filters": ["customers.country = 'no'"]}
    said = "no row matches `customers.country = 'no'`; did you mean 'NO'?"
    assert company.call("sl_query", asked).data["warnings"] == [said]
    assert said not in company.call("sl_query", asked, privacy=True).data["warnings"]


def test_a_value_no_row_has_tells_nothing_of_rows_behind_a_policy(company: Company) -> None:
    asked, eu = {"measures": ["staff.people"]}, {"region": "EU"}
    for note in ("loud", "lous"):
        asked["filters"] = [f"staff.note = '{note}'"]
        warnings = company.call("sl_query", asked, attributes=eu).data["warnings"]
        assert warnings == [f"no row that you can see matches `staff.note = '{note}'`"]


def test_with_privacy_sql_gives_counts_alone(company: Company) -> None:
    counted = "SELECT country, count(*) AS n FROM customers GROUP BY country ORDER BY country"
    data = company.call("sql_execution", {"sql": counted}, privacy=True).data
    assert data["rows"] == [["(hidden)", 1], ["(hidden)", 1]] and data["row_count"] == 2
    data = company.call("sql_execution", {"sql": "SELECT country FROM customers"}, privacy=True).data
    assert data["rows"] == [] and data["row_count"] == 2 and data["columns"] == ["country"]


def test_no_value_becomes_a_name_with_or_without_a_semantic_layer(company: Company) -> None:
    pivot = {"sql": "SELECT * FROM customers PIVOT(count(*) FOR country IN ('NO'))"}
    for _ in range(2):
        error = company.call("sql_execution", pivot, privacy=True).error
        assert error is not None and error["code"] == "hidden" and "PIVOT" in error["message"]
        for path in company.folder.glob("semantic-layer/shop/*.yaml"):
            path.unlink()
    counted = {"sql": "SELECT count(*) FROM customers"}
    assert company.call("sql_execution", counted, privacy=True).data["rows"] == [[2]]


def test_errors_about_rows_quote_none_where_rows_are_hidden(company: Company) -> None:
    sql = {"sql": "SELECT json_extract('word ' || words, '$.a') FROM facts"}
    for options in ({}, {"privacy": True}):
        error = company.call("sql_execution", sql, **options).error
        assert error is not None and error["code"] == "query"
        assert "never shown" in error["message"] and "malformed" not in error["message"]
    for name in ("customers", "staff"):
        (company.folder / "semantic-layer" / "shop" / f"{name}.yaml").unlink()
    error = company.call("sql_execution", sql).error
    assert error is not None and "malformed" in error["message"]


def test_sql_runs_read_only_and_pages_to_the_end(company: Company) -> None:
    rows, pages = company.whole(
        "sql_execution", "rows", {"sql": "SELECT id, words FROM facts ORDER BY id", "max_rows": 1200}
    )
    assert [row[0] for row in rows] == list(range(1, 1201)) and pages > 2


@pytest.mark.table(
    ("sql", "code"),
    [
        ("DELETE FROM facts", "hidden"),
        ("SELECT 1; DELETE FROM facts", "hidden"),
        ("ATTACH 'x' AS y", "hidden"),
        ("SELECT email FROM customers", "hidden"),
        ("SELECT * FROM customers", "hidden"),
        ("SELECT count(*) FROM staff", "hidden"),
        ("SELECT nothing FROM facts", "query"),
        ("SELEC 1", "hidden"),
    ],
)
def test_sql_that_may_not_be_is_refused(company: Company, sql: str, code: str) -> None:
    error = company.call("sql_execution", {"sql": sql}).error
    assert error is not None and error["code"] == code, error
    assert company.call("sql_execution", {"sql": "SELECT count(*) FROM facts"}).data["rows"] == [[1500]]


def test_sql_that_writes_is_refused_where_nothing_is_hidden_too(company: Company) -> None:
    for name in ("customers", "staff"):
        (company.folder / "semantic-layer" / "shop" / f"{name}.yaml").unlink()
    for sql in ("DELETE FROM facts", "SELECT 1; DROP TABLE facts", "ATTACH 'x' AS y"):
        error = company.call("sql_execution", {"sql": sql}).error
        assert error is not None and error["code"] == "read_only", error


def test_sql_wants_a_database(company: Company) -> None:
    company.write(
        "ktx.yaml", "connections:\n  a: {driver: sqlite, path: a.sqlite}\n  b: {driver: sqlite, path: b.sqlite}\n"
    )
    error = company.call("sql_execution", {"sql": "SELECT 1"}).error
    assert error is not None and error["code"] == "usage" and "2 databases" in error["message"]


def test_how_a_question_would_be_answered_is_told_without_asking(company: Company) -> None:
    (company.folder / "shop.sqlite").unlink()
    data = company.call("sl_explain", REVENUE).data
    assert [each["name"] for each in data["columns"]] == ["country", "revenue"]
    assert data["steps"][0].startswith("fact orders") and data["sql"]


def test_the_layer_is_checked_with_and_without_its_data(company: Company) -> None:
    company.source("broken", "name: broken\ntable: nowhere\ngrain: [id]\ncolumns:\n  - {name: id, type: number}\n")
    assert company.call("sl_validate", {"sources": ["broken"]}).data["counts"]["error"] == 0
    data = company.call("sl_validate", {"sources": ["broken"], "data": True}).data
    assert data["counts"]["error"] == 1 and "not_readable" in {each["code"] for each in data["problems"]}
    assert data["checks"]["failed"] == 1
    error = company.call("sl_validate", {"sources": ["brokn"]}).error
    assert error is not None and error["code"] == "unknown_name"


def test_checks_repeat_no_words_of_a_database_where_rows_are_hidden(company: Company) -> None:
    company.source("broken", "name: broken\ntable: nowhere\ngrain: [id]\ncolumns:\n  - {name: id, type: number}\n")
    asked = {"sources": ["broken"], "data": True}
    assert "no such table" not in company.call("sl_validate", asked).text
    assert "no such table" not in company.call("sl_validate", asked, privacy=True).text
    (company.folder / "shop.sqlite").rename(company.folder / "gone.sqlite")
    unread = company.call("sl_validate", asked).data["unread"]
    assert unread == {"shop": "the database could not be queried (connection)"}
    for name in ("customers", "staff"):
        (company.folder / "semantic-layer" / "shop" / f"{name}.yaml").unlink()
    (company.folder / "gone.sqlite").rename(company.folder / "shop.sqlite")
    assert "no such table" in company.call("sl_validate", asked).text


HALL = """\
name: halls
table: halls
grain: [id]
columns:
  - {name: id, type: number}
  - {name: keeper, type: number}
  - {name: secret, type: number, visibility: hidden}
  - {name: shadow, type: number, expr: secret + 0}
joins:
  - {to: staff, on: halls.keeper = staff.id, relationship: many_to_one}
  - {to: facts, on: halls.shadow = facts.id, relationship: many_to_one}
"""


def test_data_that_is_hidden_from_the_caller_is_not_checked(company: Company) -> None:
    company.run("CREATE TABLE halls (id INTEGER, keeper INTEGER, secret INTEGER)")
    company.source("halls", HALL)
    quiet = "name: quiet\nsql: SELECT id FROM staff\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
    company.source("quiet", quiet)
    caller = {"region": "EU"}
    asked = {"sources": ["staff", "halls", "quiet"], "data": True}
    before = company.call("sl_validate", asked, attributes=caller)
    company.run("INSERT INTO staff VALUES (2, 'US', 'x'), (2, 'US', 'y'); INSERT INTO halls VALUES (1, 77, 9999999)")
    after = company.call("sl_validate", asked, attributes=caller)
    assert after.text == before.text
    assert after.data["checks"] == {"passed": 3, "skipped": 7}, "2 tables and the grain of halls are checked"
    assert "7 data checks were skipped" in after.data["warnings"][0]
    company.run("INSERT INTO halls VALUES (1, 77, 9999999)")
    problems = company.call("sl_validate", asked, attributes=caller).data["problems"]
    assert [each["source"] for each in problems if each["code"] == "grain_not_unique"] == ["halls"]


def test_hidden_characters_of_definitions_are_shown_and_those_of_rows_are_left(company: Company) -> None:
    company.run("INSERT INTO customers VALUES (3, 'D\u200bK', '')")
    asked = {"dimensions": ["customers.country"], "filters": ["customers.country <> 'x\u200b'"]}
    data = company.call("sl_query", {**asked, "include": ["rows", "sql"]}).data
    assert ["D\u200bK"] in data["rows"]
    assert "x⟨U+200B⟩" in data["sql"] and "\u200b" not in data["sql"]


def test_progress_is_told_to_who_asks_for_it(company: Company) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async def work(client: Any) -> None:
        for name, arguments in (
            ("sl_query", REVENUE),
            ("sql_execution", {"sql": "SELECT 1"}),
            ("sl_validate", {"data": True}),
        ):
            heard.clear()
            await client.call_tool(name, arguments, progress_callback=hear)
            with anyio.fail_after(10):
                while len(heard) < 3:
                    await anyio.lowlevel.checkpoint()
            assert [each for each, _ in heard] == [0.0, 0.3, 1.0], name
            assert heard[1][1] == "querying shop"

    company.client(work)


def test_a_call_nobody_waits_for_begins_no_other_statement(company: Company) -> None:
    stop = Stop()

    def said(progress: float, message: str) -> None:
        if progress == 0.3:
            stop.set()

    with pytest.raises(CancelledError):
        ask_served(company.served(), Question(REVENUE), offset=0, privacy=False, watch=Watch(stop, said))
    with pytest.raises(CancelledError):
        run_served(
            company.served(), "SELECT 1", None, caller=NOBODY, max_rows=1, offset=0, privacy=False, watch=Watch(stop)
        )


def test_the_client_may_go_on_after_it_cancelled_a_call(company: Company) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000000) SELECT count(*) FROM n"

    async def work(client: Any) -> Any:
        with anyio.move_on_after(0.2) as scope:
            await client.call_tool("sql_execution", {"sql": slow})
        assert scope.cancelled_caught
        return await client.call_tool("connection_list", {})

    assert not company.client(work).is_error


def test_a_source_of_documents_is_told_from_a_database_without_a_layer(company: Company) -> None:
    company.documents("docs", {})
    error = company.call("sl_query", {"measures": ["orders.revenue"], "connection": "docs"}).error
    assert error is not None and error["hint"] == "it is a context source; connections with a semantic layer: shop"


def test_semantic_layer_only_answers_defined_measures_alone(company: Company) -> None:
    company.write("ktx.yaml", f"{CONFIG}    query_policy: semantic-layer-only\n")
    assert company.call("sl_query", REVENUE).error is None
    for composed in ({"measures": ["sum(orders.amount)"]}, {**REVENUE, "having": ["max(orders.amount) > 1"]}):
        for tool in ("sl_query", "sl_explain"):
            error = company.call(tool, composed).error
            assert error is not None, (tool, composed)
            assert "allows only measures defined in its semantic layer" in error["message"]
    assert company.call("sql_execution", {"sql": "SELECT 1"}).error is not None


def test_a_disabled_connection_is_not_offered_and_costs_the_server_nothing(company: Company) -> None:
    company.write("ktx.yaml", f"{CONFIG}  events: {{driver: mongodb}}\n  other: {{driver: postgre}}\n")
    listed = company.call("connection_list").data["connections"]
    assert [each["id"] for each in listed] == ["shop"]
    status = company.call("context_status").data
    assert {each["id"]: each["kind"] for each in status["connections"]} == {
        "shop": "database",
        "events": "disabled",
        "other": "disabled",
    }
    assert company.call("sl_query", REVENUE).error is None
    error = company.call("sql_execution", {"sql": "SELECT 1", "connection": "other"}).error
    assert error is not None
    assert "connection `other` is disabled" in error["message"]


FEDERATED = "_ktx_federated"
NAMED = "tables:\n  {name}:\n    table: {name}\n    columns: [{columns}]\n"


@pytest.fixture
def federated(company: Company) -> Company:
    """Return a company with a second database, scanned like the first."""
    (company.folder / "ktx.yaml").write_text(CONFIG + "  crm: {driver: sqlite, path: crm.sqlite}\n")
    with sqlite3.connect(company.folder / "crm.sqlite") as crm:
        crm.executescript("CREATE TABLE contacts (id INTEGER, email TEXT); INSERT INTO contacts VALUES (1, 'x@y.z')")
    crm.close()
    known = {"shop": {"customers": ("id", "country", "email"), "staff": ("id", "region", "note")}, "crm": {}}
    known["crm"]["contacts"] = ("id", "email")
    for connection, tables in known.items():
        for name, columns in tables.items():
            listed = ", ".join(f"{{name: {column}, type: string}}" for column in columns)
            company.write(f"semantic-layer/{connection}/_schema/{name}.yaml", NAMED.format(name=name, columns=listed))
    return company


def test_tables_of_two_databases(federated: Company) -> None:
    sql = "SELECT c.country, count(*) AS n FROM shop.customers c JOIN crm.contacts k ON k.id = c.id GROUP BY ALL"
    data = federated.call("sql_execution", {"connection": FEDERATED, "sql": sql}).data
    assert (data["columns"], data["rows"], data["connection"]) == (["country", "n"], [["NO", 1]], FEDERATED)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c.email FROM shop.customers c JOIN crm.contacts k ON k.id = c.id",
        "SELECT * FROM shop.customers c JOIN crm.contacts k ON k.id = c.id",
        "SELECT c FROM shop.customers c",
        "SELECT count(*) FROM shop.customers c JOIN crm.contacts k USING (email)",
        "SELECT count(*) FROM shop.customers c NATURAL JOIN crm.contacts k",
        "SELECT k.id FROM crm.contacts k WHERE EXISTS (SELECT 1 FROM shop.customers c WHERE c.email = k.email)",
        "SELECT count(*) FROM shop.staff",
    ],
)
def test_nothing_hidden_is_read_for_another_database(sql: str, federated: Company) -> None:
    error = federated.call("sql_execution", {"connection": FEDERATED, "sql": sql}).error
    assert error is not None
    assert error["code"] == "hidden" and ("hidden" in error["message"] or "row policies" in error["message"]), error


def test_a_masked_column_is_read_for_another_database_by_callers_who_see_it(federated: Company) -> None:
    overlay = "name: contacts\ncolumn_overrides: [{name: email, mask: {unless: {role: [support]}}}]\n"
    federated.write("semantic-layer/crm/contacts.yaml", overlay)
    sql = "SELECT email FROM crm.contacts"
    asked = {"connection": FEDERATED, "sql": sql}
    error = federated.call("sql_execution", asked).error
    assert error is not None and error["code"] == "hidden"
    reply = federated.call("sql_execution", asked, attributes={"role": "support"})
    assert reply.error is None, reply.error
    assert reply.data["rows"] == [["x@y.z"]]
    assert federated.call("sql_execution", {**asked, "offset": 1}).error is not None


def test_with_privacy_databases_are_not_joined(federated: Company) -> None:
    asked = {"connection": FEDERATED, "sql": "SELECT count(*) FROM crm.contacts"}
    error = federated.call("sql_execution", asked, privacy=True).error
    assert error is not None and (error["code"], "--privacy" in error["message"]) == ("hidden", True)


def test_a_page_is_not_served_after_its_column_was_hidden(federated: Company) -> None:
    asked = {"connection": FEDERATED, "sql": "SELECT email FROM crm.contacts, range(3) AS r(i)", "offset": 0}
    assert federated.call("sql_execution", asked).data["row_count"] == 3
    federated.write(
        "semantic-layer/crm/contacts.yaml", "name: contacts\ncolumn_overrides: [{name: email, visibility: hidden}]\n"
    )
    error = federated.call("sql_execution", {**asked, "offset": 1}).error
    assert error is not None and error["code"] == "hidden"
