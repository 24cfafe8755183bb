"""What callers over HTTP learn about a server: what they can act on, and no paths of its machine and no commands."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import AgentStep, Command, Hint, KtxError, SettingPath, StorageError, Suggestion
from ktx_cli.jobs.serve.caller import Account
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.http import Load
from ktx_cli.mcp.tool import ASK, LOGGED, Call, LimitedLog, Options, for_caller, hint_for_caller
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import NO_ZONE
from ktx_cli.warehouses.base import read_only_error
from tests.mcp.conftest import CONFIG, STAFF
from tests.mcp.test_http import serving
from tests.mcp.wire import made

REVENUE = {"measures": ["orders.revenue"]}

Break = Callable[[Path], object]


def spoil(name: str, text: str) -> Break:
    return lambda folder: (folder / name).write_text(text)


BROKEN: Mapping[str, tuple[Break, str, dict[str, Any], str]] = {
    "settings": (spoil("ktx.yaml", "connections: ["), "connection_list", {}, "config"),
    "a database": (lambda folder: (folder / "shop.sqlite").unlink(), "sl_query", REVENUE, "connection"),
    "a file of the layer": (
        spoil("semantic-layer/shop/staff.yaml", f"{STAFF}  - ["),
        "sql_execution",
        {"sql": "SELECT * FROM staff"},
        "hidden",
    ),
    "no model": (lambda folder: None, "memory_ingest", {"content": "A refund is money."}, "no_backend"),
    "the state": (
        lambda folder: ((folder / ".ktx").mkdir(exist_ok=True), (folder / ".ktx/state.sqlite").mkdir()),
        "dictionary_search",
        {"values": ["paid"]},
        "storage",
    ),
    "nothing, but the statement is wrong": (
        lambda folder: None,
        "sql_execution",
        {"sql": "SELECT canary_value FROM orders"},
        "query",
    ),
    "nothing, but it does not exist": (lambda folder: None, "sl_query", {**REVENUE, "connection": "no"}, "usage"),
}
COMMAND = re.compile(r"(?:^|[`:\"] ?)ktx [a-z]")


@pytest.mark.parametrize("broken", BROKEN)
def test_a_caller_gets_no_path_and_no_command_of_whoever_runs_the_server(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of the server has both, once, and so has an answer over stdio, where the user runs the server."""
    make, tool, arguments, code = BROKEN[broken]
    folder = tmp_path / "the-folder-of-the-server"
    folder.mkdir()
    company = made(folder)
    LOGGED._at.clear()
    with serving(folder, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        make(folder)
        for _ in range(3):
            _, error, text = wire.call(tool, arguments)
            assert error is not None and error["code"] == code, text
            assert str(tmp_path) not in text and not COMMAND.search(text) and "ktx.yaml" not in str(error["hint"])
    near = company.call(tool, arguments).error
    company.close()
    assert near is not None and near["code"] == code
    logged = [each.getMessage() for each in caplog.records if each.name == "ktx_cli.mcp.tool"]
    if code not in ("usage", "query"):
        assert len(logged) == 1 and near["message"] in logged[0] and str(near["hint"]) in logged[0]
        assert error["hint"].endswith("ask whoever runs this server")
    else:
        assert not logged and error["hint"] == near["hint"]


def test_the_status_over_http_says_nothing_that_only_whoever_runs_the_server_can_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    LOGGED._at.clear()
    company = made(tmp_path)
    company.write("ktx.yaml", f"{CONFIG}mounts: {{sales: {tmp_path}/nowhere}}\n")
    near = company.call("context_status")
    company.close()
    assert near.data["project_dir"] == str(tmp_path) and COMMAND.search(near.text) and near.data["next"]
    with serving(tmp_path, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        _, error, text = wire.call("context_status", {})
        assert error is None and json.loads(text)["checks"]
        assert str(tmp_path) not in text and not COMMAND.search(text), text
        assert json.loads(text)["project_dir"] is json.loads(text)["next"] is None
        assert f"the folder nowhere does not exist ({ASK})" in text
    assert [each for each in caplog.messages if f"{tmp_path}/nowhere" in each and "mounts.sales" in each]


def test_paths_in_details_and_in_reasons(tmp_path: Path) -> None:
    """Those of the project become what they are within it; other texts stay as they are."""
    company = made(tmp_path)
    project = company.served()
    problem = KtxError(
        f"see {tmp_path}/semantic-layer/a.yaml, not {tmp_path}-other/b or /wiki/page/1",
        details={"paths": [f"{tmp_path}/ktx.yaml"], "line": 3},
        code="definition",
    )
    shown = for_caller(problem, project)
    assert shown.message == f"see semantic-layer/a.yaml, not {tmp_path}-other/b or /wiki/page/1"
    assert shown.details == {"paths": ["ktx.yaml"], "line": 3}
    place = "connection `shop` (/data/warehouse/shop.duckdb)"
    wrong = for_caller(KtxError("no column /a/b", where=place, code="query"), project)
    assert wrong.message == "connection `shop`: no column /a/b"
    wrong.message = f"mount `x`: {wrong.message}"
    assert for_caller(wrong, project).message == wrong.message
    company.close()
    with serving(tmp_path, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        (tmp_path / "shop.sqlite").unlink()
        _, error, text = wire.call("sl_validate", {"data": True})
        assert error is None and json.loads(text)["unread"]["shop"] and str(tmp_path) not in text


@pytest.mark.parametrize("place", ["within", "answer"])
def test_the_message_of_a_bug_stays_in_the_server(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of one outside a tool: before its call is made, or while it is counted."""
    secret = "postgresql://ktx:quokka@db.internal/ktx"

    def fail(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError(secret)

    monkeypatch.setattr(*{"within": (ServedProject, "within"), "answer": (Account, "admit")}[place], fail)
    with serving(tmp_path, Load()) as wire:
        assert wire.initialize().status == 200
        got = wire.ask("tools/call", {"name": "connection_list", "arguments": {}})
        assert json.loads(got.message["result"]["content"][0]["text"])["error"]["code"] == "internal"
        assert "quokka" not in got.body.decode()
    assert any("could not answer a call" in each.getMessage() for each in caplog.records)


HINTS = {
    NO_ZONE: f"periods are in UTC, because neither the query nor ktx.yaml sets a time zone; pass `timezone`; {ASK}",
    "try again": "try again",
    Hint("use sl_query; people correct it: {}", Command("sl", "validate")): f"use sl_query; {ASK}",
    Hint("{}; then: {}", Command("a"), Command("b")): ASK,
    Hint("set {} in ktx.yaml", SettingPath("a.b")): ASK,
    Hint("did you mean `{}`?", Suggestion("x;y")): "did you mean `x;y`?",
    Hint("none; {}", AgentStep("find names", typed=Hint("list: {}", Command("sl", "list")))): "none; find names",
    Hint("use less; or {}", Command("config", "set", "a", "b")): f"use less; {ASK}",
}


@pytest.mark.parametrize("hint", HINTS)
def test_the_part_of_a_hint_that_a_caller_can_follow(hint: str) -> None:
    assert hint_for_caller(hint) == HINTS[hint]


def test_callers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    limited = LimitedLog(seconds=0.05, most=3)
    for number in range(100):
        limited.warning(logging.getLogger("x"), f"{number % 50}")
    assert [each.getMessage() for each in caplog.records] == ["0", "1", "2"]
    time.sleep(0.06)
    limited.warning(logging.getLogger("x"), "0")
    assert len(caplog.records) == 4


AWAY = "postgresql://analyst:canary-password@127.0.0.1:1/canary_database"
"""A database at a port where nothing listens."""
PLACES = ("127.0.0.1", "analyst", "canary_database", "canary_schema", "port 1")


def test_callers_learn_the_name_of_a_connection_and_not_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    LOGGED._at.clear()
    company = made(tmp_path)
    company.write("ktx.yaml", f"{CONFIG}  warehouse: {{driver: postgres, url: '{AWAY}'}}\n")
    company.write("semantic-layer/warehouse/people.yaml", STAFF.replace("staff", "people").partition("policies")[0])
    company.close()
    calls = {
        "sl_query": {"connection": "warehouse", "measures": ["people.people"]},
        "sql_execution": {"connection": "warehouse", "sql": "SELECT 1"},
    }
    with serving(tmp_path, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        for tool, arguments in calls.items():
            _, error, text = wire.call(tool, arguments)
            assert error is not None and error["code"] == "connection", text
            assert error["message"] == "the database of connection `warehouse` cannot be reached"
            assert error["hint"].endswith(ASK) and not any(place in text for place in PLACES)
        _, error, text = wire.call("sl_validate", {"data": True, "connection": "warehouse"})
        assert error is None and json.loads(text)["unread"]["warehouse"], text
        assert not any(place in text for place in PLACES)
    assert [each for each in caplog.messages if "127.0.0.1" in each and "connection:" in each], "for the operator"


def test_callers_do_not_learn_where_the_shared_state_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    LOGGED._at.clear()
    (tmp_path / "url").write_text(AWAY)
    (tmp_path / "url").chmod(0o600)
    folder = tmp_path / "project"
    folder.mkdir()
    company = made(folder)
    place = f"{{url: 'file:{tmp_path}/url', schema: canary_schema}}"
    company.write("ktx.yaml", f"{CONFIG}storage: {{state: postgres, search: postgres, postgres: {place}}}\n")
    company.close()
    calls: dict[str, dict[str, Any]] = {
        "context_status": {},
        "discover_data": {"query": "revenue"},
        "dictionary_search": {"values": ["paid"]},
        "context_pack": {"question": "revenue by country"},
        "sl_query": REVENUE,
    }
    with serving(folder, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        for tool, arguments in calls.items():
            _, _, text = wire.call(tool, arguments)
            assert not any(place in text for place in PLACES), text
    assert [each for each in caplog.messages if "127.0.0.1" in each], "for the operator"


def test_a_check_that_the_shared_state_refuses_does_not_say_where_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the database itself may find nothing: the role lacks a right on one table."""

    def refused(*_: Any) -> Any:
        raise StorageError("db.internal:5432/ktx, schema canary_schema: permission denied", hint="ask for the right")

    def crash(*_: Any) -> Any:
        raise ValueError("canary value")

    for name, stand_in in (
        ("health.connection_checks.read_state", refused),
        ("decide.points.load_decisions", refused),
        ("health.project_checks.has_points", lambda *_: True),
        ("health.project_checks.stray_problems", crash),
    ):
        monkeypatch.setattr(f"ktx_cli.jobs.{name}", stand_in)
    near, expected = made(tmp_path), "the files or the state of this server cannot be read or written"
    assert "canary" in near.call("context_status").text, "for whoever runs it"
    near.close()
    with serving(tmp_path, Load(), exists=True) as wire:
        assert wire.initialize().status == 200
        _, _, text = wire.call("context_status", {})
        checks = json.loads(text)["checks"]
        assert not any(place in text for place in ("db.internal", "canary")), text
    assert {each["check"] for each in checks if each["message"] == expected} == {"profiles", "decisions"}
    assert "ktx failed unexpectedly: ValueError" in text


REPLACED = {
    "storage": "the state database cannot be used (db.internal:5432/ktx, schema canary)",
    "busy": "another run holds the lock: `ktx ingest`, pid 12 on canary-host",
    "secret": "`env:CANARY_PASSWORD` is not set",
    "auth": "the gateway https://canary.internal refused the key",
    "config": "ktx.yaml:3: `connections.warehouse.host` is invalid: canary.internal",
}


@pytest.mark.parametrize("code", REPLACED)
def test_an_error_of_the_server_is_reduced_to_its_kind(code: str, tmp_path: Path) -> None:
    company = made(tmp_path)
    problem = KtxError(REPLACED[code], details={"host": "canary"}, code=code)
    shown = for_caller(problem, company.served())
    problem.details["mount"] = "sales"
    mounted = for_caller(problem, company.served())
    company.close()
    assert "canary" not in f"{shown.message} {shown.hint} {shown.details}" and shown.code == code and shown.message
    assert mounted.message == f"mount `sales`: {shown.message}"


def test_the_place_of_a_database_is_not_part_of_the_error_of_a_statement(tmp_path: Path) -> None:
    company = made(tmp_path)
    wrong = KtxError("no column x", where="connection `shop` (canary.internal:5432/db (a))", code="query")
    refused = read_only_error("connection `shop` (canary.internal:5432/db)", "`DROP` statements are")
    shown = [for_caller(each, company.served()).message for each in (wrong, refused)]
    company.close()
    assert shown == [
        "connection `shop`: no column x",
        "connection `shop`: `DROP` statements are not run: ktx only reads",
    ]


def test_a_note_without_commands_stays_as_it_is(tmp_path: Path) -> None:
    """Its conditions are written into statements, character by character."""
    call = Call(ServedProject(Layout(tmp_path), {}), Options(), is_remote=True)
    note = "decided: open; in SQL, rows of orders count where `status = 'a;b :'`, "
    assert call.shown_note(note) == note
    assert call.shown_note(Hint("open: {}", Command("decide"))) == ""


def test_a_caller_is_not_sent_to_whoever_runs_the_server_for_what_it_can_do(tmp_path: Path) -> None:
    with serving(tmp_path, Load()) as wire:
        assert wire.initialize().status == 200
        for tool in ("discover_data", "wiki_search"):
            _, error, text = wire.call(tool, {"query": "  "})
            assert error is not None and error["hint"] == "write at least one word, for example `revenue`", text
