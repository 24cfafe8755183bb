"""What models took as it stands in an envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ktx_cli.llm.usage_store import UsageRow

_NAMES: Final[Mapping[str, str]] = {
    "units": "calls",
    "unpriced_units": "unpriced_calls",
    "incomplete_units": "incomplete_calls",
}
"""What is billed as one unit is a call: a message of the API, a session of Claude Code. Units are those of a run."""


def usage_json(row: UsageRow, dimensions: Sequence[str]) -> dict[str, Any]:
    """Return a sum of usage as plain values."""
    return {_NAMES.get(name, name): value for name, value in row.to_json(dimensions).items()}
