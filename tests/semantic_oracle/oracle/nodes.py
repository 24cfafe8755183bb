"""The parts of an expression, and walking them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Lit:
    """A constant: None, bool, int, Fraction, str, date or datetime."""

    value: Any


@dataclass(frozen=True)
class Ref:
    """A name of one or more parts: `amount`, `orders.amount`, `bill.region.name`."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Slot:
    """`{{ user.NAME }}` or `{{ param.NAME }}`."""

    kind: str
    name: str


@dataclass(frozen=True)
class Op:
    """An operator with its operands: `+ - * / % || = <> < <= > >= and or not neg null in between like`."""

    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Call:
    """A function; `star` is `count(*)`, `where` its FILTER clause."""

    name: str
    args: tuple[Node, ...]
    distinct: bool = False
    star: bool = False
    where: Node | None = None


@dataclass(frozen=True)
class Case:
    """`CASE WHEN condition THEN value ... ELSE default END`."""

    whens: tuple[tuple[Node, Node], ...]
    default: Node


Node = Lit | Ref | Slot | Op | Call | Case

AGGREGATES = frozenset(
    [
        "sum",
        "avg",
        "min",
        "max",
        "count",
        "count_distinct",
        "median",
        "percentile",
        "stddev",
        "stddev_samp",
        "variance",
        "var_samp",
    ]
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a node."""
    if isinstance(node, Op):
        return node.args
    if isinstance(node, Call):
        return node.args + (() if node.where is None else (node.where,))
    if isinstance(node, Case):
        return (*tuple(part for pair in node.whens for part in pair), node.default)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def is_aggregate(node: Node) -> bool:
    """Whether a node is an aggregate's call."""
    return isinstance(node, Call) and node.name in AGGREGATES


def conjuncts(node: Node) -> list[Node]:
    """Split a condition at its top-level ANDs."""
    if isinstance(node, Op) and node.name == "and":
        return [part for arg in node.args for part in conjuncts(arg)]
    return [node]
