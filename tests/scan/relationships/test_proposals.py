"""Joins the model proposes, through the real client: names and types checked, batches kept, failures contained."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.privacy.columns import ValueKind
from ktx_cli.prompts.prompts import load_prompt
from ktx_cli.scan.descriptions.facts import Join, TableContext, gather_facts
from ktx_cli.scan.profile.profiler import ColumnProfile, TableProfile
from ktx_cli.scan.relationships.proposals import Proposals, ProposedJoin, propose
from ktx_cli.testing.model_script import UNAUTHORIZED, ModelRequest, Reply, gives, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config
from ktx_cli.warehouses.port import Column, ForeignKey, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import SampleMethod

NUMBER, STRING, BOOLEAN = SemanticType.NUMBER, SemanticType.STRING, SemanticType.BOOLEAN
REFUSES = says("", stop_reason="refusal")


def table(name: str, key: str = "id", schema: str | None = None, **columns: SemanticType) -> Table:
    made = tuple(Column(column, kind.value, kind) for column, kind in columns.items())
    return Table(TableRef(schema, name), TableKind.TABLE, made, primary_key=(key,))


CUSTOMER = table("customer", id=NUMBER, email=STRING, active=BOOLEAN)
ORDER = table("orders", id=NUMBER, buyer=NUMBER, code=STRING, flag=BOOLEAN)
SHOP = [CUSTOMER, ORDER]


class Store(dict[tuple[str, str], Any]):
    def get(self, kind: str, key: str) -> Any:  # type: ignore[override]
        return super().get((kind, key))

    def put(self, kind: str, key: str, value: Any) -> None:
        self[kind, key] = json.loads(json.dumps(value))


@pytest.fixture
def runtime(model_server: ModelServer, tmp_path: Path) -> RoutedRuntime:
    return create_runtime(subject_config("anthropic", model_server.url), tmp_path, {}, usage_sink=lambda fact: None)


def run(runtime: RoutedRuntime, tables: list[Table], store: Store | None = None, **options: Any) -> Proposals:
    profiles = options.pop("profiles", {})
    facts: list[TableContext] = gather_facts(tables, profiles=profiles)
    given: dict[str, Any] = {"prompt": load_prompt("propose_joins"), "privacy": "local", **options}

    async def work() -> Proposals:
        async with runtime:
            return await propose(runtime, facts, Store() if store is None else store, **given)

    return asyncio.run(work())


def answer(
    child: str, own: str, parent: str, theirs: str, confidence: float = 0.9, rationale: str = "Names."
) -> dict[str, Any]:
    return {
        "child": child,
        "child_columns": own.split(),
        "parent": parent,
        "parent_columns": theirs.split(),
        "confidence": confidence,
        "rationale": rationale,
    }


BUYER = answer("orders", "buyer", "customer", "id")
BUYER_JOIN = Join(ORDER.ref, ("buyer",), CUSTOMER.ref, ("id",))


def seen_tables(request: ModelRequest) -> list[str]:
    text = request.body["messages"][0]["content"][0]["text"]
    return [
        json.loads(line.rsplit(', "columns"', 1)[0] + "}")["table"]
        for line in text.split("\n")
        if '"table"' in line[:9]
    ]


def test_a_proposal_is_a_join_with_the_models_words(runtime: RoutedRuntime, model_server: ModelServer) -> None:
    model_server.play([gives({"joins": [BUYER]})])
    found = run(runtime, SHOP)
    assert found.joins == (ProposedJoin(BUYER_JOIN, 0.9, "Names."),)
    assert (found.dropped, found.failed, found.unknown, found.calls) == ((), (), 0, 1)
    assert load_prompt("propose_joins").text in model_server.model_calls[0].system


def test_names_are_found_in_other_letter_case_and_unknown_ones_are_counted(
    runtime: RoutedRuntime, model_server: ModelServer
) -> None:
    strange = [
        answer("orders", "buyer", "users", "id"),
        answer("nope", "buyer", "customer", "id"),
        answer("orders", "nope", "customer", "id"),
        answer("orders", "buyer", "customer", "nope"),
        answer("ORDERS", "Buyer", "Customer", "ID"),
    ]
    model_server.play([gives({"joins": strange})])
    found = run(runtime, SHOP)
    assert [each.join for each in found.joins] == [BUYER_JOIN]
    assert found.unknown == 4


DROPPED = [
    (answer("orders", "code", "customer", "id"), "code is of type string, id of type number"),
    (answer("orders", "flag", "customer", "active"), "a flag cannot be a reference"),
    (answer("orders", "buyer code", "customer", "id"), "2 columns cannot refer to 1"),
    (answer("orders", "buyer buyer", "customer", "id email"), "a column appears twice"),
    (answer("orders", "id", "orders", "id"), "a column would refer to itself"),
]


@pytest.mark.parametrize(("given", "reason"), DROPPED, ids=[reason for _, reason in DROPPED])
def test_what_cannot_be_a_join_is_dropped_with_its_reason(
    runtime: RoutedRuntime, model_server: ModelServer, given: dict[str, Any], reason: str
) -> None:
    model_server.play([gives({"joins": [given, BUYER]})])
    found = run(runtime, SHOP)
    assert [each.reason for each in found.dropped] == [reason]
    assert [each.join for each in found.joins] == [BUYER_JOIN]


def test_a_declared_join_is_no_news(runtime: RoutedRuntime, model_server: ModelServer) -> None:
    key = ForeignKey(("buyer",), CUSTOMER.ref, ("id",))
    declared = Table(ORDER.ref, ORDER.kind, ORDER.columns, foreign_keys=(key,))
    model_server.play([gives({"joins": [BUYER]})])
    found = run(runtime, [CUSTOMER, declared])
    assert (found.joins, [each.reason for each in found.dropped]) == ((), ["the join is already known"])


def profile_of(made: Table, **kinds: ValueKind) -> TableProfile:
    columns = tuple(
        ColumnProfile(column.name, kinds.get(column.name, ValueKind.EMPTY), 5, distinct=5) for column in made.columns
    )
    return TableProfile(made.ref, SampleMethod.ALL, 5, 5, True, columns)


@pytest.mark.parametrize(
    ("own", "theirs", "joins"),
    [
        (ValueKind.INTEGER, ValueKind.INTEGER, 1),
        (ValueKind.NUMBER, ValueKind.INTEGER, 1),
        (ValueKind.TEXT, ValueKind.INTEGER, 0),
        (ValueKind.EMPTY, ValueKind.INTEGER, 0),
    ],
)
def test_values_that_were_seen_count_more_than_declared_types(
    runtime: RoutedRuntime, model_server: ModelServer, own: ValueKind, theirs: ValueKind, joins: int
) -> None:
    profiles = {ORDER.ref: profile_of(ORDER, code=own), CUSTOMER.ref: profile_of(CUSTOMER, id=theirs)}
    model_server.play([gives({"joins": [answer("orders", "code", "customer", "id")]})])
    found = run(runtime, SHOP, profiles=profiles)
    assert (len(found.joins), len(found.dropped)) == (joins, 1 - joins)


def test_composite_joins_and_joins_to_the_same_table(runtime: RoutedRuntime, model_server: ModelServer) -> None:
    line = table("line", id=NUMBER, order_no=NUMBER, line_no=NUMBER, before=NUMBER)
    part = table("part", id=NUMBER, o=NUMBER, n=NUMBER)
    composite = answer("part", "o n", "line", "order_no line_no", 0.7)
    same = answer("part", "n o", "line", "line_no order_no", 0.8, "Told again.")
    model_server.play([gives({"joins": [composite, same, answer("line", "before", "line", "id")]})])
    found = run(runtime, [line, part])
    assert [(each.join.child.name, each.join.child_columns, each.confidence) for each in found.joins] == [
        ("line", ("before",), 0.9),
        ("part", ("n", "o"), 0.8),
    ]


def test_what_was_answered_is_not_asked_again_until_a_table_changes(
    runtime: RoutedRuntime, model_server: ModelServer
) -> None:
    store = Store()
    model_server.play([gives({"joins": [BUYER, answer("orders", "code", "customer", "id")]})])
    first = run(runtime, SHOP, store)
    again = run(runtime, SHOP, store)
    assert (again.joins, again.dropped) == (first.joins, first.dropped)
    assert (again.calls, again.reused) == (0, 1)
    model_server.play([gives({"joins": []})])
    other = table("customer", id=NUMBER, email=STRING, active=BOOLEAN, extra=STRING)
    assert run(runtime, [other, ORDER], store).calls == 1


def crowd(count: int) -> list[Table]:
    return [table(f"thing{number:02}", id=NUMBER, note=STRING) for number in range(count)]


def script(failing: Callable[[list[str]], bool], asked: list[list[str]]) -> Callable[[ModelRequest], Reply]:
    def play(request: ModelRequest) -> Reply:
        names = seen_tables(request)
        asked.append(names)
        if failing(names):
            return REFUSES
        return gives({"joins": [answer(name, "note", name, "id", 0.5) for name in names]})

    return play


def test_no_table_is_left_out_of_the_batches(runtime: RoutedRuntime, model_server: ModelServer) -> None:
    asked: list[list[str]] = []
    model_server.play(script(lambda names: False, asked))
    seen: list[tuple[int, int]] = []
    found = run(runtime, crowd(23), tables_per_batch=5, on_progress=lambda *counts: seen.append(counts))
    assert sorted(name for names in asked for name in names) == [f"thing{number:02}" for number in range(23)]
    assert max(map(len, asked)) == 5
    assert found.calls == 5
    assert seen == [(done, 5) for done in range(6)]


def test_a_failing_batch_is_tried_in_smaller_ones_and_costs_no_other(
    runtime: RoutedRuntime, model_server: ModelServer
) -> None:
    asked: list[list[str]] = []
    model_server.play(script(lambda names: "thing03" in names, asked))
    found = run(runtime, crowd(12), tables_per_batch=6, concurrency=1)
    assert [len(names) for names in asked] == [6, 3, 3, 6]
    (failed,) = found.failed
    assert (len(failed.tables), failed.code) == (3, "refusal")
    assert len(found.dropped) == 9


def test_a_pair_that_fails_is_not_asked_again(runtime: RoutedRuntime, model_server: ModelServer) -> None:
    model_server.play([REFUSES])
    found = run(runtime, SHOP)
    assert (found.calls, [each.tables for each in found.failed]) == (1, [(CUSTOMER.ref, ORDER.ref)])


def test_an_error_of_the_account_stops_the_search_and_keeps_what_was_answered(
    runtime: RoutedRuntime, model_server: ModelServer
) -> None:
    store = Store()
    model_server.play([gives({"joins": []}), UNAUTHORIZED])
    with pytest.raises(LlmError) as caught:
        run(runtime, crowd(9), store, tables_per_batch=3, concurrency=1)
    assert caught.value.code == "auth"
    assert len(model_server.model_calls) == 2
    asked: list[list[str]] = []
    model_server.play(script(lambda names: False, asked))
    assert run(runtime, crowd(9), store, tables_per_batch=3).reused == 1
    assert len(asked) == 2


@pytest.mark.parametrize(("privacy", "shown"), [("off", True), ("local", False), ("strict", False)])
def test_values_of_rows_are_shown_only_where_they_may_be(
    runtime: RoutedRuntime, model_server: ModelServer, privacy: str, shown: bool
) -> None:
    secret = "ada@example.com"
    email = ColumnProfile("email", ValueKind.TEXT, 2, distinct=1, minimum=secret, maximum=secret, top=((secret, 2),))
    profile = TableProfile(CUSTOMER.ref, SampleMethod.ALL, 2, 2, True, (email,))
    model_server.play([gives({"joins": []})])
    run(runtime, SHOP, profiles={CUSTOMER.ref: profile}, privacy=privacy)
    assert (secret in model_server.model_calls[0].words) is shown


def test_without_tables_nothing_is_asked(runtime: RoutedRuntime, model_server: ModelServer) -> None:
    assert run(runtime, []) == Proposals()


def test_an_answer_that_cannot_be_taken_costs_its_batch(
    runtime: RoutedRuntime, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(value: Any) -> Any:
        raise IndexError("a value of a row")

    monkeypatch.setattr("ktx_cli.scan.relationships.proposals.from_json", failing)
    model_server.play(lambda _: gives({"joins": []}))
    found = run(runtime, SHOP)
    assert [each.message for each in found.failed] == ["ktx failed unexpectedly (IndexError)"]
    monkeypatch.undo()
    assert run(runtime, SHOP).failed == ()
