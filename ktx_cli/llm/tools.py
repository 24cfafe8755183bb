"""The tools of an agent loop: their definition, how the model sees them, and how a call is executed.

The model sees Markdown, the same text on every backend. The structured result of a tool (`structured`) stays in the
process.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, PydanticUserError, ValidationError
from pydantic_core import to_jsonable_python

from ktx_cli.core import KtxError, did_you_mean
from ktx_cli.llm.errors import ToolError
from ktx_cli.llm.schemas import tool_schema
from ktx_cli.llm.types import ToolInvocation

log = logging.getLogger(__name__)

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,54}")
"""A name that Claude Code keeps unchanged: at most 64 characters, including the prefix `mcp__ktx__`."""

MAX_DESCRIPTION: Final = 4_000
MAX_RESULT: Final = 400_000
"""Maximum number of characters of a result sent to the model; the rest is cut, and the text says so."""

EMPTY_RESULT: Final = "(no output)"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a call: Markdown for the model, and a payload for the program."""

    markdown: str
    structured: Any = None


Handler = Callable[[Any], Any]
"""Takes an instance of the tool's input model; returns a `ToolOutput`, a string or a plain object, or an awaitable."""


@dataclass(frozen=True)
class RuntimeTool:
    """A tool of an agent loop. A handler that is not a coroutine function runs in a thread.

    `read_only` tools of one turn may run concurrently. `common`: most loops of a run have the tool; such tools come
    first, so that a provider's cache of them serves all these loops. Raises `ValueError`, naming the tool, for a name,
    description or input model that a backend could not use.
    """

    name: str
    description: str
    input_model: type[BaseModel]
    handler: Handler
    read_only: bool = False
    common: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"tool {self.name!r}: a name has 1 to 54 letters, digits, `_` or `-`")
        if not self.description.strip() or len(self.description) >= MAX_DESCRIPTION:
            raise ValueError(f"tool {self.name!r}: a description has 1 to {MAX_DESCRIPTION - 1} characters")
        if not (inspect.isclass(self.input_model) and issubclass(self.input_model, BaseModel)):
            raise ValueError(f"tool {self.name!r}: the input must be a pydantic model, not {self.input_model!r}")
        if self._checked_schema().get("type") != "object":
            raise ValueError(f"tool {self.name!r}: the input model must describe an object")
        if not callable(self.handler):
            raise ValueError(f"tool {self.name!r}: the handler is not callable")

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input; it is shared and must not be changed."""
        return tool_schema(self.input_model)

    def _checked_schema(self) -> dict[str, Any]:
        try:
            return self.input_schema()
        except PydanticUserError as error:
            raise ValueError(f"tool {self.name!r}: the input model has no JSON Schema: {error.message}") from None


def check_tools(tools: Iterable[RuntimeTool]) -> dict[str, RuntimeTool]:
    """Return the tools by name, sorted, with the common tools first; raises `ValueError` if two have the same name."""
    found: dict[str, RuntimeTool] = {}
    for tool in sorted(tools, key=lambda one: (not one.common, one.name)):
        if tool.name in found:
            raise ValueError(f"two tools are named {tool.name!r}")
        found[tool.name] = tool
    return found


def normalise_output(value: Any) -> ToolOutput:
    """Return the result of a handler as a `ToolOutput`.

    A string is Markdown. A mapping with `markdown` is an output; one with `name` and `content` becomes a page with a
    heading; anything else becomes a fenced block of JSON with sorted keys.
    """
    if isinstance(value, ToolOutput):
        return value
    if value is None or isinstance(value, str):
        return ToolOutput(value or "")
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    if (
        isinstance(plain, Mapping)
        and isinstance(plain.get("markdown"), str)
        and set(plain) <= {"markdown", "structured"}
    ):
        return ToolOutput(plain["markdown"], plain.get("structured"))
    if isinstance(plain, Mapping) and isinstance(plain.get("name"), str) and isinstance(plain.get("content"), str):
        return ToolOutput(f"# {plain['name']}\n\n{plain['content']}", value)
    text = json.dumps(plain, ensure_ascii=False, indent=2, sort_keys=True, default=_plain)
    return ToolOutput(f"```json\n{text}\n```", value)


def _plain(value: Any) -> Any:
    """Return a JSON value for a value that JSON cannot represent, identical in every process because sets are
    sorted.
    """
    if isinstance(value, set | frozenset):
        return sorted((to_jsonable_python(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return to_jsonable_python(value)


def shown_to_model(markdown: str) -> str:
    """Return the text of a result for the model: never empty, never longer than `MAX_RESULT`."""
    if not markdown.strip():
        return EMPTY_RESULT
    if len(markdown) <= MAX_RESULT:
        return markdown
    return f"{markdown[:MAX_RESULT]}\n\n(truncated: {len(markdown):,} characters in total)"


FAILED_CALL: Final = "Tool `{name}` failed: "
"""Prefix of a call's text if the call reached its tool and failed there."""


