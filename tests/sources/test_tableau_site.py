"""A Tableau site as a source: its files, what only its metadata knows, and what is not read again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import SecretError, SourceError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.sources.http import HttpAuthError, HttpStatusError
from ktx_cli.sources.port import FetchContext
from ktx_cli.sources.tableau import TableauConnection
from ktx_cli.sources.tableau.source import TableauSource
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project
from tests.sources.scripted_tableau import SECRET, FakeTableau, replies
from tests.sources.tableau_files import data_source, table, workbook
from tests.sources.test_tableau import packed
from tests.sources.web_site import Reply

Fetch = Callable[..., Snapshot]
SALES = data_source(table("orders", "shop"), measures={"Revenue": "SUM([amount])", "Rank": "RANK(SUM([amount]))"})
PROXY = (
    "<datasource caption='Sales' name='sqlproxy.1' version='18.1'><connection class='sqlproxy' dbname='Sales' />"
    "<column caption='Big' datatype='real' name='[Big]' role='measure'><calculation class='tableau'"
    " formula='MAX([amount])' /></column></datasource>"
)
FILES = ["datasources/Sales.tds", "workbooks/Board.twb", "workbooks/Other.twb"]


@pytest.fixture
def tableau(web_site: Any) -> FakeTableau:
    fake = FakeTableau()
    note = {"isCertified": True, "certificationNote": "Checked by finance each quarter."}
    sales = fake.add("datasources", "Sales", packed(SALES, "Sales.tds"), description="Paid orders.", **note)
    board = fake.add("workbooks", "Board", workbook(PROXY, views=1))
    fake.add("workbooks", "Other", workbook(), project="Marketing")
    orders = {"name": "orders", "schema": "shop", "description": "What people bought.", "database": {"name": "dwh"}}
    fake.facts[sales] = {
        "owner": {"name": "Finance team"},
        "upstreamTables": [orders],
        "downstreamWorkbooks": [{"name": "Board"}],
    }
    fake.facts[board] = {"upstreamDatasources": [{"name": "Sales"}]}
    fake.opened = {board: 140}
    web_site.answers = replies(fake)
    return fake


def entry(url: str, **fields: Any) -> TableauConnection:
    common = {"driver": "tableau", "server_url": url, "token_name": "ktx", "token_secret": "env:SECRET"}
    return TableauConnection.model_validate({**common, **fields})


@pytest.fixture
def fetch(web_site: Any, fetch_context: Callable[..., FetchContext]) -> Fetch:
    def run(last: Snapshot | None = None, **fields: Any) -> Snapshot:
        given: dict[str, Any] = {"environ": {"SECRET": SECRET}}
        if last is not None:
            given |= {"cursor": last.cursor, "previous": {path: raw.sha256 for path, raw in last.files.items()}}
        web_site.asked.clear()
        return TableauSource(sleep=lambda seconds: None).fetch(entry(web_site.url, **fields), fetch_context(**given))

    return run


def downloads(web_site: Any) -> list[str]:
    return [path.split("/")[-2] for path in web_site.paths() if path.endswith("/content")]


def facts_of(found: Snapshot, path: str) -> dict[str, Any]:
    return dict(json.loads(found.files[path].read()))


def test_a_site_is_its_files_and_the_facts_about_them(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    found = fetch(site="acme")
    assert [path for path in found.files if not path.startswith("catalog/")] == FILES
    assert (found.complete, found.fetched, found.skipped) == (True, 3, ())
    assert found.origin == f"Tableau at {web_site.url}, site acme"
    assert found.files["datasources/Sales.tds"].text() == SALES
    assert facts_of(found, "catalog/datasources/Sales.json") == {
        "kind": "data source", "name": "Sales", "project": "Finance", "url": "https://bi.example.com/Sales",
        "description": "Paid orders.", "owner": "Finance team", "certified": True,
        "certification_note": "Checked by finance each quarter.", "workbooks": ["Board"],
        "tables": [
            {"table": "dwh.shop.orders", "parts": ["dwh", "shop", "orders"], "description": "What people bought."}
        ],
    }  # fmt: skip
    board = facts_of(found, "catalog/workbooks/Board.json")
    assert (board["data_sources"], board["opened"]) == (["Sales"], "100 times or more")
    assert SECRET not in json.dumps([str(each) for each in (found.origin, found.cursor)])


def test_a_second_run_downloads_only_what_changed(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    second = fetch(first)
    assert (downloads(web_site), second.fetched, second.files, second.cursor) == ([], 0, first.files, first.cursor)
    assert len(web_site.asked) == 6, "a session, three lists, and two questions about metadata"
    tableau.opened["luid-board"] = 190
    tableau.add("workbooks", "Board", workbook(PROXY.replace("MAX", "MIN")))
    del tableau.items["workbooks"]["luid-other"]
    third = fetch(second)
    assert (downloads(web_site), third.fetched, third.complete) == (["luid-board"], 1, True)
    assert set(second.files) - set(third.files) == {"workbooks/Other.twb", "catalog/workbooks/Other.json"}
    refreshed = SALES.replace(
        "</datasource>", "<extract><refresh-event timestamp-start='MOMENT' /></extract></datasource>"
    )
    changed = []
    for moment in ("1", "2"):
        tableau.add("datasources", "Sales", refreshed.replace("MOMENT", moment))
        third = fetch(third)
        changed.append(third.files["datasources/Sales.tds"].sha256)
    assert changed[0] == changed[1], "an extract that was refreshed changes nothing"


def test_a_failure_in_the_middle_ends_the_fetch(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    first = fetch()
    tableau.add("workbooks", "Board", workbook(PROXY.replace("MAX", "MIN")))
    path = "/api/3.15/sites/site-1/workbooks/luid-board/content"
    web_site.fail(path, *[Reply({"error": {"detail": "down"}}, 500)] * 5)
    with pytest.raises(HttpStatusError, match=r"status 500 for GET .*/content: down"):
        fetch(first)
    web_site.fail(path, Reply({}, 429, {"Retry-After": "2"}))
    assert fetch(first).fetched == 1
    web_site.fail("/api/metadata/graphql", Reply({"data": None, "errors": [{"message": "timed out"}]}))
    with pytest.raises(SourceError, match="the Metadata API of Tableau failed: timed out"):
        fetch(first)


def test_half_a_list_deletes_nothing(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    path, paging = "/api/3.15/sites/site-1/workbooks", {"totalAvailable": "3"}
    web_site.fail(path, Reply({"pagination": paging, "workbooks": {}}))
    with pytest.raises(SourceError, match="only a part of the list of workbooks"):
        fetch()
    twice = {"id": "luid-board", "name": "Board", "contentUrl": "Board", "updatedAt": "2026"}
    web_site.fail(path, Reply({"pagination": {"totalAvailable": "2"}, "workbooks": {"workbook": [twice, twice]}}))
    found = fetch()
    assert (found.complete, found.skipped[0].reason) == (False, "they changed while Tableau listed them")


@pytest.mark.parametrize(
    "block", [{"workbook": None}, {"workbook": {}}, {"workbook": [{"name": "Board"}]}, {"workbook": [None]}], ids=str
)
def test_a_list_of_another_shape_deletes_nothing(
    tableau: FakeTableau, fetch: Fetch, web_site: Any, block: dict[str, Any]
) -> None:
    first = fetch()
    web_site.fail(
        "/api/3.15/sites/site-1/workbooks", Reply({"pagination": {"totalAvailable": "0"}, "workbooks": block})
    )
    with pytest.raises(SourceError, match="`workbook` is not a list of objects with an ID"):
        fetch(first)


def test_metadata_that_goes_round_or_is_missing_ends(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    def part(after: str) -> dict[str, Any]:
        return {"nodes": [], "pageInfo": {"hasNextPage": True, "endCursor": after}}

    path = "/api/metadata/graphql"
    web_site.fail(path, *[Reply({"data": {"publishedDatasourcesConnection": part(each)}}) for each in "ABABABAB"])
    with pytest.raises(SourceError, match="the same part of a list twice"):
        fetch()
    assert web_site.paths().count(path) == 3
    answers = web_site.answers
    web_site.forget()
    web_site.answers = lambda asked: Reply({"data": {}}) if asked.path == path else answers(asked)
    with pytest.raises(SourceError, match="`nodes` is not a list of objects"):
        fetch()


def test_projects(tableau: FakeTableau, fetch: Fetch) -> None:
    assert [path for path in fetch(projects=["marketing"]).files if "catalog" not in path] == ["workbooks/Other.twb"]
    found = fetch(projects=["Finance", "Board room"])
    assert (found.complete, [warning.code for warning in found.warnings]) == (False, ["project_not_seen"])
    with pytest.raises(SourceError, match="cannot see any data source or workbook in the projects Board room"):
        fetch(projects=["Board room"])


def test_files_that_may_not_be_downloaded(tableau: FakeTableau, fetch: Fetch) -> None:
    tableau.denied = {"luid-sales", "luid-board"}
    tableau.fields["luid-sales"] = [
        {"name": "Revenue", "formula": "SUM([amount])"},
        {"name": "amount", "isHidden": False},
    ]
    tableau.fields["luid-board"] = [{"name": "Big", "formula": "MAX([amount])", "description": "Largest order."}]
    found = fetch()
    assert [path for path in found.files if "catalog" not in path] == ["workbooks/Other.twb"]
    assert (found.complete, [each.what for each in found.skipped]) == (True, ["2 files (Finance/Board, Finance/Sales)"])
    assert facts_of(found, "catalog/datasources/Sales.json")["fields"] == [
        {"name": "Revenue", "formula": "SUM([amount])"}, {"name": "amount"},
    ]  # fmt: skip
    projection = Project({SHARD: SHOP, OTHER_SHARD: OTHER}).run(TableauSource(), texts(found), entry("https://x"))
    units = TableauSource().units(None, found, Changes(added=tuple(found.files)), projection)
    assert [unit.files for unit in units] == [("catalog/datasources/Sales.json",), ("catalog/workbooks/Board.json",)]
    assert "- field `Big`: Largest order.: MAX([amount])" in units[1].notes


def texts(found: Snapshot) -> dict[str, str]:
    return {path: raw.text() for path, raw in found.files.items()}


def test_files_become_definitions_and_texts_become_units(tableau: FakeTableau, fetch: Fetch) -> None:
    found = fetch()
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(TableauSource(), texts(found), entry("https://x"))
    measures = {each["name"] for each in made.data("semantic-layer/shop/orders.yaml")["measures"]}
    assert {"revenue", "big"} <= measures, "a workbook finds the published data source by its name"
    assert made.data(SHARD)["tables"]["orders"]["descriptions"]["tableau"] == "What people bought."
    assert made.errors() == []
    units = TableauSource().units(None, found, Changes(added=tuple(found.files)), projection)
    (unit,) = units
    assert unit.files == ("datasources/Sales.tds", "catalog/datasources/Sales.json")
    assert (
        "RANK(SUM([amount]))" in unit.notes and "- certification note: Checked by finance each quarter." in unit.notes
    )
    assert projection.handled == frozenset(found.files) - set(unit.files)
    (unit,) = TableauSource().units(None, found, Changes(modified=("datasources/Sales.tds",)), projection)
    assert (unit.files, unit.dependencies) == (("datasources/Sales.tds",), ("catalog/datasources/Sales.json",))


@pytest.mark.table("status", [400, 403, 404])
def test_without_the_metadata_api(tableau: FakeTableau, fetch: Fetch, status: int) -> None:
    tableau.metadata = Reply({"error": {"detail": "disabled"}}, status)
    found = fetch()
    assert ([warning.code for warning in found.warnings], found.complete) == (["metadata_missing"], True)
    assert facts_of(found, "catalog/datasources/Sales.json")["certified"] is True
    assert "owner" not in facts_of(found, "catalog/datasources/Sales.json")


def test_without_counts_of_views(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    web_site.fail("/api/3.15/sites/site-1/views", Reply({"error": {"detail": "no"}}, 403))
    found = fetch()
    assert found.complete and "opened" not in facts_of(found, "catalog/workbooks/Board.json")


def test_metadata_with_errors_is_partial(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    data = {"publishedDatasourcesConnection": {"nodes": [], "pageInfo": {"hasNextPage": False}}}
    errors = [{"message": "Showing partial results.", "extensions": {"code": "NODE_LIMIT_EXCEEDED"}}]
    web_site.fail("/api/metadata/graphql", Reply({"data": data, "errors": errors}))
    (warning,) = fetch().warnings
    assert warning.code == "metadata_partial" and "Showing partial results." in warning.message


def test_files_that_cannot_be_read_keep_their_copy(tableau: FakeTableau, fetch: Fetch) -> None:
    first = fetch()
    tableau.add("workbooks", "Board", b"PK broken")
    found = fetch(first)
    assert (found.files, found.complete) == (first.files, True)
    assert [(each.what, each.reason) for each in found.skipped] == [("workbooks/Board.twb", "it is not a ZIP archive")]


def test_credentials(tableau: FakeTableau, fetch: Fetch) -> None:
    with pytest.raises(HttpAuthError) as refused:
        fetch(token_secret="wrong-token-secret")
    assert refused.value.message == "Tableau rejected the credentials (401): Error signing in to Tableau"
    assert "connections.notes.token_secret" in (refused.value.hint or "")
    assert "wrong-token-secret" not in f"{refused.value.message}{refused.value.details}"
    with pytest.raises(SecretError, match="has no personal access token"):
        fetch(token_name=None)


def test_a_limit_leaves_the_rest_for_the_next_runs(tableau: FakeTableau, fetch: Fetch, web_site: Any) -> None:
    first = fetch(max_files=2)
    assert (first.complete, downloads(web_site), first.skipped[0].what) == (
        False,
        ["luid-sales", "luid-board"],
        "1 more file",
    )
    second = fetch(first, max_files=2)
    assert (second.complete, len(second.files), second.fetched) == (True, 6, 1)
