"""The values of templates: the question's parameters, checked, and the caller's attributes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.semantic.errors import SemanticError, unknown
from ktx_cli.context.semantic.model import Model, Parameter
from ktx_cli.core.text import listing


def parameter_values(
    model: Model, given: Mapping[str, Any], attributes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `param.x` and `user.x` stand for, and the parameters by their names, defaults included.

    Raises `SemanticError` for a parameter nothing declares, of the wrong type, or not among its `values`.
    """
    declared: dict[str, Parameter] = {}
    for source in model.sources.values():
        declared.update(source.parameters)
    for name in given:
        if name not in declared:
            raise unknown("parameter", name, declared)
    parameters = {name: each.default for name, each in declared.items() if each.default is not None}
    parameters |= {name: _checked(declared[name], value) for name, value in given.items()}
    for name, value in attributes.items():
        _require_plain(name, value)
    values = {f"param.{name}": value for name, value in parameters.items()}
    return values | {f"user.{name}": value for name, value in attributes.items()}, parameters


def _checked(parameter: Parameter, value: Any) -> Any:
    fits = {
        SemanticType.STRING: isinstance(value, str),
        SemanticType.NUMBER: isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value),
        SemanticType.BOOLEAN: isinstance(value, bool),
        SemanticType.TIME: isinstance(value, str),
    }[parameter.type]
    if not fits:
        raise SemanticError(
            f"the parameter `{parameter.name}` must be a {parameter.type.value}, not {value!r}",
            hint=f"it is declared in {parameter.place}",
            code="parameter",
        )
    if parameter.values and value not in parameter.values:
        raise SemanticError(
            f"the parameter `{parameter.name}` cannot be {value!r}",
            hint=f"one of {listing(map(str, parameter.values))}",
            code="parameter",
            details={"candidates": list(parameter.values)},
        )
    return value


def _require_plain(name: str, value: Any) -> None:
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return
    raise SemanticError(
        f"the attribute `{name}` of the caller must be a text, a number or a boolean",
        hint=f"ktx sl query --user-attribute {name}=VALUE",
        code="policy",
        details={"attribute": name},
    )
