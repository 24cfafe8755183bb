"""Pieces of SQL in definitions: parsed in the connection's dialect, with the names they use and where these stand."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.context.semantic.errors import SemanticError, unknown
from ktx_cli.context.semantic.expressions.templates import has_other_braces, template_names
from ktx_cli.context.semantic.model import GRAINS
from ktx_cli.core.text import one_line

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST: Final = 20_000
"""Characters of the longest fragment that is parsed."""

_DATE_PARTS: Final = frozenset(
    (*GRAINS, "microsecond", "millisecond", "dayofweek", "dayofyear", "isoweek", "dow", "doy", "epoch")
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in a fragment. `aggregated`: inside an aggregate; `passed`: to a function nothing is known of."""

    parts: tuple[str, ...]
    aggregated: bool
    passed: bool

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def is_date_part(self) -> bool:
        """Whether it may be a part of a date, which some functions take as if it were a column."""
        return self.passed and len(self.parts) == 1 and self.parts[0].lower() in _DATE_PARTS


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a fragment names. `opaque`: it calls a function nothing is known of, which may be an aggregate.

    `nested`: it has an aggregate inside another one.
    """

    references: tuple[Reference, ...]
    aggregates: bool
    nested: bool
    opaque: bool


def read_fragment(text: str, dialect: str, what: str, parameters: Collection[str], *, policy: bool = False) -> Fragment:
    """Return an expression of a dialect, parsed as questions parse it.

    `what` names it in errors, `parameters` are those that are declared. Raises `SemanticError` for what is no single
    expression, holds a query or a window function, or a template that cannot have a value; a caller's attributes stand
    in policies alone.
    """
    from sqlglot import exp

    from ktx_cli.context.semantic.expressions.fragments import parse

    silence_parser()
    if len(text) > LONGEST:
        raise _refused(f"{what} is longer than {LONGEST:,} characters", "move it into the `sql` of a source")
    tree = parse(text, dialect, what=what, values=template_values(text, what, parameters, policy=policy))
    aggregates = [node for node in tree.walk() if is_aggregate(node)]
    return Fragment(
        tuple(_references(tree)),
        bool(aggregates),
        any(_is_inside(node.parent, is_aggregate) for node in aggregates),
        any(isinstance(node, exp.Anonymous) for node in tree.walk()),
    )


def template_values(text: str, what: str, parameters: Collection[str], *, policy: bool = False) -> dict[str, int]:
    """Return something for each template of a text to stand for; `SemanticError` for one that never has a value."""
    if "{{" not in text:
        return {}
    found = template_names(text)
    for kind, name in found:
        if kind == "param" and name not in parameters:
            raise unknown("parameter", name, parameters, f" (for {what})")
        if kind == "user" and not policy:
            raise _refused(f"{what} holds `user.{name}`, which stands in policies alone", "use {{ param.NAME }}")
        if kind not in ("param", "user"):
            raise _refused(f"{what} holds the unknown template `{kind}.{name}`", "write {{ param.NAME }}")
    if has_other_braces(text):
        raise _refused(f"{what} holds a template that cannot be read: {one_line(text, 100)}", "write {{ param.NAME }}")
    return {f"{kind}.{name}": 1 for kind, name in found}


@functools.cache
def silence_parser() -> None:
    """Keep what the parser logs of odd texts off standard error: what is wrong is a problem."""
    logging.getLogger("sqlglot").addHandler(logging.NullHandler())


def is_aggregate(node: Any) -> bool:
    """Say whether a node is an aggregate; `max(a, b)` of several values is none."""
    from sqlglot import exp

    return isinstance(node, exp.AggFunc) and not (isinstance(node, exp.Max | exp.Min) and bool(node.expressions))


def _references(tree: exp.Expr) -> Iterator[Reference]:
    from sqlglot import exp

    for node in tree.find_all(exp.Column):
        if isinstance(node.this, exp.Star):
            continue
        yield Reference(
            tuple(part.name for part in node.parts),
            _is_inside(node.parent, lambda each: is_aggregate(each) or isinstance(each, exp.Filter | exp.WithinGroup)),
            _is_inside(node.parent, lambda each: isinstance(each, exp.Anonymous)),
        )


def _is_inside(node: Any, fits: Any) -> bool:
    while node is not None:
        if fits(node):
            return True
        node = node.parent
    return False


def _refused(what: str, hint: str) -> SemanticError:
    return SemanticError(what, hint=hint, code="definition")
