"""The tool that says which databases and sources there are."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.jobs.semantic.layers import layer_ids
from ktx_cli.mcp.tool import Call, Input, Output, ServerTool
from ktx_cli.project.config.connections import Database


class ListConnections(Input):
    """No arguments."""


class ConnectionFacts(BaseModel):
    """One connection of the project."""

    id: str
    driver: str
    kind: Literal["database", "source"]
    dialect: str | None = Field(description="The SQL it speaks; null for a source.")
    semantic_layer: bool = Field(description="Whether sl_query can ask it.")


class Connections(Output):
    """The connections of the project, by id."""

    connections: list[ConnectionFacts]


def _list(call: Call, value: ListConnections) -> Connections:
    config = call.project.config()
    layers = set(layer_ids(call.project.layout))
    found = [
        ConnectionFacts(
            id=name,
            driver=entry.driver,
            kind="database" if isinstance(entry, Database) else "source",
            dialect=dialect_of(entry.driver),
            semantic_layer=name in layers and isinstance(entry, Database),
        )
        for name, entry in sorted(config.usable().items())
    ]
    return Connections(connections=found)


TOOLS: Final = (
    ServerTool(
        "connection_list",
        "Connections",
        "List the databases and context sources of this project. Call it first where a tool asks for a connection.",
        ListConnections,
        Connections,
        _list,
    ),
)
