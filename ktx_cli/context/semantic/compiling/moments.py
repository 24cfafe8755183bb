"""What is about the time a semi-additive measure goes over: such conditions come before its last moment is found."""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.context.semantic.expressions.names import Name
from ktx_cli.context.semantic.planning.axis import TimeReader
from ktx_cli.context.semantic.planning.plan import RowFilter


def split_by_time(filters: Sequence[RowFilter], times: TimeReader) -> tuple[list[RowFilter], list[RowFilter]]:
    """Return the conditions on that time alone, and all others."""
    on_time = [each for each in filters if times.read(each.expression) is not None]
    return on_time, [each for each in filters if each not in on_time]


def note_of_rest(fact: str, take: str, over: Name, rest: Sequence[RowFilter]) -> str:
    """Return what the receipt says of conditions that come after the moment was found."""
    texts = ", ".join(f"`{each.expression.text}`" for each in rest)
    return (
        f"the {take} {over} is looked for among all rows of {fact}: {texts} holds after that; "
        f"conditions on {over} alone and the time_range hold before it"
    )
