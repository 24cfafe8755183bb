"""Turns the words of a command line into values: in our words when they do not fit, and without importing pydantic."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args, get_origin

import typer
from typer._coercion import RuntimeParam

from ktx_cli.core.text import did_you_mean, one_line


class RefusedValueError(typer.BadParameter):
    """A value that does not fit; `hint` says what does."""

    def __init__(self, message: str, *, hint: str, ctx: Any, param: Any) -> None:
        super().__init__(message, ctx=ctx, param=param)
        self.hint = hint


class Word(RuntimeParam):
    """The value of an argument or option: a text, a whole number, a number, one of a few words, or a list of them."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        kind: Any = self.annotation
        if get_origin(kind) is list:
            (kind,) = get_args(kind)
            return [self._one(item, kind, param, ctx) for item in value]
        return self._one(value, kind, param, ctx)

    def _one(self, value: Any, kind: type, param: Any, ctx: Any) -> Any:
        if issubclass(kind, Enum):
            return self._choice(value, kind, param, ctx)
        if kind in (int, float):
            return self._number(value, kind, param, ctx)
        return value

    def _choice(self, value: Any, kind: type[Enum], param: Any, ctx: Any) -> Enum:
        if isinstance(value, kind):
            return value
        known = {str(choice.value): choice for choice in kind}
        if value in known:
            return known[value]
        message = f"`{one_line(value, 60)}` is none of {', '.join(known)}"
        example = did_you_mean(value, known) or next(iter(known))
        raise RefusedValueError(message, hint=_usage(param, ctx, example), ctx=ctx, param=param)

    def _number(self, value: Any, kind: type, param: Any, ctx: Any) -> Any:
        low, high = self.parameter_info.min, self.parameter_info.max
        try:
            number = kind(value)
        except (TypeError, ValueError):
            number = None
        if number is not None and (low is None or number >= low) and (high is None or number <= high):
            return number
        wanted = "a whole number" if kind is int else "a number"
        limits = [f"of at least {low:g}"] if low is not None else []
        limits += [f"of at most {high:g}"] if high is not None else []
        message = f"`{one_line(str(value), 60)}` is not {' '.join([wanted, *limits])}"
        raise RefusedValueError(message, hint=_usage(param, ctx, f"{max(low or 1, 1):g}"), ctx=ctx, param=param)


def _usage(param: Any, ctx: Any, value: str) -> str:
    option = [param.opts[0]] if param.param_type_name == "option" else []
    return " ".join(["for example:", ctx.command_path, *option, value])


def read_ourselves(parameters: list[Any]) -> list[Any]:
    """Let parameters of the kinds known here be read by `Word`; typer would build a pydantic model for each."""
    for parameter in parameters:
        descriptor = parameter.type_descriptor
        if parameter._runtime_param is None and _known(descriptor.annotation):
            parameter._runtime_param = Word(descriptor.parameter_info, descriptor.annotation)
    return parameters


def _known(kind: Any) -> bool:
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    return isinstance(kind, type) and (kind in (str, bool, int, float) or issubclass(kind, Enum))
