"""Fetches of Metabase against a scripted one: what is asked, what is kept, what fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError, ConfigError, SourceError
from ktx_cli.documents.raw import Snapshot
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from ktx_cli.sources.port import FetchContext
from tests.sources.metabase.scripted import KEY, ScriptedMetabase, after, built, card, entry, native, source


@pytest.fixture
def metabase(web_site: Any, reply: Any) -> ScriptedMetabase:
    return ScriptedMetabase(web_site, reply)


@pytest.fixture
def context(fetch_context: Callable[..., FetchContext]) -> FetchContext:
    return fetch_context(connection="bi", environ={"METABASE_KEY": KEY})


def read(snapshot: Snapshot, path: str) -> Any:
    return json.loads(snapshot.files[path].read())


def test_cards_collections_and_databases_become_files_without_secrets_people_and_times(
    metabase: ScriptedMetabase, context: FetchContext
) -> None:
    metabase.add(card(1, native("select 1"), view_count=321), card(2, built(7), collection_id=None))
    snapshot = source().fetch(entry(metabase.site.url), context)
    assert list(snapshot.files) == [
        "cards/1.json", "cards/2.json", "collections/5.json", "collections/root.json", "databases/1.json", "usage.json",
    ]  # fmt: skip
    assert (snapshot.complete, snapshot.fetched, snapshot.skipped) == (True, 2, ())
    assert read(snapshot, "cards/1.json") == {
        "id": 1,
        "name": "Card 1",
        "description": None,
        "type": "question",
        "display": None,
        "collection_id": 5,
        "database_id": 1,
        "connection": "warehouse",
        "columns": [{"base_type": "type/Integer", "name": "id"}],
        "query": {"kind": "native", "text": "select 1", "tags": {}},
        "references": [],
        "sql": {"text": "select 1"},
        "url": f"{metabase.site.url}/question/1",
    }
    assert read(snapshot, "cards/2.json")["sql"]["text"] == "SELECT 1"
    assert read(snapshot, "usage.json") == {"views_at_least": {"1": 100}}
    everything = b"".join(file.read() for file in snapshot.files.values())
    for hidden in (b"hunter2", b"someone@example.com", b"2026-01-01", b"nil%", KEY.encode()):
        assert hidden not in everything
    assert KEY not in (snapshot.cursor or "") + snapshot.origin


def test_the_same_metabase_gives_the_same_bytes(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(card(1, native("select 1"), view_count=10))
    first = source().fetch(entry(metabase.site.url), context)
    metabase.cards[1] = dict(reversed(metabase.cards[1].items())) | {"view_count": 99, "updated_at": "2026-02-02"}
    second = source().fetch(entry(metabase.site.url), after(context, first))
    assert second.fetched == 1
    assert {p: f.sha256 for p, f in first.files.items()} == {p: f.sha256 for p, f in second.files.items()}


def test_a_second_run_asks_only_for_what_changed(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(*(card(n, native(f"select {n}")) for n in range(1, 30)), card(30, native("select {{x}}")))
    first = source().fetch(entry(metabase.site.url), context)
    assert (len(metabase.asked_cards()), len(metabase.asked_sql())) == (30, 1)
    metabase.site.asked.clear()
    same = source().fetch(entry(metabase.site.url), after(context, first))
    assert (metabase.asked_cards(), metabase.asked_sql(), same.fetched) == ([], [], 0)
    assert same.files == first.files
    metabase.site.asked.clear()
    metabase.add(card(7, native("select 70"), "2026-03-01"))
    changed = source().fetch(entry(metabase.site.url), after(context, same))
    assert (metabase.asked_cards(), metabase.asked_sql()) == ([7], [])
    assert [p for p in changed.files if changed.files[p] != same.files[p]] == ["cards/7.json"]


def test_a_changed_card_changes_those_that_stand_on_it(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(card(1, native("select * from {{#2}} where {{snippet: s}}")), card(2, native("a")))
    metabase.snippets = [
        {"id": 1, "name": "s", "content": "x"},
        {"id": 2, "name": "s", "content": "y", "archived": True},
    ]
    first = source().fetch(entry(metabase.site.url), context)
    assert read(first, "cards/1.json")["sql"] == {"text": "select * from (a) where x"}
    metabase.add(card(2, native("b"), "2026-03-01"))
    metabase.snippets[0]["content"] = "z"
    metabase.site.asked.clear()
    second = source().fetch(entry(metabase.site.url), after(context, first))
    assert metabase.asked_cards() == [2]
    assert read(second, "cards/1.json")["sql"] == {"text": "select * from (b) where z"}


def test_what_is_deleted_or_archived_is_gone(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(card(1, native("a")), card(2, native("b")), card(3, native("c")))
    first = source().fetch(entry(metabase.site.url), context)
    del metabase.cards[1]
    metabase.cards[2]["archived"] = True
    second = source().fetch(entry(metabase.site.url), after(context, first))
    assert [p for p in second.files if p.startswith("cards/")] == ["cards/3.json"]
    assert second.complete


def test_an_archived_card_others_stand_on_is_read_for_them(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(card(1, built("card__2")), card(2, native("b"), archived=True))
    snapshot = source().fetch(entry(metabase.site.url), context)
    assert read(snapshot, "cards/1.json")["references"] == [2]
    assert "cards/2.json" in snapshot.files


def test_too_many_requests_are_waited_for(metabase: ScriptedMetabase, context: FetchContext, reply: Any) -> None:
    metabase.add(card(1, native("a")))
    metabase.site.fail("/api/card/1", reply(status=429, headers={"Retry-After": "3"}))
    slept: list[float] = []
    snapshot = source(slept).fetch(entry(metabase.site.url), context)
    assert snapshot.complete
    assert sum(slept) >= 3


def test_an_error_in_the_middle_leaves_the_cursor_and_keeps_what_was_known(
    metabase: ScriptedMetabase, context: FetchContext, reply: Any
) -> None:
    metabase.add(*(card(n, native(f"select {n}")) for n in (1, 2, 3)))
    first = source().fetch(entry(metabase.site.url), context)
    for number in (1, 2, 3):
        metabase.add(card(number, native("changed"), "2026-03-01"))
    metabase.site.fail("/api/card/2", *(reply({"message": "boom"}, 500) for _ in range(5)))
    second = source().fetch(entry(metabase.site.url), after(context, first))
    assert (second.complete, second.cursor) == (False, first.cursor)
    assert [(each.what, each.retry) for each in second.skipped] == [("cards/2.json", True)]
    assert second.files["cards/2.json"] == first.files["cards/2.json"]
    assert read(second, "cards/3.json")["sql"]["text"] == "changed"
    third = source().fetch(entry(metabase.site.url), after(context, second))
    assert third.complete
    assert read(third, "cards/2.json")["sql"]["text"] == "changed"


def test_a_card_that_may_not_be_read_is_named_and_does_not_hold_up_the_rest(
    metabase: ScriptedMetabase, context: FetchContext, reply: Any
) -> None:
    metabase.add(card(1, native("a")), card(2, native("b")))
    metabase.site.fail("/api/card/1", reply({"message": "no"}, 403))
    snapshot = source().fetch(entry(metabase.site.url), context)
    assert [(each.what, each.retry) for each in snapshot.skipped] == [("cards/1.json", False)]
    assert not snapshot.complete
    metabase.site.asked.clear()
    metabase.site.fail("/api/card/1", reply({"message": "no"}, 403))
    source().fetch(entry(metabase.site.url), after(context, snapshot))
    assert metabase.asked_cards() == [1]


def test_a_connection_that_is_cut_ends_the_fetch(metabase: ScriptedMetabase, context: FetchContext, reply: Any) -> None:
    metabase.add(card(1, native("a")))
    metabase.site.fail("/api/card/1", *(reply({"id": 1}, cut=3) for _ in range(5)))
    with pytest.raises(HttpStatusError) as error:
        source().fetch(entry(metabase.site.url), context)
    assert (error.value.status, error.value.exit_code) == (0, 4)


def test_a_wrong_key_is_said(metabase: ScriptedMetabase, context: FetchContext) -> None:
    with pytest.raises(HttpAuthError) as error:
        source().fetch(entry(metabase.site.url), replace(context, environ={"METABASE_KEY": "wrong-key-123"}))
    assert error.value.exit_code == 3
    assert "connections.bi.api_key" in (error.value.hint or "")
    assert "wrong-key-123" not in str(error.value.to_json())


def test_many_failures_end_the_fetch(metabase: ScriptedMetabase, context: FetchContext, reply: Any) -> None:
    metabase.add(*(card(n, native("a")) for n in range(1, 40)))
    for number in range(1, 40):
        metabase.site.fail(f"/api/card/{number}", reply({"message": "no"}, 403))
    with pytest.raises(HttpAuthError):
        source().fetch(entry(metabase.site.url), context)
    assert len(metabase.asked_cards()) == 21


def test_a_card_metabase_makes_no_sql_of_is_named_and_asked_again_the_next_time(
    metabase: ScriptedMetabase, context: FetchContext, reply: Any
) -> None:
    metabase.add(card(1, native("select {{x}}")), card(2, native("b {{#2}}")))
    metabase.compiled = lambda query: reply({"message": "cannot compile"}, 500)
    first = source().fetch(entry(metabase.site.url), context)
    assert first.complete
    assert read(first, "cards/1.json")["sql"]["unresolved"] == "api"
    assert "cannot compile" in read(first, "cards/1.json")["sql"]["why"]
    (warning,) = first.warnings
    assert warning.code == "unresolved_card"
    assert [text.partition(":")[0] for text in warning.details["cards"]] == ["1 (api", "2 (cycle"]
    metabase.compiled = lambda query: {"query": "fine"}
    second = source().fetch(entry(metabase.site.url), after(context, first))
    assert second.fetched == 0
    assert read(second, "cards/1.json")["sql"]["text"] == "fine"


def test_a_metabase_that_is_busy_is_not_a_card_without_sql(
    metabase: ScriptedMetabase, context: FetchContext, reply: Any
) -> None:
    metabase.add(card(1, native("select {{x}}")))
    metabase.site.fail("/api/dataset/native", *(reply(status=429) for _ in range(5)))
    snapshot = source().fetch(entry(metabase.site.url), context)
    assert read(snapshot, "cards/1.json")["sql"]["text"] == "SELECT 1"
    metabase.add(card(1, native("changed {{x}}"), "2026-03-01"))
    metabase.site.fail("/api/dataset/native", *(reply(status=503) for _ in range(7)))
    with pytest.raises(HttpStatusError):
        source().fetch(entry(metabase.site.url), after(context, snapshot))


def test_a_card_that_nests_without_end_is_named(metabase: ScriptedMetabase, context: FetchContext) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    metabase.add(card(1, built(1, filter=deep)), card(2, native("a")))
    snapshot = source().fetch(entry(metabase.site.url), context)
    assert "nested more than" in snapshot.skipped[0].reason
    assert "cards/2.json" in snapshot.files


def test_the_kept_files_of_another_metabase_do_not_count(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(card(1, native("a")))
    first = source().fetch(entry(metabase.site.url), context)
    moved = (first.cursor or "").replace(metabase.site.url, "https://elsewhere.example.com")
    again = source().fetch(entry(metabase.site.url), replace(after(context, first), cursor=moved))
    assert again.fetched == 1


@pytest.mark.parametrize("cursor", ["", "{", "[]", '{"format": 1}', '{"format":1,"site":"S","moments":3}'])
def test_a_cursor_that_is_none_is_no_cursor(metabase: ScriptedMetabase, context: FetchContext, cursor: str) -> None:
    metabase.add(card(1, native("a")))
    cursor = cursor.replace("S", metabase.site.url)
    assert source().fetch(entry(metabase.site.url), replace(context, cursor=cursor)).fetched == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/card", {"error": 1}), ("/api/card", [{}]), ("/api/card", [None]), ("/api/collection/tree", "x"),
        ("/api/database", 3), ("/api/card/1", [1]),
    ],
)  # fmt: skip
def test_answers_of_another_shape_are_errors_or_named(
    metabase: ScriptedMetabase, context: FetchContext, reply: Any, path: str, body: Any
) -> None:
    metabase.add(card(1, native("a")))
    metabase.site.fail(path, reply(body))
    if path == "/api/card/1":
        assert source().fetch(entry(metabase.site.url), context).skipped[0].what == "cards/1.json"
    else:
        with pytest.raises(SourceError):
            source().fetch(entry(metabase.site.url), context)


def test_hostile_ids_and_names_lead_nowhere(metabase: ScriptedMetabase, context: FetchContext) -> None:
    odd = "../../etc\n\x1b[31m" + "\ud800"
    metabase.add(card(1, native("select '{{' -- [["), name=odd, description=odd))
    metabase.cards[99] = {**card(99, native("x")), "id": "../../../x"}
    metabase.cards[98] = {**card(98, native("x")), "database_id": [1], "collection_id": {"a": 1}}
    metabase.collections = [{"id": "../x", "name": odd}, {"id": 5, "name": odd, "children": [{"id": True}]}]
    snapshot = source().fetch(entry(metabase.site.url), context)
    assert [p for p in snapshot.files if p.startswith(("cards", "coll"))] == ["cards/1.json", "collections/5.json"]
    assert read(snapshot, "cards/1.json")["name"].startswith("../../etc")


def test_a_run_that_is_stopped_stops(metabase: ScriptedMetabase, context: FetchContext) -> None:
    metabase.add(card(1, native("a")), card(2, native("b")))
    stopped = replace(context, stopped=lambda: "/api/card/1" in metabase.site.paths())
    with pytest.raises(CancelledError):
        source().fetch(entry(metabase.site.url), stopped)
    assert metabase.asked_cards() == [1]


def test_databases_that_are_mapped_to_nothing_are_named_and_not_read(
    metabase: ScriptedMetabase, context: FetchContext
) -> None:
    metabase.databases += [{"id": 2, "name": "Other"}, {"id": 3, "name": "Unwanted"}]
    metabase.add(card(1, native("a")), card(2, native("b", database=2)), card(3, native("c", database=3)))
    snapshot = source().fetch(entry(metabase.site.url, databaseMappings={"1": "warehouse", "3": None}), context)
    assert [p for p in snapshot.files if p.startswith("cards/")] == ["cards/1.json"]
    (warning,) = snapshot.warnings
    assert (warning.code, "2 (Other)" in warning.message, "Unwanted" in warning.message) == (
        "unmapped_database", True, False,
    )  # fmt: skip


def test_a_mapping_that_names_no_database_is_an_error_that_lists_them(
    metabase: ScriptedMetabase, context: FetchContext
) -> None:
    with pytest.raises(ConfigError) as error:
        source().fetch(entry(metabase.site.url, databaseMappings={"8": "warehouse"}), context)
    assert "1 (Shop)" in error.value.message
    with pytest.raises(ConfigError):
        source().fetch(entry(metabase.site.url, syncEnabled={"1": False}), context)


TREE = [
    {"id": 5, "name": "A", "children": [{"id": 6, "name": "B", "children": []}]},
    {"id": 7, "name": "C", "children": []},
]


@pytest.mark.parametrize(
    ("mode", "selections", "wanted"),
    [
        ("ALL", {"collections": [5]}, [1, 2, 3, 4]),
        ("ONLY", {"collections": [5]}, [1, 2, 4]),
        ("ONLY", {"collections": ["6"]}, [2, 4]),
        ("only", {"items": [1]}, [1]),
        ("ONLY", {"items": ["card:1", {"type": "dashboard", "id": 10}]}, [1, 3]),
        ("ONLY", {"collections": ["root"]}, [4]),
        ("EXCEPT", {"collections": [5]}, [3, 4]),
        ("EXCEPT", {"collections": [7, "root"], "items": [1]}, [2, 4]),
    ],
)
def test_selections_take_what_they_name_and_what_that_stands_on(
    metabase: ScriptedMetabase, context: FetchContext, mode: str, selections: dict[str, Any], wanted: list[int]
) -> None:
    metabase.collections = TREE
    metabase.add(
        card(1, native("a"), collection_id=5),
        card(2, native("{{#4}}"), collection_id=6),
        card(3, native("c"), collection_id=7),
        card(4, native("d"), collection_id=None),
    )
    metabase.dashboards[10] = {"id": 10, "dashcards": [{"card_id": 3, "series": []}, {"card_id": None}]}
    snapshot = source().fetch(entry(metabase.site.url, syncMode=mode, selections=selections), context)
    assert [p for p in snapshot.files if p.startswith("cards/")] == [f"cards/{n}.json" for n in wanted]
    assert all(path in snapshot.files for path in ("databases/1.json",))


@pytest.mark.parametrize(
    ("mappings", "said"),
    [
        ({"syncMode": "ONYL"}, "ONYL"),
        ({"syncMode": "ONLY"}, "is empty"),
        ({"syncMode": "ONLY", "selections": {"collections": ["../x"]}}, "../x"),
        ({"syncMode": "ONLY", "selections": {"items": ["collection:3"]}}, "collection:3"),
        ({"syncMode": "EXCEPT", "selections": {"items": [True]}}, "True"),
    ],
)
def test_selections_that_mean_nothing_are_errors(
    metabase: ScriptedMetabase, context: FetchContext, mappings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        source().fetch(entry(metabase.site.url, **mappings), context)
    assert said in error.value.message
    assert error.value.hint
