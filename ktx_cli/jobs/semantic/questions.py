"""A question as a caller puts it: the query of the semantic layer, and what only the model can make sense of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.semantic.model import Column, Model, Parameter

_TIME: Final = "metric_time"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and by whom.

    `query`: as JSON has it. `grain`: for the dimensions that are times and have none; where none is a time,
    `metric_time` becomes one. `parameters`: texts, read as their declarations say. `attributes`: of the caller, for
    policies. `verified`: whether every row of the answer is recomputed from raw rows; None: a sample of them, where
    numbers count rows of another time than their period.
    """

    query: Mapping[str, Any]
    connection: str | None = None
    grain: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    verified: bool | None = None


def shaped(question: Question, model: Model) -> dict[str, Any]:
    """Return the query with the grain and the parameters in their places."""
    query = dict(question.query)
    if question.grain is not None:
        query["dimensions"] = _with_grain(list(query.get("dimensions") or ()), question.grain, model)
    if question.parameters:
        declared = {name: each for source in model.sources.values() for name, each in source.parameters.items()}
        typed = {name: _typed(text, declared.get(name)) for name, text in question.parameters.items()}
        query["parameters"] = {**(query.get("parameters") or {}), **typed}
    return query


def _with_grain(dimensions: list[Any], grain: str, model: Model) -> list[Any]:
    cut = [{**_object(each), "granularity": grain} if _is_bare_time(each, model) else each for each in dimensions]
    has_time = any(each != other for each, other in zip(cut, dimensions, strict=True))
    return cut if has_time else [*cut, {"field": _TIME, "granularity": grain}]


def _object(dimension: Any) -> dict[str, Any]:
    return {"field": dimension} if isinstance(dimension, str) else dict(dimension)


def _is_bare_time(dimension: Any, model: Model) -> bool:
    """Whether a dimension is a time that is not cut yet."""
    if not isinstance(dimension, str | dict):
        return False
    asked = _object(dimension)
    if asked.get("granularity") is not None or not isinstance(asked.get("field"), str):
        return False
    return asked["field"] == _TIME or any(each.type is SemanticType.TIME for each in _columns(asked["field"], model))


def _columns(reference: str, model: Model) -> list[Column]:
    """Return the columns a reference may mean: of the source it names, else of all that have one."""
    owner, _, leaf = reference.rpartition(".")
    source = model.sources.get(owner.rpartition(".")[2])
    sources = [source] if source is not None else model.sources.values()
    return [column for each in sources if (column := each.column(leaf)) is not None]


def _typed(text: str, parameter: Parameter | None) -> Any:
    """Return a text as its parameter's type has it; one that does not fit stays, to be refused by its name."""
    if parameter is None or parameter.type in (SemanticType.STRING, SemanticType.TIME):
        return text
    if parameter.type is SemanticType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text
