"""Loading `ktx.yaml`: what loads, what is an error and where, what is only warned about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.settings import driver_entries, root_entries
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, KtxError, NoProjectError
from ktx_cli.project.config.connections import drivers, model_of
from ktx_cli.project.config.file import LoadedConfig, load_config

EXAMPLES = 2000 if os.environ.get("KTX_TEST_FULL") else 15
FILE = Path("ktx.yaml")

WRITTEN_BY_TYPESCRIPT = """\
setup:
  database_connection_ids:
    - warehouse
connections:
  warehouse:
    driver: postgres
    url: env:DATABASE_URL
    schemas: [public]
    enabled_tables: [public.orders, public.customers]
    context:
      queryHistory: {enabled: true, minExecutions: 5, filters: {dropTrivialProbes: true}}
  legacy-mysql: {driver: mysql, host: db.example.com, port: 3306, database: shop, username: ktx, password: env:PW}
  lake: {driver: snowflake, account: a, database: d, schema_names: [S], authMethod: rsa, privateKey: file:/k}
  big: {driver: bigquery, dataset_ids: [mart], credentials_json: file:~/key.json, location: EU}
  old: {driver: sqlserver, host: h, trustServerCertificate: true}
  click: {driver: clickhouse, host: h, databases: [d], ssl: true}
  lite: {driver: sqlite, path: ./shop.db}
  bi:
    driver: metabase
    api_url: https://bi.example.com
    api_key_ref: env:METABASE
    mappings: {databaseMappings: {1: warehouse, 2: null}, syncMode: ALL, defaultTagNames: [ktx]}
  look: {driver: looker, base_url: "https://l.example.com", client_id: x, client_secret_ref: env:LOOKER}
  lookml: {driver: lookml, repoUrl: "git@github.com:org/lookml.git", mappings: {expectedLookerConnectionName: dwh}}
  transform: {driver: dbt, repo_url: "https://github.com/org/dbt", branch: main}
  metrics: {driver: metricflow, metricflow: {repoUrl: "file:///srv/metrics.git"}}
  docs: {driver: notion, auth_token_ref: env:NOTION, crawl_mode: all_accessible, max_pages: 1000}
storage:
  state: sqlite
  search: sqlite-fts5
  git:
    author: ktx <ktx@example.com>
llm:
  provider:
    backend: anthropic
    anthropic:
      api_key: env:ANTHROPIC_API_KEY
  models:
    default: claude-sonnet-4-5
    triage: claude-haiku-4-5
  promptCaching: {enabled: true, systemTtl: 1h, toolsTtl: 1h, historyTtl: 5m, vertexFallbackTo5m: false}
ingest:
  adapters: []
  embeddings: {backend: none, dimensions: 8}
  workUnits: {stepBudget: 40, maxConcurrency: 1, failureMode: continue}
  rateLimit:
    enabled: true
    throttleThreshold: 0.8
    minConcurrencyUnderPressure: 1
    retry: {maxAttempts: 6, baseDelayMs: 1000, maxDelayMs: 60000, jitter: true}
  profile: false
agent:
  run_research: {enabled: false, max_iterations: 20, default_toolset: [sl_query, wiki_search, sl_read_source]}
scan:
  enrichment: {mode: none}
  relationships:
    enabled: true
    llmProposals: true
    validationRequiredForManifest: true
    acceptThreshold: 0.85
    reviewThreshold: 0.55
    maxLlmTablesPerBatch: 40
    maxCandidatesPerColumn: 25
    profileSampleRows: 10000
    profileConcurrency: 4
    validationConcurrency: 4
    validationBudget: all
