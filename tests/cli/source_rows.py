"""One row for every source: what it has, how one thing of it changes, and several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ktx_cli.core.text import file_stem
from tests.cli.source_row import GitRow, LocalRow, Row, WebRow, World
from tests.sources import catalog_exports as catalogs
from tests.sources import scripted_sigma as sigma
from tests.sources import tableau_files as tableau
from tests.sources.looker import scripted as looker
from tests.sources.metabase import scripted as metabase
from tests.sources.scripted_confluence import FakeConfluence
from tests.sources.scripted_google import FakeGoogle
from tests.sources.scripted_jira import FakeJira
from tests.sources.scripted_notion import R1, R2, A, B, C, FakeNotion, block, dashed, handbook
from tests.sources.scripted_tableau import FakeTableau
from tests.sources.web_site import Reply

LONG = "Orders count when they are paid. " * 310
"""So long that each file of a folder is a unit of its own."""

WORDS = "Orders count when they are paid, and not before. "

TOKEN = "tok-0123456789-secret"
DAYS = ("2024-05-01T10:00:00.000Z", "2024-06-01T10:00:00.000Z", "2024-07-01T10:00:00.000Z", "2024-08-01T10:00:00.000Z")


def _document(topic: str, edition: int) -> str:
    return f"# {topic}\n\n{LONG}Edition {edition}{'.' * edition}\n"


class FilesInAFolder(LocalRow):
    name, kind, place = "files (folder)", "documents", "handbook"
    files, units, projects = 3, 3, True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.write({f"{topic}.md": _document(topic, 0) for topic in ("refunds", "stock", "tax")})

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "documents", "path": self.place}}

    def _edit(self, *topics: str) -> set[str]:
        self.edition += 1
        self.write({f"{topic}.md": _document(topic, self.edition) for topic in topics})
        return {f"{topic}.md" for topic in topics}

    def change(self) -> set[str]:
        return self._edit("stock")

    def change_more(self) -> set[str]:
        return self._edit("stock", "tax")


class FilesInGit(GitRow):
    name, kind = "files (git)", "documents"
    files, units, projects = 3, 3, True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._edit("refunds", "stock", "tax")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "documents", "repo_url": self.url, "path": "handbook"}}

    def _edit(self, *topics: str) -> set[str]:
        self.edition += 1
        self.repository.commit({f"handbook/{topic}.md": _document(topic, self.edition) for topic in topics})
        return {f"{topic}.md" for topic in topics}

    def change(self) -> set[str]:
        return self._edit("stock")

    def change_more(self) -> set[str]:
        return self._edit("stock", "tax")


DBT = {
    "dbt_project.yml": "name: acme\n",
    "models/schema.yml": """\
models:
  - name: orders
    description: Orders of the shop, edition N.
    columns:
      - {name: id, tests: [unique, not_null]}
      - {name: customer_id, tests: [{relationships: {to: ref('customers'), field: id}}]}
      - {name: status, tests: [{accepted_values: {values: [open, paid]}}]}
  - {name: customers, columns: [{name: id, tests: [unique]}]}
""",
    "models/board.yml": "exposures:\n  - {name: board, label: Board N, type: dashboard, depends_on: [ref('orders')]}\n",
    "models/notes.md": "# Notes\n\nWhat orders are, in edition N.\n",
}
METRICS = {
    "models.yml": """\
semantic_models:
  - name: orders
    model: ref('orders')
    entities: [{name: order, type: primary, expr: id}]
    measures: [{name: revenue, agg: sum, expr: amount, description: Edition N.}]
""",
    "metrics.yml": """\
metrics:
  - name: visit_to_order
    type: conversion
    description: Edition N.
    type_params:
      conversion_type_params: {entity: order, base_measure: {name: revenue}, conversion_measure: {name: revenue}}
""",
}
LOOKML = {
    "shop.model.lkml": 'connection: "dwh"\ninclude: "/views/*.view.lkml"\nexplore: orders {}\n',
    "views/orders.view.lkml": """\
