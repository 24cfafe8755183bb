"""dbt's compiled `target/manifest.json`, cut down to what says where tables are and how texts came out.

The whole file changes with every run of dbt (times, invocation ids); what is kept of it changes when the project does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.sources.model import RawFile
from ktx_cli.core.errors import ConfigError

PATH: Final = "target/manifest.json"
"""Where dbt writes it, below the project."""

MAX_BYTES: Final = 300_000_000
_OLDEST: Final = 4
"""The oldest schema version that is read (dbt 1.0)."""

_TABLES: Final = ("model", "seed", "snapshot")


@dataclass(frozen=True, slots=True)
class Known:
    """What the manifest knows of a table: `database`, `schema`, `name` of it in the database.

    `path`: the YAML file that describes it. `columns`: name -> description. `virtual`: there is no table for it.
    """

    kind: str
    name: str
    package: str
    source: str
    database: str
    schema: str
    table: str
    description: str = ""
    path: str = ""
    virtual: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)


def reduced(content: bytes, where: str) -> bytes:
    """Return what is kept of a manifest, the same bytes for the same project.

    Raises `ConfigError` for a file that is none, or of a version that is too old.
    """
    try:
        document = json.loads(content)
        version = int(str(document["metadata"]["dbt_schema_version"]).rpartition("/v")[2].partition(".")[0])
        nodes = [*_tables(document["nodes"].values()), *map(_source, document["sources"].values())]
        project = document["metadata"].get("project_name") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{where} is no manifest of dbt", hint="run `dbt parse`, or delete the file") from None
    if version < _OLDEST:
        raise ConfigError(
            f"{where} has version {version}, and {_OLDEST} or newer is read",
            hint="run `dbt parse` with dbt 1.0 or newer",
        )
    kept = sorted(nodes, key=lambda node: (node["kind"], node["package"], node["source"], node["name"]))
    return json.dumps({"project": project, "nodes": kept}, sort_keys=True, indent=0).encode()


def read_reduced(file: RawFile | None) -> tuple[str, list[Known]]:
    """Return the project's name and its tables; nothing where there is no manifest."""
    if file is None:
        return "", []
    document = json.loads(file.read())
    return document["project"], [Known(**node) for node in document["nodes"]]


def _tables(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_node(node) for node in nodes if node["resource_type"] in _TABLES]


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    config = node.get("config") or {}
    virtual = config.get("materialized") == "ephemeral"
    return {**_shared(node), "source": "", "table": node.get("alias") or node["name"], "virtual": virtual}


def _source(node: Mapping[str, Any]) -> dict[str, Any]:
    table = node.get("identifier") or node["name"]
    return {**_shared(node), "source": node["source_name"], "table": table, "virtual": False}


def _shared(node: Mapping[str, Any]) -> dict[str, Any]:
    columns = (node.get("columns") or {}).values()
    patch = str(node.get("patch_path") or node.get("original_file_path") or "")
    return {
        "kind": node["resource_type"], "name": node["name"], "package": node.get("package_name") or "",
        "database": node.get("database") or "", "schema": node.get("schema") or "",
        "description": node.get("description") or "", "path": patch.rpartition("://")[2],
        "columns": {each["name"]: each["description"] for each in columns if each.get("description")},
    }  # fmt: skip
