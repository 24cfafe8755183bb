"""Metabase, over its API."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting, wrong
from ktx_cli.sources.registry import SourceKind, WebAddress


class MetabaseSelections(Block):
    """What of Metabase is read."""

    collections: list[Any] = setting([], "Collections, by id; `root`: those in no other.")
    items: list[Any] = setting([], "Cards and dashboards: `12`, `card:12`, `dashboard:12`.")


def _database_ids(value: Any) -> Any:
    if isinstance(value, dict) and not all(re.fullmatch(r"[1-9][0-9]*", str(key)) for key in value):
        raise wrong("must have database ids of Metabase (whole numbers from 1) as keys")
    return value


class MetabaseMappings(Block):
    """Which database of Metabase is which connection, and what is read."""

    database_mappings: Annotated[
        dict[str, str | None],
        BeforeValidator(_database_ids),
        WithJsonSchema(
            {
                "type": "object",
                "propertyNames": {"pattern": "^[1-9][0-9]*$"},
                "additionalProperties": {"type": ["string", "null"]},
            }
        ),
    ] = setting(
        {},
        "Connection by database id of Metabase; null: not read.",
        alias="databaseMappings",
        example={"1": "warehouse"},
    )
    sync_enabled: Any = setting(
        None, "Whether to read, by database id of Metabase.", alias="syncEnabled", example={"1": True}
    )
    sync_mode: str = setting("ALL", "`ALL`, `ONLY` the selections, or all `EXCEPT` them.", alias="syncMode")
    selections: MetabaseSelections = setting(MetabaseSelections, "What is read.")
    default_tag_names: list[str] = setting([], "Tags given to what comes from here.", alias="defaultTagNames")


class MetabaseConnection(SourceConnection):
    """Metabase."""

    driver: Literal["metabase"] = setting(REQUIRED, "Metabase.")
    api_url: WebAddress = setting(REQUIRED, "Address of Metabase.", example="https://metabase.example.com")
    api_key: str | None = setting(None, "API key.", secret=True, example="env:METABASE_API_KEY")
    api_key_ref: str | None = setting(
        None, "The same, as older versions name it.", secret=True, example="env:METABASE_API_KEY"
    )
    network_proxy: Any = setting(None, "Proxy on the way to Metabase.", example="http://proxy.example.com:3128")
    mappings: MetabaseMappings = setting(MetabaseMappings, "Its databases, and what is read.")


SOURCE = SourceKind(
    driver="metabase",
    settings="ktx_cli.sources.metabase:MetabaseConnection",
    source="ktx_cli.sources.metabase.source:MetabaseSource",
    questions=(Question("url", required=True), Question("token", required=True)),
    variables={"api_url": ("METABASE_URL",), "api_key": ("METABASE_API_KEY",)},
)