view: orders {
  sql_table_name: orders ;;
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; }
  measure: revenue { type: sum sql: ${TABLE}.amount ;; description: "Edition N" }
}
""",
    "board.dashboard.lookml": "- dashboard: board\n  title: Board N\n",
}


POWERBI = {
    "definition/model.tmdl": "model Model\n\tculture: en-US\n",
    "definition/tables/Orders.tmdl": """\
table Orders

\t/// Edition N
\tmeasure Revenue = SUM(Orders[Amount])

\tcolumn Amount
\t\tdataType: double
\t\tsourceColumn: amount

\tpartition Orders = m
\t\tsource =
\t\t\t\tSql.Database("server", "shop"){[Schema="main",Item="orders"]}[Data]
""",
    "definition/tables/Ranks.tmdl": "table Ranks\n\n\t/// Edition N\n\tmeasure Rank = RANKX(Orders, [Revenue])\n",
}


def of_edition(texts: Mapping[str, str], edition: int, paths: Iterable[str] | None = None) -> dict[str, str]:
    """Return the files of an edition, all of them or some."""
    return {path: re.sub(r"\bN\b", str(edition), texts[path]) for path in (texts if paths is None else paths)}


class DbtInAFolder(LocalRow):
    name, kind, place = "dbt (local)", "dbt", "transform"
    files, units = 4, 1

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.write(of_edition(DBT, 0))

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "dbt", "source_dir": self.place}}

    def _edit(self, *paths: str) -> set[str]:
        self.edition += 1
        self.write(of_edition(DBT, self.edition, paths))
        return {*paths}

    def change(self) -> set[str]:
        return self._edit("models/notes.md")

    def change_more(self) -> set[str]:
        return self._edit("models/notes.md", "models/board.yml", "models/schema.yml")


class _InGit(GitRow):
    """A project of a tool in a repository: its files, and which of them change."""

    texts: ClassVar[Mapping[str, str]]
    first: ClassVar[tuple[str, ...]]
    more: ClassVar[tuple[str, ...]]

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.repository.commit(of_edition(self.texts, 0))

    def _edit(self, paths: tuple[str, ...]) -> set[str]:
        self.edition += 1
        self.repository.commit(of_edition(self.texts, self.edition, paths))
        return {*paths}

    def change(self) -> set[str]:
        return self._edit(self.first)

    def change_more(self) -> set[str]:
        return self._edit(self.more)


class DbtInGit(_InGit):
    name, kind = "dbt (git)", "dbt"
    files, units = 4, 1
    texts = DBT
    first, more = ("models/notes.md",), ("models/notes.md", "models/board.yml", "models/schema.yml")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "dbt", "repo_url": self.url}}


class MetricFlow(_InGit):
    name, kind = "metricflow", "metricflow"
    files, units = 2, 1
    texts = METRICS
    first, more = ("metrics.yml",), ("metrics.yml", "models.yml")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "metricflow", "metricflow": {"repoUrl": self.url}}}


class LookMl(_InGit):
    name, kind = "lookml", "lookml"
    files, units = 3, 1
    texts = LOOKML
    first, more = ("board.dashboard.lookml",), ("board.dashboard.lookml", "views/orders.view.lkml")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "lookml", "repoUrl": self.url}}


class PowerBi(_InGit):
    name, kind = "powerbi", "powerbi"
    files, units = 3, 1
    texts = POWERBI
    first, more = ("definition/tables/Ranks.tmdl",), ("definition/tables/Ranks.tmdl", "definition/tables/Orders.tmdl")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "powerbi", "repo_url": self.url}}


TABLEAU = {
    "Sales.tds": tableau.data_source("orders", measures={"Revenue": "SUM([amount])"}),
    "Board.twb": tableau.workbook(
        tableau.data_source("customers", name="People", measures={"Order N": "RANK(SUM([id]))"})
    ),
    "more/Regions.tds": tableau.data_source("regions", measures={"Labels N": "RANK(COUNTD([label]))"}),
}


class Tableau(_InGit):
    name, kind = "tableau", "tableau"
    files, units = 3, 2
    texts = TABLEAU
    first, more = ("Board.twb",), ("Board.twb", "more/Regions.tds")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "tableau", "repo_url": self.url}}


class TableauSite(WebRow):
    name, kind = "tableau (site)", "tableau"
    files, units, fetched = 6, 2, 3
    content = r"/api/3.15/sites/site-1/\w+/[\w-]+/content"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/api/3.15/sites/site-1/\w+/.+": "file", r"/api/3.15/sites/.*": "list", r"/api/metadata/graphql": "metadata",
        r"/api/3.15/auth/signin": "session",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {"POST session": 1, "GET list": 3, "POST metadata": 2}
    one: ClassVar[Mapping[str, int]] = {"GET file": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = FakeTableau()
        self._edit(*TABLEAU)
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {
            "driver": "tableau", "server_url": self.site.url, "site": "acme", "token_name": "ktx",
            "token_secret": "env:TABLEAU_SECRET",
        }  # fmt: skip
        return {"src": entry}

    def _edit(self, *paths: str) -> set[str]:
        files = set()
        for path, text in of_edition(TABLEAU, self.edition, paths).items():
            kind = "workbooks" if path.endswith(".twb") else "datasources"
            name = path.rpartition("/")[2]
            self.double.add(kind, name.partition(".")[0], text)
            files.add(f"{kind}/{name}")
        return files

    def poison(self, order: str) -> None:
        self.double.add("datasources", "Sales", TABLEAU["Sales.tds"], description=order, certificationNote=order)

    def change(self) -> set[str]:
        self.edition += 1
        return self._edit("Board.twb")

    def change_more(self) -> set[str]:
        self.edition += 1
        return self._edit("Board.twb", "more/Regions.tds")


CONTRACT = """\
kind: DataContract
apiVersion: v3.1.0
id: TABLE
version: 1.0.0
status: active
schema:
  - name: TABLE
    description: Edition N.
    quality: [{name: daily, type: text, description: Every row of a day arrives by noon.}]
