"""On whose behalf a server asks: as it was started and as `ktx.yaml` has it; no argument of any tool changes that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.mcp.tools import TOOLS
from tests.cli.mcp_agents import stdio
from tests.mcp.conftest import CONFIG, Company
from tests.mcp.wire import ktx, made, started

NOTES = {"measures": ["staff.people"], "dimensions": ["staff.note"]}
NAMES = ("attributes", "user_attributes", "user_attribute", "user-attribute", "caller", "on_behalf_of")


def notes(company: Company, **options: Any) -> list[list[Any]]:
    rows: list[list[Any]] = company.call("sl_query", NOTES, **options).data["rows"]
    return rows


def test_two_servers_answer_the_same_call_with_different_rows(company: Company) -> None:
    assert notes(company, attributes={"region": "EU"}) == [["quiet", 1]]
    assert notes(company, attributes={"region": "US"}) == [["loud", 1]]
    assert notes(company, attributes={"region": "nowhere"}) == []


def test_ktx_yaml_says_it_too_and_the_server_wins_attribute_by_attribute(company: Company) -> None:
    company.write("ktx.yaml", f"{CONFIG}mcp:\n  user_attributes: {{region: EU, level: 3}}\n")
    assert notes(company) == [["quiet", 1]]
    assert notes(company, attributes={"level": 4}) == [["quiet", 1]]
    assert notes(company, attributes={"region": "US"}) == [["loud", 1]]
    company.write("ktx.yaml", CONFIG)
    assert company.call("sl_query", NOTES).error is not None


@pytest.mark.table("tool", [each.name for each in TOOLS])
def test_no_tool_takes_attributes(company: Company, tool: str) -> None:
    for name in NAMES:
        reply = company.call(tool, {name: {"region": "US"}}, attributes={"region": "EU"})
        assert reply.error is not None and reply.error["code"] == "usage", tool
        assert f"{name}: Extra inputs are not permitted" in reply.error["message"], reply.error["message"]


@pytest.mark.table(
    "added",
    [
        {"parameters": {"user.region": "US"}},
        {"parameters": {"region": "US"}},
        {"filters": ["staff.region = {{ user.region }}", "true or staff.region = 'US'"]},
        {"filters": ["staff.region = 'US' or true"]},
        {"having": ["1 = 1 or {{ user.region }} = 'US'"]},
        {"measures": ["staff.people", {"expr": "count(case when '{{ user.region }}' <> '' then 1 end)", "name": "x"}]},
        {"segments": ["{{ user.region }}"]},
        {"via": {"staff": "{{ user.region }}"}},
        {"connection": "shop?region=US"},
        {"timezone": "US"},
    ],
)
def test_no_argument_shows_rows_of_others(company: Company, added: dict[str, Any]) -> None:
    for tool in ("sl_query", "sl_explain"):
        assert "loud" not in company.call(tool, {**NOTES, **added}, attributes={"region": "EU"}).text


@pytest.mark.slow
def test_two_servers_over_stdio(tmp_path: Path) -> None:
    made(tmp_path)
    for word, expected in (("region=EU", "quiet"), ('region:="US"', "loud")):
        with stdio(tmp_path, "--user-attribute", word) as server:
            assert server.call("sl_query", **NOTES)["rows"] == [[expected, 1]]
            assert "error" in server.call("sl_query", **NOTES, attributes={"region": "US"})
            assert server.end() == 0


@pytest.mark.parametrize(
    "word",
    [
        "region:=[1]",
        *(
            pytest.param(word, marks=pytest.mark.slow)
            for word in ("region", "=EU", "region:={}", "region:=null", "region:=x", "region:=NaN")
        ),
    ],
)
def test_what_is_no_attribute_keeps_a_server_from_starting(word: str, tmp_path: Path) -> None:
    made(tmp_path)
    done = ktx("mcp", "stdio", "--user-attribute", word, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "region" in done.stderr, done.stderr


def test_a_server_over_http_keeps_what_it_was_started_with(tmp_path: Path) -> None:
    made(tmp_path)
    words = ("--port", "0", "--user-attribute", "region=US")
    with started(tmp_path, *words[2:]) as wire:
        wire.initialize()
        assert json.loads(wire.call("sl_query", NOTES)[2])["rows"] == [["loud", 1]]
        assert wire.call("sl_query", {**NOTES, "attributes": {"region": "EU"}})[1] is not None
        again = json.loads(ktx("mcp", "start", "--json", *words, folder=tmp_path).stdout)
        assert again["data"]["outcome"] == "already running" and again["data"]["user_attributes"] == {"region": "US"}
        other = json.loads(ktx("mcp", "start", "--json", *words[:3], "region=EU", folder=tmp_path).stdout)
        assert other["error"]["code"] == "busy" and "user attributes" in other["error"]["message"]


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("discover_data", {"query": "Bo thinks"}),
        ("wiki_search", {"query": "Bo thinks"}),
        ("wiki_read", {"key": "secret"}),
        ("context_read", {"id": "secret"}),
        ("context_pack", {"question": "what Bo thinks of refunds"}),
        ("memory_ingest", {"content": "Bo thinks nothing."}),
    ],
)
def test_no_call_names_another_user_than_the_server_asks_for(
    company: Company, tool: str, asked: dict[str, Any]
) -> None:
    error = company.call(tool, {**asked, "user": "bo"}, attributes={"id": "ada"}).error
    assert error is not None and error["code"] == "usage" and "use ada" in error["hint"]
    if tool != "memory_ingest":
        own = company.call(tool, {**asked, "user": "bo"}, attributes={"id": "bo"})
        assert own.error is None and "thinks" in own.text + "thinks" * (tool in ("wiki_read", "context_read"))


@pytest.mark.table(
    ("tool", "asked"),
    [
        ("sql_execution", {"sql": "SELECT (1, 'EU', 'quiet') IN staff AS found"}),
        ("sql_execution", {"sql": "SELECT count(*) AS n FROM orders WHERE (1, 'EU', 'quiet') IN 'staff'"}),
        ("sql_execution", {"sql": "SELECT (1, 'NO', 'ada@example.com') IN customers AS found"}),
        ("sl_query", {"measures": ["orders.order_count"], "filters": ["(1, 'EU', 'quiet') IN 'staff'"]}),
        ("sl_query", {"measures": ["orders.order_count"], "having": ["(1, 'EU', 'quiet') IN 'staff'"]}),
    ],
)
def test_no_row_is_compared_with_a_protected_table(tool: str, asked: dict[str, Any], company: Company) -> None:
    """SQLite takes `x IN 'staff'` for `x IN (SELECT * FROM staff)`, which would tell whether such a row exists."""
    error = company.call(tool, asked).error
    other = company.call(tool, json.loads(json.dumps(asked).replace("quiet", "loud").replace("ada@", "nobody@"))).error
    assert error is not None and error == other
