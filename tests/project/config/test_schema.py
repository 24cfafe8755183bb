"""The JSON Schema, the reference and the example: what they say is what loads."""

from __future__ import annotations

import copy
import functools
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from docs.settings import driver_entries, example_yaml, root_entries, settings_table
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.config.connections import RESERVED_IDS, drivers, model_of
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.settings import DIALECT, json_schema

schema = functools.cache(json_schema)
table = functools.cache(settings_table)
example = functools.cache(example_yaml)


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def accepts(data: Any) -> bool:
    return bool(validator().is_valid(data))


def loads(data: Any) -> bool:
    try:
        load_config(Path("ktx.yaml"), data=yaml.dump(data).encode()).require_valid()
    except ConfigError:
        return False
    return True


def connection(**fields: Any) -> dict[str, Any]:
    return {"connections": {"wh": fields}}


def test_it_is_a_schema_of_2020_12() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == DIALECT
    assert json.loads(json.dumps(schema())) == schema()
    assert json_schema() == schema()


def test_every_reference_in_it_resolves() -> None:
    text = json.dumps(schema())
    for name in schema()["$defs"]:
        assert f"#/$defs/{name}" in text, f"{name} is never used"
    for part in text.split('"#/$defs/')[1:]:
        assert part.split('"')[0] in schema()["$defs"]


@pytest.mark.table("driver", drivers)
def test_every_setting_of_a_driver_is_in_it_with_description_and_status(driver: str) -> None:
    for entry in driver_entries(driver):
        item = schema()["$defs"][entry.model.__name__]["properties"][entry.setting.key]
        assert item["description"] == entry.setting.description
        assert item["x-ktx-status"] == entry.status
        assert item.get("x-ktx-secret", False) == entry.setting.secret


def found_at(keys: tuple[str, ...]) -> dict[str, Any]:
    """Return what the schema says of a setting, the way an editor gets there: through the references."""
    item: dict[str, Any] = schema()
    for key in keys:
        found = (
            next(part["$ref"] for part in (item, *item.get("anyOf", ())) if "$ref" in part) if item != schema() else ""
        )
        item = (schema()["$defs"][found.rpartition("/")[2]] if found else schema())["properties"][key]
    return item


def test_a_block_is_read_in_one_place_and_not_in_another() -> None:
    for keys in (("backend",), ("openai", "base_url"), ("sentenceTransformers",), ("sentenceTransformers", "base_url")):
        assert found_at(("ingest", "embeddings", *keys))["x-ktx-status"] == "used"
        assert found_at(("scan", "enrichment", "embeddings", *keys))["x-ktx-status"] == "later"
    assert "| `scan.enrichment.embeddings.openai.base_url` |" in table()


@pytest.mark.table("entry", root_entries)
def test_every_other_setting_is_in_it(entry: Any) -> None:
    item = found_at(entry.keys)
    assert item["description"] == entry.setting.description
    assert item["x-ktx-status"] == entry.status
    if not entry.setting.field.is_required() and entry.setting.default is not None:
        assert item["default"] == entry.setting.default


VALID: list[dict[str, Any]] = [
    {},
    {"unknown": {"a": 1}},
    connection(driver="sqlite", path="x", more=1),
    connection(driver="postgres", host="h", port="5432", ssl=True),
    connection(driver="postgres", url="env:X", sslmode="require"),
    connection(driver="mysql", host="h", ssl={"ca": "x"}),
    connection(driver="files", path="x"),
    connection(driver="dbt", repo_url="x"),
    connection(driver="metabase", api_url="https://x", mappings={"databaseMappings": {"1": None, "2": "wh"}}),
    {"ingest": {"profile": "json"}},
    {"ingest": {"profile": True}},
    {"scan": {"relationships": {"validationBudget": "all", "acceptThreshold": 1, "reviewThreshold": 0}}},
    {"llm": {"provider": {"backend": "codex"}, "models": {"default": "m", "other": "m"}}},
]

