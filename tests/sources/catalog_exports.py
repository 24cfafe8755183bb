"""Exports of data catalogs, made from a few facts: proposals and snapshots of DataHub, entities of OpenMetadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

PROD = "PROD"


def dataset(name: str, platform: str = "duckdb", env: str = PROD) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:{platform},{name},{env})"


def field_urn(table: str, column: str) -> str:
    return f"urn:li:schemaField:({table},{column})"


def mcp(urn: str, aspect: str, content: Any, change: str = "UPSERT") -> dict[str, Any]:
    """Return a proposal of one aspect, as DataHub's file sink writes it."""
    kind = urn.removeprefix("urn:li:").partition(":")[0]
    return {
        "entityType": kind,
        "entityUrn": urn,
        "changeType": change,
        "aspectName": aspect,
        "aspect": {"json": content},
        "systemMetadata": {"lastObserved": 1, "runId": "run", "lastRunId": "no-run-id-provided"},
    }


def schema(*fields: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"schemaName": "x", "platform": "urn:li:dataPlatform:duckdb", "version": 0, "fields": list(fields), **more}


def column(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    kind = {"type": {"com.linkedin.schema.StringType": {}}}
    return {"fieldPath": name, "description": description, "nullable": True, "type": kind, **more}


def tags(*names: str) -> dict[str, Any]:
    return {"tags": [{"tag": f"urn:li:tag:{name}"} for name in names]}


def terms(*names: str) -> dict[str, Any]:
    stamp = {"time": 0, "actor": "urn:li:corpuser:ada"}
    return {"terms": [{"urn": f"urn:li:glossaryTerm:{name}"} for name in names], "auditStamp": stamp}


def term(name: str, definition: str, node: str = "", **more: Any) -> dict[str, Any]:
    parent = {"parentNode": f"urn:li:glossaryNode:{node}"} if node else {}
    content = {"name": name, "definition": definition, "termSource": "INTERNAL", **parent, **more}
    return mcp(f"urn:li:glossaryTerm:{name}", "glossaryTermInfo", content)


def snapshot_of(urn: str, **aspects: Any) -> dict[str, Any]:
    """Return an older record: all aspects of an entity in one snapshot."""
    space = "com.linkedin.pegasus2avro"
    listed = [{f"{space}.x.{name}": content} for name, content in aspects.items()]
    inner = {f"{space}.metadata.snapshot.DatasetSnapshot": {"urn": urn, "aspects": listed}}
    return {"auditHeader": None, "proposedSnapshot": inner, "proposedDelta": None}


def export(*records: Any) -> str:
    """Return a file as the file sinks write it: a list with one record after another."""
    return "[\n" + ",\n".join(json.dumps(each, indent=4) for each in records) + "\n]"


def om_column(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "dataType": "VARCHAR", **more}


def om_tags(*names: str, source: str = "Classification") -> list[dict[str, Any]]:
    return [{"tagFQN": name, "source": source, "labelType": "Manual", "state": "Confirmed"} for name in names]


def om_table(
    fqn: str, columns: Iterable[Mapping[str, Any]] = (), service: str = "DuckDB", **more: Any
) -> dict[str, Any]:
    """Return a table as OpenMetadata's API returns it."""
    *outer, name = fqn.split(".")
    return {
        "id": f"id-of-{fqn}",
        "name": name,
        "fullyQualifiedName": fqn,
        "tableType": "Regular",
        "columns": [dict(each) for each in columns],
        "databaseSchema": {"id": "s", "type": "databaseSchema", "fullyQualifiedName": ".".join(outer)},
        "service": {"id": "v", "type": "databaseService", "name": outer[0]},
        "serviceType": service,
        "deleted": False,
        **more,
    }


def om_term(fqn: str, description: str, **more: Any) -> dict[str, Any]:
    glossary, *_, name = fqn.split(".")
    return {
        "id": f"id-of-{fqn}",
        "name": name,
        "fullyQualifiedName": fqn,
        "description": description,
        "glossary": {"id": "g", "type": "glossary", "name": glossary, "fullyQualifiedName": glossary},
        **more,
    }
