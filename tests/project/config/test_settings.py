"""What a connector gets of a connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, SecretError
from ktx_cli.project.config.checks import literal_secrets
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.config.settings import resolve_options, secret_file_warnings
from ktx_cli.project.secrets import mask


def options(environ: dict[str, str] | None = None, folder: Path = Path(), **fields: Any) -> dict[str, Any]:
    entry = KtxConfig.model_validate({"connections": {"wh": fields}}).connections["wh"]
    return resolve_options(entry, project_dir=folder, environ=environ or {})


def test_fields_by_their_keys_without_defaults() -> None:
    given: dict[str, Any] = {
        "driver": "postgres",
        "host": "h",
        "port": 5433,
        "schema": "s",
        "rejectUnauthorized": False,
        "include": ["env:x.*"],
    }
    assert options(**given) == given


def test_keys_of_no_meaning_for_the_driver_have_none() -> None:
    found = options(driver="sqlite", path="x", schemas=["main"], password="env:NOT_LOOKED_UP")
    assert found == {"driver": "sqlite", "path": "x"}


def test_every_text_may_be_a_reference(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("from file\n")
    found = options(
        {"H": "host", "U": "user", "P": "6543"},
        tmp_path,
        driver="postgres",
        host="env:H",
        username="env:U",
        password="file:pw",
        port="env:P",
    )
    assert found == {"driver": "postgres", "host": "host", "username": "user", "password": "from file", "port": 6543}


@pytest.mark.table(
    ("fields", "key"),
    [
        ({"driver": "sqlite", "path": "file:data.db"}, "path"),
        ({"driver": "sqlite", "url": "file:data.db?mode=ro"}, "url"),
        ({"driver": "sqlite", "path": "~/x/../y.db"}, "path"),
        ({"driver": "duckdb", "url": "duckdb:///x.duckdb"}, "url"),
        ({"driver": "files", "path": "./data"}, "path"),
        ({"driver": "dbt", "repo_url": "file:///srv/dbt.git"}, "repo_url"),
        ({"driver": "mysql", "host": "h", "ssl": {"ca": "file:ca.pem", "rejectUnauthorized": True}}, "ssl"),
    ],
)
def test_paths_stay_as_they_are(fields: dict[str, Any], key: str) -> None:
    assert options(**fields)[key] == fields[key]


def test_a_path_may_come_from_the_environment() -> None:
    assert options({"DB": "x.db"}, driver="sqlite", path="env:DB")["path"] == "x.db"


def test_nested_blocks() -> None:
    found = options(
        {"T": "token"}, driver="metricflow", metricflow={"repoUrl": "file:///x", "auth_token_ref": "env:T", "more": 1}
    )
    assert found["metricflow"] == {"repoUrl": "file:///x", "auth_token_ref": "token"}


def test_a_missing_secret_names_reference_and_setting() -> None:
    with pytest.raises(SecretError) as caught:
        options(driver="mysql", host="h", password="env:PW")
    assert caught.value.message == (
        "the secret reference `env:PW` of connections.wh.password refers to a variable that is not set"
    )


@pytest.mark.table("port", ["abc", "0", "70000", "-1", "٣", "1.5"])
def test_a_port_that_is_none_is_not_shown(port: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options({"P": port}, driver="mysql", host="h", port="env:P")
    assert "connections.wh.port" in caught.value.message
    assert port not in caught.value.message


def test_secret_files_that_others_may_read(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("closed", 0o600)):
        (tmp_path / name).write_text("s")
        (tmp_path / name).chmod(mode)
    config = KtxConfig.model_validate(
        {
            "connections": {
                "a": {"driver": "postgres", "host": "h", "password": "file:open"},
                "b": {"driver": "postgres", "host": "h", "password": "file:closed"},
                "c": {"driver": "sqlite", "path": "file:open"},
                "d": {"driver": "postgres", "host": "h", "password": "file:missing"},
            },
            "llm": {"provider": {"anthropic": {"api_key": "file:open"}}},
        }
    )
    found = secret_file_warnings(config, project_dir=tmp_path)
    assert [("connections.a.password" in w.message, "llm.provider.anthropic.api_key" in w.message) for w in found] == [
        (True, False),
        (False, True),
    ]


def test_literal_secrets_never_say_the_secret() -> None:
    config = KtxConfig.model_validate(
        {
            "connections": {
                "a": {"driver": "postgres", "url": "postgres://u:canary@h/d?password=canary", "password": "canary"},
                "b": {"driver": "looker", "base_url": "https://l", "client_id": "x", "client_secret": "canary"},
                "c": {"driver": "mysql", "host": "h", "password": "${CANARY}"},
                "d": {"driver": "mysql", "host": "h", "username": "u", "password": "keyring:a/b"},
            }
        }
    )
    found = list(literal_secrets(config))
    assert [(issue.setting, issue.code) for issue in found] == [
        ("connections.a.url", "literal_secret"),
        ("connections.a.password", "literal_secret"),
        ("connections.b.client_secret", "literal_secret"),
        ("connections.c.password", "variable"),
    ]
    assert "canary" not in str([issue.to_json() for issue in found])
    assert found[3].hint == "did you mean env:CANARY?"


def test_secrets_in_clear_are_masked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.project.secrets._KNOWN", set())
    options(driver="postgres", host="db.example.com", password="canary-one")
    options(driver="postgres", url="postgresql://u:canary-two@db.example.com/x")
    assert mask("canary-one and canary-two at db.example.com") == "*** and *** at db.example.com"
