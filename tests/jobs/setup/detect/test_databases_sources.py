"""Which context sources are offered: projects and documents of the folder, services of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.connections import check_source
from ktx_cli.jobs.setup.detect.databases import source_offers
from ktx_cli.project.config.model import KtxConfig

DBT = "dbt/dbt_project.yml"
LOOKML = ("bi/models/shop.model.lkml", "bi/views/orders.view.lkml")
PAGES = ("handbook/money.md", "handbook/returns/policy.md")


def config(**connections: Any) -> KtxConfig:
    return KtxConfig.model_validate({"connections": connections})


def write(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def found(folder: Path, environ: Mapping[str, str] | None = None, **connections: Any) -> list[tuple[str, str, Any]]:
    offers = source_offers(folder, environ or {}, config(**connections))
    return [(offer.driver, offer.id, dict(offer.fields)) for offer in offers]


@pytest.mark.table(
    ("names", "offers"),
    [
        ((), []),
        ((DBT,), [("dbt", "dbt", {"source_dir": "dbt"})]),
        (("dbt_project.yml",), [("dbt", "dbt", {"source_dir": "."})]),
        (
            ("a/dbt_project.yml", "b/dbt_project.yaml"),
            [("dbt", "a", {"source_dir": "a"}), ("dbt", "b", {"source_dir": "b"})],
        ),
        (
            (DBT, "dbt/dbt_packages/utils/dbt_project.yml", "dbt/tests/inner/dbt_project.yml"),
            [("dbt", "dbt", {"source_dir": "dbt"})],
        ),
        (LOOKML, [("lookml", "bi", {"repoUrl": "bi"})]),
        (("x/shop.model.lkml", "y/a.view.lkml"), [("lookml", "lookml", {"repoUrl": "."})]),
        ((*LOOKML, "other/manifest.lkml"), [("lookml", "other", {"repoUrl": "other"})]),
        (
            ("bi/A.SemanticModel/definition.pbism", "bi/b/B.SemanticModel/model.bim", "bi/c.pbix"),
            [("powerbi", "bi", {"source_dir": "bi"})],
        ),
        (("reports/sales.pbit",), [("powerbi", "reports", {"source_dir": "reports"})]),
        (("reports/sales.pbix",), []),
        (("bi/Sales.twbx", "bi/old/Shop.tds"), [("tableau", "bi", {"source_dir": "bi"})]),
        (("data/orders.odcs.yaml", "data/b/x.odcs.yml"), [("odcs", "data", {"source_dir": "data"})]),
        (("meta/shop_mces.json", "meta/x.json"), [("datahub", "meta", {"source_dir": "meta"})]),
        (("meta/openmetadata_tables.json",), [("openmetadata", "meta", {"source_dir": "meta"})]),
        (PAGES, [("documents", "handbook", {"path": "handbook"})]),
        (("Docs/a.md", "Docs/b.markdown"), [("documents", "docs", {"path": "Docs"})]),
        (("team/wiki/a.md", "team/wiki/b.md"), [("documents", "wiki", {"path": "team/wiki"})]),
        (("docs/README.md", "docs/a.md"), []),
        (("README.md", "CHANGELOG.md", "a.md", "b.md", "src/a.md", "src/b.md"), []),
        (("wiki/a.md", "wiki/b.md", "semantic-layer/docs/a.md", "semantic-layer/docs/b.md"), []),
        (("node_modules/docs/a.md", "node_modules/docs/b.md", ".hidden/docs/a.md", ".hidden/docs/b.md"), []),
    ],
)
def test_what_a_folder_has(names: tuple[str, ...], offers: list[Any], tmp_path: Path) -> None:
    folder = write(tmp_path / str(len(list(tmp_path.iterdir()))), names)
    assert found(folder) == offers


def test_what_is_offered_can_be_connected(tmp_path: Path) -> None:
    write(tmp_path, (DBT, *LOOKML, "tableau/Sales.twb", *PAGES))
    offers = source_offers(tmp_path, {}, config())
    assert [offer.label for offer in offers] == [
        "dbt project in dbt/",
        "LookML in bi/, 2 files",
        "Tableau files in tableau/, 1 file",
        "documents in handbook/, 2 Markdown files",
    ]
    entries = config(**{offer.id: {"driver": offer.driver, **offer.fields} for offer in offers})
    for offer in offers:
        check_source(entries, offer.id, project_dir=tmp_path, environ={})
    assert source_offers(tmp_path, {}, entries) == [], "each is configured now"


def test_an_id_that_is_taken(tmp_path: Path) -> None:
    write(tmp_path, (DBT,))
    assert [name for _, name, _ in found(tmp_path, dbt={"driver": "sqlite", "path": "x"})] == ["dbt-2"]
    assert len(found(tmp_path, dbt={"driver": "dbt", "repo_url": "https://git.example.com/x.git"})) == 1


LOOKER = {
    "base_url": "https://looker.example.com",
    "client_id": "env:LOOKERSDK_CLIENT_ID",
    "client_secret": "env:LOOKERSDK_CLIENT_SECRET",
}


@pytest.mark.table(
    ("environ", "offers"),
    [
        ({}, []),
        (
            {"METABASE_URL": "https://bi.example.com", "METABASE_API_KEY": "hunter22"},
            [("metabase", "metabase", {"api_url": "https://bi.example.com", "api_key": "env:METABASE_API_KEY"})],
        ),
        ({"METABASE_URL": "https://bi.example.com"}, []),
        ({"METABASE_URL": "bi.example.com", "METABASE_API_KEY": "hunter22"}, []),
        ({"METABASE_URL": "https://me:hunter22@bi.example.com", "METABASE_API_KEY": "k"}, []),
        ({"METABASE_URL": "http://[", "METABASE_API_KEY": "k"}, []),
        (
            {
                "LOOKERSDK_BASE_URL": "https://looker.example.com",
                "LOOKERSDK_CLIENT_ID": "id",
                "LOOKERSDK_CLIENT_SECRET": "hunter22",
            },
            [("looker", "looker", LOOKER)],
        ),
        (
            {"NOTION_API_KEY": "hunter22"},
            [("notion", "notion", {"auth_token": "env:NOTION_API_KEY", "crawl_mode": "all_accessible"})],
        ),
    ],
)
def test_services_of_the_environment(environ: dict[str, str], offers: list[Any], tmp_path: Path) -> None:
    assert found(tmp_path, environ) == offers
    assert "hunter22" not in str(source_offers(tmp_path, environ, config()))
    entries = {name: {"driver": driver, **fields} for driver, name, fields in offers}
    assert found(tmp_path, environ, **entries) == [], "each is configured now"