"""
ODCS = {
    "orders.odcs.yaml": CONTRACT.replace("TABLE", "orders"),
    "people/customers.yaml": CONTRACT.replace("TABLE", "customers"),
    "people/regions.yml": CONTRACT.replace("TABLE", "regions"),
}


class Odcs(_InGit):
    name, kind = "odcs", "odcs"
    files, units = 3, 3
    texts = ODCS
    first, more = ("orders.odcs.yaml",), ("orders.odcs.yaml", "people/regions.yml")

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "odcs", "repo_url": self.url}}


class Datahub(GitRow):
    """One export with everything: each entity is a raw file of its own."""

    name, kind = "datahub", "datahub"
    files, units, projects = 4, 2, True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.editions = dict.fromkeys(("money/revenue", "money/refund", "places/region"), 0)
        self._edit()

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "datahub", "repo_url": self.url}}

    def _edit(self, *terms: str) -> set[str]:
        self.edition += 1
        self.editions |= dict.fromkeys(terms, self.edition)
        self.repository.commit({"datahub.json": self._export()})
        return {f"glossary/{term}.json" for term in terms}

    def _named(self) -> Iterable[tuple[str, str, str]]:
        """Yield the glossary, the name and the definition of each term."""
        for term, edition in self.editions.items():
            glossary, _, name = term.partition("/")
            yield glossary, name, f"In edition {edition}."

    def _export(self) -> str:
        orders = catalogs.dataset("main.orders", "sqlite")
        about = catalogs.mcp(orders, "datasetProperties", {"description": "What people bought."})
        return catalogs.export(about, *(catalogs.term(name, text, node) for node, name, text in self._named()))

    def change(self) -> set[str]:
        return self._edit("places/region")

    def change_more(self) -> set[str]:
        return self._edit("money/revenue", "money/refund")


class OpenMetadata(Datahub):
    name, kind = "openmetadata", "openmetadata"

    def connections(self) -> dict[str, Any]:
        return {"src": {"driver": "openmetadata", "repo_url": self.url}}

    def _export(self) -> str:
        columns = [catalogs.om_column("status", description="Open or paid.")]
        orders = catalogs.om_table("prod.shop.main.orders", columns, "SQLite", description="What people bought.")
        terms = (catalogs.om_term(f"{glossary}.{name}", text) for glossary, name, text in self._named())
        return catalogs.export(orders, *terms)


class Sigma(WebRow):
    name, kind = "sigma", "sigma"
    files, units, fetched, projects = 5, 4, 4, True
    content = r"/v2/workbooks/[^/]+/elements"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/v2/workbooks/[^/]+/(\w+)": "part of a workbook", r"/v2/dataModels/.*/spec": "data model",
        r"/v2/(workbooks|dataModels|datasets|members)": "list", r"/v2/auth/token": "token",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {"POST token": 1, "GET list": 4}
    one: ClassVar[Mapping[str, int]] = {"GET part of a workbook": 3}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = sigma.FakeSigma()
        self.double.size = 50
        for id in ("w1", "w2", "w3"):
            self.double.workbook(id, DAYS[0])
        columns = (sigma.native("orders", "amount", description="In euros."), sigma.native("orders", "status"))
        self.double.model("m1", sigma.table("orders", *columns, metrics=[sigma.metric("Revenue", "Sum([Amount])")]))
        self.double.datasets = [{"datasetId": "d1", "name": "Old orders", "description": "Before 2020."}]
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {
            "driver": "sigma", "api_url": self.site.url, "client_id": "id", "client_secret": "env:SIGMA_SECRET",
            "mappings": {"connectionMappings": {"c1": "shop"}},
        }  # fmt: skip
        return {"src": entry}

    def _workbook(self, id: str) -> str:
        return self.double.workbook(id, DAYS[self.edition], formula=f"Sum([Amount]) * {self.edition}")

    def change(self) -> set[str]:
        self.edition += 1
        return {self._workbook("w3")}

    def change_more(self) -> set[str]:
        self.edition += 1
        return {self._workbook("w1"), self._workbook("w2")}


class Metabase(WebRow):
    name, kind = "metabase", "metabase"
    files, units, fetched = 6, 2, 3
    content = r"/api/card/\d+"
    shapes: ClassVar[Mapping[str, str]] = {r"/api/card/\d+": "card", r"/api/database/1/metadata": "tables"}
    again: ClassVar[Mapping[str, int]] = {
        "GET /api/database": 1, "GET tables": 1, "GET /api/collection/tree": 1, "GET /api/card": 1,
        "GET /api/native-query-snippet": 1,
    }  # fmt: skip
    one: ClassVar[Mapping[str, int]] = {"GET card": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = metabase.ScriptedMetabase(world.site, Reply)
        self.double.collections = [{"id": n, "name": f"Team {n}", "children": []} for n in (5, 6)]
        self.double.tables = [
            {"id": 10, "name": "orders", "schema": None, "description": "What people bought.", "fields": []}
        ]
        self._card(1, 5), self._card(2, 5), self._card(3, 6)
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        mappings = {"databaseMappings": {"1": "shop"}}
        entry = {"driver": "metabase", "api_url": self.site.url, "api_key": "env:METABASE_KEY", "mappings": mappings}
        return {"src": entry}

    def _card(self, number: int, place: int) -> str:
        sql = f"SELECT sum(amount) FROM orders WHERE id > {self.edition}"
        card = metabase.card(number, metabase.native(sql), DAYS[self.edition], collection_id=place)
        self.double.add(card)
        return f"cards/{number}.json"

    def change(self) -> set[str]:
        self.edition += 1
        return {self._card(3, 6)}

    def change_more(self) -> set[str]:
        self.edition += 1
        return {self._card(1, 5), self._card(2, 5)}


class Looker(WebRow):
    name, kind = "looker", "looker"
    files, units, fetched, always = 6, 4, 4, 1
    content = r"/api/4.0/(looks|dashboards)/(?!search).+"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/api/4.0/lookml_models/.*": "explore", r"/api/4.0/(looks|dashboards)/(?!search).+": "content",
        r"/api/4.0/queries/run/json": "usage", r"/api/4.0/.*/search": "search", r"/api/4.0/(.*)": "other",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {
        "POST other": 1, "GET other": 1, "GET search": 3, "GET explore": 1, "POST usage": 3,
    }  # fmt: skip
    one: ClassVar[Mapping[str, int]] = {"GET content": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = looker.ScriptedLooker(world.site, Reply)
        fields = {
            "dimensions": [looker.dimension("orders.status", description="Open or paid.")],
            "measures": [looker.measure("orders.count", "count")],
        }
        self.double.add(looker.explore("orders", "orders", fields=fields))
        self.double.add(looker.dashboard("1", DAYS[0]), looker.look("2", DAYS[0]), looker.look("3", DAYS[0]))
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {
            "driver": "looker", "base_url": self.site.url, "client_id": "id", "client_secret": "env:LOOKER_SECRET",
            "mappings": {"connectionMappings": {"dwh": "shop"}},
        }  # fmt: skip
        return {"src": entry}

    def _look(self, number: str) -> str:
        self.double.add(looker.look(number, DAYS[self.edition], title=f"Look {number} of edition {self.edition}"))
        return f"looks/{number}.json"

    def change(self) -> set[str]:
        self.edition += 1
        return {self._look("3")}

    def change_more(self) -> set[str]:
        self.edition += 1
        return {self._look("2"), self._look("3")}


class Notion(WebRow):
    name, kind = "notion", "notion"
    files, units, projects = 6, 6, True
    content = r"/v1/blocks/[0-9a-f]+/children"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/v1/blocks/.*/children": "blocks", r"/v1/pages/.*": "page", r"/v1/databases/.*": "database",
        r"/v1/data_sources/.*/query": "rows", r"/v1/data_sources/.*": "data source",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {
        "GET page": 3, "GET database": 1, "GET data source": 1, "POST rows": 1,
    }  # fmt: skip
    one: ClassVar[Mapping[str, int]] = {"GET blocks": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double: FakeNotion = handbook()
        for each in (*self.double.pages.values(), *self.double.sources.values()):
            each["last_edited_time"] = DAYS[0]
        for page in (A, B, C, R1, R2):
            self.double.add(page, block("paragraph", WORDS))
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {
            "driver": "notion", "base_url": self.site.url, "auth_token": "env:NOTION_TOKEN",
            "root_page_ids": [dashed(A)],
        }  # fmt: skip
        return {"src": entry}

    def _edit(self, *pages: str) -> set[str]:
        self.edition += 1
        for page in pages:
            self.double.pages[page]["last_edited_time"] = DAYS[self.edition]
            self.double.blocks[page][0] = block("paragraph", f"Edition {self.edition}.")
        return {f"pages/{page}.md" for page in pages}

    def change(self) -> set[str]:
        return self._edit(C)

    def change_more(self) -> set[str]:
        return self._edit(C, R1)


class Confluence(WebRow):
    name, kind = "confluence", "confluence"
    files, units, projects = 4, 4, True
    content = r"/wiki/api/v2/pages/\d+"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/wiki/api/v2/pages/.*": "page", r"/wiki/api/v2/spaces/.*": "pages of a space", r".*/spaces": "spaces",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {"GET spaces": 1, "GET pages of a space": 3}
    one: ClassVar[Mapping[str, int]] = {"GET page": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = FakeConfluence()
        for number, space in (("10", "1"), ("11", "1"), ("12", "1"), ("20", "2")):
            self._page(number, space)
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {"driver": "confluence", "base_url": f"{self.site.url}/wiki", "api_token": "env:CONFLUENCE_TOKEN"}
        return {"src": entry}

    def _page(self, number: str, space: str) -> str:
        self.double.page(number, f"Page {number}", f"<p>{WORDS}</p><p>Edition {self.edition}.</p>", space=space)
        return f"pages/{number}.md"

    def change(self) -> set[str]:
        self.edition += 1
        return {self._page("20", "2")}

    def change_more(self) -> set[str]:
        self.edition += 1
        return {self._page("11", "1"), self._page("12", "1")}


class GoogleDrive(WebRow):
    name, kind = "gdrive", "gdrive"
    files, units, projects = 4, 4, True
    content = r"/drive/v3/files/doc-\d/export"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/drive/v3/files/.*/export": "document", r"/drive/v3/files/.*": "folder", r"/drive/v3/files": "list",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {"POST /token": 1, "GET folder": 1, "GET list": 3}
    one: ClassVar[Mapping[str, int]] = {"GET document": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = FakeGoogle()
        self.double.folder("sub", "Finance")
        for number, parent in ((1, "folder-top"), (2, "folder-top"), (3, "folder-top"), (4, "sub")):
            self._document(number, parent)
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {
            "driver": "gdrive", "folder_ids": ["folder-top"], "credentials_json": "env:GOOGLE_KEY",
            "base_url": self.site.url,
        }  # fmt: skip
        return {"src": entry}

    def _document(self, number: int, parent: str = "folder-top") -> str:
        self.double.document(f"doc-{number}", f"Page {number}", f"{LONG}Edition {self.edition}.", parent)
        return f"pages/doc-{number}.md"

    def poison(self, order: str) -> None:
        self.double.document("doc-1", order, f"{order} {LONG}")
        self.double.sheet("sheet-1", "Metrics", {"Terms": [["Term", "Meaning"], ["GMV", order]]})

    def change(self) -> set[str]:
        self.edition += 1
        return {self._document(4, "sub")}

    def change_more(self) -> set[str]:
        self.edition += 1
        return {self._document(1), self._document(2)}


class Jira(WebRow):
    name, kind = "jira", "jira"
    files, units, projects = 4, 4, True
    content = r"/rest/api/3/issue/\d+"
    shapes: ClassVar[Mapping[str, str]] = {
        r"/rest/api/3/issue/.*": "issue", r"/rest/api/3/search/jql": "search", r"/rest/api/3/project/.*": "project",
        r".*/myself": "account",
    }  # fmt: skip
    again: ClassVar[Mapping[str, int]] = {"GET account": 1, "GET project": 1, "POST search": 2}
    one: ClassVar[Mapping[str, int]] = {"GET issue": 1}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.double = FakeJira()
        for number in ("10", "11", "12", "13"):
            self._issue(number)
        self.serve(self.double.answer)

    def connections(self) -> dict[str, Any]:
        entry = {
            "driver": "jira", "base_url": self.site.url, "email": "ktx@example.com", "api_token": "env:JIRA_TOKEN",
            "projects": ["DATA"],
        }  # fmt: skip
        return {"src": entry}

    def _issue(self, number: str) -> str:
        self.double.issue(number, f"Issue {number}", f"{WORDS} Edition {self.edition}.")
        return f"pages/{number}.md"

    def poison(self, order: str) -> None:
        self.double.issue("10", order, f"{WORDS} {order}", comments=[order], labels=[order])

    def change(self) -> set[str]:
        self.edition += 1
        return {self._issue("13")}

    def change_more(self) -> set[str]:
        self.edition += 1
        return {self._issue("11"), self._issue("12")}


ASKED = (
    ("ada", 40, "SELECT c.name, sum(o.amount) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.name"),
    ("ben", 90, "SELECT name FROM customers WHERE country = 'DE'"),
    ("ben", 90, "SELECT label FROM regions WHERE region_id = 4"),
)
"""User, executions, statement."""


class HistoryInAFile(Row):
    """A file of SQL beside the project: it can only be there or not."""

    name, kind, connection = "query-history (file)", "query-history", "shop"
    files, units = 5, 4

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._write({})

    def _write(self, others: Mapping[str, str]) -> None:
        """Write the statements, with other conditions where `others` says so."""
        texts = []
        for user, executions, sql in ASKED:
            for old, new in others.items():
                sql = sql.replace(old, new)
            texts.append(f"-- user: {user} executions: {executions}\n{sql};\n")
        (self.folder / "asked.sql").write_text("".join(texts))

    def connections(self) -> dict[str, Any]:
        history = {"queryHistory": {"enabled": True, "file": "asked.sql"}}
        return {"shop": {"driver": "sqlite", "path": "shop.sqlite", "context": history}}

    def change(self) -> set[str]:
        self._write({"region_id = 4": "label LIKE 'a'"})
        return {"tables/regions.json"}

    def change_more(self) -> set[str]:
        self._write({"region_id = 4": "region_id > 4", "country = 'DE'": "id > 7"})
        return {"tables/customers.json", "tables/regions.json"}

    def trouble(self, how: str | None) -> None:
        here, away = self.folder / "asked.sql", self.folder / "away.sql"
        if how is not None and here.exists():
            here.rename(away)
        elif how is None and away.exists():
            away.rename(here)


def _raw(table: str) -> str:
    return f"tables/{file_stem(table)}.json"


POSTGRES_SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text, country text)",
    "CREATE TABLE regions (region_id int PRIMARY KEY, label text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, amount numeric, status text)",
)


class HistoryOfPostgres(Row):
    """`pg_stat_statements` of a real server."""

    name, kind, connection = "query-history (postgres)", "query-history", "shop"
    files, units, is_complete = 5, 4, False  # it counts since a moment ago

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.database = f"asked_{world.folder.parent.name}"
        server = world.postgres()
        url = server.create_database(self.database, "CREATE EXTENSION pg_stat_statements", *POSTGRES_SHOP)
        world.setenv("SHOP_URL", url)
        for _, executions, sql in ASKED:
            self._ask(executions, sql)

    def _ask(self, times: int, *statements: str) -> None:
        """Ask often enough to count; what is asked later is so little that no share of the others changes."""
        self.world.postgres().execute(*statements * times, database=self.database)

    def connections(self) -> dict[str, Any]:
        history = {"queryHistory": {"enabled": True}}
        return {"shop": {"driver": "postgres", "url": "env:SHOP_URL", "context": history}}

    def change(self) -> set[str]:
        self._ask(6, "SELECT label FROM regions WHERE label LIKE 'a'")
        return {_raw("public.regions")}

    def change_more(self) -> set[str]:
        self._ask(6, "SELECT name FROM customers WHERE id > 7", "SELECT label FROM regions WHERE region_id > 7")
        return {_raw("public.customers"), _raw("public.regions")}

    def trouble(self, how: str | None) -> None:
        server = self.world.postgres()
        url = server.url(self.database)
        self.world.setenv("SHOP_URL", url.replace(str(server.port), "9") if how == "cut" else url)
        extension = "DROP EXTENSION IF EXISTS" if how == "error" else "CREATE EXTENSION IF NOT EXISTS"
        server.execute(f"{extension} pg_stat_statements", database=self.database)


ROW_TYPES: tuple[type[Row], ...] = (
    FilesInAFolder, FilesInGit, DbtInAFolder, DbtInGit, MetricFlow, LookMl, PowerBi, Tableau, Odcs, Metabase, Looker,
    Notion, Confluence, GoogleDrive, Jira, TableauSite, HistoryInAFile, HistoryOfPostgres,
    Datahub, OpenMetadata, Sigma,
)  # fmt: skip
