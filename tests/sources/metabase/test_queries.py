"""The SQL of cards: snippets and cards in their place, values for what is left, reasons where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ktx_cli.sources.metabase.queries import (
    DEEPEST,
    Query,
    Reason,
    Resolver,
    Sql,
    UnresolvedError,
    cards_used,
    read_query,
    stored_query,
)

TAG = {"type": "text", "name": "x"}
VARIABLE = ["variable", ["template-tag", "x"]]


class Compiler:
    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    def __call__(self, query: Mapping[str, Any]) -> str:
        self.asked.append(query)
        return f"compiled {len(self.asked)}"


def resolver(
    cards: Mapping[int, str | Query], snippets: Mapping[str, str] | None = None, known: Mapping[str, str] | None = None
) -> tuple[Resolver, Compiler]:
    compiler = Compiler()
    queries = {number: Query(1, text) if isinstance(text, str) else text for number, text in cards.items()}
    return Resolver(queries, snippets or {}, compiler, known or {}), compiler


def text_of(found: Sql | UnresolvedError) -> str:
    assert isinstance(found, Sql), found
    return found.text


@pytest.mark.table(
    ("cards", "snippets", "wanted"),
    [
        ({1: " select 1 "}, {}, "select 1"),
        ({1: "select * from {{#2}} t", 2: "select 2;\n"}, {}, "select * from (select 2) t"),
        ({1: "select * from {{#2-a-name}}", 2: "select 2 -- all"}, {}, "select * from (select 2 -- all\n)"),
        ({1: "{{#2}} {{#2}}", 2: "{{#3}}", 3: "t"}, {}, "((t)) ((t))"),
        ({1: "select 1 where {{snippet: paid}}"}, {"paid": "status = 'paid'"}, "select 1 where status = 'paid'"),
        ({1: "{{snippet: a}}"}, {"a": "b {{snippet: c}} {{#2}}", "c": "d"}, None),
        ({1: "{{snippet: a}}", 2: "e"}, {"a": "b {{snippet: c}} {{#2}}", "c": "d"}, "b d (e)"),
        ({1: "select 1 [[where a = {{a}} and {{#9}}]]"}, {}, "select 1"),
        ({1: "select '{{' || x -- {{#9}}"}, {}, "select '{{' || x -- {{#9}}"),
    ],
)
def test_snippets_and_cards_are_put_in_their_place_without_a_request(
    cards: Mapping[int, str], snippets: Mapping[str, str], wanted: str | None
) -> None:
    made, compiler = resolver(cards, snippets)
    found = made.resolve(1)
    assert compiler.asked == []
    if wanted is None:
        assert isinstance(found, UnresolvedError)
        assert found.reason is Reason.MISSING_CARD
    else:
        assert text_of(found) == wanted


@pytest.mark.table(
    ("cards", "snippets", "reason", "said"),
    [
        ({1: "{{#1}}"}, {}, Reason.CYCLE, "1 -> 1"),
        ({1: "{{#2}}", 2: "{{#3}}", 3: "{{#2}}"}, {}, Reason.CYCLE, "2 -> 3 -> 2"),
        ({1: "{{snippet: a}}"}, {"a": "{{snippet: b}}", "b": "{{snippet: a}}"}, Reason.CYCLE, "`a` includes itself"),
        ({1: "{{#7}}"}, {}, Reason.MISSING_CARD, "card 7 does not exist"),
        ({1: "{{#2}}", 2: "{{#7}}"}, {}, Reason.MISSING_CARD, "card 2, which it depends on: card 7"),
        ({1: "{{snippet: gone}}"}, {}, Reason.MISSING_SNIPPET, "`gone`"),
        ({1: " \n"}, {}, Reason.MISSING_NATIVE, "empty"),
        ({1: Query(1)}, {}, Reason.MISSING_NATIVE, "no query"),
    ],
)
def test_what_cannot_be_known_is_named_with_its_reason(
    cards: Mapping[int, str | Query], snippets: Mapping[str, str], reason: Reason, said: str
) -> None:
    found = resolver(cards, snippets)[0].resolve(1)
    assert isinstance(found, UnresolvedError)
    assert found.reason is reason
    assert said in found.message


def test_a_card_beside_a_circle_is_still_resolved_and_the_order_does_not_matter() -> None:
    cards = {1: "{{#2}}", 2: "{{#1}}", 3: "{{#4}}", 4: "ok"}
    for order in ([1, 2, 3, 4], [4, 3, 2, 1]):
        made = resolver(cards)[0]
        found = {number: made.resolve(number) for number in order}
        assert text_of(found[3]) == "(ok)"
        assert all(isinstance(found[n], UnresolvedError) and found[n].reason is Reason.CYCLE for n in (1, 2))


def test_cards_that_double_at_each_step_end_at_a_limit_and_not_in_memory() -> None:
    cards = {n: f"{{{{#{n + 1}}}}} {{{{#{n + 1}}}}}" for n in range(1, 25)} | {25: "x" * 100}
    found = resolver(cards)[0].resolve(1)
    assert isinstance(found, UnresolvedError)
    assert found.reason is Reason.TOO_LONG


def test_a_chain_may_be_so_deep_and_a_deeper_card_does_not_spoil_the_others() -> None:
    last = DEEPEST + 10
    cards = {n: f"{{{{#{n + 1}}}}}" for n in range(1, last)} | {last: "x"}
    made = resolver(cards)[0]
    first = made.resolve(1)
    assert isinstance(first, UnresolvedError)
    assert first.reason is Reason.TOO_DEEP
    assert text_of(made.resolve(last - 5)) == "(((((x)))))"


def test_snippets_in_snippets_may_be_so_deep() -> None:
    snippets = {f"s{n}": f"{{{{snippet: s{n + 1}}}}}" for n in range(2_000)}
    found = resolver({1: "{{snippet: s0}}"}, snippets)[0].resolve(1)
    assert isinstance(found, UnresolvedError)
    assert found.reason is Reason.TOO_DEEP


@pytest.mark.table(
    ("tag", "given", "stand_ins"),
    [
        ({"type": "text"}, [{"type": "category", "target": VARIABLE, "value": "ktx"}], "ktx"),
        ({"type": "number", "default": 7}, [{"type": "number/=", "target": VARIABLE, "value": 7}], 7),
        ({"type": "date"}, [{"type": "date/single", "target": VARIABLE, "value": "2000-01-01"}], "2000-01-01"),
        ({"type": "hostile"}, [{"type": "category", "target": VARIABLE, "value": "ktx"}], "ktx"),
        ({"type": "dimension", "widget-type": "date/range"}, [], None),
        (
            {"type": "dimension", "widget-type": "number/between", "required": True},
            [{"type": "number/between", "target": ["dimension", ["template-tag", "x"]], "value": [1, 2]}],
            [1, 2],
        ),
        (
            {"type": "dimension", "widget-type": "string/=", "default": ["eu"]},
            [{"type": "string/=", "target": ["dimension", ["template-tag", "x"]], "value": ["eu"]}],
            ["eu"],
        ),
    ],
)
def test_what_is_left_of_parameters_gets_values_from_metabase(
    tag: dict[str, Any], given: list[Any], stand_ins: Any
) -> None:
    made, compiler = resolver({1: Query(3, "select {{x}} [[and {{y}}]]", {"x": tag, "y": TAG})})
    found = made.resolve(1)
    assert text_of(found) == "compiled 1"
    (asked,) = compiler.asked
    assert (asked["database"], asked["type"]) == (3, "native")
    assert asked["native"]["query"] == "select {{x}} "
    assert list(asked["native"]["template-tags"]) == ["x"]
    assert asked["parameters"] == given
    assert isinstance(found, Sql)
    assert found.stand_ins == ({} if stand_ins is None else {"x": stand_ins})


def test_a_card_with_parameters_is_put_together_by_metabase_before_it_is_part_of_another() -> None:
    made, compiler = resolver({1: "select * from {{#2}}", 2: Query(1, "select {{x}}", {"x": TAG})})
    assert text_of(made.resolve(1)) == "select * from (compiled 1)"
    assert len(compiler.asked) == 1


def test_what_metabase_put_together_before_is_not_asked_again_unless_it_changed() -> None:
    first, compiler = resolver({1: Query(1, "{{x}}", {"x": TAG}), 2: Query(1, built={"query": {"source-table": 3}})})
    found = [first.resolve(1), first.resolve(2)]
    assert len(compiler.asked) == 2
    known = {each.asked: each.text for each in found if isinstance(each, Sql)}
    again, compiler = resolver(
        {1: Query(1, "{{x}}", {"x": TAG}), 2: Query(1, built={"query": {"source-table": 4}})}, known=known
    )
    assert text_of(again.resolve(1)) == text_of(found[0])
    again.resolve(2)
    assert [asked["query"] for asked in compiler.asked] == [{"source-table": 4}]


@pytest.mark.table(
    ("value", "text", "cards"),
    [
        ({"type": "native", "database": 1, "native": {"query": "select {{#4}}"}}, "select {{#4}}", (4,)),
        (
            {
                "lib/type": "mbql/query",
                "database": 1,
                "stages": [{"lib/type": "mbql.stage/native", "native": "select {{#4-x}} {{#2}}", "template-tags": {}}],
            },
            "select {{#4-x}} {{#2}}",
            (2, 4),
        ),
        ({"type": "query", "query": {"source-table": "card__9", "joins": [{"source-table": "card__8"}]}}, None, (8, 9)),
        ({"stages": [{"source-card": 7, "joins": [{"stages": [{"source-card": 6}]}]}]}, None, (6, 7)),
        ({"type": "query", "query": {"source-table": "card__x"}}, None, ()),
        (None, None, ()),
        ("hostile", None, ()),
    ],
)
def test_queries_of_both_shapes_are_read_and_come_back_from_a_raw_file(
    value: Any, text: str | None, cards: tuple[int, ...]
) -> None:
    query = read_query(value)
    assert (query.text, cards_used(query)) == (text, cards)
    assert stored_query(query.database, query.to_json()) == query


def test_ids_metabase_makes_anew_are_no_part_of_a_query() -> None:
    one, other = (
        {"lib/type": "mbql/query", "stages": [{"source-table": 1, "aggregation": [["count", {"lib/uuid": uuid}]]}]}
        for uuid in ("a", "b")
    )
    assert read_query(one) == read_query(other)
