"""What only the model can make of a question: which dimensions the grain is for, the types of parameters."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.jobs.semantic.question import Question, complete_query
from ktx_cli.semantic.model import Column, Model, Parameter, Source
from ktx_cli.warehouses.port import SemanticType

COLUMNS = {"at": Column("at", SemanticType.TIME), "status": Column("status", SemanticType.STRING)}
PARAMETERS = {
    "least": Parameter("least", SemanticType.NUMBER),
    "name": Parameter("name", SemanticType.STRING),
    "on": Parameter("on", SemanticType.BOOLEAN),
    "day": Parameter("day", SemanticType.TIME),
}
MODEL = Model("shop", "sqlite", {"orders": Source("orders", COLUMNS, (), ("orders",), parameters=PARAMETERS)})
MONTH = {"granularity": "month"}


@pytest.mark.table(
    ("asked", "cut"),
    [
        ([], [{"field": "metric_time", **MONTH}]),
        (["orders.at"], [{"field": "orders.at", **MONTH}]),
        (["at", "status"], [{"field": "at", **MONTH}, "status"]),
        (["AT"], [{"field": "AT", **MONTH}]),
        (["shipping.at"], [{"field": "shipping.at", **MONTH}]),
        (["metric_time"], [{"field": "metric_time", **MONTH}]),
        (["status"], ["status", {"field": "metric_time", **MONTH}]),
        ([{"field": "orders.at", "name": "when"}], [{"field": "orders.at", "name": "when", **MONTH}]),
        (
            [{"field": "orders.at", "granularity": "day"}],
            [{"field": "orders.at", "granularity": "day"}, {"field": "metric_time", **MONTH}],
        ),
        ([7, {"fild": "at"}], [7, {"fild": "at"}, {"field": "metric_time", **MONTH}]),
    ],
)
def test_the_grain(asked: list[Any], cut: list[Any]) -> None:
    query = {"measures": ["m"], "dimensions": asked}
    assert complete_query(Question(query, grain="month"), MODEL)["dimensions"] == cut
    assert complete_query(Question(query), MODEL) == query


@pytest.mark.table(
    ("name", "text", "value"),
    [
        ("least", "3", 3),
        ("least", "-3", -3),
        ("least", "2.5", 2.5),
        ("least", "many", "many"),
        ("name", "3", "3"),
        ("on", "True", True),
        ("on", "false", False),
        ("on", "1", "1"),
        ("day", "2024-01-01", "2024-01-01"),
        ("other", "3", "3"),
    ],
)
def test_parameters_have_their_declared_types(name: str, text: str, value: object) -> None:
    query = {"measures": ["m"], "parameters": {"kept": 1, name: "replaced"}}
    found = complete_query(Question(query, parameters={name: text}), MODEL)["parameters"]
    assert found == {"kept": 1, name: value}
    assert type(found[name]) is type(value)
    assert query["parameters"][name] == "replaced"
