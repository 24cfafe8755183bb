"""Sigma as a source: what is requested, what its documents become, and what happens when requests fail."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import KtxError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.scan.relationships.declarations import DeclaredJoin
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.http import HttpAuthError, HttpClient, Site
from ktx_cli.sources.port import FetchContext
from ktx_cli.sources.sigma import SigmaConnection
from ktx_cli.sources.sigma.formulas import aggregate_of, columns_of
from ktx_cli.sources.sigma.source import SigmaSource
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project
from tests.sources.scripted_sigma import SECRET, FakeSigma, metric, native, table
from tests.sources.web_site import Reply, WebSite

LATER = "2026-02-01T10:00:00.000Z"
waited: list[float] = []


@pytest.fixture
def sigma(web_site: WebSite) -> FakeSigma:
    """A Sigma with two workbooks, a data model and a dataset."""
    found = FakeSigma()
    found.workbook("w1"), found.workbook("w2", path="Sales")
    found.model("m1", *MODEL)
    found.datasets = [{"datasetId": "d1", "name": "Old orders", "description": "Before 2020.", "url": "https://app/d1"}]
    web_site.answers = found.reply
    waited.clear()
    return found


MODEL = (
    table(
        "orders",
        native("orders", "amount", description="In euros."),
        native("orders", "customer_id"),
        native("orders", "status"),
        {"id": "x1", "name": "Net", "formula": "[Amount] / 1.19"},
        description="What people bought.",
        metrics=[metric("Revenue", 'SumIf([Amount], [Status] = "paid")', description="Money that came in.")],
        relationships=[
            {
                "id": "r",
                "targetElementId": "e-customers",
                "keys": [{"sourceColumnId": "inode-orders/customer_id", "targetColumnId": "inode-customers/id"}],
            },
            {"id": "q", "targetElementId": "e-customers", "keys": [{"sourceColumnId": "x1", "targetColumnId": "y"}]},
        ],
    ),
    table("customers", native("customers", "id")),
    {"id": "c", "kind": "control", "controlId": "Period"},
)


def entry(site: WebSite, **more: Any) -> SigmaConnection:
    settings = {"driver": "sigma", "api_url": f"{site.url}/v2/", "client_id": "id", "client_secret": "env:SIGMA_SECRET"}
    made = SigmaConnection.model_validate({**settings, **more})
    made._id = "bi"
    return made


def source() -> SigmaSource:
    def opened(site: Site, context: FetchContext) -> HttpClient:
        return HttpClient(site, stopped=context.stopped, sleep=waited.append)

    return SigmaSource(opened)


def context(folder: Path, last: Snapshot | None = None) -> FetchContext:
    environ = {"SIGMA_SECRET": SECRET}
    made = FetchContext("bi", Layout(folder), environ, RawStore(folder / "raw"))
    if last is None:
        return made
    return replace(made, cursor=last.cursor, previous={path: file.sha256 for path, file in last.files.items()})


def asked(site: WebSite) -> list[str]:
    """Return the paths that were requested since the last call, below `/v2/`."""
    found = [each.path.removeprefix("/v2/") for each in site.asked]
    site.asked.clear()
    return found


def document(snapshot: Snapshot, path: str) -> Any:
    return json.loads(snapshot.files[path].read())


def test_a_first_fetch_reads_everything_without_secrets(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    snapshot = source().fetch(entry(web_site), context(tmp_path))
    assert list(snapshot.files) == ["datasets/d1.json", "models/m1.json", "workbooks/w1.json", "workbooks/w2.json"]
    assert snapshot.complete and snapshot.fetched == 3 and not snapshot.skipped
    assert document(snapshot, "workbooks/w1.json") == {
        "id": "w1",
        "kind": "workbook",
        "name": "Workbook w1",
        "description": "",
        "path": "Finance/Reports",
        "owner": "Ada Lovelace",
        "tags": ["Production"],
        "url": "https://app/w1",
        "elements": [
            {
                "id": "e1",
                "name": "Sales",
                "type": "visualization",
                "visualization": "bar",
                "columns": [
                    {"name": "Month", "formula": 'DateTrunc("month", [Ordered At])'},
                    {"name": "Revenue", "formula": "Sum([Amount])"},
                ],
                "sql": "select sum(amount) from shop.orders",
            },
            {"id": "e2", "type": "text"},
        ],
    }
    model = document(snapshot, "models/m1.json")
    assert [each["name"] for each in model["elements"]] == ["Orders", "Customers"]
    assert model["elements"][0]["columns"][0] == {
        "name": "Amount", "formula": "[ORDERS/Amount]", "description": "In euros.", "column": "amount",
    }  # fmt: skip
    stored = b"".join(file.read() for file in snapshot.files.values())
    assert b"ada@acme.com" not in stored and b"REQUEST" not in stored and SECRET.encode() not in stored


def test_only_what_changed_is_requested_again(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    first = source().fetch(entry(web_site), context(tmp_path))
    asked(web_site)
    again = source().fetch(entry(web_site), context(tmp_path, first))
    assert asked(web_site) == ["auth/token", "workbooks", "dataModels", "members", "datasets"]
    assert (again.fetched, again.files) == (0, first.files)
    sigma.workbook("w2", LATER, path="Sales", formula="Avg([Amount])")
    changed = source().fetch(entry(web_site), context(tmp_path, again))
    paths = [each for each in asked(web_site) if "/w2/" in each]
    assert paths == ["workbooks/w2/elements", "workbooks/w2/columns", "workbooks/w2/queries"]
    assert {path for path in first.files if first.files[path] != changed.files[path]} == {"workbooks/w2.json"}
    del sigma.workbooks["w1"]
    sigma.models["m1"]["isArchived"] = True
    gone = source().fetch(entry(web_site), context(tmp_path, changed))
    assert gone.complete and list(gone.files) == ["datasets/d1.json", "workbooks/w2.json"]


def test_lists_have_pages(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    for number in range(3, 8):
        sigma.workbook(f"w{number}")
    snapshot = source().fetch(entry(web_site), context(tmp_path))
    assert sum(path.startswith("workbooks/") for path in snapshot.files) == 7
    assert asked(web_site).count("workbooks") == 4


def test_half_a_list_changes_nothing(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    sigma.workbook("w3")
    first = source().fetch(entry(web_site), context(tmp_path))
    full = web_site.answers
    web_site.answers = lambda each: Reply({}, 503) if each.query.get("page") else full(each)
    with pytest.raises(KtxError):
        source().fetch(entry(web_site), context(tmp_path, first))
    web_site.answers = lambda each: Reply({"entries": None}) if each.path == "/v2/workbooks" else full(each)
    with pytest.raises(KtxError, match="unexpected response for GET /workbooks"):
        source().fetch(entry(web_site), context(tmp_path, first))
    loop = {"entries": [], "hasMore": True, "nextPage": "x"}
    web_site.answers = lambda each: Reply(loop) if each.path == "/v2/workbooks" else full(each)
    with pytest.raises(KtxError, match="Sigma returned the same part of a list twice"):
        source().fetch(entry(web_site), context(tmp_path, first))
    for odd in ({}, {"entries": [], "hasMore": True}, {"entries": [{"name": "Board"}]}, {"entries": [None]}):
        web_site.answers = lambda each, odd=odd: Reply(odd) if each.path == "/v2/workbooks" else full(each)
        with pytest.raises(KtxError, match="unexpected response for GET /workbooks"):
            source().fetch(entry(web_site), context(tmp_path, first))


def test_too_many_requests_are_waited_out(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    web_site.fail("/v2/workbooks/w1/columns", Reply({}, 429, {"Retry-After": "7"}))
    snapshot = source().fetch(entry(web_site), context(tmp_path))
    assert snapshot.complete and sum(waited) >= 7


def test_one_document_that_fails_keeps_its_previous_copy(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    first = source().fetch(entry(web_site), context(tmp_path))
    sigma.workbook("w1", LATER, formula="Max([Amount])")
    full = web_site.answers
    web_site.answers = lambda each: Reply({}, 500) if "/w1/elements" in each.path else full(each)
    second = source().fetch(entry(web_site), context(tmp_path, first))
    assert (second.complete, second.files, second.cursor) == (False, first.files, first.cursor)
    assert [(each.what, each.retry) for each in second.skipped] == [("workbooks/w1.json", True)]


def test_an_expired_token_is_renewed(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    web_site.fail("/v2/dataModels", Reply({}, 401))
    assert source().fetch(entry(web_site), context(tmp_path)).complete and sigma.logins == 2


def test_what_credentials_may_not_see_is_omitted(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    sigma.members = None
    sigma.inner["workbooks/w1/queries"] = None
    snapshot = source().fetch(entry(web_site), context(tmp_path))
    found = document(snapshot, "workbooks/w1.json")
    assert snapshot.complete and found["owner"] == "" and "sql" not in found["elements"][0]
    with pytest.raises(HttpAuthError) as refused:
        source().check(entry(web_site, client_secret="wrong-secret-0123"), context(tmp_path))
    assert "connections.bi.client_secret" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"paths": ["finance"]}, ["models/m1.json", "workbooks/w1.json"]),
        ({"paths": ["Finance/Reports/"]}, ["workbooks/w1.json"]),
        ({"paths": ["Fin"]}, []),
        ({"max_documents": 1}, ["datasets/d1.json", "workbooks/w2.json"]),
    ],
)
def test_selections(settings: Any, expected: list[str], sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    sigma.workbook("w2", LATER, path="Sales")
    snapshot = source().fetch(entry(web_site, **settings), context(tmp_path))
    assert list(snapshot.files) == expected
    assert [each.code for each in snapshot.warnings] == (["not_read"] if "max_documents" in settings else [])


@pytest.mark.parametrize(
    ("mapping", "others", "expected"),
    [({}, {}, [SHARD]), ({}, {OTHER_SHARD: OTHER}, []), ({"c1": "shop"}, {OTHER_SHARD: OTHER}, [SHARD]),
     ({"c1": None}, {}, [])],
)  # fmt: skip
def test_descriptions_of_data_models(
    mapping: Any, others: Any, expected: list[str], sigma: FakeSigma, web_site: WebSite, tmp_path: Path
) -> None:
    configured = entry(web_site, mappings={"connectionMappings": mapping})
    snapshot = source().fetch(configured, context(tmp_path))
    made = Project({SHARD: SHOP, **others})
    texts = {path: file.text() for path, file in snapshot.files.items()}
    projection = made.run(source(), texts, configured)
    assert list(projection.artifacts) == expected
    if expected:
        assert made.entry("orders")["descriptions"]["sigma"] == "What people bought."
        assert made.column("orders", "amount")["descriptions"] == {"sigma": "In euros."}
    assert projection.left == (
        "1 data model with formulas and SQL that may define measures and segments",
        "2 workbooks with formulas and SQL that may define measures and segments",
    )


def test_relationships_are_declared(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    configured = entry(web_site, mappings={"connectionMappings": {"c1": "shop"}})
    declared = source().declarations(configured, source().fetch(configured, context(tmp_path)))
    child, parent = "models/m1.json:e-orders", "models/m1.json:e-customers"
    assert declared.joins == (DeclaredJoin(child, ("customer_id",), parent, ("id",)),)
    found = declared.tables[child]
    assert (found.name, found.schema, found.databases) == ("orders", "shop", ("shop",))


def test_units_come_with_formulas(sigma: FakeSigma, web_site: WebSite, tmp_path: Path) -> None:
    snapshot = source().fetch(entry(web_site), context(tmp_path))
    changes = Changes(added=("models/m1.json", "workbooks/w1.json"))
    projection = Project({SHARD: SHOP}).run(source(), {}, entry(web_site))
    model, workbook = source().units(entry(web_site), snapshot, changes, projection)
    assert (model.key, workbook.key) == ("data-model-m1", "workbook-w1")
    exact = "exactly `sum(amount)` where `status = 'paid'` (Money that came in.)"
    assert f'- Orders: Revenue = `SumIf([Amount], [Status] = "paid")`, {exact}' in model.notes
    assert "- Orders: Net = `[Amount] / 1.19`" in model.notes and "`Orders` is the table dwh.shop.orders" in model.notes
    assert "- Sales: Revenue = `Sum([Amount])`" in workbook.notes and "Owner: Ada Lovelace." in workbook.notes
    assert workbook.dependencies == ("models/m1.json",)


@pytest.mark.parametrize("more", [{"filters": [{"id": "f"}]}, {"source": {"kind": "join", "joins": []}}])
def test_aggregates_of_other_rows_than_those_of_a_table_are_not_translated(
    more: Any, sigma: FakeSigma, web_site: WebSite, tmp_path: Path
) -> None:
    element = {**table("orders", native("orders", "amount"), metrics=[metric("Revenue", "Sum([Amount])")]), **more}
    sigma.model("m1", element)
    snapshot = source().fetch(entry(web_site), context(tmp_path))
    projection = Project({SHARD: SHOP}).run(source(), {}, entry(web_site))
    (unit,) = source().units(entry(web_site), snapshot, Changes(added=("models/m1.json",)), projection)
    assert "- Orders: Revenue = `Sum([Amount])`" in unit.notes and "exactly" not in unit.notes


COLUMNS = columns_of(
    [
        {"name": "Amount", "column": "AMOUNT"}, {"name": "Status", "column": "status"}, {"name": "Id", "column": "id"},
        {"name": "Odd", "column": "odd name"}, {"name": "Twice", "column": "a"}, {"name": "twice", "column": "b"},
        {"name": "Net", "formula": "[Amount] / 1.19"},
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("Sum([Amount])", "`sum(AMOUNT)`"),
        ("  countdistinct( [Id] ) ", "`count(distinct id)`"),
        ("Count([status])", "`count(status)`"),
        ('CountIf([Status] = "it\'s paid")', "`count(*)` where `status = 'it''s paid'`"),
        ("SumIf([Amount], [Amount] >= -1.5)", "`sum(AMOUNT)` where `AMOUNT >= -1.5`"),
        ('AvgIf([Amount], [Status] != "open")', "`avg(AMOUNT)` where `status <> 'open'`"),
        *((each, "None") for each in ("Sum([Net])", "Sum([Odd])", "Sum([Twice])", "Sum([Amount]) / 2", "Median([Id])")),
        *((each, "None") for each in ("Count()", "Sum([Orders/Amount])", "CountIf([Nope] = 1)", "CountIf([Id])", "")),
        *((each, "None") for each in ('CountIf([Status] = "a\\"")', "SumIf([Amount], [Id] = 1 And [Id] = 2)")),
    ],
)
def test_formulas_that_mean_the_same_in_sql(formula: str, expected: str) -> None:
    assert str(aggregate_of(formula, COLUMNS)) == expected
