"""The values of templates: parameters of the question, checked."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.model import Column, Model, Parameter, SemanticError, Source
from ktx_cli.semantic.plan.planner import parameter_values
from ktx_cli.warehouses.port import SemanticType

DECLARED = {
    "text": Parameter("text", SemanticType.STRING, "x", ("x", "y")),
    "number": Parameter("number", SemanticType.NUMBER),
    "flag": Parameter("flag", SemanticType.BOOLEAN, False),
    "day": Parameter("day", SemanticType.TIME),
}
MODEL = Model(
    "c", "duckdb", {"s": Source("s", {"id": Column("id", SemanticType.NUMBER)}, ("id",), ("s",), parameters=DECLARED)}
)
DEFAULTS = {"text": "x", "flag": False}


@pytest.mark.table(
    ("given", "wanted"),
    [
        ({}, DEFAULTS),
        ({"text": "y"}, DEFAULTS | {"text": "y"}),
        ({"number": 1.5, "flag": True}, DEFAULTS | {"number": 1.5, "flag": True}),
        ({"day": "2024-01-01"}, DEFAULTS | {"day": "2024-01-01"}),
    ],
)
def test_what_is_given_or_declared(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    values, parameters = parameter_values(MODEL, given)
    assert parameters == wanted
    assert values == {f"param.{name}": value for name, value in wanted.items()}


@pytest.mark.table(
    ("given", "code", "hint"),
    [
        ({"txt": "x"}, "unknown_name", "did you mean `text`?"),
        ({"text": "z"}, "parameter", "use one of: x"),
        ({"text": 1}, "parameter", "declared in"),
        ({"number": "1"}, "parameter", "declared in"),
        ({"number": True}, "parameter", "declared in"),
        ({"number": float("nan")}, "parameter", ""),
        ({"number": float("inf")}, "parameter", ""),
        ({"flag": 1}, "parameter", "declared in"),
        ({"day": 20240101}, "parameter", "declared in"),
    ],
)
def test_what_does_not_fit(given: dict[str, Any], code: str, hint: str) -> None:
    with pytest.raises(SemanticError) as caught:
        parameter_values(MODEL, given)
    assert caught.value.code == code
    assert hint in (caught.value.hint or "")
