"""Every kind of error in a `ktx.yaml`: its words, its path, its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.config.file import load_config


def failure(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(Path("ktx.yaml"), data=text.encode()).require_valid()
    return caught.value


ERRORS: list[tuple[str, str, int, str | None, str | None]] = [
    # text, path, line, message behind the path, part of the hint
    (
        "llm: {provider: {backend: vrtex}}",
        "llm.provider.backend",
        1,
        "cannot be `vrtex`; use one of none,",
        "`vertex`?",
    ),
    ("llm:\n  provider: 3", "llm.provider", 2, "must be a mapping, not the number 3", "key: value"),
    ("llm:\n  models:\n    default: 4", "llm.models.default", 3, "must be a text, not the number 4", "double quotes"),
    ("llm: {models: [a]}", "llm.models", 1, "must be a mapping, not a list", None),
    (
        "ingest:\n  workUnits:\n    stepBudget: '4'",
        "ingest.workUnits.stepBudget",
        3,
        "must be a whole number, not the text `4`",
        "quotes",
    ),
    ("ingest: {workUnits: {stepBudget: 0}}", "ingest.workUnits.stepBudget", 1, "must be more than 0, not 0", None),
    ("ingest: {workUnits: {stepBudget: 1.5}}", "ingest.workUnits.stepBudget", 1, "must be a whole number, not", None),
    (
        "ingest: {workUnits: {stepBudget: true}}",
        "ingest.workUnits.stepBudget",
        1,
        "must be a whole number, not true",
        None,
    ),
    (
        "ingest: {rateLimit: {enabled: yes}}",
        "ingest.rateLimit.enabled",
        1,
        "must be true or false, not the text `yes`",
        "true or",
    ),
    (
        "ingest: {rateLimit: {throttleThreshold: 2}}",
        "ingest.rateLimit.throttleThreshold",
        1,
        "must be at most 1,",
        None,
    ),
    ("ingest: {rateLimit: {throttleThreshold: .nan}}", "ingest.rateLimit.throttleThreshold", 1, "must be", None),
    ("ingest: {adapters: dbt}", "ingest.adapters", 1, "must be a list, not the text `dbt`", "[one, two]"),
    ("ingest: {adapters: [dbt, 3]}", "ingest.adapters.1", 1, "must be a text, not the number 3", None),
    ("ingest: {profile: yaml}", "ingest.profile", 1, "must be true, false or `json`", None),
    (
        "scan: {relationships: {validationBudget: -1}}",
        "scan.relationships.validationBudget",
        1,
        "must be `all` or",
        None,
    ),
    ("scan: {privacy: none}", "scan.privacy", 1, "cannot be `none`; use one of off, local, strict", None),
    ("scan: {privacy: 1}", "scan.privacy", 1, "must be one of off, local, strict, not the number 1", None),
    (
        "scan:\n  relationships:\n    reviewThreshold: 0.9\n    acceptThreshold: 0.8",
        "scan.relationships.acceptThreshold",
        4,
        "is 0.8, less than the reviewThreshold of 0.9",
        "reviewThreshold",
    ),
    (
        "scan: {relationships: {acceptThreshold: 0.3}}",
        "scan.relationships.acceptThreshold",
        1,
        "is 0.3, less than",
        None,
    ),
    ("storage: {git: {author: ''}}", "storage.git.author", 1, "is empty", None),
    ("llm: {provider: {vertex: {project: p}}}", "llm.provider.vertex.location", 1, "is missing", "add it"),
    ("connections: [a]", "connections", 1, "must be a mapping, not a list", None),
    ("connections:\n  a:\n", "connections.a", 2, "must be a mapping with a `driver`", None),
    ("connections:\n  a: {host: h}", "connections.a", 2, "has no `driver`", "postgres"),
    (
        "connections:\n  a:\n    driver: postgre",
        "connections.a.driver",
        3,
        "is `postgre`, which is not a driver",
        "`postgres`?",
    ),
    ("connections:\n  a:\n    driver: [x]", "connections.a.driver", 3, "must be the name of a driver", None),
    ("connections:\n  list: {driver: sqlite, path: x}", "connections.list", 2, "is a subcommand of ktx", "`list-db`"),
    (
        "connections:\n  ../evil: {driver: sqlite, path: x}",
        "connections.../evil",
        2,
        "is not a valid connection id",
        "letter",
    ),
    ('connections:\n  "a\\n": {driver: sqlite, path: x}', "connections.a\n", 2, None, "letters"),
    ("connections:\n  -a: {driver: sqlite, path: x}", "connections.-a", 2, "is not a valid connection id", None),
    ("connections:\n  a:\n    driver: sqlite", "connections.a", 2, "needs `path` or `url`", "add `path`"),
    ("connections:\n  a: {driver: sqlite, path: ''}", "connections.a", 2, "needs `path` or `url`", None),
    ("connections:\n  a:\n    driver: files", "connections.a.path", 2, "is missing", None),
    ("connections:\n  a:\n    driver: postgres\n    user: u", "connections.a", 2, "needs `url` or `host`", None),
    (
        "connections:\n  a: {driver: mysql, host: h, port: 70000}",
        "connections.a.port",
        2,
        "must be a port number",
        None,
    ),
    ("connections:\n  a: {driver: mysql, host: h, port: abc}", "connections.a.port", 2, "must be a port number", None),
    ("connections:\n  a: {driver: mysql, host: h, port: true}", "connections.a.port", 2, "must be a port number", None),
    (
        "connections:\n  a: {driver: mysql, host: h, ssl: 1}",
        "connections.a.ssl",
        2,
        "must be true, false or a mapping",
        None,
    ),
    (
        "connections:\n  a: {driver: mysql, host: h, password: 123}",
        "connections.a.password",
        2,
        "must be a text",
        "quotes",
    ),
    ("connections:\n  a: {driver: postgres, host: h, sslmode: on}", "connections.a.sslmode", 2, "cannot be `on`", None),
    ("connections:\n  a: {driver: dbt, branch: x}", "connections.a", 2, "needs `source_dir` or `repo_url`", None),
    (
        "connections:\n  a: {driver: metabase, api_url: x}",
        "connections.a.api_url",
        2,
        "must be a URL that begins",
        "https",
    ),
    (
        "connections:\n  a: {driver: metabase, api_url: 'https://x', mappings: {databaseMappings: {x: y}}}",
        "connections.a.mappings.databaseMappings",
        2,
        "must have Metabase database IDs",
        None,
    ),
    (
        "connections:\n  a: {driver: notion, max_pages: 20000}",
        "connections.a.max_pages",
        2,
        "must be at most 10000,",
        None,
    ),
    ("connections:\n  a: {driver: metricflow}", "connections.a.metricflow", 2, "is missing", None),
    (
        "connections:\n  a: {driver: metricflow, metricflow: {branch: b}}",
        "connections.a.metricflow.repoUrl",
        2,
        "is miss",
        None,
    ),
]


@pytest.mark.table(("text", "path", "line", "message", "hint"), ERRORS)
def test_errors(text: str, path: str, line: int, message: str | None, hint: str | None) -> None:
    error = failure(text)
    assert error.message.startswith(f"ktx.yaml:{line}:")
    assert f"`{path.strip()}` {message or ''}" in error.message
    assert not error.message.endswith(".")
    assert (hint or "") in (error.hint or "")
    issue = error.details["issues"][0]
    assert (issue["path"], issue["line"], issue["severity"]) == (path, line, "error")
