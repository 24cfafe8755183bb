"""Sigma, read through its REST API."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Block, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress


class SigmaMappings(Block):
    """The mapping of Sigma connections to ktx connections."""

    connection_mappings: dict[str, str | None] = setting(
        {},
        "Connection by the ID of a connection in Sigma. Null skips its tables. Not needed if the project has one "
        "database.",
        alias="connectionMappings",
        example={"2b5c7d1e": "warehouse"},
    )


class SigmaConnection(SourceConnection):
    """A Sigma organization, read through its REST API."""

    needs_one_of = ("client_id",)

    driver: Literal["sigma"] = setting(REQUIRED, "Sigma.")
    api_url: WebAddress = setting(
        "https://api.sigmacomputing.com",
        "Address of the API for the cloud of your organization, from Administration > Developer Access.",
        example="https://aws-api.sigmacomputing.com",
    )
    client_id: str = setting(REQUIRED, "Client ID of the API credentials.", example="env:SIGMA_CLIENT_ID", min_length=1)
    client_secret: str | None = setting(
        None, "Client secret of the API credentials.", secret=True, example="env:SIGMA_CLIENT_SECRET"
    )
    client_secret_ref: str | None = setting(
        None, "Alias of `client_secret` for the TypeScript ktx.", secret=True, example="env:SIGMA_CLIENT_SECRET"
    )
    paths: list[str] = setting(
        [],
        "Workspaces and folders to read, such as `Finance` or `Finance/Reports`. Empty reads everything that the "
        "credentials can see.",
        example=["Finance/Reports"],
    )
    max_documents: int = setting(
        1000,
        "Maximum number of workbooks and data models per run. The ones that changed most recently are read.",
        ge=1,
        le=10000,
    )
    mappings: SigmaMappings = setting(SigmaMappings, "Mapping of Sigma connections.")
    connection_mappings: dict[str, str | None] = setting(
        {},
        "Alias of `mappings.connectionMappings` from the TypeScript ktx.",
        alias="connectionMappings",
        example={"2b5c7d1e": "warehouse"},
    )


SOURCE = SourceKind(
    driver="sigma",
    settings="ktx_cli.sources.sigma:SigmaConnection",
    source="ktx_cli.sources.sigma.source:SigmaSource",
    questions=(Question("url", required=True), Question("user", required=True), Question("token", required=True)),
    variables={
        "api_url": ("SIGMA_BASE_URL", "SIGMA_API_URL"),
        "client_id": ("SIGMA_CLIENT_ID",),
        "client_secret": ("SIGMA_CLIENT_SECRET",),
    },
)
