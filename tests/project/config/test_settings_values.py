"""`ktx config show/get/set`: values by dotted path."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from docs.settings import example_yaml
from ktx_cli.core import yaml
from ktx_cli.core.errors import KtxError, UsageError
from ktx_cli.project.config.connections import drivers
from ktx_cli.project.config.file import LoadedConfig, load_config
from ktx_cli.project.config.settings import get_value, parse_cli_value, shown_config

TEXT = """\
connections:
  my-wh: {driver: postgres, url: "postgres://u:canary-url@h/d", password: canary-pw, include: [a.*], ssl: true,
          apiToken: canary-extra, note: x, options: {secret: canary-deep}}
  bi: {driver: metabase, api_url: "https://m", api_key: env:KEY, mappings: {databaseMappings: {1: my-wh, 2: null}}}
llm: {provider: {backend: anthropic, anthropic: {api_key: canary-key}}, models: {default: m}}
"""


@pytest.fixture
def loaded() -> LoadedConfig:
    return load_config(Path("ktx.yaml"), data=TEXT.encode())


@pytest.mark.table(
    ("path", "value"),
    [
        ("llm.provider.backend", "anthropic"),
        ("llm.models.default", "m"),
        ("llm.models.curator", None),
        ("llm.models", {"default": "m"}),
        ("llm.promptCaching.systemTtl", "5m"),
        ("llm.provider.vertex", None),
        ("llm.provider.vertex.location", None),
        ("scan.enrichment.embeddings.openai.base_url", None),
        ("ingest.workUnits", {"stepBudget": 40, "maxConcurrency": 1, "failureMode": "continue"}),
        ("connections.my-wh.driver", "postgres"),
        ("connections.my-wh.include", ["a.*"]),
        ("connections.my-wh.include.0", "a.*"),
        ("connections.my-wh.port", None),
        ("connections.my-wh.maxConnections", 10),
        ("connections.my-wh.note", "x"),
        ("connections.bi.mappings.databaseMappings", {"1": "my-wh", "2": None}),
        ("connections.bi.mappings.databaseMappings.2", None),
        ("connections.bi.api_key", "env:KEY"),
        ("connections.my-wh.password", "***"),
        ("connections.my-wh.url", "postgres://u:***@h/d"),
        ("connections.my-wh.apiToken", "***"),
        ("connections.my-wh.options", {"secret": "***"}),
    ],
)
def test_get(loaded: LoadedConfig, path: str, value: Any) -> None:
    assert get_value(loaded, path) == value


def test_get_reveals_only_when_asked(loaded: LoadedConfig) -> None:
    assert get_value(loaded, "connections.my-wh.password", reveal=True) == "canary-pw"
    assert get_value(loaded, "llm.provider", reveal=True)["anthropic"] == {"api_key": "canary-key"}
    assert "canary" not in str(get_value(loaded, "connections"))


@pytest.mark.table(
    ("path", "hint"),
    [
        ("llm.provider.backnd", "did you mean `llm.provider.backend`?"),
        ("lm", "did you mean `llm`?"),
        ("connections.my-hw.driver", "did you mean `connections.my-wh`?"),
        ("connections.my-wh.pasword", "did you mean `connections.my-wh.password`?"),
        ("llm.provider.vertex.locaton", "did you mean `llm.provider.vertex.location`?"),
        ("llm.models.defautl", "did you mean `llm.models.default`?"),
        ("llm.provider.backend.x", None),
        ("connections.my-wh.include.7", None),
        ("connections.my-wh.port.x", None),
    ],
)
def test_get_of_what_is_no_setting(loaded: LoadedConfig, path: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        get_value(loaded, path)
    assert "is not a setting in ktx.yaml" in caught.value.message
    assert caught.value.exit_code == 2
    if hint:
        assert caught.value.hint == hint


@pytest.mark.table(
    ("path", "message"),
    [
        ("", "the key of the setting is empty"),
        (".", "the key of the setting is empty"),
        ("llm..provider", "a name is missing after `llm.`"),
    ],
)
def test_a_key_with_an_empty_part_says_so(loaded: LoadedConfig, path: str, message: str) -> None:
    for read in (partial(get_value, loaded), lambda key: parse_cli_value(key, "x")):
        with pytest.raises(UsageError) as caught:
            read(path)
        assert (caught.value.message, caught.value.exit_code) == (message, 2)
        assert caught.value.hint is not None and caught.value.hint.startswith("known settings: ")


def test_show_has_defaults_and_no_secret(loaded: LoadedConfig) -> None:
    shown = shown_config(loaded)
    assert "canary" not in str(shown)
    assert shown["llm"]["promptCaching"]["historyTtl"] == "5m"
    assert list(shown["connections"]) == ["my-wh", "bi"]
    assert shown["connections"]["bi"]["api_key"] == "env:KEY"
    assert "canary-extra" in str(shown_config(loaded, reveal=True))


def test_what_show_says_loads_to_the_same(loaded: LoadedConfig) -> None:
    for text in (TEXT, example_yaml()):
        before = load_config(Path("k"), data=text.encode())
        shown = shown_config(before, reveal=True)
        again = load_config(Path("k"), data=yaml.dump(shown).encode())
        assert shown_config(again, reveal=True) == shown


@pytest.mark.table(
    ("path", "text", "value"),
    [
        ("llm.provider.backend", "vertex", "vertex"),
        ("llm.models.default", "5", "5"),
        ("llm.models.default", "claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("llm.models", "{default: m}", {"default": "m"}),
        ("llm.provider.claude.allow_managed_policy", "true", True),
        ("ingest.workUnits.stepBudget", "12", 12),
        ("ingest.rateLimit.throttleThreshold", "1", 1.0),
        ("ingest.profile", "json", "json"),
        ("ingest.profile", "true", True),
        ("ingest.adapters", "a,b", ["a", "b"]),
        ("ingest.adapters", "[a, b]", ["a", "b"]),
        ("ingest.adapters", "[]", []),
        ("ingest.adapters", "7", ["7"]),
        ("scan.relationships.validationBudget", "all", "all"),
        ("scan.relationships.validationBudget", "5", 5),
        ("connections.my-wh.driver", "snowflake", "snowflake"),
        ("connections.my-wh.password", "0123", "0123"),
        ("connections.my-wh.password", "env:PW", "env:PW"),
        ("connections.my-wh.port", "5432", 5432),
        ("connections.my-wh.port", "env:PORT", "env:PORT"),
        ("connections.my-wh.include", "mart.*, raw.*", ["mart.*", "raw.*"]),
        ("connections.my-wh.include", "*_tmp", ["*_tmp"]),
        ("connections.my-wh.enabled_tables", "mart.orders", ["mart.orders"]),
        ("connections.my-wh.ssl", "{ca: x.pem}", {"ca": "x.pem"}),
        ("connections.my-wh.ssl", "false", False),
        ("connections.my-wh.schema", "no", "no"),
        ("connections.my-wh.context.queryHistory.windowDays", "30", 30),
        ("connections.bi.mappings.databaseMappings.3", "my-wh", "my-wh"),
        ("connections.docs.crawl_mode", "all_accessible", "all_accessible"),
    ],
)
def test_set(path: str, text: str, value: Any) -> None:
    found = parse_cli_value(path, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.table(
    ("path", "text", "message"),
    [
        (
            "ingest.workUnits.stepBudget",
            "many",
            "`ingest.workUnits.stepBudget` must be a whole number, not the text `many`",
        ),
        ("ingest.workUnits.stepBudget", "0", "must be"),
        ("llm.provider.backend", "opnai", "cannot be `opnai`; use one of none, anthropic,"),
        ("connections.wh.port", "x", "must be a port number"),
        ("connections.wh.driver", "no_such_driver", "cannot be `no_such_driver`"),
        ("scan.relationships.enabled", "yes", "must be true or false"),
        ("llm.provider", "x", "`llm.provider` is a block of settings"),
        ("llm.provider.vertex", "x", "is a block of settings"),
        ("connections", "x", "is a block of settings"),
        ("connections.wh", "x", "is a block of settings"),
        ("connections.wh.context", "x", "is a block of settings"),
    ],
)
def test_set_of_a_wrong_value(path: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cli_value(path, text)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.table(
    ("path", "hint"),
    [
        ("llm.provder.backend", "did you mean `llm.provider`?"),
        ("llm.models.curatr", "did you mean `llm.models.curator`?"),
        ("connections.wh.pasword", "did you mean `connections.wh.password`?"),
        ("llm.provider.backend.x", None),
    ],
)
def test_set_of_what_is_no_setting(path: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cli_value(path, "x")
    assert "is not a setting in ktx.yaml" in caught.value.message
    if hint:
        assert caught.value.hint == hint


def test_the_driver_decides_which_keys_there_are() -> None:
    assert parse_cli_value("connections.wh.path", "x", driver="sqlite") == "x"
    with pytest.raises(UsageError):
        parse_cli_value("connections.wh.host", "x", driver="sqlite")
    with pytest.raises(UsageError):
        parse_cli_value("connections.wh.ssl", "{ca: x}", driver="postgres")


@pytest.mark.table("driver", drivers())
def test_every_value_of_the_example_comes_back_from_its_text(driver: str) -> None:
    block = yaml.load(example_yaml(), where="example")["connections"][f"my-{driver}"]
    for key, value in block.items():
        if not isinstance(value, dict):
            text = value if isinstance(value, str) else yaml.flow(value)
            assert parse_cli_value(f"connections.wh.{key}", text, driver=driver) == value


@pytest.mark.table("text", ["[", "a: b: c", "\x00", "{", "*x", "- -"])
def test_text_that_is_no_yaml_is_an_error_of_the_user(text: str) -> None:
    with pytest.raises(KtxError) as caught:
        parse_cli_value("ingest.workUnits.stepBudget", text)
    assert caught.value.exit_code == 2
