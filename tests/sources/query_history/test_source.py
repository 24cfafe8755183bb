"""The source over a file of SQL: what it fetches, what it leaves to a model, which units a change makes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.documents.raw import Changes
from ktx_cli.project.state import open_for_writing
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.sources.port import Conclusion, FetchContext, ProjectContext, Source, UnitEvidence
from ktx_cli.sources.query_history.pages import QueryPattern, TableUsage, pattern_facts, table_documents
from ktx_cli.sources.query_history.raw_files import MANIFEST
from ktx_cli.sources.query_history.source import QueryHistorySource, contents_of, coverage_of
from ktx_cli.warehouses.postgres import PostgresConnection
from ktx_cli.wiki import GLOBAL, Page, parse
from tests.sources.query_history.conftest import MANIFEST as MANIFEST_TEXT
from tests.sources.query_history.conftest import Tree

SQL = """\
-- user: ada executions: 40
SELECT r.label, sum(o.total) FROM orders o JOIN regions r ON r.region_id = o.region_id GROUP BY 1;
-- executions: 9
SELECT name FROM customers WHERE country = 'DE';
"""
SHARD = "semantic-layer/shop/_schema/public.yaml"
PAGE = "wiki/global/queries-by-region.md"
Context = Callable[..., FetchContext]


def entry(**settings: Any) -> PostgresConnection:
    history = {"enabled": True, "file": "q.sql", **settings}
    return PostgresConnection.model_validate(
        {"driver": "postgres", "url": "env:PG", "context": {"queryHistory": history}}
    )


def source(model: Model) -> QueryHistorySource:
    def refuse() -> nullcontext[Any]:
        raise AssertionError("a file of SQL needs no database")

    return QueryHistorySource(model, refuse, lambda: datetime(2026, 5, 4, tzinfo=UTC))


def fetched(context: FetchContext, model: Model, sql: str = SQL, **settings: Any) -> Any:
    (context.layout.root / "q.sql").write_text(sql, "utf-8")
    return source(model).fetch(entry(**settings), context)


def test_it_is_a_source(model: Model) -> None:
    found: Source = source(model)
    assert (found.kind, found.documents) == ("query-history", False)


def test_what_a_model_would_add_and_joins_nobody_declared_are_left(
    fetch_context: Context, model: Model, workspace: Workspace
) -> None:
    snapshot = fetched(fetch_context(connection="shop"), model)
    projection = source(model).project(entry(), snapshot, ProjectContext("shop", workspace, {"shop": model}))
    assert projection.left == (
        "narratives about the use of 3 tables",
        "wiki pages for the questions in 1 pattern files",
        "observed join: orders.region_id = regions.region_id (high frequency)",
    )
    assert projection.handled == {MANIFEST}
    assert set(projection.artifacts) == {SHARD}
    assert projection.artifacts[SHARD] == tuple(path for path in snapshot.files if path.startswith("tables/"))
    assert coverage_of(contents_of(snapshot)).value == "listed"


def test_projecting_twice_changes_nothing(fetch_context: Context, model: Model, workspace: Workspace) -> None:
    snapshot = fetched(fetch_context(connection="shop"), model)
    first = source(model).project(entry(), snapshot, ProjectContext("shop", workspace, {"shop": model}))
    text = workspace.read(SHARD)
    after = load_tree(workspace, "shop", "postgres")
    again = source(after).project(entry(), snapshot, ProjectContext("shop", workspace, {"shop": after}, first.owned))
    assert (workspace.read(SHARD), again) == (text, first)


def test_only_what_changed_makes_units(fetch_context: Context, model: Model, workspace: Workspace) -> None:
    context = fetch_context(connection="shop")
    before, after = fetched(context, model), fetched(context, model, SQL.replace("country = 'DE'", "id = 4"))
    modified = tuple(path for path in after.files if after.files[path] != before.files[path])
    projection = source(model).project(entry(), after, ProjectContext("shop", workspace, {"shop": model}))
    (unit,) = source(model).units(entry(), after, Changes(modified=modified), projection)
    assert (unit.label, unit.files, unit.semantic) == ("public.customers", modified, False)
    assert source(model).units(entry(), after, Changes(deleted=("tables/gone.json",)), projection) == ()


def test_another_literal_or_a_few_more_executions_change_no_file(fetch_context: Context, model: Model) -> None:
    context = fetch_context(connection="shop")
    before = fetched(context, model)
    after = fetched(context, model, SQL.replace("'DE'", "'FR'").replace("40", "41"))
    assert {path: file.sha256 for path, file in before.files.items()} == {
        path: file.sha256 for path, file in after.files.items()
    }


@pytest.mark.parametrize(
    ("hidden", "kept"), [("", "status = 'paid'"), (", visibility: hidden", "status = ?"), ("policy", "status = ?")]
)
def test_values_of_a_scan_stay_where_nobody_hid_the_column(hidden: str, kept: str, fetch_context: Context) -> None:
    manifest = MANIFEST_TEXT.replace("{name: status, type: string", f"{{name: status, type: string{hidden}")
    if hidden == "policy":
        policy = "    policies: [{name: own, expr: region_id = {{user.region}}}]\n"
        manifest = MANIFEST_TEXT.replace("    table: public.orders\n", f"    table: public.orders\n{policy}", 1)
    context = fetch_context(connection="shop")
    with open_for_writing(context.layout) as database:
        database.execute(
            "INSERT INTO dictionary_columns (id, connection, schema_name, table_name, column_name, complete)"
            " VALUES (1, 'shop', 'public', 'orders', 'status', 1)"
        )
        database.execute("INSERT INTO dictionary_values VALUES (1, '\"paid\"', 'paid', 'paid', 7)")
    found = load_tree(Workspace(Tree({SHARD: manifest.encode()})), "shop", "postgres")
    snapshot = fetched(context, found, "-- executions: 9\nSELECT total FROM orders WHERE status = 'paid';\n")
    (document,) = table_documents(contents_of(snapshot))
    assert document["filters"] == [[kept, "high"]]


def test_a_damaged_raw_file_is_named(fetch_context: Context, model: Model) -> None:
    for content in (b"{", b"[]"):
        with pytest.raises(KtxError, match=r"tables/x\.json of the query history is damaged"):
            table_documents({"tables/x.json": content})


def test_evidence_becomes_a_narrative_and_a_page(fetch_context: Context, model: Model, workspace: Workspace) -> None:
    snapshot = fetched(fetch_context(connection="shop"), model)
    history = source(model)
    projection = history.project(entry(), snapshot, ProjectContext("shop", workspace, {"shop": model}))
    context = ProjectContext("shop", workspace, {"shop": model}, projection.owned)
    (known,) = pattern_facts(contents_of(snapshot))
    usage = TableUsage(table="public.orders", narrative="Sales by region.")
    pattern = QueryPattern(slug="by-region", title="Sales by region", narrative="Summed.", fingerprints=(known,))
    evidence = [
        UnitEvidence("table-orders", "tables/orders.json", usage.model_dump(mode="json")),
        UnitEvidence("patterns-1", "patterns/1.json", pattern.model_dump(mode="json")),
    ]
    conclusion = history.after_units(entry(), snapshot, context, evidence)
    assert conclusion.units == {SHARD: ("table-orders",), PAGE: ("patterns-1",)}
    assert conclusion.artifacts == {"wiki:queries-by-region": ("patterns/1.json",)}
    assert conclusion.summary == "1 page of questions, narratives of tables"
    assert "narrative: Sales by region." in (workspace.read_text(SHARD) or "")
    page = parse(GLOBAL, "queries-by-region", workspace.read(PAGE) or b"")
    assert isinstance(page, Page)
    assert page.fields["representative_sql"] == (
        "SELECT r.label, SUM(o.total) FROM orders AS o JOIN regions AS r ON r.region_id = o.region_id GROUP BY 1"
    )
    assert history.after_units(entry(), snapshot, context, []) == Conclusion(context.owned)
    empty = fetched(fetch_context(connection="shop"), model, "SELECT total FROM orders;")
    assert history.after_units(entry(), empty, context, []).pages == {page.key: "stale"}
    assert "stale_since: " in (workspace.read_text(PAGE) or "")
    assert "2026-05-04" in (workspace.read_text(PAGE) or "")
