"""Segments that a query history proposes: conditions on boolean or status columns by which people often filter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.semantic import Column, SemanticError, Source
from ktx_cli.warehouses import SemanticType

MOST: Final = 6
"""The maximum number of proposed segments per source."""

MOST_VALUES: Final = 3
"""The maximum number of values in a list that can get a meaningful name."""

_FLAG_PREFIX: Final = re.compile(r"^(?:is|has|was|flag)_(?=.)")
_NOT_PLAIN: Final = re.compile(r"[^a-z0-9]+")


def proposed_segments(source: Source, filters: Iterable[str], dialect: str) -> list[dict[str, Any]]:
    """Return the segments of a source for conditions in its queries, as they appear in the manifest.

    A condition concerns one column: a boolean, or text with values that the history kept in full. Redacted values,
    numbers, times, and conditions on several columns are specific to one question and do not become segments.
    """
    taken = {name.casefold() for name in source.columns}
    found: list[dict[str, Any]] = []
    for text in filters:
        name = _name(source, text, dialect)
        if name is None or name in taken or len(found) == MOST:
            continue
        taken.add(name)
        reason = f"Queries in the history often filter `{source.name}` by this condition."
        found.append({"name": name, "expr": text, "status": "proposed", "reason": reason})
    return found


def _name(source: Source, text: str, dialect: str) -> str | None:
    """Return the name of a condition, or None if it is not a segment."""
    from ktx_cli.semantic import parse

    try:
        tree = parse(text, dialect, what="a filter of the query history").unnest()
    except SemanticError:
        return None
    names = {column.name for column in tree.find_all(exp.Column)}
    column = source.column(names.pop()) if len(names) == 1 else None
    if column is None or "?" in text or any(tree.find_all(exp.Placeholder, exp.Parameter, exp.Func)):
        return None
    positive, condition = _polarity(tree)
    words = _flag(column, condition) or _values(column, condition)
    if words is None:
        return None
    is_true, name = words
    name = name if is_true is positive else f"not_{name}"
    return name if len(name) <= 40 else None


def _polarity(tree: exp.Expr) -> tuple[bool, exp.Expr]:
    """Return a condition without an enclosing NOT, and whether there was none."""
    positive = True
    while isinstance(tree, exp.Not):
        positive, tree = not positive, tree.this.unnest()
    return positive, tree


def _flag(column: Column, condition: exp.Expr) -> tuple[bool, str] | None:
    """Return whether a condition on a boolean column requires true, and the column's name without `is`."""
    if column.type is not SemanticType.BOOLEAN:
        return None
    name = _plain(_FLAG_PREFIX.sub("", column.name.lower()))
    if isinstance(condition, exp.Column):
        return True, name
    if isinstance(condition, exp.EQ | exp.Is | exp.NEQ) and isinstance(condition.expression, exp.Boolean):
        return bool(condition.expression.this) is not isinstance(condition, exp.NEQ), name
    return None


def _values(column: Column, condition: exp.Expr) -> tuple[bool, str] | None:
    """Return whether a condition on text requires these values or all others, and a name for the values."""
    if column.type is not SemanticType.STRING:
        return None
    values: Sequence[exp.Expr]
    if isinstance(condition, exp.EQ | exp.NEQ):
        values = (condition.expression,)
    elif isinstance(condition, exp.In) and not condition.args.get("query"):
        values = condition.expressions
    else:
        return None
    is_text = all(isinstance(value, exp.Literal) and value.is_string for value in values)
    if not is_text or not isinstance(condition.this, exp.Column) or not 0 < len(values) <= MOST_VALUES:
        return None
    words = [_plain(value.name) for value in values]
    if not all(words):
        return None
    return not isinstance(condition, exp.NEQ), "_or_".join(words)


def _plain(text: str) -> str:
    word = _NOT_PLAIN.sub("_", text.lower()).strip("_")
    return word if word[:1].isalpha() else ""