"""


def load(text: str) -> LoadedConfig:
    return load_config(FILE, data=text.encode())


def failure(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(text).require_valid()
    return caught.value


def warned(text: str) -> dict[str, str]:
    """Return code by path."""
    return {issue.setting: issue.code for issue in load(text).issues}


def test_a_project_of_the_typescript_ktx_loads() -> None:
    loaded = load(WRITTEN_BY_TYPESCRIPT)
    assert len(loaded.config.connections) == 13
    assert list(loaded.config.databases()) == ["warehouse", "legacy-mysql", "lake", "big", "old", "click", "lite"]
    assert list(loaded.config.sources()) == ["bi", "look", "lookml", "transform", "metrics", "docs"]
    assert loaded.config.connections["lake"].id == "lake"
    codes = {issue.code for issue in loaded.issues}
    assert codes == {"no_effect"}  # defaults that were written out are nothing a person chose
    assert {i.setting for i in loaded.issues if i.code == "no_effect"} == {"agent"}


@pytest.mark.table("text", ["", "\n", "# only a comment\n", "---\n", "{}", "connections:\n", "llm:\n  models:\n"])
def test_nothing_in_it_is_an_empty_configuration(text: str) -> None:
    loaded = load(text)
    assert loaded.config.connections == {}
    assert loaded.config.llm.provider.backend == "none"
    assert loaded.config.storage.git.author is None
    assert loaded.issues == ()


def test_a_missing_file_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(NoProjectError) as caught:
        load_config(tmp_path / "ktx.yaml")
    assert str(tmp_path / "ktx.yaml") in caught.value.message
    assert caught.value.exit_code == 3


def test_the_file_on_disk_is_read_when_no_data_is_given(tmp_path: Path) -> None:
    path = tmp_path / "ktx.yaml"
    path.write_bytes(b"\xef\xbb\xbfllm: {models: {default: m}}\r\n")
    assert load_config(path).config.llm.models == {"default": "m"}


@pytest.mark.table("text", ["- a\n", "text", "5"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    error = failure(text)
    assert error.message == "ktx.yaml:1: the file must be a mapping of settings"
    assert error.exit_code == 2


def test_a_syntax_error_names_file_line_and_column() -> None:
    error = failure("connections:\n  a: [1\nllm: 3\n")
    assert error.message.startswith("ktx.yaml:3:")


def test_all_errors_of_a_file_come_together_in_its_order() -> None:
    text = "connections:\n  a: {driver: mysql, port: 0}\n  b: {driver: x}\nllm: {provider: {backend: y}}\nscn: {}\n"
    error = failure(text)
    issues = error.details["issues"]
    assert [(i["line"], i["path"]) for i in issues if i["severity"] == "error"] == [
        (2, "connections.a.port"),
        (3, "connections.b.driver"),
        (4, "llm.provider.backend"),
    ]
    assert [i["path"] for i in issues if i["severity"] == "warning"] == ["scn"]
    assert error.message.endswith("(and 2 more)")
    assert error.details["line"] == 2


def test_columns_count_characters_from_one() -> None:
    issue = load('"é": 1\nllm:\n    modls: {}\n').issues
    assert [(i.setting, i.line, i.column) for i in issue] == [("é", 1, 1), ("llm.modls", 3, 5)]


def test_a_secret_of_the_wrong_type_is_not_repeated() -> None:
    error = failure("connections:\n  a: {driver: postgres, host: h, password: 98765432}\n")
    assert "98765432" not in str(error.to_json())


UNKNOWN: list[tuple[str, str, str]] = [
    ("conections: {}", "conections", "did you mean `connections`?"),
    ("llm: {provder: {}}", "llm.provder", "did you mean `provider`?"),
    ("llm: {provider: {backnd: none}}", "llm.provider.backnd", "did you mean `backend`?"),
    ("llm: {prompt_caching: {}}", "llm.prompt_caching", "did you mean `promptCaching`?"),
    ("llm: {models: {defualt: m}}", "llm.models.defualt", "did you mean `default`?"),
    (
        "scan: {relationships: {acceptthreshold: 1}}",
        "scan.relationships.acceptthreshold",
        "did you mean `acceptThreshold`?",
    ),
    ("storage: {git: {zzz: 1}}", "storage.git.zzz", "known settings: author, auto_commit"),
    ("connections: {a: {driver: sqlite, path: x, pth: y}}", "connections.a.pth", "did you mean `path`?"),
    (
        "connections: {a: {driver: postgres, host: h, context: {queryHistry: {}}}}",
        "connections.a.context.queryHistry",
        "did you mean `queryHistory`?",
    ),
    ("connections: {a: {driver: dbt, source_dir: d, target_: x}}", "connections.a.target_", "did you mean `target`?"),
]


@pytest.mark.table(("text", "path", "hint"), UNKNOWN)
def test_unknown_keys_are_warned_about_at_every_level(text: str, path: str, hint: str) -> None:
    issue = next(issue for issue in load(text).issues if issue.setting == path)
    assert (issue.code, issue.severity, issue.hint) == ("unknown_key", "warning", hint)
    assert f"`{path}` is not a ktx setting" in issue.message


def test_unknown_keys_are_kept() -> None:
    loaded = load("new: {a: 1}\nconnections: {wh: {driver: sqlite, path: x, extra: [1]}}\n")
    assert loaded.config.model_extra == {"new": {"a": 1}}
    assert loaded.config.connections["wh"].model_extra == {"extra": [1]}
    assert loaded.raw["connections"]["wh"]["extra"] == [1]


WARNINGS: list[tuple[str, dict[str, str]]] = [
    ("storage: {state: sqlite, search: sqlite-fts5}", {}),
    ("storage: {state: postgres}", {"storage.state": "incomplete"}),
    ("storage: {search: postgres-hybrid}", {"storage.search": "incomplete"}),
    ("storage: {state: postgres, search: postgres-hybrid}", {"storage.state": "incomplete"}),
    ("ingest: {executor: postgres}", {"ingest.executor": "incomplete"}),
    (
        "storage: {search: postgres, postgres: {url: 'env:A', schema: ktx}}\ningest: {executor: postgres}",
        {"ingest.executor": "incomplete"},
    ),
    ("storage: {state: postgres, postgres: {url: 'env:A', schema: ktx}}\ningest: {executor: postgres}", {}),
    ("storage: {state: postgres, search: postgres, postgres: {url: 'env:A', schema: ktx}}", {}),
    ("memory: {auto: true}", {"memory": "no_effect"}),
    ("agent: {run_research: {enabled: true, max_iterations: 3}}", {"agent": "no_effect"}),
    ("storage: {git: {auto_commit: false}}", {"storage.git.auto_commit": "no_effect"}),
    ("connections: {a: {driver: sqlite, path: x, historicSql: {}}}", {"connections.a.historicSql": "no_effect"}),
    ("scan: {privacy: local}", {}),
    ("scan: {privacy: strict}", {}),
    ("setup: {database_connection_ids: [wh]}", {"setup.database_connection_ids.0": "unknown_connection"}),
    (
        "connections: {a: {driver: documents, path: x}}\nsetup: {database_connection_ids: [a]}",
        {"setup.database_connection_ids.0": "unknown_connection"},
    ),
    ("connections: {a: {driver: trino, host: h, port: 1, zz: 2}}", {"connections.a.zz": "unknown_key"}),
    ("connections: {a: {driver: notion}}", {"connections.a": "incomplete"}),
    (
        "connections: {a: {driver: dbt, source_dir: x, target: prod, profiles_path: x/profiles.yml}}",
        {"connections.a.profiles_path": "no_effect"},
    ),
    (
        "ingest: {adapters: [dbt], profile: json, workUnits: {stepBudget: 3, failureMode: abort}}",
        {"ingest.adapters": "not_yet", "ingest.profile": "not_yet"},
    ),
    ("ingest: {embeddings: {backend: openai, openai: {base_url: 'https://x'}}}", {}),
    (
        "scan: {enrichment: {embeddings: {backend: openai, dimensions: null, openai: {base_url: 'https://x'}}}}",
        {"scan.enrichment.embeddings.backend": "not_yet", "scan.enrichment.embeddings.openai.base_url": "not_yet"},
    ),
    ("connections: {a: {driver: postgres, host: h, password: hunter2}}", {"connections.a.password": "literal_secret"}),
    ("connections: {a: {driver: postgres, host: h, password: env:PW}}", {}),
    ("connections: {a: {driver: postgres, host: h, password: $PW}}", {"connections.a.password": "variable"}),
    ("connections: {a: {driver: postgres, url: 'postgres://u:p@h/d'}}", {"connections.a.url": "literal_secret"}),
    ("connections: {a: {driver: postgres, url: 'postgres://u@h/d'}}", {}),
    ("connections: {a: {driver: postgres, url: 'postgres://u:${PW}@h/d'}}", {"connections.a.url": "variable"}),
    ("connections: {a: {driver: sqlite, path: $HOME}}", {"connections.a.path": "variable"}),
    ("connections: {a: {driver: postgres, host: h, api_key: x}}", {"connections.a.api_key": "literal_secret"}),
    (
        "llm: {provider: {backend: gateway}}",
        {"llm.provider.gateway.api_key": "incomplete", "llm.models.default": "incomplete"},
    ),
    ("llm: {provider: {backend: vertex}, models: {default: m}}", {"llm.provider.vertex.location": "incomplete"}),
    ("llm: {provider: {backend: anthropic}, models: {default: m}}", {"llm.provider.anthropic.api_key": "incomplete"}),
    ("llm: {provider: {backend: claude-code}}", {}),
    ("llm: {provider: {backend: codex}}", {}),
    ("llm: {provider: {anthropic: {api_key: sk-1}}}", {"llm.provider.anthropic.api_key": "literal_secret"}),
]


@pytest.mark.table(("text", "expected"), WARNINGS)
def test_warnings(text: str, expected: dict[str, str]) -> None:
    found = load(text).issues
    codes: dict[str, str] = {}
    for issue in sorted(found, key=lambda issue: issue.code != "not_yet"):
        codes[issue.setting] = issue.code
    unexpected = {path: code for path, code in codes.items() if code != "unknown_key" or path in expected}
    assert unexpected == expected


def test_warnings_without_effect_yet_are_one_warning_of_a_command() -> None:
    loaded = load("ingest: {adapters: [dbt], profile: true}\nscan: {enrichment: {embeddings: {model: m}}}\nzzz: 1\n")
    warnings = loaded.warnings()
    assert [w.code for w in warnings] == ["config_unknown_key", "config_not_yet"]
    assert warnings[1].message.startswith(
        "3 settings in ktx.yaml have no effect in this version yet: ingest.adapters, "
    )
    assert warnings[1].to_json()["paths"] == ["ingest.adapters", "ingest.profile", "scan.enrichment.embeddings.model"]
    assert warnings[0].to_json()["line"] == 3
    warnings.clear()
    assert loaded.warnings()


def test_numbers_as_keys_are_texts() -> None:
    loaded = load("connections:\n  2024: {driver: sqlite, path: x}\n")
    assert list(loaded.config.connections) == ["2024"]
    assert "2024" in loaded.raw["connections"]


def test_drivers_that_do_not_occur_are_not_imported() -> None:
    code = (
        "import sys; from pathlib import Path; from ktx_cli.project import load_config;"
        "load_config(Path('k'), data=b'connections: {a: {driver: sqlite, path: x}}');"
        "print([m for m in sys.modules if m.startswith(('ktx_cli.project.config.', 'duckdb'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "connections" in done.stdout
    for name in ("sources", "warehouses", "documents", "docs", "schema", "duckdb"):
        assert name not in done.stdout


# Any mapping of known and unknown keys with values of any kind either loads or is a ConfigError in our words.

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 70000), st.floats(), st.sampled_from(["", "x", "env:A", "5", "$A", "all"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)


def _nested(entries: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    paths = sorted({entry.keys[:depth] for entry in entries for depth in range(1, len(entry.keys) + 1)})
    return st.dictionaries(st.sampled_from(paths), VALUES, max_size=5).map(_tree)


def _tree(flat: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for keys, value in flat.items():
        block = root
        for key in keys[:-1]:
            below = block.get(key)
            block = block.setdefault(key, {}) if isinstance(below, dict) or below is None else {}
            block = block if isinstance(block, dict) else {}
        block[keys[-1]] = value
    return root


CONNECTIONS = st.sampled_from(drivers()).flatmap(
    lambda driver: _nested(list(driver_entries(driver))).map(lambda entry: {**entry, "driver": driver})
)
FILES = st.tuples(
    _nested(list(root_entries())),
    st.dictionaries(st.one_of(st.text(max_size=4), st.sampled_from(["a", "wh-1"])), CONNECTIONS | VALUES, max_size=2),
).map(lambda parts: {**parts[0], "connections": parts[1]})


@settings(max_examples=EXAMPLES, deadline=None)
@given(FILES)
def test_anything_loads_or_is_an_error_in_our_words(data: dict[str, Any]) -> None:
    text = yaml.dump(data)
    try:
        loaded = load(text)
        loaded.require_valid()
    except KtxError as error:
        assert isinstance(error, ConfigError)
        issues = [issue for issue in error.details["issues"] if issue["severity"] == "error"]
        assert issues
        for issue in issues:
            assert issue["line"] is not None
            assert issue["message"].startswith("`")
            assert "is not valid" not in issue["message"]
            assert "nput should" not in issue["message"]
    else:
        assert set(loaded.config.connections) == set(loaded.raw.get("connections") or {})
        assert all(
            (issue.severity == "warning" and issue.line is not None) or issue.code == "incomplete"
            for issue in loaded.issues
        )
        for connection, entry in loaded.config.connections.items():
            assert type(entry) is model_of(entry.driver)
            assert entry.id == connection
