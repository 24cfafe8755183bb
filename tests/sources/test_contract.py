"""The public contract of sources, run on every source of ktx."""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.sources.confluence.source import ConfluenceSource
from ktx_cli.sources.gdrive.source import GoogleDriveSource
from ktx_cli.sources.jira.source import JiraSource
from ktx_cli.sources.notion.source import NotionSource
from ktx_cli.sources.query_history.source import QueryHistorySource
from ktx_cli.sources.tableau.source import TableauSource
from ktx_cli.testing.source_contract import CONNECTION, SourceCase, SourceContract
from tests.sources import catalog_exports as catalogs
from tests.sources import scripted_sigma as sigma
from tests.sources import scripted_tableau as site
from tests.sources import tableau_files as tableau
from tests.sources.git_server import Repository
from tests.sources.looker import scripted as looker
from tests.sources.metabase import scripted as metabase
from tests.sources.scripted_confluence import FakeConfluence
from tests.sources.scripted_google import TOP, FakeGoogle, private_key, service_key
from tests.sources.scripted_jira import FakeJira, replies
from tests.sources.scripted_notion import LATER, A, B, C, block, dashed, handbook

DBT = """\
models:
  - name: orders
    description: One row for each order.
    columns:
      - {name: status, description: Where the order stands., tests: [{accepted_values: {values: [open, paid]}}]}
      - {name: customer_id, tests: [{relationships: {to: ref('customers'), field: id}}]}
"""
METRICS = """\
semantic_models:
  - name: orders
    model: ref('orders')
    entities: [{name: order, type: primary, expr: id}]
    measures: [{name: revenue, agg: sum, expr: amount}]
"""
LOOK = 'connection: "dwh"\ninclude: "views/*.view"\nexplore: orders {}\n'
VIEW = """\
view: orders {
  sql_table_name: shop.orders ;;
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; }
  measure: revenue { type: sum sql: ${TABLE}.amount ;; }
}
"""
BIM = {
    "model": {
        "tables": [
            {
                "name": "Orders",
                "columns": [{"name": "Order", "dataType": "int64", "sourceColumn": "id"}],
                "measures": [{"name": "Revenue", "expression": "COUNTROWS(Orders)"}],
                "partitions": [
                    {
                        "name": "p",
                        "source": {
                            "type": "m",
                            "expression": 'Sql.Database("s", "d"){[Schema="shop",Item="orders"]}[Data]',
                        },
                    }
                ],
            }
        ]
    }
}
TMDL = "table Notes\n\n\tmeasure Rank = RANKX(ALL(Orders), [Revenue])\n"
ODCS = """\
kind: DataContract
apiVersion: v3.1.0
id: orders
version: 1.0.0
servers: [{server: main, type: postgres, schema: shop, password: hunter2-secret}]
schema:
  - name: orders
    description: What people bought and when.
    properties: [{name: id, primaryKey: true, businessName: Number, description: The number.}]
    quality: [{type: text, description: Complete on every morning.}]
"""
HISTORY = """\
-- user: ada executions: 40
SELECT c.country, sum(o.amount) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY 1;
-- executions: 9
SELECT name FROM customers WHERE country = 'secret-country';
"""


