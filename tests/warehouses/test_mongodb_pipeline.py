"""The guard of aggregation pipelines: nothing that is not listed passes, wherever it is; what a pipeline may show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.mongodb.pipeline import (
    CONDITIONS,
    DEEPEST,
    EXPRESSIONS,
    MOST_NODES,
    MOST_STAGES,
    STAGES,
    PipelineRefusedError,
    check_pipeline,
    parse_pipeline,
)
from ktx_cli.warehouses.port import ConnectionSpec, TableRef
from ktx_cli.warehouses.registry import connect
from tests.warehouses.mongo_server import READING, emulator

FORBIDDEN = (
    *("$out", "$merge", "$function", "$accumulator", "$where", "$currentOp", "$listSessions", "$listLocalSessions"),
    *("$collStats", "$indexStats", "$planCacheStats", "$changeStream", "$shardedDataDistribution", "$queryStats"),
    *("$listSampledQueries", "$listSearchIndexes", "$documents", "$graphLookup", "$geoNear", "$search", "$searchMeta"),
    *("$vectorSearch", "$sample", "$sampleRate", "$rand", "$densify", "$fill", "$range", "$reduce", "$getField"),
    *("$setField", "$unsetField", "$arrayToObject", "$jsonSchema", "$text", "$meta", "$comment", "$toHashedIndexKey"),
    *("$_internalInhibitOptimization", "$eval", "$mapReduce", "$exec", "$code", "$OUT", "$Out", "$out ", "$", "$$ROOT"),
)


def check(*stages: Any) -> Any:
    return check_pipeline(list(stages), "shop")


def refusal(pipeline: Any) -> PipelineRefusedError:
    with pytest.raises(PipelineRefusedError) as caught:
        check_pipeline(pipeline, "shop")
    assert caught.value.code == "read_only"
    assert "the pipeline was not run" in caught.value.message
    assert caught.value.hint
    return caught.value


ALLOWED: list[list[dict[str, Any]]] = [
    [],
    [{"$match": {"paid": True, "amount": {"$gte": 5}, "$or": [{"a": 1}, {"b": {"$in": [1, 2]}}]}}],
    [{"$group": {"_id": {"y": {"$year": "$at"}}, "n": {"$sum": 1}, "most": {"$max": "$amount"}}}, {"$sort": {"n": -1}}],
    [{"$unwind": {"path": "$items", "preserveNullAndEmptyArrays": True}}, {"$limit": 5}, {"$skip": 1}],
    [{"$lookup": {"from": "customers", "localField": "c", "foreignField": "_id", "as": "customer"}}],
    [{"$lookup": {"from": "b", "let": {"x": "$c"}, "pipeline": [{"$match": {"$expr": "$$x"}}], "as": "b"}}],
    [{"$facet": {"a": [{"$count": "n"}], "b": [{"$sortByCount": "$status"}]}}],
    [{"$unionWith": "old_orders"}, {"$unionWith": {"coll": "older", "pipeline": [{"$match": {"a": 1}}]}}],
    [{"$project": {"a": {"$cond": [{"$gt": ["$x", 1]}, "$$ROOT", "$$REMOVE"]}, "_id": 0}}],
    [{"$setWindowFields": {"sortBy": {"at": 1}, "output": {"s": {"$sum": "$x", "window": {"documents": [-1, 0]}}}}}],
    [{"$bucket": {"groupBy": "$x", "boundaries": [0, 5], "default": "other", "output": {"n": {"$sum": 1}}}}],
]  # fmt: skip


@pytest.mark.parametrize("pipeline", ALLOWED, ids=[str(place) for place in range(len(ALLOWED))])
def test_what_reads_passes_unchanged(pipeline: list[dict[str, Any]]) -> None:
    assert list(check(*pipeline).pipeline) == pipeline


def test_the_lists_are_apart_from_what_is_forbidden() -> None:
    assert (STAGES | CONDITIONS | EXPRESSIONS).isdisjoint(FORBIDDEN)
    assert len(STAGES) < 25


PLACES: list[Any] = [
    lambda bad: [bad],
    lambda bad: [{"$match": {"a": 1}}, bad],
    lambda bad: [{"$facet": {"a": [bad]}}],
    lambda bad: [{"$facet": {"a": [{"$lookup": {"from": "x", "pipeline": [bad], "as": "x"}}]}}],
    lambda bad: [{"$lookup": {"from": "x", "pipeline": [{"$unionWith": {"coll": "y", "pipeline": [bad]}}], "as": "x"}}],
    lambda bad: [{"$lookup": {"from": "x", "let": bad, "as": "x"}}],
    lambda bad: [{"$unionWith": {"coll": "y", "pipeline": [bad]}}],
    lambda bad: [{"$match": bad}],
    lambda bad: [{"$match": {"a": bad}}],
    lambda bad: [{"$match": {"$expr": bad}}],
    lambda bad: [{"$match": {"$or": [{"a": 1}, bad]}}],
    lambda bad: [{"$match": {"a": {"$elemMatch": bad}}}],
    lambda bad: [{"$group": {"_id": None, "x": bad}}],
    lambda bad: [{"$project": {"x": {"$map": {"input": "$a", "in": bad}}}}],
    lambda bad: [{"$project": {"x": {"$literal": bad}}}],
    lambda bad: [{"$addFields": {"x": [[[bad]]]}}],
    lambda bad: [{"$replaceRoot": {"newRoot": bad}}],
    lambda bad: [{"$setWindowFields": {"output": {"x": bad}}}],
    lambda bad: [{"$bucket": {"groupBy": "$a", "boundaries": [0, 1], "output": bad}}],
    lambda bad: [{"$redact": bad}],
]


@pytest.mark.parametrize("place", range(len(PLACES)))
@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_forbidden_is_so_everywhere(name: str, place: int) -> None:
    refusal(PLACES[place]({name: {"into": "x"}}))
    refusal(PLACES[place]({name: "x"}))


_names = st.sampled_from([*FORBIDDEN, *sorted(STAGES | CONDITIONS | EXPRESSIONS), "a", "b.c", "_id", "$x", "pipeline"])
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["$a", "$$ROOT", "x", "$$USER_ROLES"])
)
_values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3), max_leaves=12
)
_stages = st.lists(st.dictionaries(_names, _values, max_size=1), max_size=2)
_pipelines = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(STAGES)), _values).map(lambda pair: {pair[0]: pair[1]}),
        st.dictionaries(st.text(max_size=4), _stages, max_size=2)
        .map(lambda facets: {"$facet": facets}),
        _stages.map(lambda inner: {"$lookup": {"from": "x", "pipeline": inner, "as": "y"}}),
        _values,
    ),
    max_size=4,
)  # fmt: skip


def keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from keys_in(inner)


@settings(max_examples=600, deadline=None)
@given(_pipelines)
def test_no_key_with_a_dollar_passes_that_is_not_listed(pipeline: list[Any]) -> None:
    try:
        checked = check_pipeline(pipeline, "shop")
    except PipelineRefusedError:
        return
    assert json.dumps(list(checked.pipeline)) == json.dumps(pipeline)
    for key in keys_in(pipeline):
        assert not key.startswith("$") or key in STAGES | CONDITIONS | EXPRESSIONS
    assert "USER_ROLES" not in json.dumps(pipeline)
    assert checked.reads[0].collection is None


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"$not": [value]}
    return value


REFUSED: list[tuple[Any, str]] = [
    ("$out", "must be a list"),
    ({"$match": {}}, "must be a list"),
    ([[]], "single key"),
    ([{}], "single key"),
    ([{"$match": {}, "$out": "x"}], "single key"),
    ([{"$limit": -1}], "whole number"),
    ([{"$limit": True}], "whole number"),
    ([{"$skip": {"$add": [1, 2]}}], "whole number"),
    ([{"$lookup": {"from": {"db": "admin", "coll": "users"}, "as": "x"}}], "ordinary collection"),
    ([{"$lookup": {"pipeline": [], "as": "x"}}], "ordinary collection"),
    ([{"$lookup": {"from": "system.users", "as": "x"}}], "ordinary collection"),
    ([{"$lookup": {"from": "$cmd", "as": "x"}}], "ordinary collection"),
    ([{"$lookup": {"from": "x", "as": "x", "extra": 1}}], "`extra`"),
    ([{"$unionWith": ""}], "ordinary collection"),
    ([{"$unionWith": {"coll": "x", "db": "admin"}}], "`db`"),
    ([{"$facet": {"a": [{"$facet": {}}]}}], "another `$facet`"),
    ([{"$facet": []}], "needs an object"),
    ([{"$facet": {"a": {"$out": "x"}}}], "must be a list"),
    ([{"$project": {"x": "$$USER_ROLES"}}], "`$$USER_ROLES`"),
    ([{"$project": {"x": "$$CLUSTER_TIME"}}], "`$$CLUSTER_TIME`"),
    ([{"$match": {"a\0b": 1}}], "not valid text"),
    ([{"$match": {"a": object()}}], "type object"),
    ([{"$limit": 1}] * (MOST_STAGES + 1), "50 stages"),
    ([{"$facet": {"a": [{"$limit": 1}] * MOST_STAGES}}], "50 stages"),
    ([{"$match": {"a": {"$in": list(range(MOST_NODES))}}}], "5,000 values"),
    ([{"$project": {"a": nested(DEEPEST)}}], "40 levels"),
    ([{"$project": {"a": nested(5_000)}}], "deeper|values"),
]


@pytest.mark.parametrize(("pipeline", "told"), REFUSED, ids=[str(place) for place in range(len(REFUSED))])
def test_what_is_refused(pipeline: Any, told: str) -> None:
    import re

    assert re.search(told if "|" in told else re.escape(told), refusal(pipeline).message)


@pytest.mark.parametrize(
    ("stage", "hint"),
    [
        ({"$mtach": {}}, "did you mean `$match`?"),
        ({"$out": "x"}, "leave the stage out: ktx prints the results"),
        ({"$search": {}}, "use others, such as $match"),
        ({"$match": {"$where": "1"}}, "$expr"),
        ({"$match": {"$text": {}}}, "use others, such as $eq"),
        ({"$project": {"x": "$$USER_ROLES"}}, "$$ROOT"),
        ({"paid": True}, """for example: '[{"$match": {"paid": true}}]'"""),
        ({"$match": {"a": {"$gtt": 1}}}, "`$gt`"),
    ],
)  # fmt: skip
def test_a_hint_says_what_is_allowed(stage: dict[str, Any], hint: str) -> None:
    found = refusal([stage]).hint or ""
    assert hint in found
    assert len(found) < 100, "a few names, not the entire list"


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ({"$merge": "x"}, "the stage `$merge` is not allowed, because it writes to the database"),
        ({"$match": {"$where": "1"}}, "the operator `$where` is not allowed, because it runs JavaScript"),
        ({"$group": {"_id": 1, "x": {"$accumulator": {}}}}, "because it runs JavaScript on the server"),
        ({"$currentOp": {}}, "because it describes the server"),
        ({"$project": {"x": {"$arrayToObject": "$a"}}}, "because it turns values into field names"),
    ],
)
def test_a_refusal_gives_the_reason(stage: dict[str, Any], reason: str) -> None:
    assert reason in refusal([stage]).message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "not valid JSON"),
        ("3", "not a list of stages"),
        ('[{"$match": {"a": 1, "a": {"$where": "x"}}}]', "`a` twice"),
        ('[{"$match": {"_id": {"$oid": "short"}}}]', "not valid Extended JSON"),
        ("[" * 5_000, "not valid"),
        ('"' + "x" * 100_001 + '"', "100,003 characters"),
    ],
)
def test_text_that_is_no_pipeline(text: str, told: str) -> None:
    with pytest.raises(PipelineRefusedError) as caught:
        parse_pipeline(text, "shop")
    assert told in caught.value.message


@pytest.mark.parametrize(
    "code", ['{"$code": "f"}', '{"$ref": "a", "$id": 1}', '{"$dbPointer": {"$ref": "a", "$id": {}}}']
)
def test_code_and_references_are_no_values(code: str) -> None:
    with pytest.raises(PipelineRefusedError):
        check_pipeline(parse_pipeline(f'[{{"$match": {{"a": {code}}}}}]', "shop"), "shop")


def test_extended_json_is_read() -> None:
    text = (
        '[{"$match": {"at": {"$gte": {"$date": "2026-01-31T00:00:00Z"}}, "_id": {"$oid": "6b0dfb5dff72e23468fa5934"}}}]'
    )
    checked = check_pipeline(parse_pipeline(text, "shop"), "shop")
    assert checked.to_json() == json.loads(text)


# What a pipeline may show of its collections.


def shown(*stages: Any) -> dict[str | None, set[str] | None]:
    return {each.collection: None if each.paths is None else set(each.paths) for each in check(*stages).reads}


@pytest.mark.parametrize(
    ("stages", "paths"),
    [
        ([], None),
        ([{"$match": {"a": 1}}], None),
        ([{"$limit": 1}, {"$unset": "email"}], None),
        ([{"$project": {"email": 0}}], None),
        ([{"$project": {"a": {"email": 0}}}], None),
        ([{"$project": {"_id": 0}}], None),
        ([{"$project": {"a": 1}}], {"a", "_id"}),
        ([{"$project": {"a": "$b.c"}}], {"a", "b.c", "_id"}),
        ([{"$match": {"x": {"$gt": 1}}}, {"$group": {"_id": "$s", "n": {"$sum": "$y"}}}], {"x", "s", "n", "y", "_id"}),
        ([{"$count": "n"}], set()),
        ([{"$sortByCount": "$s"}], {"s"}),
        ([{"$match": {"$expr": {"$gt": ["$x", 1]}}}, {"$count": "n"}], {"x"}),
        ([{"$match": {"i": {"$elemMatch": {"cost": 1}}}}, {"$count": "n"}], {"i", "cost"}),
        ([{"$project": {"a": "$$ROOT"}}], None),
        ([{"$project": {"a": "$$CURRENT.email"}}], None),
        ([{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}], None),
        ([{"$replaceRoot": {"newRoot": "$a"}}], {"a", "newRoot"}),
        ([{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"x": 1}]}}], None),
        ([{"$addFields": {"b": "$email"}}, {"$project": {"b": 1}}], {"b", "email", "_id"}),
        ([{"$facet": {"n": [{"$count": "n"}], "s": [{"$sortByCount": "$s"}]}}], {"s"}),
        ([{"$facet": {"n": [{"$count": "n"}], "s": [{"$limit": 1}]}}], None),
        ([{"$sort": {"email": 1}}, {"$project": {"a": 1}}], {"email", "a", "_id"}),
    ],
)
def test_the_paths_that_a_pipeline_shows(stages: list[Any], paths: set[str] | None) -> None:
    assert shown(*stages)[None] == paths


def test_the_paths_of_other_collections() -> None:
    whole = {"$lookup": {"from": "c", "localField": "c_id", "foreignField": "_id", "as": "c"}}
    part = {"$lookup": {**whole["$lookup"], "pipeline": [{"$project": {"name": 1}}]}}
    assert shown(whole, {"$project": {"c.name": 1}}) == {None: {"c_id", "c.name", "_id"}, "c": None}
    assert shown(part, {"$count": "n"}) == {None: {"c_id"}, "c": {"name", "_id"}}
    assert shown({"$unionWith": "b"}, {"$count": "n"}) == {None: set(), "b": None}
    inner = {
        "$lookup": {"from": "d", "pipeline": [{"$unionWith": {"coll": "e", "pipeline": [{"$count": "n"}]}}], "as": "d"}
    }
    assert shown(inner) == {None: None, "d": None, "e": set()}
    assert check(part, {"$unionWith": "b"}).collections == ("c", "b")


@pytest.mark.parametrize(
    ("stages", "counted"),
    [
        ([{"$count": "n"}], {"n"}),
        ([{"$group": {"_id": "$s", "n": {"$sum": 1}, "m": {"$count": {}}, "x": {"$sum": "$x"}}}], {"n", "m"}),
        ([{"$group": {"_id": "$s", "n": {"$sum": 2}}}], set()),
        ([{"$group": {"_id": "$s", "n": {"$sum": 1}}}, {"$sort": {"n": -1}}, {"$limit": 3}], {"n"}),
        ([{"$group": {"_id": "$s", "n": {"$sum": True}}}], set()),
        ([{"$count": "n"}, {"$addFields": {"n": "$x"}}], set()),
        ([{"$match": {}}], set()),
        ([], set()),
    ],
)  # fmt: skip
def test_counts(stages: list[Any], counted: set[str]) -> None:
    assert check(*stages).counted == counted


# Sent to a server.


def test_the_guard_decides_before_anything_is_sent() -> None:
    with emulator() as server:
        server.client["shop"]["orders"].insert_many([{"_id": each, "s": "a" if each < 2 else "b"} for each in range(5)])
        server.client["shop"]["hidden"].insert_one({"a": 1})
        settings = server.settings("shop", enabled_tables=["orders"])
        with connect(ConnectionSpec("shop", "mongodb", settings)) as connector:
            orders = TableRef(None, "orders")
            found = connector.aggregate(orders, [{"$group": {"_id": "$s", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])  # type: ignore[attr-defined]
            assert (found.columns, found.rows) == (("_id", "n"), (("a", 2), ("b", 3)))
            found = connector.aggregate(orders, [], max_rows=2)  # type: ignore[attr-defined]
            assert (len(found.rows), found.truncated) == (2, True)
            assert server.commands[-1][1]["pipeline"] == [{"$limit": 3}]
            server.commands.clear()
            for ref, pipeline in (
                (orders, [{"$out": "x"}]),
                (orders, [{"$lookup": {"from": "hidden", "as": "h"}}]),
                (TableRef(None, "hidden"), []),
                (TableRef(None, "missing"), []),
                (TableRef(None, "system.users"), []),
                (TableRef("admin", "orders"), []),
            ):
                with pytest.raises(SourceError):
                    connector.aggregate(ref, pipeline)  # type: ignore[attr-defined]
            assert "aggregate" not in server.sent()
        assert server.sent() <= READING