async def invoke(
    tools: Mapping[str, RuntimeTool], name: str, arguments: Mapping[str, Any] | str, call_id: str
) -> ToolInvocation:
    """Execute one call; every failure except a cancellation becomes a text with `is_error`."""
    started = time.monotonic()
    output, is_error = await _outcome(tools, name, arguments)
    seconds, text = time.monotonic() - started, shown_to_model(output.markdown)
    return ToolInvocation(call_id, name, arguments, text, is_error, output.structured, seconds)


async def _outcome(
    tools: Mapping[str, RuntimeTool], name: str, arguments: Mapping[str, Any] | str
) -> tuple[ToolOutput, bool]:
    tool = tools.get(name)
    if tool is None:
        return ToolOutput(unknown_tool(name, tools)), True
    try:
        value = tool.input_model.model_validate(parse_arguments(arguments))
    except (ValidationError, ValueError) as error:
        return ToolOutput(invalid_arguments(name, error)), True
    given = await _tried(tool, value)
    if isinstance(given, ToolOutput):
        return given, False
    return ToolOutput(FAILED_CALL.format(name=name) + _failure(name, given)), True


def _failure(name: str, error: BaseException) -> str:
    """Return the text that describes a failure to the model: only its type if its message may contain secrets."""
    if isinstance(error, KtxError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    log.debug("tool %s failed", name, exc_info=error)
    return type(error).__name__


async def _tried(tool: RuntimeTool, value: BaseModel) -> ToolOutput | BaseException:
    """Run a handler and return its exception instead of raising it, because threads and coroutines cannot raise every
    exception.

    Exceptions that end the program, and a cancellation of this task, are raised.
    """
    try:
        given = await _run(tool, value)
        return given.error if isinstance(given, _Raised) else _with_text(normalise_output(given))
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return error
    except BaseException as error:  # noqa: BLE001 - the handler's own failure, which the model reads
        return error


@dataclass(frozen=True, slots=True)
class _Raised:
    """An exception raised by a handler in its thread: a `StopIteration` raised there would make the caller wait
    forever.
    """

    error: BaseException


async def _run(tool: RuntimeTool, value: BaseModel) -> Any:
    if inspect.iscoroutinefunction(tool.handler):
        return await tool.handler(value)
    result = await asyncio.to_thread(_called, tool.handler, value)
    return await result if isinstance(result, Awaitable) else result


def _called(handler: Handler, value: BaseModel) -> Any:
    try:
        return handler(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - see `_Raised`
        return _Raised(error)


def _with_text(output: ToolOutput) -> ToolOutput:
    if not isinstance(output.markdown, str):
        raise ToolError("its result has no text")
    return output


def parse_arguments(arguments: Mapping[str, Any] | str) -> Any:
    """Return parsed arguments; raises `ValueError` for a string that is not JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments or "{}")
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" starting at")
        raise ValueError(f"the arguments are not valid JSON: {problem} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("the arguments are nested too deeply") from None


def unknown_tool(name: str, tools: Iterable[str]) -> str:
    """Return the text for the model about a tool that does not exist."""
    known = sorted(tools)
    near = did_you_mean(name, known)
    advice = f" Did you mean `{near}`?" if near else ""
    return f"There is no tool `{name}`.{advice} Tools: {', '.join(f'`{one}`' for one in known) or 'none'}."


def invalid_arguments(name: str, error: ValidationError | ValueError) -> str:
    """Return the text for the model about invalid arguments, one line per error."""
    if isinstance(error, ValidationError):
        lines = [f"- {place(problem['loc'])}: {problem['msg']}" for problem in error.errors(include_url=False)]
    else:
        lines = [f"- {error}"]
    return "\n".join([f"Invalid arguments for `{name}`:", *lines])


def place(location: Iterable[int | str]) -> str:
    """Return `rows.0.name` for a location in a value, `(the whole)` for its root."""
    return ".".join(str(part) for part in location) or "(the whole)"
