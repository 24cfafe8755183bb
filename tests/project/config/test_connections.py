"""The declarations themselves: every setting described, defaults as the TypeScript ktx has them, drivers."""

from __future__ import annotations

from typing import Any

import pytest

from docs.settings import Entry, driver_entries, root_entries
from ktx_cli.project.config.base import Block
from ktx_cli.project.config.blocks import ROLES
from ktx_cli.project.config.connections import RESERVED_IDS, Database, SourceConnection, drivers, model_of
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.plugins import SOURCES, WAREHOUSES

ENTRIES: dict[str, Entry] = {entry.path: entry for entry in root_entries()} | {
    f"connections.{driver}.{entry.path}": entry for driver in drivers() for entry in driver_entries(driver)
}

DEFAULTS: dict[str, Any] = {
    "setup.database_connection_ids": [],
    "storage.state": "sqlite",
    "storage.search": "sqlite-fts5",
    "storage.git.author": None,
    "llm.provider.backend": "none",
    "llm.provider.gateway.auth": "key",
    "llm.provider.claude.allow_managed_policy": False,
    "llm.models": {},
    "llm.promptCaching.enabled": True,
    "llm.promptCaching.cacheSystem": True,
    "llm.promptCaching.cacheTools": True,
    "llm.promptCaching.cacheHistory": True,
    "llm.promptCaching.systemTtl": "5m",
    "llm.promptCaching.toolsTtl": "5m",
    "llm.promptCaching.historyTtl": "5m",
    "llm.promptCaching.vertexFallbackTo5m": False,
    "ingest.adapters": [],
    "ingest.embeddings.backend": "none",
    "ingest.embeddings.sentenceTransformers.base_url": "",
    "ingest.workUnits.stepBudget": 40,
    "ingest.workUnits.maxConcurrency": 1,
    "ingest.workUnits.failureMode": "continue",
    "ingest.rateLimit.enabled": True,
    "ingest.rateLimit.throttleThreshold": 0.8,
    "ingest.rateLimit.minConcurrencyUnderPressure": 1,
    "ingest.rateLimit.maxWaitMs": None,
    "ingest.rateLimit.retry.maxAttempts": 6,
    "ingest.rateLimit.retry.baseDelayMs": 1000,
    "ingest.rateLimit.retry.maxDelayMs": 60000,
    "ingest.rateLimit.retry.jitter": True,
    "ingest.profile": False,
    "agent.run_research.enabled": False,
    "agent.run_research.max_iterations": 20,
    "agent.run_research.default_toolset": ["sl_query", "wiki_search", "sl_read_source"],
    "semantic.layout": "per-schema",
    "semantic.week_start": "monday",
    "semantic.fiscal_year_start": 1,
    "semantic.timezone": None,
    "scan.privacy": "local",
    "scan.enrichment.mode": "none",
    "scan.relationships.enabled": True,
    "scan.relationships.llmProposals": True,
    "scan.relationships.validationRequiredForManifest": True,
    "scan.relationships.acceptThreshold": 0.6,
    "scan.relationships.reviewThreshold": 0.4,
    "scan.relationships.maxLlmTablesPerBatch": 40,
    "scan.relationships.maxCandidatesPerColumn": 25,
    "scan.relationships.profileSampleRows": 10000,
    "scan.relationships.profileConcurrency": 4,
    "scan.relationships.validationConcurrency": 4,
    "connections.sqlite.query_policy": "any",
    "connections.files.include": [],
    "connections.duckdb.exclude": [],
    "connections.postgres.maxConnections": 10,
    "connections.postgres.context.queryHistory.minExecutions": 5,
    "connections.postgres.context.queryHistory.windowDays": 90,
    "connections.postgres.context.queryHistory.filters.dropTrivialProbes": True,
    "connections.postgres.context.queryHistory.staleArchiveAfterDays": 90,
    "connections.snowflake.maxConnections": 4,
    "connections.metabase.mappings.syncMode": "ALL",
    "connections.notion.max_pages": 1000,
    "connections.notion.max_knowledge_creates": 25,
    "connections.notion.max_knowledge_updates": 20,
}

MINIMAL: dict[str, dict[str, Any]] = {
    "sqlite": {"path": "x.db"},
    "duckdb": {"url": "duckdb:///x.duckdb"},
    "files": {"path": "data"},
    "postgres": {"url": "env:PG"},
    "mysql": {"host": "db", "port": "3306"},
    "sqlserver": {"host": "db"},
    "clickhouse": {"host": "db"},
    "snowflake": {"account": "a"},
    "bigquery": {"credentials_json": "file:~/k.json"},
    "redshift": {"host": "db"},
    "hologres": {"host": "db"},
    "databricks": {"host": "db"},
    "trino": {"host": "db"},
    "iceberg": {"catalog": "rest"},
    "delta": {"path": "lake"},
    "mongodb": {"url": "env:URL", "databases": ["shop"]},
    "spark": {"host": "db"},
    "athena": {"region": "eu-north-1", "s3_staging_dir": "s3://harbour-results/"},
    "dbt": {"source_dir": "dbt"},
    "metricflow": {"metricflow": {"repoUrl": "git@host:org/repo.git"}},
    "lookml": {"repoUrl": "../lookml"},
    "powerbi": {"source_dir": "models"},
    "tableau": {"source_dir": "tableau"},
    "odcs": {"source_dir": "contracts"},
    "datahub": {"source_dir": "catalog"},
    "openmetadata": {"source_dir": "catalog"},
    "sigma": {"client_id": "c"},
    "looker": {"base_url": "https://l", "client_id": "c"},
    "metabase": {"api_url": "env:METABASE_URL"},
    "notion": {"crawl_mode": "all_accessible"},
    "confluence": {"base_url": "https://c/wiki"},
    "gdrive": {"folder_ids": ["f"]},
    "jira": {"base_url": "https://j", "projects": ["DATA"]},
    "documents": {"path": "handbook"},
}


