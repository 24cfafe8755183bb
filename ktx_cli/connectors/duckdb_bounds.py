"""Bounds the functions of DuckDB that no setting bounds: `memory_limit` does not count the texts they build."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ktx_cli.connectors.guard.moments import (
    MAX_SERIES,
    is_unmeasured,
    items_between,
    seconds_of_moment,
    seconds_of_span,
)
from ktx_cli.connectors.statements import leading_keyword
from ktx_cli.core.errors import SourceError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_LENGTH = 1_000_000
"""How long a text or list may become, and by how much all `repeat` of a statement together may multiply one."""

_MULTIPLYING = frozenset({"repeat"})
_SIZED = {
    "repeat": 1,
    "lpad": 1,
    "rpad": 1,
    "list_resize": 1,
    "array_resize": 1,
    "bar": 3,
    "bitstring": 1,
    "reservoir_quantile": 2,
}
"""Functions by the place of the argument that says how much they build."""

_REPLACING = frozenset({"replace", "regexp_replace"})
_SERIES = frozenset({"range", "generate_series"})
_GROWING = frozenset({"*", "**", "^", "<<", "pow", "power", "multiply", "exp", "factorial", "!__postfix"})
_WIDE = re.compile(r"[%{:][^%{}a-zA-Z]*\d{5,}")
_FORMATS = frozenset({"printf", "format"})
_NAMES = re.compile(rf"({'|'.join((*_SIZED, *_SERIES, *_FORMATS, *_REPLACING))})", re.IGNORECASE)


def require_bounded_calls(cursor: DuckDBPyConnection, sql: str, where: str) -> None:
    """Raise `SourceError` (code `query`) for a call that would build a huge text or list.

    Lengths of texts and steps of lists must be written out; the ends of a list may be any value, but no product or
    power.
    """
    if not _NAMES.search(sql):
        return
    times = 1.0
    tree = _tree(cursor, sql, where)
    # As a table a series comes row by row; as a value it is one list.
    streamed = {id(each.get("function")) for each in _nodes(tree) if each.get("type") == "TABLE_FUNCTION"}
    for call in _calls(tree):
        name = str(call["function_name"]).lower()
        arguments = _arguments(call)
        if name in _SIZED and len(arguments) > _SIZED[name]:
            size = _number(arguments[_SIZED[name]])
            times *= max(1.0, size) if name in _MULTIPLYING else 1.0
            _require(max(size, times) <= MAX_LENGTH, name, where, f"at most {MAX_LENGTH:,}, as a number")
        elif name in _REPLACING and len(arguments) > 2:
            times *= _growth(name, arguments)
            _require(times <= MAX_LENGTH, name, where, "a shorter text to put in")
        elif name in _SERIES and id(call) not in streamed:
            _require(not any(_grows(each) for each in arguments), name, where, "no product or power")
            _require(_items(arguments) <= MAX_SERIES, name, where, f"at most {MAX_SERIES:,} items")
        elif name in _FORMATS and any(_WIDE.search(text) for each in arguments for text in _texts(each)):
            _require(False, name, where, "a width below 10,000")


def _require(holds: bool, name: str, where: str, wanted: str) -> None:
    if not holds:
        raise SourceError(
            f"{where}: the call of `{name}` may build more than memory holds",
            hint=f"give {name} {wanted}",
            code="query",
        )


def _tree(cursor: DuckDBPyConnection, sql: str, where: str) -> Any:
    """Return DuckDB's own tree of the statement (of the explained one for EXPLAIN)."""
    word, behind = leading_keyword(sql)
    if word == "EXPLAIN":
        sql = sql[behind:]
    row = cursor.execute("SELECT system.main.json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    _require(not tree["error"], "repeat, range or format", where, "in a statement of its own")
    return tree


def _calls(node: Any) -> Iterator[dict[str, Any]]:
    for each in _nodes(node):
        if "function_name" in each:
            yield each


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _arguments(call: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a function is called with; DuckDB 2 names it, DuckDB 1 does not."""
    if "arguments" in call:
        return [each["expression"] for each in call["arguments"]]
    return list(call["children"])


def _constant(node: dict[str, Any]) -> str | None:
    """Return a constant as text, None for anything else; `literal` is of DuckDB 2, `value` of DuckDB 1."""
    if node.get("class") == "CAST":
        return _constant(node["child"])
    if node.get("class") != "CONSTANT":
        return None
    if "literal" in node:
        return str(node["literal"].get("text"))
    return str(node["value"].get("value"))


def _number(node: dict[str, Any]) -> float:
    """Return a number that is written out, infinity for anything else."""
    try:
        return float(_constant(node) or math.inf)
    except ValueError:
        return math.inf


def _growth(name: str, arguments: list[dict[str, Any]]) -> float:
    """Return how much longer a text may become when each match of a written text is replaced by a longer one."""
    match, new = _constant(arguments[1]), _constant(arguments[2])
    length = len(match) if match and name == "replace" else 1
    return max(1.0, len(new or "") / length)


def _items(arguments: list[dict[str, Any]]) -> float:
    """Return how many items a list has at most: of numbers by the largest, of times by the step.

    Infinity where the step is not written out.
    """
    ends, steps = arguments[:2], arguments[2:]
    span = next(map(_span, steps), None)
    if span is None:
        written = math.isfinite(next(map(_number, steps), 1.0))
        return max(map(_largest, ends), default=0.0) if written else math.inf
    texts = [text for each in ends for text in _texts(each)]
    if any(map(is_unmeasured, texts)):
        return math.inf
    moments = [moment for text in texts if (moment := seconds_of_moment(text)) is not None]
    return items_between(moments, (_span(call) or 0.0 for each in ends for call in _calls(each)), span)


def _span(node: dict[str, Any]) -> float | None:
    """Return the seconds of an interval: a constant, or a number in `to_days`, as DuckDB reads INTERVAL 1 DAY."""
    if node.get("class") == "FUNCTION" and str(node["function_name"]).startswith("to_"):
        # DuckDB writes INTERVAL 1 DAY as to_days(trunc(1)).
        texts = (
            list(set(_texts(node))) if all(call["function_name"] == "trunc" for call in list(_calls(node))[1:]) else []
        )
        number = float(texts[0]) if len(texts) == 1 and re.fullmatch(r"-?\d+(\.\d+)?", texts[0]) else math.inf
        unit = str(node["function_name"]).removeprefix("to_")
        return seconds_of_span(f"{number:f}", unit) if math.isfinite(number) else 0.0
    text = _constant(node)
    return seconds_of_span(text) if text is not None else None


def _largest(node: Any) -> float:
    sizes = [_number(each) for each in _nodes(node) if "class" in each]
    return max((abs(size) for size in sizes if math.isfinite(size)), default=0.0)


def _grows(node: Any) -> bool:
    return any(str(call["function_name"]).lower() in _GROWING for call in _calls(node))


def _texts(node: Any) -> Iterator[str]:
    for each in _nodes(node):
        text = _constant(each)
        if text is not None:
            yield text
