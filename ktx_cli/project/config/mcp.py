"""The `mcp` block: on whose behalf the server for agents asks."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from ktx_cli.project.config.base import Block, setting, wrong


def _attribute(value: Any) -> Any:
    if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise wrong("must be a text, a number or a boolean")


Attribute = Annotated[
    str | int | float | bool,
    PlainValidator(_attribute),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


class Mcp(Block):
    """The server for agents."""

    user_attributes: dict[str, Attribute] = setting(
        {},
        "Attributes of the caller, used by row policies, for every question of an agent. A server that was started with"
        " `--user-attribute` uses its own value of the attributes it names.",
        example={"region": "EU"},
    )
