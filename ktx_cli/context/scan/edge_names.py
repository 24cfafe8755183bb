"""What a person calls an edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.names import quoted
from ktx_cli.context.scan.relationships.model import Edge

ARROW = "->"


def edge_name(edge: Edge, names: Mapping[TableRef, str]) -> str:
    """Return what a person calls an edge: `orders.customer_id->customers.id`.

    Several columns stand in brackets; a name that is no plain word in double quotes; a reference that depends on a
    column ends in ` when owner_type=customer`.
    """
    child, parent = _end(names[edge.child], edge.child_columns), _end(names[edge.parent], edge.parent_columns)
    return f"{child}{ARROW}{parent}{_when(edge.condition)}"


def _end(source: str, columns: Sequence[str]) -> str:
    named = ",".join(map(quoted, columns))
    return f"{quoted(source)}.{named}" if len(columns) == 1 else f"{quoted(source)}.({named})"


def _when(condition: tuple[str, Any] | None) -> str:
    if condition is None:
        return ""
    column, value = condition
    return f" when {quoted(column)}={quoted(value) if isinstance(value, str) else value}"
