"""`mongo_query` in a loop: which sessions have it, what a model sees, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ktx_cli.agent_tools.toolset import tools_for
from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.port import QueryResult

ROWS = QueryResult(("_id", "n", "contact"), (("paid", 2, {"email": "ada@example.com"}), ("open", 1, None)))
COUNT = [{"$group": {"_id": "$status", "n": {"$sum": 1}, "contact": {"$first": "$contact"}}}]
HIDDEN = {
    "semantic-layer/shop/customers.yaml": "name: customers\ncolumn_overrides: [{name: email, visibility: hidden}]\n"
}


@pytest.fixture
def mongo(shop: Callable[..., Any]) -> Callable[..., Any]:
    """A session whose connection also runs pipelines; `sent` keeps them."""

    def make(**fields: Any) -> Any:
        sent: list[Any] = []

        def run(connection: str, collection: str, pipeline: Sequence[Mapping[str, Any]], limit: int) -> QueryResult:
            sent.append((connection, collection, list(pipeline), limit))
            return ROWS

        fields = {"run_pipeline": run, "pipelines": ["shop"], **fields}
        made = shop(**fields)
        made.sent = sent
        return made

    return make


def test_a_session_without_pipelines_has_no_such_tool(shop: Callable[..., Any], mongo: Callable[..., Any]) -> None:
    def names(made: Any) -> set[str]:
        return {each.name for each in tools_for(made.session, "unit")}

    assert "mongo_query" not in names(shop())
    assert "mongo_query" not in names(mongo(pipelines=["elsewhere"]))
    assert "mongo_query" in names(mongo())


def test_rows_are_shown_without_personal_data(mongo: Callable[..., Any]) -> None:
    made = mongo(privacy="off")
    text = made.ok("mongo_query", collection="orders", pipeline=COUNT, row_limit=7)
    assert made.sent == [("shop", "orders", COUNT, 7)]
    assert "| paid | 2 |" in text and "ada@" not in text
    assert "contact: hidden, it looks like personal data" in text


def test_only_counts_are_shown_where_values_stay_here(mongo: Callable[..., Any]) -> None:
    text = mongo(privacy="local").ok("mongo_query", collection="orders", pipeline=COUNT)
    assert "| (text) | 2 |" in text and "paid" not in text and "ada@" not in text
    refused = mongo(privacy="local").refused("mongo_query", collection="orders", pipeline=[{"$unwind": "$tags"}])
    assert "their number would reveal a value" in refused


@pytest.mark.parametrize("privacy", ["off", "local"])
def test_what_does_more_than_read_is_not_sent(privacy: str, mongo: Callable[..., Any]) -> None:
    made = mongo(privacy=privacy)
    text = made.refused("mongo_query", collection="orders", pipeline=[{"$merge": {"into": "x"}}])
    assert "the stage `$merge` is not allowed" in text and "because it writes to the database" in text
    assert made.sent == []


def test_hidden_fields_are_refused(mongo: Callable[..., Any]) -> None:
    made = mongo(privacy="off", files=HIDDEN)
    for pipeline in ([], [{"$project": {"email": 1}}], [{"$group": {"_id": "$email"}}]):
        assert "is hidden" in made.refused("mongo_query", collection="customers", pipeline=pipeline)
    assert "did not find" in made.refused("mongo_query", collection="unknown", pipeline=[{"$count": "n"}])
    assert made.sent == []
    made.ok("mongo_query", collection="customers", pipeline=[{"$project": {"region": 1}}])
    made.ok("mongo_query", collection="orders", pipeline=[])


def test_a_failure_is_told_without_values(mongo: Callable[..., Any]) -> None:
    def run(*arguments: Any) -> QueryResult:
        raise SourceError("cannot convert 'ada@example.com' to int", code="query")

    text = mongo(privacy="local", run_pipeline=run).ok("mongo_query", collection="orders", pipeline=COUNT)
    assert "The pipeline failed" in text and "ada@" not in text


def test_a_connection_without_pipelines(mongo: Callable[..., Any]) -> None:
    made = mongo(connections={"shop": "sqlite", "other": "sqlite"})
    text = made.refused("mongo_query", connection="other", collection="orders", pipeline=[])
    assert "use sql_execution" in text
    made.ok("mongo_query", collection="orders", pipeline=COUNT)
