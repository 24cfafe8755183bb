"""Metabase, read through its API."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting, wrong
from ktx_cli.sources.registry import SourceKind, WebAddress


class MetabaseSelections(Block):
    """The selected Metabase content."""

    collections: list[Any] = setting([], "IDs of collections. `root` selects content that is not in a collection.")
    items: list[Any] = setting([], "IDs of cards and dashboards: `12`, `card:12` or `dashboard:12`.")


def _database_ids(value: Any) -> Any:
    if isinstance(value, dict) and not all(re.fullmatch(r"[1-9][0-9]*", str(key)) for key in value):
        raise wrong("must have Metabase database IDs (whole numbers from 1) as keys")
    return value


class MetabaseMappings(Block):
    """The mapping of Metabase databases to connections, and the content to read."""

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
        "Connection by Metabase database ID. Null skips the database.",
        alias="databaseMappings",
        example={"1": "warehouse"},
    )
    sync_enabled: Any = setting(
        None, "Whether to read a database, by Metabase database ID.", alias="syncEnabled", example={"1": True}
    )
    sync_mode: str = setting("ALL", "`ALL`, `ONLY` the selections, or all `EXCEPT` them.", alias="syncMode")
    selections: MetabaseSelections = setting(MetabaseSelections, "Content to read or exclude.")
    default_tag_names: list[str] = setting([], "Tags for pages created from Metabase.", alias="defaultTagNames")


class MetabaseConnection(SourceConnection):
    """A Metabase instance."""

    driver: Literal["metabase"] = setting(REQUIRED, "Metabase.")
    api_url: WebAddress = setting(
        REQUIRED, "Address of Metabase, for example https://metabase.acme.com.", example="https://metabase.example.com"
    )
    api_key: str | None = setting(None, "API key.", secret=True, example="env:METABASE_API_KEY")
    api_key_ref: str | None = setting(
        None, "Alias of `api_key` from older versions.", secret=True, example="env:METABASE_API_KEY"
    )
    network_proxy: Any = setting(None, "Proxy for connections to Metabase.", example="http://proxy.example.com:3128")
    mappings: MetabaseMappings = setting(MetabaseMappings, "Mapping of Metabase databases, and content to read.")


SOURCE = SourceKind(
    driver="metabase",
    settings="ktx_cli.sources.metabase:MetabaseConnection",
    source="ktx_cli.sources.metabase.source:MetabaseSource",
    questions=(Question("url", required=True), Question("token", required=True)),
    variables={"api_url": ("METABASE_URL",), "api_key": ("METABASE_API_KEY",)},
)
