"""A tool of the server: its schemas in the contract, and the function that it calls."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, get_type_hints

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ktx_cli.agent_tools import visible
from ktx_cli.core import KtxError, ResultWarning, UsageError, did_you_mean, listing
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.serve.ask import Stop, Watch
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.serve.state import attributes_of_caller

Offset = Annotated[int, Field(ge=0, le=1_000_000_000, description="Where to begin: `next_offset` of the page before.")]
Connection = Annotated[str, Field(max_length=200, description="Id of a connection, as context_status has it.")]
User = Annotated[
    str, Field(max_length=200, description="Id of a user whose own pages count too; they come before everybody's.")
]


class Input(BaseModel):
    """The arguments of a tool; one it does not have is an error, which the agent reads."""

    model_config = ConfigDict(extra="forbid")


class Output(BaseModel):
    """The answer of a tool."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)

    verbatim: ClassVar[frozenset[str]] = frozenset()
    """Fields whose texts are values of rows, and given as they are: in all others hidden characters are shown."""

    warnings: list[str] = Field(default_factory=list, description="What to know before the answer is used.")


class Paged(Output):
    """An answer that comes in pages; `part` names the list or the text that is cut."""

    part: ClassVar[str]

    truncated: bool = Field(False, description="There is more than this answer holds.")
    next_offset: int | None = Field(None, description="`offset` of the next page; null: this was the last.")


@dataclass(frozen=True, slots=True)
class Options:
    """The options a server was started with.

    `read_only`: without the tools that write. `privacy`: values of rows stay here. `attributes`: of the caller, for row
    policies. `profile`: which tools are listed.
    """

    read_only: bool = False
    privacy: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    profile: Profile = Profile.DEFAULT


@dataclass(slots=True)
class Call:
    """One call of a tool, while it lasts. `report`: takes its progress from 0 to 1, and what it is doing."""

    project: ServedProject
    options: Options
    report: Callable[[float, str], None] = lambda progress, message: None
    stopped: Stop = field(default_factory=Stop)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the caller: as the server was started and `ktx.yaml` has them now."""
        config = self.project.config()
        return attributes_of_caller(config.mcp.user_attributes, self.options.attributes)

    def user(self, asked: str | None) -> str | None:
        """Return the user whose pages a call names; `UsageError` for another one than the server asks for.

        The attribute `id` of the caller says who that is; without it the server knows nobody, and any may be named.
        """
        own = self.attributes.get("id")
        if asked is not None and own is not None and asked != str(own):
            raise UsageError("this server has the pages of its own user alone", hint=f"leave `user` out, or name {own}")
        return asked

    @property
    def watch(self) -> Watch:
        """The watch of this call: it reports progress, and stops the work when nobody waits."""
        return Watch(self.stopped, self.report)


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool. `run` is called in a thread, with an instance of the input; it returns one of the output.

    `writes`: it changes the project, or lets something run that does. `offset` of a paged answer is an argument of that
    name. `takes`: the tool whose arguments it takes, where they need not be listed a second time.
    """

    name: str
    title: str
    description: str
    input_model: type[Input]
    output_model: type[Output]
    run: Callable[[Call, Any], Output]
    writes: bool = False
    idempotent: bool = True
    open_world: bool = False
    takes: str | None = None

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, as short as it can be: a client's model reads it in every session.

        Bounds of lengths are not in it; who exceeds one is told.
        """
        if self.takes is not None:
            return {"type": "object", "description": f"The arguments of {self.takes}.", "properties": {}}
        return _arguments_schema(self.input_model)

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the answer."""
        return _answer_schema(self.output_model)


def tool(title: str, **traits: Any) -> Callable[[Callable[[Call, Any], Output]], ServerTool]:
    """Make a tool of a function: of its name, its docstring (which the model reads), and what it takes and returns."""

    def made(run: Callable[[Call, Any], Output]) -> ServerTool:
        types = get_type_hints(run)
        description = " ".join((run.__doc__ or "").split())
        return ServerTool(run.__name__, title, description, types["value"], types["return"], run, **traits)

    return made


