"""Raw files of Looker from any JSON: never an error, and names that lead nowhere."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ktx_cli.sources.fetch import render
from ktx_cli.sources.looker import fetch as documents
from ktx_cli.sources.looker.fetch import target_of
from ktx_cli.sources.looker.source import propose

KEYS = st.sampled_from((
    "name", "query", "look", "model", "view", "fields", "filters", "joins", "dimensions", "measures", "folder", "id",
    "dashboard_elements", "dashboard_filters", "sql_table_name", "connection_name", "description", "result_maker",
))  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)


@given(st.dictionaries(KEYS, JSON))
@example({"query": {"fields": True}})
def test_things_of_any_shape_become_files_and_proposals(fields: dict[str, Any]) -> None:
    explore = documents.explore_document("shop", {**fields, "name": "orders"}, {"dwh": "warehouse"})
    targets = {("shop", "orders"): target_of("orders", "warehouse")}
    for document in (documents.dashboard_document(fields), documents.look_document(fields)):
        made = documents.with_targets(document, targets)
        assert render(documents.with_targets(made, targets)) == render(made)
        for query in documents.queries_of(made):
            assert propose(query, explore=explore).to_json()["target_status"] == "missing_target_table"


@given(st.text(), st.text())
def test_paths_stay_in_their_folder_and_differ_where_the_names_do(one: str, other: str) -> None:
    path = documents.explore_path("shop", one)
    assert path.startswith("explores/shop/")
    assert path.count("/") == 2
    assert path.isascii() and ".." not in path
    assert (documents.explore_path("shop", other) == path) is (one == other)
