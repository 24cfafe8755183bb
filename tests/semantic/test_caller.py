"""Who asks: one principal or several, each of whom must be allowed to see a row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import NOBODY, Caller, Principal
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import SEVERAL, CalendarSettings, Model, SemanticError
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect

REGIONS, LEVELS = ("EU", "US", "o'x"), (1, 2, 3)
ROWS = [(n, REGIONS[n % 3], LEVELS[n // 3 % 3]) for n in range(27)]
STAFF = {
    "name": "staff",
    "table": "staff",
    "grain": ["id"],
    "columns": [
        {"name": name, "type": kind} for name, kind in (("id", "number"), ("region", "string"), ("level", "number"))
    ],
    "policies": [
        {"name": "region", "filter": "region = {{ user.region }}"},
        {"name": "level", "filter": "level <= {{ user.level }}"},
        {"name": "known", "filter": "id >= 0"},
    ],
    "measures": [{"name": "people", "expr": "count(*)"}],
}
IDS = {"dimensions": ["staff.id"], "limit": 100}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    root = tmp_path_factory.mktemp("layer")
    folder = root / "semantic-layer" / "db"
    folder.mkdir(parents=True)
    (folder / "staff.yaml").write_text(json.dumps(STAFF))
    model = load_model(Layout(root), "db", "duckdb", CalendarSettings())
    assert not model.problems
    return model


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    path = tmp_path_factory.mktemp("data") / "staff.duckdb"
    with duckdb.connect(str(path)) as session:
        session.execute("CREATE TABLE staff (id INTEGER, region VARCHAR, level INTEGER)")
        session.executemany("INSERT INTO staff VALUES (?, ?, ?)", ROWS)
    with closing(connect(ConnectionSpec("db", "duckdb", {"path": str(path)}))) as connector:
        yield connector


principals = st.fixed_dictionaries({"region": st.sampled_from(REGIONS), "level": st.sampled_from(LEVELS)})


@given(st.lists(principals, min_size=1, max_size=3))
def test_several_principals_see_the_rows_that_each_of_them_sees(
    model: Model, staff: Connector, asked: list[dict[str, Any]]
) -> None:
    def ids(*attributes: dict[str, Any]) -> set[Any]:
        return {row[0] for row in ask(model, IDS, staff, caller=Caller.of(*attributes)).rows}

    allowed = [
        {n for n, region, level in ROWS if (region, level) == (one["region"], level) and level <= one["level"]}
        for one in asked
    ]
    assert ids(*asked) == set.intersection(*allowed) == set.intersection(*(ids(one) for one in asked))
    (count,) = ask(model, {"measures": ["staff.people"]}, staff, caller=Caller.of(*asked)).rows
    assert count == (len(set.intersection(*allowed)),)


def test_each_principal_needs_its_attributes(model: Model) -> None:
    full = {"region": "EU", "level": 1}
    for attributes in ((), ({},), ({"region": "EU"},), (full, {"region": "EU"}), ({}, full)):
        with pytest.raises(SemanticError) as caught:
            compile_query(model, IDS, caller=Caller.of(*attributes))
        assert caught.value.code == "policy"
    assert (
        compile_query(model, IDS, caller=Caller.of(full, full)).sql
        == compile_query(model, IDS, caller=Caller.of(full)).sql
    )


def test_the_receipt_names_a_policy_once(model: Model, staff: Connector) -> None:
    caller = Caller.of({"region": "EU", "level": 1}, {"region": "EU", "level": 2})
    answer = ask(model, IDS, staff, caller=caller)
    assert answer.receipt["policies"] == ["staff.region", "staff.level", "staff.known"]
    assert answer.sql.count("\"region\" = 'EU'") == 1, "a condition that is the same for both is not repeated"


def test_a_filter_takes_an_attribute_that_all_principals_share(model: Model) -> None:
    query = {**IDS, "filters": ["region = {{ user.region }}"]}
    one, other = {"region": "EU", "level": 1}, {"region": "US", "level": 1}
    assert compile_query(model, query, caller=Caller.of(one, {**one, "level": 2})).sql
    with pytest.raises(SemanticError, match="the principals of the caller differ") as caught:
        compile_query(model, query, caller=Caller.of(one, other))
    assert (caught.value.code, caught.value.details) == ("policy", {"attribute": "region"})


@pytest.mark.table("value", [float("nan"), float("-inf"), object(), {"a": 1}, [[1]]])
def test_an_attribute_is_one_plain_value(model: Model, value: Any) -> None:
    with pytest.raises(SemanticError) as caught:
        compile_query(model, IDS, caller=Caller.of({"region": "EU", "level": 1}, {"team": value}))
    assert caught.value.code == "policy"


def test_callers_are_keys_of_caches_that_distinguish_the_types_of_json() -> None:
    callers = [Caller.of({"a": value}) for value in (1, True, 1.0, "1", None, [1])]
    callers += [NOBODY, Caller.of({"b": 1}), Caller.of({"a": 1}, {"b": 1}), Caller.of({"b": 1}, {"a": 1})]
    assert len(set(callers)) == len(callers)
    assert Caller.of({"a": 1, "b": 2}) == Caller.of({"b": 2, "a": 1})
    assert Caller.of() == Caller(()) == Caller.of({}) == NOBODY
    assert Caller.of(Principal({"a": 1})) == Caller.of({"a": 1}) == Caller.of({"a": 1}, {"a": 1})
    assert Principal({"a": 1}) != {"a": 1}


def test_a_caller_does_not_change_with_the_mapping_it_was_made_from() -> None:
    attributes = {"a": 1}
    caller = Caller.of(attributes)
    attributes["a"] = 2
    assert (caller.to_json(), repr(caller.principals[0])) == ([{"a": 1}], 'Principal({"a": 1})')


def test_the_values_of_an_attribute() -> None:
    caller = Caller.of({"id": 1, "team": "a"}, {"id": True}, {"team": "a", "id": None}, {"id": 1})
    assert (caller.values_of("id"), caller.values_of("team"), caller.values_of("none")) == ([1, True], ["a"], [])
    assert caller.templates() == {"user.id": SEVERAL}
    assert Caller.of({"id": 1}, {"id": 1, "x": 2}).templates() == {"user.id": 1}
