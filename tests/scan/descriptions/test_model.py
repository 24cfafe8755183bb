"""Descriptions by the model, through the real client: what is asked, kept, asked again, and what failures cost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.prompts.prompts import load_prompt
from ktx_cli.scan.descriptions.batches import Limits
from ktx_cli.scan.descriptions.facts import Described, TableContext, content_hash, gather_facts
from ktx_cli.scan.descriptions.model import Descriptions, describe, read_answer
from ktx_cli.testing.model_script import NO_CREDIT, TOO_LONG, UNAUTHORIZED, Failure, Turn, gives, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.warehouses.port import Table, TableRef

PROMPT = load_prompt("describe_tables")
ALL_IN_ONE = Limits(tables=12)
ONE_EACH = Limits(tables=1)
REFUSES = says("", stop_reason="refusal")


def run(runtime: RoutedRuntime, facts: list[TableContext], store: Any, **options: Any) -> Descriptions:
    given: dict[str, Any] = {"prompt": PROMPT, "privacy": "local", "concurrency": 2, "limits": ALL_IN_ONE, **options}

    async def work() -> Descriptions:
        async with runtime:
            return await describe(runtime, facts, store, **given)

    return asyncio.run(work())


@pytest.fixture
def facts(shop: list[Table]) -> list[TableContext]:
    return gather_facts(shop, profiles={})


def refs(found: Descriptions) -> list[str]:
    return [each.ref.name for each in found.tables]


def test_every_table_and_column_gets_its_text_in_few_calls(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    script = describer()
    model_server.play(script)
    found = run(runtime, facts, store, limits=None)
    assert (found.calls, len(script.calls), found.failed, found.unanswered) == (2, 2, (), ())
    assert refs(found) == sorted(each.ref.name for each in facts)
    album = found.tables[0]
    assert album == Described(
        TableRef(None, "album"),
        content_hash(facts[0], PROMPT.version),
        "ai",
        "Rows about album things.",
        {name: f"Says {name} of album." for name in ("album_id", "title", "artist_id")},
    )
    assert PROMPT.text in model_server.model_calls[0].system


def test_what_is_stored_or_recorded_is_not_asked_again(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    script = describer()
    model_server.play(script)
    first = run(runtime, facts, store)
    again = run(runtime, facts, store)
    assert (again.calls, again.tables, len(again.reused)) == (0, first.tables, len(facts))
    recorded = {each.ref: each for each in first.tables[1:]}
    fresh = run(runtime, facts, type(store)(), recorded=recorded)
    assert fresh.tables == first.tables
    assert {table for table, _ in script.columns[-3:]} == {"album"}
    assert len(script.calls) == 2


def test_a_record_of_rules_or_of_another_structure_is_asked_anew(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    model_server.play(describer())
    album, artist = facts[:2]
    recorded = {
        album.ref: Described(album.ref, content_hash(album, PROMPT.version), "rules", "By rules.", {}),
        artist.ref: Described(artist.ref, "another", "ai", "Of old.", {}),
    }
    found = run(runtime, [album, artist], store, recorded=recorded)
    assert [each.text for each in found.tables] == ["Rows about album things.", "Rows about artist things."]


@pytest.mark.parametrize("failure", [UNAUTHORIZED, NO_CREDIT], ids=["auth", "billing"])
def test_an_error_of_the_account_stops_everything_after_what_is_done_is_stored(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any, failure: Failure
) -> None:
    script = describer(failing={"playlist": failure})
    model_server.play(script)
    with pytest.raises(LlmError) as caught:
        run(runtime, facts, store, limits=ONE_EACH, concurrency=1)
    assert caught.value.code in ("auth", "billing")
    assert [call[0]["table"] for call in script.calls] == ["album", "artist", "employee", "playlist"]
    assert len(store.written) == 3
    rest = describer()
    model_server.play(rest)
    found = run(runtime, facts, store, limits=ONE_EACH)
    assert {table for table, _ in rest.columns} == {"playlist", "playlist_track", "track"}
    assert len(found.tables) == len(facts)


@pytest.mark.parametrize(
    ("failure", "code"),
    [(REFUSES, "refusal"), (says("no object at all"), "structured_output"), (TOO_LONG, "context")],
    ids=["refusal", "structured_output", "context"],
)
def test_a_failing_call_costs_only_the_table_behind_it(
    runtime: RoutedRuntime,
    facts: Any,
    store: Any,
    model_server: ModelServer,
    describer: Any,
    failure: Failure | Turn,
    code: str,
) -> None:
    model_server.play(describer(failing={"track": failure}))
    found = run(runtime, facts, store)
    assert [(each.ref.name, each.code) for each in found.failed] == [("track", code)]
    assert refs(found) == ["album", "artist", "employee", "playlist", "playlist_track"]
    assert len(store.written) == 5


def test_a_table_too_long_for_one_call_is_asked_in_halves(
    runtime: RoutedRuntime, table: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    wide = gather_facts([table("wide", ", ".join(f"c{number} int" for number in range(8)))], profiles={})
    play = describer()

    def script(request: Any) -> Any:
        answer = play(request)
        return TOO_LONG if len(play.calls[-1][0]["columns"]) > 4 else answer

    model_server.play(script)
    found = run(runtime, wide, store)
    assert [len(call[0]["columns"]) for call in play.calls] == [8, 4, 4]
    assert [call[0]["describe_table"] for call in play.calls] == [True, True, False]
    assert len(found.tables[0].columns) == 8
    assert found.tables[0].text


def test_a_wide_table_is_described_in_parts_and_its_own_text_asked_once(
    runtime: RoutedRuntime, table: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    wide = gather_facts([table("wide", ", ".join(f"c{number} int" for number in range(25)))], profiles={})
    script = describer()
    model_server.play(script)
    found = run(runtime, wide, store, limits=Limits(columns=10))
    assert [len(call[0]["columns"]) for call in script.calls] == [10, 10, 5]
    assert [call[0]["describe_table"] for call in script.calls].count(True) == 1
    assert list(found.tables[0].columns) == [f"c{number}" for number in range(25)]
    assert len(store.written) == 1


def test_missing_columns_and_tables_are_asked_for_once_more_and_no_more(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    def forget(answer: dict[str, Any]) -> dict[str, Any] | None:
        if answer["table"] == "artist":
            return None
        kept = [column for column in answer["columns"] if column["column"] != "title"]
        return {**answer, "columns": kept}

    script = describer(forget)
    model_server.play(script)
    found = run(runtime, facts, store)
    assert len(script.calls) == found.calls == 2
    assert [(t["table"], [c["column"] for c in t["columns"]]) for t in script.calls[1]] == [
        ("album", ["title"]),
        ("artist", ["artist_id", "name"]),
    ]
    assert [table["describe_table"] for table in script.calls[1]] == [False, True]
    assert found.unanswered == ((TableRef(None, "album"), "title"),)
    assert [(each.ref.name, each.code) for each in found.failed] == [("artist", "no_answer")]
    assert len(store.written) == 5


def test_null_is_an_answer_and_a_failure_in_words_is_none(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    def change(answer: dict[str, Any]) -> dict[str, Any]:
        if answer["table"] == "album":
            said = {"title": "I cannot determine this.", "album_id": None}
            for column in answer["columns"]:
                column["description"] = said.get(column["column"], column["description"])
        return answer

    script = describer(change)
    model_server.play(script)
    found = run(runtime, facts, store)
    assert script.columns[-1] == ("album", "title")
    assert len(script.calls) == 2
    assert found.refused == 2
    assert dict(found.tables[0].columns) == {"artist_id": "Says artist_id of album."}


def test_names_nobody_asked_about_are_dropped_and_counted(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer
) -> None:
    texts = [{"column": "ARTIST_ID", "description": "The key."}, {"column": "nope", "description": "Made up."}]
    texts.append({"column": "name", "description": "What the artist goes by."})
    known = {"table": "artist", "description": "One row for each artist.", "columns": texts}
    strange = {"table": "users", "description": "Made up.", "columns": []}
    model_server.play([gives({"tables": [known, strange, {**known, "description": "Said twice."}]})])
    found = run(runtime, [facts[1]], store)
    assert found.unknown == 3
    assert found.tables[0].text == "One row for each artist."
    assert dict(found.tables[0].columns) == {"artist_id": "The key.", "name": "What the artist goes by."}


def test_a_second_call_that_fails_takes_nothing_away(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer
) -> None:
    known = {"table": "artist", "description": "One row for each artist.", "columns": []}
    model_server.play([gives({"tables": [known]}), REFUSES])
    found = run(runtime, [facts[1]], store)
    assert (found.failed, found.tables[0].text) == ((), "One row for each artist.")
    assert [name for _, name in found.unanswered] == ["artist_id", "name"]


def test_when_every_call_fails_the_rest_is_not_asked(
    runtime: RoutedRuntime, table: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    facts = gather_facts([table(f"t{number:02}", "id int") for number in range(20)], profiles={})
    model_server.play(lambda request: REFUSES)
    with pytest.raises(LlmError) as caught:
        run(runtime, facts, store, limits=ONE_EACH, concurrency=1)
    assert (caught.value.code, len(model_server.model_calls)) == ("refusal", 10)
    model_server.play(describer())
    run(runtime, facts[:1], store)
    model_server.play(lambda request: REFUSES)
    found = run(runtime, facts, store, limits=ONE_EACH, concurrency=1)
    assert (len(found.tables), len(found.failed)) == (1, 19)


def test_progress_counts_tables_of_every_kind(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    model_server.play(describer(failing={"track": REFUSES}))
    run(runtime, facts[:2], store)
    seen: list[tuple[int, int]] = []
    run(runtime, facts, store, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 6) for done in range(2, 7)]


def test_the_same_turns_give_the_same_texts_however_many_calls_run_side_by_side(
    runtime: RoutedRuntime, facts: Any, store: Any, model_server: ModelServer, describer: Any
) -> None:
    model_server.play(describer())
    one = run(runtime, facts, store, limits=ONE_EACH, concurrency=1)
    other = run(runtime, facts, type(store)(), limits=ONE_EACH, concurrency=4)
    assert one.tables == other.tables


@pytest.mark.parametrize("limits", [ALL_IN_ONE, ONE_EACH])
def test_an_answer_that_cannot_be_taken_costs_its_tables(
    runtime: RoutedRuntime,
    facts: Any,
    store: Any,
    model_server: ModelServer,
    describer: Any,
    monkeypatch: pytest.MonkeyPatch,
    limits: Limits,
) -> None:
    model_server.play(describer())

    def failing(answer: Any, call: Any, *rest: Any) -> Any:
        if any(piece.ref.name == "album" for piece in call):
            raise IndexError("a value of a row")
        return read_answer(answer, call, *rest)

    monkeypatch.setattr("ktx_cli.scan.descriptions.model.read_answer", failing)
    found = run(runtime, facts, store, limits=limits)
    assert [(each.ref.name, each.message) for each in found.failed] == [
        ("album", "ktx failed unexpectedly (IndexError)")
    ]
    assert refs(found) == [name for name in sorted(each.ref.name for each in facts) if name != "album"]