INVALID: list[dict[str, Any]] = [
    connection(path="x"),
    connection(driver="sqlight", path="x"),
    connection(driver="sqlite"),
    connection(driver="sqlite", path=5),
    connection(driver="postgres"),
    connection(driver="postgres", host="h", port=0),
    connection(driver="postgres", host="h", ssl={}),
    connection(driver="mysql", host="h", ssl=3),
    connection(driver="files"),
    connection(driver="dbt", branch="x"),
    connection(driver="looker", base_url="https://x"),
    connection(driver="notion", max_pages=0),
    connection(driver="sqlite", path="x", include="mart.*"),
    {"connections": {"a/b": {"driver": "sqlite", "path": "x"}}},
    *({"connections": {reserved: {"driver": "sqlite", "path": "x"}}} for reserved in RESERVED_IDS[:2]),
    {"llm": {"provider": {"backend": "open-ai"}}},
    {"llm": {"models": {"default": 3}}},
    {"ingest": {"profile": "yaml"}},
    {"ingest": {"workUnits": {"stepBudget": 0}}},
    {"ingest": {"rateLimit": {"throttleThreshold": 1.5}}},
    {"scan": {"privacy": "none"}},
    {"scan": {"relationships": {"validationBudget": -1}}},
    {"storage": {"git": {"author": ""}}},
]


@pytest.mark.table("data", VALID)
def test_it_accepts_what_loads(data: dict[str, Any]) -> None:
    assert loads(data)
    assert accepts(data)


@pytest.mark.table("data", INVALID)
def test_it_refuses_what_does_not_load(data: dict[str, Any]) -> None:
    assert not loads(data)
    assert not accepts(data)


VALUES: list[Any] = [
    *("", "x", "5", "env:X", "https://x", "all", "json", 0, 1, -1, 70000, 0.5, 1.5, True),
    *([], ["a"], [1], {}, {"a": "b"}, {"1": "b"}, {"1": None}),
]
FULL = bool(os.environ.get("KTX_TEST_FULL"))
if not FULL:
    VALUES = VALUES[::3]
REQUIRED_OF: dict[str, dict[str, Any]] = {
    "sqlite": {"path": "x"},
    "duckdb": {"path": "x"},
    "files": {"path": "x"},
    "postgres": {"host": "h"},
    "mysql": {"host": "h"},
    "sqlserver": {"host": "h"},
    "clickhouse": {"host": "h"},
    "redshift": {"host": "h"},
    "dbt": {"source_dir": "x"},
    "metricflow": {"metricflow": {"repoUrl": "x"}},
    "lookml": {"repoUrl": "x"},
    "powerbi": {"source_dir": "x"},
    "tableau": {"source_dir": "x"},
    "odcs": {"source_dir": "x"},
    "datahub": {"source_dir": "x"},
    "openmetadata": {"source_dir": "x"},
    "sigma": {"client_id": "x"},
    "looker": {"base_url": "https://x", "client_id": "x"},
    "metabase": {"api_url": "https://x"},
    "confluence": {"base_url": "https://x"},
    "gdrive": {"folder_ids": ["x"]},
    "jira": {"base_url": "https://x", "projects": ["x"]},
    "documents": {"path": "x"},
}