def config(data: dict[str, Any]) -> KtxConfig:
    return KtxConfig.model_validate(data)


@pytest.mark.table("path", ENTRIES)
def test_every_setting_is_described(path: str) -> None:
    description = ENTRIES[path].setting.description
    assert len(description) > 3
    assert description.endswith((".", ":", "`"))


def test_every_block_is_described() -> None:
    def blocks(model: type[Block]) -> set[type[Block]]:
        from ktx_cli.project.config.base import settings_of

        return {model}.union(*(blocks(s.block) for s in settings_of(model).values() if s.block is not None))

    for model in blocks(KtxConfig).union(*(blocks(model_of(driver)) for driver in drivers())):
        assert model.__doc__ != Block.__doc__, model
        assert model.model_config["extra"] == "allow"


@pytest.mark.table("path", DEFAULTS)
def test_defaults(path: str) -> None:
    default = ENTRIES[path].setting.default
    assert default == DEFAULTS[path]
    assert type(default) is type(DEFAULTS[path])


def test_what_this_version_reads() -> None:
    used = {path for path, entry in ENTRIES.items() if entry.status == "used"}
    blocks = ("llm.", "ingest.rateLimit.")
    rest = {path for path in used if not path.startswith(("connections.", "serving.", *blocks))}
    scan = {path for path in rest if path.startswith("scan.")}
    keys = ("layout", "week_start", "fiscal_year_start", "timezone", "min_status", "open_decisions")
    semantic = {f"semantic.{key}" for key in keys}
    parts = ("ingest.embeddings.", "ingest.workUnits.", "ingest.executor", "ingest.workers.")
    ingest = {path for path in rest if path.startswith(parts)}
    storage = {f"storage.{key}" for key in ("state", "search", "postgres.url", "postgres.schema", "git.author")}
    others = {"setup.database_connection_ids", "mcp.user_attributes", "mounts"}
    assert rest - scan - ingest == semantic | storage | others
    assert {p for p, e in ENTRIES.items() if p.startswith("ingest.") and e.status != "used"} == {
        "ingest.adapters",
        "ingest.profile",
    }
    unread = {path for path, entry in ENTRIES.items() if path.startswith("scan.") and entry.status != "used"}
    assert unread == {path for path in ENTRIES if path.startswith("scan.enrichment.embeddings.")} != set()
    assert all(entry.status == "used" for path, entry in ENTRIES.items() if path.startswith(blocks))
    connections = {path: entry.status for path, entry in ENTRIES.items() if path.startswith("connections.")}
    assert {path.split(".")[1] for path, status in connections.items() if status == "used"} == set(drivers())
    assert "later" not in connections.values()


def test_settings_without_effect() -> None:
    dead = {path for path, entry in ENTRIES.items() if entry.status == "dead" and not path.startswith("connections.")}
    assert dead == {
        "storage.git.auto_commit",
        "agent.run_research.enabled",
        "agent.run_research.max_iterations",
        "agent.run_research.default_toolset",
        "memory",
    }
    assert ENTRIES["connections.sqlite.historicSql"].status == "dead"
    assert ENTRIES["connections.snowflake.historicSql"].status == "dead"
    assert ENTRIES["connections.dbt.profiles_path"].status == "dead"


@pytest.mark.table(
    "path", [p for p in ENTRIES if p.rsplit(".", 1)[-1] in ("password", "api_key", "auth_token", "url", "privateKey")]
)
def test_secrets_are_marked(path: str) -> None:
    file_based = path.startswith(("connections.sqlite.", "connections.duckdb."))
    assert ENTRIES[path].setting.secret != file_based


def test_every_driver_has_a_minimal_form() -> None:
    assert set(MINIMAL) == set(drivers())
    assert set(drivers()) == {*WAREHOUSES.built_in, *SOURCES.built_in}


@pytest.mark.table("driver", drivers())
def test_minimal_form_of_a_driver(driver: str) -> None:
    loaded = config({"connections": {"wh": {"driver": driver, **MINIMAL[driver]}}})
    entry = loaded.connections["wh"]
    assert entry.driver == driver
    assert entry.id == "wh"
    assert isinstance(entry, Database) == (driver in WAREHOUSES.built_in)
    assert isinstance(entry, SourceConnection) == (driver in SOURCES.built_in)


def test_databases_and_sources_keep_the_order_of_the_file() -> None:
    drivers = ("postgres", "dbt", "sqlite", "notion", "snowflake")
    loaded = config({"connections": {f"c-{d}": {"driver": d, **MINIMAL[d]} for d in drivers}})
    assert list(loaded.databases()) == ["c-postgres", "c-sqlite", "c-snowflake"]
    assert list(loaded.sources()) == ["c-dbt", "c-notion"]


def test_no_id_is_reserved_for_nothing() -> None:
    assert {"list", "test", "add", "remove", "query", "diagram"} <= set(RESERVED_IDS)
    assert len(set(RESERVED_IDS)) == len(RESERVED_IDS) == 15


def test_roles() -> None:
    assert list(ROLES) == [
        "default", "triage", "candidateExtraction", "writer", "curator", "reconcile", "repair",
    ]  # fmt: skip


def test_defaults_are_not_shared_between_configurations() -> None:
    first, second = config({}), config({})
    first.llm.models["default"] = "m"
    first.ingest.adapters.append("x")
    assert second.llm.models == {}
    assert second.ingest.adapters == []
    assert config({}).llm.models == {}