def warning_texts(warnings: Iterable[ResultWarning]) -> list[str]:
    """Return warnings as an answer carries them, each once."""
    return list(dict.fromkeys(visible(each.message + (f" ({each.hint})" if each.hint else "")) for each in warnings))


def reveal_hidden(value: Any) -> Any:
    """Return data with the hidden characters of all its texts shown; the same again when it is done twice."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): reveal_hidden(each) for key, each in value.items()}
    return [reveal_hidden(each) for each in value] if isinstance(value, list | tuple) else value


def page_of(part: str, items: Sequence[Any], offset: int, limit: int | None = None) -> dict[str, Any]:
    """Return a page of a list (no limit: all that is left) as the fields of a `Paged` answer."""
    end = len(items) if limit is None else offset + limit
    more = end < len(items)
    return {part: list(items[offset:end]), "truncated": more, "next_offset": end if more else None}


@functools.cache
def _arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(mode="validation")
    short: dict[str, Any] = _shortened({key: each for key, each in schema.items() if key != "$defs"}, schema)
    return {key: each for key, each in short.items() if key != "description"}


_LENGTHS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})


def _shortened(schema: Any, whole: Mapping[str, Any]) -> Any:
    """Return a schema of arguments without titles, lengths, references, null and defaults that say nothing."""
    if isinstance(schema, list):
        return [_shortened(each, whole) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        return _shortened({**whole["$defs"][schema["$ref"].rpartition("/")[2]], **_without(schema, {"$ref"})}, whole)
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) == 1:
        return _shortened({**kinds[0], **_without(schema, {"anyOf"})}, whole)
    kept = _without(schema, {"title", *_LENGTHS} | ({"default"} if not schema.get("default") else set()))
    if kinds:
        kept["anyOf"] = kinds
    return {
        key: {name: _shortened(field, whole) for name, field in each.items()}
        if key == "properties"
        else each
        if key == "default"
        else _shortened(each, whole)
        for key, each in kept.items()
    }


def _without(schema: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: each for key, each in schema.items() if key not in keys}


@functools.cache
def _answer_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema: dict[str, Any] = _without_titles(model.model_json_schema(mode="serialization"))
    return schema


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles pydantic makes of names: they say nothing new."""
    if isinstance(schema, Mapping):
        return {
            key: {name: _without_titles(each) for name, each in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema


LONGEST: Final = 24_000
"""Characters of an answer as JSON: about 7,000 tokens."""

_LINE_WARNINGS: Final = 2_000


def fit_answer(output: Output, offset: int = 0) -> dict[str, Any]:
    """Return an answer as JSON, cut to the budget; `offset`: where its page begins.

    Raises `KtxError` where what cannot be cut is too long alone.
    """
    dumps = output.model_dump(mode="json", by_alias=True)
    data = {name: each if name in output.verbatim else reveal_hidden(each) for name, each in dumps.items()}
    data["warnings"] = _short(data["warnings"])
    over = len(compact_json(data)) - LONGEST
    if over <= 0:
        return data
    if not isinstance(output, Paged):
        raise _too_long(len(compact_json(data)))
    whole = data[output.part]
    kept = _most(data, output.part, whole)
    if kept == 0:
        raise _too_long(len(compact_json(data)))
    data[output.part] = whole[:kept]
    data["truncated"], data["next_offset"] = True, offset + kept
    return data


def compact_json(data: Any) -> str:
    """Return an answer as the text an agent reads."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _most(data: dict[str, Any], part: str, whole: Any) -> int:
    """Return how many items (or characters) from the beginning fit."""
    room = LONGEST - len(compact_json({**data, part: whole[:0]})) - 40
    if isinstance(whole, str):
        return _most_text(whole, room)
    kept = 0
    for item in whole:
        room -= len(compact_json(item)) + 1
        if room < 0:
            break
        kept += 1
    return kept


def _most_text(whole: str, room: int) -> int:
    """Return how many characters fit as JSON has them, to the end of a line where there is one."""
    kept = min(len(whole), max(room, 0))
    while kept and len(compact_json(whole[:kept])) > room + 2:
        kept = min(kept - 1, int(kept * (room + 2) / len(compact_json(whole[:kept]))))
    line = whole.rfind("\n", 0, kept) + 1
    return line if line > kept // 2 else kept


def _short(warnings: list[str]) -> list[str]:
    room = _LINE_WARNINGS
    for place, each in enumerate(warnings):
        room -= len(each)
        if room < 0:
            return [*warnings[:place], f"and {len(warnings) - place} more warnings"]
    return warnings


def _too_long(length: int) -> KtxError:
    message = f"the answer has {length:,} characters, {LONGEST:,} are allowed"
    return KtxError(message, hint="ask for less at once: fewer columns, names or values", code="context")


log = logging.getLogger(__name__)

_LONGEST_TEXT: Final = 3_000
_LONGEST_DETAILS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a call: `data` as its output schema has it, or the error."""

    data: Mapping[str, Any] | None = None
    error: KtxError | None = None

    @property
    def text(self) -> str:
        """The answer as the agent reads it."""
        return compact_json(self.data if self.error is None else {"error": error_data(self.error)})


def error_data(error: KtxError) -> dict[str, Any]:
    """Return an error as JSON, nothing hidden in its texts, its details left out where they are long."""
    data: dict[str, Any] = reveal_hidden(error.to_json())
    data |= {key: data[key] and data[key][:_LONGEST_TEXT] for key in ("message", "hint")}
    if len(compact_json(data["details"])) > _LONGEST_DETAILS:
        data["details"] = {}
    return data


async def call_tool(
    tools: Mapping[str, ServerTool], name: str, arguments: Mapping[str, Any], call: Call, limit: anyio.CapacityLimiter
) -> ToolAnswer:
    """Return the answer of a call; whatever goes wrong is an answer too. Cancelling it ends the waiting at once."""
    try:
        tool = tools.get(name)
        if tool is None:
            near = did_you_mean(name[:100], tools)
            hint = f"did you mean `{near}`?" if near else f"tools: {listing(tools, 30)}"
            raise UsageError(f"there is no tool `{name[:100]}`", hint=hint)
        value = _checked(tool, arguments)

        def run() -> dict[str, Any]:
            return fit_answer(tool.run(call, value), getattr(value, "offset", 0))

        return ToolAnswer(await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limit))
    except KtxError as error:
        return ToolAnswer(error=error)
    except Exception as problem:  # a bug must not end the session of the agent
        log.exception("the tool %s failed", name)
        return ToolAnswer(error=KtxError(f"{name} failed unexpectedly: {type(problem).__name__}", code="internal"))


def _checked(tool: ServerTool, arguments: Mapping[str, Any]) -> Any:
    try:
        return tool.input_model.model_validate(dict(arguments))
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"[:300] for each in error.errors()]
        message = f"the arguments of {tool.name} are wrong: {'; '.join(found[:10])}"
        raise UsageError(message, hint=_hint(tool, error), details={"issues": found[:50]}) from None


def _hint(tool: ServerTool, error: ValidationError) -> str:
    """Return the argument that was probably meant, else all there are."""
    unknown = [str(each["loc"][-1]) for each in error.errors() if each["type"] == "extra_forbidden"]
    near = [(each, found) for each in unknown if (found := did_you_mean(each[:100], tool.input_model.model_fields))]
    if near:
        return "; ".join(f"in place of `{each[:100]}` did you mean `{found}`?" for each, found in near[:5])
    return f"it takes: {listing(tool.input_model.model_fields, 40) or 'no arguments'}"