def put(block: dict[str, Any], keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(block)
    inner = result
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
    inner[keys[-1]] = value
    return result


@pytest.mark.table("entry", root_entries)
def test_it_agrees_with_loading_on_every_setting(entry: Any) -> None:
    for value in VALUES:
        data = put({}, entry.keys, value)
        if "Threshold" in entry.keys[-1] and accepts(data):
            continue  # the rule between the two thresholds is none that JSON Schema can say
        assert accepts(data) == loads(data), data


def declaring(entry: Any) -> type:
    """Return the class in which a field stands, which is that of several drivers where they inherit it."""
    return next(
        each for each in entry.model.__mro__ if entry.setting.attribute in vars(each).get("__annotations__", {})
    )


@functools.cache
def first_drivers() -> dict[tuple[type, tuple[str, ...]], str]:
    """Return the first driver that has a field, by the class that declares it and by its keys."""
    every = [(driver, entry) for driver in drivers() for entry in driver_entries(driver)]
    return {(declaring(entry), entry.keys): driver for driver, entry in reversed(every)}


@pytest.mark.table("driver", drivers)
def test_it_agrees_with_loading_on_every_field(driver: str) -> None:
    """All of a driver's fields; of those it shares with others the first that has them, all with KTX_TEST_FULL."""
    minimal = {"driver": driver, **REQUIRED_OF.get(driver, {})}
    for entry in driver_entries(driver):
        if not FULL and first_drivers()[declaring(entry), entry.keys] != driver:
            continue
        for value in VALUES if entry.path != "driver" else ():
            data = {"connections": {"wh": put(minimal, entry.keys, value)}}
            assert accepts(data) == loads(data), data


def test_the_example_loads_and_is_valid() -> None:
    loaded = load_config(Path("ktx.example.yaml"), data=example().encode())
    assert {issue.code for issue in loaded.issues} <= {"not_yet"}
    validator().validate(loaded.raw)
    assert {entry.driver for entry in loaded.config.connections.values()} == set(drivers())


@pytest.mark.table("driver", drivers)
def test_each_connection_of_the_example_is_a_valid_file_of_its_own(driver: str) -> None:
    block = yaml.load(example(), where="example")["connections"][f"my-{driver}"]
    data = {"connections": {"wh": block}}
    assert accepts(data)
    assert loads(data)


def test_every_setting_that_can_have_an_effect_is_in_the_example_once() -> None:
    """What every database takes stands in the first one; a block that occurs twice stands where it is first."""
    data = yaml.load(example(), where="example")
    found: list[tuple[str, str]] = []

    def collect(model: Any, block: dict[str, Any]) -> None:
        from ktx_cli.project.config.base import settings_of

        for key, declared in settings_of(model).items():
            if key in block and declared.block is not None:
                collect(declared.block, block[key])
            elif key in block:
                found.append((next(c for c in reversed(model.__mro__) if key_of(c, key)).__name__, key))

    def key_of(model: Any, key: str) -> bool:
        from ktx_cli.project.config.base import settings_of

        return hasattr(model, "model_fields") and key in settings_of(model)

    collect(type(load_config(Path("k"), data=b"").config), {k: v for k, v in data.items() if k != "connections"})
    for driver in drivers():
        collect(model_of(driver), data["connections"][f"my-{driver}"])
    wanted = {
        (next(c for c in reversed(entry.model.__mro__) if key_of(c, entry.setting.key)).__name__, entry.setting.key)
        for entry in [*root_entries(), *(e for d in drivers() for e in driver_entries(d))]
        if entry.status != "dead"
    }
    assert set(found) == wanted
    shared = {
        ("Database", key) for key in ("include", "exclude", "enabled_tables", "query_policy", "allowed_functions")
    }
    assert {item for item in found if found.count(item) > 1} & shared == set()


@pytest.mark.table("entry", root_entries)
def test_every_setting_is_in_the_reference(entry: Any) -> None:
    (row,) = [line for line in table().splitlines() if line.startswith(f"| `{entry.path}` |")]
    assert entry.setting.description.split(":")[0] in row
    assert row.endswith({"used": "| used |", "later": "| later |", "dead": "| no effect |"}[entry.status])


@pytest.mark.table("driver", drivers)
def test_every_driver_is_in_the_reference(driver: str) -> None:
    section = table().split(f"\n### `{driver}`\n")[1].split("\n##")[0]
    shared = table().split("\n### Every database\n")[1].split("\n##")[0]
    for entry in driver_entries(driver):
        assert f"| `{entry.path}` |" in section or f"| `{entry.path}` |" in shared
    assert model_of(driver).__doc__ in section


def test_the_reference_is_a_markdown_table() -> None:
    for line in table().splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 6, line


@pytest.mark.table(
    "row",
    [
        "| `ingest.workUnits.stepBudget` | whole number, more than 0 | `40` |",
        "| `ingest.rateLimit.throttleThreshold` | number, 0 to 1 | `0.8` |",
        "| `ingest.profile` | true or false or `json` | `false` |",
        "| `scan.privacy` | `off`, `local`, `strict` | `local` |",
        "| `setup.database_connection_ids` | list of texts | `[]` |",
        "| `port` | whole number, 1 to 65535 or text |  |",
        "| `enabled_tables` | list of texts |  |",
        "| `ssl` | true or false or mapping |  |",
        "| `llm.models` | mapping | `{}` |",
        "| `api_url` | text | required |",
    ],
)
def test_types_and_defaults_in_the_reference(row: str) -> None:
    assert f"\n{row}" in table()
