"""The `semantic` block: by which calendar and clock questions to the semantic layer are answered."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project.config.base import Block, setting


class Semantic(Block):
    """How the semantic layer cuts time."""

    week_start: Literal["monday", "sunday"] = setting("monday", "The first day of a week.")
    fiscal_year_start: int = setting(1, "The month a fiscal year starts in, 1 to 12.", ge=1, le=12)
    timezone: str | None = setting(
        None,
        "Time zone of days, weeks and longer periods, an IANA name. Without it: UTC. A query may name another.",
        min_length=1,
        example="Europe/Berlin",
    )
