"""Policies, parameters and tests of a source."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.semantic.loading.columns import TYPES
from ktx_cli.context.semantic.loading.entry import Entry
from ktx_cli.context.semantic.model import MetricTest, Parameter, Policy

EXPECTATIONS = ("expect", "expect_value", "invariant")


def read_policy(entry: Entry) -> Policy | None:
    """Return a policy, None where something in it is wrong; its source must then not be read at all."""
    entry.check_keys(("name", "filter", "description"))
    policy = Policy(entry.required("name"), entry.required("filter"), entry.text("description"), entry.place)
    return None if entry.failed else policy


def read_parameter(entry: Entry) -> Parameter | None:
    """Return a parameter; its default must be one of its values, and all must be of its type."""
    entry.check_keys(("name", "type", "default", "values"))
    name, word = entry.required("name"), entry.word("type", TYPES)
    if word is None and not entry.failed:
        entry.error("missing", f"{entry.what} has no `type`", hint=f"add type: {'|'.join(TYPES)}")
    if entry.failed or word is None:
        return None
    kind, default = SemanticType(word), entry.values.get("default")
    parameter = Parameter(name, kind, default, _values(entry, kind), entry.place)
    if default is not None and not is_of(default, kind):
        entry.error(
            "value", f"`default` of {entry.what} is no {kind.value}", "default", hint=f"write a {kind.value} there"
        )
    elif default is not None and parameter.values and default not in parameter.values:
        entry.error("value", f"`default` of {entry.what} is none of its `values`", "default", hint="add it to `values`")
    return None if entry.failed else parameter


def _values(entry: Entry, kind: SemanticType) -> tuple[Any, ...]:
    listed = entry.values.get("values")
    if listed is None:
        return ()
    if isinstance(listed, list) and listed and all(is_of(each, kind) for each in listed):
        return tuple(listed)
    what = f"`values` of {entry.what} must be a list of values, each a {kind.value}"
    entry.error("value", what, "values", hint="write values: [first, second], or remove it")
    return ()


def is_of(value: Any, kind: SemanticType) -> bool:
    """Say whether a value of a file or a question is of a type; a time is a date or timestamp in ISO 8601."""
    if kind is SemanticType.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is SemanticType.BOOLEAN:
        return isinstance(value, bool)
    return isinstance(value, str) and (kind is SemanticType.STRING or _is_time(value))


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_test(entry: Entry) -> MetricTest | None:
    """Return a test: a question and exactly one of the things that say what must come out."""
    entry.check_keys(("name", "query", "tolerance", *EXPECTATIONS))
    said = [key for key in EXPECTATIONS if key in entry.values]
    if len(said) != 1:
        what = f"{entry.what} must have one of {', '.join(EXPECTATIONS)}, and has {' and '.join(said) or 'none'}"
        entry.error("value", what, *said[1:], hint="keep or add one of them")
    query = entry.mapping("query")
    if query is None and not entry.failed:
        entry.error("missing", f"{entry.what} has no `query`", hint="add query: {measures: [...]}")
    test = MetricTest(
        entry.required("name"), {} if query is None else query.values, _rows(entry), entry.values.get("expect_value"),
        entry.text("invariant"), _tolerance(entry), entry.place,
    )  # fmt: skip
    return None if entry.failed else test


def _rows(entry: Entry) -> tuple[tuple[Any, ...], ...] | None:
    rows = entry.values.get("expect")
    if "expect" not in entry.values:
        return None
    if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return tuple(tuple(row) for row in rows)
    entry.error(
        "shape", f"`expect` of {entry.what} must be a list of rows", "expect", hint="write expect: [[a, 1], [b, 2]]"
    )
    return None


def _tolerance(entry: Entry) -> float:
    value = entry.values.get("tolerance", 0)
    if is_of(value, SemanticType.NUMBER) and 0 <= value < 1e300:
        return float(value)
    entry.error(
        "value", f"`tolerance` of {entry.what} must be a number from 0", "tolerance", hint="write tolerance: 0.01"
    )
    return 0.0