def template(model: Any) -> bytes:
    """Return a Power BI template with a model."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("DataModelSchema", json.dumps(model).encode("utf-16-le"))
    return made.getvalue()


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def folder_case(folder: Path, settings: dict[str, Any], files: dict[str, str], changed: dict[str, str]) -> SourceCase:
    """Return the case of a folder; the last of its files is removed."""
    put(folder, files)
    return SourceCase(
        settings,
        change=lambda: put(folder, changed),
        remove=(folder / [*files][-1]).unlink,
        breaks=lambda: folder.rename(folder.with_name("moved")),
    )


class TestDbt(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        files = {"dbt_project.yml": "name: shop\n", "models/schema.yml": DBT, "README.md": "# Why\n"}
        settings = {"driver": "dbt", "source_dir": str(tmp_path / "dbt")}
        return folder_case(tmp_path / "dbt", settings, files, {"models/schema.yml": DBT.replace("stands", "is")})


class TestDbtInGit(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        repository = Repository(tmp_path / "team", "trunk")
        repository.commit({"dbt/dbt_project.yml": "name: shop\n", "dbt/models/schema.yml": DBT, "dbt/README.md": "x"})
        return SourceCase(
            {"driver": "dbt", "repo_url": str(repository.folder), "branch": "trunk", "path": "dbt"},
            change=lambda: repository.commit({"dbt/models/schema.yml": DBT.replace("stands", "is")}),
            remove=lambda: repository.commit({"dbt/README.md": None}),
            breaks=lambda: repository.folder.rename(tmp_path / "moved"),
        )


class TestMetricFlow(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        folder = tmp_path / "metrics"
        settings = {"driver": "metricflow", "metricflow": {"repoUrl": str(folder)}}
        files = {"orders.yml": METRICS, "more.yml": "metrics: []\n"}
        return folder_case(folder, settings, files, {"orders.yml": METRICS.replace("revenue", "turnover")})


class TestLookMl(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        settings = {"driver": "lookml", "repoUrl": str(tmp_path / "look")}
        files = {"shop.model.lkml": LOOK, "views/orders.view.lkml": VIEW}
        changed = {"views/orders.view.lkml": VIEW.replace("revenue", "turnover")}
        return folder_case(tmp_path / "look", settings, files, changed)


class TestPowerBi(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        folder = tmp_path / "bi"
        put(folder, {"shop/model.bim": json.dumps(BIM), "Notes.SemanticModel/definition/tables/Notes.tmdl": TMDL})
        (folder / "old.pbit").write_bytes(template(BIM))
        return SourceCase(
            {"driver": "powerbi", "source_dir": str(folder)},
            change=lambda: put(folder, {"shop/model.bim": json.dumps(BIM).replace("Revenue", "Turnover")}),
            remove=(folder / "Notes.SemanticModel/definition/tables/Notes.tmdl").unlink,
            breaks=lambda: folder.rename(tmp_path / "moved"),
            damage=lambda: (folder / "old.pbit").write_bytes(b"PK"),
        )


class TestTableau(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        settings = {"driver": "tableau", "source_dir": str(tmp_path / "books")}
        orders = tableau.data_source("orders", measures={"Revenue": "SUM([amount])"}, user="robin-the-owner")
        files = {"orders.tds": orders, "books/more.twb": tableau.workbook()}
        changed = {"orders.tds": orders.replace("Revenue", "Turnover")}
        case = folder_case(tmp_path / "books", settings, files, changed)
        damage = functools.partial(put, tmp_path / "books", {"orders.tds": orders[: len(orders) // 2]})
        return replace(case, secrets=("robin-the-owner",), damage=damage)


class TestTableauSite(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any) -> SourceCase:
        fake = site.FakeTableau()
        orders = tableau.data_source("orders", measures={"Revenue": "SUM([amount])"}, user="robin-the-owner")
        fake.add("datasources", "Sales", orders)
        fake.add("workbooks", "Board", tableau.workbook())
        answers = web_site.answers = site.replies(fake)

        def change() -> None:
            fake.add("datasources", "Sales", orders.replace("Revenue", "Turnover"))

        def damage() -> None:
            change()
            web_site.answers = lambda asked: reply("", 500) if "luid-sales" in asked.path else answers(asked)

        return SourceCase(
            {"driver": "tableau", "server_url": web_site.url, "token_name": "ktx", "token_secret": "env:TOKEN"},
            change=change,
            remove=lambda: fake.items["workbooks"].clear(),
            breaks=refusing(web_site, reply),
            damage=damage,
            source=TableauSource(sleep=lambda seconds: None),
            environ={"TOKEN": site.SECRET},
            secrets=("robin-the-owner", site.SECRET, site.SESSION),
        )


class TestOdcs(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        settings = {"driver": "odcs", "source_dir": str(tmp_path / "contracts")}
        files = {"orders.odcs.yaml": ODCS, "b/people.yml": ODCS.replace("orders", "customers")}
        changed = {"orders.odcs.yaml": ODCS.replace("bought", "paid for")}
        case = folder_case(tmp_path / "contracts", settings, files, changed)
        damage = functools.partial(put, tmp_path / "contracts", {"orders.odcs.yaml": "kind: [DataContract\n"})
        return replace(case, damage=damage, secrets=("hunter2-secret",))


class TestDatahub(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        settings = {"driver": "datahub", "source_dir": str(tmp_path / "catalog")}
        about = catalogs.mcp(
            catalogs.dataset("shop.orders"), "datasetProperties", {"description": "What people bought."}
        )
        terms = [catalogs.term(name, "What counts.", "money") for name in ("revenue", "refund")]
        files = {"orders.json": catalogs.export(about), "more/terms.json": catalogs.export(*terms)}
        changed = {"orders.json": files["orders.json"].replace("bought", "paid for")}
        case = folder_case(tmp_path / "catalog", settings, files, changed)
        half = files["more/terms.json"][:-40]
        return replace(case, damage=functools.partial(put, tmp_path / "catalog", {"more/terms.json": half}))


class TestOpenmetadata(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        settings = {"driver": "openmetadata", "source_dir": str(tmp_path / "catalog")}
        orders = catalogs.om_table("s.d.shop.orders", [catalogs.om_column("id")], description="What people bought.")
        terms = [catalogs.om_term(f"Money.{name}", "What counts.") for name in ("Revenue", "Refund")]
        files = {"orders.json": catalogs.export(orders), "more/terms.json": catalogs.export(*terms)}
        changed = {"orders.json": files["orders.json"].replace("bought", "paid for")}
        case = folder_case(tmp_path / "catalog", settings, files, changed)
        half = files["more/terms.json"][:-40]
        return replace(case, damage=functools.partial(put, tmp_path / "catalog", {"more/terms.json": half}))


class TestDocuments(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        files = {"a.md": "# Refunds\n", "notes/b.txt": "Paid.\n", "notes/c.html": "<p>Late</p>"}
        settings = {"driver": "documents", "path": str(tmp_path / "handbook")}
        return folder_case(tmp_path / "handbook", settings, files, {"a.md": "# Returns\n"})


@pytest.fixture
def answering(web_site: Any, reply: Any) -> Callable[[Any], None]:
    """Let a scripted service answer the requests to the site."""

    def answers(fake: Any) -> None:
        def answer(asked: Any) -> Any:
            found = fake.answer(asked)
            return None if found is None else reply(found)

        web_site.answers = answer

    return answers


def refusing(web_site: Any, reply: Any) -> Callable[[], None]:
    """Return a function after which the site takes no credentials."""

    def refuse() -> None:
        web_site.answers = lambda asked: reply({"message": "no"}, 401)

    return refuse


class TestNotion(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any, answering: Callable[[Any], None]) -> SourceCase:
        fake = handbook()
        answering(fake)
        answer = web_site.answers

        def fail(asked: Any) -> Any:
            return reply({"message": "busy"}, 500) if asked.path.endswith(f"/{C}/children") else answer(asked)

        def damage() -> None:
            fake.pages[C]["last_edited_time"] = LATER
            web_site.answers = fail

        def change() -> None:
            fake.pages[C]["last_edited_time"] = LATER
            fake.blocks[C] = [block("paragraph", "Never.")]

        def remove() -> None:
            fake.blocks[B] = [block("paragraph", "No pages below.")]
            fake.pages[B]["last_edited_time"] = LATER
            del fake.pages[C]

        return SourceCase(
            {"driver": "notion", "auth_token": "env:TOKEN", "root_page_ids": [dashed(A)]},
            change=change,
            remove=remove,
            breaks=refusing(web_site, reply),
            damage=damage,
            source=NotionSource(web_site.url, sleep=lambda seconds: None, clock=lambda: 1_800_000_000.0),
            environ={"TOKEN": "notion-secret-value"},
            secrets=("notion-secret-value",),
        )


class TestConfluence(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any, answering: Callable[[Any], None]) -> SourceCase:
        fake = FakeConfluence()
        fake.page("10", "Handbook", "<p>Welcome.</p>")
        fake.page("11", "Refunds", "<p>Within 30 days.</p>", parent="10")
        answering(fake)
        answer = web_site.answers

        def damage() -> None:
            fake.page("11", "Refunds", "<p>Never.</p>", parent="10")
            web_site.answers = lambda asked: reply("", 500) if asked.path.endswith("/pages/11") else answer(asked)

        return SourceCase(
            {"driver": "confluence", "base_url": f"{web_site.url}/wiki", "email": "a@b.c", "api_token": "env:TOKEN"},
            change=lambda: fake.page("11", "Refunds", "<p>Never.</p>", parent="10"),
            remove=lambda: fake.pages.pop("11"),
            breaks=refusing(web_site, reply),
            damage=damage,
            source=ConfluenceSource(sleep=lambda seconds: None),
            environ={"TOKEN": "confluence-secret-value"},
            secrets=("confluence-secret-value",),
        )


class TestGoogleDrive(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any) -> SourceCase:
        fake = FakeGoogle()
        fake.document("doc-1", "Handbook", "Welcome.")
        fake.document("doc-2", "Refunds", "Within 30 days.")

        def answers(asked: Any) -> Any:
            found = fake.answer(asked)
            return found if isinstance(found, reply) else reply(found)

        def damage() -> None:
            fake.document("doc-2", "Refunds", "Never.")
            web_site.answers = lambda asked: reply("", 500) if "doc-2/export" in asked.path else answers(asked)

        web_site.answers = answers
        return SourceCase(
            {"driver": "gdrive", "base_url": web_site.url, "folder_ids": [TOP], "credentials_json": "env:KEY"},
            change=lambda: fake.document("doc-2", "Refunds", "Never."),
            remove=lambda: fake.files.pop("doc-2"),
            breaks=refusing(web_site, reply),
            damage=damage,
            source=GoogleDriveSource(sleep=lambda seconds: None),
            environ={"KEY": service_key()},
            secrets=(private_key(), "token-1"),
        )


class TestJira(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any) -> SourceCase:
        fake = FakeJira()
        fake.issue("10", "Revenue")
        fake.issue("11", "Refunds")
        answers = web_site.answers = replies(fake)

        def damage() -> None:
            fake.issue("11", "Returns")
            web_site.answers = lambda asked: reply("", 500) if asked.path.endswith("/issue/11") else answers(asked)

        entry = {"driver": "jira", "base_url": web_site.url, "email": "a@b.c", "api_token": "env:TOKEN"}
        return SourceCase(
            {**entry, "projects": ["DATA"]},
            change=lambda: fake.issue("11", "Returns"),
            remove=lambda: fake.issues.pop("11"),
            breaks=refusing(web_site, reply),
            damage=damage,
            source=JiraSource(sleep=lambda seconds: None),
            environ={"TOKEN": "jira-secret-value"},
            secrets=("jira-secret-value", "Ada"),
        )


class TestLooker(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any) -> SourceCase:
        fake = looker.ScriptedLooker(web_site, reply)
        fake.add(looker.explore("orders"), looker.dashboard("1"), looker.look("7"))
        entry = looker.entry(web_site.url, dwh=CONNECTION).model_dump(by_alias=True)
        return SourceCase(
            entry,
            change=lambda: fake.add(looker.dashboard("1", "2026-02-02", title="Renamed")),
            remove=lambda: fake.looks.clear(),
            breaks=refusing(web_site, reply),
            source=looker.source(),
            environ={"LOOKER_SECRET": looker.SECRET},
            secrets=(looker.SECRET,),
            connection="bi",
        )


class TestSigma(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any) -> SourceCase:
        fake = sigma.FakeSigma()
        fake.workbook("w1"), fake.workbook("w2")
        fake.model("m1", sigma.table("orders", sigma.native("orders", "amount", description="In euros.")))
        web_site.answers = fake.reply
        answer = web_site.answers

        def damage() -> None:
            fake.workbook("w2", "2026-02-02")
            web_site.answers = lambda asked: reply("", 500) if "/w2/elements" in asked.path else answer(asked)

        settings = {"driver": "sigma", "api_url": web_site.url, "client_id": "id", "client_secret": "env:SIGMA_SECRET"}
        return SourceCase(
            settings,
            change=lambda: fake.workbook("w1", "2026-02-02", formula="Max([Amount])"),
            remove=lambda: fake.workbooks.pop("w2"),
            breaks=refusing(web_site, reply),
            damage=damage,
            environ={"SIGMA_SECRET": sigma.SECRET},
            secrets=(sigma.SECRET, "ada@acme.com"),
        )


class TestMetabase(SourceContract):
    @pytest.fixture
    def case(self, web_site: Any, reply: Any) -> SourceCase:
        fake = metabase.ScriptedMetabase(web_site, reply)
        fake.add(metabase.card(1, metabase.native("SELECT 1")), metabase.card(2, metabase.native("SELECT 2")))
        answer = web_site.answers

        def damage() -> None:
            fake.add(metabase.card(2, metabase.native("SELECT 2"), "2026-02-02"))
            web_site.answers = lambda asked: reply("", 500) if asked.path == "/api/card/2" else answer(asked)

        return SourceCase(
            metabase.entry(web_site.url).model_dump(by_alias=True),
            change=lambda: fake.add(metabase.card(1, metabase.native("SELECT 3"), "2026-02-02")),
            remove=lambda: fake.cards.pop(2),
            breaks=refusing(web_site, reply),
            damage=damage,
            source=metabase.source(),
            environ={"METABASE_KEY": metabase.KEY},
            secrets=(metabase.KEY, "hunter2-secret", "someone@example.com"),
            connection="bi",
        )


class TestQueryHistory(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        (tmp_path / "project").mkdir()
        file = tmp_path / "project" / "queries.sql"
        file.write_text(HISTORY)
        history = {"enabled": True, "file": "queries.sql"}
        return SourceCase(
            {"driver": "duckdb", "path": "shop.duckdb", "context": {"queryHistory": history}},
            change=lambda: file.write_text(HISTORY + "-- executions: 7\nSELECT id FROM orders;\n"),
            remove=lambda: file.write_text("-- executions: 40\nSELECT name FROM customers;\n"),
            breaks=file.unlink,
            source=QueryHistorySource(clock=lambda: datetime(2026, 5, 4, tzinfo=UTC)),
            secrets=("secret-country", "ada"),
            connection=CONNECTION,
        )
