"""What is about the time a semi-additive measure goes over: such conditions come before its last moment is found."""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.expressions.names import Expression, Name
from ktx_cli.context.semantic.planning.plan import RowFilter


def is_of_time(rows: Rows, name: Name, expression: Expression, over: Name) -> bool:
    """Say whether a name is a time column of the fact itself, or of a calendar joined by it."""
    if name.is_metric_time:
        return rows.time == over
    path = rows.names.graph.path(rows.fact.name, name.hops, expression.via)
    if path is None:
        return False
    if not path.edges:
        return name.column == over.column
    return [own for own, _ in path.edges[0].pairs] == [over.column]


def is_condition_on_time(rows: Rows, expression: Expression, over: Name) -> bool:
    """Say whether a condition reads that time alone, one row of it for a row of the fact."""
    names = expression.names
    return (
        bool(names)
        and all(is_of_time(rows, name, expression, over) for name in names)
        and not rows.many_prefixes(expression)
    )


def split_by_time(
    rows: Rows, filters: Sequence[RowFilter], over: Name | None
) -> tuple[list[RowFilter], list[RowFilter]]:
    """Return the conditions on that time, and all others."""
    on_time = [each for each in filters if over is not None and is_condition_on_time(rows, each.expression, over)]
    return on_time, [each for each in filters if each not in on_time]


def note_of_rest(fact: str, take: str, over: Name, rest: Sequence[RowFilter]) -> str:
    """Return what the receipt says of conditions that come after the moment was found."""
    texts = ", ".join(f"`{each.expression.text}`" for each in rest)
    return (
        f"the {take} {over} is looked for among all rows of {fact}: {texts} holds after that; "
        f"conditions on {over} alone and the time_range hold before it"
    )
