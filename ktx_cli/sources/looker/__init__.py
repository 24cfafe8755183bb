"""Looker, over its API."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress


class LookerMappings(Block):
    """Which connection of Looker is which connection here."""

    connection_mappings: dict[str, str | None] = setting(
        {},
        "Connection by Looker's name; null: not read.",
        alias="connectionMappings",
        example={"looker_dwh": "warehouse"},
    )


class LookerConnection(SourceConnection):
    """A Looker instance, over its API."""

    driver: Literal["looker"] = setting(REQUIRED, "Looker.")
    base_url: WebAddress = setting(REQUIRED, "Address of Looker.", example="https://looker.example.com")
    client_id: str = setting(REQUIRED, "Client id of the API key.", example="env:LOOKER_CLIENT_ID", min_length=1)
    client_secret: str | None = setting(
        None, "Client secret of the API key.", secret=True, example="env:LOOKER_CLIENT_SECRET"
    )
    client_secret_ref: str | None = setting(
        None, "The same, as older versions name it.", secret=True, example="env:LOOKER_CLIENT_SECRET"
    )
    mappings: LookerMappings = setting(LookerMappings, "Its connections.")


SOURCE = SourceKind(
    driver="looker",
    settings="ktx_cli.sources.looker:LookerConnection",
    source="ktx_cli.sources.looker.source:LookerSource",
    questions=(Question("url", required=True), Question("user", required=True), Question("token", required=True)),
    variables={
        "base_url": ("LOOKERSDK_BASE_URL", "LOOKER_BASE_URL"),
        "client_id": ("LOOKERSDK_CLIENT_ID", "LOOKER_CLIENT_ID"),
        "client_secret": ("LOOKERSDK_CLIENT_SECRET", "LOOKER_CLIENT_SECRET"),
    },
)
