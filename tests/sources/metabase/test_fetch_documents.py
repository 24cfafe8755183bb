"""Raw files of Metabase from any JSON: never an error, the same again from the file itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.sources.fetch import render
from ktx_cli.sources.metabase import fetch as documents
from ktx_cli.sources.metabase.fetch import Card
from ktx_cli.sources.metabase.queries import Resolver, Sql
from tests.sources.metabase.scripted import native

KEYS = st.sampled_from(
    ["name", "description", "type", "native", "query", "template-tags", "stages", "source-table", "id", "a", "fields"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
NAMES = (
    "name", "description", "type", "dataset", "display", "collection_id", "database_id", "dataset_query",
    "result_metadata",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_a_card_of_any_shape_becomes_a_file_and_comes_back_from_it(fields: dict[str, Any]) -> None:
    read = Card.read({"id": 1, **fields})
    sql = Resolver({1: read.query}, {}, lambda query: "made", {}).resolve(1)
    content = render(read.document("http://m", None, sql))
    again = Card.stored(json.loads(content))
    assert render(again.document("http://m", None, sql)) == content
    assert again.references == read.references


@given(JSON, JSON)
def test_a_database_of_any_shape_becomes_a_file(fields: Any, table: Any) -> None:
    tables = [{"id": 1, "fields": fields, "name": table, "schema": fields, "description": table}]
    document = documents.database_document({"id": 1, "name": fields}, "warehouse", tables)
    assert all(isinstance(each["description"], str) for each in document["tables"][0]["columns"])
    assert isinstance(document["tables"][0].get("description", ""), str)


def test_parameters_of_a_card_come_back_as_they_were() -> None:
    tag = {"id": "volatile", "name": "x", "type": "dimension", "dimension": ["field", 3, None], "required": True}
    read = Card.read({"id": 1, "dataset_query": native("select {{x}}", {"x": tag})})
    document = read.document("http://m", "warehouse", Sql("select 1", {"x": "ktx"}, "abc"))
    assert document["query"]["tags"]["x"] == {
        "type": "dimension", "name": "x", "required": True, "dimension": ["field", 3, None],
    }  # fmt: skip
    assert document["sql"] == {"text": "select 1", "stand_ins": {"x": "ktx"}, "asked": "abc"}
    assert Card.stored(document).query == read.query
