"""The tool that shows what sources, tables and columns really have."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.mcp.tool import Call, Connection, Input, Offset, Paged, ServerTool, page_of

Target = Annotated[str, Field(min_length=1, max_length=400)]


class ShowEntities(Input):
    """What to show."""

    targets: list[Target] = Field(
        min_length=1,
        max_length=50,
        description="Sources (`orders`), tables as the database calls them (`shop.orders`), columns (`orders.amount`).",
    )
    connection: Connection | None = Field(None, description="Needed where several have a semantic layer.")
    offset: Offset = 0


class EntityFacts(BaseModel):
    """A source, or what was asked of it; a large one comes in several pieces. What is not said of it is left out."""

    model_config = ConfigDict(extra="forbid")

    connection: str
    name: str
    continues: bool = Field(description="The next entity goes on with this one.")
    facts: dict[str, Any] = Field(
        description="kind, table, description, grain, time; columns (name, type, expr, unit, description, values), "
        "measures (name, expr, filter), joins (to, on, relationship), segments, policies, parameters; `not_shown` "
        "counts what is hidden."
    )


class MissedTarget(BaseModel):
    """A name nothing has."""

    target: str
    message: str


class Entities(Paged):
    """What the names stand for."""

    part = "entities"

    connection: str
    entities: list[EntityFacts]
    missed: list[MissedTarget] = Field(description="Names nothing has, each with the one that was probably meant.")


def _show(call: Call, value: ShowEntities) -> Entities:
    from ktx_cli.jobs.serving.entities import entities

    found = entities(call.project, value.connection, value.targets, privacy=call.options.privacy)
    pieces = [
        EntityFacts(
            connection=each.pop("connection"), name=each.pop("name"), continues=each.pop("continues"), facts=each
        )
        for each in found.pieces
    ]
    page = page_of(pieces, value.offset, max(len(pieces), 1))
    missed = [MissedTarget(target=target[:100], message=message) for target, message in found.missed]
    return Entities(connection=found.connection, entities=page.pop("items"), missed=missed[:20], **page)


TOOLS: Final = (
    ServerTool(
        "entity_details",
        "Details of sources, tables, columns",
        "Show what sources, tables or columns have: types, keys, units, values seen, measures, joins. Use it before "
        "sl_query for exact names, and before sql_execution so that no name is guessed. "
        'Example: {"targets": ["orders", "customers.country"]}',
        ShowEntities,
        Entities,
        _show,
    ),
)
