"""The common options of every command, the `--wait` option, and the parsing of values."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer import Option
from typer._coercion import RuntimeParam

from ktx_cli.core import UsageError, did_you_mean, one_line

PANEL = "Common options"

WAIT = Annotated[
    float | None,
    Option(
        "--wait",
        metavar="[SECONDS]",
        min=0,
        help="Wait for another run to finish instead of exiting with 6. Without SECONDS, wait indefinitely.",
    ),
]
"""The option of commands that need the run lock, in seconds."""


EXPANDED = Annotated[
    bool,
    Option(
        "--expanded",
        "-x",
        help="Show each row as a record, one value per line. Always used if rows are too wide for the terminal.",
    ),
]
"""The option of commands that print rows of a database."""


class ProgressMode(StrEnum):
    """How progress is shown on stderr."""

    AUTO = "auto"
    PLAIN = "plain"
    JSONL = "jsonl"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Settings:
    """The common options of one invocation; None and False mean not given."""

    project_dir: str | None = None
    json: bool = False
    plain: bool = False
    quiet: bool = False
    verbose: bool = False
    progress: ProgressMode | None = None
    no_input: bool = False
    yes: bool = False
    debug: bool = False

    def over(self, base: Settings) -> Settings:
        """Return these settings, with those of `base` for options not given here."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in mine.items() if value is not None and value is not False}
        return replace(base, **given)

    @property
    def interactive(self) -> bool:
        """Return whether prompts are allowed: terminals, no `--no-input`, no `CI`."""
        return (
            not self.no_input
            and not self.json
            and not os.environ.get("CI")
            and sys.stdin.isatty()
            and sys.stderr.isatty()
        )

    @property
    def pretty(self) -> bool:
        """Return whether stdout gets tables with lines instead of plain text."""
        return not (self.json or self.plain) and sys.stdout.isatty()

    @property
    def project_words(self) -> list[str]:
        """Return the arguments that name the project again, from the current folder."""
        return [] if self.project_dir is None else ["--project-dir", self.project_dir]


def current_folder() -> Path:
    """Return the current folder; raises `UsageError` if it was removed or cannot be read."""
    try:
        return Path.cwd()
    except OSError as error:
        message = f"the current folder cannot be used: {error.strerror or error}"
        raise UsageError(message, hint="cd to a folder that exists, then run the command again") from error


def use_colour(stream: Any) -> bool:
    """Return whether `stream` gets color: a terminal, and none of NO_COLOR, TERM=dumb, CI."""
    environ = os.environ
    if environ.get("NO_COLOR") or environ.get("CI") or environ.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


def _common(*names: str, help: str, kind: Any = bool, default: Any = False, metavar: str | None = None) -> Any:
    return Annotated[kind, Option(*names, metavar=metavar, help=help, rich_help_panel=PANEL)], default


COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "project_dir": _common(
        "--project-dir",
        help="Project folder. Defaults to KTX_PROJECT_DIR, or the nearest folder with a ktx.yaml.",
        kind=str | None,
        default=None,
        metavar="DIR",
    ),
    "json": _common("--json", help="Print a JSON envelope on stdout."),
    "plain": _common("--plain", help="Print plain text without colours or borders."),
    "quiet": _common("--quiet", "-q", help="Only print data and errors."),
    "verbose": _common("--verbose", help="Print more details."),
    "progress": _common(
        "--progress",
        help="Format of the progress on stderr: auto, plain, jsonl or none.",
        kind=ProgressMode | None,
        default=None,
        metavar="MODE",
    ),
    "no_input": _common("--no-input", help="Never prompt for input."),
    "yes": _common("--yes", "-y", help="Confirm all prompts."),
    "debug": _common("--debug", help="Show the traceback of an error."),
}
"""Name -> (annotation, default) of the options that `contract.command` adds to every command."""


def _spelled(*, flags: bool) -> frozenset[str]:
    kinds = (get_args(annotation) for annotation, _ in COMMON_OPTIONS.values())
    return frozenset(name for kind, option in kinds if (kind is bool) == flags for name in _names_of(option))


def _names_of(option: Any) -> tuple[str, ...]:
    return (option.default, *option.param_decls)


FLAGS, VALUED = _spelled(flags=True), _spelled(flags=False)
"""The spellings of the common options, without and with a value."""


class RefusedValueError(typer.BadParameter):
    """An invalid value; `hint` says what is valid."""

    def __init__(self, message: str, *, hint: str, ctx: Any, param: Any) -> None:
        super().__init__(message, ctx=ctx, param=param)
        self.hint = hint


class Word(RuntimeParam):
    """The value of an argument or option: text, a whole number, a number, one of several words, or a list of them."""

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
        message = f"`{one_line(value, 60)}` is not one of {', '.join(known)}"
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
    """Parse parameters of these types with `Word`; typer would build a pydantic model for each."""
    for parameter in parameters:
        descriptor = parameter.type_descriptor
        if parameter._runtime_param is None and _known(descriptor.annotation):
            parameter._runtime_param = Word(descriptor.parameter_info, descriptor.annotation)
    return parameters


def _known(kind: Any) -> bool:
    if get_origin(kind) is list:
        (kind,) = get_args(kind)
    return isinstance(kind, type) and (kind in (str, bool, int, float) or issubclass(kind, Enum))
