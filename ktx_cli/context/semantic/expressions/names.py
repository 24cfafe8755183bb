"""An expression with its names found: a tree in which every column is a number, and what each number stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

METRIC_TIME: Final = "metric_time"
"""The name that stands for each fact's own time column."""


@dataclass(frozen=True, slots=True)
class Name:
    """A column: the joins that lead to it, and its name verbatim. No hops: a column of the source looked from."""

    hops: tuple[str, ...]
    column: str

    @property
    def is_metric_time(self) -> bool:
        """Whether it stands for each fact's own time column."""
        return not self.hops and self.column == METRIC_TIME

    def __str__(self) -> str:
        return ".".join((*self.hops, self.column))


@dataclass(frozen=True, slots=True)
class Expression:
    """A tree whose placeholders `0`, `1`, ... stand for `names`, which are looked for from `home`.

    `home` None: the names are a question's, looked for from each fact. `text`: as it was written. `via`: what the paths
    of a question's names must go through.
    """

    tree: exp.Expr
    names: tuple[Name, ...]
    home: str | None
    text: str
    via: tuple[str, ...] = ()

    def bound(self, column: Callable[[Name], exp.Expr]) -> exp.Expr:
        """Return a copy of the tree with what `column` gives for each name."""
        return filled(self.tree, lambda number: column(self.names[number]))

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two expressions the same."""
        return self.tree, self.names, self.home, self.via


def filled(tree: exp.Expr, value: Callable[[int], exp.Expr]) -> exp.Expr:
    """Return a copy of a tree with every numbered placeholder replaced."""
    if isinstance(tree, exp.Placeholder):
        return value(int(tree.name))
    copy = tree.copy()
    for node in list(placeholders(copy)):
        node.replace(value(int(node.name)))
    return copy


def placeholders(tree: exp.Expr) -> Iterator[exp.Placeholder]:
    """Yield the numbered places of a tree."""
    for node in tree.walk():
        if isinstance(node, exp.Placeholder):
            yield node


def placeholder(number: int) -> exp.Placeholder:
    """Return the place of a number."""
    return exp.Placeholder(this=str(number))


def column_parts(column: exp.Column) -> tuple[str, ...]:
    """Return the names a column is written with, outermost first."""
    return tuple(part.name for part in column.parts)


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """Return the conditions a condition is made of by AND at its top."""
    found: list[exp.Expr] = []
    ahead = [tree]
    while ahead:
        node = ahead.pop().unnest()
        if isinstance(node, exp.And):
            ahead += (node.expression, node.this)
        else:
            found.append(node)
    return found


def with_names(
    tree: exp.Expr, home: str | None, text: str, find: Callable[[exp.Column], Name], via: Sequence[str] = ()
) -> Expression:
    """Return the expression of a tree, each of its columns found by `find`."""
    names: list[Name] = []
    copy = tree.copy()
    for column in [node for node in copy.walk() if isinstance(node, exp.Column)]:
        name = find(column)
        if name not in names:
            names.append(name)
        place = placeholder(names.index(name))
        if column is copy:
            copy = place
        else:
            column.replace(place)
    return Expression(copy, tuple(names), home, text, tuple(via))
