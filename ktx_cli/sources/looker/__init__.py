"""Looker, read through its API."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress


class LookerMappings(Block):
    """The mapping of Looker connections to ktx connections."""

    connection_mappings: dict[str, str | None] = setting(
        {},
        "Connection by its name in Looker. Null skips it.",
        alias="connectionMappings",
        example={"looker_dwh": "warehouse"},
    )


class LookerConnection(SourceConnection):
    """A Looker instance, read through its API."""

    driver: Literal["looker"] = setting(REQUIRED, "Looker.")
    base_url: WebAddress = setting(
        REQUIRED, "Address of Looker, for example https://acme.cloud.looker.com.", example="https://looker.example.com"
    )
    client_id: str = setting(REQUIRED, "Client ID of the API key.", example="env:LOOKER_CLIENT_ID", min_length=1)
    client_secret: str | None = setting(
        None, "Client secret of the API key.", secret=True, example="env:LOOKER_CLIENT_SECRET"
    )
    client_secret_ref: str | None = setting(
        None, "Alias of `client_secret` from older versions.", secret=True, example="env:LOOKER_CLIENT_SECRET"
    )
    mappings: LookerMappings = setting(LookerMappings, "Mapping of Looker connections.")


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
