"""The `mcp` block: on whose behalf the server for agents asks."""

from __future__ import annotations

from ktx_cli.project.config.base import Block, setting


class Mcp(Block):
    """The server for agents."""

    user_attributes: dict[str, str | int | float | bool] = setting(
        {},
        "Attributes of the caller, used by row policies, for every question of an agent. A server that was started with"
        " `--user-attribute` uses its own value of the attributes it names.",
        example={"region": "EU"},
    )
