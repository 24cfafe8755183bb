"""The JSON Schema of `ktx.yaml`, for editors and `ktx config schema`."""

from __future__ import annotations

import copy
import functools
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from ktx_cli.project.config.base import STATUS_KEY, Block
from ktx_cli.project.config.connections import DEVICE_PATTERN, ID_PATTERN, RESERVED_IDS
from ktx_cli.project.config.drivers import DRIVERS, model_of
from ktx_cli.project.config.llm import ROLES
from ktx_cli.project.config.root import KtxConfig

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
LATER: Final = "Later"
"""Ends the name of the definition of a block of which nothing is read yet, where another place reads it."""

NEEDS_ONE_OF: Final = {
    "sqlite": ("path", "url"),
    "duckdb": ("path", "url"),
    "postgres": ("url", "host"),
    "mysql": ("url", "host"),
    "sqlserver": ("url", "host"),
    "clickhouse": ("url", "host"),
    "redshift": ("url", "host"),
    "dbt": ("source_dir", "repo_url"),
}
"""The rule of `Connection.needs_one_of` by driver, as JSON Schema has to say it."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12); unknown keys are allowed, as in the file."""
    definitions = _definitions()
    root = definitions.pop(KtxConfig.__name__)
    root["properties"]["connections"] |= _connections()
    return {"$schema": DIALECT, **root, "title": "ktx.yaml", "$defs": definitions}


def _definitions() -> dict[str, Any]:
    models: list[type[Block]] = [KtxConfig, *map(model_of, DRIVERS)]
    _, schema = models_json_schema([(model, "validation") for model in models])
    definitions: dict[str, Any] = schema["$defs"]
    for driver, keys in NEEDS_ONE_OF.items():
        definitions[model_of(driver).__name__]["anyOf"] = [_given(key) for key in keys]
    for definition in [*definitions.values()]:
        for item in definition["properties"].values():
            if item.get(STATUS_KEY) == "later":
                _mark_later(item, definitions)
    models_of_roles = definitions["Llm"]["properties"]["models"]
    models_of_roles["properties"] = {role: {"type": "string", "description": says} for role, says in ROLES.items()}
    return definitions


def _connections() -> dict[str, Any]:
    """Return the part that chooses a connection's schema by its `driver`."""
    cases = [
        {
            "if": {"properties": {"driver": {"const": driver}}, "required": ["driver"]},
            "then": {"$ref": f"#/$defs/{model_of(driver).__name__}"},
        }
        for driver in DRIVERS
    ]
    return {
        "propertyNames": {
            "pattern": ID_PATTERN,
            "not": {"anyOf": [{"enum": list(RESERVED_IDS)}, {"pattern": DEVICE_PATTERN}]},
        },
        "additionalProperties": {
            "type": "object",
            "required": ["driver"],
            "properties": {"driver": {"enum": list(DRIVERS), "description": "What kind of connection it is."}},
            "allOf": cases,
        },
    }


def _given(key: str) -> dict[str, Any]:
    return {"required": [key], "properties": {key: {"minLength": 1}}}


def _mark_later(item: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Mark a setting as not read yet; a block in it becomes a copy of its own, since others may read the block."""
    if item[STATUS_KEY] == "used":
        item[STATUS_KEY] = "later"
    for part in (item, *item.get("anyOf", ())):
        if "$ref" in part and not part["$ref"].endswith(LATER):
            name = part["$ref"].rpartition("/")[2]
            part["$ref"] += LATER
            if name + LATER not in definitions:
                definitions[name + LATER] = unread = copy.deepcopy(definitions[name])
                for inner in unread["properties"].values():
                    _mark_later(inner, definitions)


@functools.cache
def block_properties() -> dict[str, dict[str, Any]]:
    """Return the schema of every setting: class name of its block -> key -> schema."""
    definitions = _definitions()
    return {name: definition["properties"] for name, definition in definitions.items()}
