"""Fetches of Looker against a scripted one: what is asked, what is kept, what fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError, ConfigError, KtxError, SourceError
from ktx_cli.documents.raw import Snapshot
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from ktx_cli.sources.looker import fetch
from ktx_cli.sources.port import FetchContext
from tests.sources.looker.scripted import (
    BASE,
    SECRET,
    ScriptedLooker,
    after,
    dashboard,
    entry,
    explore,
    look,
    query,
    source,
)  # fmt: skip


@pytest.fixture
def looker(web_site: Any, reply: Any) -> ScriptedLooker:
    return ScriptedLooker(web_site, reply)


@pytest.fixture
def context(fetch_context: Callable[..., FetchContext]) -> FetchContext:
    return fetch_context(connection="bi", environ={"LOOKER_SECRET": SECRET})


def read(snapshot: Snapshot, path: str) -> Any:
    return json.loads(snapshot.files[path].read())


def test_everything_becomes_files_without_secrets_ids_and_times(looker: ScriptedLooker, context: FetchContext) -> None:
    looker.add(explore("orders"), dashboard("1"), look("2"))
    looker.usage["dashboard.id"] = [{"dashboard.id": 1, "history.query_run_count": 42, "user.count": 2}]
    looker.usage["query.model"] = [{"query.model": "shop", "query.view": "orders", "history.query_run_count": 9}]
    snapshot = source().fetch(entry(looker.site.url), context)
    assert list(snapshot.files) == [
        "dashboards/1.json", "explores/shop/orders.json", "folders.json", "looks/2.json", "usage.json",
    ]  # fmt: skip
    assert (snapshot.complete, snapshot.skipped, snapshot.warnings) == (True, (), ())
    found = read(snapshot, "explores/shop/orders.json")
    assert found["target"] == {"connection": "warehouse", "table": ["public", "orders"]}
    assert found["source_name"] == "looker__shop__orders"
    assert read(snapshot, "dashboards/1.json")["tiles"][0]["query"] == {
        "model": "shop",
        "view": "orders",
        "fields": ["orders.status", "orders.count"],
        "filters": {"orders.status": "paid"},
        "target": {"connection": "warehouse", "table": ["public", "orders"]},
    }
    assert read(snapshot, "usage.json") == {
        "dashboards": {"1": {"queries_at_least": 30, "users_at_least": 1}},
        "explores": {"shop::orders": {"queries_at_least": 3, "users_at_least": 0}},
        "looks": {},
    }
    everything = b"".join(file.read() for file in snapshot.files.values()).decode() + (snapshot.cursor or "")
    for hidden in (SECRET, "session-1", "abcdef", "view_count"):
        assert hidden not in everything


def test_each_explore_is_asked_for_once(looker: ScriptedLooker, context: FetchContext) -> None:
    looker.add(*(explore(f"e{n}") for n in range(5)), dashboard("1"), look("2"))
    source().fetch(entry(looker.site.url), context)
    asked = looker.asked("/lookml_models/")
    assert sorted(asked) == sorted(set(asked))
    assert (len(asked), looker.logins) == (5, 1)


def test_a_second_run_asks_only_for_dashboards_and_looks_that_changed(
    looker: ScriptedLooker, context: FetchContext
) -> None:
    looker.add(explore("orders"), *(dashboard(str(n)) for n in range(9)), *(look(str(n)) for n in range(9)))
    first = source().fetch(entry(looker.site.url), context)
    looker.site.asked.clear()
    same = source().fetch(entry(looker.site.url), after(context, first))
    assert looker.asked("/dashboards/") + looker.asked("/looks/") == []
    assert same.files == first.files
    looker.add(look("4", "2026-02-02", title="New"))
    del looker.dashboards["8"]
    looker.site.asked.clear()
    third = source().fetch(entry(looker.site.url), after(context, same))
    assert looker.asked("/dashboards/") + looker.asked("/looks/") == ["/looks/4"]
    assert set(same.files) - set(third.files) == {"dashboards/8.json"}
    assert [p for p in third.files if third.files[p] != same.files[p]] == ["looks/4.json"]


def test_a_dashboard_of_another_table_changes_with_its_explore(looker: ScriptedLooker, context: FetchContext) -> None:
    looker.add(explore("orders"), dashboard("1"), look("2", query=query("gone")))
    first = source().fetch(entry(looker.site.url), context)
    assert read(first, "looks/2.json")["query"]["target"] == {"connection": None, "why": "no_physical_table"}
    looker.add(explore("orders", "mart.orders"))
    second = source().fetch(entry(looker.site.url), after(context, first))
    assert second.fetched == 1
    assert read(second, "dashboards/1.json")["tiles"][0]["query"]["target"]["table"] == ["mart", "orders"]
    assert second.files["looks/2.json"] == first.files["looks/2.json"]


def test_lists_are_read_page_by_page(
    looker: ScriptedLooker, context: FetchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "PAGE", 2)
    looker.add(explore("orders"), *(dashboard(str(n)) for n in range(5)), *(look(str(n)) for n in range(4)))
    snapshot = source().fetch(entry(looker.site.url), context)
    assert sum(path.startswith("dashboards/") for path in snapshot.files) == 5
    assert sum(path.startswith("looks/") for path in snapshot.files) == 4
    offsets = [asked.query["offset"] for asked in looker.site.asked if asked.path == f"{BASE}/dashboards/search"]
    assert offsets == ["0", "2", "4"]


def test_a_server_that_gives_the_same_page_for_ever_is_left(
    looker: ScriptedLooker, context: FetchContext, monkeypatch: pytest.MonkeyPatch, reply: Any
) -> None:
    monkeypatch.setattr(fetch, "PAGE", 1)
    looker.add(look("1"))
    looker.site.fail(f"{BASE}/looks/search", *(reply([look("1")]) for _ in range(5)))
    snapshot = source().fetch(entry(looker.site.url), context)
    assert "looks/1.json" in snapshot.files
    assert looker.site.paths().count(f"{BASE}/looks/search") == 2


def test_a_token_that_ends_in_the_middle_is_asked_for_again(looker: ScriptedLooker, context: FetchContext) -> None:
    looker.add(explore("orders"), dashboard("1"))
    answer, ended = looker.site.answers, []

    def ending(asked: Any) -> Any:
        if asked.path.endswith("/dashboards/1") and not ended:
            ended.append(asked.path)
            looker.token = "ended"
        return answer(asked)

    looker.site.answers = ending
    snapshot = source().fetch(entry(looker.site.url), context)
    assert (snapshot.complete, looker.logins) == (True, 2)
    assert "dashboards/1.json" in snapshot.files


@pytest.mark.parametrize("path", ["/dashboards/2", "/looks/2", "/lookml_models/shop/explores/orders"])
def test_an_error_in_the_middle_is_named_keeps_what_was_known_and_leaves_the_cursor(
    looker: ScriptedLooker, context: FetchContext, reply: Any, path: str
) -> None:
    looker.add(explore("orders"), *(make(str(n)) for make in (dashboard, look) for n in (1, 2, 3)))
    first = source().fetch(entry(looker.site.url), context)
    looker.add(*(make(str(n), "2026-02-02", title="New") for make in (dashboard, look) for n in (1, 2, 3)))
    looker.add(explore("orders", "mart.orders"))
    looker.site.fail(BASE + path, *(reply({"message": "boom"}, 500) for _ in range(5)))
    second = source().fetch(entry(looker.site.url), after(context, first))
    assert (second.complete, second.cursor) == (False, first.cursor)
    (skipped,) = second.skipped
    assert skipped.retry
    assert set(second.files) == set(first.files)
    if "explores" in path:
        assert second.files[skipped.what] == first.files[skipped.what]
        assert read(second, "looks/1.json")["query"]["target"]["table"] == ["public", "orders"]
    else:
        assert read(second, skipped.what)["title"].endswith(" 2")
    assert read(second, "looks/3.json")["title"] == "New"
    third = source().fetch(entry(looker.site.url), after(context, second))
    assert third.complete
    assert read(third, "looks/2.json")["title"] == "New"


def test_a_broken_explore_does_not_make_everything_else_be_read_again(
    looker: ScriptedLooker, context: FetchContext, reply: Any
) -> None:
    looker.add(explore("orders"), explore("broken"), dashboard("1"))
    looker.site.fail(f"{BASE}/lookml_models/shop/explores/broken", *(reply({"message": "no"}, 404) for _ in range(2)))
    first = source().fetch(entry(looker.site.url), context)
    assert (first.complete, [(each.what, each.retry) for each in first.skipped]) == (
        False, [("explores/shop/broken.json", False)],
    )  # fmt: skip
    looker.site.asked.clear()
    source().fetch(entry(looker.site.url), after(context, first))
    assert looker.asked("/dashboards/") == []


def test_too_many_requests_are_waited_for(looker: ScriptedLooker, context: FetchContext, reply: Any) -> None:
    looker.add(explore("orders"))
    looker.site.fail(f"{BASE}/lookml_models", reply(status=429, headers={"Retry-After": "2"}))
    assert "explores/shop/orders.json" in source().fetch(entry(looker.site.url), context).files


def test_a_connection_that_is_cut_ends_the_fetch(looker: ScriptedLooker, context: FetchContext, reply: Any) -> None:
    looker.add(explore("orders"), dashboard("1"))
    looker.site.fail(f"{BASE}/dashboards/1", *(reply({"id": "1"}, cut=2) for _ in range(5)))
    with pytest.raises(HttpStatusError) as error:
        source().fetch(entry(looker.site.url), context)
    assert error.value.exit_code == 4


@pytest.mark.parametrize("status", [403, 404, 500])
def test_without_the_history_of_queries_the_rest_is_read_and_what_was_known_stays(
    looker: ScriptedLooker, context: FetchContext, reply: Any, status: int
) -> None:
    looker.add(explore("orders"))
    looker.usage["look.id"] = [{"look.id": "5", "history.query_run_count": 5, "user.count": 1}]
    first = source().fetch(entry(looker.site.url), context)
    looker.site.fail(f"{BASE}/queries/run/json", *(reply({"message": "no"}, status) for _ in range(5)))
    second = source().fetch(entry(looker.site.url), after(context, first))
    assert second.complete
    assert [warning.code for warning in second.warnings] == ["no_usage"]
    assert second.files["usage.json"] == first.files["usage.json"]


def test_use_is_rounded_so_that_the_file_mostly_stays(looker: ScriptedLooker, context: FetchContext) -> None:
    found = []
    for count in (31, 99, 100):
        looker.usage["look.id"] = [{"look.id": 5, "history.query_run_count": count, "user.count": None}]
        found.append(source().fetch(entry(looker.site.url), context).files["usage.json"].sha256)
    assert found[0] == found[1] != found[2]


def test_connections_that_are_not_wanted_or_not_named(looker: ScriptedLooker, context: FetchContext) -> None:
    looker.add(explore("orders"), explore("private", connection="hr"), explore("other", connection="new"))
    snapshot = source().fetch(entry(looker.site.url, dwh="warehouse", hr=None), context)
    assert "explores/shop/private.json" not in snapshot.files
    assert read(snapshot, "explores/shop/other.json")["target"] == {"connection": None, "why": "no_connection_mapping"}
    (warning,) = snapshot.warnings
    assert (warning.code, "new" in warning.message, "hr" in warning.message) == ("unmapped_connection", True, False)


def test_a_wrong_secret_is_said(looker: ScriptedLooker, context: FetchContext) -> None:
    with pytest.raises(KtxError) as error:
        source().fetch(entry(looker.site.url), replace(context, environ={"LOOKER_SECRET": "wrong-secret-1"}))
    assert "wrong-secret-1" not in str(error.value.to_json())
    assert "connections.bi" in (error.value.hint or "")
    assert isinstance(error.value, HttpAuthError)
    assert error.value.exit_code == 3


def test_a_connection_without_a_secret_says_what_to_set(looker: ScriptedLooker, context: FetchContext) -> None:
    given = entry(looker.site.url)
    given.client_secret = None
    with pytest.raises(ConfigError) as error:
        source().fetch(given, context)
    assert "connections.bi.client_secret" in (error.value.hint or "")


@pytest.mark.parametrize("body", [{"odd": 1}, [{}], [None]], ids=str)
@pytest.mark.parametrize("path", ["/lookml_models", "/dashboards/search", "/login"])
def test_answers_of_another_shape_are_errors(
    looker: ScriptedLooker, context: FetchContext, reply: Any, path: str, body: Any
) -> None:
    looker.site.fail(BASE + path, reply(body))
    with pytest.raises(SourceError):
        source().fetch(entry(looker.site.url), context)


def test_hostile_ids_and_names_lead_nowhere(looker: ScriptedLooker, context: FetchContext) -> None:
    odd = "../../x/?y#z\n"
    looker.add(explore(odd), dashboard("shop::board", None), dashboard("..%2f"), look("a/b"), look("a_b"))
    looker.add(dashboard("7", dashboard_elements="odd", dashboard_filters=[3, {"name": {}}], folder="x"))
    snapshot = source().fetch(entry(looker.site.url), context)
    assert snapshot.complete
    assert all(part not in (".", "..", "") for path in snapshot.files for part in path.split("/"))
    assert len([path for path in snapshot.files if path.startswith("looks/")]) == 2
    (path,) = [path for path in snapshot.files if path.startswith("explores/")]
    assert read(snapshot, path)["name"] == odd


def test_a_run_that_is_stopped_stops(looker: ScriptedLooker, context: FetchContext) -> None:
    looker.add(explore("orders"), dashboard("1"), dashboard("2"))
    stopped = replace(context, stopped=lambda: f"{BASE}/dashboards/1" in looker.site.paths())
    with pytest.raises(CancelledError):
        source().fetch(entry(looker.site.url), stopped)
    assert looker.asked("/dashboards/") == ["/dashboards/1"]
